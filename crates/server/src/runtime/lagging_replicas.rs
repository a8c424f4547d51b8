//! Lagging voters: those that a shard cannot count on if another node stops.
//!
//! A voter whose node is up may still lag: it awaits the state of the shard, lacks much of the log,
//! or does not answer. As long as the others live, clients notice nothing. If one of these stops,
//! the shard stalls until the voter has caught up. So no node should be stopped before that, and
//! health is not `ok`.
//!
//! ```text
//!   n3 cannot be counted on yet for shard 2 (replica 3: about 412000 bytes of its state are still
//!   to be sent), 5 (replica 3: it lacks 16234 entries) and 7 more of keyspace "0": …
//! ```
//!
//! Only a shard's leader knows how far its voters are: [`ShardReport::lagging_replicas`] has the
//! rules.

use std::collections::BTreeMap;

use keyspace::{NodeId, ShardId};
use node::replica::{LagReason, LaggingReplica, ShardReport};
use replication::{BootNanos, Members};

use super::snapshots::StreamProgress;
use super::survey::{ShardView, name_of};
use crate::cluster::MemberInfo;

/// Shards that a reason names.
const NAMED_MAX: usize = 4;

/// A voter that its shard cannot count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaggingVoter {
    /// Which, and why.
    pub lagging: LaggingReplica,
    /// Bytes of the snapshot to it that this node has not sent yet, about.
    pub left_bytes: Option<u64>,
}

/// Those of a shard; none if it is led elsewhere.
pub fn of(
    report: &ShardReport,
    members: &Members,
    streams: &[StreamProgress],
    now: BootNanos,
) -> Vec<LaggingVoter> {
    let behind = |lagging: LaggingReplica| {
        let goes_there = |stream: &&StreamProgress| stream.goes_to(report.shard, lagging.replica);
        let stream = streams.iter().find(goes_there);
        LaggingVoter { lagging, left_bytes: stream.map(StreamProgress::left_bytes) }
    };
    report.lagging_replicas(&members.voters, now).into_iter().map(behind).collect()
}

/// Writes a sentence for each node and keyspace, for people.
pub fn write_reasons(shards: &[ShardView], members: &[MemberInfo], mut say: impl FnMut(String)) {
    type Place<'a> = (Option<&'a str>, String);
    let mut found: BTreeMap<Place<'_>, Vec<(ShardId, LaggingVoter)>> = BTreeMap::new();
    for seen in shards {
        for behind in &seen.behind {
            let node = seen.descriptor.node_of(behind.lagging.replica);
            let node = node.map_or("an unknown node".into(), |node: NodeId| name_of(node, members));
            let place = (seen.keyspace.as_deref(), node);
            found.entry(place).or_default().push((seen.id(), *behind));
        }
    }
    for ((keyspace, node), behind) in found {
        let keyspace = match keyspace {
            Some(name) => format!("of keyspace \"{name}\""),
            None => "(the catalogue of keyspaces)".to_owned(),
        };
        let mut shards: Vec<String> = behind.iter().take(NAMED_MAX).map(named).collect();
        let more = behind.len() - shards.len();
        if more > 0 {
            shards.push(format!("{more} more"));
        }
        say(format!(
            "{node} is lagging in shard {} {keyspace}: if other nodes stop before it catches up, \
             requests may have to wait for it",
            joined(&shards)
        ));
    }
}

/// "a", "a and b", "a, b and c".
fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn named((shard, behind): &(ShardId, LaggingVoter)) -> String {
    let LaggingVoter { lagging: LaggingReplica { replica, lag }, left_bytes } = behind;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let why = match (lag, left_bytes) {
        (LagReason::AwaitsSnapshot, Some(bytes)) => {
            format!("about {bytes} bytes of its state are still to be sent")
        }
        (LagReason::AwaitsSnapshot, None) => {
            "its state is still to be sent, or to be installed".into()
        }
        (LagReason::Behind(entries), _) => format!("it lacks {entries} entries"),
        (LagReason::Silent(nanos), _) => {
            format!("it has not answered for {:.1} s", seconds(*nanos))
        }
        (LagReason::NeverHeard, _) => "it has not answered yet".into(),
        (LagReason::Quarantined, _) => "it is quarantined and waits to be replaced".into(),
    };
    format!("{shard} (replica {replica}: {why})")
}

#[cfg(test)]
mod tests {
    use keyspace::{Arc, Descriptor, Durability, Generation, KeyspaceId, ReplicaId};
    use replication::Follower;

    use super::*;
    use node::control::snapshots::Destination;

    fn seen(shard: u64, keyspace: Option<&str>, behind: Vec<LaggingVoter>) -> ShardView {
        let ids = [1, 2, 3].map(ReplicaId);
        let descriptor = Descriptor {
            shard: ShardId(shard),
            arc: Arc::of_slots(KeyspaceId(1), 0, 100),
            replicas: ids.map(|replica| (replica, NodeId(replica.0))).to_vec(),
            generation: Generation(4),
            leader: None,
        };
        ShardView {
            keyspace: keyspace.map(Into::into),
            has_slots: true,
            live: 3,
            descriptor,
            members: Members::of_voters(&ids),
            known: None,
            replicas_wanted: 3,
            report: None,
            keys: 0,
            bytes: 0,
            sessions: 0,
            quarantined: Vec::new(),
            is_settled: true,
            behind,
        }
    }

    fn behind(replica: u64, lag: LagReason, left_bytes: Option<u64>) -> LaggingVoter {
        LaggingVoter { lagging: LaggingReplica { replica: ReplicaId(replica), lag }, left_bytes }
    }

    #[test]
    fn reasons_name_node_shard_replica_and_what_is_left() {
        let silent = LagReason::Silent(2_500_000_000);
        let mut shards = vec![
            seen(0, None, vec![behind(3, LagReason::NeverHeard, None)]),
            seen(1, Some("0"), vec![]),
            seen(2, Some("0"), vec![behind(3, LagReason::AwaitsSnapshot, Some(412_000))]),
            seen(
                4,
                Some("0"),
                vec![behind(2, silent, None), behind(3, LagReason::Behind(9), None)],
            ),
        ];
        let said = |shards: &[ShardView]| {
            let mut said = Vec::new();
            write_reasons(shards, &[], |why| said.push(why));
            said
        };
        let rest = ": if other nodes stop before it catches up, requests may have to wait for it";
        let three = "0000000000000003 is lagging in shard";
        let expected = [
            format!(
                "{three} 0 (replica 3: it has not answered yet) (the catalogue of keyspaces){rest}"
            ),
            format!(
                "0000000000000002 is lagging in shard 4 (replica 2: it has not \
                 answered for 2.5 s) of keyspace \"0\"{rest}"
            ),
            format!(
                "{three} 2 (replica 3: about 412000 bytes of its state are still to be sent) and \
                 4 (replica 3: it lacks 9 entries) of keyspace \"0\"{rest}"
            ),
        ];
        assert_eq!(said(&shards), expected);
        let more =
            (5..20).map(|id| seen(id, Some("0"), vec![behind(3, LagReason::Quarantined, None)]));
        shards.extend(more);
        let last = said(&shards).pop().expect("a reason");
        let words = "6 (replica 3: it is quarantined and waits to be replaced) and 13 more of";
        assert!(last.contains(words), "{last}");
    }

    #[test]
    fn what_is_left_of_a_state_is_that_of_the_stream_to_this_voter() {
        let follower = |id, awaits_snapshot| Follower {
            replica: ReplicaId(id),
            matched: 5,
            echoed: 90,
            awaits_snapshot,
        };
        let report = ShardReport {
            shard: ShardId(7),
            replica: ReplicaId(1),
            term: 3,
            committed: 9,
            applied: 9,
            last_index: 9,
            leader: Some(ReplicaId(1)),
            leader_node: Some(NodeId(1)),
            leads: true,
            lease_until: 0,
            followers: vec![follower(1, false), follower(2, true), follower(3, true)],
            leaderless_nanos: 0,
            stalled_nanos: 0,
            finding: None,
            quarantined: Vec::new(),
            durability: Durability::Sync,
        };
        let stream = |shard, to| StreamProgress {
            to: Destination { shard: ShardId(shard), replica: ReplicaId(to) },
            sent_bytes: 30,
            about_bytes: 100,
        };
        let members = Members::of_voters(&[1, 2, 3].map(ReplicaId));
        let found = of(&report, &members, &[stream(6, 3), stream(7, 2)], 100);
        let expected = [
            behind(2, LagReason::AwaitsSnapshot, Some(70)),
            behind(3, LagReason::AwaitsSnapshot, None),
        ];
        assert_eq!(found, expected);
    }
}
