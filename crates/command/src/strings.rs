//! What do commands of strings do, and what do they answer?
//!
//! A command that needs the string that is there is refused a value of another type, with nothing
//! changed ([`Refusal::WrongType`]); one that replaces it takes whatever is there (SET, MSETNX).

use keyspace::HashedKey;
use storage::engine::Version;

use super::apply::{Applier, stored, write_tombstone};
use super::float::{self, Float};
use super::integer::{self, Digits};
use super::lcs;
use super::limits::VALUE_BYTES_MAX;
use super::{Expiry, Read, Refusal, Reply, SetIf, SetReply, Sink, Value, Values, View, Write};

/// A string, and when it expires.
type StoredString<'a> = (&'a [u8], u64);

/// Does a write of strings.
#[inline]
pub(super) fn apply<V: Values>(
    judge: &mut Applier<'_, V>,
    write: &Write<'_>,
    key: &HashedKey<'_>,
) -> Result<Reply, Refusal> {
    match write {
        Write::Set { value, when, expiry, reply, .. } => {
            judge.set(key, value, *when, *expiry, *reply)
        }
        Write::GetDelete { .. } => judge.get_delete(key),
        Write::GetExpire { expiry, .. } => judge.get_expire(key, *expiry),
        Write::Append { value, bytes_max, .. } => judge.append(key, value, *bytes_max),
        Write::SetRange { offset, value, .. } => judge.set_range(key, *offset, value),
        Write::Increment { by, .. } => judge.increment(key, *by),
        Write::IncrementFloat { by, .. } => judge.increment_float(key, by),
        Write::SetAllIfAbsent { pairs } => Ok(judge.set_all_if_absent(pairs)),
        _ => unreachable!("only writes of strings come here"),
    }
}

#[inline]
fn string_of<'a>(version: Option<Version<'a>>) -> Result<Option<StoredString<'a>>, Refusal> {
    match version {
        Some(version) => Ok(Some((Value::of(&version).string()?, version.expiry_ms))),
        None => Ok(None),
    }
}

impl<V: Values> Applier<'_, V> {
    /// The string that a key has.
    #[inline]
    fn string(&self, key: &HashedKey<'_>) -> Result<Option<StoredString<'_>>, Refusal> {
        string_of(self.newest(key))
    }

    #[inline]
    fn set(
        &mut self,
        key: &HashedKey<'_>,
        value: &[u8],
        when: SetIf,
        expiry: Expiry,
        reply: SetReply,
    ) -> Result<Reply, Refusal> {
        if (when, reply) == (SetIf::Always, SetReply::Ok) && expiry == Expiry::Never {
            self.put(key, &[value], 0);
            return Ok(Reply::Ok);
        }
        let old = self.newest(key);
        let takes_place = match when {
            SetIf::Always => true,
            SetIf::Absent => old.is_none(),
            SetIf::Present => old.is_some(),
        };
        let answer = match (reply, takes_place) {
            (SetReply::Ok, true) => Reply::Ok,
            (SetReply::Ok, false) => Reply::Nil,
            (SetReply::Old, _) => {
                string_of(old)?.map_or(Reply::Nil, |(old, _)| Reply::Bulk(old.into()))
            }
            (SetReply::Flag, _) => Reply::Int(takes_place.into()),
        };
        let expiry_ms = match expiry {
            Expiry::Never => 0,
            Expiry::Keep => old.map_or(0, |old| old.expiry_ms),
            Expiry::At(expiry_ms) => stored(expiry_ms),
        };
        let has_passed = expiry_ms != 0 && expiry_ms <= self.at.millis();
        match (takes_place, has_passed) {
            (false, _) => {}
            (true, false) => self.put(key, &[value], expiry_ms),
            (true, true) => write_tombstone(self.values, key, self.at),
        }
        Ok(answer)
    }

    fn get_delete(&mut self, key: &HashedKey<'_>) -> Result<Reply, Refusal> {
        let Some((value, _)) = self.string(key)? else { return Ok(Reply::Nil) };
        let value = value.into();
        self.values.delete(key, self.at);
        Ok(Reply::Bulk(value))
    }

    fn get_expire(&mut self, key: &HashedKey<'_>, expiry: Expiry) -> Result<Reply, Refusal> {
        let Some((value, old_expiry_ms)) = self.string(key)? else { return Ok(Reply::Nil) };
        let value = value.into();
        let expiry_ms = match expiry {
            Expiry::Never => 0,
            Expiry::Keep => old_expiry_ms,
            Expiry::At(expiry_ms) => stored(expiry_ms),
        };
        if expiry_ms != old_expiry_ms {
            self.values.set_expiry(key, expiry_ms, self.at);
        }
        Ok(Reply::Bulk(value))
    }

    fn append(
        &mut self,
        key: &HashedKey<'_>,
        value: &[u8],
        bytes_max: u64,
    ) -> Result<Reply, Refusal> {
        let Some((old, expiry_ms)) = self.string(key)? else {
            self.put(key, &[value], 0);
            return Ok(length(value.len()));
        };
        let len = old.len() + value.len();
        if len as u64 > bytes_max {
            return Err(Refusal::TooLong);
        }
        let old = Box::<[u8]>::from(old);
        self.put(key, &[&old, value], expiry_ms);
        Ok(length(len))
    }

    fn set_range(
        &mut self,
        key: &HashedKey<'_>,
        offset: u64,
        value: &[u8],
    ) -> Result<Reply, Refusal> {
        let (old, expiry_ms) = self.string(key)?.unwrap_or_default();
        if value.is_empty() {
            return Ok(length(old.len()));
        }
        let end = offset.saturating_add(value.len() as u64);
        if end > VALUE_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        // Both now lie below a limit on what memory holds.
        let (offset, end) = (offset as usize, end as usize);
        let mut new = Vec::with_capacity(old.len().max(end));
        new.extend_from_slice(old);
        new.resize(old.len().max(end), 0);
        new[offset..end].copy_from_slice(value);
        self.put(key, &[&new], expiry_ms);
        Ok(length(new.len()))
    }

    fn increment(&mut self, key: &HashedKey<'_>, by: i64) -> Result<Reply, Refusal> {
        let (number, expiry_ms) = match self.string(key)? {
            None => (0, 0),
            Some((old, expiry_ms)) => (integer::parse(old).ok_or(Refusal::NotInteger)?, expiry_ms),
        };
        let sum = number.checked_add(by).ok_or(Refusal::Overflow)?;
        self.put(key, &[Digits::of(sum).bytes()], expiry_ms);
        Ok(Reply::Int(sum))
    }

    fn increment_float(&mut self, key: &HashedKey<'_>, by: &[u8]) -> Result<Reply, Refusal> {
        let (number, expiry_ms) = match self.string(key)? {
            None => (Float::ZERO, 0),
            Some((old, expiry_ms)) => (float::parse(old).ok_or(Refusal::NotFloat)?, expiry_ms),
        };
        let by = float::parse(by).ok_or(Refusal::NotFloat)?;
        let sum = number.plus(by).ok_or(Refusal::NotFinite)?.to_text();
        self.put(key, &[&sum], expiry_ms);
        Ok(Reply::Bulk(sum.into()))
    }

    fn set_all_if_absent(&mut self, pairs: &[(&[u8], &[u8])]) -> Reply {
        let hasher = self.values.hasher();
        if pairs.iter().any(|(key, _)| self.newest(&hasher.key(key)).is_some()) {
            return Reply::Int(0);
        }
        for (key, value) in pairs {
            self.put(&hasher.key(key), &[value], 0);
        }
        Reply::Int(1)
    }
}

fn length(len: usize) -> Reply {
    Reply::Int(len as i64)
}

/// Answers a read of strings.
///
/// # Errors
/// Nothing was given to the sink: a value is of another type, or LCS would take too much.
#[inline]
pub(super) fn answer(
    view: &impl View,
    read: &Read<'_>,
    sink: &mut impl Sink,
) -> Result<(), Refusal> {
    match read {
        Read::Get(key) => match string_of(view.newest(key))? {
            Some((value, _)) => sink.bulk(value),
            None => sink.nil(),
        },
        Read::GetMany(keys) => {
            sink.array(keys.len());
            for key in keys {
                // Of another type is as good as none here, as in Redis.
                match string_of(view.newest(key)) {
                    Ok(Some((value, _))) => sink.bulk(value),
                    Ok(None) | Err(_) => sink.nil(),
                }
            }
        }
        Read::GetRange { key, start, end } => sink.bulk(range(value(view, key)?, *start, *end)),
        Read::Length(key) => sink.int(value(view, key)?.len() as i64),
        Read::Lcs { keys: [a, b], len, idx, min_match, with_match_len } => {
            let (a, b) = (value(view, a)?, value(view, b)?);
            if lcs::is_too_large(a, b) {
                return Err(Refusal::LcsTooLarge);
            }
            if *idx {
                give_matches(&lcs::matches(a, b), *min_match, *with_match_len, sink);
            } else if *len {
                sink.int(lcs::length(a, b) as i64);
            } else {
                let matches = lcs::matches(a, b);
                let parts = matches.iter().rev().map(|found| &a[found.a..found.a + found.len]);
                sink.bulk(&parts.collect::<Vec<_>>().concat());
            }
        }
        _ => unreachable!("only reads of strings come here"),
    }
    Ok(())
}

/// The string, or an empty one where none is: many commands do not tell these apart.
fn value<'v>(view: &'v impl View, key: &[u8]) -> Result<&'v [u8], Refusal> {
    Ok(string_of(view.newest(key))?.map_or(&[], |(value, _)| value))
}

/// The bytes from `start` to `end`, both included, both counted from the end if negative.
fn range(value: &[u8], start: i64, end: i64) -> &[u8] {
    if value.is_empty() || (start < 0 && end < 0 && start > end) {
        return &[];
    }
    let len = value.len() as i64;
    let from_front = |index: i64| if index < 0 { (len + index).max(0) } else { index };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end { &[] } else { &value[start as usize..=end as usize] }
}

/// The longest value that Redis keeps in one piece with its header (`embstr`).
const EMBSTR_BYTES_MAX: usize = 44;

/// What OBJECT ENCODING says of a string.
pub(super) fn encoding(value: &[u8]) -> &'static str {
    match value {
        _ if integer::parse(value).is_some() => "int",
        _ if value.len() <= EMBSTR_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

fn give_matches(
    matches: &[lcs::Match],
    min_match: u64,
    with_match_len: bool,
    sink: &mut impl Sink,
) {
    let long_enough = || matches.iter().filter(|found| found.len as u64 >= min_match);
    sink.map(2);
    sink.bulk(b"matches");
    sink.array(long_enough().count());
    for found in long_enough() {
        sink.array(2 + usize::from(with_match_len));
        for first in [found.a, found.b] {
            sink.array(2);
            sink.int(first as i64);
            sink.int((first + found.len - 1) as i64);
        }
        if with_match_len {
            sink.int(found.len as i64);
        }
    }
    sink.bulk(b"len");
    sink.int(matches.iter().map(|found| found.len as i64).sum());
}
