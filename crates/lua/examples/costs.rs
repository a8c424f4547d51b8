//! What a script costs: `cargo run -p lua --example costs`, with the profile that is of interest.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use lua::{Callable, Flow, Host, Interpreter, Limits, LogLevel, Run};

struct Nothing;

impl Host for Nothing {
    fn call(&mut self, _: &[&[u8]], _: bool, reply: &mut Vec<u8>) -> Flow {
        reply.extend_from_slice(b"$5\r\nvalue\r\n");
        Flow::Continue
    }

    fn allows(&mut self, _: &[&[u8]]) -> Option<bool> {
        Some(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}
}

const SCRIPTS: [(&str, &str); 5] = [
    ("return 1", "return 1"),
    (
        "three calls",
        "redis.call('get', KEYS[1]) redis.call('set', KEYS[1], ARGV[1]) \
         return redis.call('get', KEYS[2])",
    ),
    ("1 000 calls", "for i = 1, 1000 do redis.call('set', KEYS[1], i) end return 1"),
    (
        "JSON there and back",
        "return cjson.encode(cjson.decode('{\"a\":[1,2,3],\"b\":{\"c\":\"text\"}}'))",
    ),
    ("an error", "return redis.call({})"),
];

fn main() {
    let mut lua = Interpreter::new();
    let killed = AtomicBool::new(false);
    let limits = Limits {
        time: Duration::from_secs(5),
        thread_time: None,
        instructions: 100_000_000,
        memory_bytes: 64 << 20,
    };
    let mut out = Vec::new();
    for (name, script) in SCRIPTS {
        let sha = lua.load(script.as_bytes()).unwrap_or_else(|error| panic!("{}", error.0));
        let run = Run {
            what: Callable::Script(&sha),
            keys: &[b"{k}1", b"{k}2"],
            args: &[b"argument"],
            resp3: false,
            limits,
            killed: &killed,
        };
        let times = if name.starts_with("1 000") { 300 } else { 100_000 };
        let start = Instant::now();
        for _ in 0..times {
            out.clear();
            lua.run(&run, &mut Nothing, &mut out);
        }
        println!("{name}: {:.2} µs", start.elapsed().as_secs_f64() * 1e6 / f64::from(times));
    }
    let start = Instant::now();
    for _ in 0..200 {
        drop(Interpreter::new());
    }
    println!("a state: {:.1} µs", start.elapsed().as_secs_f64() * 1e6 / 200.0);
    let start = Instant::now();
    for index in 0..2_000 {
        let script = format!("local n = {index} {}", SCRIPTS[1].1);
        lua.load(script.as_bytes()).unwrap_or_else(|error| panic!("{}", error.0));
    }
    println!("compiling: {:.1} µs", start.elapsed().as_secs_f64() * 1e6 / 2_000.0);
}
