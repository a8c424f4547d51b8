//! Transactions of one shard, applied.

use keyspace::Cut;

use storage::engine::MemoryEngine;

use super::super::script::engine;
use super::super::{Expiry, SetIf, SetReply, apply};
use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn set(key: &'static [u8], value: &'static [u8], expiry: Expiry) -> Write<'static> {
    Write::Set { key, value, when: SetIf::Always, expiry, reply: SetReply::Ok }
}

fn put(engine: &mut MemoryEngine, millis: u64, write: &Write<'_>) -> Reply {
    apply(engine, write, at(millis))
}

fn exec(
    watched: &[(&'static [u8], ObservedVersion)],
    commands: Vec<Step<'static>>,
) -> Write<'static> {
    Write::Transaction(Box::new(Transaction {
        watched: watched.to_vec(),
        commands,
        ..Transaction::default()
    }))
}

fn changed() -> Reply {
    Reply::Changed(b"k"[..].into())
}

fn append(key: &'static [u8]) -> Vec<Step<'static>> {
    vec![Step::Write(Write::append(key, b"!"))]
}

#[test]
fn commands_see_those_before_them_and_refusals_undo_nothing() {
    let mut engine = engine();
    put(&mut engine, 10, &set(b"{t}word", b"ten", Expiry::Never));
    let commands = vec![
        Step::Write(Write::Increment { key: b"{t}n", by: 5 }),
        Step::Write(Write::Increment { key: b"{t}word", by: 1 }),
        Step::Read(Read::GetMany(vec![b"{t}n", b"{t}word", b"{t}none"])),
        Step::Read(Read::Exists(vec![])),
        Step::Write(Write::Delete { key: b"{t}n" }),
        Step::Read(Read::Get(b"{t}n")),
    ];
    let bulk = |text: &[u8]| Reply::Bulk(text.into());
    let expected = vec![
        Reply::Int(5),
        Reply::Refused(Refusal::NotInteger),
        Reply::Array(vec![bulk(b"5"), bulk(b"ten"), Reply::Nil]),
        Reply::Int(0),
        Reply::Int(1),
        Reply::Nil,
    ];
    assert_eq!(put(&mut engine, 20, &exec(&[], commands)), Reply::Array(expected));
}

/// A few bytes ask for many, of a value that only the transaction has made.
#[test]
fn command_beyond_limits_is_refused_and_others_run() {
    let mut engine = engine();
    let mut commands =
        vec![Step::Write(Write::SetRange { key: b"{t}a", offset: 25 << 20, value: b"x" })];
    let copies: Vec<_> = (0..9).map(|n| format!("{{t}}{n}").into_bytes()).collect();
    let copy = |to| Step::Write(Write::Copy { from: b"{t}a", to, replace: false });
    commands.extend(copies.iter().map(|to| copy(to)));
    let kept = || Write::GetExpire { key: b"{t}a", expiry: Expiry::Never };
    commands.extend((0..3).map(|_| Step::Write(kept())));
    commands.push(Step::Read(Read::Get(b"{t}a")));
    commands.push(Step::Read(Read::Get(b"{t}a")));
    commands.push(Step::Read(Read::Get(b"{t}a")));
    let write = Write::Transaction(Box::new(Transaction { commands, ..Transaction::default() }));
    let Reply::Array(replies) = put(&mut engine, 10, &write) else { panic!() };
    let is_refused = |reply: &Reply| *reply == Reply::Refused(Refusal::TooMuch);
    let refused: Vec<usize> = (0..replies.len()).filter(|n| is_refused(&replies[*n])).collect();
    // Five versions of 25 MiB are 125; then two answers of 25 are 50.
    assert_eq!(refused, [5, 6, 7, 8, 9, 10, 11, 12, 15]);
    let there = |key: &[u8]| engine.newest(&engine.hasher().key(key), at(10)).is_some();
    assert!(there(b"{t}3") && !there(b"{t}4"));
}

#[test]
fn a_watched_version_is_that_one_and_no_other() {
    let mut engine = engine();
    let seen = [(&b"k"[..], ObservedVersion::Version(at(10)))];
    put(&mut engine, 10, &set(b"k", b"v", Expiry::Never));
    let done = Reply::Array(vec![Reply::Int(2)]);
    assert_eq!(put(&mut engine, 20, &exec(&seen, append(b"k"))), done);
    assert_eq!(put(&mut engine, 30, &exec(&seen, append(b"k"))), changed());
    let seen = [(&b"k"[..], ObservedVersion::Version(at(20)))];
    put(&mut engine, 40, &set(b"k", b"v!", Expiry::Never));
    assert_eq!(put(&mut engine, 50, &exec(&seen, append(b"k"))), changed(), "the same again");
    // It ends by itself, and by a flush.
    put(&mut engine, 60, &set(b"k", b"v", Expiry::At(70)));
    let seen = [(&b"k"[..], ObservedVersion::Version(at(60)))];
    assert_eq!(put(&mut engine, 65, &exec(&seen, vec![])), Reply::Array(vec![]));
    assert_eq!(put(&mut engine, 70, &exec(&seen, vec![])), changed());
    put(&mut engine, 80, &set(b"k", b"v", Expiry::Never));
    put(&mut engine, 90, &Write::Flush { from: None, end: Cut::Slot(0) });
    let seen = [(&b"k"[..], ObservedVersion::Version(at(80)))];
    assert_eq!(put(&mut engine, 95, &exec(&seen, vec![])), changed());
}

#[test]
fn watched_absent_key_must_stay_absent() {
    let mut engine = engine();
    let as_of = |millis| [(&b"k"[..], ObservedVersion::Absent(at(millis)))];
    let is_as_it_was = Reply::Array(vec![]);
    assert_eq!(put(&mut engine, 10, &exec(&as_of(5), vec![])), is_as_it_was);
    put(&mut engine, 20, &set(b"k", b"v", Expiry::At(40)));
    assert_eq!(put(&mut engine, 30, &exec(&as_of(5), vec![])), changed(), "it has a value");
    assert_eq!(put(&mut engine, 50, &exec(&as_of(5), vec![])), changed(), "it had one");
    assert_eq!(put(&mut engine, 60, &exec(&as_of(45), vec![])), is_as_it_was, "it had ended");
    put(&mut engine, 70, &set(b"k", b"v", Expiry::Never));
    put(&mut engine, 80, &Write::Delete { key: b"k" });
    assert_eq!(put(&mut engine, 81, &exec(&as_of(60), vec![])), changed());
    assert_eq!(put(&mut engine, 81, &exec(&as_of(80), vec![])), is_as_it_was);
    // What has ended when it is set was there.
    put(&mut engine, 82, &set(b"k", b"v", Expiry::At(81)));
    assert_eq!(put(&mut engine, 83, &exec(&as_of(81), vec![])), changed());
    assert_eq!(put(&mut engine, 84, &exec(&as_of(82), vec![])), is_as_it_was);
    assert!(engine.is_empty(at(84)));
    // Whatever replicas have collected by then, all of them say the same.
    engine.raise_safe_point(at(85));
    assert_eq!(put(&mut engine, 92, &exec(&as_of(60), vec![])), is_as_it_was);
}
