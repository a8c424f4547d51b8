//! Five nodes with a replica of one shard each, and a network that a test decides about. It brings
//! messages; RPCs are for the test to bring, and states of the shard never arrive.

use std::sync::Arc;

use hlc::Clock;
use keyspace::{
    Arc as RingArc, Descriptor, Durability, Generation, KeyHasher, KeyspaceId, NodeId, ReplicaId,
    ShardId,
};
use node::executor::{Answer, Effects, Input, ShardExecutor};
use node::replica::ReplicaStart;
use node::replica::state::{Content, ShardState};
use node::reshape::bootstrap;
use node::rpc::message::RpcMessage;
use replication::MessageKind;
use storage::engine::{Layout, MemoryEngine};
use storage::log::Lsn;

/// The shard.
pub const SHARD: ShardId = ShardId(5);

/// Five executors with a replica of one shard each; a test may put others behind them.
pub struct Five {
    /// Of nodes 1 to 5 and on.
    pub executors: Vec<ShardExecutor>,
    /// The boot clock of all.
    pub now: u64,
    /// What they have answered.
    pub answers: Vec<Answer>,
    /// Bytes of the records of the last turns of each.
    pub log_bytes: [u64; 5],
    /// What each has in its log of the shard: kinds and payloads.
    pub logs: [Vec<(u8, Vec<u8>)>; 5],
    /// Nodes that get no entries, but all else.
    pub without_entries: Vec<usize>,
    /// RPCs that are not brought yet: from, to.
    pub rpcs: Vec<(usize, usize, RpcMessage)>,
}

impl Five {
    /// Newly born.
    pub fn new() -> Self {
        let hasher = hasher();
        let replicas: Vec<_> = (1..=5).map(|id| (ReplicaId(id), NodeId(id))).collect();
        let start = |replica| {
            let (arc, generation) = (RingArc::whole(KeyspaceId(1)), Generation(1));
            let replicas = replicas.clone();
            let descriptor = Descriptor { shard: SHARD, arc, replicas, generation, leader: None };
            let engine = Box::new(MemoryEngine::new(Layout::Ordered, hasher));
            let state = ShardState::new(descriptor, Content::Keys(engine));
            ReplicaStart::created(state, replica, Durability::Sync)
        };
        let now = 3_000_000_000;
        let executor = |id| {
            let mut executor = ShardExecutor::new(Arc::new(Clock::default()), id, 1 << 20);
            executor.observe(1);
            executor.observe(now);
            executor.accept(Input::Create(start(ReplicaId(id))));
            executor
        };
        let (answers, without_entries, rpcs, log_bytes, logs) = Default::default();
        let executors = (1..=5).map(executor).collect();
        Self { executors, now, answers, log_bytes, logs, without_entries, rpcs }
    }

    /// One turn of each of these, whose messages reach those whom `may` names.
    pub fn turn(&mut self, who: &[usize], may: impl Fn(usize, usize) -> bool) -> bool {
        let mut effects = Effects::default();
        let mut any = false;
        for from in who.iter().copied() {
            effects.clear();
            let executor = &mut self.executors[from - 1];
            executor.observe(self.now);
            executor.turn(&mut effects);
            any |= !effects.is_empty();
            let ticket = effects.ticket;
            if !effects.records.is_empty() {
                if let Some(bytes) = self.log_bytes.get_mut(from - 1) {
                    *bytes += effects.records.bytes();
                    let records = effects.records.iter();
                    let kept = records.map(|record| (record.kind, record.payload.to_vec()));
                    self.logs[from - 1].extend(kept);
                }
                executor.accept(Input::Written { ticket, lsn: Lsn::default() });
                executor.accept(Input::Durable { ticket });
            }
            self.answers.append(&mut effects.answers);
            let rpcs = effects.rpcs.drain(..);
            self.rpcs.extend(rpcs.map(|(to, rpc)| (from, to.0 as usize, rpc)));
            for envelope in effects.messages.drain(..) {
                let to = envelope.node.0 as usize;
                let is_entries = envelope.message.kind() == Some(MessageKind::Append);
                let is_kept_back = is_entries && self.without_entries.contains(&to);
                if !may(from, to) || is_kept_back || envelope.message.snapshot().is_some() {
                    continue;
                }
                let (executor, node) = (&mut self.executors[to - 1], NodeId(to as u64));
                let message = Box::new(envelope.message);
                if let Some(bootstrap) =
                    envelope.bootstrap.filter(|_| executor.shard(SHARD).is_none())
                {
                    let start = bootstrap::by_message(&bootstrap, message.to(), node, hasher());
                    executor.accept(Input::Create(start.expect("a bootstrap record")));
                }
                executor.accept(Input::Message {
                    from: NodeId(from as u64),
                    shard: SHARD,
                    message,
                });
            }
        }
        any
    }

    /// Turns of these until nobody has anything to say.
    pub fn settle(&mut self, who: &[usize], may: impl Fn(usize, usize) -> bool) {
        for _ in 0..1_000 {
            if !self.turn(who, &may) {
                return;
            }
        }
        panic!("no end");
    }

    /// Whether a replica is elected.
    pub fn leads(&self, replica: usize) -> bool {
        self.executors[replica - 1].shard(SHARD).is_some_and(|shard| shard.is_elected())
    }
}

fn hasher() -> KeyHasher {
    KeyHasher::new([7; 16])
}
