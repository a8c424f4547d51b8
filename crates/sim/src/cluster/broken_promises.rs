//! A leader and its rival, whose followers are made to forget what they have promised.

use super::{Plant, World};
use crate::options::Fault;

/// A plan: when followers restart, or stand still, again and again, while a leader and its rival
/// wait for them.
#[derive(Clone, Copy, Debug)]
pub struct PromiseFault {
    leader: usize,
    rival: usize,
    begins_ms: u64,
    restarts_left: u64,
    restart_ms: u64,
    /// Whether they stand still only.
    pauses: bool,
}

impl World {
    /// A leader and one of its followers do not hear each other; the other followers restart in no
    /// time, or stand still, a few times, and must not have forgotten whom they have given their
    /// word, nor think that it was long ago (SAFETY G4, G5).
    pub(super) fn plan_promise_fault(&mut self, at: usize) {
        let leader = match self.led() {
            led if led.is_empty() => at,
            led => self.rng.pick(&led).0,
        };
        let others: Vec<usize> =
            (0..self.node_slots.len()).filter(|other| *other != leader).collect();
        let rival = *self.rng.pick(&others);
        let (one, other) = (self.node_slots[leader].node, self.node_slots[rival].node);
        self.trace.event(format_args!("nodes {one} and {other} do not hear each other"));
        self.counts.cuts += 1;
        self.network.cut(one, other);
        self.network.cut(other, one);
        let begins_ms = self.now_ms + self.rng.between(600, 1_500);
        let restarts_left = self.rng.between(1, 4);
        let restart_ms = begins_ms;
        let pauses = self.options.faults.has(Fault::Pause)
            && (self.rng.one_in(2) || self.has(Plant::BurstTicks))
            && !self.has(Plant::ForgetfulVote);
        let plan = PromiseFault { leader, rival, begins_ms, restarts_left, restart_ms, pauses };
        self.promise_fault = Some(plan);
    }

    pub(super) fn break_promises(&mut self) {
        let Some(mut plan) = self.promise_fault else { return };
        if self.now_ms == plan.restart_ms && plan.restarts_left > 0 {
            for at in
                (0..self.node_slots.len()).filter(|at| *at != plan.leader && *at != plan.rival)
            {
                if plan.pauses {
                    let millis = self.rng.between(550, 1_100);
                    self.pause(at, millis);
                } else {
                    self.crash(at, false);
                    self.node_slots[at].awake_at = self.now_ms + 2;
                }
            }
            plan.restarts_left -= 1;
            let after = if plan.pauses { 1_200 } else { 0 };
            plan.restart_ms += after + self.rng.between(50, 250);
        }
        let begun = self.now_ms > plan.begins_ms;
        if begun && self.now_ms.is_multiple_of(10) && self.is_awake(plan.leader) {
            self.look_at(plan.leader);
        }
        let ends_ms = plan.begins_ms.max(plan.restart_ms) + 1_000;
        self.promise_fault = (self.now_ms < ends_ms).then_some(plan);
    }
}
