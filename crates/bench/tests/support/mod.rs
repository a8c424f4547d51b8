//! What tests of the instrument share: scenarios, runs, and what is read of results.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use bench::agents::Secret;
use bench::agents::agent::{self, Serving};
use bench::measure::result::{PhaseResult, Results};
use bench::run::{self, Local, Options, RunError};
use bench::scenario::Plan;
use harness::process::Directory;

pub fn plan(text: &str) -> Plan {
    Plan::parse("test.toml", text, &[]).unwrap_or_else(|why| panic!("{why}"))
}

pub fn options(dir: &Path) -> Options {
    Options {
        out: dir.to_owned(),
        command: "test".to_owned(),
        version: "0".to_owned(),
        ..Options::default()
    }
}

/// Runs a scenario whose results go to a directory.
pub fn run_in(dir: &Path, text: &str) -> Result<Results, RunError> {
    run::run(&plan(text), &options(dir), &mut Local::default(), &mut |_| {})
}

/// Runs a scenario in a directory of its own, which goes with the first value.
pub fn run_here(text: &str) -> (Directory, Result<Results, RunError>) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = Directory::new(&format!("support-{number}")).unwrap();
    let ran = run_in(dir.path(), text);
    (dir, ran)
}

#[track_caller]
pub fn phase<'a>(results: &'a Results, name: &str) -> &'a PhaseResult {
    let phase = results.runs[0].phases.iter().find(|phase| phase.name == name);
    phase.unwrap_or_else(|| panic!("no phase {name}"))
}

/// The kinds of failures of a phase.
pub fn kinds(phase: &PhaseResult) -> Vec<&String> {
    phase.data.entries.iter().flat_map(|entry| entry.failures.keys()).collect()
}

/// One redis-server; the rest goes on with its target.
pub fn redis(rest: &str) -> String {
    format!(
        "[target]\ndriver = \"resp\"\ncommand = [\"redis-server\", \"--port\", \"{{port}}\", \
         \"--bind\", \"127.0.0.1\", \"--dir\", \"{{dir}}\", \"--save\", \"\"]\n{rest}"
    )
}

/// redis-servers by name, and the rest of a scenario.
pub fn redis_nodes(nodes: &[(&str, &str)], target: &str, rest: &str) -> String {
    let node = |(name, more): &(&str, &str)| {
        format!(
            "[[node]]\nname = \"{name}\"\ncommand = [\"redis-server\", \"--port\", \"{{port}}\", \
             \"--bind\", \"{{host}}\", \"--protected-mode\", \"no\", \"--dir\", \"{{dir}}\", \
             \"--save\", \"\"]\n{more}\n"
        )
    };
    let nodes: String = nodes.iter().map(node).collect();
    format!("[target]\ndriver = \"resp\"\n{target}\n{nodes}\n{rest}")
}

pub fn secret() -> Secret {
    Secret::new(b"a secret of the tests")
}

/// An agent on a thread that ends with this process.
pub fn start_agent(clock: fn() -> SystemTime) -> String {
    let address = harness::ports::unused().to_string();
    let listen = address.clone();
    thread::spawn(move || {
        agent::serve(&listen, &Serving { secret: secret(), clock, log: &|_| {} })
    });
    harness::until(Duration::from_secs(10), "the agent listens", || {
        std::net::TcpStream::connect(&address).ok()
    });
    address
}

/// Whether a process with these words in its command line runs.
pub fn runs(words: &str) -> bool {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = pids.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(words))
}
