//! Replicas, their disks and the network between them, in virtual time.

#![allow(missing_docs)]

mod disk;

use std::collections::BTreeMap;

use bytes::Bytes;
use keyspace::ReplicaId;
use keyspace::random::Random;
use replication::{
    Change, Group, GroupLimits, HardState, Members, Message, MessageKind, StartContext,
};

use disk::{Disk, Unsynced};

const TICK: u64 = 50_000_000;
pub const MILLI: u64 = 1_000_000;

pub struct Replica {
    pub group: Option<Group>,
    pub disk: Disk,
    pub unsynced: Vec<Unsynced>,
    pub paused_until: u64,
    next_tick: u64,
    pub inbox: Vec<Message>,
}

impl Replica {
    /// What was handed out reaches the disk, and the group is not told.
    pub fn write(&mut self) {
        for work in self.unsynced.drain(..) {
            self.disk.write(&work);
        }
    }
}

pub struct World {
    pub dice: Random,
    pub now: u64,
    pub limits: GroupLimits,
    pub replicas: BTreeMap<ReplicaId, Replica>,
    /// On their way: when they arrive, and what.
    pub network: Vec<(u64, Bytes)>,
    /// One direction each.
    pub cut: Vec<(ReplicaId, ReplicaId)>,
    pub faults: bool,
    /// Nothing is proposed, so that every log is as long as the leader's.
    pub idle: bool,
    /// How often each fault comes, per 1 000 steps.
    fault_rates: [u64; 5],
    pub leaders: BTreeMap<u64, ReplicaId>,
    /// What was applied at each index, anywhere.
    pub log: BTreeMap<u64, Bytes>,
    proposed: u64,
    pub stats: [u64; 4],
}

pub fn ids(numbers: &[u64]) -> Vec<ReplicaId> {
    numbers.iter().map(|number| ReplicaId(*number)).collect()
}

/// A description of a change: what the state machine would store.
fn describe(change: &Change) -> Vec<u8> {
    format!("{change:?}").into_bytes()
}

pub const ADD: fn() -> Change = || Change::AddLearners(ids(&[2, 3]));
pub const ENTER: fn() -> Change = || Change::EnterJoint { promote: ids(&[2, 3]), remove: vec![] };

impl World {
    pub fn new(seed: u64, voters: &[u64], empty: &[u64]) -> Self {
        let limits = GroupLimits {
            retained_bytes: 200,
            retained_for_followers_bytes: 800,
            retained_for_active_followers_bytes: 1_600,
            ..GroupLimits::default()
        };
        let mut world = World {
            dice: Random::new(seed),
            now: 1_000 * MILLI,
            limits,
            replicas: BTreeMap::new(),
            network: Vec::new(),
            cut: Vec::new(),
            faults: true,
            idle: false,
            fault_rates: [0; 5],
            leaders: BTreeMap::new(),
            log: BTreeMap::new(),
            proposed: 0,
            stats: [0; 4],
        };
        for rate in &mut world.fault_rates {
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

    pub fn start(&mut self, id: ReplicaId) {
        let boot = StartContext { now: self.now, started: self.now, seed: 7 };
        let replica = self.replicas.get_mut(&id).unwrap();
        let (start, members) = (replica.disk.start(), replica.disk.members.clone());
        replica.group = Some(Group::new(id, &members, start, &self.limits, boot));
        replica.next_tick = self.now + self.dice.below(TICK);
        if members.is_sole(id) {
            replica.group.as_mut().unwrap().campaign();
        }
    }

    pub fn step(&mut self) {
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
        let Some(fault) = self.fault_rates.iter().position(|rate| self.dice.below(1_000) < *rate)
        else {
            return;
        };
        match fault {
            // Kill -9: what is written survives. Power: what is not synced is lost.
            0 => {
                let lost = self.dice.one_in(2);
                let replica = self.replicas.get_mut(&victim).unwrap();
                if lost {
                    replica.unsynced.clear();
                }
                replica.write();
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
                let target = other;
                if let Some(group) = &mut self.replicas.get_mut(&victim).unwrap().group {
                    group.transfer(target);
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
                // A sender of a snapshot gives up after a while.
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
            // The state travels beside the message; here it comes from the sender's disk.
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
        if group.rest(&message, self.now) {
            self.stats[3] += 1;
            return;
        }
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
                    replica.disk.write(&work);
                    group.persisted(work.number);
                }
            }
            let Some(work) = group.ready() else { break };
            if work.restored.is_some() {
                replica.disk.members = group.members().clone();
            }
            for entry in &work.committed {
                let seen = self.log.entry(entry.index()).or_insert_with(|| entry.data().clone());
                assert_eq!(seen, entry.data(), "two entries were applied at {}", entry.index());
                assert_eq!(replica.disk.applied + 1, entry.index(), "a gap in what is applied");
                if entry.is_change() {
                    for change in [ADD(), ENTER(), Change::LeaveJoint] {
                        if describe(&change) == *entry.data() {
                            replica.disk.members = group.change(&change).clone();
                        }
                    }
                }
                replica.disk.state.push(entry.data().clone());
                replica.disk.applied = entry.index();
                replica.disk.hard_state.commit = replica.disk.hard_state.commit.max(entry.index());
                group.applied(entry.index());
            }
            let (number, entries, hard_state) = (work.number, work.entries, work.hard_state);
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

    /// A replica that could answer a read by its lease is the only leader, and its log holds every
    /// entry that any replica has applied.
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

    pub fn heal(&mut self) {
        self.faults = false;
        self.cut.clear();
        for replica in self.replicas.values_mut() {
            replica.paused_until = self.now;
        }
    }

    /// The group of a replica that runs.
    pub fn group(&self, id: ReplicaId) -> &Group {
        self.replicas[&id].group.as_ref().expect("the replica runs")
    }

    pub fn leader(&self) -> Option<&Group> {
        let groups = self.replicas.values().filter_map(|replica| replica.group.as_ref());
        groups.filter(|group| group.is_leader()).max_by_key(|group| group.term())
    }

    pub fn propose_change(&mut self, change: &Change) {
        for replica in self.replicas.values_mut() {
            if let Some(group) = &mut replica.group
                && group.is_leader()
            {
                let _tried_again = group.propose_change(change, describe(change));
            }
        }
    }
}
