//! Do the replicas of a shard hold the same? Each computes a digest as of one entry, in the
//! background (SAFETY G13).
//!
//! ```text
//!   entry Check ─apply─► Digesting: pinned at the safe point of then, one moment of the past
//!                            │ step, step, … by the driver, beside the executor and its readers
//!                            ▼
//!        Input::DigestDone ──► executor ──► the leader compares ([`crate::rpc::notice`])
//! ```
//!
//! A digest covers all that is visible from the safe point to the entry's time. Both are equal on
//! every replica, because the log made them ([`storage::engine::digest`]). It also covers the state
//! beside the keys: descriptor, members, horizon, sessions, fence, or the catalogue. Neither
//! collection nor later writes change it: versions make that cheap.
//!
//! A digest under way is dropped when a snapshot replaces the state, or when the replica ends. A
//! leader without a digest does not judge that replica.

use std::sync::Arc;

use keyspace::{ReplicaId, ShardId, Timestamp};
use parking_lot::RwLock;
use storage::engine::digest::{Digest, hash};
use storage::engine::{DumpCursor, PieceLimits};

use crate::replica::members;
use crate::replica::state::{Content, ShardState};

/// A digest in the making.
pub struct Digesting {
    /// Of this shard.
    pub shard: ShardId,
    /// Of this replica.
    pub replica: ReplicaId,
    /// As of this entry.
    pub index: u64,
    /// From here, where it is pinned …
    low: Timestamp,
    /// … to here.
    at: Timestamp,
    replacements: u64,
    view: Arc<RwLock<ShardState>>,
    cursor: DumpCursor,
    keys: Digest,
    /// Of all that is not keys.
    rest: u128,
}

/// How far a step has brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestStep {
    /// There is more to do.
    More,
    /// This is it.
    Done(u128),
    /// It comes to nothing.
    Void,
}

impl std::fmt::Debug for Digesting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digesting({} at {})", self.shard, self.index)
    }
}

impl Digesting {
    /// Begins the digest of `state` as it is: that of `view`, whose guard the caller holds. None if
    /// the safe point is ahead of the last entry, or of a lock: another node's clock is ahead by
    /// the retention, and there is no time of which all is known to be there.
    pub(crate) fn begin(
        replica: ReplicaId,
        view: &Arc<RwLock<ShardState>>,
        state: &mut ShardState,
    ) -> Option<Self> {
        // What a lock has to write will be written at its time or later.
        let below_locks = state.locks.below();
        let at = state.last.min(below_locks);
        let mut rest = Vec::new();
        let numbers = [state.applied_index, state.applied_term, state.horizon.0, state.last.0];
        numbers.iter().for_each(|number| rest.extend_from_slice(&number.to_le_bytes()));
        state.descriptor.encode(&mut rest);
        members::encode(&state.members, &mut rest);
        state.sessions.encode(&mut rest);
        if !state.locks.is_empty() {
            state.locks.encode(&mut rest);
        }
        if !state.fence.is_none() {
            state.fence.encode(&mut rest);
        }
        let mut low = Timestamp::ZERO;
        match &mut state.content {
            Content::Keys(engine) => {
                low = engine.safe_point();
                if low > at {
                    return None;
                }
                engine.hold(low);
                rest.extend_from_slice(&low.0.to_le_bytes());
                let pins = engine.pins().iter();
                pins.for_each(|pin| rest.extend_from_slice(&pin.0.to_le_bytes()));
            }
            Content::System(system) => system.encode(&mut rest),
        }
        Some(Self {
            shard: state.descriptor.shard,
            replica,
            index: state.applied_index,
            low,
            at,
            replacements: state.replacements(),
            view: view.clone(),
            cursor: DumpCursor::default(),
            keys: Digest::new(at),
            rest: hash(&[&rest]),
        })
    }

    /// Reads the next piece. Its length limits how long the shard's writers wait; usually
    /// [`crate::recovery::checkpoint::BLOCK`]. `piece` is memory to be reused.
    pub fn step(&mut self, limits: PieceLimits, piece: &mut Vec<u8>) -> DigestStep {
        piece.clear();
        let more = {
            let state = self.view.read();
            if state.replacements() != self.replacements {
                return DigestStep::Void;
            }
            match state.engine() {
                Some(engine) => engine.dump(&mut self.cursor, self.low, self.at, limits, piece),
                None => false,
            }
        };
        self.keys.feed(piece).expect("an engine dumps what it can read");
        if more {
            return DigestStep::More;
        }
        let parts = [self.keys.finish().to_le_bytes(), self.rest.to_le_bytes()];
        DigestStep::Done(hash(&[&parts[0], &parts[1]]))
    }
}

impl Drop for Digesting {
    /// Lets the collector go on.
    fn drop(&mut self) {
        let mut state = self.view.write();
        if state.replacements() == self.replacements
            && let Some(engine) = state.engine_mut()
        {
            engine.release(self.low);
        }
    }
}
