//! Chord#: fingers that double the number of members, however they are spread over the circle.
//!
//! A member's finger 0 is its successor; finger *i* is what its finger *i − 1* has as finger
//! *i − 1*. So finger *i* is 2^i members ahead, and each costs one message, where Chord searches:
//!
//! ```text
//!   me ──► 0 ──► ──► ──► ──► ──► ──► ──► ──► 8
//!          1 ahead   │ its finger 1 ► my finger 2, 4 ahead
//!              └ 2 ahead: my finger 1
//! ```
//!
//! With base *b* there are b − 1 fingers a level, 1·b^i to (b − 1)·b^i members ahead; each is
//! asked for *its first* of its level, b^i further on. Requests go on as everywhere: to the
//! farthest entry that is not past the point. About log_b N hops at most, under any skew.
//!
//! | finger, from 0 | members ahead, base 2 | base 4 | asked of | for its |
//! |---|---|---|---|---|
//! | 0 | 1 | 1 | (the successor) | |
//! | 1 | 2 | 2 | finger 0 | finger 0 |
//! | 2 | 4 | 3 | finger 1 | 1 with base 2, 0 with base 4 |
//! | 3 | 8 | 4 | finger 2 | 2 with base 2, 0 with base 4 |
//! | 4 | 16 | 8 | finger 3 | 3 with base 2, 3 with base 4 |
//!
//! # Upkeep
//! One finger a tick, from 1 up, until the answer is "none" or is not between the finger asked and
//! this member; what is beyond is forgotten, and the next round begins. Who does not answer is not
//! trusted, and the round begins again; the fingers below lead around it as they are refreshed.

use std::sync::Arc as Shared;

use keyspace::{Generation, NodeId, ShardId};

use crate::known::Known;
use crate::lookup::{Learnt, Lookup, News, Outbox, Step};
use crate::message::Message;
use crate::point::Point;
use crate::ring::place::{Entry, Members, between};
use crate::ring::word::{Strategy, Word, fits_beside};
use crate::ring::{PATIENCE_TICKS, Ring, Via};

/// The base of the original: each finger is twice as many members ahead as the one below.
pub const BASE: u8 = 2;

/// The largest base.
pub const BASE_MAX: u8 = 16;

/// The most fingers of a table.
pub const FINGERS_MAX: u8 = 240;

/// One member's table.
#[derive(Clone, Debug)]
pub struct ChordSharp {
    ring: Ring,
    base: u8,
    /// Finger 1 and those above. Finger 0 is the head of the list.
    fingers: Vec<Entry>,
    /// Which finger is asked for next, at least 1.
    at: u8,
    search: Option<Search>,
}

/// A finger that was asked for.
#[derive(Clone, Debug)]
struct Search {
    number: u64,
    asked: Shared<Known>,
    ticks_left: u8,
}

impl ChordSharp {
    fn with(ring: Ring, base: u8) -> Self {
        assert!((BASE..=BASE_MAX).contains(&base), "base {base}");
        Self { ring, base, fingers: Vec::new(), at: 1, search: None }
    }

    /// A member that knows nobody yet, or is the only one; lists of `length` successors.
    ///
    /// # Panics
    /// If the base is not from [`BASE`] to [`BASE_MAX`]; the same of the other constructors.
    pub fn new(me: Shared<Known>, length: usize, base: u8) -> Self {
        Self::with(Ring::new(Strategy::ChordSharp, me, length), base)
    }

    /// A member that joins right after `left`, whose list is `list` ([`Ring::list`]).
    pub fn join(
        me: Shared<Known>,
        left: Shared<Known>,
        list: &[Shared<Known>],
        length: usize,
        base: u8,
    ) -> Self {
        Self::with(Ring::join(Strategy::ChordSharp, me, left, list, length), base)
    }

    /// The table that the member at `at` has in a stable ring.
    pub fn ideal(all: &Members, at: usize, length: usize, base: u8) -> Self {
        let mut table = Self::with(Ring::ideal(Strategy::ChordSharp, all, at, length), base);
        let ahead = (1..).map(|finger| ahead(finger, base)).take_while(|ahead| *ahead < all.len());
        table.fingers = ahead.map(|ahead| all.after(at, ahead).clone()).collect();
        table.fingers.shrink_to_fit();
        table
    }

    /// Its place in the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What leads a request for a point on from here; `None` if nothing does, or it has arrived.
    pub fn via(&self, point: Point<'_>) -> Option<(Via, Shared<Known>)> {
        self.ring.via(&self.fingers, point, |row| row as u8 + 1)
    }

    /// Everybody in the table: the successors, then the fingers from 1.
    pub fn entries(&self) -> impl Iterator<Item = (Via, &Shared<Known>)> {
        let fingers = (1..).zip(&self.fingers);
        self.ring
            .entries()
            .chain(fingers.map(|(finger, entry)| (Via::Finger(finger), entry.known())))
    }

    /// Fingers beside the successor.
    pub fn fingers(&self) -> usize {
        self.fingers.len()
    }

    /// A finger by its number.
    fn finger(&self, finger: u8) -> Option<&Entry> {
        match finger.checked_sub(1) {
            None => self.ring.head(),
            Some(row) => self.fingers.get(usize::from(row)),
        }
    }

    /// Asks for the next finger, or begins again with the first.
    fn search(&mut self, out: &mut Outbox) {
        if self.finger(self.at - 1).is_none() {
            self.at = 1;
        }
        let Some(below) = self.finger(self.at - 1) else {
            return self.fingers.clear();
        };
        let asked = below.known().clone();
        let level = (self.at - 1) / (self.base - 1) * (self.base - 1);
        let number = self.ring.number();
        self.ring.say(&asked, Word::AskFinger { number, level }, out);
        self.search = Some(Search { number, asked, ticks_left: PATIENCE_TICKS });
    }

    /// What was asked for; nothing if it was something else.
    fn found(&mut self, number: u64, member: Option<Shared<Known>>) {
        let Some(search) = self.search.take_if(|search| search.number == number) else { return };
        let (row, me) = (usize::from(self.at - 1), self.ring.me());
        // The finger below may be another by now: then the round begins again.
        let is_below = self.finger(self.at - 1).map(Entry::shard) == Some(search.asked.shard());
        let (from, end) = (search.asked.arc().start().tail(), me.arc().start().tail());
        let is_ahead = |member: &Shared<Known>| {
            member.arc().keyspace() == me.arc().keyspace()
                && between(from, member.arc().start().tail(), end)
        };
        match member.filter(is_ahead).filter(|_| is_below && self.at < FINGERS_MAX) {
            None => {
                self.fingers.truncate(row);
                self.at = 1;
            }
            Some(member) => {
                let entry = Entry::new(member);
                let far = self.fingers.drain(row..).skip(1).collect::<Vec<_>>();
                // Those above stay as long as they rise.
                let rises = far.first().is_some_and(|far| {
                    between(entry.place(), far.place(), self.ring.row().place())
                });
                self.fingers.push(entry);
                self.fingers.extend(far.into_iter().filter(|_| rises));
                self.at += 1;
            }
        }
    }
}

/// How many members ahead a finger is.
fn ahead(finger: u32, base: u8) -> usize {
    let in_level = u32::from(base) - 1;
    let power = usize::from(base).saturating_pow(finger / in_level);
    power.saturating_mul((finger % in_level + 1) as usize)
}

impl Lookup for ChordSharp {
    fn next(&self, point: Point<'_>) -> Step<'_> {
        self.ring.next(&self.fingers, point)
    }

    fn learn(&mut self, news: News) -> Learnt {
        self.ring.learn(news, &mut self.fingers)
    }

    fn distrust(&mut self, shard: ShardId, generation: Generation) {
        let known = self.ring.remembers(shard, generation, &self.fingers);
        self.ring.distrust(shard, known);
    }

    fn peers(&mut self, nodes: &[NodeId]) {
        self.ring.peers(nodes);
    }

    fn tick(&mut self, out: &mut Outbox) {
        self.ring.tick(out);
        match &mut self.search {
            None => self.search(out),
            Some(search) if search.ticks_left > 1 => search.ticks_left -= 1,
            Some(_) => {
                let asked = self.search.take().expect("just seen").asked;
                self.ring.distrust(asked.shard(), true);
                self.at = 1;
            }
        }
    }

    fn step(&mut self, _: NodeId, message: Message, out: &mut Outbox) {
        let Some((from, word)) = self.ring.open(message) else { return };
        let own = self.fingers.iter_mut().filter(|finger| finger.shard() == from.shard());
        own.for_each(|finger| finger.refresh(&from));
        match word {
            Word::AskFinger { number, level } => {
                let finger = self.finger(level).map(|entry| entry.known().clone());
                let member = finger.filter(|member| fits_beside(self.ring.me(), member));
                self.ring.say(&from, Word::Finger { number, member }, out);
            }
            Word::Finger { number, member } => self.found(number, member),
            word => self.ring.step(from, word, out),
        }
    }
}
