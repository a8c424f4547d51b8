//! Packets on their way.
//!
//! A packet may be lost, come twice, or come late: most within a few milliseconds, some after
//! hundreds. A direction between two nodes may be cut; what is on its way then still arrives.
//! When a link is lost, most of what was on it is lost too.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::NodeId;

use super::options::Mood;
use crate::machine::peers::Packet;
use crate::rng::Rng;

/// What is on its way, and which ways are cut.
#[derive(Default)]
pub struct Network {
    /// By when they arrive, in which order they were sent, and by whom.
    under_way: BTreeMap<(u64, u64), (NodeId, Packet)>,
    sent: u64,
    cut: BTreeSet<(NodeId, NodeId)>,
}

impl Network {
    /// Sends a packet, or loses it.
    pub fn send(
        &mut self,
        from: NodeId,
        packet: Packet,
        now_ms: u64,
        mood: &Mood,
        calm: bool,
        rng: &mut Rng,
    ) {
        if self.cut.contains(&(from, packet.node())) {
            return;
        }
        if !calm && rng.one_in(mood.lost_in) {
            return;
        }
        if !calm && rng.one_in(mood.repeated_in) {
            let again = packet.repeated();
            self.put(from, again, now_ms + rng.between(1, 200));
        }
        let late = !calm && rng.one_in(mood.late_in);
        let millis = if late { rng.between(5, 800) } else { rng.between(0, mood.delay_ms_max) };
        self.put(from, packet, now_ms + millis);
    }

    fn put(&mut self, from: NodeId, packet: Packet, at_ms: u64) {
        self.sent += 1;
        self.under_way.insert((at_ms, self.sent), (from, packet));
    }

    /// What arrives by now.
    pub fn due(&mut self, now_ms: u64) -> Vec<Packet> {
        let later = self.under_way.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut self.under_way, later);
        due.into_values().map(|(_, packet)| packet).collect()
    }

    /// The link between two nodes is lost, both ways. What has reached the other's machine still
    /// arrives.
    pub fn lose(&mut self, one: NodeId, other: NodeId, rng: &mut Rng) {
        self.under_way.retain(|_, (from, packet)| {
            let ends = (*from, packet.node());
            let is_on_it = ends == (one, other) || ends == (other, one);
            !is_on_it || rng.one_in(5)
        });
    }

    /// Cuts the way from one node to another.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cut.insert((from, to));
    }

    /// Opens all ways.
    pub fn mend(&mut self) {
        self.cut.clear();
    }

    /// Whether any way is cut.
    pub fn is_cut(&self) -> bool {
        !self.cut.is_empty()
    }
}
