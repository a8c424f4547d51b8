//! What a node has asked of the leader of a shard, elsewhere, and not been answered: writes, reads
//! and steps of transactions.
//!
//! A replica that follows holds it, or a [`Proxy`](crate::routing::proxy) where there is no
//! replica. It is handed from one to the other when a replica comes or goes, with its numbers, so
//! that nothing is applied twice.

use super::fetches::Fetches;
use super::forward::ForwardedWrites;
use super::forwarded_steps::ForwardedSteps;
use crate::executor::Effects;

/// See the front page.
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
        self.fetches.let_go(effects);
        std::mem::take(self)
    }
}
