//! What has happened on this node: each event is stamped with the node and its time, written to the
//! log, and remembered for a while ([`node::event::Recent`]).

use node::event::{Event, Happened, Severity};

use super::Hub;

impl Hub {
    /// Tells of something.
    pub fn happened(&self, what: Happened) {
        let event = Event { node: self.node_id, at: self.now(), what };
        log(&event);
        self.events.lock().add(event);
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
