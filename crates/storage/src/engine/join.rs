//! How do the engines of two neighbours become one? The right one's keys follow the left one's.
//!
//! ```text
//!   left    [a ───── b)      right [b ───── c)        tables: handed over, none is copied
//!   left    [a ──────────────────── c)                trees: one, of the entries of both in a row
//!                                                     queues: one, in the order of times
//! ```
//!
//! The joined engine answers as both did, each for its own keys, from the higher safe point on.
//!
//! **Flushes.** Both may have been flushed at different times, and an engine has one row of eras.
//! So join reduces each to one era first. It puts versions that a flush has set aside, and that can
//! still be read, back under later versions, with a tombstone between, as if the flush had emptied
//! the index key by key. No read can tell the difference. That takes a step for each such key; once
//! the safe point has passed a flush, join frees the versions instead.
//!
//! A reader that goes piece by piece (a dump) has to begin again: its hold is lost.

use std::collections::{BTreeSet, VecDeque};

use keyspace::Timestamp;

use super::collect::Queue;
use super::era::{Era, FlushedEra, Index};
use super::pins::Held;
use super::record::Record;
use super::tree::Tree;
use super::{Layout, MemoryEngine};

impl MemoryEngine {
    /// Takes in all keys of the engine of the slots, or keys, that follow. There are no holds
    /// afterwards. The pins are those of the higher safe point.
    ///
    /// # Panics
    /// If the right engine is of another layout, its slots do not begin where these end, or a key
    /// of it is not above all that are here.
    pub fn join(&mut self, mut right: MemoryEngine) {
        let layout = match (self.layout, right.layout) {
            (
                Layout::Hashed { first_slot, end_slot: middle },
                Layout::Hashed { first_slot: from, end_slot },
            ) => {
                assert_eq!(middle, from, "engines that are no neighbours are joined");
                Layout::Hashed { first_slot, end_slot }
            }
            (Layout::Ordered, Layout::Ordered) => Layout::Ordered,
            (Layout::LinearHash, Layout::LinearHash) => Layout::LinearHash,
            _ => panic!("engines of two layouts are joined"),
        };
        self.flatten();
        right.flatten();
        // What is left of the right one is empty when it goes.
        let nothing = Index::Ordered(Tree::default());
        let index = std::mem::replace(&mut right.current.index, nothing);
        match (&mut self.current.index, index) {
            (Index::Hashed(tables), Index::Hashed(more)) => tables.append(more),
            (Index::Ordered(tree), Index::Ordered(more)) => tree.append(more),
            (Index::LinearHash(tree), Index::LinearHash(more)) => tree.append(more),
            _ => unreachable!("indexes are of the engine's layout"),
        }
        self.current.live_keys += right.current.live_keys;
        self.current.live_bytes += right.current.live_bytes;
        self.current.expiring.append(&mut right.current.expiring);
        self.current.newest = self.current.newest.max(right.current.newest);
        self.current.number = self.current.number.max(right.current.number);
        self.queue.merge(std::mem::take(&mut right.queue));
        self.layout = layout;
        self.join_pins((right.safe_point, std::mem::take(&mut right.pins)));
        self.held.versions += right.held.versions;
        self.held.bytes += std::mem::take(&mut right.held).bytes;
        self.versions += std::mem::take(&mut right.versions);
        self.version_bytes += std::mem::take(&mut right.version_bytes);
        self.expired_keys += right.take_expired_keys();
    }

    /// Takes everything out: the engine left behind is empty, owns no slot, and must not be used.
    pub fn take(&mut self) -> MemoryEngine {
        let layout = match self.layout {
            Layout::Hashed { first_slot, .. } => {
                Layout::Hashed { first_slot, end_slot: first_slot }
            }
            Layout::Ordered | Layout::LinearHash => self.layout,
        };
        let nothing = MemoryEngine {
            layout,
            hasher: self.hasher,
            flush_in_place_keys_max: self.flush_in_place_keys_max,
            current: Era::new(layout, 0, Timestamp::ZERO),
            retired: VecDeque::new(),
            queue: Queue::default(),
            safe_point: self.safe_point,
            pins: Vec::new(),
            holds: Vec::new(),
            held: Held::default(),
            skips_equal: false,
            versions: 0,
            version_bytes: 0,
            expired_keys: 0,
        };
        std::mem::replace(self, nothing)
    }

    /// Brings it to one era. There are no holds afterwards.
    fn flatten(&mut self) {
        self.holds.clear();
        if !self.retired.is_empty() {
            // What nobody can read any more.
            self.collect(usize::MAX);
        }
        if !self.retired.is_empty() {
            let empty = Era::new(self.layout, 0, Timestamp::ZERO);
            let newest = std::mem::replace(&mut self.current, empty);
            for FlushedEra { era, end, .. } in std::mem::take(&mut self.retired) {
                // The flush counted them, and they will be collected from here.
                let counted = era.expiring.expired(end);
                self.expired_keys = self.expired_keys.saturating_sub(counted);
                self.graft(era);
                self.flush_in_place(end, |_| true);
            }
            self.graft(newest);
            self.held = self.count_held();
        }
        self.current.start = Timestamp::ZERO;
    }

    /// Puts the chains of a later era on top of those of the current one, which a flush has just
    /// emptied.
    fn graft(&mut self, mut later: Era) {
        let mut heads = Vec::new();
        later.index.drain(usize::MAX, |head| heads.push(head));
        let mut replaced = BTreeSet::new();
        for head in heads {
            if head.is_tombstone() && !head.is_queued() && head.older().is_none() {
                // Collected, but for its place in an index that the collector did not look into.
                self.free_one(head);
                continue;
            }
            let key = self.hasher.key(head.key());
            let (place, base) = self.current.index.locate(&key);
            let Some(base) = base else {
                self.current.index.insert(&key, place, head);
                self.current.count(head);
                continue;
            };
            self.current.discount(base);
            let mut last = head;
            while let Some(older) = last.older() {
                last = older;
            }
            let mut under = Some(base);
            if last.timestamp() == base.timestamp() {
                // Written at the time of the flush: it takes the tombstone's place.
                assert!(base.is_tombstone(), "a value is as new as what came after a flush");
                // SAFETY: `&mut self`; the chain goes on under `last`.
                under = unsafe { base.take_older() };
                replaced.insert(base.key_start());
            }
            // SAFETY: `&mut self`; `last` is the end of its chain, and `under` hangs nowhere else.
            unsafe { last.set_older(under) };
            if under.is_some() && !last.is_queued() {
                self.queue.push(last);
            }
            self.current.index.set_head(&key, place, head);
            self.current.count(head);
        }
        self.current.newest = self.current.newest.max(later.newest);
        self.current.number = later.number;
        self.forget(&replaced);
    }

    /// Frees records that are in no chain any more, but may be in the queue.
    fn forget(&mut self, records: &BTreeSet<*mut u8>) {
        if records.is_empty() {
            return;
        }
        self.queue.records.retain(|record| !records.contains(&record.key_start()));
        for start in records {
            // SAFETY: it lives, and was just let go of by chain and queue.
            unsafe {
                let record = Record::of_key(*start);
                record.set_queued(false);
                self.versions -= 1;
                self.version_bytes -= record.bytes();
                record.free();
            }
        }
    }
}

impl Queue {
    /// Takes in another's records.
    fn merge(&mut self, other: Self) {
        if self.unsorted || other.unsorted {
            self.records.extend(other.records);
            self.unsorted = true;
            return;
        }
        let (mut left, mut right) = (std::mem::take(&mut self.records), other.records);
        self.records = VecDeque::with_capacity(left.len() + right.len());
        while let (Some(one), Some(two)) = (left.front(), right.front()) {
            let first = if one.timestamp() <= two.timestamp() { &mut left } else { &mut right };
            self.records.extend(first.pop_front());
        }
        self.records.append(&mut left);
        self.records.append(&mut right);
    }
}
