//! Redis clients that send one request after the other, and record the answers.
//!
//! Each keeps to a node of its own, goes to the next one for a while when it cannot connect or when
//! an answer did not come, and then comes back: so the nodes always share the clients. An answer
//! that does not come in [`ANSWER_MAX`] is an unknown outcome; so is everything that breaks after
//! the first byte has left. Half of the counters are raised by transactions: read, watched, and set
//! to one more. They ask slowly: a history is searched for an order, and the search has a window.

pub mod history;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use harness::net::Host;
use harness::resp::{Connection, TextReply};
use harness::stalls::{StallRecorder, Stalls};
use history::{History, Key, Outcome, Record, RequestKind};

/// How long an answer may take.
pub const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How long a connection may take: within one network that is long.
const CONNECT_MAX: Duration = Duration::from_millis(300);
/// How long a client stays with another node than its own.
const AWAY: Duration = Duration::from_secs(1);
/// Clients for each node.
const CLIENTS_EACH: usize = 3;
/// What each waits before it asks again.
const PAUSE: Duration = Duration::from_millis(8);
/// Keys that are set and read; enough to touch every shard of a keyspace.
const REGISTERS: usize = 32;
/// Keys that are raised and read.
const COUNTERS: usize = 8;

/// Clients at work.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Vec<Record>>>,
    witness: Option<StallRecorder>,
}

struct Shared {
    site: Host,
    nodes: Vec<SocketAddr>,
    begun: Instant,
    stop: AtomicBool,
    values: AtomicU64,
}

impl Load {
    /// Sets clients to work on all nodes.
    pub fn start(cluster: &Cluster) -> Self {
        let shared = Arc::new(Shared {
            site: cluster.net.clients().clone(),
            nodes: cluster.resp(),
            begun: Instant::now(),
            stop: AtomicBool::new(false),
            values: AtomicU64::new(1),
        });
        let clients = 0..(CLIENTS_EACH * cluster.len()) as u16;
        let threads = clients.map(|number| {
            let shared = shared.clone();
            thread::spawn(move || Client::new(number, shared).run())
        });
        let witness = Some(StallRecorder::start(cluster.dir(), shared.begun));
        Self { threads: threads.collect(), witness, shared }
    }

    /// Time since it began, as histories count it.
    pub fn now(&self) -> Duration {
        self.shared.begun.elapsed()
    }

    /// Ends it, reads every key once through every node, and hands over what was seen, and when the
    /// machine stood still.
    pub fn finish(mut self) -> (History, Stalls) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let mut records: Vec<Record> =
            threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect();
        let shared = self.shared.clone();
        let last = thread::spawn(move || Client::new(u16::MAX, shared).read_all());
        records.extend(last.join().expect("the last client"));
        let stalls = self.witness.take().expect("the end comes once").finish();
        (History::new(records), stalls)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(witness) = self.witness.take() {
            let _stalls = witness.finish();
        }
        for thread in self.threads.drain(..) {
            // Somebody has failed already, or nobody wants to know.
            let _records = thread.join();
        }
    }
}

/// All keys, in a fixed order.
pub fn keys() -> impl Iterator<Item = Key> + Clone {
    (0..REGISTERS).map(Key::Register).chain((0..COUNTERS).map(Key::Counter))
}

struct Client {
    number: u16,
    shared: Arc<Shared>,
    node: usize,
    /// Since when it is not with its own node.
    away: Option<Instant>,
    connection: Option<Connection>,
    records: Vec<Record>,
}

impl Client {
    fn new(number: u16, shared: Arc<Shared>) -> Self {
        shared.site.enter().expect("a namespace can be entered");
        let node = usize::from(number) % shared.nodes.len();
        Self { number, shared, node, away: None, connection: None, records: Vec::new() }
    }

    fn run(mut self) -> Vec<Record> {
        let all: Vec<Key> = keys().collect();
        // Everybody goes through all keys, from a place of its own; with a step that meets all.
        let mut place = usize::from(self.number) * 7;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let key = all[place * 3 % all.len()];
            // Half of them read, and each of a key's turns differs from the one before.
            let asked = match (key, (place + place / all.len()).is_multiple_of(2)) {
                (_, true) => RequestKind::Read,
                (Key::Counter(_), false) => RequestKind::Increment,
                (Key::Register(_), false) => {
                    RequestKind::Set(self.shared.values.fetch_add(1, Ordering::Relaxed))
                }
            };
            self.ask(key, asked);
            place += 1;
            thread::sleep(PAUSE);
        }
        self.records
    }

    fn read_all(mut self) -> Vec<Record> {
        for node in 0..self.shared.nodes.len() {
            (self.node, self.away, self.connection) = (node, None, None);
            for key in keys() {
                self.ask(key, RequestKind::Read);
            }
        }
        self.records
    }

    fn ask(&mut self, key: Key, asked: RequestKind) {
        let (name, begun) = (key.name(), self.shared.begun);
        let Some(connection) = self.connected() else { return };
        let call = begun.elapsed();
        let reply = match asked {
            RequestKind::Read => connection.ask(&["GET", &name]),
            RequestKind::Set(value) => connection.ask(&["SET", &name, &value.to_string()]),
            RequestKind::Increment if key.is_raised_by_transactions() => raise(connection, &name),
            RequestKind::Increment => connection.ask(&["INCR", &name]),
        };
        let back = begun.elapsed();
        let outcome = outcome(reply);
        let (client, node) = (self.number, self.node + 1);
        let is_broken = matches!(&outcome, Outcome::Unknown(why) if !why.starts_with("UNKNOWN"));
        self.records.push(Record { client, node, call, back, key, asked, outcome });
        if is_broken {
            self.go_elsewhere();
        }
    }

    fn connected(&mut self) -> Option<&mut Connection> {
        if self.away.is_some_and(|since| since.elapsed() > AWAY) {
            (self.away, self.connection) = (None, None);
            self.node = usize::from(self.number) % self.shared.nodes.len();
        }
        if self.connection.is_none() {
            let address = self.shared.nodes[self.node];
            match Connection::open(address, CONNECT_MAX, ANSWER_MAX) {
                Ok(connection) => self.connection = Some(connection),
                Err(_) => {
                    self.go_elsewhere();
                    return None;
                }
            }
        }
        self.connection.as_mut()
    }

    fn go_elsewhere(&mut self) {
        self.connection = None;
        self.away.get_or_insert_with(Instant::now);
        self.node = (self.node + 1) % self.shared.nodes.len();
    }
}

/// Raises a counter as INCR does, by what was read of it: WATCH, GET, MULTI, SET, EXEC, and again
/// while others are first.
fn raise(connection: &mut Connection, name: &str) -> std::io::Result<TextReply> {
    let begun = Instant::now();
    loop {
        // What an earlier attempt has left.
        connection.ask(&["RESET"])?;
        if let refused @ TextReply::Error(_) = connection.ask(&["WATCH", name])? {
            return Ok(refused);
        }
        let next = match connection.ask(&["GET", name])? {
            TextReply::Nil => 1,
            TextReply::Bulk(text) => text.parse::<i64>().expect("a counter") + 1,
            refused => return Ok(refused),
        };
        connection.ask(&["MULTI"])?;
        connection.ask(&["SET", name, &next.to_string()])?;
        match connection.ask(&["EXEC"])? {
            TextReply::Many(_) => return Ok(TextReply::Int(next)),
            TextReply::Nil if begun.elapsed() < ANSWER_MAX => {}
            TextReply::Nil => return Ok(TextReply::Error("others were always first".to_owned())),
            refused => return Ok(refused),
        }
    }
}

/// What a reply says; an error says by itself which of the two kinds it is (SAFETY G10).
fn outcome(reply: std::io::Result<TextReply>) -> Outcome {
    match reply {
        Ok(TextReply::Simple(_)) => Outcome::Done,
        Ok(TextReply::Nil) => Outcome::Value(None),
        Ok(TextReply::Many(_)) => panic!("nobody asks for several"),
        Ok(TextReply::Int(number)) => Outcome::Value(Some(number as u64)),
        Ok(TextReply::Bulk(text)) => match text.parse() {
            Ok(number) => Outcome::Value(Some(number)),
            Err(_) => panic!("nobody has written {text:?}"),
        },
        Ok(TextReply::Error(why)) if why.starts_with("UNKNOWN") => Outcome::Unknown(why),
        Ok(TextReply::Error(why)) => Outcome::NotDone(why),
        Err(error) => Outcome::Unknown(error.kind().to_string()),
    }
}
