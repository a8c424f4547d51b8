//! The outcome of each transaction: done, not done, or unknown.

use command::{NotDone, Reply};
use node::executor::Answer;
use txn::coordinator::TxnOutcome;

use super::parts::op_of;
use super::workloads::Workload;
use super::{FIRST, OpPath, PendingOp, World, workloads};
use crate::check::serial::{ObservedTxn, Outcome};

impl World {
    /// Coordinators of a node have ended transactions.
    pub(in crate::cluster) fn follow_coordinator(&mut self, at: usize) {
        let Some(machine) = self.node_slots[at].machine.as_mut() else { return };
        let ended = std::mem::take(&mut machine.coordinates.ended);
        self.counts.wide_finished += std::mem::take(&mut machine.coordinates.finished);
        for (number, ended) in ended {
            match ended {
                TxnOutcome::Done(replies) => {
                    self.counts.wide_committed += 1;
                    self.finish_multi_shard(number, &replies);
                }
                TxnOutcome::Changed(_) => {
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
                    match reply {
                        Reply::Changed(_) => self.not_done_wide(waiter.0, Outcome::NotDone),
                        Reply::Array(replies) => self.finish_multi_shard(waiter.0, &replies),
                        reply => self.finish_multi_shard(waiter.0, &[reply]),
                    }
                }
            }
            Answer::NotDone { waiters, why: NotDone::ReplicaLagging, .. } => {
                waiters.into_iter().for_each(|waiter| self.may_look(waiter.0, None));
            }
            Answer::NotDone { waiters, why, .. } => {
                let is_open = matches!(why, NotDone::OutcomeUnknown | NotDone::Dropped);
                let outcome = if is_open { Outcome::Unknown } else { Outcome::NotDone };
                waiters.into_iter().for_each(|waiter| self.not_done_wide(waiter.0, outcome));
            }
            Answer::Retry { waiter, .. } => self.may_look(waiter.0, None),
            Answer::Fetched { waiter, shard, at, want, found, .. } => {
                self.may_look(waiter.0, Some((shard, at, *want, *found)));
            }
            other => unreachable!("nobody has asked for {other:?}"),
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
        self.note_wide(pending, Outcome::Committed { answered_at }, replies);
    }

    /// It is not done, or may not be.
    pub(super) fn not_done_wide(&mut self, number: u64, outcome: Outcome) {
        let Some(wide) = &mut self.wide else { return };
        let Some(pending) = wide.pending.remove(&number) else { return };
        self.trace.event(format_args!("transaction {}: {outcome:?}", number - FIRST));
        self.note_wide(pending, outcome, &[]);
    }

    fn note_wide(&mut self, pending: PendingOp, outcome: Outcome, replies: &[Reply]) {
        let Some(wide) = &mut self.wide else { return };
        let PendingOp { client, call: invoked_at, workload, parts, watched, .. } = pending;
        let think_ms = wide.rng.between(1, wide.think_ms);
        if let Some(client) = client {
            wide.free_at[client] = self.now_ms + think_ms;
        }
        if let Workload::Register | Workload::Bank | Workload::Expiring = workload {
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
        let Some(wide) = &self.wide else { return };
        let lost = wide.pending.iter().filter(|(_, pending)| pending.at == at);
        let lost: Vec<u64> = lost.map(|(number, _)| *number).collect();
        for number in lost {
            let pending = &self.wide.as_ref().expect("it was just there").pending[&number];
            let begun = matches!(pending.path, OpPath::Coordinated | OpPath::Proposed);
            self.counts.multi_shard_unknown += u64::from(begun);
            let outcome = if begun { Outcome::Unknown } else { Outcome::NotDone };
            self.not_done_wide(number, outcome);
        }
    }
}
