//! One real node: a process that can be started, paused, killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use harness::net::Host;
use harness::process::{Process, Signal};

/// The ports are the same everywhere: addresses differ.
pub const RESP: u16 = 6379;
/// See [`RESP`].
pub const HTTP: u16 = 7480;
/// See [`RESP`].
pub const PEER: u16 = 7600;

/// A node, running or not; killed when it is dropped, also if it is paused.
pub struct Node {
    /// Counted from 1.
    pub number: usize,
    /// Its data.
    pub dir: PathBuf,
    /// Where it runs.
    pub site: Host,
    flags: Vec<String>,
    /// Flags of its next start, besides.
    pub more: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
}

impl Node {
    /// A node that does not run yet. Its log grows beside its directory.
    pub fn new(number: usize, dir: PathBuf, site: Host, flags: Vec<String>) -> Self {
        let log = dir.with_extension("log");
        Self { number, dir, site, flags, more: Vec::new(), log, process: None }
    }

    /// One of its addresses.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.site.ip, port))
    }

    /// Starts it. The kernel kills it when the calling thread ends: call it from the test's own.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "node {} runs", self.number);
        let mut command = self.site.command(env!("CARGO_BIN_EXE_carillon"));
        command.arg("start").args(&self.flags).args(&self.more);
        self.process = Some(Process::start(command, &self.log).expect("a process"));
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.signal(Signal::Kill);
        self.wait();
    }

    /// SIGTERM, and its end.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::Terminate);
        self.wait()
    }

    /// SIGSTOP: it stands still, and everything it holds stays as it is.
    pub fn pause(&self) {
        self.signal(Signal::Stop);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::Continue);
    }

    /// Fails if it has ended by itself.
    pub fn assert_runs(&mut self) {
        let process = self.process.as_mut();
        let process = process.unwrap_or_else(|| panic!("node {} is off", self.number));
        if let Some(status) = process.ended().expect("the process is our child") {
            panic!("node {} ended by itself: {status}\n{}", self.number, self.last_words());
        }
    }

    /// Its whole log, over all restarts.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until its log holds `words` so many times.
    pub fn wait_for_log(&self, words: &str, times: usize) {
        let begun = Instant::now();
        while self.said().matches(words).count() < times {
            let late = begun.elapsed() > super::TEST_TIMEOUT;
            assert!(!late, "node {} has not said {words:?} {times} times", self.number);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let text = self.said();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref();
        let process = process.unwrap_or_else(|| panic!("node {} is off", self.number));
        process.signal(signal).expect("nobody has waited for its end");
    }

    /// Waits until it has ended by itself; else kills it.
    pub fn wait(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("the process was signalled");
        let ended = process.wait_for(super::TEST_TIMEOUT);
        ended.unwrap_or_else(|why| panic!("node {}: {why}", self.number))
    }
}

/// The flags of a node that others reach at `reached`. It dials the nodes at `others`.
pub fn flags(
    number: usize,
    dir: &Path,
    ip: Ipv4Addr,
    reached: SocketAddr,
    others: &[SocketAddr],
) -> Vec<String> {
    let own = |port: u16| SocketAddr::from((ip, port)).to_string();
    let mut flags = vec![
        ("dir", dir.display().to_string()),
        ("name", format!("node-{number}")),
        ("resp", own(RESP)),
        ("http", own(HTTP)),
        ("native", "off".to_owned()),
        ("threads", "1".to_owned()),
        ("memory-max", "256MiB".to_owned()),
        ("segment-bytes", "4MiB".to_owned()),
    ];
    if !others.is_empty() {
        let secret = dir.with_file_name("secret").display().to_string();
        flags.extend([("peer", own(PEER)), ("peer-secret-file", secret)]);
        if reached.to_string() != own(PEER) {
            flags.push(("advertise", reached.to_string()));
        }
    }
    if !others.is_empty() && number > 1 {
        let others = others.iter().map(SocketAddr::to_string);
        flags.push(("join", others.collect::<Vec<_>>().join(",")));
    }
    let pairs = flags.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]);
    // A node that listens on another address than loopback needs this flag.
    let insecure = (!ip.is_loopback()).then(|| "--insecure".to_owned());
    pairs.chain(insecure).collect()
}
