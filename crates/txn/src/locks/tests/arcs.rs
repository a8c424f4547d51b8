//! Locks of whole arcs: nobody reads or writes in them, and they are flushed on commit alone.

use super::*;
use command::Flush;
use keyspace::SLOTS;
use storage::engine::ReadResult;

/// A PREPARE that locks an arc at a key of it, and does this behind the flush.
fn flushing(
    id: TxnId,
    (witness, from, end): (&'static [u8], Cut, Cut),
    watched: &[(&'static [u8], ObservedVersion)],
    commands: Vec<Command<'static>>,
) -> Step<'static> {
    let mut step = prepare(id, &[witness], watched, commands);
    if let Step::Prepare(prepare) = &mut step {
        prepare.record = witness;
        prepare.part.flush = Some(Box::new(Flush::Arc { witness, from, end }));
    }
    step
}

fn key(key: &[u8]) -> Cut {
    Cut::Key(key.into())
}

/// All that the shard has.
fn whole(witness: &'static [u8]) -> (&'static [u8], Cut, Cut) {
    (witness, Cut::Slot(0), Cut::Slot(SLOTS))
}

fn filled() -> Shard {
    let mut shard = Shard::new();
    for key in [&b"b"[..], b"c", b"m", b"x"] {
        shard.engine.put(&HASHER.key(key), &[b"v"], 0, at(50));
    }
    shard
}

fn is_voted(reply: &StepReply) -> bool {
    matches!(reply, StepReply::Voted(_))
}

fn values(shard: &Shard) -> String {
    let keys = [&b"a"[..], b"b", b"c", b"m", b"x"];
    let shown = keys.map(|key| {
        shard.value(key).map_or("-".into(), |value| String::from_utf8_lossy(&value).into_owned())
    });
    shown.join(" ")
}

/// As a swap of two keyspaces has it: what it has not read must not be flushed.
#[test]
fn flush_of_watched_keys_is_refused_if_another_key_has_appeared() {
    let seen = ObservedVersion::Version(at(50));
    let watched = [(&b"b"[..], seen), (b"c", seen), (b"m", seen), (b"x", seen)];
    let absent = (&b"a"[..], ObservedVersion::Absent(at(60)));
    let step = |id, watched: &[_]| {
        let mut step = flushing(id, whole(b"w"), watched, vec![set(b"c", b"new")]);
        if let Step::Prepare(prepare) = &mut step {
            prepare.part.flushes_watched_only = true;
        }
        step
    };
    let mut shard = filled();
    let refused = why(shard.step(200, &step(id(100), &watched[..3])));
    assert_eq!(refused, PrepareRefusal::Changed(b"w"[..].into()));
    shard.engine.put(&HASHER.key(b"d"), &[b"v"], 0, at(210));
    let refused = why(shard.step(220, &step(id(101), &watched)));
    assert_eq!(refused, PrepareRefusal::Changed(b"w"[..].into()));
    assert!(shard.locks.is_free());
    assert!(shard.engine.delete(&HASHER.key(b"d"), at(230)));
    // A key may be watched twice, and one without a value is none too many.
    let all = [&watched[..], &watched[..1], &[absent]].concat();
    assert!(is_voted(&shard.step(240, &step(id(102), &all))));
    let outcome = Outcome::Committed(at(250));
    let resolve = Step::Resolve { id: id(102), outcome, keys: keys(&[b"c", b"w"]) };
    assert_eq!(shard.step(260, &resolve), StepReply::Done);
    assert_eq!(values(&shard), "- - new - -");
}

/// Nearly all locks are of one key: those of arcs must not make them larger.
#[test]
fn arc_takes_no_room_in_locks_of_keys() {
    #[expect(dead_code, reason = "only its size matters")]
    enum WithoutArcs {
        Key,
        Until(Box<[u8]>),
        End,
    }
    assert_eq!(size_of::<LockRange>(), size_of::<WithoutArcs>());
}

#[test]
fn locked_arc_blocks_readers_and_writers_of_all_keys() {
    let mut shard = filled();
    let set_c = vec![set(b"c", b"new")];
    assert!(is_voted(&shard.step(200, &flushing(id(100), whole(b"w"), &[], set_c))));
    for key in [&b"a"[..], b"b", b"c", b"w", b"zz"] {
        assert_eq!(shard.locks.blocking_lock(key).map(|lock| lock.id), Some(id(100)));
        assert!(shard.locks.hides_newest(key) && shard.locks.hides_at(key, at(200)));
        assert!(!shard.locks.hides_at(key, at(199)));
    }
    assert!(shard.locks.writes_by(at(200)) && !shard.locks.writes_by(at(199)));
    assert!(!shard.locks.may_split());
    let other = prepare(id(101), &[], &[], vec![set(b"d", b"z")]);
    assert_eq!(why(shard.step(220, &other)), PrepareRefusal::Locked(b"d"[..].into()));
    let other = flushing(id(102), whole(b"v"), &[], vec![]);
    assert_eq!(why(shard.step(230, &other)), PrepareRefusal::Locked(b"v"[..].into()));
    assert_eq!(values(&shard), "- v v v v", "nothing is done yet");
    let outcome = Outcome::Committed(at(210));
    let resolve = Step::Resolve { id: id(100), outcome, keys: keys(&[b"c", b"w"]) };
    assert_eq!(shard.step(250, &resolve), StepReply::Done);
    assert_eq!(values(&shard), "- - new - -");
    assert!(shard.locks.is_free() && shard.locks.may_split());
    // Who asks for it again hears the same, and nothing is done again.
    assert_eq!(shard.step(260, &resolve), StepReply::Done);
    assert!(is_voted(
        &shard.step(270, &flushing(id(100), whole(b"w"), &[], vec![set(b"c", b"new")]))
    ));
    assert!(shard.locks.is_free());
    let hasher = shard.engine.hasher();
    let is_there =
        |millis| matches!(shard.engine.at(&hasher.key(b"b"), at(millis)), ReadResult::Value(_));
    assert!(is_there(209) && !is_there(210), "the past stays");
}

#[test]
fn arc_is_not_locked_beside_other_locks() {
    let mut shard = filled();
    assert!(is_voted(&shard.step(200, &prepare(id(100), &[], &[], vec![set(b"m", b"new")]))));
    let flush = flushing(id(90), whole(b"w"), &[], vec![]);
    assert_eq!(why(shard.step(210, &flush)), PrepareRefusal::Locked(b"m"[..].into()));
    let seen = [(&b"c"[..], ObservedVersion::Version(at(40)))];
    let resolve = Step::Resolve { id: id(100), outcome: Outcome::Aborted, keys: keys(&[b"m"]) };
    assert_eq!(shard.step(220, &resolve), StepReply::Done);
    let flush = flushing(id(90), whole(b"w"), &seen, vec![]);
    assert_eq!(why(shard.step(230, &flush)), PrepareRefusal::Changed(b"c"[..].into()));
    assert!(shard.locks.is_free());
}

#[test]
fn aborted_transaction_flushes_nothing() {
    let mut shard = filled();
    let set_c = vec![set(b"c", b"new")];
    assert!(is_voted(&shard.step(200, &flushing(id(100), whole(b"w"), &[], set_c))));
    let abort =
        Step::Decide { id: id(100), record: b"w", outcome: Outcome::Aborted, is_sure: false };
    assert!(matches!(shard.step(210, &abort), StepReply::Record(RecordState::Aborted, _)));
    let resolve =
        Step::Resolve { id: id(100), outcome: Outcome::Aborted, keys: keys(&[b"c", b"w"]) };
    assert_eq!(shard.step(220, &resolve), StepReply::Done);
    assert_eq!(values(&shard), "- v v v v");
    assert!(shard.locks.is_free());
}

#[test]
fn last_shard_flushes_at_prepare() {
    let mut shard = filled();
    let step = flushing(id(100), whole(b"w"), &[], vec![set(b"c", b"new")]);
    let step = last(step, at(150));
    assert!(is_voted(&shard.step(200, &step)));
    assert_eq!(values(&shard), "- - new - -");
    assert!(shard.locks.is_free());
    shard.engine.put(&HASHER.key(b"m"), &[b"later"], 0, at(210));
    assert!(is_voted(&shard.step(220, &step)), "the same answer");
    assert_eq!(values(&shard), "- - new later -", "once is enough");
}

/// The lock of an arc goes into the shard that takes the shard in, whose other keys are not
/// flushed with it, though they may be newer.
#[test]
fn merged_arc_is_flushed_alone() {
    let mut shard = filled();
    let arc = (&b"m"[..], key(b"m"), Cut::Slot(SLOTS));
    assert!(is_voted(&shard.step(200, &flushing(id(100), arc, &[], vec![set(b"n", b"1")]))));
    assert!(shard.locks.blocking_lock(b"c").is_none() && shard.locks.blocking_lock(b"x").is_some());
    shard.engine.put(&HASHER.key(b"c"), &[b"newer"], 0, at(230));
    let outcome = Outcome::Committed(at(220));
    let resolve = Step::Resolve { id: id(100), outcome, keys: keys(&[b"m", b"n"]) };
    assert_eq!(shard.step(250, &resolve), StepReply::Done);
    assert_eq!(values(&shard), "- v newer - -");
    assert_eq!(shard.value(b"n"), Some(b"1".to_vec()));
}

#[test]
fn arc_that_is_not_the_shards_is_not_locked() {
    let mut shard = filled();
    let left = &keyspace::Arc::whole(KeyspaceId(1)).split(&key(b"m").position(KeyspaceId(1)));
    let Some((left, _)) = left else { panic!("it lies within") };
    let flush = flushing(id(100), whole(b"a"), &[], vec![]);
    let owns = Owns { arc: left, key: &|key| key < &b"m"[..], up_to: &|_| true };
    let reply = apply(&mut shard.locks, &mut shard.engine, &flush, at(200), &owns, &mut ());
    assert_eq!(reply, StepReply::Moved, "it was cut since it was planned");
    assert!(shard.locks.is_free());
}

/// A shard that has lost its quorum may be cut whatever is locked: both halves stay locked.
#[test]
fn split_leaves_both_parts_locked() {
    for (witness, at_key) in [(&b"a"[..], &b"m"[..]), (b"x", b"m")] {
        let mut shard = filled();
        assert!(is_voted(&shard.step(200, &flushing(id(100), whole(witness), &[], vec![]))));
        let right = shard.locks.split_off(&key(at_key));
        let stops = |locks: &Locks, key: &[u8]| locks.blocking_lock(key).map(|lock| lock.id);
        assert_eq!((stops(&shard.locks, b"c"), stops(&shard.locks, b"m")), (Some(id(100)), None));
        assert_eq!((stops(&right, b"c"), stops(&right, b"m")), (None, Some(id(100))));
        shard.locks.unite(right);
        [&b"c"[..], b"m", b"z"].iter().for_each(|key| assert!(stops(&shard.locks, key).is_some()));
    }
}
