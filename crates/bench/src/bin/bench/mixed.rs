//! Pipelines of SETs, of GETs, and of both in turn, on one node whose writes are durable: what does
//! mixing cost?
//!
//! ```text
//!   keys of one hash tag, so of one shard │ any keys    ×    SET │ GET │ SET, GET, SET, …
//! ```
//!
//! The figure to look at is the mixed rate beside the mean of the pure ones. The shapes alternate,
//! so that other load of the machine meets all; the median of the rounds counts.

use serde::Serialize;

use crate::Outcome;
use crate::cluster::pipes::{self, Commands, Shape};
use crate::load::VALUE_BYTES;
use crate::rates::median;
use crate::resp::Connection;
use crate::server::{Kind, Mode, Server};

/// Connections.
const CLIENTS: usize = 50;

/// What to measure.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Commands of a pipeline.
    #[arg(long, default_value_t = 16)]
    depth: usize,
    /// Commands of a run.
    #[arg(long, default_value_t = 400_000)]
    requests: usize,
    /// Keys.
    #[arg(long, default_value_t = 100_000)]
    mixed_keys: usize,
    /// Runs of each shape.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// How durable writes are.
    #[arg(long, default_value = "sync")]
    mode: Mode,
}

/// Rates of pipelines whose keys lie alike, in commands a second.
#[derive(Debug, Serialize)]
pub struct Rates {
    /// Whether the keys of a pipeline have one hash tag.
    tagged: bool,
    set: Vec<f64>,
    get: Vec<f64>,
    mixed: Vec<f64>,
}

/// Measures, and renders a table.
pub fn measure(subject: &Kind, options: &Options) -> Outcome<(String, Vec<Rates>)> {
    let server = Server::start(subject, options.mode)?;
    Connection::open(server.port)?.fill(options.mixed_keys, VALUE_BYTES)?;
    let mut all = [true, false].map(|tagged| Rates {
        tagged,
        set: Vec::new(),
        get: Vec::new(),
        mixed: Vec::new(),
    });
    for _ in 0..options.repeats {
        for rates in &mut all {
            let run = |commands| {
                let shape = Shape {
                    clients: CLIENTS,
                    pipeline: options.depth,
                    commands,
                    tagged: rates.tagged,
                    keys: options.mixed_keys,
                    value_bytes: VALUE_BYTES,
                    wait: false,
                };
                pipes::run(&[server.port], &shape, options.requests).map(|run| run.rate)
            };
            let (set, get, mixed) =
                (run(Commands::Set)?, run(Commands::Get)?, run(Commands::Mixed)?);
            rates.set.push(set);
            rates.get.push(get);
            rates.mixed.push(mixed);
        }
    }
    let all = Vec::from(all);
    Ok((render(&all), all))
}

fn render(all: &[Rates]) -> String {
    let mut out =
        "| keys | SET k/s | GET k/s | mixed k/s | of their mean | of the rate at which one \
                   takes turns with the other |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for Rates { tagged, set, get, mixed } in all {
        let keys = if *tagged { "of one shard" } else { "any" };
        let [set, get, mixed] = [set, get, mixed].map(|rates| median(rates, |rate| *rate) / 1e3);
        let (mean, turns) = ((set + get) / 2.0, 2.0 / (1.0 / set + 1.0 / get));
        out += &format!(
            "| {keys} | {set:.0} | {get:.0} | {mixed:.0} | {:.2} | {:.2} |\n",
            mixed / mean,
            mixed / turns
        );
    }
    out
}
