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
//! A node may also listen for clients that ask for replicas. Then that listener is shown as a node
//! of its own, and stands among the replicas in the place of the node, which is shown as a master.
//!
//! ```text
//!   with such listeners A', B', C':   B is the master of 4096–6143, A' and C' are its replicas
//! ```
//!
//! In the description of nodes each has one master. The listeners are spread over the masters, so
//! that each has one if it can.
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
    /// The nodes in the order of joining, and their listeners for replicas behind them.
    pub nodes: Vec<Node>,
    /// Which of them this one is.
    pub me: usize,
    /// The shards.
    pub shards: Vec<Shard>,
    /// The newest term of any shard, as far as it is known here.
    pub epoch: u64,
    /// Whether its ports are those for TLS.
    pub is_tls: bool,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: u64,
    /// Whether it is the listener for replicas of the node with this id, and whose replica it is
    /// shown as.
    pub listener: Option<ReplicaListener>,
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

/// A listener for clients that ask for replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaListener {
    /// The node that it belongs to.
    pub of: usize,
    /// The node whose replica it is shown as.
    pub master: usize,
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

impl Node {
    /// Its id, as clients get it: that of a listener for replicas is the node's with a 1 before it.
    pub fn id_text(&self) -> String {
        id_text(self.id, self.listener.is_some())
    }
}

/// The id of a node as clients get it, or of its listener for replicas.
pub fn id_text(node: u64, is_listener: bool) -> String {
    format!("{:040x}", u128::from(is_listener) << 64 | u128::from(node))
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
        if let Some(listener) = self.nodes[node].listener {
            return Some(listener.master);
        }
        if self.led_by(node).next().is_some() {
            return None;
        }
        let leads = |leader: usize| {
            self.led_by(leader).filter(|shard| shard.replicas.contains(&node)).count()
        };
        let most = (0..self.nodes.len()).rev().max_by_key(|leader| leads(*leader))?;
        (leads(most) > 0).then_some(most)
    }

    /// Shows the listeners for replicas as nodes: `ports` has the port of each node's, by the
    /// node's place. They take the places of their nodes among the replicas.
    pub fn add_listeners(&mut self, ports: &[Option<u16>]) {
        let mut listeners: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut followers = vec![0_usize; self.nodes.len()];
        let known = self.nodes.len();
        for (of, port) in ports.iter().enumerate().take(known) {
            let Some(port) = *port else { continue };
            let master = self.master_for(of, known, &followers);
            followers[master] += 1;
            listeners[of] = Some(self.nodes.len());
            let listener = Some(ReplicaListener { of, master });
            let node = Node { port, listener, ..self.nodes[of].clone() };
            self.nodes.push(node);
        }
        for shard in &mut self.shards {
            for replica in &mut shard.replicas {
                *replica = listeners[*replica].unwrap_or(*replica);
            }
            // Who has no other replica, or none with a listener, still has a node that answers.
            let has_any = shard.replicas.iter().any(|replica| *replica >= known);
            if let (Some(leader), false) = (shard.leader, has_any) {
                let follows = |at: &usize| {
                    self.nodes[*at].listener.is_some_and(|listener| listener.master == leader)
                };
                shard.replicas.extend((known..self.nodes.len()).filter(follows));
            }
        }
    }

    /// The master of a node's listener: another node that leads shards of which it has replicas,
    /// with fewest listeners, if there is one; of these one whose shards it has replicas of; of
    /// these the next behind it.
    fn master_for(&self, of: usize, known: usize, followers: &[usize]) -> usize {
        let others = (1..known).map(|step| (of + step) % known);
        let leads: Vec<usize> = others.filter(|node| self.led_by(*node).next().is_some()).collect();
        let holds_none =
            |node: &usize| !self.led_by(*node).any(|shard| shard.replicas.contains(&of));
        let best = leads.into_iter().min_by_key(|node| (followers[*node], holds_none(node)));
        best.unwrap_or(of)
    }

    /// The listener for replicas of a node.
    pub fn listener_of(&self, node: usize) -> Option<usize> {
        let is_its = |at: &Node| at.listener.is_some_and(|listener| listener.of == node);
        self.nodes.iter().position(is_its)
    }

    /// How many nodes lead something.
    pub fn leaders_count(&self) -> usize {
        (0..self.nodes.len()).filter(|node| self.led_by(*node).next().is_some()).count()
    }

    /// The node of this id, as clients write it.
    pub fn by_id(&self, text: &[u8]) -> Option<usize> {
        self.nodes.iter().position(|node| node.id_text().as_bytes().eq_ignore_ascii_case(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(slots: (u16, u16), leader: Option<usize>, replicas: &[usize]) -> Shard {
        Shard { slots, leader, is_led: true, replicas: replicas.to_vec(), index: 1 }
    }

    fn three_leaders(replicas: bool) -> Topology {
        let all = |leader: usize| -> Vec<usize> {
            (0..3).filter(|node| replicas && *node != leader).collect()
        };
        let slots = [(0, 99), (100, 199), (200, 16_383)];
        let shards = slots.iter().enumerate().map(|(at, slots)| shard(*slots, Some(at), &all(at)));
        Topology {
            nodes: (0..3).map(|id| Node { id, port: 1, ..Node::default() }).collect(),
            shards: shards.collect(),
            ..Topology::default()
        }
    }

    #[test]
    fn listeners_stand_among_the_replicas_and_each_master_has_one() {
        for has_replicas in [true, false] {
            let mut topology = three_leaders(has_replicas);
            topology.add_listeners(&[Some(7), Some(8), Some(9)]);
            let masters: Vec<_> = (0..6).map(|node| topology.master_of(node)).collect();
            assert_eq!(masters, [None, None, None, Some(1), Some(2), Some(0)]);
            let replicas: Vec<_> = topology.shards.iter().map(|s| s.replicas.clone()).collect();
            match has_replicas {
                true => assert_eq!(replicas, [[4, 5], [3, 5], [3, 4]]),
                false => assert_eq!(replicas, [[5], [3], [4]]),
            }
            assert_eq!(topology.listener_of(2), Some(5));
            assert_eq!((topology.nodes[5].port, topology.nodes[5].id), (9, 2));
            let ids: Vec<_> = topology.nodes.iter().map(Node::id_text).collect();
            assert_eq!(ids[5], "0000000000000000000000010000000000000002");
            let found: Vec<_> = ids.iter().map(|id| topology.by_id(id.as_bytes())).collect();
            assert_eq!(found, (0..6).map(Some).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_node_without_the_listener_stays_a_replica_and_a_lone_one_is_its_own_master() {
        let mut topology = three_leaders(true);
        topology.add_listeners(&[Some(7), None, None]);
        let replicas: Vec<_> = topology.shards.iter().map(|s| s.replicas.clone()).collect();
        assert_eq!(replicas, [vec![1, 2], vec![3, 2], vec![3, 1]]);
        assert_eq!((topology.master_of(3), topology.listener_of(1)), (Some(1), None));
        let mut lone = Topology {
            nodes: vec![Node::default()],
            shards: vec![shard((0, 16_383), Some(0), &[])],
            ..Topology::default()
        };
        lone.add_listeners(&[Some(7)]);
        assert_eq!((lone.master_of(1), &lone.shards[0].replicas[..]), (Some(0), &[1][..]));
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
