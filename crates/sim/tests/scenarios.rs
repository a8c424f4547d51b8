//! Every scenario, in its short form; and that what judges them finds what is wrong.

use sim::cli::SimulatedRun as _;
use sim::cluster::Counts;
use sim::scenario::{Options, Scenario, run};

fn short(scenario: Scenario, seed: u64) -> Options {
    Options { scenario, seed, is_short: true, verbose: false }
}

/// Runs one, which must hold; what was seen in its last world.
fn plays(scenario: Scenario, seed: u64) -> Counts {
    let options = short(scenario, seed);
    let (counts, told) = run(&options);
    if let Err(violation) = told.verdict {
        panic!("{violation}\nreplay: {}", options.command());
    }
    counts
}

/// Runs seeds of a scenario, all of which must hold; replicas must have moved, and clients been
/// answered.
fn holds(scenario: Scenario, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let counts = plays(scenario, seed);
        assert!(counts.decisions > 5, "leaders ask the balancer: {counts:?}");
        assert!(counts.removals > 3, "and what it says is done: {counts:?}");
        assert!(counts.answered > 30, "clients are answered: {counts:?}");
    }
}

#[test]
fn many_nodes_join_at_once() {
    holds(Scenario::JoinsInto3, 0..3);
    holds(Scenario::JoinsInto100, 0..2);
}

#[test]
fn nine_of_twenty_leave_and_come_back() {
    holds(Scenario::NineOfTwenty, 0..4);
}

#[test]
fn all_lose_their_power() {
    holds(Scenario::AllOff, 0..8);
}

#[test]
fn links_break_around_a_leader() {
    holds(Scenario::IsolatedLeader, 0..8);
    holds(Scenario::OneWayLink, 0..8);
}

#[test]
fn a_domain_is_lost() {
    holds(Scenario::DomainLost, 0..6);
}

#[test]
fn replaced_node_returns() {
    holds(Scenario::RemovedReturns, 0..6);
}

#[test]
fn power_fails_at_every_point_of_a_membership_change() {
    // Even seeds exchange a follower, odd ones the leader.
    holds(Scenario::ReplicaChangeCrashes, 0..2);
}

#[test]
fn power_fails_at_every_point_of_a_split_and_of_a_merge() {
    for seed in 0..2 {
        assert!(plays(Scenario::SplitCrashes, seed).halves > 0);
        let merged = plays(Scenario::MergeCrashes, seed);
        assert!(merged.answered > 30 && merged.given_up > 0);
    }
}

#[test]
fn power_fails_at_every_point_of_a_table_resize() {
    let grown = plays(Scenario::GrowCrashes, 0);
    assert!(grown.buckets_split > 2 && grown.table_epochs == 6, "{grown:?}");
    let shrunk = plays(Scenario::ShrinkCrashes, 0);
    assert!(shrunk.given_up > 0 && shrunk.table_epochs == 6, "{shrunk:?}");
}

#[test]
fn shards_are_cut_and_merged_while_groups_are_parted() {
    for seed in 0..4 {
        assert!(plays(Scenario::SplitInPartition, seed).halves > 0);
        plays(Scenario::MergeInPartition, seed);
    }
}

#[test]
fn coordinators_die_at_every_step() {
    for seed in 0..2 {
        let last = plays(Scenario::CoordinatorCrashes, seed);
        assert!(last.wide_committed > 5, "others go on: {last:?}");
    }
}

#[test]
fn recovering_coordinator_crashes_at_every_step() {
    for seed in 0..2 {
        let last = plays(Scenario::RecoveryCrashes, seed);
        assert!(last.wide_finished > 0, "somebody finishes it: {last:?}");
    }
}

#[test]
fn nodes_join_and_leave_at_one_moment() {
    holds(Scenario::JoinAndLeave, 0..8);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for scenario in [Scenario::JoinAndLeave, Scenario::AllOff, Scenario::IsolatedLeader] {
        let quiet = short(scenario, 3);
        let verbose = Options { verbose: true, ..quiet.clone() };
        let (first, second) = (verbose.run(), verbose.run());
        assert_eq!(first.trace, second.trace, "{}", scenario.name());
        assert_eq!(first.trace_hash, second.trace_hash, "{}", scenario.name());
        assert_eq!(first.trace_hash, quiet.run().trace_hash, "with text or without");
        assert_ne!(first.trace_hash, short(scenario, 4).run().trace_hash);
    }
}

#[test]
fn scenario_names_are_distinct_and_plain() {
    let mut names = Scenario::ALL.map(Scenario::name).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Scenario::ALL.len());
    for scenario in Scenario::ALL {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(scenario.name().chars().all(is_plain) && !scenario.about().is_empty());
        let options = Options { is_short: false, ..short(scenario, 7) };
        let command = format!("carillon sim --scenario {} --seed 7", scenario.name());
        assert_eq!(options.command(), command);
    }
}
