//! Requests that a node has sent to a shard's remote leader and that have no answer yet: writes,
//! reads and steps of transactions.
//!
//! A follower has one, or a [`Proxy`](crate::routing::proxy) on a node without a replica. When a
//! replica begins or ends, it passes from one to the other with its numbers, so that no request is
//! applied twice.

use super::fetches::Fetches;
use super::forward::ForwardedWrites;
use super::forwarded_steps::ForwardedSteps;
use crate::executor::Effects;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// Writes and changes of the catalogue.
    pub forward: ForwardedWrites,
    /// Reads.
    pub fetches: Fetches,
    /// Steps of transactions.
    pub forwarded_steps: ForwardedSteps,
}

impl Outgoing {
    /// A replica takes all over that a proxy has asked. Its readers look again, at the replica.
    pub fn take(&mut self, effects: &mut Effects) -> Self {
        self.fetches.release_waiters(effects);
        std::mem::take(self)
    }
}
