//! The outcome of each transaction: done, not done, or unknown.

use command::{NotDone, Reply};
use node::executor::Answer;
use txn::coordinator::TxnOutcome;

use super::super::live::{VIEWERS_FIRST, ViewerAnswer};
use super::parts::op_of;
use super::scripts::{BATCHES, COMMIT};
use super::{FIRST, OpPath, PendingOp, World, workloads};
use crate::check::serial::{ObservedTxn, Outcome};

impl World {
    /// Coordinators of a node have ended transactions.
    pub(in crate::cluster) fn follow_coordinator(&mut self, at: usize) {
        let Some(machine) = self.node_slots[at].machine.as_mut() else { return };
        let ended = std::mem::take(&mut machine.coordinates.ended);
        self.counts.wide_finished += std::mem::take(&mut machine.coordinates.finished);
        for (number, ended) in ended {
            if number >= VIEWERS_FIRST {
                self.viewer_told(number - VIEWERS_FIRST, ViewerAnswer::Txn(ended));
                continue;
            }
            if self.is_script(number) {
                self.script_coordinated(number, ended);
                continue;
            }
            match ended {
                TxnOutcome::Done(replies) => {
                    self.counts.wide_committed += 1;
                    self.finish_multi_shard(number, &replies);
                }
                TxnOutcome::Changed(_) | TxnOutcome::ChangedIn(..) => {
                    self.counts.wide_changed += 1;
                    self.not_done_wide(number, Outcome::NotDone);
                }
                TxnOutcome::Unknown => {
                    self.counts.multi_shard_unknown += 1;
                    self.not_done_wide(number, Outcome::Unknown);
                }
                why => {
                    self.trace.event(format_args!("{why:?}"));
                    self.counts.multi_shard_busy += 1;
                    self.not_done_wide(number, Outcome::NotDone);
                }
            }
        }
    }

    /// Whether an answer is for one of them.
    pub(in crate::cluster) fn is_wide(answer: &Answer) -> bool {
        answer.waiters().iter().any(|waiter| waiter.0 >= FIRST)
    }

    /// One of them has an answer.
    pub(in crate::cluster) fn handle_multi_shard_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Applied { spent, replies, .. } => {
                for (waiter, reply) in spent.waiters.iter().zip(replies) {
                    if waiter.0 > BATCHES {
                        self.batch_answered(waiter.0, Ok(&reply));
                        continue;
                    }
                    if waiter.0 & COMMIT != 0 {
                        self.script_answered(waiter.0 ^ COMMIT, Ok(reply));
                        continue;
                    }
                    match reply {
                        Reply::Changed(_) => self.not_done_wide(waiter.0, Outcome::NotDone),
                        Reply::Array(replies) => self.finish_multi_shard(waiter.0, &replies),
                        reply => self.finish_multi_shard(waiter.0, &[reply]),
                    }
                }
            }
            Answer::NotDone { waiters, why, .. } => {
                waiters.into_iter().for_each(|waiter| self.not_done_because(waiter.0, why));
            }
            Answer::Retry { waiter, .. } => self.may_look(waiter.0, None),
            Answer::Fetched { waiter, shard, at, want, found, .. } => {
                self.may_look(waiter.0, Some((shard, at, *want, *found)));
            }
            other => unreachable!("nobody has asked for {other:?}"),
        }
    }

    fn not_done_because(&mut self, number: u64, why: NotDone) {
        match why {
            _ if number > BATCHES => self.batch_answered(number, Err(why)),
            _ if number & COMMIT != 0 => self.script_answered(number ^ COMMIT, Err(why)),
            _ if self.is_script(number) => self.script_unread(number, why),
            NotDone::ReplicaLagging => self.may_look(number, None),
            why => self.not_done_wide(number, Self::outcome_of(why)),
        }
    }

    /// Whether it may be done.
    pub(super) fn outcome_of(why: NotDone) -> Outcome {
        match why {
            NotDone::OutcomeUnknown | NotDone::Dropped => Outcome::Unknown,
            _ => Outcome::NotDone,
        }
    }

    /// It is done, and has one reply for each of its parts.
    pub(super) fn finish_multi_shard(&mut self, number: u64, replies: &[Reply]) {
        let Some(wide) = &mut self.wide else { return };
        let Some(pending) = wide.pending.remove(&number) else { return };
        self.trace.event(format_args!("transaction {}: {replies:?}", number - FIRST));
        self.counts.wide_ones += u64::from(!matches!(pending.path, OpPath::Coordinated));
        let answered_at = self.clients.next_event();
        self.counts.workloads[pending.workload as usize] += 1;
        self.note_wide(number, pending, Outcome::Committed { answered_at }, replies);
    }

    /// It is not done, or may not be.
    pub(super) fn not_done_wide(&mut self, number: u64, outcome: Outcome) {
        let Some(wide) = &mut self.wide else { return };
        let Some(pending) = wide.pending.remove(&number) else { return };
        self.trace.event(format_args!("transaction {}: {outcome:?}", number - FIRST));
        self.note_wide(number, pending, outcome, &[]);
    }

    fn note_wide(&mut self, number: u64, pending: PendingOp, outcome: Outcome, replies: &[Reply]) {
        let Some(wide) = &mut self.wide else { return };
        wide.scripts.note(number, outcome);
        let PendingOp { client, call: invoked_at, workload, parts, watched, .. } = pending;
        let think_ms = wide.rng.between(1, wide.think_ms);
        if let Some(client) = client {
            wide.free_at[client] = self.now_ms + think_ms;
        }
        if workload.has_own_judge() {
            return wide.note_case(workload, (invoked_at, outcome), &parts, replies);
        }
        let client = client.map_or(u64::MAX, |client| client as u64);
        let replies = replies.iter().map(Some).chain(std::iter::repeat(None));
        let names = &wide.names;
        // If the transaction was done, it saw what it watched, whether or not the outcome is known.
        let watched = watched.iter().map(|seen| workloads::list_seen(seen, names));
        let parts = parts.iter().zip(replies).map(|(part, reply)| op_of(*part, reply, names));
        let ops = watched.chain(parts).collect();
        wide.history.push(ObservedTxn { client, invoked_at, outcome, ops });
    }

    /// Marks all transactions of this node as never to be answered.
    pub(in crate::cluster) fn lose_multi_shard(&mut self, at: usize) {
        let Some(wide) = &mut self.wide else { return };
        wide.scripts.lose(at);
        let lost = wide.pending.iter().filter(|(_, pending)| pending.at == at);
        let lost: Vec<u64> = lost.map(|(number, _)| *number).collect();
        for number in lost {
            let pending = &self.wide.as_ref().expect("the entry was found above").pending[&number];
            let begun = matches!(
                pending.path,
                OpPath::Coordinated | OpPath::Proposed | OpPath::Scripted(_)
            );
            self.counts.multi_shard_unknown += u64::from(begun);
            let outcome = if begun { Outcome::Unknown } else { Outcome::NotDone };
            self.not_done_wide(number, outcome);
        }
    }
}
