//! Where does a hashed key lie? In the table of its slot, sorted by the seeded hash.
//!
//! A table is one array of 16-byte entries (48-bit hash, record). An entry's *home* is
//! `hash / 2^48 × capacity`, so homes rise with hashes; each entry lies at its home or, when
//! taken, as soon after it as order allows. What runs past the last home lies in a short tail:
//!
//! ```text
//!  capacity 8, tail 3 (hashes as fractions of 2^48)
//!  homes   0     1     2     3     4     5     6     7   │ tail
//!        ┌─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┼─────┬─────┬─────┐
//!        │ .03 │     │ .26 │ .31 │ .38 │     │     │ .90 │ .93 │     │  ∅  │
//!        └─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┘
//!                       home 2 ↑ home 2 ↑home 3          home 7 ↑     ↑ always empty
//! ```
//! Invariants, checked by `Table::check` in the tests:
//! 1. Entries are sorted by (hash, key) over the whole array, gaps left out.
//! 2. Every entry lies at or after its home, and no gap lies between home and entry.
//! 3. The last entry of an allocated array is empty, so that every probe ends.
//!
//! Hence a scan from any hash starts at that hash's home (G18), and growing copies entries in
//! order without looking at a single record. An empty slot allocates nothing.

use std::iter::successors;

use keyspace::{HashedKey, KeyHasher, Slot};

use super::ScanCursor;
use super::record::{Record, prefetch};

const CAPACITY_MIN: u32 = 4;
/// Tables grow when more than this many of [`LOAD_OF`] homes would be taken.
const LOAD_MAX: u32 = 5;
const LOAD_OF: u32 = 6;
/// Slots counted together, so that long runs of empty ones are skipped.
const GROUP_SLOTS: usize = 128;

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    record: Option<Record>,
}

const EMPTY: Entry = Entry { hash: 0, record: None };

/// The table of one slot.
#[derive(Default)]
struct Table {
    entries: Box<[Entry]>,
    capacity: u32,
    len: u32,
}

const _: () = assert!(size_of::<Entry>() == 16 && size_of::<Table>() <= 24);

impl Table {
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let scaled = u128::from(hash << (64 - KeyHasher::BITS)) * u128::from(self.capacity);
        (scaled >> 64) as usize
    }

    /// Where the key is, or where it would go.
    #[inline]
    fn locate(&self, hash: u64, key: &[u8]) -> (usize, Option<Record>) {
        let mut place = self.home(hash);
        // An unallocated table has no entries: the probe ends at once.
        while let Some(&Entry { hash: found, record: Some(record) }) = self.entries.get(place) {
            if found >= hash {
                if found > hash {
                    break;
                }
                let found_key = record.key();
                if found_key == key {
                    return (place, Some(record));
                }
                if found_key > key {
                    break;
                }
            }
            place += 1;
        }
        (place, None)
    }

    fn insert(&mut self, hash: u64, record: Record, mut place: usize) {
        if (self.len + 1) * LOAD_OF > self.capacity * LOAD_MAX {
            self.rebuild((self.capacity + self.capacity / 2).max(CAPACITY_MIN));
            place = self.locate(hash, record.key()).0;
        }
        let mut gap = self.gap_from(place);
        if gap + 1 == self.entries.len() {
            // The tail is full up to the entry that stays empty: same homes, longer tail.
            self.rebuild(self.capacity);
            place = self.locate(hash, record.key()).0;
            gap = self.gap_from(place);
        }
        self.entries.copy_within(place..gap, place + 1);
        self.entries[place] = Entry { hash, record: Some(record) };
        self.len += 1;
    }

    fn gap_from(&self, place: usize) -> usize {
        let taken = self.entries[place..].iter().take_while(|entry| entry.record.is_some());
        place + taken.count()
    }

    fn remove(&mut self, place: usize) {
        let mut end = place + 1;
        while self.entries[end].record.is_some() && self.home(self.entries[end].hash) < end {
            end += 1;
        }
        self.entries.copy_within(place + 1..end, place);
        self.entries[end - 1] = EMPTY;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        } else if self.len * 4 < self.capacity && self.capacity > CAPACITY_MIN {
            self.rebuild((self.len + self.len / 2).max(CAPACITY_MIN));
        }
    }

    /// Lays the entries out for another capacity, with room in the tail.
    fn rebuild(&mut self, capacity: u32) {
        let tail = (capacity as usize / 8).clamp(2, 8);
        let old = std::mem::take(&mut self.entries);
        self.capacity = capacity;
        let mut new = vec![EMPTY; capacity as usize + tail];
        let mut free = 0;
        for entry in old.iter().filter(|entry| entry.record.is_some()) {
            let place = free.max(self.home(entry.hash));
            if place >= new.len() {
                new.resize(place + 1, EMPTY);
            }
            new[place] = *entry;
            free = place + 1;
        }
        let spilt = free.saturating_sub(capacity as usize);
        if free + tail.min(2) > new.len() {
            new.resize(free + tail + spilt / 2, EMPTY);
        }
        self.entries = new.into_boxed_slice();
    }

    /// Entries from the first with at least this hash on, gaps left out.
    fn entries_from(&self, hash: u64) -> impl Iterator<Item = (u64, Record)> + '_ {
        let beyond = hash >> KeyHasher::BITS != 0;
        let start = if beyond { self.entries.len() } else { self.home(hash) };
        let entries = self.entries.get(start..).unwrap_or_default().iter();
        entries
            .filter_map(|entry| Some((entry.hash, entry.record?)))
            .skip_while(move |(found, _)| *found < hash)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

/// The tables of a run of slots.
pub(super) struct SlotTables {
    first_slot: Slot,
    tables: Box<[Table]>,
    /// Entries per [`GROUP_SLOTS`] slots.
    groups: Box<[u64]>,
    len: u64,
    table_bytes: usize,
    /// How far [`SlotTables::drain`] has come: table and entry.
    drained: (usize, usize),
}

impl SlotTables {
    pub(super) fn new(first_slot: Slot, end_slot: Slot) -> Self {
        let slots = usize::from(end_slot - first_slot);
        Self {
            first_slot,
            tables: (0..slots).map(|_| Table::default()).collect(),
            groups: vec![0; slots.div_ceil(GROUP_SLOTS)].into(),
            len: 0,
            table_bytes: 0,
            drained: (0, 0),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.table_bytes + size_of_val(&*self.tables) + size_of_val(&*self.groups)) as u64
    }

    #[inline]
    fn number(&self, slot: Slot) -> usize {
        usize::from(slot.checked_sub(self.first_slot).expect("slot before this shard"))
    }

    #[inline]
    pub(super) fn locate(&self, key: &HashedKey<'_>) -> (usize, Option<Record>) {
        self.tables[self.number(key.slot)].locate(key.hash, key.bytes)
    }

    pub(super) fn insert(&mut self, key: &HashedKey<'_>, place: usize, record: Record) {
        let number = self.number(key.slot);
        let table = &mut self.tables[number];
        let before = table.bytes();
        table.insert(key.hash, record, place);
        self.table_bytes = self.table_bytes + table.bytes() - before;
        self.groups[number / GROUP_SLOTS] += 1;
        self.len += 1;
    }

    pub(super) fn set_head(&mut self, key: &HashedKey<'_>, place: usize, record: Record) {
        let number = self.number(key.slot);
        self.tables[number].entries[place].record = Some(record);
    }

    pub(super) fn remove(&mut self, key: &HashedKey<'_>, place: usize) {
        let number = self.number(key.slot);
        let table = &mut self.tables[number];
        let before = table.bytes();
        table.remove(place);
        self.table_bytes = self.table_bytes + table.bytes() - before;
        self.groups[number / GROUP_SLOTS] -= 1;
        self.len -= 1;
    }

    /// The table of a slot, if it is one of this shard's.
    #[inline]
    fn table_of(&self, slot: Slot) -> Option<&Table> {
        self.tables.get(usize::from(slot.checked_sub(self.first_slot)?))
    }

    /// Asks for the entry of a key.
    #[inline]
    pub(super) fn prefetch_entry(&self, key: &HashedKey<'_>) {
        let Some(table) = self.table_of(key.slot) else { return };
        if let Some(entry) = table.entries.get(table.home(key.hash)) {
            prefetch(entry);
        }
    }

    /// Takes out up to `count` heads of a table that is no longer read.
    pub(super) fn drain(&mut self, count: usize, mut each: impl FnMut(Record)) -> usize {
        let mut left = count;
        while left > 0 && self.len > 0 {
            let (number, place) = self.drained;
            let table = &mut self.tables[number];
            match table.entries.get_mut(place) {
                Some(entry) => {
                    self.drained.1 += 1;
                    if let Some(record) = entry.record.take() {
                        self.len -= 1;
                        left -= 1;
                        each(record);
                    }
                }
                None => {
                    self.table_bytes -= table.bytes();
                    *table = Table::default();
                    self.drained = (number + 1, 0);
                }
            }
        }
        count - left
    }

    /// Cuts off the tables of the slots from `at` on, which lies among them.
    pub(super) fn split_off(&mut self, at: Slot) -> Self {
        let cut = self.number(at);
        let mut left = std::mem::take(&mut self.tables).into_vec();
        let right = left.split_off(cut);
        let (number, place) = self.drained;
        let drained = match number.checked_sub(cut) {
            None => [(number, place), (0, 0)],
            Some(number) => [(0, 0), (number, place)],
        };
        *self = Self::of(self.first_slot, left, drained[0]);
        Self::of(at, right, drained[1])
    }

    /// Takes in the tables of the slots that follow; of neither anything was drained.
    pub(super) fn append(&mut self, right: Self) {
        assert_eq!((self.drained, right.drained), ((0, 0), (0, 0)), "tables in use are joined");
        let mut tables = std::mem::take(&mut self.tables).into_vec();
        tables.extend(right.tables);
        *self = Self::of(self.first_slot, tables, (0, 0));
    }

    /// Tables that were others' before, drained so far.
    fn of(first_slot: Slot, tables: Vec<Table>, drained: (usize, usize)) -> Self {
        // What is drained is taken out of its table, whose own count stays.
        let is_whole = drained == (0, 0);
        let taken = |table: &Table| match is_whole {
            true => u64::from(table.len),
            false => table.entries.iter().filter(|entry| entry.record.is_some()).count() as u64,
        };
        let counts: Vec<u64> = tables.iter().map(taken).collect();
        Self {
            first_slot,
            groups: counts.chunks(GROUP_SLOTS).map(|group| group.iter().sum()).collect(),
            len: counts.iter().sum(),
            table_bytes: tables.iter().map(Table::bytes).sum(),
            tables: tables.into(),
            drained,
        }
    }

    /// The cut that leaves most nearly as many keys on one side as on the other, and then slots:
    /// the first slot of the right side, and how many keys both have. None with one slot.
    pub(super) fn middle(&self) -> Option<(Slot, [u64; 2])> {
        let middle = self.tables.len() / 2;
        let mut left = 0;
        let cuts = self.tables[..self.tables.len().saturating_sub(1)].iter().zip(1..).map(
            |(table, cut)| {
                left += u64::from(table.len);
                (cut, [left, self.len - left])
            },
        );
        let apart = |(cut, [left, right]): &(usize, [u64; 2])| {
            (left.abs_diff(*right), cut.abs_diff(middle))
        };
        let (cut, sides) = cuts.min_by_key(apart)?;
        Some((self.first_slot + cut as Slot, sides))
    }

    /// All heads, each table's asked for before they are looked at.
    pub(super) fn each_head(&self, mut each: impl FnMut(Record)) {
        for table in &self.tables {
            let heads = || table.entries.iter().filter_map(|entry| entry.record);
            heads().for_each(|head| head.prefetch());
            heads().for_each(&mut each);
        }
    }

    /// Asks for the newest version of a key, taking the first of equal hashes for it.
    #[inline]
    pub(super) fn prefetch_record(&self, key: &HashedKey<'_>) {
        let Some(table) = self.table_of(key.slot) else { return };
        let mut place = table.home(key.hash);
        while let Some(&Entry { hash, record: Some(record) }) = table.entries.get(place) {
            if hash >= key.hash {
                record.prefetch();
                return;
            }
            place += 1;
        }
    }

    /// All heads from a cursor on, in order of slot and hash.
    pub(super) fn heads_from(
        &self,
        from: ScanCursor,
    ) -> impl Iterator<Item = (ScanCursor, Record)> + '_ {
        let slots = successors(self.next_slot(from.slot), |slot| self.next_slot(slot + 1));
        slots.flat_map(move |slot| {
            let start = if slot == from.slot { from.hash } else { 0 };
            let entries = self.tables[self.number(slot)].entries_from(start);
            entries.map(move |(hash, record)| (ScanCursor { slot, hash }, record))
        })
    }

    /// The first slot at or after `slot` that may have entries, skipping empty groups.
    fn next_slot(&self, slot: Slot) -> Option<Slot> {
        let mut number = usize::from(slot.max(self.first_slot) - self.first_slot);
        while number < self.tables.len() {
            if self.groups[number / GROUP_SLOTS] > 0 {
                return Some(self.first_slot + number as Slot);
            }
            number = (number / GROUP_SLOTS + 1) * GROUP_SLOTS;
        }
        None
    }

    /// A head, uniform over slots by their sizes and nearly so within one.
    pub(super) fn sample(&self, random: u64) -> Option<Record> {
        let mut rank = ((u128::from(random) * u128::from(self.len)) >> 64) as u64;
        let group = self.groups.iter().position(|&count| {
            let here = rank < count;
            if !here {
                rank -= count;
            }
            here
        })?;
        let table = self.tables[group * GROUP_SLOTS..].iter().find(|table| {
            let here = rank < u64::from(table.len);
            if !here {
                rank -= u64::from(table.len);
            }
            here
        })?;
        // A random entry, then the next taken one in the circle: the bias is the gaps' lengths.
        let bits = u128::from(random.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let start = ((bits * table.entries.len() as u128) >> 64) as usize;
        let (before, after) = table.entries.split_at(start);
        after.iter().chain(before).find_map(|entry| entry.record)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Body;
    use super::*;
    use keyspace::Timestamp;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Table {
        fn check(&self) {
            let mut count = 0;
            let mut last: Option<(u64, &[u8])> = None;
            for (place, entry) in self.entries.iter().enumerate() {
                let Some(record) = entry.record else { continue };
                count += 1;
                let home = self.home(entry.hash);
                assert!(home <= place, "entry before its home");
                assert!(self.entries[home..place].iter().all(|e| e.record.is_some()), "gap");
                assert!(last < Some((entry.hash, record.key())), "not sorted");
                last = Some((entry.hash, record.key()));
            }
            assert_eq!(count, self.len);
            assert!(self.entries.last().is_none_or(|entry| entry.record.is_none()));
        }
    }

    fn record(key: &[u8]) -> Record {
        Record::new(key, Body::Tombstone, Timestamp(1), None)
    }

    fn hashes() -> impl Strategy<Value = u64> {
        let top = (1u64 << KeyHasher::BITS) - 1;
        prop_oneof![0..=top, Just(0), Just(top), Just(top / 2), top - 3..=top]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn a_table_is_a_sorted_map(ops in prop::collection::vec(
            (any::<bool>(), hashes(), 0u8..6), 1..300,
        )) {
            let mut table = Table::default();
            let mut model = BTreeMap::new();
            for (insert, hash, key) in ops {
                let key = [key];
                let (place, found) = table.locate(hash, &key);
                prop_assert_eq!(found.is_some(), model.contains_key(&(hash, key)));
                if let Some(record) = found {
                    if !insert {
                        table.remove(place);
                        model.remove(&(hash, key));
                        // SAFETY: the record has just left its only owner, the table.
                        unsafe { record.free() };
                    }
                } else if insert {
                    table.insert(hash, record(&key), place);
                    model.insert((hash, key), ());
                }
                table.check();
                let seen: Vec<_> = table.entries_from(hash).map(|(h, r)| (h, r.key())).collect();
                let range = model.range((hash, [0])..);
                let wanted: Vec<_> = range.map(|((h, k), ())| (*h, &k[..])).collect();
                prop_assert_eq!(seen, wanted);
            }
            for (_, record) in table.entries_from(0) {
                // SAFETY: the table goes away right after.
                unsafe { record.free() };
            }
        }
    }

    #[test]
    fn a_table_that_empties_gives_its_memory_back() {
        let mut table = Table::default();
        for i in 0..10_000u64 {
            let hash = i << 30;
            let record = record(&i.to_be_bytes());
            table.insert(hash, record, table.locate(hash, record.key()).0);
        }
        assert!(table.bytes() < 10_000 * 16 * 2);
        for i in 0..10_000u64 {
            let (place, found) = table.locate(i << 30, &i.to_be_bytes());
            table.remove(place);
            // SAFETY: the record has just left its only owner, the table.
            unsafe { found.expect("inserted above").free() };
        }
        assert_eq!(table.bytes(), 0);
    }
}
