//! What does a write do? The only judge of commands, run in log order (SAFETY G3).
//!
//! [`apply`] is a pure function of the engine, the command and the entry's timestamp: how long a
//! value may become is a constant, or the command says it. It answers what Redis 7.0.15 would have
//! answered at that moment. Checks made before proposing only save work; here all of them are made
//! again.
//!
//! ```text
//!   entry at 1000.0:  SET n 5 · INCR n · SET n x NX · EXPIRE n 999
//!   replies:          OK      · 6      · nil        · 1 (the time is past: n is deleted)
//! ```
//!
//! # Invariants
//! 1. [`Reply::Refused`] means that nothing changed.
//! 2. A value whose expiry is at or before the entry's millisecond counts as absent (SAFETY G13).
//! 3. Giving a value an expiry in the past is deleting it, and answers as if it were not. A value
//!    that is set with one leaves a deletion, though there was none.
//!
//! # What it does not know
//! Arcs, generations, locks, duplicates: whoever applies entries judges these before. Memory limits
//! too: only a leader judges them, before proposing.
//!
//! # Caveats
//! How Redis holds a value inside is not kept: `OBJECT ENCODING` answers from the value alone.

use keyspace::{HashedKey, KeyHasher, Timestamp};
use storage::engine::{Engine, Version};

use super::float::{self, Float};
use super::integer::{self, Digits};
use super::{ExpireIf, Expiry, Refusal, Reply, SetIf, SetReply, Write};
use crate::limits::VALUE_BYTES_MAX;

/// What commands find and change: an engine, or what shall become of one.
pub trait Values {
    /// Whose hashes keys have here.
    fn hasher(&self) -> KeyHasher;
    /// As [`Engine::newest`].
    fn newest(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Version<'_>>;
    /// As [`Engine::put`].
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp);
    /// As [`Engine::delete`].
    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool;
    /// As [`Engine::set_expiry`].
    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool;
}

impl Values for Engine {
    fn hasher(&self) -> KeyHasher {
        self.hasher()
    }

    #[inline]
    fn newest(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Version<'_>> {
        self.newest(key, at)
    }

    #[inline]
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) {
        self.put(key, parts, expiry_ms, at);
    }

    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        self.delete(key, at)
    }

    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        self.set_expiry(key, expiry_ms, at)
    }
}

/// Does what a command says, at the time of its entry, and answers what its client is told.
///
/// # Panics
/// As the engine does: on a time before the engine's newest, on keys outside its arc.
pub fn apply(engine: &mut Engine, write: &Write<'_>, at: Timestamp) -> Reply {
    let key = engine.hasher().key(write.first_key());
    apply_hashed(engine, write, &key, at)
}

/// As [`apply`], with the command's first key hashed already.
pub fn apply_hashed(
    engine: &mut Engine,
    write: &Write<'_>,
    first: &HashedKey<'_>,
    at: Timestamp,
) -> Reply {
    match write {
        Write::Transaction(transaction) => transaction.apply(engine, at),
        Write::Flush { from, end } => {
            match from {
                Some(from) => engine.flush_within(from, end, at),
                None => engine.flush(at),
            }
            Reply::Ok
        }
        _ => apply_one(engine, write, first, at),
    }
}

/// As [`apply_hashed`], of commands that can be a transaction's.
///
/// # Panics
/// On a flush and on a transaction, and as [`apply`].
#[inline]
pub(super) fn apply_one(
    values: &mut impl Values,
    write: &Write<'_>,
    first: &HashedKey<'_>,
    at: Timestamp,
) -> Reply {
    let hasher = values.hasher();
    let mut judge = Judge { values, at };
    let result = match write {
        Write::Set { value, when, expiry, reply, .. } => {
            Ok(judge.set(first, value, *when, *expiry, *reply))
        }
        Write::Delete { .. } => Ok(judge.delete(first)),
        Write::GetDelete { .. } => Ok(judge.get_delete(first)),
        Write::GetExpire { expiry, .. } => Ok(judge.get_expire(first, *expiry)),
        Write::Append { value, bytes_max, .. } => judge.append(first, value, *bytes_max),
        Write::SetRange { offset, value, .. } => judge.set_range(first, *offset, value),
        Write::Increment { by, .. } => judge.increment(first, *by),
        Write::IncrementFloat { by, .. } => judge.increment_float(first, by),
        Write::Expire { at, when, .. } => Ok(judge.expire(first, *at, *when)),
        Write::Persist { .. } => Ok(judge.persist(first)),
        Write::SetAllIfAbsent { pairs } => Ok(judge.set_all_if_absent(&hasher, pairs)),
        Write::Rename { to, if_absent, .. } => judge.rename(first, &hasher.key(to), *if_absent),
        Write::Copy { to, replace, .. } => Ok(judge.copy(first, &hasher.key(to), *replace)),
        Write::Transaction(_) | Write::Flush { .. } => {
            unreachable!("neither is a step of a transaction")
        }
    };
    result.unwrap_or_else(Reply::Refused)
}

/// Deletes a key; one without a value as if it had had one: who has watched that it has none is to
/// know that somebody has made and deleted it (SAFETY G15).
pub fn leave_deletion(values: &mut impl Values, key: &HashedKey<'_>, at: Timestamp) {
    if !values.delete(key, at) {
        values.put(key, &[], 0, at);
        values.delete(key, at);
    }
}

/// Values at the moment of an entry.
struct Judge<'v, V> {
    values: &'v mut V,
    at: Timestamp,
}

impl<V: Values> Judge<'_, V> {
    #[inline]
    fn newest(&self, key: &HashedKey<'_>) -> Option<Version<'_>> {
        self.values.newest(key, self.at)
    }

    /// A copy that stays while the engine changes: value and expiry.
    fn owned(&self, key: &HashedKey<'_>) -> Option<(Box<[u8]>, u64)> {
        self.newest(key).map(|version| (version.value.into(), version.expiry_ms))
    }

    #[inline]
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64) {
        self.values.put(key, parts, expiry_ms, self.at);
    }

    #[inline]
    fn set(
        &mut self,
        key: &HashedKey<'_>,
        value: &[u8],
        when: SetIf,
        expiry: Expiry,
        reply: SetReply,
    ) -> Reply {
        if (when, reply) == (SetIf::Always, SetReply::Ok) && expiry == Expiry::Never {
            self.put(key, &[value], 0);
            return Reply::Ok;
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
            (SetReply::Old, _) => old.map_or(Reply::Nil, |old| Reply::Bulk(old.value.into())),
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
            (true, true) => leave_deletion(self.values, key, self.at),
        }
        answer
    }

    fn delete(&mut self, key: &HashedKey<'_>) -> Reply {
        Reply::Int(self.values.delete(key, self.at).into())
    }

    fn get_delete(&mut self, key: &HashedKey<'_>) -> Reply {
        let Some((value, _)) = self.owned(key) else { return Reply::Nil };
        self.values.delete(key, self.at);
        Reply::Bulk(value)
    }

    fn get_expire(&mut self, key: &HashedKey<'_>, expiry: Expiry) -> Reply {
        let Some((value, old_expiry_ms)) = self.owned(key) else { return Reply::Nil };
        let expiry_ms = match expiry {
            Expiry::Never => 0,
            Expiry::Keep => old_expiry_ms,
            Expiry::At(expiry_ms) => stored(expiry_ms),
        };
        if expiry_ms != old_expiry_ms {
            self.values.set_expiry(key, expiry_ms, self.at);
        }
        Reply::Bulk(value)
    }

    fn append(
        &mut self,
        key: &HashedKey<'_>,
        value: &[u8],
        bytes_max: u64,
    ) -> Result<Reply, Refusal> {
        let Some(old) = self.newest(key) else {
            self.put(key, &[value], 0);
            return Ok(length(value.len()));
        };
        let len = old.value.len() + value.len();
        if len as u64 > bytes_max {
            return Err(Refusal::TooLong);
        }
        let (old, expiry_ms) = (Box::<[u8]>::from(old.value), old.expiry_ms);
        self.put(key, &[&old, value], expiry_ms);
        Ok(length(len))
    }

    fn set_range(
        &mut self,
        key: &HashedKey<'_>,
        offset: u64,
        value: &[u8],
    ) -> Result<Reply, Refusal> {
        let old = self.newest(key);
        let (old, expiry_ms) = old.map_or((&[][..], 0), |old| (old.value, old.expiry_ms));
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
        let (number, expiry_ms) = match self.newest(key) {
            None => (0, 0),
            Some(old) => (integer::parse(old.value).ok_or(Refusal::NotInteger)?, old.expiry_ms),
        };
        let sum = number.checked_add(by).ok_or(Refusal::Overflow)?;
        self.put(key, &[Digits::of(sum).bytes()], expiry_ms);
        Ok(Reply::Int(sum))
    }

    fn increment_float(&mut self, key: &HashedKey<'_>, by: &[u8]) -> Result<Reply, Refusal> {
        let (number, expiry_ms) = match self.newest(key) {
            None => (Float::ZERO, 0),
            Some(old) => (float::parse(old.value).ok_or(Refusal::NotFloat)?, old.expiry_ms),
        };
        let by = float::parse(by).ok_or(Refusal::NotFloat)?;
        let sum = number.plus(by).ok_or(Refusal::NotFinite)?.to_text();
        self.put(key, &[&sum], expiry_ms);
        Ok(Reply::Bulk(sum.into()))
    }

    fn expire(&mut self, key: &HashedKey<'_>, at: i64, when: ExpireIf) -> Reply {
        let Some(old) = self.newest(key) else { return Reply::Int(0) };
        let ends = old.expiry_ms != 0;
        // A value that never ends outlives any other.
        let old = if ends { i128::from(old.expiry_ms) } else { i128::MAX };
        let new = i128::from(at);
        let refused = (when.nx && ends)
            || (when.xx && !ends)
            || (when.gt && new <= old)
            || (when.lt && new >= old);
        if refused {
            return Reply::Int(0);
        }
        // Before 1970 is past as well.
        self.values.set_expiry(key, stored(u64::try_from(at).unwrap_or(0)), self.at);
        Reply::Int(1)
    }

    fn persist(&mut self, key: &HashedKey<'_>) -> Reply {
        let ends = self.newest(key).is_some_and(|old| old.expiry_ms != 0);
        if ends {
            self.values.set_expiry(key, 0, self.at);
        }
        Reply::Int(ends.into())
    }

    fn set_all_if_absent(&mut self, hasher: &KeyHasher, pairs: &[(&[u8], &[u8])]) -> Reply {
        if pairs.iter().any(|(key, _)| self.newest(&hasher.key(key)).is_some()) {
            return Reply::Int(0);
        }
        for (key, value) in pairs {
            self.put(&hasher.key(key), &[value], 0);
        }
        Reply::Int(1)
    }

    fn rename(
        &mut self,
        from: &HashedKey<'_>,
        to: &HashedKey<'_>,
        if_absent: bool,
    ) -> Result<Reply, Refusal> {
        let (value, expiry_ms) = self.owned(from).ok_or(Refusal::NoSuchKey)?;
        if if_absent && self.newest(to).is_some() {
            return Ok(Reply::Int(0));
        }
        if from.bytes != to.bytes {
            self.put(to, &[&value], expiry_ms);
            self.values.delete(from, self.at);
        }
        Ok(if if_absent { Reply::Int(1) } else { Reply::Ok })
    }

    fn copy(&mut self, from: &HashedKey<'_>, to: &HashedKey<'_>, replace: bool) -> Reply {
        let Some((value, expiry_ms)) = self.owned(from) else { return Reply::Int(0) };
        if !replace && self.newest(to).is_some() {
            return Reply::Int(0);
        }
        if from.bytes != to.bytes {
            self.put(to, &[&value], expiry_ms);
        }
        Reply::Int(1)
    }
}

/// An expiry as the engine has it, where 0 would mean never: the first millisecond is as past.
fn stored(expiry_ms: u64) -> u64 {
    expiry_ms.max(1)
}

fn length(len: usize) -> Reply {
    Reply::Int(len as i64)
}

#[cfg(test)]
mod tests;
