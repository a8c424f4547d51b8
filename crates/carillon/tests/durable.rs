//! A lone node, the real program, with a faulty disk or clock: a full disk is reported, a clock
//! that was far ahead can be repaired, and damage at the end of the log is reported as such.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::disk::SmallDisk;
use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;

const YEAR_SECS: u64 = 365 * 86_400;

/// The node of one test; what it has is removed when it is dropped. Fields are dropped in this
/// order.
struct Place {
    node: Node,
    disk: Option<SmallDisk>,
    dir: Directory,
}

/// Waits until something is there.
fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    harness::until(TEST_TIMEOUT, what, look)
}

fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Place {
    fn new(name: &str) -> Self {
        let dir = Directory::new(name).unwrap();
        let node = Node::new(env!("CARGO_BIN_EXE_carillon"), dir.path(), "data");
        Self { node, disk: None, dir }
    }

    fn data(&self) -> PathBuf {
        self.node.dir()
    }

    fn run(&mut self, command: Command) {
        self.node.run(command);
        self.node.wait_until_ready();
    }

    fn start(&mut self) {
        self.run(self.node.command(&[]));
    }

    fn kill(&mut self) {
        self.node.kill();
    }

    fn stop(&mut self) {
        self.node.stop();
    }

    fn log(&self) -> String {
        self.node.log()
    }

    /// Verdict and reasons.
    fn health(&self) -> (String, String) {
        let status = until("a status", || self.node.status());
        let health = &status["health"];
        (health["verdict"].as_str().unwrap().to_owned(), health["reasons"].to_string())
    }

    /// One command of Redis and its reply: a status, an error, a number or a string.
    fn ask(&self, words: &[&str]) -> String {
        self.node.connect().ask(words).unwrap().line()
    }

    /// Runs a command line: exit code, and all that it said.
    fn carillon(&self, line: &[&str]) -> (i32, String) {
        self.node.carillon(line)
    }
}

#[test]
fn full_disk_is_reported_until_next_successful_write() {
    let mut place = Place::new("full-disk");
    let Some(disk) = SmallDisk::mount(&place.data(), 200) else { return };
    place.disk = Some(disk);
    place.start();
    let value = "x".repeat(256 << 10);
    // By metric, health and INFO.
    let reported = |place: &Place| {
        let (verdict, reasons) = place.health();
        let info = place.ask(&["INFO", "persistence"]);
        [
            place.node.metric("carillon_disk_full") == 1.0,
            verdict == "degraded" && reasons.contains("disk of this node is full"),
            info.contains("aof_last_write_status:err"),
        ]
    };
    assert_eq!(reported(&place), [false; 3]);
    place.disk.as_ref().unwrap().fill();
    let refuses = |place: &Place| {
        (0..400).map(|key: u32| place.ask(&["SET", &key.to_string(), &value])).find(|r| r != "+OK")
    };
    let refused = refuses(&place).expect("a segment holds no 100 MiB");
    assert!(refused.starts_with("-MISCONF"), "{refused}");
    // All the while, whatever is read, and though turns without writes find all they need.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(place.ask(&["GET", "0"]).len(), value.len());
        assert_eq!(reported(&place), [true; 3]);
    }
    let count = |place: &Place, words: &str| place.log().matches(words).count();
    assert_eq!(count(&place, "the disk is full"), 1, "{}", place.log());
    assert_eq!(count(&place, "the disk has room again"), 0);

    // Room alone is enough: nobody need write for it to be seen.
    place.disk.as_ref().unwrap().free();
    until("room is found", || (reported(&place) == [false; 3]).then_some(()));
    assert_eq!(place.ask(&["SET", "0", &value]), "+OK");
    assert_eq!(count(&place, "the disk is full"), 1, "{}", place.log());
    assert_eq!(count(&place, "the disk has room again"), 1, "{}", place.log());
}

/// A library that has a process see a clock so far ahead.
fn clock_ahead(dir: &Path) -> PathBuf {
    let source = dir.join("ahead.c");
    let code = "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <time.h>\n#include <unistd.h>\n\
                #include <sys/syscall.h>\nint clock_gettime(clockid_t id, struct timespec *t) {\n\
                int failed = syscall(SYS_clock_gettime, id, t);\n\
                const char *by = getenv(\"AHEAD\");\n\
                if (!failed && id == CLOCK_REALTIME && by) t->tv_sec += atol(by);\n\
                return failed;\n}\n";
    fs::write(&source, code).unwrap();
    let library = dir.join("ahead.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(cc.status().unwrap().success(), "the C compiler that Rust links with");
    library
}

fn seconds(reply: &str) -> i64 {
    reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}")).parse().unwrap()
}

#[test]
fn repair_clock_fixes_data_from_clock_a_year_ahead() {
    let mut place = Place::new("clock-ahead");
    place.start();
    assert_eq!(place.ask(&["SET", "before", "1"]), "+OK");
    assert_eq!(place.ask(&["SET", "lives-long", "1", "EX", &(2 * YEAR_SECS).to_string()]), "+OK");
    assert_eq!(place.ask(&["SET", "lives-a-day", "1", "EX", "86400"]), "+OK");
    let http = place.node.http.to_string();
    let (code, output) = place.carillon(&["keyspace", "create", "other", "--http", &http]);
    assert_eq!(code, 0, "{output}");
    let put = client::http::PutOptions::default();
    place.node.client().put("other", b"key", b"of other", &put).unwrap();
    place.stop();
    let (code, output) = repair(&place, "unneeded");
    assert!(code == 1 && output.contains("there is nothing to repair"), "{code} {output}");

    // One start with a clock that is a year ahead.
    let library = clock_ahead(place.dir.path());
    let mut command = place.node.command(&[]);
    command.env("LD_PRELOAD", library).env("AHEAD", YEAR_SECS.to_string());
    place.run(command);
    let days = [now_secs() + YEAR_SECS, now_secs() + YEAR_SECS + 600]
        .map(|secs| server::utc::utc(secs * 1000).split_once(' ').unwrap().0.to_owned());
    assert_eq!(place.ask(&["SET", "ahead", "2"]), "+OK");
    assert_eq!(place.ask(&["SET", "an-hour", "2", "EX", "3600"]), "+OK");
    assert_eq!(place.ask(&["SET", "moment", "2", "PX", "1"]), "+OK");
    assert_eq!(place.ask(&["GET", "lives-a-day"]), "nil");
    assert_eq!(place.ask(&["DEL", "before"]), ":1");
    place.stop();

    // Each later start suffers from it, and says so: whose clock, since when, and the way out.
    place.start();
    let soon = (now_secs() + 600).to_string();
    assert_eq!(place.ask(&["SET", "v", "1", "EXAT", &soon]), "+OK");
    assert_eq!(place.ask(&["GET", "v"]), "nil", "time goes on from the log's");
    let (verdict, reasons) = place.health();
    assert_eq!(verdict, "degraded");
    for text in [&reasons, &place.log()] {
        let phrases = ["ahead of this machine's clock", "wrote from 20", "repair-clock"];
        assert!(phrases.iter().all(|words| text.contains(words)), "{text}");
        assert!(
            days.iter().any(|day| text.contains(&format!("had timestamps up to {day}"))),
            "{text}"
        );
    }
    let (code, output) = repair(&place, "running");
    assert!(code == 1 && output.contains("in use by a running node"), "{code} {output}");
    place.stop();

    fs::create_dir(place.dir.path().join("full")).unwrap();
    fs::write(place.dir.path().join("full/file"), "x").unwrap();
    let (code, output) = repair(&place, "full");
    assert!(code == 1 && output.contains("is not empty"), "{code} {output}");
    let (code, output) = repair(&place, "repaired");
    assert!(code == 0 && output.contains("which is unchanged"), "{code} {output}");
    let repaired = place.dir.path().join("repaired");
    let (code, output) = place.carillon(&["check", repaired.to_str().unwrap()]);
    assert!(code == 0 && output.starts_with("healthy"), "{code} {output}");

    // What no node has begun a log for is there all the same: two keyspaces, and the catalogue.
    let (code, output) =
        place.carillon(&["recover", "inspect", "--dir", repaired.to_str().unwrap()]);
    let text = &output[output.find('{').expect("an object")..];
    let left = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>().next();
    let left = left.expect("an object").expect("JSON");
    let shards = left["replicas"].as_array().map_or(0, Vec::len);
    assert!(code == 0 && shards > 2, "{code} {output}");

    place.node.name = "repaired".into();
    for round in ["first", "again"] {
        place.start();
        assert_eq!(place.health(), ("ok".into(), "[]".into()), "{round}");
        assert_eq!(place.ask(&["GET", "ahead"]), "2");
        assert_eq!(place.ask(&["GET", "lives-long"]), "1");
        assert!((3_000..=3_600).contains(&seconds(&place.ask(&["TTL", "an-hour"]))));
        let long = seconds(&place.ask(&["TTL", "lives-long"])).unsigned_abs();
        assert!((2 * YEAR_SECS - 900..=2 * YEAR_SECS).contains(&long), "{long}");
        for key in ["before", "lives-a-day", "moment"] {
            assert_eq!(place.ask(&["GET", key]), "nil", "{key}");
        }
        let got = place.node.client().get("other", b"key", None).unwrap();
        assert!(
            matches!(&got, client::http::GetResult::Value { value, .. } if value == b"of other")
        );
        let soon = (now_secs() + 600).to_string();
        assert_eq!(place.ask(&["SET", "v", "1", "EXAT", &soon]), "+OK");
        assert_eq!(place.ask(&["GET", "v"]), "1", "{round}");
        place.kill();
    }
}

fn repair(place: &Place, to: &str) -> (i32, String) {
    let (old, new) = (place.data(), place.dir.path().join(to));
    place.carillon(&["repair-clock", "--dir", old.to_str().unwrap(), "--to", new.to_str().unwrap()])
}

#[test]
fn damage_to_last_synced_data_is_not_called_unacknowledged() {
    let mut place = Place::new("cut-log");
    place.start();
    for key in 0..31 {
        assert_eq!(place.ask(&["SET", &format!("key-{key}"), "value"]), "+OK");
    }
    place.kill();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    let files = fs::read_dir(place.data()).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<PathBuf> = files.filter(is_segment).collect();
    segments.sort();
    // One made ahead has its header only.
    let used = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0)? + 1;
        (end > 64).then(|| (path.clone(), bytes[..end].to_vec()))
    };
    let (segment, bytes) = segments.iter().filter_map(used).next_back().unwrap();
    // From within a group: of one that is gone from its first byte on, nothing is left to be cut.
    let mut from = bytes.len() - 400;
    if let Some(group) = bytes[from..from + 16].windows(4).position(|four| four == b"CGRP") {
        from += group + 8;
    }
    let file = File::options().write(true).open(segment).unwrap();
    file.write_all_at(&vec![0; bytes.len() - from], from as u64).unwrap();

    let known = "that no later record calls durable";
    let (code, output) = place.carillon(&["check", place.data().to_str().unwrap()]);
    assert!(code == 0 && output.contains(known), "{code} {output}");
    assert!(!output.contains("nothing in them was acknowledged"), "{output}");
    place.start();
    let log = place.log();
    let cut = log.lines().find(|line| line.contains("at the end of the log")).expect("it was cut");
    assert!(cut.contains("truncated ") && cut.contains(known), "{cut}");
    assert!(cut.contains("damage to what was synced last looks the same"), "{cut}");
    assert!(!log.contains("never acknowledged as durable"), "{log}");
    assert_eq!(place.ask(&["GET", "key-0"]), "value");
    let kept = (0..31).filter(|key| place.ask(&["GET", &format!("key-{key}")]) == "value").count();
    assert!((20..31).contains(&kept), "{kept} of 31: some that were acknowledged are gone");
}
