//! 000, further: every lookup in every form, on one cluster that runs all at once.
//!
//! The keyspace is a linear-hash table with one bucket for each shard that is wanted, so that all
//! arcs have one width and all lookups go over the same shards. Each connection names its lookup.
//! Caches of routes are off, as in the thesis. Loads take turns within a round, in an order that
//! changes with the round; medians count. Hops are the nodes' own counts, of the same runs.

use std::thread::sleep;
use std::time::Duration;

use super::Bed;
use super::cluster::{Cluster, Door};
use super::load::Load;
use super::page::{Page, count, shown};
use crate::Outcome;
use crate::measure::stats::Median;

/// What connections name, and in which form; nothing of the first.
const LOOKUPS: [(&str, &str, Option<&str>); 14] = [
    ("plain", "–", None),
    ("full", "–", Some("LOOKUP full")),
    ("chord", "iterative", Some("LOOKUP chord iterative noimages")),
    ("chord", "recursive", Some("LOOKUP chord recursive noimages")),
    ("chord", "semi-recursive", Some("LOOKUP chord semi-recursive noimages")),
    ("chord-sharp", "iterative", Some("LOOKUP chord-sharp iterative noimages")),
    ("chord-sharp", "recursive", Some("LOOKUP chord-sharp recursive noimages")),
    ("chord-sharp", "semi-recursive", Some("LOOKUP chord-sharp semi-recursive noimages")),
    ("linear", "iterative", Some("LOOKUP linear iterative noimages")),
    ("linear", "recursive", Some("LOOKUP linear recursive noimages")),
    ("linear", "semi-recursive", Some("LOOKUP linear semi-recursive noimages")),
    ("lh", "iterative", Some("LOOKUP lh iterative noimages")),
    ("lh", "recursive", Some("LOOKUP lh recursive noimages")),
    ("lh", "semi-recursive", Some("LOOKUP lh semi-recursive noimages")),
];
/// Tables of Chord have their fingers after this.
const SETTLE: Duration = Duration::from_secs(40);
/// The same, where a figure only has to come about.
const SETTLE_QUICK: Duration = Duration::from_secs(4);

/// One lookup in one form.
#[derive(Clone, Default)]
struct Found {
    /// Of each number of clients: requests a second, a figure for each round.
    rates: Vec<Vec<f64>>,
    /// Milliseconds with the fewest clients.
    p50: Vec<f64>,
    /// Requests that named it, their hops, and how many did not find the owner.
    counted: [f64; 3],
    failures: f64,
}

fn median(values: &[f64]) -> f64 {
    Median::of(values).map_or(f64::NAN, |median| median.value)
}

/// Measures it, and adds it to the page.
pub fn add(page: &mut Page, bed: &mut Bed<'_>) -> Outcome<()> {
    let (nodes, shards) = bed.pick((3, 16), (8, 256));
    let clients: &[u64] = bed.pick(&[50], &[5, 50, 200, 600]);
    let (rounds, seconds) = bed.pick((1, 0.5), (3, 2.0));
    bed.say(&format!("000: every lookup, {nodes} nodes, {shards} shards"));
    let cluster = Cluster::start(bed, nodes)?;
    cluster.grow_table(shards)?;
    let reach = cluster.reach(Door::Resp);
    let keys = bed.pick(2_000, 100_000);
    let load = Load { keys, seconds, mix: "get = 1", ..Load::default() };
    Load { clients: 10, pipeline: 16, ..load.clone() }.fill(&reach)?;
    sleep(bed.pick(SETTLE_QUICK, SETTLE));
    let mut all = vec![Found::default(); LOOKUPS.len()];
    for (at, clients) in clients.iter().copied().enumerate() {
        for found in &mut all {
            found.rates.push(Vec::new());
        }
        for round in 0..rounds {
            for step in 0..LOOKUPS.len() {
                let number = (step + round) % LOOKUPS.len();
                let (lookup, form, greeting) = LOOKUPS[number];
                let before = cluster.lookups(lookup, form)?;
                let measured = Load { clients, greeting, ..load.clone() }.run(&reach)?;
                let after = cluster.lookups(lookup, form)?;
                let found = &mut all[number];
                found.rates[at].push(measured.rate);
                if at == 0 {
                    found.p50.push(measured.p50);
                }
                found.failures += measured.failures;
                for (sum, (after, before)) in
                    found.counted.iter_mut().zip(after.into_iter().zip(before))
                {
                    *sum += after - before;
                }
            }
        }
    }
    say(page, &all, clients, (nodes, shards));
    Ok(())
}

fn say(page: &mut Page, all: &[Found], clients: &[u64], (nodes, shards): (usize, usize)) {
    page.head("Every lookup, in every form");
    page.say(&format!(
        "{nodes} nodes, {shards} shards of three replicas, a linear-hash table: so all lookups go \
         over the same shards, of equal width. GETs in a closed loop by clients on all nodes, each \
         connection with a lookup of its own and without cached routes; *plain* names none. \
         Requests a second, medians of {} turns. [Lookups](../lookups.md#live) says what they are.",
        all[0].rates[0].len()
    ));
    let mut head: Vec<String> = vec!["lookup".to_owned(), "form".to_owned()];
    head.extend(clients.iter().map(|clients| format!("{clients} clients")));
    let few = format!("p50 ms, {} clients", clients[0]);
    head.extend([few, "hops".to_owned(), "owner not found".to_owned(), "failed".to_owned()]);
    let row = |((lookup, form, _), found): (&(&str, &str, Option<&str>), &Found)| {
        let [requests, hops, lost] = found.counted;
        let mut row = vec![(*lookup).to_owned(), (*form).to_owned()];
        row.extend(found.rates.iter().map(|rates| shown(median(rates))));
        row.push(shown(median(&found.p50)));
        row.push(if requests > 0.0 { shown(hops / requests) } else { "–".to_owned() });
        row.extend([count(lost), count(found.failures)]);
        row
    };
    let rows: Vec<Vec<String>> = LOOKUPS.iter().zip(all).map(row).collect();
    page.table(&head, &rows);
    let rate = |lookup: &str, at: usize| {
        let found = LOOKUPS.iter().position(|one| one.0 == lookup);
        found.map_or(f64::NAN, |number| median(&all[number].rates[at]))
    };
    // The best rates of the thesis: full and Chord, by its number of computers.
    let mut rows: Vec<Vec<String>> = [
        ("thesis, 10 computers: full 800 clients, 16 nodes; Chord 100, 8", 36_062.52, 10_382.22),
        ("thesis, 20 computers: full 800 clients, 64 nodes; Chord 600, 16", 48_607.93, 13_803.75),
        ("thesis, 30 computers: full 600 clients, 64 nodes; Chord 600, 100", 52_565.64, 15_357.12),
        ("thesis, 20 computers: 5 clients, 200 nodes", 3_961.52, 1_009.50),
    ]
    .map(|(what, full, chord)| beside(what.to_owned(), full, chord))
    .to_vec();
    for (at, clients) in clients.iter().enumerate() {
        let what = format!("here, 1 computer: {clients} clients, {nodes} nodes");
        rows.push(beside(what, rate("full", at), rate("chord", at)));
    }
    page.table(&["best rates", "full", "Chord, iterative", "full ÷ Chord"], &rows);
}

fn beside(what: String, full: f64, chord: f64) -> Vec<String> {
    vec![what, count(full), count(chord), shown(full / chord)]
}
