//! Transactions gone through step by step, over keys that a table stands for.

use std::collections::BTreeMap;

use keyspace::random::Random;

use super::*;
use command::{ExpireIf, Read, Refusal};

const NOW: Timestamp = Timestamp::from_millis(1_000);

/// What the shards have.
type Table = BTreeMap<Vec<u8>, (Vec<u8>, u64, Timestamp)>;

fn table(pairs: &[(&str, &str)]) -> Table {
    let of = |(key, value): &(&str, &str)| {
        (key.as_bytes().to_vec(), (value.as_bytes().to_vec(), 0, Timestamp::from_millis(500)))
    };
    pairs.iter().map(of).collect()
}

fn record_read(
    transaction: &mut InteractiveTxn,
    table: &Table,
    key: &[u8],
) -> Result<(), TxnTooLarge> {
    match table.get(key) {
        Some((value, expiry_ms, at)) => {
            transaction.record_read(key, Some((value, *expiry_ms)), ObservedVersion::Version(*at))
        }
        None => {
            transaction.record_read(key, None, ObservedVersion::Absent(Timestamp::from_millis(700)))
        }
    }
}

fn run(transaction: &mut InteractiveTxn, table: &Table, step: Step<'_>) -> Reply {
    for key in transaction.missing_keys(&step) {
        record_read(transaction, table, key).expect("the transaction is below its limit");
    }
    transaction.run(&step).expect("the transaction is below its limit")
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Step<'a> {
    let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Ok);
    Step::Write(Write::Set { key, value, when, expiry, reply })
}

fn bulk(text: &[u8]) -> Reply {
    Reply::Bulk(text.into())
}

/// Answers a range from a table, as a driver would; how often it had to look.
fn range(
    transaction: &mut InteractiveTxn,
    table: &Table,
    query: &RangeQuery<'_>,
) -> (Vec<Pair>, u32) {
    let mut looks = 0;
    loop {
        let unread: Vec<Box<[u8]>> = transaction.unread().map(Box::from).collect();
        unread.iter().for_each(|key| {
            record_read(transaction, table, key).expect("the transaction is below its limit")
        });
        let Some(gap) = transaction.unread_range(query) else { break };
        looks += 1;
        let high = gap.range.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let there = table.range::<[u8], _>((Bound::Included(&*gap.range.low), high));
        let mut keys: Vec<Box<[u8]>> = there.map(|(key, _)| key.as_slice().into()).collect();
        if gap.reverse {
            keys.reverse();
        }
        keys.truncate(gap.keys_max);
        let reached = keys.last().filter(|_| keys.len() == gap.keys_max).cloned();
        let found = transaction.found(&gap.range, gap.reverse, &keys, reached.as_deref());
        found.expect("the transaction is below its limit");
    }
    (transaction.range(query), looks)
}

#[test]
fn own_writes_are_visible_in_copy_only() {
    let table = table(&[("a", "7"), ("b", "x")]);
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    assert!(all.is_empty());
    assert_eq!(run(&mut all, &table, Step::Read(Read::Get(b"a"))), bulk(b"7"));
    let incr = || Step::Write(Write::Increment { key: b"a", by: 1 });
    assert_eq!(run(&mut all, &table, incr()), Reply::Int(8));
    assert_eq!(run(&mut all, &table, incr()), Reply::Int(9));
    let wrong = Step::Write(Write::Increment { key: b"b", by: 1 });
    assert_eq!(run(&mut all, &table, wrong), Reply::Refused(Refusal::NotInteger));
    let rename = Step::Write(Write::Rename { from: b"b", to: b"c", if_absent: true });
    assert_eq!(run(&mut all, &table, rename), Reply::Int(1));
    let many = Step::Read(Read::GetMany(vec![b"a", b"b", b"c"]));
    assert_eq!(run(&mut all, &table, many), Reply::Array(vec![bulk(b"9"), Reply::Nil, bulk(b"x")]));
    let transaction = all.transaction();
    let version = ObservedVersion::Version(Timestamp::from_millis(500));
    let nothing = ObservedVersion::Absent(Timestamp::from_millis(700));
    let watched: [(&[u8], ObservedVersion); 3] =
        [(b"a", version), (b"b", version), (b"c", nothing)];
    assert_eq!(transaction.watched, watched);
    let delete = Step::Write(Write::Delete { key: b"b" });
    assert_eq!(transaction.commands, [set(b"a", b"9"), delete, set(b"c", b"x")]);
}

/// What no command has changed is not written.
#[test]
fn unchanged_keys_are_not_written() {
    let table = table(&[("a", "7")]);
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    run(&mut all, &table, Step::Write(Write::Persist { key: b"a" }));
    run(&mut all, &table, Step::Write(Write::Increment { key: b"a", by: i64::MAX }));
    run(&mut all, &table, Step::Write(Write::Delete { key: b"n" }));
    let transaction = all.transaction();
    assert_eq!((transaction.watched.len(), transaction.commands.len()), (2, 0));
}

/// Who watches that a key has no value is to know that it had one.
#[test]
fn created_and_deleted_key_leaves_tombstone() {
    let table = table(&[]);
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    run(&mut all, &table, Step::Write(Write::append(b"n", b"x")));
    run(&mut all, &table, Step::Write(Write::Rename { from: b"n", to: b"o", if_absent: false }));
    run(
        &mut all,
        &table,
        Step::Write(Write::Expire { key: b"o", at: 1, when: ExpireIf::default() }),
    );
    run(&mut all, &table, set(b"p", b"1"));
    run(&mut all, &table, Step::Write(Write::Delete { key: b"p" }));
    let transaction = all.transaction();
    let mut engine = MemoryEngine::new(Layout::Ordered, KeyHasher::new([1; 16]));
    let at = Timestamp::from_millis(2_000);
    let _: Vec<Reply> = transaction.run(&mut engine, at);
    for key in [b"n", b"o", b"p"] {
        assert_eq!(engine.newest_timestamp(&engine.hasher().key(key)), at);
    }
    assert!(engine.is_empty(at));
}

#[test]
fn blind_write_reads_nothing() {
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    assert!(all.missing_keys(&set(b"a", b"1")).is_empty());
    all.run(&set(b"a", b"1")).expect("the transaction is below its limit");
    let get = Step::Read(Read::Get(b"a"));
    assert!(all.missing_keys(&get).is_empty(), "it is known what it has");
    assert_eq!(all.run(&get), Ok(bulk(b"1")));
    let delete = Step::Write(Write::Delete { key: b"a" });
    assert_eq!(all.run(&delete), Ok(Reply::Int(1)));
    let transaction = all.transaction();
    let (value, when, reply) = (&b""[..], SetIf::Always, SetReply::Ok);
    let ended = Write::Set { key: b"a", value, when, expiry: Expiry::At(1), reply };
    assert_eq!((transaction.watched, transaction.commands), (vec![], vec![Step::Write(ended)]));
}

/// A clock elsewhere that is slower has shown it alive.
#[test]
fn value_does_not_expire_in_copy() {
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    let seen = ObservedVersion::Version(Timestamp::from_millis(500));
    all.record_read(b"a", Some((b"x", 900)), seen).expect("the transaction is below its limit");
    assert_eq!(all.run(&Step::Read(Read::Get(b"a"))), Ok(bulk(b"x")));
}

#[test]
fn command_beyond_limit_is_refused_and_transaction_goes_on() {
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    let large = vec![b'x'; 20 << 20];
    all.run(&set(b"a", &large)).expect("the transaction is below its limit");
    assert_eq!(all.run(&set(b"b", &large)), Err(TxnTooLarge));
    let far = Write::SetRange { key: b"c", offset: 500 << 20, value: b"x" };
    all.record_read(b"c", None, ObservedVersion::Absent(NOW))
        .expect("the transaction is below its limit");
    assert_eq!(all.run(&Step::Write(far)), Err(TxnTooLarge));
    assert_eq!(
        all.record_read(b"d", Some((&large, 0)), ObservedVersion::Version(NOW)),
        Err(TxnTooLarge)
    );
    let copy = Write::Copy { from: b"a", to: b"c", replace: true };
    assert_eq!(all.run(&Step::Write(copy)), Err(TxnTooLarge));
    assert_eq!(all.transaction().commands.len(), 1);
}

/// A refused command of several leaves nothing done, and a refused range nothing to be as it was.
#[test]
fn refused_command_leaves_no_trace() {
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    let large = vec![b'x'; 20 << 20];
    let steps = [set(b"a", &large), set(b"b", &large)];
    assert_eq!(all.run_all(&steps), Err(TxnTooLarge));
    assert!(all.is_empty());
    let range = KeyRange { low: b"a"[..].into(), high: None };
    all.found(&range, false, &[b"c"[..].into(), b"d"[..].into()], None)
        .expect("the transaction is below its limit");
    all.record_read(b"c", Some((&large, 0)), ObservedVersion::Version(NOW))
        .expect("the transaction is below its limit");
    assert_eq!(
        all.record_read(b"d", Some((&large, 0)), ObservedVersion::Version(NOW)),
        Err(TxnTooLarge)
    );
    assert_eq!((all.unread().count(), all.transaction().ranges), (0, vec![]));
    // Nor are there ranges without end, or without weight.
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    let few = (0..).find(|number: &u32| {
        let low = [&number.to_be_bytes()[..], &[b'x'; 60_000]].concat();
        let range = KeyRange { high: Some([&low[..], b"z"].concat().into()), low: low.into() };
        all.found(&range, false, &[], None).is_err()
    });
    assert_eq!(few, Some(279));
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    let many = (0..).find(|number: &u32| {
        let low: Box<[u8]> = number.to_be_bytes().into();
        let range = KeyRange { high: Some([&low[..], b"z"].concat().into()), low };
        all.found(&range, false, &[], None).is_err()
    });
    assert_eq!(many, Some(KEY_RANGES_MAX as u32));
}

/// A long value of which each command makes another takes no more than a few of it.
#[test]
fn replaced_versions_are_collected_from_copy() {
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    all.run(&set(b"a", &vec![b'x'; 1 << 20])).expect("the transaction is below its limit");
    for _ in 0..1_000 {
        all.record_read(b"a", None, ObservedVersion::Absent(NOW))
            .expect("the transaction is below its limit");
        let append = Step::Write(Write::append(b"a", b"y"));
        all.run(&append).expect("the transaction is below its limit");
    }
    let usage = all.copy.usage();
    assert!(usage.live_bytes + usage.old_bytes < 8 << 20, "{usage:?}");
}

#[test]
fn range_is_read_once_and_shows_own_writes() {
    let table = table(&[("b", "1"), ("d", "2"), ("f", "3"), ("h", "4")]);
    let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
    let keys = |pairs: &[Pair]| pairs.iter().map(|(key, _)| key[0] as char).collect::<String>();
    let query = |low: &'static [u8], high: &'static [u8], reverse, keys_max| RangeQuery {
        low: Bound::Included(low),
        high: Bound::Excluded(high),
        reverse,
        keys_max,
    };
    run(&mut all, &table, Step::Write(Write::Delete { key: b"d" }));
    run(&mut all, &table, set(b"c", b"new"));
    let (found, looks) = range(&mut all, &table, &query(b"a", b"z", false, 3));
    // b, d and f were there.
    assert_eq!((keys(&found).as_str(), looks), ("bcf", 1));
    let (found, looks) = range(&mut all, &table, &query(b"a", b"f", false, 100));
    assert_eq!((keys(&found).as_str(), looks), ("bc", 0), "it was looked at");
    let (found, looks) = range(&mut all, &table, &query(b"a", b"z", true, 2));
    assert_eq!((keys(&found).as_str(), looks), ("hf", 1));
    let transaction = all.transaction();
    assert_eq!(transaction.ranges, [(&b"a"[..], Some(&b"z"[..]))]);
    let nothing = ObservedVersion::Absent(Timestamp::MAX);
    assert!(transaction.watched.contains(&(b"c", nothing)), "nobody else may have put it there");
    let written: Vec<&[u8]> = transaction.writes().map(Write::first_key).collect();
    assert_eq!(written, [b"c", b"d"]);
}

/// Ranges at random, from both sides, over a table that does not change, show what it has with what
/// was written; and what is known lies in ranges that are apart.
#[test]
fn random_ranges_match_model() {
    for seed in 0..200 {
        let mut rng = Random::new(seed);
        let key = |rng: &mut Random| vec![b'a' + rng.below(20) as u8];
        let mut table = Table::new();
        for _ in 0..rng.below(12) {
            table.insert(key(&mut rng), (b"old".to_vec(), 0, Timestamp::from_millis(500)));
        }
        let mut expected: BTreeMap<Vec<u8>, Vec<u8>> =
            table.iter().map(|(key, (value, ..))| (key.clone(), value.clone())).collect();
        let mut all = InteractiveTxn::new(NOW, BYTES_MAX);
        for _ in 0..30 {
            let (one, other) = (key(&mut rng), key(&mut rng));
            match rng.below(4) {
                0 => {
                    run(&mut all, &table, set(&one, b"new"));
                    expected.insert(one, b"new".to_vec());
                }
                1 => {
                    run(&mut all, &table, Step::Write(Write::Delete { key: &one }));
                    expected.remove(&one);
                }
                _ => {
                    let (low, high) = (one.clone().min(other.clone()), one.max(other));
                    let (keys_max, reverse) = (rng.below(6) as usize + 1, rng.below(2) == 0);
                    let (low, high) = (Bound::Included(&*low), Bound::Included(&*high));
                    let query = RangeQuery { low, high, reverse, keys_max };
                    let (found, _) = range(&mut all, &table, &query);
                    let there = expected.range::<[u8], _>((low, high));
                    let mut there: Vec<_> = there.collect();
                    if reverse {
                        there.reverse();
                    }
                    there.truncate(keys_max);
                    let found: Vec<_> =
                        found.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
                    let there: Vec<_> = there
                        .into_iter()
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect();
                    assert_eq!(found, there, "seed {seed}");
                }
            }
        }
        let transaction = all.transaction();
        let ends = transaction.ranges.iter();
        assert!(ends.is_sorted_by(|(_, end), (next, _)| end.is_some_and(|end| end < *next)));
        for (key, _) in table.iter().filter(|(key, _)| all.key_ranges.holds(key)) {
            let is_watched = transaction.watched.iter().any(|(watched, _)| watched == key);
            assert!(is_watched, "seed {seed}: what was found is watched");
        }
    }
}

#[test]
fn seen_version_excludes_written_keys() {
    let table = table(&[("a", "1"), ("b", "2")]);
    let mut transaction = InteractiveTxn::new(NOW, BYTES_MAX);
    run(&mut transaction, &table, Step::Read(Read::Get(b"a")));
    run(&mut transaction, &table, Step::Write(Write::Delete { key: b"b" }));
    run(&mut transaction, &table, set(b"c", b"3"));
    let of = |key: &[u8]| Some(ObservedVersion::Version(table[key].2));
    assert_eq!(transaction.seen(b"a"), of(b"a"));
    assert_eq!((transaction.seen(b"b"), transaction.seen(b"c")), (None, None));
    assert_eq!(transaction.keys(), 3);
    assert_eq!(transaction.transaction().commands.len(), 2);
    transaction.forget_writes();
    let only_read = transaction.transaction();
    assert_eq!((only_read.commands.len(), only_read.watched.len()), (0, 2));
}

#[test]
fn a_restarted_transaction_knows_what_was_read_and_nothing_that_was_written() {
    let table = table(&[("a", "1"), ("b", "2")]);
    let mut transaction = InteractiveTxn::restartable(NOW, BYTES_MAX);
    let increment = |key| Step::Write(Write::Increment { key, by: 1 });
    assert_eq!(run(&mut transaction, &table, increment(b"a")), Reply::Int(2));
    assert_eq!(
        run(&mut transaction, &table, Step::Write(Write::Delete { key: b"b" })),
        Reply::Int(1)
    );
    run(&mut transaction, &table, set(b"c", b"blind"));

    transaction.restart();
    let get = |key| Step::Read(Read::Get(key));
    assert!(transaction.missing_keys(&get(b"a")).is_empty(), "it was read");
    assert_eq!(transaction.missing_keys(&get(b"c")), [b"c"], "it was only written");
    assert_eq!(run(&mut transaction, &table, get(b"b")), bulk(b"2"));
    assert_eq!(run(&mut transaction, &table, increment(b"a")), Reply::Int(2));
    let all = transaction.transaction();
    assert_eq!((all.watched.len(), all.commands.len()), (2, 1));
}

/// DBSIZE wants to know whether the shards count a key that was written unread.
#[test]
fn what_a_key_had_that_was_written_unread_is_learnt_once() {
    let there = table(&[("a", "1")]);
    for key in [&b"a"[..], b"new"] {
        let mut transaction = InteractiveTxn::restartable(NOW, BYTES_MAX);
        run(&mut transaction, &there, set(key, b"blind"));
        assert!(!transaction.has_read(key));
        record_read(&mut transaction, &there, key).expect("it is small");
        let get = Step::Read(Read::Get(key));
        assert_eq!(transaction.run(&get), Ok(bulk(b"blind")), "the copy shows what was written");
        transaction.restart();
        assert!(transaction.has_read(key) && transaction.missing_keys(&get).is_empty());
        let value = there.get(key).map_or(Reply::Nil, |(value, ..)| bulk(value));
        assert_eq!(transaction.run(&get), Ok(value));
        run(&mut transaction, &there, set(key, b"blind"));
        assert_eq!(transaction.had_value(key), key == b"a");
        assert_eq!(transaction.transaction().watched.len(), 1);
    }
}

/// What was read before a flush stays a condition; what was written before it is not done.
#[test]
fn flush_hides_all_keys_without_reading_them() {
    let there = table(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let mut transaction = InteractiveTxn::restartable(NOW, 1 << 20);
    let get = |key| Step::Read(Read::Get(key));
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        assert!(transaction.is_empty() || !transaction.is_flushed());
        assert_eq!(run(&mut transaction, &there, get(b"a")), bulk(b"1"));
        run(&mut transaction, &there, set(b"b", b"before"));
        run(&mut transaction, &there, Step::Write(Write::append(b"c", b"+")));
        transaction.flush();
        assert!(transaction.missing_keys(&get(b"d")).is_empty());
        for key in [&b"a"[..], b"b", b"c", b"d"] {
            assert_eq!(run(&mut transaction, &there, get(key)), Reply::Nil);
        }
        run(&mut transaction, &there, Step::Write(Write::append(b"c", b"new")));
        run(&mut transaction, &there, set(b"e", b"made"));
        run(&mut transaction, &there, Step::Write(Write::Delete { key: b"e" }));
        assert_eq!(transaction.live_keys(), [Box::from(&b"c"[..])]);
        let whole = transaction.transaction();
        let watched: Vec<&[u8]> = whole.watched.iter().map(|(key, _)| *key).collect();
        assert_eq!(watched, [b"a", b"c"], "those that were read");
        assert_eq!(whole.flush.as_deref(), Some(&Flush::All));
        outcomes.push(format!("{:?}", whole.commands));
        // It begins again, and does the same.
        transaction.restart();
        assert!(!transaction.is_flushed());
    }
    assert!(outcomes[0].starts_with("[Write(Set") && outcomes[0].matches("Write(").count() == 1);
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(run(&mut transaction, &there, get(b"c")), bulk(b"3"), "as it was read");
}

/// A key whose value came when the copy was flushed already shows it when the script runs again.
#[test]
fn read_behind_a_flush_counts_before_it() {
    let there = table(&[("a", "1")]);
    let mut transaction = InteractiveTxn::restartable(NOW, 1 << 20);
    transaction.flush();
    record_read(&mut transaction, &there, b"a").expect("it is small");
    let get = Step::Read(Read::Get(b"a"));
    assert_eq!(transaction.run(&get), Ok(Reply::Nil));
    transaction.restart();
    assert_eq!(transaction.run(&get), Ok(bulk(b"1")));
}
