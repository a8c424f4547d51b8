//! Faults of one node, the disk that they leave, and how the node comes back.

use keyspace::{ClusterVersion, Durability};
use node::control::ReshapeLimits;
use node::recovery::RecoverError;
use storage::Error;
use storage::faulty::Crash;

use super::clients::{ClientRequest, Op, OpStage};
use super::{History, World};
use crate::check::Violation;
use crate::check::ledger::Number;
use crate::command::Command;
use crate::machine::open::{self, Start, StartedMachine};
use crate::options::{Bug, Fault, RunProfile};

/// A fault that waits for its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingFault {
    /// The power goes at one of the next changes of the disk.
    Power,
    /// A sync or a write fails.
    Failure,
}

/// What a stop has left.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopState {
    /// Groups up to here were written …
    written: Number,
    /// … and up to here durable.
    durable: Number,
    /// Whether the power was lost since the node last ran.
    dark: bool,
}

/// The farthest change of the disk that a planned loss of power waits for.
const PLANNED_WRITES: u64 = 30;

impl World {
    /// Breaks something, now and then.
    pub(super) fn maybe_inject_fault(&mut self) -> Result<(), Violation> {
        let in_lapse = self.time_jump_steps > 0;
        self.time_jump_steps = self.time_jump_steps.saturating_sub(1);
        if in_lapse && self.time_jump_steps == 0 && self.rng.one_in(2) {
            // An operator has woken the node, kills it, and sets its clock right.
            if self.options.faults.has(Fault::Clock) {
                self.wall_ms -= self.rng.between(5_000, 10_000);
            }
            match self.rng.below(2) {
                0 if self.options.faults.has(Fault::Kill) => self.kill(),
                1 if self.options.faults.has(Fault::Power) => self.power_cut(),
                _ => {}
            }
            return Ok(());
        }
        if self.armed.is_some() || !self.rng.one_in(self.profile.crash_every / 4) {
            return Ok(());
        }
        let faults = self.options.faults;
        let on = |fault, weight| if faults.has(fault) { weight } else { 0 };
        let weights = [
            1,
            on(Fault::Kill, 4),
            on(Fault::Power, 4),
            on(Fault::Power, 8),
            on(Fault::SyncFails, 3),
            on(Fault::WriteFails, 2),
            on(Fault::Full, 5),
        ];
        match self.rng.weighted(&weights) {
            0 => {}
            1 => self.kill(),
            2 => self.power_cut(),
            3 => {
                let writes = self.rng.below(PLANNED_WRITES);
                self.trace.event(format_args!("the power will go after {writes} changes"));
                self.disk.crash_after_writes(writes);
                self.armed = Some(PendingFault::Power);
            }
            4 => {
                let syncs = self.rng.below(6);
                self.trace.event(format_args!("a sync will fail after {syncs}"));
                self.disk.fail_sync(syncs);
                self.armed = Some(PendingFault::Failure);
            }
            5 => {
                let writes = self.rng.below(15);
                self.trace.event(format_args!("a write will fail after {writes}"));
                self.disk.fail_write(writes);
                self.armed = Some(PendingFault::Failure);
            }
            _ => self.fill_or_free(),
        }
        Ok(())
    }

    fn fill_or_free(&mut self) {
        self.full = !self.full;
        let bytes = if self.full { self.used_bytes() + self.rng.below(4_000) } else { u64::MAX };
        self.trace.event(format_args!("the disk holds {bytes} bytes"));
        self.disk.set_capacity_bytes(bytes);
    }

    fn used_bytes(&self) -> u64 {
        let disk = self.disk.handle();
        let names = disk.list().unwrap_or_default();
        let bytes = |name: &String| disk.open(name).and_then(|file| file.len()).unwrap_or_default();
        names.iter().map(bytes).sum()
    }

    /// The node says that it must stop.
    pub(super) fn node_failed(&mut self, error: &Error) -> Result<(), Violation> {
        self.trace.event(format_args!("the node stops: {error}"));
        match self.armed {
            Some(PendingFault::Power) => self.power_cut(),
            Some(PendingFault::Failure) if self.rng.one_in(2) => self.power_cut(),
            Some(PendingFault::Failure) => self.kill(),
            None if self.full && matches!(error, Error::Full { .. }) => self.kill(),
            None => {
                let text = format!("the node stopped without a fault: {error}");
                return Err(Violation::new("liveness", text));
            }
        }
        Ok(())
    }

    fn kill(&mut self) {
        self.trace.event(format_args!("kill"));
        self.counts.kills += 1;
        self.stop();
        self.disk.kill();
        self.armed = None;
    }

    fn power_cut(&mut self) {
        let crash = *self.rng.pick(&[
            Crash::LoseUnsynced,
            Crash::Shuffle,
            Crash::ShuffleOrderedNames,
            Crash::KeepUnsynced,
        ]);
        self.trace.event(format_args!("power cut: {crash:?}"));
        self.counts.power_cuts += 1;
        self.stop();
        self.stopped.dark = true;
        self.disk.crash(crash);
        self.armed = None;
    }

    /// The process is gone, with everything it had in memory.
    fn stop(&mut self) {
        let Some(machine) = self.machine.take() else { return };
        self.time_jump_steps = 0;
        let clock_ms = machine.clock.now().millis();
        let durable = self.ledger.durable(machine.log.log.durable_end());
        self.stopped = StopState { written: self.ledger.last_written(), durable, dark: false };
        self.batches.clear();
        for (_, op) in std::mem::take(&mut self.ops) {
            if op.stage == OpStage::Sent {
                self.unknown_writes.push((op, clock_ms));
            }
        }
    }

    /// One step while the node is down.
    pub(super) fn down_step(&mut self) -> Result<(), Violation> {
        let faults = self.options.faults;
        match self.rng.below(10) {
            0 if !self.calm && self.armed.is_none() && faults.has(Fault::Power) => {
                let writes = self.rng.below(PLANNED_WRITES / 2);
                self.trace.event(format_args!("the power will go after {writes} changes"));
                self.disk.crash_after_writes(writes);
                self.armed = Some(PendingFault::Power);
                Ok(())
            }
            1 if !self.calm && faults.has(Fault::Full) && self.full => {
                self.fill_or_free();
                Ok(())
            }
            2 => {
                self.wall_ms += self.rng.below(1_000);
                Ok(())
            }
            _ => self.start(),
        }
    }

    /// Starts the node.
    pub(super) fn start(&mut self) -> Result<(), Violation> {
        if !self.calm && self.options.faults.has(Fault::Clock) && self.rng.one_in(3) {
            let back_ms = self.rng.below(60_000);
            self.wall_ms = self.wall_ms + self.rng.below(10_000) - back_ms;
        }
        let (profile, wall_ms) = (&self.profile, self.wall_ms);
        let RunProfile { executors, segment_bytes, limits, .. } = *profile;
        let (boot, join, seed, forgets) = (0, None, 0, None);
        let cluster_version = ClusterVersion::NEWEST;
        let start = Start {
            executors,
            segment_bytes,
            wall_ms,
            boot,
            join,
            limits,
            cluster_version,
            system_replicas: 1,
            reshape: ReshapeLimits::default(),
            seed,
            forgets,
            forgets_ends: false,
        };
        self.trace.event(format_args!("start at {wall_ms}"));
        match open::open(self.disk.handle(), &start, &mut self.rng) {
            Ok(started) => self.started(started),
            Err(error) => self.start_failed(&error),
        }
    }

    fn start_failed(&mut self, error: &RecoverError) -> Result<(), Violation> {
        self.trace.event(format_args!("the start fails: {error}"));
        match (self.armed, error) {
            (Some(PendingFault::Power), RecoverError::Storage(Error::Io { .. })) => {
                self.power_cut()
            }
            (Some(PendingFault::Failure), RecoverError::Storage(Error::Io { .. })) => {
                if self.rng.one_in(2) { self.power_cut() } else { self.kill() }
            }
            (_, RecoverError::Storage(Error::Full { .. })) if self.full => self.disk.kill(),
            (_, RecoverError::Storage(Error::Io { source, .. }))
                if self.full && source.kind() == std::io::ErrorKind::StorageFull =>
            {
                self.disk.kill();
            }
            _ => {
                let text = format!("the node does not start: {error}");
                return Err(Violation::new("R6 nothing is lost, invented or reordered", text));
            }
        }
        Ok(())
    }

    fn started(&mut self, started: StartedMachine) -> Result<(), Violation> {
        let StartedMachine { mut machine, recovered, .. } = started;
        self.counts.starts += 1;
        let StopState { written, durable, dark } = self.stopped;
        let guaranteed = if dark { durable } else { written };
        self.trace.event(format_args!("recovered {recovered:?}"));
        self.ledger.restarted(&recovered, guaranteed)?;
        machine.unsynced_ack = self.has_bug(Bug::UnsyncedAck);
        machine.short_checkpoint = self.has_bug(Bug::ShortCheckpoint);
        machine.forgets_shards = self.has_bug(Bug::ForgottenShard);
        self.machine = Some(machine);
        self.events += 1;
        let back = self.events;
        for (op, clock_ms) in std::mem::take(&mut self.unknown_writes) {
            self.lose(&op, clock_ms, back);
        }
        if dark {
            self.forget_weak();
        }
        let routes = self.machine().routes.values();
        let weak = routes.filter(|route| route.keyspace.options.durability != Durability::Sync);
        self.weak = weak.map(|route| route.keyspace.id).collect();
        self.stopped.dark = false;
        self.audit()
    }

    /// Nobody will ever be told whether this was done.
    fn lose(&mut self, op: &Op, clock_ms: u64, back: u64) {
        match &op.ask {
            ClientRequest::One(command) => {
                self.note(op, &op.keys, command.clone(), None, back, clock_ms);
            }
            ClientRequest::Flush(..) => {
                let keys: Vec<u64> = (0..self.profile.keys).collect();
                for tagged in keys.chunks(self.profile.tagged as usize) {
                    self.note(op, tagged, Command::Flush, None, back, clock_ms);
                }
            }
            _ => {}
        }
    }

    /// After a loss of power, a keyspace below `sync` goes on from what the disk has kept. That
    /// this is a prefix of its log was the ledger's to check.
    fn forget_weak(&mut self) {
        let routes: Vec<_> = self.machine().routes.values().cloned().collect();
        for route in routes.iter().filter(|route| self.weak.contains(&route.keyspace.id)) {
            let tagged = self.profile.tagged as usize;
            for (tag, names) in (0..).zip(self.names.chunks(tagged)) {
                let shard = route.shard(route.place(&route.key(&names[0])));
                let shard = self.ledger.shard(shard);
                let newest = |name: &Vec<u8>| shard.and_then(|shard| shard.versions.newest(name));
                let mut kept: Vec<_> = names.iter().map(newest).collect();
                kept.resize(tagged, None);
                let history = self.histories.entry((route.keyspace.id, tag)).or_default();
                let closed = std::mem::replace(history, History { first: kept, seen: Vec::new() });
                self.closed.push(((route.keyspace.id, tag), closed));
            }
        }
    }

    /// Nothing breaks from here on.
    pub(super) fn heal(&mut self) -> Result<(), Violation> {
        self.trace.event(format_args!("heal"));
        self.calm = true;
        self.time_jump_steps = 0;
        self.full = false;
        // What has struck and is not noticed yet still counts as the fault it was.
        self.disk.set_capacity_bytes(u64::MAX);
        self.disk.crash_after_writes(u64::MAX);
        self.disk.fail_sync(u64::MAX);
        self.disk.fail_write(u64::MAX);
        if self.machine.is_none() { self.start() } else { Ok(()) }
    }
}
