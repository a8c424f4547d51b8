//! How do two neighbours become one shard? The left one takes the right one in (SAFETY G11).
//!
//! ```text
//!   left's log    … INTEND ─────────────────────────────► ABSORB …   arc [a, b) → [a, c)
//!                      │ "freeze"          "frozen at 70" ▲   │ each replica takes the state
//!                      ▼                                  │   │ of the one beside it, as of 70
//!   right's log   … FREEZE (70) ──(every replica has it)──┘   ▼
//!                                                             ends        arc [b, c)
//! ```
//!
//! Both have their replicas on the same nodes, and neither changes its members or splits meanwhile.
//! From FREEZE on nothing changes in the right one, and it serves nobody; requests wait. So all its
//! replicas hold the same state. ABSORB names the entry of that state, and so all replicas of the
//! left one end up equal.
//!
//! Only an entry in the left one's log ends the merge, never a timeout: ABSORB, or CANCEL. After
//! CANCEL the left one repeats it until the right one confirms. The right one does so with an entry
//! of its own (FREE), or because it was never frozen:
//!
//! ```text
//!   left's log    … INTEND ──► CANCEL ──────────────────────► FREED …
//!                                 │ "free"       "it is free" ▲
//!   right's log           [FREEZE]└──────► FREE ──────────────┘       its generation rises
//! ```
//!
//! Late messages do no harm. A FREEZE names the right one's generation, which FREE has raised; the
//! right one's replies name the left one's generation, which CANCEL has raised. A shard in one of
//! these states enters no other.
//!
//! A replica of the left one that finds no such state on its node cannot continue. It is
//! quarantined and replaced ([`crate::executor::EndedReplica`]).
//!
//! # What the merge joins
//! Keys and versions; the later of both safe points, horizons and fences; both tables of sessions
//! ([`crate::routing::session`]). So a batch that was sent to the right one is applied once,
//! although its sender repeats it to the left one. The generation is above both: a node that knows
//! both shards can tell that the left one is right, and every lookup forgets the right one.
//!
//! # What is on disk
//! Before a replica of the right one ends, the commit index that covers ABSORB is on disk. Then a
//! record says that it has ended ([`crate::replica::record::SHARD_ABSORBED`]). So a replay takes
//! the state over where the entry stands. A round of checkpoints may hold the left one from before
//! ABSORB while the right one has ended: it then makes the left one's again
//! (`executor::merged`).
//!
//! # Bytes
//! Body of an entry of kind [`crate::replica::entry::Kind::Merge`]: a tag `u8`, then the fields of
//! [`MergeStep`] in their order, `varint` each. At the end of a checkpoint's head, if a shard is in
//! one of these states: [`MergeStatus`], likewise.

use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::{Descriptor, Generation, KeyspaceId, NodeId, ShardId, Timestamp};
use replication::Entry;

use crate::replica::entry::{Header, Kind};
use crate::replica::state::{Content, ShardState};

/// The state of a shard in a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeStatus {
    /// Nowhere: the usual.
    #[default]
    None,
    /// 1: it is to absorb its right neighbour.
    TakingRight {
        /// That one.
        right: ShardId,
        /// Its generation, as it was known.
        generation: Generation,
    },
    /// 2: it will not, and the right neighbour has not confirmed that it knows.
    Cancelled {
        /// That one.
        right: ShardId,
        /// Its generation, as it was known.
        generation: Generation,
    },
    /// 3: it is to be absorbed, and is frozen.
    Frozen {
        /// By its left neighbour.
        by: ShardId,
        /// At this generation of that one.
        generation: Generation,
        /// As of this entry of its own,
        index: u64,
        /// of this term.
        term: u64,
        /// All timestamps up to then, and all that was promised to readers, lie at or below.
        last: Timestamp,
        /// What was promised to readers.
        horizon: Timestamp,
    },
}

/// A step, as an entry holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStep {
    /// 0: the left one is to absorb the right one.
    Intend {
        /// The right one.
        right: ShardId,
        /// Its generation, as it is known.
        theirs: Generation,
        /// The left one's.
        ours: Generation,
    },
    /// 1: the right one changes no more.
    Freeze {
        /// For this left one,
        by: ShardId,
        /// at this generation of it.
        theirs: Generation,
        /// The right one's.
        ours: Generation,
    },
    /// 2: the left one takes the right one in.
    Absorb {
        /// The right one,
        right: ShardId,
        /// as of this entry of it,
        index: u64,
        /// which has this term.
        term: u64,
        /// The left one's generation.
        ours: Generation,
    },
    /// 3: the left one does not take the right one in.
    Cancel {
        /// The left one's generation.
        ours: Generation,
    },
    /// 4: the right one goes on, and is not frozen at this generation any more.
    Unfreeze {
        /// That generation.
        ours: Generation,
    },
    /// 5: the left one knows that the right one goes on.
    UnfreezeDone {
        /// The right one.
        right: ShardId,
    },
}

/// What the leaders of both say to each other. It may be lost, repeated and late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeMessage {
    /// 0, to the right one: freeze.
    Freeze {
        /// The caller.
        left: ShardId,
        /// At its generation,
        ours: Generation,
        /// and yours.
        yours: Generation,
        /// Of this keyspace.
        keyspace: KeyspaceId,
        /// Where its arc ends: the place behind its keyspace.
        end: Vec<u8>,
        /// Where its replicas are, in order.
        nodes: Vec<NodeId>,
    },
    /// 1, to the left one: it is frozen, and all its replicas have that on disk.
    Frozen {
        /// Who.
        right: ShardId,
        /// For your generation.
        yours: Generation,
        /// As of this entry,
        index: u64,
        /// of this term.
        term: u64,
        /// All timestamps up to then, and all that was promised to readers, lie at or below.
        last: Timestamp,
    },
    /// 2, to the left one: it cannot be frozen now.
    CannotFreeze {
        /// Who.
        right: ShardId,
        /// For your generation.
        yours: Generation,
    },
    /// 3, to the right one: the merge is cancelled.
    Unfreeze {
        /// Who says so.
        left: ShardId,
        /// Your generation, at which you may be frozen.
        yours: Generation,
    },
    /// 4, to the left one: it goes on, and will not be frozen at that generation any more.
    UnfreezeDone {
        /// Who.
        right: ShardId,
        /// That generation of it.
        ours: Generation,
    },
}

/// The state of the right shard's local replica, ready to be absorbed.
#[derive(Debug)]
pub struct Absorb {
    /// The right one,
    pub right: ShardId,
    /// as of this entry of it,
    pub index: u64,
    /// which has this term.
    pub term: u64,
}

impl MergeStatus {
    /// Whether the usual may change the shard.
    pub fn is_not(&self) -> bool {
        matches!(self, MergeStatus::None)
    }

    /// Whether it is frozen: nothing changes, and it serves nobody.
    pub fn is_frozen(&self) -> bool {
        matches!(self, MergeStatus::Frozen { .. })
    }

    /// Whether the shard is to absorb this right neighbour.
    pub fn takes_right(&self, right: ShardId) -> bool {
        matches!(self, MergeStatus::TakingRight { right: meant, .. } if *meant == right)
    }

    /// Whether its replicas are to stay as they are.
    pub fn keeps_replicas(&self) -> bool {
        matches!(self, MergeStatus::TakingRight { .. } | MergeStatus::Frozen { .. })
    }

    /// Appends its bytes; none for the usual.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            MergeStatus::None => {}
            MergeStatus::TakingRight { right, generation } => put(1, &[right.0, generation.0], out),
            MergeStatus::Cancelled { right, generation } => put(2, &[right.0, generation.0], out),
            MergeStatus::Frozen { by, generation, index, term, last, horizon } => {
                put(3, &[by.0, generation.0, index, term, last.0, horizon.0], out);
            }
        }
    }

    /// Reads one value from the rest of the bytes, which may be empty.
    ///
    /// # Errors
    /// [`DecodeError`]: it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if reader.rest().is_empty() {
            return Ok(MergeStatus::None);
        }
        let tag = reader.u8()?;
        let (shard, generation) = (ShardId(reader.varint()?), Generation(reader.varint()?));
        Ok(match tag {
            1 => MergeStatus::TakingRight { right: shard, generation },
            2 => MergeStatus::Cancelled { right: shard, generation },
            3 => MergeStatus::Frozen {
                by: shard,
                generation,
                index: reader.varint()?,
                term: reader.varint()?,
                last: Timestamp(reader.varint()?),
                horizon: Timestamp(reader.varint()?),
            },
            found => return Err(DecodeError::Tag { what: "state of a merge", found }),
        })
    }
}

impl MergeStep {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match *self {
            MergeStep::Intend { right, theirs, ours } => {
                put(0, &[right.0, theirs.0, ours.0], &mut out)
            }
            MergeStep::Freeze { by, theirs, ours } => put(1, &[by.0, theirs.0, ours.0], &mut out),
            MergeStep::Absorb { right, index, term, ours } => {
                put(2, &[right.0, index, term, ours.0], &mut out);
            }
            MergeStep::Cancel { ours } => put(3, &[ours.0], &mut out),
            MergeStep::Unfreeze { ours } => put(4, &[ours.0], &mut out),
            MergeStep::UnfreezeDone { right } => put(5, &[right.0], &mut out),
        }
        out
    }

    /// Reads one from all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`]: they hold something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(bytes);
        let tag = reader.u8()?;
        let first = reader.varint()?;
        let mut more = || reader.varint();
        let step = match tag {
            0 => MergeStep::Intend {
                right: ShardId(first),
                theirs: Generation(more()?),
                ours: Generation(more()?),
            },
            1 => MergeStep::Freeze {
                by: ShardId(first),
                theirs: Generation(more()?),
                ours: Generation(more()?),
            },
            2 => MergeStep::Absorb {
                right: ShardId(first),
                index: more()?,
                term: more()?,
                ours: Generation(more()?),
            },
            3 => MergeStep::Cancel { ours: Generation(first) },
            4 => MergeStep::Unfreeze { ours: Generation(first) },
            5 => MergeStep::UnfreezeDone { right: ShardId(first) },
            found => return Err(DecodeError::Tag { what: "step of a merge", found }),
        };
        reader.end()?;
        Ok(step)
    }
}

impl ShardState {
    /// Whether nothing else is under way: neither its replicas change, nor is it to be merged.
    pub fn is_at_rest(&self) -> bool {
        self.members.learners.is_empty()
            && !self.members.is_joint()
            && self.roster.is_settled
            && self.merging.is_not()
    }

    /// A step that needs nothing from outside is applied.
    pub(crate) fn merge(&mut self, step: &MergeStep) {
        let generation = self.descriptor.generation;
        let has_keys = self.engine().is_some();
        match (*step, self.merging) {
            (MergeStep::Intend { right, theirs, ours }, _)
                if ours == generation && has_keys && self.is_at_rest() =>
            {
                self.merging = MergeStatus::TakingRight { right, generation: theirs };
            }
            (MergeStep::Freeze { by, theirs, ours }, _)
                if ours == generation && has_keys && self.is_at_rest() =>
            {
                let (index, term) = (self.applied_index, self.applied_term);
                let (generation, last, horizon) = (theirs, self.last, self.horizon);
                self.merging = MergeStatus::Frozen { by, generation, index, term, last, horizon };
            }
            (
                MergeStep::Cancel { ours },
                MergeStatus::TakingRight { right, generation: theirs },
            ) if ours == generation => {
                self.merging = MergeStatus::Cancelled { right, generation: theirs };
                self.descriptor.generation = Generation(generation.0 + 1);
            }
            // There is no state to take in: the caller has looked for it before.
            (
                MergeStep::Absorb { ours, .. },
                MergeStatus::TakingRight { right, generation: theirs },
            ) if ours == generation => {
                self.merging = MergeStatus::Cancelled { right, generation: theirs };
                self.descriptor.generation = Generation(generation.0 + 1);
            }
            (MergeStep::Unfreeze { ours }, merging) if ours == generation => {
                if merging.is_frozen() {
                    self.merging = MergeStatus::None;
                }
                self.descriptor.generation = Generation(generation.0 + 1);
            }
            (MergeStep::UnfreezeDone { right }, MergeStatus::Cancelled { right: waits, .. })
                if right == waits =>
            {
                self.merging = MergeStatus::None;
            }
            _ => {}
        }
    }

    /// What has to be at hand before an entry can be applied that takes a neighbour in; none for
    /// all others, also if that one is not to be taken in any more.
    pub(crate) fn absorbs(&self, entry: &Entry) -> Option<Absorb> {
        if entry.data().first() != Some(&(Kind::Merge as u8)) {
            return None;
        }
        let (header, body) = Header::decode(entry.data())?;
        let Ok(MergeStep::Absorb { right, index, term, ours }) = MergeStep::decode(body) else {
            return None;
        };
        let fits = header.term == entry.term()
            && ours == self.descriptor.generation
            && self.merging.takes_right(right);
        fits.then_some(Absorb { right, index, term })
    }

    /// Applies the entry that takes in the neighbour with this state.
    ///
    /// # Panics
    /// If that is not what [`Self::absorbs`] asked for.
    pub(crate) fn absorb(&mut self, entry: &Entry, right: Self) {
        assert_eq!(entry.index(), self.applied_index + 1, "entries are applied without gaps");
        let (header, _) = Header::decode(entry.data()).expect("entries in the log are readable");
        let absorbed = self.absorbs(entry).expect("the entry was checked before");
        let MergeStatus::Frozen { by, index, last, horizon, .. } = right.merging else {
            panic!("a shard that goes on is taken in");
        };
        assert_eq!((by, index), (self.descriptor.shard, absorbed.index), "another state");
        assert!(header.timestamp > self.last.max(last), "timestamps rise with the log index (G2)");
        (self.applied_index, self.applied_term) = (entry.index(), entry.term());
        (self.last, self.horizon) = (header.timestamp, self.horizon.max(horizon));
        self.merging = MergeStatus::None;
        // A reader in several pieces starts again.
        self.cuts += 1;
        let Descriptor { arc, generation, .. } = &mut self.descriptor;
        *arc = arc.join(&right.descriptor.arc).expect("it was frozen as the neighbour");
        *generation = Generation(generation.0.max(right.descriptor.generation.0) + 1);
        self.sessions.unite(right.sessions);
        self.locks.unite(right.locks);
        self.fence = self.fence.join(right.fence);
        let (Content::Keys(engine), Content::Keys(more)) = (&mut self.content, right.content)
        else {
            panic!("shards without keys are merged");
        };
        engine.join(*more);
    }

    /// Takes what it holds away: it owns nothing afterwards.
    pub(crate) fn take(&mut self) -> Self {
        let Content::Keys(engine) = &mut self.content else {
            panic!("a shard without keys is merged");
        };
        let content = Content::Keys(Box::new(engine.take()));
        self.cuts += 1;
        self.merged_away = true;
        let mut merged_away = Self::new(self.descriptor.clone(), content);
        merged_away.sessions = std::mem::take(&mut self.sessions);
        merged_away.locks = std::mem::take(&mut self.locks);
        merged_away.fence = self.fence;
        (merged_away.merging, merged_away.last, merged_away.horizon) =
            (self.merging, self.last, self.horizon);
        merged_away
    }
}

/// Whether the shard of a local replica was merged away, and into which shard. A shard keeps its
/// start until it is absorbed. So `owner`, which owns that start at a higher generation, has
/// absorbed it, directly or through another shard. While a local replica of the left neighbour or
/// of `owner` may still have to take over this state, the answer is none.
pub fn superseded<'a>(
    here: &Descriptor,
    mut all_here: impl Iterator<Item = &'a Descriptor>,
    owner: Option<&Descriptor>,
) -> Option<ShardId> {
    let owner = owner.filter(|o| o.shard != here.shard && o.generation > here.generation)?;
    let start = here.arc.start();
    let is_waited_for = all_here.any(|other| {
        let is_left = other.shard != here.shard && other.arc.end() == start;
        (is_left || other.shard == owner.shard)
            && other.keyspace() == here.keyspace()
            && other.generation < owner.generation
    });
    (!is_waited_for && !start.tail().is_empty()).then_some(owner.shard)
}

fn put(tag: u8, words: &[u64], out: &mut Vec<u8>) {
    out.push(tag);
    words.iter().for_each(|word| put_varint(*word, out));
}

mod codec;
mod merged_tiles;

pub use merged_tiles::MergedTiles;

#[cfg(test)]
mod tests;
