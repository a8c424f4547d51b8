//! Drives [`txn::retry_queue`]: commands that move values from shard to shard
//! ([`super::value_moves`]) and are retried after conflicts. A connection's id there is its place
//! in the loop.

use std::time::Duration;

use txn::coordinator::TxnOutcome;
use txn::retry_queue::RetryAction;

use super::EventLoop;
use super::coordinator::ended_text;
use super::serve::go_waiter;
use crate::runtime::boot_nanos;

impl EventLoop {
    /// Whether a connection's command on these keys may run now; else the queue wakes it later.
    pub(super) fn may_run_retry(&mut self, at: usize, keys: Vec<Box<[u8]>>) -> bool {
        self.retries.may_run(at, keys, boot_nanos(), self.runtime.request_timeout_nanos)
    }

    /// Has a connection's command, which has met a change, run again after a pause; not if it has
    /// taken too long.
    pub(super) fn back_off(&mut self, at: usize, changed: &[u8]) -> bool {
        let (now, timeout, random) =
            (boot_nanos(), self.runtime.request_timeout_nanos, self.random());
        let is_again = self.retries.back_off(at, changed, now, timeout, random).is_some();
        self.retries.reserve_if_long(at, boot_nanos(), || self.runtime.clock.tick());
        is_again
    }

    /// A connection's command is over.
    pub(super) fn leave_retry_queue(&mut self, at: usize) {
        if !self.retries.is_empty() {
            let next = self.retries.leave(at);
            self.act_on_retries(next);
        }
    }

    /// Runs commands whose pause is over, and refuses those that have waited too long.
    pub(super) fn tick_retry_queue(&mut self) {
        if self.retries.next_due().is_some() {
            let next = self.retries.due(boot_nanos(), self.runtime.request_timeout_nanos);
            self.act_on_retries(next);
        }
    }

    fn act_on_retries(&mut self, all: Vec<RetryAction>) {
        for next in all {
            match next {
                RetryAction::Run(at) => self.go_on(go_waiter(at), None),
                RetryAction::Refuse(at, key) => {
                    let text = ended_text(&TxnOutcome::Busy(Some(key)));
                    self.go_on(go_waiter(at), Some(text.into()));
                }
            }
        }
    }

    /// In how long a retry is due.
    pub(super) fn next_retry(&self) -> Option<Duration> {
        let time = self.retries.next_due()?;
        Some(Duration::from_nanos(time.saturating_sub(boot_nanos())))
    }
}
