//! Gathers gossiped facts about nodes for control, which decides where replicas and leaders should
//! be ([`node::control`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use balancer::NodeReport;
use keyspace::NodeId;
use node::control::Gossip;

use super::NodeRuntime;
use super::clock::NodeClock;
use super::peers::Peers;
use super::survey::called;
use crate::cluster::MemberInfo;

/// How long a shard rests after a move that was for evenness only.
pub const COOL_DOWN: Duration = Duration::from_secs(30);
/// A node that has been up for less is not handed anything.
const SETTLED: Duration = Duration::from_secs(3);
/// How long control waits for gossip of all nodes before its first decision.
pub const GOSSIP_WAIT: Duration = Duration::from_secs(5);

/// The gossiped facts about nodes, now.
pub(super) fn gossip(runtime: &NodeRuntime, peers: &Peers) -> Box<Gossip> {
    let NodeRuntime { clock, identity, .. } = runtime;
    let own = identity.node;
    let members = peers.cluster.members();
    let mut cannot_lead: BTreeSet<NodeId> = runtime.disk_pace.slow_nodes(own, &members);
    cannot_lead.extend(clock.nodes_far_off(peers));
    let clock_is_far = clock.is_far_off();
    let reports = members.iter().map(|member| {
        let is_here = member.node == own;
        NodeReport {
            id: member.node,
            domain: member.domain.as_str().into(),
            is_up: is_here || member.is_up(),
            since: member.since.elapsed(),
            is_suspected: member.suspected,
            is_slow: cannot_lead.contains(&member.node) || is_here && clock_is_far,
            replicas: member.load.shards,
            leaders: member.load.leaders,
            bytes: member.load.data_bytes,
            requests: member.load.requests.unwrap_or(0),
        }
    });
    let reports: Vec<NodeReport> = reports.collect();
    let of = |is: &dyn Fn(NodeId) -> bool| {
        members.iter().map(|member| member.node).filter(|node| is(*node)).collect()
    };
    Box::new(Gossip {
        linked: of(&|node| peers.cluster.is_connected(node)),
        settled: of(&|node| is_settled(&members, node)),
        names: BTreeMap::new(),
        // A node that was forgotten has been down for long; or this node has not been told yet.
        is_complete: clock.elapsed() >= peers.dead_after,
        reports,
        cannot_lead,
        clock_is_far,
    })
}

/// The same with nodes' names, for decisions that are shown to people.
pub(super) fn gossip_with_names(runtime: &NodeRuntime, peers: &Peers) -> Box<Gossip> {
    let mut gossip = gossip(runtime, peers);
    let members = peers.cluster.members();
    gossip.names = members.iter().map(|m| (m.node, called(m.node, &members))).collect();
    gossip
}

/// Whether gossip has had time to spread facts about all nodes.
pub(super) fn may_place(clock: &NodeClock) -> bool {
    clock.elapsed() >= GOSSIP_WAIT
}

/// Whether a node has been up for a while.
fn is_settled(members: &[MemberInfo], node: NodeId) -> bool {
    let member = members.iter().find(|member| member.node == node);
    member.is_some_and(|m| m.is_up() && m.since.elapsed() >= SETTLED)
}
