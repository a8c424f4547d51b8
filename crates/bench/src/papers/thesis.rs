//! 000: a key-value store of Erlang nodes, with Chord or a fully connected network (FCN).
//!
//! The thesis counted queries a second by clients and nodes, and how evenly elements lie. Its
//! tables are in `thesis.csv` (but for rows that the scan of table 4 has garbled). It kept one copy
//! of each element in memory, so the keyspace here has one replica and durability `memory`.

use std::thread::sleep;
use std::time::Duration;

use chart::{Line, log, plain};

use super::cluster::{Cluster, Door};
use super::load::{Load, Measured};
use super::page::{Page, Verdict, count, shown};
use super::{Bed, thesis_lookups, thesis_machines, thesis_simulated};
use crate::Outcome;

/// Tables of the thesis.
const TABLES: &str = include_str!("thesis.csv");
/// How long tables of Chord take to have their fingers.
const SETTLE: Duration = Duration::from_secs(15);
/// The same, where a figure only has to come about.
const SETTLE_QUICK: Duration = Duration::from_secs(4);
/// How connections name a lookup; without caches of routes, as in the thesis.
const LOOKUPS: [(&str, &str); 2] =
    [("full", "LOOKUP full"), ("chord", "LOOKUP chord iterative noimages")];

/// A row of the thesis.
struct Row {
    lookup: &'static str,
    computers: u64,
    clients: u64,
    nodes: f64,
    rate: f64,
    deviation: Option<f64>,
}

fn rows() -> Vec<Row> {
    let row = |line: &'static str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [lookup, computers, clients, nodes, rate, deviation] = fields[..] else { return None };
        Some(Row {
            lookup,
            computers: computers.parse().ok()?,
            clients: clients.parse().ok()?,
            nodes: nodes.parse().ok()?,
            rate: rate.parse().ok()?,
            deviation: deviation.parse().ok(),
        })
    };
    TABLES.lines().skip(1).filter_map(row).collect()
}

/// A figure of ours.
struct Found {
    nodes: usize,
    clients: u64,
    lookup: &'static str,
    mix: &'static str,
    measured: Measured,
    /// Processor time of all nodes for a request, in seconds.
    cost: f64,
    /// Of a lookup that hops: hops of one, by what nodes have counted.
    hops: Option<f64>,
}

/// Everything of this document.
struct Live {
    found: Vec<Found>,
    /// Nodes, and σ/mean of elements on them.
    deviations: Vec<(usize, f64)>,
    /// Requests a second while a node joins.
    growing: Measured,
    /// In which second it was started, and served.
    joined: [f64; 2],
}

impl Live {
    /// Half and half, by the most clients of the thesis.
    fn machines(&self, clients: &[u64]) -> Vec<thesis_machines::Point> {
        let clients = most_clients(clients);
        let of = self.found.iter().filter(|f| f.mix == "half" && f.clients == clients);
        let point = |found: &Found| thesis_machines::Point {
            nodes: found.nodes,
            lookup: found.lookup,
            cost: found.cost,
            rate: found.measured.rate,
        };
        of.map(point).collect()
    }

    fn rate(&self, lookup: &str, mix: &str, nodes: usize, clients: u64) -> f64 {
        let is_it = |found: &&Found| {
            (found.lookup, found.mix, found.nodes, found.clients) == (lookup, mix, nodes, clients)
        };
        self.found.iter().find(is_it).map_or(f64::NAN, |found| found.measured.rate)
    }
}

/// As many clients as the thesis had, or the nearest to it.
fn most_clients(clients: &[u64]) -> u64 {
    clients.iter().copied().filter(|clients| *clients <= 800).max().unwrap_or(clients[0])
}

/// Measures it all.
pub fn measure(bed: &mut Bed<'_>) -> Outcome<Page> {
    let nodes: &[usize] = bed.pick(&[1, 3], &[1, 2, 4, 8]);
    let clients: &[u64] = bed.pick(&[5, 50], &[5, 50, 200, 800, 2_000]);
    let live = live(bed, nodes, clients)?;
    let rows = rows();
    let mut page = Page::new("000", "000: Chord beside a fully connected network, measured again");
    page.say(
        "The document: a thesis of 2012 that built a key-value store of Erlang nodes twice, with \
         the lookup of Chord and with a full table at each node (FCN), and measured both on 10, 20 \
         and 30 computers (two cores each at 3 GHz). Here the same questions are asked of \
         Carillon, whose nodes run both lookups at once: *full* is FCN.",
    );
    page.head("Claims");
    let machines = live.machines(clients);
    let is_apart =
        bed.agents.as_ref().is_some_and(|agents| agents.names.len() >= nodes[nodes.len() - 1]);
    let verdict = thesis_machines::verdict(&machines, is_apart);
    page.verdicts(&verdicts(&live, nodes, clients, verdict));
    throughput(&mut page, &live, &rows, nodes, clients);
    thesis_machines::add(&mut page, &machines, most_clients(clients), is_apart);
    spread(&mut page, &live, &rows);
    growth(&mut page, &live);
    thesis_lookups::add(&mut page, bed)?;
    let hops = live.found.iter().filter_map(|found| Some((found.nodes, found.hops?)));
    let hops: Vec<(usize, f64)> = hops.filter(|(nodes, _)| *nodes > 1).collect();
    thesis_simulated::add(&mut page, bed, &hops);
    Ok(page)
}

fn live(bed: &mut Bed<'_>, nodes: &[usize], clients: &[u64]) -> Outcome<Live> {
    let mut found = Vec::new();
    let mut deviations = Vec::new();
    let keys = bed.pick(2_000, 50_000);
    for count in nodes.iter().copied() {
        bed.say(&format!("000: {count} nodes"));
        let cluster = Cluster::start(bed, count)?;
        cluster.remake_keyspace(1, "memory", None)?;
        let reach = cluster.reach(Door::Resp);
        let load = Load { keys, seconds: bed.pick(0.5, 3.0), ..Load::default() };
        Load { clients: 10, pipeline: 16, ..load.clone() }.fill(&reach)?;
        deviations.push((count, deviation(&cluster.keys()?)));
        sleep(bed.pick(SETTLE_QUICK, SETTLE));
        for clients in clients.iter().copied() {
            for (lookup, greeting) in LOOKUPS {
                let mixes = [("half", "get = 1, put = 1"), ("put", "put = 1"), ("get", "get = 1")];
                // What FCN and Chord differ in, the way to a node, is the same for all of them.
                let count_of = if lookup == "full" { mixes.len() } else { 1 };
                for (mix, weights) in mixes.into_iter().take(count_of) {
                    let load =
                        Load { clients, greeting: Some(greeting), mix: weights, ..load.clone() };
                    let (before, cpu) = (hops(&cluster)?, cluster.cpu());
                    let measured = load.run(&reach)?;
                    let cost = (cluster.cpu() - cpu) / measured.answered.max(1.0);
                    let after = hops(&cluster)?;
                    let lookups = after[1] - before[1];
                    let hops = (lookup != "full" && lookups > 0.0)
                        .then(|| (after[0] - before[0]) / lookups);
                    found.push(Found { nodes: count, clients, lookup, mix, measured, cost, hops });
                }
            }
        }
    }
    bed.say("000: while a node joins");
    let (growing, joined) = growing(bed)?;
    Ok(Live { found, deviations, growing, joined })
}

/// Hops of all lookups until now, and how many lookups there were.
fn hops(cluster: &Cluster) -> Outcome<[f64; 2]> {
    Ok([cluster.metric("lookup_hops_sum")?, cluster.metric("lookup_hops_count")?])
}

fn deviation(keys: &[f64]) -> f64 {
    let mean = keys.iter().sum::<f64>() / keys.len() as f64;
    let square = keys.iter().map(|keys| (keys - mean).powi(2)).sum::<f64>() / keys.len() as f64;
    square.sqrt() / mean
}

/// A load on two nodes, while a third joins.
fn growing(bed: &mut Bed<'_>) -> Outcome<(Measured, [f64; 2])> {
    let mut cluster = Cluster::start(bed, 2)?;
    cluster.remake_keyspace(1, "memory", None)?;
    let reach = cluster.reach(Door::Resp);
    let seconds = bed.pick(5.0, 24.0);
    let load = Load { seconds, ..Load::default() };
    load.fill(&reach)?;
    let mut joined = [seconds / 3.0, f64::NAN];
    let measured = std::thread::scope(|scope| -> Outcome<Measured> {
        let begun = std::time::Instant::now();
        let running = scope.spawn(|| load.run(&reach).map_err(|why| why.to_string()));
        sleep(Duration::from_secs_f64(joined[0]));
        let added = cluster.add();
        joined[1] = begun.elapsed().as_secs_f64();
        let measured = running.join().map_err(|_| "the load has failed")?;
        added?;
        Ok(measured?)
    })?;
    Ok((measured, joined))
}

fn verdicts(live: &Live, nodes: &[usize], clients: &[u64], machines: Verdict) -> Vec<Verdict> {
    let (most, few) = (nodes[nodes.len() - 1], clients[0]);
    let many = clients[clients.len() - 1];
    let best = |lookup: &str| {
        let of = live.found.iter().filter(|f| f.lookup == lookup && f.mix == "half");
        of.map(|found| found.measured.rate).fold(0.0, f64::max)
    };
    let ratio = live.rate("full", "half", most, many) / live.rate("chord", "half", most, many);
    let rise =
        |lookup: &str| live.rate(lookup, "half", most, many) / live.rate(lookup, "half", most, few);
    let failures: f64 = live.found.iter().map(|found| found.measured.failures).sum();
    let peak = nodes.iter().copied().max_by(|one, two| {
        let rate = |nodes: usize| live.rate("chord", "half", nodes, many);
        rate(*one).total_cmp(&rate(*two))
    });
    let (first, last) = (live.deviations.first(), live.deviations.last());
    let uneven = last.map_or(0.0, |(_, deviation)| *deviation);
    vec![
        Verdict::new(
            "FCN serves about three times the queries of Chord (5.1, 5.2.2)",
            format!("full ÷ chord is {} with {most} nodes, {many} clients", shown(ratio)),
            Some(ratio > 1.5),
        ),
        Verdict::new(
            "more clients, more queries a second, up to 800; more were not tried (5.2.1)",
            format!(
                "from {few} to {many} clients: × {} with full, × {} with chord",
                shown(rise("full")),
                shown(rise("chord"))
            ),
            Some(rise("full") > 1.0 && rise("chord") > 1.0),
        ),
        Verdict::new(
            "Chord is fastest on one node, where it sends no messages (5.1)",
            format!("its best is with {} nodes", peak.unwrap_or(0)),
            peak.map(|peak| peak == nodes[0]),
        ),
        Verdict::new(
            "some 50 000 queries a second at most (5)",
            format!("{} on one machine, half reads and half writes", shown(best("full"))),
            None,
        ),
        machines,
        Verdict::new(
            "with 800 clients some time out, and tests are run again (4.5.2)",
            format!("{failures:.0} requests failed in all runs"),
            Some(failures > 0.0),
        ),
        Verdict::new(
            "σ/mean of elements per node stays the same, whatever the number of nodes (5.3)",
            format!(
                "{} with {} nodes, {} with {}: arcs of equal width, whole ones for each node",
                shown(first.map_or(0.0, |(_, deviation)| *deviation)),
                first.map_or(0, |(nodes, _)| *nodes),
                shown(uneven),
                last.map_or(0, |(nodes, _)| *nodes),
            ),
            Some(uneven > 0.5),
        ),
    ]
}

fn throughput(page: &mut Page, live: &Live, rows: &[Row], nodes: &[usize], clients: &[u64]) {
    page.head("Queries a second (figures 9 to 14)");
    page.say(
        "Half of the requests are puts, half gets, of random keys; clients are spread over all \
         nodes, so each asks a random node. Dashed lines are the thesis's, full lines ours. \
         Chord's members are nodes there; here they are the eight shards of the keyspace.",
    );
    for (figure, lookup, computers) in [
        ("09", "chord", 10),
        ("10", "full", 10),
        ("12", "chord", 20),
        ("13", "full", 20),
        ("14-full", "full", 30),
        ("14-chord", "chord", 30),
    ] {
        let of = rows.iter().filter(|row| row.lookup == lookup && row.computers == computers);
        let of: Vec<&Row> = of.collect();
        let mut names: Vec<u64> = of.iter().map(|row| row.clients).collect();
        names.sort_unstable();
        names.dedup();
        let mut lines = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let points = of.iter().filter(|row| row.clients == *name);
            let points = points.map(|row| (row.nodes, row.rate)).collect();
            lines.push(Line::new(format!("{name} clients, thesis"), at + 1, points).dashed());
        }
        if computers == 10 {
            for (at, clients) in clients.iter().enumerate() {
                let rate =
                    |count: &usize| (*count as f64, live.rate(lookup, "half", *count, *clients));
                let points = nodes.iter().map(rate).collect();
                lines.push(Line::new(format!("{clients} clients, here"), at + 1, points));
            }
        }
        let title = format!("Figure {figure}: {lookup}, {computers} computers");
        page.chart(
            &format!("fig{figure}"),
            &title,
            [log("nodes"), plain("queries a second")],
            &lines,
        );
    }
    let averages = |lookup: &str| -> Vec<(f64, f64)> {
        let average = |count: &usize| {
            let rates = clients.iter().map(|clients| live.rate(lookup, "half", *count, *clients));
            (*count as f64, rates.sum::<f64>() / clients.len() as f64)
        };
        nodes.iter().map(average).collect()
    };
    let lines = [Line::new("full", 1, averages("full")), Line::new("chord", 2, averages("chord"))];
    let title = "Figure 11: averages over clients, here";
    page.chart("fig11", title, [log("nodes"), plain("queries a second")], &lines);
    let mut table = Vec::new();
    for found in &live.found {
        let theirs = rows.iter().filter(|row| {
            let is_half = found.mix == "half" && row.lookup == found.lookup;
            is_half && row.clients == found.clients && row.nodes as usize == found.nodes
        });
        let theirs: Vec<String> =
            theirs.map(|row| format!("{} ({})", shown(row.rate), row.computers)).collect();
        table.push(vec![
            found.nodes.to_string(),
            found.clients.to_string(),
            found.lookup.to_owned(),
            found.mix.to_owned(),
            shown(found.measured.rate),
            shown(found.measured.p50),
            shown(found.measured.p99),
            count(found.measured.failures),
            found.hops.map_or_else(String::new, shown),
            theirs.join(", "),
        ]);
    }
    let head = [
        "nodes",
        "clients",
        "lookup",
        "mix",
        "here, a second",
        "p50 ms",
        "p99 ms",
        "failed",
        "hops",
        "thesis (computers)",
    ];
    page.table(&head, &table);
    page.say(
        "*What the machines mean:* the thesis had ten nodes of Erlang on each computer of two \
         cores; here all nodes and the clients share one machine of about as many cores. So more \
         nodes bring no processors, and each message between them costs processor time that \
         clients lack: rates fall with nodes, as they do in the thesis beyond a node for each \
         core. Compare shapes and ratios.",
    );
}

fn spread(page: &mut Page, live: &Live, rows: &[Row]) {
    page.head("How evenly elements lie (figure 17)");
    let mut sizes: Vec<f64> = rows.iter().map(|row| row.nodes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    // Half of a million queries put an element each.
    let theirs = |nodes: &f64| {
        let of = rows.iter().filter(|row| row.nodes == *nodes);
        let all: Vec<f64> = of.filter_map(|row| row.deviation).collect();
        let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
        (*nodes, mean, mean / (500_000.0 / nodes))
    };
    let theirs: Vec<(f64, f64, f64)> =
        sizes.iter().filter(|nodes| **nodes > 1.0).map(theirs).collect();
    let here = live.deviations.iter().filter(|(nodes, _)| *nodes > 1);
    let here: Vec<(f64, f64)> = here.map(|(nodes, part)| (*nodes as f64, *part)).collect();
    let points = theirs.iter().map(|(nodes, _, part)| (*nodes, *part)).collect();
    let lines = [Line::new("thesis", 1, points).dashed(), Line::new("here", 2, here.clone())];
    let title = "Figure 17, in parts of the mean";
    page.chart("fig17", title, [log("nodes"), plain("standard deviation ÷ mean")], &lines);
    let row = |(nodes, deviation, part): &(f64, f64, f64)| {
        let ours = here.iter().find(|(of, _)| of == nodes).map_or(String::new(), |h| shown(h.1));
        vec![count(*nodes), count(*deviation), shown(*part), ours]
    };
    let rows: Vec<Vec<String>> = theirs.iter().map(row).collect();
    page.table(&["nodes", "thesis, σ of elements", "σ ÷ mean, thesis", "σ ÷ mean, here"], &rows);
    page.say(
        "The thesis places nodes at random, one place each, so σ is about the mean, however many \
         nodes there are: it says so, and that several places for each node would help. Carillon \
         cuts a keyspace into eight arcs of equal width and spreads them over the nodes: what is \
         left is that eight is no multiple of each number of nodes, and that splits wait for more \
         data.",
    );
}

fn growth(page: &mut Page, live: &Live) {
    page.head("While it grows (what the thesis could not measure)");
    let rate = |row: &crate::measure::result::Row| (row.second as f64, row.count as f64);
    let lines = [Line::new("requests", 1, live.growing.series.iter().map(rate).collect())];
    let [started, serves] = live.joined;
    let title = "Requests a second while a third node joins two";
    page.chart("growing", title, [plain("seconds"), plain("requests a second")], &lines);
    // Whole seconds alone: the last one was cut.
    let whole = live.growing.series.len().saturating_sub(1);
    let series = &live.growing.series[..whole];
    let mean = |all: Vec<f64>| all.iter().sum::<f64>() / all.len().max(1) as f64;
    let of = |from: f64, to: f64| {
        let in_it = series.iter().filter(|row| (from..to).contains(&(row.second as f64)));
        mean(in_it.map(|row| row.count as f64).collect())
    };
    let longest = series.iter().map(|row| row.max).max().unwrap_or(0) as f64 / 1e6;
    page.say(&format!(
        "50 clients on two nodes, half puts and half gets; a third node is started after {} s and \
         serves after {}. Before: {} requests a second; from its start on: {}. {} requests failed; \
         the longest took {} ms.",
        shown(started),
        shown(serves),
        shown(of(0.0, started)),
        shown(of(started, f64::INFINITY)),
        count(live.growing.failures),
        shown(longest),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_thesis_are_read() {
        let rows = rows();
        assert!(rows.len() > 240, "{}", rows.len());
        let of = |lookup: &str, computers, clients, nodes: f64| {
            let is_it = |row: &&Row| {
                (row.lookup, row.computers, row.clients, row.nodes)
                    == (lookup, computers, clients, nodes)
            };
            rows.iter().find(is_it).map(|row| row.rate)
        };
        assert_eq!(of("full", 30, 600, 64.0), Some(52_565.64));
        assert_eq!(of("chord", 20, 5, 200.0), Some(1_009.5));
        assert_eq!(of("full", 10, 800, 16.0), Some(36_062.52));
        assert_eq!(of("chord", 10, 100, 8.0), Some(10_382.22));
        assert!(rows.iter().all(|row| (900.0..60_000.0).contains(&row.rate)));
    }

    #[test]
    fn deviations_are_in_parts_of_the_mean() {
        assert_eq!(deviation(&[5.0, 5.0, 5.0]), 0.0);
        assert_eq!(deviation(&[0.0, 10.0]), 1.0);
    }
}
