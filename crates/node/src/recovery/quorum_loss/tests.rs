//! What survivors say, and the plan that follows.

use keyspace::codec::Reader;
use keyspace::{
    Cut, Descriptor, Generation, KeyHasher, KeyspaceId, NodeId, ReplicaId, ShardId, Timestamp,
};
use proptest::prelude::*;
use replication::{Change, Members};
use storage::engine::{Layout, MemoryEngine};
use storage::log::Lsn;

use super::*;
use crate::replica::state::ShardState;

const CLUSTER: u64 = 7;
const SHARD: ShardId = ShardId(3);

fn ids(list: &[u64]) -> Vec<ReplicaId> {
    list.iter().map(|id| ReplicaId(*id)).collect()
}

/// The ends of these slots.
fn ends(first: Slot, end: Slot) -> (Vec<u8>, Vec<u8>) {
    let arc = Arc::of_slots(KeyspaceId(1), first, end);
    (arc.start().tail().into(), arc.end().tail().into())
}

fn of_slots(first: Slot, end: Slot, remains: SurvivingReplica) -> SurvivingReplica {
    SurvivingReplica { slots: Some((first, end)), ends: ends(first, end), ..remains }
}

/// A replica, on the node of ten times its number, whose log ends at this term and index.
fn remains(replica: u64, voters: &[u64], last: (u64, u64)) -> SurvivingReplica {
    SurvivingReplica {
        replica: ReplicaId(replica),
        keyspace: KeyspaceId(1),
        slots: Some((0, 2048)),
        ends: ends(0, 2048),
        placed: voters.iter().map(|id| (ReplicaId(*id), NodeId(id * 10))).collect(),
        generation: Generation(replica),
        newest: ReplicaId(voters.iter().copied().max().unwrap_or(replica)),
        term: last.0,
        vote: 0,
        commit: last.1 - 1,
        applied: last.1 - 1,
        last,
        last_at: Timestamp::from_millis(last.1),
        members: Members::of_voters(&ids(voters)),
        changes: Vec::new(),
    }
}

/// A node with these replicas, and one of the catalogue, which has lost nothing.
fn survivor(replica: u64, shards: Vec<(ShardId, SurvivingReplica)>) -> Survivor {
    let named = Named {
        id: KeyspaceId(1),
        name: "orders".into(),
        shards: vec![(SHARD, Some((0, 2048))), (ShardId(4), Some((2048, 16384)))],
    };
    let next_ids = (KeyspaceId(2), ShardId(5));
    let system =
        SurvivingReplica { keyspace: KeyspaceId(0), ..remains(replica, &[replica], (1, 2)) };
    let whole = of_slots(2048, 16384, remains(replica, &[replica], (1, 2)));
    let rest = [(SYSTEM, system), (ShardId(4), whole)];
    Survivor {
        cluster: CLUSTER,
        node: NodeId(replica * 10),
        log_end: Lsn(64),
        replicas: rest.into_iter().chain(shards).collect(),
        ended: BTreeMap::new(),
        catalogue: Some(KeyspaceNames { next_ids, keyspaces: vec![named] }),
    }
}

fn with(replica: u64, voters: &[u64], last: (u64, u64)) -> Survivor {
    survivor(replica, vec![(SHARD, remains(replica, voters, last))])
}

/// The plan's only shard.
fn only(survivors: &[Survivor]) -> ShardRecovery {
    let plan = plan(survivors).expect("there is something to do");
    let [recovery] = &plan.shards[..] else { panic!("{plan:?}") };
    assert_eq!(recovery.shard.shard, SHARD);
    recovery.clone()
}

#[test]
fn newest_term_counts_before_longest_log() {
    let voters = [1, 2, 3, 4, 5];
    let recovery = only(&[with(1, &voters, (4, 90)), with(2, &voters, (5, 70))]);
    assert_eq!((recovery.record.replica, recovery.record.node), (ReplicaId(2), NodeId(20)));
    assert_eq!((recovery.record.index, recovery.committed), (70, 70));
    assert_eq!(recovery.removed, [(NodeId(10), ReplicaId(1))]);
    assert_eq!((recovery.voters, recovery.may_miss), ((2, 5), true));
    assert_eq!(recovery.record.term, 5 + LEAP);
    assert_eq!(recovery.record.generation, Generation(2 + LEAP));
    assert_eq!(recovery.record.newest, ReplicaId(5 + LEAP));
    let recovery = only(&[with(1, &voters, (5, 90)), with(2, &voters, (5, 70))]);
    assert_eq!((recovery.record.replica, recovery.committed), (ReplicaId(1), 89));
}

#[test]
fn shard_with_majority_is_not_recovered() {
    let two = [with(1, &[1, 2, 3], (4, 90)), with(2, &[1, 2, 3], (4, 90))];
    assert_eq!(plan(&two), Err(RecoveryRefused::Sound { shards: 3 }));
    // The plan lists the lost nodes.
    let one = plan(&two[..1]).expect("one of three");
    assert_eq!(one.lost, BTreeSet::from([NodeId(20), NodeId(30)]));
    assert_eq!((one.sound, one.lost_shards.len(), one.nameless.len()), (2, 0, 0));
}

/// Half of four is no majority, but neither could the others acknowledge anything.
#[test]
fn recovery_reports_no_loss_when_lost_voters_are_no_majority() {
    let voters = [1, 2, 3, 4];
    let recovery = only(&[with(1, &voters, (4, 90)), with(2, &voters, (4, 80))]);
    assert_eq!((recovery.voters, recovery.may_miss), ((2, 4), false));
}

/// A founder that has grown: what it has applied says that it is alone, its log says otherwise.
#[test]
fn changes_of_members_at_the_end_of_the_log_count() {
    let mut grown = remains(1, &[1], (2, 20));
    let mut members = grown.members.clone();
    let (promote, remove) = (ids(&[2, 3]), Vec::new());
    let changes = [
        Change::AddLearners(ids(&[2, 3])),
        Change::LeaveJoint,
        Change::EnterJoint { promote, remove },
        Change::LeaveJoint,
    ];
    for (change, index) in changes.iter().zip(5..) {
        members = members.after(change);
        grown.changes.push((index, members.clone()));
    }
    (grown.applied, grown.commit) = (4, 4);
    let alone = |remains: &SurvivingReplica| survivor(1, vec![(SHARD, remains.clone())]);
    let recovery = only(&[alone(&grown)]);
    assert_eq!((recovery.voters, recovery.may_miss), ((1, 3), true));
    assert_eq!((recovery.committed, recovery.record.index), (4, 20));
    // It became alone again, and knows that this is in force, or does not.
    let remove = ids(&[2, 3]);
    for (change, index) in
        [Change::EnterJoint { promote: Vec::new(), remove }, Change::LeaveJoint].iter().zip(9..)
    {
        members = members.after(change);
        grown.changes.push((index, members.clone()));
    }
    assert_eq!(only(&[alone(&grown)]).voters, (1, 1));
    grown.commit = 10;
    assert_eq!(plan(&[alone(&grown)]), Err(RecoveryRefused::Sound { shards: 3 }));
}

#[test]
fn replica_awaiting_snapshot_cannot_be_recovered_from() {
    let mut empty = remains(4, &[], (1, 1));
    (empty.applied, empty.commit, empty.last) = (0, 0, (0, 0));
    let waits = survivor(4, vec![(SHARD, empty)]);
    let found = plan(std::slice::from_ref(&waits)).expect("nothing is left of it");
    assert_eq!(found.lost_shards.iter().map(|lost| lost.shard).collect::<Vec<_>>(), [SHARD]);
    assert!(found.shards.is_empty());
    let recovery = only(&[waits, with(1, &[1, 2, 3], (4, 90))]);
    assert_eq!(recovery.record.replica, ReplicaId(1));
    assert_eq!(recovery.removed, [(NodeId(40), ReplicaId(4))]);
}

#[test]
fn recovery_plan_refuses_inconsistent_survivors() {
    let one = with(1, &[1, 2, 3], (4, 90));
    assert_eq!(plan(&[]), Err(RecoveryRefused::Nobody));
    assert_eq!(plan(&[one.clone(), one.clone()]), Err(RecoveryRefused::Twice { node: NodeId(10) }));
    let other = Survivor { cluster: 8, ..with(2, &[1, 2, 3], (4, 90)) };
    let refused = plan(&[one.clone(), other]);
    assert_eq!(
        refused,
        Err(RecoveryRefused::Clusters { node: NodeId(20), cluster: 8, other: CLUSTER })
    );
    let mut without = one;
    without.replicas.remove(&SYSTEM);
    without.catalogue = None;
    assert_eq!(plan(&[without]), Err(RecoveryRefused::NoCatalogue));
}

/// Shard 3 has taken 4 in: that nothing is left of 4 is no loss.
#[test]
fn absorbed_shard_is_not_reported_lost() {
    let left = of_slots(0, 16384, remains(1, &[1], (4, 90)));
    let mut one = survivor(1, vec![(SHARD, left)]);
    one.replicas.remove(&ShardId(4));
    assert_eq!(plan(&[one]), Err(RecoveryRefused::Sound { shards: 2 }));
}

/// A node that was away has a replica of 4 from before 3 took it in. Nobody else has one any more.
/// If it went on, it would take its keys back, and what 3 acknowledged since would be lost.
#[test]
fn replica_older_than_merge_does_not_recover() {
    let left = SurvivingReplica { generation: Generation(8), ..remains(1, &[1, 2, 3], (4, 90)) };
    let left = of_slots(0, 16384, left);
    let before = of_slots(2048, 16384, remains(5, &[1, 2, 5], (3, 40)));
    let mut away = survivor(5, vec![(ShardId(4), before)]);
    away.replicas.remove(&SHARD);
    let mut nodes = vec![away];
    for replica in [1, 2, 3] {
        let mut node = survivor(replica, vec![(SHARD, left.clone())]);
        node.replicas.get_mut(&SHARD).expect("the survivor has a replica").replica =
            ReplicaId(replica);
        node.replicas.remove(&ShardId(4));
        nodes.push(node);
    }
    let system = nodes[0].replicas.get_mut(&SYSTEM).expect("the replica exists");
    system.members = Members::of_voters(&ids(&[5, 6, 7]));
    (system.last, system.term) = ((9, 9), 9);
    let found = plan(&nodes).expect("the catalogue has lost its majority");
    let on: Vec<_> = found.shards.iter().map(|recovery| recovery.shard.shard).collect();
    assert_eq!((on, found.lost_shards.len(), found.sound), (vec![SYSTEM], 0, 1), "{found:?}");
}

/// What these say of the parts of shard 3, of which three more are elsewhere: each is its shard,
/// replica, slots and generation. Shards that are not 3 are sound.
fn parts(parts: &[(u64, u64, (Slot, Slot), u64)]) -> Vec<Survivor> {
    let node = |(shard, replica, (first, end), generation): &(u64, u64, (Slot, Slot), u64)| {
        let voters = if ShardId(*shard) == SHARD { vec![*replica, 91, 92] } else { vec![*replica] };
        let left = of_slots(*first, *end, remains(*replica, &voters, (4, 90)));
        let left = SurvivingReplica { generation: Generation(*generation), ..left };
        let mut node = survivor(*replica, Vec::new());
        node.replicas.remove(&ShardId(4));
        node.replicas.insert(ShardId(*shard), left);
        node
    };
    parts.iter().map(node).collect()
}

/// A was split after it was last on node 30; its right half is elsewhere, and sound. If A went on
/// with all that it had, tables of shards would forget the right half.
#[test]
fn replica_older_than_split_does_not_recover_right_half() {
    let old = (3, 3, (0, 16384), 5);
    let found = only(&parts(&[old, (9, 4, (8000, 16384), 6)]));
    assert_eq!((found.record.node, &found.record.cut), (NodeId(30), &Some(Cut::Slot(8000))));
    // The half was split again, its right half has absorbed others and was moved.
    let halves = [(10, 5, (12000, 16384), 31), old, (9, 4, (8000, 12000), 7)];
    assert_eq!(only(&parts(&halves)).record.cut, Some(Cut::Slot(8000)));
    // The half is older: it was absorbed again.
    let found = only(&parts(&[(3, 3, (0, 16384), 7), (9, 4, (8000, 16384), 6)]));
    assert_eq!(found.record.cut, None);
    // Others that are newer are elsewhere.
    let found = only(&parts(&[(3, 3, (0, 8000), 5), (9, 4, (8000, 16384), 6)]));
    assert_eq!(found.record.cut, None);
}

/// Nothing is left of one of the parts: whichever way it went on, something would be lost.
#[test]
fn shard_with_missing_part_is_refused() {
    let old = (3, 3, (0, 16384), 5);
    for newer in [(8000, 12000), (8000, 16383)] {
        let refused = plan(&parts(&[old, (9, 4, newer, 7)]));
        let (shard, node, newer) = (SHARD, NodeId(30), vec![ShardId(9)]);
        assert_eq!(refused, Err(RecoveryRefused::SplitSince { shard, node, newer }));
    }
    let refused = plan(&parts(&[old, (9, 4, (8000, 9000), 7), (10, 5, (9001, 16384), 7)]));
    let Err(why @ RecoveryRefused::SplitSince { .. }) = refused else { panic!("{refused:?}") };
    let words = "shard 3 was split after the newest replica that is left of it";
    assert!(why.to_string().contains(words) && why.to_string().contains("shard 9, shard 10"));
}

/// The old leader of 3 counts a change that was never committed, so its generation is that of the
/// half that was split off after all.
#[test]
fn right_half_keeps_its_keys_at_equal_generation() {
    let found = only(&parts(&[(3, 3, (0, 16384), 6), (9, 4, (8000, 16384), 6)]));
    assert_eq!(found.record.cut, Some(Cut::Slot(8000)));
}

/// A plan was carried out on replica 1 alone. Then the disk of 3 turns up, whose log is longer: it
/// is no majority of its own members, for 1 is the sole voter of its own.
#[test]
fn longer_log_that_turns_up_after_recovery_goes_on() {
    let mut first = with(1, &[1, 2, 3], (4, 60));
    let record = only(&[first.clone()]).record;
    let one = first.replicas.get_mut(&SHARD).expect("the survivor has a replica");
    (one.members, one.generation) = (Members::of_voters(&ids(&[1])), record.generation);
    let third = with(3, &[1, 2, 3], (4, 90));
    let again = only(&[first, third]);
    assert_eq!((again.record.node, again.record.index), (NodeId(30), 90));
    assert!(again.record.generation > record.generation, "{again:?}");
    assert_eq!(again.removed, [(NodeId(10), ReplicaId(1))]);
}

/// A replica that ends has not heard of a split that the shard has: the record of its end has the
/// shard's arc, or no replica of the right half could begin there.
#[test]
fn end_of_lagging_replica_claims_no_place_of_right_half() {
    let half = Generation(4);
    let plan = parts(&[(3, 3, (0, 8000), 5)]);
    let recovery = only(&plan);
    assert_eq!((&recovery.record.cut, &recovery.end), (&None, &Some(Cut::Slot(8000))));
    let hasher = KeyHasher::new([7; 16]);
    let descriptor = Descriptor {
        shard: SHARD,
        arc: Arc::of_slots(KeyspaceId(1), 0, 16384),
        replicas: vec![(ReplicaId(1), NodeId(10))],
        generation: half,
        leader: None,
    };
    let layout = Layout::Hashed { first_slot: 0, end_slot: 16384 };
    let engine = MemoryEngine::new(layout, hasher);
    let state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
    let lagging = RecoveringReplica::created(SHARD, NodeId(10), &state.bootstrap_record(), hasher)
        .expect("its own record");
    let bytes = end_of(&lagging, &recovery);
    // Behind the replica's id and the placement.
    let end = Descriptor::decode(&mut Reader::new(&bytes[9..])).expect("a descriptor");
    assert_eq!(end.arc, Arc::of_slots(KeyspaceId(1), 0, 8000));
}

/// One of linear hashing is a bucket, and can be halved and not cut elsewhere.
#[test]
fn linear_hash_bucket_is_halved_and_not_cut_elsewhere() {
    let quarters = |first: u64| {
        let mut left = parts(&[(3, 3, (0, 16384), 5), (9, 4, (8000, 16384), 7)]);
        for (node, shard, ends) in [(0, SHARD, (0, 0)), (1, ShardId(9), (first << 62, 0))] {
            let [start, end] = <[u64; 2]>::from(ends)
                .map(|at| keyspace::linear_hash::position_of(KeyspaceId(1), at).tail().into());
            let one = left[node].replicas.get_mut(&shard).expect("the survivor has a replica");
            (one.ends, one.slots) = ((start, end), None);
        }
        left
    };
    assert_eq!(only(&quarters(1)).record.cut, Some(Cut::Number(1 << 62)));
    assert_eq!(only(&quarters(2)).record.cut, Some(Cut::Number(1 << 63)));
    assert!(matches!(plan(&quarters(3)), Err(RecoveryRefused::SplitSince { .. })));
}

/// The catalogue has forgotten the newest keyspace: its ids are not given out again.
#[test]
fn ids_of_a_forgotten_keyspace_are_passed_over() {
    let late = SurvivingReplica { keyspace: KeyspaceId(6), ..remains(1, &[1, 2, 3], (4, 90)) };
    let dropped = SurvivingReplica { keyspace: KeyspaceId(1), ..remains(1, &[1, 2, 3], (4, 90)) };
    let mut one = survivor(1, vec![(SHARD, dropped), (ShardId(44), late)]);
    let system = one.replicas.get_mut(&SYSTEM).expect("the replica exists");
    system.members = Members::of_voters(&ids(&[1, 2, 3]));
    one.catalogue.as_mut().expect("the survivor has a catalogue").keyspaces.clear();
    let found = plan(&[one]).expect("the catalogue has lost its majority");
    assert_eq!(found.nameless, [ShardId(44)]);
    let [recovery] = &found.shards[..] else { panic!("{found:?}") };
    assert_eq!(recovery.shard, LostShard { shard: SYSTEM, keyspace: None, slots: Some((0, 2048)) });
    assert_eq!(recovery.record.next_ids, (KeyspaceId(7), ShardId(45 + LEAP)));
}

/// The catalogue has forgotten that it gave ids out for halves of shards of a keyspace that it
/// knows. A right half under such an id would not begin where another shard has it, or had it.
#[test]
fn ids_of_forgotten_halves_are_passed_over() {
    let half = remains(1, &[1], (4, 90));
    let mut one = survivor(1, vec![(SHARD, half.clone()), (ShardId(44), half)]);
    let system = one.replicas.get_mut(&SYSTEM).expect("the replica exists");
    system.members = Members::of_voters(&ids(&[1, 2, 3]));
    one.ended.insert(ShardId(50), (ReplicaId(1), true));
    let found = plan(&[one]).expect("the catalogue has lost its majority");
    assert!(found.nameless.is_empty(), "{found:?}");
    let [recovery] = &found.shards[..] else { panic!("{found:?}") };
    let (keyspace, shard) = recovery.record.next_ids;
    assert_eq!((recovery.shard.shard, keyspace), (SYSTEM, KeyspaceId(2)));
    assert!(shard > ShardId(50), "{shard}");
    assert_eq!(shard, ShardId(51 + LEAP), "those that nobody has who is left, too");
}

proptest! {
    /// Nobody who is left has more, and the order does not matter.
    #[test]
    fn replica_with_most_entries_is_chosen_in_any_order(
        logs in prop::collection::vec((1..4u64, 2..6u64), 1..4),
        turned in 0..4usize,
    ) {
        let voters: Vec<u64> = (1..=7).collect();
        let mut left: Vec<Survivor> =
            logs.iter().zip(1..).map(|(last, replica)| with(replica, &voters, *last)).collect();
        let found = plan(&left).expect("fewer than four of seven");
        let record = &found.shards[0].record;
        let fullest = logs.iter().max().expect("one at least");
        prop_assert_eq!(logs[record.replica.0 as usize - 1], *fullest);
        prop_assert!(found.shards[0].committed <= record.index);
        let by = turned % left.len();
        left.rotate_left(by);
        let again = plan(&left).expect("the same");
        prop_assert_eq!(&again.shards[0].record, record);
    }
}
