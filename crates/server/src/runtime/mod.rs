//! The node in the process: what its threads share, each part with a type of its own.
//!
//! ```text
//!   event loop 0 ┐                        ┌ executor 0 ┐
//!   event loop 1 ┼── submit ──► Executors ┤ executor 1 ├──► NodeLog ◄── log thread (fsync)
//!   HTTP thread  ┘        ▲               └     …      ┘       ▲
//!                         │ answers                            └── maintenance (checkpoints,
//!                     Delivery                                     safe points)
//! ```
//!
//! The thread that has work for an executor steps it ([`executors`]); answers go to the mailbox of
//! the asking loop, or straight back to the caller ([`delivery`]). What a step wants of the rest of
//! the node, such as shards to be created or safe points to be passed on, is an input of the
//! control plane, which takes it after the executor is let go ([`control_plane`]).
//!
//! # Parts
//!
//! | part | question |
//! |---|---|
//! | [`identity`], [`lifecycle`] | which node is this, and does it serve |
//! | [`clock`] | what time is it, and is the clock right |
//! | [`executors`], [`log`] | which thread steps shards, and what makes their records durable |
//! | [`delivery`], [`mailbox`] | how an answer gets to the thread that asked |
//! | [`control_plane`], [`requests`] | which thread steps control, and what operators ask of it |
//! | [`routing`], [`admin_states`], [`cluster_version`] | what control decided, for readers |
//! | [`memory`] (`growth`, [`log_retention`]) | how much memory data takes, and its limit |
//! | [`lease_budget`] | how much of it snapshots may hold |
//! | [`background_walks`] | looks at all keys, beside everything else |
//! | [`tracking`] | which clients must hear that a key has changed |
//! | [`request_rates`], [`disk_pace`] | how often shards are asked, and whether the disk is slow |
//! | [`drains`] | how fast draining nodes become empty |
//! | [`pubsub`] | who subscribes to what, and how messages get there |
//! | [`events`] | what has happened, and who watches |
//! | [`inquiries`] | what other nodes know, for who asks this one |
//! | [`peers`] and below | the other nodes: links, RPC frames, snapshots, digests, lookups |
//!
//! Free functions of the other modules look over several parts: [`survey`], [`health`] and
//! [`readiness`] judge, [`placement`] gathers for control, [`maintenance`] and [`ticker`] are
//! threads, [`checkpoints`] writes files, [`open`] builds all of it.
//!
//! Code that steps an executor takes the whole [`NodeRuntime`], for a step's effects may concern
//! every part. Other code takes the part that it needs.
//!
//! Queues and their bounds: an executor's inbox and a mailbox hold at most the unanswered requests
//! of all connections, which each connection bounds (`event_loop`).

pub mod admin_states;
pub mod background_walks;
pub mod checkpoints;
pub mod clock;
pub mod cluster_version;
pub mod control_plane;
pub mod delivery;
pub mod digests;
pub mod disk_pace;
pub mod drains;
pub mod durations;
pub mod events;
pub mod executors;
pub mod growth;
pub mod health;
pub mod identity;
pub mod inquiries;
pub mod lagging_replicas;
pub mod lease_budget;
pub mod lifecycle;
pub mod log;
pub mod log_retention;
pub mod lookups;
pub mod mailbox;
pub mod maintenance;
pub mod memory;
pub mod open;
pub mod open_txns;
pub mod peer_frames;
pub mod peers;
pub mod placement;
pub mod pubsub;
pub mod readiness;
pub mod request_rates;
pub mod requests;
pub mod routing;
pub mod rpc_counters;
mod snapshots;
pub mod survey;
pub mod ticker;
pub mod tracking;

use std::sync::Arc;

use api::Overview;
use arc_swap::ArcSwap;
use command::limits::SINGLE_FRAME_COMMAND_BYTES_MAX;
use keyspace::{Feature, NodeId, ShardId};
pub use node::control::Input as ControlInput;
use node::executor::{Answer, Input, Origin, ShardExecutor};
use node::routing::route::Route;
pub use node::routing::route::View;

use crate::cluster::MemberInfo;
use crate::counters::Counters;
use admin_states::AdminStateCache;
use background_walks::BackgroundWalks;
pub use clock::boot_nanos;
use clock::{NodeClock, wall_millis};
use cluster_version::ClusterVersionState;
use control_plane::ControlPlane;
use delivery::Delivery;
use disk_pace::DiskPace;
use drains::Drains;
use durations::Durations;
use events::Events;
use executors::Executors;
use identity::NodeIdentity;
use inquiries::Inquiries;
use lease_budget::LeaseBudget;
use lifecycle::Lifecycle;
use log::NodeLog;
use memory::Memory;
use open_txns::OpenTxns;
use peers::Peers;
use pubsub::PubSub;
use request_rates::RequestRates;
use routing::Routing;
use tracking::Tracking;

use crate::scripts::Scripts;

/// The origin of work that nobody waits for.
pub const NO_ORIGIN: Origin = Origin(u32::MAX);
/// The origin of requests of the API.
pub const API: Origin = Origin(u32::MAX - 1);

/// What the threads of a node share; see the front page of this module.
pub struct NodeRuntime {
    /// Which node of which cluster.
    pub identity: NodeIdentity,
    /// Whether it serves.
    pub lifecycle: Lifecycle,
    /// Its clock.
    pub clock: NodeClock,
    /// Step its shards.
    pub executors: Executors,
    /// The log.
    pub log: NodeLog,
    /// Takes answers to the threads that asked.
    pub delivery: Delivery,
    /// Decides what concerns several shards or nodes.
    pub control: ControlPlane,
    /// Keyspaces and the shards that have their keys.
    pub routing: Routing,
    /// Which nodes are cordoned, draining or removed.
    pub admin_states: AdminStateCache,
    /// The cluster's version.
    pub version: ClusterVersionState,
    /// What data takes.
    pub memory: Memory,
    /// What snapshots may hold of it.
    pub lease_budget: LeaseBudget,
    /// Looks at all keys that somebody asked for.
    pub walks: BackgroundWalks,
    /// How often shards are asked.
    pub request_rates: RequestRates,
    /// Whether the disk is slow.
    pub disk_pace: DiskPace,
    /// Interactive transactions of the API's clients.
    pub open_txns: OpenTxns,
    /// Scripts: those it knows, and those that wait.
    pub scripts: Scripts,
    /// What its clients cache.
    pub tracking: Tracking,
    /// Which clients write to volumes.
    pub volume_writers: parking_lot::Mutex<gateway::nbd::WriterSessions>,
    /// The other nodes, if there is a peer listener.
    pub peers: Option<Peers>,
    /// Subscriptions, and messages to them.
    pub pubsub: PubSub,
    /// What has happened lately.
    pub events: Events,
    /// How fast draining nodes become empty.
    pub drains: Drains,
    /// Questions to other nodes about themselves, and theirs.
    pub inquiries: Inquiries,
    /// What the process counts.
    pub counters: Arc<Counters>,
    /// How long clients' requests take.
    pub request_times: Durations,
    /// The cluster in numbers, as maintenance saw it within the last second or so.
    pub overview: ArcSwap<Overview>,
    /// How long a request may take.
    pub request_timeout_nanos: u64,
}

impl NodeRuntime {
    /// A shard's leader, as far as it is known here; or else a node with a replica, which may know
    /// the leader.
    pub fn leader_of(&self, route: &Route, place: usize) -> Option<NodeId> {
        let state = route.views[place].read();
        let descriptor = &state.descriptor;
        if descriptor.replica_on(self.identity.node).is_some() {
            return state.serving.leader();
        }
        let known = self.peers.as_ref()?.lookup.shard(descriptor.shard);
        match known {
            Some(known) => known.leader().or(known.descriptor().node_to_ask()),
            None => descriptor.node_to_ask(),
        }
    }

    /// Hands one input to the executor of a shard.
    pub fn submit(&self, shard: ShardId, input: Input) {
        self.submit_from(shard, input, NO_ORIGIN, &mut Vec::new());
    }

    /// As [`Self::submit`], with answers for `origin` that are there at once in `answers`.
    pub fn submit_from(
        &self,
        shard: ShardId,
        input: Input,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        self.executors.of(shard).submit(self, [input], origin, answers);
    }

    /// Hands an input to every executor.
    pub(super) fn submit_to_all(&self, input: impl Fn() -> Input) {
        for cell in self.executors.cells() {
            cell.submit(self, [input()], NO_ORIGIN, &mut Vec::new());
        }
    }

    /// The longest command that clients may send: one that all nodes can send each other.
    pub fn command_bytes_max(&self) -> usize {
        let in_pieces = self.peers.is_none() || self.version.allows(Feature::LongMessages);
        cluster_version::longest_command(in_pieces)
    }

    /// Whether a command of this length is longer than that.
    #[inline]
    pub fn is_too_long(&self, bytes: usize) -> bool {
        bytes > SINGLE_FRAME_COMMAND_BYTES_MAX && bytes > self.command_bytes_max()
    }

    /// Looks at the executor of a shard, between two of its step rounds.
    pub fn with_executor<R>(
        &self,
        shard: ShardId,
        look: impl FnOnce(&mut ShardExecutor) -> R,
    ) -> R {
        self.executors.of(shard).with(self, look)
    }

    /// Looks at one executor after the other, each between two of its step rounds.
    pub fn each_executor(&self, mut look: impl FnMut(&mut ShardExecutor)) {
        self.executors.cells().iter().for_each(|cell| cell.with(self, &mut look));
    }

    /// The members of the cluster, if this node knows any.
    pub fn members(&self) -> Arc<Vec<MemberInfo>> {
        self.peers.as_ref().map(|peers| peers.cluster.members()).unwrap_or_default()
    }
}
