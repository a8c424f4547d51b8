//! Faults in a cluster, and how nodes and links come back.

use keyspace::{ClusterVersion, NodeId, ShardId};
use node::event::{EventKind, RecordState};
use node::executor::Input;
use storage::engine::PieceLimits;
use storage::faulty::Crash;

use super::disks::PLANNED_WRITES;
use super::volumes::VOLUMES;
use super::{Plant, TICK_MS, WALL_MS, World};
use crate::check::Violation;
use crate::machine::open::{self, Start, StartedMachine};
use crate::machine::{Limits, Machine};
use crate::options::{Fault, Faults};

/// Longer than any promise of a replica.
const LONG_NANOS: u64 = 10_000_000_000;

/// How long nodes wait for each other on behalf of a client.
const REQUEST_TIMEOUT_NANOS: u64 = 1_500_000_000;

/// The length of a block of a checkpoint.
const BLOCK: PieceLimits = PieceLimits { examined_max: 1, bytes_max: 1 };

/// Plants in a machine what is to be planted there.
pub(super) fn plant_in(machine: &mut Machine, plant: Option<Plant>) {
    machine.unsynced_ack = plant == Some(Plant::UnsyncedVote);
    machine.ignores_lookup = plant == Some(Plant::ForgottenReplica);
    machine.leaves_records = plant == Some(Plant::LeftRecord);
    if plant == Some(Plant::GoneReplica) {
        machine.streams.plant_stream_to_removed_replica();
    }
    machine.plant(plant.and_then(Plant::in_control));
    machine.coordinates.planted = plant.and_then(Plant::in_coordinators);
}

impl World {
    /// Breaks something, now and then.
    pub(super) fn maybe_inject_fault(&mut self) -> Result<(), Violation> {
        self.break_promises();
        self.upgrade();
        self.lose_links();
        self.decay();
        if self.now_ms < self.no_faults_until || !self.rng.one_in(self.profile.break_ms) {
            return Ok(());
        }
        let at = self.rng.below(self.node_slots.len() as u64) as usize;
        let mut faults = self.options.faults;
        if self.has(Plant::LeftRecord) {
            // What a replica replays, it does not leave behind: they would only differ.
            for fault in [Fault::Kill, Fault::Power, Fault::SyncFails, Fault::WriteFails] {
                faults = faults.without(fault);
            }
        }
        let (only_cuts, weights) = self.weights_of_faults(faults);
        match self.rng.weighted(&weights) {
            0 => {}
            1 => self.crash(at, true),
            2 => self.crash(at, false),
            3 => self.blackout(),
            4 => {
                let millis = self.rng.between(100, 2_500);
                self.pause(at, millis);
            }
            5 => self.isolate(at),
            6 => self.cut_one_way(at),
            7 => self.plan_promise_fault(at),
            8 => self.hand_over(),
            9 => self.mend(),
            10..=12 if self.node_slots[at].armed.is_some() => {}
            10 => {
                let writes = self.rng.below(PLANNED_WRITES);
                self.power_goes_at(at, writes);
            }
            11 => self.fail_sync(at),
            12 => self.fail_write(at),
            13 => self.fill_or_free(at),
            14 => self.lose_link(at),
            15 => self.lose_tail(at),
            16 => self.move_replicas(),
            _ if !only_cuts && self.rng.one_in(2) => self.merge(),
            _ => self.split(),
        }
        Ok(())
    }

    /// Whether shards are to be cut and never merged; and how likely each of what breaks is, in the
    /// order of [`Self::maybe_inject_fault`].
    fn weights_of_faults(&self, faults: Faults) -> (bool, [u64; 18]) {
        let on = |fault, weight| if faults.has(fault) { weight } else { 0 };
        // One disk at a time: with two that have lost what they promised, so has the cluster.
        let of_disks = |fault, weight| if self.profile.tails { 0 } else { on(fault, weight) };
        // What these plant shows in this plan, and hardly elsewhere.
        let shows = self.has(Plant::BurstTicks) || self.has(Plant::ForgetfulVote);
        let only_cuts = self.has(Plant::ReplayedHalf) || self.has(Plant::NoDedupe);
        let of_cuts = [Plant::Thaw, Plant::LeftRecord, Plant::EarlySplit, Plant::OldRoute];
        let cuts = only_cuts || of_cuts.into_iter().any(|plant| self.has(plant));
        let betrayals = if shows { 25 } else { 5 };
        let weights = [
            1,
            on(Fault::Power, 5),
            on(Fault::Kill, 6),
            on(Fault::Power, 1),
            on(Fault::Pause, 6),
            on(Fault::Cut, 4),
            on(Fault::Cut, 3),
            if faults.has(Fault::Cut) { on(Fault::Kill, betrayals) } else { 0 },
            on(Fault::Transfer, 5),
            on(Fault::Cut, 7),
            of_disks(Fault::Power, 4),
            of_disks(Fault::SyncFails, 3),
            of_disks(Fault::WriteFails, 2),
            of_disks(Fault::Full, 5),
            on(Fault::Link, 6),
            // Rarely possible.
            if self.profile.tails { 60 } else { 0 },
            of_disks(Fault::Move, if self.has(Plant::GoneReplica) { 60 } else { 9 }),
            // An ordered keyspace begins with one shard.
            on(Fault::Split, if cuts || self.profile.is_ordered { 30 } else { 6 }),
        ];
        (only_cuts, weights)
    }

    /// A link is lost with what was on it. Both ends learn of it, one maybe much later; and it is
    /// there again at once.
    fn lose_link(&mut self, at: usize) {
        let other = self.rng.below(self.node_slots.len() as u64) as usize;
        if other == at {
            return;
        }
        self.lose_link_between(at, other);
    }

    /// The same, of these two.
    pub(super) fn lose_link_between(&mut self, at: usize, other: usize) {
        let ends = [self.node_slots[at].node, self.node_slots[other].node];
        self.trace.event(format_args!("the link of nodes {} and {} is lost", ends[0], ends[1]));
        self.counts.links += 1;
        self.network.lose(ends[0], ends[1], &mut self.rng);
        for (seat, node) in [(at, ends[1]), (other, ends[0])] {
            let late = self.rng.one_in(4);
            let millis = if late { self.rng.between(100, 2_000) } else { self.rng.below(5) };
            self.lost_links.push((self.now_ms + millis, seat, node));
        }
    }

    /// Links of frames that were lost: each end learns of it in its time, and has a new one.
    pub(super) fn renew_links(&mut self) {
        for (one, other) in self.network.take_lost_links() {
            for (node, with) in [(one, other), (other, one)] {
                let late = self.rng.one_in(4);
                let millis = self.rng.between(1, if late { 2_000 } else { 60 });
                self.new_links.push((self.now_ms + millis, node, with));
            }
        }
        let now_ms = self.now_ms;
        let new: Vec<_> = self.new_links.extract_if(.., |link| link.0 <= now_ms).collect();
        for (_, node, with) in new {
            self.network.relinked(node, with);
            let is_there = self.has_link(node, with);
            let seat = self.node_slots.iter_mut().find(|seat| seat.node == node);
            if let Some(machine) = seat.and_then(|seat| seat.machine.as_mut()) {
                machine.relinked(with);
                if is_there {
                    machine.link(with);
                }
            }
        }
    }

    /// Adds up what a node's process has streamed.
    pub(super) fn count_streams(&mut self, at: usize) {
        let Some(machine) = &self.node_slots[at].machine else { return };
        self.counts.blocks += machine.streams.blocks;
        self.counts.resumed += machine.streams.resumed;
        self.counts.held += machine.streams.held;
        self.counts.urgent += machine.streams.urgent;
    }

    /// All links of a node are lost: its process has ended, or begins.
    fn lose_all_links(&mut self, node: NodeId) {
        for other in self.node_slots.iter().map(|seat| seat.node).filter(|other| *other != node) {
            self.network.lose_link((node, other));
        }
    }

    /// The process of a node has ended: the others learn at some time that its links are closed,
    /// unless their timeouts end first.
    pub(super) fn end_links(&mut self, at: usize, power: bool) {
        let node = self.node_slots[at].node;
        for seat in (0..self.node_slots.len()).filter(|seat| *seat != at) {
            let millis = if power { self.rng.between(20, 4_000) } else { self.rng.below(5) };
            self.lost_links.push((self.now_ms + millis, seat, node));
        }
    }

    /// Informs nodes of lost links.
    pub(super) fn lose_links(&mut self) {
        let now_ms = self.now_ms;
        let lost: Vec<_> = self.lost_links.extract_if(.., |lost| lost.0 <= now_ms).collect();
        for (_, at, node) in lost {
            let is_there = self.has_link(self.node_slots[at].node, node);
            self.show_link(at, node, false);
            if let Some(machine) = &mut self.node_slots[at].machine {
                machine.lose_link(node);
                if is_there {
                    machine.link(node);
                }
            }
            if is_there {
                self.show_link(at, node, true);
            }
        }
    }

    /// Whether a node has a link to another that runs, as far as it knows.
    fn has_link(&self, node: NodeId, with: NodeId) -> bool {
        let is_to_come = |link: &(u64, NodeId, NodeId)| (link.1, link.2) == (node, with);
        let other = self.node_slots.iter().find(|seat| seat.node == with);
        other.is_some_and(|seat| seat.machine.is_some()) && !self.new_links.iter().any(is_to_come)
    }

    /// Planted: some replica holds something else from now on.
    pub(super) fn decay(&mut self) {
        if !self.has(Plant::RottenState) || self.now_ms % 1_000 != 500 {
            return;
        }
        let at = self.rng.below(self.node_slots.len() as u64) as usize;
        let Some(machine) = &self.node_slots[at].machine else { return };
        for shard in machine.shard_ids() {
            let view = machine.view(shard).expect("the shard is on this node");
            let mut state = view.write();
            let last = state.last;
            let hasher = state.engine().map(|engine| engine.hasher());
            let Some(key) = hasher.map(|hasher| hasher.key(b"rot")) else { continue };
            if !state.owns(&key) {
                continue;
            }
            if let Some(engine) = state.engine_mut() {
                engine.put(&key, &[b"rot"], 0, last);
                return;
            }
        }
    }

    /// Whether a node runs and does not stand still.
    pub(crate) fn is_awake(&self, at: usize) -> bool {
        let seat = &self.node_slots[at];
        seat.machine.is_some() && self.now_ms >= seat.awake_at
    }

    /// Ends a process; with a loss of power, unsynced writes may be lost.
    pub(super) fn crash(&mut self, at: usize, power: bool) {
        if self.node_slots[at].machine.is_none() {
            return;
        }
        self.count_streams(at);
        self.lose_ops(at);
        self.end(at, power);
    }

    /// Cleans up after a node whose process has ended.
    pub(super) fn end(&mut self, at: usize, power: bool) {
        let node = self.node_slots[at].node;
        self.counts.crashes += 1;
        self.node_slots[at].armed = None;
        self.lose_all_links(node);
        if self.options.faults.has(Fault::Link) {
            self.end_links(at, power);
        }
        if power {
            let crash = *self.rng.pick(&[
                Crash::LoseUnsynced,
                Crash::Shuffle,
                Crash::ShuffleOrderedNames,
                Crash::KeepUnsynced,
            ]);
            self.trace.event(format_args!("node {node} loses its power: {crash:?}"));
            self.node_slots[at].disk.crash(crash);
        } else {
            self.trace.event(format_args!("node {node} is killed"));
            self.node_slots[at].disk.kill();
        }
        self.node_slots[at].awake_at = self.now_ms + self.rng.between(1, 1_500);
    }

    fn blackout(&mut self) {
        self.trace.event(format_args!("the power goes everywhere"));
        self.counts.blackouts += 1;
        (0..self.node_slots.len()).for_each(|at| self.crash(at, true));
    }

    /// A process stands still, and its clocks do not.
    pub(super) fn pause(&mut self, at: usize, millis: u64) {
        let planted = self.has(Plant::StaleLease);
        let seat = &mut self.node_slots[at];
        if seat.machine.is_none() || self.now_ms < seat.awake_at {
            return;
        }
        seat.awake_at = self.now_ms + millis;
        if planted {
            seat.slept_nanos += millis * seat.rate_ppm;
        }
        let node = seat.node;
        self.counts.pauses += 1;
        self.trace.event(format_args!("node {node} stands still for {millis} ms"));
    }

    fn isolate(&mut self, at: usize) {
        let node = self.node_slots[at].node;
        let companion = self.rng.one_in(3).then(|| self.rng.below(self.node_slots.len() as u64));
        let inside = |place: usize| place == at || companion == Some(place as u64);
        self.trace.event(format_args!("node {node} is cut off"));
        self.counts.cuts += 1;
        let nodes: Vec<NodeId> = self.node_slots.iter().map(|seat| seat.node).collect();
        for (i, from) in nodes.iter().enumerate() {
            for (j, to) in nodes.iter().enumerate() {
                if inside(i) != inside(j) {
                    self.network.cut(*from, *to);
                }
            }
        }
    }

    fn cut_one_way(&mut self, at: usize) {
        let from = self.node_slots[at].node;
        let to = self.node_slots[self.rng.below(self.node_slots.len() as u64) as usize].node;
        self.trace.event(format_args!("nothing goes from node {from} to {to}"));
        self.counts.cuts += 1;
        self.network.cut(from, to);
    }

    /// Some leader is told to hand over one of its shards, or all of them.
    fn hand_over(&mut self) {
        let mut led = self.led();
        let has_heirs = |(at, id): &(usize, ShardId)| {
            let machine = self.node_slots[*at].machine.as_ref().expect("the node runs");
            machine.view(*id).is_some_and(|view| view.read().members.voters.len() > 1)
        };
        led.retain(has_heirs);
        if led.is_empty() {
            return;
        }
        let chosen = *self.rng.pick(&led);
        let all = self.rng.one_in(2);
        led.retain(|one| if all { one.0 == chosen.0 } else { *one == chosen });
        for (at, id) in led {
            let seat = &mut self.node_slots[at];
            let machine = seat.machine.as_mut().expect("the node runs");
            let shard = machine.shard(id).expect("the shard is on this node");
            let mut targets = shard.view().read().members.voters.clone();
            targets.retain(|target| *target != shard.replica());
            let to = *self.rng.pick(&targets);
            let node = seat.node;
            self.trace.event(format_args!("node {node} hands shard {id} over to replica {to}"));
            self.counts.transfers += 1;
            machine.submit(id, Input::Transfer { shard: id, to });
        }
    }

    /// Which running nodes believe to lead which shards.
    pub(super) fn led(&self) -> Vec<(usize, ShardId)> {
        let mut led = Vec::new();
        for (at, seat) in self.node_slots.iter().enumerate() {
            let Some(machine) = &seat.machine else { continue };
            let leads = |id: &ShardId| machine.shard(*id).is_some_and(|s| s.is_elected());
            led.extend(machine.shard_ids().into_iter().filter(leads).map(|id| (at, id)));
        }
        led
    }

    pub(super) fn mend(&mut self) {
        if self.network.is_cut() {
            self.trace.event(format_args!("all ways are open"));
            self.network.mend();
        }
    }

    /// Starts a node.
    pub(super) fn start(&mut self, at: usize) -> Result<(), Violation> {
        let join = self.cluster;
        let now_ms = self.now_ms;
        let forgetful = self.has(Plant::ForgetfulVote);
        let forgets = self.right_halves.first().copied().filter(|_| self.has(Plant::ReplayedHalf));
        let seat = &mut self.node_slots[at];
        // The boot clock begins anew with the machine.
        seat.boot_offset = self.rng.below(1 << 40) + LONG_NANOS;
        let boot = seat.boot(now_ms);
        let wall_ms = (WALL_MS as i64 + seat.wall_offset + now_ms as i64) as u64;
        let start = Start {
            executors: self.profile.executors,
            segment_bytes: self.profile.segment_bytes,
            wall_ms,
            // Planted: all that was promised seems long ago.
            boot: if forgetful { boot - LONG_NANOS } else { boot },
            join,
            // So that what is small still comes in several blocks.
            limits: Limits { block: BLOCK, ..Limits::usual() },
            cluster_version: if self.upgrading.is_some() {
                ClusterVersion::FIRST
            } else {
                ClusterVersion::NEWEST
            },
            forgets,
            forgets_ends: self.options.plant == Some(Plant::ForgottenEnds),
            system_replicas: self.profile.system_replicas as u8,
            reshape: self.profile.reshape,
            seed: self.rng.bits(),
        };
        let started = open::open(seat.disk.handle(), &start, &mut self.rng);
        let StartedMachine { mut machine, recovered, behind, ended } = match started {
            Ok(started) => started,
            Err(error) => return self.start_failed(at, &error),
        };
        machine.boot = boot;
        machine.streams.limit(self.profile.snapshot_rate);
        let loses = self.options.plant == Some(Plant::StaleImage);
        machine.loses_rerouted = loses.then_some(VOLUMES);
        machine
            .executors
            .iter_mut()
            .for_each(|seat| seat.executor.set_request_timeout(REQUEST_TIMEOUT_NANOS));
        machine
            .executors
            .iter_mut()
            .for_each(|seat| seat.executor.set_check_every(self.profile.check_nanos));
        plant_in(&mut machine, self.options.plant);
        machine.may_lose = seat.has_lost;
        let has_just_lost = std::mem::take(&mut seat.has_just_lost);
        let node = machine.manifest.node;
        self.trace.event(format_args!("node {node} starts: {recovered:?}"));
        if has_just_lost {
            self.agreement.lost(node, &recovered);
        }
        self.agreement.restarted(node, &recovered, &behind);
        // The process may have ended before anyone saw that.
        ended.into_iter().for_each(|shard| self.agreement.ended(node, shard));
        seat.node = node;
        seat.started_at = now_ms;
        seat.next_tick = now_ms + self.rng.below(TICK_MS);
        seat.sync_ends_at = 0;
        seat.machine = Some(machine);
        self.lose_all_links(node);
        self.introduce();
        self.restart_placement(at);
        self.show_at(at, EventKind::NodeStarted { record: RecordState::Empty });
        Ok(())
    }

    /// Tells all nodes who the others are.
    fn introduce(&mut self) {
        let there = self.node_slots.iter().filter(|seat| !seat.has_left);
        let nodes: Vec<NodeId> = there.map(|seat| seat.node).collect();
        for seat in &mut self.node_slots {
            let others: Vec<_> = nodes.iter().copied().filter(|node| *node != seat.node).collect();
            if let Some(machine) = &mut seat.machine {
                machine.look_up_by(&others);
            }
        }
    }

    /// Nothing breaks from here on.
    pub(super) fn heal(&mut self) -> Result<(), Violation> {
        self.trace.event(format_args!("heal"));
        self.calm = true;
        self.set_attack(0);
        self.network.mend();
        // Who has lost the end of its log comes back when the others have leaders, as ever.
        let is_truce = self.now_ms < self.no_faults_until;
        for seat in &mut self.node_slots {
            if !is_truce && !seat.has_left {
                seat.awake_at = self.now_ms;
            }
            seat.full = false;
            // What has struck and is not noticed yet still counts as the fault it was.
            seat.disk.set_capacity_bytes(u64::MAX);
            seat.disk.crash_after_writes(u64::MAX);
            seat.disk.fail_sync(u64::MAX);
            seat.disk.fail_write(u64::MAX);
        }
        Ok(())
    }
}
