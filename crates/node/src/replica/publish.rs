//! What a replica publishes for readers outside the executor and for the node's lookup.

use overlay::KnownShard;
use replication::BootNanos;

use super::Replica;
use crate::executor::Effects;

impl Replica {
    /// Lets readers outside the executor know until when they may read, and who leads.
    pub(super) fn publish(&mut self) {
        let (leader, term) = (self.group.leader(), self.group.term());
        if leader != self.published.leader {
            let node = self.leader();
            self.serving.led_by(node);
            if node.is_some() == leader.is_some() {
                self.published.leader = leader;
                self.published.is_stale = true;
            }
        }
        if leader.is_some() && term != self.published.term {
            self.published.term = term;
            self.published.is_stale = true;
        }
        self.serving.follows(!self.leads());
        let until = if !self.leads() || self.merges_freeze() {
            0
        } else if self.is_sole() {
            BootNanos::MAX
        } else if self.applied < self.group.committed() {
            // SAFETY G11: its own log lags.
            0
        } else {
            self.group.serves_until()
        };
        self.serving.until(until.max(self.read_until));
    }

    /// The shard as it is known here.
    pub fn known(&self) -> KnownShard {
        let mut descriptor = self.state.read().descriptor.clone();
        descriptor.leader = self.group.leader();
        KnownShard::new(descriptor, self.group.term())
    }

    /// Tells the node's lookup, if there is anything new. What waits for its snapshot knows nothing
    /// that others do not know better.
    pub(super) fn publish_to_lookup(&mut self, effects: &mut Effects) {
        if self.published.is_stale && self.applied > 0 {
            self.published.is_stale = false;
            effects.known.push(self.known());
        }
    }
}
