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
use replication::HardState;
use storage::engine::{DumpCursor, PieceLimits, cut_dump};
use storage::log::Lsn;

use crate::recovery::encode_meta;
use crate::replica::Replica;
use crate::replica::state::{Content, ShardState};

/// The usual length of a block, for which the shard's writers wait. All versions of one key may be
/// more.
pub const BLOCK: PieceLimits = PieceLimits { examined_max: 16_384, bytes_max: 256 << 10 };
/// … but beyond this they are cut, for a file's blocks have their limit. One version may be larger.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// A checkpoint that is being written.
pub struct Checkpoint {
    /// Of this shard.
    pub shard: ShardId,
    /// As of this applied index.
    pub index: u64,
    /// The replica's hard state in it, which knows of nothing beyond that index to be committed.
    pub hard_state: HardState,
    /// The head of the file.
    pub meta: Vec<u8>,
    /// With this checkpoint, the shard needs the log from here on.
    pub log_from: Lsn,
    at: Timestamp,
    /// What it promises to be readable is kept from here on …
    pinned: Timestamp,
    /// … in the state that this many snapshots have made.
    replacements: u64,
    block: PieceLimits,
    view: Arc<RwLock<ShardState>>,
    /// The block that comes first, if it is still to come: sessions and locks.
    first: Vec<u8>,
    rest: Rest,
    /// What comes before `rest`: of a piece too long for one block what is left from here on.
    long: (Vec<u8>, usize),
}

enum Rest {
    /// Versions from this place on.
    Keys(DumpCursor),
    /// One block, made at the beginning.
    Block(Vec<u8>),
    Nothing,
}

impl Checkpoint {
    /// Begins a checkpoint, between two turns of the shard's executor. `written_end` is the end of
    /// the log, read before; `block` is how long a block may be, usually [`BLOCK`].
    pub fn begin(shard: &Replica, written_end: Lsn, block: PieceLimits) -> Self {
        let view = shard.view();
        let mut state = view.write();
        let (at, replacements) = (state.last, state.replacements());
        let mut pinned = Timestamp::ZERO;
        let mut first = Vec::new();
        if state.engine().is_some() {
            state.sessions.encode(&mut first);
            if !state.locks.is_empty() {
                state.locks.encode(&mut first);
            }
        }
        let rest = match &mut state.content {
            Content::Keys(engine) => {
                // Nothing that this checkpoint promises to be readable may go meanwhile.
                pinned = engine.safe_point();
                engine.hold(pinned);
                Rest::Keys(DumpCursor::with_pins(engine.pins()))
            }
            Content::System(system) => {
                let mut block = Vec::new();
                system.encode(&mut block);
                Rest::Block(block)
            }
        };
        // Of what is not applied yet the log, as it is on disk, may have another leader's version,
        // which is being replaced: a restart would take that for agreed upon.
        let index = state.applied_index;
        let hard_state = HardState { commit: index, ..shard.hard_state() };
        let meta = encode_meta(&state, shard.replica(), hard_state);
        drop(state);
        let log_from = shard.log_needed_from(written_end);
        let long = Default::default();
        let shard = shard.id();
        Self {
            shard,
            index,
            hard_state,
            meta,
            log_from,
            at,
            pinned,
            replacements,
            block,
            view,
            first,
            rest,
            long,
        }
    }

    /// Whether a snapshot has taken the place of the state: there will be no more blocks, and those
    /// that came are worth nothing.
    pub fn is_void(&self) -> bool {
        self.view.read().replacements() != self.replacements
    }

    /// Puts the next block into `out`, which it clears; false if there was none left, or if it
    /// [`Self::is_void`].
    pub fn next_block(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        if !self.first.is_empty() {
            std::mem::swap(out, &mut self.first);
            return true;
        }
        if self.next_of_long(out) {
            return true;
        }
        // A piece of a dump may hold nothing although others follow: it looked at many keys of
        // which none was there at that moment. Only the cursor knows the end.
        while out.is_empty() {
            match std::mem::replace(&mut self.rest, Rest::Nothing) {
                Rest::Keys(mut cursor) => {
                    let state = self.view.read();
                    if state.replacements() != self.replacements {
                        return false;
                    }
                    let engine = state.engine().expect("a shard does not change its kind");
                    // Not what the safe point is by now: what the head says may be read.
                    let low = self.pinned;
                    if engine.dump(&mut cursor, low, self.at, self.block, out) {
                        self.rest = Rest::Keys(cursor);
                    }
                }
                Rest::Block(block) => *out = block,
                Rest::Nothing => return false,
            }
        }
        if out.len() > BLOCK_BYTES_MAX && self.view.read().engine().is_some() {
            self.long = (std::mem::take(out), 0);
            return self.next_of_long(out);
        }
        true
    }

    /// Puts the next part of a long piece into `out`, if there is one.
    fn next_of_long(&mut self, out: &mut Vec<u8>) -> bool {
        let (piece, at) = &mut self.long;
        if piece.is_empty() {
            return false;
        }
        let end = *at + cut_dump(&piece[*at..], BLOCK_BYTES_MAX);
        out.extend_from_slice(&piece[*at..end]);
        *at = end;
        if end == piece.len() {
            self.long = Default::default();
        }
        true
    }
}

impl Drop for Checkpoint {
    /// Lets the collector go on.
    fn drop(&mut self) {
        let mut state = self.view.write();
        if state.replacements() == self.replacements
            && let Some(engine) = state.engine_mut()
        {
            engine.release(self.pinned);
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspace::Durability;
    use keyspace::{Arc as RingArc, Descriptor, Generation, KeyHasher, KeyspaceId, NodeId};
    use replication::StartContext;
    use storage::engine::{Layout, MemoryEngine, ReadResult};

    use super::*;
    use crate::executor::FIRST_REPLICA;
    use crate::recovery::RecoveringReplica;
    use crate::replica::ReplicaStart;

    const HASHER: KeyHasher = KeyHasher::new([7; 16]);

    /// A shard with these keys, whose newest entry was at 30 ms.
    fn shard_of(engine: MemoryEngine) -> Replica {
        let descriptor = Descriptor {
            shard: ShardId(9),
            arc: RingArc::whole(KeyspaceId(1)),
            replicas: vec![(FIRST_REPLICA, NodeId(1))],
            generation: Generation(1),
            leader: Some(FIRST_REPLICA),
        };
        let mut state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
        state.last = Timestamp::from_millis(30);
        let start = ReplicaStart::created(state, FIRST_REPLICA, Durability::Sync);
        Replica::new(start, StartContext::default())
    }

    /// What a checkpoint of it holds, and its longest block.
    fn restored(shard: &Replica) -> (RecoveringReplica, usize) {
        let mut checkpoint = Checkpoint::begin(shard, Lsn::NEW, BLOCK);
        let mut restored = RecoveringReplica::from_checkpoint(ShardId(9), &checkpoint.meta, HASHER)
            .expect("the head is readable");
        let (mut block, mut longest) = (Vec::new(), 0);
        while checkpoint.next_block(&mut block) {
            restored.restore(&block).expect("the block is readable");
            longest = longest.max(block.len());
        }
        (restored, longest)
    }

    /// The safe point rises between two blocks. The head of the file still holds the old one, and a
    /// restored replica serves reads from there on.
    #[test]
    fn checkpoint_holds_versions_above_its_safe_point_when_it_rises_meanwhile() {
        let mut engine = MemoryEngine::new(Layout::Ordered, HASHER);
        for (value, at) in [(b"1", 10), (b"2", 20)] {
            engine.put(&HASHER.key(b"a"), &[value], 0, Timestamp::from_millis(at));
            engine.put(&HASHER.key(b"b"), &[value], 0, Timestamp::from_millis(at));
        }
        let shard = shard_of(engine);
        let one = PieceLimits { examined_max: 1, bytes_max: 1 };
        let mut checkpoint = Checkpoint::begin(&shard, Lsn::NEW, one);
        let mut restored = RecoveringReplica::from_checkpoint(ShardId(9), &checkpoint.meta, HASHER)
            .expect("the head is readable");
        let mut block = Vec::new();
        while checkpoint.next_block(&mut block) {
            restored.restore(&block).expect("the block is readable");
            let view = shard.view();
            let mut state = view.write();
            let engine = state.engine_mut().expect("a shard of keys");
            engine.raise_safe_point(Timestamp::from_millis(25));
            engine.collect(usize::MAX);
        }
        let engine = restored.state().engine().expect("a shard of keys");
        assert_eq!(engine.safe_point(), Timestamp::ZERO);
        for key in [b"a", b"b"] {
            let at = engine.at(&HASHER.key(key), Timestamp::from_millis(15));
            assert!(matches!(at, ReadResult::Value(found) if found.value == b"1"), "{key:?}");
        }
    }

    /// More keys than a piece of a dump looks at have expired and are not collected yet. Behind
    /// them stand others, which the checkpoint must hold.
    #[test]
    fn checkpoint_holds_keys_behind_range_of_expired_ones() {
        let mut engine = MemoryEngine::new(Layout::Ordered, HASHER);
        for number in 0..40_000u32 {
            let key = format!("a{number:06}");
            engine.put(&HASHER.key(key.as_bytes()), &[b"v"], 20, Timestamp::from_millis(10));
        }
        engine.put(&HASHER.key(b"b"), &[b"kept"], 0, Timestamp::from_millis(10));
        engine.raise_safe_point(Timestamp::from_millis(30));
        let (restored, _) = restored(&shard_of(engine));
        let engine = restored.state().engine().expect("a shard of keys");
        let kept = engine.newest(&HASHER.key(b"b"), Timestamp::from_millis(30));
        assert_eq!(kept.map(|version| version.value), Some(&b"kept"[..]));
    }

    /// A block of a file has its limit, and all versions of one key may be longer.
    #[test]
    fn long_history_of_one_key_spans_several_blocks() {
        let mut engine = MemoryEngine::new(Layout::Ordered, HASHER);
        let version = |number: u8| vec![number; 5 << 20];
        for number in 0..29 {
            let at = Timestamp::from_millis(number.into());
            engine.put(&HASHER.key(b"a"), &[&version(number)], 0, at);
        }
        engine.put(&HASHER.key(b"b"), &[b"kept"], 0, Timestamp::from_millis(29));
        let (restored, longest) = restored(&shard_of(engine));
        assert!(longest <= BLOCK_BYTES_MAX, "a block of {longest} bytes");
        let engine = restored.state().engine().expect("a shard of keys");
        for number in 0..29 {
            let at = engine.at(&HASHER.key(b"a"), Timestamp::from_millis(number.into()));
            assert!(
                matches!(at, ReadResult::Value(found) if found.value == version(number)),
                "{number}"
            );
        }
        let kept = engine.newest(&HASHER.key(b"b"), Timestamp::from_millis(30));
        assert_eq!(kept.map(|version| version.value), Some(&b"kept"[..]));
    }
}
