//! One feed, on the node that serves it: whom to ask what, and what is complete.
//!
//! ```text
//!   parts of the keyspace:   a ──────────────●──            position of each: told up to there
//!                            b ────●─────────────
//!                            c ───────────●──────           buffer: changes above the lowest
//!                                  ▲
//!                                  resolved: commits up to here are whole, and are taken
//! ```
//!
//! Each part has a question under way that waits at the leader for the next change. When another
//! part has told a later change, a part is asked a second time: whether all is resolved up to
//! there. So a feed does not wait for idle shards.
//!
//! When shards are split or merged, a part begins at the lowest position of those that it has keys
//! of. What is told twice then is the same change under the same time and key.
//!
//! # Invariants
//! 1. The position of a part never falls below what was taken; all changes of its keys up to its
//!    position were taken, or are in the buffer.
//! 2. Commits are taken in rising order, each once.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes in the buffer | [`BUFFER_BYTES_MAX`], and an answer for each part | only the part with the lowest position is asked, and none while anything can be taken |
//! | bytes that one walk gathers | [`WALK_BYTES_MAX`] | the walk goes on for its first commits only, and begins again behind them |
//! | bytes of one commit | [`COMMIT_BYTES_MAX`] | the feed ends |

use std::collections::BTreeMap;

use keyspace::{Arc, Placement, ShardId, Timestamp};
use replication::BootNanos;
use storage::engine::ChangesCursor;

use super::changes::{ChangesWanted, FoundChanges, HeldKeyChange, How, KeyFilter, WalkEpoch};
use crate::replica::scan;
use crate::routing::fetch::{FetchRequest, FetchResult};
use crate::routing::route::Route;

#[cfg(test)]
mod tests;

/// Bytes of changes that wait to be complete, or to be taken.
pub const BUFFER_BYTES_MAX: usize = 16 << 20;
/// Bytes that a walk through the versions of a shard gathers.
pub const WALK_BYTES_MAX: usize = 16 << 20;
/// Bytes of the changes of one commit.
pub const COMMIT_BYTES_MAX: usize = 64 << 20;
/// So long a question waits at the leader for the next change.
const LIVE_WAIT_MS: u64 = 1_000;
/// So long one for a later resolved time.
const CATCH_UP_WAIT_MS: u64 = 100;
/// A question that waits for the next change is answered within this, or not looked at.
const OVERDUE_NANOS: u64 = 1_200_000_000;
/// A part is asked again after this, if it was not answered or got on no further …
const PAUSE_NANOS: u64 = 20_000_000;
/// … and after this, if it told changes: what happens meanwhile comes in one answer.
const PACE_NANOS: u64 = 2_000_000;

/// A part of the keyspace that a feed asks, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The shard.
    pub shard: ShardId,
    /// Its arc, as far as routes know.
    pub arc: Arc,
}

/// The parts of a keyspace that may have keys of a feed.
pub fn places(route: &Route, keys: &KeyFilter) -> Vec<Place> {
    let place = |at: usize| Place { shard: route.shard(at), arc: route.arc(at).clone() };
    let is_ordered = route.keyspace.options.placement == Placement::Ordered;
    match keys {
        KeyFilter::One(key) => vec![place(route.place_of_key(key))],
        KeyFilter::Range(low, high) if is_ordered => {
            let (low, high) = (low.as_ref().map(|key| &**key), high.as_ref().map(|key| &**key));
            scan::places_of(route, low, high).map(place).collect()
        }
        _ => (0..route.shards().len()).map(place).collect(),
    }
}

/// A question for a shard's leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names it.
    pub number: u64,
    /// Whom to ask.
    pub shard: ShardId,
    /// What.
    pub want: FetchRequest,
}

/// All changes of one commit time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The time: also the position behind it.
    pub at: Timestamp,
    /// The changes, by key.
    pub changes: Vec<HeldKeyChange>,
}

/// Why a feed cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEnd {
    /// Versions above its position are collected.
    TooLate {
        /// All up to then is gone.
        safe_point: Timestamp,
    },
    /// One commit is larger than a feed may be told.
    TooLarge {
        /// The commit.
        at: Timestamp,
    },
}

/// A fault planted in a feed, for the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFeedBug {
    /// A part that shards were split or merged into begins where the furthest of all parts is.
    SkippedAtSplit,
}

#[derive(Debug)]
struct Part {
    place: Place,
    position: Timestamp,
    walk: Option<Walk>,
    /// The question that waits for the next change, or asks for a piece of a walk; up to when it
    /// wants to hear that all is resolved.
    live: Option<(u64, Timestamp)>,
    /// When that was asked.
    live_since: BootNanos,
    /// The question that asks whether all is resolved by then.
    catch_up: Option<(u64, Timestamp)>,
    pause_until: BootNanos,
}

#[derive(Debug)]
struct Walk {
    upto: Timestamp,
    cursor: ChangesCursor,
    epoch: WalkEpoch,
    found: Changes,
}

/// Changes by commit, and in each by key.
#[derive(Debug, Default)]
struct Changes {
    all: BTreeMap<Timestamp, Vec<HeldKeyChange>>,
    bytes: usize,
}

impl Changes {
    fn put(&mut self, change: HeldKeyChange) {
        self.bytes += change.bytes();
        let commit = self.all.entry(change.at).or_default();
        match commit.binary_search_by(|other| other.key.cmp(&change.key)) {
            Ok(place) => {
                let before = std::mem::replace(&mut commit[place], change);
                self.bytes -= before.bytes();
            }
            Err(place) => commit.insert(place, change),
        }
    }

    fn first(&self) -> Option<Timestamp> {
        self.all.first_key_value().map(|(at, _)| *at)
    }

    fn last(&self) -> Option<Timestamp> {
        self.all.last_key_value().map(|(at, _)| *at)
    }

    fn pop_last(&mut self) {
        let last = self.all.pop_last();
        self.bytes -= last.map_or(0, |(_, changes)| bytes_of(&changes));
    }

    /// The changes of the first commit, taken out.
    fn take_first(&mut self) -> Option<Commit> {
        let (at, changes) = self.all.pop_first()?;
        self.bytes -= bytes_of(&changes);
        Some(Commit { at, changes })
    }
}

fn bytes_of(changes: &[HeldKeyChange]) -> usize {
    changes.iter().map(HeldKeyChange::bytes).sum()
}

/// See the module's documentation.
#[derive(Debug)]
pub struct FeedMerge {
    keys: KeyFilter,
    with_before: bool,
    /// Of what changed at or below this time, only the newest change of each key is told.
    compact_to: Timestamp,
    parts: Vec<Part>,
    buffer: Changes,
    taken: Timestamp,
    next_number: u64,
    end: Option<FeedEnd>,
    planted: Option<PlantedFeedBug>,
}

impl FeedMerge {
    /// A feed of what is above a position.
    pub fn new(keys: KeyFilter, with_before: bool, position: Timestamp) -> Self {
        Self {
            keys,
            with_before,
            compact_to: Timestamp::ZERO,
            parts: Vec::new(),
            buffer: Changes::default(),
            taken: position,
            next_number: 0,
            end: None,
            planted: None,
        }
    }

    /// Has it tell only the newest change of each key of those at or below a time, as they stand
    /// there: at their times, in order. Of an older commit so only some changes are told, or none.
    pub fn compact_to(&mut self, at: Timestamp) {
        self.compact_to = at;
    }

    /// Plants a fault.
    pub fn plant(&mut self, bug: PlantedFeedBug) {
        self.planted = Some(bug);
    }

    /// Which keys it is about.
    pub fn keys(&self) -> &KeyFilter {
        &self.keys
    }

    /// Why it cannot go on, when all that could be was taken.
    pub fn end(&self) -> Option<FeedEnd> {
        self.end
    }

    /// All up to here was taken, or there was nothing.
    pub fn position(&self) -> Timestamp {
        self.taken
    }

    /// Nothing more comes at or below this time.
    pub fn resolved(&self) -> Timestamp {
        self.parts.iter().map(|part| part.position).min().unwrap_or(self.taken)
    }

    /// Whether a commit can be taken.
    pub fn has_commit(&self) -> bool {
        self.buffer.first().is_some_and(|first| first <= self.resolved())
    }

    /// These shards have what it is about, by now.
    pub fn set_places(&mut self, places: Vec<Place>) {
        if self.parts.iter().map(|part| &part.place).eq(&places) {
            return;
        }
        let mut old = std::mem::take(&mut self.parts);
        let furthest = old.iter().map(|part| part.position).max();
        let mut positions = Vec::with_capacity(places.len());
        for place in &places {
            let kept = old.iter().filter(|part| part.place.arc.overlaps(&place.arc));
            let position = kept.map(|part| part.position).min().unwrap_or(self.taken);
            positions.push(match self.planted {
                Some(PlantedFeedBug::SkippedAtSplit) => furthest.unwrap_or(position),
                None => position,
            });
        }
        for (place, position) in places.into_iter().zip(positions) {
            // What is as it was goes on as it did.
            let same = old.iter().position(|part| part.place == place);
            self.parts.push(match same.map(|at| old.swap_remove(at)) {
                Some(part) => part,
                None => Part {
                    place,
                    position,
                    walk: None,
                    live: None,
                    live_since: 0,
                    catch_up: None,
                    pause_until: 0,
                },
            });
        }
    }

    /// What is to be asked now.
    pub fn questions(&mut self, now: BootNanos) -> Vec<Question> {
        let mut all = Vec::new();
        let (lowest, is_full) = (self.resolved(), self.buffer.bytes >= BUFFER_BYTES_MAX);
        if self.end.is_some() || (is_full && self.has_commit()) {
            return all;
        }
        let last = self.buffer.last().unwrap_or_default();
        for part in &mut self.parts {
            let may_ask = now >= part.pause_until && (!is_full || part.position == lowest);
            if !may_ask {
                continue;
            }
            let until = if last > part.position { last } else { Timestamp::ZERO };
            let how = match (&part.walk, part.live, part.catch_up) {
                (Some(Walk { upto, cursor, epoch, .. }), None, _) => {
                    How::Walk { upto: *upto, cursor: cursor.clone(), epoch: *epoch }
                }
                (None, None, _) => How::Live { until, wait_ms: LIVE_WAIT_MS },
                (None, Some((_, asked)), None) if asked < until => {
                    How::Live { until, wait_ms: CATCH_UP_WAIT_MS }
                }
                // An executor without ticks looks at what waits when something comes for it.
                (None, Some(_), None) if now >= part.live_since + OVERDUE_NANOS => {
                    How::Live { until, wait_ms: 0 }
                }
                _ => continue,
            };
            self.next_number += 1;
            let number = self.next_number;
            match part.live {
                None => (part.live, part.live_since) = (Some((number, until)), now),
                Some(_) => part.catch_up = Some((number, until)),
            }
            let want = ChangesWanted {
                ends: part.place.arc.ends(),
                keys: self.keys.clone(),
                above: part.position,
                with_before: self.with_before,
                compact_to: match part.position < self.compact_to {
                    true => self.compact_to,
                    false => Timestamp::ZERO,
                },
                how,
            };
            let want = FetchRequest::Changes(Box::new(want));
            all.push(Question { number, shard: part.place.shard, want });
        }
        all
    }

    /// When questions may be asked again that have to wait a moment, if there are any.
    pub fn look_at(&self, now: BootNanos) -> Option<BootNanos> {
        self.parts.iter().map(|part| part.pause_until).filter(|until| *until > now).min()
    }

    /// Whose question it was, and up to when that wanted to hear that all is resolved.
    fn part_of(&mut self, number: u64) -> Option<(usize, Timestamp)> {
        let is_it = |asked: &mut (u64, Timestamp)| asked.0 == number;
        self.parts.iter_mut().enumerate().find_map(|(at, part)| {
            let asked = part.live.take_if(is_it).or_else(|| part.catch_up.take_if(is_it));
            asked.map(|(_, until)| (at, until))
        })
    }

    /// A question was not answered: there is no leader now, or the shard is another by now.
    pub fn refused(&mut self, number: u64, now: BootNanos) {
        if let Some((at, _)) = self.part_of(number) {
            self.parts[at].pause_until = now + PAUSE_NANOS;
        }
    }

    /// A question was answered.
    pub fn answered(&mut self, number: u64, found: FetchResult, now: BootNanos) {
        let Some((at, until)) = self.part_of(number) else { return };
        let part = &mut self.parts[at];
        let found = match found {
            FetchResult::Changes(found) => found,
            FetchResult::BelowSafePoint(safe_point) => {
                self.end.get_or_insert(FeedEnd::TooLate { safe_point });
                return;
            }
            _ => return,
        };
        match found {
            FoundChanges::Live { changes, resolved } => {
                // The clock there is far behind, or a transaction is not decided yet.
                if resolved <= part.position || (changes.is_empty() && resolved < until) {
                    part.pause_until = now + PAUSE_NANOS;
                }
                if resolved <= part.position {
                    return;
                }
                if !changes.is_empty() {
                    part.pause_until = part.pause_until.max(now + PACE_NANOS);
                }
                let (position, news) = (part.position, changes.into_iter());
                let news = news.filter(|new| position < new.at && new.at <= resolved);
                news.for_each(|new| self.buffer.put(new));
                (part.position, part.walk) = (resolved, None);
            }
            FoundChanges::NotKept { upto, epoch } => {
                if upto <= part.position {
                    part.pause_until = now + PAUSE_NANOS;
                } else if part.walk.as_ref().is_none_or(|walk| walk.epoch != epoch) {
                    let (cursor, found) = (ChangesCursor::default(), Changes::default());
                    part.walk = Some(Walk { upto, cursor, epoch, found });
                }
            }
            FoundChanges::Piece { changes, next } => {
                let Some(walk) = &mut part.walk else { return };
                let (position, upto) = (part.position, walk.upto);
                let news = changes.into_iter();
                let news = news.filter(|new| position < new.at && new.at <= upto);
                news.for_each(|new| walk.found.put(new));
                if let Err(at) = walk.shorten() {
                    self.end.get_or_insert(FeedEnd::TooLarge { at });
                    return;
                }
                match next {
                    Some(next) => walk.cursor = next,
                    None => {
                        let Some(walk) = part.walk.take() else { return };
                        part.position = walk.upto;
                        walk.found.all.into_values().flatten().for_each(|new| self.buffer.put(new));
                    }
                }
            }
        }
    }

    /// The next commits, about so many bytes. None: nothing is complete.
    pub fn take(&mut self, bytes_max: usize) -> Vec<Commit> {
        let (resolved, mut bytes, mut all) = (self.resolved(), 0, Vec::new());
        while bytes < bytes_max
            && let Some(at) = self.buffer.first().filter(|at| *at <= resolved)
        {
            let Some(commit) = self.buffer.take_first() else { break };
            let size = bytes_of(&commit.changes);
            if size > COMMIT_BYTES_MAX {
                self.end = Some(FeedEnd::TooLarge { at });
                return all;
            }
            bytes += size;
            self.taken = at;
            all.push(commit);
        }
        if !self.has_commit() {
            self.taken = self.taken.max(resolved);
        }
        all
    }
}

impl Walk {
    /// Keeps the first commits alone, if it has too much.
    fn shorten(&mut self) -> Result<(), Timestamp> {
        if self.found.bytes <= WALK_BYTES_MAX {
            return Ok(());
        }
        let first = self.found.first().unwrap_or_default();
        let mut lowest = None;
        while self.found.bytes > WALK_BYTES_MAX / 2
            && let Some(last) = self.found.last().filter(|last| *last > first)
        {
            lowest = Some(last);
            self.found.pop_last();
        }
        if let Some(lowest) = lowest {
            self.upto = Timestamp(lowest.0 - 1);
        }
        if self.found.bytes > COMMIT_BYTES_MAX { Err(first) } else { Ok(()) }
    }
}
