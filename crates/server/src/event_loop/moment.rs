//! When a command reads, and what it reads of other nodes.

use node::replica::read::Now;
use node::routing::fetch::Fetched;

/// The moment of a command's reads.
pub(super) struct Moment {
    /// When they happen.
    pub now: Now,
    /// What was fetched for them, as of then.
    pub fetched: Fetched,
}

impl Moment {
    /// Nothing was fetched yet.
    pub(super) fn at(now: Now) -> Self {
        Self { now, fetched: Fetched::default() }
    }
}
