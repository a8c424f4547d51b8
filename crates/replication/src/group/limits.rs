//! What a group is configured with.

/// Sizes in bytes and ticks, as the library is told them.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Entries per message to a peer.
    pub message_bytes_max: u64,
    /// Proposed and not committed. The executor holds its queue below this, so that the library
    /// never drops a proposal.
    pub uncommitted_bytes_max: u64,
    /// Committed entries handed out by one [`Group::ready`](super::Group::ready).
    pub committed_bytes_max: u64,
    /// Ticks between heartbeats.
    pub heartbeat_ticks: usize,
    /// Ticks without a leader before an election, at least …
    pub election_ticks: usize,
    /// … and below this, by chance.
    pub election_ticks_end: usize,
    /// As the first of these, after a first election that nobody has won: it is short, so that two
    /// who stood at the same time need not wait that long again, and tells them apart by as much.
    pub retry_election_ticks: usize,
    /// How long a lease lasts before its margins, in nanoseconds: a leader takes a tenth less, a
    /// voter keeps still a tenth more, and an election takes longer than that.
    pub lease_nanos: u64,
    /// Data of applied entries that every replica keeps in memory, since whoever leads next may
    /// need them for the others.
    pub retained_bytes: usize,
    /// … and that a leader keeps for a follower that lags. Beyond, the follower gets a snapshot.
    pub retained_for_followers_bytes: usize,
    /// … if the follower answers: a state may be on its way to it, and what is written meanwhile
    /// comes after it. If that were cut, the state would have to be sent again, and again.
    pub retained_for_active_followers_bytes: usize,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 256 << 10,
            uncommitted_bytes_max: u64::MAX,
            committed_bytes_max: 16 << 20,
            heartbeat_ticks: 4,
            election_ticks: 12,
            election_ticks_end: 20,
            retry_election_ticks: 4,
            lease_nanos: 540_000_000,
            retained_bytes: 1 << 20,
            retained_for_followers_bytes: 16 << 20,
            retained_for_active_followers_bytes: 256 << 20,
        }
    }
}

impl GroupLimits {
    /// How long a voter keeps still for a leader it has heard: longer than the leader's lease.
    pub(super) fn no_vote_nanos(&self) -> u64 {
        self.lease_nanos + self.lease_nanos / 10
    }

    /// How long a leader's lease lasts from when it was confirmed.
    pub(super) fn lease_nanos_after_confirm(&self) -> u64 {
        self.lease_nanos - self.lease_nanos / 10
    }
}
