//! Transactions over several shards that the node's clients have begun, or that leaders here find
//! abandoned: what the server's `event_loop::coordinates` does.
//!
//! ```text
//!   clients ──► Coordinator ──Ask──► Input::Step ──► lane … Answer::Stepped ──┐
//!                   ▲   └──End──► the world                                   │
//!                   └─────────────────────────────────────────────────────────┘
//! ```
//!
//! With the process its coordinator ends, whatever is under way.

use keyspace::KeyspaceId;
use node::command::Transaction;
use node::coordinator::{Act, At, Coordinator, Ended};
use node::entry::Waiter;
use node::lane::{Answer, Input, NotDone, Origin};
use node::locks::{Said, Step};
use node::shard::Stuck;

use super::Machine;
use keyspace::codec::Reader;

/// The origin of the coordinator's questions.
pub const COORDINATOR: Origin = Origin(3);
/// How long clients wait for a transaction, in nanoseconds.
const PATIENCE_NANOS: u64 = 1_500_000_000;

/// The coordinator of a node, and what came of what it was asked for.
pub struct Coordinates {
    coordinator: Coordinator,
    by: u64,
    /// What has ended, to be looked at by the world.
    pub ended: Vec<(u64, Ended)>,
    /// Transactions of others that it has finished.
    pub finished: u64,
}

impl Coordinates {
    /// Of a process that has drawn this name.
    pub(super) fn new(by: u64) -> Self {
        let coordinator = Coordinator::new(by, PATIENCE_NANOS);
        Self { coordinator, by, ended: Vec::new(), finished: 0 }
    }
}

impl Machine {
    /// Begins a transaction of the client who is known by this token.
    pub fn coordinate(
        &mut self,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        token: u64,
    ) {
        self.with_coordinator(|coordinator, at, routes| {
            coordinator.begin(keyspace, transaction, token, at, routes);
        });
    }

    /// Leaders here have found a transaction that nobody sees to.
    pub(super) fn finish(&mut self, stuck: Stuck) {
        self.with_coordinator(|coordinator, at, routes| coordinator.finish(stuck, at, routes));
    }

    /// Goes on with what waits for a moment.
    pub fn tick_coordinator(&mut self) {
        if self.coordinates.coordinator.waits() {
            self.with_coordinator(|coordinator, at, routes| coordinator.tick(at, routes));
        }
    }

    /// How many transactions it sees to.
    pub fn coordinated(&self) -> usize {
        self.coordinates.coordinator.len()
    }

    /// Takes out the answers that are for the coordinator.
    pub(super) fn take_coordinated(&mut self, answers: &mut Vec<Answer>) {
        let is_its = |answer: &mut Answer| answer.origin() == COORDINATOR;
        let its: Vec<Answer> = answers.extract_if(.., is_its).collect();
        for answer in its {
            match answer {
                Answer::Stepped { waiter, said, .. } => self.said(waiter, Ok(*said)),
                Answer::NotDone { waiters, why, .. } => {
                    waiters.into_iter().for_each(|waiter| self.said(waiter, Err(why)));
                }
                other => unreachable!("it asks for steps: {other:?}"),
            }
        }
    }

    fn said(&mut self, Waiter(ask): Waiter, said: Result<Said, NotDone>) {
        self.with_coordinator(|coordinator, at, routes| {
            coordinator.answered(ask, said, at, routes);
        });
    }

    fn with_coordinator(
        &mut self,
        act: impl FnOnce(&mut Coordinator, At, node::coordinator::Routes<'_>),
    ) {
        let at = At { now: self.boot, time: self.now() };
        let routes = &self.routes;
        let find = |id| routes.values().find(|route| route.keyspace.id == id).cloned();
        act(&mut self.coordinates.coordinator, at, &find);
        let acts: Vec<Act> = self.coordinates.coordinator.acts().collect();
        for act in acts {
            match act {
                Act::Ask { shard, step, ask } => {
                    self.count_finished(&step);
                    let (origin, waiter) = (COORDINATOR, Waiter(ask));
                    self.submit(shard, Input::Step { shard, step, origin, waiter });
                }
                Act::End { token, ended } => self.coordinates.ended.push((token, ended)),
            }
        }
    }

    /// The last that is asked for is that the record's keys are forgotten.
    fn count_finished(&mut self, step: &[u8]) {
        if let Ok(Step::Forget { id, .. }) = Step::decode(&mut Reader::new(step)) {
            self.coordinates.finished += u64::from(id.by != self.coordinates.by);
        }
    }
}
