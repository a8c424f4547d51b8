//! Measures Carillon beside redis-server on the same machine: rates, memory, disk, start.
//!
//! Both servers run at once, on their own files and ports. Redis's own load generator drives them
//! alternately, so that other load of the machine meets both. The median of several rounds counts,
//! and the figure to look at is the ratio:
//!
//! ```text
//!   mode      redis-server         carillon keyspace
//!   memory    no AOF               durability memory
//!   interval  appendfsync everysec durability interval
//!   sync      appendfsync always   durability sync
//!
//!   per mode: SET and GET x pipelines of 1, 16, 64 x rounds, servers in alternating order
//! ```
//!
//! A rate is what server and load generator reach together. Unpipelined, the generator's one thread
//! is the limit for either server. So the server's processor time per request stands beside the
//! rate: utime + stime of /proc/PID/stat over a run, divided by the run's requests.
//!
//! That time includes polling for the next request, so it is an upper bound. Where a server keeps
//! just one core busy all the time, it is 1 ÷ rate and says nothing new.
//!
//! Beside the rates: memory with five million keys, time to ready after a stop and after a kill,
//! bytes on disk, an idle node. Rates of durable writes mean nothing without the fsync rate of the
//! moment, so that is measured before each mode.
//!
//! Output: a Markdown table (docs/performance.md takes it) and every single run as JSON.
//!
//! Caveats: the load generator is one thread and shares two cores with the server, so that at deep
//! pipelines it is measured too; ratios of rates are then lower than the truth. Processor time
//! counts whatever the process does during a run: polling, and work left over from runs before
//! (checkpoints, collection). What a server does while the other one is measured is not counted,
//! nor is a child of Redis that rewrites its AOF. The clock's step is 10 ms, so short runs
//! (`--quick`) give rough figures. Nothing here judges correctness. Start reading at [`rates`].

mod cluster;
mod http;
mod load;
mod lookups;
mod memory;
mod rates;
mod rearrange;
mod resp;
mod server;
mod table;
mod transfers;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use bench::machine;
use clap::{Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

/// What every step returns: its value, or a message for the person who runs the benchmark.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// Measures Carillon beside redis-server: one node, unless a command says otherwise.
#[derive(Parser, Debug)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// The binary to measure.
    #[arg(long, default_value = "target/release/carillon", global = true)]
    carillon: String,
    /// Rounds of each measurement; the result is the median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Modes, any of memory, interval, sync.
    #[arg(long, value_delimiter = ',', default_value = "memory,interval,sync")]
    modes: Vec<server::Mode>,
    /// Pipeline depths.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    pipelines: Vec<usize>,
    /// Threads of the load generator. With one, the generator may be the limit.
    #[arg(long, default_value_t = 1)]
    client_threads: usize,
    /// Memory that Carillon's data may take; old versions take a tenth of it at most.
    #[arg(long, default_value = "2GiB")]
    memory_max: String,
    /// Scale of request counts, in percent.
    #[arg(long, default_value_t = 100)]
    percent: usize,
    /// Keys of the memory measurement; 0 skips it.
    #[arg(long, default_value_t = 5_000_000)]
    keys: usize,
    /// A short run: 1 round, a tenth of the requests, 200 000 keys.
    #[arg(long)]
    quick: bool,
    /// Compare redis-server with itself, to measure the noise of the machine.
    #[arg(long)]
    null: bool,
    /// Directory for table.md and runs.json.
    #[arg(long, default_value = "target/bench", global = true)]
    out: PathBuf,
}

/// What is measured instead of one node.
#[derive(Subcommand, Debug)]
enum Command {
    /// What a thousand shards cost each of three nodes while nobody asks.
    Idle(cluster::idle::Options),
    /// Rates of a live cluster by each lookup, in each form.
    Lookups(lookups::Options),
    /// What clients notice while nodes join, are drained and are lost, and where it comes to rest.
    Rearrange(rearrange::Options),
    /// Transfers between two accounts, a transaction each, beside etcd.
    Transfers(transfers::Options),
}

fn main() -> Outcome<()> {
    let mut options = Options::parse();
    if options.quick {
        options.rounds = 1;
        options.percent = 10;
        options.keys = options.keys.min(200_000);
    }
    let machine = machine::describe();
    println!("{}", machine.line());
    if let Some(command) = &options.command {
        return measure_cluster(command, &machine, &options);
    }
    let subject = if options.null { server::Kind::Redis } else { subject_of(&options) };

    let mut results = Vec::new();
    for mode in &options.modes {
        results.push(rates::measure(&subject, *mode, &options)?);
    }
    let sizes = match options.keys {
        0 => None,
        keys => Some(memory::measure(&subject, keys)?),
    };

    let table = table::render(&machine, &options, &results, sizes.as_ref());
    let raw = json!({ "machine": machine, "rates": results, "memory": sizes });
    fs::create_dir_all(&options.out)?;
    fs::write(options.out.join("table.md"), &table)?;
    fs::write(options.out.join("runs.json"), serde_json::to_string_pretty(&raw)?)?;
    println!("\n{table}");
    println!("written: {0}/table.md, {0}/runs.json", options.out.display());
    Ok(())
}

fn measure_cluster(
    command: &Command,
    machine: &machine::Machine,
    options: &Options,
) -> Outcome<()> {
    let binary = &options.carillon;
    match command {
        Command::Idle(idle) => {
            finish("idle", machine, options, cluster::idle::measure(binary, idle)?)
        }
        Command::Lookups(lookups) => {
            finish("lookups", machine, options, lookups::measure(binary, lookups)?)
        }
        Command::Rearrange(rearrange) => {
            let measured = rearrange::measure(binary, machine, &options.out, rearrange)?;
            finish("rearrange", machine, options, measured)
        }
        Command::Transfers(transfers) => {
            finish("transfers", machine, options, transfers::measure(binary, transfers)?)
        }
    }
}

/// The Carillon to measure.
fn subject_of(options: &Options) -> server::Kind {
    server::Kind::Carillon(options.carillon.clone(), options.memory_max.clone())
}

/// Prints and keeps a table and the figures behind it.
fn finish(
    name: &str,
    machine: &machine::Machine,
    options: &Options,
    (table, figures): (String, impl Serialize),
) -> Outcome<()> {
    let table = format!("{}\n\n{table}", machine.line());
    let raw = json!({ "machine": machine, name: figures });
    fs::create_dir_all(&options.out)?;
    let path = |kind: &str| options.out.join(format!("{name}.{kind}"));
    fs::write(path("md"), &table)?;
    fs::write(path("json"), serde_json::to_string_pretty(&raw)?)?;
    println!("\n{table}\nwritten: {0}/{name}.md, {0}/{name}.json", options.out.display());
    Ok(())
}
