//! An attempt: PREPARE at its shards, until all have voted or one has refused.

use keyspace::codec::Reader;
use smallvec::SmallVec;

use super::plan::{KeyspacePart, Plan};
use super::{
    Coordinator, CoordinatorTime, NextStep, Phase, ROUTE_RETRY_NANOS, Routes, RunningTxn,
    TxnOutcome, TxnPhase,
};
use crate::locks::{
    Answers, Deadline, Name, Outcome, PrepareRefusal, Step, StepReply, Vote, commit_time,
};
use command::NotDone;
use command::{Reply, Transaction};

impl Coordinator {
    pub(super) fn prepare(&mut self, number: u64, routes: Routes<'_>) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let (id, bodies) = (run.id, run.bodies.clone());
        let mut whole: SmallVec<[KeyspacePart<'_>; 1]> = SmallVec::new();
        for (keyspace, body) in &bodies {
            let Some(map) = routes(*keyspace) else {
                // Nothing of this attempt is done anywhere.
                return self.end(number, TxnOutcome::NoKeyspace);
            };
            let transaction = Transaction::decode(&mut Reader::new(body));
            let transaction = transaction.expect("the bytes were encoded here");
            whole.push(KeyspacePart { keyspace: *keyspace, map, transaction });
        }
        let is_contended = id.is_retry() || self.conflicts.is_high();
        let Some(plan) = Plan::of(id, &whole, is_contended) else {
            return self.end(number, TxnOutcome::CrossShard);
        };
        run.record = plan.record().into();
        run.keys = plan.keys().map(Name::from_slice).collect();
        run.in_record_shard = plan.keys_in_record_shard().map(Name::from_slice).collect();
        run.keyspaces = plan.keyspaces(id);
        let in_order = plan.in_order;
        run.in_order = in_order;
        let mut steps = plan.steps(run.id, run.reserved_as, &mut self.arena);
        if steps.iter().any(|(_, step)| step.len() > self.step_bytes_max) {
            return self.end(number, TxnOutcome::TooLong);
        }
        let votes = vec![None; steps.len()];
        run.may_be_committed = !in_order || steps.len() == 1;
        let is_traced = run.trace.is_some();
        run.phase = Phase::Preparing(votes, Vec::new());
        if is_traced {
            self.note_places(number, &steps, routes);
            let prepare = |shards| TxnPhase::Prepare { shards, in_order };
            self.trace_shards(number, &steps, prepare);
        }
        if !in_order {
            return self.ask_all(number, steps);
        }
        steps.reverse();
        let first = steps.pop().expect("it has parts");
        if let Some(RunningTxn { phase: Phase::Preparing(_, rest), .. }) =
            self.runs.get_mut(&number)
        {
            *rest = steps;
        }
        self.ask(number, 0, first);
    }

    pub(super) fn voted(
        &mut self,
        number: u64,
        part: usize,
        reply: Result<StepReply, NotDone>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        self.trace_vote(number, part, &reply);
        let Some(run) = self.runs.get_mut(&number) else { return };
        let Phase::Preparing(votes, rest) = &mut run.phase else { return };
        // Of several shards only the first was asked, and has locked nothing if it says so: this
        // attempt cannot be committed, so no record need say that it is not.
        let is_refused = matches!(reply, Ok(StepReply::Refused(_)));
        let is_nothing = is_refused && !rest.is_empty() && votes.iter().all(Option::is_none);
        let then = match reply {
            Ok(StepReply::Voted(vote)) => {
                votes[part] = Some(vote);
                if let Some(mut next) = rest.pop() {
                    if rest.is_empty() {
                        run.may_be_committed = true;
                        let locks = || votes.iter().flatten();
                        let after = locks().map(|vote| vote.at).max().unwrap_or_default();
                        let deadline = locks().map(|vote| vote.deadline).min();
                        let deadline = deadline.unwrap_or(Deadline::NEVER);
                        next.1 = self.arena.with(|out| {
                            out.extend_from_slice(&next.1);
                            Step::set_after(out, after, deadline);
                        });
                    }
                    return self.ask(number, part + 1, next);
                }
                if votes.iter().all(Option::is_some) {
                    let votes = std::mem::take(votes).into_iter().flatten().collect();
                    self.commit(number, votes, at, routes);
                }
                return;
            }
            Ok(StepReply::Refused(PrepareRefusal::Changed(key))) => {
                NextStep::Report(match run.keyspaces.get(part) {
                    Some(keyspace) => TxnOutcome::ChangedIn(*keyspace, key),
                    None => TxnOutcome::Changed(key),
                })
            }
            Ok(StepReply::Refused(PrepareRefusal::TooMuch)) => {
                NextStep::Report(TxnOutcome::TooMuch)
            }
            Ok(StepReply::Refused(PrepareRefusal::TooOld(time))) => {
                self.newest = self.newest.max(time);
                NextStep::Restart
            }
            Ok(StepReply::Refused(PrepareRefusal::Locked(key))) => {
                run.locked = Some(key);
                self.conflicts.met();
                NextStep::Retry(0)
            }
            Ok(StepReply::Refused(PrepareRefusal::Aborted)) => {
                // Somebody who had met its locks has ended it.
                run.locked.get_or_insert_with(|| run.record.clone());
                NextStep::Retry(0)
            }
            // It has other keys by now. Or a value has expired: mostly it is found gone then, but
            // its shard's clock may be behind.
            Ok(_) => NextStep::Retry(ROUTE_RETRY_NANOS),
            Err(NotDone::DiskFull) => NextStep::Report(TxnOutcome::DiskFull),
            // Whatever was locked before, this shard has not answered.
            Err(_) => NextStep::Report(TxnOutcome::Busy(None)),
        };
        if is_nothing {
            self.trace(number, || TxnPhase::Aborted);
            let next = self.continue_after_failure(number, then, at);
            self.trace(number, || TxnPhase::Finished);
            self.runs.remove(&number);
            return next.into_iter().for_each(|next| self.go_on(next, at, routes));
        }
        self.enter(number, Phase::Deciding(Outcome::Aborted, then), at, routes);
    }

    /// Commits a transaction for which all shards have voted, at the latest time of its locks;
    /// unless a value that one of them has found alive has expired by then. If the shards were
    /// asked in order, the last one has judged that.
    pub(super) fn commit(
        &mut self,
        number: u64,
        votes: Vec<Vote>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Some(run) = self.runs.get(&number) else { return };
        let deadline = |vote: &Vote| if run.in_order { Deadline::NEVER } else { vote.deadline };
        let Some(commit) = commit_time(votes.iter().map(|vote| (vote.at, deadline(vote)))) else {
            let aborted = Phase::Deciding(Outcome::Aborted, NextStep::Retry(ROUTE_RETRY_NANOS));
            return self.enter(number, aborted, at, routes);
        };
        let mut answers: Answers = votes.into_iter().flat_map(|vote| vote.answers).collect();
        answers.sort_by_key(|(place, _)| *place);
        let replies: Vec<Reply> = answers.into_iter().map(|(_, answer)| answer).collect();
        // A shard that was asked again, after another had finished the transaction, has forgotten
        // answers that are long (KEPT_ANSWER_BYTES_MAX): it is done, but what it said is gone.
        let commands = self.runs.get(&number).map(|run| run.commands);
        let is_whole = commands == Some(replies.len());
        self.tell(number, if is_whole { TxnOutcome::Done(replies) } else { TxnOutcome::Unknown });
        self.conflicts.done();
        self.trace(number, || TxnPhase::Committed { at: commit });
        let Some(run) = self.runs.get_mut(&number) else { return };
        let outcome = Outcome::Committed(commit);
        if !run.in_order {
            return self.enter(
                number,
                Phase::Deciding(outcome, NextStep::Acknowledged),
                at,
                routes,
            );
        }
        // The last one has committed it, and locked nothing.
        let in_record_shard = std::mem::take(&mut run.in_record_shard);
        run.keys.retain(|key| in_record_shard.binary_search(key).is_err());
        if run.keys.is_empty() {
            self.trace(number, || TxnPhase::Finished);
            self.runs.remove(&number);
            return;
        }
        self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
    }
}
