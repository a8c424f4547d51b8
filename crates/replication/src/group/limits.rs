//! The configuration of a group.

/// Limits of a group in bytes and ticks, as the library takes them.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Entries per message to a peer.
    pub message_bytes_max: u64,
    /// Bytes of entries that are proposed and not committed. The executor holds its queue below
    /// this, so that the library never drops a proposal.
    pub uncommitted_bytes_max: u64,
    /// Bytes of committed entries in one [`Group::ready`](super::Group::ready).
    pub committed_bytes_max: u64,
    /// Ticks between heartbeats.
    pub heartbeat_ticks: usize,
    /// Ticks without a leader before an election, at least …
    pub election_ticks: usize,
    /// … and below this, by chance.
    pub election_ticks_end: usize,
    /// As `election_ticks`, after a first election without a winner. It is short, so that two
    /// replicas that campaigned at the same time need not wait that long again.
    pub retry_election_ticks: usize,
    /// How long a lease lasts without its margins, in nanoseconds. A leader uses it for a tenth
    /// less, a voter grants no vote for a tenth more, and an election takes longer than that.
    pub lease_nanos: u64,
    /// Bytes of applied entries that every replica keeps in memory: the next leader may need them
    /// for its followers.
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
    /// How long a voter grants no vote after a message of its leader: longer than the lease.
    pub(super) fn no_vote_nanos(&self) -> u64 {
        self.lease_nanos + self.lease_nanos / 10
    }

    /// How long a leader's lease lasts from when it was confirmed.
    pub(super) fn lease_nanos_after_confirm(&self) -> u64 {
        self.lease_nanos - self.lease_nanos / 10
    }
}
