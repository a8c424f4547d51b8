//! Clients that cache what they read, and three nodes for them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;
use harness::resp::encode;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

/// A RESP connection that shows frames as they come, pushes among them.
pub struct Client {
    stream: TcpStream,
    input: BufReader<TcpStream>,
    /// Pushes that came before the replies that were read.
    pub pushes: Vec<String>,
}

impl Client {
    /// One that tracks nothing.
    pub fn of(node: &Node) -> Self {
        let stream = TcpStream::connect(node.resp).expect("the node listens");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let input = BufReader::new(stream.try_clone().expect("another handle"));
        Self { stream, input, pushes: Vec::new() }
    }

    /// One that tracks with these options, in RESP3.
    pub fn tracking(node: &Node, options: &str) -> Self {
        let mut client = Self::of(node);
        client.ask("HELLO 3");
        assert_eq!(client.ask(&format!("CLIENT TRACKING ON {options}")), "OK");
        client
    }

    /// Sends a command, and reads no reply.
    pub fn send(&mut self, line: &str) {
        let mut bytes = Vec::new();
        encode(&mut bytes, &line.split_whitespace().collect::<Vec<_>>());
        self.stream.write_all(&bytes).expect("the node reads");
    }

    /// The reply to a command.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    /// The next reply, behind any pushes.
    pub fn reply(&mut self) -> String {
        loop {
            match self.frame() {
                (true, push) => self.pushes.push(push),
                (false, reply) => return reply,
            }
        }
    }

    /// Whether it is a push, and its text.
    pub fn frame(&mut self) -> (bool, String) {
        let mut line = String::new();
        self.input.read_line(&mut line).expect("a frame");
        let line = line.trim_end();
        let (sigil, rest) = line.split_at_checked(1).expect("the connection is open");
        let count = |each: usize| each * rest.parse::<usize>().unwrap_or(0);
        let mut many = |count| (0..count).map(|_| self.frame().1).collect::<Vec<_>>().join(" ");
        match sigil {
            "$" | "=" if rest == "-1" => (false, "nil".into()),
            "$" | "=" => {
                let mut bytes = vec![0; count(1) + 2];
                self.input.read_exact(&mut bytes).expect("the rest of it");
                (false, String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned())
            }
            "*" | "~" => (false, many(count(1))),
            ">" => (true, many(count(1))),
            "%" => (false, many(count(2))),
            "_" => (false, "nil".into()),
            _ => (false, rest.into()),
        }
    }

    /// Waits until it has heard this. Other pushes may come before.
    pub fn hears(&mut self, expected: &str) {
        let is_it = |push: &String| push == expected;
        loop {
            if let Some(place) = self.pushes.iter().position(is_it) {
                self.pushes.drain(..=place);
                return;
            }
            match self.frame() {
                (true, push) => self.pushes.push(push),
                (false, reply) => panic!("{reply:?} instead of {expected:?}: {:?}", self.pushes),
            }
        }
    }

    /// What it has heard by now: all that was sent before a reply to PING.
    pub fn heard(&mut self) -> Vec<String> {
        self.ask("PING");
        std::mem::take(&mut self.pushes)
    }

    /// Asks by this line for a key until it holds the value: no push has named the key since. What
    /// comes late of a change before, or of a new leader, ends an interest that has just begun.
    pub fn holds(&mut self, line: &str, key: &str, value: &str) {
        let is_held = (0..100).any(|_| {
            assert_eq!(self.ask(line), value);
            self.pushes.clear();
            !names(&self.heard(), key)
        });
        assert!(is_held, "{key} was invalidated a hundred times");
    }

    /// Waits until it has heard of a key, alone or with others, or of all keys, as when a shard
    /// has another leader; and keeps what it heard.
    pub fn hears_among(&mut self, key: &str) {
        while !names(&self.pushes, key) {
            match self.frame() {
                (true, push) => self.pushes.push(push),
                (false, reply) => panic!("{reply:?} instead of {key}: {:?}", self.pushes),
            }
        }
    }
}

/// Whether one of these pushes is about a key, or about all.
pub fn names(pushes: &[String], key: &str) -> bool {
    pushes.iter().any(|push| push.split(' ').any(|word| word == key || word == "nil"))
}

/// Three nodes, ready, that know each other.
pub fn three(name: &str) -> (Directory, Vec<Node>) {
    let dir = Directory::new(name).unwrap();
    dir.write_secret().unwrap();
    let mut nodes: Vec<Node> =
        (0..3).map(|number| Node::new(PROGRAM, dir.path(), &format!("n{number}"))).collect();
    let first = nodes[0].peer.to_string();
    nodes[0].start(&[]);
    nodes[1].start(&["--join", &first]);
    nodes[2].start(&["--join", &first]);
    nodes.iter_mut().for_each(Node::wait_until_ready);
    (dir, nodes)
}
