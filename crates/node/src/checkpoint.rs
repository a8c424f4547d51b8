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
use storage::engine::{DumpCursor, PieceLimits};
use storage::log::Lsn;

use crate::recovery::encode_meta;
use crate::shard::Shard;
use crate::state::{Content, ShardState};

/// The usual length of a block, for which the shard's writers wait.
pub const BLOCK: PieceLimits = PieceLimits { examined_max: 16_384, bytes_max: 256 << 10 };

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
    block: PieceLimits,
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
    /// log, read before; `block` is how long a block may be, usually [`BLOCK`].
    pub fn begin(shard: &Shard, written_end: Lsn, block: PieceLimits) -> Self {
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
        Self { shard: shard.id(), index, meta, log_from, at, block, view, rest }
    }

    /// Puts the next block into `out`, which it clears; false if there was none left.
    pub fn next_block(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        // A piece of a dump may hold nothing although others follow: it looked at many keys of
        // which none was there at that moment. Only the cursor knows the end.
        while out.is_empty() {
            match std::mem::replace(&mut self.rest, Rest::Nothing) {
                Rest::Keys(mut cursor) => {
                    let state = self.view.read();
                    let engine = state.keys().expect("a shard does not change its kind");
                    if engine.dump(&mut cursor, self.at, self.block, out) {
                        self.rest = Rest::Keys(cursor);
                    }
                }
                Rest::Block(block) => *out = block,
                Rest::Nothing => return false,
            }
        }
        true
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

#[cfg(test)]
mod tests {
    use keyspace::Durability;
    use keyspace::{Arc as RingArc, Descriptor, Generation, KeyHasher, KeyspaceId, NodeId};
    use replication::Start;
    use storage::engine::{Engine, Layout};

    use super::*;
    use crate::lane::SOLE_REPLICA;
    use crate::recovery::Recovering;
    use crate::shard::ShardStart;

    /// More keys than a piece of a dump looks at have expired and are not collected yet. Behind
    /// them stand others, which the checkpoint must hold.
    #[test]
    fn keys_behind_a_stretch_of_expired_ones_are_kept() {
        let hasher = KeyHasher::new([7; 16]);
        let mut engine = Engine::new(Layout::Ordered, hasher);
        for number in 0..40_000u32 {
            let key = format!("a{number:06}");
            engine.put(&hasher.key(key.as_bytes()), &[b"v"], 20, Timestamp::from_millis(10));
        }
        engine.put(&hasher.key(b"b"), &[b"kept"], 0, Timestamp::from_millis(10));
        engine.raise_safe_point(Timestamp::from_millis(30));
        let descriptor = Descriptor {
            shard: ShardId(9),
            arc: RingArc::whole(KeyspaceId(1)),
            replicas: vec![(SOLE_REPLICA, NodeId(1))],
            generation: Generation(1),
            leader: Some(SOLE_REPLICA),
        };
        let mut state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
        state.last = Timestamp::from_millis(30);
        let view = Arc::new(RwLock::new(state));
        let log = Start::default();
        let shard = Shard::new(ShardStart { view, durability: Durability::Sync, log });

        let mut checkpoint = Checkpoint::begin(&shard, Lsn::NEW, BLOCK);
        let mut restored = Recovering::from_checkpoint(ShardId(9), &checkpoint.meta, hasher)
            .expect("the head is readable");
        let mut block = Vec::new();
        while checkpoint.next_block(&mut block) {
            restored.restore(&block).expect("the block is readable");
        }
        let engine = restored.state().keys().expect("a shard of keys");
        let kept = engine.newest(&hasher.key(b"b"), Timestamp::from_millis(30));
        assert_eq!(kept.map(|version| version.value), Some(&b"kept"[..]));
    }
}
