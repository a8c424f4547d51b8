//! What is said to a leader, and what it says.

use bytes::Bytes;
use command::{Expiry, ObservedVersion, SetIf, SetReply, Step as Command, Transaction, Write};
use keyspace::{NodeId, Timestamp};
use node::executor::{Answer, Input, Origin};
use node::replica::entry::{Batch, Waiter};
use node::routing::fetch::{FetchRequest, FetchResult};
use node::rpc::message::RpcMessage;
use smallvec::smallvec;
use txn::locks::{Deadline, Outcome, Prepare, PrepareRefusal, Role, Step, StepReply, TxnId};
use txn::wait_queue::{ReserveFrom, ReservingRead};

use crate::five::{Five, SHARD};

pub const KEY: &[u8] = b"k";
/// So long a younger transaction waits for an older one, and is refused then.
pub const YOUNG_NANOS: u64 = 10_000_000;
const ALL: [usize; 5] = [1, 2, 3, 4, 5];

/// Somebody asks who leads for things, in RPCs.
pub struct Story {
    pub five: Five,
    next: u64,
}

impl Story {
    /// Replica 1 leads.
    pub fn new() -> Self {
        let mut story = Self { five: Five::new(), next: 0 };
        story.together();
        assert!(story.five.leads(1), "it stands first");
        story
    }

    fn rpc(&mut self, rpc: RpcMessage) {
        self.five.executors[0].accept(Input::Rpc { from: NodeId(2), rpc });
    }

    pub fn ask(&mut self) -> u64 {
        self.want(FetchRequest::keys([KEY]))
    }

    pub fn contend(&mut self, name: u64, reserves: bool) -> u64 {
        let from = if reserves { ReserveFrom::OtherReaders } else { ReserveFrom::Nobody };
        self.contend_by(Timestamp(name), from)
    }

    pub fn contend_by(&mut self, name: Timestamp, from: ReserveFrom) -> u64 {
        self.want(FetchRequest::keys([KEY]).by(ReservingRead { name, from }))
    }

    pub fn want(&mut self, want: FetchRequest) -> u64 {
        self.next += 1;
        let (shard, number) = (SHARD, self.next);
        self.rpc(RpcMessage::Fetch { shard, number, want });
        number
    }

    /// Has the key get its first value, of a transaction that has watched nothing.
    pub fn begin(&mut self) -> Timestamp {
        let id = TxnId { start: Timestamp::from_millis(1), coordinator: 9, attempt: 0 };
        let asked = self.prepare(id, b"0", None);
        self.together();
        let first = self.voted(asked).expect("nobody is in its way");
        let outcome = Outcome::Committed(first);
        self.step(&Step::Resolve { id, outcome, keys: smallvec![KEY] });
        self.together();
        first
    }

    pub fn step(&mut self, step: &Step<'_>) -> u64 {
        self.next += 1;
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        let (shard, number) = (SHARD, self.next);
        self.rpc(RpcMessage::Step { shard, number, step: Bytes::from(bytes) });
        number
    }

    /// Wants the key to get a value, if it has what was seen.
    pub fn prepare(&mut self, id: TxnId, value: &[u8], seen: Option<Timestamp>) -> u64 {
        self.prepare_as(id, (value, seen), Role::Votes, None)
    }

    /// The same, in another role, or as what the key is kept for.
    pub fn prepare_as(
        &mut self,
        id: TxnId,
        (value, seen): (&[u8], Option<Timestamp>),
        role: Role,
        reserved_as: Option<Timestamp>,
    ) -> u64 {
        let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Ok);
        let set = Command::Write(Write::Set { key: KEY, value, when, expiry, reply });
        let watched = seen.map(|at| (KEY, ObservedVersion::Version(at))).into_iter().collect();
        let part = Transaction { watched, commands: vec![set], ..Transaction::default() };
        let (record, promised, places) = (KEY, smallvec![KEY], smallvec![0]);
        self.step(&Step::Prepare(Prepare {
            id,
            is_first: false,
            reserved_as,
            record,
            promised,
            role,
            deadline: Some(Deadline::NEVER),
            places,
            part,
        }))
    }

    /// Wants to delete keys, of which the first is that of its record.
    pub fn prepare_all(&mut self, id: TxnId, keys: &[&[u8]], role: Role, is_first: bool) -> u64 {
        let commands = keys.iter().map(|key| Command::Write(Write::Delete { key })).collect();
        let part = Transaction { commands, ..Transaction::default() };
        let (record, promised) = (keys[0], keys.iter().copied().collect());
        let (places, reserved_as) = ((0..keys.len() as u32).collect(), None);
        let deadline = Some(Deadline::NEVER);
        let prepare =
            Prepare { id, is_first, reserved_as, record, promised, role, deadline, places, part };
        self.step(&Step::Prepare(prepare))
    }

    /// A command, sent to who leads.
    pub fn set(&mut self, value: &[u8]) -> Waiter {
        self.next += 1;
        let (mut batch, waiter) = (Batch::default(), Waiter(self.next));
        batch.push(&Write::set(KEY, value), waiter);
        let origin = Origin(1);
        self.five.executors[0].accept(Input::Propose { shard: SHARD, origin, batch });
        waiter
    }

    pub fn is_done(&self, waiter: Waiter) -> bool {
        self.five.answers.iter().any(|answer| match answer {
            Answer::Applied { spent, .. } => spent.waiters.contains(&waiter),
            _ => false,
        })
    }

    /// Lets time pass for the leader alone: the others do nothing yet.
    pub fn alone(&mut self, nanos: u64) {
        self.five.now += nanos;
        self.five.executors[0].observe(self.five.now);
        self.five.executors[0].accept(Input::Tick);
        self.five.settle(&[1], |_, _| true);
    }

    pub fn together(&mut self) {
        self.five.settle(&ALL, |_, _| true);
    }

    /// Value and time, if that question is answered.
    pub fn answer(&self, asked: u64) -> Option<(Vec<u8>, Timestamp)> {
        self.five.rpcs.iter().find_map(|(_, _, rpc)| match rpc {
            RpcMessage::FetchReply { number, found: FetchResult::Versions(versions), .. }
                if *number == asked =>
            {
                let held = versions[0].as_ref().expect("it has a value");
                Some((held.value.to_vec(), held.timestamp))
            }
            _ => None,
        })
    }

    /// When a PREPARE has locked the key.
    pub fn voted(&self, asked: u64) -> Option<Timestamp> {
        self.five.rpcs.iter().find_map(|(_, _, rpc)| match rpc {
            RpcMessage::StepReply { number, reply: StepReply::Voted(vote), .. }
                if *number == asked =>
            {
                Some(vote.at)
            }
            _ => None,
        })
    }

    /// Why a PREPARE was refused.
    pub fn refused(&self, asked: u64) -> Option<PrepareRefusal> {
        self.five.rpcs.iter().find_map(|(_, _, rpc)| match rpc {
            RpcMessage::StepReply { number, reply: StepReply::Refused(why), .. }
                if *number == asked =>
            {
                Some(why.clone())
            }
            _ => None,
        })
    }

    pub fn entries(&self) -> u64 {
        self.five.executors[0]
            .shard(SHARD)
            .expect("the shard is on this node")
            .report(self.five.now)
            .last_index
    }
}
