//! A proxy between nodes, for links that do not break but misbehave.
//!
//! One proxy stands in front of each node's peer listener, and the node advertises the proxy's
//! address: all links to it go through here, and none around.
//!
//! ```text
//!   other nodes ──► proxy ── reader ─► chunks, each with its time ─► writer ──► the node
//!                     ▲                                                │
//!                     └── writer ◄─ chunks, each with its time ◄─ reader ◄──┘
//! ```
//!
//! For every direction of every connection, the seed decides what happens to each chunk:
//!
//! | [`Weather`] | a chunk | what a network does so |
//! |---|---|---|
//! | `delay` | is late, a few of them by very much; those behind it wait | loss and retransmission |
//! | `stall` | waits, and all behind it, while the other direction goes on | a full queue, a long outage |
//! | `cut` | ends somewhere within, and both directions with it | a reset, a middlebox that forgets |
//! | `rate` | takes its time for each byte | a narrow link |
//!
//! Bytes are never changed, left out or swapped: TCP does not do that, and nodes need not bear it.
//! When the weather is fair again, delayed chunks pass at once.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use keyspace::random::{Random, mix};

use harness::net::Host;

/// Longest piece that has a fate of its own.
const CHUNK_BYTES_MAX: usize = 4 << 10;
/// So many may wait in a direction; then its sender waits too.
const CHUNKS_MAX: usize = 256;
/// How often who waits looks whether it still has to.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long the node behind may take to accept.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// What happens to chunks. The default is fair weather: they go through at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// Least and greatest delay. Twice the least is exceeded by half of them, ten times by a
    /// tenth: a tail that has no mean, but for its end.
    pub delay: Option<(Duration, Duration)>,
    /// One in so many chunks stalls its direction, for how long at most.
    pub stall: Option<(u64, Duration)>,
    /// One in so many is cut.
    pub cut: Option<u64>,
    /// Bytes a second.
    pub rate: Option<u64>,
}

/// How often what was done.
#[derive(Debug, Default)]
pub struct ProxyCounters {
    /// Chunks that were late by 100 ms or more.
    pub late: AtomicU64,
    /// Stalls.
    pub stalls: AtomicU64,
    /// Connections that were cut within a chunk.
    pub cuts: AtomicU64,
    /// Chunks that took their time.
    pub narrowed: AtomicU64,
}

impl ProxyCounters {
    /// In the order of the fields.
    pub fn counts(&self) -> [u64; 4] {
        [&self.late, &self.stalls, &self.cuts, &self.narrowed].map(|n| n.load(Ordering::Relaxed))
    }
}

/// From that on a chunk counts as late.
const LATE: Duration = Duration::from_millis(100);

/// A proxy for one address.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepts: Option<JoinHandle<()>>,
}

struct Shared {
    weather: Mutex<Weather>,
    deeds: ProxyCounters,
    stop: AtomicBool,
    seed: u64,
}

impl Shared {
    fn weather(&self) -> Weather {
        *self.weather.lock().expect("nobody fails with it")
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Proxy {
    /// Listens at `site`, on any port, for what is meant for `target`.
    pub fn start(site: &Host, target: SocketAddr, seed: u64) -> Self {
        let listener = site.inside(|| TcpListener::bind((site.ip, 0))).expect("a port is free");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("the listener is bound");
        let shared = Arc::new(Shared {
            weather: Mutex::default(),
            deeds: ProxyCounters::default(),
            stop: AtomicBool::new(false),
            seed,
        });
        let (site, ours) = (site.clone(), shared.clone());
        let accepts = thread::spawn(move || {
            site.enter().expect("a namespace can be entered");
            accept(&listener, target, &ours);
        });
        Self { address, shared, accepts: Some(accepts) }
    }

    /// From now on it is so.
    pub fn set(&self, weather: Weather) {
        *self.shared.weather.lock().expect("nobody fails with it") = weather;
    }

    /// What it has done so far.
    pub fn deeds(&self) -> &ProxyCounters {
        &self.shared.deeds
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(accepts) = self.accepts.take() {
            // If that thread panicked, its connections broke, and the test fails by them.
            let _ended = accepts.join();
        }
    }
}

/// Accepts until it is stopped, and waits for all connections' ends.
fn accept(listener: &TcpListener, target: SocketAddr, shared: &Arc<Shared>) {
    let mut pumps: Vec<JoinHandle<()>> = Vec::new();
    for number in 0.. {
        let stream = loop {
            match listener.accept() {
                _ if shared.is_stopped() => {
                    pumps.into_iter().for_each(|pump| drop(pump.join()));
                    return;
                }
                Ok((stream, _)) => break stream,
                // Nobody is there; or somebody was, and has gone again.
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        };
        pumps.retain(|pump| !pump.is_finished());
        // The node is off: the dialler sees its connection end.
        let Ok(behind) = TcpStream::connect_timeout(&target, CONNECT_MAX) else { continue };
        match connect(number, stream, behind, shared) {
            Ok(threads) => pumps.extend(threads),
            Err(error) => eprintln!("proxy of {target}: {error}"),
        }
    }
}

/// Both directions of a connection.
fn connect(
    number: u64,
    front: TcpStream,
    behind: TcpStream,
    shared: &Arc<Shared>,
) -> io::Result<Vec<JoinHandle<()>>> {
    front.set_nonblocking(false)?;
    for stream in [&front, &behind] {
        stream.set_nodelay(true)?;
        // Reads end now and then to look whether all is over; so do writes to one who stands still.
        stream.set_read_timeout(Some(LOOK_EVERY * 10))?;
        stream.set_write_timeout(Some(LOOK_EVERY * 10))?;
    }
    let both = [(front.try_clone()?, behind.try_clone()?), (behind, front)];
    let mut threads = Vec::new();
    for (direction, (from, to)) in (0..).zip(both) {
        let (sender, receiver) = sync_channel(CHUNKS_MAX);
        let random = Random::new(mix(shared.seed ^ mix(2 * number + direction)));
        let (to_read, ours) = (from.try_clone()?, shared.clone());
        threads.push(thread::spawn(move || read(to_read, &sender, random, &ours)));
        let ours = shared.clone();
        threads.push(thread::spawn(move || write(&from, &to, &receiver, &ours)));
    }
    Ok(threads)
}

/// Bytes, and when they are let go.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
    /// Nothing comes after it, in neither direction.
    is_last: bool,
}

fn read(mut from: TcpStream, to: &SyncSender<Chunk>, mut random: Random, shared: &Shared) {
    let mut free = Instant::now();
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if is_timeout(&error) && !shared.is_stopped() => continue,
            Err(_) => return,
        };
        let weather = shared.weather();
        let chunk = fate(&buffer[..count], weather, free, &mut random, &shared.deeds);
        free = chunk.due;
        let is_last = chunk.is_last;
        // The writing thread has ended if the connection has.
        if to.send(chunk).is_err() || is_last {
            return;
        }
    }
}

/// What becomes of a chunk, if the one before it goes when it is `free`.
fn fate(
    bytes: &[u8],
    weather: Weather,
    free: Instant,
    random: &mut Random,
    deeds: &ProxyCounters,
) -> Chunk {
    let now = Instant::now();
    if weather == Weather::default() {
        return Chunk { due: now, bytes: bytes.to_vec(), is_last: false };
    }
    let mut due = now;
    if let Some((least, greatest)) = weather.delay {
        // Pareto's distribution of exponent 1: least / u.
        let u = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
        due += least.div_f64(u.max(1e-6)).min(greatest);
    }
    due = due.max(free);
    if due - now > LATE {
        deeds.late.fetch_add(1, Ordering::Relaxed);
    }
    if let Some((_, longest)) = weather.stall.filter(|(times, _)| random.one_in(*times)) {
        due += Duration::from_millis(random.below(longest.as_millis() as u64 + 1));
        deeds.stalls.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(rate) = weather.rate {
        due += Duration::from_secs(1).mul_f64(bytes.len() as f64 / rate as f64);
        deeds.narrowed.fetch_add(1, Ordering::Relaxed);
    }
    let is_last = weather.cut.is_some_and(|times| random.one_in(times));
    let kept = if is_last { random.below(bytes.len() as u64) as usize } else { bytes.len() };
    if is_last {
        deeds.cuts.fetch_add(1, Ordering::Relaxed);
    }
    Chunk { due, bytes: bytes[..kept].to_vec(), is_last }
}

fn write(from: &TcpStream, mut to: &TcpStream, chunks: &Receiver<Chunk>, shared: &Shared) {
    let is_fair = || shared.is_stopped() || shared.weather() == Weather::default();
    for chunk in chunks {
        while Instant::now() < chunk.due && !is_fair() {
            thread::sleep(LOOK_EVERY.min(chunk.due.saturating_duration_since(Instant::now())));
        }
        let mut rest = &chunk.bytes[..];
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if is_timeout(&error) && !shared.is_stopped() => {}
                Err(_) => break,
            }
        }
        if chunk.is_last || !rest.is_empty() {
            break;
        }
    }
    // Both directions are closed: a sender on a half-open connection would wait for ever. Errors
    // of ends that are closed already do not matter.
    for stream in [from, to] {
        let _closed = stream.shutdown(Shutdown::Both);
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"what is sent comes in this order, or not at all; ";

    /// What comes back of `lines` lines through a proxy to somebody who sends everything back, and
    /// how long it takes.
    fn through(weather: Weather, lines: usize) -> (Vec<u8>, Duration, [u64; 4]) {
        let net = harness::net::Net::new(1);
        let site = net.clients();
        let echo = site.inside(|| TcpListener::bind((site.ip, 0))).unwrap();
        let proxy = Proxy::start(site, echo.local_addr().unwrap(), 1);
        proxy.set(weather);
        let echoes = thread::spawn(move || {
            let (stream, _) = echo.accept().unwrap();
            // A cut ends it with an error or without.
            let _end = io::copy(&mut &stream, &mut &stream);
        });
        let begun = Instant::now();
        let mut stream = site.inside(|| TcpStream::connect(proxy.address)).unwrap();
        let mut ours = stream.try_clone().unwrap();
        let sends = thread::spawn(move || {
            for _ in 0..lines {
                if ours.write_all(LINE).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        stream.set_read_timeout(Some(crate::cluster::TEST_TIMEOUT)).unwrap();
        let mut back = vec![0; LINE.len() * lines];
        let mut count = 0;
        while count < back.len() {
            match stream.read(&mut back[count..]) {
                Ok(more @ 1..) => count += more,
                Ok(_) | Err(_) => break,
            }
        }
        back.truncate(count);
        let took = begun.elapsed();
        drop(stream);
        let counts = proxy.deeds().counts();
        drop(proxy);
        sends.join().unwrap();
        echoes.join().unwrap();
        (back, took, counts)
    }

    #[test]
    fn proxy_without_faults_changes_nothing() {
        let (back, took, counts) = through(Weather::default(), 100);
        assert_eq!((back, counts), (LINE.repeat(100), [0; 4]));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn delayed_and_throttled_bytes_arrive_complete() {
        let delay = Some((Duration::from_millis(5), Duration::from_millis(300)));
        let (back, took, counts) = through(Weather { delay, ..Weather::default() }, 200);
        assert_eq!(back, LINE.repeat(200));
        assert!(took > Duration::from_millis(300) && counts[0] > 0, "{took:?} {counts:?}");

        let (back, took, counts) =
            through(Weather { rate: Some(10_000), ..Weather::default() }, 200);
        assert_eq!(back, LINE.repeat(200));
        let least = Duration::from_millis(LINE.len() as u64 * 200 / 10);
        assert!(took > least && counts[3] > 0, "{took:?} {counts:?}");
    }

    #[test]
    fn stalls_end_and_cuts_leave_a_prefix() {
        let stall = Some((20, Duration::from_millis(400)));
        let (back, took, counts) = through(Weather { stall, ..Weather::default() }, 200);
        assert_eq!(back, LINE.repeat(200));
        assert!(took > Duration::from_millis(400) && counts[1] > 0, "{took:?} {counts:?}");

        let (back, _, counts) = through(Weather { cut: Some(5), ..Weather::default() }, 200);
        assert!(back.len() < 200 * LINE.len() && LINE.repeat(200).starts_with(&back));
        assert!(counts[2] > 0, "{counts:?}");
    }
}
