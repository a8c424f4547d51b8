//! The real program as a node of a cluster: it founds one, joins, waits, or is refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use harness::lines::Lines;
use harness::ports::unused;
use harness::process::{Directory, Process};

/// Longer than anything here takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A directory with a secret, removed when it is dropped.
struct Place(Directory);

impl Place {
    fn new(name: &str) -> Self {
        let dir = Directory::new(name).unwrap();
        dir.write_secret().unwrap();
        Self(dir)
    }

    fn of(&self, node: &str) -> PathBuf {
        self.0.path().join(node)
    }

    /// Starts a node that listens for other nodes only.
    fn start(&self, node: &str, peer: &str, more: &[&str]) -> Node {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
        command
            .args(["start", "--resp", "off", "--native", "off", "--http", "off", "--dir"])
            .arg(self.of(node))
            .args(["--name", node, "--peer", peer, "--peer-secret-file"])
            .arg(self.of("secret"))
            .args(more)
            .env("NO_COLOR", "1");
        let log = self.of(&format!("{node}.log"));
        // Its log is that of its last life.
        let _none = fs::remove_file(&log);
        Node { process: Process::start(command, &log).unwrap(), lines: Lines::of(&log) }
    }
}

/// A process and what it says; killed when it is dropped.
struct Node {
    process: Process,
    lines: Lines,
}

impl Node {
    /// Reads on until a line has these words, for [`TEST_TIMEOUT`] at most.
    #[track_caller]
    fn says(&mut self, words: &str) -> String {
        self.lines.until(words, TEST_TIMEOUT)
    }

    fn ends(&mut self) -> ExitStatus {
        self.process.wait_for(TEST_TIMEOUT).unwrap()
    }

    fn stop(&mut self) -> ExitStatus {
        self.process.stop(TEST_TIMEOUT).unwrap()
    }
}

fn is_node(dir: &Path) -> bool {
    dir.join("MANIFEST").exists()
}

#[test]
fn nodes_join_through_any_member_and_rejoin() {
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
fn directory_of_another_cluster_has_own_exit_code() {
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
fn waiting_node_stops_and_leaves_directory_empty() {
    let place = Place::new("waits");
    let mut node = place.start("a", "127.0.0.1:0", &["--join", &unused().to_string()]);
    node.says("still waiting to join");
    assert_eq!(node.stop().code(), Some(0));
    assert!(!is_node(&place.of("a")));
}

#[test]
fn secret_file_readable_by_others_is_refused() {
    let place = Place::new("open-secret");
    let secret = place.of("secret");
    fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    let mut node = place.start("a", "127.0.0.1:0", &[]);
    node.says("chmod 600");
    assert_eq!(node.ends().code(), Some(1));
    assert!(!place.of("a").exists(), "not even its directory");
}
