//! Requests: what the event loop has to do for a translated command.

use command::{Read, Write};
use keyspace::Slot;

use overlay::LookupChoice;

/// What the connection does with a translated command.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// Nothing: the reply is in the output.
    Answered,
    /// Read keys of the session's keyspace and reply.
    Read(Read<'a>),
    /// Write keys of the session's keyspace, all in one shard (else CROSSSLOT), and reply.
    Write(Write<'a>),
    /// Several writes, each on its own, shard by shard; one reply in the end.
    WriteEach {
        /// What the one reply is.
        gather: Gather,
        /// One per key, in the client's order; never empty.
        writes: Vec<Write<'a>>,
    },
    /// Remember what these keys have ([`Session::watch`]), and reply OK.
    ///
    /// [`Session::watch`]: super::Session::watch
    Watch(Vec<&'a [u8]>),
    /// Do the session's queued commands at one moment, unless a watched key has changed.
    Exec,
    /// Begin a transaction of this connection ([`Session::begin`]), and reply OK.
    ///
    /// [`Session::begin`]: super::Session::begin
    Begin,
    /// Commit the session's transaction: its writes, if nothing that it has read has changed.
    Commit,
    /// Something that concerns the keyspace as a whole.
    Keyspace(KeyspaceRequest<'a>),
    /// Reply how a key would be looked up.
    Explain(Explain<'a>),
    /// Reply with the routes of the last command that had a lookup.
    LastRoutes,
    /// Reply how many other replicas have all writes of this connection, when it is enough.
    Wait(Wait),
    /// Close other connections, and reply with their number once all are closed.
    Kill(Kill),
    /// Make this keyspace the session's: reply OK after [`Session::selected`]. It is "0" to "15",
    /// to be created if it does not exist, or a name that existed a moment ago.
    ///
    /// [`Session::selected`]: super::Session::selected
    Select(&'a [u8]),
    /// The session began anew, with keyspace "0"; the reply is in the output.
    Reset,
    /// Close the connection once the output is flushed.
    Close,
}

/// WAIT and WAITAOF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// WAITAOF: reply an array, first whether this node has the writes on disk, too; and whether
    /// that is waited for.
    pub local: Option<bool>,
    /// How many replicas to wait for, beside the leader.
    pub replicas: u64,
    /// Until then, in milliseconds; 0: for ever.
    pub timeout_ms: u64,
}

/// CLIENT KILL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The connections to close, without the calling one.
    pub others: Vec<u64>,
    /// Whether the calling connection is closed too, once it has its reply.
    pub own: bool,
    /// What the reply is.
    pub gather: Gather,
}

/// EXPLAIN ROUTE: how a key would be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explain<'a> {
    /// Which key, of the session's keyspace.
    pub key: &'a [u8],
    /// By which lookups.
    pub lookups: Vec<LookupChoice>,
}

/// How the replies of several writes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Their sum (DEL, UNLINK).
    Sum,
    /// OK, if all were (MSET).
    Ok,
    /// 1, if all were (MSETNX over several shards).
    One,
}

/// A command on a keyspace as a whole.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyspaceRequest<'a> {
    /// DBSIZE: how many keys.
    Size,
    /// FLUSHDB: remove all keys of the session's keyspace, reply OK.
    Flush,
    /// FLUSHALL: remove all keys of all keyspaces, reply OK.
    FlushAll,
    /// KEYS: an array of all keys that match.
    Keys {
        /// A glob, see [`command::glob`].
        pattern: &'a [u8],
    },
    /// SCAN: an array of the next cursor (a bulk string) and an array of keys.
    Scan {
        /// 0 to begin.
        cursor: u64,
        /// About how many keys to look at; at least 1.
        count: u64,
        /// Only keys that match this glob.
        pattern: Option<&'a [u8]>,
        /// Only keys of this type, whatever its case: all are "string".
        type_filter: Option<&'a [u8]>,
    },
    /// CLUSTER COUNTKEYSINSLOT: how many keys a slot has.
    CountInSlot {
        /// The slot.
        slot: Slot,
    },
    /// CLUSTER GETKEYSINSLOT: an array of keys in a slot.
    KeysInSlot {
        /// The slot.
        slot: Slot,
        /// At most so many.
        count: usize,
    },
    /// RANDOMKEY: some key, or nil.
    RandomKey,
    /// RANGE, on an ordered keyspace; on a hashed one reply [`RANGE_NEEDS_ORDER`].
    Range(Range<'a>),
}

/// RANGE of a hashed keyspace.
pub const RANGE_NEEDS_ORDER: &str = "ERR RANGE needs a keyspace with ordered placement";

/// Keys in order: `RANGE start end [LIMIT count] [REV] [WITHVALUES]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    /// The low end, whatever the direction.
    pub low: Bound<'a>,
    /// The high end.
    pub high: Bound<'a>,
    /// At most so many keys.
    pub limit: Option<u64>,
    /// From high to low (then the client named the high end first).
    pub reverse: bool,
    /// Reply key and value ([`pairs`](super::RespWriter::pairs)), not only keys.
    pub with_values: bool,
}

/// One end of a range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound<'a> {
    /// `-`: before all keys.
    First,
    /// `+`: behind all keys.
    Last,
    /// `[key`: with this key.
    Included(&'a [u8]),
    /// `(key`: without this key.
    Excluded(&'a [u8]),
}
