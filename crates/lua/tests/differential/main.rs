//! Do scripts reply what redis-server's do, byte for byte?
//!
//! Each snippet of `snippets.txt` runs on a redis-server and in an [`Interpreter`] whose host sends
//! every command to the same server; before both, the data are the same. The clients speak RESP2,
//! then RESP3. A snippet ends at an empty line; a line that begins with `##` is a comment.
//!
//! Without redis-server on the machine the tests pass and say so.

mod libraries;
mod random;
mod server;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lua::{Callable, Flow, Host, Interpreter, Limits, LogLevel, Outcome, Run};
use server::{Connection, Server};

const SNIPPETS: &str = include_str!("snippets.txt");
const KEYS: [&[u8]; 2] = [b"k1", b"k2"];
const ARGS: [&[u8]; 3] = [b"a1", b"10", b"3.5"];

const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    thread_time: None,
    instructions: 1_000_000_000,
    memory_bytes: 256 << 20,
};

/// Sends commands to a server, and words refusals as Redis words them to scripts.
struct Forward {
    resp2: Connection,
    resp3: Connection,
}

impl Host for Forward {
    fn call(&mut self, args: &[&[u8]], resp3: bool, reply: &mut Vec<u8>) -> Flow {
        let connection = if resp3 { &mut self.resp3 } else { &mut self.resp2 };
        let answer = connection.call(args);
        if answer.starts_with(b"-ERR unknown command") {
            reply.extend_from_slice(b"-ERR Unknown Redis command called from script\r\n");
        } else if answer.starts_with(b"-ERR wrong number of arguments for") {
            let refusal = b"-ERR Wrong number of args calling Redis command from script\r\n";
            reply.extend_from_slice(refusal);
        } else {
            reply.extend_from_slice(&answer);
        }
        Flow::Continue
    }

    fn allows(&mut self, args: &[&[u8]]) -> Option<bool> {
        let info = self.resp2.call(&[b"COMMAND", b"INFO", args[0]]);
        (info.starts_with(b"*1\r\n*") && info != b"*1\r\n*-1\r\n").then_some(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}
}

/// Both sides of the comparison.
struct Pair {
    resp2: Connection,
    resp3: Connection,
    host: Forward,
    interpreter: Interpreter,
}

impl Pair {
    fn new(server: &Server) -> Self {
        let host = Forward { resp2: server.connect(2), resp3: server.connect(3) };
        let (resp2, resp3) = (server.connect(2), server.connect(3));
        Self { resp2, resp3, host, interpreter: Interpreter::new() }
    }

    /// The same data each time, and a fresh state of Lua on the server.
    fn prepare(&mut self) {
        let commands: [&[&[u8]]; 8] = [
            &[b"FLUSHALL"],
            &[b"SCRIPT", b"FLUSH", b"SYNC"],
            &[b"SET", b"k1", b"value"],
            &[b"RPUSH", b"list", b"a", b"b", b"c"],
            &[b"HSET", b"hash", b"f", b"v"],
            &[b"ZADD", b"zset", b"1.5", b"m"],
            &[b"SADD", b"set", b"x"],
            &[b"SET", b"number", b"41"],
        ];
        for command in commands {
            let reply = self.resp2.call(command);
            assert!(!reply.starts_with(b"-"), "{}", shown(&reply));
        }
    }

    /// What the server replies, and what the interpreter does.
    fn both(&mut self, snippet: &[u8], resp3: bool) -> (Vec<u8>, Vec<u8>) {
        self.prepare();
        let mut command: Vec<&[u8]> = vec![b"EVAL", snippet, b"2"];
        command.extend(KEYS);
        command.extend(ARGS);
        let connection = if resp3 { &mut self.resp3 } else { &mut self.resp2 };
        let theirs = connection.call(&command);
        self.prepare();
        (theirs, self.ours(snippet, resp3))
    }

    fn ours(&mut self, snippet: &[u8], resp3: bool) -> Vec<u8> {
        let sha = match self.interpreter.load(snippet) {
            Ok(sha) => sha,
            Err(error) => return format!("-{}\r\n", error.0).into_bytes(),
        };
        let mut reply = Vec::new();
        let killed = AtomicBool::new(false);
        let what = Callable::Script(&sha);
        let run = Run { what, keys: &KEYS, args: &ARGS, resp3, limits: LIMITS, killed: &killed };
        let outcome = self.interpreter.run(&run, &mut self.host, &mut reply);
        match outcome {
            Outcome::Replied { is_error } => {
                assert_eq!(is_error, reply.starts_with(b"-"), "{}", shown(&reply));
                reply
            }
            other => format!("{other:?}").into_bytes(),
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn snippets() -> Vec<String> {
    let lines = SNIPPETS.lines().filter(|line| !line.starts_with("##"));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.split("\n\n").map(|s| s.trim_matches('\n').to_owned()).filter(|s| !s.is_empty()).collect()
}

fn compare(pair: &mut Pair, snippets: &[String]) {
    let mut differing = Vec::new();
    for snippet in snippets {
        for resp3 in [false, true] {
            let (theirs, ours) = pair.both(snippet.as_bytes(), resp3);
            if theirs != ours {
                let version = if resp3 { 3 } else { 2 };
                differing.push(format!(
                    "RESP{version}: {snippet}\n  redis:    {}\n  carillon: {}",
                    shown(&theirs),
                    shown(&ours)
                ));
            }
        }
    }
    let count = differing.len();
    let first = differing.into_iter().take(40).collect::<Vec<_>>().join("\n");
    assert!(count == 0, "{count} of {} replies differ:\n{first}", snippets.len() * 2);
}

/// Runs a test beside a redis-server, if there is one.
fn beside_redis(test: impl FnOnce(&mut Pair)) {
    match Server::start() {
        Some(server) => test(&mut Pair::new(&server)),
        None => eprintln!("skipped: there is no redis-server; `make setup` installs it"),
    }
}

#[test]
fn snippets_reply_as_redis() {
    let snippets = snippets();
    assert!(snippets.len() > 100, "only {} snippets", snippets.len());
    beside_redis(|pair| compare(pair, &snippets));
}

#[test]
fn random_scripts_reply_as_redis() {
    let snippets: Vec<String> = (0..3_000).map(random::script).collect();
    beside_redis(|pair| compare(pair, &snippets));
}
