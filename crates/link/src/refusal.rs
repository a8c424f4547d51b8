//! Why a node refuses to link with another.
//!
//! The node that refuses sends the reason and its facts before it closes the connection, so that
//! both logs say the same. `here` is the node that refuses, `there` the one that is refused.
//!
//! ```text
//!   code u8 · here u64 · there u64 · text      little-endian; the text reaches to the end
//! ```
//!
//! This layout stays as it is in all versions; a code that a node does not know is shown by its
//! text. A refusal comes from a node that has proven nothing: it is for people, not for decisions.
//! Two are exceptions, [`Refusal::Removed`] and [`Refusal::UnsupportedVersion`], which end a node.
//! They bring a seal that only a node with the secret can make, for this handshake; without it they
//! end nothing.

use keyspace::{ClusterVersion, NodeId, VersionRange};

/// The longest text taken from the other side.
const TEXT_BYTES_MAX: usize = 512;

/// The protocol versions that a node supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub lowest: u16,
    /// The newest.
    pub highest: u16,
}

impl Versions {
    /// The newest that both support.
    pub fn common(self, other: Self) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }

    fn pack(self) -> u64 {
        u64::from(self.lowest) << 16 | u64::from(self.highest)
    }

    fn unpack(packed: u64) -> Self {
        Self { lowest: (packed >> 16) as u16, highest: packed as u16 }
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.lowest, self.highest)
    }
}

/// A reason to refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No version of the protocol in common.
    #[error(
        "no common protocol version: the node that refuses speaks {here}, the other {there}. \
         Upgrade one version at a time"
    )]
    NoCommonVersion {
        /// Of the node that refuses.
        here: Versions,
        /// Of the refused node.
        there: Versions,
    },
    /// The other does not know the secret.
    #[error("wrong secret: give all nodes of the cluster the same --peer-secret-file")]
    WrongSecret,
    /// The two belong to different clusters.
    #[error(
        "wrong cluster: the node that refuses belongs to {here:016x}, the other to {there:016x}. \
         Check the addresses, or start the other with an empty directory"
    )]
    WrongCluster {
        /// Of the node that refuses.
        here: u64,
        /// Of the refused node.
        there: u64,
    },
    /// Neither belongs to a cluster.
    #[error("neither node belongs to a cluster yet: one must begin it or join through a member")]
    NoCluster,
    /// Another node was expected at this address.
    #[error(
        "wrong node: {:016x} was expected at this address, {:016x} answers", .expected.0, .found.0
    )]
    WrongNode {
        /// The node that was expected.
        expected: NodeId,
        /// The node that answers.
        found: NodeId,
    },
    /// Two processes say that they are the same node.
    #[error(
        "node {:016x} is there already as another process: does a second one run on the same \
         directory or a copy of it?",
        .node.0
    )]
    SameNodeTwice {
        /// Which node.
        node: NodeId,
    },
    /// A node has dialled itself.
    #[error("node {:016x} has reached itself: this address is its own", .node.0)]
    OwnAddress {
        /// Which node.
        node: NodeId,
    },
    /// A node has dialled some address and met one that it is linked with.
    #[error("the two nodes are linked already")]
    Linked,
    /// The node was removed from the cluster, for good.
    #[error(
        "node {:016x} was removed from the cluster, which is for good. To have its machine back, \
         start it on an empty directory with --join: it joins as a new node",
        .node.0
    )]
    Removed {
        /// Which node.
        node: NodeId,
        /// Proves that the refusing node knows the secret: see `handshake`.
        seal: u64,
    },
    /// The node does not support the cluster version.
    #[error(
        "the cluster is at cluster version {version}, and the node that is refused supports \
         {supported}: run a version of carillon on it that supports version {version}"
    )]
    UnsupportedVersion {
        /// The cluster version, as the refusing node knows it.
        version: ClusterVersion,
        /// The versions that the refused node supports.
        supported: VersionRange,
        /// As of [`Self::Removed`].
        seal: u64,
    },
    /// What came is not this protocol, or too much of it.
    #[error(
        "what came is not a handshake between nodes: does a client use the wrong port, or is TLS \
         between nodes on at one end only?"
    )]
    Malformed,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    TooSlow,
    /// A reason that this version does not know.
    #[error("{text} (reason {code})")]
    Other {
        /// Its code.
        code: u8,
        /// What the other says of it.
        text: String,
    },
}

impl Refusal {
    /// The number of its kind.
    pub fn code(&self) -> u8 {
        self.fields().0
    }

    fn fields(&self) -> (u8, u64, u64) {
        match self {
            Self::NoCommonVersion { here, there } => (1, here.pack(), there.pack()),
            Self::WrongSecret => (2, 0, 0),
            Self::WrongCluster { here, there } => (3, *here, *there),
            Self::NoCluster => (4, 0, 0),
            Self::WrongNode { expected, found } => (5, expected.0, found.0),
            Self::SameNodeTwice { node } => (6, node.0, 0),
            Self::OwnAddress { node } => (7, node.0, 0),
            Self::Malformed => (8, 0, 0),
            Self::TooSlow => (9, 0, 0),
            Self::Linked => (10, 0, 0),
            Self::Removed { node, seal } => (11, node.0, *seal),
            Self::UnsupportedVersion { version, supported, seal } => {
                (12, pack_versions(*version, *supported), *seal)
            }
            Self::Other { code, .. } => (*code, 0, 0),
        }
    }

    /// Appends it as it travels.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (code, here, there) = self.fields();
        out.push(code);
        out.extend_from_slice(&here.to_le_bytes());
        out.extend_from_slice(&there.to_le_bytes());
        out.extend_from_slice(self.to_string().as_bytes());
    }

    /// Reads one that has come; none if it is too short to be one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&code, rest) = bytes.split_first()?;
        let (here, rest) = rest.split_first_chunk()?;
        let (there, text) = rest.split_first_chunk()?;
        let (here, there) = (u64::from_le_bytes(*here), u64::from_le_bytes(*there));
        if let (12, Some((version, supported))) = (code, unpack_versions(here)) {
            return Some(Self::UnsupportedVersion { version, supported, seal: there });
        }
        Some(match code {
            1 => Self::NoCommonVersion {
                here: Versions::unpack(here),
                there: Versions::unpack(there),
            },
            2 => Self::WrongSecret,
            3 => Self::WrongCluster { here, there },
            4 => Self::NoCluster,
            5 => Self::WrongNode { expected: NodeId(here), found: NodeId(there) },
            6 => Self::SameNodeTwice { node: NodeId(here) },
            7 => Self::OwnAddress { node: NodeId(here) },
            8 => Self::Malformed,
            9 => Self::TooSlow,
            10 => Self::Linked,
            11 => Self::Removed { node: NodeId(here), seal: there },
            code => {
                let text = &text[..text.len().min(TEXT_BYTES_MAX)];
                let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
                Self::Other { code, text }
            }
        })
    }
}

/// As `here` of a refusal: the cluster version in its lowest byte, then the lowest and the highest
/// that are supported.
pub(crate) fn pack_versions(version: ClusterVersion, supported: VersionRange) -> u64 {
    let [version, lowest, highest] =
        [version, supported.lowest(), supported.highest()].map(ClusterVersion::number);
    u64::from_le_bytes([version, lowest, highest, 0, 0, 0, 0, 0])
}

fn unpack_versions(packed: u64) -> Option<(ClusterVersion, VersionRange)> {
    let [version, lowest, highest, ..] = packed.to_le_bytes().map(ClusterVersion::new);
    Some((version?, VersionRange::new(lowest?, highest?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_arrives_as_it_was_meant() {
        let (here, there) =
            (Versions { lowest: 1, highest: 2 }, Versions { lowest: 4, highest: 5 });
        let node = NodeId(7);
        for refusal in [
            Refusal::NoCommonVersion { here, there },
            Refusal::WrongSecret,
            Refusal::WrongCluster { here: 1, there: u64::MAX },
            Refusal::NoCluster,
            Refusal::WrongNode { expected: NodeId(1), found: NodeId(2) },
            Refusal::SameNodeTwice { node },
            Refusal::OwnAddress { node },
            Refusal::Malformed,
            Refusal::TooSlow,
            Refusal::Linked,
            Refusal::Removed { node, seal: u64::MAX - 1 },
            Refusal::UnsupportedVersion {
                version: ClusterVersion::NEWEST,
                supported: VersionRange::BEFORE,
                seal: 5,
            },
        ] {
            let mut bytes = Vec::new();
            refusal.encode(&mut bytes);
            assert_eq!(Refusal::decode(&bytes), Some(refusal));
            assert_eq!(Refusal::decode(&bytes[..16]), None);
        }
    }

    #[test]
    fn a_reason_of_a_later_version_is_shown_by_its_text() {
        let bytes = [&[77; 17][..], b"too\nwarm"].concat();
        let refusal = Refusal::decode(&bytes).unwrap();
        assert_eq!(refusal.to_string(), "too warm (reason 77)");
        let versions_of_zero = [&[12; 1][..], &[0; 16], b"?"].concat();
        let refusal = Refusal::decode(&versions_of_zero).unwrap();
        assert_eq!(refusal.to_string(), "? (reason 12)");
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        let versions = |lowest, highest| Versions { lowest, highest };
        assert_eq!(versions(1, 2).common(versions(2, 3)), Some(2));
        assert_eq!(versions(1, 5).common(versions(2, 3)), Some(3));
        assert_eq!(versions(1, 1).common(versions(2, 3)), None);
        assert_eq!(versions(3, 4).common(versions(1, 2)), None);
    }
}
