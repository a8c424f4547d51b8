//! The cluster version, as far as this node knows it, and when it rises.
//!
//! The catalogue holds it ([`keyspace::cluster_version`]); here all threads can read it. A node
//! with a replica of the catalogue follows each change, one without reads its cached catalogue.
//! Code that proposes something that not every version knows asks [`ClusterVersionState::allows`]
//! before.
//!
//! ```text
//!   catalogue: Change::ClusterVersion ─┐          ┌──► ClusterVersionState::allows, executors
//!   cache, snapshot: Jumped ────────────┼► known ──┤
//!   start: what was recovered ──────────┘          └──► MembershipDriver::set_cluster_version:
//!                                                       refuses nodes that do not support it;
//!                                                       this node may end
//!   members: supported versions ──► unready ──► CatalogueOp::RaiseVersion, by an operator or by
//!                                               itself
//! ```
//!
//! The cluster version rises to the next one when all nodes support it: all members that were not
//! removed and have not left, whether they are up or not, and all nodes that hold a replica. Nodes
//! gossip which versions they support; a node that was never heard of counts as supporting none.
//!
//! With `auto_upgrade` the leader of the system shard proposes it. It does so when all members have
//! been up and supported it for `auto_upgrade_after_ms`: time to see that all is well, and to go
//! back to the old program.
//!
//! The version known here may be older than the catalogue's, and so too low: never too high.

use std::sync::atomic::{AtomicU8, Ordering};

use command::limits::{COMMAND_BYTES_MAX, SINGLE_FRAME_COMMAND_BYTES_MAX};
use keyspace::{CatalogueOp, ClusterVersion, Feature, VersionRange};
use node::control::version::{self, MemberVersions, RequiredNode};
use node::executor::Input;

use super::survey::{Survey, name_of};
use super::{NodeRuntime, requests};
use crate::cluster::MemberState;
use crate::config::Config;

/// The cluster version that this node knows, and the versions that it supports.
pub struct ClusterVersionState {
    /// Those that it supports.
    ours: VersionRange,
    /// The cluster's; 0 before it is known.
    known: AtomicU8,
    /// Whether it asks for the next one by itself.
    is_automatic: bool,
}

impl ClusterVersionState {
    /// As configured.
    pub fn new(config: &Config) -> Self {
        Self {
            ours: config.supported_versions(),
            known: AtomicU8::new(0),
            is_automatic: config.auto_upgrade,
        }
    }

    /// The cluster versions that this node supports.
    pub fn ours(&self) -> VersionRange {
        self.ours
    }

    /// Whether it proposes the next version by itself.
    pub fn is_automatic(&self) -> bool {
        self.is_automatic
    }

    /// The cluster's; the first while it is not known.
    pub fn current(&self) -> ClusterVersion {
        ClusterVersion::new(self.known.load(Ordering::Acquire)).unwrap_or_default()
    }

    /// Whether a feature may be used in the cluster: all nodes can read what comes of it.
    pub fn allows(&self, feature: Feature) -> bool {
        self.current().allows(feature)
    }
}

/// The longest command, where all nodes can or cannot send it in pieces.
pub(super) fn longest_command(in_pieces: bool) -> usize {
    if in_pieces { COMMAND_BYTES_MAX } else { SINGLE_FRAME_COMMAND_BYTES_MAX }
}

/// Control reports the cluster's new version.
pub(super) fn follow(
    runtime: &NodeRuntime,
    version: ClusterVersion,
    before: Option<ClusterVersion>,
) {
    runtime.version.known.store(version.number(), Ordering::Release);
    // What a start finds, or a founder begins with, is no news.
    if let Some(before) = before.filter(|_| runtime.lifecycle.is_ready()) {
        tracing::warn!(
            "the cluster version is {version} from now on, and was {before}. Nodes that do \
             not support {version} are refused; the cluster version never falls"
        );
    }
    runtime.submit_to_all(|| Input::ClusterVersion { version });
    if let Some(peers) = &runtime.peers {
        peers.cluster.set_cluster_version(version);
    }
}

/// A cluster that this node has just founded begins at the highest version that it supports.
pub(super) fn found(runtime: &NodeRuntime) {
    let mut version = ClusterVersion::FIRST;
    while let Some(to) = version.next().filter(|to| runtime.version.ours.supports(*to)) {
        requests::change_catalogue(runtime, &CatalogueOp::RaiseVersion { to }, None);
        version = to;
    }
}

/// All members and this node, and the versions that they support, as control wants to know it.
pub fn member_versions(runtime: &NodeRuntime) -> Vec<MemberVersions> {
    let (members, own) = (runtime.members(), runtime.identity.node);
    let others = members.iter().filter(|member| member.node != own);
    let mut all: Vec<MemberVersions> = others
        .map(|member| MemberVersions {
            node: member.node,
            name: name_of(member.node, &members),
            supported: member.supported,
            is_up: member.is_up(),
            has_left: member.state == MemberState::Left,
        })
        .collect();
    all.push(MemberVersions {
        node: own,
        name: name_of(own, &members),
        supported: runtime.version.ours,
        is_up: true,
        has_left: false,
    });
    all
}

/// All nodes whose consent is needed before the version rises, by their ids.
pub fn required_nodes(runtime: &NodeRuntime, survey: &Survey) -> Vec<RequiredNode> {
    let holders = survey.holdings_by_node().into_keys();
    version::required_nodes(holders, &member_versions(runtime), &runtime.admin_states.all())
}

/// Why the version cannot rise to this one now: nothing if it can.
pub fn objections(runtime: &NodeRuntime, to: ClusterVersion, survey: &Survey) -> Vec<String> {
    version::objections(&required_nodes(runtime, survey), to, survey.unknown_count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX};

    /// Beside a command its frame has the shard, session and header: far less than what is left.
    #[test]
    fn the_longest_command_fits_into_what_all_nodes_can_send() {
        assert!(longest_command(false) + (256 << 10) <= FRAME_BYTES_MAX);
        assert!(longest_command(true) + (256 << 10) <= MESSAGE_BYTES_MAX);
    }
}
