//! Batches of scripts that are names: what each does stands in the name.

use command::{Expiry, Read, SetIf, SetReply, Step, Write};
use keyspace::Timestamp;

use super::*;

/// A script's letter says what it does to the key of that letter: `+` writes and ends, `-` writes
/// and leaves, `<` leaves, `!` is void, `?` reads, `#` writes and finds no room.
type Script = &'static str;

/// What has run, in order; the batch is long once so many have.
struct Names {
    runs: Vec<Script>,
    long_after: usize,
}

impl QueueDriver<Script, String> for Names {
    fn begin(&mut self) -> InteractiveTxn {
        self.runs.push("begin");
        InteractiveTxn::new(Timestamp(1 << 20), 1 << 20)
    }

    fn run(&mut self, script: &Script, copy: &mut InteractiveTxn) -> (Ran<String>, bool) {
        self.runs.push(script);
        let (key, what) = script.split_at(1);
        let (key, writes) = (key.as_bytes(), matches!(what, "+" | "-" | "#"));
        let seen = ObservedVersion::Absent(Timestamp(7));
        let step = match writes {
            true => {
                let (when, reply) = (SetIf::Always, SetReply::Ok);
                Step::Write(Write::Set { key, value: b"x", when, expiry: Expiry::Never, reply })
            }
            false => Step::Read(Read::Get(key)),
        };
        if matches!(what, "+" | "-" | "?" | "#") {
            copy.record_read(key, None, seen).expect("it is small");
            copy.run(&step).expect("it is small");
        }
        let ran = match what {
            "+" | "?" => Ran::Ended(script.to_string()),
            "!" => Ran::Void(script.to_string()),
            "#" => Ran::Full,
            "%" => Ran::Blocked,
            _ => Ran::Leaves,
        };
        (ran, writes)
    }

    fn is_long(&mut self) -> bool {
        self.runs.iter().filter(|run| **run != "begin").count() >= self.long_after
    }
}

type Batch = ScriptBatch<Script, String>;

fn run_on(scripts: &[(u64, Script)], long_after: usize) -> (RanBatch<Script, String>, String) {
    let mut names = Names { runs: Vec::new(), long_after };
    let ran = ScriptBatch::run(scripts.to_vec(), &mut names);
    (ran, names.runs.join(" "))
}

fn run(scripts: &[(u64, Script)], long_after: usize) -> (Batch, Vec<(u64, Script)>, String) {
    let (RanBatch { batch, unrun, .. }, runs) = run_on(scripts, long_after);
    (batch, unrun, runs)
}

fn settle(batch: Batch, outcome: BatchOutcome) -> SettledBatch<Script, String> {
    batch.settle(&outcome, |_| 1)
}

fn names(answered: &[(Script, String)]) -> Vec<Script> {
    answered.iter().map(|(script, _)| *script).collect()
}

#[test]
fn a_script_that_leaves_after_it_wrote_leaves_nothing_in_the_copy() {
    let (RanBatch { copy, batch, unrun }, runs) = run_on(&[(1, "a+"), (2, "b-"), (3, "c+")], 9);
    assert_eq!(runs, "begin a+ b- begin a+ c+");
    assert!(unrun.is_empty());
    let BatchCommit::Propose(transaction) = BatchCommit::of(&copy) else {
        panic!("two have written")
    };
    let mut keys = Vec::new();
    transaction.each_named(&mut |key| keys.push(key));
    assert_eq!((keys, transaction.watched.len()), (vec![&b"a"[..], b"c"], 2));
    let settled = settle(batch, BatchOutcome::Done);
    assert_eq!(names(&settled.answered), ["a+", "c+"]);
    assert_eq!(settled.leaving, [(2, "b-")]);
}

/// What its client sent behind it must not overtake it.
#[test]
fn later_scripts_of_a_client_do_not_run_with_a_script_that_leaves() {
    let (batch, unrun, runs) = run(&[(1, "a<"), (1, "b+"), (2, "c+"), (1, "d+")], 9);
    assert_eq!(runs, "begin a< c+");
    assert_eq!(unrun, [(1, "b+"), (1, "d+")]);
    let settled = settle(batch, BatchOutcome::Done);
    assert_eq!((names(&settled.answered), settled.leaving), (vec!["c+"], vec![(1, "a<")]));
}

#[test]
fn script_leaves_only_behind_earlier_ones_of_its_client() {
    let (batch, ..) = run(&[(1, "a+"), (1, "b<"), (2, "c<")], 9);
    let settled = settle(batch, BatchOutcome::Changed);
    assert_eq!(settled.again, [(1, "a+"), (1, "b<")]);
    assert_eq!(settled.leaving, [(2, "c<")]);
    // One that was to leave, when those before it run again and take too long.
    let (batch, unrun, runs) = run(&[(2, "a+"), (1, "b+"), (1, "c-")], 4);
    assert_eq!(runs, "begin a+ b+ c- begin a+");
    assert_eq!(unrun, [(1, "b+"), (1, "c-")]);
    assert_eq!(names(&settle(batch, BatchOutcome::Done).answered), ["a+"]);
}

#[test]
fn scripts_of_one_client_leave_one_by_one() {
    let scripts = [(1, "a+"), (1, "b+"), (2, "c+"), (3, "d!")];
    let settled_by = |outcome| run(&scripts, 9).0.settle(&outcome, |_| CONFLICTS_MAX + 1);
    // They find the leader's queue, where they do not conflict.
    let settled = settled_by(BatchOutcome::NotDone(NotDone::NotLeader));
    assert_eq!((settled.moved, settled.leaving), (vec![(1, "a+"), (2, "c+")], vec![]));
    assert_eq!(settled.again, [(1, "b+")]);
    assert_eq!(names(&settled.answered), ["d!"], "it does nothing anyway");
    // Over shards they would conflict with each other.
    let settled = settled_by(BatchOutcome::Changed);
    assert_eq!((settled.moved, settled.leaving), (vec![], vec![(1, "a+")]));
    assert_eq!(settled.again, [(1, "b+"), (2, "c+")]);
    let (batch, ..) = run(&[(1, "a+"), (1, "b+")], 9);
    let why = NotDone::OutcomeUnknown;
    let settled = settle(batch, BatchOutcome::NotDone(why));
    assert_eq!(settled.refused, [("a+", why), ("b+", why)], "it may be done, so not again");
}

#[test]
fn batch_that_writes_nothing_proposes_nothing() {
    let commit = |scripts: &[(u64, Script)]| match BatchCommit::of(&run_on(scripts, 9).0.copy) {
        BatchCommit::Nothing => 0,
        BatchCommit::LookAgain(watched) => watched.len(),
        BatchCommit::Propose(_) => 99,
    };
    assert_eq!((commit(&[(1, "a?")]), commit(&[(1, "a?"), (2, "b?")])), (0, 2));
    assert_eq!(commit(&[(1, "a<")]), 0);
    assert_eq!(commit(&[(1, "a?"), (1, "b+")]), 99);
}

/// It had no room beside others: that says nothing of the script alone.
#[test]
fn script_that_finds_the_batch_full_begins_the_next_one() {
    let scripts = [(1, "a+"), (2, "b#"), (1, "c+"), (3, "d+")];
    let (RanBatch { copy, batch, unrun }, runs) = run_on(&scripts, 9);
    assert_eq!(runs, "begin a+ b# begin a+");
    assert_eq!(unrun, scripts[1..], "in their order");
    assert_eq!(copy.transaction().commands.len(), 1);
    let settled = settle(batch, BatchOutcome::Done);
    assert_eq!((names(&settled.answered), settled.leaving), (vec!["a+"], vec![]));
}

#[test]
fn script_that_is_too_large_alone_leaves() {
    let (batch, unrun, runs) = run(&[(1, "x!"), (1, "b#"), (1, "c+"), (3, "d+")], 9);
    assert_eq!(runs, "begin x! b# begin d+");
    assert_eq!(unrun, [(1, "c+")]);
    let settled = settle(batch, BatchOutcome::Done);
    assert_eq!((names(&settled.answered), settled.leaving), (vec!["x!", "d+"], vec![(1, "b#")]));
}

/// Each takes as long as a batch may: one batch must not run them all, one after the other.
#[test]
fn scripts_that_write_and_take_long_do_not_share_a_batch() {
    let scripts = [(1, "a-"), (2, "b-"), (3, "c-"), (4, "d+")];
    for (long_after, expected) in [(1, "begin a- begin"), (2, "begin a- begin b- begin")] {
        let (RanBatch { copy, batch, unrun }, runs) = run_on(&scripts, long_after);
        assert_eq!(runs, expected);
        assert_eq!(unrun, scripts[long_after..], "in their order");
        assert!(copy.transaction().commands.is_empty());
        assert_eq!(settle(batch, BatchOutcome::Done).leaving, scripts[..long_after]);
    }
}

/// A lock is mostly gone soon, and over shards they would all conflict with each other.
#[test]
fn scripts_with_locked_keys_look_for_their_queue_again_and_one_leaves_at_last() {
    let scripts = [(1, "a%"), (1, "b+"), (2, "c%"), (3, "d+")];
    for (conflicts, leaving, moved) in
        [(1, vec![], vec![(1, "a%"), (2, "c%")]), (9, vec![(1, "a%")], vec![(2, "c%")])]
    {
        let (batch, unrun, _) = run(&scripts, 9);
        assert_eq!(unrun, [(1, "b+")]);
        let settled = batch.settle(&BatchOutcome::Done, |_| conflicts);
        assert_eq!((names(&settled.answered), settled.again), (vec!["d+"], vec![]));
        assert_eq!((settled.leaving, settled.moved), (leaving, moved));
    }
}
