//! Does the engine answer as a list of everything that was ever written would?
//!
//! Random sequences of operations run on a mirror of the memory engine and the model; after each,
//! all reads at all times from the safe point on must agree, however far collection has come, and
//! the engine's invariants are counted through.

use std::ops::Bound;

use keyspace::linear_hash::bit_reversed_hash;
use keyspace::{Cut, KeyHasher, SLOTS, Slot, Timestamp, slot_of};
use proptest::prelude::*;

use super::super::era::{Era, FlushedEra};
use super::super::pins::lowest_pin;
use super::super::record::Record;
use super::super::{
    DumpCursor, Engine, Layout, MemoryEngine, PieceLimits, Range, ScanCursor, Version,
};
use super::is_before;
use super::mirror::Mirror;
use super::model::Model;

const HASHER: KeyHasher = KeyHasher::new([3; 16]);
const CASES: u32 = 1000;
/// Of three slots; some alike in their first sixteen bytes, which a tree's entries carry.
const KEYS: [&[u8]; 8] = [
    b"{t}",
    b"{t}1",
    b"{t}2",
    b"{x}sixteen bytes",
    b"{x}sixteen bytes\0",
    b"{x}sixteen bytes\0\0x",
    b"{x}sixteen bytes i",
    b"{p}\xff",
];
/// A few hundred slots around those of the keys.
const HASHED: Layout = Layout::Hashed { first_slot: 15_800, end_slot: SLOTS };

#[derive(Clone, Debug)]
enum Op {
    Later {
        millis: u64,
        logical: u64,
    },
    Put {
        key: usize,
        len: usize,
        expires_in: Option<u64>,
    },
    Delete {
        key: usize,
    },
    SetExpiry {
        key: usize,
        expires_in: Option<u64>,
    },
    Flush,
    /// Of the keys from one of these places on and before the other ([`place`]).
    FlushWithin {
        from: usize,
        end: usize,
    },
    RaiseSafePoint {
        percent: u64,
    },
    /// A time between the safe point and now stays readable.
    Lease {
        percent: u64,
    },
    EndLease {
        lease: prop::sample::Index,
    },
    /// The engine hears which leases have ended, though the safe point stays.
    TellPins,
    Collect {
        budget: usize,
    },
    Dump {
        limits: PieceLimits,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..KEYS.len();
    let expires_in = || prop::option::weighted(0.4, 0u64..8);
    let op = prop_oneof![
        5 => (0u64..3, 0u64..3).prop_map(|(millis, logical)| Op::Later { millis, logical }),
        8 => (key.clone(), 0usize..3, expires_in())
            .prop_map(|(key, len, expires_in)| Op::Put { key, len, expires_in }),
        3 => key.clone().prop_map(|key| Op::Delete { key }),
        2 => (key, expires_in()).prop_map(|(key, expires_in)| Op::SetExpiry { key, expires_in }),
        1 => Just(Op::Flush),
        1 => (0..=KEYS.len(), 0..=KEYS.len())
            .prop_map(|(from, end)| Op::FlushWithin { from, end }),
        2 => (0u64..=100).prop_map(|percent| Op::RaiseSafePoint { percent }),
        2 => (0u64..=100).prop_map(|percent| Op::Lease { percent }),
        1 => any::<prop::sample::Index>().prop_map(|lease| Op::EndLease { lease }),
        1 => Just(Op::TellPins),
        3 => prop_oneof![0usize..4, Just(usize::MAX)].prop_map(|budget| Op::Collect { budget }),
        3 => (0usize..5, prop_oneof![0usize..80, Just(usize::MAX)]).prop_map(
            |(examined_max, bytes_max)| Op::Dump { limits: PieceLimits { examined_max, bytes_max } }
        ),
    ];
    prop::collection::vec(op, 1..80)
}

/// Where a flush of a part begins or ends: at a key or its slot, or behind all.
fn place(layout: Layout, number: usize) -> Cut {
    match (KEYS.get(number), layout) {
        (None, _) => Cut::Slot(SLOTS),
        (Some(key), Layout::Hashed { .. }) => Cut::Slot(slot_of(key)),
        (Some(key), Layout::Ordered) => Cut::Key((*key).into()),
        (Some(key), Layout::LinearHash) => Cut::Number(bit_reversed_hash(key)),
    }
}

/// The memory engine, held against the model.
type EngineAndModel = Mirror<MemoryEngine, Model>;

/// All timestamps worth reading at: those of versions and expiries, and just before them.
fn times(model: &Model, now: Timestamp) -> Vec<Timestamp> {
    let written = model.keys.values().flatten();
    let mut times: Vec<_> = written
        .flat_map(|w| [w.timestamp.0, Timestamp::from_millis(w.expiry_ms).0])
        .flat_map(|time| [time.saturating_sub(1), time])
        .chain([model.safe_point.0, now.0])
        .filter(|time| (model.safe_point.0..=now.0).contains(time))
        .map(Timestamp)
        .chain(model.pins.iter().copied())
        .collect();
    times.sort();
    times.dedup();
    times
}

/// Reads everything at all times: the mirror compares.
fn compare(both: &EngineAndModel, names: &[&[u8]], now: Timestamp) {
    let times = times(&both.b, now);
    for key in names {
        let hashed = HASHER.key(key);
        for at in &times {
            both.at(&hashed, *at);
        }
        both.newest(&hashed, now);
        both.newest_timestamp(&hashed);
    }
    both.len(now);
    for at in times {
        compare_walks(both, at);
        let live = walked(&both.b, at);
        assert_eq!(both.a.random_key(at.0, at).is_some(), !live.is_empty());
        let random = both.a.random_key(at.0 + 1, at);
        assert!(random.is_none_or(|key| live.iter().any(|live| live == key)));
    }
}

/// The keys with a value at a time.
fn walked(model: &Model, at: Timestamp) -> Vec<Vec<u8>> {
    let names = model.keys.keys();
    names.filter(|key| model.newest(&HASHER.key(key), at).is_some()).cloned().collect()
}

/// Walks all keys in small pages, to the end.
fn compare_walks(both: &EngineAndModel, at: Timestamp) {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut visit = |key: &[u8], _: Version<'_>| found.push(key.to_vec());
    match both.layout() {
        Layout::Hashed { .. } => {
            let mut next = Some(ScanCursor::default());
            while let Some(cursor) = next {
                next = both.scan(cursor, 1, at, &mut visit).expect("hashed");
            }
        }
        Layout::LinearHash => {
            let mut next = Some(0);
            while let Some(from) = next {
                next = both.scan_numbers(from, 1, at, &mut visit).expect("by number");
            }
        }
        Layout::Ordered => {
            for reverse in [true, false] {
                found.clear();
                let mut range = Range {
                    start: Bound::Unbounded,
                    end: Bound::Unbounded,
                    reverse,
                    visited_max: 2,
                    examined_max: 3,
                };
                let mut visit = |key: &[u8], _: Version<'_>| found.push(key.to_vec());
                while let Some(last) = both.range(&range, at, &mut visit).expect("ordered") {
                    let bound = if reverse { &mut range.end } else { &mut range.start };
                    *bound = Bound::Excluded(last);
                }
            }
        }
    }
    found.sort();
    assert_eq!(found, walked(&both.b, at), "pages have left something out");
}

impl MemoryEngine {
    /// Counts the front page's invariants 1, 2, 3, 5 and 6 through.
    fn check(&self) {
        let (mut versions, mut bytes, mut queued) = (0, 0, 0);
        let (limit, pins) = (self.limit(), self.all_pins());
        let is_whole = |retired: &FlushedEra| retired.end > limit || retired.is_pinned(&pins);
        let whole = self.retired.iter().filter(|retired| is_whole(retired));
        let half_gone = !self.retired.iter().all(is_whole);
        assert!(self.pins.is_sorted() && self.pins.iter().all(|pin| *pin < self.safe_point));
        for era in whole.map(|retired| &retired.era).chain([&self.current]) {
            let heads: Vec<Record> = era.index.heads_from(None).collect();
            assert_eq!(heads.len() as u64, era.index.len());
            assert!(era.index.ordered().map_or(true, |tree| tree.is_sampled()));
            assert!(era.index.by_number().map_or(true, |tree| tree.is_sampled()));
            Self::check_heads(era, &heads);
            for head in heads {
                let mut chain = Some(head);
                while let Some(record) = chain {
                    versions += 1;
                    bytes += record.bytes();
                    queued += usize::from(record.is_queued());
                    let superseding = record.older().is_some() || record.is_tombstone();
                    assert!(!superseding || record.is_queued() || record.timestamp() <= limit);
                    chain = record.older();
                    assert!(chain.is_none_or(|older| older.timestamp() < record.timestamp()));
                    assert!(
                        record.expiry_ms() == 0 || record.expiry_ms() > record.timestamp().millis()
                    );
                }
            }
        }
        if !half_gone {
            assert_eq!((versions, bytes), (self.versions, self.version_bytes));
            assert_eq!(queued, self.queue.len());
            assert_eq!(self.held, self.count_held());
        }
    }

    /// Nothing stays that neither a pin nor a later read needs.
    fn check_collected(&self) {
        assert!(self.holds.is_empty());
        let eras = self.retired.iter().map(|retired| (&retired.era, Some(retired.end)));
        for (era, end) in eras.chain([(&self.current, None)]) {
            for head in era.index.heads_from(None) {
                let (mut chain, mut newer) = (Some(head), end);
                while let Some(record) = chain {
                    let at = record.timestamp();
                    let is_above = newer.is_none_or(|newer| newer > self.safe_point);
                    let until = newer.unwrap_or(Timestamp::MAX);
                    let is_pinned = lowest_pin(&self.pins, at, until).is_some();
                    assert!(is_above || is_pinned, "{at:?} under {newer:?} stays");
                    (newer, chain) = (Some(at), record.older());
                }
            }
        }
    }

    fn check_heads(era: &Era, heads: &[Record]) {
        let live = || heads.iter().filter(|head| !head.is_tombstone());
        assert_eq!(live().count() as u64, era.live_keys);
        assert_eq!(live().map(|head| head.bytes()).sum::<u64>(), era.live_bytes);
        let expiring = live().filter(|head| head.expiry_ms() != 0);
        let times: Vec<u64> = expiring.map(|head| head.expiry_ms()).collect();
        let usage = era.expiring.usage(Timestamp::ZERO);
        assert_eq!((times.len() as u64, 0), (usage.keys, usage.expired));
        assert_eq!(times.into_iter().map(u128::from).sum::<u128>(), usage.ttl_sum_ms);
        assert!(era.expiring.iter().all(|e| e.expiry_ms() == e.record.expiry_ms()));
    }
}

/// A mirror, and a dump that may be under way.
struct Run {
    both: EngineAndModel,
    /// Those of [`KEYS`] that lie in its shard.
    names: Vec<&'static [u8]>,
    now: Timestamp,
    /// Times that are to stay readable.
    leases: Vec<Timestamp>,
    dump: Option<HalfDump>,
}

/// A dump under way: between which times, with which pins, and its blocks so far.
type HalfDump = (DumpCursor, [Timestamp; 2], Vec<Timestamp>, Vec<Vec<u8>>);

impl Run {
    fn step(&mut self, op: &Op) {
        let Self { both, now, leases, .. } = self;
        let now = *now;
        if let Op::Put { key, .. } | Op::Delete { key } | Op::SetExpiry { key, .. } = op
            && !self.names.contains(&KEYS[*key])
        {
            return;
        }
        let expiry = |expires_in: &Option<u64>| expires_in.map_or(0, |ms| now.millis() + ms);
        match op {
            Op::Later { millis, logical } => {
                self.now = Timestamp(now.0 + Timestamp::from_millis(*millis).0 + logical);
            }
            Op::Put { key, len, expires_in } => {
                let value = vec![now.0 as u8; *len];
                let parts = [&value[..len / 2], &value[len / 2..]];
                both.put(&HASHER.key(KEYS[*key]), &parts, expiry(expires_in), now);
            }
            Op::Delete { key } => {
                both.delete(&HASHER.key(KEYS[*key]), now);
            }
            Op::SetExpiry { key, expires_in } => {
                both.set_expiry(&HASHER.key(KEYS[*key]), expiry(expires_in), now);
            }
            Op::Flush => both.flush(now),
            Op::FlushWithin { from, end } => {
                let [from, end] = [*from, *end].map(|at| place(both.layout(), at));
                both.flush_within(&from, &end, now);
            }
            Op::RaiseSafePoint { percent } => {
                let low = both.safe_point().0;
                both.raise(Timestamp(low + (now.0 - low) * percent / 100), leases);
            }
            Op::Lease { percent } => {
                let low = both.safe_point().0;
                leases.push(Timestamp(low + (now.0 - low) * percent / 100));
            }
            Op::EndLease { lease } => {
                if !leases.is_empty() {
                    leases.swap_remove(lease.index(leases.len()));
                }
            }
            Op::TellPins => both.raise(both.safe_point(), leases),
            Op::Collect { budget } => {
                let more = both.collect(*budget);
                assert!(!more || *budget < usize::MAX);
                if !more && self.dump.is_none() {
                    self.both.a.check_collected();
                }
            }
            Op::Dump { limits } => self.dump(*limits),
        }
    }

    fn dump(&mut self, limits: PieceLimits) {
        let Self { both: Mirror { a: engine, b: model }, names, .. } = self;
        let mut dump = self.dump.take().unwrap_or_else(|| {
            let at = self.now;
            // A replica that dumps at a time has applied all entries of that time.
            self.now = at.next();
            let low = engine.safe_point().min(at);
            engine.hold(engine.safe_point());
            let pins = engine.pins().to_vec();
            (DumpCursor::with_pins(&pins), [low, at], pins, Vec::new())
        });
        let (cursor, [low, at], pins, blocks) = &mut dump;
        let mut block = Vec::new();
        let more = engine.dump(cursor, *low, *at, limits, &mut block);
        blocks.push(block);
        if more {
            self.dump = Some(dump);
            return;
        }
        engine.release(*low);
        let mut restored = MemoryEngine::new(engine.layout(), HASHER);
        restored.raise(*low, pins);
        for block in blocks {
            restored.restore(block).expect("what was dumped can be restored");
        }
        restored.check();
        let mut restored = Mirror { a: restored, b: model.cut(*low, *at, pins) };
        compare(&restored, names, *at);
        restored.collect(usize::MAX);
        restored.a.check();
        restored.a.check_collected();
        compare(&restored, names, *at);
        restored.raise(*low, &[]);
        restored.collect(usize::MAX);
        restored.a.check();
        restored.a.check_collected();
        compare(&restored, names, *at);
    }

    fn check(&self) {
        self.both.a.check();
        compare(&self.both, &self.names, self.now);
    }

    /// Cuts off the right half; a dump under way ends.
    fn split_off(&mut self, at: &Cut) -> Self {
        self.dump = None;
        let a = self.both.a.split_off(at).expect("of this layout");
        let b = self.both.b.split_off(at);
        let (left, right) = self.names.iter().partition(|key| is_before(key, at));
        self.names = left;
        let leases = self.leases.clone();
        Self { both: Mirror { a, b }, names: right, now: self.now, leases, dump: None }
    }
}

fn begin(layout: Layout) -> Run {
    let both = Mirror { a: MemoryEngine::new(layout, HASHER), b: Model::new(layout, HASHER) };
    let now = Timestamp::from_millis(10);
    Run { both, names: KEYS.to_vec(), now, leases: Vec::new(), dump: None }
}

fn run(layout: Layout, ops: &[Op]) {
    go_on(begin(layout), ops);
}

fn go_on(mut run: Run, ops: &[Op]) {
    for op in ops {
        run.step(op);
        run.check();
    }
    let Run { both: Mirror { a: mut engine, .. }, now, dump, .. } = run;
    engine.flush(now);
    if let Some((_, [low, _], ..)) = dump {
        engine.release(low);
    }
    engine.raise(now, &[]);
    while engine.collect(3) {}
    let usage = engine.usage();
    assert_eq!((usage.versions, usage.live_bytes, usage.old_bytes, usage.keys), (0, 0, 0, 0));
    assert_eq!((engine.queue.len(), engine.retired.len(), engine.current.index.len()), (0, 0, 0));
}

/// Both halves go on as the whole would, each with its keys.
fn halves(mut left: Run, at: &Cut, after: &[Op]) {
    let right = left.split_off(at);
    for half in [left, right] {
        half.check();
        go_on(half, after);
    }
}

/// Two halves, each with its own history of flushes, become a whole that goes on as one.
fn joined(layout: Layout, before: &[Op], at: &Cut, between: &[Vec<Op>; 2], after: &[Op]) {
    let mut left = begin(layout);
    before.iter().for_each(|op| left.step(op));
    let mut right = left.split_off(at);
    between[0].iter().for_each(|op| left.step(op));
    between[1].iter().for_each(|op| right.step(op));
    let Run { both: Mirror { a: mut engine, b: model }, names, now, leases, .. } = right;
    left.both.a.join(engine.take());
    let nothing = engine.usage();
    assert_eq!((nothing.versions, nothing.keys, engine.middle()), (0, 0, None));
    left.both.b.join(model);
    left.names.extend(names);
    left.leases.extend(leases);
    left.now = left.now.max(now).next();
    left.dump = None;
    left.check();
    go_on(left, after);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn hashed_reads_agree_with_the_model(ops in ops()) {
        run(HASHED, &ops);
    }

    #[test]
    fn ordered_reads_agree_with_the_model(ops in ops()) {
        run(Layout::Ordered, &ops);
    }

    #[test]
    fn reads_by_number_agree_with_the_model(ops in ops()) {
        run(Layout::LinearHash, &ops);
    }

    /// Cut at any number, be it a key's or none's.
    #[test]
    fn halves_by_number_agree_with_the_model(
        before in ops(),
        at in prop_oneof![
            1..u64::MAX,
            (0..KEYS.len()).prop_map(|key| bit_reversed_hash(KEYS[key])),
        ],
        after in ops(),
    ) {
        let mut left = begin(Layout::LinearHash);
        before.iter().for_each(|op| left.step(op));
        assert_eq!(left.both.a.middle(), None);
        halves(left, &Cut::Number(at), &after);
    }

    #[test]
    fn engines_by_number_that_are_joined_agree_with_the_model(
        before in ops(),
        at in 1..u64::MAX,
        between in [ops(), ops()],
        after in ops(),
    ) {
        joined(Layout::LinearHash, &before, &Cut::Number(at), &between, &after);
    }

    /// Both halves go on as the whole would, each with its keys.
    #[test]
    fn halves_agree_with_the_model(before in ops(), at in 15_801..SLOTS, after in ops()) {
        let mut left = begin(HASHED);
        before.iter().for_each(|op| left.step(op));
        let index = left.both.a.current.index.hashed().expect("hashed");
        let Some((Cut::Slot(middle), sides)) = left.both.a.middle() else { panic!("no middle") };
        let of = |slots: std::ops::Range<Slot>| {
            let heads = index.heads_from(ScanCursor::default());
            heads.filter(|(cursor, _)| slots.contains(&cursor.slot)).count() as u64
        };
        assert_eq!(sides, [of(0..middle), of(middle..SLOTS)]);
        assert!(sides[0].abs_diff(sides[1]) <= of(0..at).abs_diff(of(at..SLOTS)));
        halves(left, &Cut::Slot(at), &after);
    }

    /// The same, cut at a key.
    #[test]
    fn ordered_halves_agree_with_the_model(
        before in ops(),
        at in 0..KEYS.len(),
        is_middle: bool,
        after in ops(),
    ) {
        let mut left = begin(Layout::Ordered);
        before.iter().for_each(|op| left.step(op));
        let middle = left.both.a.middle();
        if let Some((Cut::Key(at), sides)) = &middle {
            let heads: Vec<Record> = left.both.a.current.index.heads_from(None).collect();
            let of_left = heads.iter().filter(|head| head.key() < &**at);
            let bytes: u64 = of_left.map(|head| head.bytes()).sum();
            let total: u64 = heads.iter().map(|head| head.bytes()).sum();
            assert_eq!(*sides, [bytes, total - bytes], "few keys are all looked at");
        }
        let middle = middle.filter(|_| is_middle).map(|(at, _)| at);
        halves(left, &middle.unwrap_or(Cut::Key(KEYS[at].into())), &after);
    }

    #[test]
    fn joined_engines_agree_with_the_model(
        before in ops(),
        at in 15_801..SLOTS,
        between in [ops(), ops()],
        after in ops(),
    ) {
        joined(HASHED, &before, &Cut::Slot(at), &between, &after);
    }

    #[test]
    fn ordered_engines_that_are_joined_agree_with_the_model(
        before in ops(),
        at in 0..KEYS.len(),
        between in [ops(), ops()],
        after in ops(),
    ) {
        joined(Layout::Ordered, &before, &Cut::Key(KEYS[at].into()), &between, &after);
    }

    #[test]
    fn restoring_garbage_never_panics(
        mut block in prop_oneof![
            Just(Vec::new()),
            prop::collection::vec(any::<u8>(), 0..200),
        ],
        records in prop::collection::vec((0u8..5, 0u8..4, 0u8..4, any::<bool>()), 0..12),
        flipped in any::<prop::sample::Index>(),
    ) {
        for (kind, time, key, expires) in records {
            let len = match kind { 1 => 23, 2 => 10, _ => 9 };
            block.extend([len, 0, 0, 0, kind, time, 0, 0, 0, 0, 0, 0, 0]);
            if kind == 1 {
                block.extend([u8::from(expires), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, key, 7]);
            } else if kind == 2 {
                block.push(key);
            }
        }
        let hashed = Layout::Hashed { first_slot: 0, end_slot: SLOTS };
        for layout in [hashed, Layout::Ordered, Layout::LinearHash] {
            let mut engine = MemoryEngine::new(layout, HASHER);
            let first = engine.restore(&block);
            engine.check();
            if !block.is_empty() && first.is_ok() {
                let mut block = block.clone();
                let flipped = flipped.index(block.len());
                block[flipped] ^= 1;
                let _ = MemoryEngine::new(layout, HASHER).restore(&block);
            }
        }
    }
}
