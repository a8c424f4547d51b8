//! How does a lone node's data get rid of times that are far ahead?
//!
//! One start with a clock that is far ahead leaves timestamps that no node may go below (SAFETY
//! G12): time goes on from there, and whatever is to expire at a time before that is gone at once
//! (G13). So another directory is written, of another cluster, with the newest values at times up
//! to now:
//!
//! ```text
//!   shard as replayed ──► values that readers see ──► each at its own time or, if ahead, now
//!                                               └───► expiry: what was left of it, from then on
//! ```
//!
//! It is sound because nothing that anybody was promised at the times ahead (G2) is about the new
//! cluster: it has another id, so no link, session or transaction of the old one goes on in it. For
//! the same reason it is for a node only whose shards have no other replica and no unfinished
//! transaction. What is lost: replaced versions, and the memory of requests that were repeated.

use keyspace::{NodeId, ReplicaId, ShardId, Timestamp};
use storage::engine::{DumpCursor, MemoryEngine, retime_dump};

use crate::recovery::checkpoint::BLOCK;
use crate::recovery::{RecoveringReplica, ReplayResult, encode_meta};
use crate::replica::state::{Content, ShardState};
use crate::routing::session::Sessions;

/// Why times are not changed. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRewriteReason {
    /// The clock is no more behind than a log may be ahead.
    #[error(
        "no time in the data is far ahead of this machine's clock: there is nothing to repair. Set \
         the clock right first"
    )]
    NothingAhead,
    /// Another node has a replica of a shard.
    #[error(
        "shard {shard} has replicas on other nodes, or waits for them: only the data of a node \
         alone can be repaired. In a cluster most of whose clocks are right, start this node on an \
         empty directory with --join instead"
    )]
    NotAlone {
        /// The shard.
        shard: ShardId,
    },
    /// Old versions do not stay, and clones read those of their sources.
    #[error(
        "clones of volumes read what their sources held at a time that would be lost: start the \
         node once more, flatten or delete {names}, and stop it"
    )]
    HasClones {
        /// Their names.
        names: String,
    },
    /// A shard's state is between two that become one, or locks are held.
    #[error(
        "shard {shard} has an unfinished transaction, split or merge: start the node once more, \
         wait until its health says nothing but the clock, and stop it"
    )]
    Unfinished {
        /// The shard.
        shard: ShardId,
    },
}

/// The shards of a lone node, to be written with times up to now.
pub struct RewrittenTimes {
    shards: Vec<RecoveringReplica>,
    newest: Timestamp,
    now: Timestamp,
}

/// Where a shard is written: its id and index and the head of its checkpoint, then block by block.
pub trait RetimedSink {
    /// Why it could not be written.
    type Error;
    /// A shard begins.
    ///
    /// # Errors
    /// Ends it all.
    fn begin(&mut self, shard: ShardId, index: u64, meta: &[u8]) -> Result<(), Self::Error>;
    /// A block of it.
    ///
    /// # Errors
    /// Ends it all.
    fn block(&mut self, block: &[u8]) -> Result<(), Self::Error>;
    /// It is whole.
    ///
    /// # Errors
    /// Ends it all.
    fn end(&mut self) -> Result<(), Self::Error>;
}

impl RewrittenTimes {
    /// Judges whether the times of what this node's directory holds may be changed to be at most
    /// `now`.
    ///
    /// # Errors
    /// [`NoRewriteReason`].
    pub fn new(
        replayed: ReplayResult,
        node: NodeId,
        now: Timestamp,
        ahead_max_millis: u64,
    ) -> Result<Self, NoRewriteReason> {
        let ReplayResult { shards, ended, .. } = replayed;
        let newest = shards.values().map(RecoveringReplica::highest).max().unwrap_or_default();
        if newest.millis() <= now.millis() + ahead_max_millis {
            return Err(NoRewriteReason::NothingAhead);
        }
        if let Some(shard) = ended.into_keys().next() {
            return Err(NoRewriteReason::NotAlone { shard });
        }
        for (shard, recovering) in &shards {
            let state = recovering.state();
            let replica = recovering.replica();
            if state.descriptor.replicas != [(replica, node)] || !state.members.is_sole(replica) {
                return Err(NoRewriteReason::NotAlone { shard: *shard });
            }
            if let Content::System(system) = &state.content {
                let clones = system.catalogue.iter().filter(|one| one.source().is_some());
                let names: Vec<&str> = clones.map(|one| &*one.name).collect();
                if !names.is_empty() {
                    return Err(NoRewriteReason::HasClones { names: names.join(", ") });
                }
            }
            if !recovering.is_at_rest() || state.locks.needs_inspection() {
                return Err(NoRewriteReason::Unfinished { shard: *shard });
            }
        }
        Ok(Self { shards: shards.into_values().collect(), newest, now })
    }

    /// The newest time in the data.
    pub fn newest(&self) -> Timestamp {
        self.newest
    }

    /// Writes all shards; how many values there are.
    ///
    /// # Errors
    /// What the sink says.
    pub fn write<S: RetimedSink>(self, sink: &mut S) -> Result<u64, S::Error> {
        let Self { shards, newest, now } = self;
        let mut values = 0;
        for shard in shards {
            let (replica, term) = (shard.replica(), shard.hard_state());
            let mut state = shard.into_state();
            let index = state.applied_index;
            let content = Rest::take(&mut state, now);
            let hard_state = replication::HardState { commit: index, ..term };
            sink.begin(state.descriptor.shard, index, &meta(&mut state, now, replica, hard_state))?;
            match content {
                Rest::Keys(engine) => {
                    let mut first = Vec::new();
                    Sessions::default().encode(&mut first);
                    sink.block(&first)?;
                    values += write_values(*engine, newest, now, sink)?;
                }
                Rest::System(block) => sink.block(&block)?,
            }
            sink.end()?;
        }
        Ok(values)
    }
}

/// What of a shard is written behind its head.
enum Rest {
    Keys(Box<MemoryEngine>),
    System(Vec<u8>),
}

impl Rest {
    /// Takes it out of a shard's state, in which an empty engine stays that can be read from now
    /// on.
    fn take(state: &mut ShardState, now: Timestamp) -> Self {
        match &mut state.content {
            Content::Keys(engine) => {
                let mut empty = MemoryEngine::new(engine.layout(), engine.hasher());
                empty.raise_safe_point(now);
                Self::Keys(std::mem::replace(engine, Box::new(empty)))
            }
            Content::System(system) => {
                system.safe_points.values_mut().for_each(|safe_point| *safe_point = now);
                // Nothing older than now is left.
                system.leases.clear();
                let mut block = Vec::new();
                system.encode(&mut block);
                Self::System(block)
            }
        }
    }
}

fn meta(
    state: &mut ShardState,
    now: Timestamp,
    replica: ReplicaId,
    hard_state: replication::HardState,
) -> Vec<u8> {
    state.last = state.last.min(now);
    state.horizon = state.horizon.min(now);
    encode_meta(state, replica, hard_state)
}

fn write_values<S: RetimedSink>(
    mut engine: MemoryEngine,
    newest: Timestamp,
    now: Timestamp,
    sink: &mut S,
) -> Result<u64, S::Error> {
    let values = engine.len(newest);
    engine.hold(newest);
    let (mut cursor, mut piece, mut block) = (DumpCursor::default(), Vec::new(), Vec::new());
    let mut more = true;
    while more {
        piece.clear();
        block.clear();
        more = engine.dump(&mut cursor, newest, newest, BLOCK, &mut piece);
        let change = |timestamp, expiry| retimed(timestamp, expiry, newest, now);
        retime_dump(&piece, &mut block, change).expect("it was made here");
        if !block.is_empty() {
            sink.block(&block)?;
        }
    }
    Ok(values)
}

/// A value's times: nothing if it has expired by what time it was. One that was written ahead of
/// now was written now, and has as long to live as it had then.
fn retimed(
    timestamp: Timestamp,
    expiry_ms: u64,
    newest: Timestamp,
    now: Timestamp,
) -> Option<(Timestamp, u64)> {
    match expiry_ms {
        _ if expiry_ms != 0 && expiry_ms <= newest.millis() => None,
        _ if timestamp <= now => Some((timestamp, expiry_ms)),
        0 => Some((now, 0)),
        _ => Some((now, now.millis() + expiry_ms.saturating_sub(timestamp.millis()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_from_future_keeps_its_remaining_ttl() {
        let at = Timestamp::from_millis;
        let (newest, now) = (at(9_000), at(1_000));
        let of = |timestamp, expiry| retimed(at(timestamp), expiry, newest, now);
        assert_eq!(of(500, 0), Some((at(500), 0)), "of before");
        assert_eq!(of(500, 9_500), Some((at(500), 9_500)));
        assert_eq!(of(500, 8_000), None, "readers have found it gone");
        assert_eq!(of(8_500, 0), Some((now, 0)));
        assert_eq!(of(8_500, 9_100), Some((now, 1_600)));
        assert_eq!(of(8_500, 8_600), None);
    }
}
