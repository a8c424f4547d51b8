//! One member's whole table: its place in the ring, and its fingers.
//!
//! [`Linear`](crate::Linear), [`Chord`](crate::Chord) and [`ChordSharp`](crate::ChordSharp) differ
//! only in their fingers: which there are, and how they find and refresh them ([`Fingers`]). The
//! [`Ring`] holds the rows beside the list of successors, so that whatever it learns reaches both.
//!
//! ```text
//!   tick ──► Ring: stabilise, doubts    ──► Fingers: look for the next one
//!   message ─► Ring: its sender is alive ──► Fingers: is it theirs? ──► else the Ring answers
//! ```

use std::fmt;
use std::sync::Arc as Shared;

use keyspace::{Generation, NodeId, ShardId};

use super::message::{RingMessage, Strategy};
use super::place::{Entry, Members};
use super::{Ring, TableEntry};
use crate::known_shard::KnownShard;
use crate::lookup::{LearnOutcome, Lookup, Outbox, Step, Update};
use crate::message::Message;
use crate::point::Point;

/// A member that is far ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finger {
    /// What its strategy calls it. Fingers rise in level and in place.
    pub level: u8,
    /// The member.
    pub entry: Entry,
}

/// How fingers are looked for: what one strategy has beside a ring.
pub trait Fingers: Clone + fmt::Debug {
    /// Which strategy that makes.
    const STRATEGY: Strategy;

    /// Those of the member at `at` in a stable ring, in which its place is `ring`.
    fn ideal(&self, ring: &Ring, all: &Members, at: usize) -> Vec<Finger>;

    /// One unit of time passes.
    fn tick(&mut self, ring: &mut Ring, out: &mut Outbox);

    /// A member says something; given back if it is for the ring.
    fn step(
        &mut self,
        ring: &mut Ring,
        from: &Shared<KnownShard>,
        word: RingMessage,
        out: &mut Outbox,
    ) -> Option<RingMessage>;
}

/// One member's table.
#[derive(Clone, Debug)]
pub struct MemberTable<F> {
    ring: Ring,
    search: F,
}

impl<F: Fingers> MemberTable<F> {
    /// A member that knows nobody yet, or is the only one.
    pub(crate) fn of(search: F, me: Shared<KnownShard>, length: usize) -> Self {
        Self { ring: Ring::new(F::STRATEGY, me, length), search }
    }

    /// After `left`, whose list is `list`.
    pub(crate) fn joined(mut self, left: &Shared<KnownShard>, list: &[Shared<KnownShard>]) -> Self {
        self.ring.adopt(left, list);
        self
    }

    /// Of a stable ring.
    pub(crate) fn ideal_of(search: F, all: &Members, at: usize, length: usize) -> Self {
        let mut ring = Ring::ideal(F::STRATEGY, all, at, length);
        ring.fingers = search.ideal(&ring, all, at);
        ring.fingers.shrink_to_fit();
        Self { ring, search }
    }

    /// Its questions carry numbers above this one. A table that is made anew after a restart must
    /// not count as the one before did, or late answers to that one's questions would be taken.
    #[must_use]
    pub fn counting_from(mut self, number: u64) -> Self {
        self.ring.number = number;
        self
    }

    /// Its place in the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What leads a request for a point on from here; `None` if nothing does, or it has arrived.
    pub fn via(&self, point: Point<'_>) -> Option<(TableEntry, Shared<KnownShard>)> {
        self.ring.via(point)
    }

    /// Everybody in the table: the successors, then the fingers.
    pub fn entries(&self) -> impl Iterator<Item = (TableEntry, &Shared<KnownShard>)> {
        self.ring.entries()
    }

    /// Fingers beside the successors.
    pub fn fingers(&self) -> usize {
        self.ring.fingers.len()
    }
}

impl<F: Fingers + Default> MemberTable<F> {
    /// A member that knows no other yet, or is the only one; lists of `length` successors.
    pub fn new(me: Shared<KnownShard>, length: usize) -> Self {
        Self::of(F::default(), me, length)
    }

    /// A member that joins right after `left`, whose list is `list` ([`Ring::list`]).
    pub fn join(
        me: Shared<KnownShard>,
        left: Shared<KnownShard>,
        list: &[Shared<KnownShard>],
        length: usize,
    ) -> Self {
        Self::new(me, length).joined(&left, list)
    }

    /// The table that the member at `at` has in a stable ring.
    pub fn ideal(all: &Members, at: usize, length: usize) -> Self {
        Self::ideal_of(F::default(), all, at, length)
    }
}

impl<F: Fingers> Lookup for MemberTable<F> {
    fn next(&self, point: Point<'_>) -> Step<'_> {
        self.ring.next(point)
    }

    fn learn(&mut self, news: Update) -> LearnOutcome {
        self.ring.learn(news)
    }

    fn mark_unreachable(&mut self, shard: ShardId, generation: Generation) {
        if self.ring.remembers(shard, generation) {
            self.ring.mark_unreachable(shard);
        }
    }

    fn peers(&mut self, nodes: &[NodeId]) {
        self.ring.peers(nodes);
    }

    fn tick(&mut self, out: &mut Outbox) {
        self.ring.tick(out);
        self.search.tick(&mut self.ring, out);
    }

    fn step(&mut self, _: NodeId, message: Message, out: &mut Outbox) {
        let Some((from, word)) = self.ring.open(message) else { return };
        if let Some(word) = self.search.step(&mut self.ring, &from, word, out) {
            self.ring.step(from, word, out);
        }
    }
}
