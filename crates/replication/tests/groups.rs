//! Groups of several replicas under a bad network, crashes, lost tails and pauses.
//!
//! Every message goes through its bytes. Checked all the time: one leader per term; what is applied
//! is the same everywhere and never changes; what a majority has acknowledged as durable is never
//! lost; and whoever holds a lease leads alone and has applied, or will before it answers, all that
//! was ever committed (SAFETY G4 to G6). After the faults end, everyone agrees again soon.

use std::collections::BTreeMap;

use bytes::Bytes;
use keyspace::ReplicaId;
use replication::{
    Boot, Change, Entry, Group, HardState, Limits, Members, Message, MessageKind, Refused, Start,
};

const TICK: u64 = 50_000_000;
const MILLI: u64 = 1_000_000;

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What a replica's disk holds, as far as it is synced.
#[derive(Clone, Default)]
struct Disk {
    hard_state: HardState,
    entries: Vec<Entry>,
    before: (u64, u64),
    applied: u64,
    members: Members,
    /// All that was ever applied, which is the state machine.
    state: Vec<Bytes>,
}

impl Disk {
    fn append(&mut self, entries: &[Entry]) {
        for entry in entries {
            while self.entries.last().is_some_and(|last| last.index >= entry.index) {
                self.entries.pop();
            }
            self.entries.push(entry.clone());
        }
    }

    fn start(&self) -> Start {
        let mut hard_state = self.hard_state;
        hard_state.commit = hard_state.commit.max(self.applied);
        let entries = self.entries.iter().filter(|e| e.index > self.before.0).cloned().collect();
        Start { hard_state, before: self.before, entries, applied: self.applied }
    }
}

/// Work that was handed out and is not synced yet.
struct Unsynced {
    number: u64,
    entries: Vec<Entry>,
    hard_state: Option<HardState>,
}

struct Replica {
    group: Option<Group>,
    disk: Disk,
    unsynced: Vec<Unsynced>,
    paused_until: u64,
    next_tick: u64,
    inbox: Vec<Message>,
}

struct World {
    dice: Dice,
    now: u64,
    limits: Limits,
    replicas: BTreeMap<ReplicaId, Replica>,
    /// On their way: when they arrive, and what.
    network: Vec<(u64, Bytes)>,
    /// One direction each.
    cut: Vec<(ReplicaId, ReplicaId)>,
    faults: bool,
    /// Nothing is proposed, so that every log is as long as the leader's.
    idle: bool,
    /// How often each fault comes, per 1 000 steps.
    mood: [u64; 5],
    leaders: BTreeMap<u64, ReplicaId>,
    /// What was applied at each index, anywhere.
    log: BTreeMap<u64, Bytes>,
    proposed: u64,
    stats: [u64; 4],
}

fn ids(numbers: &[u64]) -> Vec<ReplicaId> {
    numbers.iter().map(|number| ReplicaId(*number)).collect()
}

/// A description of a change: what the state machine would store.
fn describe(change: &Change) -> Vec<u8> {
    format!("{change:?}").into_bytes()
}

const ADD: fn() -> Change = || Change::AddLearners(ids(&[2, 3]));
const ENTER: fn() -> Change = || Change::Enter { promote: ids(&[2, 3]), remove: vec![] };

impl World {
    fn new(seed: u64, voters: &[u64], empty: &[u64]) -> Self {
        let limits = Limits { kept_bytes: 200, kept_for_followers_bytes: 800, ..Limits::default() };
        let mut world = World {
            dice: Dice(seed),
            now: 1_000 * MILLI,
            limits,
            replicas: BTreeMap::new(),
            network: Vec::new(),
            cut: Vec::new(),
            faults: true,
            idle: false,
            mood: [0; 5],
            leaders: BTreeMap::new(),
            log: BTreeMap::new(),
            proposed: 0,
            stats: [0; 4],
        };
        for rate in &mut world.mood {
            *rate = [1, 4, 15][world.dice.below(3) as usize];
        }
        for id in voters.iter().chain(empty) {
            let mut disk = Disk::default();
            if voters.contains(id) {
                // A shard is born with an entry before its first, so that replicas which come later
                // begin with a snapshot and never without members.
                disk.members = Members::of_voters(&ids(voters));
                disk.hard_state = HardState { term: 1, vote: 0, commit: 1 };
                (disk.before, disk.applied) = ((1, 1), 1);
            }
            let replica = Replica {
                group: None,
                disk,
                unsynced: Vec::new(),
                paused_until: 0,
                next_tick: 0,
                inbox: Vec::new(),
            };
            world.replicas.insert(ReplicaId(*id), replica);
            world.start(ReplicaId(*id));
        }
        world
    }

    fn start(&mut self, id: ReplicaId) {
        let boot = Boot { now: self.now, seed: 7 };
        let replica = self.replicas.get_mut(&id).unwrap();
        let (start, members) = (replica.disk.start(), replica.disk.members.clone());
        replica.group = Some(Group::new(id, &members, start, &self.limits, boot));
        replica.next_tick = self.now + self.dice.below(TICK);
        if members.is_sole(id) {
            replica.group.as_mut().unwrap().campaign();
        }
    }

    fn step(&mut self) {
        self.now += self.dice.below(4 * MILLI);
        if self.faults {
            self.break_something();
        }
        self.arrive();
        let all: Vec<ReplicaId> = self.replicas.keys().copied().collect();
        for id in all {
            self.run(id);
        }
        self.check_leases();
    }

    fn break_something(&mut self) {
        let all: Vec<ReplicaId> = self.replicas.keys().copied().collect();
        let victim = all[self.dice.below(all.len() as u64) as usize];
        let other = all[self.dice.below(all.len() as u64) as usize];
        let Some(fault) = self.mood.iter().position(|rate| self.dice.below(1_000) < *rate) else {
            return;
        };
        match fault {
            // Kill -9: what is written survives. Power: what is not synced is lost.
            0 => {
                let lost = self.dice.one_in(2);
                let replica = self.replicas.get_mut(&victim).unwrap();
                for work in replica.unsynced.drain(..) {
                    if !lost {
                        replica.disk.append(&work.entries);
                        replica.disk.hard_state =
                            work.hard_state.unwrap_or(replica.disk.hard_state);
                    }
                }
                replica.inbox.clear();
                replica.group = None;
                let long = if self.dice.one_in(4) { 400 } else { 20 };
                replica.paused_until = self.now + self.dice.below(long) * MILLI;
                self.stats[0] += 1;
            }
            1 => {
                let replica = self.replicas.get_mut(&victim).unwrap();
                replica.paused_until = self.now + self.dice.below(2_000) * MILLI;
            }
            2 if victim != other => self.cut.push((victim, other)),
            3 => self.cut.clear(),
            4 => {
                let heir = other;
                if let Some(group) = &mut self.replicas.get_mut(&victim).unwrap().group {
                    group.transfer(heir);
                }
            }
            _ => {}
        }
    }

    fn arrive(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = self.network.drain(..).partition(|(at, _)| *at <= now);
        self.network = later;
        for (_, bytes) in due {
            let message = Message::decode(bytes).expect("what was encoded is decoded");
            self.replicas.get_mut(&message.to()).unwrap().inbox.push(message);
        }
    }

    fn run(&mut self, id: ReplicaId) {
        let now = self.now;
        if self.replicas[&id].paused_until > now {
            return;
        }
        if self.replicas[&id].group.is_none() {
            self.start(id);
        }
        let replica = self.replicas.get_mut(&id).unwrap();
        let inbox = std::mem::take(&mut replica.inbox);
        for message in inbox {
            self.handle(id, message);
        }
        let replica = self.replicas.get_mut(&id).unwrap();
        let group = replica.group.as_mut().unwrap();
        if replica.next_tick <= now {
            // Missed ticks are not made up.
            replica.next_tick = now + TICK;
            group.tick(now);
            if self.dice.one_in(20) {
                // Whoever sends a snapshot gives up after a while.
                group.progress().iter().for_each(|(to, _)| group.snapshot_sent(*to, false));
            }
        }
        group.observe(now);
        if group.is_leader() && !self.idle && self.dice.one_in(6) {
            self.proposed += 1;
            let data = format!("command {:08} {}", self.proposed, "x".repeat(20)).into_bytes();
            let _dropped_in_a_transfer = group.propose(data);
        }
        self.work(id);
    }

    fn handle(&mut self, id: ReplicaId, message: Message) {
        let from = message.from();
        if let Some((index, term)) = message.snapshot() {
            // The state travels beside the message; here it is taken from whoever has applied it.
            let source = &self.replicas[&from].disk;
            let replica = &self.replicas[&id];
            let group = replica.group.as_ref().unwrap();
            if !group.wants(&message) || source.applied < index {
                return;
            }
            let mut state = source.state.clone();
            state.truncate((index - 1) as usize);
            let replica = self.replicas.get_mut(&id).unwrap();
            replica.unsynced.clear();
            replica.disk.state = state;
            replica.disk.entries.clear();
            (replica.disk.before, replica.disk.applied) = ((index, term), index);
            replica.disk.hard_state.commit = index;
            let group = replica.group.as_mut().unwrap();
            group.step(message, self.now).expect("a sound head");
            assert_eq!(group.last_index(), index, "a head that was wanted was not taken");
            self.stats[1] += 1;
            if let Some(sender) = &mut self.replicas.get_mut(&from).unwrap().group {
                sender.snapshot_sent(id, true);
            }
            return;
        }
        let group = self.replicas.get_mut(&id).unwrap().group.as_mut().unwrap();
        match group.step(message, self.now) {
            Ok(()) => {}
            Err(refused) => panic!("replica {id:?} refuses {from:?}: {refused}"),
        }
    }

    fn work(&mut self, id: ReplicaId) {
        let slow = self.faults && self.dice.one_in(3);
        let replica = self.replicas.get_mut(&id).unwrap();
        let group = replica.group.as_mut().unwrap();
        loop {
            // The disk syncs when it pleases, in order.
            if !slow {
                for work in replica.unsynced.drain(..) {
                    replica.disk.append(&work.entries);
                    replica.disk.hard_state = work.hard_state.unwrap_or(replica.disk.hard_state);
                    group.persisted(work.number);
                }
            }
            let Some(work) = group.ready() else { break };
            if work.restored.is_some() {
                replica.disk.members = group.members().clone();
            }
            for entry in &work.committed {
                let seen = self.log.entry(entry.index).or_insert_with(|| entry.data.clone());
                assert_eq!(*seen, entry.data, "two entries were applied at {}", entry.index);
                assert_eq!(replica.disk.applied + 1, entry.index, "a gap in what is applied");
                if entry.is_change {
                    for change in [ADD(), ENTER(), Change::Leave] {
                        if describe(&change) == entry.data {
                            replica.disk.members = group.change(&change).clone();
                        }
                    }
                }
                replica.disk.state.push(entry.data.clone());
                replica.disk.applied = entry.index;
                replica.disk.hard_state.commit = replica.disk.hard_state.commit.max(entry.index);
                group.applied(entry.index);
            }
            let Unsynced { number, entries, hard_state } = Unsynced {
                number: work.number,
                entries: work.entries,
                hard_state: work.hard_state,
            };
            replica.unsynced.push(Unsynced { number, entries, hard_state });
        }
        if group.is_leader() {
            let other = self.leaders.entry(group.term()).or_insert(id);
            assert_eq!(*other, id, "two leaders in term {}", group.term());
        }
        let mut messages = Vec::new();
        group.take_messages(&mut messages);
        for message in messages {
            self.send(message);
        }
    }

    fn send(&mut self, message: Message) {
        let link = (message.from(), message.to());
        if self.cut.contains(&link) || (self.faults && self.dice.one_in(25)) {
            if message.kind() == Some(MessageKind::Snapshot) {
                let sender = self.replicas.get_mut(&link.0).unwrap().group.as_mut().unwrap();
                sender.snapshot_sent(link.1, false);
            }
            return;
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let bytes = Bytes::from(bytes);
        let copies = if self.faults && self.dice.one_in(30) { 2 } else { 1 };
        for _ in 0..copies {
            let far = self.faults && self.dice.one_in(20);
            let delay = self.dice.below(if far { 700 } else { 8 }) * MILLI;
            self.network.push((self.now + delay, bytes.clone()));
        }
    }

    /// Whoever could answer a read by his lease leads alone, and its log holds all that was ever
    /// applied anywhere.
    fn check_leases(&mut self) {
        let newest = self.log.keys().next_back().copied().unwrap_or(0);
        let mut holders = Vec::new();
        for (id, replica) in &self.replicas {
            // A paused process may wake between its check and its answer at any time.
            let Some(group) = &replica.group else { continue };
            if group.is_leader() && group.lease_until() > self.now {
                holders.push((*id, group.term(), group.last_index()));
            }
        }
        assert!(holders.len() <= 1, "two leases at {}: {holders:?}", self.now);
        if let Some((_, _, last)) = holders.first() {
            assert!(*last >= newest, "a lease without entry {newest}: {holders:?}");
            self.stats[2] += 1;
        }
    }

    fn heal(&mut self) {
        self.faults = false;
        self.cut.clear();
        for replica in self.replicas.values_mut() {
            replica.paused_until = self.now;
        }
    }

    fn leader(&self) -> Option<&Group> {
        let groups = self.replicas.values().filter_map(|replica| replica.group.as_ref());
        groups.filter(|group| group.is_leader()).max_by_key(|group| group.term())
    }

    fn propose_change(&mut self, change: &Change) {
        for replica in self.replicas.values_mut() {
            if let Some(group) = &mut replica.group
                && group.is_leader()
            {
                let _tried_again = group.propose_change(change, describe(change));
            }
        }
    }
}

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
    // Whoever has once begun to hand over has no lease, but is confirmed all the same.
    let confirmed = leader.confirmed_at() + 400 * MILLI > world.now;
    assert!(confirmed, "no majority follows after the faults ended");
    let applied: Vec<u64> = world.replicas.values().map(|replica| replica.disk.applied).collect();
    let newest = world.log.len() as u64 + 1;
    assert!(applied.iter().all(|index| index + 50 > newest), "{applied:?} of {newest}");
    world.stats
}

#[test]
fn groups_of_three_and_five_keep_their_word() {
    let mut sums = [0; 4];
    for seed in 0..150 {
        let count = if seed % 3 == 0 { 5 } else { 3 };
        let stats = live_through(seed, count);
        sums.iter_mut().zip(stats).for_each(|(sum, n)| *sum += n);
    }
    assert!(sums[0] > 100 && sums[1] > 10 && sums[2] > 1_000, "too little happened: {sums:?}");
}

#[test]
fn equal_seeds_live_equal_lives() {
    let life = |seed| {
        let mut world = World::new(seed, &[1, 2, 3], &[]);
        (0..800).for_each(|_| world.step());
        (world.now, world.log, world.leaders, world.network)
    };
    assert!(life(5) == life(5));
}

/// SAFETY G20: a lone replica becomes three, in one joint change, under faults.
#[test]
fn one_becomes_three() {
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
                world.propose_change(&Change::Leave);
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
fn lost_entries_are_noticed() {
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
    let start = Start {
        hard_state: HardState { commit: 5, ..disk.hard_state },
        before: (1, 1),
        entries: world
            .log
            .iter()
            .take(5)
            .map(|(index, data)| Entry {
                index: *index,
                term: 1,
                data: data.clone(),
                is_change: false,
            })
            .collect(),
        applied: 5,
    };
    let boot = Boot { now: world.now, seed: 7 };
    let mut forgetful = Group::new(*id, &disk.members, start, &world.limits, boot);
    let id = *id;
    let mut refused = None;
    for _ in 0..400 {
        world.replicas.get_mut(&id).unwrap().inbox.clear();
        world.replicas.get_mut(&id).unwrap().paused_until = u64::MAX;
        world.step();
        let inbox = std::mem::take(&mut world.replicas.get_mut(&id).unwrap().inbox);
        for message in inbox {
            if let Err(why @ Refused::LostLog { .. }) = forgetful.step(message, world.now) {
                refused = Some(why);
            }
        }
    }
    assert!(refused.is_some(), "nothing was noticed");
}

/// SAFETY G4: a voter that renewed a lease is killed and back at once, again and again. While it
/// may have forgotten its word it elects nobody, although somebody stands all the time.
#[test]
fn restarts_break_no_lease() {
    for seed in 0..30 {
        let mut world = World::new(seed, &[1, 2, 3], &[]);
        world.faults = false;
        (0..1_000).for_each(|_| world.step());
        let leader = *world.leaders.values().next_back().expect("somebody leads");
        let mut others = ids(&[1, 2, 3]);
        others.retain(|id| *id != leader);
        let (voter, stranger) = (others[0], others[1]);
        world.idle = true;
        (0..100).for_each(|_| world.step());
        world.cut = vec![(leader, stranger), (stranger, leader)];
        for _ in 0..3_000 {
            world.step();
            if world.dice.one_in(6) {
                let replica = world.replicas.get_mut(&voter).unwrap();
                for work in replica.unsynced.drain(..) {
                    replica.disk.append(&work.entries);
                    replica.disk.hard_state = work.hard_state.unwrap_or(replica.disk.hard_state);
                }
                world.start(voter);
            }
        }
    }
}

/// SAFETY G5: ticks in a row after a pause free no voter from its word, only time does. One voter
/// stands, the other is at the end of its patience.
#[test]
fn a_burst_of_ticks_frees_no_voter() {
    for seed in 0..10 {
        let mut world = World::new(seed, &[1, 2, 3], &[]);
        world.faults = false;
        (0..1_000).for_each(|_| world.step());
        world.idle = true;
        (0..100).for_each(|_| world.step());
        world.network.clear();
        let leader = *world.leaders.values().next_back().expect("somebody leads");
        let (now, mut bursts) = (world.now, [40, 12].into_iter());
        let lease = world.replicas[&leader].group.as_ref().unwrap().lease_until();
        assert!(lease > now);
        for (id, replica) in world.replicas.iter_mut().filter(|(id, _)| **id != leader) {
            let group = replica.group.as_mut().unwrap();
            (0..bursts.next().unwrap()).for_each(|_| group.tick(now));
            world.cut.push((leader, *id));
        }
        let led = |world: &World| {
            let mut others = world.replicas.iter().filter(|(id, _)| **id != leader);
            others.any(|(_, replica)| replica.group.as_ref().unwrap().is_leader())
        };
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
