//! Sampled transactions of a real cluster: a viewer of all nodes sees how each of them ends,
//! however few samples it wants, whichever node coordinates it, and also if that node is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::cluster::Cluster;
use harness::events::{Event, Events, Next};
use harness::node::{Node, TEST_TIMEOUT};
use harness::resp::Connection;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

/// What a dead coordinator has locked is free after so long: others find it within 1.3 s of the
/// loss, once its shards have leaders again. This machine may have other things to do.
const LOCKS_GO_MAX: Duration = Duration::from_secs(20);
/// A coordinator that is killed takes its last steps with it: its node sends some 20 times a second
/// what it has told.
const UNSENT_MAX_MS: u64 = 2_000;

/// What a viewer knows of a transaction.
#[derive(Debug, Default)]
struct Seen {
    /// The node that began it.
    coordinator: String,
    phases: Vec<String>,
    /// Shards that have locked its keys, and not given them up.
    held: BTreeSet<u64>,
    /// The shard that commits as it votes, and locks nothing, if they are asked in order.
    commits: Option<u64>,
    is_in_order: bool,
    /// When its last step was taken.
    last_ms: u64,
}

#[derive(Default)]
struct Transactions(BTreeMap<String, Seen>);

impl Transactions {
    fn take(&mut self, event: &Event) {
        if event.name() != "transaction" {
            return;
        }
        let shards = event.json["shards"].as_array().into_iter().flatten();
        let shards: Vec<u64> = shards.filter_map(serde_json::Value::as_u64).collect();
        let (phase, node) = (event.text("phase"), event.text("node"));
        let seen = self.0.entry(event.text("txn").to_owned()).or_default();
        if seen.phases.is_empty() {
            seen.coordinator = node.to_owned();
        }
        seen.phases.push(phase.to_owned());
        seen.last_ms = seen.last_ms.max(event.json["at_ms"].as_u64().unwrap_or(0));
        match phase {
            "prepare" => {
                seen.is_in_order |= event.json["in_order"] == true;
                seen.commits = shards.last().copied().filter(|_| event.json["in_order"] == true);
            }
            "voted" => {
                let locked = shards.iter().filter(|shard| Some(**shard) != seen.commits);
                seen.held.extend(locked);
            }
            "resolve" => seen.held.retain(|shard| !shards.contains(shard)),
            "finished" => seen.held.clear(),
            _ => {}
        }
    }

    /// Reads on until no lock is held that was seen.
    #[track_caller]
    fn settle(&mut self, events: &mut Events) {
        let until = Instant::now() + TEST_TIMEOUT;
        while self.0.values().any(|seen| !seen.held.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            match events.next_within(left) {
                Next::Event(event) => self.take(&event),
                other => {
                    let held = self.0.iter().filter(|(_, seen)| !seen.held.is_empty());
                    panic!("{other:?}; locks seem to be held by {:#?}", held.collect::<Vec<_>>());
                }
            }
        }
    }

    fn count(&self, is_it: impl Fn(&Seen) -> bool) -> usize {
        self.0.values().filter(|seen| is_it(seen)).count()
    }
}

/// Keys of many shards, a client's own, written at a time.
fn line_of(client: usize) -> String {
    let keys: Vec<String> = (0..12).map(|n| format!("{client}-{n} v")).collect();
    format!("MSET {}", keys.join(" "))
}

/// Writes them until it is to end or the node has.
fn write(mut connection: Connection, client: usize, is_over: &AtomicBool) {
    let line = line_of(client);
    while !is_over.load(Ordering::Relaxed) && connection.ask_line(&line).is_ok() {}
}

/// Ends the clients also when the test fails: their scope waits for them.
struct EndsClients<'a>(&'a AtomicBool);

impl Drop for EndsClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes through another node what the clients of a killed one have written: that takes the locks
/// of all these keys, so none of the dead coordinator's is left.
#[track_caller]
fn assert_locks_go(node: &Node, clients: usize) {
    let until = Instant::now() + LOCKS_GO_MAX;
    let mut connection = node.connect();
    for client in 0..clients {
        loop {
            let reply = connection.ask_line(&line_of(client)).expect("the node lives").line();
            if reply == "+OK" {
                break;
            }
            assert!(Instant::now() < until, "keys of client {client} stay locked: {reply}");
            thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(Instant::now() < until, "locks went too late");
}

/// Reads on until all that others take over is seen to end; and what is not taken over was told of
/// until just before the kill, and so had ended, or told its last steps to nobody.
#[track_caller]
fn assert_taken_over(events: &mut Events, seen: &mut Transactions, killed_ms: u64) {
    let has = |one: &Seen, phase: &str| one.phases.iter().any(|found| found == phase);
    let until = Instant::now() + TEST_TIMEOUT;
    while seen.count(|one| has(one, "recover") && !has(one, "finished")) > 0 {
        match events.next_within(until.saturating_duration_since(Instant::now())) {
            Next::Event(event) => seen.take(&event),
            other => panic!("{other:?}: {:#?}", seen.0),
        }
    }
    let is_lost = |one: &Seen| {
        !one.held.is_empty() && !has(one, "recover") && one.last_ms + UNSENT_MAX_MS < killed_ms
    };
    let lost: Vec<_> = seen.0.iter().filter(|(_, one)| is_lost(one)).collect();
    assert!(lost.is_empty(), "nobody finishes these, killed at {killed_ms}: {lost:#?}");
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
    since.as_millis() as u64
}

/// A viewer of all nodes, who has heard of all three.
fn watch(node: &Node, samples: u32) -> Events {
    let query = format!("scope=cluster&types=transaction&samples={samples}");
    let mut events = Events::open(node.http, &query, None).expect("a stream");
    for _ in 0..3 {
        events.until(TEST_TIMEOUT, "node that streams", |event| {
            event.name() == "node" && event.text("state") == "streaming"
        });
    }
    events
}

/// Reads until so many transactions were seen of each of these nodes.
fn read_until(events: &mut Events, seen: &mut Transactions, coordinators: &[String], each: usize) {
    let until = Instant::now() + TEST_TIMEOUT;
    let has_all = |seen: &Transactions| {
        coordinators.iter().all(|id| seen.count(|one| one.coordinator == *id) >= each)
    };
    while !has_all(seen) {
        match events.next_within(until.saturating_duration_since(Instant::now())) {
            Next::Event(event) => seen.take(&event),
            other => panic!("{other:?} after {} transactions", seen.0.len()),
        }
    }
}

fn id_of(node: &Node) -> String {
    node.status().expect("it runs")["node_id"].as_str().expect("an id").to_owned()
}

#[test]
fn few_samples_show_whole_transactions_of_all_coordinators() {
    let cluster = Cluster::start(PROGRAM, "sampled_whole", 3, &[], &["0"]);
    let ids: Vec<String> = cluster.nodes.iter().map(id_of).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (client, node) in cluster.nodes.iter().enumerate() {
            let (connection, is_over) = (node.connect(), &is_over);
            scope.spawn(move || write(connection, client, is_over));
        }
        let ends = EndsClients(&is_over);
        // Each step would be more than a viewer of so few could get.
        let mut events = watch(&cluster.nodes[0], 3);
        let mut seen = Transactions::default();
        read_until(&mut events, &mut seen, &ids, 1);
        drop(ends);
        seen.settle(&mut events);
        let ended = |one: &Seen| one.phases.iter().any(|phase| phase == "finished");
        let begun = |one: &Seen| one.phases.iter().any(|phase| phase == "prepare");
        // Their last steps come; nothing more is begun.
        let until = Instant::now() + TEST_TIMEOUT;
        while seen.count(|one| !ended(one)) > 0 {
            match events.next_within(until.saturating_duration_since(Instant::now())) {
                Next::Event(event) => seen.take(&event),
                other => panic!("{other:?}: {:#?}", seen.0),
            }
        }
        assert_eq!(seen.count(|one| !begun(one)), 0, "each is seen from its beginning");
        assert!(seen.count(|one| one.phases.iter().any(|phase| phase == "committed")) > 0);
    });
}

#[test]
fn what_others_finish_of_a_killed_coordinator_is_seen_to_end() {
    // What a node has not told yet when it is killed nobody has seen from its beginning.
    let is_seen = (0..8).any(|_| is_seen_from_its_beginning_when_killed());
    assert!(is_seen, "others take over what was seen from its beginning");
}

/// Kills a coordinator, and sees others finish what it has left; whether they took over something
/// that was seen before.
fn is_seen_from_its_beginning_when_killed() -> bool {
    let mut cluster = Cluster::start(PROGRAM, "sampled_killed", 3, &[], &["0"]);
    let ids: Vec<String> = cluster.nodes.iter().map(id_of).collect();
    let mut events = watch(&cluster.nodes[0], 1000);
    let (mut seen, is_over) = (Transactions::default(), AtomicBool::new(false));
    let mut killed_ms = 0;
    thread::scope(|scope| {
        for client in 0..8 {
            let (connection, is_over) = (cluster.nodes[2].connect(), &is_over);
            scope.spawn(move || write(connection, client, is_over));
        }
        let _ends = EndsClients(&is_over);
        read_until(&mut events, &mut seen, &ids[2..], 20);
        // The clients end with their connections.
        killed_ms = now_ms();
        cluster.nodes[2].kill();
    });
    assert_locks_go(&cluster.nodes[0], 8);
    // What it has told has come; then others find what it has left.
    let until = Instant::now() + TEST_TIMEOUT;
    while seen.count(|one| one.phases.iter().any(|phase| phase == "recover")) == 0 {
        match events.next_within(until.saturating_duration_since(Instant::now())) {
            Next::Event(event) => seen.take(&event),
            other => panic!("{other:?}: nobody has found what it left"),
        }
    }
    events.all_within(Duration::from_secs(2)).iter().for_each(|event| seen.take(event));
    assert_taken_over(&mut events, &mut seen, killed_ms);
    let has = |one: &Seen, phase: &str| one.phases.iter().any(|found| found == phase);
    let is_whole =
        |one: &Seen| one.coordinator == ids[2] && has(one, "prepare") && has(one, "recover");
    seen.count(is_whole) > 0
}

/// Many clients of one coordinator write the same keys: it asks shards one after the other. So it
/// is killed between two of them, and all shards that it has asked by then find that out.
#[test]
fn locks_of_a_coordinator_that_is_killed_between_prepares_in_order_go() {
    let mut cluster = Cluster::start(PROGRAM, "sampled_in_order", 3, &[], &["0"]);
    let ids: Vec<String> = cluster.nodes.iter().map(id_of).collect();
    let mut events = watch(&cluster.nodes[0], 1000);
    let (mut seen, is_over) = (Transactions::default(), AtomicBool::new(false));
    let mut killed_ms = 0;
    thread::scope(|scope| {
        for _ in 0..8 {
            let (connection, is_over) = (cluster.nodes[2].connect(), &is_over);
            scope.spawn(move || write(connection, 0, is_over));
        }
        let _ends = EndsClients(&is_over);
        let until = Instant::now() + TEST_TIMEOUT;
        while seen.count(|one| one.is_in_order && one.coordinator == ids[2]) < 20 {
            match events.next_within(until.saturating_duration_since(Instant::now())) {
                Next::Event(event) => seen.take(&event),
                other => panic!("{other:?}: none was asked in order"),
            }
        }
        killed_ms = now_ms();
        cluster.nodes[2].kill();
    });
    assert_locks_go(&cluster.nodes[0], 1);
    // What it has told has come by then, and what others find.
    events.all_within(Duration::from_secs(3)).iter().for_each(|event| seen.take(event));
    assert_taken_over(&mut events, &mut seen, killed_ms);
}
