//! What breaks in a cluster, and how it comes back.

use std::io;

use keyspace::{NodeId, ReplicaId, ShardId};
use node::lane::Input;
use node::state::ShardState;
use storage::Error;
use storage::disk::Disk;
use storage::faulty::Crash;
use storage::log::Lsn;
use storage::manifest;

use super::{Plant, TICK_MS, WALL_MS, World};
use crate::check::Violation;
use crate::machine::Limits;
use crate::machine::open::{self, Start, Started};

/// Longer than any promise of a replica.
const LONG_NANOS: u64 = 10_000_000_000;

/// A plan: when followers restart, again and again, while a leader and its rival wait for them.
#[derive(Clone, Copy, Debug)]
pub struct Betrayal {
    leader: usize,
    rival: usize,
    begins_ms: u64,
    restarts_left: u64,
    restart_ms: u64,
}

/// How long nodes wait for each other on behalf of a client.
const PATIENCE_NANOS: u64 = 1_500_000_000;

/// How often leaders compare their replicas.
const CHECK_NANOS: u64 = 2_000_000_000;

/// For how long nothing else breaks after a disk has lost what it had promised.
const TRUCE_MS: u64 = 4_500;
/// … and for how long its node is down.
const DOWN_MS: u64 = 2_500;

/// Whether a shard has so many voters, each with a place, and nobody else.
pub(super) fn is_whole(state: &ShardState, replicas: usize) -> bool {
    let members = &state.members;
    let is_placed = |replica: &ReplicaId| state.descriptor.node_of(*replica).is_some();
    let is_quiet = !members.is_joint() && members.learners.is_empty();
    is_quiet && members.voters.len() == replicas && members.voters.iter().all(is_placed)
}

/// Overwrites the end of what is in the log by nothing, but for what stands before `floor` or no
/// restart would read. How many bytes that were.
fn lose_log_tail(disk: &dyn Disk, floor: Lsn, bytes_max: u64) -> io::Result<u64> {
    let Some(manifest) = manifest::load(disk).expect("a disk without faults") else { return Ok(0) };
    let mut segments = disk.list()?;
    segments.retain(|name| name.ends_with(".seg"));
    segments.sort();
    for name in segments.iter().rev() {
        let file = disk.open(name)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(&mut bytes, 0)?;
        let Some(end) = bytes.iter().rposition(|byte| *byte != 0).filter(|end| *end >= 64) else {
            continue;
        };
        let start =
            u64::from_str_radix(name.trim_start_matches("log-").trim_end_matches(".seg"), 16);
        let start = start.expect("a segment's name has its place");
        let kept = manifest.log_start.max(floor).0.saturating_sub(start).max(64);
        let from = (end as u64 + 1).saturating_sub(bytes_max).max(kept) as usize;
        if from > end {
            return Ok(0);
        }
        file.write_at(&vec![0; end + 1 - from], from as u64)?;
        file.sync()?;
        return Ok((end + 1 - from) as u64);
    }
    Ok(0)
}

impl World {
    /// Breaks something, now and then.
    pub(super) fn maybe_break(&mut self) -> Result<(), Violation> {
        self.betray();
        self.decay();
        if self.now_ms < self.truce_until || !self.rng.one_in(self.mood.break_ms) {
            return Ok(());
        }
        let at = self.rng.below(self.seats.len() as u64) as usize;
        // Rarely possible; and with a planted bug, whatever a lost log shows is no news.
        let tails = if self.options.plant.is_none() { 40 } else { 0 };
        match self.rng.weighted(&[6, 6, 1, 6, 4, 3, 5, 5, 3, tails]) {
            0 => self.crash(at, true),
            1 => self.crash(at, false),
            2 => self.blackout(),
            3 => self.pause(at),
            4 => self.isolate(at),
            5 => self.cut_one_way(at),
            6 => self.plan_betrayal(at),
            7 => self.hand_over(),
            8 => self.mend(),
            _ => self.lose_tail(at),
        }
        Ok(())
    }

    /// Planted: some replica holds something else from now on.
    fn decay(&mut self) {
        if !self.has(Plant::RottenState) || self.now_ms % 1_000 != 500 {
            return;
        }
        let at = self.rng.below(self.seats.len() as u64) as usize;
        let Some(machine) = &self.seats[at].machine else { return };
        for shard in machine.shard_ids() {
            let view = machine.view(shard).expect("it was listed");
            let mut state = view.write();
            let last = state.last;
            let hasher = state.keys().map(|engine| engine.hasher());
            let Some(key) = hasher.map(|hasher| hasher.key(b"rot")) else { continue };
            if !state.owns(&key) {
                continue;
            }
            if let Some(engine) = state.keys_mut() {
                engine.put(&key, &[b"rot"], 0, last);
                return;
            }
        }
    }

    /// A leader and one of its followers do not hear each other; the other followers restart in no
    /// time, a few times, and must not have forgotten whom they have given their word (SAFETY G4).
    fn plan_betrayal(&mut self, at: usize) {
        let leader = match self.led() {
            led if led.is_empty() => at,
            led => self.rng.pick(&led).0,
        };
        let others: Vec<usize> = (0..self.seats.len()).filter(|other| *other != leader).collect();
        let rival = *self.rng.pick(&others);
        let (one, other) = (self.seats[leader].node, self.seats[rival].node);
        self.trace.event(format_args!("nodes {one} and {other} do not hear each other"));
        self.counts.cuts += 1;
        self.network.cut(one, other);
        self.network.cut(other, one);
        let begins_ms = self.now_ms + self.rng.between(600, 1_500);
        let restarts_left = self.rng.between(1, 4);
        let restart_ms = begins_ms;
        self.betrayal = Some(Betrayal { leader, rival, begins_ms, restarts_left, restart_ms });
    }

    fn betray(&mut self) {
        let Some(mut plan) = self.betrayal else { return };
        if self.now_ms == plan.restart_ms && plan.restarts_left > 0 {
            for at in (0..self.seats.len()).filter(|at| *at != plan.leader && *at != plan.rival) {
                self.crash(at, false);
                self.seats[at].awake_at = self.now_ms + 2;
            }
            plan.restarts_left -= 1;
            plan.restart_ms += self.rng.between(50, 250);
        }
        let begun = self.now_ms > plan.begins_ms;
        if begun && self.now_ms.is_multiple_of(10) && self.is_awake(plan.leader) {
            self.look_at(plan.leader);
        }
        self.betrayal = (self.now_ms < plan.begins_ms + 1_000).then_some(plan);
    }

    /// Whether a node runs and does not stand still.
    pub(super) fn is_awake(&self, at: usize) -> bool {
        let seat = &self.seats[at];
        seat.machine.is_some() && self.now_ms >= seat.awake_at
    }

    /// A process ends; with the machine's power, what was not synced may be gone.
    fn crash(&mut self, at: usize, power: bool) {
        if self.seats[at].machine.is_none() {
            return;
        }
        let node = self.seats[at].node;
        self.counts.crashes += 1;
        self.lose_ops(at);
        if power {
            let crash = *self.rng.pick(&[
                Crash::LoseUnsynced,
                Crash::Shuffle,
                Crash::ShuffleOrderedNames,
                Crash::KeepUnsynced,
            ]);
            self.trace.event(format_args!("node {node} loses its power: {crash:?}"));
            self.seats[at].disk.crash(crash);
        } else {
            self.trace.event(format_args!("node {node} is killed"));
            self.seats[at].disk.kill();
        }
        self.seats[at].awake_at = self.now_ms + self.rng.between(1, 1_500);
    }

    /// A node loses its power, and with it the end of its log, synced or not.
    /// All others stay well until it has noticed: with two nodes broken, what the two alone had
    /// acknowledged would be lost.
    fn lose_tail(&mut self, at: usize) {
        let all_awake = (0..self.seats.len()).all(|other| self.is_awake(other));
        if !all_awake || !self.is_whole() {
            return;
        }
        // What it lost must not reach back to a change of members: it would lead among those of
        // the past (docs/consistency.md).
        let machine = self.seats[at].machine.as_ref().expect("it is awake");
        let views = machine.shard_ids().into_iter().filter_map(|id| machine.view(id));
        let changes = views.map(|view| view.read().descriptor.generation.0).sum::<u64>();
        let end = machine.log.log.written_end();
        if self.seats[at].members_end.0 != changes {
            self.seats[at].members_end = (changes, end);
            return;
        }
        self.mend();
        self.betrayal = None;
        let bytes_max = self.rng.between(200, 3_000);
        self.crash(at, true);
        let seat = &mut self.seats[at];
        // The others have leaders when it comes back.
        seat.awake_at = self.now_ms + DOWN_MS;
        let floor = seat.members_end.1;
        let lost =
            lose_log_tail(&*seat.disk.handle(), floor, bytes_max).expect("a disk without faults");
        seat.has_lost = true;
        self.truce_until = self.now_ms + TRUCE_MS;
        self.counts.tails_lost += u64::from(lost > 0);
        let node = seat.node;
        self.trace.event(format_args!("node {node} has lost {lost} bytes of its log"));
    }

    /// Whether every shard has all its replicas.
    pub(super) fn is_whole(&self) -> bool {
        let machines = self.seats.iter().filter_map(|seat| seat.machine.as_ref());
        machines
            .flat_map(|machine| machine.shard_ids().into_iter().map(move |id| (machine, id)))
            .all(|(machine, id)| {
                let view = machine.view(id).expect("it was listed");
                let state = view.read();
                is_whole(&state, self.mood.replicas_of(id))
            })
    }

    fn blackout(&mut self) {
        self.trace.event(format_args!("the power goes everywhere"));
        self.counts.blackouts += 1;
        (0..self.seats.len()).for_each(|at| self.crash(at, true));
    }

    /// A process stands still, and its clocks do not.
    fn pause(&mut self, at: usize) {
        let millis = self.rng.between(100, 2_500);
        let planted = self.has(Plant::StaleLease);
        let seat = &mut self.seats[at];
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
        let node = self.seats[at].node;
        let companion = self.rng.one_in(3).then(|| self.rng.below(self.seats.len() as u64));
        let inside = |place: usize| place == at || companion == Some(place as u64);
        self.trace.event(format_args!("node {node} is cut off"));
        self.counts.cuts += 1;
        let nodes: Vec<NodeId> = self.seats.iter().map(|seat| seat.node).collect();
        for (i, from) in nodes.iter().enumerate() {
            for (j, to) in nodes.iter().enumerate() {
                if inside(i) != inside(j) {
                    self.network.cut(*from, *to);
                }
            }
        }
    }

    fn cut_one_way(&mut self, at: usize) {
        let from = self.seats[at].node;
        let to = self.seats[self.rng.below(self.seats.len() as u64) as usize].node;
        self.trace.event(format_args!("nothing goes from node {from} to {to}"));
        self.counts.cuts += 1;
        self.network.cut(from, to);
    }

    /// Some leader is told to hand over one of its shards, or all of them.
    fn hand_over(&mut self) {
        let mut led = self.led();
        if led.is_empty() {
            return;
        }
        let chosen = *self.rng.pick(&led);
        let all = self.rng.one_in(2);
        led.retain(|one| if all { one.0 == chosen.0 } else { *one == chosen });
        for (at, id) in led {
            let seat = &mut self.seats[at];
            let machine = seat.machine.as_mut().expect("it leads");
            let shard = machine.shard(id).expect("it leads it");
            let mut heirs = shard.view().read().members.voters.clone();
            heirs.retain(|heir| *heir != shard.replica());
            let to = *self.rng.pick(&heirs);
            let node = seat.node;
            self.trace.event(format_args!("node {node} hands shard {id} over to replica {to}"));
            self.counts.transfers += 1;
            machine.submit(id, Input::Transfer { shard: id, to });
        }
    }

    /// Who believes to lead what: nodes that run, and shards.
    fn led(&self) -> Vec<(usize, ShardId)> {
        let mut led = Vec::new();
        for (at, seat) in self.seats.iter().enumerate() {
            let Some(machine) = &seat.machine else { continue };
            let leads = |id: &ShardId| machine.shard(*id).is_some_and(|s| s.is_elected());
            led.extend(machine.shard_ids().into_iter().filter(leads).map(|id| (at, id)));
        }
        led
    }

    fn mend(&mut self) {
        if self.network.is_cut() {
            self.trace.event(format_args!("all ways are open"));
            self.network.mend();
        }
    }

    /// A node says that it must stop.
    pub(super) fn node_failed(&mut self, at: usize, error: &Error) -> Result<(), Violation> {
        let node = self.seats[at].node;
        let text = format!("node {node} stopped without a fault of its disk: {error}");
        Err(Violation::new("liveness", text))
    }

    /// Starts a node.
    pub(super) fn start(&mut self, at: usize) -> Result<(), Violation> {
        let join = self.cluster;
        let now_ms = self.now_ms;
        let forgetful = self.has(Plant::ForgetfulVote);
        let seat = &mut self.seats[at];
        // The boot clock begins anew with the machine.
        seat.boot_offset = self.rng.below(1 << 40) + LONG_NANOS;
        let boot = seat.boot(now_ms);
        let wall_ms = (WALL_MS as i64 + seat.wall_offset + now_ms as i64) as u64;
        let start = Start {
            lanes: self.mood.lanes,
            segment_bytes: 64 << 10,
            wall_ms,
            // Planted: all that was promised seems long ago.
            boot: if forgetful { boot - LONG_NANOS } else { boot },
            join,
            limits: Limits::usual(),
            seed: self.rng.bits(),
        };
        let started = open::open(seat.disk.handle(), &start, &mut self.rng);
        let Started { mut machine, recovered } = started.map_err(|error| {
            Violation::new("R6 nothing is lost", format!("a node does not start: {error}"))
        })?;
        machine.boot = boot;
        machine.lanes.iter_mut().for_each(|seat| seat.lane.set_patience(PATIENCE_NANOS));
        machine.lanes.iter_mut().for_each(|seat| seat.lane.set_check_every(CHECK_NANOS));
        machine.unsynced_ack = self.options.plant == Some(Plant::UnsyncedVote);
        machine.may_lose = seat.has_lost;
        let node = machine.manifest.node;
        self.trace.event(format_args!("node {node} starts: {recovered:?}"));
        self.agreement.restarted(node, &recovered);
        seat.node = node;
        seat.started_at = now_ms;
        seat.next_tick = now_ms + self.rng.below(TICK_MS);
        seat.sync_ends_at = 0;
        seat.machine = Some(machine);
        Ok(())
    }

    /// Nothing breaks from here on.
    pub(super) fn heal(&mut self) -> Result<(), Violation> {
        self.trace.event(format_args!("heal"));
        self.calm = true;
        self.network.mend();
        self.seats.iter_mut().for_each(|seat| seat.awake_at = self.now_ms);
        Ok(())
    }
}
