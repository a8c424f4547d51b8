//! What can be done to a simulation: the words of files and of `/v1/sim/act` (`docs/sim.md`).

use std::fmt;

use keyspace::base64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes: a string, or base64 where they are no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Encoded(Encoded),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Encoded { base64: base64::encode(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("bytes are a string, or {\"base64\": \"…\"}");
        match Wire::deserialize(deserializer).map_err(|_| wrong())? {
            Wire::Text(text) => Ok(Self(text.into_bytes())),
            Wire::Encoded(encoded) => base64::decode(&encoded.base64).map(Self).ok_or_else(wrong),
        }
    }
}

/// Something that is done to a simulation, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// So many nodes join at once.
    AddNodes {
        /// How many.
        count: usize,
    },
    /// A node is gone for good; a member of a ring leaves, and says so.
    RemoveNode {
        /// Which.
        node: String,
    },
    /// A process is killed; a member of a ring fails.
    Crash {
        /// Which.
        node: String,
    },
    /// The power of a node goes.
    PowerCut {
        /// Which.
        node: String,
    },
    /// A node that is down starts again.
    Restart {
        /// Which.
        node: String,
    },
    /// A process stands still.
    Pause {
        /// Which.
        node: String,
        /// For so long; none: until it is resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ms: Option<u64>,
    },
    /// … and goes on.
    Resume {
        /// Which.
        node: String,
    },
    /// Nothing goes from one node to another.
    Cut {
        /// From there.
        from: String,
        /// To there.
        to: String,
        /// Nor back.
        #[serde(default, skip_serializing_if = "is_false")]
        both: bool,
    },
    /// Nothing comes to a node, and nothing from it.
    Isolate {
        /// Which.
        node: String,
    },
    /// These nodes and all others do not hear each other.
    Partition {
        /// Which.
        nodes: Vec<String>,
    },
    /// Each sync of a node takes so long.
    SlowDisk {
        /// Which.
        node: String,
        /// So long; 0: as usual.
        sync_ms: u64,
    },
    /// A node's wall clock is set ahead, or back.
    Skew {
        /// Which.
        node: String,
        /// So far from what it should show.
        by_ms: i64,
    },
    /// Somebody on the network alters messages between nodes, and forges handshakes.
    Tamper {
        /// One of so many messages is altered; 0: nobody is there any more.
        one_in: u64,
    },
    /// All ways are open, all nodes up, all disks as usual, and nobody alters messages.
    Heal,
    /// So many clients send requests.
    Clients {
        /// How many.
        count: usize,
    },
    /// A key gets a value.
    Put {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
        /// Of this keyspace; `0` if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keyspace: Option<String>,
        /// It ends after so long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<u64>,
    },
    /// A key is deleted.
    Delete {
        /// The key.
        key: Bytes,
        /// Of this keyspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keyspace: Option<String>,
    },
    /// So many keys come.
    Fill {
        /// How many.
        count: u64,
        /// What they begin with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        /// Of this keyspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keyspace: Option<String>,
    },
    /// All keys with a prefix go.
    Clear {
        /// What they begin with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        /// Of this keyspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keyspace: Option<String>,
    },
    /// A shard is split.
    Split {
        /// Which.
        shard: u64,
        /// Before this slot or key; none: where it parts evenly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<SplitAt>,
    },
    /// A shard takes in the one behind it.
    Merge {
        /// Which.
        shard: u64,
    },
    /// A node gets another admin state.
    Admin {
        /// Which.
        node: String,
        /// Which state.
        state: AdminWord,
    },
    /// A keyspace is made.
    Keyspace {
        /// Its name.
        name: String,
        /// Where its keys live.
        #[serde(default)]
        placement: Layout,
        /// How many replicas its shards have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replicas: Option<u8>,
    },
    /// A keyspace goes, with all its keys.
    DropKeyspace {
        /// Its name.
        name: String,
    },
    /// A planted bug is on, or off.
    Plant {
        /// Its name.
        bug: String,
        /// Whether it is on.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        on: bool,
    },
    /// The owner of a key is looked up.
    Lookup {
        /// The key.
        key: Bytes,
        /// Who asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// By which lookup, in which form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lookup: Option<String>,
        /// Of this keyspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keyspace: Option<String>,
    },
    /// A transaction over keys of a keyspace, in whichever shards they are.
    Txn {
        /// Its keyspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keyspace: Option<String>,
        /// It is done only if these have not changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        watched: Vec<WatchedKey>,
        /// And if these have no other keys than those; of ordered keyspaces.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ranges: Vec<WatchedRange>,
        /// What it does, in this order.
        ops: Vec<TxnOp>,
    },
    /// All is healed, everybody answered, and the judges look at everything.
    Check,
}

/// A key that a transaction watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchedKey {
    /// The key.
    pub key: Bytes,
    /// The time of its value, or of its last end if it has none: a timestamp's digits.
    pub version: String,
    /// Whether it has none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub absent: bool,
}

/// Keys in order that a transaction watches: from one on, up to but without another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchedRange {
    /// The first.
    pub from: Bytes,
    /// The first behind them; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Bytes>,
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TxnOp {
    /// The value of a key.
    Get(Bytes),
    /// A new value for a key.
    Put {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
    },
    /// No value for a key.
    Delete(Bytes),
    /// Adds to the number that a key has, or to 0.
    Increment {
        /// The key.
        key: Bytes,
        /// What is added.
        by: i64,
    },
}

impl TxnOp {
    /// Its key.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Get(key)
            | Self::Put { key, .. }
            | Self::Delete(key)
            | Self::Increment { key, .. } => &key.0,
        }
    }
}

/// Where a shard is split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SplitAt {
    /// Before this slot.
    Slot(u16),
    /// Before this key.
    Key(String),
}

/// An admin state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminWord {
    /// As all others.
    Member,
    /// It gets no more replicas.
    Cordoned,
    /// Its replicas move elsewhere.
    Draining,
    /// It is no member any more.
    Removed,
}

impl From<AdminWord> for keyspace::AdminState {
    fn from(word: AdminWord) -> Self {
        match word {
            AdminWord::Member => Self::Member,
            AdminWord::Cordoned => Self::Cordoned,
            AdminWord::Draining => Self::Draining,
            AdminWord::Removed => Self::Removed,
        }
    }
}

impl From<keyspace::AdminState> for AdminWord {
    fn from(state: keyspace::AdminState) -> Self {
        match state {
            keyspace::AdminState::Member => Self::Member,
            keyspace::AdminState::Cordoned => Self::Cordoned,
            keyspace::AdminState::Draining => Self::Draining,
            keyspace::AdminState::Removed => Self::Removed,
        }
    }
}

/// Where keys of a keyspace live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// By hash.
    #[default]
    Hashed,
    /// In the order of keys.
    Ordered,
    /// In the buckets of a linear-hash table.
    LinearHash,
}

impl From<Layout> for keyspace::Placement {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Hashed => Self::Hashed,
            Layout::Ordered => Self::Ordered,
            Layout::LinearHash => Self::LinearHash,
        }
    }
}

impl Action {
    /// The names of all that are there for clusters.
    pub const OF_CLUSTERS: [&str; 28] = [
        "add-nodes",
        "remove-node",
        "crash",
        "power-cut",
        "restart",
        "pause",
        "resume",
        "cut",
        "isolate",
        "partition",
        "slow-disk",
        "skew",
        "tamper",
        "heal",
        "clients",
        "put",
        "delete",
        "fill",
        "clear",
        "split",
        "merge",
        "admin",
        "keyspace",
        "drop-keyspace",
        "txn",
        "plant",
        "lookup",
        "check",
    ];

    /// The names of all that are there for rings.
    pub const OF_RINGS: [&str; 7] =
        ["add-nodes", "remove-node", "crash", "restart", "heal", "lookup", "check"];
}

/// An action with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedAction {
    /// When, in virtual milliseconds.
    pub ms: u64,
    /// What.
    pub action: Action,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn yes() -> bool {
    true
}
