//! Connections that see all commands (MONITOR).
//!
//! ```text
//!   a loop runs commands ──► their lines, once it is done with a connection's input
//!                              └─► a push to each that monitors, on any loop
//! ```
//!
//! With nobody there it costs one look at a number for each connection that is served. A monitor
//! that does not read is cut off, as a subscriber is (`pubsub_output_bytes_max`).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::EventLoop;
use super::pubsub::push;
use crate::runtime::mailbox::Push;

/// All of them, by their numbers in the process.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    are_there: AtomicBool,
    all: Mutex<BTreeSet<u64>>,
}

impl Monitors {
    /// Whether there is one.
    #[inline]
    pub(super) fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Relaxed)
    }

    /// A connection begins, or ends.
    pub(super) fn set(&self, id: u64, is_on: bool) {
        let mut all = self.all.lock();
        match is_on {
            true => all.insert(id),
            false => all.remove(&id),
        };
        self.are_there.store(!all.is_empty(), Ordering::Relaxed);
    }

    /// A connection is gone.
    pub(super) fn forget(&self, id: u64) {
        if self.are_there() {
            self.set(id, false);
        }
    }
}

impl EventLoop {
    /// Tells all of them what was run.
    #[cold]
    pub(super) fn tell_monitors(&self, lines: &[u8]) {
        let all: Vec<u64> = self.clients.monitors.all.lock().iter().copied().collect();
        for id in all {
            let (resp2, resp3) = (lines.to_vec(), lines.to_vec());
            if !push(&self.runtime, &self.clients, Push { id, resp2, resp3 }) {
                self.clients.monitors.forget(id);
            }
        }
    }
}
