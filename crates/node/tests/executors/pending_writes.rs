//! What does a reader learn of a key that a transaction is about to change?
//!
//! ```text
//!   PREPARE (watches and writes k) ─► leader ◄─ what has k?
//!     on its way, then locked: the reader waits       … for 10 ms at most, while it is on its way
//!     RESOLVE has come: the leader tells its value before that is applied
//!     a PREPARE that has seen that goes with RESOLVE, in one entry
//!   what has k? (a transaction retried after a conflict, which reserves it) ─► leader
//!     other retries wait until its PREPARE is through … for 2.5 ms at most, if it does not come
//! ```
//!
//! And what does a coordinator learn that repeats its PREPARE, when another has come since?

use keyspace::Timestamp;
use smallvec::smallvec;
use txn::locks::{Outcome, PrepareRefusal, Role, Step, TxnId};

use crate::leader_script::{KEY, Story, YOUNG_NANOS};
#[test]
fn readers_wait_for_pending_write_and_learn_it_once_committed() {
    let mut story = Story::new();
    let id = |nth: u64| TxnId { start: Timestamp::from_millis(nth), coordinator: 9, attempt: 0 };
    let resolve =
        |id, at| Step::Resolve { id, outcome: Outcome::Committed(at), keys: smallvec![KEY] };

    let first = story.begin();
    let read = story.ask();
    story.together();
    assert_eq!(story.answer(read), Some((b"0".to_vec(), first)));

    // Who comes while the next one is on its way waits, also when that is locked.
    let prepared = story.prepare(id(2), b"1", Some(first));
    let read = story.ask();
    story.alone(1_000_000);
    let late = story.ask();
    story.alone(1_000_000);
    assert_eq!((story.answer(read), story.answer(late)), (None, None));
    story.together();
    let second = story.voted(prepared).expect("the transaction has seen the newest versions");
    assert_eq!((story.answer(read), story.answer(late)), (None, None));
    // It is sure what it will be before that is agreed upon, and so is a transaction that has seen
    // it: both are one entry.
    let before = story.entries();
    story.step(&resolve(id(2), second));
    let prepared = story.prepare(id(3), b"2", Some(second));
    story.five.settle(&[1], |_, _| true);
    assert_eq!(story.entries(), before + 1);
    let early = story.answer(late);
    assert_eq!(early, None, "there is somebody who will change it again");
    story.together();
    let third = story.voted(prepared).expect("the transaction has seen the newest versions");
    story.step(&resolve(id(3), third));
    story.five.settle(&[1], |_, _| true);
    assert_eq!(story.answer(late), Some((b"2".to_vec(), third)));
    assert_eq!(story.answer(read), story.answer(late));

    // Nobody waits for long for what does not get on.
    story.together();
    let prepared = story.prepare(id(4), b"3", Some(third));
    let read = story.ask();
    story.alone(9_000_000);
    assert_eq!(story.answer(read), None);
    story.alone(2_000_000);
    assert_eq!(story.answer(read), Some((b"2".to_vec(), third)));
    story.together();
    let fourth = story.voted(prepared).expect("the transaction has seen the newest versions");
    // What is given up is not told.
    let read = story.ask();
    story.step(&Step::Resolve { id: id(4), outcome: Outcome::Aborted, keys: smallvec![KEY] });
    story.alone(1_000_000);
    assert_eq!(story.answer(read), None);
    story.together();
    assert_eq!(story.answer(read), Some((b"2".to_vec(), third)));
    assert!(fourth > third);
}

/// The coordinator has given up, for it has not heard of all locks, and asks for ABORTED, as it may
/// until it has told anybody; somebody who has found all of them asks for COMMITTED. ABORTED comes
/// first.
#[test]
fn reader_waits_for_record_when_outcomes_conflict() {
    let mut story = Story::new();
    let id = |nth: u64| TxnId { start: Timestamp::from_millis(nth), coordinator: 9, attempt: 0 };
    let first = story.begin();

    let asked = story.prepare(id(2), b"never", None);
    story.together();
    let second = story.voted(asked).expect("nobody is in its way");
    for outcome in [Outcome::Aborted, Outcome::Committed(second)] {
        story.step(&Step::Decide { id: id(2), record: KEY, outcome, is_sure: false });
    }
    let read = story.ask();
    story.alone(1_000_000);
    assert_eq!(story.answer(read), None);
    story.together();
    assert_eq!(story.answer(read), Some((b"0".to_vec(), first)));

    // What is sure is told at once.
    let asked = story.prepare(id(3), b"2", None);
    story.together();
    let third = story.voted(asked).expect("nobody is in its way");
    let outcome = Outcome::Committed(third);
    story.step(&Step::Decide { id: id(3), record: KEY, outcome, is_sure: true });
    let read = story.ask();
    story.alone(1_000_000);
    assert_eq!(story.answer(read), Some((b"2".to_vec(), third)));
}

/// Only the retry that reserves a key learns its value, until its transaction is through or a
/// moment has passed. Nobody else waits for it, and nobody waits for long.
#[test]
fn retries_wait_for_holder_of_reservation() {
    let mut story = Story::new();
    let first = story.begin();
    let old = Some((b"0".to_vec(), first));
    let id = TxnId { start: Timestamp::from_millis(2), coordinator: 9, attempt: 0 };

    // Who does not reserve keeps nobody waiting.
    let (one, two) = (story.contend(1, false), story.contend(2, true));
    story.alone(100_000);
    assert_eq!((story.answer(one), story.answer(two)), (old.clone(), old.clone()));
    // The second one has, and asks as often as he likes; so do all who are no contenders.
    let (one, third) = (story.contend(3, false), story.contend(4, true));
    let (again, reader) = (story.contend(2, true), story.ask());
    story.alone(2_000_000);
    assert_eq!((story.answer(again), story.answer(reader)), (old.clone(), old.clone()));
    assert_eq!((story.answer(one), story.answer(third)), (None, None));
    // His transaction comes, and is through.
    let prepared = story.prepare(id, b"1", Some(first));
    story.alone(1_000_000);
    assert_eq!((story.answer(one), story.answer(third)), (None, None));
    story.together();
    let second = story.voted(prepared).expect("the transaction has seen the newest versions");
    let outcome = Outcome::Committed(second);
    story.step(&Step::Decide { id, record: KEY, outcome, is_sure: true });
    story.five.settle(&[1], |_, _| true);
    let new = Some((b"1".to_vec(), second));
    // The third one has reserved it with that.
    assert_eq!((story.answer(one), story.answer(third)), (new.clone(), new.clone()));
    story.together();
    let four = story.contend(5, true);
    story.alone(2_000_000);
    assert_eq!(story.answer(four), None);
    // He does not come.
    story.alone(1_000_000);
    assert_eq!(story.answer(four), new.clone());

    // The oldest retry comes first, whichever asked first.
    let six = story.contend(6, true);
    let older = story.contend(5, true);
    story.alone(1_000_000);
    assert_eq!((story.answer(six), story.answer(older)), (None, new.clone()));
    story.alone(3_000_000);
    assert_eq!(story.answer(six), new.clone());
    let (seven, older) = (story.contend(7, true), story.contend(5, true));
    story.alone(3_000_000);
    assert_eq!((story.answer(seven), story.answer(older)), (None, new.clone()));
    story.alone(3_000_000);
    assert_eq!(story.answer(seven), new.clone());
    story.alone(3_000_000);
    // Nor does a younger one who comes just when it is free: eight waits, and nine comes then.
    story.contend(7, true);
    let eight = story.contend(8, true);
    story.five.now += 3_000_000;
    story.five.executors[0].observe(story.five.now);
    let nine = story.contend(9, true);
    story.alone(0);
    assert_eq!((story.answer(eight), story.answer(nine)), (new.clone(), None));
    story.alone(3_000_000);
    assert_eq!(story.answer(nine), new.clone());
    story.alone(3_000_000);

    // Somebody asks again and again.
    story.contend(4, true);
    let five = story.contend(5, true);
    for _ in 0..99 {
        story.contend(4, true);
        story.alone(1_000_000);
        story.together();
        assert_eq!(story.answer(five), None);
    }
    story.contend(4, true);
    story.alone(1_000_000);
    story.together();
    assert_eq!(story.answer(five), new);
}

#[test]
fn repeated_step_gets_same_reply_after_lock_passed_on() {
    let mut story = Story::new();
    let first = story.begin();
    let id = |nth: u64| TxnId { start: Timestamp::from_millis(nth), coordinator: 9, attempt: 0 };
    // An older one comes, that would wait for nobody younger for long.
    let older = TxnId { coordinator: 8, ..id(1) };
    let other = story.prepare(older, b"2", None);
    story.together();
    assert!(story.voted(other) > Some(first));
    // What was done is what it was; what was not stands in line as ever.
    let again = story.prepare(id(1), b"0", None);
    let third = story.prepare(id(3), b"3", None);
    story.together();
    assert_eq!(story.voted(again), Some(first));
    assert_eq!(story.refused(third), None);
    story.alone(2 * YOUNG_NANOS);
    assert_eq!(story.refused(third), Some(PrepareRefusal::Locked(KEY.into())));
    assert_eq!(story.voted(third), None);
    // Nor does one wait that never will be.
    story.step(&Step::Prevent { id: id(4), keys: smallvec![KEY] });
    story.together();
    let prevented = story.prepare(id(4), b"4", None);
    story.together();
    assert_eq!(story.refused(prevented), Some(PrepareRefusal::Aborted));
}

#[test]
fn repeated_step_of_committed_txn_is_done_once() {
    let mut story = Story::new();
    let first = story.begin();
    let id = |coordinator: u64| TxnId { start: Timestamp::from_millis(3), coordinator, attempt: 0 };
    let commits = Role::Commits(first);
    let asked = story.prepare_as(id(9), (b"1", None), commits, None);
    story.together();
    let done = story.voted(asked).expect("nobody is in its way");
    let other = story.prepare(id(8), b"2", None);
    story.together();
    let locked = story.voted(other).expect("the key is free again");
    let again = story.prepare_as(id(9), (b"1", None), commits, None);
    story.together();
    assert_eq!(story.voted(again), Some(done));
    // What came since is not written over.
    let outcome = Outcome::Committed(locked);
    story.step(&Step::Resolve { id: id(8), outcome, keys: smallvec![KEY] });
    let read = story.ask();
    story.together();
    assert_eq!(story.answer(read), Some((b"2".to_vec(), locked)));
}
