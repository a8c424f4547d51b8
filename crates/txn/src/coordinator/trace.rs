//! Steps of a transaction, told to who watches: [`CoordinatorAction::Trace`].
//!
//! The driver says before a transaction begins whether its steps are to be told
//! ([`Coordinator::set_tracing`]); then all of them are, in all its attempts. Else nothing is
//! gathered. Each attempt that was begun ends with [`TxnPhase::Finished`] or
//! [`TxnPhase::GivenUp`], unless the coordinator ends before.

use keyspace::{KeyspaceId, ShardId, Timestamp};

use super::plan::KeyPlaces;
use super::{Coordinator, CoordinatorAction, Phase, Routes, Steps};
use crate::locks::{Outcome, PrepareRefusal, StepReply, TxnId};
use command::NotDone;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnTrace {
    /// The transaction, and its attempt.
    pub id: TxnId,
    /// Its keyspace, or one of them.
    pub keyspace: KeyspaceId,
    /// The shard of its record, if that is known.
    pub record: Option<ShardId>,
    /// How many keys are locked.
    pub keys: usize,
    /// What step.
    pub phase: TxnPhase,
    /// Whether this coordinator takes no further step of it, in no attempt.
    pub is_last: bool,
}

/// What the coordinator does, or has learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnPhase {
    /// It asks shards to lock keys and to vote.
    Prepare {
        /// These.
        shards: Vec<ShardId>,
        /// One after the other; the last one commits.
        in_order: bool,
    },
    /// A shard votes for it.
    Voted {
        /// This one.
        shard: ShardId,
    },
    /// A shard does not.
    Refused {
        /// This one.
        shard: ShardId,
        /// Why.
        why: TxnRefusal,
    },
    /// It is committed: the client is answered, if it waits here.
    Committed {
        /// When.
        at: Timestamp,
    },
    /// Nothing of this attempt is done.
    Aborted,
    /// The record is to have the outcome.
    Decide {
        /// Whether it is that it is committed.
        is_committed: bool,
    },
    /// Shards are to write its values, or to give up its locks.
    Resolve {
        /// These.
        shards: Vec<ShardId>,
        /// Whether it is committed.
        is_committed: bool,
    },
    /// No lock is left of this attempt.
    Finished,
    /// Steps have failed too often: whichever coordinator finds what is left of it finishes it.
    GivenUp,
    /// It is another coordinator's, which seems to be dead.
    Recover,
    /// These are asked whether they hold its locks.
    Prevent {
        /// These.
        shards: Vec<ShardId>,
    },
}

/// Why a shard does not vote for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnRefusal {
    /// Another transaction holds a key.
    Locked,
    /// A key that it watches has changed.
    Changed,
    /// Its id is too old.
    TooOld,
    /// It writes too much.
    TooMuch,
    /// Somebody else has ended it.
    Aborted,
    /// The shard has other keys by now, or a value has expired.
    Moved,
    /// The disk is full.
    DiskFull,
    /// There was no answer.
    NoAnswer,
}

impl TxnRefusal {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            TxnRefusal::Locked => "locked",
            TxnRefusal::Changed => "changed",
            TxnRefusal::TooOld => "too-old",
            TxnRefusal::TooMuch => "too-much",
            TxnRefusal::Aborted => "aborted",
            TxnRefusal::Moved => "moved",
            TxnRefusal::DiskFull => "disk-full",
            TxnRefusal::NoAnswer => "no-answer",
        }
    }
}

/// What is remembered of a transaction whose steps are told.
#[derive(Clone, Debug, Default)]
pub(super) struct TracedTxn {
    /// The shard of each part of the attempt.
    pub shards: Vec<ShardId>,
}

impl Coordinator {
    /// Whether steps of transactions that begin from now on are told.
    pub fn set_tracing(&mut self, is_tracing: bool) {
        self.is_tracing = is_tracing;
    }

    /// For a transaction that begins.
    pub(super) fn new_trace(&self) -> Option<Box<TracedTxn>> {
        self.is_tracing.then(Box::default)
    }

    /// Tells a step of a run, if its steps are told.
    pub(super) fn trace(&mut self, number: u64, phase: impl FnOnce() -> TxnPhase) {
        let Some(run) = self.runs.get(&number).filter(|run| run.trace.is_some()) else { return };
        let phase = phase();
        let is_last = matches!(phase, TxnPhase::Finished | TxnPhase::GivenUp)
            && !self.runs.iter().any(|(other, one)| *other != number && is_same(one.id, run.id));
        self.acts.push(CoordinatorAction::Trace(Box::new(TxnTrace {
            id: run.id,
            keyspace: run.keyspace,
            record: run.record_shard,
            keys: run.keys.len(),
            phase,
            is_last,
        })));
    }

    /// Ends a run that leaves what there is of its transaction to others.
    pub(super) fn give_up(&mut self, number: u64) {
        self.trace(number, || TxnPhase::GivenUp);
        self.runs.remove(&number);
    }

    /// The same, of shards that get these steps.
    pub(super) fn trace_shards<S>(
        &mut self,
        number: u64,
        steps: &[(ShardId, S)],
        phase: impl FnOnce(Vec<ShardId>) -> TxnPhase,
    ) {
        self.trace(number, || phase(steps.iter().map(|(shard, _)| *shard).collect()));
    }

    /// Remembers where the record and the parts of an attempt are, if its steps are told.
    pub(super) fn note_places<S>(
        &mut self,
        number: u64,
        steps: &[(ShardId, S)],
        routes: Routes<'_>,
    ) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let Some(trace) = &mut run.trace else { return };
        trace.shards = steps.iter().map(|(shard, _)| *shard).collect();
        run.record_shard = KeyPlaces::of(run.id, run.keyspace, routes).shard_of(&run.record);
    }

    /// Tells the answer of a part to PREPARE.
    pub(super) fn trace_vote(
        &mut self,
        number: u64,
        part: usize,
        reply: &Result<StepReply, NotDone>,
    ) {
        let trace = self.runs.get(&number).and_then(|run| run.trace.as_ref());
        let Some(&shard) = trace.and_then(|trace| trace.shards.get(part)) else { return };
        self.trace(number, || match reply {
            Ok(StepReply::Voted(_)) => TxnPhase::Voted { shard },
            refused => TxnPhase::Refused { shard, why: refusal(refused) },
        });
    }
}

/// What a phase that sends these steps is, for who watches.
pub(super) fn traced_phase(phase: &Phase, steps: &Steps) -> Option<TxnPhase> {
    let shards = || steps.iter().map(|(shard, _)| *shard).collect();
    let is_committed = |outcome: &Outcome| matches!(outcome, Outcome::Committed(_));
    Some(match phase {
        Phase::New | Phase::Preparing(..) => return None,
        Phase::ReadingRecord(_) => TxnPhase::Recover,
        Phase::Preventing(_) => TxnPhase::Prevent { shards: shards() },
        Phase::Deciding(outcome, _) => TxnPhase::Decide { is_committed: is_committed(outcome) },
        Phase::Resolving(outcome, _) => {
            TxnPhase::Resolve { shards: shards(), is_committed: is_committed(outcome) }
        }
    })
}

/// Whether these are attempts of one transaction.
fn is_same(one: TxnId, other: TxnId) -> bool {
    (one.start, one.coordinator) == (other.start, other.coordinator)
}

fn refusal(reply: &Result<StepReply, NotDone>) -> TxnRefusal {
    match reply {
        Ok(StepReply::Refused(PrepareRefusal::Locked(_))) => TxnRefusal::Locked,
        Ok(StepReply::Refused(PrepareRefusal::Changed(_))) => TxnRefusal::Changed,
        Ok(StepReply::Refused(PrepareRefusal::TooOld(_))) => TxnRefusal::TooOld,
        Ok(StepReply::Refused(PrepareRefusal::TooMuch)) => TxnRefusal::TooMuch,
        Ok(StepReply::Refused(PrepareRefusal::Aborted)) => TxnRefusal::Aborted,
        Ok(_) => TxnRefusal::Moved,
        Err(NotDone::DiskFull) => TxnRefusal::DiskFull,
        Err(_) => TxnRefusal::NoAnswer,
    }
}
