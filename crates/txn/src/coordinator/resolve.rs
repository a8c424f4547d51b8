//! What follows an attempt: the coordinator writes its outcome, resolves its locks and has its
//! record forgotten. If it has failed, the next attempt begins.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::{ShardId, Timestamp};

use super::plan::KeyPlaces;
use super::{
    Coordinator, CoordinatorAction, CoordinatorTime, FORGET_NANOS, NextStep, Phase,
    ROUTE_RETRY_NANOS, Routes, RunningTxn, TRIES_MAX, TxnOutcome, TxnPhase,
};
use crate::locks::{Name, Outcome, RecordState, Step, StepReply, TxnId};
use command::NotDone;

impl Coordinator {
    /// Handles an attempt that has failed: reports to the client, or begins the next attempt, and
    /// returns its run if that is to go on now.
    pub(super) fn continue_after_failure(
        &mut self,
        number: u64,
        then: NextStep,
        at: CoordinatorTime,
    ) -> Option<u64> {
        let id = self.runs.get(&number)?.id;
        match then {
            NextStep::Nothing | NextStep::Acknowledged => None,
            NextStep::Report(ended) => {
                self.tell(number, ended);
                None
            }
            NextStep::Retry(pause) => {
                let id = TxnId { attempt: id.attempt + 1, ..id };
                self.start_retry(number, id, pause, at)
            }
            NextStep::Restart => {
                let new = self.new_id(at.time);
                let id = if id.spans_keyspaces() { new.spanning() } else { new };
                self.start_retry(number, id, 0, at)
            }
        }
    }

    pub(super) fn decided(
        &mut self,
        number: u64,
        reply: Result<StepReply, NotDone>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Ok(StepReply::Record(state, rest)) = reply else {
            return self.retry_phase_later(number, at);
        };
        let Some(run) = self.runs.get_mut(&number) else { return };
        let Phase::Deciding(_, then) = &run.phase else { return };
        let then = then.clone();
        let outcome = match state {
            RecordState::Committed(at) => Outcome::Committed(at),
            RecordState::Aborted | RecordState::TooOld | RecordState::Staged => Outcome::Aborted,
        };
        if let Outcome::Committed(commit) = outcome {
            // Those that the record's shard has not resolved.
            run.keys = rest;
            if !matches!(then, NextStep::Acknowledged) {
                self.trace(number, || TxnPhase::Committed { at: commit });
            }
            // Another has finished it, and what was answered is not known.
            self.tell(number, TxnOutcome::Unknown);
            return self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
        }
        if let NextStep::Acknowledged = then {
            // Another has finished it long ago, and the record is forgotten.
            assert!(state == RecordState::TooOld, "what is committed stays so (G8)");
            self.trace(number, || TxnPhase::Finished);
            self.runs.remove(&number);
            return;
        }
        self.trace(number, || TxnPhase::Aborted);
        if state == RecordState::TooOld {
            // What is so old may have been committed by another, and forgotten.
            self.tell(number, TxnOutcome::Unknown);
        }
        let is_known = state != RecordState::TooOld;
        let next = if is_known { self.continue_after_failure(number, then, at) } else { None };
        if let Some(run) = self.runs.get_mut(&number) {
            let places = KeyPlaces::of(run.id, run.keyspace, routes);
            // What comes with the record is resolved with it, or never locked. Other keys may have
            // come there since, by a merge, and keys of the record's may have gone, by a cut.
            let there = places.shard_of(&run.record);
            let in_record_shard = &run.in_record_shard;
            let is_done = |key: &Name| {
                in_record_shard.binary_search(key).is_ok() && places.shard_of(key) == there
            };
            let rest: BTreeSet<Name> = rest.into_iter().collect();
            run.keys.retain(|key| !is_done(key) || rest.contains(key));
        }
        self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
        if let Some(next) = next {
            // Behind what gives up the locks of the one before.
            self.go_on(next, at, routes);
        }
    }

    /// Begins another attempt in a run of its own, and returns that if it may go on at once. The
    /// failed attempt is cleaned up in its own run.
    pub(super) fn start_retry(
        &mut self,
        number: u64,
        id: TxnId,
        pause: u64,
        at: CoordinatorTime,
    ) -> Option<u64> {
        let run = self.runs.get_mut(&number)?;
        let next = RunningTxn {
            keyspace: run.keyspace,
            id,
            token: run.token.take(),
            bodies: run.bodies.clone(),
            commands: run.commands,
            began: run.began,
            until: run.until,
            record: Box::default(),
            keyspaces: Vec::new(),
            keys: Vec::new(),
            in_record_shard: Vec::new(),
            in_order: false,
            may_be_committed: false,
            phase: Phase::New,
            locked: run.locked.take(),
            reserved_as: run.reserved_as,
            tries: 0,
            not_before: at.now.saturating_add(pause).max(1),
            asks_from: 0,
            trace: run.trace.clone(),
            record_shard: None,
        };
        let number = self.next_run;
        self.runs.insert(number, next);
        self.next_run += 1;
        (pause == 0).then_some(number)
    }

    pub(super) fn resolved(
        &mut self,
        number: u64,
        part: usize,
        reply: Result<StepReply, NotDone>,
        at: CoordinatorTime,
    ) {
        let Some(RunningTxn { phase: Phase::Resolving(_, done), .. }) = self.runs.get_mut(&number)
        else {
            return;
        };
        match reply {
            Ok(StepReply::Done) => {
                done[part] = true;
                if done.iter().all(|done| *done) {
                    self.is_over(number, at);
                }
            }
            _ => self.retry_phase_later(number, at),
        }
    }

    /// Ends a run whose keys are all resolved: FORGET will name its record together with others.
    pub(super) fn is_over(&mut self, number: u64, at: CoordinatorTime) {
        self.trace(number, || TxnPhase::Finished);
        let Some(run) = self.runs.remove(&number) else { return };
        if self.finished_records.is_empty() {
            self.forget_at = at.now.saturating_add(FORGET_NANOS);
        }
        let (keyspace, key) = run.id.place_of(run.keyspace, &run.record);
        self.finished_records.push((keyspace, run.id, key.into()));
    }

    /// The keyspace of the record was dropped, and the record with it. What was decided here is
    /// done elsewhere; else nothing is, since nobody can find out any more (decision 0050). What
    /// cannot have been committed goes on as if the record said so.
    pub(super) fn record_was_dropped(
        &mut self,
        number: u64,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let mut then = NextStep::Nothing;
        let outcome = match &mut run.phase {
            Phase::Deciding(outcome, next) => {
                if !run.may_be_committed {
                    then = next.clone();
                }
                outcome.clone()
            }
            Phase::ReadingRecord(locked) => {
                run.keys = std::mem::take(locked).iter().map(|key| Name::from(&**key)).collect();
                Outcome::Aborted
            }
            _ => return,
        };
        let next = self.continue_after_failure(number, then, at);
        self.tell(number, TxnOutcome::Unknown);
        self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
        if let Some(next) = next {
            self.go_on(next, at, routes);
        }
    }

    /// Asks shards to forget the keys of finished records. No client waits for that: if it is not
    /// done, the leader of the record's shard has the transaction finished once more.
    ///
    /// The step carries the floor: no transaction that runs here began before it.
    pub(super) fn forget(&mut self, routes: Routes<'_>) {
        let mine = self.runs.values().map(|run| run.id).filter(|id| id.coordinator == self.name);
        // The next start is above all that there were.
        let next = Timestamp(self.newest.0 + 1);
        let before = mine.map(|id| id.start).min().unwrap_or(next);
        let floor = Some((self.name, before));
        let mut by_shard: BTreeMap<ShardId, Vec<(TxnId, &[u8])>> = BTreeMap::new();
        let finished_records = std::mem::take(&mut self.finished_records);
        for (keyspace, id, record) in &finished_records {
            // What is of a keyspace that is gone is gone with it.
            if let Some(route) = routes(*keyspace) {
                by_shard.entry(route.shard_of(record)).or_default().push((*id, record));
            }
        }
        for (shard, all) in by_shard {
            let ask = self.next_ask;
            self.next_ask += 1;
            let step = self.arena.put(&Step::Forget { all, floor });
            self.acts.push(CoordinatorAction::SendStep { shard, step, ask });
        }
    }

    /// Repeats a phase's steps later, since one has failed; unless they have failed too often.
    pub(super) fn retry_phase_later(&mut self, number: u64, at: CoordinatorTime) {
        let next_ask = self.next_ask;
        let Some(run) = self.runs.get_mut(&number) else { return };
        run.asks_from = next_ask;
        run.tries += 1;
        run.not_before = at.now.saturating_add(ROUTE_RETRY_NANOS);
        let is_late = run.began.saturating_add(self.request_timeout) <= at.now;
        let is_given_up = run.tries > TRIES_MAX && is_late;
        if is_late {
            self.tell(number, TxnOutcome::Unknown);
        }
        if is_given_up {
            // The leader of a shard with a lock has another coordinator finish it.
            self.give_up(number);
        }
    }
}
