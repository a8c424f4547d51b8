//! 001: Riak on 10 to 100 nodes: how it scales, what it uses, what it does when nodes are lost.
//!
//! A traffic generator for three nodes, 90 workers each, gets, inserts and updates at random; so 30
//! clients for each node here, a third of each. Three replicas, as Riak has them; Carillon's are
//! synced before they answer.

use std::thread::sleep;
use std::time::Duration;

use chart::{Line, plain};

use super::cluster::{Cluster, Door};
use super::constants::{self, Study};
use super::load::{Load, Measured};
use super::model::Op;
use super::model_page;
use super::page::{Page, Verdict, count, shown};
use super::{Bed, percent};
use crate::Outcome;

/// Workers of a generator for three nodes, divided by them.
const CLIENTS_PER_NODE: u64 = 30;
/// Processors of a node, where each node has a machine of its own: as in the document.
pub(super) const PROCESSORS: f64 = 8.0;
/// It has broken where the background takes this part of each node.
pub(super) const BROKEN: f64 = 0.5;

/// After which time replicas of a lost node are made elsewhere: as nodes are lost every few seconds
/// instead of every two minutes, a part of the usual five minutes.
const DEAD_AFTER: &str = "2s";

/// What a run of one size used.
struct Size {
    nodes: usize,
    measured: Measured,
    /// Processor time of the nodes, as processors.
    processors: f64,
    memory: u64,
    disk: u64,
    /// Messages and bytes between nodes, a request.
    messages: Vec<(String, f64)>,
    bytes: f64,
    retransmitted: f64,
}

fn mixed(nodes: usize, seconds: f64) -> Load {
    Load {
        clients: CLIENTS_PER_NODE * nodes as u64,
        mix: "get = 1, insert = 1, put = 1",
        seconds,
        ..Load::default()
    }
}

/// Measures it all.
pub fn measure(bed: &mut Bed<'_>) -> Outcome<Page> {
    let counts: &[usize] = bed.pick(&[3], &[1, 3, 5, 8]);
    let mut sizes = Vec::new();
    let mut doors = Vec::new();
    for nodes in counts.iter().copied() {
        bed.say(&format!("001: {nodes} nodes"));
        let cluster = Cluster::start(bed, nodes)?;
        sizes.push(size(&cluster, bed.pick(1.0, 5.0))?);
        if nodes == 3 {
            bed.say("001: HTTP, native frames and RESP");
            doors = protocols(&cluster, bed.pick(0.5, 5.0))?;
        }
    }
    let lost = lose(bed)?;
    let study = constants::measure(bed)?;
    let mut page = Page::new("001", "001: how far a store of nodes scales, measured again");
    page.say(
        "The document: a report of 2013 that loaded Riak 1.1.1 on 10 to 100 nodes of eight cores, \
         one traffic generator for three nodes, and looked for what limits it. It scaled to some \
         60 nodes; beyond, one process for each node, through which all remote calls go, delayed \
         everything. Here: the same mix on one machine, and a cost model for as many nodes.",
    );
    page.head("Claims");
    page.verdicts(&verdicts(&sizes, &doors, &lost, &study));
    scaling(&mut page, &sizes);
    availability(&mut page, &lost);
    interfaces(&mut page, &doors);
    model_page::model(&mut page, &study);
    Ok(page)
}

/// Segments that the kernel has sent again, since it started.
fn retransmitted() -> f64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let at = names.split(' ').position(|name| name == "RetransSegs");
    at.and_then(|at| values.split(' ').nth(at)?.parse().ok()).unwrap_or(0.0)
}

fn size(cluster: &Cluster, seconds: f64) -> Outcome<Size> {
    let nodes = cluster.count();
    let load = mixed(nodes, seconds);
    let reach = cluster.reach(Door::Resp);
    load.fill(&reach)?;
    let (before, cpu, again) = (cluster.messages()?, cluster.cpu(), retransmitted());
    let bytes = cluster.metric("peer_bytes_total")?;
    let measured = load.run(&reach)?;
    let processors = (cluster.cpu() - cpu) / seconds;
    let requests = measured.count.max(1.0);
    let mut messages: Vec<(String, f64)> = cluster
        .messages()?
        .into_iter()
        .map(|(name, count)| {
            let since = count - before.get(&name).copied().unwrap_or(0.0);
            (name, since / requests)
        })
        .collect();
    messages.sort_by(|one, two| two.1.total_cmp(&one.1));
    Ok(Size {
        nodes,
        processors,
        memory: cluster.memory() / nodes as u64,
        disk: cluster.disk(),
        messages,
        bytes: (cluster.metric("peer_bytes_total")? - bytes) / 2.0 / requests,
        retransmitted: retransmitted() - again,
        measured,
    })
}

/// The same load through each protocol.
fn protocols(cluster: &Cluster, seconds: f64) -> Outcome<Vec<(&'static str, Measured)>> {
    let mut all = Vec::new();
    for (driver, door) in [("http", Door::Http), ("native", Door::Native), ("resp", Door::Resp)] {
        let load = Load { driver, prefix: "p:".to_owned(), ..mixed(cluster.count(), seconds) };
        let reach = cluster.reach(door);
        load.fill(&reach)?;
        all.push((driver, load.run(&reach)?));
    }
    Ok(all)
}

/// What happened while nodes were lost and came back.
struct Lost {
    measured: Measured,
    nodes: usize,
    gone: usize,
    /// When each event was, in seconds, and how many nodes there were then.
    events: Vec<(f64, usize)>,
}

/// The document loses 9 of 20 nodes, one every two minutes, waits half an hour, and brings them
/// back: 126 minutes. Here 2 of 5, in as many seconds for each step as there is time.
fn lose(bed: &mut Bed<'_>) -> Outcome<Lost> {
    let (nodes, gone, step) = bed.pick((3, 1, 2.0), (5, 2, 8.0));
    bed.say(&format!("001: {gone} of {nodes} nodes are lost, and come back"));
    let flags = ["--dead-after-ms", DEAD_AFTER];
    let mut cluster = Cluster::start_with(bed, nodes, &flags)?;
    let reach = cluster.reach(Door::Resp);
    let steps = 2 * gone + 3;
    let seconds = step * steps as f64;
    let load = Load { timeout: Duration::from_secs(2), fails_over: true, ..mixed(nodes, seconds) };
    load.fill(&reach)?;
    let mut events = vec![(0.0, nodes)];
    let measured = std::thread::scope(|scope| -> Outcome<Measured> {
        let running = scope.spawn(|| load.run(&reach).map_err(|why| why.to_string()));
        let mut changed = Ok(());
        for number in 0..2 * gone {
            // Steady before the first, and between the last loss and the first return.
            let pause = if number == 0 || number == gone { 1.5 * step } else { step };
            sleep(Duration::from_secs_f64(pause));
            // Not the first: others join by it.
            let (node, now) = match number < gone {
                true => (number + 1, nodes - number - 1),
                false => (2 * gone - number, nodes - (2 * gone - number) + 1),
            };
            changed = match number < gone {
                true => cluster.kill(node),
                false => cluster.bring_back(node),
            };
            if changed.is_err() {
                break;
            }
            events.push((events[events.len() - 1].0 + pause, now));
        }
        let measured = running.join().map_err(|_| "the load has failed")?;
        changed?;
        Ok(measured?)
    })?;
    Ok(Lost { measured, nodes, gone, events })
}

impl Lost {
    /// The mean rate between two times.
    fn rate(&self, from: f64, to: f64) -> f64 {
        let in_it = |row: &&crate::measure::result::Row| (from..to).contains(&(row.second as f64));
        let rows: Vec<f64> =
            self.measured.series.iter().filter(in_it).map(|row| row.count as f64).collect();
        rows.iter().sum::<f64>() / rows.len().max(1) as f64
    }

    /// Rates with all nodes, with the fewest, and when all are back.
    fn rates(&self) -> [f64; 3] {
        let at = |number: usize| self.events[number].0;
        let last = self.measured.series.len().saturating_sub(1) as f64;
        [
            self.rate(0.0, at(1)),
            self.rate(at(self.gone), at(self.gone + 1)),
            self.rate(at(2 * self.gone) + 1.0, last),
        ]
    }
}

fn verdicts(
    sizes: &[Size],
    doors: &[(&'static str, Measured)],
    lost: &Lost,
    study: &Study,
) -> Vec<Verdict> {
    let rate = |name: &str| {
        let found = doors.iter().find(|(driver, _)| *driver == name);
        found.map_or(f64::NAN, |(_, measured)| measured.rate)
    };
    let binary = rate("native") / rate("http");
    let [all, few, back] = lost.rates();
    let failed = lost.measured.failures / (lost.measured.count + lost.measured.failures).max(1.0);
    let constants = &study.constants;
    let broken = constants.breaks_at(PROCESSORS, BROKEN);
    let failures: f64 = sizes.iter().map(|size| size.measured.failures).sum();
    let in_all = |nodes: f64| nodes * constants.per_node(Op::Write, nodes, PROCESSORS);
    let ratio = in_all(60.0) / in_all(10.0);
    vec![
        Verdict::new(
            "throughput rises linearly with nodes, from 10 to some 60 (figure 6)",
            format!(
                "by the cost model 60 nodes serve {} times the writes of 10; linear were 6",
                shown(ratio)
            ),
            Some(ratio > 0.8 * 6.0),
        ),
        Verdict::new(
            "beyond 60 nodes it does not scale, and requests time out",
            match broken {
                Some(nodes) => format!(
                    "by the cost model half of each node is background with {} nodes",
                    count(nodes)
                ),
                None => "by the cost model never, up to a million nodes".to_owned(),
            },
            Some(broken.is_some_and(|nodes| nodes < 100.0)),
        ),
        Verdict::new(
            "no request fails up to 60 nodes (figure 7)",
            format!("{} failed in all sizes", count(failures)),
            Some(failures == 0.0),
        ),
        Verdict::new(
            "the binary protocol is twice as fast as HTTP (figure 19)",
            format!("native ÷ HTTP is {}", shown(binary)),
            Some(binary > 1.6),
        ),
        Verdict::new(
            "with 9 of 20 nodes lost, throughput falls, and hardly a request fails (figure 18)",
            format!(
                "with {} of {} lost: {} of the rate; {} of requests failed",
                lost.gone,
                lost.nodes,
                percent(few / all),
                percent(failed)
            ),
            Some(few < all && failed < 0.01),
        ),
        Verdict::new(
            "when nodes come back, throughput grows again (figure 18)",
            format!("{} of the rate before", percent(back / all)),
            Some(back > few),
        ),
    ]
}

fn scaling(page: &mut Page, sizes: &[Size]) {
    page.head("How it scales, and what it uses (figures 6 to 13)");
    let rows = sizes.iter().map(|size| {
        vec![
            size.nodes.to_string(),
            shown(size.measured.rate),
            count(size.measured.failures),
            shown(size.measured.mean),
            shown(size.measured.p99),
            shown(size.processors),
            shown(1e6 * size.processors / size.measured.rate),
            shown(size.memory as f64 / f64::from(1 << 20)),
            shown(size.disk as f64 / f64::from(1 << 20)),
            shown(size.bytes),
            count(size.retransmitted),
        ]
    });
    let head = [
        "nodes",
        "requests/s",
        "failed",
        "mean ms",
        "p99 ms",
        "processors",
        "µs a request",
        "MiB a node",
        "disk, MiB",
        "bytes between nodes a request",
        "segments sent again",
    ];
    page.table(&head, &rows.collect::<Vec<_>>());
    page.say(
        "The document's nodes have eight cores each and use 5.5 at most, 3 % of 24 GiB, 10 % of \
         the disk's time; 60 nodes answer in 21 ms on average. All nodes here share one machine's \
         processors, so the rate falls with every node: more nodes are more messages and no more \
         processors. That is why the figure for many machines comes from the model below.",
    );
    let size = &sizes[sizes.len() - 1];
    page.say(&format!(
        "Messages between nodes by type, for each request, with {} nodes (the document's tables 1 \
         and 2 list remote calls; `start_put_fsm` took 2 ms with 4 nodes and 13 with 24):",
        size.nodes
    ));
    let rows = size.messages.iter().take(10).filter(|(_, count)| *count > 0.0005);
    let rows: Vec<Vec<String>> =
        rows.map(|(name, count)| vec![format!("`{name}`"), shown(*count)]).collect();
    page.table(&["message", "a request"], &rows);
}

fn availability(page: &mut Page, lost: &Lost) {
    page.head("Nodes are lost and come back (figures 17 and 18)");
    let series = &lost.measured.series;
    let of = |value: &dyn Fn(&crate::measure::result::Row) -> f64| -> Vec<(f64, f64)> {
        let whole = series.iter().take(series.len().saturating_sub(1));
        whole.map(|row| (row.second as f64, value(row))).collect()
    };
    let most = series.iter().map(|row| row.count).max().unwrap_or(1) as f64;
    let mut nodes = Vec::new();
    for pair in lost.events.windows(2) {
        nodes.extend([pair[0], (pair[1].0, pair[0].1)]);
    }
    nodes.extend([lost.events[lost.events.len() - 1], (series.len() as f64, lost.nodes)]);
    let nodes = nodes.into_iter().map(|(at, n)| (at, most * n as f64 / lost.nodes as f64));
    let lines = [
        Line::new("requests", 1, of(&|row| row.count as f64)),
        Line::new("failures", 8, of(&|row| row.failures as f64)),
        Line::new(format!("nodes (top: {})", lost.nodes), 0, nodes.collect()).dashed(),
    ];
    let title = "Requests a second while nodes are killed and started again";
    page.chart("fig18", title, [plain("seconds"), plain("a second")], &lines);
    let [all, few, back] = lost.rates();
    page.say(&format!(
        "{} clients on {} nodes, three replicas. {} nodes get kill -9 one after the other and are \
         started again one after the other: {} requests a second with all, {} with the fewest, {} \
         when all are back. A client whose node is gone goes to the next one. {} requests of {} \
         failed, most of them under way as their node died.",
        CLIENTS_PER_NODE * lost.nodes as u64,
        lost.nodes,
        lost.gone,
        shown(all),
        shown(few),
        shown(back),
        count(lost.measured.failures),
        count(lost.measured.count),
    ));
    page.say(
        "Riak answers from whatever is left of a key's replicas. Here a shard that has lost two of \
         three answers nothing until new replicas are made (after 2 s of absence here, five \
         minutes by default) or a node is back: that is the price of consistency. Clients in a \
         closed loop stop one after the other as they ask such a shard, until their requests time \
         out after 2 s, so a few lost shards take most of the rate.",
    );
}

fn interfaces(page: &mut Page, doors: &[(&'static str, Measured)]) {
    page.head("HTTP and binary protocols (figure 19)");
    let rows = doors.iter().map(|(name, measured)| {
        vec![
            (*name).to_owned(),
            shown(measured.rate),
            shown(measured.p50),
            shown(measured.p99),
            count(measured.failures),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    page.table(&["protocol", "requests/s", "p50 ms", "p99 ms", "failed"], &rows);
    page.say(
        "Three nodes, 90 clients, one request under way each. The document's figure 19 has \
         protocol buffers at about twice the rate of HTTP, with 20 nodes. Its figure 20, Bitcask \
         beside LevelDB, has no counterpart yet: Carillon keeps keys in memory.",
    );
}
