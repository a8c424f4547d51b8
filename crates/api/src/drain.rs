//! How far a node's drain is, and what its replicas wait for: `GET /v1/nodes/{node}/drain`.
//!
//! A shard's leader moves its replicas. So this is told from what leaders say of their shards and
//! of the decisions that they would make now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AdminState, DecisionStatus, Decisions, NodeStatus, ReplicaRole, ReplicaStatus, ShardStatus,
    SilentNode,
};

/// The most shards that are listed.
pub const DRAIN_SHARDS_MAX: usize = 1_000;

/// How much has left a draining node lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainRate {
    /// Within so many milliseconds.
    pub over_ms: u64,
    /// Replicas.
    pub replicas: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// Why a replica is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrainState {
    /// The shard has no leader that could move it.
    NoLeader,
    /// The leader did not say.
    Silent,
    /// The leader finds no node for it.
    Stuck,
    /// The leader moves it later.
    Waiting,
    /// The leader moves it next.
    Due,
    /// Replicas of the shard are being changed.
    Moving,
}

/// A shard with a replica on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainingShard {
    /// Its id.
    pub shard: u64,
    /// Its keyspace's name; `null` for the catalogue.
    #[schema(required = true)]
    pub keyspace: Option<String>,
    /// Whether the node leads it.
    pub leads: bool,
    /// Its bytes, as its leader counts them.
    pub bytes: u64,
    /// What it waits for, in a word.
    pub state: DrainState,
    /// The same, in a sentence.
    pub why: String,
}

/// Shards that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainWait {
    /// In a word.
    pub state: DrainState,
    /// How many.
    pub shards: u64,
    /// The sentence of the first of them.
    pub why: String,
}

/// What `GET /v1/nodes/{node}/drain` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainStatus {
    /// The node's id, in hexadecimal.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its admin state.
    #[serde(rename = "standing")]
    pub admin_state: AdminState,
    /// Shards that have a replica there.
    pub replicas: u64,
    /// Of these, those that it leads.
    pub leads: u64,
    /// Its keys and values, in bytes, as it last told.
    pub data_bytes: u64,
    /// What has left it lately; `null` unless it drains, and has been seen to for a moment.
    #[schema(required = true)]
    pub rate: Option<DrainRate>,
    /// What is waited for, the worst first.
    pub waits: Vec<DrainWait>,
    /// Shards that have a replica there, at most [`DRAIN_SHARDS_MAX`].
    pub shards: Vec<DrainingShard>,
    /// Nodes that did not say what they know.
    pub silent: Vec<SilentNode>,
}

impl DrainStatus {
    /// Of a node, by the shards that have a replica there as their leaders know them, and by what
    /// leaders would decide now.
    pub fn new(
        node: &NodeStatus,
        shards: impl IntoIterator<Item = ShardStatus>,
        would: &Decisions,
        mut silent: Vec<SilentNode>,
    ) -> Self {
        silent.extend(would.silent.iter().cloned());
        silent.sort_by(|one, other| one.id.cmp(&other.id));
        silent.dedup_by(|one, other| one.id == other.id);
        let view = View { node, would, silent: &silent };
        let mut all: Vec<DrainingShard> = shards
            .into_iter()
            .filter(|shard| shard.replicas.iter().any(|replica| replica.node == node.id))
            .map(|shard| view.shard(&shard))
            .collect();
        all.sort_by_key(|shard| (shard.state, shard.shard));
        let mut waits: BTreeMap<DrainState, DrainWait> = BTreeMap::new();
        for DrainingShard { state, why, .. } in &all {
            let wait = DrainWait { state: *state, shards: 0, why: why.clone() };
            waits.entry(*state).or_insert(wait).shards += 1;
        }
        all.truncate(DRAIN_SHARDS_MAX);
        let is_draining = node.admin_state == AdminState::Draining;
        Self {
            id: node.id.clone(),
            name: node.name.clone(),
            admin_state: node.admin_state,
            replicas: node.replicas,
            leads: node.leads,
            data_bytes: node.data_bytes,
            rate: node.drain_rate,
            waits: if is_draining { waits.into_values().collect() } else { Vec::new() },
            shards: if is_draining { all } else { Vec::new() },
            silent,
        }
    }
}

/// What is known about the drain of a node.
struct View<'a> {
    node: &'a NodeStatus,
    would: &'a Decisions,
    silent: &'a [SilentNode],
}

impl View<'_> {
    fn shard(&self, shard: &ShardStatus) -> DrainingShard {
        let (state, why) = self.state(shard);
        DrainingShard {
            shard: shard.id,
            keyspace: shard.keyspace.clone(),
            leads: shard.leader.as_ref() == Some(&self.node.id),
            bytes: shard.bytes,
            state,
            why,
        }
    }

    fn state(&self, shard: &ShardStatus) -> (DrainState, String) {
        let id = shard.id;
        let Some(leader) = &shard.leader else {
            let why = format!("shard {id} has no leader: a majority of its replicas has to be up");
            return (DrainState::NoLeader, why);
        };
        let named = |node: &String| {
            let replica = shard.replicas.iter().find(|replica| replica.node == *node);
            replica.and_then(|replica| replica.name.clone()).unwrap_or_else(|| node.clone())
        };
        let leader_name = named(leader);
        if let Some(silent) = self.silent.iter().find(|silent| silent.id == *leader) {
            let why = format!("{leader_name}, which leads shard {id}, did not say: {}", silent.why);
            return (DrainState::Silent, why);
        }
        if shard.changing {
            return (DrainState::Moving, changing(shard));
        }
        let is_about = |one: &&DecisionStatus| one.shard == id;
        let would = self.would.decisions.iter().filter(is_about);
        let would = would.max_by_key(|one| !one.add.is_empty() || !one.remove.is_empty());
        match would {
            Some(DecisionStatus { waits: Some(waits), .. }) => {
                let why = format!("{leader_name}, which leads shard {id}, waits: {waits}");
                (DrainState::Waiting, why)
            }
            Some(one) => {
                let to: Vec<&str> = one.add.iter().map(|node| node.name.as_str()).collect();
                let what = match (&one.leader, to.is_empty()) {
                    (Some(to), _) => format!("passes the lead of shard {id} to {}", to.name),
                    (None, false) => format!("moves a replica of shard {id} to {}", to.join(", ")),
                    (None, true) => format!("removes a replica of shard {id}"),
                };
                (DrainState::Due, format!("{leader_name} {what} next, because {}", one.why))
            }
            None => {
                let why = format!(
                    "{leader_name}, which leads shard {id}, finds no node for its replica: another \
                     node has to be up that has none, and is neither cordoned nor draining"
                );
                (DrainState::Stuck, why)
            }
        }
    }
}

/// How far the change of a shard's replicas is.
fn changing(shard: &ShardStatus) -> String {
    let id = shard.id;
    let new =
        |replica: &&ReplicaStatus| replica.role == ReplicaRole::Learner || replica.awaits_snapshot;
    let Some(new) = shard.replicas.iter().find(new) else {
        return format!("the voters of shard {id} are being changed");
    };
    let to = new.name.as_ref().unwrap_or(&new.node);
    if !new.live {
        return format!(
            "the new replica of shard {id} is to be on {to}, which is down: it waits until {to} is \
             back, or the leader chooses another node"
        );
    }
    match (&new.snapshot, new.awaits_snapshot, new.behind) {
        (Some(sent), ..) => format!(
            "a snapshot of shard {id} is on its way to {to}: {} of about {} bytes are sent",
            sent.sent_bytes, sent.about_bytes
        ),
        (None, true, _) => format!("a snapshot of shard {id} waits to be sent to {to}"),
        (None, false, Some(behind)) if behind > 0 => {
            format!("the new replica of shard {id} on {to} lacks {behind} entries")
        }
        _ => format!("the new replica of shard {id} on {to} is about to vote"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DecisionNode, DecisionOutcomeStatus, NodeAddresses, NodeState, SnapshotStatus, Verdict,
    };

    fn node() -> NodeStatus {
        NodeStatus {
            id: "2".into(),
            name: "n2".into(),
            this: false,
            state: NodeState::Up,
            admin_state: AdminState::Draining,
            since_at_ms: 0,
            linked: true,
            addresses: NodeAddresses::default(),
            domain: String::new(),
            version: String::new(),
            replicas: 1,
            leads: 0,
            shards: 1,
            leaders: 0,
            data_bytes: 5,
            requests_per_second: 0,
            follower_reads_per_second: 0,
            slow_disk: false,
            joined_at_ms: 0,
            drain_rate: None,
        }
    }

    fn replica(node: &str, role: ReplicaRole) -> ReplicaStatus {
        ReplicaStatus {
            replica: 1,
            node: node.into(),
            name: Some(format!("n{node}")),
            role,
            live: true,
            leader: false,
            behind: None,
            contact_ms: None,
            awaits_snapshot: false,
            snapshot: None,
        }
    }

    /// Shard 7, led by node 1, with a replica on node 2.
    fn shard() -> ShardStatus {
        ShardStatus {
            id: 7,
            keyspace: Some("0".into()),
            slots: None,
            arc: None,
            generation: 1,
            verdict: Verdict::Ok,
            here: false,
            replicas_wanted: 2,
            replicas_live: 2,
            voters: 2,
            changing: false,
            replicas: vec![replica("1", ReplicaRole::Voter), replica("2", ReplicaRole::Voter)],
            leader: Some("1".into()),
            without_leader_ms: 0,
            term: 1,
            committed: 1,
            applied: 1,
            lease_ms: None,
            sessions: 0,
            keys: 1,
            bytes: 5,
            quarantined: Vec::new(),
            lagging: Vec::new(),
            load: None,
            told_by: Some("1".into()),
        }
    }

    fn would(waits: Option<&str>) -> DecisionStatus {
        DecisionStatus {
            at_ms: 0,
            shard: 7,
            keyspace: None,
            add: vec![DecisionNode { id: "3".into(), name: "n3".into() }],
            remove: vec![2],
            leader: None,
            split: None,
            merge: None,
            why: "n2 is draining".into(),
            deviation: None,
            came: DecisionOutcomeStatus::Dry,
            took_ms: None,
            waits: waits.map(str::to_owned),
            by: None,
        }
    }

    #[track_caller]
    fn check(shard: ShardStatus, would: Vec<DecisionStatus>, state: DrainState, why: &str) {
        let would = Decisions { decisions: would, ..Decisions::default() };
        let found = DrainStatus::new(&node(), [shard], &would, Vec::new());
        assert_eq!((found.shards[0].state, found.waits[0].state), (state, state));
        assert_eq!(found.shards[0].why, why);
    }

    #[test]
    fn each_replica_tells_why_it_is_still_there() {
        let changing = |replica| {
            let mut shard = shard();
            shard.changing = true;
            shard.replicas.extend(replica);
            shard
        };
        let new = replica("3", ReplicaRole::Learner);
        let snapshot = Some(SnapshotStatus { sent_bytes: 3, about_bytes: 9 });
        for (shard, would, state, why) in [
            (
                ShardStatus { leader: None, ..shard() },
                vec![],
                DrainState::NoLeader,
                "shard 7 has no leader: a majority of its replicas has to be up",
            ),
            (
                changing(Some(ReplicaStatus { behind: Some(12), ..new.clone() })),
                vec![],
                DrainState::Moving,
                "the new replica of shard 7 on n3 lacks 12 entries",
            ),
            (
                changing(Some(ReplicaStatus { live: false, ..new.clone() })),
                vec![],
                DrainState::Moving,
                "the new replica of shard 7 is to be on n3, which is down: it waits until n3 is \
                 back, or the leader chooses another node",
            ),
            (
                changing(Some(ReplicaStatus { awaits_snapshot: true, snapshot, ..new.clone() })),
                vec![],
                DrainState::Moving,
                "a snapshot of shard 7 is on its way to n3: 3 of about 9 bytes are sent",
            ),
            (
                changing(Some(ReplicaStatus { awaits_snapshot: true, ..new })),
                vec![],
                DrainState::Moving,
                "a snapshot of shard 7 waits to be sent to n3",
            ),
            (changing(None), vec![], DrainState::Moving, "the voters of shard 7 are being changed"),
            (
                shard(),
                vec![would(None)],
                DrainState::Due,
                "n1 moves a replica of shard 7 to n3 next, because n2 is draining",
            ),
            (
                shard(),
                vec![would(Some("shards are changing that this node leads: 8"))],
                DrainState::Waiting,
                "n1, which leads shard 7, waits: shards are changing that this node leads: 8",
            ),
            (
                shard(),
                vec![DecisionStatus { shard: 8, ..would(None) }],
                DrainState::Stuck,
                "n1, which leads shard 7, finds no node for its replica: another node has to be up \
                 that has none, and is neither cordoned nor draining",
            ),
        ] {
            check(shard, would, state, why);
        }
    }

    #[test]
    fn leader_that_did_not_answer_is_named() {
        let silent = SilentNode { id: "1".into(), name: "n1".into(), why: "it is down".into() };
        let would = Decisions { silent: vec![silent.clone()], ..Decisions::default() };
        let elsewhere = ShardStatus { replicas: Vec::new(), ..shard() };
        let found = DrainStatus::new(&node(), [shard(), elsewhere], &would, vec![silent.clone()]);
        assert_eq!((found.shards.len(), found.silent), (1, vec![silent]), "each once");
        assert_eq!(found.shards[0].state, DrainState::Silent);
        assert_eq!(found.shards[0].why, "n1, which leads shard 7, did not say: it is down");
        let node = NodeStatus { admin_state: AdminState::Member, ..node() };
        let found = DrainStatus::new(&node, [shard()], &would, Vec::new());
        assert!(found.waits.is_empty() && found.shards.is_empty(), "it does not drain");
    }
}
