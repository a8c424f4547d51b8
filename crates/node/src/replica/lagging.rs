//! A replica that is far behind its leader: it waits for a snapshot, or has much to apply.
//!
//! It cannot serve readers for as long as that takes. So it answers [`NotDone::ReplicaLagging`],
//! and publishes that it lags ([`crate::replica::serving::Serving::lags`]). Its readers fetch from
//! the leader, as on a node without a replica ([`crate::routing::fetch`]):
//!
//! ```text
//!   reader ──► index 70 is enough ──(applied here)──► served here
//!                     └─(not within LAG_NANOS)──► lags ──► readers: Lags ──► Fetch ──► the leader
//!   no state yet ──(a leader is known)────────────►  │
//!                            index 70 is applied ◄───┘ served here again
//! ```
//!
//! The first reader that waits too long finds the lag. Later readers do not wait, until the replica
//! has reached the index that it lacked; the next reader then finds whether that is enough. Only
//! linearizable reads fetch: stale ones take the replica's age into account (SAFETY G17).

use replication::BootNanos;

use super::Replica;
use crate::executor::{Caller, Effects, RoundContext};
use crate::routing::fetch::FetchRequest;
#[cfg(doc)]
use command::NotDone;

/// Readers wait so long for an index that their leader has named, or half of the time that they
/// are given; then this replica lags.
const LAG_NANOS: u64 = 100_000_000;
/// What lacks who has no state at all.
const FIRST_STATE: u64 = 1;

impl Replica {
    /// Whether it lags: what is read is to be fetched.
    pub(crate) fn lags(&self) -> bool {
        self.lacks > self.applied
    }

    /// Takes a question for the leader that has come by now.
    pub(crate) fn fetch(
        &mut self,
        want: FetchRequest,
        bytes_max: usize,
        asker: Caller,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        self.outgoing.fetches.ask(want, bytes_max, asker, now, effects);
    }

    /// Another leads: finds out whether this replica lags, and sends readers away if it does.
    pub(super) fn look_behind(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        let lacks = match self.applied {
            0 => self.group.leader().map(|_| FIRST_STATE),
            applied => self.outgoing.forward.lacks(
                applied,
                LAG_NANOS.min(turn.request_timeout / 2),
                turn.now,
            ),
        };
        self.lacks = self.lacks.max(lacks.unwrap_or(0));
        if self.lags() {
            self.serving.lag(true);
            self.outgoing.forward.turn_away(effects);
        }
    }

    /// Whether a replica that has lagged does not any more. Those who have asked its leader are
    /// answered by that.
    #[inline(never)]
    pub(super) fn catches_up(&mut self) -> bool {
        if self.lags() && !self.leads() {
            return false;
        }
        self.lacks = 0;
        self.serving.lag(false);
        true
    }
}
