//! Replays the scripts of `scripts/`: commands, each followed by its answer.
//!
//! ```text
//! # what is claimed, and why
//! @ 1000            the time is now 1000 ms
//! > SET a "x \x00"  a command; words may stand in quotes and hold bytes as \xNN
//! OK                its answer
//! ```
//! Scripts without `@` were compared with redis-server 7.0.15, whose answers they are; their times
//! are in 2100 or in 1970. `UPDATE_GOLDENFILES=1` writes the answers anew.

use std::fmt::Write as _;
use std::path::Path;

use keyspace::Timestamp;

use super::script::{engine, parse, run};

/// Where scripts begin that do not say.
const START_MILLIS: u64 = 1_700_000_000_000;

/// The words of a line: separated by spaces, or in quotes.
pub(super) fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("quotes are closed"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(unescaped(word));
        rest = after.trim_start();
    }
    words
}

fn unescaped(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut parts = word.split('\\');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let hex = part.strip_prefix('x').expect("escapes are \\xNN");
        bytes.push(u8::from_str_radix(&hex[..2], 16).expect("two hexadecimal digits"));
        bytes.extend(hex[2..].bytes());
    }
    bytes
}

fn replayed(script: &str) -> String {
    let mut engine = engine();
    let mut at = Timestamp::from_millis(START_MILLIS);
    let mut out = String::new();
    for line in script.lines() {
        if let Some(millis) = line.strip_prefix("@ ") {
            at = Timestamp::from_millis(millis.parse().expect("milliseconds"));
        }
        if line.is_empty() || line.starts_with(['#', '@', '>']) {
            out.push_str(line);
            out.push('\n');
        }
        if let Some(command) = line.strip_prefix("> ") {
            at = at.next();
            let words = words(command);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let command = parse(&words).expect("a command");
            writeln!(out, "{}", run(&mut engine, &command, at)).expect("strings take all");
        }
    }
    out
}

#[test]
#[allow(clippy::disallowed_methods, reason = "golden scripts are files")]
fn golden_scripts_replay() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are scripts");
    for path in paths {
        let script = std::fs::read_to_string(&path).unwrap();
        let answers = replayed(&script);
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::write(&path, answers).unwrap();
        } else {
            assert_eq!(answers, script, "{}", path.display());
        }
    }
}
