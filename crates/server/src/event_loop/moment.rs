//! The read time of a command, and its fetches from other nodes.

use node::replica::read::ReadTime;
use node::routing::fetch::FetchedData;

/// The moment of a command's reads.
pub(super) struct ReadMoment {
    /// When they happen.
    pub now: ReadTime,
    /// What was fetched for them, as of then.
    pub fetched: FetchedData,
}

impl ReadMoment {
    /// Nothing was fetched yet.
    pub(super) fn at(now: ReadTime) -> Self {
        Self { now, fetched: FetchedData::default() }
    }
}
