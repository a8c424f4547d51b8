//! What change feeds cost, and how fast they are: one node, and feeds of everything.
//!
//! ```text
//!   cargo run --release -p bench --bin feeds -- --carillon target/release/carillon
//!
//!   writes    writes a second with no feed, with one, and with ten, in turns
//!   live      the highest rate of writes that one reader keeps up with, of steps of 100 000
//!   history   changes a second to one reader that reads what was written before
//!   delay     from a write's sending to its event, at half of the live rate
//! ```
//! Aims: ten feeds cost less than 15 % of the writes; 200 000 changes a second to one reader; 99 %
//! of events within 50 ms.
//!
//! Caveats: writers and readers share the processors with the node, so ten readers cost what they
//! read, too. A reader counts changes by their bytes and parses nothing.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bench::machine;
use clap::Parser;
use harness::node::Node;
use hdrhistogram::Histogram;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Measures change feeds.
#[derive(Parser, Debug)]
struct Options {
    /// The program to measure.
    #[arg(long, default_value = "target/release/carillon")]
    carillon: String,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How often writes are measured with each number of feeds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Connections that write.
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// Writes that a connection has under way.
    #[arg(long, default_value_t = 64)]
    pipeline: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Keys that are written.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Flags of the node.
    #[arg(long, default_value = "--durability memory", allow_hyphen_values = true)]
    flags: String,
}

/// What the answer begins with.
const ACCEPTED: &[u8; 12] = b"HTTP/1.1 200";
/// What marks a change in the bytes of a feed, and the beginning of a written value.
const CHANGE: &[u8] = b"{\"what\":";
const VALUE: &[u8] = b"\"value\":\"";
/// Digits of the time at the beginning of each value: nanoseconds since the program began.
const TIME_DIGITS: usize = 16;

/// Writes a second by which the live rate rises, and how often.
const LIVE_STEP: f64 = 100_000.0;
const LIVE_STEPS_MAX: u32 = 6;
/// The part of the writes that a reader who keeps up has had.
const KEEPS_UP: f64 = 0.97;

struct Load {
    resp: SocketAddr,
    http: SocketAddr,
    begun: Instant,
    options: Options,
}

/// Threads that go on until they are ended, and what they have counted.
struct Counting {
    ends: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Option<Histogram<u64>>>>,
}

impl Counting {
    fn new() -> Self {
        let (ends, count) = (Arc::default(), Arc::default());
        Self { ends, count, threads: Vec::new() }
    }

    fn now(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    fn end(self) -> Vec<Histogram<u64>> {
        self.ends.store(true, Ordering::Relaxed);
        let ended = self.threads.into_iter().map(|thread| thread.join().expect("a load ends"));
        ended.flatten().collect()
    }
}

impl Load {
    /// Writers: as fast as they can, or so many writes a second in all.
    fn write(&self, rate: Option<f64>) -> Counting {
        let mut all = Counting::new();
        let (depth, bytes) = (self.options.pipeline, self.options.value_bytes);
        let pause =
            rate.map(|rate| Duration::from_secs_f64((depth * self.options.writers) as f64 / rate));
        for writer in 0..self.options.writers {
            let (ends, count) = (all.ends.clone(), all.count.clone());
            let (resp, begun, keys) = (self.resp, self.begun, self.options.keys);
            all.threads.push(thread::spawn(move || {
                let mut socket = TcpStream::connect(resp).expect("the node takes connections");
                socket.set_nodelay(true).expect("a socket");
                let mut random = writer as u64;
                let (mut batch, mut replies) = (Vec::new(), vec![0; depth * b"+OK\r\n".len()]);
                let mut next = Instant::now();
                while !ends.load(Ordering::Relaxed) {
                    batch.clear();
                    for _ in 0..depth {
                        random = keyspace::random::mix(random.wrapping_add(1));
                        let key = format!("key:{:012}", random % keys);
                        let time = format!("{:016}", begun.elapsed().as_nanos());
                        let len = bytes.max(TIME_DIGITS);
                        batch.extend_from_slice(
                            format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${len}\r\n", key.len())
                                .as_bytes(),
                        );
                        batch.extend_from_slice(time.as_bytes());
                        batch.resize(batch.len() + len - TIME_DIGITS, b'x');
                        batch.extend_from_slice(b"\r\n");
                    }
                    socket.write_all(&batch).expect("the node reads");
                    socket.read_exact(&mut replies).expect("the node answers");
                    assert!(replies.starts_with(b"+OK"), "{}", replies.escape_ascii());
                    count.fetch_add(depth as u64, Ordering::Relaxed);
                    if let Some(pause) = pause {
                        next += pause;
                        thread::sleep(next.saturating_duration_since(Instant::now()));
                    }
                }
                None
            }));
        }
        all
    }

    /// Feeds of everything; each counts its changes and measures their delay, or only reads.
    fn read(&self, feeds: usize, since: &str, looks: bool) -> Outcome<Counting> {
        let mut all = Counting::new();
        for _ in 0..feeds {
            let mut socket = TcpStream::connect(self.http)?;
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            write!(socket, "GET /v1/feed?since={since} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")?;
            let mut status = [0; ACCEPTED.len()];
            socket.read_exact(&mut status)?;
            if status != *ACCEPTED {
                return Err(format!("no feed: {}", status.escape_ascii()).into());
            }
            let (ends, count, begun) = (all.ends.clone(), all.count.clone(), self.begun);
            all.threads.push(thread::spawn(move || {
                let mut delays = Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds");
                let (mut bytes, mut kept) = (vec![0; 1 << 20], 0);
                while !ends.load(Ordering::Relaxed) {
                    match socket.read(&mut bytes[kept..]) {
                        // It was too slow, and was told so.
                        Ok(0) => break,
                        Ok(read) if looks => {
                            kept += read;
                            let now = begun.elapsed().as_nanos() as u64;
                            let (changes, end) = look(&bytes[..kept], now, &mut delays);
                            count.fetch_add(changes, Ordering::Relaxed);
                            bytes.copy_within(end..kept, 0);
                            kept -= end;
                        }
                        // Nothing has come in time, or nobody looks.
                        Ok(_) | Err(_) => {}
                    }
                }
                Some(delays)
            }));
        }
        // They have begun.
        thread::sleep(Duration::from_millis(500));
        Ok(all)
    }

    /// How many are counted in a second, for as long as is asked for.
    fn rate(&self, counted: &Counting) -> f64 {
        thread::sleep(Duration::from_secs(1));
        let (before, since) = (counted.now(), Instant::now());
        thread::sleep(Duration::from_secs(self.options.seconds));
        (counted.now() - before) as f64 / since.elapsed().as_secs_f64()
    }
}

/// Counts changes, and measures the delay of those with a value. Returns how many bytes it is done
/// with: what may be the beginning of one stays.
fn look(bytes: &[u8], now: u64, delays: &mut Histogram<u64>) -> (u64, usize) {
    let (mut changes, mut at) = (0, 0);
    let whole = bytes.len().saturating_sub(CHANGE.len().max(VALUE.len() + TIME_DIGITS));
    while at < whole {
        if bytes[at..].starts_with(CHANGE) {
            changes += 1;
            at += CHANGE.len();
        } else if bytes[at..].starts_with(VALUE) {
            let digits = &bytes[at + VALUE.len()..][..TIME_DIGITS];
            // A chunk may end within it.
            let sent = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<u64>().ok());
            if let Some(sent) = sent {
                delays.saturating_record(now.saturating_sub(sent) / 1000);
            }
            at += VALUE.len();
        } else {
            at += 1;
        }
    }
    (changes, at)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() -> Outcome<()> {
    let options = Options::parse();
    println!("{}", machine::describe().line());
    let flags: Vec<&str> = options.flags.split_whitespace().collect();
    let node = Node::alone_and_ready(&options.carillon, "bench_feeds", &flags);
    let load = Load { resp: node.resp, http: node.http, begun: Instant::now(), options };
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..load.options.rounds {
        for (feeds, rates) in [0, 1, 10].into_iter().zip(&mut rates) {
            let (readers, writers) = (load.read(feeds, "now", false)?, load.write(None));
            rates.push(load.rate(&writers));
            writers.end();
            readers.end();
        }
    }
    let [none, one, ten] = rates.map(median);
    let cost = |with: f64| (1.0 - with / none) * 100.0;
    println!("writes/s: {none:.0} with no feed");
    println!("          {one:.0} with one: {:.1} %", cost(one));
    println!("          {ten:.0} with ten: {:.1} % (aim: < 15 %)", cost(ten));

    let mut live = 0.0;
    for step in 1..=LIVE_STEPS_MAX {
        let rate = f64::from(step) * LIVE_STEP;
        let (reader, writers) = (load.read(1, "now", true)?, load.write(Some(rate)));
        let read = load.rate(&reader);
        let written = load.rate(&writers);
        writers.end();
        reader.end();
        println!("changes/s: {read:.0} to one reader of {written:.0} written");
        if read < KEEPS_UP * rate {
            break;
        }
        live = rate;
    }
    println!("           it keeps up with {live:.0} (aim: 200 000)");
    // Delays are those of a load that it keeps up with.
    let half = live.max(LIVE_STEP) / 2.0;

    let (begun, writers) = (Instant::now(), load.write(None));
    thread::sleep(Duration::from_secs(load.options.seconds));
    let written = writers.count.clone();
    writers.end();
    let written = written.load(Ordering::Relaxed);
    thread::sleep(Duration::from_secs(1));
    let since = format!("{}s%20ago", begun.elapsed().as_secs() + 1);
    let (asked, reader) = (Instant::now(), load.read(1, &since, true)?);
    while reader.now() < written
        && !reader.has_ended()
        && asked.elapsed() < Duration::from_secs(120)
    {
        thread::sleep(Duration::from_millis(10));
    }
    let history = reader.now() as f64 / asked.elapsed().as_secs_f64();
    println!("           {history:.0} to one that reads {written} of the past");
    reader.end();

    let (reader, writers) = (load.read(1, "now", true)?, load.write(Some(half)));
    thread::sleep(Duration::from_secs(load.options.seconds));
    writers.end();
    for delays in reader.end() {
        let ms = |quantile| delays.value_at_quantile(quantile) as f64 / 1000.0;
        let (middle, high, most) = (ms(0.5), ms(0.99), delays.max() as f64 / 1000.0);
        println!(
            "delay at {half:.0} writes/s: {middle:.1} ms for half, {high:.1} ms for 99 % (aim: < \
             50), at most {most:.1} ms",
        );
    }
    Ok(())
}
