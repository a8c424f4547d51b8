//! `resp_errors.txt`: malformed invocations of every command, and what Redis 7.0.15 answers.
//!
//! ```text
//! > SET k                                     a command, quoted as in redis-cli
//! < ERR wrong number of arguments for …       Redis's error, odd bytes as \x..; OK: no error
//! ~ ERR …                                     our answer where it differs on purpose, with a
//! # …                                         reason above it
//! ```
//!
//! The answers are recorded again by running this test with `CARILLON_REDIS=host:port` naming a
//! Redis that may be emptied.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use gateway::resp::{ArgRanges, RequestLimits, parse};

use crate::context::{send, session};

#[derive(Default)]
struct Case {
    comments: Vec<String>,
    command: String,
    redis: String,
    ours: Option<String>,
}

fn read_cases(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = Case::default();
    for line in text.lines() {
        let (kind, rest) = line.split_at(line.len().min(2));
        match kind {
            "> " => {
                if !case.command.is_empty() {
                    cases.push(std::mem::take(&mut case));
                }
                case.command = rest.to_owned();
            }
            "< " => case.redis = rest.to_owned(),
            "~ " => case.ours = Some(rest.to_owned()),
            "# " => case.comments.push(rest.to_owned()),
            "" => {}
            _ => panic!("what is {line:?}?"),
        }
    }
    cases.push(case);
    cases
}

fn write_cases(cases: &[Case]) -> String {
    let mut text = String::new();
    for case in cases {
        writeln!(text, "> {}\n< {}", case.command, case.redis).unwrap();
        case.comments.iter().for_each(|comment| writeln!(text, "# {comment}").unwrap());
        case.ours.iter().for_each(|ours| writeln!(text, "~ {ours}").unwrap());
    }
    text
}

/// An error reply as one line without its sigil, or OK.
fn summary(reply: &[u8]) -> String {
    match reply.strip_prefix(b"-") {
        Some(error) => printable(error.strip_suffix(b"\r\n").unwrap()),
        None => "OK".to_owned(),
    }
}

fn printable(text: &[u8]) -> String {
    let show = |byte: &u8| match byte {
        b' '..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
        other => format!("\\x{other:02x}"),
    };
    text.iter().map(show).collect()
}

fn ours(command: &str) -> String {
    summary(&send(&mut session(), command.as_bytes()).1)
}

/// What Redis answers on a new connection, keys `k`, `a` and `b` holding numbers.
fn redis(address: &str, command: &str) -> String {
    let line = format!("{command}\r\n");
    let mut ranges = ArgRanges::new();
    parse(line.as_bytes(), &RequestLimits::default(), &mut ranges).unwrap();
    let args = ranges.args(line.as_bytes());
    let mut bytes = b"RESET\r\nFLUSHALL\r\nMSET k 10 a 11 b 12\r\n".to_vec();
    write!(bytes, "*{}\r\n", args.len()).unwrap();
    for arg in args.iter() {
        write!(bytes, "${}\r\n", arg.len()).unwrap();
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    summary(replies.strip_prefix(b"+RESET\r\n+OK\r\n+OK\r\n").expect("three replies before"))
}

#[test]
fn malformed_commands_are_answered_as_by_redis() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/resp_errors.txt");
    let mut cases = read_cases(&std::fs::read_to_string(&path).unwrap());
    if let Ok(address) = std::env::var("CARILLON_REDIS") {
        cases.iter_mut().for_each(|case| case.redis = redis(&address, &case.command));
        std::fs::write(&path, write_cases(&cases)).unwrap();
    }
    let mut wrong = String::new();
    for case in &cases {
        let expected = case.ours.as_ref().unwrap_or(&case.redis);
        let got = ours(&case.command);
        if got != *expected {
            writeln!(wrong, "> {}\n< {expected}\n~ {got}", case.command).unwrap();
        }
        assert_ne!(case.ours.as_ref(), Some(&case.redis), "{} does not differ", case.command);
    }
    assert!(cases.len() > 1000);
    assert!(wrong.is_empty(), "expected <, got ~\n{wrong}");
}
