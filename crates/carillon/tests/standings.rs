//! Nodes that are cordoned, drained and removed: real processes, the command line and HTTP.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The last of the nodes: keyspaces have three replicas, so it is empty.
const EMPTY: usize = 3;

/// Nodes n0 to n3 with a directory, killed and removed when they are dropped.
struct Cluster {
    dir: PathBuf,
    peers: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
    children: Vec<Option<Child>>,
}

/// An address of this machine that nobody listens on.
fn unused() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Waits for something.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
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
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("carillon-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let recipe = "umask 077; head -c 32 /dev/urandom | base64 > \"$1\"";
        let secret = dir.join("secret");
        let made = Command::new("sh").args(["-c", recipe, "sh"]).arg(&secret).status().unwrap();
        assert!(made.success());
        let addresses = || (0..=EMPTY).map(|_| unused()).collect::<Vec<_>>();
        let (peers, http) = (addresses(), addresses());
        Self { dir, peers, http, children: (0..=EMPTY).map(|_| None).collect() }
    }

    fn start(&mut self, number: usize) {
        let log = File::create(self.log_file(number)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
        command
            .args(["start", "--native", "off", "--resp", "off", "--peer-secret-file"])
            .arg(self.dir.join("secret"))
            .arg("--dir")
            .arg(self.dir_of(number))
            .args(["--name", &format!("n{number}"), "--peer", &self.peers[number].to_string()])
            .args(["--http", &self.http[number].to_string()])
            .env("NO_COLOR", "1")
            .stderr(Stdio::from(log));
        if number > 0 {
            command.args(["--join", &self.peers[0].to_string()]);
        }
        self.children[number] = Some(command.spawn().unwrap());
    }

    fn kill(&mut self, number: usize) {
        let mut child = self.children[number].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The exit code of a node that ends by itself.
    fn code_of(&mut self, number: usize) -> Option<i32> {
        let mut child = self.children[number].take().unwrap();
        until("a node's end", || child.try_wait().unwrap()).code()
    }

    fn dir_of(&self, number: usize) -> PathBuf {
        self.dir.join(format!("n{number}"))
    }

    fn log_file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("n{number}.log"))
    }

    fn log_of(&self, number: usize) -> String {
        std::fs::read_to_string(self.log_file(number)).unwrap()
    }

    fn client(&self, number: usize) -> client::http::Client {
        client::http::Client::new(&self.http[number].to_string()).unwrap()
    }

    /// What a node says of all, once it serves.
    fn nodes(&self, number: usize) -> Value {
        until("an answer", || {
            let client = self.client(number);
            (client.status().ok()?["ready"] == true).then(|| client.nodes().ok()).flatten()
        })
    }

    /// What a node says of another, if it knows it.
    fn node(&self, asked: usize, number: usize) -> Option<Value> {
        let name = format!("n{number}");
        let nodes = self.nodes(asked);
        nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned()
    }

    fn stands(&self, asked: usize, number: usize, standing: &str) {
        until(&format!("n{asked} sees n{number} {standing}"), || {
            (self.node(asked, number)?["standing"] == standing).then_some(())
        });
    }

    /// Runs a command line against a node: exit code, and all that it said.
    fn run(&self, asked: usize, line: &str) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_carillon"))
            .args(line.split(' '))
            .env("CARILLON_HTTP", self.http[asked].to_string())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    #[track_caller]
    fn done(&self, asked: usize, line: &str, words: &str) {
        let (code, text) = self.run(asked, line);
        assert!(code == 0 && text.contains(words), "{line}: {code} {text}");
    }

    #[track_caller]
    fn refused(&self, asked: usize, line: &str, words: &str) {
        let (code, text) = self.run(asked, line);
        assert!(code == 1 && text.contains(words), "{line}: {code} {text}");
    }

    /// Starts nodes, and waits until all is well.
    fn begin(&mut self, numbers: RangeInclusive<usize>) {
        numbers.clone().for_each(|number| self.start(number));
        self.all_well(numbers);
    }

    /// Waits until these nodes see each other; the first three have all replicas.
    fn all_well(&self, numbers: RangeInclusive<usize>) {
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

/// A cluster in which everything that people can ask of nodes is asked for, and outlives them.
#[test]
fn nodes_stand_as_people_say_and_a_removed_one_is_out_for_good() {
    let mut cluster = Cluster::new("standings");
    // It comes when the others have all replicas.
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    let id = cluster.node(0, EMPTY).unwrap()["id"].as_str().unwrap().to_owned();

    // All know, also who has no replica of the catalogue.
    cluster.done(EMPTY, "nodes cordon n3", "n3 is cordoned");
    [0, 1, EMPTY].iter().for_each(|asked| cluster.stands(*asked, EMPTY, "cordoned"));
    let few = "keyspace '0' keeps 3 replicas, and only 2 nodes would be left";
    for line in ["nodes cordon n0", "drain n1 --no-wait"] {
        cluster.refused(1, line, few);
    }
    cluster.done(0, &format!("nodes uncordon {id}"), "n3 is a member");
    cluster.done(2, "nodes cordon n0", "n0 is cordoned");
    cluster.refused(1, "drain n3", few);
    cluster.done(0, "nodes uncordon n0", "n0 is a member");
    cluster.refused(2, "nodes remove n0", "n0 still has 9 replicas");
    cluster.refused(2, "nodes remove nobody", "there is no node");

    // Nothing has to move: it is done at once.
    cluster.done(1, "drain n3", "n3 is empty");
    // What is full stays so until there is who moves it.
    let (code, text) = cluster.run(1, "drain n0 --timeout 200ms");
    assert!(code == 1 && text.contains(few), "{code} {text}");
    (0..=EMPTY).for_each(|number| cluster.kill(number));
    cluster.begin(0..=EMPTY);
    [0, 2, EMPTY].iter().for_each(|asked| cluster.stands(*asked, EMPTY, "draining"));

    // By way of itself, like by any other.
    cluster.done(EMPTY, "nodes remove n3", "n3 is removed, for good");
    assert_eq!(cluster.code_of(EMPTY), Some(5), "{}", cluster.log_of(EMPTY));
    let gone = format!("node {id} was removed from the cluster, which is for good");
    assert!(cluster.log_of(EMPTY).contains(&gone), "{}", cluster.log_of(EMPTY));
    until("it is forgotten", || cluster.node(0, EMPTY).is_none().then_some(()));
    assert_eq!(cluster.nodes(1)["removed"][0], *id);

    // For good: also after all others were started anew.
    for is_anew in [false, true] {
        if is_anew {
            (0..EMPTY).for_each(|number| cluster.kill(number));
            cluster.begin(0..=EMPTY - 1);
        }
        cluster.start(EMPTY);
        assert_eq!(cluster.code_of(EMPTY), Some(5), "{}", cluster.log_of(EMPTY));
        assert!(cluster.log_of(EMPTY).contains(&gone), "{}", cluster.log_of(EMPTY));
        assert!(cluster.node(0, EMPTY).is_none());
    }
    cluster.refused(0, &format!("nodes uncordon {id}"), "was removed from the cluster");
    cluster.done(0, &format!("nodes remove {id}"), "is removed, for good");

    // The machine comes back as another node.
    std::fs::remove_dir_all(cluster.dir_of(EMPTY)).unwrap();
    cluster.start(EMPTY);
    let new = until("the new node", || cluster.node(0, EMPTY).filter(|new| new["state"] == "up"));
    assert_ne!(new["id"], *id);
    assert_eq!(new["standing"], "member");
}
