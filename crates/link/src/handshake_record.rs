//! The records of a handshake, which two nodes exchange before the first frame.
//!
//! ```text
//!   record:        tag u8 · length u16 · body                                  little-endian
//!
//!   1 hello        magic 8 · lowest u16 · highest u16 · node u64 · process u64 · nonce 32
//!   2 proof        introduction · MAC 32
//!   3 commit       number u64
//!   4 refusal      see `refusal`
//!
//!   introduction:  cluster? u64 · hash seed? 16 · incarnation u64
//!                  · software (u8 length) · facts (u16 length)
//!                  · supported: lowest u8, highest u8 · cluster version u8 (0: not known)
//! ```
//!
//! A `?` is a byte before: 1 and the field, or 0 and nothing. Later versions append to a hello or
//! an introduction; what one does not know behind it is passed over. The MAC covers all of it. A
//! node that supports the first cluster version only leaves out the last line, as programs do that
//! know of no cluster versions.

use bytes::Bytes;
use keyspace::{ClusterVersion, NodeId, VersionRange};

use crate::refusal::Versions;

/// What every hello begins with.
pub const MAGIC: [u8; 8] = *b"carillon";
/// Bytes of a record before its body.
pub const HEAD_BYTES: usize = 3;
/// The longest body of a record.
pub const HANDSHAKE_RECORD_BYTES_MAX: usize = FACTS_BYTES_MAX + (1 << 10);
/// The longest facts.
pub const FACTS_BYTES_MAX: usize = 4 << 10;
/// The longest name of a software version.
pub const SOFTWARE_BYTES_MAX: usize = 255;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;
/// Bytes of a MAC.
pub const MAC_BYTES: usize = 32;

/// A record's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Node id and supported versions: each side's first record.
    Hello,
    /// A proof that the node knows the secret, and facts for nodes with the secret only.
    Proof,
    /// From the node with the smaller id: this connection is the link.
    Commit,
    /// The end of it.
    Refusal,
}

impl Tag {
    const ALL: [Self; 4] = [Self::Hello, Self::Proof, Self::Commit, Self::Refusal];

    fn code(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Proof => 2,
            Self::Commit => 3,
            Self::Refusal => 4,
        }
    }
}

/// What the beginning of a stream is.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole record, and how many bytes it took.
    Record(Tag, &'a [u8], usize),
    /// The beginning of one.
    Incomplete,
    /// No record.
    Malformed,
}

/// Reads the record that a stream begins with.
pub fn parse(stream: &[u8]) -> Parsed<'_> {
    let Some(&code) = stream.first() else { return Parsed::Incomplete };
    let Some(tag) = Tag::ALL.into_iter().find(|tag| tag.code() == code) else {
        return Parsed::Malformed;
    };
    let Some(length) = stream.get(1..HEAD_BYTES) else { return Parsed::Incomplete };
    let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
    if length > HANDSHAKE_RECORD_BYTES_MAX {
        return Parsed::Malformed;
    }
    match stream.get(HEAD_BYTES..HEAD_BYTES + length) {
        Some(body) => Parsed::Record(tag, body, HEAD_BYTES + length),
        None => Parsed::Incomplete,
    }
}

/// Appends a record whose body `write` appends.
pub fn write(out: &mut Vec<u8>, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[tag.code(), 0, 0]);
    write(out);
    let length = out.len() - start - HEAD_BYTES;
    assert!(length <= HANDSHAKE_RECORD_BYTES_MAX, "a record of {length} bytes");
    out[start + 1..start + HEAD_BYTES].copy_from_slice(&(length as u16).to_le_bytes());
}

/// The body of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocol versions that it supports.
    pub versions: Versions,
    /// The node that sends it.
    pub node: NodeId,
    /// A random number of the process, to distinguish two processes of one node.
    pub process: u64,
    /// Drawn at random for this connection.
    pub nonce: [u8; NONCE_BYTES],
}

impl Hello {
    /// Appends it as it travels.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.versions.lowest.to_le_bytes());
        out.extend_from_slice(&self.versions.highest.to_le_bytes());
        out.extend_from_slice(&self.node.0.to_le_bytes());
        out.extend_from_slice(&self.process.to_le_bytes());
        out.extend_from_slice(&self.nonce);
    }

    /// Reads one; none if it is not one.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        if reader.array()? != MAGIC {
            return None;
        }
        let lowest = u16::from_le_bytes(reader.array()?);
        let highest = u16::from_le_bytes(reader.array()?);
        let (node, process) = (NodeId(reader.u64()?), reader.u64()?);
        let versions = Versions { lowest, highest };
        Some(Self { versions, node, process, nonce: reader.array()? })
    }
}

/// What a node tells of itself in its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Its cluster, if it belongs to one.
    pub cluster_id: Option<u64>,
    /// The cluster's hash seed: only for a node that has none and has proven the secret.
    pub hash_seed: Option<[u8; 16]>,
    /// Counts the node's starts.
    pub incarnation: u64,
    /// What it runs.
    pub software: String,
    /// Facts for the layer above.
    pub facts: Bytes,
    /// The cluster versions that it supports.
    pub supported: VersionRange,
    /// The cluster version, if it knows.
    pub cluster_version: Option<ClusterVersion>,
}

impl Introduction {
    /// Appends it as it travels.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut optional = |field: Option<&[u8]>| {
            out.push(u8::from(field.is_some()));
            out.extend_from_slice(field.unwrap_or_default());
        };
        optional(self.cluster_id.map(u64::to_le_bytes).as_ref().map(|id| &id[..]));
        optional(self.hash_seed.as_ref().map(|seed| &seed[..]));
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        assert!(self.software.len() <= SOFTWARE_BYTES_MAX, "a short name of the software");
        out.push(self.software.len() as u8);
        out.extend_from_slice(self.software.as_bytes());
        assert!(self.facts.len() <= FACTS_BYTES_MAX, "facts within their limit");
        out.extend_from_slice(&(self.facts.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.facts);
        if self.supported != VersionRange::BEFORE {
            let supported =
                [self.supported.lowest(), self.supported.highest()].map(ClusterVersion::number);
            out.extend(supported);
            out.push(self.cluster_version.map_or(0, ClusterVersion::number));
        }
    }

    /// Reads one; none if it is not one.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        let cluster_id = reader.optional(Reader::u64)?;
        let hash_seed = reader.optional(Reader::array)?;
        let incarnation = reader.u64()?;
        let [length] = reader.array()?;
        let software = String::from_utf8_lossy(reader.bytes(length.into())?);
        let software = software.replace(char::is_control, " ");
        let length = usize::from(u16::from_le_bytes(reader.array()?));
        if length > FACTS_BYTES_MAX {
            return None;
        }
        let facts = Bytes::copy_from_slice(reader.bytes(length)?);
        let (supported, cluster_version) = match reader.array() {
            None => (VersionRange::BEFORE, None),
            Some([lowest, highest, cluster_version]) => (
                VersionRange::new(ClusterVersion::new(lowest)?, ClusterVersion::new(highest)?)?,
                ClusterVersion::new(cluster_version),
            ),
        };
        Some(Self {
            cluster_id,
            hash_seed,
            incarnation,
            software,
            facts,
            supported,
            cluster_version,
        })
    }
}

/// Reads fields from the beginning of a body; none when it is too short.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn optional<T>(&mut self, field: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.array()? {
            [0] => Some(None),
            [1] => field(self).map(Some),
            _ => None,
        }
    }
}
