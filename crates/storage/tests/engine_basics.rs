//! What single calls of the memory engine do, one behaviour per test.

use keyspace::codec::Reader;
use keyspace::{Cut, HashedKey, KeyHasher, SLOTS, Timestamp};
use storage::engine::{
    DumpCursor, Layout, MemoryEngine, PieceLimits, Range, ReadResult, RestoreError, ScanCursor,
    Settings, WrongLayout,
};

const HASHER: KeyHasher = KeyHasher::new([7; 16]);
const HASHED: Layout = Layout::Hashed { first_slot: 0, end_slot: SLOTS };

fn ts(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn put(engine: &mut MemoryEngine, key: &str, value: &str, at: u64) {
    engine.put(&HASHER.key(key.as_bytes()), &[value.as_bytes()], 0, ts(at));
}

fn newest(engine: &MemoryEngine, key: &str, now: u64) -> Option<String> {
    let version = engine.newest(&HASHER.key(key.as_bytes()), ts(now))?;
    Some(String::from_utf8(version.value.to_vec()).expect("tests write text"))
}

fn at(engine: &MemoryEngine, key: &str, at: u64) -> String {
    match engine.at(&HASHER.key(key.as_bytes()), ts(at)) {
        ReadResult::Value(version) => String::from_utf8(version.value.to_vec()).expect("text"),
        ReadResult::Nil => "nil".into(),
        ReadResult::NilYet => "nil yet".into(),
    }
}

fn both(test: impl Fn(MemoryEngine)) {
    test(MemoryEngine::new(HASHED, HASHER));
    test(MemoryEngine::new(Layout::Ordered, HASHER));
    test(MemoryEngine::new(Layout::LinearHash, HASHER));
}

/// Keys that could be taken for slots, or for numbers, are no places for cuts.
#[test]
fn an_ordered_engine_has_its_middle_where_it_can_be_cut() {
    for names in [["1", "10", "11"], ["00000000", "00000001", "00000002"]] {
        let mut engine = MemoryEngine::new(Layout::Ordered, HASHER);
        names.iter().for_each(|name| put(&mut engine, name, "v", 10));
        let (cut, _) = engine.middle().expect("the engine has several keys");
        let mut bytes = Vec::new();
        cut.encode(&mut bytes);
        assert_eq!(Cut::decode(&mut Reader::new(&bytes)), Ok(cut));
    }
}

#[test]
fn reads_see_the_version_of_their_time() {
    both(|mut engine| {
        put(&mut engine, "apple", "a", 10);
        put(&mut engine, "apple", "bb", 20);
        assert!(engine.delete(&HASHER.key(b"apple"), ts(30)));
        assert!(!engine.delete(&HASHER.key(b"apple"), ts(31)));
        put(&mut engine, "apple", "", 40);
        let seen: Vec<_> = [9, 10, 19, 20, 30, 39, 40].map(|t| at(&engine, "apple", t)).into();
        assert_eq!(seen, ["nil yet", "a", "a", "bb", "nil", "nil", ""]);
        assert_eq!(at(&engine, "pear", 40), "nil");
        put(&mut engine, "", "no key", 40);
        assert_eq!(at(&engine, "", 40), "no key");
        assert_eq!(newest(&engine, "apple", 50).as_deref(), Some(""));
        assert_eq!(engine.newest_timestamp(&HASHER.key(b"apple")), ts(40));
        assert_eq!(engine.newest_timestamp(&HASHER.key(b"pear")), ts(0));
    });
}

#[test]
fn parts_are_put_together_and_equal_timestamps_replace() {
    both(|mut engine| {
        let key = HASHER.key(b"k");
        engine.put(&key, &[b"ab", b"", b"c"], 0, ts(1));
        assert_eq!(newest(&engine, "k", 1).as_deref(), Some("abc"));
        engine.put(&key, &[b"xyz"], 0, ts(1));
        engine.put(&key, &[b"longer than before"], 0, ts(1));
        assert_eq!(newest(&engine, "k", 1).as_deref(), Some("longer than before"));
        assert!(engine.delete(&key, ts(1)));
        engine.put(&key, &[b"back"], 0, ts(1));
        assert_eq!(newest(&engine, "k", 1).as_deref(), Some("back"));
        assert_eq!(engine.usage().versions, 1);
    });
}

#[test]
fn expiry_is_compared_with_the_time_of_the_read() {
    both(|mut engine| {
        let key = HASHER.key(b"k");
        engine.put(&key, &[b"v"], 50, ts(10));
        assert_eq!(newest(&engine, "k", 49).as_deref(), Some("v"));
        assert_eq!((engine.len(ts(49)), engine.len(ts(50))), (1, 0));
        assert_eq!((at(&engine, "k", 49), at(&engine, "k", 50)), ("v".into(), "nil".into()));
        assert!(!engine.set_expiry(&key, 90, ts(60)), "nothing is there any more");
        engine.put(&key, &[b"w"], 90, ts(60));
        assert!(engine.set_expiry(&key, 0, ts(61)));
        assert_eq!(newest(&engine, "k", 1000).as_deref(), Some("w"));
        assert_eq!(engine.newest(&key, ts(70)).map(|v| v.expiry_ms), Some(0));
        assert!(engine.set_expiry(&key, 62, ts(62)), "into the past: deleted");
        assert_eq!(newest(&engine, "k", 62), None);
        assert_eq!(at(&engine, "k", 61), "w");
    });
}

#[test]
fn collection_keeps_what_a_read_at_the_safe_point_sees() {
    // ALGORITHMS 8.3: versions at 5 and 15, safe point 10: a read at 12 still sees 5.
    both(|mut engine| {
        put(&mut engine, "k", "five", 5);
        put(&mut engine, "k", "fifteen", 15);
        put(&mut engine, "gone", "x", 5);
        engine.delete(&HASHER.key(b"gone"), ts(9));
        engine.raise_safe_point(ts(10));
        assert!(!engine.collect(100));
        assert_eq!(at(&engine, "k", 12), "five");
        assert_eq!(engine.usage().versions, 2);
        engine.raise_safe_point(ts(15));
        assert!(!engine.collect(100));
        assert_eq!(engine.usage().versions, 1);
        assert_eq!(engine.usage().old_bytes, 0);
    });
}

#[test]
fn a_pin_holds_collection_back() {
    both(|mut engine| {
        put(&mut engine, "k", "a", 5);
        put(&mut engine, "k", "b", 15);
        engine.hold(ts(10));
        engine.hold(ts(12));
        engine.hold(ts(12));
        engine.raise_safe_point(ts(20));
        engine.release(ts(12));
        assert!(!engine.collect(100));
        assert_eq!(at(&engine, "k", 10), "a");
        engine.release(ts(10));
        assert!(!engine.collect(100));
        assert_eq!(at(&engine, "k", 12), "a");
        engine.release(ts(12));
        assert!(!engine.collect(100));
        assert_eq!(engine.usage().versions, 1);
    });
}

#[test]
fn a_flush_of_many_keys_hides_them_at_once_and_frees_them_bit_by_bit() {
    both(|mut engine| {
        for i in 0..5000 {
            put(&mut engine, &format!("key{i}"), "v", 10 + i);
        }
        engine.put(&HASHER.key(b"expiring"), &[b"v"], 99_999, ts(6000));
        engine.flush(ts(7000));
        put(&mut engine, "key1", "new", 7000);
        assert_eq!((engine.len(ts(7000)), engine.usage().keys), (1, 1));
        assert_eq!(newest(&engine, "key0", 8000), None);
        assert_eq!(newest(&engine, "key1", 8000).as_deref(), Some("new"));
        assert_eq!(
            (at(&engine, "key0", 7000), at(&engine, "key0", 6999)),
            ("nil".into(), "v".into())
        );
        assert_eq!(
            (at(&engine, "key1", 11), at(&engine, "key1", 5)),
            ("v".into(), "nil yet".into())
        );
        assert_eq!(engine.newest_timestamp(&HASHER.key(b"key0")), ts(7000));
        assert_eq!(engine.point_to_free(1000), Some(ts(7000)));
        engine.raise_safe_point(ts(7000));
        assert_eq!(at(&engine, "key0", 7000), "nil");
        let mut steps = 0;
        while engine.collect(100) {
            steps += 1;
            assert!(steps < 60);
        }
        assert!(steps >= 50);
        assert_eq!(engine.usage().versions, 1);
        assert_eq!(engine.usage().old_bytes, 0);
    });
}

#[test]
fn a_scan_visits_every_key_once_in_order() {
    let mut engine = MemoryEngine::new(HASHED, HASHER);
    for i in 0..1000 {
        put(&mut engine, &format!("key{i}"), "v", 10 + i);
    }
    let (mut cursor, mut keys, mut steps) = (ScanCursor::default(), Vec::new(), 0);
    loop {
        let mut visit = |key: &[u8], _: storage::engine::Version<'_>| keys.push(key.to_vec());
        let Some(next) = engine.scan(cursor, 10, ts(2000), &mut visit).expect("hashed") else {
            break;
        };
        assert!(next > cursor);
        (cursor, steps) = (next, steps + 1);
    }
    assert_eq!(steps, 99);
    let places: Vec<_> = keys.iter().map(|k| HASHER.key(k)).map(|k| (k.slot, k.hash)).collect();
    assert!(places.is_sorted());
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 1000);
    let beyond = ScanCursor { slot: u16::MAX, hash: u64::MAX };
    assert_eq!(engine.scan(beyond, 1, ts(2000), &mut |_, _| {}), Ok(None));
    let beyond = ScanCursor { slot: places[0].0, hash: u64::MAX };
    assert!(engine.scan(beyond, 1, ts(2000), &mut |_, _| {}).expect("hashed").is_some());
}

#[test]
fn keys_of_one_hash_are_never_parted() {
    let mut engine = MemoryEngine::new(HASHED, HASHER);
    for bytes in [b"a", b"b", b"c"] {
        engine.put(&HashedKey { bytes, slot: 5, hash: 77 }, &[b"v"], 0, ts(10));
    }
    let mut visited = 0;
    let end = engine.scan(ScanCursor::default(), 1, ts(10), &mut |_, _| visited += 1);
    assert_eq!((end, visited), (Ok(None), 3));
    engine.hold(ts(10));
    let limits = PieceLimits { examined_max: 0, bytes_max: 0 };
    assert!(!engine.dump(&mut DumpCursor::default(), ts(10), ts(10), limits, &mut Vec::new()));
}

#[test]
fn operations_of_the_other_layout_are_refused() {
    use std::ops::Bound::Unbounded;
    let range =
        Range { start: Unbounded, end: Unbounded, reverse: false, visited_max: 1, examined_max: 1 };
    let hashed = MemoryEngine::new(HASHED, HASHER);
    let refused = hashed.range(&range, ts(1), &mut |_, _| {});
    assert_eq!(refused, Err(WrongLayout { needed: "ordered" }));
    let ordered = MemoryEngine::new(Layout::Ordered, HASHER);
    let refused = ordered.scan(ScanCursor::default(), 1, ts(1), &mut |_, _| {});
    assert_eq!(refused, Err(WrongLayout { needed: "hashed" }));
}

#[test]
fn random_keys_are_spread_evenly() {
    both(|mut engine| {
        assert_eq!(engine.random_key(1, ts(1)), None);
        for i in 0..100 {
            put(&mut engine, &format!("key{i}"), "v", 10);
        }
        let mut counts = std::collections::BTreeMap::new();
        for i in 0..20_000u64 {
            let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *counts.entry(engine.random_key(random, ts(20)).expect("some")).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 100);
        assert!(counts.values().all(|count| (100..400).contains(count)), "{counts:?}");
        for i in 0..99 {
            engine.delete(&HASHER.key(format!("key{i}").as_bytes()), ts(30));
        }
        assert!((0..100).all(|i| engine.random_key(i, ts(30)) == Some(b"key99")));
    });
}

#[test]
fn the_point_to_free_frees_about_that_much() {
    both(|mut engine| {
        assert_eq!(engine.point_to_free(1), None);
        for i in 0..1000 {
            put(&mut engine, "k", "0123456789", 10 + i);
        }
        let old = engine.usage().old_bytes;
        let point = engine.point_to_free(old / 2).expect("there are old versions");
        engine.raise_safe_point(point);
        assert!(!engine.collect(usize::MAX));
        let left = engine.usage().old_bytes;
        assert!((old * 48 / 100..=old / 2).contains(&left), "{left} of {old}");
        assert_eq!(engine.point_to_free(u64::MAX), Some(ts(1009)));
    });
}

#[test]
fn prefetch_changes_nothing_and_takes_keys_outside_the_arc() {
    for (first_slot, end_slot) in [(0, 1), (SLOTS - 1, SLOTS), (0, SLOTS)] {
        let mut engine = MemoryEngine::new(Layout::Hashed { first_slot, end_slot }, HASHER);
        let names = ["", "foo"].map(|name| HASHER.key(name.as_bytes()));
        let is_here = |key: &HashedKey<'_>| (first_slot..end_slot).contains(&key.slot);
        for key in names.iter().filter(|key| is_here(key)) {
            engine.put(key, &[b"v"], 0, ts(10));
        }
        let before = engine.usage();
        for key in &names {
            engine.prefetch(key);
            engine.prefetch_record(key);
        }
        assert_eq!(engine.usage(), before);
        for key in names.iter().filter(|key| is_here(key)) {
            assert_eq!(engine.newest(key, ts(10)).map(|found| found.value), Some(&b"v"[..]));
        }
        assert_eq!(engine.is_empty(ts(10)), !names.iter().any(is_here));
    }
}

#[test]
fn garbage_is_refused_by_name() {
    let layout = Layout::Hashed { first_slot: 0, end_slot: 1 };
    let refused = |block: &[u8]| MemoryEngine::new(layout, HASHER).restore(block);
    assert_eq!(refused(&[1, 2]), Err(RestoreError::Short { offset: 0 }));
    assert_eq!(refused(&[255; 30]), Err(RestoreError::Short { offset: 0 }));
    let flush_then = |rest: &[u8]| {
        let mut block = vec![9, 0, 0, 0, 3, 5, 0, 0, 0, 0, 0, 0, 0];
        block.extend_from_slice(rest);
        refused(&block)
    };
    let kind = flush_then(&[9, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(kind, Err(RestoreError::Kind { offset: 13, kind: 4 }));
    let foreign = flush_then(&[12, 0, 0, 0, 2, 5, 0, 0, 0, 0, 0, 0, 0, b'f', b'o', b'o']);
    assert_eq!(foreign, Err(RestoreError::Foreign { offset: 13, slot: 12182 }));
    let order = flush_then(&[9, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(order, Err(RestoreError::Order { offset: 13 }));
}

#[test]
fn keys_that_end_by_their_expiry_are_counted_once() {
    both(|mut engine| {
        for (key, expiry_ms) in [("a", 20), ("b", 20), ("c", 0), ("d", 1_000)] {
            engine.put(&HASHER.key(key.as_bytes()), &[b"v"], expiry_ms, ts(10));
        }
        let usage = |engine: &MemoryEngine, now| {
            let usage = engine.expiry_usage(ts(now));
            (usage.keys, usage.expired, usage.ttl_sum_ms)
        };
        assert_eq!(usage(&engine, 15), (3, 0, 5 + 5 + 985));
        assert_eq!(usage(&engine, 30), (1, 2, 970));
        assert_eq!(engine.expiry_usage(ts(30)).average_ttl_ms(), 970);
        put(&mut engine, "a", "again", 30);
        assert_eq!((usage(&engine, 30), engine.expired_keys()), ((1, 1, 970), 1));
        engine.raise_safe_point(ts(50));
        while engine.collect(1_000) {}
        assert_eq!((usage(&engine, 50), engine.take_expired_keys()), ((1, 0, 950), 2));
        assert!(engine.delete(&HASHER.key(b"d"), ts(60)));
        assert_eq!((usage(&engine, 60), engine.expired_keys()), ((0, 0, 0), 0));
    });
}

/// Of what is as new as the flush, or newer, nothing goes: also if it is done again.
#[test]
fn flush_of_older_versions_spares_those_that_follow_it() {
    both(|mut engine| {
        ["a", "b", "c"].iter().for_each(|key| put(&mut engine, key, "old", 100));
        put(&mut engine, "c", "newer", 300);
        let (from, end) = (Cut::Slot(0), Cut::Slot(SLOTS));
        for _ in 0..2 {
            engine.flush_older(&from, &end, true, ts(200));
            put(&mut engine, "b", "its own", 200);
        }
        let all = |now| ["a", "b", "c"].map(|key| at(&engine, key, now));
        assert_eq!(all(199), ["old", "old", "old"]);
        assert_eq!(all(200), ["nil", "its own", "old"], "what is newer has been spared");
        assert_eq!(all(300), ["nil", "its own", "newer"]);
    });
    // As an era, of which nothing is left to be flushed again.
    let settings = Settings { flush_in_place_keys_max: 0, ..HASHER.into() };
    let mut engine = MemoryEngine::new(HASHED, settings);
    put(&mut engine, "a", "old", 100);
    for _ in 0..2 {
        engine.flush_older(&Cut::Slot(0), &Cut::Slot(SLOTS), true, ts(200));
        put(&mut engine, "b", "its own", 200);
    }
    assert_eq!([at(&engine, "a", 199), at(&engine, "a", 200)], ["old", "nil"]);
    assert_eq!(newest(&engine, "b", 200).as_deref(), Some("its own"));
}
