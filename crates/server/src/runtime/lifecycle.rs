//! The node's lifecycle: it starts, serves, stops.
//!
//! ```text
//!   starting ── all shards serve ──► ready ── asked to stop ──► stopping
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

/// The state of the process.
#[derive(Debug, Default)]
pub struct Lifecycle {
    is_ready: AtomicBool,
    is_stopping: AtomicBool,
}

impl Lifecycle {
    /// Whether all shards have served, or their leaders were known, since the start.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Whether the node takes no new connections or requests any more.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// The shards serve.
    pub fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// The node begins to stop.
    pub fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }
}
