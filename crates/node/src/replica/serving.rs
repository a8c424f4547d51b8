//! Until when may this replica answer linearizable reads by itself?
//!
//! The executor publishes it after every turn and before anything of that turn leaves (SAFETY G1):
//! only while the replica leads, has applied its term's first entry and all that it knows to be
//! committed, and holds a lease. Readers look at it under the read guard. What they compare with is
//! the node's boot clock, read after the request had come: at that moment nobody else led, so what
//! is applied here then is all that anyone was ever told.
//!
//! A sole voter's lease never ends.
//!
//! A replica that does not lead publishes as well how fresh it is: since when, by the same clock,
//! it may lack what others were told, and up to which time its past is closed. So stale reads are
//! served here with an age that no other clock has a part in (SAFETY G17).
//!
//! Beside it stands the time at which reads are judged: nodes' clocks differ, and what one has told
//! to have ended must not be there again for another. Where the replica leads, that is its node's
//! clock, which is above all that the leaders before have told. Elsewhere it is the leader's clock
//! when it was last asked, whatever the clock here says: so no node's clock has a part in what
//! another leads (SAFETY G12).
//!
//! A replica that lags says so, too: what is read there is fetched from its leader meanwhile. It is
//! no reason to refuse what may be read here.
//!
//! And there is who leads, as far as the replica has heard: a hint for those who tell clients
//! where to go, and never a reason to serve anything.

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

    /// Whether reads are served by anyone whose clock stands anywhere.
    pub fn at_all(&self) -> bool {
        self.until.load(Ordering::Acquire) > 0
    }

    /// From now on, reads may be served whose clock stands below `end`. Zero: none.
    pub(crate) fn until(&self, end: BootNanos) {
        self.until.store(end, Ordering::Release);
    }

    /// No read is judged at an earlier time, whatever the clock here said when it came.
    pub fn floor(&self) -> Timestamp {
        Timestamp(self.floor.load(Ordering::Acquire))
    }

    /// The time at which a read is judged for which [`Self::at`] was asked, if this node's clock
    /// said `now` when it came.
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

    /// Whether the replica lags: readers who may not read here are not to wait for it.
    pub fn lags(&self) -> bool {
        self.lags.load(Ordering::Relaxed) == 1
    }

    /// It does, or does not any more.
    pub(crate) fn lag(&self, lags: bool) {
        self.lags.store(u8::from(lags), Ordering::Relaxed);
    }

    /// For a reader that holds the guard: how long ago, by its clock that stands at `now`, all was
    /// here, and the time at which to judge what has expired. `None`: nobody knows.
    pub fn age(&self, now: BootNanos) -> Option<(u64, Timestamp)> {
        let fresh_at = self.fresh_at.load(Ordering::Acquire);
        let closed = Timestamp(self.closed.load(Ordering::Relaxed));
        (fresh_at > 0).then(|| (now.saturating_sub(fresh_at), closed))
    }

    /// The node that leads, if it is known. It may have changed meanwhile.
    pub fn leader(&self) -> Option<NodeId> {
        let is_led = self.led.load(Ordering::Relaxed) == IS;
        is_led.then(|| NodeId(self.leader.load(Ordering::Relaxed)))
    }

    /// The node that leads or, if nobody is known to, the last that did.
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
    fn age_counts_from_when_it_was_fresh_and_neither_falls() {
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
    fn the_last_leader_is_remembered_and_not_taken_for_the_present_one() {
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
