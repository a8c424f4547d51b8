//! Groups of several replicas under a bad network, crashes, lost tails and pauses.
//!
//! Every message goes through its bytes. The tests check all the time (SAFETY G4 to G6):
//!
//! - A term has one leader.
//! - All replicas apply the same entries, and none of them changes.
//! - Entries that a majority has acknowledged as durable are never lost.
//! - A replica that holds a lease is the only leader; it has applied, or will before it answers,
//!   all entries that were ever committed.
//!
//! After the faults end, all replicas agree again soon.

mod world;

use keyspace::ReplicaId;
use replication::{
    Change, Entry, Group, HardState, Members, RejectedMessage, StartContext, StartState,
};

use world::{ADD, ENTER, MILLI, World, ids};

fn live_through(seed: u64, count: u64) -> [u64; 4] {
    let voters: Vec<u64> = (1..=count).collect();
    let mut world = World::new(seed, &voters, &[]);
    for _ in 0..2_500 {
        world.step();
    }
    world.heal();
    let (began, before) = (world.now, world.log.len());
    while world.now < began + 4_000 * MILLI {
        world.step();
    }
    assert!(world.log.len() > before + 20, "no progress after the faults ended");
    let leader = world.leader().expect("somebody leads");
    // A leader that has begun a transfer has no lease, but its followers still confirm it.
    let confirmed = leader.confirmed_at() + 400 * MILLI > world.now;
    assert!(confirmed, "no majority follows after the faults ended");
    let applied: Vec<u64> = world.replicas.values().map(|replica| replica.disk.applied).collect();
    let newest = world.log.len() as u64 + 1;
    assert!(applied.iter().all(|index| index + 50 > newest), "{applied:?} of {newest}");
    world.stats
}

#[test]
fn groups_of_three_and_five_keep_raft_invariants() {
    let mut sums = [0; 4];
    for seed in 0..150 {
        let count = if seed % 3 == 0 { 5 } else { 3 };
        let stats = live_through(seed, count);
        sums.iter_mut().zip(stats).for_each(|(sum, n)| *sum += n);
    }
    let [crashes, snapshots, leases, rests] = sums;
    let enough = crashes > 100 && snapshots > 10 && leases > 1_000 && rests > 1_000;
    assert!(enough, "too little happened: {sums:?}");
}

#[test]
fn equal_seeds_give_equal_runs() {
    let life = |seed| {
        let mut world = World::new(seed, &[1, 2, 3], &[]);
        (0..800).for_each(|_| world.step());
        (world.now, world.log, world.leaders, world.network)
    };
    assert!(life(5) == life(5));
}

/// SAFETY G20: a lone replica becomes three, in one joint change, under faults.
#[test]
fn group_grows_from_one_to_three_in_one_joint_change() {
    for seed in 0..40 {
        let mut world = World::new(seed, &[1], &[2, 3]);
        for round in 0..6_000 {
            world.step();
            if round == 3_000 {
                world.heal();
            }
            if round % 40 != 0 {
                continue;
            }
            let Some(leader) = world.leader() else { continue };
            let (members, last) = (leader.members().clone(), leader.last_index());
            let near = |id: &ReplicaId| {
                leader.progress().iter().any(|(other, at)| other == id && at + 30 > last)
            };
            if members.is_sole(ReplicaId(1)) {
                world.propose_change(&ADD());
            } else if members.is_joint() {
                world.propose_change(&Change::LeaveJoint);
            } else if members.learners.len() == 2 && members.learners.iter().all(near) {
                world.propose_change(&ENTER());
            }
        }
        let leader = world.leader().expect("somebody leads");
        assert_eq!(*leader.members(), Members::of_voters(&ids(&[1, 2, 3])), "seed {seed}");
        for replica in world.replicas.values() {
            assert_eq!(replica.disk.members, *leader.members(), "seed {seed}");
        }
    }
}

/// A replica whose disk has lost acknowledged entries is told, and does not vote them away.
#[test]
fn replica_detects_its_lost_entries() {
    let mut world = World::new(3, &[1, 2, 3], &[]);
    world.faults = false;
    (0..1_500).for_each(|_| world.step());
    let leader = world.leader().expect("somebody leads");
    let (id, follower) = world
        .replicas
        .iter()
        .find(|(_, replica)| replica.group.as_ref().is_some_and(|group| !group.is_leader()))
        .expect("a follower");
    let disk = follower.disk.clone();
    assert!(leader.committed() > 20 && disk.applied > 20);
    let start = StartState {
        hard_state: HardState { commit: 5, ..disk.hard_state },
        before: (1, 1),
        entries: world
            .log
            .iter()
            .take(5)
            .map(|(index, data)| Entry::new(*index, 1, data.clone(), false))
            .collect(),
        applied: 5,
    };
    let boot = StartContext { now: world.now, started: world.now, seed: 7 };
    let mut forgetful = Group::new(*id, &disk.members, start, &world.limits, boot);
    let id = *id;
    let mut refused = None;
    for _ in 0..400 {
        world.replicas.get_mut(&id).unwrap().inbox.clear();
        world.replicas.get_mut(&id).unwrap().paused_until = u64::MAX;
        world.step();
        let inbox = std::mem::take(&mut world.replicas.get_mut(&id).unwrap().inbox);
        for message in inbox {
            if let Err(why @ RejectedMessage::LostLog { .. }) = forgetful.step(message, world.now) {
                refused = Some(why);
            }
        }
    }
    assert!(refused.is_some(), "nothing was noticed");
}

/// Three replicas without faults: who leads, and the two others, whose logs are as long.
fn led_and_idle(seed: u64) -> (World, ReplicaId, [ReplicaId; 2]) {
    let mut world = World::new(seed, &[1, 2, 3], &[]);
    world.faults = false;
    (0..1_000).for_each(|_| world.step());
    world.idle = true;
    (0..100).for_each(|_| world.step());
    let leader = *world.leaders.values().next_back().expect("somebody leads");
    let mut others = ids(&[1, 2, 3]);
    others.retain(|id| *id != leader);
    (world, leader, [others[0], others[1]])
}

/// SAFETY G4: a voter that renewed a lease is killed and back at once, again and again. While it
/// may have forgotten its word it elects nobody, although somebody stands all the time.
#[test]
fn restarts_break_no_lease() {
    for seed in 0..30 {
        let (mut world, leader, [voter, stranger]) = led_and_idle(seed);
        world.cut = vec![(leader, stranger), (stranger, leader)];
        for _ in 0..3_000 {
            world.step();
            if world.dice.one_in(6) {
                world.replicas.get_mut(&voter).unwrap().write();
                world.start(voter);
            }
        }
    }
}

/// SAFETY G5: many ticks in a row after a pause release no voter from its promise to the leader;
/// only time does. One voter campaigns, the other's election timeout is about to end.
#[test]
fn burst_of_ticks_releases_no_voter() {
    for seed in 0..10 {
        let (mut world, leader, others) = led_and_idle(seed);
        world.network.clear();
        let now = world.now;
        let lease = world.group(leader).lease_until();
        assert!(lease > now);
        for (id, burst) in others.into_iter().zip([40, 12]) {
            let group = world.replicas.get_mut(&id).unwrap().group.as_mut().unwrap();
            (0..burst).for_each(|_| _ = group.tick(now));
            world.cut.push((leader, id));
        }
        let led = |world: &World| others.iter().any(|id| world.group(*id).is_leader());
        while world.now < lease {
            world.step();
            assert!(!led(&world), "another leads at {}, before {lease}", world.now);
        }
        while !led(&world) {
            world.step();
            assert!(world.now < lease + 5_000 * MILLI, "nobody took over");
        }
    }
}
