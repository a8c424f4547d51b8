//! Raises the cluster version automatically.
//!
//! It rises when every member, and every node that holds replicas, has supported the next version
//! for a while. That leaves time to watch, and to go back. The leader of the system shard proposes
//! it.
//!
//! ```text
//!   members: what each supports ──► all support the next, for long ──► CatalogueOp::RaiseVersion
//!   table: who holds replicas ──► somebody has not been heard of ──► it has to wait
//! ```

use std::collections::BTreeMap;

use keyspace::{
    AdminState, AdminStates, CatalogueOp, ClusterVersion, NodeId, ShardId, VersionRange,
};
use replication::BootNanos;

use super::{Control, Effect, Executors, SYSTEM};
use crate::event::EventKind;

/// The versions that a member supports, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberVersions {
    /// Which.
    pub node: NodeId,
    /// What people call it.
    pub name: String,
    /// The versions that it supports.
    pub supported: VersionRange,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it has left.
    pub has_left: bool,
}

/// Which version is to rise to, and since when all support it.
pub(super) type RaisableVersion = Option<(ClusterVersion, BootNanos)>;

impl Control {
    /// Asks for the next version, if it is time to.
    pub(super) fn raise_version(
        &mut self,
        members: &[MemberVersions],
        executors: &mut dyn Executors,
    ) {
        let Some(after) = self.setup.raise_version_after else { return };
        let Some(to) = self.cluster_version.unwrap_or_default().next() else { return };
        let supports = |member: &MemberVersions| {
            member.has_left || member.is_up && member.supported.supports(to)
        };
        let is_ready = members.iter().all(supports) && Self::leads(SYSTEM, executors);
        let since = match self.raisable_version {
            Some((version, since)) if is_ready && version == to => since,
            _ => {
                self.raisable_version = is_ready.then_some((to, self.now));
                return;
            }
        };
        if self.now.saturating_sub(since) < after {
            return;
        }
        // Whatever comes of it, the next attempt is as late.
        self.raisable_version = None;
        let why = self.objections(to, members);
        if !why.is_empty() {
            let why = why.join("; ");
            return self.effects.push(Effect::Event(EventKind::VersionBlocked { to, why }));
        }
        let seconds = after / 1_000_000_000;
        self.effects.push(Effect::Event(EventKind::VersionRaising { to, seconds }));
        self.ask_catalogue(&CatalogueOp::RaiseVersion { to }, None);
    }

    /// Why the version cannot rise to this one now: nothing if it can.
    fn objections(&self, to: ClusterVersion, members: &[MemberVersions]) -> Vec<String> {
        let table = self.table.guard();
        let replicas = table.iter().flat_map(|known| &known.descriptor().replicas);
        let voices = required_nodes(replicas.map(|(_, node)| *node), members, &self.admin_states);
        drop(table);
        let shards = self.routes.iter().flat_map(|route| route.shards());
        let is_unknown =
            |shard: &&ShardId| !self.views.contains(**shard) && self.table.shard(**shard).is_none();
        objections(&voices, to, shards.filter(is_unknown).count())
    }
}

/// A node whose consent is needed before the version rises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredNode {
    /// Which.
    pub node: NodeId,
    /// What people call it, or its id.
    pub name: String,
    /// The versions that it supports; none if it was not heard of since this node started.
    pub supported: Option<VersionRange>,
}

impl RequiredNode {
    /// Why the version cannot become this one because of the node, if it cannot.
    pub fn objection(&self, to: ClusterVersion) -> Option<String> {
        match self.supported {
            None => Some(format!("{} has not been heard of", self.name)),
            Some(supported) if supported.supports(to) => None,
            Some(supported) => Some(format!("{} supports {supported}", self.name)),
        }
    }
}

/// The nodes whose consent is needed, by their ids: all that hold a replica and all members that
/// have not left, but for those that were removed.
pub fn required_nodes(
    holders: impl IntoIterator<Item = NodeId>,
    members: &[MemberVersions],
    states: &AdminStates,
) -> Vec<RequiredNode> {
    let unheard = |node: NodeId| {
        let known = members.iter().find(|member| member.node == node);
        let name = known.map_or_else(|| format!("{:016x}", node.0), |known| known.name.clone());
        RequiredNode { node, name, supported: None }
    };
    let mut found: BTreeMap<NodeId, RequiredNode> =
        holders.into_iter().map(|node| (node, unheard(node))).collect();
    for member in members.iter().filter(|member| !member.has_left) {
        let MemberVersions { node, ref name, supported, .. } = *member;
        found.insert(node, RequiredNode { node, name: name.clone(), supported: Some(supported) });
    }
    found.retain(|node, _| states.of(*node) != AdminState::Removed);
    found.into_values().collect()
}

/// Why the cluster version cannot rise to `to` now; empty if it can. This node does not know the
/// nodes of the `unknown` shards, which may not support it.
pub fn objections(voices: &[RequiredNode], to: ClusterVersion, unknown: usize) -> Vec<String> {
    let mut why: Vec<String> = voices.iter().filter_map(|voice| voice.objection(to)).collect();
    if unknown > 0 {
        why.push(format!("this node does not know yet where all shards are ({unknown} missing)"));
    }
    why
}
