//! How much do the reads in one entry answer?
//!
//! Reads join batches of the log as transactions of one read each (SAFETY G26). Ten thousand of
//! them fit into an entry, and each may be of a value of 512 MiB. Every replica makes their replies
//! when it applies the entry. So beyond [`REPLY_BYTES_MAX`] in one entry, such reads are refused:
//! gateways then read outside of the log. Transactions of several reads are clients' own, and have
//! a limit of their own: they do not count here.
//!
//! Sessions retain no replies of more than [`ANSWER_BYTES_MAX`], and up to there nothing is
//! refused. So replicas of an older version, which refuse nothing, retain the same.

use command::Transaction;
use command::transaction::REPLY_BYTES_MAX;
use keyspace::Timestamp;
use storage::engine::MemoryEngine;

use crate::routing::session::ANSWER_BYTES_MAX;

/// Of one entry.
#[derive(Debug, Default)]
pub(super) struct ReplyBudget {
    /// Bytes of values that its reads have answered with.
    answered: u64,
}

impl ReplyBudget {
    /// Whether a transaction is one read, and would answer too much beside those before it.
    #[cold]
    #[inline(never)]
    pub fn refuses(
        &mut self,
        transaction: &Transaction<'_>,
        engine: &MemoryEngine,
        at: Timestamp,
    ) -> bool {
        let Some(bytes) = transaction.lone_read_bytes(engine, at) else { return false };
        let all = self.answered.saturating_add(bytes);
        let refuses = self.answered > ANSWER_BYTES_MAX as u64 && all > REPLY_BYTES_MAX;
        if !refuses {
            self.answered = all;
        }
        refuses
    }
}

#[cfg(test)]
mod tests {
    use command::{Read, Refusal, Reply, Write};
    use keyspace::{
        Arc, Descriptor, Generation, KeyHasher, KeyspaceId, NodeId, ReplicaId, SLOTS, ShardId,
    };
    use storage::engine::Layout;

    use super::*;
    use crate::replica::entry::{Batch, Header, Kind, Waiter};
    use crate::replica::state::{Content, ShardState};

    fn shard() -> ShardState {
        let layout = Layout::Hashed { first_slot: 0, end_slot: SLOTS };
        let descriptor = Descriptor {
            shard: ShardId(9),
            arc: Arc::of_slots(KeyspaceId(1), 0, SLOTS),
            replicas: vec![(ReplicaId(1), NodeId(1))],
            generation: Generation(1),
            leader: None,
        };
        let engine = MemoryEngine::new(layout, KeyHasher::new([1; 16]));
        ShardState::new(descriptor, Content::Keys(Box::new(engine)))
    }

    fn apply(state: &mut ShardState, batch: Batch) -> Vec<Reply> {
        let (mut bytes, waiters) = batch.into_parts();
        let timestamp = Timestamp(state.last.0 + 1000);
        let count = waiters.len() as u32;
        let (kind, skips_equal) = (Kind::Commands, false);
        Header { kind, skips_equal, timestamp, term: 2, count }.fill(&mut bytes);
        let index = state.applied_index + 1;
        let mut replies = Vec::new();
        state.apply(&replication::Entry::new(index, 2, bytes.into(), false), &mut replies);
        replies
    }

    #[test]
    fn reads_of_one_entry_answer_bounded_bytes() {
        let mut state = shard();
        let value = vec![b'v'; 1 << 20];
        let mut batch = Batch::default();
        batch.push(&Write::set(b"long", &value), Waiter(0));
        batch.push(&Write::set(b"short", b"v"), Waiter(0));
        apply(&mut state, batch);
        let mut batch = Batch::default();
        for _ in 0..500 {
            batch.push_read(&Read::Get(b"long"), Waiter(0), 0);
        }
        batch.push_read(&Read::Length(b"long"), Waiter(0), 0);
        batch.push(&Write::append(b"long", b"x"), Waiter(0));
        let replies = apply(&mut state, batch);
        let refused = Reply::Array(vec![Reply::Refused(Refusal::TooMuch)]);
        let answered = replies[..500].iter().filter(|reply| **reply != refused).count();
        assert_eq!(answered, (REPLY_BYTES_MAX >> 20) as usize);
        let length = Reply::Int(value.len() as i64);
        assert_eq!(replies[500], Reply::Array(vec![length]), "what takes no memory is answered");
        assert_eq!(replies[501], Reply::Int(value.len() as i64 + 1), "writes are done");
        let mut batch = Batch::default();
        batch.push_read(&Read::Get(b"short"), Waiter(0), 0);
        let all = apply(&mut state, batch);
        assert_eq!(all, [Reply::Array(vec![Reply::Bulk(Box::from(&b"v"[..]))])], "the next entry");
    }
}
