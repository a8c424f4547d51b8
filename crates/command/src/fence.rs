//! Who may write to a volume? One session of writers; those before it are fenced off (SAFETY G28).
//!
//! ```text
//!   A connects, epoch 5    FENCE 5 A ──► every shard: 5 A      block 5 A ──► written
//!   B connects, epoch 9    FENCE 9 B ──► every shard: 9 B      block 9 B ──► written
//!   A goes on              block 5 A ──► refused, at whatever shard: nothing is done
//! ```
//!
//! A [`Writer`] is a session, and the epoch at which one of its connections has come. Each shard of
//! the volume has a [`Fence`] in its replicated state: the writer that it obeys. A connection sends
//! a fence to all shards of the volume, and writes once all have it ([`Claim`]). So when its first
//! write is answered, no shard takes a block from a session before it.
//!
//! Several connections of one session have epochs of their own: they may have come to several
//! nodes. Any of them may write, unless another session has had the volume since it came. That is
//! the fence's *floor*: the highest epoch that another session had.
//!
//! Epochs are timestamps of nodes, whose clocks differ. A connection of a node whose clock is
//! behind may be refused though it has come later; the next one of that node is not ([`Epochs`]).
//!
//! # Invariants
//! 1. A writer that is refused stays refused: a shard's fence only rises, in splits and merges too.
//! 2. Of two sessions, the one that has come later can take the volume from the other, and never
//!    the other way round.

use std::cmp::Ordering;

use keyspace::codec::Reader;
use keyspace::{Arc as RingArc, Cut, DecodeError};

use crate::{Reply, Write, flush};

/// A connection that writes to a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    /// When it has come: a timestamp of its node.
    pub epoch: u64,
    /// Its session, which other connections may share; never 0.
    pub session: u64,
}

impl Writer {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { epoch: reader.u64()?, session: reader.u64()? })
    }
}

impl Write<'_> {
    /// The piece of a fence that is for a tile.
    pub fn fence_of(writer: Writer, tile: &RingArc) -> Write<'static> {
        let (from, end) = tile.ends();
        Write::Fence { writer, from, end }
    }
}

/// The writer that a shard obeys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    writer: Writer,
    /// No connection at or below this epoch may write, whatever its session.
    floor: u64,
}

impl Fence {
    /// Whether nobody has ever written.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The highest epoch of its session.
    pub fn epoch(&self) -> u64 {
        self.writer.epoch
    }

    /// Whether this writer may write.
    pub fn admits(&self, writer: Writer) -> bool {
        writer.session == self.writer.session && writer.epoch > self.floor
    }

    /// Obeys this writer from now on, unless it is fenced off.
    ///
    /// # Errors
    /// The epoch by which it is.
    pub fn raise(&mut self, writer: Writer) -> Result<(), u64> {
        let Self { writer: before, floor } = *self;
        match writer.session == before.session {
            true if writer.epoch > floor => self.writer.epoch = writer.epoch.max(before.epoch),
            false if writer.epoch > before.epoch => {
                *self = Self { writer, floor: before.epoch };
            }
            _ => return Err(before.epoch),
        }
        Ok(())
    }

    /// What two shards obey that become one: the later of both, and nobody whom either refuses.
    pub fn join(self, other: Self) -> Self {
        let (later, earlier) = match self.writer.cmp(&other.writer) {
            Ordering::Less => (other, self),
            Ordering::Equal | Ordering::Greater => (self, other),
        };
        let is_same = later.writer.session == earlier.writer.session;
        let refused = if is_same { earlier.floor } else { earlier.writer.epoch };
        Self { floor: later.floor.max(refused), ..later }
    }

    /// Does this shard's part of a piece of a fence. The fence of a shard is one for all its keys.
    pub fn apply(&mut self, writer: Writer, arc: &RingArc, piece: (&Cut, &Cut)) -> Reply {
        let (here, rest) = flush::part(arc, Some(piece.0), piece.1);
        if here.is_some()
            && let Err(epoch) = self.raise(writer)
        {
            return Reply::Fenced { epoch };
        }
        rest.map_or(Reply::Ok, |from| Reply::Moved { from })
    }

    /// Appends its bytes: epoch, session and floor, u64 each.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.writer.encode(out);
        out.extend_from_slice(&self.floor.to_le_bytes());
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { writer: Writer::decode(reader)?, floor: reader.u64()? })
    }
}

/// The epochs that a node gives to connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epochs {
    newest: u64,
}

impl Epochs {
    /// That of the next connection, at a timestamp of the node that nothing else has.
    pub fn next(&mut self, tick: u64) -> u64 {
        self.newest = tick.max(self.newest.saturating_add(1));
        self.newest
    }

    /// A shard has refused a connection by this epoch. The next one is later, whatever the clock
    /// of this node says.
    pub fn saw(&mut self, epoch: u64) {
        self.newest = self.newest.max(epoch);
    }
}

/// What a connection does before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    writer: Writer,
    state: ClaimState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    /// It has not asked, or cannot tell whether all shards have its fence.
    Open,
    /// Pieces of its fence are on their way; one may be refused by now.
    Asked { is_refused: bool },
    /// All shards have its fence.
    Held,
    /// Another session has the volume.
    Lost,
}

/// The next thing to do for a connection that is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Send a fence to all shards.
    Ask(Writer),
    /// Wait for the answers.
    Wait,
    /// Write.
    Write(Writer),
    /// It writes nothing any more.
    Refuse,
}

impl Claim {
    /// That of a connection that has just come.
    pub fn new(writer: Writer) -> Self {
        Self { writer, state: ClaimState::Open }
    }

    /// Whose it is.
    pub fn writer(&self) -> Writer {
        self.writer
    }

    /// Whether it has to ask, for the first time or again.
    pub fn is_open(&self) -> bool {
        self.state == ClaimState::Open
    }

    /// Whether all shards have its fence.
    pub fn is_held(&self) -> bool {
        self.state == ClaimState::Held
    }

    /// Whether another session has the volume.
    pub fn is_lost(&self) -> bool {
        self.state == ClaimState::Lost
    }

    /// It is to write: what comes first. After [`ClaimStep::Ask`] its answers are told.
    pub fn step(&mut self) -> ClaimStep {
        match self.state {
            ClaimState::Open => {
                self.state = ClaimState::Asked { is_refused: false };
                ClaimStep::Ask(self.writer)
            }
            ClaimState::Asked { .. } => ClaimStep::Wait,
            ClaimState::Held => ClaimStep::Write(self.writer),
            ClaimState::Lost => ClaimStep::Refuse,
        }
    }

    /// A shard has refused a piece of the fence, or a block.
    pub fn refused(&mut self) {
        self.state = match self.state {
            ClaimState::Asked { .. } => ClaimState::Asked { is_refused: true },
            _ => ClaimState::Lost,
        };
    }

    /// All pieces of the fence are answered; `all_done` says whether each of them was done.
    pub fn answered(&mut self, all_done: bool) {
        if let ClaimState::Asked { is_refused } = self.state {
            self.state = match (is_refused, all_done) {
                (true, _) => ClaimState::Lost,
                (false, true) => ClaimState::Held,
                (false, false) => ClaimState::Open,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspace::KeyspaceId;
    use proptest::prelude::*;

    use super::*;

    fn writer(epoch: u64, session: u64) -> Writer {
        Writer { epoch, session }
    }

    #[test]
    fn newer_session_takes_the_volume_and_the_one_before_never_writes_again() {
        let mut fence = Fence::default();
        assert!(fence.is_none() && !fence.admits(writer(5, 1)));
        assert_eq!(fence.raise(writer(5, 1)), Ok(()));
        assert!(fence.admits(writer(5, 1)) && fence.admits(writer(3, 1)), "both are of session 1");
        assert!(!fence.admits(writer(9, 2)), "it has to fence first");
        // A session that came before cannot take it.
        assert_eq!(fence.raise(writer(4, 2)), Err(5));
        assert_eq!(fence.raise(writer(5, 2)), Err(5));
        assert_eq!(fence.raise(writer(9, 2)), Ok(()));
        assert!(!fence.admits(writer(5, 1)));
        assert_eq!(fence.raise(writer(5, 1)), Err(9));
        // The first one comes again by its name; its old connections stay refused.
        assert_eq!(fence.raise(writer(12, 1)), Ok(()));
        assert!(fence.admits(writer(12, 1)));
        assert!(!fence.admits(writer(5, 1)) && fence.raise(writer(5, 1)) == Err(12));
    }

    #[test]
    fn merged_shards_obey_the_later_and_refuse_whom_either_refused() {
        let of = |all: &[(u64, u64)]| {
            let mut fence = Fence::default();
            for (epoch, session) in all {
                fence.raise(writer(*epoch, *session)).expect("each is later than the one before");
            }
            fence
        };
        let joined = of(&[(5, 1)]).join(of(&[(5, 1), (9, 2)]));
        assert!(joined.admits(writer(9, 2)) && !joined.admits(writer(5, 1)));
        assert!(!joined.admits(writer(5, 2)), "session 1 has had it since");
        // One half has seen session 1 come back, the other has seen who was between.
        let joined = of(&[(5, 1), (12, 1)]).join(of(&[(5, 1), (9, 2)]));
        assert!(joined.admits(writer(12, 1)) && !joined.admits(writer(5, 1)));
        assert_eq!(Fence::default().join(of(&[(5, 1)])), of(&[(5, 1)]));
    }

    #[test]
    fn shard_does_its_part_of_a_fence_and_names_the_rest() {
        const K: KeyspaceId = KeyspaceId(1);
        let arc = RingArc::of_slots(K, 0, 1000);
        let mut fence = Fence::default();
        let (from, end) = (Cut::Slot(0), Cut::Slot(2000));
        let rest = Reply::Moved { from: Cut::Slot(1000) };
        assert_eq!(fence.apply(writer(5, 1), &arc, (&from, &end)), rest);
        assert!(fence.admits(writer(5, 1)));
        let elsewhere = Cut::Slot(1500);
        let moved = Reply::Moved { from: elsewhere.clone() };
        assert_eq!(fence.apply(writer(9, 2), &arc, (&elsewhere, &end)), moved);
        assert!(fence.admits(writer(5, 1)), "nothing was done");
        let fenced = Reply::Fenced { epoch: 5 };
        assert_eq!(fence.apply(writer(4, 2), &arc, (&from, &end)), fenced);
        let whole = Write::fence_of(writer(9, 2), &arc);
        let Write::Fence { writer, from, end } = whole else { panic!("it is a fence") };
        assert_eq!(fence.apply(writer, &arc, (&from, &end)), Reply::Ok);
    }

    #[test]
    fn connection_writes_once_all_shards_have_its_fence() {
        let mut claim = Claim::new(writer(5, 1));
        assert_eq!(claim.step(), ClaimStep::Ask(writer(5, 1)));
        assert_eq!(claim.step(), ClaimStep::Wait);
        // A shard has not answered: it asks again.
        claim.answered(false);
        assert_eq!(claim.step(), ClaimStep::Ask(writer(5, 1)));
        claim.answered(true);
        assert_eq!(claim.step(), ClaimStep::Write(writer(5, 1)));
        claim.refused();
        assert_eq!(claim.step(), ClaimStep::Refuse);
        let mut claim = Claim::new(writer(5, 1));
        claim.step();
        claim.refused();
        assert_eq!(claim.step(), ClaimStep::Wait, "other pieces are on their way");
        claim.answered(false);
        assert_eq!(claim.step(), ClaimStep::Refuse);
    }

    fn fences() -> impl Strategy<Value = Fence> {
        prop::collection::vec((1..20u64, 1..4u64), 0..8).prop_map(|all| {
            let mut fence = Fence::default();
            for (epoch, session) in all {
                let _is_refused = fence.raise(writer(epoch, session));
            }
            fence
        })
    }

    proptest! {
        #[test]
        fn fences_come_back_and_only_rise(one in fences(), other in fences(), epoch in 1..20u64) {
            let mut bytes = Vec::new();
            one.encode(&mut bytes);
            prop_assert_eq!(Fence::decode(&mut Reader::new(&bytes)), Ok(one));
            prop_assert!(Fence::decode(&mut Reader::new(&bytes[1..])).is_err());
            let joined = one.join(other);
            prop_assert_eq!(joined, other.join(one));
            prop_assert_eq!(one.join(one), one);
            for session in 1..4 {
                let by = writer(epoch, session);
                let mut after = joined;
                let may_come_back = after.raise(by).is_ok();
                for half in [one, other] {
                    let mut alone = half;
                    // Who could neither write nor take it, cannot after the merge.
                    let was_refused = alone.raise(by).is_err();
                    prop_assert!(!was_refused || !may_come_back, "{half:?} {by:?}");
                    prop_assert!(was_refused || !half.admits(by) || alone.admits(by));
                }
            }
        }
    }
}
