//! Four nodes, real processes: three have all replicas, the fourth none unless something moves.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs::File;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::ports::unused;
use serde_json::Value;

pub mod writers;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The last of the nodes: keyspaces have three replicas, so it is empty.
pub const EMPTY: usize = 3;

/// Nodes n0 to n3 with a directory, killed and removed when they are dropped.
pub struct Cluster {
    dir: PathBuf,
    peers: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
    resp: Vec<SocketAddr>,
    children: Vec<Option<Child>>,
    flags: Vec<&'static str>,
}

/// Waits for something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Cluster {
    /// Not started yet; all get these flags besides.
    pub fn new(name: &str, flags: &[&'static str]) -> Self {
        let dir = std::env::temp_dir().join(format!("carillon-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let recipe = "umask 077; head -c 32 /dev/urandom | base64 > \"$1\"";
        let secret = dir.join("secret");
        let made = Command::new("sh").args(["-c", recipe, "sh"]).arg(&secret).status().unwrap();
        assert!(made.success());
        let addresses = || (0..=EMPTY).map(|_| unused()).collect::<Vec<_>>();
        let (peers, http, resp) = (addresses(), addresses(), addresses());
        Self {
            dir,
            peers,
            http,
            resp,
            children: (0..=EMPTY).map(|_| None).collect(),
            flags: flags.to_vec(),
        }
    }

    /// Starts a node; all but the first join that one.
    pub fn start(&mut self, number: usize) {
        self.start_joining(number, (number > 0).then_some(0));
    }

    /// Starts a node with the address of this one behind `--join`, or without any.
    pub fn start_joining(&mut self, number: usize, through: Option<usize>) {
        let log = File::create(self.log_file(number)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
        command
            .args(["start", "--native", "off", "--peer-secret-file"])
            .arg(self.dir.join("secret"))
            .arg("--dir")
            .arg(self.dir_of(number))
            .args(["--name", &format!("n{number}"), "--peer", &self.peers[number].to_string()])
            .args(["--http", &self.http[number].to_string()])
            .args(["--resp", &self.resp[number].to_string()])
            .args(&self.flags)
            .env("NO_COLOR", "1")
            .stderr(Stdio::from(log));
        if let Some(through) = through {
            command.args(["--join", &self.peers[through].to_string()]);
        }
        self.children[number] = Some(command.spawn().unwrap());
    }

    /// Where other nodes reach it.
    pub fn peer_of(&self, number: usize) -> SocketAddr {
        self.peers[number]
    }

    /// From its next start on a node listens for others at another address.
    pub fn move_elsewhere(&mut self, number: usize) {
        self.peers[number] = unused();
    }

    /// Its process.
    pub fn pid_of(&self, number: usize) -> u32 {
        self.children[number].as_ref().unwrap().id()
    }

    /// Kills a node with -9.
    pub fn kill(&mut self, number: usize) {
        let mut child = self.children[number].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops a node, as people do.
    pub fn stop(&mut self, number: usize) {
        let pid = self.pid_of(number).to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        assert_eq!(self.code_of(number), Some(0), "{}", self.log_of(number));
    }

    /// The exit code of a node that ends by itself.
    pub fn code_of(&mut self, number: usize) -> Option<i32> {
        let mut child = self.children[number].take().unwrap();
        until("a node's end", || child.try_wait().unwrap()).code()
    }

    /// Where it keeps its data.
    pub fn dir_of(&self, number: usize) -> PathBuf {
        self.dir.join(format!("n{number}"))
    }

    fn log_file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("n{number}.log"))
    }

    /// What it has said.
    pub fn log_of(&self, number: usize) -> String {
        std::fs::read_to_string(self.log_file(number)).unwrap()
    }

    /// Where Redis clients reach it.
    pub fn resp_of(&self, number: usize) -> SocketAddr {
        self.resp[number]
    }

    /// Where HTTP clients reach it.
    pub fn http_of(&self, number: usize) -> SocketAddr {
        self.http[number]
    }

    /// Speaks HTTP with it.
    pub fn client(&self, number: usize) -> client::http::Client {
        client::http::Client::new(&self.http[number].to_string()).unwrap()
    }

    /// What a node says of all, once it serves.
    pub fn nodes(&self, number: usize) -> Value {
        until("an answer", || {
            let client = self.client(number);
            (client.status().ok()?["ready"] == true).then(|| client.nodes().ok()).flatten()
        })
    }

    /// What a node says of another, if it knows it.
    pub fn node(&self, asked: usize, number: usize) -> Option<Value> {
        let name = format!("n{number}");
        let nodes = self.nodes(asked);
        nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned()
    }

    /// Waits until a node sees another so.
    pub fn stands(&self, asked: usize, number: usize, standing: &str) {
        until(&format!("n{asked} sees n{number} {standing}"), || {
            (self.node(asked, number)?["standing"] == standing).then_some(())
        });
    }

    /// Runs a command line against a node: exit code, and all that it said.
    pub fn run(&self, asked: usize, line: &str) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_carillon"))
            .args(line.split(' '))
            .env("CARILLON_HTTP", self.http[asked].to_string())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    /// Runs a command line that does what it says.
    #[track_caller]
    pub fn done(&self, asked: usize, line: &str, words: &str) {
        let (code, text) = self.run(asked, line);
        assert!(code == 0 && text.contains(words), "{line}: {code} {text}");
    }

    /// Runs a command line that is refused.
    #[track_caller]
    pub fn refused(&self, asked: usize, line: &str, words: &str) {
        let (code, text) = self.run(asked, line);
        assert!(code == 1 && text.contains(words), "{line}: {code} {text}");
    }

    /// Starts nodes, and waits until all is well.
    pub fn begin(&mut self, numbers: RangeInclusive<usize>) {
        numbers.clone().for_each(|number| self.start(number));
        self.all_well(numbers);
    }

    /// Waits until these nodes see each other; the first three have all replicas.
    pub fn all_well(&self, numbers: RangeInclusive<usize>) {
        for asked in numbers.clone() {
            until("all are there", || {
                let are_well = numbers.clone().all(|number| {
                    let wanted = if number == EMPTY { 0 } else { 9 };
                    self.node(asked, number).is_some_and(|node| {
                        let held = (&node["replicas"], &node["shards"]);
                        node["state"] == "up" && held == (&wanted.into(), &wanted.into())
                    })
                });
                are_well.then_some(())
            });
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (number, child) in self.children.iter_mut().enumerate() {
            if thread::panicking() {
                let log = self.dir.join(format!("n{number}.log"));
                eprintln!("n{number}:\n{}", std::fs::read_to_string(log).unwrap_or_default());
            }
            if let Some(child) = child {
                // It may have ended.
                let _ended = child.kill();
                let _waited = child.wait();
            }
        }
        let _removed = std::fs::remove_dir_all(&self.dir);
    }
}
