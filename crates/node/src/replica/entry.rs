//! The bytes of a log entry: a header, then commands back to back in their wire form (G3).
//!
//! ```text
//!   0      1           9           17        21
//!   +------+-----------+-----------+---------+----------------------------+
//!   | kind | timestamp | term      | count   | commands, or one operation |
//!   +------+-----------+-----------+---------+----------------------------+
//!     u8     u64         u64         u32       little-endian throughout
//! ```
//!
//! A batch is built with room for the header, so that proposing it copies nothing: the header is
//! filled in when the entry takes its timestamp. An entry of no bytes opens a leader's term.
//!
//! The top bit of the kind says that a write of what its key has makes no version
//! ([`Header::skips_equal`]).

use keyspace::codec::Reader;
use keyspace::{CatalogueOp, ClusterVersion, Feature, ShardId, Timestamp};

use crate::routing::session::{BATCH_ID_BYTES, BatchId};
use command::{Read, Write, codec};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 21;

/// Where commands begin in an entry of kind [`Kind::SessionBatch`].
pub const SESSION_BATCH_COMMANDS_AT: usize = HEADER_BYTES + BATCH_ID_BYTES;

/// Entries of several commands are closed at this size; one command may be larger.
pub const ENTRY_BYTES_MAX: usize = 256 << 10;
/// No batch that is filled takes more reads, if those it has answer with so many bytes of values as
/// far as is known. What bounds them whatever is known is `ReplyBudget`.
const ENTRY_ANSWERS_BYTES: u64 = 4 << 20;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `count` commands of [`codec`].
    Commands = 1,
    /// A horizon: a timestamp (u64) up to which this leader may promise readers (SAFETY G2).
    Horizon = 2,
    /// A safe point: a timestamp (u64) below which old versions may be collected (G13, G14).
    SafePoint = 3,
    /// One operation on the catalogue; system shard only.
    Catalogue = 4,
    /// A keyspace's safe point: its id (u32) and a timestamp (u64); system shard only (G14).
    KeyspaceSafePoint = 5,
    /// One step of a change of the shard's replicas ([`crate::replica::members::ChangeStep`]).
    Members = 6,
    /// A [`crate::routing::session::BatchId`], then `count` commands: another node's, or this
    /// node's from when another led. Applied once, however often it stands in the log (G10).
    SessionBatch = 7,
    /// Nothing: every replica digests its state as of this entry ([`crate::replica::digest`],
    /// SAFETY G13).
    Check = 8,
    /// Nothing: the newest change of replicas has ended for good ([`crate::replica::members`]).
    Settle = 9,
    /// The shard is split ([`crate::reshape::split`]).
    Split = 10,
    /// A step of two neighbours that become one ([`crate::reshape::merge`]).
    Merge = 11,
    /// `count` steps of transactions over several shards ([`txn::locks::step`]).
    Steps = 12,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Kind::Commands,
            2 => Kind::Horizon,
            3 => Kind::SafePoint,
            4 => Kind::Catalogue,
            5 => Kind::KeyspaceSafePoint,
            6 => Kind::Members,
            7 => Kind::SessionBatch,
            8 => Kind::Check,
            9 => Kind::Settle,
            10 => Kind::Split,
            11 => Kind::Merge,
            12 => Kind::Steps,
            _ => return None,
        })
    }

    /// Whether it holds what clients want changed.
    pub(crate) const fn has_commands(self) -> bool {
        matches!(self, Kind::Commands | Kind::SessionBatch | Kind::Steps)
    }

    /// The cluster version that a leader needs to propose such an entry: from then on all nodes can
    /// read it ([`keyspace::cluster_version`]).
    pub const fn since(self) -> ClusterVersion {
        match self {
            Kind::Commands
            | Kind::Horizon
            | Kind::SafePoint
            | Kind::Catalogue
            | Kind::KeyspaceSafePoint
            | Kind::Members
            | Kind::SessionBatch
            | Kind::Check
            | Kind::Settle
            | Kind::Split => ClusterVersion::FIRST,
            Kind::Merge => Feature::Merges.since(),
            Kind::Steps => Feature::Transactions.since(),
        }
    }
}

/// The cluster version that all nodes must support before an entry may be in a log; none if this
/// program does not know the entry.
pub fn since(data: &[u8]) -> Option<ClusterVersion> {
    match Header::decode(data) {
        None => data.is_empty().then_some(ClusterVersion::FIRST),
        Some((Header { kind: Kind::Catalogue, .. }, body)) => {
            CatalogueOp::decode(&mut Reader::new(body)).ok().map(|op| op.since())
        }
        Some((Header { kind, skips_equal: true, .. }, _)) => {
            Some(kind.since().max(Feature::SkippedWrites.since()))
        }
        Some((header, _)) => Some(header.kind.since()),
    }
}

/// The kind of an entry by its first byte; none of one that opens a term.
pub fn kind_byte(data: &[u8]) -> Option<u8> {
    data.first().map(|byte| byte & !SKIPS_EQUAL)
}

/// Beside the kind: [`Header::skips_equal`].
const SKIPS_EQUAL: u8 = 0x80;

/// An entry that this program cannot read, though its bytes are as they were written. It must not
/// be passed over: what comes after it would be applied to another state than elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "shard {shard}: entry {index} of its log is of kind {kind}{}, which this program does not \
     know: a newer version of carillon has written it. Nothing was changed: start the version \
     that ran here, or a newer one",
    .op.map(|op| format!(", op {op}")).unwrap_or_default()
)]
pub struct UnknownEntry {
    /// Whose.
    pub shard: ShardId,
    /// Which.
    pub index: u64,
    /// Its first byte.
    pub kind: u8,
    /// The first byte of the operation on the catalogue, if that is what is not known.
    pub op: Option<u8>,
}

impl UnknownEntry {
    /// If this entry is one.
    pub fn of(shard: ShardId, index: u64, data: &[u8]) -> Option<Self> {
        if since(data).is_some() {
            return None;
        }
        let kind = *data.first().expect("an empty entry is known");
        let is_catalogue = kind == Kind::Catalogue as u8;
        let op = data.get(HEADER_BYTES).copied().filter(|_| is_catalogue);
        Some(Self { shard, index, kind, op })
    }
}

/// An entry's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Whether a write of the value and expiry that its key has makes no version: its keyspace was
    /// so when the entry was proposed. Only commands and steps say it.
    pub skips_equal: bool,
    /// When: above every timestamp before it in this shard's log.
    pub timestamp: Timestamp,
    /// The proposer's term. Apply ignores an entry whose Raft term differs.
    pub term: u64,
    /// How many commands follow.
    pub count: u32,
}

impl Header {
    /// Splits an entry's bytes; `None` if they are no entry of a version we know.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, body) = bytes.split_at_checked(HEADER_BYTES)?;
        let (kind, skips_equal) = (Kind::from_byte(kind_byte(head)?)?, head[0] & SKIPS_EQUAL != 0);
        if skips_equal && !kind.has_commands() {
            return None;
        }
        let timestamp = Timestamp(u64::from_le_bytes(head[1..9].try_into().ok()?));
        let term = u64::from_le_bytes(head[9..17].try_into().ok()?);
        let count = u32::from_le_bytes(head[17..21].try_into().ok()?);
        Some((Self { kind, skips_equal, timestamp, term, count }, body))
    }

    /// Writes the header over the first bytes of an entry.
    pub fn fill(self, entry: &mut [u8]) {
        entry[0] = self.kind as u8 | if self.skips_equal { SKIPS_EQUAL } else { 0 };
        entry[1..9].copy_from_slice(&self.timestamp.0.to_le_bytes());
        entry[9..17].copy_from_slice(&self.term.to_le_bytes());
        entry[17..21].copy_from_slice(&self.count.to_le_bytes());
    }
}

/// Commands for one shard that go into one entry, and the waiters for their answers.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    waiters: Vec<Waiter>,
    /// About how long the values are with which its reads answer.
    answers_bytes: u64,
}

/// A waiter's number. It means nothing to the node: the driver gives it and gets it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter(pub u64);

/// What remains of an applied batch: its memory, and its waiters.
#[derive(Debug, Default)]
pub struct Spent {
    /// The entry's bytes.
    pub bytes: Vec<u8>,
    /// The waiters, in the order of the commands.
    pub waiters: Vec<Waiter>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { bytes: vec![0; HEADER_BYTES], waiters: Vec::new(), answers_bytes: 0 }
    }
}

impl Batch {
    /// Appends a command. One waiter gets one answer; a waiter may stand several times.
    #[inline]
    pub fn push(&mut self, write: &Write<'_>, waiter: Waiter) {
        codec::encode(write, &mut self.bytes);
        self.waiters.push(waiter);
    }

    /// Appends a read, as a transaction of itself alone, which answers with values of about so many
    /// bytes.
    pub fn push_read(&mut self, read: &Read<'_>, waiter: Waiter, answers_bytes: u64) {
        self.answers_bytes = self.answers_bytes.saturating_add(answers_bytes);
        codec::encode_read(read, &mut self.bytes);
        self.waiters.push(waiter);
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Whether it is time to propose this batch and begin another.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= ENTRY_BYTES_MAX || self.answers_bytes >= ENTRY_ANSWERS_BYTES
    }

    /// Its commands, back to back.
    pub fn commands(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Its size in the log, without the log's own framing.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The waiters, in the order of the commands.
    pub fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }

    /// An empty batch that goes on using the memory of one that was applied.
    pub fn recycled(spent: Spent) -> Self {
        let Spent { mut bytes, mut waiters } = spent;
        bytes.clear();
        bytes.resize(HEADER_BYTES, 0);
        waiters.clear();
        Self { bytes, waiters, answers_bytes: 0 }
    }

    /// A batch of what [`Self::into_parts`] gave.
    pub(crate) fn from_parts(bytes: Vec<u8>, waiters: Vec<Waiter>) -> Self {
        Self { bytes, waiters, answers_bytes: 0 }
    }

    /// Takes it apart: the bytes with room for the header, and the waiters.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Waiter>) {
        (self.bytes, self.waiters)
    }
}

/// The bytes of an entry of kind [`Kind::SessionBatch`], with room for its header.
pub fn session_batch(id: BatchId, commands: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + BATCH_ID_BYTES + commands.len());
    bytes.resize(HEADER_BYTES, 0);
    bytes.extend_from_slice(&id.to_bytes());
    bytes.extend_from_slice(commands);
    bytes
}

/// The bytes of an entry with one operation, with room for its header.
pub fn operation(body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = operation(body);
        let (kind_of, timestamp, skips_equal) = (Kind::Check, Timestamp(1), false);
        Header { kind: kind_of, skips_equal, timestamp, term: 1, count: 0 }.fill(&mut bytes);
        bytes[0] = kind;
        bytes
    }

    #[test]
    fn only_commands_may_skip_equal_writes() {
        let (kind, timestamp) = (Kind::Steps, Timestamp(7));
        let header = Header { kind, skips_equal: true, timestamp, term: 1, count: 3 };
        let mut bytes = operation(b"");
        header.fill(&mut bytes);
        assert_eq!(Header::decode(&bytes), Some((header, &b""[..])));
        assert_eq!(kind_byte(&bytes), Some(Kind::Steps as u8));
        assert_eq!(since(&bytes), Some(Feature::SkippedWrites.since()));
        bytes[0] = Kind::Horizon as u8 | SKIPS_EQUAL;
        assert_eq!(Header::decode(&bytes), None);
    }

    #[test]
    fn entry_names_first_cluster_version_that_allows_it() {
        assert_eq!(since(b""), Some(ClusterVersion::FIRST), "it opens a term");
        assert_eq!(since(&entry(Kind::Check as u8, b"")), Some(ClusterVersion::FIRST));
        let mut op = Vec::new();
        CatalogueOp::RaiseVersion { to: ClusterVersion::NEWEST }.encode(&mut op);
        assert_eq!(since(&entry(Kind::Catalogue as u8, &op)), Some(ClusterVersion::NEWEST));
        assert_eq!(since(&entry(99, b"")), None);
    }

    #[test]
    fn unknown_entry_names_its_kind_and_op() {
        let unknown = |data: &[u8]| UnknownEntry::of(ShardId(5), 17, data);
        assert_eq!(unknown(&entry(Kind::Check as u8, b"")), None);
        let kind = unknown(&entry(99, b"")).unwrap();
        assert!(kind.to_string().starts_with("shard 5: entry 17 of its log is of kind 99, which"));
        let op = unknown(&entry(Kind::Catalogue as u8, &[88])).unwrap();
        assert_eq!((op.kind, op.op), (Kind::Catalogue as u8, Some(88)));
        assert!(op.to_string().contains("of kind 4, op 88, which"), "{op}");
    }
}
