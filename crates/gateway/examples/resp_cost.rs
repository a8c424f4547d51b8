//! Measures parsing, translating and writing: nanoseconds per command, over a full buffer of
//! commands, as a pipelining client sends them:
//! `cargo run --release -p gateway --example resp_cost`.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use command::{Read, Sink as _, Write};
use gateway::resp::{
    ArgRanges, ClientFacts, Context, Facts, KeyspaceFacts, Parsed, Peer, Request, RequestLimits,
    Session, parse,
};

/// Bytes of the buffer: about what one read from a socket brings.
const BUFFER_BYTES: usize = 16 * 1024;
const ROUNDS: usize = 2_000;

struct Nothing;

impl Context for Nothing {
    fn now_millis(&self) -> u64 {
        1_700_000_000_000
    }
    fn keyspace_exists(&self, _: &[u8]) -> bool {
        false
    }
    fn facts(&self) -> Facts<'_> {
        Facts::default()
    }
    fn each_keyspace(&self, _: &mut dyn FnMut(KeyspaceFacts<'_>)) {}
    fn each_other_client(&self, _: &mut dyn FnMut(ClientFacts<'_>)) {}
}

fn bytes_of(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
        bytes.extend(*arg);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Runs `each` over all commands of `buffer`, and returns the best round's nanoseconds per command.
fn measure(buffer: &[u8], mut each: impl FnMut(&ArgRanges, &[u8])) -> f64 {
    let limits = RequestLimits::default();
    let mut ranges = ArgRanges::new();
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut rest = black_box(buffer);
        let mut commands = 0;
        while let Ok(Parsed::Command { consumed }) = parse(rest, &limits, &mut ranges) {
            each(&ranges, rest);
            rest = &rest[consumed..];
            commands += 1;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(commands));
    }
    best
}

fn main() {
    let value = [b'v'; 100];
    let cases: [(&str, &[&[u8]]); 5] = [
        ("GET key:000000012345", &[b"GET", b"key:000000012345"]),
        ("SET, 100 bytes", &[b"SET", b"key:000000012345", &value]),
        ("INCR", &[b"INCR", b"key:000000012345"]),
        ("SET … EX 100", &[b"SET", b"key:000000012345", &value, b"EX", b"100"]),
        (
            "MGET, 10 keys",
            &[b"MGET", b"k1", b"k2", b"k3", b"k4", b"k5", b"k6", b"k7", b"k8", b"k9", b"k0"],
        ),
    ];
    println!("{:24} {:>8} {:>12} {:>12}", "ns per command", "parse", "+ translate", "+ reply");
    for (name, args) in cases {
        let buffer = bytes_of(args).repeat(BUFFER_BYTES / bytes_of(args).len());
        let parsed = measure(&buffer, |ranges, rest| {
            black_box(ranges.args(rest).len());
        });
        let mut session =
            Session::new(1, Peer::default(), RequestLimits::default(), Default::default(), 0);
        let mut out = Vec::new();
        let translated = measure(&buffer, |ranges, rest| {
            black_box(session.translate(ranges.args(rest), &Nothing, &mut out));
        });
        let replied = measure(&buffer, |ranges, rest| {
            if out.len() > BUFFER_BYTES {
                out.clear();
            }
            let request = session.translate(ranges.args(rest), &Nothing, &mut out);
            let mut writer = session.writer(&mut out);
            match request {
                Request::Read(Read::Get(_)) => writer.bulk(&value),
                Request::Write(Write::Increment { .. }) => writer.int(12_345),
                _ => writer.ok(),
            }
        });
        println!("{name:24} {parsed:8.1} {translated:12.1} {replied:12.1}");
    }
}
