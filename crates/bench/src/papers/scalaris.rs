//! 004: Scalaris: transactions on 1 to 16 nodes, by as many threads as wanted.
//!
//! *Publish* is a transaction that reads a list, *subscribe* one that reads it, changes it and
//! writes it back. Real subscriptions have a page of their own when they exist; here are
//! transactions of that shape over two keys, which mostly lie in different shards: `MGET` reads
//! both, `MSET` writes both, and a script reads one, changes it and writes both.

use chart::{Line, log};

use super::Bed;
use super::cluster::{Cluster, Door};
use super::load::{Load, Measured};
use super::page::{Page, Verdict, shown};
use crate::Outcome;

/// The transactions: what the page calls them, the mix, and what the document has like it.
const TRANSACTIONS: [(&str, &str); 3] =
    [("read two", "read = 1"), ("write two", "write = 1"), ("read, change, write", "change = 1")];
/// How they are asked.
const OPS: &str = r#"
[op.read]
command = ["MGET", "{key}", "b:{key}"]
[op.write]
command = ["MSET", "{key}", "{value}", "b:{key}", "{value}"]
[op.change]
command = ["EVAL", """local v = redis.call('GET', KEYS[1]) or ''; \
  redis.call('SET', KEYS[1], string.sub(v .. ARGV[1], -100)); \
  redis.call('SET', KEYS[2], ARGV[1]); return 1""", "2", "{key}", "b:{key}", "x"]
"#;

struct Found {
    nodes: usize,
    /// For each node.
    threads: u64,
    transaction: usize,
    measured: Measured,
    /// Microseconds of all nodes, for each transaction.
    cost: f64,
}

/// Measures it all.
pub fn measure(bed: &mut Bed<'_>) -> Outcome<Page> {
    let sizes: &[usize] = bed.pick(&[1, 3], &[1, 2, 4, 8, 16]);
    let threads: &[u64] = bed.pick(&[1, 10], &[1, 5, 10, 50, 100]);
    let mut all = Vec::new();
    for nodes in sizes.iter().copied() {
        bed.say(&format!("004: {nodes} nodes"));
        let cluster = Cluster::start(bed, nodes)?;
        let reach = cluster.reach(Door::Resp);
        let keys = bed.pick(500, 20_000);
        let load = Load { keys, ops: OPS, seconds: bed.pick(0.5, 2.5), ..Load::default() };
        load.fill(&reach)?;
        for threads in threads.iter().copied() {
            for (transaction, (_, mix)) in TRANSACTIONS.into_iter().enumerate() {
                let clients = threads * nodes as u64;
                let cpu = cluster.cpu();
                let measured = Load { mix, clients, ..load.clone() }.run(&reach)?;
                let cost = (cluster.cpu() - cpu) * 1e6 / measured.count.max(1.0);
                all.push(Found { nodes, threads, transaction, measured, cost });
            }
        }
    }
    Ok(page(&all, sizes, threads))
}

fn page(all: &[Found], sizes: &[usize], threads: &[u64]) -> Page {
    let mut page = Page::new("004", "004: transactions on several nodes, measured again");
    page.say(
        "The document: a paper on Scalaris of 2008 to 2009 with 1 to 16 computers of eight cores, \
         a virtual machine with 16 Scalaris nodes on each, four replicas in memory, and n threads \
         for each virtual machine. Here: three replicas, synced before they answer, all nodes on \
         one machine.",
    );
    let rate = |nodes: usize, threads: u64, transaction: usize| {
        let is_it = |found: &&Found| {
            (found.nodes, found.threads, found.transaction) == (nodes, threads, transaction)
        };
        all.iter().find(is_it).map_or(f64::NAN, |found| found.measured.rate)
    };
    let (most, top) = (sizes[sizes.len() - 1], threads[threads.len() - 1]);
    let best = |nodes: usize, transaction: usize| {
        let of = |threads: &u64| (*threads, rate(nodes, *threads, transaction));
        threads.iter().map(of).max_by(|one, two| one.1.total_cmp(&two.1)).unwrap_or((0, 0.0))
    };
    let failures: f64 = all.iter().map(|found| found.measured.failures).sum();
    let (read, write) = (best(most, 0).1, best(most, 2).1);
    let drop = rate(most, top, 0) / read;
    page.head("Claims");
    page.verdicts(&[
        Verdict::new(
            "throughput grows almost linearly with nodes; one node is the exception (3.6)",
            format!(
                "changes at best: {} on {}, {} on {most} nodes of one machine, whose processors \
                 are shared: see the cost model of 001",
                shown(best(sizes[0], 2).1),
                sizes[0],
                shown(write)
            ),
            None,
        ),
        Verdict::new(
            "one node is faster than its part, since nothing goes over a network (3.1)",
            format!("{} × as many changes as {most} nodes", shown(best(sizes[0], 2).1 / write)),
            Some(best(sizes[0], 2).1 > write / most as f64),
        ),
        Verdict::new(
            "a transaction that reads is several times as fast as one that changes (figures 5 to \
             8)",
            format!("{} × with {most} nodes", shown(read / write)),
            Some(read > 1.5 * write),
        ),
        Verdict::new(
            "changes are fastest with several threads for each machine: 10 to 50 (3.3 to 3.5)",
            format!("with {} threads for each node, {most} nodes", best(most, 2).0),
            Some(best(most, 2).0 > 1),
        ),
        Verdict::new(
            "reads drop at 100 threads for each machine of 8; on 16 they vary too much to plot",
            format!(
                "with {top} threads for each of {most} nodes: {} of the best; {failures:.0} of all \
                 requests failed",
                shown(drop)
            ),
            Some(drop < 0.8),
        ),
    ]);
    page.head("Transactions a second");
    for (transaction, (name, _)) in TRANSACTIONS.iter().enumerate() {
        let line = |(at, nodes): (usize, &usize)| {
            let of = |threads: &u64| (*threads as f64, rate(*nodes, *threads, transaction));
            Line::new(format!("{nodes} nodes"), at + 1, threads.iter().map(of).collect())
        };
        let lines: Vec<Line> = sizes.iter().enumerate().map(line).collect();
        let title = format!("Transactions a second: {name}");
        let axes = [log("threads for each node"), log("transactions a second")];
        page.chart(["read", "write", "change"][transaction], &title, axes, &lines);
    }
    let rows = all.iter().map(|found| {
        vec![
            found.nodes.to_string(),
            found.threads.to_string(),
            TRANSACTIONS[found.transaction].0.to_owned(),
            shown(found.measured.rate),
            shown(found.measured.p50),
            shown(found.measured.p99),
            shown(found.cost),
            match found.measured.failures {
                0.0 => "0".to_owned(),
                failures => format!("{failures:.0}: {}", found.measured.kinds.join(", ")),
            },
        ]
    });
    let head = [
        "nodes",
        "threads a node",
        "transaction",
        "a second",
        "p50 ms",
        "p99 ms",
        "µs of all nodes",
        "failed",
    ];
    page.table(&head, &rows.collect::<Vec<_>>());
    page.say(
        "The document gives no numbers but in its figures, whose axes end at some 5 000 publish \
         and 1 000 subscribe transactions a second on one and two machines, and 2 500 \
         transactions a second for Wikipedia on eight. Its replicas are in memory; a change here \
         waits for fsyncs of two nodes. Real publishing and subscribing, and the Wikipedia mix, \
         are not measured yet.",
    );
    page
}
