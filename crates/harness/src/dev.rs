//! A run of `carillon dev`: several nodes, started by one process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lines::Lines;
use crate::node::TEST_TIMEOUT;
use crate::ports;
use crate::process::{Directory, Process, Signal};

/// From the base port to those of each kind, as `carillon dev` has it: RESP, native, HTTP, peers,
/// volumes.
const KINDS: [u16; 5] = [0, 1_021, 1_101, 1_221, 4_430];
/// Ports of one kind.
const NODES_MAX: u16 = 4;

/// A base port of which all ports of a run are free.
pub fn base_port() -> u16 {
    ports::base(&KINDS, NODES_MAX)
}

/// The run, and what it has printed. Dropping it ends it, and removes its directory.
pub struct Dev {
    process: Process,
    /// The port of the first node's RESP.
    pub base: u16,
    /// Where its nodes have their directories.
    pub dir: PathBuf,
    out: Lines,
    err: Lines,
    /// Of its output.
    _output: Directory,
}

impl Dev {
    /// Starts it on a directory and ports of the caller's choice, with these flags besides.
    pub fn start(program: &str, dir: &Path, base: u16, flags: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dev-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let output = Directory::new(&name).expect("a directory can be made");
        let [out, err] = ["out", "err"].map(|name| output.path().join(name));
        let mut command = Command::new(program);
        command.args(["dev", "--base-port", &base.to_string(), "--dir"]).arg(dir).args(flags);
        let process = Process::start_apart(command, &out, &err).expect("a process");
        let (out, err) = (Lines::of(&out), Lines::of(&err));
        Self { process, base, dir: dir.to_owned(), out, err, _output: output }
    }

    /// The process ids of the nodes, from the table that is printed when all are ready.
    #[track_caller]
    pub fn ready(&mut self, nodes: usize) -> Vec<u32> {
        let mut pid = || {
            let line = self.out.until("node-", TEST_TIMEOUT);
            line.split_whitespace().nth(5).and_then(|pid| pid.parse().ok()).expect("a process id")
        };
        (0..nodes).map(|_| pid()).collect()
    }

    /// The next line of its standard error that holds these words.
    #[track_caller]
    pub fn says(&mut self, words: &str) -> String {
        self.err.until(words, TEST_TIMEOUT)
    }

    /// The unread lines of its standard output.
    pub fn printed(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.out.next_now().expect("a file that can be read")).collect()
    }

    /// The unread lines of its standard error.
    pub fn complaints(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.err.next_now().expect("a file that can be read")).collect()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal).expect("the process runs");
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait_for(TEST_TIMEOUT).expect("the process ends")
    }

    /// Where Redis clients reach a node, counted from 1.
    pub fn resp(&self, number: u16) -> SocketAddr {
        self.at(KINDS[0], number)
    }

    /// Where HTTP clients reach a node, counted from 1.
    pub fn http(&self, number: u16) -> SocketAddr {
        self.at(KINDS[2], number)
    }

    fn at(&self, kind: u16, number: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.base + kind + number - 1))
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended by itself; its nodes end with it.
        let _ended = self.process.kill();
        let _removed = std::fs::remove_dir_all(&self.dir);
    }
}
