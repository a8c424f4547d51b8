//! 004: Scalaris: transactions on 1 to 16 nodes, by as many threads as wanted.
//!
//! There *publish* is a transaction that reads a list, *subscribe* one that reads it, changes it
//! and writes it back. Here are transactions of that shape over two keys, which mostly lie in
//! different shards: `MGET` reads both, `MSET` writes both, and a script reads one, changes it and
//! writes both. Beside them: messages to durable topics, which the document does not have, and the
//! wiki's mix, in which one request in ten edits a page, its link and the list of changes.

use chart::{Line, log};
use client::http::TopicPlace;

use super::Bed;
use super::cluster::{Cluster, Door};
use super::load::{Load, Measured};
use super::page::{Page, Verdict, shown};
use crate::Outcome;

/// The transactions: what the page calls them, the mix, and their chart.
const TRANSACTIONS: [(&str, &str, &str); 5] = [
    ("read two", "read = 1", "read"),
    ("write two", "write = 1", "write"),
    ("read, change, write", "change = 1", "change"),
    ("publish to a durable topic", "publish = 1", "publish"),
    ("wiki: nine reads for one edit", "get = 9, edit = 1", "wiki"),
];
/// Where they are among them.
const PUBLISH: usize = 3;
const WIKI: usize = 4;
/// Durable topics that messages go to.
const TOPICS: u64 = 100;
const TOPIC_PREFIX: &str = "topic-";
/// Bytes of a page of the wiki.
const WIKI_BYTES: u64 = 2000;
/// What the document's figures show at most, a second: publish and subscribe on one machine or two,
/// and the wiki's transactions on eight servers.
const DOCUMENT_PUBLISH: f64 = 5000.0;
const DOCUMENT_SUBSCRIBE: f64 = 1000.0;
const DOCUMENT_WIKI: f64 = 2500.0;
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
[op.publish]
command = ["TPUBLISH", "{key}", "{value}"]
[op.edit]
command = ["EVAL", """local old = redis.call('GET', KEYS[1]); \
  redis.call('SET', KEYS[1], ARGV[1]); \
  redis.call('SET', KEYS[2], old and 'link' or 'new'); \
  redis.call('SET', KEYS[3], 'changed', 'PX', '2592000000'); \
  return 1""", "3", "{key}", "link:{key}", "recent:{key}", "{value}"]
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
        make_topics(&cluster)?;
        let topics = Load { keys: TOPICS, prefix: TOPIC_PREFIX.to_owned(), ..load.clone() };
        let wiki = Load { bytes: WIKI_BYTES, prefix: "page:".to_owned(), ..load.clone() };
        wiki.fill(&reach)?;
        for threads in threads.iter().copied() {
            for (transaction, (_, mix, _)) in TRANSACTIONS.into_iter().enumerate() {
                let clients = threads * nodes as u64;
                let cpu = cluster.cpu();
                let load = match transaction {
                    PUBLISH => &topics,
                    WIKI => &wiki,
                    _ => &load,
                };
                let measured = Load { mix, clients, ..load.clone() }.run(&reach)?;
                let cost = (cluster.cpu() - cpu) * 1e6 / measured.count.max(1.0);
                all.push(Found { nodes, threads, transaction, measured, cost });
            }
        }
    }
    Ok(page(&all, sizes, threads))
}

/// Makes the topics, named as keys of a load are.
fn make_topics(cluster: &Cluster) -> Outcome<()> {
    let client = cluster.client(0)?;
    for number in 0..TOPICS {
        let topic = &format!("{TOPIC_PREFIX}{number:012}");
        // So few messages that old ones are dropped while it is measured.
        let settings = serde_json::json!({ "messages_max": 1000 });
        client.topic_create(TopicPlace { keyspace: "0", topic }, &settings)?;
    }
    Ok(())
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
    let wiki_nodes = if sizes.contains(&8) { 8 } else { most };
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
            format!(
                "on one machine or two at most some {DOCUMENT_PUBLISH} publish transactions a \
                 second, which read (figures 5 and 6)"
            ),
            format!(
                "{} × with one node: {} a second",
                shown(best(sizes[0], 0).1 / DOCUMENT_PUBLISH),
                shown(best(sizes[0], 0).1)
            ),
            Some(best(sizes[0], 0).1 > DOCUMENT_PUBLISH),
        ),
        Verdict::new(
            format!(
                "and some {DOCUMENT_SUBSCRIBE} subscribe transactions, which read, change and \
                 write (figures 7 and 8)"
            ),
            format!(
                "{} × with one node: {} a second, each synced",
                shown(best(sizes[0], 2).1 / DOCUMENT_SUBSCRIBE),
                shown(best(sizes[0], 2).1)
            ),
            Some(best(sizes[0], 2).1 > DOCUMENT_SUBSCRIBE),
        ),
        Verdict::new(
            format!("a wiki on eight servers: {DOCUMENT_WIKI} transactions a second (2.4)"),
            format!("{} with {} nodes of one machine", shown(best(wiki_nodes, WIKI).1), wiki_nodes),
            Some(best(wiki_nodes, WIKI).1 > DOCUMENT_WIKI),
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
    for (transaction, (name, _, chart)) in TRANSACTIONS.iter().enumerate() {
        let line = |(at, nodes): (usize, &usize)| {
            let of = |threads: &u64| (*threads as f64, rate(*nodes, *threads, transaction));
            Line::new(format!("{nodes} nodes"), at + 1, threads.iter().map(of).collect())
        };
        let lines: Vec<Line> = sizes.iter().enumerate().map(line).collect();
        let title = format!("Transactions a second: {name}");
        let axes = [log("threads for each node"), log("transactions a second")];
        page.chart(chart, &title, axes, &lines);
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
         waits for fsyncs of two nodes. There a message is sent to those whom a list names, and \
         kept nowhere; here a durable topic keeps it, numbered, until its subscribers have it: \
         `TPUBLISH` to one of a hundred topics. An edit of the wiki changes three keys of mostly \
         three shards; a page has 2 000 bytes.",
    );
    page
}
