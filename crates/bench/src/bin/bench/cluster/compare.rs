//! Rates of a cluster beside etcd and Redis, in alternating rounds.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::competitor::{CLIENTS, Competitor, Load, Stores};
use crate::load::{Run, VALUE_BYTES};
use crate::rates::median;
use crate::{Outcome, machine};
use harness::process::Directory;

/// `bench cluster`
#[derive(Args, Debug)]
pub struct Options {
    /// Rounds of each measurement; the result is the median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of keys from which random ones are drawn.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// Connections over which the 64 clients of etcd are spread.
    #[arg(long, default_value_t = 6)]
    etcd_connections: usize,
    /// Scale of request counts, in percent.
    #[arg(long, default_value_t = 100)]
    percent: usize,
    /// A short run: 1 round, a quarter of the requests, 20 000 keys.
    #[arg(long)]
    pub quick: bool,
}

/// What is measured, and with how many requests: a few seconds each on two cores.
const LOADS: &[(&str, usize, Competitor, usize)] = &[
    ("get", 1, Competitor::Etcd, 15_000),
    ("get", 1, Competitor::CarillonOne, 80_000),
    ("get", 1, Competitor::RedisMemory, 80_000),
    ("get", 1, Competitor::CarillonAll, 80_000),
    ("set", 1, Competitor::Etcd, 12_000),
    ("set", 1, Competitor::CarillonOne, 40_000),
    ("set", 1, Competitor::RedisAlways, 40_000),
    ("set", 1, Competitor::CarillonAll, 40_000),
    ("get", 16, Competitor::CarillonOne, 800_000),
    ("get", 16, Competitor::CarillonAll, 800_000),
    ("set", 16, Competitor::CarillonOne, 300_000),
    ("set", 16, Competitor::CarillonAll, 300_000),
    ("set", 16, Competitor::RedisWait, 200_000),
    ("set", 16, Competitor::CarillonPipes, 300_000),
];

/// A target ratio: of Carillon at this load to another store, at its pipeline.
struct TargetRatio {
    test: &'static str,
    pipeline: usize,
    to: Competitor,
    to_pipeline: usize,
    least: f64,
}

const AIMS: &[TargetRatio] = &[
    TargetRatio { test: "get", pipeline: 1, to: Competitor::Etcd, to_pipeline: 1, least: 5.0 },
    TargetRatio { test: "set", pipeline: 1, to: Competitor::Etcd, to_pipeline: 1, least: 4.0 },
    TargetRatio {
        test: "get",
        pipeline: 1,
        to: Competitor::RedisMemory,
        to_pipeline: 1,
        least: 0.4,
    },
    TargetRatio {
        test: "set",
        pipeline: 1,
        to: Competitor::RedisAlways,
        to_pipeline: 1,
        least: 0.4,
    },
    TargetRatio { test: "get", pipeline: 16, to: Competitor::Etcd, to_pipeline: 1, least: 20.0 },
    TargetRatio { test: "set", pipeline: 16, to: Competitor::Etcd, to_pipeline: 1, least: 12.0 },
    TargetRatio {
        test: "set",
        pipeline: 16,
        to: Competitor::RedisWait,
        to_pipeline: 16,
        least: 1.5,
    },
];

/// All runs of one measurement.
#[derive(Debug, Serialize)]
pub struct Runs {
    load: Load,
    runs: Vec<Run>,
}

/// Measures everything; returns what is to be printed and every run.
pub fn measure(binary: &str, options: &Options) -> Outcome<(String, Vec<Runs>)> {
    let (rounds, keys, percent) = match options.quick {
        true => (1, options.keys.min(20_000), options.percent.min(25)),
        false => (options.rounds, options.keys, options.percent),
    };
    let fsyncs_per_second = machine::fsyncs_per_second(Directory::new("fsyncs")?.path())?;
    println!("{fsyncs_per_second:.0} fsyncs/s; filling {keys} keys everywhere");
    let stores = Stores::start(binary, keys, options.etcd_connections)?;
    let mut all: BTreeMap<Load, Vec<Run>> = BTreeMap::new();
    if !stores.has_etcd() {
        println!("etcd is not installed (scripts/setup.sh bench): left out");
    }
    for round in 0..rounds {
        for turn in 0..LOADS.len() {
            // Who goes first changes with the round; neighbours stay neighbours.
            let (test, pipeline, who, requests) = LOADS[(turn + 5 * round) % LOADS.len()];
            if who == Competitor::Etcd && !stores.has_etcd() {
                continue;
            }
            let load = Load { test, pipeline, who };
            let run = stores.run(&load, (requests * percent / 100).max(CLIENTS * 16), round)?;
            println!(
                "round {} {test} pipeline {pipeline:>2}: {:>8.1} k/s, {:>5.2} / {:>5.2} ms, {}",
                round + 1,
                run.rate / 1e3,
                run.p50_ms,
                run.p99_ms,
                who.title(),
            );
            all.entry(load).or_default().push(run);
        }
    }
    let mut out = format!(
        "{CLIENTS} clients, {VALUE_BYTES}-byte values, {keys} random keys, medians of {rounds} \
         rounds; {fsyncs_per_second:.0} fsyncs/s of the disk before. µs: processor time of all \
         processes of the store per request.\n\n"
    );
    render(&mut out, &all);
    Ok((out, all.into_iter().map(|(load, runs)| Runs { load, runs }).collect()))
}

fn rate(
    all: &BTreeMap<Load, Vec<Run>>,
    test: &'static str,
    pipeline: usize,
    who: Competitor,
) -> f64 {
    let runs = all.get(&Load { test, pipeline, who });
    runs.map_or(0.0, |runs| median(runs, |run| run.rate))
}

fn render(out: &mut String, all: &BTreeMap<Load, Vec<Run>>) {
    *out += "| command | pipeline | | k/s | µs | p50 / p99 ms |\n|---|---|---|---|---|---|\n";
    for (Load { test, pipeline, who }, runs) in all {
        let _infallible = writeln!(
            out,
            "| {} | {pipeline} | {} | {:.1} | {:.1} | {:.2} / {:.2} |",
            test.to_uppercase(),
            who.title(),
            median(runs, |run| run.rate) / 1e3,
            median(runs, |run| run.cpu_us),
            median(runs, |run| run.p50_ms),
            median(runs, |run| run.p99_ms),
        );
    }
    *out += "\n| Carillon ÷ | command | pipeline | through one node | through all | aim |\n\
             |---|---|---|---|---|---|\n";
    for TargetRatio { test, pipeline, to, to_pipeline, least } in AIMS {
        let other = rate(all, test, *to_pipeline, *to);
        if other == 0.0 {
            continue;
        }
        // The same generator for both, where redis-benchmark cannot be theirs.
        let (one, through_all) = match to {
            Competitor::RedisWait => (rate(all, test, *pipeline, Competitor::CarillonPipes), None),
            _ => (
                rate(all, test, *pipeline, Competitor::CarillonOne),
                Some(rate(all, test, *pipeline, Competitor::CarillonAll)),
            ),
        };
        let through_all = through_all.map_or("–".into(), |rate| format!("{:.2}", rate / other));
        let _infallible = writeln!(
            out,
            "| {} | {} | {pipeline} | **{:.2}** | {through_all} | {least} |",
            to.title(),
            test.to_uppercase(),
            one / other,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aim_is_measured_on_both_sides() {
        let is_measured = |test, pipeline, who| {
            LOADS.iter().any(|load| (load.0, load.1, load.2) == (test, pipeline, who))
        };
        for aim in AIMS {
            let own = if aim.to == Competitor::RedisWait {
                Competitor::CarillonPipes
            } else {
                Competitor::CarillonOne
            };
            assert!(is_measured(aim.test, aim.pipeline, own));
            assert!(is_measured(aim.test, aim.to_pipeline, aim.to));
        }
    }

    #[test]
    fn ratios_are_of_medians() {
        let run = |rate| Run { rate, p50_ms: 1.0, p99_ms: 2.0, cpu_us: 3.0 };
        let load = |who| Load { test: "set", pipeline: 1, who };
        let all = BTreeMap::from([
            (load(Competitor::Etcd), vec![run(1e3), run(4e3), run(2e3)]),
            (load(Competitor::CarillonOne), vec![run(9e3)]),
            (load(Competitor::CarillonAll), vec![run(1e4)]),
        ]);
        let mut out = String::new();
        render(&mut out, &all);
        assert!(out.contains("| etcd, three members | SET | 1 | **4.50** | 5.00 | 4 |"), "{out}");
        assert!(!out.contains("WAIT"), "{out}");
    }
}
