//! Does every command of strings refuse a value of another type, and every other one take it?

use keyspace::Timestamp;
use storage::engine::MemoryEngine;

use super::*;
use crate::script::{engine, parse, run};

/// An engine in which `probe` has a value of the tests' type, and what a command answers there.
fn answer(command: &str) -> (MemoryEngine, String) {
    let mut engine = engine();
    let at = Timestamp::from_millis(1_700_000_000_000);
    engine.put(&engine.hasher().key(b"probe"), &[PROBE, b"!"], 0, at);
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let answer = run(&mut engine, &parse(&words).expect("a command"), at.next());
    (engine, answer)
}

fn is_still_there(engine: &MemoryEngine) -> bool {
    let newest = engine.newest(&engine.hasher().key(b"probe"), Timestamp::MAX);
    newest.is_some_and(|version| version.value.starts_with(PROBE) && version.expiry_ms == 0)
}

#[test]
fn commands_of_strings_refuse_another_type_and_change_nothing() {
    for command in [
        "GET probe",
        "GETRANGE probe 0 1",
        "STRLEN probe",
        "LCS probe other",
        "LCS other probe",
        "GETSET probe x",
        "SET probe x GET",
        "GETDEL probe",
        "GETEX probe PERSIST",
        "APPEND probe x",
        "SETRANGE probe 0 x",
        "SETRANGE probe 0 ",
        "INCR probe",
        "INCRBYFLOAT probe 1",
    ] {
        let (engine, answer) = answer(command);
        assert!(answer.starts_with("WRONGTYPE"), "{command}: {answer}");
        assert!(is_still_there(&engine), "{command} has changed it");
    }
}

#[test]
fn commands_of_keys_take_any_type() {
    for (command, expected) in [
        ("TYPE probe", "probe"),
        ("EXISTS probe", "(1)"),
        ("TTL probe", "(-1)"),
        ("MGET probe other", "[2] nil nil"),
        ("MSETNX probe x", "(0)"),
        ("SETNX probe x", "(0)"),
        ("COPY probe other", "(1)"),
    ] {
        let (engine, answer) = answer(command);
        assert_eq!(answer, expected, "{command}");
        assert!(is_still_there(&engine), "{command} has changed it");
    }
    for (command, expected) in
        [("SET probe x", "OK"), ("DEL probe", "(1)"), ("RENAME probe other", "OK")]
    {
        let (engine, answer) = answer(command);
        assert_eq!(answer, expected, "{command}");
        assert!(!is_still_there(&engine), "{command} has left it");
    }
}
