//! A transaction fails its validation again and again, since others change its key: can it ever
//! win?
//!
//! ```text
//!   what has k? (a retry, which reserves it from all) ─► leader
//!     commands, and PREPAREs younger than the retry, wait   … for 100 ms at most
//!     an older PREPARE proceeds, and the retry learns the value that it writes
//!     then the retry's own PREPARE, by its name, goes before all that wait
//! ```

use keyspace::Timestamp;
use smallvec::smallvec;
use txn::locks::{Outcome, PrepareRefusal, Role, Step, TxnId};
use txn::wait_queue::ReserveFrom;

use crate::leader_script::{KEY, Story, YOUNG_NANOS};

/// After so long a command has waited long enough.
const FAIR_NANOS: u64 = 50_000_000;
/// How long a key stays reserved.
const KEPT_NANOS: u64 = 100_000_000;

fn id(millis: u64) -> TxnId {
    TxnId { start: Timestamp::from_millis(millis), coordinator: 9, attempt: 0 }
}

fn name(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn resolve(story: &mut Story, id: TxnId, at: Timestamp) {
    let outcome = Outcome::Committed(at);
    story.step(&Step::Resolve { id, outcome, keys: smallvec![KEY] });
}

#[test]
fn reservation_holder_writes_before_later_commands() {
    let mut story = Story::new();
    let first = story.begin();
    let asked = story.contend_by(name(10), ReserveFrom::Everyone);
    story.together();
    assert_eq!(story.answer(asked), Some((b"0".to_vec(), first)));

    let (command, younger) = (story.set(b"c"), story.prepare(id(20), b"y", None));
    story.alone(YOUNG_NANOS - 1);
    story.together();
    assert!(!story.is_done(command));
    assert_eq!((story.voted(younger), story.refused(younger)), (None, None));
    // Who may have locked something elsewhere gives that up, lest he waits for it.
    story.alone(1);
    assert_eq!(story.refused(younger), Some(PrepareRefusal::Locked(KEY.into())));
    // One that commits here waits as well, and so does who has another name.
    let commits = Role::Commits(Timestamp::ZERO);
    let last = story.prepare_as(id(21), (b"last", None), commits, None);
    let other = story.prepare_as(id(22), (b"other", None), Role::Votes, Some(name(11)));
    let own = story.prepare_as(id(30), (b"own", Some(first)), Role::Votes, Some(name(10)));
    story.together();
    assert!(!story.is_done(command));
    assert_eq!((story.voted(last), story.voted(other)), (None, None));
    let locked = story.voted(own).expect("nothing has changed since he was told");
    resolve(&mut story, id(30), locked);
    story.together();
    // Nothing is kept any more, and they go.
    assert!(story.is_done(command));
    story.together();
    assert!(story.voted(last) > Some(locked) && story.voted(other) > Some(locked));
}

#[test]
fn retry_waits_for_older_and_in_flight_writes() {
    let mut story = Story::new();
    let first = story.begin();
    // A command is on its way through the log, and a PREPARE comes that began before he did.
    let command = story.set(b"c");
    story.five.settle(&[1], |_, _| false);
    let asked = story.contend_by(name(10), ReserveFrom::Everyone);
    let older = story.prepare(id(5), b"older", None);
    story.alone(1_000_000);
    assert_eq!(story.answer(asked), None, "it is about to change");
    story.together();
    assert!(story.is_done(command));
    let locked = story.voted(older).expect("the transaction is older");
    assert_eq!(story.answer(asked), None);
    resolve(&mut story, id(5), locked);
    story.together();
    assert_eq!(story.answer(asked), Some((b"older".to_vec(), locked)));
    assert!(locked > first);

    // Of two who want it kept the older one has it, and the younger is told when he is through.
    let (younger, again) = (
        story.contend_by(name(12), ReserveFrom::Everyone),
        story.contend_by(name(10), ReserveFrom::Everyone),
    );
    story.alone(1_000_000);
    story.together();
    assert_eq!(story.answer(again), Some((b"older".to_vec(), locked)));
    assert_eq!(story.answer(younger), None);
    let own = story.prepare_as(id(30), (b"own", Some(locked)), Role::Votes, Some(name(10)));
    story.together();
    let own = story.voted(own).expect("nothing has changed since he was told");
    resolve(&mut story, id(30), own);
    story.together();
    assert_eq!(story.answer(younger), Some((b"own".to_vec(), own)));
}

/// One who has a key kept, and has come for it; and an older one, who wants it kept just then: they
/// do not wait for each other.
#[test]
fn reservation_holder_does_not_wait_for_its_waiters() {
    let mut story = Story::new();
    let first = story.begin();
    let younger = story.contend_by(name(12), ReserveFrom::Everyone);
    story.together();
    assert!(story.answer(younger).is_some());
    let older = story.contend_by(name(10), ReserveFrom::Everyone);
    let waits = story.prepare_as(id(30), (b"younger", Some(first)), Role::Votes, Some(name(12)));
    story.alone(1_000_000);
    story.together();
    assert_eq!(story.answer(older), Some((b"0".to_vec(), first)));
    assert_eq!(story.voted(waits), None);
}

/// A command waits, and many follow each other who want its key kept.
#[test]
fn commands_run_between_reservations_of_a_key() {
    let mut story = Story::new();
    story.begin();
    story.contend_by(name(10), ReserveFrom::Everyone);
    story.together();
    let command = story.set(b"c");
    for n in 0..10 {
        story.alone(FAIR_NANOS / 10);
        story.contend_by(name(11 + n), ReserveFrom::Everyone);
        story.contend_by(name(10), ReserveFrom::Everyone);
        story.together();
    }
    assert!(!story.is_done(command));
    // Nothing more is kept, and what is ends as it would have.
    for n in 0..20 {
        story.alone(FAIR_NANOS / 10);
        story.contend_by(name(21 + n), ReserveFrom::Everyone);
        story.contend_by(name(10), ReserveFrom::Everyone);
        story.together();
    }
    story.alone(1);
    story.together();
    assert!(story.is_done(command));
}

/// He was told, and does not come.
#[test]
fn reservation_expires_after_100_ms() {
    let mut story = Story::new();
    story.begin();
    story.contend_by(name(10), ReserveFrom::Everyone);
    story.together();
    let command = story.set(b"c");
    story.alone(KEPT_NANOS - 1);
    story.together();
    assert!(!story.is_done(command));
    story.alone(1);
    story.alone(1);
    story.together();
    assert!(story.is_done(command));
    // It passes nobody for that: it is another's by then.
    let own = story.prepare_as(id(30), (b"own", None), Role::Votes, Some(name(10)));
    story.together();
    assert!(story.voted(own).is_some());
}
