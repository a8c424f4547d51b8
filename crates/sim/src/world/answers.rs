//! Answers to clients of one node, and what the checkers record of them.

use command::{NotDone, Reply};
use keyspace::ShardId;
use node::executor::Answer;
use node::replica::entry::Waiter;

use super::World;
use super::clients::{ClientRequest, OP_BITS, Op, OpStage};
use crate::check::Violation;
use crate::check::linear::ObservedCommand;
use crate::command::{Command, DisplayedReply};

impl World {
    /// An answer has come.
    pub(super) fn answered(&mut self, answer: Answer) -> Result<(), Violation> {
        match answer {
            Answer::Applied { spent, replies, .. } => self.applied(&spent.waiters, replies),
            Answer::NotDone { waiters, why, .. } => {
                waiters.iter().for_each(|waiter| self.not_done(number_of(waiter), why));
                Ok(())
            }
            Answer::Retry { waiter, .. } => {
                if let Some(op) = self.ops.get_mut(&waiter.0) {
                    op.stage = OpStage::Ready;
                }
                Ok(())
            }
            Answer::Fetched { .. } | Answer::ReplicaCount { .. } | Answer::StepDone { .. } => {
                unreachable!("nothing is on other nodes")
            }
            Answer::Catalogue { waiter, result, .. } => {
                self.trace.event(format_args!("op {}: {result:?}", waiter.0));
                self.ops.remove(&waiter.0);
                self.counts.answered += 1;
                Ok(())
            }
        }
    }

    pub(super) fn applied(
        &mut self,
        waiters: &[Waiter],
        replies: Vec<Reply>,
    ) -> Result<(), Violation> {
        let shard = waiters.first().map(|waiter| ShardId(waiter.0 >> OP_BITS)).unwrap_or_default();
        let expected = self.ledger.next_replies(shard);
        if expected.as_ref() != Some(&replies) {
            let text = format!("shard {shard} answers {replies:?}; its log says {expected:?}");
            return Err(Violation::new("G3 apply judges", text));
        }
        for (number, reply) in waiters.iter().map(number_of).zip(replies) {
            let Some(op) = self.ops.get_mut(&number) else { continue };
            match &mut op.ask {
                ClientRequest::Flush(left, refused) => {
                    *left -= 1;
                    if *left == 0 {
                        let reply = (!*refused).then_some(Reply::Ok);
                        self.finish_flush(number, reply);
                    }
                }
                ClientRequest::One(command) => {
                    let reply = op.early.take().unwrap_or(reply);
                    let command = command.clone();
                    let op = self.ops.remove(&number).expect("just found");
                    self.trace.event(format_args!("op {number}: {}", DisplayedReply(&reply)));
                    self.counts.answered += 1;
                    self.counts.joint_writes += u64::from(command.is_joint());
                    self.see(&op, &op.keys, command, Some(vec![reply]));
                }
                other => unreachable!("{other:?} is no write"),
            }
        }
        Ok(())
    }

    pub(super) fn not_done(&mut self, number: u64, why: NotDone) {
        let Some(op) = self.ops.get_mut(&number) else { return };
        self.trace.event(format_args!("op {number}: {why:?}"));
        if let ClientRequest::Flush(left, refused) = &mut op.ask {
            *left -= 1;
            *refused = true;
            if *left == 0 {
                self.finish_flush(number, None);
            }
            return;
        }
        let op = self.ops.remove(&number).expect("just found");
        self.counts.refused += 1;
        // Only this one may have been done; all others must not have been.
        if let (NotDone::Dropped, ClientRequest::One(command)) = (why, &op.ask) {
            self.see(&op, &op.keys, command.clone(), None);
        }
    }

    fn finish_flush(&mut self, number: u64, reply: Option<Reply>) {
        let op = self.ops.remove(&number).expect("the op was answered");
        self.trace.event(format_args!("op {number}: {reply:?}"));
        self.counts.answered += 1;
        let keys: Vec<u64> = (0..self.profile.keys).collect();
        for tagged in keys.chunks(self.profile.tagged as usize) {
            self.see(&op, tagged, Command::Flush, reply.clone().map(|reply| vec![reply]));
        }
    }

    /// Writes into the history of keys of one hash tag what their client saw.
    pub(super) fn see(
        &mut self,
        op: &Op,
        keys: &[u64],
        command: Command,
        replies: Option<Vec<Reply>>,
    ) {
        self.events += 1;
        let high_ms = self.machine().clock.now().millis();
        let back = self.events;
        self.note(op, keys, command, replies, back, high_ms);
    }

    /// As [`Self::see`], also for requests that were never answered.
    pub(super) fn note(
        &mut self,
        op: &Op,
        keys: &[u64],
        command: Command,
        replies: Option<Vec<Reply>>,
        back: u64,
        high_ms: u64,
    ) {
        self.counts.unknown += u64::from(replies.is_none());
        let Op { client, keyspace, call, low_ms, .. } = *op;
        let tagged = self.profile.tagged;
        let tag = keys[0] / tagged;
        assert!(keys.iter().all(|key| key / tagged == tag), "a history is of one hash tag");
        let places = keys.iter().map(|key| (key % tagged) as usize).collect();
        let seen =
            ObservedCommand { command, places, client, call, back, low_ms, high_ms, replies };
        let history = self.histories.entry((keyspace, tag)).or_default();
        history.first.resize(tagged as usize, None);
        history.seen.push(seen);
    }
}

pub(super) fn number_of(waiter: &Waiter) -> u64 {
    waiter.0 & ((1 << OP_BITS) - 1)
}
