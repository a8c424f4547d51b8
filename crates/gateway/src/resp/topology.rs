//! The cluster in the terms of Redis Cluster, as far as this node knows it.
//!
//! ```text
//!   shard 3: slots 4096–6143, led by node B, replicas on A and C      (Carillon)
//!   ──►  B is the master of 4096–6143, A and C are its replicas       (what clients are told)
//! ```
//!
//! Redis Cluster knows masters and replicas of masters; here a node leads some shards and follows
//! in others. In the description of a shard, each node has its role in *that* shard. In the
//! description of a node, it is a master if it leads any shard, else a replica of the node that
//! leads most of its shards.
//!
//! Invariants: shards tile the slots, in rising order; indexes point into [`Topology::nodes`].

/// Which kind of Redis a node is towards its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A lone server: every node answers for every key.
    #[default]
    Any,
    /// A node of a Redis Cluster: a node answers for the keys of shards that it leads, and
    /// redirects clients with other keys.
    Cluster,
}

/// All nodes, and the slots of one keyspace with their replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The nodes in the order of joining.
    pub nodes: Vec<Node>,
    /// Which of them this one is.
    pub me: usize,
    /// The shards.
    pub shards: Vec<Shard>,
    /// The newest term of any shard, as far as it is known here.
    pub epoch: u64,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: u64,
    /// The host that clients get; empty: the one that they have connected to.
    pub host: String,
    /// Its port of this protocol; 0 if it does not listen.
    pub port: u16,
    /// Its port for other nodes; 0 if it does not listen.
    pub peer_port: u16,
    /// How it is.
    pub health: Health,
    /// Whether there is a link to it. This node is linked with itself.
    pub is_linked: bool,
    /// Bytes that wait on the link to be sent.
    pub unsent_bytes: u64,
    /// Since when it is in this state as seen from here, milliseconds since 1970.
    pub since_millis: u64,
}

/// How a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    #[default]
    Online,
    /// It did not answer lately.
    Suspected,
    /// It is dead, paused or cut off.
    Failed,
}

/// A shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard {
    /// Its first and its last slot.
    pub slots: (u16, u16),
    /// Its leader or, if none is known, the last known one.
    pub leader: Option<usize>,
    /// Whether its leader is known now.
    pub is_led: bool,
    /// The other nodes with a replica.
    pub replicas: Vec<usize>,
    /// The index of its log up to where this node holds it; 0: not (yet) here.
    pub index: u64,
}

impl Shard {
    /// How many slots it has.
    pub fn slots_count(&self) -> u64 {
        u64::from(self.slots.1 - self.slots.0) + 1
    }

    /// All nodes with a replica, the leader first.
    pub fn holders(&self) -> impl Iterator<Item = usize> + '_ {
        self.leader.into_iter().chain(self.replicas.iter().copied())
    }
}

impl Topology {
    /// The shards that a node leads.
    pub fn led_by(&self, node: usize) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter(move |shard| shard.leader == Some(node))
    }

    /// The slots of the shards that a node leads, neighbours together.
    pub fn slots_of(&self, node: usize) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for shard in self.led_by(node) {
            match ranges.last_mut() {
                Some((_, end)) if *end + 1 == shard.slots.0 => *end = shard.slots.1,
                _ => ranges.push(shard.slots),
            }
        }
        ranges
    }

    /// The master whose replica a node is shown as: none if it leads any shard, or holds none.
    pub fn master_of(&self, node: usize) -> Option<usize> {
        if self.led_by(node).next().is_some() {
            return None;
        }
        let leads = |leader: usize| {
            self.led_by(leader).filter(|shard| shard.replicas.contains(&node)).count()
        };
        let most = (0..self.nodes.len()).rev().max_by_key(|leader| leads(*leader))?;
        (leads(most) > 0).then_some(most)
    }

    /// How many nodes lead something.
    pub fn leaders_count(&self) -> usize {
        (0..self.nodes.len()).filter(|node| self.led_by(*node).next().is_some()).count()
    }

    /// The node of this id.
    pub fn by_id(&self, id: u64) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(slots: (u16, u16), leader: Option<usize>, replicas: &[usize]) -> Shard {
        Shard { slots, leader, is_led: true, replicas: replicas.to_vec(), index: 1 }
    }

    #[test]
    fn a_node_is_a_master_if_it_leads_anything() {
        let topology = Topology {
            nodes: vec![Node::default(); 4],
            shards: vec![
                shard((0, 99), Some(0), &[1, 2]),
                shard((100, 199), Some(0), &[1, 2]),
                shard((200, 299), Some(1), &[0, 2]),
                shard((300, 16_383), Some(0), &[1, 2]),
            ],
            ..Topology::default()
        };
        let masters: Vec<_> = (0..4).map(|node| topology.master_of(node)).collect();
        assert_eq!(masters, [None, None, Some(0), None], "and 3 holds nothing");
        assert_eq!(topology.slots_of(0), [(0, 199), (300, 16_383)]);
        assert_eq!(topology.leaders_count(), 2);
    }
}
