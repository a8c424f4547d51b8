//! One client of the load, or a reader: what it asks, and what it makes of the answers.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Failure, KEYS_EACH, ReadBack, Recovery, Shared, SlowRequest};
use crate::Outcome;
use crate::resp::Connection;

/// Of reads of its own keys, a client makes every so manieth of another one's: with its keys it has
/// no divisor in common, so that none of them is left out for ever.
const OTHERS_EACH: u64 = 5;
/// Bytes of a value, filled up with zeros in front of its number.
const VALUE_BYTES: usize = 100;
/// How long a node may take to take a connection.
const CONNECT_MAX: Duration = Duration::from_millis(300);
/// No request takes longer than its deadline (5 s) at a node that lives.
const REPLY_MAX: Duration = Duration::from_secs(6);
/// So long a reader waits for an answer.
const READER_MAX: Duration = Duration::from_millis(200);
/// A client that cannot connect tries the next node after so long.
const AGAIN: Duration = Duration::from_millis(10);
/// Failures that are remembered, the first ones.
const FAILURES_MAX: usize = 200;
/// From so long on a request is late, and remembered …
const SLOW: Duration = Duration::from_millis(200);
/// … if it is among the first ones.
const SLOW_MAX: usize = 200;

pub(super) struct Client {
    pub number: usize,
    shared: Arc<Shared>,
    /// The place of its node in the shape's.
    node: usize,
    /// Whose keys it reads besides.
    others: Vec<usize>,
    last: Instant,
}

/// How a request ended.
enum End {
    Answered(String),
    NotDone(String),
    Unknown { why: String, is_broken: bool },
}

fn end(reply: Outcome<String>) -> End {
    match reply {
        Ok(text) => End::Answered(text),
        Err(error) => {
            let (why, is_broken) = (error.to_string(), error.is::<std::io::Error>());
            match is_broken || why.starts_with("UNKNOWN") {
                true => End::Unknown { why, is_broken },
                false => End::NotDone(why),
            }
        }
    }
}

impl Client {
    pub fn new(number: usize, shared: Arc<Shared>) -> Self {
        let (node, last) = (number % shared.shape.nodes.len(), shared.begun);
        let others = shared.shape.others(number);
        Self { number, shared, node, others, last }
    }

    /// Whether it only reads.
    pub fn is_reader(&self) -> bool {
        self.number >= self.shared.shape.clients
    }

    fn keyspace(&self) -> &str {
        self.shared.shape.keyspace(self.number)
    }

    fn open(&self, at: SocketAddr) -> Outcome<Connection> {
        let reply_max = if self.is_reader() { READER_MAX } else { REPLY_MAX };
        let mut connection = Connection::open_at(at, CONNECT_MAX, reply_max)?;
        connection.call(&["SELECT", self.keyspace()])?;
        Ok(connection)
    }

    pub fn run(mut self) -> Self {
        let shared = self.shared.clone();
        let mut connection = None;
        let mut number = 0u64;
        while !shared.stop.load(Ordering::Relaxed) {
            let Some(open) = &mut connection else {
                connection = self.open(shared.shape.nodes[self.node]).ok();
                if connection.is_none() {
                    self.go_on();
                    sleep(AGAIN);
                }
                continue;
            };
            number += 1;
            let is_broken = match self.is_reader() {
                true => self.read_others(open, number),
                false => self.write_and_read(open, number),
            };
            if is_broken {
                connection = None;
                self.go_on();
            }
            sleep(shared.shape.pause);
        }
        self.waited(Instant::now());
        self
    }

    /// To the next node. Readers stay.
    fn go_on(&mut self) {
        if !self.is_reader() {
            self.node = (self.node + 1) % self.shared.shape.nodes.len();
        }
    }

    /// A client's next request. Half of them read; keys in turn. Of its own it reads the one that
    /// it sets next, which it has set longest ago: were it read soon after it was set, what is lost
    /// later would be overwritten unseen. Of another's, the one that was set last.
    fn write_and_read(&mut self, open: &mut Connection, number: u64) -> bool {
        let turn = number / 2;
        let key = turn as usize % KEYS_EACH;
        if number.is_multiple_of(2) {
            return self.set(open, key, number);
        }
        match self.others.first().copied().filter(|_| turn.is_multiple_of(OTHERS_EACH)) {
            Some(other) => self.get(open, other, key),
            None => self.get(open, self.number, (key + 1) % KEYS_EACH),
        }
    }

    /// A reader's next request. Each keyspace has clients that write to it, or there is no reader.
    fn read_others(&mut self, open: &mut Connection, number: u64) -> bool {
        let of = self.others[number as usize % self.others.len()];
        self.get(open, of, number as usize / self.others.len() % KEYS_EACH)
    }

    /// It has been without an answer until now.
    fn waited(&self, now: Instant) {
        let silence_us = (now - self.last).as_micros() as u64;
        self.shared.second(self.node).longest_us.fetch_max(silence_us, Ordering::Relaxed);
    }

    /// It is answered now: if for the first time since something was over, that is noted.
    fn returned(&self, now: Instant) {
        let shared = &self.shared;
        let since_s = f64::from_bits(shared.over_s.load(Ordering::Relaxed));
        let seconds = |at: Instant| (at - shared.begun).as_secs_f64();
        if seconds(self.last) < since_s && since_s <= seconds(now) {
            let (after_s, node) = (seconds(now) - since_s, self.node + 1);
            let mut returns = shared.returns.lock().unwrap_or_else(PoisonError::into_inner);
            returns.push(Recovery { since_s, after_s, node });
        }
    }

    fn set(&mut self, open: &mut Connection, key: usize, number: u64) -> bool {
        let value = format!("{number:0VALUE_BYTES$}");
        let began = Instant::now();
        let name = name(self.number, key);
        let end = end(open.call(&["SET", &name, &value]));
        self.shared.keys[self.number].change(key, |key| match &end {
            End::Answered(_) => key.done = Some(number),
            End::NotDone(_) => {}
            End::Unknown { .. } => {
                key.maybe.insert(number);
            }
        });
        self.note("SET", &name, began, &end)
    }

    /// Reads a key of a client.
    fn get(&mut self, open: &mut Connection, of: usize, key: usize) -> bool {
        let began = Instant::now();
        let keys = &self.shared.keys[of];
        let (name, floor) = (name(of, key), keys.get(key).done);
        let end = end(open.call(&["GET", &name]));
        if let End::Answered(text) = &end {
            let (seen, known) = (number_of(text), keys.get(key));
            let is_well = match of == self.number {
                true => known.may_be(seen),
                // Its writer goes on meanwhile.
                false => known.may_be_since(floor, seen),
            };
            if !is_well {
                self.shared.second(self.node).lost.fetch_add(1, Ordering::Relaxed);
                let why = format!("{seen:?} after {floor:?}; {known:?}");
                self.failed("GET", &name, &why);
            }
        }
        self.note("GET", &name, began, &end)
    }

    /// Counts how a request ended; whether the connection is of no further use.
    fn note(&mut self, asked: &str, key: &str, began: Instant, end: &End) -> bool {
        let second = self.shared.second(self.node);
        match end {
            End::Answered(_) => {
                let now = Instant::now();
                self.waited(now);
                self.returned(now);
                second.answered.fetch_add(1, Ordering::Relaxed);
                self.last = now;
                if now - began >= SLOW {
                    self.was_slow(asked, key, began, now);
                }
                false
            }
            End::NotDone(why) => {
                second.not_done.fetch_add(1, Ordering::Relaxed);
                self.failed(asked, key, why);
                false
            }
            End::Unknown { is_broken: true, .. } if self.is_reader() => true,
            End::Unknown { why, is_broken } => {
                second.unknown.fetch_add(1, Ordering::Relaxed);
                self.failed(asked, key, why);
                *is_broken
            }
        }
    }

    fn failed(&self, asked: &str, key: &str, why: &str) {
        let at_s = self.shared.begun.elapsed().as_secs_f64();
        let (asked, told) = (self.asked(asked, key), why.to_owned());
        let mut failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX {
            failures.push(Failure { at_s, asked, told });
        }
    }

    fn was_slow(&self, asked: &str, key: &str, began: Instant, now: Instant) {
        let at_s = (began - self.shared.begun).as_secs_f64();
        let (asked, took_ms) = (self.asked(asked, key), (now - began).as_secs_f64() * 1e3);
        let mut slow = self.shared.slow.lock().unwrap_or_else(PoisonError::into_inner);
        if slow.len() < SLOW_MAX {
            slow.push(SlowRequest { at_s, took_ms, asked });
        }
    }

    fn asked(&self, asked: &str, key: &str) -> String {
        let node = self.shared.shape.nodes[self.node];
        format!("{asked} {key} in {} through {node}", self.keyspace())
    }

    pub fn read_back(&self, at: SocketAddr, all: &mut ReadBack) -> Outcome<()> {
        let mut open = self.open(at)?;
        for key in 0..KEYS_EACH {
            let known = self.shared.keys[self.number].get(key);
            let seen = number_of(&open.call(&["GET", &name(self.number, key)])?);
            all.keys += u64::from(known.done.is_some());
            all.lost += u64::from(!known.may_be(seen));
        }
        Ok(())
    }
}

/// A key of a client.
fn name(client: usize, key: usize) -> String {
    format!("client-{client}-{key}")
}

/// The number of a value; none if there is no value, or it is none of ours.
fn number_of(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_of_one_length() {
        let value = format!("{:0VALUE_BYTES$}", 42);
        assert_eq!((value.len(), number_of(&value), number_of("")), (100, Some(42), None));
    }
}
