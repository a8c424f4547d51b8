//! Events of this node: each gets the node and its time, goes to the log, and is remembered for a
//! while ([`node::event::Recent`]).

use node::control::decisions::RecordedDecision;
use node::event::{Event, EventKind, Recent, Severity};
use parking_lot::Mutex;

use super::NodeRuntime;

/// Recent events. No other lock is taken under its own.
#[derive(Debug, Default)]
pub struct Events(Mutex<Recent>);

impl Events {
    /// This node's recent decisions, the oldest first.
    pub fn decisions(&self) -> Vec<RecordedDecision> {
        self.0.lock().decisions()
    }

    /// How many events only the log has.
    pub fn forgotten(&self) -> u64 {
        self.0.lock().forgotten()
    }
}

impl NodeRuntime {
    /// Records and logs an event.
    pub fn happened(&self, what: EventKind) {
        let event = Event { node: self.identity.node, at: self.clock.now(), what };
        log(&event);
        self.events.0.lock().add(event);
    }
}

/// Writes an event to the log.
fn log(event: &Event) {
    match event.what.severity() {
        Severity::Debug => tracing::debug!("{event}"),
        Severity::Info => tracing::info!("{event}"),
        Severity::Warn => tracing::warn!("{event}"),
        Severity::Error => tracing::error!("{event}"),
    }
}
