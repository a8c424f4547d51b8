//! Transaction steps that clients on this node want of a shard, until its leader has answered them
//! ([`txn::locks`]).
//!
//! ```text
//!   waiting ──► sent, to who leads, here or elsewhere ──► said ──► answered
//!      ▲                        │ somebody else leads, a lost link, silence
//!      └────────────────────────┘
//! ```
//!
//! A shard takes the same step any number of times, so this node resends all that have no answer:
//! at once when a link is back, or after [`RESEND_NANOS`].
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes held for one shard | [`HELD_BYTES_MAX`] | refused: busy |
//! | time without an answer | the request's timeout | unknown; not done, if it never left |

use std::collections::VecDeque;

use bytes::Bytes;
use command::NotDone;
use keyspace::{NodeId, ShardId};
use replication::BootNanos;

use super::forward::RESEND_BYTE_NANOS;
use crate::executor::{Answer, Caller, Effects};
use crate::rpc::message::RpcMessage;
use txn::locks::StepReply;

/// Bytes of steps that are held for the leader of one shard, beyond which more are refused.
const HELD_BYTES_MAX: usize = 128 << 20;
/// When nothing is heard for so long, a step is asked for again.
const RESEND_NANOS: u64 = 500_000_000;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct ForwardedSteps {
    all: VecDeque<ForwardedStep>,
    next_number: u64,
    held_bytes: usize,
    /// Nothing is sent before.
    pause_until: BootNanos,
}

struct ForwardedStep {
    number: u64,
    step: Bytes,
    asker: Caller,
    since: BootNanos,
    /// To whom (none: the leader is here), and when.
    sent: Option<(Option<NodeId>, BootNanos)>,
    /// Whether it ever was.
    has_left: bool,
}

impl ForwardedSteps {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether all are on their way, so that only answers and time bring them on.
    pub fn all_are_sent(&self) -> bool {
        self.all.iter().all(|forwarded| forwarded.sent.is_some())
    }

    pub fn ask(&mut self, step: Bytes, asker: Caller, now: BootNanos, effects: &mut Effects) {
        if self.held_bytes + step.len() > HELD_BYTES_MAX && self.held_bytes > 0 {
            return refuse(asker, NotDone::Busy, effects);
        }
        self.held_bytes += step.len();
        // One that nothing which is still on its way names, not even from before the node's last
        // start: its boot clock was not there yet.
        self.next_number = (self.next_number + 1).max(now);
        let number = self.next_number;
        let (since, sent, has_left) = (now, None, false);
        self.all.push_back(ForwardedStep { number, step, asker, since, sent, has_left });
    }

    /// Steps to send now to the leader (none: it is here).
    pub fn due(
        &mut self,
        leader: Option<NodeId>,
        now: BootNanos,
    ) -> impl Iterator<Item = (u64, Bytes)> {
        let is_paused = now < self.pause_until;
        self.all.iter_mut().filter(move |_| !is_paused).filter_map(move |forwarded| {
            let resend = RESEND_NANOS + forwarded.step.len() as u64 * RESEND_BYTE_NANOS;
            let is_with = |(to, at): (Option<NodeId>, BootNanos)| {
                to == leader && (to.is_none() || now < at.saturating_add(resend))
            };
            if forwarded.sent.is_some_and(is_with) {
                return None;
            }
            (forwarded.sent, forwarded.has_left) = (Some((leader, now)), true);
            Some((forwarded.number, forwarded.step.clone()))
        })
    }

    /// Sends the steps that are due to a remote leader.
    pub fn send(
        &mut self,
        shard: ShardId,
        leader: Option<NodeId>,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        let Some(leader) = leader else { return };
        let due = self.due(Some(leader), now);
        let rpcs = due.map(|(number, step)| (leader, RpcMessage::Step { shard, number, step }));
        effects.rpcs.extend(rpcs);
    }

    pub fn handle_reply(&mut self, number: u64, reply: StepReply, effects: &mut Effects) {
        let Some(place) = self.all.iter().position(|forwarded| forwarded.number == number) else {
            return;
        };
        let ForwardedStep { asker: Caller { origin, waiter }, step, .. } =
            self.all.remove(place).expect("the entry was found above");
        self.held_bytes -= step.len();
        effects.answers.push(Answer::StepDone { origin, waiter, reply: Box::new(reply) });
    }

    /// The node that was asked does not lead. Nothing is sent again before `pause_until`.
    pub fn handle_not_leader(&mut self, number: u64, pause_until: BootNanos) {
        if let Some(forwarded) = self.all.iter_mut().find(|forwarded| forwarded.number == number) {
            forwarded.sent = None;
            self.pause_until = pause_until;
        }
    }

    /// The leader is not here any more: its steps are sent elsewhere.
    pub fn resend_local_steps(&mut self) {
        for forwarded in self.all.iter_mut().filter(|e| matches!(e.sent, Some((None, _)))) {
            forwarded.sent = None;
        }
    }

    /// The link to a node is lost: its steps may not have arrived.
    pub fn link_lost(&mut self, node: NodeId) {
        let to = Some(node);
        for forwarded in self.all.iter_mut().filter(|e| e.sent.is_some_and(|(at, _)| at == to)) {
            forwarded.sent = None;
        }
    }

    pub fn expire(&mut self, now: BootNanos, request_timeout: u64, effects: &mut Effects) {
        let late =
            |forwarded: &mut ForwardedStep| forwarded.since.saturating_add(request_timeout) <= now;
        while let Some(forwarded) = self.all.pop_front_if(late) {
            self.held_bytes -= forwarded.step.len();
            let why = if forwarded.has_left { NotDone::OutcomeUnknown } else { NotDone::NotLeader };
            refuse(forwarded.asker, why, effects);
        }
    }

    /// The shard has ended: tells all waiters to look up the owner again.
    pub fn release_waiters(&mut self, effects: &mut Effects) {
        for ForwardedStep { asker: Caller { origin, waiter }, .. } in self.all.drain(..) {
            effects.answers.push(Answer::StepDone {
                origin,
                waiter,
                reply: Box::new(StepReply::Moved),
            });
        }
        self.held_bytes = 0;
    }
}

fn refuse(Caller { origin, waiter }: Caller, why: NotDone, effects: &mut Effects) {
    effects.answers.push(Answer::NotDone { origin, waiters: vec![waiter], why });
}
