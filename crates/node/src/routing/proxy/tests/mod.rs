//! A node without a replica beside one that has the only one: what it is told, and what it tells.

use bytes::Bytes;
use hlc::Clock;
use keyspace::{
    Arc as RingArc, CatalogueOp, Descriptor, Generation, KeyHasher, Keyspace, KeyspaceId,
    KeyspaceOptions, NodeId, Placement, ReplicaId, ShardId, Timestamp,
};
use overlay::KnownShard;
use std::ops::Bound;
use std::sync::Arc;

use crate::executor::{Answer, Effects, FIRST_REPLICA, Input, Origin, ShardExecutor};
use crate::replica::ReplicaStart;
use crate::replica::catalogue::{Change, System};
use crate::replica::entry::{Batch, Waiter};
use crate::replica::forward::{ForwardedWrites, SendContext};
use crate::reshape::bootstrap;
use crate::routing::fetch::{Ends, FetchRequest, FetchResult, FetchedData, PastValue, UP_TO_NOW};
use crate::routing::session::BatchId;
use crate::rpc::message::{RpcMessage, RpcRequestId};
use command::{Expiry, NotDone, Reply, SetIf, SetReply, Transaction, Write, transaction};
use txn::locks::{Deadline, Keys, Outcome, Places, Prepare, Role, Step, StepReply, TxnId};

mod again;
mod asked;
mod times;

const HERE: NodeId = NodeId(7);
const THERE: NodeId = NodeId(1);
const NOBODY_THERE: NodeId = NodeId(2);
const ME: Origin = Origin(3);
const SECOND: u64 = 1_000_000_000;

struct TwoNodes {
    here: ShardExecutor,
    there: ShardExecutor,
    clock_there: Arc<Clock>,
    now: u64,
    shard: ShardId,
    arc: keyspace::Arc,
    /// RPCs to this node are lost.
    deaf: Option<NodeId>,
    answers: Vec<Answer>,
    asked: Vec<NodeId>,
    bytes_max: usize,
}

fn keyspace(placement: Placement) -> Keyspace {
    let mut system = System::default();
    let mut op = Vec::new();
    let options = KeyspaceOptions { placement, ..Default::default() };
    CatalogueOp::Create { name: "k", options }.encode(&mut op);
    match system.apply(&op, &[THERE], Timestamp::ZERO).expect("it can be made") {
        Change::Created(keyspace) => keyspace,
        other => panic!("{other:?}"),
    }
}

impl TwoNodes {
    fn new(placement: Placement, nodes: &[NodeId]) -> Self {
        let keyspace = keyspace(placement);
        let shard = keyspace.shards[0];
        let arc = keyspace.arc(0);
        let clock_there = Arc::new(Clock::default());
        clock_there.observe_millis(1_000_000);
        let mut there = ShardExecutor::new(clock_there.clone(), 1, 1 << 20);
        let mut here = ShardExecutor::new(Arc::new(Clock::default()), 2, 1 << 20);
        let state = bootstrap::first_state(&keyspace, 0, KeyHasher::new([1; 16]));
        there.observe(SECOND);
        here.observe(SECOND);
        there.adopt(ReplicaStart::created(state, FIRST_REPLICA, keyspace.options.durability));
        here.accept(Input::RemoteShard { shard, nodes: nodes.to_vec() });
        let (answers, asked) = Default::default();
        let (now, deaf, bytes_max) = (SECOND, None, usize::MAX);
        Self { here, there, clock_there, now, shard, arc, deaf, answers, asked, bytes_max }
    }

    fn ends(&self) -> Ends {
        self.arc.ends()
    }

    fn size(&self) -> FetchRequest {
        FetchRequest::Size { ends: self.ends() }
    }

    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        self.here.observe(self.now);
        self.there.observe(self.now);
        self.here.accept(Input::Tick);
        self.run();
    }

    /// Lets both go on until they have nothing to say.
    fn run(&mut self) {
        let mut effects = Effects::default();
        loop {
            let mut quiet = true;
            self.here.turn(&mut effects);
            self.answers.append(&mut effects.answers);
            for (to, rpc) in effects.rpcs.drain(..) {
                self.asked.push(to);
                let mut bytes = Vec::new();
                rpc.encode(&mut bytes);
                let rpc = RpcMessage::decode(bytes.into()).expect("the bytes are an RPC");
                if self.deaf == Some(to) {
                    continue;
                }
                quiet = false;
                match to {
                    THERE => self.there.accept(Input::Rpc { from: HERE, rpc }),
                    other => {
                        let what = rpc.request_id().expect("a question");
                        let rpc = RpcMessage::NotLeader { shard: self.shard, what, known: None };
                        self.here.accept(Input::Rpc { from: other, rpc });
                    }
                }
            }
            loop {
                self.there.turn(&mut effects);
                if effects.is_empty() {
                    break;
                }
                for (_, rpc) in effects.rpcs.drain(..) {
                    quiet = false;
                    self.here.accept(Input::Rpc { from: THERE, rpc });
                }
                if !effects.records.is_empty() {
                    let lsn = storage::log::Lsn::default();
                    self.there.accept(Input::Written { ticket: effects.ticket, lsn });
                    self.there.accept(Input::Durable { ticket: effects.ticket });
                }
                effects.clear();
            }
            if quiet {
                return;
            }
        }
    }

    fn write(&mut self, waiter: u64, write: &Write<'_>) {
        let mut batch = Batch::default();
        batch.push(write, Waiter(waiter));
        self.here.accept(Input::Propose { shard: self.shard, origin: ME, batch });
        self.run();
    }

    fn set(&mut self, key: &str, value: &str, expiry: Expiry) {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        self.write(1, &Write::Set { key, value, when: SetIf::Always, expiry, reply: SetReply::Ok });
        assert!(matches!(self.answers.pop(), Some(Answer::Applied { .. })));
    }

    fn ask(&mut self, want: FetchRequest) {
        let (want, waiter) = (Box::new(want), Waiter(9));
        let (shard, bytes_max) = (self.shard, self.bytes_max);
        let fetch = Input::Fetch { shard, want, bytes_max, origin: ME, waiter };
        self.here.accept(fetch);
        self.run();
    }

    fn fetch(&mut self, want: FetchRequest) -> FetchResult {
        self.ask(want);
        match self.answers.pop() {
            Some(Answer::Fetched { found, .. }) => *found,
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, key: &str) -> Option<String> {
        let want = FetchRequest::keys([key.as_bytes()]);
        let found = self.fetch(want.clone());
        let mut fetched = FetchedData::default();
        fetched.add(self.shard, keyspace::Timestamp(1), want, found);
        let (version, _) =
            fetched.version(self.shard, key.as_bytes()).expect("the key was fetched");
        version.map(|version| String::from_utf8(version.value.into()).expect("a word"))
    }
}

/// In the first of the shards of a hashed keyspace.
const FIRST_KEY: &str = "3";

/// A shard on these nodes, as somebody knows it.
fn known(shard: ShardId, nodes: &[NodeId], leader: NodeId, version: (u64, u64)) -> Arc<KnownShard> {
    let (generation, term) = version;
    let ids = (10 * generation..).map(ReplicaId);
    let replicas: Vec<_> = ids.zip(nodes.iter().copied()).collect();
    let leader = replicas.iter().find(|(_, node)| *node == leader).map(|(replica, _)| *replica);
    let (arc, generation) = (RingArc::whole(KeyspaceId(1)), Generation(generation));
    Arc::new(KnownShard::new(Descriptor { shard, arc, replicas, generation, leader }, term))
}
