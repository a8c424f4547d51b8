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
//! Commands of keys, whatever these hold, are judged here; those of a type in its module
//! (`strings`).
//!
//! # What it does not know
//! Arcs, generations, locks, fences, duplicates: the replica that applies an entry checks these
//! before.
//! Memory limits: only a leader checks them, before it proposes.
//!
//! # Caveats
//! How Redis holds a value inside is not kept: `OBJECT ENCODING` answers from the value alone.

use keyspace::{HashedKey, KeyHasher, Timestamp};
use storage::engine::{Engine, Version};

use super::{Changes, ExpireIf, ObservedValues, Refusal, Reply, Write, strings};

/// What commands find and change: an engine, or what shall become of one.
pub trait Values {
    /// Whose hashes keys have here.
    fn hasher(&self) -> KeyHasher;
    /// As [`Engine::newest`].
    fn newest(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Version<'_>>;
    /// As [`Engine::put`].
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool;
    /// As [`Engine::delete`].
    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool;
    /// As [`Engine::set_expiry`].
    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool;
}

impl<V: Engine> Values for V {
    #[inline]
    fn hasher(&self) -> KeyHasher {
        Engine::hasher(self)
    }

    #[inline]
    fn newest(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Version<'_>> {
        Engine::newest(self, key, at)
    }

    #[inline]
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool {
        Engine::put(self, key, parts, expiry_ms, at)
    }

    #[inline]
    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        Engine::delete(self, key, at)
    }

    #[inline]
    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        Engine::set_expiry(self, key, expiry_ms, at)
    }
}

/// Carries out a command, at the time of its entry, and returns the client's reply.
///
/// # Panics
/// As the engine does: on a time before the engine's newest, on keys outside its arc.
pub fn apply(engine: &mut impl Engine, write: &Write<'_>, at: Timestamp) -> Reply {
    let key = Engine::hasher(engine).key(write.first_key());
    apply_hashed(engine, write, &key, at)
}

/// As [`apply`], with the command's first key hashed already.
#[inline]
pub fn apply_hashed(
    engine: &mut impl Engine,
    write: &Write<'_>,
    first: &HashedKey<'_>,
    at: Timestamp,
) -> Reply {
    apply_observed(engine, write, first, at, &mut ())
}

/// As [`apply_hashed`], and names what it changes.
#[inline]
pub fn apply_observed(
    engine: &mut impl Engine,
    write: &Write<'_>,
    first: &HashedKey<'_>,
    at: Timestamp,
    changes: &mut impl Changes,
) -> Reply {
    match write {
        Write::Transaction(transaction) => transaction.apply(engine, at, changes),
        Write::Flush { from, end } => {
            match from {
                Some(from) => engine.flush_within(from, end, at),
                None => engine.flush(at),
            }
            changes.flushed(from.as_ref(), end, at);
            Reply::Ok
        }
        // It is the shard's, not the engine's ([`crate::Fence::apply`]).
        Write::Fence { .. } => Reply::Ok,
        _ => apply_one(&mut ObservedValues { values: engine, changes }, write, first, at),
    }
}

/// As [`apply_hashed`], of commands that can be a transaction's.
///
/// # Panics
/// On a flush, a fence and a transaction, and as [`apply`].
#[inline]
pub(super) fn apply_one(
    values: &mut impl Values,
    write: &Write<'_>,
    first: &HashedKey<'_>,
    at: Timestamp,
) -> Reply {
    let hasher = values.hasher();
    let mut judge = Applier { values, at };
    let result = match write {
        // Of strings.
        Write::Set { .. }
        | Write::GetDelete { .. }
        | Write::GetExpire { .. }
        | Write::Append { .. }
        | Write::SetRange { .. }
        | Write::Increment { .. }
        | Write::IncrementFloat { .. }
        | Write::SetAllIfAbsent { .. } => strings::apply(&mut judge, write, first),
        // Of keys, whatever they hold.
        Write::Delete { .. } | Write::Block { value: None, .. } => Ok(judge.delete(first)),
        Write::Block { value: Some(value), .. } => {
            judge.put(first, &[value], 0);
            Ok(Reply::Ok)
        }
        Write::Expire { at, when, .. } => Ok(judge.expire(first, *at, *when)),
        Write::Persist { .. } => Ok(judge.persist(first)),
        Write::Rename { to, if_absent, .. } => judge.rename(first, &hasher.key(to), *if_absent),
        Write::Copy { to, replace, .. } => Ok(judge.copy(first, &hasher.key(to), *replace)),
        Write::Transaction(_) | Write::Flush { .. } | Write::Fence { .. } => {
            unreachable!("none is a step of a transaction")
        }
    };
    result.unwrap_or_else(Reply::Refused)
}

/// Deletes a key; one without a value gets a tombstone, too: a transaction that watches its absence
/// must notice that it was created and deleted meanwhile (SAFETY G15).
pub fn write_tombstone(values: &mut impl Values, key: &HashedKey<'_>, at: Timestamp) {
    if !values.delete(key, at) {
        values.put(key, &[], 0, at);
        values.delete(key, at);
    }
}

/// Values at the moment of an entry.
pub(super) struct Applier<'v, V> {
    pub values: &'v mut V,
    pub at: Timestamp,
}

impl<V: Values> Applier<'_, V> {
    #[inline]
    pub fn newest(&self, key: &HashedKey<'_>) -> Option<Version<'_>> {
        self.values.newest(key, self.at)
    }

    /// A copy that stays while the store changes: its bytes, whatever their type, and its expiry.
    fn owned(&self, key: &HashedKey<'_>) -> Option<(Box<[u8]>, u64)> {
        self.newest(key).map(|version| (version.value.into(), version.expiry_ms))
    }

    #[inline]
    pub fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64) {
        self.values.put(key, parts, expiry_ms, self.at);
    }

    fn delete(&mut self, key: &HashedKey<'_>) -> Reply {
        Reply::Int(self.values.delete(key, self.at).into())
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
pub(super) fn stored(expiry_ms: u64) -> u64 {
    expiry_ms.max(1)
}

#[cfg(test)]
mod tests;
