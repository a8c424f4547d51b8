//! Which versions can be freed, and when? Collection of versions that no read can ask for any more.
//!
//! Work is found without searching, from three places, in this order:
//!
//! * **The queue** of superseding records, in timestamp order: records something older hangs on,
//!   and tombstones. Once the limit (safe point, or hold if lower) has reached a record, all that
//!   is older than it goes, and a tombstone that is still its key's head goes with its key. What a
//!   pin needs stays ([`super::pins`]).
//! * **Expiring heads**, by time of expiry.
//! * **Eras** that a flush at or below the limit has ended, key by key.
//!
//! ```text
//!  queue:   b20 → c30 → ✗35 → d40         limit 32: pops b20 (frees a10), c30 (frees b20)
//!  chain of k:  ✗35 → c30 → b20 → a10     afterwards: ✗35 → c30; at 35 c30, ✗35 and k go
//! ```
//! **Why no pointer in the queue dangles.** A record leaves memory in six ways, and is not in
//! the queue in any of them (asserted by `Record::free`):
//! 1. Hanging below a popped record: it was pushed before that one (chains grow at the head, and
//!    `restore`, which may push times out of order, sorts before the next pop), so popped before.
//! 2. As a popped tombstone: just popped.
//! 3. Replaced by a write of the same timestamp: its place in the queue is handed over.
//! 4. Expired at the limit, hence (invariant 5) older than the limit: the queue is worked off up
//!    to the limit first.
//! 5. In an era that ended at or below the limit: the same.
//! 6. Held for pins alone: it hangs under one that was popped, and was pushed before that one.

use std::collections::VecDeque;

use keyspace::Timestamp;

use super::MemoryEngine;
use super::pins::{Hold, Prune};
use super::record::Record;

/// How many records ahead of the one that is popped memory is asked for.
const AHEAD: usize = 8;
/// How many records a written one may be older than before the queue is sorted.
const NEAR: usize = 1024;
/// The queue gives memory back only above this capacity, in records.
const QUEUE_CAPACITY_MAX: usize = 1024;

/// Superseding records and tombstones, in the order in which they may free something.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) records: VecDeque<Record>,
    /// A restore has pushed times that fall.
    pub(super) unsorted: bool,
}

impl Queue {
    pub(super) fn push(&mut self, record: Record) {
        if self.records.back().is_some_and(|last| last.timestamp() > record.timestamp()) {
            self.unsorted = true;
        }
        self.records.push_back(record);
        // SAFETY: pushing needs `&mut MemoryEngine`.
        unsafe { record.set_queued(true) };
    }

    /// As [`Self::push`], of a record that may be a little older than the last ones: what
    /// transactions write is, and is put where it belongs, so that nothing must be sorted.
    #[inline]
    pub(super) fn push_written(&mut self, record: Record) {
        match self.records.back() {
            Some(last) if last.timestamp() > record.timestamp() => self.insert(record),
            _ => self.push(record),
        }
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, record: Record) {
        let at = record.timestamp();
        let newer = self.records.iter().rev().take(NEAR).take_while(|r| r.timestamp() > at).count();
        if newer == NEAR {
            return self.push(record);
        }
        self.records.insert(self.records.len() - newer, record);
        // SAFETY: pushing needs `&mut MemoryEngine`.
        unsafe { record.set_queued(true) };
    }

    /// Hands a place over. Looks from the back: a record of the same time was pushed lately.
    pub(super) fn replace(&mut self, old: Record, new: Record) {
        let place = self.records.iter_mut().rev().find(|record| **record == old);
        *place.expect("a queued record is in the queue") = new;
        // SAFETY: replacing needs `&mut MemoryEngine`.
        unsafe {
            old.set_queued(false);
            new.set_queued(true);
        }
    }

    fn pop(&mut self, limit: Timestamp) -> Option<Record> {
        // What is popped was written long ago and is in no cache: fetch the record first, later
        // what hangs on it.
        if let Some(ahead) = self.records.get(AHEAD) {
            ahead.prefetch();
        }
        if let Some(older) = self.records.get(AHEAD / 2).and_then(|ahead| ahead.older()) {
            older.prefetch();
        }
        let record = self.records.pop_front_if(|record| record.timestamp() <= limit)?;
        // SAFETY: popping needs `&mut MemoryEngine`.
        unsafe { record.set_queued(false) };
        Some(record)
    }

    fn sort(&mut self) {
        if std::mem::take(&mut self.unsorted) {
            // Stable, so that along a chain older records stay in front.
            self.records.make_contiguous().sort_by_key(|record| record.timestamp());
        }
    }

    fn shrink(&mut self) {
        if self.records.capacity() > QUEUE_CAPACITY_MAX.max(self.records.len() * 4) {
            self.records.shrink_to(self.records.len() * 2);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    fn front_is_due(&self, limit: Timestamp) -> bool {
        self.records.front().is_some_and(|record| record.timestamp() <= limit)
    }
}

impl MemoryEngine {
    /// The safe point: no read is below it.
    pub fn safe_point(&self) -> Timestamp {
        self.safe_point
    }

    /// Raises the safe point; a lower one changes nothing.
    pub fn raise_safe_point(&mut self, timestamp: Timestamp) {
        self.safe_point = self.safe_point.max(timestamp);
    }

    /// Keeps everything that is seen at `timestamp` or later, and at the pins that there are now,
    /// until [`MemoryEngine::release`] with the same timestamp. There may be several holds.
    ///
    /// Panics on a timestamp below the safe point: versions there may be freed already.
    pub fn hold(&mut self, timestamp: Timestamp) {
        assert!(timestamp >= self.safe_point, "a hold below the safe point");
        self.holds.push(Hold { at: timestamp, pins: self.pins.clone() });
    }

    /// Ends one hold.
    ///
    /// # Panics
    /// If there is none at this timestamp.
    pub fn release(&mut self, timestamp: Timestamp) {
        let place = self.holds.iter().position(|hold| hold.at == timestamp);
        let hold = self.holds.swap_remove(place.expect("only what was held is released"));
        if hold.pins != self.pins {
            self.prune_all();
        }
    }

    /// Whether there is a hold.
    pub fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Collection frees versions that no read at or above this time sees, and no pin: the safe
    /// point, or the lowest hold.
    pub(super) fn limit(&self) -> Timestamp {
        self.holds.iter().map(|hold| hold.at).fold(self.safe_point, Timestamp::min)
    }

    /// Frees what is collectable, at most about `budget_records` versions. Returns whether there
    /// is more to do at this safe point.
    pub fn collect(&mut self, budget_records: usize) -> bool {
        let (limit, pins) = (self.limit(), self.all_pins());
        let mut left = budget_records;
        self.queue.sort();
        while left > 0
            && let Some(record) = self.queue.pop(limit)
        {
            left -= 1;
            self.settle(record, &pins);
            if record.is_tombstone() && record.older().is_none() {
                self.remove_if_head(record);
            }
        }
        self.queue.shrink();
        if self.queue.front_is_due(limit) {
            return true;
        }
        while let Some(first) = self.current.expiring.first()
            && first.expiry_ms() <= limit.millis()
        {
            if left == 0 {
                return true;
            }
            left -= 1;
            self.expired_keys += 1;
            let head = first.record;
            match pins.is_empty() && head.older().is_none() {
                true => self.remove_if_head(head),
                false => self.end_expired(head, &pins),
            }
        }
        self.collect_eras(limit, left, &pins)
    }

    fn collect_eras(&mut self, limit: Timestamp, mut left: usize, pins: &[Timestamp]) -> bool {
        let mut place = 0;
        while let Some(retired) = self.retired.get(place) {
            let is_over = retired.end <= limit;
            if !is_over || retired.is_pinned(pins) {
                if is_over && !retired.is_over {
                    let retired = &mut self.retired[place];
                    (retired.is_over, retired.era.prune) = (true, Prune::From(None));
                }
                match self.prune(Some(place), left, pins) {
                    Some(rest) => left = rest,
                    None => return true,
                }
                place += 1;
                continue;
            }
            let mut retired = self.retired.remove(place).expect("it is there");
            let era = &mut retired.era;
            while left > 0 && era.expiring.pop_first().is_some() {
                left -= 1;
            }
            if left > 0 {
                era.live_bytes = 0;
                left -= era.index.drain(left, |head| self.free_key(head));
            }
            if !era.expiring.is_empty() || era.index.len() > 0 {
                self.retired.insert(place, retired);
                return true;
            }
        }
        self.prune(None, left, pins).is_none()
    }

    /// Takes a record's key out of the index and frees the record, if it is still the head.
    pub(super) fn remove_if_head(&mut self, record: Record) {
        let key = self.hasher.key(record.key());
        let (place, head) = self.current.index.locate(&key);
        if head == Some(record) {
            self.current.discount(record);
            self.current.index.remove(&key, place);
            self.free_key(record);
        }
    }

    /// Frees a record that has been cut off, with everything older, which was held.
    pub(super) fn free_key(&mut self, record: Record) {
        let mut chain = record.older();
        self.free_one(record);
        while let Some(record) = chain {
            chain = record.older();
            self.held.remove(record);
            self.free_one(record);
        }
    }

    /// Frees a record that has been cut off, and nothing else.
    pub(super) fn free_one(&mut self, record: Record) {
        self.versions -= 1;
        self.version_bytes -= record.bytes();
        // SAFETY: out of index and chain, and not queued (module page); `&mut self`.
        unsafe { record.free() };
    }

    /// About how many bytes of old versions collection would free if the safe point were here.
    /// Takes old versions to be of equal size, and leaves out versions that only pins keep by now.
    pub fn bytes_freed_at(&self, point: Timestamp) -> u64 {
        let flushed_bytes: u64 = self.retired.iter().map(|retired| retired.era.live_bytes).sum();
        let old_bytes = self.version_bytes - self.current.live_bytes;
        let superseded_bytes = old_bytes.saturating_sub(flushed_bytes + self.held.bytes);
        let queue = &self.queue.records;
        let passed = queue.partition_point(|record| record.timestamp() <= point) as u128;
        let share = u128::from(superseded_bytes) * passed / queue.len().max(1) as u128;
        let eras = self.retired.iter().take_while(|retired| retired.end <= point);
        let eras = eras.filter(|retired| !retired.is_pinned(&self.pins));
        share as u64 + eras.map(|retired| retired.era.live_bytes).sum::<u64>()
    }

    /// The timestamp to which the safe point must rise for collection to free about this many old
    /// bytes, or all there are; none if there are none. Takes old versions to be of equal size.
    pub fn point_to_free(&self, bytes: u64) -> Option<Timestamp> {
        let queue = &self.queue.records;
        let bytes = bytes.min(self.bytes_freed_at(Timestamp::MAX));
        let enough = |point: &Timestamp| self.bytes_freed_at(*point) >= bytes;
        let (mut low, mut high) = (0, queue.len());
        while low < high {
            let middle = (low + high) / 2;
            if enough(&queue[middle].timestamp()) { high = middle } else { low = middle + 1 }
        }
        let in_queue = queue.get(low).map(|record| record.timestamp());
        let in_eras = self.retired.iter().map(|retired| retired.end).find(enough);
        in_queue.into_iter().chain(in_eras).min()
    }
}
