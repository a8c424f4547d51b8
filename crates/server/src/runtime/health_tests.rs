//! The health verdict for shards and nodes in each state.

use keyspace::{Arc, Descriptor, Durability, Generation, KeyspaceId};
use node::replica::{LagReason, LaggingReplica, ReplicaComparison, STALLED_NANOS};

use replication::Members;

use super::*;
use crate::runtime::lagging_replicas::LaggingVoter;
use crate::runtime::survey::count;

/// A shard with three replicas on nodes 1, 2 and 3.
fn seen(id: u64, leader: Option<u64>, up: &BTreeSet<NodeId>) -> ShardView {
    let ids = [1, 2, 3].map(ReplicaId);
    let descriptor = Descriptor {
        shard: ShardId(id),
        arc: Arc::of_slots(KeyspaceId(1), 0, 100),
        replicas: ids.map(|replica| (replica, NodeId(replica.0))).to_vec(),
        generation: Generation(4),
        leader: None,
    };
    let report = ShardReport {
        shard: ShardId(id),
        replica: ids[0],
        term: 3,
        committed: 9,
        applied: 9,
        last_index: 9,
        leader: leader.map(ReplicaId),
        leader_node: leader.map(NodeId),
        leads: leader == Some(1),
        lease_until: 0,
        followers: Vec::new(),
        leaderless_nanos: if leader.is_none() { 2_500_000_000 } else { 0 },
        stalled_nanos: 0,
        finding: None,
        quarantined: Vec::new(),
        durability: Durability::Sync,
    };
    ShardView {
        keyspace: Some("0".into()),
        has_slots: true,
        live: ids.iter().filter(|replica| up.contains(&NodeId(replica.0))).count(),
        descriptor,
        members: Members::of_voters(&ids),
        known: None,
        replicas_wanted: 3,
        report: Some(report),
        keys: 5,
        bytes: 500,
        sessions: 1,
        quarantined: Vec::new(),
        is_settled: true,
        behind: Vec::new(),
    }
}

fn health(shards: &[ShardView], up: &BTreeSet<NodeId>) -> Health {
    let mut reasons = Reasons::default();
    judge_shards(shards, &[], up, &mut reasons);
    reasons.finish()
}

#[test]
fn all_replicas_and_a_leader_are_well() {
    let up = BTreeSet::from([1, 2, 3].map(NodeId));
    let shards = [seen(1, Some(2), &up), seen(2, Some(1), &up)];
    assert_eq!(health(&shards, &up), Health::default());
    let overview = count(&shards, &[]);
    assert_eq!((overview.shards, overview.shards_led, overview.data_bytes), (2, 1, 1000));
}

#[test]
fn a_dead_node_degrades_and_a_shard_without_leader_fails() {
    let up = BTreeSet::from([1, 2].map(NodeId));
    let mut shards = vec![seen(1, Some(2), &up), seen(2, Some(1), &up)];
    let degraded = health(&shards, &up);
    assert_eq!(degraded.verdict, Verdict::Degraded);
    assert_eq!(
        degraded.reasons,
        [concat!(
            "2 of 3 replicas of shards 1, 2 of keyspace \"0\" are live ",
            "(missing: 0000000000000003)"
        )]
    );
    shards.push(seen(3, None, &up));
    let failing = health(&shards, &up);
    assert_eq!(failing.verdict, Verdict::Failing);
    let first = &failing.reasons[0];
    assert!(first.starts_with("no leader of shard 3 of keyspace \"0\" for 2.5 s"), "{first}");
    assert_eq!(failing.reasons.len(), 2);
    assert_eq!(count(&shards, &[]).shards_without_leader, 1);
}

#[test]
fn replicas_that_disagree_or_have_ended_degrade() {
    let up = BTreeSet::from([1, 2, 3].map(NodeId));
    let mut shard = seen(1, Some(1), &up);
    let (agreeing, differing) = (Vec::new(), [1, 2].map(ReplicaId).to_vec());
    let finding = ReplicaComparison { shard: ShardId(1), index: 9, agreeing, differing };
    shard.report.as_mut().unwrap().finding = Some(finding);
    assert_eq!(shard.verdict(), Verdict::Degraded);
    let found = health(&[shard], &up);
    assert!(found.reasons[0].contains("no majority agrees"), "{found:?}");
    let mut shard = seen(1, Some(1), &up);
    shard.quarantined.push(ReplicaId(3));
    assert_eq!(shard.verdict(), Verdict::Degraded);
}

/// Votes may come from replicas that append nothing: a leader elected by them commits nothing.
#[test]
fn an_elected_leader_that_gets_nothing_done_fails_after_a_while() {
    let up = BTreeSet::from([1, 2, 3].map(NodeId));
    let mut shard = seen(4, Some(1), &up);
    let stall = |shard: &mut ShardView, nanos, leads| {
        let report = shard.report.as_mut().unwrap();
        (report.stalled_nanos, report.leads) = (nanos, leads);
    };
    stall(&mut shard, STALLED_NANOS - 1, false);
    assert_eq!(shard.verdict(), Verdict::Ok, "an election takes as long");
    // Not opened, or opened and stuck since: nothing is written either way.
    for leads in [false, true] {
        stall(&mut shard, 2 * STALLED_NANOS, leads);
        assert_eq!(shard.verdict(), Verdict::Failing);
        assert_eq!(count(std::slice::from_ref(&shard), &[]).shards_without_leader, 1);
    }
    let failing = health(&[shard], &up);
    let first = &failing.reasons[0];
    assert_eq!(failing.verdict, Verdict::Failing);
    let words = "this node leads shard 4 of keyspace \"0\", and has committed nothing there \
                 for 4.0 s";
    assert!(first.starts_with(words), "{first}");
    // Of a leader elsewhere nothing is known but that it was elected.
    let mut shard = seen(4, Some(2), &up);
    stall(&mut shard, 2 * STALLED_NANOS, false);
    assert_eq!(shard.verdict(), Verdict::Ok);
}

#[test]
fn a_voter_that_the_leader_cannot_count_on_degrades() {
    let up = BTreeSet::from([1, 2, 3].map(NodeId));
    let mut shard = seen(4, Some(1), &up);
    let lagging = LaggingReplica { replica: ReplicaId(3), lag: LagReason::AwaitsSnapshot };
    shard.behind.push(LaggingVoter { lagging, left_bytes: Some(3 << 20) });
    assert_eq!(shard.verdict(), Verdict::Degraded);
    let found = health(&[seen(2, Some(1), &up), shard], &up);
    assert_eq!(found.verdict, Verdict::Degraded);
    let [reason] = &found.reasons[..] else { panic!("{found:?}") };
    assert!(reason.contains("shard 4 (replica 3: about 3145728 bytes"), "{reason}");
}

#[test]
fn of_shards_elsewhere_nothing_is_claimed() {
    let up = BTreeSet::from([NodeId(1)]);
    let mut elsewhere = seen(1, None, &up);
    elsewhere.report = None;
    assert_eq!(elsewhere.verdict(), Verdict::Ok);
    assert_eq!(health(&[elsewhere], &up), Health::default());
}

#[test]
fn long_lists_are_cut_and_say_so() {
    let mut reasons = Reasons::default();
    (0..20).for_each(|n| reasons.add(Verdict::Degraded, n.to_string()));
    let health = reasons.finish();
    assert_eq!(health.reasons.len(), REASONS_MAX + 1);
    assert_eq!(health.reasons.last().unwrap(), "and 12 more");
    let up = BTreeSet::from([1, 2, 3].map(NodeId));
    let shards: Vec<ShardView> = (1..=9).map(|id| seen(id, None, &up)).collect();
    let named = named(Some("0"), &shards.iter().collect::<Vec<_>>());
    assert_eq!(named, "shards 1, 2, 3, 4, 5, 6 and 3 more of keyspace \"0\"");
}

#[test]
fn too_long_message_is_a_health_reason_for_a_minute() {
    let counters = [(NodeId(7), std::sync::Arc::new(PeerCounters::default()))];
    let health_at = |now_ms| {
        let mut reasons = Reasons::default();
        judge_messages(&counters, &[], now_ms, &mut reasons);
        reasons.finish()
    };
    assert_eq!(health_at(1_000_000).verdict, Verdict::Ok);
    counters[0].1.too_long_millis.set(1_000_000);
    let health = health_at(1_059_999);
    assert_eq!(health.verdict, Verdict::Degraded);
    assert!(health.reasons[0].contains("too long for 0000000000000007"), "{:?}", health.reasons);
    assert_eq!(health_at(1_060_000).verdict, Verdict::Ok);
}

/// While a node drains, others get new replicas of its shards.
#[test]
fn replica_that_waits_for_its_snapshot_raises_no_alarm() {
    let up = BTreeSet::from([1, 2, 3].map(NodeId));
    let blank = ShardView { live: 0, members: Members::default(), ..seen(1, Some(2), &up) };
    let learns = {
        let members =
            Members { learners: vec![ReplicaId(1)], ..Members::of_voters(&[2, 3].map(ReplicaId)) };
        ShardView { live: 2, members, ..seen(2, Some(2), &up) }
    };
    let shards = [blank, learns];
    assert_eq!(health(&shards, &up), Health::default());
    assert!(shards.iter().all(|shard| shard.verdict() == Verdict::Ok));
    assert_eq!(count(&shards, &[]).shards_under_replicated, 0);
    // One that is to go still votes.
    let members = Members { outgoing: vec![ReplicaId(1)], ..Members::of_voters(&[ReplicaId(2)]) };
    let leaving = ShardView { live: 1, members, ..seen(3, Some(2), &up) };
    assert!(leaving.is_under_replicated());
}
