//! A split: how its entry comes into the log, and what the replicas do about it.
//!
//! ```text
//!   Split ──► a leader, if it fits ──► entry ──► applied: the left half goes on,
//!                                                the commit index is logged,
//!                                                the right half begins, by way of the driver
//! ```
//!
//! What it does to the state: [`crate::reshape::split`].

use hlc::Clock;
use keyspace::Durability;
use replication::BootNanos;

use super::{Asker, InFlight, Replica, ReplicaStart, RightHalfStart};
use crate::event::EventKind;
use crate::executor::{Effects, push};
use crate::replica::entry::{Kind, operation};
use crate::replica::record;
use crate::reshape::split::{Half, Split};

impl Replica {
    /// Has it split, if it leads, and is still as who asks knows it.
    pub(crate) fn split(&mut self, split: Split, now: BootNanos, clock: &Clock) {
        if self.keeps_replicas() || !self.leads() || self.group.is_transferring() {
            return;
        }
        if !split.fits(&self.state.read()) {
            return;
        }
        let index = self.group.last_index() + 1;
        let mut bytes = operation(&split.encode());
        let term = self.stamp(clock, index, Kind::Split, 1, &mut bytes);
        let place = self.group.propose(bytes);
        assert!(
            place.is_ok_and(|place| place.index == index),
            "a leader's proposal takes the next index"
        );
        self.in_flight.push_back(InFlight { index, term, since: now, asker: Asker::Nobody });
    }

    /// It was split just now. Those who follow are to know it at once: the right half has no
    /// leader until they do.
    #[inline(never)]
    pub(super) fn was_split(&mut self, Half(right): Half, effects: &mut Effects) {
        self.published.is_stale = true;
        let (shard, new) = (self.id, right.descriptor.shard);
        let (at, _) = right.descriptor.arc.ends();
        effects.events.push(EventKind::Split { shard, right: new, at });
        // Before anything that the right half writes: see the front page of `split`.
        let payload = record::encode_hard_state(self.group.hard_state());
        push(&mut effects.records, self.id, record::HARD_STATE, &[&payload]);
        effects.sync |= !self.is_sole() || self.durability == Durability::Sync;
        let half = RightHalfStart { left: self.id, leads: self.group.is_leader() };
        // Who does not vote has no replica of it.
        if right.descriptor.node_of(self.replica).is_some() {
            let start = ReplicaStart::created(*right, self.replica, self.durability);
            effects.halves.push(ReplicaStart { half: Some(half), ..start });
        }
        self.group.send_commit_index_to_all();
    }
}
