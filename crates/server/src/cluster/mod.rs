//! The membership driver: it knows the nodes of this node's cluster, and keeps links with them.
//!
//! [`MembershipDriver`] puts two things together: links between nodes ([`crate::peer`]) and the
//! membership of those nodes (crate `membership`). Frames about membership stay here; all others
//! go to the [attached](MembershipDriver::attach) [`Frames`].
//!
//! ```text
//!   net's turn ───► frame ──┬─ kind 1 ──► desk (one lock): membership ──► frames, dials, news
//!        ▲                  └─ others ──► Frames (the runtime)      ▲            │
//!        │                                                      │            ▼
//!        └──────────────── send, flush ◄── any thread     "members" thread   list of members
//!                                                         ticks when due
//! ```
//!
//! # How a node joins its cluster
//! | directory | `join` | what happens |
//! |---|---|---|
//! | empty | none | it founds a cluster: ids and hash seed are drawn, nobody is asked |
//! | empty | given | [`MembershipDriver::wait_for_identity`] waits, for ever, until a member answers; never founds |
//! | used | none | it has its identity, and dials the members' last addresses ([`addresses`]) |
//! | used | given | the same, and the addresses given are dialled while nobody else is known |
//!
//! A node that joins draws its id, links with a member, and gets the cluster's id and hash seed in
//! the handshake. It writes them into its directory, and only then
//! [`begins`](MembershipDriver::begin) to be a member. Until then no node lists it, so a crash
//! in between leaves no dead member behind.
//!
//! # Invariants
//! 1. A node sends nothing about membership before its identity is durable in its directory.
//! 2. The founder is first in the order of joining, and each node comes after the member through
//!    which it joined, whatever the clocks say.
//! 3. [`Frames`] hears of each link up and down alternately; of frames only while it is up. No lock
//!    of this module is held when it is called, but the one that keeps this order.
//! 4. `send`, `flush`, `members` and `is_connected` never wait.
//! 5. A node that was removed ([`MembershipDriver::set_removed`]) is no member: it is not listed,
//!    not dialled, and refused when it dials. It ends when it learns this, from its own cached
//!    catalogue or by a refusal that only a node with the secret can make.
//! 6. A node that does not support the cluster version is refused too. It ends if it is too old,
//!    since the cluster version never falls, or if it has no cluster yet. One that is too new goes
//!    on: the node that refuses it may know an older version only.
//!
//! # What it does not know
//! What frames of other kinds mean, shards, placement. A wrong view of which nodes are alive costs
//! time, never safety.
//!
//! # Caveats
//! - Nodes that are linked with the first process refuse a second one on a copy of its directory.
//!   If none is linked, either is taken for the node: never start a copy of a directory.
//! - Refusals are not authenticated, but for those of removed nodes and of cluster versions. The
//!   host at a seed's address could forge the two that end a start ([`ClusterError`]); it could as
//!   well just not answer.

pub mod addresses;
mod driver;
mod members;
mod options;
pub mod secret;
mod seeds;
mod state;

use bytes::Bytes;
use keyspace::{NodeId, UnsupportedVersion};
use storage::manifest::Manifest;

pub use driver::{ClusterCounters, MembershipDriver};
pub use members::{MemberInfo, MemberState};
pub use membership::Load;
pub use options::Options;

use crate::peer;

/// The kind of frames that carry membership.
pub const KIND_MEMBERSHIP: u8 = 1;

/// Handles frames of other kinds, and events of links and members. Calls come in turns of the net,
/// [`members_changed`](Self::members_changed) also from another thread; they must be short.
pub trait Frames: Send + Sync {
    /// A frame has come; those of one link come in the order in which they were sent.
    fn frame(&self, from: NodeId, kind: u8, body: Bytes);
    /// The end of a turn in which frames came or links changed. Frames that it sends are flushed
    /// after it.
    fn turn_ended(&self);
    /// There is a link to a node. It may be none of the members, or not yet.
    fn link_up(&self, node: NodeId);
    /// The link to a node is down; frames on their way may have arrived or not.
    fn link_down(&self, node: NodeId);
    /// [`MembershipDriver::members`] has changed.
    fn members_changed(&self);
}

/// Which node of which cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: peer::Cluster,
    /// When it founded or joined it, in milliseconds since 1970: the order of joining.
    pub joined_at: u64,
}

impl From<&Manifest> for Identity {
    fn from(manifest: &Manifest) -> Self {
        let cluster = peer::Cluster { id: manifest.cluster, hash_seed: manifest.hash_seed };
        Self { node: manifest.node, cluster, joined_at: manifest.joined_at }
    }
}

/// Why this node cannot join, or stay in, its cluster: it must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The directory is that of another cluster than the seed.
    #[error(
        "the data directory belongs to cluster {here:016x}, but {address} of --join to cluster \
         {there:016x}: give the right address, or an empty directory to join that cluster"
    )]
    WrongCluster {
        /// The seed.
        address: String,
        /// The directory's cluster.
        here: u64,
        /// The seed's cluster.
        there: u64,
    },
    /// This node is no member any more.
    #[error(
        "node {:016x} was removed from the cluster for good: this directory cannot be used again. \
         To use the machine again, start it on an empty directory with --join: it joins as a new \
         node", node.0
    )]
    Removed {
        /// This node.
        node: NodeId,
    },
    /// This node does not support the cluster version.
    #[error(transparent)]
    UnsupportedVersion(#[from] UnsupportedVersion),
    /// Another process is this node.
    #[error(
        "node {:016x} of this data directory is in the cluster already, says {address}, as another \
         process: stop that one. If this directory is a copy, do not start it; start an empty one \
         with --join to add a node", node.0
    )]
    SameNodeTwice {
        /// The node that says so.
        address: String,
        /// This node.
        node: NodeId,
    },
}

fn wall_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
