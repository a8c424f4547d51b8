//! Which keys are there? Steps through all of them, ranges in order, one at random.

use std::ops::Bound;

use keyspace::random::finish;
use keyspace::{Slot, Timestamp};

use super::record::Record;
use super::{MemoryEngine, Version, WrongLayout};

/// Keys that are drawn before a random one is looked for in order.
const DRAWS_MAX: u64 = 64;
/// Keys that are looked at in order for a random one.
const WALK_MAX: usize = 4096;

/// Where a scan of a hashed shard goes on: the first slot and hash not yet seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanCursor {
    /// The slot.
    pub slot: Slot,
    /// The 48-bit hash within it.
    pub hash: u64,
}

/// A range of an ordered shard, and how much of it to examine.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// Where it starts.
    pub start: Bound<&'a [u8]>,
    /// Where it ends; nothing is found if that lies before the start.
    pub end: Bound<&'a [u8]>,
    /// From the end to the start.
    pub reverse: bool,
    /// How many keys to visit at most.
    pub visited_max: usize,
    /// How many keys to look at at most, dead ones included.
    pub examined_max: usize,
}

impl MemoryEngine {
    /// Visits the keys with a value at `at` from `cursor` on, in order of slot and hash, and
    /// returns where to go on, or none at the end. Looks at about `count` keys, dead ones
    /// included, and never stops between keys of one hash: a key that is there throughout a scan
    /// is visited, whatever is written meanwhile.
    ///
    /// # Errors
    /// [`WrongLayout`] if the shard has no slots.
    pub fn scan(
        &self,
        cursor: ScanCursor,
        count: usize,
        at: Timestamp,
        visit: &mut dyn FnMut(&[u8], Version<'_>),
    ) -> Result<Option<ScanCursor>, WrongLayout> {
        self.current.index.hashed()?;
        let Some(era) = self.era_at(at) else { return Ok(None) };
        let mut left = count.max(1);
        let mut last = None;
        for (here, head) in era.index.hashed()?.heads_from(cursor) {
            if left == 0 && last != Some(here) {
                return Ok(Some(here));
            }
            left = left.saturating_sub(1);
            last = Some(here);
            if let Some(record) = Self::visible(head, at) {
                visit(record.key(), Version::of(record));
            }
        }
        Ok(None)
    }

    /// As [`Self::scan`], of a shard of linear hashing: from a number on, in order of numbers.
    ///
    /// # Errors
    /// [`WrongLayout`] if the shard is of another layout.
    pub fn scan_numbers(
        &self,
        from: u64,
        count: usize,
        at: Timestamp,
        visit: &mut dyn FnMut(&[u8], Version<'_>),
    ) -> Result<Option<u64>, WrongLayout> {
        self.current.index.by_number()?;
        let Some(era) = self.era_at(at) else { return Ok(None) };
        let mut left = count.max(1);
        let mut last = None;
        for (here, head) in era.index.by_number()?.heads_from(from) {
            if left == 0 && last != Some(here) {
                return Ok(Some(here));
            }
            left = left.saturating_sub(1);
            last = Some(here);
            if let Some(record) = Self::visible(head, at) {
                visit(record.key(), Version::of(record));
            }
        }
        Ok(None)
    }

    /// Visits the keys with a value at `at` in a range, in order. Returns the last key looked at
    /// if a maximum of `range` ended the walk, and none if the range did: to go on, put that key
    /// as an excluded bound in the place of the start (of the end, in reverse).
    ///
    /// # Errors
    /// [`WrongLayout`] if the shard is not ordered.
    pub fn range(
        &self,
        range: &Range<'_>,
        at: Timestamp,
        visit: &mut dyn FnMut(&[u8], Version<'_>),
    ) -> Result<Option<&[u8]>, WrongLayout> {
        self.current.index.ordered()?;
        let Some(era) = self.era_at(at) else { return Ok(None) };
        let mut heads = era.index.ordered()?.range(range.start, range.end);
        let mut visited = 0;
        let mut last = None;
        for examined in 0.. {
            let head = if range.reverse { heads.next_back() } else { heads.next() };
            let Some(head) = head else { return Ok(None) };
            // Each call examines at least one key, so that a scan always makes progress.
            if last.is_some() && (examined >= range.examined_max || visited >= range.visited_max) {
                break;
            }
            last = Some(head.key());
            if let Some(record) = Self::visible(head, at)
                && visited < range.visited_max
            {
                visited += 1;
                visit(record.key(), Version::of(record));
            }
        }
        Ok(last)
    }

    /// A key with a value at `at`, nearly uniformly chosen by `random`. Bounded work: among very
    /// many dead keys it may find none although there is one.
    pub fn random_key(&self, random: u64, at: Timestamp) -> Option<&[u8]> {
        let index = &self.era_at(at)?.index;
        let seen = |head: &Record| Self::visible(*head, at).is_some();
        let drawn = (0..DRAWS_MAX).map_while(|i| index.sample(finish(random.wrapping_add(i))));
        let found = drawn.into_iter().find(seen).or_else(|| {
            // Hardly anything lives: from somewhere on, then from the start.
            let walk = |from| index.heads_from(from).take(WALK_MAX).find(seen);
            walk(Some((index.sample(finish(random))?, &self.hasher))).or_else(|| walk(None))
        });
        found.map(Record::key)
    }
}
