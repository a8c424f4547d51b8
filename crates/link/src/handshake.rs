//! The handshake: each node proves the secret, and both agree on version and cluster.
//!
//! ```text
//!   dialler                                  acceptor
//!      │ hello: versions, node, nonce            │
//!      ├────────────────────────────────────────►│ a version in common? not oneself?
//!      │            hello: versions, node, nonce │
//!      │◄────────────────────────────────────────┤
//!      │ proof: cluster, facts, MAC              │   MAC over both hellos and the proof
//!      ├────────────────────────────────────────►│ right secret? right cluster?
//!      │     proof: cluster, facts (, seed), MAC │   MAC over all of that and the dialler's
//!      │◄────────────────────────────────────────┤
//!      │                commit                   │   from the smaller node id
//!      ├────────────────────────────────────────►│   (or the other way)
//! ```
//!
//! Both prove that they know the shared secret with HMAC-SHA256 over everything said so far: both
//! nonces, both ids, both ranges of versions, and a word for the role, so that no proof can be
//! used twice or sent back to its author. The dialler proves first. A node without a cluster says
//! so in its proof, and gets the cluster's id and hash seed only then. Without a configured secret
//! nodes use the empty one: then the proofs guard against accidents only.
//!
//! Two nodes may dial each other at the same moment. One of them must decide which connection is
//! the link: the one with the smaller id, the *judge*. It commits a connection by a number that
//! grows; the other side uses the connection with the largest number.
//!
//! A node that was removed from the cluster is refused once it has proven itself. This refusal ends
//! the node, so it carries a *seal* that only a node with the secret can make: the first bytes of a
//! MAC over the handshake. A node that does not support the cluster version is refused the same
//! way.
//!
//! Invariants:
//! 1. Pure: nonces are given, there is no clock; the driver ends a handshake that takes too long.
//! 2. Nothing but hello and refusal is read before the versions fit, nothing of a proof is used
//!    before its MAC was checked (in constant time), nothing is a frame before the commit.
//! 3. At most [`INPUT_BYTES_MAX`] are kept of what the other side sends.
//! 4. After an error it is not stepped again; a refusal of ours has been written for the other.
//!
//! Over TLS, the key of all MACs also holds what only the two ends of that connection know
//! ([`Handshake::bind`]): a proof is of no use on another connection.
//!
//! Caveat: without TLS below it the connection is not encrypted, and frames after the handshake
//! carry no MAC. Then the network itself must keep out attackers that can change packets.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use keyspace::{ClusterVersion, NodeId, VersionRange};
use sha2::Sha256;

use crate::handshake_record::{self, Hello, Introduction, MAC_BYTES, NONCE_BYTES, Parsed, Tag};
use crate::refusal::{Refusal, Versions, pack_versions};
use crate::secret::Secret;

/// The versions of the protocol that this software supports: its own and the one before.
///
/// | version | adds |
/// |---|---|
/// | 2 | long messages in pieces |
pub const VERSIONS: Versions = Versions { lowest: 1, highest: 2 };
/// Most that is kept of the other side's records; its first frames may come with the last.
pub const INPUT_BYTES_MAX: usize =
    handshake_record::HEAD_BYTES + handshake_record::HANDSHAKE_RECORD_BYTES_MAX;

/// What seals are of.
const REMOVED: &[u8] = b"carillon peer removed";
const CLUSTER_VERSION: &[u8] = b"carillon peer level";

/// What makes a cluster one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its id, drawn when it began.
    pub id: u64,
    /// Seed of the hash by which its keys are placed.
    pub hash_seed: [u8; 16],
}

/// What a node tells others of itself in a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The versions that it supports.
    pub versions: Versions,
    /// Its id.
    pub node: NodeId,
    /// Drawn at random at every start.
    pub process: u64,
    /// Counts its starts.
    pub incarnation: u64,
    /// What it runs; at most [`handshake_record::SOFTWARE_BYTES_MAX`] bytes.
    pub software: String,
    /// Its cluster, none if it is to join one.
    pub cluster: Option<Cluster>,
    /// For those above; at most [`handshake_record::FACTS_BYTES_MAX`] bytes.
    pub facts: Bytes,
    /// The cluster versions that it supports.
    pub supported: VersionRange,
    /// The cluster version, if it knows it.
    pub cluster_version: Option<ClusterVersion>,
    /// The cluster's secret.
    pub secret: Secret,
}

/// The node at the other end, which has proven that it knows the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHello {
    /// Its id.
    pub node: NodeId,
    /// Which process of it.
    pub process: u64,
    /// Counts its starts.
    pub incarnation: u64,
    /// The version of the protocol that both speak from now on.
    pub version: u16,
    /// What it runs.
    pub software: String,
    /// Its cluster; none if it is still to join one.
    pub cluster_id: Option<u64>,
    /// The cluster to join, for a node that dials, belongs to none and knows the secret.
    pub join: Option<Cluster>,
    /// What else it says.
    pub facts: Bytes,
    /// The cluster versions that it supports.
    pub supported: VersionRange,
    /// The cluster version, as far as it knows.
    pub cluster_version: Option<ClusterVersion>,
}

/// How far a handshake has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// The other side has proven itself: now [`Handshake::proceed`] or [`Handshake::refuse`].
    Proven(PeerHello),
    /// The connection is the link, by the judge's number; what follows are frames.
    Linked {
        /// Larger than that of every link committed before, by the same process.
        commit: u64,
    },
}

/// Why a handshake has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// This node refuses; the record for the other was written.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The other refuses.
    #[error("the other node refuses: {0}")]
    RefusedByPeer(Refusal),
}

impl HandshakeError {
    /// The reason, given by either side.
    pub fn refusal(&self) -> &Refusal {
        match self {
            Self::Refused(refusal) | Self::RefusedByPeer(refusal) => refusal,
        }
    }
}

/// Which node may answer at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedPeer {
    /// This node only.
    Node(NodeId),
    /// Any but these processes: there are links with them.
    AnyBut(Vec<(NodeId, u64)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Dialler,
    Acceptor,
}

impl Role {
    fn word(self) -> &'static [u8] {
        match self {
            Self::Dialler => b"carillon peer dialler",
            Self::Acceptor => b"carillon peer acceptor",
        }
    }
}

#[derive(Debug)]
enum State {
    /// Waits for the other's hello.
    Hello,
    /// Waits for the other's proof.
    Proof(Hello, u16),
    /// Waits for the driver's decision.
    Proven,
    /// Waits for the judge's commit.
    Commit,
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    local: Local,
    role: Role,
    expected: ExpectedPeer,
    nonce: [u8; NONCE_BYTES],
    state: State,
    is_judge: bool,
    /// The key of the connection below, if it has one.
    binding: Option<[u8; 32]>,
    /// All records so far, in the order dialler, acceptor, dialler; the MACs cover them.
    transcript: Vec<u8>,
    input: Vec<u8>,
}

impl Handshake {
    /// The dialler's side, which begins: its hello is appended to `out`.
    pub fn dial(
        local: Local,
        expected: ExpectedPeer,
        nonce: [u8; NONCE_BYTES],
        out: &mut Vec<u8>,
    ) -> Self {
        let mut this = Self::new(local, Role::Dialler, expected, nonce);
        this.say_hello(out);
        this
    }

    /// The acceptor's side.
    pub fn accept(local: Local, nonce: [u8; NONCE_BYTES]) -> Self {
        Self::new(local, Role::Acceptor, ExpectedPeer::AnyBut(Vec::new()), nonce)
    }

    fn new(local: Local, role: Role, expected: ExpectedPeer, nonce: [u8; NONCE_BYTES]) -> Self {
        Self {
            local,
            role,
            expected,
            nonce,
            state: State::Hello,
            is_judge: false,
            binding: None,
            transcript: Vec::new(),
            input: Vec::new(),
        }
    }

    /// Makes a key that only the two ends of the connection below know a part of the secret. Both
    /// sides must do it, before the first [`step`](Self::step).
    pub fn bind(&mut self, key: [u8; 32]) {
        self.binding = Some(key);
    }

    /// Takes bytes of the other side, and appends bytes for it to `out`.
    ///
    /// # Errors
    /// When the handshake has ended; then send `out`, and close the connection.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, HandshakeError> {
        self.input.extend_from_slice(input);
        if matches!(self.state, State::Proven) {
            // It must wait for the driver's word; who sends much meanwhile does not wait for ours.
            return Ok(Progress::More);
        }
        loop {
            let (tag, body, consumed) = match handshake_record::parse(&self.input) {
                Parsed::Record(tag, body, consumed) => (tag, body.to_vec(), consumed),
                Parsed::Incomplete => return Ok(Progress::More),
                Parsed::Malformed => return Err(self.refuse(Refusal::Malformed, out)),
            };
            let record: Vec<u8> = self.input.drain(..consumed).collect();
            match self.read(tag, &body, &record, out) {
                Ok(Progress::More) => {}
                Err(HandshakeError::Refused(refusal)) => return Err(self.refuse(refusal, out)),
                done => return done,
            }
        }
    }

    fn read(
        &mut self,
        tag: Tag,
        body: &[u8],
        record: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        let nonsense = HandshakeError::Refused(Refusal::Malformed);
        match (tag, &self.state) {
            (Tag::Refusal, _) => {
                let refusal = Refusal::decode(body).unwrap_or(Refusal::Malformed);
                Err(HandshakeError::RefusedByPeer(self.is_proven_claim(refusal)))
            }
            (Tag::Hello, State::Hello) => {
                let hello = Hello::decode(body).ok_or(nonsense)?;
                let version = self.check_hello(&hello).map_err(HandshakeError::Refused)?;
                self.is_judge = self.local.node < hello.node;
                self.state = State::Proof(hello, version);
                self.transcript.extend_from_slice(record);
                match self.role {
                    Role::Acceptor => self.say_hello(out),
                    Role::Dialler => self.prove(None, out),
                }
                Ok(Progress::More)
            }
            (Tag::Proof, State::Proof(hello, version)) => {
                let peer = self.check_proof(hello, *version, body, record);
                let peer = peer.map_err(HandshakeError::Refused)?;
                self.transcript.extend_from_slice(record);
                self.state = State::Proven;
                Ok(Progress::Proven(peer))
            }
            (Tag::Commit, State::Commit) => {
                let commit = body.first_chunk().ok_or(nonsense)?;
                Ok(Progress::Linked { commit: u64::from_le_bytes(*commit) })
            }
            (Tag::Hello | Tag::Proof | Tag::Commit, _) => Err(nonsense),
        }
    }

    /// The driver accepts the proven node. The judge commits the connection, with the given number;
    /// the other side waits for that.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn proceed(
        &mut self,
        peer: &PeerHello,
        commit: u64,
        out: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        assert!(matches!(self.state, State::Proven), "only who was proven is accepted");
        if self.role == Role::Acceptor {
            self.prove(peer.cluster_id.is_none().then_some(()).and(self.local.cluster), out);
        }
        self.state = State::Commit;
        if self.is_judge {
            handshake_record::write(out, Tag::Commit, |out| {
                out.extend_from_slice(&commit.to_le_bytes())
            });
            return Ok(Progress::Linked { commit });
        }
        self.step(&[], out)
    }

    /// Writes a refusal for the other side. Next: send `out`, and close.
    pub fn refuse(&self, refusal: Refusal, out: &mut Vec<u8>) -> HandshakeError {
        handshake_record::write(out, Tag::Refusal, |out| refusal.encode(out));
        HandshakeError::Refused(refusal)
    }

    /// As [`refuse`](Self::refuse), for a proven node that was removed.
    pub fn refuse_removed(&self, node: NodeId, out: &mut Vec<u8>) -> HandshakeError {
        let seal = self.seal(REMOVED, node.0);
        self.refuse(Refusal::Removed { node, seal }, out)
    }

    /// As [`refuse`](Self::refuse), for a proven node that does not support the cluster version.
    pub fn refuse_version(
        &self,
        version: ClusterVersion,
        supported: VersionRange,
        out: &mut Vec<u8>,
    ) -> HandshakeError {
        let seal = self.seal(CLUSTER_VERSION, pack_versions(version, supported));
        self.refuse(Refusal::UnsupportedVersion { version, supported, seal }, out)
    }

    /// A claim that this node was removed, or does not support the cluster version, needs a valid
    /// seal; without one it becomes [`Refusal::Other`].
    fn is_proven_claim(&self, refusal: Refusal) -> Refusal {
        let unproven = match refusal {
            Refusal::Removed { node, seal }
                if node != self.local.node || seal != self.seal(REMOVED, node.0) =>
            {
                "the other node claims, without proof, that this node was removed"
            }
            Refusal::UnsupportedVersion { version, supported, seal }
                if supported != self.local.supported
                    || seal != self.seal(CLUSTER_VERSION, pack_versions(version, supported)) =>
            {
                "the other node claims, without proof, that this node does not support the cluster \
                 version"
            }
            refusal => return refusal,
        };
        Refusal::Other { code: refusal.code(), text: unproven.into() }
    }

    /// What only a node of the cluster can say at this point of this handshake.
    fn seal(&self, what: &[u8], about: u64) -> u64 {
        let mut mac = self.keyed();
        mac.update(what);
        mac.update(&self.transcript);
        mac.update(&about.to_le_bytes());
        let bytes = mac.finalize().into_bytes();
        u64::from_le_bytes(*bytes.first_chunk().expect("32 bytes"))
    }

    /// What came behind the commit: the beginning of the frames.
    pub fn into_rest(self) -> Vec<u8> {
        self.input
    }

    /// Bytes of the other side's that wait: never more than [`INPUT_BYTES_MAX`] if the driver
    /// gives it no more than [`room`](Self::room).
    pub fn room(&self) -> usize {
        INPUT_BYTES_MAX - self.input.len()
    }

    /// Whether this side has the smaller id, and so decides. Known once the other's hello has come.
    pub fn is_judge(&self) -> bool {
        self.is_judge
    }

    fn say_hello(&mut self, out: &mut Vec<u8>) {
        let Local { versions, node, process, .. } = self.local;
        let hello = Hello { versions, node, process, nonce: self.nonce };
        let start = out.len();
        handshake_record::write(out, Tag::Hello, |out| hello.encode(out));
        self.transcript.extend_from_slice(&out[start..]);
    }

    fn check_hello(&self, hello: &Hello) -> Result<u16, Refusal> {
        let (here, there) = (self.local.versions, hello.versions);
        let version = here.common(there).ok_or(Refusal::NoCommonVersion { here, there })?;
        if hello.node == self.local.node {
            let node = hello.node;
            return Err(match hello.process == self.local.process {
                true => Refusal::OwnAddress { node },
                false => Refusal::SameNodeTwice { node },
            });
        }
        match &self.expected {
            ExpectedPeer::Node(expected) if *expected != hello.node => {
                Err(Refusal::WrongNode { expected: *expected, found: hello.node })
            }
            ExpectedPeer::AnyBut(linked) if linked.contains(&(hello.node, hello.process)) => {
                Err(Refusal::Linked)
            }
            ExpectedPeer::Node(_) | ExpectedPeer::AnyBut(_) => Ok(version),
        }
    }

    /// Writes this side's proof; `join` is for a node that has no cluster.
    fn prove(&mut self, join: Option<Cluster>, out: &mut Vec<u8>) {
        let introduction = Introduction {
            cluster_id: self.local.cluster.map(|cluster| cluster.id),
            hash_seed: join.map(|cluster| cluster.hash_seed),
            incarnation: self.local.incarnation,
            software: self.local.software.clone(),
            facts: self.local.facts.clone(),
            supported: self.local.supported,
            cluster_version: self.local.cluster_version,
        };
        let start = out.len();
        handshake_record::write(out, Tag::Proof, |out| {
            introduction.encode(out);
            let said = out.len();
            let mac = self.mac(self.role, &out[start + handshake_record::HEAD_BYTES..said]);
            out.extend_from_slice(&mac.finalize().into_bytes());
        });
        self.transcript.extend_from_slice(&out[start..]);
    }

    fn keyed(&self) -> Hmac<Sha256> {
        let binding = self.binding.as_ref().map_or(&[][..], |key| &key[..]);
        let key = [&self.local.secret.0[..], binding].concat();
        let mac = Hmac::<Sha256>::new_from_slice(&key);
        mac.expect("HMAC takes a key of any length")
    }

    fn mac(&self, role: Role, introduction: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.keyed();
        mac.update(role.word());
        // Records carry their lengths, so that no two handshakes give the same bytes.
        mac.update(&self.transcript);
        mac.update(introduction);
        mac
    }

    fn check_proof(
        &self,
        hello: &Hello,
        version: u16,
        body: &[u8],
        record: &[u8],
    ) -> Result<PeerHello, Refusal> {
        assert_eq!(
            &record[handshake_record::HEAD_BYTES..],
            body,
            "a record is its head and its body"
        );
        let (said, mac) = body.split_last_chunk::<MAC_BYTES>().ok_or(Refusal::Malformed)?;
        let role = match self.role {
            Role::Dialler => Role::Acceptor,
            Role::Acceptor => Role::Dialler,
        };
        // Compares in constant time.
        self.mac(role, said).verify_slice(mac).map_err(|_| Refusal::WrongSecret)?;
        let introduction = Introduction::decode(said).ok_or(Refusal::Malformed)?;
        match (self.local.cluster, introduction.cluster_id) {
            (Some(Cluster { id: here, .. }), Some(there)) if here != there => {
                return Err(Refusal::WrongCluster { here, there });
            }
            (None, None) => return Err(Refusal::NoCluster),
            _ => {}
        }
        let join = match (self.local.cluster, introduction.cluster_id, introduction.hash_seed) {
            (None, Some(id), Some(hash_seed)) => Some(Cluster { id, hash_seed }),
            _ => None,
        };
        Ok(PeerHello {
            node: hello.node,
            process: hello.process,
            incarnation: introduction.incarnation,
            version,
            software: introduction.software,
            cluster_id: introduction.cluster_id,
            join,
            facts: introduction.facts,
            supported: introduction.supported,
            cluster_version: introduction.cluster_version,
        })
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
