//! Builds the topology that clients see, from what this node knows of its cluster.
//!
//! Nothing here waits: the list of members is replaced at once, and each shard's state has a hint
//! that names its leader.

use std::time::Instant;

use keyspace::{NodeId, Placement, Slot};

use crate::cluster::{MemberInfo, MemberState, MembershipDriver};
use crate::config::Config;
use crate::runtime::{NodeRuntime, View};
use gateway::resp::{Health, Mode, Node, Shard, Topology};

/// The cluster as it is known now. A node without a peer listener is alone in it.
///
/// A client by TLS is told the ports for TLS.
pub(super) fn gather(
    runtime: &NodeRuntime,
    config: &Config,
    keyspace: &str,
    is_tls: bool,
) -> Topology {
    let mut nodes: Vec<(NodeId, Node)> = match &runtime.peers {
        Some(peers) => members(runtime, &peers.cluster, is_tls),
        None => vec![(runtime.identity.node, alone(runtime, config, is_tls))],
    };
    let mut shards = Vec::new();
    let mut epoch = 0;
    if let Some(route) = runtime.routing.routes().get(keyspace) {
        // Other keyspaces have no slots: all of them are said to be the first shard's, and who
        // leads that sends everything on.
        let is_hashed = route.keyspace.options.placement == Placement::Hashed;
        let told = if is_hashed { route.views.len() } else { 1 };
        for (place, view) in route.views.iter().enumerate().take(told) {
            let (first, end) = route.slots(place);
            let slots = (first, last_before(end));
            shards.push(shard(runtime, slots, view, &mut nodes, &mut epoch));
        }
    }
    let me = nodes.iter().position(|(node, _)| *node == runtime.identity.node);
    let nodes = nodes.into_iter().map(|(_, node)| node).collect();
    let mut topology = Topology { nodes, me: me.unwrap_or(0), shards, epoch, is_tls };
    // Listeners for replicas speak no TLS.
    if config.resp_mode == Mode::Cluster && !is_tls {
        topology.add_listeners(&listener_ports(runtime, config, &topology));
    }
    topology
}

/// The port of each node's listener for clients that ask for replicas.
fn listener_ports(runtime: &NodeRuntime, config: &Config, topology: &Topology) -> Vec<Option<u16>> {
    let own = config.resp_replica_port_advertised();
    let members = runtime.peers.as_ref().map(|peers| peers.cluster.members());
    let port = |(at, node): (usize, &Node)| match &members {
        _ if at == topology.me => own,
        Some(members) => {
            members.iter().find(|member| member.node.0 == node.id && node.port != 0)?.resp_replica
        }
        None => None,
    };
    topology.nodes.iter().enumerate().map(port).collect()
}

fn last_before(end: Slot) -> Slot {
    end.checked_sub(1).unwrap_or(keyspace::SLOTS - 1)
}

fn members(runtime: &NodeRuntime, cluster: &MembershipDriver, is_tls: bool) -> Vec<(NodeId, Node)> {
    let (now, now_millis) = (Instant::now(), runtime.clock.millis());
    let members = cluster.members();
    let present = members.iter().filter(|member| member.state != MemberState::Left);
    let node = |member: &MemberInfo| {
        let is_me = member.node == runtime.identity.node;
        let since = now.saturating_duration_since(member.since).as_millis() as u64;
        let peer_port = member.peer.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let health = match (member.is_up(), member.suspected) {
            _ if is_me => Health::Online,
            (false, _) => Health::Failed,
            (true, true) => Health::Suspected,
            (true, false) => Health::Online,
        };
        let node = Node {
            id: member.node.0,
            listener: None,
            host: member.host.clone(),
            port: if is_tls { member.resp_tls } else { member.resp }.unwrap_or(0),
            peer_port: peer_port.unwrap_or(0),
            health,
            is_linked: is_me || cluster.is_connected(member.node),
            unsent_bytes: if is_me { 0 } else { cluster.unsent_bytes(member.node) as u64 },
            since_millis: now_millis.saturating_sub(since),
        };
        (member.node, node)
    };
    present.map(node).collect()
}

fn alone(runtime: &NodeRuntime, config: &Config, is_tls: bool) -> Node {
    let resp = if is_tls { config.resp_tls } else { config.resp }.address();
    let port = match is_tls {
        true => resp.map(|address| address.port()),
        false => config.resp_port_advertised(),
    };
    let bound = resp.map(|address| address.ip()).filter(|ip| !ip.is_unspecified());
    let said = config.advertise.as_ref().map(|said| said.host.clone());
    Node {
        id: runtime.identity.node.0,
        host: said.or(bound.map(|ip| ip.to_string())).unwrap_or_default(),
        port: port.unwrap_or(0),
        is_linked: true,
        since_millis: runtime.clock.started_millis(),
        ..Node::default()
    }
}

fn shard(
    runtime: &NodeRuntime,
    slots: (Slot, Slot),
    view: &View,
    nodes: &mut Vec<(NodeId, Node)>,
    epoch: &mut u64,
) -> Shard {
    let state = view.read();
    let is_here = state.descriptor.replica_on(runtime.identity.node).is_some();
    let peers = runtime.peers.as_ref().filter(|_| !is_here);
    // Elsewhere it may be otherwise than it began.
    let known = peers.and_then(|peers| peers.lookup.shard(state.descriptor.shard));
    let descriptor = known.as_ref().map_or(&state.descriptor, |known| known.descriptor());
    let term = known.as_ref().map_or(state.applied_term, |known| known.term());
    *epoch = (*epoch).max(term);
    let mut index_of = |node: NodeId| {
        let known = nodes.iter().position(|(id, _)| *id == node);
        known.unwrap_or_else(|| {
            // It holds something, and nobody has told of it (yet), or it has left.
            let failed = Node { id: node.0, health: Health::Failed, ..Node::default() };
            nodes.push((node, failed));
            nodes.len() - 1
        })
    };
    let replicas = descriptor.replicas.iter().map(|(_, node)| *node);
    let (leader, is_led) = match &known {
        Some(known) => (known.leader(), known.leader().is_some()),
        None => (state.serving.last_leader(), state.serving.leader().is_some()),
    };
    let others = replicas.filter(|node| Some(*node) != leader).map(&mut index_of).collect();
    Shard {
        slots,
        leader: leader.map(index_of),
        is_led,
        replicas: others,
        index: state.applied_index,
    }
}
