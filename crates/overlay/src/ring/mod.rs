//! A ring of shards: each knows its successors and its predecessor.
//!
//! The members of a ring are the shards of one keyspace. A member's **place** is the start of its
//! arc; it owns the arc up to the next place. The node that leads a member keeps its list of
//! successors and its predecessor. [`linear`](crate::linear), [`chord`](crate::chord) and
//! [`chord_sharp`](crate::chord_sharp) build on the ring: [`member`] says how.
//!
//! ```text
//!      a ●───────● b            a: successors b, c, d   predecessor e
//!       /         \             b: successors c, d, e   predecessor a
//!    e ●           ● c          e: successors a, b, c   predecessor d
//!       \         /
//!        ●───────┘ d            in a ring of at most r members a list ends with its owner:
//!                               it has come around
//! ```
//!
//! # Three examples
//! *Join.* Shard b splits, and x is the right half. b learns of x first, since its own descriptor
//! ends where that of x starts, and hands its list on. x begins with b as predecessor and b's
//! successors as its own. Its next stabilise tells c that x is before it. If no member hands a list
//! on, x asks the member it has heard of, and goes on from there until it finds its place between
//! two. A joining member writes no other member's state.
//!
//! *Leave.* b absorbs c. b's newer descriptor holds c's place, so b drops c from its list at once.
//! So does every member that hears of that descriptor. d hears of b by b's next stabilise.
//!
//! *Failure.* c is silent. b asks again at each tick, [`SILENCE_TICKS`] times, and then takes it
//! for dead. It goes on with d, the next of its list, and d's list makes b's full again. d hears
//! from b that b is before it, pings c, and takes b when c does not answer.
//!
//! # Stabilise and rectify (Zave 2017, ALGORITHMS 1.2)
//! ```text
//!   t asks its head s for (predecessor p, list)        silent: the next of the list is the head
//!      t.list := s, s.list                             no change of the head from here …
//!      p between t and s?  no ──► notify s
//!         yes: t asks p ── answers: t.list := p, p.list; notify p
//!                       └─ silent: notify s            … to here, or else it begins again
//!   n is notified by q: no predecessor, or it does not answer a ping, or q is closer ──► q
//! ```
//!
//! # Invariants
//! 1. The list rises strictly, seen from its owner. Only its last may be the owner itself, and then
//!    no other member is known.
//! 2. Places decide the order, all their bytes. No member is listed if a later descriptor gives its
//!    place to another. A shard's place never changes, except that the last shard's may become the
//!    origin; a member ignores any other claim. If a table's own shard gets another place, its node
//!    makes the table anew.
//! 3. At most one question and one ping are open. Answers carry their number, so late ones and
//!    repetitions change nothing. Any change of the list's head ends the question.
//! 4. Handlers run to their end and wait for nothing. A member answers a question at once, in any
//!    state.
//!
//! # While members fail
//! A ring of at least r + 1 members stays one ring, and every member is reached, under two
//! conditions: no member loses the last live member of its list, and r + 1 members stay that no
//! list skips ([`ideal`] checks both). That needs silence to mean death, which is not always so. So
//! a member pings for a while those that it takes for dead. If one answers, it is a member again.
//! It then leads to the place that this member has in *its* ring, which may be another by then. The
//! member at that place hears of this one, and the two rings become one.
//!
//! # Limits
//! | what | at most | beyond it |
//! |---|---|---|
//! | successors | [`SUCCESSORS_MAX`] | not listed |
//! | ticks before silence means death | [`SILENCE_TICKS`] | asked at each of them |
//! | members taken for dead | [`SUSPECTS_MAX`] | the oldest is forgotten |
//! | pings of one of them | [`SUSPECT_PINGS_MAX`] | forgotten; news of it is learnt all the same |
//! | members not to be trusted | [`DISTRUSTED_MAX`] | the oldest is trusted again |
//!
//! # Caveats
//! A joining shard is no member until it has a list, and answers no question until then. If all
//! members that it knows leave before another knows it, no member ever will. So never merge away a
//! shard that is the only one in another's list ([`ideal::may_leave`]).
//!
//! A network partition that outlasts the pings may leave two rings. Descriptors heal them: a member
//! that [learns](crate::Lookup::learn) of one between itself and its head takes it as its head.
//!
//! A list with places of many KiB may be too long for a message; it is cut, and then shorter.

pub mod aggressive;
pub mod ideal;
mod learn;
pub mod member;
pub mod message;
pub mod place;
mod stabilise;

use std::fmt;
use std::sync::Arc as Shared;

use keyspace::{NodeId, ShardId};

use crate::known_shard::KnownShard;
use crate::lookup::{Outbox, Step};
use crate::message::Message;
use crate::point::Point;
use member::Finger;
use message::{RingMessage, Strategy};
use place::{Entry, Members, PointView, between};
use stabilise::{Doubt, Question, Suspect};

/// How many successors a member lists, unless there is a reason.
pub const SUCCESSORS: usize = 4;

/// The least successors of a list: with one, a single failure ends the ring.
pub const SUCCESSORS_MIN: usize = 2;

/// The most successors of a list.
pub const SUCCESSORS_MAX: usize = 16;

/// How many ticks a member may be silent before it is taken for dead.
pub const SILENCE_TICKS: u8 = 4;

/// The most members taken for dead that are pinged.
pub const SUSPECTS_MAX: usize = 8;

/// Every so many ticks it pings one member that it took for dead.
pub const SUSPECT_TICKS: u8 = 4;

/// How many times it pings one of them before it forgets it.
pub const SUSPECT_PINGS_MAX: u8 = 64;

/// The most members that are not trusted.
pub const DISTRUSTED_MAX: usize = 16;

/// Which part of a table led a request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableEntry {
    /// The list of successors, at this index.
    Successor(u8),
    /// The finger of this level.
    Finger(u8),
}

impl fmt::Display for TableEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableEntry::Successor(index) => write!(f, "successor {index}"),
            TableEntry::Finger(level) => write!(f, "finger {level}"),
        }
    }
}

/// What one member knows of its neighbours.
#[derive(Clone, Debug)]
pub struct Ring {
    strategy: Strategy,
    length: u8,
    /// Ticks until a suspect is pinged.
    suspect_ticks: u8,
    me: Entry,
    /// The nearest first, strictly rising; the last may be `me`.
    successors: Vec<Entry>,
    /// Rising in level and place, as they were found.
    pub(crate) fingers: Vec<Finger>,
    predecessor: Option<Shared<KnownShard>>,
    /// Who has come back from the dead, and may belong to another ring: to be asked next.
    guide: Option<Shared<KnownShard>>,
    /// The number of the last question.
    number: u64,
    question: Option<Box<Question>>,
    doubt: Option<Box<Doubt>>,
    suspects: Vec<Suspect>,
    distrusted: Vec<ShardId>,
    peers: Vec<NodeId>,
}

impl Ring {
    /// A member that knows nobody, and asks the first that it learns of; the only one if it owns
    /// the whole circle.
    ///
    /// # Panics
    /// If `length` is not from [`SUCCESSORS_MIN`] to [`SUCCESSORS_MAX`].
    pub(crate) fn new(strategy: Strategy, me: Shared<KnownShard>, length: usize) -> Self {
        assert!((SUCCESSORS_MIN..=SUCCESSORS_MAX).contains(&length), "a list of {length}");
        let mut ring = Self {
            strategy,
            length: length as u8,
            suspect_ticks: SUSPECT_TICKS,
            me: Entry::new(me),
            successors: Vec::new(),
            fingers: Vec::new(),
            predecessor: None,
            guide: None,
            number: 0,
            question: None,
            doubt: None,
            suspects: Vec::new(),
            distrusted: Vec::new(),
            peers: Vec::new(),
        };
        ring.become_sole_member();
        ring
    }

    /// A member of a stable ring.
    pub(crate) fn ideal(strategy: Strategy, all: &Members, at: usize, length: usize) -> Self {
        let mut ring = Self::new(strategy, all.after(at, 0).known().clone(), length);
        let listed = length.min(all.len());
        ring.successors = (1..=listed).map(|steps| all.after(at, steps).clone()).collect();
        let before = all.after(at, all.len() - 1);
        ring.predecessor = (all.len() > 1).then(|| before.known().clone());
        ring
    }

    /// The member whose table this is.
    pub fn me(&self) -> &Shared<KnownShard> {
        self.me.known()
    }

    /// Its row.
    pub(crate) fn row(&self) -> &Entry {
        &self.me
    }

    /// The successors, the nearest first. If the last is the member itself, there are no others.
    pub fn successors(&self) -> &[Entry] {
        &self.successors
    }

    /// The successors as they are handed on.
    pub fn list(&self) -> Vec<Shared<KnownShard>> {
        self.successors.iter().map(|entry| entry.known().clone()).collect()
    }

    /// The successors with their index, but for the member itself, then the fingers.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (TableEntry, &Shared<KnownShard>)> {
        let others = (0..).zip(&self.successors).filter(|(_, entry)| !self.is_me(entry.known()));
        let others = others.map(|(index, entry)| (TableEntry::Successor(index), entry.known()));
        let fingers = self.fingers.iter();
        others.chain(fingers.map(|finger| (TableEntry::Finger(finger.level), finger.entry.known())))
    }

    /// The next member, unless there is none, or none is known.
    pub fn head(&self) -> Option<&Entry> {
        self.successors.first().filter(|head| !self.is_me(head.known()))
    }

    /// Its predecessor, as far as it knows.
    pub fn predecessor(&self) -> Option<&Shared<KnownShard>> {
        self.predecessor.as_ref()
    }

    /// The most successors of its list.
    pub fn length(&self) -> usize {
        self.length.into()
    }

    /// Which of the strategies keeps it.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Whether it has joined: has a list.
    pub fn has_joined(&self) -> bool {
        !self.successors.is_empty()
    }

    /// Whether a question of its own is open.
    pub fn is_asking(&self) -> bool {
        self.question.is_some() || self.doubt.is_some()
    }

    pub(crate) fn peers(&mut self, nodes: &[NodeId]) {
        self.peers = nodes.to_vec();
    }

    pub(crate) fn is_me(&self, known: &KnownShard) -> bool {
        known.shard() == self.me.shard()
    }

    pub(crate) fn is_trusted(&self, entry: &Entry) -> bool {
        self.distrusted.is_empty() || !self.distrusted.contains(&entry.shard())
    }

    /// Whether a member comes after the head of the list; so does none if there is no head.
    pub(crate) fn is_past_head(&self, place: &[u8]) -> bool {
        let me = self.me.place();
        self.head().is_some_and(|head| between(head.place(), place, me))
    }

    /// Where to go with a request.
    pub(crate) fn next(&self, point: Point<'_>) -> Step<'_> {
        if point.is_in(self.me().arc()) {
            return Step::Owner(self.me());
        }
        if point.keyspace != self.me().arc().keyspace() {
            return Step::Ask(&self.peers);
        }
        match self.reach(point.tail) {
            Some((_, entry)) => Step::Closer(entry.known()),
            None => Step::Ask(&self.peers),
        }
    }

    /// The farthest trusted finger at or before a place, or else the nearest trusted successor;
    /// the others of the list are there for when that one is gone.
    pub(crate) fn reach(&self, tail: &[u8]) -> Option<(TableEntry, &Entry)> {
        let sight = PointView::new(&self.me, tail);
        let reached = self.fingers.partition_point(|finger| sight.reaches(&finger.entry));
        let mut reached = self.fingers[..reached].iter().rev();
        if let Some(finger) = reached.find(|finger| self.is_trusted(&finger.entry)) {
            return Some((TableEntry::Finger(finger.level), &finger.entry));
        }
        let reached = self.successors.partition_point(|entry| sight.reaches(entry));
        let mut reached = (0..).zip(&self.successors[..reached]);
        let (at, entry) = reached.find(|(_, entry)| self.is_trusted(entry))?;
        Some((TableEntry::Successor(at), entry))
    }

    /// What [`Self::next`] goes by.
    pub(crate) fn via(&self, point: Point<'_>) -> Option<(TableEntry, Shared<KnownShard>)> {
        let elsewhere = point.keyspace != self.me().arc().keyspace();
        if elsewhere || point.is_in(self.me().arc()) {
            return None;
        }
        self.reach(point.tail).map(|(via, entry)| (via, entry.known().clone()))
    }

    /// A new number for a question; never 0, which is nobody's.
    pub(crate) fn number(&mut self) -> u64 {
        self.number = self.number.wrapping_add(1).max(1);
        self.number
    }

    /// Says something to another member, at the node that is thought to lead it.
    pub(crate) fn send_to(&self, to: &KnownShard, word: RingMessage, out: &mut Outbox) {
        let node = to.leader().or_else(|| to.descriptor().node_to_ask());
        if let Some(node) = node {
            self.send_to_node(node, to.shard(), word, out);
        }
    }

    /// Says something to a member at a node.
    pub(crate) fn send_to_node(
        &self,
        node: NodeId,
        to: ShardId,
        word: RingMessage,
        out: &mut Outbox,
    ) {
        let (strategy, from) = (self.strategy, self.me().clone());
        out.push((node, Message::Ring { strategy, to, from, word }));
    }

    /// The content and sender of a message, if it is for this table. Its sender is trusted again.
    pub(crate) fn open(&mut self, message: Message) -> Option<(Shared<KnownShard>, RingMessage)> {
        let Message::Ring { strategy, to, from, word } = message else { return None };
        let mine = strategy == self.strategy && to == self.me.shard() && !self.is_me(&from);
        if !mine || from.arc().keyspace() != self.me().arc().keyspace() {
            return None;
        }
        self.hear(&from);
        Some((from, word))
    }
}
