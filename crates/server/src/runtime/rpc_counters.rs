//! Counters of messages, RPCs and lookups between nodes, by kind.
//!
//! A step round, or a received frame, counts locally and adds its counts here once. It touches few
//! relaxed atomics, and none for kinds that did not occur.

use node::rpc::message::RpcMessage;
use replication::{Message, MessageKind};

use crate::counters::Counter;

const MESSAGES: usize = MessageKind::COUNT;
const RPCS: usize = RpcMessage::KINDS.len();
const LOOKUPS: usize = overlay::Message::KINDS.len();

/// Messages of replicas first, then RPCs, then lookup messages.
const KINDS: usize = MESSAGES + RPCS + LOOKUPS;

/// Counts of one step round, or of one frame.
pub struct RpcCounts {
    kinds: [u32; KINDS],
    /// Bytes of lookup messages.
    lookup_bytes: [u32; LOOKUPS],
    /// Commands in RPCs that ask for writes.
    commands: u64,
}

impl Default for RpcCounts {
    fn default() -> Self {
        Self { kinds: [0; KINDS], lookup_bytes: [0; LOOKUPS], commands: 0 }
    }
}

impl RpcCounts {
    /// A message of a replica.
    pub fn message(&mut self, message: &Message) {
        if let Some(kind) = message.kind() {
            self.kinds[kind.place()] += 1;
        }
    }

    /// An RPC.
    pub fn rpc(&mut self, rpc: &RpcMessage) {
        self.kinds[MESSAGES + rpc.kind()] += 1;
        if let RpcMessage::Write { count, .. } = rpc {
            self.commands += u64::from(*count);
        }
    }

    /// Counts a lookup message of so many bytes.
    pub fn lookup(&mut self, message: &overlay::Message, bytes: usize) {
        self.kinds[MESSAGES + RPCS + message.kind()] += 1;
        self.lookup_bytes[message.kind()] += bytes as u32;
    }
}

/// Sums in one direction.
pub struct DirectionCounters {
    kinds: [Counter; KINDS],
    lookup_bytes: [Counter; LOOKUPS],
    /// Commands in RPCs that forward writes. One that is sent again counts again.
    pub commands: Counter,
}

impl Default for DirectionCounters {
    fn default() -> Self {
        Self {
            kinds: std::array::from_fn(|_| Counter::default()),
            lookup_bytes: Default::default(),
            commands: Counter::default(),
        }
    }
}

impl DirectionCounters {
    /// Adds counts.
    pub fn add(&self, counts: &RpcCounts) {
        for (counter, count) in self.kinds.iter().zip(counts.kinds).filter(|(_, count)| *count > 0)
        {
            counter.add(u64::from(count));
        }
        let bytes = self.lookup_bytes.iter().zip(counts.lookup_bytes);
        for (counter, bytes) in bytes.filter(|(_, bytes)| *bytes > 0) {
            counter.add(u64::from(bytes));
        }
        if counts.commands > 0 {
            self.commands.add(counts.commands);
        }
    }

    /// Questions for an index to read at.
    pub fn reads(&self) -> u64 {
        let read = RpcMessage::KINDS.iter().position(|name| *name == "read");
        self.kinds[MESSAGES + read.expect("rpcs have such a kind")].get()
    }

    /// Bytes of lookup messages, by kind.
    pub fn each_bytes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = overlay::Message::KINDS.into_iter();
        names.zip(&self.lookup_bytes).map(|(name, counter)| (name, counter.get()))
    }

    /// The sums: `replica`, `rpc` or `lookup`, the kind's name, how many.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let names = MessageKind::all().map(|kind| ("replica", kind.name()));
        let names = names.into_iter().chain(RpcMessage::KINDS.map(|name| ("rpc", name)));
        let names = names.chain(overlay::Message::KINDS.map(|name| ("lookup", name)));
        names.zip(&self.kinds).map(|((class, name), counter)| (class, name, counter.get()))
    }
}

/// Both directions, and states of shards.
#[derive(Default)]
pub struct RpcCounters {
    /// To other nodes. Some of it may not have arrived.
    pub sent: DirectionCounters,
    /// From other nodes.
    pub received: DirectionCounters,
    /// Snapshots that their receivers have installed.
    pub snapshots_sent: Counter,
    /// Blocks sent, of whatever became of their snapshots; those sent again count again …
    pub snapshot_blocks_sent: Counter,
    /// … and their bytes.
    pub snapshot_bytes_sent: Counter,
    /// Streams that have gone on after a lost link, or lost blocks.
    pub snapshot_resumes: Counter,
    /// Snapshots that were to be sent, and were not.
    pub snapshots_unsent: Counter,
    /// Snapshots that came whole and were installed.
    pub snapshots_received: Counter,
    /// Blocks taken, of whatever became of their snapshots …
    pub snapshot_blocks_received: Counter,
    /// … and their bytes.
    pub snapshot_bytes_received: Counter,
    /// Snapshots that began to come and were given up.
    pub snapshots_broken: Counter,
    /// Snapshots that are coming now: a gauge.
    pub snapshots_coming: Counter,
}

#[cfg(test)]
mod tests {
    use keyspace::{ShardId, Timestamp};
    use node::routing::session::BatchId;

    use super::*;

    #[test]
    fn rpcs_are_counted_by_kind_and_commands_by_number() {
        let mut counts = RpcCounts::default();
        let id = BatchId { session: 1, sequence: 1, floor: 1, sent_ms: 1 };
        let shard = ShardId(3);
        counts.rpc(&RpcMessage::Write { shard, id, count: 16, commands: Default::default() });
        counts.rpc(&RpcMessage::ReadIndex { shard, number: 1, at: Timestamp(1) });
        counts.rpc(&RpcMessage::ReadIndex { shard, number: 2, at: Timestamp(2) });
        let sums = DirectionCounters::default();
        sums.add(&counts);
        sums.add(&counts);
        let found: Vec<_> = sums.each().filter(|(_, _, count)| *count > 0).collect();
        assert_eq!(found, [("rpc", "write", 2), ("rpc", "read", 4)]);
        assert_eq!(sums.commands.get(), 32);
    }
}
