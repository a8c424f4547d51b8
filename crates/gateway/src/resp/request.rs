//! Requests: what the event loop has to do for a translated command.

use command::{Read, TopicKind, Write};
use keyspace::{Moment, Slot};

use super::tracking::Tracking;
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
    /// Give the value of a key to a key of another keyspace, and reply 1; or 0, if there is none,
    /// or the other key is taken.
    Transfer(Transfer<'a>),
    /// Exchange the keys of two keyspaces, "0" to "15", and reply OK.
    Swap([&'a [u8]; 2]),
    /// Publish messages to a durable topic of the session's keyspace, and reply the first's number.
    PublishToTopic {
        /// The topic's name.
        topic: &'a [u8],
        /// The messages, one at least.
        messages: Vec<&'a [u8]>,
    },
    /// Run a script or a function, and reply what it returns.
    Script(Box<ScriptCall<'a>>),
    /// Something about scripts.
    Scripts(ScriptRequest<'a>),
    /// Something about libraries of functions.
    Libraries(LibraryRequest<'a>),
    /// Something that concerns the keyspace as a whole.
    Keyspace(KeyspaceRequest<'a>),
    /// Read as of a past time, and reply.
    Past(PastRequest<'a>),
    /// From now on the connection's reads are of this time, or of the newest values again
    /// ([`Session::read_at`]); reply OK.
    ///
    /// [`Session::read_at`]: super::Session::read_at
    ReadAt(Option<Moment>),
    /// Say what holds old versions, or have them collected.
    Collect(CollectRequest<'a>),
    /// Reply how a key would be looked up.
    Explain(Explain<'a>),
    /// Reply with the routes of the last command that had a lookup.
    LastRoutes,
    /// Reply how many other replicas have all writes of this connection, when it is enough.
    Wait(Wait),
    /// Close other connections, and reply with their number once all are closed.
    Kill(Kill),
    /// Tell the connection of changes of what it reads ([`Session::track`]), or do so no more, and
    /// reply OK.
    ///
    /// [`Session::track`]: super::Session::track
    Track(Option<Box<Tracking>>),
    /// Make this keyspace the session's: reply OK after [`Session::selected`]. It is "0" to "15",
    /// to be created if it does not exist, or a name that existed a moment ago.
    ///
    /// [`Session::selected`]: super::Session::selected
    Select(&'a [u8]),
    /// Subscribe to these ([`Subscriptions`]), and reply with a confirmation for each.
    ///
    /// [`Subscriptions`]: super::Subscriptions
    Subscribe {
        /// What they are.
        kind: TopicKind,
        /// Their names.
        names: Vec<&'a [u8]>,
    },
    /// Unsubscribe from these, or from all of the kind, and reply with a confirmation for each.
    Unsubscribe {
        /// What they are.
        kind: TopicKind,
        /// Their names.
        names: Vec<&'a [u8]>,
    },
    /// Send a message to subscribers, and reply how many they are.
    Publish {
        /// What the channel is; never a pattern.
        kind: TopicKind,
        /// Its name.
        channel: &'a [u8],
        /// What is sent.
        message: &'a [u8],
    },
    /// The session began anew, with keyspace "0", but for its subscriptions, which are to be
    /// ended; the reply is in the output.
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

/// MOVE, and COPY to another keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The key that has the value, in the session's keyspace.
    pub from: &'a [u8],
    /// The key that gets it.
    pub to: &'a [u8],
    /// The keyspace of that, "0" to "15".
    pub keyspace: &'a [u8],
    /// Whether the first key loses it (MOVE).
    pub moves: bool,
    /// Whether a value that the other key has is replaced.
    pub replace: bool,
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

/// EVAL, EVALSHA, FCALL and their read-only forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCall<'a> {
    /// Which script.
    pub name: ScriptName<'a>,
    /// The keys that the caller declares.
    pub keys: Vec<&'a [u8]>,
    /// The other arguments.
    pub args: Vec<&'a [u8]>,
    /// Whether its commands may only read.
    pub read_only: bool,
}

/// Which script or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptName<'a> {
    /// This.
    Source(&'a [u8]),
    /// The one of this SHA1, as the client wrote it.
    Sha(&'a [u8]),
    /// The function of this name.
    Function(&'a [u8]),
}

/// SCRIPT, and FUNCTION KILL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptRequest<'a> {
    /// Remember a script; reply its SHA1.
    Load(&'a [u8]),
    /// Reply for each SHA1 whether the cluster knows it: 1 or 0.
    Exists(Vec<&'a [u8]>),
    /// Forget all scripts, on all nodes; reply OK.
    Flush,
    /// Stop what runs on this node: scripts, or functions; reply OK.
    Kill {
        /// Which.
        functions: bool,
    },
    /// Reply the source of this SHA1.
    Show(&'a [u8]),
}

/// FUNCTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryRequest<'a> {
    /// Create a library; reply its name.
    Load {
        /// Its code.
        code: &'a [u8],
        /// Whether it may take the place of one.
        replace: bool,
    },
    /// Delete a library; reply OK.
    Delete(&'a [u8]),
    /// Delete all; reply OK.
    Flush,
    /// Reply what there is.
    List {
        /// Only libraries whose name matches this glob.
        pattern: Option<&'a [u8]>,
        /// With their code.
        with_code: bool,
    },
    /// Reply all of them as bytes.
    Dump,
    /// Create libraries from these bytes; reply OK.
    Restore {
        /// The bytes.
        payload: &'a [u8],
        /// What becomes of those that are there.
        how: Restore,
    },
    /// Reply what runs, and what there is.
    Stats,
}

impl LibraryRequest<'_> {
    /// Whether it changes libraries.
    pub fn is_change(&self) -> bool {
        match self {
            Self::Load { .. } | Self::Delete(_) | Self::Flush | Self::Restore { .. } => true,
            Self::List { .. } | Self::Dump | Self::Stats => false,
        }
    }
}

/// What becomes of libraries that are there when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// They stay; an error if a name is taken.
    Append,
    /// Those with the same name are replaced.
    Replace,
    /// They are deleted.
    Flush,
}

/// AT: a read as of a past time.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRequest<'a> {
    /// The time.
    pub moment: Moment,
    /// What is read.
    pub read: PastRead<'a>,
}

/// What is read as of a past time.
#[derive(Clone, Debug, PartialEq)]
pub enum PastRead<'a> {
    /// What a command would have replied; no LCS.
    Keys(Read<'a>),
    /// Whether the key had a value, none, or none yet.
    State(&'a [u8]),
    /// DBSIZE, KEYS, SCAN or RANGE.
    Keyspace(KeyspaceRequest<'a>),
}

/// CARILLON GC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectRequest<'a> {
    /// Of this keyspace alone.
    pub keyspace: Option<&'a [u8]>,
    /// Versions go that no read at or above this time sees; all old ones, if there is none.
    pub at: Option<Moment>,
    /// Collect nothing: only say what holds old versions.
    pub why: bool,
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
