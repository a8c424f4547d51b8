//! The seeds of the fuzzer, in `fuzz/corpus/resp`: each is parsed to its end and translated.

use std::path::Path;

use gateway::resp::{ArgRanges, Parsed, ProtocolError, RequestLimits, parse};

use crate::context::{Still, session};

/// All commands of a stream: how many were whole, and how the stream ended.
fn run(bytes: &[u8]) -> (usize, Result<Parsed, ProtocolError>) {
    let mut rest = bytes;
    let mut ranges = ArgRanges::new();
    let mut session = session();
    let mut out = Vec::new();
    let mut commands = 0;
    loop {
        match parse(rest, &RequestLimits::default(), &mut ranges) {
            Ok(Parsed::Command { consumed }) => {
                assert!(0 < consumed && consumed <= rest.len());
                session.translate(ranges.args(rest), &Still, &mut out);
                commands += 1;
                rest = &rest[consumed..];
            }
            Ok(Parsed::Empty { consumed }) => rest = &rest[consumed..],
            end => return (commands, end),
        }
    }
}

#[test]
fn every_seed_ends_as_its_name_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/resp");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (commands, end) = run(&std::fs::read(&path).unwrap());
        match name.split('-').next().unwrap() {
            "whole" => assert!(commands > 0 && end == Ok(Parsed::Incomplete), "{name}: {end:?}"),
            "half" => assert!(end == Ok(Parsed::Incomplete), "{name}: {end:?}"),
            "bad" => assert!(end.is_err(), "{name}: {end:?}"),
            other => panic!("{name}: what is {other}?"),
        }
        seen += 1;
    }
    assert!(seen >= 12, "{seen} seeds");
}
