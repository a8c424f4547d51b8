//! Is the ring ideal when nothing has broken for a while?
//!
//! | asked | rule |
//! |---|---|
//! | do the arcs of all shards tile every keyspace, without a gap or an overlap? | R1 |
//! | are all tables of descriptors equal, and is every replica where they place it? | R2 |
//! | has each shard all its voters, in different failure domains, on nodes that keep replicas, and one leader? | R12 |
//! | is every change of members done, and every removed replica deleted? | R12 |
//! | does no node hold more than its share? | R12 |
//!
//! The checker gets a picture of plain values, so that tests can try each question on a ring with
//! just this fault. The driver asks within a bound after the last fault.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use keyspace::{Descriptor, KeyspaceId, NodeId, ReplicaId, ShardId};
use overlay::KnownShard;

use super::Violation;

/// How far above or below the mean a node may be, in parts of it, beside one replica: the band
/// within which the balancer moves nothing.
pub const BAND: f64 = 0.05;

/// All nodes and keyspaces at one moment.
#[derive(Clone, Debug)]
pub struct Ring {
    /// How many replicas each keyspace asks for; that of id 0 is of the system shard.
    pub keyspaces: BTreeMap<KeyspaceId, usize>,
    /// The nodes that are up.
    pub nodes: Vec<Node>,
}

/// A node that is up.
#[derive(Clone, Debug)]
pub struct Node {
    /// Which one.
    pub id: NodeId,
    /// Its failure domain.
    pub domain: Box<str>,
    /// Whether it may have replicas: it is neither draining nor removed.
    pub keeps: bool,
    /// Its table of descriptors.
    pub table: Vec<Arc<KnownShard>>,
    /// What it holds.
    pub replicas: Vec<Replica>,
}

/// A replica.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Of this shard.
    pub shard: ShardId,
    /// Which one.
    pub id: ReplicaId,
    /// Whether it leads.
    pub leads: bool,
    /// The members of its group, as it knows.
    pub voters: Vec<ReplicaId>,
    /// Those that do not vote yet.
    pub learners: Vec<ReplicaId>,
    /// Whether no change of members is under way.
    pub is_quiet: bool,
}

fn broken(rule: &'static str, text: String) -> Result<(), Violation> {
    Err(Violation::new(rule, text))
}

/// What tables must agree on: who leads is another's affair.
fn place(descriptor: &Descriptor) -> (u64, &keyspace::Arc, &[(ReplicaId, NodeId)]) {
    (descriptor.generation.0, &descriptor.arc, &descriptor.replicas)
}

impl Ring {
    /// Runs all checks.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), Violation> {
        self.tiles()?;
        self.agrees()?;
        self.is_whole()?;
        self.is_even()
    }

    /// The table of the first node; all say the same once [`Ring::agrees`].
    fn table(&self) -> &[Arc<KnownShard>] {
        self.nodes.first().map(|node| &*node.table).unwrap_or_default()
    }

    /// R1: in each table, the arcs of each keyspace tile its circle.
    ///
    /// # Errors
    /// A keyspace that is not tiled.
    pub fn tiles(&self) -> Result<(), Violation> {
        const RULE: &str = "R1 arcs tile the ring";
        for Node { id: node, table, .. } in &self.nodes {
            let mut arcs: BTreeMap<KeyspaceId, Vec<&KnownShard>> = BTreeMap::new();
            for known in table {
                arcs.entry(known.arc().keyspace()).or_default().push(known);
            }
            if let Some(id) = arcs.keys().find(|id| !self.keyspaces.contains_key(id)) {
                return broken(RULE, format!("node {node} knows shards of keyspace {id}, of none"));
            }
            for id in self.keyspaces.keys() {
                let of = arcs.entry(*id).or_default();
                of.sort_by(|one, other| one.arc().start().cmp(other.arc().start()));
                if of.first().is_none_or(|first| !first.arc().start().is_origin()) {
                    let text = format!("node {node}: no shard begins keyspace {id}");
                    return broken(RULE, text);
                }
                for (at, one) in of.iter().enumerate() {
                    let next = of[(at + 1) % of.len()];
                    let fits = match of.len() {
                        1 => one.arc().is_whole(),
                        _ => one.arc().end() == next.arc().start(),
                    };
                    if !fits {
                        let (one, next) = (one.shard(), next.shard());
                        let text =
                            format!("node {node}, keyspace {id}: {one} is not before {next}");
                        return broken(RULE, text);
                    }
                }
            }
        }
        Ok(())
    }

    /// R2: all tables say the same, and what they say of a node is so there.
    ///
    /// # Errors
    /// Two that do not agree.
    pub fn agrees(&self) -> Result<(), Violation> {
        const RULE: &str = "R2 tables agree";
        let first = self.table();
        for node in &self.nodes {
            let of =
                |table: &'_ [Arc<KnownShard>]| table.iter().map(|k| k.shard()).collect::<Vec<_>>();
            if node.table.len() != first.len() {
                let (one, other) = (of(&node.table), of(first));
                return broken(RULE, format!("node {}: {one:?}, another: {other:?}", node.id));
            }
            for (one, other) in node.table.iter().zip(first) {
                let (one, other) = (one.descriptor(), other.descriptor());
                if one.shard != other.shard || place(one) != place(other) {
                    let text = format!("node {}: {one:?}, another: {other:?}", node.id);
                    return broken(RULE, text);
                }
            }
        }
        let up: BTreeMap<NodeId, &Node> = self.nodes.iter().map(|node| (node.id, node)).collect();
        for known in first {
            for (replica, node) in &known.descriptor().replicas {
                let Some(at) = up.get(node) else { continue };
                let is_it = |held: &Replica| (held.shard, held.id) == (known.shard(), *replica);
                if !at.replicas.iter().any(is_it) {
                    let shard = known.shard();
                    let text = format!("shard {shard} has replica {replica} on node {node}: no");
                    return broken(RULE, text);
                }
            }
        }
        Ok(())
    }

    /// R12: every shard is fully replicated, and no removed replica is left.
    ///
    /// # Errors
    /// The first shard that is not.
    pub fn is_whole(&self) -> Result<(), Violation> {
        const RULE: &str = "R12 every shard is fully replicated";
        let keepers = || self.nodes.iter().filter(|node| node.keeps);
        let domain_of: BTreeMap<NodeId, &str> =
            keepers().map(|node| (node.id, &*node.domain)).collect();
        let domains: BTreeSet<&str> = domain_of.values().copied().collect();
        for known in self.table() {
            let (shard, descriptor) = (known.shard(), known.descriptor());
            let held = self.nodes.iter().flat_map(|node| &node.replicas);
            let held: Vec<&Replica> = held.filter(|replica| replica.shard == shard).collect();
            let leaders: Vec<&&Replica> = held.iter().filter(|replica| replica.leads).collect();
            let [leader] = leaders[..] else {
                return broken(RULE, format!("shard {shard} has {} leaders", leaders.len()));
            };
            if !leader.is_quiet || !leader.learners.is_empty() {
                return broken(RULE, format!("shard {shard} is changing: {leader:?}"));
            }
            // An odd number, and no more than there are nodes.
            let asked = self.keyspaces.get(&descriptor.keyspace()).copied().unwrap_or(1);
            let wanted = (asked.min(domain_of.len()).max(1) - 1) | 1;
            if leader.voters.len() != wanted || descriptor.replicas.len() != wanted {
                let text = format!("shard {shard} has {descriptor:?}, and {wanted} are wanted");
                return broken(RULE, text);
            }
            let nodes: BTreeSet<NodeId> = descriptor.replicas.iter().map(|(_, at)| *at).collect();
            let bad = nodes.iter().find(|node| !domain_of.contains_key(node));
            if let Some(node) = bad {
                return broken(RULE, format!("shard {shard} has a replica on node {node}"));
            }
            let apart: BTreeSet<&str> = nodes.iter().map(|node| domain_of[node]).collect();
            if nodes.len() < wanted || apart.len() < wanted.min(domains.len()) {
                return broken(RULE, format!("shard {shard} is not apart: {descriptor:?}"));
            }
        }
        self.has_no_orphan()
    }

    /// R12: no replica is there that its shard does not name.
    fn has_no_orphan(&self) -> Result<(), Violation> {
        let named: BTreeSet<(ShardId, ReplicaId, NodeId)> = self
            .table()
            .iter()
            .flat_map(|known| {
                let replicas = known.descriptor().replicas.iter();
                replicas.map(|(replica, node)| (known.shard(), *replica, *node))
            })
            .collect();
        for node in &self.nodes {
            let is_orphan = |held: &&Replica| !named.contains(&(held.shard, held.id, node.id));
            if let Some(held) = node.replicas.iter().find(is_orphan) {
                let text = format!("node {}: {held:?}", node.id);
                return broken("R12 no replica is forgotten", text);
            }
        }
        Ok(())
    }

    /// R12: no node holds more or fewer replicas than its part.
    ///
    /// # Errors
    /// The first that does.
    pub fn is_even(&self) -> Result<(), Violation> {
        let keepers = || self.nodes.iter().filter(|node| node.keeps);
        let counts = || keepers().map(|node| node.replicas.len() as f64);
        let mean = counts().sum::<f64>() / counts().count().max(1) as f64;
        let far = 1.0 + BAND * mean;
        for node in keepers() {
            if (node.replicas.len() as f64 - mean).abs() > far {
                let all: Vec<usize> = keepers().map(|node| node.replicas.len()).collect();
                let text = format!("node {}: {} of {all:?}", node.id, node.replicas.len());
                return broken("R12 load is even", text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{Arc as RingArc, Generation};

    use super::*;

    const KEYS: KeyspaceId = KeyspaceId(1);

    fn known(shard: u64, arc: RingArc, nodes: [u64; 3]) -> Arc<KnownShard> {
        let replicas = (1..).zip(nodes).map(|(id, node)| (ReplicaId(id), NodeId(node))).collect();
        let (generation, leader) = (Generation(4), None);
        let shard = ShardId(shard);
        Arc::new(KnownShard::new(Descriptor { shard, arc, generation, replicas, leader }, 3))
    }

    /// The system shard and four of a keyspace, each on three of four nodes in four domains.
    fn ring() -> Ring {
        let slots = |first: u16, end: u16| RingArc::of_slots(KEYS, first * 4096, end * 4096);
        let table = vec![
            known(0, RingArc::whole(KeyspaceId(0)), [1, 2, 3]),
            known(1, slots(0, 1), [2, 3, 4]),
            known(2, slots(1, 2), [3, 4, 1]),
            known(3, slots(2, 3), [4, 1, 2]),
            known(4, slots(3, 4), [1, 2, 3]),
        ];
        let node = |id: u64| {
            let id = NodeId(id);
            let of = |known: &Arc<KnownShard>| {
                let replica = known.descriptor().replica_on(id)?;
                let voters = [1, 2, 3].map(ReplicaId).to_vec();
                let (shard, learners, is_quiet) = (known.shard(), Vec::new(), true);
                let leads = replica == ReplicaId(1);
                Some(Replica { shard, id: replica, leads, voters, learners, is_quiet })
            };
            let replicas = table.iter().filter_map(of).collect();
            let domain = format!("rack {id}").into();
            Node { id, domain, keeps: true, table: table.clone(), replicas }
        };
        let keyspaces = BTreeMap::from([(KeyspaceId(0), 3), (KEYS, 3)]);
        Ring { keyspaces, nodes: (1..=4).map(node).collect() }
    }

    /// The rule that is broken once `plant` has been at it.
    fn found<T>(plant: impl FnOnce(&mut Ring) -> T) -> &'static str {
        let mut ring = ring();
        assert_eq!(ring.check(), Ok(()));
        let _what_was_there = plant(&mut ring);
        ring.check().expect_err("a rule is broken").rule
    }

    #[test]
    fn gaps_overlaps_and_strangers_are_found() {
        const RULE: &str = "R1 arcs tile the ring";
        let everywhere = |ring: &mut Ring, at: usize, arc: RingArc| {
            let other = known(at as u64, arc, [1, 2, 3]);
            ring.nodes.iter_mut().for_each(|node| node.table[at] = other.clone());
        };
        let slots = |first, end| RingArc::of_slots(KEYS, first, end);
        assert_eq!(found(|ring| everywhere(ring, 2, slots(4096, 8191))), RULE);
        assert_eq!(found(|ring| everywhere(ring, 2, slots(4000, 8192))), RULE);
        assert_eq!(found(|ring| everywhere(ring, 1, slots(1, 4096))), RULE);
        assert_eq!(found(|ring| everywhere(ring, 4, RingArc::whole(KEYS))), RULE);
        assert_eq!(found(|ring| everywhere(ring, 4, RingArc::whole(KeyspaceId(9)))), RULE);
        assert_eq!(found(|ring| ring.keyspaces.insert(KeyspaceId(7), 3)), RULE);
    }

    #[test]
    fn tables_that_differ_are_found() {
        const RULE: &str = "R2 tables agree";
        let later = |ring: &mut Ring| {
            let mut descriptor = ring.nodes[2].table[1].descriptor().clone();
            descriptor.generation = Generation(5);
            ring.nodes[2].table[1] = Arc::new(KnownShard::new(descriptor, 3));
        };
        assert_eq!(found(later), RULE);
        // It is not where all say it is.
        assert_eq!(found(|ring| ring.nodes[0].replicas.remove(0)), RULE);
        assert_eq!(found(|ring| ring.nodes[0].replicas[0].id = ReplicaId(7)), RULE);
    }

    #[test]
    fn under_replicated_shards_are_found() {
        const RULE: &str = "R12 every shard is fully replicated";
        let leader = |ring: &mut Ring, plant: fn(&mut Replica)| {
            let replicas = ring.nodes.iter_mut().flat_map(|node| &mut node.replicas);
            replicas.filter(|replica| replica.leads).for_each(plant);
        };
        assert_eq!(found(|ring| leader(ring, |held| held.leads = false)), RULE);
        assert_eq!(found(|ring| leader(ring, |held| held.is_quiet = false)), RULE);
        assert_eq!(found(|ring| leader(ring, |held| held.learners.push(ReplicaId(9)))), RULE);
        assert_eq!(found(|ring| ring.keyspaces.insert(KEYS, 1)), RULE);
        assert_eq!(found(|ring| ring.nodes[3].keeps = false), RULE, "it is draining");
        assert_eq!(found(|ring| ring.nodes.remove(3)), RULE, "it is down");
        // Three domains are there, and shards in two of them.
        assert_eq!(found(|ring| ring.nodes[1].domain = "rack 1".into()), RULE);
        let two = |ring: &mut Ring| ring.nodes[0].replicas[1].leads ^= true;
        assert_eq!(found(two), RULE, "two lead, or none");
    }

    #[test]
    fn forgotten_replicas_and_uneven_nodes_are_found() {
        let orphan = |ring: &mut Ring| {
            let stray =
                Replica { id: ReplicaId(9), leads: false, ..ring.nodes[0].replicas[0].clone() };
            ring.nodes[3].replicas.push(stray);
        };
        assert_eq!(found(orphan), "R12 no replica is forgotten");
        let crowd = |ring: &mut Ring| {
            let empty = Node { replicas: Vec::new(), id: NodeId(9), ..ring.nodes[0].clone() };
            ring.nodes.push(Node { domain: "rack 9".into(), ..empty });
        };
        assert_eq!(found(crowd), "R12 load is even");
    }
}
