//! A transaction wants several keys, and one of them is locked: which others may take the rest?
//!
//! ```text
//!   Y has locked a   X, older, wants a and b: waits ─(20 ms)─► the guard reserves b for X
//!     Z wants b: refused after 10 ms; one that commits here is not stopped
//!     W wants b and c: waits for X, and reserves nothing
//!     X is aborted in its record: refused at once, and nothing stays reserved
//! ```

use keyspace::Timestamp;
use txn::locks::{Outcome, PrepareRefusal, Role, Step, TxnId};

use crate::leader_script::{Story, YOUNG_NANOS};

const A: &[u8] = b"a";
const B: &[u8] = b"b";
const C: &[u8] = b"c";
/// The guard reserves several keys for a transaction that has waited so long.
const AFTER_NANOS: u64 = 20_000_000;

fn id(millis: u64) -> TxnId {
    TxnId { start: Timestamp::from_millis(millis), coordinator: 9, attempt: 0 }
}

/// Y has locked a key, and X waits for it; and what X has asked.
fn x_waits_for_y() -> (Story, u64) {
    let mut story = Story::new();
    let y = story.prepare_all(id(5), &[A], Role::Votes, false);
    story.together();
    assert!(story.voted(y).is_some());
    let x = story.prepare_all(id(4), &[A, B], Role::Votes, false);
    story.alone(AFTER_NANOS);
    story.together();
    assert_eq!((story.voted(x), story.refused(x)), (None, None));
    (story, x)
}

fn wait(story: &mut Story, nanos: u64) {
    story.alone(nanos);
    story.together();
}

#[test]
fn guarded_keys_refuse_younger_transactions_unless_they_commit_here() {
    let (mut story, x) = x_waits_for_y();
    let z = story.prepare_all(id(6), &[B], Role::Votes, false);
    wait(&mut story, YOUNG_NANOS - 1);
    assert_eq!((story.voted(z), story.refused(z)), (None, None));
    wait(&mut story, 1);
    assert_eq!(story.refused(z), Some(PrepareRefusal::Locked(B.into())));
    let commits = story.prepare_all(id(7), &[B], Role::Commits(Timestamp::ZERO), false);
    story.together();
    assert!(story.voted(commits).is_some(), "it locks nothing here");
    assert_eq!((story.voted(x), story.refused(x)), (None, None));
}

#[test]
fn prepare_blocked_by_guard_guards_nothing() {
    let (mut story, _) = x_waits_for_y();
    let w = story.prepare_all(id(6), &[B, C], Role::Votes, true);
    wait(&mut story, 2 * AFTER_NANOS);
    assert_eq!((story.voted(w), story.refused(w)), (None, None));
    let v = story.prepare_all(id(7), &[C], Role::Votes, false);
    story.together();
    assert!(story.voted(v).is_some());
}

/// Another shard has refused it: its coordinator has ended it in its record, which is here, and may
/// not try again. Nothing else here says so.
#[test]
fn guard_ends_when_transaction_aborts() {
    let (mut story, x) = x_waits_for_y();
    let outcome = Outcome::Aborted;
    story.step(&Step::Decide { id: id(4), record: A, outcome, is_sure: false });
    story.together();
    wait(&mut story, 1_000_000);
    assert_eq!(story.refused(x), Some(PrepareRefusal::Aborted));
    let z = story.prepare_all(id(6), &[B], Role::Votes, false);
    story.together();
    assert!(story.voted(z).is_some(), "nobody alive wants it");
}
