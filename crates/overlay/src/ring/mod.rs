//! A ring of shards: each knows who comes next, and who came before.
//!
//! The members of a ring are the shards of one keyspace; a member's **place** is where its arc
//! starts, and it owns from there up to the next place. Each keeps a list of successors and a
//! predecessor, as the node that leads it can. On it stand [`linear`](crate::linear),
//! [`chord`](crate::chord) and [`chord_sharp`](crate::chord_sharp): [`member`] says how.
//!
//! ```text
//!      a ●───────● b            a: successors b, c, d   predecessor e
//!       /         \             b: successors c, d, e   predecessor a
//!    e ●           ● c          e: successors a, b, c   predecessor d
//!       \         /
//!        ●───────┘ d            in a ring of no more than r members a list ends with its keeper:
//!                               it has come around
//! ```
//!
//! # Three stories
//! *Join.* Shard b is split, and x is the right half. b learns it first (its own descriptor ends
//! where that of x starts) and hands its list on: x begins with b as predecessor and b's successors
//! as its own. Its next stabilise tells c that x stands before it. Where nobody hands on a list, x
//! asks the member it has heard of for one, and walks on from there until it finds itself between
//! two. Nobody else's state is written by who joins.
//! *Leave.* b takes in c: b's newer descriptor holds c's place, so b drops c from its list at once,
//! and so does everyone who hears of that descriptor. d hears of b by b's next stabilise.
//! *Failure.* c is silent. b asks again at each tick, [`PATIENCE_TICKS`] times, takes it for dead
//! and goes on with d, the next of its list, which tells b its own list; so b's is full again. d
//! hears from b that it stands before it, pings c, and takes b when c does not answer.
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
//! 1. The list is strictly rising, seen from its keeper; only its last may be the keeper itself,
//!    and then nobody else is known.
//! 2. Places decide the order, all their bytes; no member is listed of which a later descriptor
//!    says that another has its place. A shard's place stays (but that of the only one may become
//!    the origin): who has it elsewhere is not listened to. A table whose own shard has got another
//!    place is made anew by its keeper.
//! 3. At most one question and one ping are open; answers carry its number, so those that come
//!    late or twice say nothing. Whatever changes the head of the list ends the question.
//! 4. Handlers run to their end and wait for nobody; a question is answered at once, in any state.
//!
//! # While members fail
//! A ring of at least r + 1 stays one ring, of which everybody is reached, as long as nobody loses
//! the last live member of its list and r + 1 members stay that nobody's list skips
//! ([`ideal`] checks both). That needs silence to mean death. It does not always: so who was taken
//! for dead is pinged for a while. If it answers, it is a member again, and leads to the place that
//! this member has in *its* ring, which may be another by then: whoever stands there hears of this
//! one, and the two rings become one.
//!
//! # Limits
//! | what | at most | beyond it |
//! |---|---|---|
//! | successors | [`SUCCESSORS_MAX`] | not listed |
//! | ticks before silence means death | [`PATIENCE_TICKS`] | asked at each of them |
//! | members taken for dead | [`SUSPECTS_MAX`] | the oldest is forgotten |
//! | pings of one of them | [`SUSPECT_PINGS_MAX`] | forgotten; news of it is learnt all the same |
//! | members not to be trusted | [`DISTRUSTED_MAX`] | the oldest is trusted again |
//!
//! # Caveats
//! Who joins is no member until it has a list, and answers nobody until then. If all whom it knows
//! leave before somebody knows it, nobody ever will: let no shard be taken in while it is the only
//! one that another lists ([`ideal::may_leave`]).
//! A cut that lasts longer than the pings may leave two rings. Descriptors heal them: whoever
//! [learns](crate::Lookup::learn) a member between itself and its head has it for a head.
//! Lists with places of many KiB may be too long for a message; they are cut, and then shorter.

pub mod aggressive;
pub mod ideal;
mod learn;
pub mod member;
pub mod place;
mod upkeep;
pub mod word;

use std::fmt;
use std::sync::Arc as Shared;

use keyspace::{NodeId, ShardId};

use crate::known::Known;
use crate::lookup::{Outbox, Step};
use crate::message::Message;
use crate::point::Point;
use member::Finger;
use place::{Entry, Members, Sight, between};
use upkeep::{Doubt, Question, Suspect};
use word::{Strategy, Word};

/// How many successors a member lists, unless there is a reason.
pub const SUCCESSORS: usize = 4;

/// The least successors of a list: with one, a single failure ends the ring.
pub const SUCCESSORS_MIN: usize = 2;

/// The most successors of a list.
pub const SUCCESSORS_MAX: usize = 16;

/// How many ticks a member may be silent before it is taken for dead.
pub const PATIENCE_TICKS: u8 = 4;

/// The most members taken for dead that are pinged.
pub const SUSPECTS_MAX: usize = 8;

/// Every so many ticks one of them is pinged.
pub const SUSPECT_TICKS: u8 = 4;

/// How often one of them is pinged before it is forgotten.
pub const SUSPECT_PINGS_MAX: u8 = 64;

/// The most members that are not trusted.
pub const DISTRUSTED_MAX: usize = 16;

/// Which part of a table led a request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// The list of successors, at this index.
    Successor(u8),
    /// The finger of this level.
    Finger(u8),
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::Successor(index) => write!(f, "successor {index}"),
            Via::Finger(level) => write!(f, "finger {level}"),
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
    predecessor: Option<Shared<Known>>,
    /// Who has come back from the dead, and may belong to another ring: to be asked next.
    guide: Option<Shared<Known>>,
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
    pub(crate) fn new(strategy: Strategy, me: Shared<Known>, length: usize) -> Self {
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
        ring.be_alone_if_whole();
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
    pub fn me(&self) -> &Shared<Known> {
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
    pub fn list(&self) -> Vec<Shared<Known>> {
        self.successors.iter().map(|entry| entry.known().clone()).collect()
    }

    /// The successors with their index, but for the member itself, then the fingers.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Via, &Shared<Known>)> {
        let others = (0..).zip(&self.successors).filter(|(_, entry)| !self.is_me(entry.known()));
        let others = others.map(|(index, entry)| (Via::Successor(index), entry.known()));
        let fingers = self.fingers.iter();
        others.chain(fingers.map(|finger| (Via::Finger(finger.level), finger.entry.known())))
    }

    /// The next member, unless there is none, or none is known.
    pub fn head(&self) -> Option<&Entry> {
        self.successors.first().filter(|head| !self.is_me(head.known()))
    }

    /// Who stands before it, as far as it knows.
    pub fn predecessor(&self) -> Option<&Shared<Known>> {
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

    pub(crate) fn is_me(&self, known: &Known) -> bool {
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
    pub(crate) fn reach(&self, tail: &[u8]) -> Option<(Via, &Entry)> {
        let sight = Sight::new(&self.me, tail);
        let reached = self.fingers.partition_point(|finger| sight.reaches(&finger.entry));
        let mut reached = self.fingers[..reached].iter().rev();
        if let Some(finger) = reached.find(|finger| self.is_trusted(&finger.entry)) {
            return Some((Via::Finger(finger.level), &finger.entry));
        }
        let reached = self.successors.partition_point(|entry| sight.reaches(entry));
        let mut reached = (0..).zip(&self.successors[..reached]);
        let (at, entry) = reached.find(|(_, entry)| self.is_trusted(entry))?;
        Some((Via::Successor(at), entry))
    }

    /// What [`Self::next`] goes by.
    pub(crate) fn via(&self, point: Point<'_>) -> Option<(Via, Shared<Known>)> {
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
    pub(crate) fn say(&self, to: &Known, word: Word, out: &mut Outbox) {
        let node = to.leader().or_else(|| to.descriptor().node_to_ask());
        if let Some(node) = node {
            self.say_at(node, to.shard(), word, out);
        }
    }

    /// Says something to a member at a node.
    pub(crate) fn say_at(&self, node: NodeId, to: ShardId, word: Word, out: &mut Outbox) {
        let (strategy, from) = (self.strategy, self.me().clone());
        out.push((node, Message::Ring { strategy, to, from, word }));
    }

    /// What a message says, if it is for this table, and from whom. Whoever speaks is trusted
    /// again.
    pub(crate) fn open(&mut self, message: Message) -> Option<(Shared<Known>, Word)> {
        let Message::Ring { strategy, to, from, word } = message else { return None };
        let mine = strategy == self.strategy && to == self.me.shard() && !self.is_me(&from);
        if !mine || from.arc().keyspace() != self.me().arc().keyspace() {
            return None;
        }
        self.hear(&from);
        Some((from, word))
    }
}
