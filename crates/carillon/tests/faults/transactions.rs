//! Are transactions over several shards whole, and one after another, whatever breaks?
//!
//! Sixteen clients on all nodes ask without a break, while nodes are killed, cut off, half heard
//! and stopped, and shards are cut in two and merged:
//!
//! | clients | ask for | what must hold |
//! |---|---|---|
//! | bank | transfers between two of twenty accounts, by MULTI alone or after WATCH; reads of all | every whole read has the same sum |
//! | lists | APPEND of numbers and GET, one to four together, alone, or MGET | strictly serialisable ([`sim::check::serial`]) |
//!
//! When all is over nothing stays locked: every account can be written within [`UNLOCKED_MAX`].
//!
//! An answer says by itself what it leaves: nil that a watched key had changed, [`NOT_DONE`] that
//! nothing was done. What is answered UNKNOWN, or not at all after EXEC was sent, may be done.
//!
//! `FAULTS_SEED=7` chooses other clients, and which node is cut off. Takes 45 s at most.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use client::http::Client as Http;
use keyspace::random::{Random, mix};
use sim::check::serial::{Done, Op, Outcome, bank, check};

use crate::harness::node::HTTP;
use crate::harness::{Cluster, PATIENCE};
use crate::load::ANSWER_MAX;
use crate::load::resp::{Connection, Reply};
use crate::service::{NODES, started};
use testbed::net::{Site, can_cut};

/// Half of them are the bank's.
const CLIENTS: u64 = 16;
const ACCOUNTS: u64 = 20;
const LISTS: u64 = 12;
/// Of each account at first.
const BALANCE: i64 = 100;
/// What a client waits before it asks again: lists grow, and are read whole.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a client stays with another node than its own.
const AWAY: Duration = Duration::from_secs(1);
const CONNECT_MAX: Duration = Duration::from_millis(300);
/// Half of the clients wait so long: until the node itself says that it does not know.
const PATIENT: Duration = Duration::from_secs(8);
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
/// First words of errors after which nothing is done.
const NOT_DONE: [&str; 6] = ["BUSY", "TRYAGAIN", "LOADING", "MISCONF", "OOM", "CLUSTERDOWN"];
/// Unless `FAULTS_SEED` says otherwise.
const SEED: u64 = 1;

/// What became of something that was asked for.
enum Went {
    Done(Reply),
    /// A watched key had changed.
    Changed,
    NotDone(String),
    Unknown(String),
}

impl Went {
    fn of(reply: std::io::Result<Reply>) -> Self {
        match reply {
            Ok(Reply::Error(why)) if why.starts_with("UNKNOWN") => Went::Unknown(why),
            Ok(Reply::Error(why)) => {
                let word = why.split(' ').next().unwrap_or_default();
                assert!(NOT_DONE.contains(&word), "an error that nobody expects: {why}");
                Went::NotDone(why)
            }
            Ok(reply) => Went::Done(reply),
            Err(error) => Went::Unknown(error.kind().to_string()),
        }
    }

    /// The same, of what is no transaction until EXEC: what is lost before has not been done.
    fn before_exec(reply: std::io::Result<Reply>) -> Result<Reply, Self> {
        match Self::of(reply) {
            Went::Done(reply) => Ok(reply),
            Went::Unknown(why) => Err(Went::NotDone(why)),
            other => Err(other),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Went::Done(_) => "committed",
            Went::Changed => "nil",
            Went::NotDone(_) => "not done",
            Went::Unknown(_) => "unknown",
        }
    }
}

/// What a client has seen.
#[derive(Default)]
struct Seen {
    history: Vec<Done>,
    /// Whole reads of the accounts.
    sums: Vec<Vec<i64>>,
    /// How often what was asked for went how.
    counts: BTreeMap<(&'static str, &'static str), u64>,
    errors: BTreeMap<String, u64>,
    /// How long what was committed took, all together and at most.
    took: BTreeMap<&'static str, (Duration, Duration)>,
    /// How much was done in each second, by the bank's clients and by the others.
    each_second: BTreeMap<u64, [u64; 2]>,
    /// What the bank's clients have asked for, and how long each took.
    slowest: Vec<(Duration, String)>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.slowest.extend(other.slowest);
        self.history.extend(other.history);
        self.sums.extend(other.sums);
        other.counts.into_iter().for_each(|(what, n)| *self.counts.entry(what).or_default() += n);
        other.errors.into_iter().for_each(|(why, n)| *self.errors.entry(why).or_default() += n);
        for (what, (sum, most)) in other.took {
            let took = self.took.entry(what).or_default();
            *took = (took.0 + sum, took.1.max(most));
        }
        for (second, [bank, lists]) in other.each_second {
            let all = self.each_second.entry(second).or_default();
            *all = [all[0] + bank, all[1] + lists];
        }
    }

    fn committed(&self) -> u64 {
        let writes = ["transfer", "watched transfer", "transaction"];
        writes.iter().filter_map(|what| self.counts.get(&(*what, "committed"))).sum()
    }
}

struct Shared {
    site: Site,
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
        (all, self.surgeon.take().expect("it is ended once").join().expect("the surgeon"))
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
        // Whoever cannot now says so, and may be asked another time.
        let asked = if ids.len() > SHARDS_MANY { client.merge(id) } else { client.split(id, None) };
        begun += u64::from(asked.is_ok());
    }
    begun
}

struct Client {
    number: u64,
    shared: Arc<Shared>,
    random: Random,
    node: usize,
    /// Since when it is not with its own node.
    away: Option<Instant>,
    connection: Option<Connection>,
    seen: Seen,
}

impl Client {
    fn new(number: u64, shared: Arc<Shared>) -> Self {
        shared.site.enter().expect("a namespace can be entered");
        let random = Random::new(mix(shared.seed.rotate_left(32) ^ number));
        let node = number as usize % shared.nodes.len();
        let (connection, seen) = (None, Seen::default());
        Self { number, shared, random, node, away: None, connection, seen }
    }

    fn run(mut self) -> Seen {
        while !self.shared.stop.load(Ordering::Relaxed) {
            if self.is_connected() {
                match self.number.is_multiple_of(2) {
                    true => self.bank(),
                    false => self.lists(),
                }
            }
            sleep(PAUSE);
        }
        self.seen
    }

    fn is_connected(&mut self) -> bool {
        if self.away.is_some_and(|since| since.elapsed() > AWAY) {
            (self.away, self.connection) = (None, None);
            self.node = self.number as usize % self.shared.nodes.len();
        }
        if self.connection.is_none() {
            let address = self.shared.nodes[self.node];
            let answer_max = if self.number % 4 < 2 { ANSWER_MAX } else { PATIENT };
            match Connection::open(address, CONNECT_MAX, answer_max) {
                Ok(connection) => self.connection = Some(connection),
                Err(_) => self.go_elsewhere(),
            }
        }
        self.connection.is_some()
    }

    fn go_elsewhere(&mut self) {
        self.connection = None;
        self.away.get_or_insert_with(Instant::now);
        self.node = (self.node + 1) % self.shared.nodes.len();
    }

    fn now(&self) -> u64 {
        self.shared.begun.elapsed().as_nanos() as u64
    }

    fn ask(&mut self, words: &[&str]) -> std::io::Result<Reply> {
        let connection = self.connection.as_mut();
        let reply = connection.ok_or(std::io::ErrorKind::NotConnected)?.ask(words);
        if reply.is_err() {
            self.go_elsewhere();
        }
        reply
    }

    /// MULTI, the commands, EXEC.
    fn exec(&mut self, commands: &[Vec<String>]) -> Went {
        match self.queue(commands) {
            Err(why) => {
                // What is queued or watched is let go with the connection.
                self.connection = None;
                why
            }
            Ok(()) => match Went::of(self.ask(&["EXEC"])) {
                Went::Done(Reply::Nil) => Went::Changed,
                Went::Done(Reply::Many(answers)) => {
                    assert_eq!(answers.len(), commands.len(), "{commands:?}: {answers:?}");
                    Went::Done(Reply::Many(answers))
                }
                Went::Done(other) => panic!("EXEC of {commands:?} was answered {other:?}"),
                other => other,
            },
        }
    }

    fn queue(&mut self, commands: &[Vec<String>]) -> Result<(), Went> {
        Went::before_exec(self.ask(&["MULTI"]))?;
        for words in commands {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let answer = Went::before_exec(self.ask(&words))?;
            assert_eq!(answer, Reply::Simple("QUEUED".into()), "{words:?}");
        }
        Ok(())
    }

    fn count(&mut self, what: &'static str, at: u64, went: &Went) {
        *self.seen.counts.entry((what, went.name())).or_default() += 1;
        if self.number.is_multiple_of(2) {
            let (from, until) = (Duration::from_nanos(at), Duration::from_nanos(self.now()));
            let (client, node, name) = (self.number, self.node + 1, went.name());
            let text = format!(
                "client {client} at node {node}, {from:.3?} to {until:.3?}: {what}, {name}"
            );
            self.seen.slowest.push((until - from, text));
        }
        if let Went::Done(_) = went {
            let took = Duration::from_nanos(self.now() - at);
            let (sum, most) = self.seen.took.entry(what).or_default();
            (*sum, *most) = (*sum + took, took.max(*most));
            let second = self.shared.begun.elapsed().as_secs();
            self.seen.each_second.entry(second).or_default()[self.number as usize % 2] += 1;
        }
        if let Went::NotDone(why) | Went::Unknown(why) = went {
            *self.seen.errors.entry(format!("{}: {why}", went.name())).or_default() += 1;
        }
    }

    fn bank(&mut self) {
        let (from, by) = (self.random.below(ACCOUNTS), 1 + self.random.below(ACCOUNTS - 1));
        let (from, to) = (account(from), account((from + by) % ACCOUNTS));
        let amount = 1 + self.random.below(9) as i64;
        let at = self.now();
        let (what, went) = match self.random.below(3) {
            0 => {
                let take = words(&["INCRBY", &from, &(-amount).to_string()]);
                let give = words(&["INCRBY", &to, &amount.to_string()]);
                ("transfer", self.exec(&[take, give]))
            }
            1 => {
                let went = self.watched_transfer(&from, &to, amount);
                ("watched transfer", went.unwrap_or_else(|why| why))
            }
            _ => return self.whole_read(),
        };
        self.count(what, at, &went);
    }

    fn watched_transfer(&mut self, from: &str, to: &str, amount: i64) -> Result<Went, Went> {
        // What an earlier one has left.
        Went::before_exec(self.ask(&["RESET"]))?;
        Went::before_exec(self.ask(&["WATCH", from, to]))?;
        let had = Went::before_exec(self.ask(&["MGET", from, to]))?;
        let [had_from, had_to] = balances(&had)[..] else { panic!("two were asked for: {had:?}") };
        let set = |name: &str, balance: i64| words(&["SET", name, &balance.to_string()]);
        Ok(self.exec(&[set(from, had_from - amount), set(to, had_to + amount)]))
    }

    /// Of all accounts, in either way.
    fn whole_read(&mut self) {
        let all: Vec<String> = (0..ACCOUNTS).map(account).collect();
        let at = self.now();
        let (what, went) = match self.random.below(2) {
            0 => {
                let mget: Vec<&str> =
                    ["MGET"].into_iter().chain(all.iter().map(|s| &**s)).collect();
                ("whole MGET", Went::of(self.ask(&mget)))
            }
            _ => {
                let gets: Vec<_> = all.iter().map(|name| words(&["GET", name])).collect();
                ("whole EXEC", self.exec(&gets))
            }
        };
        self.count(what, at, &went);
        if let Went::Done(reply) = went {
            self.seen.sums.push(balances(&reply));
        }
    }

    fn lists(&mut self) {
        match self.random.below(8) {
            0 => {
                let op = self.append();
                self.alone(op);
            }
            1 => {
                let key = list(self.random.below(LISTS)).into_bytes();
                self.alone(Op::Read { key, list: None });
            }
            2 | 3 => {
                let (first, count) = (self.random.below(LISTS), 2 + self.random.below(3));
                self.mget((0..count).map(|n| list((first + 5 * n) % LISTS)).collect());
            }
            _ => {
                let count = 1 + self.random.below(4);
                let ops = (0..count).map(|_| match self.random.below(2) {
                    0 => self.append(),
                    _ => {
                        let key = list(self.random.below(LISTS)).into_bytes();
                        Op::Read { key, list: None }
                    }
                });
                let ops = ops.collect();
                self.transaction(ops);
            }
        }
    }

    fn append(&mut self) -> Op {
        let key = list(self.random.below(LISTS)).into_bytes();
        Op::Append { key, element: self.shared.elements.fetch_add(1, Ordering::Relaxed) }
    }

    fn transaction(&mut self, ops: Vec<Op>) -> bool {
        let commands: Vec<_> = ops.iter().map(command).collect();
        let at = self.now();
        let went = self.exec(&commands);
        self.record("transaction", at, ops, went)
    }

    /// One command, outside of transactions.
    fn alone(&mut self, op: Op) -> bool {
        let command = command(&op);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let at = self.now();
        let went = match Went::of(self.ask(&words)) {
            Went::Done(reply) => Went::Done(Reply::Many(vec![reply])),
            other => other,
        };
        self.record("alone", at, vec![op], went)
    }

    fn mget(&mut self, names: Vec<String>) -> bool {
        let words: Vec<&str> = ["MGET"].into_iter().chain(names.iter().map(|n| &**n)).collect();
        let at = self.now();
        let went = Went::of(self.ask(&words));
        let read = |name: String| Op::Read { key: name.into_bytes(), list: None };
        self.record("MGET of lists", at, names.into_iter().map(read).collect(), went)
    }

    /// Whether it was committed.
    fn record(&mut self, what: &'static str, at: u64, mut ops: Vec<Op>, went: Went) -> bool {
        self.count(what, at, &went);
        let outcome = match went {
            Went::Done(Reply::Many(answers)) => {
                for (op, answer) in ops.iter_mut().zip(answers) {
                    match (op, answer) {
                        (Op::Append { .. }, Reply::Int(_)) => {}
                        (Op::Read { list, .. }, Reply::Nil) => *list = Some(Vec::new()),
                        (Op::Read { list, .. }, Reply::Bulk(text)) => {
                            let number = |word: &str| word.parse().expect("numbers are appended");
                            *list = Some(text.split_terminator(' ').map(number).collect());
                        }
                        (op, answer) => panic!("{op} was answered {answer:?}"),
                    }
                }
                Outcome::Committed { answered_at: self.now() }
            }
            Went::Done(other) => panic!("{what} was answered {other:?}"),
            Went::Changed => panic!("nothing was watched"),
            Went::NotDone(_) => Outcome::NotDone,
            Went::Unknown(_) => Outcome::Unknown,
        };
        let is_committed = matches!(outcome, Outcome::Committed { .. });
        self.seen.history.push(Done { client: self.number, invoked_at: at, outcome, ops });
        is_committed
    }

    /// Every account is written, every list appended to, and all is read through every node.
    fn end(mut self) -> Seen {
        let begun = Instant::now();
        for number in 0..ACCOUNTS + LISTS {
            let mut is_written = false;
            while !is_written {
                let name =
                    if number < ACCOUNTS { account(number) } else { list(number - ACCOUNTS) };
                assert!(
                    begun.elapsed() < UNLOCKED_MAX,
                    "{name} cannot be written: it stays locked"
                );
                is_written = self.is_connected()
                    && match number < ACCOUNTS {
                        true => matches!(self.ask(&["INCRBY", &name, "0"]), Ok(Reply::Int(_))),
                        false => {
                            let element = self.shared.elements.fetch_add(1, Ordering::Relaxed);
                            self.alone(Op::Append { key: name.into_bytes(), element })
                        }
                    };
            }
        }
        eprintln!("every key was written within {:.3?}", begun.elapsed());
        for node in 0..self.shared.nodes.len() {
            (self.node, self.away, self.connection) = (node, None, None);
            let reads = self.seen.sums.len() + 4;
            let mut lists_left: Vec<u64> = (0..LISTS).collect();
            while self.seen.sums.len() < reads || !lists_left.is_empty() {
                assert!(begun.elapsed() < PATIENCE, "node {} cannot read", node + 1);
                if self.is_connected() {
                    self.whole_read();
                    lists_left.retain(|number| {
                        let key = list(*number).into_bytes();
                        !self.alone(Op::Read { key, list: None })
                    });
                }
            }
            self.mget((0..LISTS).map(list).collect());
        }
        self.seen
    }
}

fn account(number: u64) -> String {
    format!("account-{number}")
}

fn list(number: u64) -> String {
    format!("list-{number}")
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

fn command(op: &Op) -> Vec<String> {
    let name = |key: &[u8]| String::from_utf8(key.to_vec()).expect("it was a string");
    match op {
        Op::Append { key, element } => words(&["APPEND", &name(key), &format!("{element} ")]),
        Op::Read { key, .. } => words(&["GET", &name(key)]),
    }
}

fn balances(reply: &Reply) -> Vec<i64> {
    let Reply::Many(all) = reply else { panic!("balances were asked for: {reply:?}") };
    let balance = |one: &Reply| match one {
        Reply::Bulk(text) => text.parse().expect("a balance"),
        other => panic!("a balance was asked for: {other:?} in {all:?}"),
    };
    all.iter().map(balance).collect()
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
    if can_cut() {
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
fn transactions_are_whole_and_one_after_another() {
    let seed = std::env::var("FAULTS_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    eprintln!("FAULTS_SEED={seed}");
    let mut cluster = started(Cluster::new(NODES));
    let address = cluster.resp()[0];
    let open = || Connection::open(address, PATIENCE, PATIENCE).expect("a node that is ready");
    let mut first = cluster.net.clients().inside(open);
    let all = (0..ACCOUNTS).flat_map(|number| [account(number), BALANCE.to_string()]);
    let all: Vec<String> = ["MSET".to_owned()].into_iter().chain(all).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(first.ask(&all).unwrap(), Reply::Simple("OK".into()));

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
        std::fs::write(cluster.dir().join("history.txt"), text).expect("it can be written");
    }
    let said: Vec<String> = anomalies.iter().map(ToString::to_string).collect();
    assert!(anomalies.is_empty(), "history.txt has them all:\n{}", said.join("\n"));
    let sum = bank(BALANCE * ACCOUNTS as i64, &seen.sums).map(|anomaly| anomaly.to_string());
    assert_eq!(sum, None);
    assert!(committed >= COMMITTED_MIN, "too little happened: {committed} committed");
    assert!(surgeries > 0, "no shard was cut");
}
