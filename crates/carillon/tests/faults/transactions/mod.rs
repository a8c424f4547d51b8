//! Tests that transactions over several shards are atomic and strictly serialisable under faults.
//!
//! Sixteen clients on all nodes send requests all the time. Meanwhile nodes are killed, cut off,
//! cut off in one direction and stopped, and shards are split and merged:
//!
//! | clients | ask for | what must hold |
//! |---|---|---|
//! | bank | transfers by MULTI alone or after WATCH; reads of all accounts | the sum stays |
//! | lists | APPEND and GET, one to four together or alone; MGET | strictly serialisable |
//!
//! When all is over nothing stays locked: every account can be written within [`UNLOCKED_MAX`].
//!
//! [`sim::check::serial`] checks the lists' histories. Nil means that a watched key had changed;
//! BUSY and its like mean that nothing was done. After UNKNOWN, or no answer to EXEC, the
//! transaction may be done.
//!
//! `FAULTS_SEED=7` chooses other clients, and which node is cut off. Takes 31 to 36 s.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use ::client::http::Client as Http;
use keyspace::random::{Random, mix};
use sim::check::serial::{bank, check};

use crate::cluster::node::HTTP;
use crate::cluster::{Cluster, TEST_TIMEOUT};
use crate::service::{NODES, started};
use client::{Client, Seen, account};
use harness::net::{Host, root_or_skip};
use harness::resp::{Connection, TextReply};

mod client;

/// Half of them are the bank's.
const CLIENTS: u64 = 16;
const ACCOUNTS: u64 = 20;
const LISTS: u64 = 12;
/// Of each account at first.
const BALANCE: i64 = 100;
const CONNECT_MAX: Duration = Duration::from_millis(300);
/// How long a fault lasts, and how long all is well before the next.
const LASTS: Duration = Duration::from_millis(2_800);
const BETWEEN: Duration = Duration::from_millis(1_400);
/// Between two cuts or merges that are asked for.
const SURGERY_EVERY: Duration = Duration::from_millis(600);
/// Shards are merged if there are more, and cut if not.
const SHARDS_MANY: usize = 10;
/// When all is over, what was locked must not be so for longer.
const UNLOCKED_MAX: Duration = Duration::from_secs(5);
/// So many writing transactions must have been done.
const COMMITTED_MIN: u64 = 1_000;
/// Requests that are printed because they took longest.
const SLOWEST_SHOWN: usize = 12;
/// Unless `FAULTS_SEED` says otherwise.
const SEED: u64 = 1;

struct Shared {
    site: Host,
    nodes: Vec<std::net::SocketAddr>,
    begun: Instant,
    seed: u64,
    stop: AtomicBool,
    elements: AtomicU64,
}

/// Clients at work.
struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Seen>>,
    surgeon: Option<JoinHandle<u64>>,
}

impl Load {
    fn start(cluster: &mut Cluster, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            site: cluster.net.clients().clone(),
            nodes: cluster.resp(),
            begun: Instant::now(),
            seed,
            stop: AtomicBool::new(false),
            elements: AtomicU64::new(1),
        });
        let clients = (0..CLIENTS).map(|number| {
            let shared = shared.clone();
            thread::spawn(move || Client::new(number, shared).run())
        });
        let clients = clients.collect();
        let (ours, nodes) = (shared.clone(), (1..=NODES).map(|n| cluster.node(n).at(HTTP)));
        let nodes: Vec<String> = nodes.map(|at| at.to_string()).collect();
        let surgeon = Some(thread::spawn(move || cut_and_merge(&ours, &nodes)));
        Self { shared, clients, surgeon }
    }

    fn now(&self) -> f64 {
        self.shared.begun.elapsed().as_secs_f64()
    }

    /// What the clients have seen, and how many cuts and merges have begun.
    fn finish(mut self) -> (Seen, u64) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for client in std::mem::take(&mut self.clients) {
            all.add(client.join().expect("a client"));
        }
        (all, self.surgeon.take().expect("the end comes once").join().expect("the surgeon"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // Somebody has failed already, or nobody wants to know.
            let _seen = client.join();
        }
    }
}

/// Asks any node to cut or merge any shard, again and again. How often that has begun.
fn cut_and_merge(shared: &Shared, nodes: &[String]) -> u64 {
    shared.site.enter().expect("a namespace can be entered");
    let (mut random, mut begun) = (Random::new(mix(shared.seed ^ 77)), 0);
    while !shared.stop.load(Ordering::Relaxed) {
        sleep(SURGERY_EVERY);
        let asked = &nodes[random.below(nodes.len() as u64) as usize];
        let client = Http::new(asked).expect("an address").with_timeout(CONNECT_MAX);
        let Ok(known) = client.shards(Some("0")) else { continue };
        let known = known["shards"].as_array().expect("a list").iter();
        let ids: Vec<u64> = known.filter_map(|shard| shard["id"].as_u64()).collect();
        if ids.is_empty() {
            continue;
        }
        let id = ids[random.below(ids.len() as u64) as usize];
        // A node that cannot do it now refuses, and may be asked again.
        let asked = if ids.len() > SHARDS_MANY { client.merge(id) } else { client.split(id, None) };
        begun += u64::from(asked.is_ok());
    }
    begun
}

/// What breaks, one after the other.
fn break_all(cluster: &mut Cluster, load: &Load, seed: u64) {
    let say = |what: &str| eprintln!("{:>8.3} s: {what}", load.now());
    sleep(BETWEEN);
    for number in 1..=NODES {
        say(&format!("kill -9 of node {number}"));
        cluster.node(number).kill();
        sleep(LASTS / 2);
        cluster.restart(number);
        sleep(LASTS / 2 + BETWEEN / 2);
    }
    let one = seed as usize % NODES + 1;
    let next = one % NODES + 1;
    if root_or_skip("cutting a network") {
        say(&format!("node {one} and the others do not hear each other; its clients go on"));
        for other in (1..=NODES).filter(|other| *other != one) {
            cluster.net.silence(one, other);
            cluster.net.silence(other, one);
        }
        sleep(LASTS);
        cluster.net.heal();
        say("healed");
        sleep(BETWEEN);
        say(&format!("node {next} does not hear node {one}"));
        cluster.net.silence(one, next);
        sleep(LASTS);
        cluster.net.heal();
        say("healed");
        sleep(BETWEEN);
    }
    say(&format!("SIGSTOP of node {next}"));
    cluster.node(next).pause();
    sleep(Duration::from_secs(2));
    cluster.node(next).resume();
    sleep(BETWEEN);
    say("kill -9 of all");
    (1..=NODES).for_each(|number| cluster.node(number).kill());
    (1..=NODES).for_each(|number| cluster.node(number).start());
    cluster.wait_until_ready();
    sleep(LASTS / 2);
    say("all is over");
    cluster.wait_until_ready();
}

#[test]
fn transactions_are_atomic_and_serialisable_under_faults() {
    let seed = std::env::var("FAULTS_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    eprintln!("FAULTS_SEED={seed}");
    let mut cluster = started(Cluster::new(NODES));
    let address = cluster.resp()[0];
    let open =
        || Connection::open(address, TEST_TIMEOUT, TEST_TIMEOUT).expect("a node that is ready");
    let mut first = cluster.net.clients().inside(open);
    let all = (0..ACCOUNTS).flat_map(|number| [account(number), BALANCE.to_string()]);
    let all: Vec<String> = ["MSET".to_owned()].into_iter().chain(all).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(first.ask(&all).unwrap(), TextReply::Simple("OK".into()));

    let load = Load::start(&mut cluster, seed);
    break_all(&mut cluster, &load, seed);
    let shared = load.shared.clone();
    let (mut seen, surgeries) = load.finish();
    let last = thread::spawn(move || Client::new(CLIENTS, shared).end());
    let last = last.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    seen.add(last);

    for ((what, went), count) in &seen.counts {
        eprintln!("{count:>6} {what}: {went}");
        if let Some((sum, most)) = seen.took.get(what).filter(|_| *went == "committed") {
            eprintln!("       in {:.3?}, at most {most:.3?}", *sum / *count as u32);
        }
    }
    for (name, place) in [("bank", 0), ("lists", 1)] {
        let all: Vec<u64> = seen.each_second.values().map(|second| second[place]).collect();
        eprintln!("each second, {name}: {all:?}");
    }
    seen.slowest.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    eprintln!("slowest of the bank:");
    for (_, text) in seen.slowest.iter().take(SLOWEST_SHOWN) {
        eprintln!("  {text}");
    }
    let mut errors: Vec<_> = seen.errors.iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (why, count) in errors.into_iter().take(8) {
        eprintln!("{count:>6} {why}");
    }
    let committed = seen.committed();
    eprintln!("{committed} writing transactions committed, {surgeries} cuts and merges begun");
    let begun = Instant::now();
    seen.history.sort_by_key(|done| done.invoked_at);
    let anomalies = check(&seen.history);
    eprintln!("{} of lists checked in {:.3?}", seen.history.len(), begun.elapsed());
    if !anomalies.is_empty() {
        let mut text = String::new();
        seen.history.iter().enumerate().for_each(|(at, done)| {
            writeln!(text, "T{at} {done}").expect("a string takes all");
        });
        std::fs::write(cluster.dir().join("history.txt"), text).expect("the file can be written");
    }
    let said: Vec<String> = anomalies.iter().map(ToString::to_string).collect();
    assert!(anomalies.is_empty(), "history.txt has them all:\n{}", said.join("\n"));
    let sum = bank(BALANCE * ACCOUNTS as i64, &seen.sums).map(|anomaly| anomaly.to_string());
    assert_eq!(sum, None);
    assert!(committed >= COMMITTED_MIN, "too little happened: {committed} committed");
    assert!(surgeries > 0, "no shard was cut");
}
