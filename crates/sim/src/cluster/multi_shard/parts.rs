//! The commands of a transaction as bytes; and their effect, read from their replies.

use command::{Expiry, Flush, Reply, SetIf, SetReply, Step, Transaction, Write};

use super::PendingOp;
use crate::check::serial::Op;

/// A part of a transaction, of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Append(usize, u64),
    Get(usize),
    Set(usize, i64),
    /// A value that says when it ends, in ms.
    Expiring(usize, u64),
    Add(usize, i64),
    /// The keyspace is flushed, and this key is set after that.
    FlushSet(usize, i64),
}

impl Part {
    pub fn key(self) -> usize {
        match self {
            Part::Append(key, _)
            | Part::Get(key)
            | Part::Set(key, _)
            | Part::Expiring(key, _)
            | Part::Add(key, _)
            | Part::FlushSet(key, _) => key,
        }
    }
}

/// The bytes that each part appends or sets.
pub(super) fn values_of(parts: &[Part]) -> Vec<Vec<u8>> {
    let value = |part: &Part| match part {
        Part::Append(_, element) => format!("{element} ").into_bytes(),
        Part::Set(_, value) | Part::FlushSet(_, value) => value.to_string().into_bytes(),
        Part::Expiring(_, end_ms) => end_ms.to_string().into_bytes(),
        Part::Get(_) | Part::Add(..) => Vec::new(),
    };
    parts.iter().map(value).collect()
}

pub(super) fn transaction_of<'a>(
    pending: &PendingOp,
    names: &'a [Vec<u8>],
    values: &'a [Vec<u8>],
) -> Transaction<'a> {
    let command = |(part, value): (&Part, &'a Vec<u8>)| step_of(part, names, value);
    let watched = pending.watched.iter().map(|(key, seen, _)| (names[*key].as_slice(), *seen));
    Transaction {
        watched: watched.collect(),
        commands: pending.parts.iter().zip(values).map(command).collect(),
        flush: flushes(&pending.parts).then(|| Box::new(Flush::All)),
        ..Transaction::default()
    }
}

/// Whether a transaction of these parts flushes its keyspace.
pub(super) fn flushes(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::FlushSet(..)))
}

/// A part as a command.
pub(super) fn step_of<'a>(part: &Part, names: &'a [Vec<u8>], value: &'a [u8]) -> Step<'a> {
    match part {
        Part::Append(key, _) => Step::Write(Write::append(&names[*key], value)),
        Part::Set(key, _) | Part::FlushSet(key, _) | Part::Expiring(key, _) => {
            let expiry = match part {
                Part::Expiring(_, end_ms) => Expiry::At(*end_ms),
                _ => Expiry::Never,
            };
            let (when, reply) = (SetIf::Always, SetReply::Ok);
            Step::Write(Write::Set { key: &names[*key], value, when, expiry, reply })
        }
        Part::Add(key, by) => Step::Write(Write::Increment { key: &names[*key], by: *by }),
        Part::Get(key) => Step::Read(command::Read::Get(&names[*key])),
    }
}

/// What a part did, as its reply says.
pub(super) fn op_of(part: Part, reply: Option<&Reply>, names: &[Vec<u8>]) -> Op {
    match part {
        Part::Append(key, element) => Op::Append { key: names[key].clone(), element },
        Part::Set(..) | Part::FlushSet(..) | Part::Expiring(..) | Part::Add(..) => {
            unreachable!("{part:?} is of no list")
        }
        Part::Get(key) => {
            let list = match reply {
                Some(Reply::Bulk(bytes)) => Some(list_of(bytes)),
                Some(Reply::Nil) => Some(Vec::new()),
                Some(_) => Some(vec![u64::MAX]),
                None => None,
            };
            Op::Read { key: names[key].clone(), list }
        }
    }
}

/// The elements of a list. Other bytes count as an element that no client has appended.
pub(in crate::cluster) fn list_of(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words
        .map(|word| std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()))
        .map(|element| element.unwrap_or(u64::MAX))
        .collect()
}
