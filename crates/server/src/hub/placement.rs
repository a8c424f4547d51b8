//! What gossip tells of the nodes, as control wants to know it when it decides where replicas and
//! leaders should be ([`node::control`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::Duration;

use balancer::Told;
use keyspace::NodeId;
use node::control::decisions::Decided;
use node::control::{Gossip, Reply, Request, Would};

use super::Hub;
use super::overview::called;
use super::peers::Peers;

/// How long a shard rests after a move that was for evenness only.
pub const COOL_DOWN: Duration = Duration::from_secs(30);
/// How long gossip has to tell of all nodes before the first decision.
pub const UNTOLD: Duration = Duration::from_secs(5);

impl Hub {
    /// What gossip tells of the nodes now.
    pub(super) fn gossip(&self, peers: &Peers) -> Box<Gossip> {
        let members = peers.cluster.members();
        let mut unfit: BTreeSet<NodeId> = self.nodes_with_slow_disks(&members);
        unfit.extend(self.nodes_with_wrong_clocks());
        let clock_is_far = self.clocks.is_far();
        let told = members.iter().map(|member| {
            let is_here = member.node == self.node_id;
            Told {
                id: member.node,
                domain: member.domain.as_str().into(),
                is_up: is_here || member.is_up(),
                since: member.since.elapsed(),
                is_suspected: member.suspected,
                is_slow: unfit.contains(&member.node) || is_here && clock_is_far,
                replicas: member.load.shards,
                leaders: member.load.leaders,
                bytes: member.load.data_bytes,
                requests: member.load.requests.unwrap_or(0),
            }
        });
        let told: Vec<Told> = told.collect();
        let of = |is: &dyn Fn(NodeId) -> bool| {
            members.iter().map(|member| member.node).filter(|node| is(*node)).collect()
        };
        Box::new(Gossip {
            linked: of(&|node| peers.cluster.is_connected(node)),
            settled: of(&|node| self.is_settled(node)),
            names: BTreeMap::new(),
            // Whoever was forgotten has been down for long; or this node has not been told yet.
            has_told_all: self.started.elapsed() >= peers.dead_after,
            told,
            unfit,
            clock_is_far,
        })
    }

    /// The same, with what people call nodes: for decisions that they are told of.
    pub(super) fn gossip_with_names(&self, peers: &Peers) -> Box<Gossip> {
        let mut gossip = self.gossip(peers);
        let members = peers.cluster.members();
        gossip.names = members.iter().map(|m| (m.node, called(m.node, &members))).collect();
        gossip
    }

    /// Whether gossip has had time to tell of the nodes.
    pub(super) fn may_place(&self) -> bool {
        self.started.elapsed() >= UNTOLD
    }

    /// What would be decided now if `balance` were on, about each shard led here as if it alone
    /// were decided about.
    pub fn would_place(&self) -> Vec<Would> {
        let Some(peers) = &self.peers else { return Vec::new() };
        let (sender, receiver) = mpsc::channel();
        let callback = move |reply| {
            if let Reply::WouldPlace(all) = reply {
                // Who has asked may have given up waiting.
                let _is_heard = sender.send(all);
            }
        };
        let gossip = self.gossip_with_names(peers);
        self.request(Request::WouldPlace(gossip), Box::new(callback));
        let patience = Duration::from_nanos(self.patience_nanos);
        receiver.recv_timeout(patience).unwrap_or_default()
    }

    /// What this node has decided lately, the oldest first.
    pub fn decisions(&self) -> Vec<Decided> {
        self.events.lock().decisions()
    }

    /// Whether it moves replicas and leaders to be even.
    pub fn balances(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.balances)
    }
}
