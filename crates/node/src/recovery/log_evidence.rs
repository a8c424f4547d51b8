//! Does the log end before something that it must have held? (SAFETY G16)
//!
//! A crash leaves an unfinished end of the log; damage to the last fsynced part looks the same.
//! Only later evidence tells them apart, such as a checkpoint: all its entries were durable in the
//! log before it counted. A shard with one replica has its entries in the log in order. So if the
//! log still holds some of them, but ends before the checkpoint's newest, the missing ones were
//! durable:
//!
//! ```text
//!   log from its start   … 41  42  43  ✂     the checkpoint is as of entry 45: 44, 45 are lost
//! ```
//!
//! Then other shards may lack entries that no checkpoint has.

use std::collections::BTreeMap;

use keyspace::ShardId;
use storage::log::Record;

use super::{RecoverError, RecoveringReplica};
use crate::replica::record;

/// What checkpoints say of the log, and what the log holds.
#[derive(Debug, Default)]
pub struct LogEvidence {
    /// The newest entry that a checkpoint has of a shard without other replicas.
    checkpoints: BTreeMap<ShardId, u64>,
    /// The newest entry of each of these that was read of the log.
    read: BTreeMap<ShardId, u64>,
}

impl LogEvidence {
    /// A shard as its checkpoint has it, before anything of the log is read.
    pub fn checkpoint(&mut self, shard: &RecoveringReplica) {
        if shard.state.members.is_sole(shard.replica) {
            self.checkpoints.insert(shard.shard, shard.state.applied_index);
        }
    }

    /// The next record of the log.
    pub fn record(&mut self, record: &Record<'_>) {
        let shard = record.shard;
        if !self.checkpoints.contains_key(&shard) {
            return;
        }
        match record.kind {
            record::ENTRY => {
                let index = record::split_entry(record.payload).map(|(index, ..)| index);
                self.read.extend(index.map(|index| (shard, index)));
            }
            record::HARD_STATE => {}
            // Another replica begins or ends: what was read is none of the checkpoint's.
            _ => drop(self.read.remove(&shard)),
        }
    }

    /// The log was read to its end.
    ///
    /// # Errors
    /// [`RecoverError::CutShort`]: what was durable is missing.
    pub fn finish(&self) -> Result<(), RecoverError> {
        for (&shard, &found) in &self.read {
            let expected = self.checkpoints.get(&shard).copied().unwrap_or(0);
            if found < expected {
                return Err(RecoverError::CutShort { shard, expected, found });
            }
        }
        Ok(())
    }
}
