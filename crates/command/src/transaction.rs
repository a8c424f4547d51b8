//! Several commands of one shard as one: what does a transaction do, and in which bytes does it
//! stand in a log?
//!
//! It is one command of an entry: all of it is applied at one moment, or none, with no locks and in
//! one round. First apply checks the watched keys, and does nothing if one of them has changed
//! since (SAFETY G15). Then it runs the commands in their order; each sees the effects of those
//! before it.
//!
//! ```text
//!   WATCH a             a is 7, written at 30.0       watched: a, its version of 30.0
//!   MULTI · INCR a · GET b · EXEC
//!   entry at 50.0       is a's version that of 30.0?  ── yes ──► [8, "x"]
//!                                                     └─ no ───► nil, and nothing is done
//! ```
//!
//! A version's time identifies it: an entry has one time, and reads see only the final state of an
//! entry. For a watched key without a value, the transaction carries the time of the look. The key
//! counts as unchanged if it has no value now either, and no newer version, deletion or flush;
//! these are retained for `retention_ms`. So if a key is watched without a value for longer than
//! that, it may have had one meanwhile, unnoticed. At commit it has none again, as the client saw.
//!
//! A refused command (`INCR` of a word) does not undo the others, as in Redis.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | stored values in its answers | [`REPLY_BYTES_MAX`] | the command is refused |
//! | values that its commands make | [`WRITTEN_BYTES_MAX`] | the same |
//!
//! Apply checks both before each command, on every replica alike: a few bytes can ask for many
//! (`COPY`, `GETEX`), of values that only the transaction itself has made.
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
//!
//! Then count `varint` of ranges, each: low `bytes`, `u8` 1 and high `bytes`, or 0. What it flushes
//! counts as one of them, the first: the key of the lock `bytes`, `u8` 2, beginning and end of the
//! arc; or an empty key and 3, for all. 4 and 5 for the same, if only the watched keys may have a
//! value there.

use std::collections::BTreeSet;
use std::ops::Bound;

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{Cut, DecodeError, HashedKey, Timestamp};
use storage::engine::{Engine, Range, Version};

use super::apply::{Values, apply_one};
use super::{Changes, Collect, ObservedValues, Read, Refusal, Reply, View, Write, answer, codec};

/// Bytes of stored values that a transaction may answer with: they fit into one peer RPC.
pub const REPLY_BYTES_MAX: u64 = 60 << 20;
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
/// These stand where a range says whether it has an end.
const FLUSHED_ARC: u8 = 2;
const FLUSHED_ALL: u8 = 3;
/// Added to these if only the watched keys may have a value there.
const WATCHED_ONLY: u8 = 2;
const FLUSHED_ARC_WATCHED: u8 = FLUSHED_ARC + WATCHED_ONLY;
const FLUSHED_ALL_WATCHED: u8 = FLUSHED_ALL + WATCHED_ONLY;

/// Several commands that are done at one moment, unless a key has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction<'a> {
    /// Keys that must be as they were seen, or nothing is done.
    pub watched: Vec<(&'a [u8], ObservedVersion)>,
    /// The commands, in this order.
    pub commands: Vec<Step<'a>>,
    /// Stretches of keys in order in which there must be no others than those watched. Only of what
    /// a coordinator sees through: they are locked (`txn::locks`).
    pub ranges: Vec<KeyRange<'a>>,
    /// What it flushes before its commands. Only of what a coordinator sees through: it is locked.
    pub flush: Option<Box<Flush<'a>>>,
    /// Whether nothing is done if what it flushes has a key that is not watched.
    pub flushes_watched_only: bool,
}

/// Which keys a transaction flushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flush<'a> {
    /// All of its keyspace. A coordinator divides it by shards.
    All,
    /// Those of an arc, in its part for one shard.
    Arc {
        /// A key in the arc, which need not have a value: at this key the arc is locked.
        witness: &'a [u8],
        /// Where the arc begins.
        from: Cut,
        /// Where it ends: slot [`SLOTS`](keyspace::SLOTS) at the keyspace's end.
        end: Cut,
    },
}

/// Keys in order, from one on, up to but without another; or all behind it.
pub type KeyRange<'a> = (&'a [u8], Option<&'a [u8]>);

/// What a watched key had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedVersion {
    /// The version of this time.
    Version(Timestamp),
    /// No value, at this time.
    Absent(Timestamp),
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
    /// Shows every key, those watched first, the first of each range, and that of a flushed arc.
    #[cold]
    pub fn each_key(&self, show: &mut dyn FnMut(&'a [u8])) {
        self.watched.iter().for_each(|(key, _)| show(key));
        self.each_named(show);
        self.ranges.iter().for_each(|(low, _)| show(low));
        self.flushed_arc().iter().for_each(|(witness, ..)| show(witness));
    }

    /// The arc that it flushes, behind the key at which that is locked.
    pub fn flushed_arc(&self) -> Option<(&'a [u8], &Cut, &Cut)> {
        match self.flush.as_deref() {
            Some(Flush::Arc { witness, from, end }) => Some((witness, from, end)),
            Some(Flush::All) | None => None,
        }
    }

    /// Its writes.
    pub fn writes(&self) -> impl Iterator<Item = &Write<'a>> {
        self.commands.iter().filter_map(|step| match step {
            Step::Write(write) => Some(write),
            Step::Read(_) => None,
        })
    }

    /// Bytes of stored values that it answers with, if it is one read.
    #[cold]
    pub fn lone_read_bytes(&self, values: &impl Values, at: Timestamp) -> Option<u64> {
        match &*self.commands {
            [step @ Step::Read(_)] if self.watched.is_empty() => {
                let (bytes, _) = step.takes(values, at);
                Some(if bytes <= REPLY_BYTES_MAX { bytes } else { 0 })
            }
            _ => None,
        }
    }

    /// Shows every key that its commands name, but not those that are only watched.
    #[cold]
    pub fn each_named(&self, show: &mut dyn FnMut(&'a [u8])) {
        self.commands.iter().for_each(|step| step.each_key(show));
    }

    /// A watched key that is not as it was seen, at this time.
    pub fn changed(&self, engine: &impl Engine, at: Timestamp) -> Option<&'a [u8]> {
        let hasher = Engine::hasher(engine);
        let changed = |(key, seen): &&(&[u8], ObservedVersion)| {
            !seen.is_unchanged(engine, &hasher.key(key), at)
        };
        self.watched.iter().find(changed).map(|(key, _)| *key)
    }

    /// A watched key that has a newer version than the client saw: that never changes back.
    pub fn outdated(&self, engine: &impl Engine) -> Option<&'a [u8]> {
        let hasher = Engine::hasher(engine);
        let is_newer =
            |(key, seen): &&(&[u8], ObservedVersion)| seen.is_outdated(engine, &hasher.key(key));
        self.watched.iter().find(is_newer).map(|(key, _)| *key)
    }

    /// A key that has a value at this time, lies in a range, and is not watched. Of an arc in which
    /// only those watched may have one, the key of its lock, if there are others.
    pub fn appeared_key(&self, engine: &impl Engine, at: Timestamp) -> Option<Box<[u8]>> {
        if let Some((witness, ..)) = self.flushed_arc().filter(|_| self.flushes_watched_only) {
            let had_value = |seen: &ObservedVersion| matches!(seen, ObservedVersion::Version(_));
            let watched = self.watched.iter().filter(|(_, seen)| had_value(seen));
            let watched: BTreeSet<&[u8]> = watched.map(|(key, _)| *key).collect();
            if engine.len(at) != watched.len() as u64 {
                return Some(witness.into());
            }
        }
        let watched: BTreeSet<&[u8]> = self.watched.iter().map(|(key, _)| *key).collect();
        let mut came = None;
        for (low, high) in &self.ranges {
            let range = Range {
                start: Bound::Included(*low),
                end: high.map_or(Bound::Unbounded, Bound::Excluded),
                reverse: false,
                // One more than may be there shows that there is one.
                visited_max: watched.len() + 1,
                examined_max: usize::MAX,
            };
            let walked = engine.range(&range, at, &mut |key, _| {
                if came.is_none() && !watched.contains(key) {
                    came = Some(Box::from(key));
                }
            });
            // A hashed shard has no order: gateways ask for none there.
            if walked.is_err() {
                return Some(Box::from(*low));
            }
        }
        came
    }

    /// Does it at the time of its entry, and names what it changes: one answer for each command, or
    /// the watched key that is not as it was seen.
    #[cold]
    pub(super) fn apply(
        &self,
        engine: &mut impl Engine,
        at: Timestamp,
        changes: &mut impl Changes,
    ) -> Reply {
        match self.changed(engine, at) {
            Some(key) => Reply::Changed(key.into()),
            None => Reply::Array(self.run(&mut ObservedValues { values: engine, changes }, at)),
        }
    }

    /// Does its commands, whatever is watched.
    pub fn run<C: FromIterator<Reply>>(&self, values: &mut impl Values, at: Timestamp) -> C {
        let hasher = values.hasher();
        let (mut answered, mut written) = (0, 0);
        let done = self.commands.iter().map(|step| match step {
            _ if !step.fits(values, at, &mut answered, &mut written) => {
                Reply::Refused(Refusal::TooMuch)
            }
            Step::Read(read) => {
                let mut sink = Collect::default();
                answer(&At(values, at), read, at, &mut sink);
                sink.into_reply()
            }
            Step::Write(write) => apply_one(values, write, &hasher.key(write.first_key()), at),
        });
        done.collect()
    }

    /// Appends its bytes, without its op.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.watched.len() as u64, out);
        for (key, seen) in &self.watched {
            put_bytes(key, out);
            let (tag, time) = match seen {
                ObservedVersion::Version(time) => (1, time),
                ObservedVersion::Absent(time) => (2, time),
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
        let flushes = u64::from(self.flush.is_some());
        put_varint(self.ranges.len() as u64 + flushes, out);
        let tag = if self.flushes_watched_only { WATCHED_ONLY } else { 0 };
        self.flush.iter().for_each(|flush| flush.encode(tag, out));
        for (low, high) in &self.ranges {
            put_bytes(low, out);
            out.push(u8::from(high.is_some()));
            high.iter().for_each(|high| put_bytes(high, out));
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let watched = reader.varint()?;
        let mut transaction = Self::default();
        for _ in 0..watched {
            let key = reader.bytes()?;
            let tag = reader.u8()?;
            let time = Timestamp(reader.u64()?);
            let seen = match tag {
                1 => ObservedVersion::Version(time),
                2 => ObservedVersion::Absent(time),
                found => return Err(DecodeError::Tag { what: "what was seen", found }),
            };
            transaction.watched.push((key, seen));
        }
        let count = reader.varint()?;
        // Room for what few there mostly are, and no more on trust.
        transaction.commands.reserve_exact(count.min(4) as usize);
        for _ in 0..count {
            let first = *reader.rest().first().ok_or(DecodeError::Short)?;
            let step = match first {
                codec::FLUSH..=codec::TRANSACTION | codec::BLOCK | codec::FENCE => {
                    return Err(DecodeError::Tag { what: "step of a transaction", found: first });
                }
                GET.. => Step::Read(decode_read(reader)?),
                _ => Step::Write(codec::decode_one(reader)?),
            };
            transaction.commands.push(step);
        }
        for _ in 0..reader.varint()? {
            let low = reader.bytes()?;
            let high = match reader.u8()? {
                0 => None,
                1 => Some(reader.bytes()?),
                tag @ (FLUSHED_ARC | FLUSHED_ARC_WATCHED) => {
                    let (from, end) = (Cut::decode(reader)?, Cut::decode(reader)?);
                    transaction.flushes_watched_only = tag == FLUSHED_ARC_WATCHED;
                    transaction.flush = Some(Box::new(Flush::Arc { witness: low, from, end }));
                    continue;
                }
                tag @ (FLUSHED_ALL | FLUSHED_ALL_WATCHED) => {
                    transaction.flushes_watched_only = tag == FLUSHED_ALL_WATCHED;
                    transaction.flush = Some(Box::new(Flush::All));
                    continue;
                }
                found => return Err(DecodeError::Tag { what: "end of a range", found }),
            };
            transaction.ranges.push((low, high));
        }
        Ok(transaction)
    }
}

impl Flush<'_> {
    /// Appends its bytes, as those of a range, with this added to the tag.
    fn encode(&self, tag: u8, out: &mut Vec<u8>) {
        match self {
            Flush::All => {
                put_bytes(b"", out);
                out.push(FLUSHED_ALL + tag);
            }
            Flush::Arc { witness, from, end } => {
                put_bytes(witness, out);
                out.push(FLUSHED_ARC + tag);
                from.encode(out);
                end.encode(out);
            }
        }
    }
}

impl<'a> Step<'a> {
    /// The key that comes first, if it names any.
    pub fn first_key(&self) -> Option<&'a [u8]> {
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
    fn fits(
        &self,
        values: &impl Values,
        at: Timestamp,
        answered: &mut u64,
        written: &mut u64,
    ) -> bool {
        let (answers, writes) = self.takes(values, at);
        let (all_answered, all_written) = (*answered + answers, written.saturating_add(writes));
        let fits = all_answered <= REPLY_BYTES_MAX && all_written <= WRITTEN_BYTES_MAX;
        if fits {
            (*answered, *written) = (all_answered, all_written);
        }
        fits
    }

    /// Bytes of stored values that it answers with, and of values that it makes.
    fn takes(&self, values: &impl Values, at: Timestamp) -> (u64, u64) {
        let len = |key: &[u8]| {
            let newest = values.newest(&values.hasher().key(key), at);
            newest.map_or(0, |version| version.value.len() as u64)
        };
        match self {
            Step::Read(Read::Get(key) | Read::GetRange { key, .. }) => (len(key), 0),
            Step::Read(Read::GetMany(keys)) => (keys.iter().map(|key| len(key)).sum(), 0),
            Step::Read(_) => (0, 0),
            Step::Write(write) => {
                let answers = write.replied_key().map_or(0, len);
                let copies = write.copied_key().map_or(0, len);
                // These make a version of the value that is there.
                let before = match write {
                    Write::Append { key, .. }
                    | Write::SetRange { key, .. }
                    | Write::GetExpire { key, .. }
                    | Write::Expire { key, .. }
                    | Write::Persist { key } => len(key),
                    _ => 0,
                };
                (answers, write.growth_bytes_max().saturating_add(copies).saturating_add(before))
            }
        }
    }
}

impl ObservedVersion {
    /// Whether something newer is there, by now.
    pub fn is_outdated(self, engine: &impl Engine, key: &HashedKey<'_>) -> bool {
        let (ObservedVersion::Version(time) | ObservedVersion::Absent(time)) = self;
        engine.newest_timestamp(key) > time
    }

    /// Whether a key has at this time what was seen.
    fn is_unchanged(self, engine: &impl Engine, key: &HashedKey<'_>, at: Timestamp) -> bool {
        let newest = Engine::newest(engine, key, at);
        match self {
            ObservedVersion::Version(time) => {
                newest.is_some_and(|version| version.timestamp == time)
            }
            ObservedVersion::Absent(time) => {
                newest.is_none() && engine.newest_timestamp(key) <= time
            }
        }
    }
}

/// Values at the moment of an entry.
struct At<'v, V>(&'v V, Timestamp);

impl<V: Values> View for At<'_, V> {
    fn newest(&self, key: &[u8]) -> Option<Version<'_>> {
        self.0.newest(&self.0.hasher().key(key), self.1)
    }
}

/// Appends a transaction of this read alone, without its op.
pub fn encode_alone(read: &Read<'_>, out: &mut Vec<u8>) {
    put_varint(0, out);
    put_varint(1, out);
    encode_read(read, out);
    put_varint(0, out);
}

/// Appends a read of named keys, but no LCS.
pub fn encode_read(read: &Read<'_>, out: &mut Vec<u8>) {
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

/// Reads what [`encode_read`] wrote.
///
/// # Errors
/// If it is no such read.
pub fn decode_read<'a>(reader: &mut Reader<'a>) -> Result<Read<'a>, DecodeError> {
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
mod tests;
