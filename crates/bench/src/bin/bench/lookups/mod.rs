//! Measures requests a second by each lookup, in each form, on a live cluster.
//!
//! The thesis asked the same: its test bed ran clusters with Chord, or with a fully connected net
//! (FCN), and counted answers. Here one cluster runs all lookups at once, and each connection names
//! its lookup (`LOOKUP`). Route caches are off, as in the thesis. The keyspace is a linear-hash
//! table with one bucket per wanted shard: so all arcs have one width, as those of a hashed
//! keyspace that is split in halves.
//!
//! ```text
//!   8 nodes, 256 shards, three replicas, on this machine; 100 000 keys of 100 bytes
//!   for each number of clients, for each lookup and form, in turns: GETs in a closed loop
//!     plain      nothing is said: the request path as it is
//!     full       LOOKUP full
//!     chord …    LOOKUP chord iterative noimages …
//! ```
//!
//! Loads take turns within a round, in an order that changes with the round; medians count. Hops
//! are the nodes' own counts, of the same runs.
//!
//! Caveats: all nodes and the clients share this machine's cores, so more nodes make nothing faster
//! here, and a hop costs processor time, where between machines it costs a round trip: ratios are
//! about that. The clients are one thread of this process.

mod clients;
mod nodes;

use std::fmt::Write;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::Outcome;
use crate::rates::median;
use nodes::{NODES_MAX, Nodes};

/// Tables have their fingers after this.
const SETTLE: Duration = Duration::from_secs(40);

/// `bench lookups`
#[derive(Args, Debug)]
pub struct Options {
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u8).range(3..=NODES_MAX as i64))]
    nodes: u8,
    /// Shards of the keyspace: a power of two from 8 on.
    #[arg(long, default_value_t = 256)]
    shards: usize,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "5,50,200,600")]
    clients: Vec<usize>,
    /// Rounds of each load; the result is the median.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each load in a round.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Lookups, any of plain, full, chord, chord-sharp, linear, lh.
    #[arg(long, value_delimiter = ',', default_value = "plain,full,chord,chord-sharp,linear,lh")]
    lookups: Vec<String>,
    /// Measure with cached routes, too.
    #[arg(long)]
    images: bool,
    /// A short run: 3 nodes, 16 shards, 50 clients, one round of 1 second each.
    #[arg(long)]
    quick: bool,
}

/// One load at one number of clients.
#[derive(Debug, Serialize)]
struct Load {
    lookup: String,
    form: String,
    clients: usize,
    /// Requests a second, a figure a round.
    rates: Vec<f64>,
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    /// Mean hops of all rounds; none of what says nothing.
    hops: Option<f64>,
    /// Requests whose owner was not found by the lookup.
    failures: f64,
}

impl Load {
    fn rate(&self) -> f64 {
        median(&self.rates, |rate| *rate)
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct LookupsReport {
    nodes: u8,
    shards: usize,
    images: bool,
    loads: Vec<Load>,
}

/// What the thesis measured: clients, and requests a second of FCN and of Chord.
const THESIS: [(&str, f64, f64); 4] = [
    (
        "best with 10 computers (FCN 800 clients, 16 nodes; Chord 100 clients, 8 nodes)",
        36_062.52,
        10_382.22,
    ),
    (
        "best with 20 computers (FCN 800 clients, 64 nodes; Chord 600 clients, 16 nodes)",
        48_607.93,
        13_803.75,
    ),
    (
        "best with 30 computers (FCN 600 clients, 64 nodes; Chord 600 clients, 100 nodes)",
        52_565.64,
        15_357.12,
    ),
    ("5 clients, 20 computers, 200 nodes", 3_961.52, 1_009.50),
];

/// Measures it; the table, and the figures behind it.
pub fn measure(binary: &str, options: &Options) -> Outcome<(String, LookupsReport)> {
    let (nodes, shards, clients, rounds, seconds) = match options.quick {
        true => (3, 16, vec![50], 1, 1),
        false => {
            let Options { nodes, shards, rounds, seconds, .. } = *options;
            (nodes, shards, options.clients.clone(), rounds, seconds)
        }
    };
    if !shards.is_power_of_two() || !(8..=1024).contains(&shards) {
        return Err("--shards is a power of two from 8 to 1024".into());
    }
    let cluster = Nodes::start(binary, nodes.into())?;
    println!("{nodes} nodes serve; keyspace 0 grows to {shards} shards");
    cluster.grow(shards)?;
    clients::fill(cluster.resp()[0])?;
    println!("{shards} shards are at rest and filled; tables settle");
    std::thread::sleep(SETTLE);
    let mut loads = Vec::new();
    for clients in clients {
        loads.extend(of_clients(&cluster, options, (clients, rounds, seconds))?);
    }
    let measured = LookupsReport { nodes, shards, images: options.images, loads };
    Ok((measured.table(), measured))
}

/// What is said after LOOKUP: nothing for `plain`.
fn words(lookup: &str, form: &str, images: bool) -> String {
    match (lookup, images) {
        ("plain", _) => String::new(),
        ("full", _) => "full".to_owned(),
        (_, true) => format!("{lookup} {form}"),
        (_, false) => format!("{lookup} {form} noimages"),
    }
}

/// All loads at one number of clients.
fn of_clients(
    cluster: &Nodes,
    options: &Options,
    (clients, rounds, seconds): (usize, usize, u64),
) -> Outcome<Vec<Load>> {
    let mut loads = Vec::new();
    for lookup in &options.lookups {
        let forms: &[&str] = match lookup.as_str() {
            "plain" | "full" => &["–"],
            _ => &["iterative", "recursive", "semi-recursive"],
        };
        loads.extend(forms.iter().map(|form| Load {
            lookup: lookup.clone(),
            form: (*form).to_owned(),
            clients,
            rates: Vec::new(),
            p50_ms: Vec::new(),
            p99_ms: Vec::new(),
            hops: None,
            failures: 0.0,
        }));
    }
    let before = counts(cluster, &loads)?;
    for round in 0..rounds {
        let count = loads.len();
        for step in 0..count {
            let load = &mut loads[(step + round) % count];
            let words = words(&load.lookup, &load.form, options.images);
            let lasting = Duration::from_secs(seconds);
            let counted = clients::run(cluster.resp(), &words, clients, lasting)?;
            let rate = counted.done as f64 / seconds as f64;
            println!(
                "{clients} clients, {} {}: {rate:.0} a second, p50 {:.2} ms",
                load.lookup, load.form, counted.ms[0]
            );
            load.rates.push(rate);
            load.p50_ms.push(counted.ms[0]);
            load.p99_ms.push(counted.ms[1]);
        }
    }
    let after = counts(cluster, &loads)?;
    for ((load, before), after) in loads.iter_mut().zip(before).zip(after) {
        let [requests, hops, failures] = [0, 1, 2].map(|n| after[n] - before[n]);
        load.hops = (requests > 0.0).then_some(hops / requests);
        load.failures = failures;
    }
    Ok(loads)
}

fn counts(cluster: &Nodes, loads: &[Load]) -> Outcome<Vec<[f64; 3]>> {
    loads.iter().map(|load| cluster.counted(&load.lookup, &load.form)).collect()
}

impl LookupsReport {
    fn table(&self) -> String {
        let mut out = format!(
            "{} nodes, {} shards, GETs, {}:\n\n\
             | clients | lookup | form | a second | of plain | p50 ms | p99 ms | hops | nobody |\n\
             |---|---|---|---|---|---|---|---|---|\n",
            self.nodes,
            self.shards,
            if self.images { "with cached routes, too" } else { "without cached routes" }
        );
        for load in &self.loads {
            let plain = self.rate("plain", load.clients);
            let of_plain =
                plain.map_or("–".to_owned(), |rate| format!("{:.3}", load.rate() / rate));
            let hops = load.hops.map_or("–".to_owned(), |hops| format!("{hops:.2}"));
            let _never_fails = writeln!(
                out,
                "| {} | {} | {} | {:.0} | {of_plain} | {:.2} | {:.2} | {hops} | {} |",
                load.clients,
                load.lookup,
                load.form,
                load.rate(),
                median(&load.p50_ms, |ms| *ms),
                median(&load.p99_ms, |ms| *ms),
                load.failures,
            );
        }
        out.push_str(
            "\nBeside the thesis (FCN is full here; Chord was iterative):\n\n\
             | | FCN, full | Chord | FCN ÷ Chord |\n|---|---|---|---|\n",
        );
        for (what, full, chord) in THESIS {
            let ratio = full / chord;
            let _never_fails =
                writeln!(out, "| thesis: {what} | {full:.0} | {chord:.0} | {ratio:.2} |");
        }
        let mut clients: Vec<usize> = self.loads.iter().map(|load| load.clients).collect();
        clients.dedup();
        for clients in clients {
            let rates = (self.rate("full", clients), self.rate("chord", clients));
            if let (Some(full), Some(chord)) = rates {
                let (nodes, ratio) = (self.nodes, full / chord);
                let _never_fails = writeln!(
                    out,
                    "| here: {clients} clients, 1 computer, {nodes} nodes | {full:.0} | {chord:.0} \
                     | {ratio:.2} |"
                );
            }
        }
        out
    }

    /// Of a lookup in its first form.
    fn rate(&self, lookup: &str, clients: usize) -> Option<f64> {
        let is_it = |load: &&Load| load.lookup == lookup && load.clients == clients;
        self.loads.iter().find(is_it).map(Load::rate)
    }
}
