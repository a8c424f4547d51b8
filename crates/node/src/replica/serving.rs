//! Until when may this replica answer linearizable reads by itself?
//!
//! The executor publishes that after every round and before any of its effects leave (SAFETY G1).
//! It allows reads only while the replica leads, holds a lease, and has applied its term's first
//! entry and all that it knows to be committed. Readers check it under the read guard, against the
//! node's boot clock, which they read after the request had come. At that moment no other replica
//! led, so the state here has everything that any client was ever told.
//!
//! A sole voter's lease never ends.
//!
//! A follower publishes how fresh it is: since when, by the same clock, it may lack acknowledged
//! writes, and up to which time its past is closed. So it serves stale reads with an age that
//! involves no other clock (SAFETY G17).
//!
//! It also publishes the time by which reads judge expiry. Nodes' clocks differ, and a value that
//! one client saw expired must not reappear to another. A leader uses its own clock, which is above
//! all that earlier leaders have reported. A follower uses the leader's clock when it was last
//! asked. So no other node's clock plays a part in what a leader serves (SAFETY G12).
//!
//! A replica that lags publishes that, too: its readers fetch from the leader meanwhile. It may
//! still serve what it can.
//!
//! Last, it publishes which node leads, as far as it has heard: a hint for redirects, never a
//! reason to serve anything.

use keyspace::{NodeId, Timestamp};
use replication::BootNanos;

use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// Shared by a shard's executor and its readers.
#[derive(Debug, Default)]
pub struct Serving {
    until: AtomicU64,
    floor: AtomicU64,
    /// 1: the replica does not lead.
    follows: AtomicU8,
    /// All that anyone was told before this clock is here; 0 if that is not known.
    fresh_at: AtomicU64,
    /// Nothing will come that is not above this time.
    closed: AtomicU64,
    /// 1: what is read is to be fetched from the leader.
    lags: AtomicU8,
    leader: AtomicU64,
    /// What `leader` is: [`NEVER`], [`WAS`] or [`IS`].
    led: AtomicU8,
}

/// Nobody was ever heard to lead.
const NEVER: u8 = 0;
/// Somebody led, and nobody is known to lead now.
const WAS: u8 = 1;
/// Somebody leads.
const IS: u8 = 2;

impl Serving {
    /// Reads whose clock stood at `now` when they had come may be served.
    pub fn at(&self, now: BootNanos) -> bool {
        now < self.until.load(Ordering::Acquire)
    }

    /// Whether it serves reads at any clock.
    pub fn at_all(&self) -> bool {
        self.until.load(Ordering::Acquire) > 0
    }

    /// From now on, reads may be served whose clock stands below `end`. Zero: none.
    pub(crate) fn until(&self, end: BootNanos) {
        self.until.store(end, Ordering::Release);
    }

    /// The lowest time at which a read is judged, whatever the local clock said when it came.
    pub fn floor(&self) -> Timestamp {
        Timestamp(self.floor.load(Ordering::Acquire))
    }

    /// The time at which a read is judged that passed [`Self::at`], if this node's clock said `now`
    /// when it came.
    pub fn judged_at(&self, now: Timestamp) -> Timestamp {
        let follows = self.follows.load(Ordering::Acquire) == 1;
        if follows { self.floor() } else { self.floor().max(now) }
    }

    /// Whether the replica does not lead. What it told while it did must lie below the floor.
    pub(crate) fn follows(&self, follows: bool) {
        self.follows.store(u8::from(follows), Ordering::Release);
    }

    /// Reads that are served from now on are judged at this time at the earliest.
    pub(crate) fn raise_floor(&self, to: Timestamp) {
        self.floor.fetch_max(to.0, Ordering::AcqRel);
    }

    /// Everything that anyone was told before its boot clock stood at `at` is applied here, and
    /// whatever is not will be above `closed`. Neither falls.
    pub(crate) fn fresh(&self, at: BootNanos, closed: Timestamp) {
        self.closed.fetch_max(closed.0, Ordering::Relaxed);
        self.fresh_at.fetch_max(at, Ordering::Release);
    }

    /// The replica has ended: nothing is served any more, nor is it said how old it would be. What
    /// is read is to be fetched.
    pub(crate) fn end(&self) {
        self.until(0);
        self.lag(true);
        self.fresh_at.store(0, Ordering::Release);
        self.led_by(None);
    }

    /// Whether the replica lags: readers that it cannot serve should not wait.
    pub fn lags(&self) -> bool {
        self.lags.load(Ordering::Relaxed) == 1
    }

    /// It does, or does not any more.
    pub(crate) fn lag(&self, lags: bool) {
        self.lags.store(u8::from(lags), Ordering::Relaxed);
    }

    /// For a reader that holds the guard and whose clock says `now`: how long ago the state here
    /// was complete, and the time at which to judge expiry. `None`: not known.
    pub fn age(&self, now: BootNanos) -> Option<(u64, Timestamp)> {
        let fresh_at = self.fresh_at.load(Ordering::Acquire);
        let closed = Timestamp(self.closed.load(Ordering::Relaxed));
        (fresh_at > 0).then(|| (now.saturating_sub(fresh_at), closed))
    }

    /// As [`Self::fresh`], of the past alone.
    pub(crate) fn close(&self, closed: Timestamp) {
        self.closed.fetch_max(closed.0, Ordering::Relaxed);
    }

    /// The time up to which the state here has all that there will ever be, but for what locks
    /// hide.
    pub fn closed(&self) -> Timestamp {
        Timestamp(self.closed.load(Ordering::Relaxed))
    }

    /// The node that leads, if it is known. It may have changed meanwhile.
    pub fn leader(&self) -> Option<NodeId> {
        let is_led = self.led.load(Ordering::Relaxed) == IS;
        is_led.then(|| NodeId(self.leader.load(Ordering::Relaxed)))
    }

    /// The node that leads or, if none is known to, the last that did.
    pub fn last_leader(&self) -> Option<NodeId> {
        let was_led = self.led.load(Ordering::Relaxed) != NEVER;
        was_led.then(|| NodeId(self.leader.load(Ordering::Relaxed)))
    }

    /// This node leads now; `None`: nobody is known to.
    pub(crate) fn led_by(&self, leader: Option<NodeId>) {
        match leader {
            Some(node) => {
                self.leader.store(node.0, Ordering::Relaxed);
                self.led.store(IS, Ordering::Relaxed);
            }
            None if self.led.load(Ordering::Relaxed) == IS => {
                self.led.store(WAS, Ordering::Relaxed);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_newest_fresh_time() {
        let serving = Serving::default();
        assert_eq!(serving.age(50), None);
        serving.fresh(40, Timestamp(7));
        assert_eq!(serving.age(50), Some((10, Timestamp(7))));
        // A read that had come before is not old at all.
        assert_eq!(serving.age(30), Some((0, Timestamp(7))));
        serving.fresh(35, Timestamp(6));
        assert_eq!(serving.age(50), Some((10, Timestamp(7))));
        assert!(!serving.at(0), "fresh is not leading");
        serving.until(60);
        serving.end();
        assert_eq!((serving.age(50), serving.at(50)), (None, false));
    }

    #[test]
    fn last_leader_is_remembered_but_is_no_present_leader() {
        let serving = Serving::default();
        serving.led_by(None);
        assert_eq!((serving.leader(), serving.last_leader()), (None, None));
        serving.led_by(Some(NodeId(0)));
        assert_eq!((serving.leader(), serving.last_leader()), (Some(NodeId(0)), Some(NodeId(0))));
        serving.led_by(None);
        assert_eq!((serving.leader(), serving.last_leader()), (None, Some(NodeId(0))));
        serving.led_by(Some(NodeId(7)));
        assert_eq!(serving.leader(), Some(NodeId(7)));
    }
}
