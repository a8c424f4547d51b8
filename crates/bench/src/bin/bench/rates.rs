//! Rates, latencies and processor time per request, in alternating runs.

use serde::Serialize;

use crate::load::{self, Run};
use crate::server::{Kind, Mode, Server};
use crate::{Options, Outcome, machine};

/// Requests of one run, by mode and pipeline: long enough for a second or so, at 100 percent.
fn requests(mode: Mode, test: &str, pipeline: usize, percent: usize) -> usize {
    let whole = match (mode, test, pipeline) {
        (Mode::Sync, "set", 1) => 60_000,
        (_, _, 1) => 200_000,
        (Mode::Sync, "set", 2..=32) => 600_000,
        (_, _, 2..=32) => 1_000_000,
        _ => 2_000_000,
    };
    (whole * percent / 100).max(load::CONNECTIONS * pipeline)
}

/// All runs of one mode.
#[derive(Debug, Serialize)]
pub struct ModeRates {
    /// Which mode.
    pub mode: Mode,
    /// Syncs per second that the disk gave before the runs.
    pub fsyncs_per_second: f64,
    /// One entry per command and pipeline.
    pub pairs: Vec<Pair>,
}

/// Runs of one command at one pipeline depth on both servers.
#[derive(Debug, Serialize)]
pub struct Pair {
    /// set or get.
    pub test: &'static str,
    /// Commands per request.
    pub pipeline: usize,
    /// Redis, one per round.
    pub redis: Vec<Run>,
    /// Carillon, one per round.
    pub carillon: Vec<Run>,
}

impl Pair {
    /// Median rate of Carillon over median rate of Redis.
    pub fn ratio(&self) -> f64 {
        median(&self.carillon, |run| run.rate) / median(&self.redis, |run| run.rate)
    }

    /// Median processor time per request of Redis over Carillon's, so that more is better here
    /// too. None if Carillon's runs were too short for the clock.
    pub fn cpu_ratio(&self) -> Option<f64> {
        let carillon = median(&self.carillon, |run| run.cpu_us);
        (carillon > 0.0).then(|| median(&self.redis, |run| run.cpu_us) / carillon)
    }
}

/// Starts both servers in a mode, fills them, and measures round by round.
pub fn measure(subject: &Kind, mode: Mode, options: &Options) -> Outcome<ModeRates> {
    let servers = [Server::start(&Kind::Redis, mode)?, Server::start(subject, mode)?];
    for server in &servers {
        server.connect()?.fill(load::KEYS, load::VALUE_BYTES)?;
    }
    let fsyncs_per_second = machine::fsyncs_per_second(&servers[0].data_dir())?;
    println!("\n== {}: {fsyncs_per_second:.0} fsyncs/s", mode.durability());
    let mut pairs = Vec::new();
    for &pipeline in &options.pipelines {
        for test in ["set", "get"] {
            pairs.push(Pair { test, pipeline, redis: Vec::new(), carillon: Vec::new() });
        }
    }
    for round in 0..options.rounds {
        for pair in &mut pairs {
            let count = requests(mode, pair.test, pair.pipeline, options.percent);
            // Who goes first changes with the round.
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let (server, threads) = (&servers[which], options.client_threads);
                let run = load::run(server, pair.test, pair.pipeline, count, threads)?;
                [&mut pair.redis, &mut pair.carillon][which].push(run);
            }
            let last = |runs: &[Run]| {
                let (rate, cpu_us) = runs.last().map_or((0.0, 0.0), |run| (run.rate, run.cpu_us));
                format!("{:>7.0} k/s {cpu_us:>6.2} µs", rate / 1000.0)
            };
            println!(
                "round {} {} pipeline {:>2}: redis {}, {} {}",
                round + 1,
                pair.test,
                pair.pipeline,
                last(&pair.redis),
                servers[1].name(),
                last(&pair.carillon),
            );
        }
    }
    Ok(ModeRates { mode, fsyncs_per_second, pairs })
}

/// The median of one figure of some runs; 0 without runs.
pub fn median<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One run per rate; its processor time per request in µs is a thousandth of that number.
    fn runs(rates: &[f64]) -> Vec<Run> {
        let run = |&rate| Run { rate, p50_ms: 0.0, p99_ms: 0.0, cpu_us: rate / 1000.0 };
        rates.iter().map(run).collect()
    }

    #[test]
    fn medians() {
        assert_eq!(median(&runs(&[3.0, 1.0, 2.0]), |run| run.rate), 2.0);
        assert_eq!(median(&runs(&[4.0, 1.0, 2.0, 3.0]), |run| run.rate), 2.5);
        assert_eq!(median(&[], |run: &Run| run.rate), 0.0);
    }

    #[test]
    fn ratios_are_of_medians_and_processor_time_the_other_way_round() {
        let mut pair = Pair {
            test: "get",
            pipeline: 1,
            redis: runs(&[3000.0, 2000.0, 9000.0]),
            carillon: runs(&[6000.0, 1000.0, 7000.0]),
        };
        assert_eq!(pair.ratio(), 2.0);
        assert_eq!(pair.cpu_ratio(), Some(0.5));
        pair.carillon.iter_mut().for_each(|run| run.cpu_us = 0.0);
        assert_eq!(pair.cpu_ratio(), None);
    }
}
