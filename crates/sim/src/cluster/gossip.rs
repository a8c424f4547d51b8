//! How nodes learn of each other: a simple model of the gossip that `membership` runs.
//!
//! Once in [`GOSSIP_MS`] nodes exchange their loads. A running node learns about half of the
//! others, as they were a round ago. So all knowledge is old, and not equally old everywhere. News
//! also travel over third nodes: only a node without any path to and from another one learns
//! nothing of it, and takes it for down after a while. A new process knows nothing.

use std::time::Duration;

use balancer::NodeReport;
use keyspace::NodeId;

use super::World;

/// Nodes report their load once in so many milliseconds.
pub(super) const GOSSIP_MS: u64 = 500;
/// A node that was not heard of for this time is suspected.
const SUSPECTED_MS: u64 = 1_200;
/// A node that was not heard of for this time is taken for down.
const DOWN_MS: u64 = 2_000;

/// The load of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    replicas: u32,
    leaders: u32,
    bytes: u64,
}

/// The status of a node as another one knows it.
#[derive(Clone, Copy, Debug)]
struct PeerStatus {
    /// When the last message of it arrived.
    last_ms: u64,
    is_up: bool,
    since_ms: u64,
    load: Load,
}

/// What each node knows of each other one, by their places.
#[derive(Debug, Default)]
pub(super) struct Gossip {
    status: Vec<Vec<Option<PeerStatus>>>,
    /// The load of each node a round ago.
    loads: Vec<Load>,
    /// Nodes with equal numbers hear of each other; `None`: asleep or down.
    parts: Vec<Option<usize>>,
}

impl Gossip {
    /// The process at a place begins.
    pub fn forget(&mut self, at: usize) {
        if let Some(row) = self.status.get_mut(at) {
            row.fill(None);
        }
    }

    /// Whether a node has been there for so long, as another knows.
    pub fn is_up_for(&self, at: usize, other: usize, millis: u64, now_ms: u64) -> bool {
        let status = self.status.get(at).and_then(|row| row.get(other).copied().flatten());
        status.is_some_and(|status| status.is_up && now_ms - status.since_ms >= millis)
    }

    /// Whether two nodes hear of each other.
    pub fn are_together(&self, at: usize, other: usize) -> bool {
        self.parts.get(at).is_some_and(|part| part.is_some() && self.parts.get(other) == Some(part))
    }

    /// The reports that the node at a place has of all others.
    pub fn reports_at(
        &self,
        at: usize,
        nodes: &[NodeId],
        domains: &[Box<str>],
        now_ms: u64,
    ) -> Vec<NodeReport> {
        let row = self.status.get(at).map(Vec::as_slice).unwrap_or_default();
        let report = |(place, status): (usize, &Option<PeerStatus>)| {
            let PeerStatus { last_ms, is_up, since_ms, load } = (*status)?;
            Some(NodeReport {
                id: nodes[place],
                domain: domains.get(place).cloned().unwrap_or_default(),
                is_up,
                since: Duration::from_millis(now_ms - since_ms),
                is_suspected: now_ms - last_ms >= SUSPECTED_MS,
                is_slow: false,
                replicas: load.replicas,
                leaders: load.leaders,
                bytes: load.bytes,
                requests: 0,
            })
        };
        row.iter().enumerate().filter_map(report).collect()
    }
}

impl World {
    /// One round.
    pub(super) fn gossip(&mut self) {
        let count = self.node_slots.len();
        let parts = self.parts();
        let current_loads = (0..count).map(|at| self.load_of(at)).collect::<Vec<_>>();
        let now_ms = self.now_ms;
        let Some(placement_state) = &mut self.placement_state else { return };
        let gossip = &mut placement_state.gossip;
        gossip.parts = parts;
        gossip.loads.resize(count, Load::default());
        gossip.status.resize(count, Vec::new());
        for (at, row) in gossip.status.iter_mut().enumerate() {
            row.resize(count, None);
            if gossip.parts[at].is_none() {
                continue;
            }
            for (other, status) in row.iter_mut().enumerate() {
                let is_here = other == at;
                if gossip.parts[other] != gossip.parts[at] {
                    if let Some(status) = status
                        && status.is_up
                        && now_ms - status.last_ms >= DOWN_MS
                    {
                        (status.is_up, status.since_ms) = (false, now_ms);
                    }
                    continue;
                }
                let load = if is_here { current_loads[other] } else { gossip.loads[other] };
                let is_heard = is_here || status.is_none() || self.rng.one_in(2);
                let since_ms = status.filter(|status| status.is_up).map_or(now_ms, |h| h.since_ms);
                let known = status.map_or(load, |status| status.load);
                let load = if is_heard { load } else { known };
                *status = Some(PeerStatus { last_ms: now_ms, is_up: true, since_ms, load });
            }
        }
        gossip.loads = current_loads;
    }

    fn load_of(&self, at: usize) -> Load {
        let mut load = Load::default();
        let Some(machine) = &self.node_slots[at].machine else { return load };
        for id in machine.shard_ids() {
            let shard = machine.shard(id).expect("the shard is on this node");
            let usage = shard.view().read().engine().map(|engine| engine.usage());
            load.replicas += 1;
            load.leaders += u32::from(shard.is_leader());
            load.bytes += usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes);
        }
        load
    }

    /// Which nodes hear of each other, over any others.
    fn parts(&self) -> Vec<Option<usize>> {
        let count = self.node_slots.len();
        let mut parts: Vec<Option<usize>> = vec![None; count];
        for first in 0..count {
            if parts[first].is_some() || !self.is_awake(first) {
                continue;
            }
            parts[first] = Some(first);
            let mut left = vec![first];
            while let Some(at) = left.pop() {
                for (other, part) in parts.iter_mut().enumerate() {
                    if part.is_none() && self.is_awake(other) && self.hear(at, other) {
                        *part = Some(first);
                        left.push(other);
                    }
                }
            }
        }
        parts
    }

    /// Whether two nodes hear each other.
    fn hear(&self, at: usize, other: usize) -> bool {
        let (one, other) = (self.node_slots[at].node, self.node_slots[other].node);
        self.network.is_open(one, other) && self.network.is_open(other, one)
    }
}
