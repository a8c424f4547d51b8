//! Measures the longest time that any one client goes without an answer.
//!
//! There is one client for each node and shard, on a connection of its own: it sets a key of the
//! shard, reads it, sets it, with a short pause between. So a shard without a leader silences its
//! own clients and no others. The figure is strict: the longest time between two answers to the
//! *same* client, over all clients of the observed nodes. A client that is stuck with an old
//! request, while new ones would be answered, counts as silenced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::resp::Connection;

/// Between an answer and the next request of a client.
const PAUSE: Duration = Duration::from_millis(4);
/// A client that cannot connect tries again after so long.
const AGAIN: Duration = Duration::from_millis(20);
/// No request takes longer than its deadline (5 s) at a node that lives; a client whose node is
/// paused gives up after this.
const REPLY_MAX: Duration = Duration::from_secs(6);

/// What clients of some nodes have seen since [`Clients::watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientRecord {
    /// Longest time between two answers to one client.
    pub longest: Duration,
    /// Requests answered with an error that means *not done*.
    pub not_done: u64,
    /// Requests with unknown outcome.
    pub unknown: u64,
}

struct Track {
    /// When this client was last answered.
    last: Instant,
    seen: ClientRecord,
}

struct Client {
    node: usize,
    port: u16,
    key: String,
    track: Mutex<Track>,
}

impl Client {
    fn run(&self, stop: &AtomicBool) {
        let mut connection = None;
        let mut number = 0u64;
        while !stop.load(Ordering::Relaxed) {
            let Some(open) = &mut connection else {
                connection = Connection::open_for(self.port, REPLY_MAX).ok();
                if connection.is_none() {
                    sleep(AGAIN);
                }
                continue;
            };
            let reply = if number.is_multiple_of(2) {
                open.call(&["SET", &self.key, &number.to_string()])
            } else {
                open.call(&["GET", &self.key])
            };
            number += 1;
            let broken = self.answered(reply);
            if broken {
                connection = None;
            }
            sleep(PAUSE);
        }
    }

    /// Notes how a request ended; whether the connection is of no further use.
    fn answered(&self, reply: Outcome<String>) -> bool {
        let mut track = self.track.lock().unwrap_or_else(PoisonError::into_inner);
        match reply {
            Ok(_) => {
                let now = Instant::now();
                track.seen.longest = track.seen.longest.max(now - track.last);
                track.last = now;
                false
            }
            Err(error) if error.is::<std::io::Error>() => {
                track.seen.unknown += 1;
                true
            }
            Err(error) => {
                let is_unknown = error.to_string().starts_with("UNKNOWN");
                *(if is_unknown { &mut track.seen.unknown } else { &mut track.seen.not_done }) += 1;
                false
            }
        }
    }
}

/// Clients of all nodes. Dropping them ends them.
pub struct Clients {
    clients: Vec<Arc<Client>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts one for each port of a node and each key, and returns when all were answered.
    pub fn start(ports: &[u16], keys: &[String]) -> Outcome<Self> {
        let began = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Self { clients: Vec::new(), stop: stop.clone(), threads: Vec::new() };
        for (node, port) in ports.iter().copied().enumerate() {
            for key in keys {
                let track = Mutex::new(Track { last: began, seen: ClientRecord::default() });
                let client = Arc::new(Client { node, port, key: key.clone(), track });
                all.clients.push(client.clone());
                let stop = stop.clone();
                all.threads.push(thread::Builder::new().spawn(move || client.run(&stop))?);
            }
        }
        while all.clients.iter().any(|client| all.track(client, |track| track.last == began)) {
            if began.elapsed() > REPLY_MAX {
                return Err("a client is not answered before anything broke".into());
            }
            sleep(AGAIN);
        }
        Ok(all)
    }

    fn track<R>(&self, client: &Client, look: impl FnOnce(&mut Track) -> R) -> R {
        look(&mut client.track.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets what was seen; silences under way go on.
    pub fn watch(&self) {
        for client in &self.clients {
            self.track(client, |track| track.seen = ClientRecord::default());
        }
    }

    /// What clients of all nodes but one have seen. A silence that lasts is as long as it is now.
    pub fn seen(&self, but: usize) -> ClientRecord {
        let now = Instant::now();
        let mut all = ClientRecord::default();
        for client in self.clients.iter().filter(|client| client.node != but) {
            self.track(client, |track| {
                let so_far = track.seen.longest.max(now.saturating_duration_since(track.last));
                all.longest = all.longest.max(so_far);
                all.not_done += track.seen.not_done;
                all.unknown += track.seen.unknown;
            });
        }
        all
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A client that panicked has printed its message.
            let _panicked = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers every line that ends a command of three words or two, after a pause once.
    fn server(pauses: Duration) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut commands = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if line.starts_with('*') {
                    commands += 1;
                    if commands == 5 {
                        sleep(pauses);
                    }
                    let reply = if commands == 7 { "-UNKNOWN x\r\n" } else { "+OK\r\n" };
                    if stream.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
                line.clear();
            }
        });
        port
    }

    #[test]
    fn a_silence_is_as_long_as_it_was_and_errors_are_counted() {
        let pause = Duration::from_millis(300);
        let clients = Clients::start(&[server(pause)], &["k".into()]).unwrap();
        clients.watch();
        sleep(Duration::from_millis(600));
        let seen = clients.seen(1);
        assert!(seen.longest >= pause && seen.longest < 2 * pause, "{seen:?}");
        assert_eq!((seen.not_done, seen.unknown), (0, 1));
        assert_eq!(clients.seen(0), ClientRecord::default());
    }
}
