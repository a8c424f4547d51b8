//! Measurements that are no scenarios of `carillon bench` yet: transfers beside etcd, and what
//! clients notice while a cluster rearranges itself.
//!
//! ```text
//!   bench transfers    a transaction over two accounts, beside etcd
//!   bench rearrange    nodes join, are drained, are lost: what clients notice, where it rests
//! ```
//!
//! One node, clusters, failover and idle shards are scenarios: `carillon bench list`. Lookups are a
//! part of `carillon bench papers --only 000`.
//!
//! Output: a Markdown table (docs/performance.md takes it) and every single run as JSON.
//!
//! Caveats: loads share two cores with the nodes. Processor time counts whatever a process does
//! during a run: polling, and work left over from runs before. The clock's step is 10 ms, so short
//! runs (`--quick`) give rough figures.

mod cluster;
mod http;
mod rearrange;
mod resp;
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

/// Measures Carillon: what is no scenario of `carillon bench` yet.
#[derive(Parser, Debug)]
struct Options {
    #[command(subcommand)]
    command: Command,
    /// The binary to measure.
    #[arg(long, default_value = "target/release/carillon", global = true)]
    carillon: String,
    /// Directory for tables and figures.
    #[arg(long, default_value = "target/bench", global = true)]
    out: PathBuf,
}

/// What is measured.
#[derive(Subcommand, Debug)]
enum Command {
    /// What clients notice while nodes join, are drained and are lost, and where it comes to rest.
    Rearrange(rearrange::Options),
    /// Transfers between two accounts, a transaction each, beside etcd.
    Transfers(transfers::Options),
}

fn main() -> Outcome<()> {
    let options = Options::parse();
    let machine = machine::describe();
    println!("{}", machine.line());
    let binary = &options.carillon;
    match &options.command {
        Command::Rearrange(rearrange) => {
            let measured = rearrange::measure(binary, &machine, &options.out, rearrange)?;
            finish("rearrange", &machine, &options, measured)
        }
        Command::Transfers(transfers) => {
            finish("transfers", &machine, &options, transfers::measure(binary, transfers)?)
        }
    }
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
