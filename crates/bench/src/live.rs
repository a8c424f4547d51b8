//! A page that shows a run while it goes on: `carillon bench run --live HOST:PORT`.
//!
//! ```text
//!   GET /          the page, which asks for nothing but
//!   GET /events    server-sent events: what has happened of this run, then what happens
//! ```
//!
//! A viewer that comes late gets the last [`KEPT_MAX`] events first. One that does not read loses
//! its connection. The page can change nothing, and everybody who can reach the address can read
//! it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::measure::record::Second;
use crate::measure::result::{PhaseResult, Row, shown};
use crate::report;
use crate::run::Progress;
use crate::scenario::Metric;

/// The most events that are kept for viewers that come late.
pub const KEPT_MAX: usize = 10_000;
/// The most viewers; others are told to come back.
pub const VIEWERS_MAX: usize = 32;
/// The longest request.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// How long a viewer may take to ask, and to take a piece of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two signs of life for a viewer to whom nothing happens.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// How long viewers may take to hear of the end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// What has happened.
#[derive(Default)]
struct Events {
    /// As they are sent, the first of them with this number.
    kept: VecDeque<Arc<str>>,
    first: usize,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    events: Mutex<Events>,
    news: Condvar,
    viewers: AtomicUsize,
    stop: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server of the page. Dropping it ends it.
pub struct Live {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The second that was told last.
    last: Mutex<Option<Second>>,
}

impl Live {
    /// Listens, for a run of this scenario.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(listen: &str, scenario: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let builder = thread::Builder::new().name("live".to_owned());
        let thread = builder.spawn(move || serve(&listener, &served))?;
        let live = Self { address, shared, thread: Some(thread), last: Mutex::new(None) };
        live.event("plan", &json!({ "name": scenario }));
        Ok(live)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows what happens.
    pub fn show(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Run { number, count, label, is_done } => {
                let run = json!({
                    "number": number, "count": count, "label": label, "is_done": is_done
                });
                self.event("run", &run);
            }
            Progress::Step { name, seconds } => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.event("step", &json!({ "name": name, "seconds": seconds }));
            }
            Progress::Second(second) => {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                // Each part of a load tells its seconds: what all have told is sent once.
                if let Some(before) = last.replace((*second).clone())
                    && before.second != second.second
                {
                    self.second(&before);
                }
            }
            Progress::Mark(mark) => {
                self.event("mark", &json!({ "at": mark.at, "name": mark.name }));
            }
            Progress::Usage(usage) => {
                let last = usage.processes.iter().filter_map(|one| Some((one, one.rows.last()?)));
                let last: Vec<_> = last.collect();
                let at = last.iter().map(|(_, row)| row.at).fold(0.0, f64::max);
                let now = last.iter().filter(|(_, row)| row.at == at);
                let cpu: Vec<Value> = now.map(|(one, row)| json!([one.name, row.cpu])).collect();
                self.event("usage", &json!({ "at": at, "cpu": cpu }));
            }
            Progress::Phase(phase) => {
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
                last.iter().for_each(|second| self.second(second));
                self.event("phase", &json!({ "name": phase.name, "text": text(phase) }));
            }
        }
    }

    /// The run is over.
    pub fn end(&self, failure: Option<&str>, report: Option<&str>) {
        self.event("end", &json!({ "failure": failure, "report": report }));
    }

    fn second(&self, second: &Second) {
        let Row { second, count, failures, p50, p99, .. } = Row::from(second);
        let row = json!({
            "second": second, "count": count, "failures": failures, "p50": p50, "p99": p99
        });
        self.event("second", &row);
    }

    fn event(&self, kind: &str, data: &Value) {
        let mut events = self.shared.lock();
        events.kept.push_back(format!("event: {kind}\ndata: {data}\n\n").into());
        if events.kept.len() > KEPT_MAX {
            events.kept.pop_front();
            events.first += 1;
        }
        drop(events);
        self.shared.news.notify_all();
    }
}

fn text(phase: &PhaseResult) -> String {
    let figure = |metric: Metric| shown(metric, phase.metric(metric, None));
    let (rate, p50, p99) = (figure(Metric::Throughput), figure(Metric::P50), figure(Metric::P99));
    format!("{rate}, p50 {p50}, p99 {p99}; {}", report::availability(phase))
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.news.notify_all();
        let begun = Instant::now();
        while self.shared.viewers.load(Ordering::Relaxed) > 0 && begun.elapsed() < END_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        // It waits for a connection; if it gets none it ends with the process.
        let woken = TcpStream::connect_timeout(&self.address, TIMEOUT).is_ok();
        if let (Some(thread), true) = (self.thread.take(), woken) {
            // It panics only if this program is wrong; the run is not about that.
            let _ended = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // No room for it at present.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if shared.viewers.load(Ordering::Relaxed) >= VIEWERS_MAX {
            // A viewer that does not take the answer gets none.
            let _unheard = answer(&stream, "503 Service Unavailable", "text/plain", "too many");
            continue;
        }
        shared.viewers.fetch_add(1, Ordering::Relaxed);
        let its = Arc::clone(shared);
        let builder = thread::Builder::new().name("viewer".to_owned());
        let spawned = builder.spawn(move || {
            // A viewer that leaves is no loss.
            let _left = view(&stream, &its);
            its.viewers.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            shared.viewers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn answer(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
}

/// The path that is asked for.
fn asked(mut stream: &TcpStream) -> io::Result<Option<String>> {
    let mut request = Vec::new();
    let mut piece = [0; 2_048];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let len = stream.read(&mut piece)?;
        if len == 0 || request.len() + len > REQUEST_BYTES_MAX {
            return Ok(None);
        }
        request.extend_from_slice(&piece[..len]);
    }
    let line = String::from_utf8_lossy(&request);
    let mut words = line.lines().next().unwrap_or_default().split(' ');
    let (method, path) = (words.next(), words.next());
    Ok(path.filter(|_| method == Some("GET")).map(str::to_owned))
}

fn view(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    match asked(stream)?.as_deref() {
        Some("/") => answer(stream, "200 OK", "text/html", &report::live_page()),
        Some("/events") => {
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                  Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            )?;
            follow(stream, shared)
        }
        Some(_) => answer(stream, "404 Not Found", "text/plain", "there is / and /events"),
        None => answer(stream, "400 Bad Request", "text/plain", "expected GET"),
    }
}

fn follow(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut next = 0;
    loop {
        let mut events = shared.lock();
        let (batch, is_over): (Vec<Arc<str>>, bool) = loop {
            // What was forgotten meanwhile is left out.
            let from = next.max(events.first);
            let batch: Vec<_> = events.kept.iter().skip(from - events.first).cloned().collect();
            next = from + batch.len();
            if !batch.is_empty() || events.is_over {
                break (batch, events.is_over);
            }
            let waited = shared.news.wait_timeout(events, ALIVE_EVERY);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            events = back;
            if timeout.timed_out() {
                break (vec![": alive\n\n".into()], false);
            }
        };
        drop(events);
        for event in &batch {
            stream.write_all(event.as_bytes())?;
        }
        if is_over {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn viewers_get_the_page_what_was_and_what_comes() {
        let live = Live::start("127.0.0.1:0", "mine").unwrap();
        let address = live.address();
        live.show(&Progress::Step { name: "warm", seconds: 2.0 });
        for second in [0, 0, 1] {
            live.show(&Progress::Second(&Second { second, failures: 7, ..Second::default() }));
        }
        let page = ask(address, "GET / HTTP/1.1\r\n\r\n");
        assert!(page.contains("EventSource(\"events\")") && page.contains("--ink"), "{page}");
        for word in ["http:", "https:", "//cdn", " src=", "href="] {
            assert!(!page.contains(word), "{word}: a page that asks for nothing else");
        }
        assert!(ask(address, "GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
        let long = "GET / HTTP/1.1\r\nX: ".to_owned() + &"y".repeat(2 * REQUEST_BYTES_MAX);
        let mut stream = TcpStream::connect(address).unwrap();
        // It may be closed before all is written.
        let _cut = stream.write_all(long.as_bytes());
        let viewer = thread::spawn(move || ask(address, "GET /events HTTP/1.1\r\n\r\n"));
        harness::until(Duration::from_secs(20), "somebody watches", || {
            (live.shared.viewers.load(Ordering::Relaxed) > 0).then_some(())
        });
        live.end(Some("no room"), None);
        drop(live);
        let events = viewer.join().unwrap();
        let kinds: Vec<&str> =
            events.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(kinds, ["plan", "step", "second", "end"], "each second once: {events}");
        assert!(events.contains("\"failures\":7"), "{events}");
        assert!(events.contains("\"failure\":\"no room\""), "{events}");
        assert!(TcpStream::connect(address).is_err(), "it has ended");
    }

    #[test]
    fn old_events_are_forgotten() {
        let live = Live::start("127.0.0.1:0", "mine").unwrap();
        for _ in 0..KEPT_MAX + 5 {
            live.event("run", &json!({}));
        }
        let events = live.shared.lock();
        assert_eq!((events.kept.len(), events.first), (KEPT_MAX, 6));
    }
}
