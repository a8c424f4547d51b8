//! One shard's state, written down piece by piece while writes go on.
//!
//! A checkpoint is of one moment: the shard's applied index when it began. Versions make that
//! cheap: it holds what was visible then, writes since add newer versions, and the collector is
//! held back (pinned) meanwhile. When it is on disk, the log before [`Checkpoint::log_from`] is no
//! longer needed for this shard.
//!
//! A checkpoint holds only entries that are fsynced in the log (SAFETY G16): the driver syncs the
//! log between [`Checkpoint::begin`] and publishing it.

use std::sync::Arc;

use keyspace::{ShardId, Timestamp};
use parking_lot::RwLock;
use storage::engine::DumpCursor;
use storage::log::Lsn;

use crate::recovery::encode_meta;
use crate::shard::Shard;
use crate::state::{Content, ShardState};

/// Bytes of a block, about; one version may be larger.
pub const BLOCK_BYTES: usize = 256 << 10;

/// A checkpoint that is being written.
pub struct Checkpoint {
    /// Of this shard.
    pub shard: ShardId,
    /// As of this applied index.
    pub index: u64,
    /// The head of the file.
    pub meta: Vec<u8>,
    /// With this checkpoint, the shard needs the log from here on.
    pub log_from: Lsn,
    at: Timestamp,
    view: Arc<RwLock<ShardState>>,
    rest: Rest,
}

enum Rest {
    /// Versions from this place on.
    Keys(DumpCursor),
    /// One block, made at the beginning.
    Block(Vec<u8>),
    Nothing,
}

impl Checkpoint {
    /// Begins a checkpoint, between two turns of the shard's lane. `written_end` is the end of the
    /// log, read before.
    pub fn begin(shard: &Shard, written_end: Lsn) -> Self {
        let view = shard.view();
        let mut state = view.write();
        let at = state.last;
        let rest = match &mut state.content {
            Content::Keys(engine) => {
                // Nothing that this checkpoint promises to be readable may go meanwhile.
                engine.pin(engine.safe_point());
                Rest::Keys(DumpCursor::default())
            }
            Content::System(system) => {
                let mut block = Vec::new();
                system.encode(&mut block);
                Rest::Block(block)
            }
        };
        let (index, meta) = (state.applied_index, encode_meta(&state, shard.hard_state()));
        drop(state);
        let log_from = shard.log_needed_from(written_end);
        Self { shard: shard.id(), index, meta, log_from, at, view, rest }
    }

    /// Puts the next block into `out`, which it clears; false if there was none left.
    pub fn next_block(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Keys(mut cursor) => {
                let state = self.view.read();
                let engine = state.keys().expect("a shard does not change its kind");
                if engine.dump(&mut cursor, self.at, BLOCK_BYTES, out) {
                    self.rest = Rest::Keys(cursor);
                }
            }
            Rest::Block(block) => *out = block,
            Rest::Nothing => {}
        }
        !out.is_empty()
    }
}

impl Drop for Checkpoint {
    /// Lets the collector go on.
    fn drop(&mut self) {
        if let Some(engine) = self.view.write().keys_mut() {
            engine.unpin();
        }
    }
}
