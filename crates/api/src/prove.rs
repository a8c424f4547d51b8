//! Which nodes or failure domains can the cluster lose, as its shards are placed now?
//! `GET /v1/prove`, as `carillon prove` does.
//!
//! Only a shard's leader knows its voters. So this is judged from what leaders say of their shards
//! ([`balancer::survivability`]). A lagging voter counts as lost, and so does a node that is not
//! surely up. A shard is not proven if its leader did not answer, or its replicas are just
//! changing.

use std::collections::BTreeMap;

use balancer::survivability::{FatalSet, Voters, smallest};
use keyspace::{NodeId, ShardId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{NodeState, NodeStatus, ReplicaRole, ReplicaStatus, ShardStatus, SilentNode};

/// Shards that are listed at most, of each kind.
pub const PROVE_SHARDS_MAX: usize = 100;
/// Shards that obstacles name at most.
const NAMED_MAX: usize = 8;

/// What a cluster may be asked to survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Survive {
    /// The loss of any one node.
    #[default]
    #[serde(rename = "node")]
    Node,
    /// The loss of any one failure domain.
    #[serde(rename = "domain")]
    Domain,
    /// The loss of any two nodes together.
    #[serde(rename = "2-nodes")]
    TwoNodes,
}

impl Survive {
    /// That of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "node" => Survive::Node,
            "domain" => Survive::Domain,
            "2-nodes" => Survive::TwoNodes,
            _ => return None,
        })
    }

    /// How many units may go.
    fn units(self) -> usize {
        match self {
            Survive::Node | Survive::Domain => 1,
            Survive::TwoNodes => 2,
        }
    }
}

/// Nodes or domains whose loss leaves a shard without a majority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailingSet {
    /// The shard.
    pub shard: u64,
    /// Its keyspace's name; `null` for the catalogue.
    #[schema(required = true)]
    pub keyspace: Option<String>,
    /// Names of nodes or domains. Empty: it has no majority now.
    pub lost: Vec<String>,
    /// Voters that would be left.
    pub left: u64,
    /// Voters it has.
    pub voters: u64,
    /// Voters it needs.
    pub needed: u64,
}

/// What `GET /v1/prove` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Survivability {
    /// What was asked.
    pub survive: Survive,
    /// Whether each shard keeps a majority, whichever of these is lost.
    pub holds: bool,
    /// How many shards there are.
    pub shards: u64,
    /// How many may have no majority then.
    pub failing_count: u64,
    /// Of these, at most [`PROVE_SHARDS_MAX`], those that need the fewest losses first.
    pub failing: Vec<FailingSet>,
    /// The smallest set of all shards; `null` if nothing is known.
    #[schema(required = true)]
    pub smallest: Option<FailingSet>,
    /// Shards of which it is not known, at most [`PROVE_SHARDS_MAX`].
    pub unproven: Vec<u64>,
    /// Why it is not known, in words.
    pub obstacles: Vec<String>,
    /// Nodes that did not say what they know.
    pub silent: Vec<SilentNode>,
    /// Names of nodes that count as lost already.
    pub down: Vec<String>,
}

impl Survivability {
    /// Of the cluster, by its members and by its shards as their leaders know them.
    pub fn new(
        survive: Survive,
        nodes: &[NodeStatus],
        shards: &[ShardStatus],
        mut silent: Vec<SilentNode>,
    ) -> Self {
        silent.sort_by(|one, other| one.id.cmp(&other.id));
        silent.dedup_by(|one, other| one.id == other.id);
        let members: Vec<&NodeStatus> =
            nodes.iter().filter(|node| node.state != NodeState::Left).collect();
        let by_id: BTreeMap<NodeId, &NodeStatus> =
            members.iter().filter_map(|node| Some((id_of(&node.id)?, *node))).collect();
        let by_shard: BTreeMap<u64, &ShardStatus> =
            shards.iter().map(|shard| (shard.id, shard)).collect();
        let known = |shard: &&ShardStatus| is_known(shard) && !shard.changing;
        let proven: Vec<Voters> = shards.iter().filter(known).map(voters).collect();
        let unproven: Vec<&ShardStatus> = shards.iter().filter(|shard| !known(shard)).collect();
        let unit_of = |id: NodeId| {
            let node = by_id.get(&id).filter(|node| node.state == NodeState::Up)?;
            Some(match survive {
                Survive::Domain if !node.domain.is_empty() => Unit::Domain(&node.domain),
                _ => Unit::Node(id),
            })
        };
        let sets = smallest(&proven, unit_of);
        let shown = |set: &FatalSet<Unit<'_>>| FailingSet {
            shard: set.shard.0,
            keyspace: by_shard.get(&set.shard.0).and_then(|shard| shard.keyspace.clone()),
            lost: set.units.iter().map(|unit| unit.name(&by_id)).collect(),
            left: set.left as u64,
            voters: set.voters as u64,
            needed: set.needed() as u64,
        };
        let failing = || sets.iter().take_while(|set| set.units.len() <= survive.units());
        let obstacles = obstacles(survive, &members, &unproven, &silent);
        let name = |node: &&&NodeStatus| node.state != NodeState::Up;
        Self {
            survive,
            holds: failing().next().is_none() && obstacles.is_empty(),
            shards: shards.len() as u64,
            failing_count: failing().count() as u64,
            failing: failing().take(PROVE_SHARDS_MAX).map(shown).collect(),
            smallest: sets.first().map(shown),
            unproven: unproven.iter().take(PROVE_SHARDS_MAX).map(|shard| shard.id).collect(),
            obstacles,
            silent,
            down: members.iter().filter(name).map(|node| node.name.clone()).collect(),
        }
    }
}

/// What may be lost as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit<'a> {
    Domain(&'a str),
    Node(NodeId),
}

impl Unit<'_> {
    fn name(&self, nodes: &BTreeMap<NodeId, &NodeStatus>) -> String {
        match self {
            Unit::Domain(domain) => format!("domain {domain}"),
            Unit::Node(id) => match nodes.get(id).filter(|node| !node.name.is_empty()) {
                Some(node) => node.name.clone(),
                None => format!("{:016x}", id.0),
            },
        }
    }
}

/// Whether its leader has told this, and leads.
fn is_known(shard: &ShardStatus) -> bool {
    let is_told = shard.leader.is_some() && shard.told_by == shard.leader;
    is_told && shard.without_leader_ms == 0 && shard.voters > 0
}

/// The voters that can be counted on.
fn voters(shard: &ShardStatus) -> Voters {
    let is_good = |replica: &&ReplicaStatus| {
        replica.role == ReplicaRole::Voter
            && !shard.lagging.contains(&replica.replica)
            && !shard.quarantined.contains(&replica.replica)
    };
    let good = shard.replicas.iter().filter(is_good);
    Voters {
        shard: ShardId(shard.id),
        count: shard.voters as usize,
        nodes: good.filter_map(|replica| id_of(&replica.node)).collect(),
    }
}

/// Why it is not known, for people.
fn obstacles(
    survive: Survive,
    members: &[&NodeStatus],
    unproven: &[&ShardStatus],
    silent: &[SilentNode],
) -> Vec<String> {
    let mut all = Vec::new();
    for shard in unproven.iter().take(NAMED_MAX) {
        let id = shard.id;
        let name = match &shard.keyspace {
            Some(keyspace) => format!("shard {id} of keyspace {keyspace}"),
            None => format!("shard {id} (the catalogue)"),
        };
        let why = match is_known(shard) {
            true => "its replicas are changing: ask again",
            false => "no node that answered leads it",
        };
        all.push(format!("{name}: {why}"));
    }
    if unproven.len() > NAMED_MAX {
        all.push(format!("and {} more shards", unproven.len() - NAMED_MAX));
    }
    if !silent.is_empty() {
        let names: Vec<&str> = silent.iter().map(|node| &*node.name).collect();
        all.push(format!("did not answer: {}", names.join(", ")));
    }
    let lacks = members.iter().filter(|node| node.state == NodeState::Up && node.domain.is_empty());
    let lacks: Vec<&str> = lacks.map(|node| &*node.name).collect();
    if survive == Survive::Domain && !lacks.is_empty() {
        all.push(format!("no failure domain is known (set domain) of {}", lacks.join(", ")));
    }
    all
}

fn id_of(text: &str) -> Option<NodeId> {
    u64::from_str_radix(text, 16).ok().map(NodeId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdminState, NodeAddresses, Verdict};

    fn node(id: &str, name: &str, domain: &str) -> NodeStatus {
        NodeStatus {
            id: id.into(),
            name: name.into(),
            this: false,
            state: NodeState::Up,
            admin_state: AdminState::Member,
            since_at_ms: 0,
            linked: true,
            addresses: NodeAddresses::default(),
            domain: domain.into(),
            version: String::new(),
            replicas: 1,
            leads: 0,
            shards: 1,
            leaders: 0,
            data_bytes: 0,
            requests_per_second: 0,
            follower_reads_per_second: 0,
            slow_disk: false,
            joined_at_ms: 0,
            drain_rate: None,
        }
    }

    fn nodes() -> Vec<NodeStatus> {
        vec![node("a", "n1", "r1"), node("b", "n2", "r1"), node("c", "n3", "r2")]
    }

    fn shard(id: u64) -> ShardStatus {
        let replica = |(replica, node): (u64, &str)| ReplicaStatus {
            replica,
            node: node.into(),
            name: None,
            role: ReplicaRole::Voter,
            live: true,
            leader: node == "a",
            behind: None,
            contact_ms: None,
            awaits_snapshot: false,
            snapshot: None,
        };
        ShardStatus {
            id,
            keyspace: Some("orders".into()),
            slots: None,
            arc: None,
            generation: 1,
            verdict: Verdict::Ok,
            here: true,
            replicas_wanted: 3,
            replicas_live: 3,
            voters: 3,
            changing: false,
            replicas: [(1, "a"), (2, "b"), (3, "c")].map(replica).into(),
            leader: Some("a".into()),
            without_leader_ms: 0,
            term: 1,
            committed: 0,
            applied: 0,
            lease_ms: None,
            sessions: 0,
            keys: 0,
            bytes: 0,
            quarantined: Vec::new(),
            lagging: Vec::new(),
            load: None,
            told_by: Some("a".into()),
        }
    }

    fn prove(survive: Survive, nodes: &[NodeStatus], shards: &[ShardStatus]) -> Survivability {
        Survivability::new(survive, nodes, shards, Vec::new())
    }

    #[test]
    fn smallest_set_that_takes_a_majority_is_named() {
        let proof = prove(Survive::Node, &nodes(), &[shard(3)]);
        assert!(proof.holds && proof.failing.is_empty(), "{proof:?}");
        let smallest = proof.smallest.expect("there is one");
        assert_eq!(smallest.lost, ["n1", "n2"]);
        assert_eq!((smallest.left, smallest.voters, smallest.needed), (1, 3, 2));
        let proof = prove(Survive::Domain, &nodes(), &[shard(3)]);
        assert_eq!((proof.holds, proof.failing_count), (false, 1));
        assert_eq!(proof.failing[0].lost, ["domain r1"]);
        assert_eq!(proof.failing[0].keyspace.as_deref(), Some("orders"));
        assert!(!prove(Survive::TwoNodes, &nodes(), &[shard(3)]).holds);
    }

    #[test]
    fn lagging_voter_and_node_that_is_down_count_as_lost() {
        let lagging = ShardStatus { lagging: vec![2], ..shard(3) };
        let proof = prove(Survive::Node, &nodes(), &[lagging]);
        assert_eq!(proof.failing[0].lost, ["n1"]);
        let mut two = nodes();
        two[2].state = NodeState::Down;
        let proof = prove(Survive::Node, &two, &[shard(3)]);
        assert_eq!((proof.holds, &proof.down[..]), (false, &["n3".to_owned()][..]));
        two[1].state = NodeState::Suspected;
        let proof = prove(Survive::Node, &two, &[shard(3)]);
        assert!(proof.failing[0].lost.is_empty(), "it has no majority now");
    }

    #[test]
    fn what_leaders_have_not_told_is_not_proven() {
        let changing = ShardStatus { changing: true, ..shard(1) };
        let told_by_another = ShardStatus { told_by: Some("b".into()), ..shard(2) };
        let unled = ShardStatus { leader: None, told_by: None, keyspace: None, ..shard(0) };
        let stalled = ShardStatus { without_leader_ms: 9_000, ..shard(4) };
        let proof =
            prove(Survive::Node, &nodes(), &[unled, changing, told_by_another, stalled, shard(3)]);
        assert_eq!((proof.holds, proof.failing_count), (false, 0));
        assert_eq!(proof.unproven, [0, 1, 2, 4]);
        assert_eq!(proof.obstacles[0], "shard 0 (the catalogue): no node that answered leads it");
        assert!(proof.obstacles[1].contains("changing"), "{:?}", proof.obstacles);
        let silent = SilentNode { id: "b".into(), name: "n2".into(), why: "it is down".into() };
        let silent = vec![silent.clone(), silent];
        let proof = Survivability::new(Survive::Node, &nodes(), &[shard(3)], silent);
        assert_eq!(
            (proof.holds, &proof.obstacles[..]),
            (false, &["did not answer: n2".into()][..])
        );
        let mut bare = nodes();
        bare[0].domain.clear();
        let proof = prove(Survive::Domain, &bare, &[shard(3)]);
        assert_eq!(proof.obstacles, ["no failure domain is known (set domain) of n1"]);
        assert!(!proof.holds);
    }
}
