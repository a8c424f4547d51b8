//! What the clients of a node cache, as the server has it ([`node::tracking`], SAFETY G24).

use keyspace::ShardId;
use node::executor::{Answer, Input};
use node::routing::fetch::{FetchRequest, FetchResult};
use node::rpc::message::RpcMessage;
use node::tracking::interests::{Interests, Invalidations, TrackRequest};
use node::tracking::message::TrackingMessage;

use super::Machine;
use super::peers::{OutgoingRpc, Packet};

/// Keys that a node tracks at most: so few that some are given up.
const KEYS_MAX: usize = 24;

/// A node's table, and what its clients have not heard yet.
pub struct NodeTracking {
    /// The table.
    pub interests: Interests<u64>,
    /// For its clients, in order.
    pub invalidations: Invalidations<u64>,
    /// Planted: streams last, even if another node leads.
    pub trusts_for_ever: bool,
}

impl Default for NodeTracking {
    fn default() -> Self {
        let invalidations = Invalidations::new();
        Self { interests: Interests::new(KEYS_MAX), invalidations, trusts_for_ever: false }
    }
}

impl NodeTracking {
    /// What the table takes for the time, by the boot clock.
    pub fn now(&self, boot: u64) -> u64 {
        if self.trusts_for_ever { 1 } else { boot }
    }

    /// Takes what leaders have said.
    pub fn take(
        &mut self,
        answers: &[Answer],
        messages: impl Iterator<Item = (ShardId, TrackingMessage)>,
        boot: u64,
    ) {
        let (now, out) = (self.now(boot), &mut self.invalidations);
        for answer in answers {
            let Answer::Fetched { shard, want, found, .. } = answer else { continue };
            let FetchResult::Tracked(registration) = &**found else { continue };
            let FetchRequest::Track { keys, wants_all, since } = &**want else { continue };
            let since = if self.trusts_for_ever { 1 } else { *since };
            let asked = TrackRequest { shard: *shard, keys, wants_all: *wants_all, since };
            self.interests.registered(asked, registration, now, out);
        }
        for (shard, message) in messages {
            let is_end = matches!(message, TrackingMessage::Ended { .. });
            if !(self.trusts_for_ever && is_end) {
                self.interests.receive(shard, &message, out);
            }
        }
    }
}

impl Machine {
    /// Time passes for what clients cache.
    pub fn tick_tracking(&mut self) {
        let now = self.tracking.now(self.boot);
        let renewals = self.tracking.interests.tick(now, &mut self.tracking.invalidations);
        let from = self.manifest.node;
        for (to, shard, message) in renewals {
            let rpc = RpcMessage::Tracking { shard, message };
            match to == from {
                true => self.submit(shard, Input::Rpc { from, rpc }),
                false => self.outgoing.push(Packet::Rpc(OutgoingRpc { from, to, rpc })),
            }
        }
    }
}
