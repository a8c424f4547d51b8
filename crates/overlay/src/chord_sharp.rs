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
//! this member. Fingers beyond are forgotten, and the next round begins. A finger that does not
//! answer is not trusted, and the round begins again; the fingers below lead around it as they are
//! refreshed.

use std::sync::Arc as Shared;

use crate::known_shard::KnownShard;
use crate::lookup::Outbox;
use crate::ring::member::{Finger, Fingers, MemberTable};
use crate::ring::message::{RingMessage, Strategy, fits_beside};
use crate::ring::place::{Entry, Members, between};
use crate::ring::{Ring, SILENCE_TICKS};

/// The base of the original: each finger is twice as many members ahead as the one below.
pub const BASE: u8 = 2;

/// The largest base.
pub const BASE_MAX: u8 = 16;

/// The most fingers of a table.
pub const FINGERS_MAX: u8 = 240;

/// One member's table.
pub type ChordSharp = MemberTable<Counted>;

/// How fingers over members are looked for.
#[derive(Clone, Debug)]
pub struct Counted {
    base: u8,
    /// Which finger is asked for next, at least 1. Finger 0 is the head of the list.
    at: u8,
    search: Option<Search>,
}

/// A finger that was asked for.
#[derive(Clone, Debug)]
struct Search {
    number: u64,
    asked: Shared<KnownShard>,
    ticks_left: u8,
}

impl ChordSharp {
    /// A member that knows no other yet, or is the only one; lists of `length` successors.
    ///
    /// # Panics
    /// If the base is not from [`BASE`] to [`BASE_MAX`]; the same of the other constructors.
    pub fn new(me: Shared<KnownShard>, length: usize, base: u8) -> Self {
        Self::of(Counted::new(base), me, length)
    }

    /// A member that joins right after `left`, whose list is `list` ([`Ring::list`]).
    pub fn join(
        me: Shared<KnownShard>,
        left: Shared<KnownShard>,
        list: &[Shared<KnownShard>],
        length: usize,
        base: u8,
    ) -> Self {
        Self::new(me, length, base).joined(&left, list)
    }

    /// The table that the member at `at` has in a stable ring.
    pub fn ideal(all: &Members, at: usize, length: usize, base: u8) -> Self {
        Self::ideal_of(Counted::new(base), all, at, length)
    }
}

/// A finger by its number.
fn finger(ring: &Ring, finger: u8) -> Option<&Entry> {
    match finger.checked_sub(1) {
        None => ring.head(),
        Some(row) => ring.fingers.get(usize::from(row)).map(|finger| &finger.entry),
    }
}

impl Counted {
    fn new(base: u8) -> Self {
        assert!((BASE..=BASE_MAX).contains(&base), "base {base}");
        Self { base, at: 1, search: None }
    }

    /// Asks for the next finger, or begins again with the first.
    fn search(&mut self, ring: &mut Ring, out: &mut Outbox) {
        if finger(ring, self.at - 1).is_none() {
            self.at = 1;
        }
        let Some(below) = finger(ring, self.at - 1) else {
            return ring.fingers.clear();
        };
        let asked = below.known().clone();
        let level = (self.at - 1) / (self.base - 1) * (self.base - 1);
        let number = ring.number();
        ring.send_to(&asked, RingMessage::AskFinger { number, level }, out);
        self.search = Some(Search { number, asked, ticks_left: SILENCE_TICKS });
    }

    /// What was asked for; nothing if it was something else.
    fn found(&mut self, ring: &mut Ring, number: u64, member: Option<Shared<KnownShard>>) {
        let Some(search) = self.search.take_if(|search| search.number == number) else { return };
        let (row, me) = (usize::from(self.at - 1), ring.me());
        // The finger below may be another by now: then the round begins again.
        let is_below = finger(ring, self.at - 1).map(Entry::shard) == Some(search.asked.shard());
        let (from, end) = (search.asked.arc().start().tail(), me.arc().start().tail());
        let is_ahead = |member: &Shared<KnownShard>| {
            member.arc().keyspace() == me.arc().keyspace()
                && between(from, member.arc().start().tail(), end)
        };
        match member.filter(is_ahead).filter(|_| is_below && self.at < FINGERS_MAX) {
            None => {
                ring.fingers.truncate(row);
                self.at = 1;
            }
            Some(member) => {
                let entry = Entry::new(member);
                let far = ring.fingers.drain(row..).skip(1).collect::<Vec<_>>();
                // Those above stay as long as they rise.
                let me = ring.row().place();
                let rises =
                    far.first().is_some_and(|far| between(entry.place(), far.entry.place(), me));
                ring.fingers.push(Finger { level: self.at, entry });
                ring.fingers.extend(far.into_iter().filter(|_| rises));
                self.at += 1;
            }
        }
    }
}

/// How many members ahead a finger is.
fn ahead(finger: u8, base: u8) -> usize {
    let in_level = base - 1;
    let power = usize::from(base).saturating_pow(u32::from(finger / in_level));
    power.saturating_mul(usize::from(finger % in_level + 1))
}

impl Fingers for Counted {
    const STRATEGY: Strategy = Strategy::ChordSharp;

    fn ideal(&self, _: &Ring, all: &Members, at: usize) -> Vec<Finger> {
        let finger =
            |level: u8| Finger { level, entry: all.after(at, ahead(level, self.base)).clone() };
        let levels = (1..FINGERS_MAX).take_while(|level| ahead(*level, self.base) < all.len());
        levels.map(finger).collect()
    }

    fn tick(&mut self, ring: &mut Ring, out: &mut Outbox) {
        // Some may have gone: those that are left are counted anew.
        (1..).zip(&mut ring.fingers).for_each(|(level, finger)| finger.level = level);
        match &mut self.search {
            None => self.search(ring, out),
            Some(search) if search.ticks_left > 1 => search.ticks_left -= 1,
            Some(_) => {
                let asked = self.search.take().expect("just seen").asked;
                ring.mark_unreachable(asked.shard());
                self.at = 1;
            }
        }
    }

    fn step(
        &mut self,
        ring: &mut Ring,
        from: &Shared<KnownShard>,
        word: RingMessage,
        out: &mut Outbox,
    ) -> Option<RingMessage> {
        match word {
            RingMessage::AskFinger { number, level } => {
                let finger = finger(ring, level).map(|entry| entry.known().clone());
                let member = finger.filter(|member| fits_beside(ring.me(), member));
                ring.send_to(from, RingMessage::Finger { number, member }, out);
            }
            RingMessage::Finger { number, member } => self.found(ring, number, member),
            word => return Some(word),
        }
        None
    }
}
