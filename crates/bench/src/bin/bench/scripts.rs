//! Scripts beside redis-server: `EVALSHA` of three commands, on one key and on random keys.
//!
//! The script is what rate limiters run: it counts, looks how long the count lives, and sets that
//! when it is new. Both servers run at once and are driven alternately, as in [`crate::rates`].

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use crate::load::{self, Run};
use crate::rates::median;
use crate::server::{Kind, Mode, Server};
use crate::{Outcome, machine};

/// INCRBY, PTTL and, of a new key, PEXPIRE or else GET.
const SCRIPT: &str = "local n = redis.call('INCRBY', KEYS[1], ARGV[1]) \
                      if redis.call('PTTL', KEYS[1]) < 0 then \
                      redis.call('PEXPIRE', KEYS[1], 3600000) else redis.call('GET', KEYS[1]) end \
                      return n";

/// What is measured.
#[derive(Args, Debug)]
pub struct Options {
    /// Durability of both servers.
    #[arg(long, default_value = "sync")]
    mode: Mode,
    /// Calls of each run.
    #[arg(long, default_value_t = 100_000)]
    calls: usize,
}

/// Runs of one kind on both servers.
#[derive(Debug, Serialize)]
pub struct Pair {
    keys: &'static str,
    pipeline: usize,
    redis: Vec<Run>,
    carillon: Vec<Run>,
}

impl Pair {
    fn ratio(&self) -> f64 {
        median(&self.carillon, |run| run.rate) / median(&self.redis, |run| run.rate)
    }
}

/// Measures scripts of both servers: a table, and every run.
pub fn measure(
    binary: &str,
    options: &Options,
    all: &crate::Options,
) -> Outcome<(String, Vec<Pair>)> {
    let carillon = Kind::Carillon(binary.to_owned(), all.memory_max.clone());
    let servers =
        [Server::start(&Kind::Redis, options.mode)?, Server::start(&carillon, options.mode)?];
    let sha = servers[0].connect()?.call(&["SCRIPT", "LOAD", SCRIPT])?;
    servers[1].connect()?.call(&["SCRIPT", "LOAD", SCRIPT])?;
    let fsyncs = machine::fsyncs_per_second(&servers[0].data_dir())?;
    let mut pairs = Vec::new();
    for pipeline in [1, 16] {
        for keys in ["one key", "random keys"] {
            pairs.push(Pair { keys, pipeline, redis: Vec::new(), carillon: Vec::new() });
        }
    }
    for round in 0..all.rounds {
        for pair in &mut pairs {
            let key = if pair.keys == "one key" { "key:1" } else { "key:__rand_int__" };
            let args = ["EVALSHA", &sha, "1", key, "1"];
            let calls = options.calls * all.percent / 100 * if pair.pipeline > 1 { 4 } else { 1 };
            // Who goes first changes with the round.
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let run = load::run_custom(&servers[which], &args, pair.pipeline, calls)?;
                [&mut pair.redis, &mut pair.carillon][which].push(run);
            }
            println!(
                "round {} {}, pipeline {}: redis {:.0}, carillon {:.0} a second",
                round + 1,
                pair.keys,
                pair.pipeline,
                pair.redis.last().map_or(0.0, |run| run.rate),
                pair.carillon.last().map_or(0.0, |run| run.rate),
            );
        }
    }
    let mut table = format!(
        "Scripts of three commands, {}, {fsyncs:.0} fsyncs a second, 50 connections.\n\n\
         | keys | pipeline | redis/s | carillon/s | ratio | redis us | carillon us |\n\
         |---|---|---|---|---|---|---|\n",
        options.mode.durability()
    );
    for pair in &pairs {
        let rate = |runs: &[Run]| median(runs, |run| run.rate);
        let cpu = |runs: &[Run]| median(runs, |run| run.cpu_us);
        writeln!(
            table,
            "| {} | {} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} |",
            pair.keys,
            pair.pipeline,
            rate(&pair.redis),
            rate(&pair.carillon),
            pair.ratio(),
            cpu(&pair.redis),
            cpu(&pair.carillon),
        )?;
    }
    Ok((table, pairs))
}
