//! A cluster of which only the places of replicas are real.
//!
//! In each round every shard's leader decides from the same picture of the nodes, which is some
//! rounds old; of those who want to move something at most `cap` do, drawn by lot, as rates and
//! pauses would have it. What a decision may never do is asserted where it is carried out.

use std::collections::{BTreeMap, VecDeque};

use balancer::{
    Decision, Node, Nodes, PlacementSettings, Shard, Unavailable, decide as decide_one,
    transfer_target as target_of,
};
use keyspace::random::{Random, mix};
use keyspace::{NodeId, ReplicaId, ShardId};

pub const MIB: u64 = 1 << 20;

/// One shard.
#[derive(Clone, Debug)]
pub struct Group {
    pub shard: ShardId,
    pub bytes: u64,
    pub wanted: usize,
    pub replicas: Vec<(ReplicaId, NodeId)>,
    pub leader: ReplicaId,
    pub requests: u32,
    next: u64,
}

impl Group {
    pub fn nodes(&self) -> Vec<NodeId> {
        self.replicas.iter().map(|(_, node)| *node).collect()
    }

    pub fn with<T>(&self, then: impl FnOnce(&Shard<'_>) -> T) -> T {
        let voters: Vec<ReplicaId> = self.replicas.iter().map(|(replica, _)| *replica).collect();
        then(&Shard {
            shard: self.shard,
            place: mix(self.shard.0 ^ 77),
            replicas: &self.replicas,
            voters: &voters,
            learners: &[],
            is_joint: false,
            is_settled: true,
            wanted: self.wanted,
            bytes: self.bytes,
            leader: self.leader,
            requests: self.requests,
        })
    }

    pub fn leader_node(&self) -> NodeId {
        self.replicas.iter().find(|(replica, _)| *replica == self.leader).expect("listed").1
    }

    /// Carries out a decision, and asserts what holds for every one.
    fn apply(&mut self, decision: &Decision, nodes: &Nodes) {
        for id in &decision.add {
            let node = nodes.get(*id).expect("a node that is known");
            assert!(node.takes && node.is_alive && node.unavailable.is_none(), "{node:?}");
            assert!(!self.nodes().contains(id), "two on node {id}: {self:?}");
            self.replicas.push((ReplicaId(self.next), *id));
            self.next += 1;
        }
        self.replicas.retain(|(replica, _)| !decision.remove.contains(replica));
        assert!(!self.replicas.len().is_multiple_of(2), "an even number: {self:?} {decision:?}");
        self.elect(|id| nodes.get(id).is_none_or(|node| node.is_alive));
    }

    fn elect(&mut self, may_lead: impl Fn(NodeId) -> bool) {
        let leads =
            self.replicas.iter().any(|(replica, id)| *replica == self.leader && may_lead(*id));
        if !leads {
            let mut fit = self.replicas.iter().filter(|(_, id)| may_lead(*id));
            self.leader = fit.next().expect("a majority").0;
        }
    }
}

/// A cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What is true of the nodes but their loads.
    pub nodes: BTreeMap<NodeId, Node>,
    pub groups: Vec<Group>,
    pub settings: PlacementSettings,
    /// How many replicas and how many leaders move in a round at most.
    pub cap: usize,
    /// How many rounds old all pictures are.
    pub age: usize,
    /// Moves of replicas so far.
    pub moves: usize,
    pictures: VecDeque<Nodes>,
    rounds: u64,
}

impl Cluster {
    /// `count` nodes, numbered from 1, each in a domain of its own.
    pub fn new(count: u64) -> Self {
        let mut cluster = Self {
            nodes: BTreeMap::new(),
            groups: Vec::new(),
            settings: PlacementSettings::default(),
            cap: usize::MAX,
            age: 0,
            moves: 0,
            pictures: VecDeque::new(),
            rounds: 0,
        };
        (1..=count).for_each(|id| cluster.join(id, ""));
        cluster
    }

    pub fn join(&mut self, id: u64, domain: &str) {
        let (id, domain) = (NodeId(id), domain.into());
        let node = Node { id, domain, takes: true, is_alive: true, ..Node::default() };
        self.nodes.insert(id, node);
    }

    /// A shard with replicas on these nodes, of which the first leads.
    pub fn add_shard(&mut self, nodes: &[u64], wanted: usize, bytes: u64) {
        let shard = ShardId(self.groups.len() as u64 + 1);
        let replicas: Vec<_> =
            (1..).zip(nodes).map(|(replica, node)| (ReplicaId(replica), NodeId(*node))).collect();
        let (leader, next) = (ReplicaId(1), replicas.len() as u64 + 1);
        let requests = 0;
        self.groups.push(Group { shard, bytes, wanted, replicas, leader, requests, next });
    }

    /// So many shards on nodes drawn from the first `of`.
    pub fn add_shards(&mut self, count: usize, of: u64, bytes: impl Fn(&mut Random) -> u64) {
        let mut random = Random::new(mix(count as u64 ^ of));
        for _ in 0..count {
            let mut nodes = Vec::new();
            while nodes.len() < 3.min(of as usize) {
                let node = 1 + random.below(of);
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
            let bytes = bytes(&mut random);
            self.add_shard(&nodes, 3, bytes);
        }
    }

    pub fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.get_mut(&NodeId(id)).expect("a node that joined")
    }

    /// The node stops, and all have known it for a while.
    pub fn kill(&mut self, id: u64) {
        let node = self.node(id);
        (node.takes, node.is_alive, node.unavailable) = (false, false, Some(Unavailable::Dead));
        for group in &mut self.groups {
            group.elect(|id| self.nodes[&id].is_alive);
        }
    }

    pub fn drain(&mut self, id: u64) {
        let node = self.node(id);
        (node.takes, node.unavailable) = (false, Some(Unavailable::Draining));
    }

    /// The nodes as they are now.
    pub fn picture(&self) -> Nodes {
        let mut nodes = self.nodes.clone();
        for group in &self.groups {
            for id in group.nodes() {
                let node = nodes.get_mut(&id).expect("replicas are on nodes");
                node.replicas += 1;
                node.bytes += group.bytes;
                let leads = u32::from(group.leader_node() == id);
                (node.leaders, node.requests) =
                    (node.leaders + leads, node.requests + leads * group.requests);
            }
        }
        Nodes::new(nodes.into_values().collect())
    }

    /// One round; how many wanted to move a replica or a leader.
    pub fn round(&mut self) -> usize {
        self.pictures.push_back(self.picture());
        while self.pictures.len() > self.age + 1 {
            self.pictures.pop_front();
        }
        let nodes = self.pictures.front().expect("one was just made").clone();
        self.rounds += 1;
        let settings = PlacementSettings { salt: self.rounds, ..self.settings };

        let lot = |index: &usize| mix(*index as u64 ^ mix(settings.salt));
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by_key(lot);
        let (mut moves, mut targets) = (0, 0);
        for index in order {
            let group = &mut self.groups[index];
            if let Some(decision) = group.with(|shard| decide_one(&nodes, shard, &settings)) {
                if moves < self.cap {
                    group.apply(&decision, &nodes);
                    self.moves += decision.add.len().max(decision.remove.len());
                }
                moves += 1;
            } else if let Some(target) = transfer_target(group, &nodes, &settings) {
                if targets < self.cap {
                    group.leader = target;
                }
                targets += 1;
            }
        }
        moves + targets
    }

    /// What would be better even so, chance aside: how many replicas and leaders would move.
    pub fn wishes(&self) -> usize {
        let (nodes, settings) =
            (self.picture(), PlacementSettings { damps_moves: false, ..self.settings });
        let wishes = |group: &&Group| {
            group.with(|shard| decide_one(&nodes, shard, &settings)).is_some()
                || transfer_target(group, &nodes, &settings).is_some()
        };
        self.groups.iter().filter(wishes).count()
    }

    /// Runs until nobody would move anything, whatever chance says; or nobody has for so long that
    /// what is left is the affair of a single shard or two, whose chance may come in minutes.
    ///
    /// # Panics
    /// If that takes more rounds.
    pub fn settle(&mut self, rounds_max: usize) -> usize {
        let mut still = 0;
        for round in 0..rounds_max {
            still = if self.round() == 0 { still + 1 } else { 0 };
            // Now no picture is older than the rest.
            if still <= self.age {
                continue;
            }
            let wishes = self.wishes();
            if wishes == 0 {
                let places = self.places();
                assert!((0..10).all(|_| self.round() == 0) && places == self.places());
                return round + 1;
            }
            if still > 50 && wishes <= 2 {
                return round + 1;
            }
        }
        panic!("{} wish still: {}", self.wishes(), self.summary());
    }

    pub fn places(&self) -> Vec<(Vec<NodeId>, ReplicaId)> {
        self.groups.iter().map(|group| (group.nodes(), group.leader)).collect()
    }

    /// What the nodes that take replicas carry of something.
    pub fn loads(&self, of: impl Fn(&Node) -> u64) -> Vec<u64> {
        let nodes = self.picture();
        let takers = self.nodes.values().filter(|node| node.takes);
        takers.map(|node| of(nodes.get(node.id).expect("known"))).collect()
    }

    pub fn summary(&self) -> String {
        let replicas = self.loads(|node| node.replicas.into());
        let mib = self.loads(|node| node.bytes / MIB);
        format!("{replicas:?} {mib:?} {:?}", self.loads(|node| node.leaders.into()))
    }

    /// Every shard has what it wants, on nodes that are there.
    pub fn assert_full_strength(&self) {
        for group in &self.groups {
            assert_eq!(group.replicas.len(), group.wanted, "{group:?}");
            assert!(
                group.nodes().iter().all(|id| self.nodes[id].unavailable.is_none()),
                "{group:?}"
            );
        }
    }

    /// Bytes are even: their standard deviation is at most a tenth of the mean.
    pub fn assert_bytes_even(&self) {
        let bytes = self.loads(|node| node.bytes);
        assert!(relative_deviation(&bytes) <= 0.1, "{}", self.summary());
    }

    /// Replicas differ from the mean by a tenth or by one at most.
    pub fn assert_replicas_even(&self) {
        let replicas = self.loads(|node| node.replicas.into());
        let mean = replicas.iter().sum::<u64>() as f64 / replicas.len() as f64;
        let off = |count: &u64| (*count as f64 - mean).abs();
        let worst = replicas.iter().map(off).fold(0.0, f64::max);
        assert!(worst <= (mean / 10.0).max(1.0), "{}", self.summary());
    }
}

pub fn transfer_target(
    group: &Group,
    nodes: &Nodes,
    settings: &PlacementSettings,
) -> Option<ReplicaId> {
    group.with(|shard| target_of(nodes, shard, &group.replicas, settings)).map(|(target, _)| target)
}

pub fn relative_deviation(loads: &[u64]) -> f64 {
    let mean = loads.iter().sum::<u64>() as f64 / loads.len() as f64;
    let square = |load: &u64| (*load as f64 - mean).powi(2);
    (loads.iter().map(square).sum::<f64>() / loads.len() as f64).sqrt() / mean
}
