//! Drives the coordinator of transactions over several shards: those of this loop's connections. In
//! the first loop also those of HTTP, and abandoned ones that leaders here find.
//!
//! ```text
//!   EXEC, MSET … ──► Coordinator ──Ask──► Input::Step ──► executor … Answer::Stepped ──┐
//!                        ▲   └──End──► the reply owed                              │
//!                        └─────────────────────────────────────────────────────────┘
//! ```
//!
//! The connection's next command waits until the reply is there: it may name the same keys, and
//! could overtake the transaction.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use command::{NotDone, Reply, Transaction};
use keyspace::KeyspaceId;
use node::executor::{Input, Origin};
use node::replica::entry::Waiter;
use node::replica::read;
use txn::coordinator::{Coordinator, CoordinatorAction, CoordinatorTime, Routes, TxnOutcome};
use txn::locks::{StepReply, TxnId};
use txn::{AbandonedTxn, ShardMap};

use super::EventLoop;
use super::connection::Connection;
use super::serve::{not_done_text, place};
use super::state::WatchedExec;
use super::value_moves::RetryDecision;
use crate::runtime::mailbox::{Transact, TxnCallback};
use crate::runtime::{NodeRuntime, boot_nanos};

/// The bit of a waiter that is a question of the coordinator.
const ASK: u64 = 1 << 63;
/// The bit of a waiter that is no connection, but a request of HTTP.
const EXTERNAL: u64 = 1 << 62;
/// So often what waits for a moment is looked at.
const TICK: Duration = Duration::from_millis(2);
/// … and so often if that is nothing but records to be forgotten.
const SLOW_TICK: Duration = Duration::from_millis(25);

/// How often local executors look at requests that wait for locks.
const LOOK: Duration = Duration::from_millis(4);

/// The coordinator of a loop.
pub(super) fn coordinator(runtime: &NodeRuntime, number: usize) -> Coordinator {
    // No two loops have the same.
    let drawn = (keyspace::random::mix(runtime.identity.seed) as u32).wrapping_add(number as u32);
    let by = TxnId::name(runtime.identity.node, drawn);
    Coordinator::new(by, runtime.request_timeout_nanos, runtime.command_bytes_max())
}

/// The coordinator's question that this waiter stands for.
fn ask_of(waiter: Waiter) -> Option<u64> {
    (waiter.0 & ASK != 0).then_some(waiter.0 & !ASK)
}

/// Requests of HTTP whose transactions this loop coordinates.
#[derive(Default)]
pub(super) struct ExternalTxns {
    next: u64,
    waiting: BTreeMap<u64, TxnCallback>,
}

impl ExternalTxns {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl EventLoop {
    /// Begins a transaction of an HTTP request.
    pub(super) fn transact(&mut self, asked: Transact) {
        let token = EXTERNAL | self.external_txns.next;
        self.external_txns.next += 1;
        self.external_txns.waiting.insert(token, asked.done);
        let Transact { keyspace, copy, others, before, .. } = asked;
        let is_shown = self.runtime.events.samples_transaction();
        self.with_coordinator(|coordinator, at, routes| {
            coordinator.set_tracing(is_shown);
            let parts = others.iter().map(|(id, other)| (*id, other.transaction()));
            // One of its keyspaces at least was used.
            let own = (others.is_empty() || !copy.is_empty()).then(|| copy.transaction());
            let parts: Vec<_> = own.map(|own| (keyspace, own)).into_iter().chain(parts).collect();
            let parts: Vec<_> = parts.iter().map(|(id, part)| (*id, part)).collect();
            coordinator.begin_spanning(&parts, token, before, at, routes);
        });
    }

    /// Begins a transaction of a connection, whose reply is owed to this waiter. It does not begin
    /// if a local replica knows that a watched key has changed.
    pub(super) fn coordinate(
        &mut self,
        connection: &mut Connection,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        waiter: Waiter,
    ) {
        connection.next.barrier = true;
        connection.watching.exec = match connection.watching.exec {
            WatchedExec::HandedOver => WatchedExec::OverShards,
            _ => WatchedExec::None,
        };
        let route = connection.route.as_ref();
        if let Some(key) = route.and_then(|route| read::outdated(route, &transaction.watched)) {
            self.endings.push((waiter, TxnOutcome::Changed(key.into())));
            return;
        }
        if let Some(route) = route.filter(|_| self.runtime.peers.is_some()) {
            transaction.each_key(&mut |key| {
                connection.written.add(route.shard(route.place_of_key(key)));
            });
        }
        let before = self.retries.conflict_retry(place(waiter));
        let is_shown = self.runtime.events.samples_transaction();
        self.with_coordinator(|coordinator, at, routes| {
            coordinator.set_tracing(is_shown);
            coordinator.begin_again(keyspace, transaction, waiter.0, before, at, routes);
        });
    }

    /// Finishes an abandoned transaction that a local leader has found.
    pub(super) fn finish(&mut self, abandoned: AbandonedTxn) {
        let is_shown = self.runtime.events.is_sampling();
        self.with_coordinator(|coordinator, at, routes| {
            coordinator.set_tracing(is_shown);
            coordinator.finish(abandoned, at, routes);
        });
    }

    /// Takes an answer, if it is to a question of the coordinator.
    pub(super) fn coordinated(
        &mut self,
        waiter: Waiter,
        reply: Result<StepReply, NotDone>,
    ) -> bool {
        let Some(ask) = ask_of(waiter) else { return false };
        self.with_coordinator(|coordinator, at, routes| {
            coordinator.answered(ask, reply, at, routes);
        });
        true
    }

    /// Goes on with transactions that pause.
    pub(super) fn tick_coordinator(&mut self) {
        if self.coordinator.is_empty() {
            return;
        }
        if self.coordinator.is_busy() && self.looked_at.elapsed() >= LOOK {
            self.looked_at = Instant::now();
            let origin = Origin(self.number as u32);
            let mut answers = std::mem::take(&mut self.answers);
            for executor in self.runtime.executors.cells() {
                executor.submit(&self.runtime, [Input::CheckWaiters], origin, &mut answers);
            }
            answers.drain(..).for_each(|answer| self.answered(answer));
            self.answers = answers;
        }
        if self.coordinator.waits() {
            self.with_coordinator(|coordinator, at, routes| {
                coordinator.tick(at, routes);
            });
        }
    }

    /// When that is to be done again.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        let tick = if self.coordinator.is_busy() { TICK } else { SLOW_TICK };
        (!self.coordinator.is_empty()).then_some(tick)
    }

    fn with_coordinator(
        &mut self,
        act: impl FnOnce(&mut Coordinator, CoordinatorTime, Routes<'_>),
    ) {
        let at = CoordinatorTime { now: boot_nanos(), time: self.runtime.clock.now() };
        let runtime = &self.runtime;
        self.coordinator.set_step_bytes_max(runtime.command_bytes_max());
        let routes = runtime.routing.routes();
        let map_of = |id| Some(routes.by_id(id)?.clone() as Arc<dyn ShardMap>);
        act(&mut self.coordinator, at, &map_of);
        for act in self.coordinator.take_actions() {
            match act {
                CoordinatorAction::SendStep { shard, step, ask } => {
                    let (origin, waiter) = (Origin(self.number as u32), Waiter(ASK | ask));
                    self.inputs.push((shard, Input::Step { shard, step, origin, waiter }));
                }
                CoordinatorAction::Report { token, ended } => {
                    self.endings.push((Waiter(token), ended))
                }
                CoordinatorAction::Trace(trace) => self.runtime.sample_transaction(*trace),
            }
        }
    }

    /// Whether inputs for executors, or replies for connections, are pending.
    pub(super) fn has_more(&self) -> bool {
        !self.inputs.is_empty() || !self.endings.is_empty()
    }

    /// Passes outcomes of transactions to their connections: not while a connection is served.
    pub(super) fn deliver_outcomes(&mut self) {
        while let Some((waiter, ended)) = self.endings.pop() {
            self.tell_news();
            self.ended(waiter, ended);
        }
    }

    fn ended(&mut self, waiter: Waiter, ended: TxnOutcome) {
        let counters = &self.runtime.counters;
        match &ended {
            TxnOutcome::Done(_) => counters.transactions.add(1),
            TxnOutcome::Changed(_) | TxnOutcome::ChangedIn(..) => {
                counters.transactions_changed.add(1);
            }
            _ => counters.transactions_refused.add(1),
        }
        if waiter.0 & EXTERNAL != 0 {
            let done = self.external_txns.waiting.remove(&waiter.0).expect("the end comes once");
            return done(ended);
        }
        let ended = match ended {
            TxnOutcome::Changed(key) => match self.run_again(waiter, &key) {
                RetryDecision::Retry => return,
                RetryDecision::TimedOut => TxnOutcome::Busy(Some(key)),
                RetryDecision::Never => TxnOutcome::Changed(key),
            },
            other => other,
        };
        self.leave_retry_queue(place(waiter));
        if let TxnOutcome::Done(_) | TxnOutcome::Changed(_) = &ended {
            self.note_transaction_done(place(waiter), matches!(ended, TxnOutcome::Changed(_)));
        }
        let reply = match ended {
            TxnOutcome::Done(replies) => Ok(Reply::Array(replies)),
            TxnOutcome::Changed(key) => Ok(Reply::Changed(key)),
            refused => Err(ended_text(&refused).into()),
        };
        self.fill(waiter, reply);
    }
}

/// The error text for a transaction that is not done, or may not be.
pub(crate) fn ended_text(ended: &TxnOutcome) -> Cow<'static, str> {
    let text = match ended {
        TxnOutcome::Busy(Some(key)) => {
            return Cow::Owned(format!(
                "BUSY conflict on key '{}' of the transaction; nothing was \
                 done. Send it again",
                key.escape_ascii()
            ));
        }
        TxnOutcome::Done(_) | TxnOutcome::Changed(_) | TxnOutcome::ChangedIn(..) => {
            unreachable!("these are no errors")
        }
        TxnOutcome::Busy(None) => {
            "BUSY a shard of the transaction has not answered in time, or had no leader; nothing \
             was done. Send it again"
        }
        TxnOutcome::Unknown => {
            "UNKNOWN a shard of the transaction has not answered; all of it may have been done, or \
             nothing. Read what it would have changed before you send it again"
        }
        TxnOutcome::TooLong => {
            "ERR keys and values of the transaction, and what it watches, have more than 514 MiB \
             in one shard, and no entry of its log is longer; nothing was done"
        }
        TxnOutcome::TooMuch => {
            "ERR the transaction writes more than 128 MiB in one shard, or others under way do; \
             nothing was done"
        }
        TxnOutcome::CrossShard => super::resp::CROSS_SLOT,
        TxnOutcome::NoKeyspace => not_done_text(NotDone::NoSuchShard),
        TxnOutcome::DiskFull => not_done_text(NotDone::DiskFull),
    };
    Cow::Borrowed(text)
}
