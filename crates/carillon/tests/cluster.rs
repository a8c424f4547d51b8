//! The real program as a node of a cluster: it founds, joins, waits, and is refused.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use harness::ports::unused;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory with a secret, removed when it is dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("carillon-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let recipe = "umask 077; head -c 32 /dev/urandom | base64 > \"$1\"";
        let secret = dir.join("secret");
        let made = Command::new("sh").args(["-c", recipe, "sh"]).arg(&secret).status().unwrap();
        assert!(made.success());
        Self(dir)
    }

    fn of(&self, node: &str) -> PathBuf {
        self.0.join(node)
    }

    /// Starts a node that listens for other nodes only.
    fn start(&self, node: &str, peer: &str, more: &[&str]) -> Node {
        let mut child = Command::new(env!("CARGO_BIN_EXE_carillon"))
            .args(["start", "--resp", "off", "--native", "off", "--http", "off", "--dir"])
            .arg(self.of(node))
            .args(["--name", node, "--peer", peer, "--peer-secret-file"])
            .arg(self.of("secret"))
            .args(more)
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (says, lines) = channel();
        // It ends with the process, or when nobody listens any more.
        std::thread::spawn(move || {
            let _heard = stderr.lines().map_while(Result::ok).try_for_each(|line| says.send(line));
        });
        Node { child, lines }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// A process and what it says; killed when it is dropped.
struct Node {
    child: Child,
    lines: Receiver<String>,
}

impl Node {
    /// Reads on until a line has these words, for [`PATIENCE`] at most.
    fn says(&mut self, words: &str) -> String {
        let begun = Instant::now();
        let mut said = Vec::new();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("it ended, or {PATIENCE:?} went by, without {words:?}:\n{said:#?}");
            };
            if line.contains(words) {
                return line;
            }
            said.push(line);
        }
    }

    fn ends(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(&mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.ends()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn is_node(dir: &Path) -> bool {
    dir.join("MANIFEST").exists()
}

#[test]
fn nodes_join_through_any_member_and_come_back() {
    let place = Place::new("joins");
    let (a, b, c) = (unused().to_string(), unused().to_string(), unused().to_string());
    // Before there is anybody to join.
    let mut second = place.start("b", &b, &["--join", &a]);
    second.says("waiting to join a cluster");
    assert!(!is_node(&place.of("b")));
    let mut first = place.start("a", &a, &[]);
    first.says(&format!("member b at {b} is up"));
    second.says("recovered=\"joined cluster");
    // A used directory is not begun anew, and needs no seeds.
    assert_eq!(second.stop().code(), Some(0));
    first.says(&format!("member b at {b} is down"));
    let mut second = place.start("b", &b, &[]);
    assert!(!second.says("recovered=").contains("joined"));
    first.says(&format!("member b at {b} is up"));
    let mut third = place.start("c", &c, &["--join", &b]);
    third.says("member a at");
    first.says("member c at");
    assert_eq!(first.stop().code(), Some(0));
}

#[test]
fn a_directory_of_another_cluster_is_an_exit_code_of_its_own() {
    let place = Place::new("wrong-cluster");
    let address = unused().to_string();
    let mut first = place.start("a", &address, &[]);
    first.says(&format!("listening protocol=\"peer\" address={address}"));
    first.says("ready");
    let mut other = place.start("b", "127.0.0.1:0", &[]);
    other.says("ready");
    assert_eq!(other.stop().code(), Some(0));
    let mut other = place.start("b", "127.0.0.1:0", &["--join", &address]);
    other.says("carillon: the data directory belongs to cluster");
    assert_eq!(other.ends().code(), Some(5));
}

#[test]
fn a_node_that_waits_can_be_stopped_and_leaves_its_directory_empty() {
    let place = Place::new("waits");
    let mut node = place.start("a", "127.0.0.1:0", &["--join", &unused().to_string()]);
    node.says("still waiting to join");
    assert_eq!(node.stop().code(), Some(0));
    assert!(!is_node(&place.of("a")));
}

#[test]
fn an_open_secret_starts_nothing() {
    let place = Place::new("open-secret");
    let secret = place.of("secret");
    assert!(Command::new("chmod").arg("644").arg(&secret).status().unwrap().success());
    let mut node = place.start("a", "127.0.0.1:0", &[]);
    node.says("chmod 600");
    assert_eq!(node.ends().code(), Some(1));
    assert!(!place.of("a").exists(), "not even its directory");
}
