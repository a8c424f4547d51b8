//! The other nodes: links to them, and what this node sends them.
//!
//! ```text
//!   step round ──► messages, RPCs ──► one frame for each node ──► links
//!   control, lookups ──► lookup messages ──► a frame each ──► links
//! ```
//!
//! [`super::peer_frames`] reads the frames that they send.

use std::sync::Arc;
use std::time::Duration;

use keyspace::NodeId;
use node::control::{DescriptorTable, Members, PlacementSetup};
use node::executor::Effects;
use node::rpc::frame_batch::{Frame, FrameBatch};
use node::rpc::message::RpcMessage;
pub use node::rpc::{KIND_LOOKUP, KIND_RPC, KIND_SNAPSHOT};
use overlay::Outbox;
use parking_lot::{Condvar, Mutex};

use super::digests::Digests;
use super::lookups::Lookups;
use super::rpc_counters::{RpcCounters, RpcCounts};
use super::snapshots::Snapshots;
use super::{ControlInput, NodeRuntime};
use crate::cluster::MembershipDriver;

/// The kind of frames that carry scripts and their replies.
pub const KIND_SCRIPT: u8 = 7;
/// The kind of frames that ask for scripts, and answer.
pub const KIND_SCRIPT_QUESTION: u8 = 8;

/// How often executors are ticked. [`replication::GroupLimits`] counts in these.
const TICK: Duration = Duration::from_millis(50);

/// What a node of a cluster has beside its executors.
pub struct Peers {
    /// The other nodes.
    pub cluster: Arc<MembershipDriver>,
    /// Snapshots on their way.
    pub snapshots: Snapshots,
    /// Where shards are, as control knows.
    pub lookup: DescriptorTable,
    /// Lookups that a request can name.
    pub lookups: Lookups,
    /// Whether replicas and leaders move to be even.
    pub balances: bool,
    /// After so long a down node counts as dead, and its replicas are replaced.
    pub(super) dead_after: Duration,
    /// States that are digested.
    pub digests: Digests,
    /// What is counted of all that.
    pub rpc_counters: RpcCounters,
    stopping: Mutex<bool>,
    wake: Condvar,
}

impl Peers {
    /// Those of a node, before any link. `seed` was drawn at random.
    pub fn new(
        cluster: Arc<MembershipDriver>,
        node: NodeId,
        placement: &PlacementSetup,
        lookup: DescriptorTable,
        seed: u64,
    ) -> Self {
        let PlacementSetup { balances, dead_after, .. } = *placement;
        let snapshots = Snapshots::new(seed);
        let lookups = Lookups::new(node, seed);
        let (digests, rpc_counters) = Default::default();
        let (stopping, wake) = Default::default();
        Self {
            cluster,
            snapshots,
            lookup,
            lookups,
            balances,
            dead_after,
            digests,
            rpc_counters,
            stopping,
            wake,
        }
    }

    /// Callers repeat lost frames; links log messages that are too long for a node.
    fn send(&self, node: NodeId, frame: Frame<'_>) {
        let parts = [frame.bytes];
        let _lost = match frame.is_urgent {
            true => self.cluster.send_urgent(node, KIND_RPC, &parts),
            false => self.cluster.send(node, KIND_RPC, &parts),
        };
    }

    /// Has the ticker and the snapshots' threads end.
    pub fn stop(&self) {
        *self.stopping.lock() = true;
        self.wake.notify_all();
        self.snapshots.stop();
        self.digests.stop();
    }

    /// Waits for the next tick; whether to end.
    pub(super) fn wait_for_tick(&self) -> bool {
        let mut stopping = self.stopping.lock();
        if !*stopping {
            self.wake.wait_for(&mut stopping, TICK);
        }
        *stopping
    }

    /// Sends one RPC, beside all that executors send.
    pub(super) fn send_rpc(&self, node: NodeId, rpc: &RpcMessage) {
        let mut batch = FrameBatch::default();
        // If it is not linked any more, it asks again.
        let mut send = |node: NodeId, frame: Frame<'_>| self.send(node, frame);
        let mut counts = RpcCounts::default();
        counts.rpc(rpc);
        self.rpc_counters.sent.add(&counts);
        batch.rpc(node, rpc, &mut send);
        batch.send(&mut send);
        self.cluster.flush();
    }

    /// Sends what lookups and tables of descriptors have for other nodes.
    pub(super) fn send_lookup(&self, out: Outbox) {
        if out.is_empty() {
            return;
        }
        let (mut counts, mut bytes) = (RpcCounts::default(), Vec::new());
        for (node, message) in out {
            bytes.clear();
            message.encode(&mut bytes);
            counts.lookup(&message, bytes.len());
            // What is lost is found missing by the next digest.
            let _lost = self.cluster.send(node, KIND_LOOKUP, &[&bytes]);
        }
        self.rpc_counters.sent.add(&counts);
        self.cluster.flush();
    }
}

/// Sends what a step has for other nodes.
pub(super) fn send_effects(runtime: &NodeRuntime, effects: &mut Effects, batch: &mut FrameBatch) {
    for (shard, refused) in effects.refused.drain(..) {
        tracing::warn!("shard {shard}: ignored an invalid message: {refused}");
    }
    if let Some(Peers { digests, .. }) = &runtime.peers {
        effects.digests.drain(..).for_each(|digesting| digests.add(digesting));
        effects.findings.iter().for_each(|finding| digests.compared(finding));
        for (shard, _, why) in effects.ended.drain(..) {
            runtime.control.post([ControlInput::ReplicaEnded(shard)]);
            digests.ended(why);
        }
    }
    if !effects.known.is_empty() {
        runtime
            .control
            .post([ControlInput::DescriptorsLearned(std::mem::take(&mut effects.known))]);
    }
    if effects.messages.is_empty() && effects.rpcs.is_empty() {
        return;
    }
    let Some(peers) = &runtime.peers else {
        effects.messages.clear();
        effects.rpcs.clear();
        return;
    };
    let mut send = |node: NodeId, frame: Frame<'_>| peers.send(node, frame);
    let mut counts = RpcCounts::default();
    for envelope in effects.messages.drain(..) {
        counts.message(&envelope.message);
        match envelope.message.snapshot() {
            Some(_) => peers.snapshots.ask(envelope),
            None => batch.message(&envelope, &mut send),
        }
    }
    for (node, rpc) in effects.rpcs.drain(..) {
        counts.rpc(&rpc);
        batch.rpc(node, &rpc, &mut send);
    }
    peers.rpc_counters.sent.add(&counts);
    if batch.send(&mut send) {
        peers.cluster.flush();
    }
}

/// Passes the list of members to control and lookups.
pub(super) fn members_changed(runtime: &NodeRuntime, peers: &Peers) {
    let members = peers.cluster.members();
    let others = || members.iter().filter(|member| member.node != runtime.identity.node);
    let all = others().map(|member| member.node).collect();
    let up: Vec<NodeId> = others().filter(|m| m.is_up()).map(|member| member.node).collect();
    peers.lookups.peers(&up);
    runtime.control.submit(runtime, ControlInput::Members(Members { all, up }));
}
