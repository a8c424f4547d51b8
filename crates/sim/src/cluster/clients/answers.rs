//! Answers and refusals that clients get, and missing answers.

use command::{NotDone, Reply};
use node::executor::Answer;

use super::super::World;
use super::super::feeds::FEEDS;
use super::super::snapshots::TRAVELLERS;
use super::super::tracking::TRACKERS;
use super::super::volumes::{CLONES, VOLUMES};
use super::{KeyOp, Op};
use crate::command::Command;
use crate::machine::VIEWERS;

impl World {
    pub(in crate::cluster) fn done(&mut self, number: u64, replies: Vec<Reply>, high_ms: u64) {
        let Some(op) = self.clients.ops.remove(&number) else { return };
        self.trace.event(format_args!("op {number}: {replies:?}"));
        self.counts.answered += 1;
        let joint = op.of_keys().is_some_and(|of_keys| of_keys.command.is_joint());
        self.counts.joint += u64::from(joint);
        self.rest(&op);
        if let Some(KeyOp { command: Command::Transaction { .. }, .. }) = op.of_keys() {
            self.counts.transactions += 1;
            if let [Reply::Changed(_)] = replies[..] {
                // A watched key may have changed and have the same value again: nothing was done,
                // and why is not for histories to tell.
                self.counts.broken += 1;
                return;
            }
        }
        self.clients.note(op, Some(replies), high_ms);
    }

    /// Its client has something else to do, sooner or later.
    pub(in crate::cluster) fn rest(&mut self, op: &Op) {
        if op.given_up {
            return;
        }
        self.clients.free_at[op.client] = self.now_ms + self.rng.between(0, self.profile.think_ms);
    }

    /// An answer has come from a node.
    pub(in crate::cluster) fn answered(&mut self, answer: Answer) {
        if answer.origin() == VIEWERS {
            return self.viewer_answered(answer);
        }
        if Self::is_of_pipelines(&answer) {
            return self.handle_pipeline_answer(answer);
        }
        if answer.origin() == TRACKERS {
            return self.cache_answered(&answer);
        }
        if answer.origin() == TRAVELLERS {
            return self.traveller_answered(&answer);
        }
        if answer.origin() == FEEDS {
            return self.feed_answered(answer);
        }
        if answer.origin() == VOLUMES {
            return self.volume_answered(answer);
        }
        if answer.origin() == CLONES {
            return self.clone_answered(&answer);
        }
        if Self::is_wide(&answer) {
            return self.handle_multi_shard_answer(answer);
        }
        match answer {
            Answer::Applied { spent, replies, .. } => {
                for (waiter, reply) in spent.waiters.iter().zip(replies) {
                    let high_ms = self.high_ms(waiter.0);
                    self.done(waiter.0, vec![reply], high_ms);
                }
            }
            Answer::NotDone { waiters, why: NotDone::ReplicaLagging, .. } => {
                self.counts.lags += waiters.len() as u64;
                waiters.into_iter().for_each(|waiter| self.go_on(waiter));
            }
            Answer::NotDone { waiters, why, .. } => {
                for waiter in waiters {
                    self.not_done(waiter.0, why);
                }
            }
            Answer::Retry { waiter, .. } => self.go_on(waiter),
            Answer::Fetched { waiter, at, want, found, shard, .. } => {
                match self.clients.scan_mut(waiter.0) {
                    Some(of_whole) => of_whole.resume(Some((shard, *want, at, *found))),
                    None => self.fetched(waiter.0, shard, at, *want, *found),
                }
            }
            Answer::ReplicaCount { .. } => unreachable!("no client asks who has its writes"),
            Answer::StepDone { .. } => unreachable!("coordinators ask for steps"),
            Answer::Catalogue { waiter, result, .. } => {
                self.trace.event(format_args!("op {}: {result:?}", waiter.0));
                let Some(op) = self.clients.ops.remove(&waiter.0) else { return };
                self.counts.changes += u64::from(result.is_ok());
                self.rest(&op);
            }
        }
    }

    pub(in crate::cluster) fn not_done(&mut self, number: u64, why: NotDone) {
        let Some(op) = self.clients.ops.remove(&number) else { return };
        self.trace.event(format_args!("op {number}: {why:?}"));
        self.rest(&op);
        if matches!(why, NotDone::OutcomeUnknown | NotDone::Dropped) && op.is_write() {
            self.counts.unknown += 1;
            // It may be applied later than this.
            match self.place_of(number, &op) {
                Some(place) => self.clients.lost.push((op, place)),
                None => self.clients.endless.push(op),
            }
        } else {
            self.counts.refused += 1;
            self.counts.full += u64::from(why == NotDone::DiskFull);
            if op.is_in_parts() {
                self.note_lost(op);
            }
        }
    }

    /// The latest that a write was judged, if it is applied by now.
    pub(in crate::cluster) fn high_ms(&self, number: u64) -> u64 {
        let op = self.clients.ops.get(&number).and_then(Op::of_keys);
        op.map_or(0, |op| self.agreement.last_ms(op.shard))
    }
}
