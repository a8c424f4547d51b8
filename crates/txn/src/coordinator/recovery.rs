//! How is an abandoned transaction finished, whose coordinator is dead or seems to be?
//!
//! ```text
//!   LOOK at the record ── an outcome ────────────────────────────► RESOLVE, as for one's own
//!          └── staged ──► PREVENT every key ── one is prevented ──► DECIDE aborted
//!                                ├── a value found alive expires ─► DECIDE aborted
//!                                └── all are locked ──────────────► DECIDE committed
//! ```
//!
//! Several coordinators may do so at a time, even the transaction's own: a step that is repeated
//! answers with what was decided before.

use keyspace::BootNanos;

use super::{Bodies, Coordinator, CoordinatorTime, NextStep, Phase, Routes, RunningTxn, TxnPhase};
use crate::AbandonedTxn;
use crate::locks::{
    Deadline, KeyFinding, Mark, Name, Outcome, RecordState, StepReply, commit_time,
};
use command::NotDone;

impl Coordinator {
    /// Finishes a transaction whose coordinator seems to be dead.
    pub fn finish(&mut self, abandoned: AbandonedTxn, at: CoordinatorTime, routes: Routes<'_>) {
        let AbandonedTxn { keyspace, id, record, keys } = abandoned;
        if self.runs.values().any(|run| run.id == id) {
            return;
        }
        let run = RunningTxn {
            keyspace,
            id,
            token: None,
            bodies: Bodies::new(),
            commands: 0,
            began: at.now,
            until: BootNanos::MAX,
            record,
            keyspaces: Vec::new(),
            keys: Vec::new(),
            in_record_shard: Vec::new(),
            in_order: false,
            may_be_committed: true,
            phase: Phase::ReadingRecord(keys),
            locked: None,
            reserved_as: None,
            tries: 0,
            not_before: 0,
            asks_from: 0,
            trace: self.new_trace(),
            record_shard: None,
        };
        self.start(run, at, routes);
    }

    /// The record's shard has answered LOOK.
    pub(super) fn looked(
        &mut self,
        number: u64,
        reply: Result<StepReply, NotDone>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let (Ok(StepReply::Record(state, keys)), Phase::ReadingRecord(locked)) =
            (reply, &mut run.phase)
        else {
            // The replica that has reported it will report it again.
            return self.give_up(number);
        };
        let locked = std::mem::take(locked);
        run.keys = keys;
        let outcome = match state {
            RecordState::Staged => {
                return self.enter(number, Phase::Preventing(Vec::new()), at, routes);
            }
            RecordState::Committed(at) => Outcome::Committed(at),
            // What is too old and still locked was never committed: a record that says so keeps
            // its keys until all are resolved.
            RecordState::Aborted | RecordState::TooOld => Outcome::Aborted,
        };
        run.keys.extend(locked.iter().map(|key| Name::from(&**key)));
        run.keys.sort_unstable();
        run.keys.dedup();
        self.trace(number, || match &outcome {
            Outcome::Committed(at) => TxnPhase::Committed { at: *at },
            Outcome::Staged | Outcome::Aborted => TxnPhase::Aborted,
        });
        self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
    }

    /// A shard has answered PREVENT.
    pub(super) fn prevented(
        &mut self,
        number: u64,
        part: usize,
        reply: Result<StepReply, NotDone>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Some(RunningTxn { phase: Phase::Preventing(found), .. }) = self.runs.get_mut(&number)
        else {
            return;
        };
        let Ok(StepReply::Found(findings)) = reply else { return self.give_up(number) };
        found[part] = Some(findings);
        if found.iter().any(Option::is_none) {
            return;
        }
        let locked_at = |finding: &KeyFinding| match finding {
            KeyFinding::Locked(vote) => Some((vote.at, vote.deadline)),
            // The record says so, whatever is found elsewhere.
            KeyFinding::Marked(Mark::Committed { locked_at, .. }) => {
                Some((*locked_at, Deadline::NEVER))
            }
            KeyFinding::Marked(Mark::Aborted) => None,
        };
        let all: Option<Vec<_>> = found.iter().flatten().flatten().map(locked_at).collect();
        let commit = all.and_then(commit_time);
        let outcome = commit.map_or(Outcome::Aborted, Outcome::Committed);
        self.enter(number, Phase::Deciding(outcome, NextStep::Nothing), at, routes);
    }
}
