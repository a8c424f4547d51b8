//! A fixed load: so many clients, each of which asks, waits for the answer, pauses and asks again.
//!
//! Every client has keys of its own in one of the keyspaces, which no other client writes: it sets
//! one, reads one, sets one. So the client knows what each must hold ([`keys`](super::keys)). It
//! checks each answer at once, and reads every key again at the end: that shows lost writes
//! ([`Counts::lost`]). Some reads are of another client's keys, written through another node: they
//! must return nothing older than what was acknowledged before the read began.
//!
//! Without a majority, a client blocks at its next request that needs one, and sees nothing. So
//! there may be *readers* too, one at each node, which only read what clients write. A reader gives
//! up a slow request, which is no failure. It reads the next key, of another shard, at the same
//! node, which may still believe that it leads some shards.
//!
//! A client keeps to a node. When the connection breaks or cannot be made, it goes to the next one,
//! as programs do, and stays there. It never sends a request twice.

mod client;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use client::Client;

use super::keys::Keys;
use crate::Outcome;

/// Keys of each client: enough to touch every shard of its keyspace.
const KEYS_EACH: usize = 64;
/// Seconds that are counted, at most.
const SECONDS_MAX: usize = 3_600;

/// How clients behave.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How many there are that write.
    pub clients: usize,
    /// How many there are besides that only read what the others write.
    pub readers: usize,
    /// Between an answer and the next request of a client.
    pub pause: Duration,
    /// Where they connect; client `n` begins with the `n`th.
    pub nodes: Vec<SocketAddr>,
    /// What they use, each one of these.
    pub keyspaces: Vec<String>,
}

/// What clients of a node saw within a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests answered, errors not among them.
    pub answered: u64,
    /// Requests answered with an error that means *not done*.
    pub not_done: u64,
    /// Requests with unknown outcome.
    pub unknown: u64,
    /// Answers that show something else than what was acknowledged.
    pub lost: u64,
    /// The longest time between two answers to the same client, of those that ended; and, in the
    /// last second, how long a client had been without one.
    pub longest: Duration,
}

impl Counts {
    /// Those of two seconds, as if they were one.
    fn and(self, more: Self) -> Self {
        Self {
            answered: self.answered + more.answered,
            not_done: self.not_done + more.not_done,
            unknown: self.unknown + more.unknown,
            lost: self.lost + more.lost,
            longest: self.longest.max(more.longest),
        }
    }
}

/// The first answer to a client since something was over.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// When that was, in seconds since the load began: see [`Load::is_over`].
    pub since_s: f64,
    /// How much later the client was answered.
    pub after_s: f64,
    /// By which node, counted from 1.
    pub node: usize,
}

#[derive(Default)]
struct Second {
    answered: AtomicU64,
    not_done: AtomicU64,
    unknown: AtomicU64,
    lost: AtomicU64,
    longest_us: AtomicU64,
}

impl Second {
    fn counts(&self) -> Counts {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counts {
            answered: of(&self.answered),
            not_done: of(&self.not_done),
            unknown: of(&self.unknown),
            lost: of(&self.lost),
            longest: Duration::from_micros(of(&self.longest_us)),
        }
    }
}

struct Shared {
    shape: Shape,
    begun: Instant,
    stop: AtomicBool,
    /// By second, and by the node through which clients asked.
    seconds: Vec<Vec<Second>>,
    /// Of all clients that write.
    keys: Vec<Keys>,
    failures: Mutex<Vec<Failure>>,
    slow: Mutex<Vec<SlowRequest>>,
    /// When something was over, in seconds since the load began, as the bits of that number.
    over_s: AtomicU64,
    returns: Mutex<Vec<Recovery>>,
}

/// A request that was answered late.
#[derive(Clone, Debug, Serialize)]
pub struct SlowRequest {
    /// When it was asked, in seconds since the load began.
    pub at_s: f64,
    /// How long it took.
    pub took_ms: f64,
    /// What was asked.
    pub asked: String,
}

/// A request that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Seconds since the load began.
    pub at_s: f64,
    /// What was asked.
    pub asked: String,
    /// The answer or error that the client got.
    pub told: String,
}

impl Shape {
    /// What a client uses. Those of one node use all keyspaces.
    fn keyspace(&self, client: usize) -> &str {
        let Self { nodes, keyspaces, .. } = self;
        &keyspaces[(client / nodes.len() + client % nodes.len()) % keyspaces.len()]
    }

    /// Whose keys a client reads besides its own, in turn: the next one's of its keyspace; a
    /// reader, those of all.
    fn others(&self, client: usize) -> Vec<usize> {
        let others = (1..=self.clients).map(|step| (client + step) % self.clients);
        let others = others.filter(|other| *other != client);
        let others = others.filter(|other| self.keyspace(*other) == self.keyspace(client));
        others.take(if client < self.clients { 1 } else { self.clients }).collect()
    }
}

impl Shared {
    fn second(&self, node: usize) -> &Second {
        let second = self.begun.elapsed().as_secs() as usize;
        &self.seconds[second.min(SECONDS_MAX - 1)][node]
    }
}

/// Clients at work.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Client>>,
    /// Those that have ended.
    ended: Vec<Client>,
}

/// What the keys of all clients were when they were read again.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadBack {
    /// Keys that were acknowledged at least once.
    pub keys: u64,
    /// Of these, those that hold something else than they must.
    pub lost: u64,
}

impl Load {
    /// Sets clients to work.
    pub fn start(shape: Shape) -> Outcome<Self> {
        let of_nodes = || shape.nodes.iter().map(|_| Second::default()).collect();
        let seconds = (0..SECONDS_MAX).map(|_| of_nodes()).collect();
        let keys = (0..shape.clients).map(|_| Keys::new(KEYS_EACH)).collect();
        let shared = Arc::new(Shared {
            shape,
            begun: Instant::now(),
            stop: AtomicBool::new(false),
            seconds,
            keys,
            failures: Mutex::default(),
            slow: Mutex::default(),
            over_s: AtomicU64::new(0),
            returns: Mutex::default(),
        });
        let mut load = Self { shared: shared.clone(), threads: Vec::new(), ended: Vec::new() };
        for number in 0..shared.shape.clients + shared.shape.readers {
            let client = Client::new(number, shared.clone());
            load.threads.push(thread::Builder::new().spawn(move || client.run())?);
        }
        Ok(load)
    }

    /// When it began.
    pub fn begun(&self) -> Instant {
        self.shared.begun
    }

    /// What was seen in a second since it began, through each node.
    pub fn counts(&self, second: usize) -> Vec<Counts> {
        let all = &self.shared.seconds[second.min(SECONDS_MAX - 1)];
        all.iter().map(Second::counts).collect()
    }

    /// What was seen from a second on, through each node: after [`Self::stop`], to the very end.
    pub fn counts_from(&self, second: usize) -> Vec<Counts> {
        let later = (second + 1..SECONDS_MAX).map(|second| self.counts(second));
        later.fold(self.counts(second), |sum, more| {
            sum.into_iter().zip(more).map(|(one, other)| one.and(other)).collect()
        })
    }

    /// Something is over at this time, in seconds since the load began: from now on it is noted
    /// when each client has its first answer again.
    pub fn is_over(&self, at_s: f64) {
        self.shared.over_s.store(at_s.to_bits(), Ordering::Relaxed);
    }

    /// When clients were answered again.
    pub fn returns(&self) -> Vec<Recovery> {
        self.shared.returns.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first requests that failed, with their errors.
    pub fn failures(&self) -> Vec<Failure> {
        self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first requests that were late.
    pub fn slow(&self) -> Vec<SlowRequest> {
        self.shared.slow.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the load. It records how long unfinished requests have waited.
    pub fn stop(&mut self) -> Outcome<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            self.ended.push(thread.join().map_err(|_| "a client has panicked")?);
        }
        Ok(())
    }

    /// After [`Self::stop`]: reads every key again, through these nodes in turn.
    pub fn read_back(&self, nodes: &[SocketAddr]) -> Outcome<ReadBack> {
        let mut all = ReadBack::default();
        for client in self.ended.iter().filter(|client| !client.is_reader()) {
            client.read_back(nodes[client.number % nodes.len()], &mut all)?;
        }
        Ok(all)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Somebody has failed already.
            let _client = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_read_keys_of_others_of_their_keyspace() {
        let shape = |clients| Shape {
            clients,
            readers: 0,
            pause: Duration::ZERO,
            nodes: vec!["127.0.0.1:1".parse().expect("an address"); 3],
            keyspaces: ["0", "one", "two"].map(str::to_owned).to_vec(),
        };
        let others =
            |clients| -> Vec<_> { (0..clients).map(|n| shape(clients).others(n)).collect() };
        // 0 1 2 | 1 2 0 | 2 0: what they use.
        let eight = [5, 3, 4, 1, 6, 7, 2, 0].map(|other| vec![other]);
        assert_eq!(others(8), eight);
        // Those of any node use all.
        let five = Shape { nodes: vec![shape(15).nodes[0]; 5], ..shape(15) };
        let of_node = [3, 8, 13].map(|client| five.keyspace(client).to_owned());
        assert_eq!(of_node, ["0", "one", "two"]);
        assert!(others(2).iter().all(Vec::is_empty));
        // Who only reads has those of all.
        let eight = Shape { readers: 3, ..shape(8) };
        let readers = [8, 9, 10].map(|reader| (eight.keyspace(reader), eight.others(reader)));
        assert_eq!(readers, [("one", vec![1, 3]), ("0", vec![5, 7, 0]), ("one", vec![3, 1])]);
    }
}
