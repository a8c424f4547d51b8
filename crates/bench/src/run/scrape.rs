//! Reads nodes' `/metrics` each second, on threads of its own: a node that hangs holds up nobody.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use harness::net::Host as Namespace;

use super::phase::resolve;
use crate::scenario::MetricsSpec;

/// How often a node is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How long each step of an answer may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The most threads; each asks its nodes one after the other.
const THREADS_MAX: usize = 16;
/// The most answers that wait.
const ANSWERS_MAX: usize = 4_096;
/// The most kinds of a node; others are counted together.
const NODE_KINDS_MAX: usize = 256;
/// Between two looks whether all is over.
const LOOK: Duration = Duration::from_millis(50);

/// What a node told.
#[derive(Debug)]
pub struct Scraped {
    /// Its number.
    pub node: usize,
    /// Kinds and their counts since it began.
    pub kinds: Vec<(String, f64)>,
}

/// Asks until it is dropped.
pub struct Scraper {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// What comes.
    pub scraped: Receiver<Scraped>,
}

impl Scraper {
    /// Asks these nodes, at these addresses.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        nodes: Vec<(usize, String)>,
        spec: &MetricsSpec,
        clients: Option<Namespace>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (to_us, scraped) = sync_channel(ANSWERS_MAX);
        let mut threads = Vec::new();
        let count = nodes.len().min(THREADS_MAX);
        for thread in 0..count {
            let mine: Vec<(usize, String)> =
                nodes.iter().skip(thread).step_by(count).cloned().collect();
            let (stop, to_us, spec) = (Arc::clone(&stop), to_us.clone(), spec.clone());
            let clients = clients.clone();
            let builder = std::thread::Builder::new().name("metrics".to_owned());
            threads.push(builder.spawn(move || {
                if clients.is_some_and(|clients| clients.enter().is_err()) {
                    return;
                }
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    for (node, address) in &mine {
                        // A node that is down has nothing to tell.
                        let Some(text) = fetch(address) else { continue };
                        let scraped = Scraped { node: *node, kinds: kinds(&text, &spec) };
                        // Counts grow: what finds no room is in the next answer.
                        if let Err(TrySendError::Disconnected(_)) = to_us.try_send(scraped) {
                            return;
                        }
                    }
                    while begun.elapsed() < EVERY && !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(LOOK);
                    }
                }
            })?);
        }
        Ok(Self { stop, threads, scraped })
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It panics only if this program is wrong; then messages are missing.
            let _ended = thread.join();
        }
    }
}

fn fetch(address: &str) -> Option<String> {
    let resolved = resolve(&[address.to_owned()]).ok()?;
    let mut stream = TcpStream::connect_timeout(&resolved[0], TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    // HTTP/1.0: the answer ends with the connection, and comes in one piece.
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text).ok()?;
    let is_good = text.lines().next().is_some_and(|line| line.contains(" 200"));
    is_good.then_some(text)
}

/// Sums of a family of counters by the values of labels.
fn kinds(text: &str, spec: &MetricsSpec) -> Vec<(String, f64)> {
    let mut kinds: Vec<(String, f64)> = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(spec.family.as_str()) else { continue };
        let Some((labels, value)) = sample(rest) else { continue };
        let label = |name: &str| labels.iter().find(|(known, _)| *known == name).map(|l| l.1);
        if !spec.only.iter().all(|(name, value)| label(name) == Some(value.as_str())) {
            continue;
        }
        let values: Vec<&str> = spec.by.iter().filter_map(|name| label(name)).collect();
        let kind = if values.is_empty() { spec.family.clone() } else { values.join(" ") };
        match kinds.iter().position(|(known, _)| *known == kind) {
            Some(found) => kinds[found].1 += value,
            None if kinds.len() < NODE_KINDS_MAX => kinds.push((kind, value)),
            None => kinds[NODE_KINDS_MAX - 1].1 += value,
        }
    }
    kinds
}

/// Labels and value of a sample, from after its name: `{a="b",c="d"} 5`.
fn sample(rest: &str) -> Option<(Vec<(&str, &str)>, f64)> {
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        None if rest.starts_with(' ') => ("", rest),
        None => return None,
    };
    let value = value.split_whitespace().next()?.parse().ok().filter(|v: &f64| v.is_finite())?;
    let pairs = labels.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim(), value.trim().trim_matches('"')))
    });
    Some((pairs.collect(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_summed_by_labels() {
        let text = "# HELP x y\n\
                    x_total{class=\"raft\",type=\"append\",direction=\"sent\"} 5\n\
                    x_total{class=\"raft\",type=\"append\",direction=\"received\"} 50\n\
                    x_total{class=\"raft\",type=\"vote\",direction=\"sent\"} 2 1700000000\n\
                    x_total_more{direction=\"sent\"} 9\nx_total{broken\nx_total nan\n";
        let spec = MetricsSpec {
            family: "x_total".to_owned(),
            by: vec!["class".to_owned(), "type".to_owned()],
            only: vec![("direction".to_owned(), "sent".to_owned())],
        };
        let found = kinds(text, &spec);
        assert_eq!(found, [("raft append".to_owned(), 5.0), ("raft vote".to_owned(), 2.0)]);
        let all = MetricsSpec { by: Vec::new(), only: Vec::new(), ..spec };
        assert_eq!(kinds(text, &all), [("x_total".to_owned(), 57.0)]);
    }
}
