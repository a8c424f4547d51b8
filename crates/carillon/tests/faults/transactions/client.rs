//! A client of the bank, or of lists: its requests, and its records of the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use keyspace::random::{Random, mix};
use sim::check::serial::{ObservedTxn, Op, Outcome};

use super::{ACCOUNTS, CONNECT_MAX, LISTS, Shared, UNLOCKED_MAX};
use crate::cluster::TEST_TIMEOUT;
use crate::load::ANSWER_MAX;
use harness::resp::{Connection, TextReply};

/// What a client waits before it asks again: lists grow, and are read whole.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a client stays with another node than its own.
const AWAY: Duration = Duration::from_secs(1);
/// Half of the clients wait so long: until the node itself says that it does not know.
const LONG_TIMEOUT: Duration = Duration::from_secs(8);
/// First words of errors after which nothing is done.
const NOT_DONE: [&str; 6] = ["BUSY", "TRYAGAIN", "LOADING", "MISCONF", "OOM", "CLUSTERDOWN"];

/// What became of something that was asked for.
enum RequestOutcome {
    Done(TextReply),
    /// A watched key had changed.
    Changed,
    NotDone(String),
    Unknown(String),
}

impl RequestOutcome {
    fn of(reply: std::io::Result<TextReply>) -> Self {
        match reply {
            Ok(TextReply::Error(why)) if why.starts_with("UNKNOWN") => RequestOutcome::Unknown(why),
            Ok(TextReply::Error(why)) => {
                let word = why.split(' ').next().unwrap_or_default();
                assert!(NOT_DONE.contains(&word), "an error that nobody expects: {why}");
                RequestOutcome::NotDone(why)
            }
            Ok(reply) => RequestOutcome::Done(reply),
            Err(error) => RequestOutcome::Unknown(error.kind().to_string()),
        }
    }

    /// The same, of what is no transaction until EXEC: what is lost before has not been done.
    fn before_exec(reply: std::io::Result<TextReply>) -> Result<TextReply, Self> {
        match Self::of(reply) {
            RequestOutcome::Done(reply) => Ok(reply),
            RequestOutcome::Unknown(why) => Err(RequestOutcome::NotDone(why)),
            other => Err(other),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            RequestOutcome::Done(_) => "committed",
            RequestOutcome::Changed => "nil",
            RequestOutcome::NotDone(_) => "not done",
            RequestOutcome::Unknown(_) => "unknown",
        }
    }
}

/// What a client has seen.
#[derive(Default)]
pub struct Seen {
    /// Of lists.
    pub history: Vec<ObservedTxn>,
    /// Whole reads of the accounts.
    pub sums: Vec<Vec<i64>>,
    /// How often what was asked for went how.
    pub counts: BTreeMap<(&'static str, &'static str), u64>,
    /// How often each came.
    pub errors: BTreeMap<String, u64>,
    /// How long what was committed took, all together and at most.
    pub took: BTreeMap<&'static str, (Duration, Duration)>,
    /// How much was done in each second, by the bank's clients and by the others.
    pub each_second: BTreeMap<u64, [u64; 2]>,
    /// What the bank's clients have asked for, and how long each took.
    pub slowest: Vec<(Duration, String)>,
}

impl Seen {
    /// With what another has seen.
    pub fn add(&mut self, other: Self) {
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

    /// How many transactions were done that may write.
    pub fn committed(&self) -> u64 {
        let writes = ["transfer", "watched transfer", "transaction"];
        writes.iter().filter_map(|what| self.counts.get(&(*what, "committed"))).sum()
    }
}

/// See the front page.
pub struct Client {
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
    /// One that is not connected yet. Moves the calling thread to where clients are.
    pub fn new(number: u64, shared: Arc<Shared>) -> Self {
        shared.site.enter().expect("a namespace can be entered");
        let random = Random::new(mix(shared.seed.rotate_left(32) ^ number));
        let node = number as usize % shared.nodes.len();
        let (connection, seen) = (None, Seen::default());
        Self { number, shared, random, node, away: None, connection, seen }
    }

    /// Asks until it is told to stop.
    pub fn run(mut self) -> Seen {
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
            let answer_max = if self.number % 4 < 2 { ANSWER_MAX } else { LONG_TIMEOUT };
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

    fn ask(&mut self, words: &[&str]) -> std::io::Result<TextReply> {
        let connection = self.connection.as_mut();
        let reply = connection.ok_or(std::io::ErrorKind::NotConnected)?.ask(words);
        if reply.is_err() {
            self.go_elsewhere();
        }
        reply
    }

    /// MULTI, the commands, EXEC.
    fn exec(&mut self, commands: &[Vec<String>]) -> RequestOutcome {
        match self.queue(commands) {
            Err(why) => {
                // What is queued or watched is let go with the connection.
                self.connection = None;
                why
            }
            Ok(()) => match RequestOutcome::of(self.ask(&["EXEC"])) {
                RequestOutcome::Done(TextReply::Nil) => RequestOutcome::Changed,
                RequestOutcome::Done(TextReply::Many(answers)) => {
                    assert_eq!(answers.len(), commands.len(), "{commands:?}: {answers:?}");
                    RequestOutcome::Done(TextReply::Many(answers))
                }
                RequestOutcome::Done(other) => {
                    panic!("EXEC of {commands:?} was answered {other:?}")
                }
                other => other,
            },
        }
    }

    fn queue(&mut self, commands: &[Vec<String>]) -> Result<(), RequestOutcome> {
        RequestOutcome::before_exec(self.ask(&["MULTI"]))?;
        for words in commands {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let answer = RequestOutcome::before_exec(self.ask(&words))?;
            assert_eq!(answer, TextReply::Simple("QUEUED".into()), "{words:?}");
        }
        Ok(())
    }

    fn count(&mut self, what: &'static str, at: u64, went: &RequestOutcome) {
        *self.seen.counts.entry((what, went.name())).or_default() += 1;
        if self.number.is_multiple_of(2) {
            let (from, until) = (Duration::from_nanos(at), Duration::from_nanos(self.now()));
            let (client, node, name) = (self.number, self.node + 1, went.name());
            let text = format!(
                "client {client} at node {node}, {from:.3?} to {until:.3?}: {what}, {name}"
            );
            self.seen.slowest.push((until - from, text));
        }
        if let RequestOutcome::Done(_) = went {
            let took = Duration::from_nanos(self.now() - at);
            let (sum, most) = self.seen.took.entry(what).or_default();
            (*sum, *most) = (*sum + took, took.max(*most));
            let second = self.shared.begun.elapsed().as_secs();
            self.seen.each_second.entry(second).or_default()[self.number as usize % 2] += 1;
        }
        if let RequestOutcome::NotDone(why) | RequestOutcome::Unknown(why) = went {
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

    fn watched_transfer(
        &mut self,
        from: &str,
        to: &str,
        amount: i64,
    ) -> Result<RequestOutcome, RequestOutcome> {
        // What an earlier one has left.
        RequestOutcome::before_exec(self.ask(&["RESET"]))?;
        RequestOutcome::before_exec(self.ask(&["WATCH", from, to]))?;
        let had = RequestOutcome::before_exec(self.ask(&["MGET", from, to]))?;
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
                ("whole MGET", RequestOutcome::of(self.ask(&mget)))
            }
            _ => {
                let gets: Vec<_> = all.iter().map(|name| words(&["GET", name])).collect();
                ("whole EXEC", self.exec(&gets))
            }
        };
        self.count(what, at, &went);
        if let RequestOutcome::Done(reply) = went {
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
        let went = match RequestOutcome::of(self.ask(&words)) {
            RequestOutcome::Done(reply) => RequestOutcome::Done(TextReply::Many(vec![reply])),
            other => other,
        };
        self.record("alone", at, vec![op], went)
    }

    fn mget(&mut self, names: Vec<String>) -> bool {
        let words: Vec<&str> = ["MGET"].into_iter().chain(names.iter().map(|n| &**n)).collect();
        let at = self.now();
        let went = RequestOutcome::of(self.ask(&words));
        let read = |name: String| Op::Read { key: name.into_bytes(), list: None };
        self.record("MGET of lists", at, names.into_iter().map(read).collect(), went)
    }

    /// Whether it was committed.
    fn record(
        &mut self,
        what: &'static str,
        at: u64,
        mut ops: Vec<Op>,
        went: RequestOutcome,
    ) -> bool {
        self.count(what, at, &went);
        let outcome = match went {
            RequestOutcome::Done(TextReply::Many(answers)) => {
                for (op, answer) in ops.iter_mut().zip(answers) {
                    match (op, answer) {
                        (Op::Append { .. }, TextReply::Int(_)) => {}
                        (Op::Read { list, .. }, TextReply::Nil) => *list = Some(Vec::new()),
                        (Op::Read { list, .. }, TextReply::Bulk(text)) => {
                            let number = |word: &str| word.parse().expect("numbers are appended");
                            *list = Some(text.split_terminator(' ').map(number).collect());
                        }
                        (op, answer) => panic!("{op} was answered {answer:?}"),
                    }
                }
                Outcome::Committed { answered_at: self.now() }
            }
            RequestOutcome::Done(other) => panic!("{what} was answered {other:?}"),
            RequestOutcome::Changed => panic!("nothing was watched"),
            RequestOutcome::NotDone(_) => Outcome::NotDone,
            RequestOutcome::Unknown(_) => Outcome::Unknown,
        };
        let is_committed = matches!(outcome, Outcome::Committed { .. });
        self.seen.history.push(ObservedTxn { client: self.number, invoked_at: at, outcome, ops });
        is_committed
    }

    /// Every account is written, every list appended to, and all is read through every node.
    pub fn end(mut self) -> Seen {
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
                        true => matches!(self.ask(&["INCRBY", &name, "0"]), Ok(TextReply::Int(_))),
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
                assert!(begun.elapsed() < TEST_TIMEOUT, "node {} cannot read", node + 1);
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

/// The name of an account.
pub fn account(number: u64) -> String {
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

fn balances(reply: &TextReply) -> Vec<i64> {
    let TextReply::Many(all) = reply else { panic!("balances were asked for: {reply:?}") };
    let balance = |one: &TextReply| match one {
        TextReply::Bulk(text) => text.parse().expect("a balance"),
        other => panic!("a balance was asked for: {other:?} in {all:?}"),
    };
    all.iter().map(balance).collect()
}
