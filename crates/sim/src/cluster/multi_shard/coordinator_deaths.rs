//! A transaction whose coordinator dies at a chosen step. Afterwards other transactions must get
//! its keys, and no lock or record may be left. If the client got an answer, the outcome must
//! agree.

use command::ObservedVersion;
use keyspace::{ShardId, Timestamp};

use super::workloads::{WatchedKey, Workload};
use super::{KEYS, OpPath, Part, PendingOp, WIDE, World};
use crate::check::Violation;
use crate::check::serial::{ObservedTxn, Op, Outcome};
use crate::machine::coordinator::CoordinatorCrash;

/// Virtual time within which others get the keys of a transaction whose coordinator is dead, and
/// no lock or record of it is left (R12).
const FINISHED_MS_MAX: u64 = 6_000;
/// Shards that it goes over.
const SHARDS: usize = 3;

/// Such a transaction.
pub(crate) struct CoordinatorDeath {
    /// Whose it is.
    pub at: usize,
    /// By what it is named.
    pub name: u64,
    /// What it appends, and to which keys.
    appends: Vec<(usize, u64)>,
}

impl World {
    /// Transactions over shards are begun at other nodes only.
    pub(crate) fn spare(&mut self, at: usize) {
        if let Some(wide) = &mut self.wide {
            wide.spared = Some(at);
        }
    }

    /// Begins a transaction over three shards: each list is appended to, and one is read. If it is
    /// broken, it watches a key that is not as it was seen. Its coordinator ends after so many
    /// steps.
    ///
    /// # Errors
    /// The keyspace does not have so many shards.
    pub(crate) fn begin_with_dying_coordinator(
        &mut self,
        at: usize,
        is_broken: bool,
        steps: u32,
    ) -> Result<CoordinatorDeath, Violation> {
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let name = machine.coordinates.name;
        machine.coordinates.fuse = Some(CoordinatorCrash { of: name, left: steps });
        let route = machine.routes[WIDE].clone();
        let wide = self.wide.as_mut().expect("there are transactions");
        let mut shards: Vec<ShardId> = Vec::new();
        let mut keys = Vec::new();
        for key in 0..KEYS {
            let shard = route.shard(route.place_of_key(&wide.names[key]));
            if keys.len() < SHARDS && !shards.contains(&shard) {
                shards.push(shard);
                keys.push(key);
            }
        }
        if keys.len() < SHARDS {
            return Err(Violation::new("liveness", format!("{WIDE} has only {shards:?}")));
        }
        let mut parts: Vec<Part> = keys.iter().map(|key| wide.append(*key)).collect();
        let appends = parts.iter().filter_map(|part| match part {
            Part::Append(key, element) => Some((*key, *element)),
            _ => None,
        });
        let appends = appends.collect();
        parts.push(Part::Get(keys[0]));
        // Nothing was ever written so long ago.
        let seen: WatchedKey = (keys[1], ObservedVersion::Version(Timestamp(1)), Vec::new());
        let watched = if is_broken { vec![seen] } else { Vec::new() };
        let (workload, path) = (Workload::ListAppend, OpPath::Coordinated);
        let number = self.put_asked(None, at, workload, parts, watched, path);
        self.coordinate_wide(number);
        Ok(CoordinatorDeath { at, name, appends })
    }

    /// All coordinators end when they have taken so many steps to finish it, also those of nodes
    /// that have just come back.
    pub(crate) fn kill_recoverers(&mut self, doomed: &CoordinatorDeath, steps: u32) {
        for machine in self.node_slots.iter_mut().filter_map(|seat| seat.machine.as_mut()) {
            let fuse = CoordinatorCrash { of: doomed.name, left: steps };
            machine.coordinates.fuse.get_or_insert(fuse);
        }
    }

    /// Takes nodes whose coordinators have just ended. No other ends by itself any more, and their
    /// clients get no answer.
    pub(crate) fn ended_coordinators(&mut self) -> Vec<usize> {
        let has_ended = |at: &usize| {
            let machine = self.node_slots[*at].machine.as_ref();
            machine.is_some_and(|machine| machine.coordinates.has_ended)
        };
        let ended: Vec<usize> = (0..self.node_slots.len()).filter(has_ended).collect();
        if ended.is_empty() {
            return ended;
        }
        for machine in self.node_slots.iter_mut().filter_map(|seat| seat.machine.as_mut()) {
            (machine.coordinates.fuse, machine.coordinates.has_ended) = (None, false);
        }
        for at in ended.iter().copied() {
            let node = self.node_slots[at].node;
            self.trace.event(format_args!("the coordinator of node {node} has ended"));
            // What it had told before, it has told.
            self.follow_coordinator(at);
            let wide = self.wide.as_ref().expect("there are transactions");
            let is_its = |pending: &PendingOp| match &pending.path {
                OpPath::Coordinated => pending.at == at,
                OpPath::Scripted(script) => pending.at == at && script.is_coordinated,
                _ => false,
            };
            let its = wide.pending.iter().filter(|(_, pending)| is_its(pending));
            for number in its.map(|(number, _)| *number).collect::<Vec<_>>() {
                self.counts.multi_shard_unknown += 1;
                self.not_done_wide(number, Outcome::Unknown);
            }
        }
        ended
    }

    /// The process of a node ends now.
    pub(crate) fn kill(&mut self, at: usize) {
        self.crash(at, false);
    }

    /// Runs a transaction on the same keys, which must be done within a bound; by then no lock or
    /// record of the first one may be left.
    ///
    /// # Errors
    /// The violation, if something is left or breaks meanwhile.
    pub(crate) fn run_competing_txn(&mut self, doomed: &CoordinatorDeath) -> Result<(), Violation> {
        let deadline = self.now_ms + FINISHED_MS_MAX;
        let (mut is_done, mut other) = (false, None);
        while self.now_ms < deadline && !(is_done && self.left_of(doomed.name).is_empty()) {
            let wide = self.wide.as_ref().expect("there are transactions");
            match other {
                Some((number, _)) if wide.pending.contains_key(&number) => {}
                Some((_, element)) if outcome_of(&wide.history, element) != Outcome::NotDone => {
                    is_done = true;
                }
                _ => other = self.begin_other(doomed),
            }
            self.millisecond()?;
        }
        let left = self.left_of(doomed.name);
        if is_done && left.is_empty() {
            return Ok(());
        }
        let others = if is_done { "others have its keys" } else { "nobody has its keys" };
        let text = format!("{FINISHED_MS_MAX} ms after its coordinator, {others}; {left}");
        Err(Violation::new("R12 transactions are finished", text))
    }

    /// Somebody appends to the same keys: at which number, and what.
    fn begin_other(&mut self, doomed: &CoordinatorDeath) -> Option<(u64, u64)> {
        let may = |at: &usize| {
            let machine = self.node_slots[*at].machine.as_ref();
            let knows = machine.is_some_and(|machine| machine.routes.contains_key(WIDE));
            *at != doomed.at && self.is_awake(*at) && knows
        };
        let at = (0..self.node_slots.len()).find(may)?;
        self.set_clocks(at);
        let wide = self.wide.as_mut()?;
        let mut parts: Vec<Part> = doomed.appends.iter().map(|(key, _)| Part::Get(*key)).collect();
        parts.push(wide.append(doomed.appends[0].0));
        let (element, workload) = (wide.elements, Workload::ListAppend);
        let number = self.put_asked(None, at, workload, parts, Vec::new(), OpPath::Coordinated);
        self.coordinate_wide(number);
        Some((number, element))
    }

    /// Checks that it was done everywhere or nowhere, in agreement with its client's answer. Call
    /// it when all keys have been read.
    ///
    /// # Errors
    /// The violation, if it was not.
    pub(crate) fn matches_answer(&self, doomed: &CoordinatorDeath) -> Result<(), Violation> {
        let wide = self.wide.as_ref().expect("there are transactions");
        let is_there = |(key, element): &(usize, u64)| {
            let name = &wide.names[*key];
            wide.history.iter().flat_map(|done| &done.ops).any(|op| match op {
                Op::Read { key, list: Some(list) } => key == name && list.contains(element),
                _ => false,
            })
        };
        let there: Vec<bool> = doomed.appends.iter().map(is_there).collect();
        let told = outcome_of(&wide.history, doomed.appends[0].1);
        let is_right = match told {
            Outcome::Committed { .. } => there.iter().all(|there| *there),
            Outcome::NotDone => !there.contains(&true),
            Outcome::Unknown => there.iter().all(|one| *one == there[0]),
        };
        if is_right {
            return Ok(());
        }
        let text = format!("its client was told {told:?}, and what it wrote is there: {there:?}");
        Err(Violation::new("R7 what is committed stays so", text))
    }

    /// What is left of transactions of a coordinator, in words.
    fn left_of(&self, name: u64) -> String {
        let mut text = String::new();
        for machine in self.node_slots.iter().filter_map(|seat| seat.machine.as_ref()) {
            let node = machine.node();
            for view in machine.shard_ids().into_iter().filter_map(|id| machine.view(id)) {
                let state = view.read();
                let locked =
                    state.locks.iter().filter(|(_, lock)| lock.id.coordinator == name).count();
                let unfinished =
                    state.locks.unfinished().filter(|(id, ..)| id.coordinator == name).count();
                if locked + unfinished > 0 {
                    let shard = state.descriptor.shard;
                    text += &format!(
                        "{locked} locks and {unfinished} records in shard {shard} at node {node}; "
                    );
                }
            }
        }
        text
    }
}

/// What the client was told of a transaction that has appended this.
fn outcome_of(history: &[ObservedTxn], element: u64) -> Outcome {
    let appended = |op: &Op| matches!(op, Op::Append { element: one, .. } if *one == element);
    let done = history.iter().find(|done| done.ops.iter().any(appended));
    done.map_or(Outcome::Unknown, |done| done.outcome)
}
