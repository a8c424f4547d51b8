//! Faults of disks in a cluster: they fail, are full, lose power in the middle of a write, or lose
//! the end of a synced log.

use std::io::{self, ErrorKind};

use keyspace::{ReplicaId, ShardId};
use node::recovery::RecoverError;
use node::replica::state::ShardState;
use storage::Error;
use storage::disk::Disk;
use storage::log::Lsn;
use storage::manifest;

use super::{KEYSPACE, NodeSlot, World};
use crate::check::Violation;
use crate::machine::Machine;
use crate::options::Fault;

/// A fault of a node's disk that waits for its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDiskFault {
    /// The power goes at one of the next changes of the disk.
    Power,
    /// A sync or a write fails.
    Failure,
}

/// The farthest change of the disk that a planned loss of power waits for.
pub(super) const PLANNED_WRITES: u64 = 60;

/// Whether an error says that there is no room.
fn is_full(error: &Error) -> bool {
    match error {
        Error::Full { .. } => true,
        Error::Io { source, .. } => source.kind() == ErrorKind::StorageFull,
        _ => false,
    }
}

/// For how long nothing else breaks after a disk has lost what it had promised.
const NO_FAULTS_MS: u64 = 4_500;
/// … and for how long its node is down.
const DOWN_MS: u64 = 2_500;

/// Whether a shard has exactly so many voters, each in the descriptor, and no other replicas.
pub(super) fn is_whole(state: &ShardState, replicas: usize) -> bool {
    let members = &state.members;
    let is_placed = |replica: &ReplicaId| state.descriptor.node_of(*replica).is_some();
    let is_quiet = !members.is_joint() && members.learners.is_empty() && state.roster.is_settled;
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
    /// The power of a node goes when its disk has changed so often: in a write of the log, a
    /// checkpoint, a manifest, or a start, whatever comes then.
    pub(super) fn power_goes_at(&mut self, at: usize, writes: u64) {
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node}: the power will go after {writes} changes"));
        self.node_slots[at].disk.crash_after_writes(writes);
        self.node_slots[at].armed = Some(PendingDiskFault::Power);
    }

    pub(super) fn fail_sync(&mut self, at: usize) {
        let syncs = self.rng.below(6);
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node}: a sync will fail after {syncs}"));
        self.node_slots[at].disk.fail_sync(syncs);
        self.node_slots[at].armed = Some(PendingDiskFault::Failure);
    }

    pub(super) fn fail_write(&mut self, at: usize) {
        let writes = self.rng.below(15);
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node}: a write will fail after {writes}"));
        self.node_slots[at].disk.fail_write(writes);
        self.node_slots[at].armed = Some(PendingDiskFault::Failure);
    }

    pub(super) fn fill_or_free(&mut self, at: usize) {
        let seat = &mut self.node_slots[at];
        seat.full = !seat.full;
        let bytes = match seat.full {
            true => seat.used_bytes() + self.rng.below(3 * self.profile.segment_bytes / 2),
            false => u64::MAX,
        };
        let node = seat.node;
        self.trace.event(format_args!("the disk of node {node} holds {bytes} bytes"));
        self.counts.fillings += u64::from(seat.full);
        seat.disk.set_capacity_bytes(bytes);
    }

    /// A node loses its power, and with it the end of its log, synced or not.
    /// All others stay well until it has noticed: with two nodes broken, what the two alone had
    /// acknowledged would be lost.
    pub(super) fn lose_tail(&mut self, at: usize) {
        let all_awake = (0..self.node_slots.len()).all(|other| self.is_awake(other));
        if !all_awake || !self.is_whole() || self.has_alone(at) {
            return;
        }
        // What it lost must not reach back to a change of members: it would lead among those of
        // the past (docs/consistency.md).
        let machine = self.node_slots[at].machine.as_ref().expect("the node is awake");
        let views = machine.shard_ids().into_iter().filter_map(|id| machine.view(id));
        let changes = views.map(|view| view.read().descriptor.generation.0).sum::<u64>();
        let end = machine.log.log.written_end();
        if self.node_slots[at].members_end.0 != changes {
            self.node_slots[at].members_end = (changes, end);
            return;
        }
        self.mend();
        self.promise_fault = None;
        let bytes_max = self.rng.between(200, 3_000);
        self.crash(at, true);
        let seat = &mut self.node_slots[at];
        // The others have leaders when it comes back.
        seat.awake_at = self.now_ms + DOWN_MS;
        let floor = seat.members_end.1;
        let lost =
            lose_log_tail(&*seat.disk.handle(), floor, bytes_max).expect("a disk without faults");
        (seat.has_lost, seat.has_just_lost) = (true, lost > 0);
        self.no_faults_until = self.now_ms + NO_FAULTS_MS;
        self.counts.tails_lost += u64::from(lost > 0);
        let node = seat.node;
        self.trace.event(format_args!("node {node} has lost {lost} bytes of its log"));
    }

    /// Whether every shard has all its replicas.
    pub(super) fn is_whole(&self) -> bool {
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        machines
            .flat_map(|machine| machine.shard_ids().into_iter().map(move |id| (machine, id)))
            .all(|(machine, id)| {
                let view = machine.view(id).expect("the shard is on this node");
                let state = view.read();
                is_whole(&state, self.replicas_of(machine, id))
            })
    }

    /// How many replicas a shard should have, as a node knows.
    pub(super) fn replicas_of(&self, machine: &Machine, id: ShardId) -> usize {
        let keyspace = machine.view(id).map(|view| view.read().descriptor.keyspace());
        let mut keyspaces = machine.routes.values().map(|route| &route.keyspace);
        let of = keyspaces.find(|of| Some(of.id) == keyspace);
        let guest = of.filter(|keyspace| &*keyspace.name != KEYSPACE);
        guest.map_or(self.profile.replicas_of(id), |guest| match self.placement_state {
            Some(_) => self.asked_of(guest),
            None => guest.nodes.len(),
        })
    }

    /// Whether a node has a shard that no other has: what it loses then is lost.
    pub(super) fn has_alone(&self, at: usize) -> bool {
        let Some(machine) = &self.node_slots[at].machine else { return false };
        machine.shard_ids().into_iter().any(|id| self.replicas_of(machine, id) == 1)
    }

    /// A node says that it must stop: what its disk did to it is the reason, or a rule is broken.
    pub(super) fn node_failed(&mut self, at: usize, error: &Error) -> Result<(), Violation> {
        let NodeSlot { node, armed, full, .. } = self.node_slots[at];
        self.trace.event(format_args!("node {node} stops: {error}"));
        self.counts.disk_deaths += 1;
        match armed {
            Some(PendingDiskFault::Power) => self.crash(at, true),
            Some(PendingDiskFault::Failure) => {
                let power = self.options.faults.has(Fault::Power) && self.rng.one_in(2);
                self.crash(at, power);
            }
            None if full && matches!(error, Error::Full { .. }) => self.crash(at, false),
            None => {
                let text = format!("node {node} stopped without a fault of its disk: {error}");
                return Err(Violation::new("liveness", text));
            }
        }
        Ok(())
    }

    pub(super) fn start_failed(
        &mut self,
        at: usize,
        error: &RecoverError,
    ) -> Result<(), Violation> {
        let NodeSlot { node, armed, full, .. } = self.node_slots[at];
        self.trace.event(format_args!("node {node} does not start: {error}"));
        match (armed, error) {
            (Some(PendingDiskFault::Power), RecoverError::Storage(Error::Io { .. })) => {
                self.end(at, true)
            }
            (Some(PendingDiskFault::Failure), RecoverError::Storage(Error::Io { .. })) => {
                let power = self.options.faults.has(Fault::Power) && self.rng.one_in(2);
                self.end(at, power);
            }
            (_, RecoverError::Storage(error)) if full && is_full(error) => {
                self.end(at, false);
                // An operator makes room, sooner or later.
                if self.calm || self.rng.one_in(3) {
                    self.fill_or_free(at);
                }
            }
            _ => {
                let text = format!("node {node} does not start: {error}");
                return Err(Violation::new("R6 nothing is lost", text));
            }
        }
        Ok(())
    }
}
