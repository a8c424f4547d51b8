//! Scripts over any shards: the server's `scripts::shards`.

use bytes::Bytes;
use command::{NotDone, Read, Reply, Step, Write};
use keyspace::ShardId;
use node::executor::Input;
use node::replica::entry::{Batch, Waiter};
use node::replica::read::{self, ReadTime};
use node::replica::script_keys::{ScriptHalt, ScriptKeys, is_read_first};
use node::routing::fetch::{FetchRequest, FetchedData};
use node::routing::route::Route;
use txn::coordinator::TxnOutcome;
use txn::interactive::InteractiveTxn;
use txn::script_attempt::{AttemptCommit, AttemptOutcome};

use super::program::{Effects, with_step};
use super::{BYTES_MAX, COMMIT, Task};
use crate::check::serial::Outcome;
use crate::cluster::multi_shard::reads::reserve;
use crate::cluster::multi_shard::{OpPath, Plant, WIDE, World};
use crate::machine::CLIENTS;

/// How long a script may be at it.
const PATIENCE_MS: u64 = 2_500;
/// … and how long it is tried again, in nanoseconds.
const TIMEOUT_NANOS: u64 = 1_500_000_000;

/// Keys that are read for a script.
pub(super) struct ScriptRead {
    keys: Vec<Bytes>,
    now: ReadTime,
    pub fetched: FetchedData,
    /// Whether the keys are yet to be reserved.
    reserves: bool,
    pub gives_up_at: u64,
}

/// Why a script of the simulator ends early.
enum Stop {
    Halt(ScriptHalt),
    /// As if it took too long.
    Time,
}

impl World {
    /// Runs a script, as far as it goes now.
    pub(super) fn run_script(&mut self, at: usize, number: u64) {
        let now_ms = self.now_ms;
        let machine = self.node_slots[at].machine.as_ref().expect("it runs");
        let now = machine.moment();
        let Some(route) = machine.routes.get(WIDE).cloned() else {
            return self.script_ended(number, Err(Outcome::NotDone));
        };
        let Some(wide) = &mut self.wide else { return };
        let Some(pending) = wide.pending.get_mut(&number) else { return };
        let OpPath::Scripted(script) = &mut pending.path else { return };
        let copy = script.copy.take();
        let mut copy = copy.unwrap_or_else(|| InteractiveTxn::restartable(now.time, BYTES_MAX));
        let mut wanted = script.attempt.reads_first(|key| is_read_first(&route, key, now));
        let mut ran = Ok(Effects::default());
        if wanted.is_none() {
            copy.restart();
            let mut keys =
                ScriptKeys { route: &route, place: None, now, copy: &mut copy, wrote: false };
            let mut calls_left = if wide.rng.one_in(40) { wide.rng.below(3) } else { u64::MAX };
            ran = script.program.run(&mut |part| {
                calls_left = calls_left.checked_sub(1).ok_or(Stop::Time)?;
                let run = |step: &Step<'_>| keys.run(std::slice::from_ref(step));
                Ok(with_step(part, &wide.names, run).map_err(Stop::Halt)?.remove(0))
            });
            if let Err(Stop::Halt(ScriptHalt::Missing(keys))) = &ran {
                wanted = Some(keys.iter().map(|key| Bytes::copy_from_slice(key)).collect());
            }
        }
        script.copy = Some(copy);
        if let Some(keys) = wanted {
            let reserves = script.attempt.reserved_as().is_some();
            let (fetched, gives_up_at) = (FetchedData::default(), now_ms + PATIENCE_MS);
            script.reading = Some(ScriptRead { keys, now, fetched, reserves, gives_up_at });
            self.counts.script_reads += 1;
            return wide.scripts.tasks.push((at, Task::Read(number)));
        }
        match ran {
            Ok(Effects { parts, replies }) => {
                (pending.parts, script.replies) = (parts, replies);
                wide.scripts.tasks.push((at, Task::Commit(number)));
            }
            Err(_) => self.script_ended(number, Err(Outcome::NotDone)),
        }
    }

    /// Reads keys for a script, and lets it run then.
    pub(super) fn read_for_script(&mut self, at: usize, number: u64) {
        let machine = self.node_slots[at].machine.as_mut().expect("it runs");
        let Some(wide) = &mut self.wide else { return };
        let Some(pending) = wide.pending.get_mut(&number) else { return };
        let OpPath::Scripted(script) = &mut pending.path else { return };
        let (Some(reading), Some(copy)) = (&mut script.reading, &mut script.copy) else { return };
        let Some(route) = machine.routes.get(WIDE).cloned() else {
            return self.script_ended(number, Err(Outcome::NotDone));
        };
        if std::mem::take(&mut reading.reserves)
            && let Some(name) = script.attempt.reserved_as()
        {
            let names: Vec<&[u8]> = reading.keys.iter().map(AsRef::as_ref).collect();
            self.counts.script_reservations += 1;
            return reserve(machine, &route, &names, Waiter(number), name);
        }
        let mut is_too_large = false;
        for key in &reading.keys {
            if copy.missing_keys(&Step::Read(Read::Get(key))).is_empty() {
                continue;
            }
            let found =
                read::seen_with(&route, key, reading.now, &reading.fetched, |version, seen| {
                    copy.record_read(key, version.map(|v| (v.value, v.expiry_ms)), seen)
                });
            match found {
                Ok(recorded) => is_too_large |= recorded.is_err(),
                Err(blocked) => {
                    let (shard, input) =
                        wait_for(&blocked, &route, &reading.keys, number, machine.node());
                    return machine.submit(shard, input);
                }
            }
        }
        script.reading = None;
        if is_too_large {
            return self.script_ended(number, Err(Outcome::NotDone));
        }
        wide.scripts.tasks.push((at, Task::Run(number)));
    }

    /// Has what a script has written done, if what it has read is as it was.
    pub(super) fn commit_script(&mut self, at: usize, number: u64) {
        let without_versions = self.has(Plant::ScriptWithoutVersions);
        let machine = self.node_slots[at].machine.as_mut().expect("it runs");
        let Some(wide) = &mut self.wide else { return };
        let Some(pending) = wide.pending.get_mut(&number) else { return };
        let OpPath::Scripted(script) = &mut pending.path else { return };
        let (Some(copy), Some(route)) = (&script.copy, machine.routes.get(WIDE).cloned()) else {
            return self.script_ended(number, Err(Outcome::NotDone));
        };
        match script.attempt.commit(copy, &*route) {
            AttemptCommit::Nothing => self.script_committed(number, AttemptOutcome::Done),
            AttemptCommit::OneShard(shard, mut transaction) => {
                if without_versions {
                    transaction.watched.clear();
                }
                let mut batch = Batch::default();
                let waiter = Waiter(number | COMMIT);
                batch.push(&Write::Transaction(Box::new(transaction)), waiter);
                machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
            }
            AttemptCommit::Spanning(_) => unreachable!("scripts here have one keyspace"),
            AttemptCommit::Coordinated(transaction) => {
                self.counts.scripts_coordinated += 1;
                script.is_coordinated = true;
                let reserved_as = script.attempt.reserved_as();
                let whole = [(route.keyspace.id, &transaction)];
                machine.coordinate(&whole, number, reserved_as);
            }
        }
    }

    /// Whether this is a script's number.
    pub(in crate::cluster::multi_shard) fn is_script(&self, number: u64) -> bool {
        let pending = self.wide.as_ref().and_then(|wide| wide.pending.get(&number));
        pending.is_some_and(|pending| matches!(pending.path, OpPath::Scripted(_)))
    }

    /// The coordinator has ended a script's transaction.
    pub(in crate::cluster::multi_shard) fn script_coordinated(
        &mut self,
        number: u64,
        ended: TxnOutcome,
    ) {
        self.script_committed(number, AttemptOutcome::coordinated(ended));
    }

    /// A script's entry was applied, or not.
    pub(in crate::cluster::multi_shard) fn script_answered(
        &mut self,
        number: u64,
        answer: Result<Reply, NotDone>,
    ) {
        let outcome = match answer {
            Ok(reply) => AttemptOutcome::applied(Some(reply)),
            Err(why) => AttemptOutcome::not_done(why),
        };
        self.script_committed(number, outcome);
    }

    /// A script's keys cannot be read.
    pub(in crate::cluster::multi_shard) fn script_unread(&mut self, number: u64, why: NotDone) {
        let Some((pending, _)) = self.script_mut(number) else { return };
        let OpPath::Scripted(script) = &mut pending.path else { return };
        match why {
            // It has read them meanwhile.
            _ if script.reading.is_none() => {}
            // The shard has become a part of another: it is looked up again.
            NotDone::ReplicaLagging | NotDone::NoSuchShard => self.script_may_read(number),
            why => {
                self.trace.event(format_args!("a script cannot read: {why:?}"));
                self.script_ended(number, Err(Outcome::NotDone));
            }
        }
    }

    /// Lets a script's read go on.
    pub(in crate::cluster::multi_shard) fn script_may_read(&mut self, number: u64) {
        let Some((pending, scripts)) = self.script_mut(number) else { return };
        let at = pending.at;
        let OpPath::Scripted(script) = &mut pending.path else { return };
        let task = (at, Task::Read(number));
        if script.reading.is_some() && !scripts.tasks.contains(&task) {
            scripts.tasks.push(task);
        }
    }

    /// What was fetched for a script.
    pub(in crate::cluster::multi_shard) fn script_fetched(
        &mut self,
        number: u64,
    ) -> Option<&mut FetchedData> {
        let (pending, _) = self.script_mut(number)?;
        let OpPath::Scripted(script) = &mut pending.path else { return None };
        script.reading.as_mut().map(|reading| &mut reading.fetched)
    }

    /// Ends scripts whose keys could not be read for too long.
    pub(in crate::cluster::multi_shard) fn expire_scripts(&mut self) {
        let now_ms = self.now_ms;
        let Some(wide) = &self.wide else { return };
        let late = wide.pending.iter().filter(|(_, pending)| match &pending.path {
            OpPath::Scripted(script) => {
                script.reading.as_ref().is_some_and(|reading| reading.gives_up_at <= now_ms)
            }
            _ => false,
        });
        for number in late.map(|(number, _)| *number).collect::<Vec<u64>>() {
            self.script_ended(number, Err(Outcome::NotDone));
        }
    }

    fn script_committed(&mut self, number: u64, outcome: AttemptOutcome) {
        self.trace.event(format_args!("a script's commit: {outcome:?}"));
        let Some(wide) = &mut self.wide else { return };
        let Some(pending) = wide.pending.get_mut(&number) else { return };
        let OpPath::Scripted(script) = &mut pending.path else { return };
        script.is_coordinated = false;
        match outcome {
            AttemptOutcome::Done => {
                let (parts, replies) = (pending.parts.clone(), std::mem::take(&mut script.replies));
                self.script_ended(number, Ok(Effects { parts, replies }));
            }
            AttemptOutcome::NotDone(why) => {
                self.script_ended(number, Err(World::outcome_of(why)));
            }
            AttemptOutcome::Ended(TxnOutcome::Unknown) => {
                self.script_ended(number, Err(Outcome::Unknown));
            }
            AttemptOutcome::Ended(_) => self.script_ended(number, Err(Outcome::NotDone)),
            AttemptOutcome::ChangedIn(..) => unreachable!("scripts here have one keyspace"),
            outcome @ (AttemptOutcome::Changed(_) | AttemptOutcome::Moved) => {
                let machine = self.node_slots[pending.at].machine.as_ref().expect("it runs");
                let copy = script.copy.take().expect("it has run");
                let read = copy.transaction().watched;
                let read = read.iter().map(|(key, _)| Bytes::copy_from_slice(key)).collect();
                let times = (machine.boot, TIMEOUT_NANOS);
                let has_time = match outcome {
                    AttemptOutcome::Changed(key) => {
                        self.counts.script_conflicts += 1;
                        script.attempt.retry(key, read, times, || machine.clock.tick()).is_ok()
                    }
                    _ => script.attempt.reroute(read, times),
                };
                match has_time {
                    true => wide.scripts.tasks.push((pending.at, Task::Run(number))),
                    false => self.script_ended(number, Err(Outcome::NotDone)),
                }
            }
        }
    }
}

/// What is asked of whom when a key cannot be read.
fn wait_for(
    blocked: &read::Blocked,
    route: &Route,
    keys: &[Bytes],
    number: u64,
    node: keyspace::NodeId,
) -> (ShardId, Input) {
    let read::Blocked { place, at, lock } = *blocked;
    let (shard, origin, waiter) = (route.shard(place), CLIENTS, Waiter(number));
    if !route.must_fetch(place, node) {
        return (shard, Input::AwaitRead { shard, at, lock, origin, waiter });
    }
    let there = keys.iter().map(AsRef::as_ref).filter(|key| route.place_of_key(key) == place);
    let want = Box::new(FetchRequest::keys(there));
    (shard, Input::Fetch { shard, want, bytes_max: usize::MAX, origin, waiter })
}
