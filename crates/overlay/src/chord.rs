//! Chord: fingers that double the distance on the circle of numbers.
//!
//! The finger of level *i* is the first member whose prefix is at or after prefix(me) + 2^i, as a
//! number that wraps around; prefixes are the first eight bytes of places. A request goes to the
//! farthest entry that is not past its point. So each hop at least halves the remaining distance:
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
//! One level a tick, by a *find* that goes through the ring as a request does; each member passes
//! it on and forgets it. A round begins with the highest level whose number is not past the
//! predecessor: beyond it there is only the member itself. The round ends at a level whose finger
//! is the successor, and the next begins. A find without an answer for [`FIND_TICKS`] costs one
//! level one round, and its first receiver is not trusted for a while. Late and repeated answers
//! carry an old number, and are ignored.
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

use keyspace::ShardId;

use crate::known_shard::KnownShard;
use crate::lookup::Outbox;
use crate::lookup_path::HOPS_MAX;
use crate::message::Message;
use crate::ring::Ring;
use crate::ring::member::{Finger, Fingers, MemberTable};
use crate::ring::message::{RingMessage, Strategy, fits_beside};
use crate::ring::place::{Entry, Members, between};

/// The highest level.
pub const LEVEL_MAX: u8 = 63;

/// How many ticks the answer to a find may take: it goes many hops.
pub const FIND_TICKS: u8 = 12;

/// One member's table.
pub type Chord = MemberTable<Numbers>;

/// How fingers over numbers are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
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

impl Default for Numbers {
    fn default() -> Self {
        Self { level: LEVEL_MAX, search: None }
    }
}

/// The number that the finger of a level is at or after.
fn target(ring: &Ring, level: u8) -> u64 {
    ring.row().prefix().wrapping_add(1 << level)
}

/// Whether a level's number is past the successor.
fn is_needed(ring: &Ring, level: u8) -> bool {
    let Some(head) = ring.head() else { return false };
    let me = ring.row();
    let distance = head.prefix().wrapping_sub(me.prefix());
    // A head a whole lap away, just before this member: nothing is past it.
    let is_last = distance == 0 && head.place() < me.place();
    !is_last && 1 << level > distance
}

/// The highest level whose number is not past the predecessor; none if each one's is.
fn top(ring: &Ring) -> Option<u8> {
    let me = ring.row();
    let Some(before) = ring.predecessor() else { return Some(LEVEL_MAX) };
    let before = Entry::new(before.clone());
    let distance = before.prefix().wrapping_sub(me.prefix());
    if distance == 0 && before.place() < me.place() {
        return Some(LEVEL_MAX);
    }
    distance.checked_ilog2().map(|level| level as u8)
}

/// From this level on the finger is `member`, up to a level that has another. There is none if
/// `member` is the table's own shard.
fn set(ring: &mut Ring, level: u8, member: Shared<KnownShard>) {
    let me = ring.row().place();
    let found = Finger { level, entry: Entry::new(member) };
    let none = ring.is_me(found.entry.known());
    let is_before = |a: &Finger, b: &Finger| between(me, a.entry.place(), b.entry.place());
    let rows = &ring.fingers;
    // The row that this level was in may still be right for those above.
    let at = rows.partition_point(|row| row.level <= level);
    let above = rows.get(at).is_some_and(|row| row.level == level + 1) || level == LEVEL_MAX;
    let old =
        (at > 0 && !above).then(|| Finger { level: level + 1, entry: rows[at - 1].entry.clone() });
    let stays = |row: &&Finger| row.level < level && (none || !is_before(&found, row));
    let mut kept: Vec<Finger> = Vec::with_capacity(rows.len() + 2);
    kept.extend(rows.iter().filter(stays).cloned());
    if !none {
        if kept.last().is_none_or(|last| last.entry.shard() != found.entry.shard()) {
            kept.push(found.clone());
        }
        let higher = rows.iter().filter(|row| row.level > level).cloned();
        kept.extend(old.into_iter().chain(higher).filter(|far| is_before(&found, far)));
    }
    // The rows above may hold what was found under another level.
    kept.dedup_by(|next, row| next.entry.shard() == row.entry.shard());
    ring.fingers = kept;
}

impl Numbers {
    /// Looks for the finger of the next level, or begins again from the top.
    fn search(&mut self, ring: &mut Ring, out: &mut Outbox) {
        if !is_needed(ring, self.level) {
            self.end_round(ring);
        }
        let top = top(ring).filter(|top| is_needed(ring, *top));
        ring.fingers.retain(|row| top.is_some_and(|top| row.level <= top));
        let Some(top) = top else { return };
        self.level = self.level.min(top);
        let Some(node) = ring.me().leader().or(ring.me().descriptor().node_to_ask()) else {
            return;
        };
        let number = ring.number();
        let (asker, target) = (ring.me().shard(), target(ring, self.level));
        let before = out.len();
        self.search = Some(Search { number, by: None, ticks_left: FIND_TICKS });
        self.pass_on(ring, RingMessage::Find { number, asker, node, hops: 0, target }, out);
        if let (Some(search), Some((_, Message::Ring { to, .. }))) =
            (&mut self.search, out.get(before))
        {
            search.by = Some(*to);
        }
    }

    /// The round is over: what this level and those below lead to, the successor leads to.
    fn end_round(&mut self, ring: &mut Ring) {
        let level = std::mem::replace(&mut self.level, LEVEL_MAX);
        let rows = &ring.fingers;
        let below = rows.partition_point(|row| row.level <= level);
        let stays = below > 0
            && level < LEVEL_MAX
            && rows.get(below).is_none_or(|row| row.level != level + 1)
            && ring.is_past_head(rows[below - 1].entry.place());
        let cut = if stays { below - 1 } else { below };
        ring.fingers.drain(..cut);
        if stays {
            ring.fingers[0].level = level + 1;
        }
    }

    /// Answers who is at or after a number, or passes the question on.
    fn pass_on(&mut self, ring: &mut Ring, word: RingMessage, out: &mut Outbox) {
        let RingMessage::Find { number, asker, node, hops, target } = word else { return };
        // The lowest of all strings with this prefix, so that they are ordered as the numbers are.
        let bytes = target.to_be_bytes();
        let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let tail = &bytes[..len];
        let me = ring.row().place();
        let found = match ring.head() {
            _ if tail == me => Some(ring.me()),
            None => None,
            Some(head) if tail == head.place() || between(me, tail, head.place()) => {
                Some(head.known())
            }
            Some(_) => match ring.reach(tail) {
                Some((_, closer)) if hops < HOPS_MAX => {
                    let word = RingMessage::Find { number, asker, node, hops: hops + 1, target };
                    return ring.send_to(closer.known(), word, out);
                }
                _ => None,
            },
        };
        let member = found.filter(|member| fits_beside(ring.me(), member)).cloned();
        if let Some(member) = member {
            if asker == ring.me().shard() {
                return self.found(ring, number, member);
            }
            ring.send_to_node(node, asker, RingMessage::Found { number, member }, out);
        }
    }

    /// The finger that was looked for; nothing if it was another.
    fn found(&mut self, ring: &mut Ring, number: u64, member: Shared<KnownShard>) {
        if self.search.take_if(|search| search.number == number).is_none() {
            return;
        }
        let is_head = ring.head().is_some_and(|head| head.shard() == member.shard());
        let is_here = member.arc().keyspace() == ring.me().arc().keyspace();
        if is_head {
            return self.end_round(ring);
        }
        if is_here {
            ring.trust(member.shard());
            set(ring, self.level, member);
        }
        self.go_down();
    }

    fn go_down(&mut self) {
        self.level = self.level.checked_sub(1).unwrap_or(LEVEL_MAX);
    }
}

impl Fingers for Numbers {
    const STRATEGY: Strategy = Strategy::Chord;

    fn ideal(&self, ring: &Ring, all: &Members, _: usize) -> Vec<Finger> {
        let mut fingers: Vec<Finger> = Vec::new();
        for level in (0..=LEVEL_MAX).filter(|level| is_needed(ring, *level)) {
            let entry = all.first_from(target(ring, level));
            let head = ring.head().expect("some level is needed");
            if ring.is_me(entry.known()) {
                break;
            }
            let last = fingers.last().map_or(head, |last| &last.entry);
            if last.shard() != entry.shard() {
                fingers.push(Finger { level, entry: entry.clone() });
            }
        }
        fingers
    }

    fn tick(&mut self, ring: &mut Ring, out: &mut Outbox) {
        match &mut self.search {
            None => self.search(ring, out),
            Some(search) if search.ticks_left > 1 => search.ticks_left -= 1,
            Some(search) => {
                // Whichever member lost the search, the next one avoids this one.
                if let Some(by) = search.by {
                    ring.mark_unreachable(by);
                }
                self.search = None;
                self.go_down();
            }
        }
    }

    fn step(
        &mut self,
        ring: &mut Ring,
        _: &Shared<KnownShard>,
        word: RingMessage,
        out: &mut Outbox,
    ) -> Option<RingMessage> {
        match word {
            RingMessage::Find { .. } => self.pass_on(ring, word, out),
            RingMessage::Found { number, member } => self.found(ring, number, member),
            word => return Some(word),
        }
        None
    }
}
