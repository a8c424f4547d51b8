//! Chord: fingers that double the distance on the circle of numbers.
//!
//! The finger of level *i* is the first member whose prefix is at or after prefix(me) + 2^i, as a
//! number that wraps around; prefixes are the first eight bytes of places. A request goes to the
//! farthest entry that is not past its point, and so at least halves what is left of the way:
//!
//! ```text
//!   me                                                          point
//!   ●────┬────┬─────────┬───────────────────┬─────────────────────×───►
//!        2^60 2^61      2^62                2^63
//!        └► s, the next └► f62              └► f63 ── goes there
//! ```
//!
//! Levels whose number is not past the successor are skipped: about log2 N remain, and a request
//! makes ½ log2 N hops on average.
//!
//! # Upkeep
//! One level a tick, from 63 down, by a *find* that goes through the ring as a request does; each
//! member passes it on and forgets it. Down at a level that is the successor the round is over, and
//! the next begins. A find without an answer for [`FIND_TICKS`] costs one level one round, and the
//! first whom it was passed on to is not trusted for a while; late and repeated answers carry a
//! number that is not asked for any more.
//!
//! # Rows
//! Levels with the same finger make one row, kept under the lowest of them. Rows rise strictly in
//! level and in place. A level that is not known counts to the row below it.
//!
//! # Caveats
//! Prefixes are numbers of even size, members need not be: where places crowd together, many hops
//! go through few numbers ([`chord_sharp`](crate::chord_sharp) is for that). Members with equal
//! prefixes are all found, by their successors.

use std::sync::Arc as Shared;

use keyspace::{Generation, NodeId, ShardId};

use crate::known::Known;
use crate::lookup::{Learnt, Lookup, News, Outbox, Step};
use crate::message::Message;
use crate::point::Point;
use crate::ring::place::{Entry, Members, between};
use crate::ring::word::{Strategy, Word, fits_beside};
use crate::ring::{Ring, Via};
use crate::walk::HOPS_MAX;

/// The highest level.
pub const LEVEL_MAX: u8 = 63;

/// How many ticks the answer to a find may take: it goes many hops.
pub const FIND_TICKS: u8 = 12;

/// One member's table.
#[derive(Clone, Debug)]
pub struct Chord {
    ring: Ring,
    /// By rising level and place.
    fingers: Vec<Entry>,
    /// Of each row the lowest level.
    levels: Vec<u8>,
    /// What is looked for next.
    level: u8,
    search: Option<Search>,
}

/// A finger that is being looked for.
#[derive(Clone, Copy, Debug)]
struct Search {
    number: u64,
    /// Who was asked first.
    by: Option<ShardId>,
    ticks_left: u8,
}

impl Chord {
    fn with(ring: Ring) -> Self {
        Self { ring, fingers: Vec::new(), levels: Vec::new(), level: LEVEL_MAX, search: None }
    }

    /// A member that knows nobody yet, or is the only one; lists of `length` successors.
    pub fn new(me: Shared<Known>, length: usize) -> Self {
        Self::with(Ring::new(Strategy::Chord, me, length))
    }

    /// A member that joins right after `left`, whose list is `list` ([`Ring::list`]).
    pub fn join(
        me: Shared<Known>,
        left: Shared<Known>,
        list: &[Shared<Known>],
        length: usize,
    ) -> Self {
        Self::with(Ring::join(Strategy::Chord, me, left, list, length))
    }

    /// The table that the member at `at` has in a stable ring.
    pub fn ideal(all: &Members, at: usize, length: usize) -> Self {
        let mut table = Self::with(Ring::ideal(Strategy::Chord, all, at, length));
        for level in 0..=LEVEL_MAX {
            if !table.is_needed(level) {
                continue;
            }
            let finger = all.first_from(table.target(level));
            let head = table.ring.head().expect("some level is needed");
            if table.ring.is_me(finger.known()) {
                break;
            }
            let last = table.fingers.last().unwrap_or(head);
            if last.shard() != finger.shard() {
                table.fingers.push(finger.clone());
                table.levels.push(level);
            }
        }
        table.fingers.shrink_to_fit();
        table.levels.shrink_to_fit();
        table
    }

    /// Its place in the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What leads a request for a point on from here; `None` if nothing does, or it has arrived.
    pub fn via(&self, point: Point<'_>) -> Option<(Via, Shared<Known>)> {
        self.ring.via(&self.fingers, point, |row| self.levels[row])
    }

    /// Everybody in the table: the successors, then the rows of fingers.
    pub fn entries(&self) -> impl Iterator<Item = (Via, &Shared<Known>)> {
        let fingers = self.levels.iter().zip(&self.fingers);
        self.ring
            .entries()
            .chain(fingers.map(|(level, finger)| (Via::Finger(*level), finger.known())))
    }

    /// Rows of fingers.
    pub fn fingers(&self) -> usize {
        self.fingers.len()
    }

    /// The number that the finger of a level is at or after.
    fn target(&self, level: u8) -> u64 {
        self.ring.row().prefix().wrapping_add(1 << level)
    }

    /// Whether a level's number is past the successor.
    fn is_needed(&self, level: u8) -> bool {
        let Some(head) = self.ring.head() else { return false };
        let me = self.ring.row();
        let distance = head.prefix().wrapping_sub(me.prefix());
        // A head a whole lap away, just before this member: nothing is past it.
        let is_last = distance == 0 && head.place() < me.place();
        !is_last && 1 << level > distance
    }

    /// Looks for the finger of the next level, or begins again from the top.
    fn search(&mut self, out: &mut Outbox) {
        if !self.is_needed(self.level) {
            self.end_round();
        }
        if !self.is_needed(self.level) {
            self.fingers.clear();
            self.levels.clear();
            return;
        }
        let Some(node) = self.ring.me().leader().or(self.ring.me().descriptor().node_to_ask())
        else {
            return;
        };
        let number = self.ring.number();
        let (asker, target) = (self.ring.me().shard(), self.target(self.level));
        let before = out.len();
        self.search = Some(Search { number, by: None, ticks_left: FIND_TICKS });
        self.pass_on(Word::Find { number, asker, node, hops: 0, target }, out);
        if let (Some(search), Some((_, Message::Ring { to, .. }))) =
            (&mut self.search, out.get(before))
        {
            search.by = Some(*to);
        }
    }

    /// The round is over: what this level and those below lead to, the successor leads to.
    fn end_round(&mut self) {
        let level = std::mem::replace(&mut self.level, LEVEL_MAX);
        let below = self.levels.partition_point(|lowest| *lowest <= level);
        let stays = below > 0
            && level < LEVEL_MAX
            && self.levels.get(below) != Some(&(level + 1))
            && self.ring.is_past_head(self.fingers[below - 1].place());
        let cut = if stays { below - 1 } else { below };
        self.fingers.drain(..cut);
        self.levels.drain(..cut);
        if stays {
            self.levels[0] = level + 1;
        }
    }

    /// Answers who is at or after a number, or passes the question on.
    fn pass_on(&mut self, word: Word, out: &mut Outbox) {
        let Word::Find { number, asker, node, hops, target } = word else { return };
        // The lowest of all strings with this prefix, so that they are ordered as the numbers are.
        let bytes = target.to_be_bytes();
        let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let tail = &bytes[..len];
        let me = self.ring.row().place();
        let found = match self.ring.head() {
            _ if tail == me => Some(self.ring.me()),
            None => None,
            Some(head) if tail == head.place() || between(me, tail, head.place()) => {
                Some(head.known())
            }
            Some(_) => match self.ring.reach(&self.fingers, tail) {
                Some((_, closer)) if hops < HOPS_MAX => {
                    let word = Word::Find { number, asker, node, hops: hops + 1, target };
                    return self.ring.say(closer.known(), word, out);
                }
                _ => None,
            },
        };
        let member = found.filter(|member| fits_beside(self.ring.me(), member)).cloned();
        if let Some(member) = member {
            if asker == self.ring.me().shard() {
                return self.found(number, member);
            }
            self.ring.say_at(node, asker, Word::Found { number, member }, out);
        }
    }

    /// The finger that was looked for; nothing if it was another.
    fn found(&mut self, number: u64, member: Shared<Known>) {
        if self.search.take_if(|search| search.number == number).is_none() {
            return;
        }
        let is_head = self.ring.head().is_some_and(|head| head.shard() == member.shard());
        let is_here = member.arc().keyspace() == self.ring.me().arc().keyspace();
        if is_head {
            return self.end_round();
        }
        if is_here {
            self.ring.trust(member.shard());
            self.set(self.level, member);
        }
        self.go_down();
    }

    fn go_down(&mut self) {
        self.level = self.level.checked_sub(1).unwrap_or(LEVEL_MAX);
    }

    /// From this level on the finger is `member`, up to a level that has another; none if it is
    /// this member itself.
    fn set(&mut self, level: u8, member: Shared<Known>) {
        let me = self.ring.row().place();
        let entry = Entry::new(member);
        let none = self.ring.is_me(entry.known());
        let is_before = |a: &Entry, b: &Entry| between(me, a.place(), b.place());
        // The row that this level was in may still be right for those above.
        let at = self.levels.partition_point(|lowest| *lowest <= level);
        let above = self.levels.get(at) == Some(&(level + 1)) || level == LEVEL_MAX;
        let old = (at > 0 && !above).then(|| (level + 1, self.fingers[at - 1].clone()));
        let mut rows: Vec<(u8, Entry)> = Vec::with_capacity(self.fingers.len() + 2);
        for (lowest, finger) in self.levels.iter().zip(&self.fingers) {
            let stays = *lowest < level && (none || !is_before(&entry, finger));
            if stays {
                rows.push((*lowest, finger.clone()));
            }
        }
        if !none {
            if rows.last().is_none_or(|(_, last)| last.shard() != entry.shard()) {
                rows.push((level, entry.clone()));
            }
            let higher =
                self.levels.iter().zip(&self.fingers).filter(|(lowest, _)| **lowest > level);
            let higher = higher.map(|(lowest, finger)| (*lowest, finger.clone()));
            rows.extend(old.into_iter().chain(higher).filter(|(_, far)| is_before(&entry, far)));
        }
        // The rows above may hold what was found under another level.
        rows.dedup_by(|next, row| next.1.shard() == row.1.shard());
        (self.levels, self.fingers) = rows.into_iter().unzip();
    }

    /// Levels follow the fingers that are left.
    fn keep_levels(&mut self, before: Vec<Entry>) {
        if before.len() == self.fingers.len() {
            return;
        }
        let of = |entry: &Entry| (entry.shard(), entry.place().to_vec());
        let is_left = |entry: &Entry| self.fingers.iter().any(|left| of(left) == of(entry));
        let kept = before.iter().zip(&self.levels).filter(|(entry, _)| is_left(entry));
        self.levels = kept.map(|(_, level)| *level).collect();
    }
}

impl Lookup for Chord {
    fn next(&self, point: Point<'_>) -> Step<'_> {
        self.ring.next(&self.fingers, point)
    }

    fn learn(&mut self, news: News) -> Learnt {
        let before = self.fingers.clone();
        let learnt = self.ring.learn(news, &mut self.fingers);
        self.keep_levels(before);
        learnt
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
            Some(search) => {
                // Whoever is at fault: the next time it goes another way.
                if let Some(by) = search.by {
                    self.ring.distrust(by, true);
                }
                self.search = None;
                self.go_down();
            }
        }
    }

    fn step(&mut self, _: NodeId, message: Message, out: &mut Outbox) {
        let Some((from, word)) = self.ring.open(message) else { return };
        let own = self.fingers.iter_mut().filter(|finger| finger.shard() == from.shard());
        own.for_each(|finger| finger.refresh(&from));
        match word {
            Word::Find { .. } => self.pass_on(word, out),
            Word::Found { number, member } => self.found(number, member),
            word => self.ring.step(from, word, out),
        }
    }
}
