//! 002: a course's store, which keeps all versions of a key until somebody asks to collect them.
//!
//! Transaction managers and partitions are processes of one computer there; here they are nodes.
//! It keeps one copy in memory, and so does the keyspace here. A message `gc` is sent by clients
//! there; Carillon collects by itself what is older than the keyspace's retention, so instead of
//! the share of such messages the retention changes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use chart::{Line, log};

use super::Bed;
use super::cluster::{Cluster, Door};
use super::load::{Load, Reach};
use super::page::{Page, Verdict, shown};
use crate::Outcome;

/// Keys that updates choose from, where they choose.
const KEYS: u64 = 100;
/// Versions are looked at until they are as many twice, at most for so long.
const COLLECTED_TIMEOUT: Duration = Duration::from_secs(20);
/// Retentions that are compared, in milliseconds.
const RETENTIONS: [u64; 2] = [60_000, 0];
/// The mixes of the document, updates and reads in percent; the rest was `gc`.
const MIXES: [(&str, &str, f64); 3] = [
    ("50/40/10", "put = 50, get = 40", 11_955.0),
    ("20/40/40", "put = 20, get = 40", 8_132.0),
    ("60/10/30", "put = 60, get = 10", 17_513.0),
];
/// The mixes that show what collection costs: updates, reads, collections; the mean rate.
const COLLECTING: [(&str, f64, &str); 3] =
    [("70/30/0", 10_851.9, "6984"), ("50/30/20", 9_686.1, "100"), ("20/30/50", 7_099.9, "100")];

/// A figure: what it is of, and its rate.
type Point = (u64, f64);

struct Found {
    /// By nodes: rates by number of updates, one under way.
    one: Vec<(usize, Vec<Point>)>,
    /// With 64 under way, as managers that do not wait for partitions.
    ahead: Vec<Point>,
    /// By nodes: rates by number of clients.
    many: Vec<(usize, Vec<Point>)>,
    /// By mix: rates by number of clients.
    mixes: Vec<Vec<Point>>,
    /// By retention: rates by number of clients, versions, and old versions after collection.
    collected: Vec<(u64, Vec<Point>, u64)>,
    updates: u64,
}

/// Measures it all.
pub fn measure(bed: &mut Bed<'_>) -> Outcome<Page> {
    let found = live(bed)?;
    let mut page = Page::new("002", "002: a store with versions and collection, measured again");
    page.say(
        "The document: a course's report of 2018 on a transactional key-value store in Erlang, on \
         one computer with four cores at 3.1 GHz. *TM* are transaction managers, *P* partitions: \
         processes there, nodes here. Neither store copies or syncs anything in these runs.",
    );
    page.head("Claims");
    page.verdicts(&verdicts(&found));
    page.head("One client (appendix A.1)");
    lines_and_table(&mut page, "one", "updates", &found.one);
    let ahead = found.ahead.iter().map(|(n, rate)| vec![n.to_string(), shown(*rate)]);
    page.say(
        "A manager there does not wait for the partition before it answers, and messages stay \
         within one Erlang runtime; here each request is a round trip through two sockets. With 64 \
         requests under way on the one connection:",
    );
    page.table(&["updates", "updates/s, 1 node"], &ahead.collect::<Vec<_>>());
    page.head("Many clients (appendix A.2)");
    lines_and_table(&mut page, "many", "clients", &found.many);
    page.say(&format!(
        "{} updates of new keys in all, divided over the clients. The document: peaks of 300 000 \
         (1 TM, 1 P), 350 000 (2, 3) and 350 000 (3, 5) a second.",
        shown(found.updates as f64)
    ));
    mixes(&mut page, &found);
    collection(&mut page, &found);
    Ok(page)
}

fn live(bed: &mut Bed<'_>) -> Outcome<Found> {
    let sizes: &[usize] = bed.pick(&[1], &[1, 2, 3]);
    let updates: &[u64] = bed.pick(&[100, 1_000], &[100, 1_000, 10_000, 100_000]);
    let clients: &[u64] = bed.pick(&[1, 50], &[1, 5, 20, 50, 100, 200, 500, 1_000]);
    let total = bed.pick(3_000, 100_000);
    let (mut one, mut many, mut ahead) = (Vec::new(), Vec::new(), Vec::new());
    let (mut by_mix, mut collected) = (Vec::new(), Vec::new());
    for nodes in sizes.iter().copied() {
        bed.say(&format!("002: {nodes} nodes"));
        let cluster = Cluster::start(bed, nodes)?;
        cluster.remake_keyspace(1, "memory", None)?;
        let reach = cluster.reach(Door::Resp);
        let mut turn = 0;
        // New keys each time.
        let mut rate = |keys: u64, clients: u64, pipeline: u64| -> Outcome<f64> {
            turn += 1;
            let prefix = format!("u{turn}:");
            let load = Load { keys, clients, pipeline, prefix, bytes: 10, ..Load::default() };
            Ok(keys as f64 / load.fill(&reach)?)
        };
        let mut points = Vec::new();
        for keys in updates.iter().copied() {
            points.push((keys, rate(keys, 1, 1)?));
            if nodes == 1 {
                ahead.push((keys, rate(keys, 1, 64)?));
            }
        }
        one.push((nodes, points));
        let mut points = Vec::new();
        for clients in clients.iter().copied() {
            points.push((clients, rate(total, clients, 1)?));
        }
        many.push((nodes, points));
        if nodes == sizes[sizes.len() - 1] {
            bed.say("002: mixes and collection");
            by_mix = of_mixes(bed, &reach, clients)?;
            for retention in RETENTIONS {
                collected.push(of_retention(bed, &cluster, &reach, clients, retention)?);
            }
        }
    }
    Ok(Found { one, ahead, many, mixes: by_mix, collected, updates: total })
}

fn of_mixes(bed: &Bed<'_>, reach: &Reach, clients: &[u64]) -> Outcome<Vec<Vec<Point>>> {
    let load = Load { keys: KEYS, bytes: 10, seconds: bed.pick(0.4, 2.0), ..Load::default() };
    load.fill(reach)?;
    let of = |mix: &'static str| -> Outcome<Vec<Point>> {
        let rate = |clients: &u64| {
            Ok((*clients, Load { mix, clients: *clients, ..load.clone() }.run(reach)?.rate))
        };
        clients.iter().map(rate).collect()
    };
    MIXES.iter().map(|(_, mix, _)| of(mix)).collect()
}

/// 70 updates for 30 reads on 100 keys; then versions are counted until collection has nothing more
/// to do.
fn of_retention(
    bed: &Bed<'_>,
    cluster: &Cluster,
    reach: &Reach,
    clients: &[u64],
    retention: u64,
) -> Outcome<(u64, Vec<Point>, u64)> {
    cluster.remake_keyspace(1, "memory", Some(retention))?;
    let load = Load {
        keys: KEYS,
        bytes: 10,
        mix: "put = 70, get = 30",
        seconds: bed.pick(0.4, 2.0),
        ..Load::default()
    };
    load.fill(reach)?;
    let mut points = Vec::new();
    for clients in clients.iter().copied() {
        points.push((clients, Load { clients, ..load.clone() }.run(reach)?.rate));
    }
    // As many messages as the document sent: 7 000 updates, now that all keys are known.
    cluster.remake_keyspace(1, "memory", Some(retention))?;
    let updates = 70;
    for _ in 0..updates {
        Load { clients: 10, ..load.clone() }.fill(reach)?;
    }
    let count = || -> Outcome<u64> {
        (0..KEYS).map(|key| cluster.versions(&format!("paper:{key:012}"))).sum()
    };
    let begun = Instant::now();
    let mut before = count()?;
    loop {
        sleep(Duration::from_secs(2));
        let now = count()?;
        if now == before || begun.elapsed() > COLLECTED_TIMEOUT {
            return Ok((retention, points, now));
        }
        before = now;
    }
}

fn best(points: &[Point]) -> Point {
    points.iter().copied().max_by(|one, two| one.1.total_cmp(&two.1)).unwrap_or((0, f64::NAN))
}

fn mean(points: &[Point]) -> f64 {
    points.iter().map(|(_, rate)| rate).sum::<f64>() / points.len().max(1) as f64
}

fn verdicts(found: &Found) -> Vec<Verdict> {
    let last = |points: &[Point]| points.last().map_or(f64::NAN, |(_, rate)| *rate);
    let (first, more) = (&found.one[0], &found.one[found.one.len() - 1]);
    let slower = last(&more.1) / last(&first.1);
    let (clients, top) = best(&found.many[0].1);
    let alone = found.many[0].1[0].1;
    let at_the_end = last(&found.many[0].1);
    let peaks: Vec<u64> = found.mixes.iter().map(|points| best(points).0).collect();
    let [kept, dropped] = [&found.collected[0], &found.collected[1]];
    let cost = mean(&dropped.1) / mean(&kept.1);
    let best_mix = |at: usize| best(&found.mixes[at]).1;
    vec![
        Verdict::new(
            "one client gets slower with more managers and partitions: 240 000, 140 000, 110 000/s",
            format!(
                "{} updates/s on {} node, {} on {}: × {}",
                shown(last(&first.1)),
                first.0,
                shown(last(&more.1)),
                more.0,
                shown(slower)
            ),
            (found.one.len() > 1).then_some(slower < 1.0),
        ),
        Verdict::new(
            "throughput rises with clients to a peak, then falls",
            format!(
                "{} with 1 client, {} with {clients}, {} with the most",
                shown(alone),
                shown(top),
                shown(at_the_end)
            ),
            Some(top > alone && at_the_end < top),
        ),
        Verdict::new(
            "the three mixes have curves of one shape, best between 5 and 100 clients",
            format!("best with {peaks:?} clients"),
            Some(peaks.iter().all(|peak| (5..=100).contains(peak))),
        ),
        Verdict::new(
            "60/10/30 is the fastest mix, 20/40/40 the slowest",
            format!(
                "{}, {}, {} at best: reads are cheaper than updates here",
                shown(best_mix(0)),
                shown(best_mix(1)),
                shown(best_mix(2))
            ),
            Some(best_mix(2) > best_mix(0) && best_mix(0) > best_mix(1)),
        ),
        Verdict::new(
            "collection costs some throughput: 10 852, 9 686, 7 100/s",
            format!("with retention 0 the rate is {} of that with 60 s", shown(cost)),
            Some(cost < 1.0),
        ),
        Verdict::new(
            "without collection pairs grow without bound (6 984); with it they fall back to 100",
            format!("{} versions with retention 60 s, {} with 0", kept.2, dropped.2),
            Some(kept.2 > 10 * dropped.2 && dropped.2 <= 2 * KEYS),
        ),
    ]
}

fn lines_and_table(page: &mut Page, name: &str, x: &'static str, all: &[(usize, Vec<Point>)]) {
    let line = |(at, (nodes, points)): (usize, &(usize, Vec<Point>))| {
        let points = points.iter().map(|(x, rate)| (*x as f64, *rate)).collect();
        Line::new(format!("{nodes} nodes"), at + 1, points)
    };
    let lines: Vec<Line> = all.iter().enumerate().map(line).collect();
    let title = format!("Updates a second by {x}");
    page.chart(name, &title, [log(x), log("updates a second")], &lines);
    let mut head = vec![x.to_owned()];
    head.extend(all.iter().map(|(nodes, _)| format!("updates/s, {nodes} nodes")));
    let rows = all[0].1.iter().enumerate().map(|(at, (x, _))| {
        let mut row = vec![x.to_string()];
        row.extend(all.iter().map(|(_, points)| shown(points[at].1)));
        row
    });
    page.table(&head, &rows.collect::<Vec<_>>());
}

fn mixes(page: &mut Page, found: &Found) {
    page.head("Three mixes (appendix A.3)");
    let line = |(at, points): (usize, &Vec<Point>)| {
        let points = points.iter().map(|(x, rate)| (*x as f64, *rate)).collect();
        Line::new(MIXES[at].0, at + 1, points)
    };
    let lines: Vec<Line> = found.mixes.iter().enumerate().map(line).collect();
    let title = "Requests a second by clients, 100 keys";
    page.chart("mixes", title, [log("clients"), log("requests a second")], &lines);
    let rows = MIXES.iter().zip(&found.mixes).map(|((name, _, theirs), points)| {
        let (clients, rate) = best(points);
        vec![(*name).to_owned(), shown(*theirs), shown(rate), clients.to_string()]
    });
    let head = ["update/read/gc", "document, at best", "here, at best", "with clients"];
    page.table(&head, &rows.collect::<Vec<_>>());
    page.say(
        "Updates and reads have the document's ratio; the rest of its messages asked for \
         collection, which here needs no message. It ran 10 managers and 50 partitions.",
    );
}

fn collection(page: &mut Page, found: &Found) {
    page.head("What collection does (appendix A.4)");
    let line = |(at, (retention, points, _)): (usize, &(u64, Vec<Point>, u64))| {
        let points = points.iter().map(|(x, rate)| (*x as f64, *rate)).collect();
        Line::new(format!("retention {} s", retention / 1000), at + 1, points)
    };
    let lines: Vec<Line> = found.collected.iter().enumerate().map(line).collect();
    let title = "70 updates for 30 reads, with and without collection";
    page.chart("collection", title, [log("clients"), log("requests a second")], &lines);
    let theirs = COLLECTING
        .map(|(mix, rate, pairs)| vec![format!("document, {mix}"), shown(rate), pairs.to_owned()]);
    let ours = found.collected.iter().map(|(retention, points, versions)| {
        let name = format!("here, 70/30, retention {} s", retention / 1000);
        vec![name, shown(mean(points)), versions.to_string()]
    });
    let rows: Vec<Vec<String>> = theirs.into_iter().chain(ours).collect();
    page.table(&["", "mean rate over clients", "stored pairs"], &rows);
    page.say(
        "Stored pairs here: versions of the 100 keys after 70 updates of each, counted by `GET \
         /v1/history` when two looks 2 s apart agree. With a retention of 60 s all are kept for \
         that time; with 0 only what a reader may still need.",
    );
}
