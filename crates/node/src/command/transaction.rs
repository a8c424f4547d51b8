//! Several commands of one shard as one: what does a transaction do, and in which bytes does it
//! stand in a log?
//!
//! It is one command of an entry, so it is applied at one moment, everywhere or nowhere, with no
//! locks and in one round. First it looks at the keys that its client has watched, and does nothing
//! if one of them has changed since (SAFETY G15); then it does its commands in their order, each
//! seeing what those before it did.
//!
//! ```text
//!   WATCH a             a is 7, written at 30.0       watched: a, its version of 30.0
//!   MULTI · INCR a · GET b · EXEC
//!   entry at 50.0       is a's version that of 30.0?  ── yes ──► [8, "x"]
//!                                                     └─ no ───► nil, and nothing is done
//! ```
//!
//! A version is known by its time: an entry has one time, and only what a whole entry has left of a
//! key is ever read. What a key without a value had is known by when that was seen: the key is
//! as it was if it has no value now either, and nothing about it is newer, deletions and flushes
//! among that as long as they are kept (`retention_ms`). So a key that is watched while it has no
//! value, and longer than deletions are kept, may have had one meanwhile, unnoticed: what the
//! transaction was told of it is true again then.
//!
//! A command that is refused (`INCR` of a word) does not undo the others, as in Redis.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | stored values in its answers | [`ANSWERED_BYTES_MAX`] | the command is refused |
//! | values that its commands make | [`WRITTEN_BYTES_MAX`] | the same |
//!
//! Both are judged at apply, before each command, as every replica judges them: a few bytes can ask
//! for many (`COPY`, `GETEX`), of values that only the transaction itself has made.
//!
//! # Bytes
//! After op 17: count `varint` of watched keys, each: key `bytes`, `u8` 1 and the time of its
//! version, or 2 and when it had none, both u64 · count `varint` of commands, each as
//! [`codec`] has it, without flushes and other transactions, or a read:
//!
//! | op | read | after the op byte |
//! |---|---|---|
//! | 64 | get | key `bytes` |
//! | 65 | get many | count `varint`, keys `bytes` |
//! | 66 | get range | key `bytes`, start `i64`, end `i64` |
//! | 67 | length | key `bytes` |
//! | 68 | exists | count `varint`, keys `bytes` |
//! | 69 | type | key `bytes` |
//! | 70 | time to live | flags (0 in milliseconds · 1 the time itself), key `bytes` |
//! | 71 | encoding | key `bytes` |
//! | 72 | reference count | key `bytes` |
//! | 73 | idle time | key `bytes` |

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{DecodeError, HashedKey, Timestamp};
use storage::engine::{Engine, Version};

use super::{Collect, Read, Refusal, Reply, View, Write, answer, apply_hashed, codec};
use crate::limits::ApplyLimits;

/// Bytes of stored values that a transaction may answer with: they fit into a letter.
pub const ANSWERED_BYTES_MAX: u64 = 60 << 20;
/// Bytes of values that a transaction may make.
pub const WRITTEN_BYTES_MAX: u64 = 128 << 20;

const GET: u8 = 64;
const GET_MANY: u8 = 65;
const GET_RANGE: u8 = 66;
const LENGTH: u8 = 67;
const EXISTS: u8 = 68;
const TYPE: u8 = 69;
const TTL: u8 = 70;
const ENCODING: u8 = 71;
const REF_COUNT: u8 = 72;
const IDLE_TIME: u8 = 73;

/// Several commands that are done at one moment, unless a key has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction<'a> {
    /// Keys that must be as they were seen, or nothing is done.
    pub watched: Vec<(&'a [u8], Seen)>,
    /// What is done, in this order.
    pub commands: Vec<Step<'a>>,
}

/// What a watched key had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The version of this time.
    Version(Timestamp),
    /// No value, at this time.
    Nothing(Timestamp),
}

/// A command of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// It reads named keys; no LCS, which is too long for an entry.
    Read(Read<'a>),
    /// It writes; no flush, and no transaction.
    Write(Write<'a>),
}

impl<'a> Transaction<'a> {
    /// Shows every key, those watched first.
    #[cold]
    pub fn each_key(&self, show: &mut dyn FnMut(&'a [u8])) {
        self.watched.iter().for_each(|(key, _)| show(key));
        self.each_named(show);
    }

    /// Its writes.
    pub fn writes(&self) -> impl Iterator<Item = &Write<'a>> {
        self.commands.iter().filter_map(|step| match step {
            Step::Write(write) => Some(write),
            Step::Read(_) => None,
        })
    }

    /// Shows every key that its commands name, but not those that are only watched.
    #[cold]
    pub(crate) fn each_named(&self, show: &mut dyn FnMut(&'a [u8])) {
        self.commands.iter().for_each(|step| step.each_key(show));
    }

    /// A watched key that is not as it was seen, at this time.
    pub(crate) fn changed(&self, engine: &Engine, at: Timestamp) -> Option<&'a [u8]> {
        let hasher = engine.hasher();
        let changed = |(key, seen): &&(&[u8], Seen)| !seen.is_so(engine, &hasher.key(key), at);
        self.watched.iter().find(changed).map(|(key, _)| *key)
    }

    /// Does it at the time of its entry: one answer for each command, or nil.
    #[cold]
    pub(super) fn apply(&self, engine: &mut Engine, at: Timestamp, limits: &ApplyLimits) -> Reply {
        match self.changed(engine, at) {
            Some(_) => Reply::Nil,
            None => Reply::Array(self.run(engine, at, limits)),
        }
    }

    /// Does its commands, whatever is watched.
    pub(crate) fn run(
        &self,
        engine: &mut Engine,
        at: Timestamp,
        limits: &ApplyLimits,
    ) -> Vec<Reply> {
        let hasher = engine.hasher();
        let (mut answered, mut written) = (0, 0);
        let done = self.commands.iter().map(|step| match step {
            _ if !step.fits(engine, at, &mut answered, &mut written) => {
                Reply::Refused(Refusal::TooMuch)
            }
            Step::Read(read) => {
                let mut sink = Collect::default();
                answer(&At(engine, at), read, at, &mut sink);
                sink.into_reply()
            }
            Step::Write(write) => {
                apply_hashed(engine, write, &hasher.key(write.first_key()), at, limits)
            }
        });
        done.collect()
    }

    /// Appends its bytes, without its op.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.watched.len() as u64, out);
        for (key, seen) in &self.watched {
            put_bytes(key, out);
            let (tag, time) = match seen {
                Seen::Version(time) => (1, time),
                Seen::Nothing(time) => (2, time),
            };
            out.push(tag);
            out.extend_from_slice(&time.0.to_le_bytes());
        }
        put_varint(self.commands.len() as u64, out);
        for step in &self.commands {
            match step {
                Step::Read(read) => encode_read(read, out),
                Step::Write(write) => codec::encode(write, out),
            }
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let watched = reader.varint()?;
        let mut transaction = Self::default();
        for _ in 0..watched {
            let key = reader.bytes()?;
            let tag = reader.u8()?;
            let time = Timestamp(reader.u64()?);
            let seen = match tag {
                1 => Seen::Version(time),
                2 => Seen::Nothing(time),
                found => return Err(DecodeError::Tag { what: "what was seen", found }),
            };
            transaction.watched.push((key, seen));
        }
        for _ in 0..reader.varint()? {
            let first = *reader.rest().first().ok_or(DecodeError::Short)?;
            let step = match first {
                codec::FLUSH..=codec::TRANSACTION => {
                    return Err(DecodeError::Tag { what: "step of a transaction", found: first });
                }
                GET.. => Step::Read(decode_read(reader)?),
                _ => Step::Write(codec::decode_one(reader)?),
            };
            transaction.commands.push(step);
        }
        Ok(transaction)
    }
}

impl<'a> Step<'a> {
    /// The key that comes first, if it names any.
    pub(crate) fn first_key(&self) -> Option<&'a [u8]> {
        match self {
            Step::Read(read) => read.keys().first().copied(),
            Step::Write(write) => Some(write.first_key()),
        }
    }

    /// Shows every key.
    pub fn each_key(&self, show: &mut dyn FnMut(&'a [u8])) {
        match self {
            Step::Read(read) => read.keys().iter().for_each(|key| show(key)),
            Step::Write(write) => write.each_key(&mut |key| show(key)),
        }
    }

    /// Whether it may be done beside what was answered and written before, to which it is added.
    fn fits(&self, engine: &Engine, at: Timestamp, answered: &mut u64, written: &mut u64) -> bool {
        let len = |key: &[u8]| {
            let newest = engine.newest(&engine.hasher().key(key), at);
            newest.map_or(0, |version| version.value.len() as u64)
        };
        let (answers, writes) = match self {
            Step::Read(Read::Get(key) | Read::GetRange { key, .. }) => (len(key), 0),
            Step::Read(Read::GetMany(keys)) => (keys.iter().map(|key| len(key)).sum(), 0),
            Step::Read(_) => (0, 0),
            Step::Write(write) => {
                let answers = write.replies_value_of().map_or(0, len);
                let copies = write.copies_value_of().map_or(0, len);
                // These make a version of the value that is there.
                let before = match write {
                    Write::Append { key, .. }
                    | Write::SetRange { key, .. }
                    | Write::GetExpire { key, .. }
                    | Write::Expire { key, .. }
                    | Write::Persist { key } => len(key),
                    _ => 0,
                };
                (answers, write.lengthens_bytes().saturating_add(copies).saturating_add(before))
            }
        };
        let (all_answered, all_written) = (*answered + answers, written.saturating_add(writes));
        let fits = all_answered <= ANSWERED_BYTES_MAX && all_written <= WRITTEN_BYTES_MAX;
        if fits {
            (*answered, *written) = (all_answered, all_written);
        }
        fits
    }
}

impl Seen {
    /// Whether a key has at this time what was seen.
    fn is_so(self, engine: &Engine, key: &HashedKey<'_>, at: Timestamp) -> bool {
        let newest = engine.newest(key, at);
        match self {
            Seen::Version(time) => newest.is_some_and(|version| version.timestamp == time),
            Seen::Nothing(time) => newest.is_none() && engine.newest_timestamp(key) <= time,
        }
    }
}

/// An engine at the moment of an entry.
struct At<'e>(&'e Engine, Timestamp);

impl View for At<'_> {
    fn newest(&self, key: &[u8]) -> Option<Version<'_>> {
        self.0.newest(&self.0.hasher().key(key), self.1)
    }
}

fn encode_read(read: &Read<'_>, out: &mut Vec<u8>) {
    let mut of_key = |op, key: &[u8]| {
        out.push(op);
        put_bytes(key, out);
    };
    match read {
        Read::Get(key) => of_key(GET, key),
        Read::Length(key) => of_key(LENGTH, key),
        Read::Type(key) => of_key(TYPE, key),
        Read::Encoding(key) => of_key(ENCODING, key),
        Read::RefCount(key) => of_key(REF_COUNT, key),
        Read::IdleTime(key) => of_key(IDLE_TIME, key),
        Read::GetRange { key, start, end } => {
            of_key(GET_RANGE, key);
            out.extend_from_slice(&start.to_le_bytes());
            out.extend_from_slice(&end.to_le_bytes());
        }
        Read::Ttl { key, millis, absolute } => {
            out.extend_from_slice(&[TTL, u8::from(*millis) | u8::from(*absolute) << 1]);
            put_bytes(key, out);
        }
        Read::GetMany(keys) | Read::Exists(keys) => {
            out.push(if matches!(read, Read::GetMany(_)) { GET_MANY } else { EXISTS });
            put_varint(keys.len() as u64, out);
            keys.iter().for_each(|key| put_bytes(key, out));
        }
        Read::Lcs { .. } => unreachable!("gateways refuse LCS in a transaction"),
    }
}

fn decode_read<'a>(reader: &mut Reader<'a>) -> Result<Read<'a>, DecodeError> {
    Ok(match reader.u8()? {
        GET => Read::Get(reader.bytes()?),
        GET_MANY => Read::GetMany(decode_keys(reader)?),
        GET_RANGE => Read::GetRange {
            key: reader.bytes()?,
            start: reader.u64()? as i64,
            end: reader.u64()? as i64,
        },
        LENGTH => Read::Length(reader.bytes()?),
        EXISTS => Read::Exists(decode_keys(reader)?),
        TYPE => Read::Type(reader.bytes()?),
        TTL => {
            let flags = codec::read_flags(reader, 0b11)?;
            let (millis, absolute) = (flags & 1 != 0, flags & 2 != 0);
            Read::Ttl { key: reader.bytes()?, millis, absolute }
        }
        ENCODING => Read::Encoding(reader.bytes()?),
        REF_COUNT => Read::RefCount(reader.bytes()?),
        IDLE_TIME => Read::IdleTime(reader.bytes()?),
        found => return Err(DecodeError::Tag { what: "read of a transaction", found }),
    })
}

fn decode_keys<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, DecodeError> {
    let count = reader.varint()?;
    // A key takes a byte at least: more cannot follow, and are not made room for.
    if count > reader.rest().len() as u64 {
        return Err(DecodeError::Short);
    }
    (0..count).map(|_| reader.bytes()).collect()
}

#[cfg(test)]
mod tests {
    use keyspace::Cut;

    use super::super::script::engine;
    use super::super::{Expiry, SetIf, SetReply, apply};
    use super::*;
    use crate::limits;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn set(key: &'static [u8], value: &'static [u8], expiry: Expiry) -> Write<'static> {
        Write::Set { key, value, when: SetIf::Always, expiry, reply: SetReply::Ok }
    }

    fn put(engine: &mut Engine, millis: u64, write: &Write<'_>) -> Reply {
        apply(engine, write, at(millis), &limits::APPLY)
    }

    fn exec(watched: &[(&'static [u8], Seen)], commands: Vec<Step<'static>>) -> Write<'static> {
        Write::Transaction(Box::new(Transaction { watched: watched.to_vec(), commands }))
    }

    fn append(key: &'static [u8]) -> Vec<Step<'static>> {
        vec![Step::Write(Write::Append { key, value: b"!" })]
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
    fn what_is_too_much_is_refused_and_the_rest_done() {
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
        let write = Write::Transaction(Box::new(Transaction { watched: vec![], commands }));
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
        let seen = [(&b"k"[..], Seen::Version(at(10)))];
        put(&mut engine, 10, &set(b"k", b"v", Expiry::Never));
        let done = Reply::Array(vec![Reply::Int(2)]);
        assert_eq!(put(&mut engine, 20, &exec(&seen, append(b"k"))), done);
        assert_eq!(put(&mut engine, 30, &exec(&seen, append(b"k"))), Reply::Nil);
        let seen = [(&b"k"[..], Seen::Version(at(20)))];
        put(&mut engine, 40, &set(b"k", b"v!", Expiry::Never));
        assert_eq!(put(&mut engine, 50, &exec(&seen, append(b"k"))), Reply::Nil, "the same again");
        // It ends by itself, and by a flush.
        put(&mut engine, 60, &set(b"k", b"v", Expiry::At(70)));
        let seen = [(&b"k"[..], Seen::Version(at(60)))];
        assert_eq!(put(&mut engine, 65, &exec(&seen, vec![])), Reply::Array(vec![]));
        assert_eq!(put(&mut engine, 70, &exec(&seen, vec![])), Reply::Nil);
        put(&mut engine, 80, &set(b"k", b"v", Expiry::Never));
        put(&mut engine, 90, &Write::Flush { from: None, end: Cut::Slot(0) });
        let seen = [(&b"k"[..], Seen::Version(at(80)))];
        assert_eq!(put(&mut engine, 95, &exec(&seen, vec![])), Reply::Nil);
    }

    #[test]
    fn nothing_that_is_watched_stays_nothing() {
        let mut engine = engine();
        let as_of = |millis| [(&b"k"[..], Seen::Nothing(at(millis)))];
        let is_as_it_was = Reply::Array(vec![]);
        assert_eq!(put(&mut engine, 10, &exec(&as_of(5), vec![])), is_as_it_was);
        put(&mut engine, 20, &set(b"k", b"v", Expiry::At(40)));
        assert_eq!(put(&mut engine, 30, &exec(&as_of(5), vec![])), Reply::Nil, "it has a value");
        assert_eq!(put(&mut engine, 50, &exec(&as_of(5), vec![])), Reply::Nil, "it had one");
        assert_eq!(put(&mut engine, 60, &exec(&as_of(45), vec![])), is_as_it_was, "it had ended");
        put(&mut engine, 70, &set(b"k", b"v", Expiry::Never));
        put(&mut engine, 80, &Write::Delete { key: b"k" });
        assert_eq!(put(&mut engine, 90, &exec(&as_of(60), vec![])), Reply::Nil);
        assert_eq!(put(&mut engine, 91, &exec(&as_of(80), vec![])), is_as_it_was);
        // Whatever replicas have collected by then, all of them say the same.
        engine.raise_safe_point(at(85));
        assert_eq!(put(&mut engine, 92, &exec(&as_of(60), vec![])), is_as_it_was);
    }
}
