//! The commands of a keyspace as values: the same for every protocol, log and simulator.
//!
//! A gateway turns bytes into a [`Read`] or a [`Write`]. The node answers a read at once from the
//! view of its shards ([`answer`](fn@answer)). It encodes a write ([`codec`]) into a log entry, and
//! each replica runs it when it applies the entry ([`apply`](fn@apply)), in log order, as a pure
//! function of state and entry (SAFETY G3).
//!
//! ```text
//!   SET a 1 NX ──► Write::Set ──encode──► log ──decode──► apply(engine, …) ──► Reply ──► Sink
//!   GET a      ──► Read::Get ───────────────────────────► answer(view, …) ─────────────► Sink
//! ```
//!
//! # Invariants
//! 1. Times in commands are absolute: nothing here reads a clock.
//! 2. The effect of a command depends only on the engine, the command, the entry's timestamp and
//!    constants ([`limits`]).
//! 3. Answers are those of Redis 7.0.15; the front pages name the exceptions ([`read`]). The
//!    scripts beside this file were recorded from it.
//!
//! # Where to start
//! The types below; then [`apply`](mod@apply) and [`read`], which use [`integer`], [`float`] and
//! [`glob`]. [`value`] has the types of values, [`changes`] the observer of changed keys.

pub mod apply;
pub mod changes;
pub mod codec;
pub mod fence;
pub mod float;
pub mod flush;
pub mod glob;
#[cfg(test)]
mod golden;
pub mod integer;
mod keys;
mod lcs;
pub mod limits;
mod not_done;
mod range;
pub mod read;
pub mod reply;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod script;
mod strings;
pub mod topic;
pub mod transaction;
pub mod value;

use keyspace::Cut;

use crate::limits::VALUE_BYTES_MAX;

pub use apply::{Values, apply, apply_hashed, apply_observed, write_tombstone};
pub use changes::{Changes, ObservedValues};
pub use fence::{Claim, ClaimStep, Epochs, Fence, Writer};
pub use not_done::NotDone;
pub use range::{Pair, RangeQuery};
pub use read::{View, answer};
pub use reply::{Collect, Refusal, Reply, Sink};
pub use topic::TopicKind;
pub use transaction::{Flush, ObservedVersion, Step, Transaction};
pub use value::{Value, ValueType};

/// When a value's life ends, as a write says it. Times are absolute (SAFETY G13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// As the value had it that is replaced (KEEPTTL).
    Keep,
    /// At this many milliseconds since 1970. A time in the past deletes the value at once.
    At(u64),
}

/// Whether a `SET` takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetIf {
    /// Always.
    Always,
    /// Only if the key has no value (NX).
    Absent,
    /// Only if the key has a value (XX).
    Present,
}

/// What a `SET` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetReply {
    /// OK, or nil if the condition failed (SET).
    Ok,
    /// The value before, or nil (SET … GET, GETSET).
    Old,
    /// 1 if it took place, else 0 (SETNX).
    Flag,
}

/// Whether an `EXPIRE` takes place, compared with the expiry the key has; a key without one counts
/// as one that lives for ever. NX and XX, GT, LT may not all be combined: the gateway sees to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireIf {
    /// Only if the key has no expiry.
    pub nx: bool,
    /// Only if it has one.
    pub xx: bool,
    /// Only if the new one is later.
    pub gt: bool,
    /// Only if the new one is earlier.
    pub lt: bool,
}

/// A command that changes keys. All keys lie in one shard: the gateway splits or refuses others.
#[derive(Clone, Debug, PartialEq)]
pub enum Write<'a> {
    /// SET, SETNX, SETEX, PSETEX, GETSET, and each pair of MSET.
    Set {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
        /// Condition.
        when: SetIf,
        /// Expiry of the new value.
        expiry: Expiry,
        /// Which reply it gives.
        reply: SetReply,
    },
    /// DEL, UNLINK, one key: 1 if it was there, else 0.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// GETDEL: the value, or nil.
    GetDelete {
        /// The key.
        key: &'a [u8],
    },
    /// GETEX with an option (without one it is a read): the value, or nil.
    GetExpire {
        /// The key.
        key: &'a [u8],
        /// Never (PERSIST) or At.
        expiry: Expiry,
    },
    /// APPEND: the new length.
    Append {
        /// The key.
        key: &'a [u8],
        /// The bytes to append.
        value: &'a [u8],
        /// The longest allowed result, by the limit of the node that the client has asked; the
        /// format's limit where that is not in the bytes ([`codec`]).
        bytes_max: u64,
    },
    /// SETRANGE: the new length.
    SetRange {
        /// The key.
        key: &'a [u8],
        /// Where `value` begins.
        offset: u64,
        /// The bytes to write there.
        value: &'a [u8],
    },
    /// INCR, DECR, INCRBY, DECRBY: the new number.
    Increment {
        /// The key.
        key: &'a [u8],
        /// The number to add.
        by: i64,
    },
    /// INCRBYFLOAT: the new number as a bulk string.
    IncrementFloat {
        /// The key.
        key: &'a [u8],
        /// The increment as the client wrote it (checked by the gateway).
        by: &'a [u8],
    },
    /// EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT: 1 if set (or deleted, if in the past), else 0.
    Expire {
        /// The key.
        key: &'a [u8],
        /// Milliseconds since 1970.
        at: i64,
        /// Condition.
        when: ExpireIf,
    },
    /// PERSIST: 1 if an expiry was taken away, else 0.
    Persist {
        /// The key.
        key: &'a [u8],
    },
    /// MSETNX within one shard: 1 if all were set, 0 if any key had a value.
    SetAllIfAbsent {
        /// Keys and values.
        pairs: Vec<(&'a [u8], &'a [u8])>,
    },
    /// RENAME, RENAMENX within one shard.
    Rename {
        /// From.
        from: &'a [u8],
        /// To.
        to: &'a [u8],
        /// RENAMENX: only if `to` has no value; then answers 1 or 0, else OK.
        if_absent: bool,
    },
    /// COPY within one shard: 1 or 0.
    Copy {
        /// From.
        from: &'a [u8],
        /// To.
        to: &'a [u8],
        /// Also if `to` has a value.
        replace: bool,
    },
    /// EXEC within one shard: one answer for each of its commands, or which watched key has
    /// changed.
    Transaction(Box<Transaction<'a>>),
    /// FLUSHDB, FLUSHALL, one shard: a tombstone over its whole arc (SAFETY G19), or over a part of
    /// it (module `flush`). OK; or [`Reply::Moved`], if another shard has the rest.
    Flush {
        /// The first slot or key to flush; `None`: all that the shard has.
        from: Option<Cut>,
        /// The first slot or key behind it; slot 0, if there is no first one: whatever the shard
        /// has.
        end: Cut,
    },
    /// A block of a volume, of a writer: as SET, or as DEL if there is no value.
    /// [`Reply::Fenced`] if the shard obeys another session (SAFETY G28).
    Block {
        /// Who writes.
        writer: Writer,
        /// The block's key.
        key: &'a [u8],
        /// Its bytes; nothing if it is not to be there any more.
        value: Option<&'a [u8]>,
    },
    /// A piece of a fence, for the shards of this stretch of a volume: they obey this writer from
    /// now on. OK; [`Reply::Fenced`], if they obey a later one; or [`Reply::Moved`], as of a flush.
    Fence {
        /// Who is going to write.
        writer: Writer,
        /// The first key of the stretch.
        from: Cut,
        /// What is behind it.
        end: Cut,
    },
}

impl<'a> Write<'a> {
    /// A SET of a key and a value, and nothing else.
    #[inline]
    pub const fn set(key: &'a [u8], value: &'a [u8]) -> Self {
        let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Ok);
        Self::Set { key, value, when, expiry, reply }
    }

    /// An APPEND whose result may be as long as any value.
    pub const fn append(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::Append { key, value, bytes_max: VALUE_BYTES_MAX }
    }
}

/// A command that only reads, of named keys. Scans, KEYS, DBSIZE, RANDOMKEY are the node's own.
#[derive(Clone, Debug, PartialEq)]
pub enum Read<'a> {
    /// GET, and GETEX without options.
    Get(&'a [u8]),
    /// MGET.
    GetMany(Vec<&'a [u8]>),
    /// GETRANGE, SUBSTR.
    GetRange {
        /// The key.
        key: &'a [u8],
        /// First byte; negative from the end.
        start: i64,
        /// Last byte, inclusive; negative from the end.
        end: i64,
    },
    /// STRLEN.
    Length(&'a [u8]),
    /// EXISTS, TOUCH: how many of them are there, repeats counted.
    Exists(Vec<&'a [u8]>),
    /// TYPE.
    Type(&'a [u8]),
    /// TTL, PTTL, EXPIRETIME, PEXPIRETIME: −2 no key, −1 no expiry.
    Ttl {
        /// The key.
        key: &'a [u8],
        /// In milliseconds, else in seconds (rounded as Redis does).
        millis: bool,
        /// The expiry time itself, not the time left.
        absolute: bool,
    },
    /// OBJECT ENCODING: int, embstr or raw as Redis would hold it.
    Encoding(&'a [u8]),
    /// OBJECT REFCOUNT: 1.
    RefCount(&'a [u8]),
    /// OBJECT IDLETIME: 0 seconds.
    IdleTime(&'a [u8]),
    /// LCS.
    Lcs {
        /// The first and the second key.
        keys: [&'a [u8]; 2],
        /// LEN.
        len: bool,
        /// IDX.
        idx: bool,
        /// MINMATCHLEN.
        min_match: u64,
        /// WITHMATCHLEN.
        with_match_len: bool,
    },
}

impl<'a> Read<'a> {
    /// The keys it reads, in the order they were given.
    #[inline]
    pub fn keys(&self) -> &[&'a [u8]] {
        match self {
            Read::Get(key)
            | Read::GetRange { key, .. }
            | Read::Length(key)
            | Read::Type(key)
            | Read::Ttl { key, .. }
            | Read::Encoding(key)
            | Read::RefCount(key)
            | Read::IdleTime(key) => std::slice::from_ref(key),
            Read::GetMany(keys) | Read::Exists(keys) => keys,
            Read::Lcs { keys, .. } => keys,
        }
    }
}
