//! Leases: until when a leader may answer reads alone, and how long a voter keeps still for it
//! (SAFETY G4 to G6; Raft dissertation, 6.4.1, with the clocks of Gray and Cheriton's leases).
//!
//! ```text
//!   leader    ── at its clock c ──►  voter: handles it, grants no vote for lease + 10 %
//!             ◄── echo of c ──────
//!   a majority (of both sets while joint) has echoed c or later:
//!       confirmed at c:   nobody else led at c
//!       lease until       c + lease − 10 %:  nobody else leads before then
//! ```
//! Clocks are each node's own: a lease begins before the message that asks for it is sent, a
//! voter's stillness after it was handled. So only rates matter, and 10 % on either side is far
//! beyond what clocks drift. Time must count while the process or the machine sleeps
//! (`CLOCK_BOOTTIME`).

use std::collections::BTreeMap;

use keyspace::{BootNanos, ReplicaId};

use crate::Members;

/// A leader's echoes, in one term.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    term: u64,
    echoed: BTreeMap<ReplicaId, BootNanos>,
    /// Leadership is being handed over: no lease for the rest of the term.
    given_up: bool,
}

impl Lease {
    /// The leader's term is `term` now.
    pub fn lead(&mut self, term: u64) {
        if self.term != term {
            *self = Self { term, ..Self::default() };
        }
    }

    pub fn echo(&mut self, term: u64, from: ReplicaId, clock: BootNanos) {
        if term == self.term {
            let newest = self.echoed.entry(from).or_default();
            *newest = clock.max(*newest);
        }
    }

    /// The newest clock that a replica has echoed in this term; 0: none.
    pub fn echoed(&self, replica: ReplicaId) -> BootNanos {
        self.echoed.get(&replica).copied().unwrap_or(0)
    }

    pub fn give_up(&mut self) {
        self.given_up = true;
    }

    pub fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// The newest own clock at which a majority followed this leader.
    pub fn confirmed(&self, own: ReplicaId, members: &Members) -> BootNanos {
        let echoed = |replica| match replica == own {
            true => BootNanos::MAX,
            false => self.echoed.get(&replica).copied().unwrap_or(0),
        };
        members.majority_of(echoed).unwrap_or(0)
    }
}

/// A voter's word to the leader it follows.
#[derive(Debug, Default)]
pub(crate) struct VotePromise {
    /// No votes before.
    pub no_vote_until: BootNanos,
    /// No votes before, not even for a leader's transfer target: the replica has forgotten its
    /// promises from before the start.
    pub no_forced_vote_until: BootNanos,
    /// The newest clock handled of the leader of a term.
    newest_leader_clock: (u64, ReplicaId, BootNanos),
}

impl VotePromise {
    /// A message of the leader of `term` was handled at `now`.
    pub fn record_handled(
        &mut self,
        term: u64,
        leader: ReplicaId,
        clock: BootNanos,
        now: BootNanos,
        still_nanos: u64,
    ) {
        self.no_vote_until = self.no_vote_until.max(now + still_nanos);
        let newest = if self.newest_leader_clock.0 == term && self.newest_leader_clock.1 == leader {
            self.newest_leader_clock.2
        } else {
            0
        };
        self.newest_leader_clock = (term, leader, clock.max(newest));
    }

    /// What to echo to the leader of `term`.
    pub fn echo(&self, term: u64, leader: ReplicaId) -> BootNanos {
        if self.newest_leader_clock.0 == term && self.newest_leader_clock.1 == leader {
            self.newest_leader_clock.2
        } else {
            0
        }
    }
}
