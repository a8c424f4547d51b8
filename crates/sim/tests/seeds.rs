//! Do all rules hold for many seeds, is each planted bug found, is a run the same twice?

use sim::shrink::shrink;
use sim::world::Counts;
use sim::{Bug, Options, Report, run};

fn hold(seeds: std::ops::Range<u64>) -> Counts {
    let mut sum = Counts::default();
    for seed in seeds {
        let report = run(&Options::new(seed));
        if let Err(violation) = &report.verdict {
            panic!("{violation}\nreplay: {}", report.options.command());
        }
        let Counts { answered, unknown, refused, snapshots, .. } = report.counts;
        sum.answered += answered;
        sum.unknown += unknown;
        sum.refused += refused;
        sum.snapshots += snapshots;
        sum.below_safe_point += report.counts.below_safe_point;
        sum.kills += report.counts.kills;
        sum.power_cuts += report.counts.power_cuts;
        sum.checkpoints += report.counts.checkpoints;
        sum.histories += report.counts.histories;
        sum.joint_histories += report.counts.joint_histories;
        sum.joint_writes += report.counts.joint_writes;
        sum.out_of_memory += report.counts.out_of_memory;
    }
    sum
}

#[test]
fn all_rules_hold() {
    let sum = hold(0..300);
    // A simulator in which nothing happens finds nothing.
    assert!(sum.answered > 50_000, "{sum:?}");
    assert!(sum.unknown > 3_000 && sum.refused > 1_000, "{sum:?}");
    assert!(sum.snapshots > 2_000 && sum.below_safe_point > 300, "{sum:?}");
    assert!(sum.kills > 500 && sum.power_cuts > 1_000, "{sum:?}");
    assert!(sum.checkpoints > 500 && sum.histories > 5_000, "{sum:?}");
    assert!(sum.joint_histories > 1_000 && sum.joint_writes > 1_000, "{sum:?}");
    assert!(sum.out_of_memory > 500, "{sum:?}");
}

/// The first of `seeds` runs that breaks a rule with this bug planted.
fn found(bug: Bug, seeds: u64) -> Report {
    let options = |seed| Options { bug: Some(bug), ..Options::new(seed) };
    let mut reports = (0..seeds).map(|seed| run(&options(seed)));
    let report = reports.find(|report| report.verdict.is_err());
    report.unwrap_or_else(|| panic!("{} is not found in {seeds} seeds", bug.name()))
}

#[test]
fn replies_before_the_log_decides_are_found() {
    let report = found(Bug::EvaluateBeforeLog, 20);
    assert_eq!(report.verdict.unwrap_err().rule, "linearizable per key");
}

#[test]
fn answers_before_the_sync_are_found() {
    let report = found(Bug::UnsyncedAck, 40);
    assert_eq!(report.verdict.unwrap_err().rule, "linearizable per key");
}

#[test]
fn reads_below_the_safe_point_are_found() {
    let report = found(Bug::CollectedRead, 40);
    assert_eq!(report.verdict.unwrap_err().rule, "R9 collection is never seen");
}

#[test]
fn expiry_beyond_the_horizon_is_found() {
    let rule = found(Bug::NoHorizon, 300).verdict.unwrap_err().rule;
    assert!(["linearizable per key", "G13 what has expired stays so"].contains(&rule), "{rule}");
}

#[test]
fn checkpoints_that_end_early_are_found() {
    let report = found(Bug::ShortCheckpoint, 20);
    assert_eq!(report.verdict.unwrap_err().rule, "reads see what the log says");
}

#[test]
fn rounds_of_checkpoints_that_forget_a_shard_are_found() {
    let report = found(Bug::ForgottenShard, 20);
    println!("{}", report.options.command());
    assert_eq!(report.verdict.unwrap_err().rule, "R6 nothing is lost, invented or reordered");
}

#[test]
fn a_failing_run_is_made_smaller_and_fails_again() {
    let report = found(Bug::UnsyncedAck, 40);
    let shrunk = shrink(report.clone());
    let (before, after) = (&report.options, &shrunk.options);
    let size = |options: &Options| (options.clients, options.steps);
    assert!(after.steps <= before.steps && size(after) < size(before), "{}", after.command());
    assert_eq!((after.seed, after.bug), (before.seed, before.bug));
    let again = run(after);
    assert_eq!(again.verdict, shrunk.verdict);
    assert_eq!(again.verdict.unwrap_err().rule, report.verdict.unwrap_err().rule);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..20 {
        let options = Options { verbose: true, ..Options::new(seed) };
        let (first, second) = (run(&options), run(&options));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.trace_hash, run(&Options::new(seed)).trace_hash, "with text or without");
    }
    assert_ne!(run(&Options::new(1)).trace_hash, run(&Options::new(2)).trace_hash);
}

/// Set for the process that the next test starts, which plays a seed, too, and prints its trace.
const IS_CHILD: &str = "CARILLON_SIM_TEST_IS_CHILD";

#[test]
fn another_process_gives_the_same_bytes() {
    let trace = format!("trace {:016x}", run(&Options::new(7)).trace_hash);
    if std::env::var_os(IS_CHILD).is_some() {
        return println!("{trace}");
    }
    let program = std::env::current_exe().expect("a test is a program");
    let child = std::process::Command::new(program)
        .args(["--exact", "another_process_gives_the_same_bytes", "--nocapture"])
        .env(IS_CHILD, "1")
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(text.contains(&trace), "{trace} is not in {text}");
}
