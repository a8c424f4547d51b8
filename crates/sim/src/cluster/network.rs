//! Packets on their way.
//!
//! A packet may be lost, come twice, or come late: most within a few milliseconds, some after
//! hundreds. A real link delivers nothing twice, and a sender whose write was refused for lack of
//! room relies on that: where disks are full now and then, no write comes twice. One direction
//! between two nodes may be cut; packets on their way then still arrive. When a link is lost, most
//! packets on it are lost too.
//!
//! Frames of snapshots go as over a real link: in order, each once, until the link is lost with all
//! frames on it. Each end learns of the loss after some time; until then its frames are lost. Where
//! another packet would be lost, or a direction is cut, a frame's link is lost.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::NodeId;

use super::attacker::AlteredFrame;
use super::options::RunProfile;
use crate::machine::peers::Packet;
use crate::rng::Rng;

/// Packets on their way, and directions that are cut.
#[derive(Default)]
pub struct Network {
    /// By when they arrive, in which order they were sent, and by whom.
    in_flight: BTreeMap<(u64, u64), (NodeId, Packet)>,
    /// Messages that were altered, likewise.
    altered: BTreeMap<(u64, u64), AlteredFrame>,
    sent: u64,
    cut: BTreeSet<(NodeId, NodeId)>,
    /// How often the link of two nodes was lost, the smaller first.
    lost: BTreeMap<(NodeId, NodeId), u64>,
    /// … as the first of these knows.
    known: BTreeMap<(NodeId, NodeId), u64>,
    /// When the last frame from one to another arrives.
    frames: BTreeMap<(NodeId, NodeId), u64>,
    /// Links that were lost, before either end knows.
    unreported_losses: Vec<(NodeId, NodeId)>,
}

impl Network {
    /// Sends a packet, or loses it.
    pub fn send(
        &mut self,
        from: NodeId,
        packet: Packet,
        now_ms: u64,
        profile: &RunProfile,
        calm: bool,
        rng: &mut Rng,
    ) {
        let is_cut = self.cut.contains(&(from, packet.node()));
        if let Packet::Frame(_) = packet {
            let ends = (from, packet.node());
            let is_stale = self.known.get(&ends).copied().unwrap_or(0) != self.losses(ends);
            if is_stale {
                return;
            }
            // There are few of them, and it is in their middle that it hurts.
            if is_cut || (!calm && rng.one_in((profile.lost_in / 16).max(4))) {
                return self.lose_link(ends);
            }
            let arrives = now_ms + rng.between(0, profile.delay_ms_max);
            let last = self.frames.entry(ends).or_default();
            *last = arrives.max(*last);
            let arrives = *last;
            return self.put(from, packet, arrives);
        }
        if is_cut {
            return;
        }
        if !calm && rng.one_in(profile.lost_in) {
            return;
        }
        if !calm
            && rng.one_in(profile.repeated_in)
            && (profile.repeats_writes || !packet.is_write())
        {
            let again = packet.repeated();
            self.put(from, again, now_ms + rng.between(1, 200));
        }
        let late = !calm && rng.one_in(profile.late_in);
        let millis = match late {
            true => rng.between(5, 800),
            false if profile.is_exact => profile.delay_ms_max,
            false => rng.between(0, profile.delay_ms_max),
        };
        self.put(from, packet, now_ms + millis);
    }

    fn put(&mut self, from: NodeId, packet: Packet, at_ms: u64) {
        self.sent += 1;
        self.in_flight.insert((at_ms, self.sent), (from, packet));
    }

    /// How many were sent, those that came twice counted twice.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// What arrives by now.
    pub fn due(&mut self, now_ms: u64) -> Vec<Packet> {
        let later = self.in_flight.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut self.in_flight, later);
        due.into_values().map(|(_, packet)| packet).collect()
    }

    /// Sends a message that is altered on its way.
    pub fn send_altered(&mut self, altered: AlteredFrame, at_ms: u64) {
        self.sent += 1;
        self.altered.insert((at_ms, self.sent), altered);
    }

    /// Altered messages that arrive by now.
    pub fn altered_due(&mut self, now_ms: u64) -> Vec<AlteredFrame> {
        let later = self.altered.split_off(&(now_ms + 1, 0));
        std::mem::replace(&mut self.altered, later).into_values().collect()
    }

    /// Loses the link between two nodes, in both directions. Packets that have reached the other's
    /// machine still arrive.
    pub fn lose(&mut self, one: NodeId, other: NodeId, rng: &mut Rng) {
        self.lose_link((one, other));
        self.in_flight.retain(|_, (from, packet)| {
            let ends = (*from, packet.node());
            let is_on_it = ends == (one, other) || ends == (other, one);
            !is_on_it || rng.one_in(5)
        });
    }

    /// The link that carries frames is lost, with all that is on it.
    pub fn lose_link(&mut self, ends: (NodeId, NodeId)) {
        let (one, other) = ends;
        *self.lost.entry((one.min(other), one.max(other))).or_default() += 1;
        self.in_flight.retain(|_, (from, packet)| {
            let on = (*from, packet.node());
            !matches!(packet, Packet::Frame(_)) || (on != ends && on != (other, one))
        });
        self.altered.retain(|_, altered| {
            let on = (altered.from, altered.to);
            on != ends && on != (other, one)
        });
        self.unreported_losses.push(ends);
    }

    /// How often the link of these two was lost.
    fn losses(&self, (one, other): (NodeId, NodeId)) -> u64 {
        self.lost.get(&(one.min(other), one.max(other))).copied().unwrap_or(0)
    }

    /// Takes the lost links: each end learns of it after a time of its own.
    pub fn take_lost_links(&mut self) -> Vec<(NodeId, NodeId)> {
        std::mem::take(&mut self.unreported_losses)
    }

    /// A node has learnt that its link with another was lost, and there is a new one.
    pub fn relinked(&mut self, node: NodeId, with: NodeId) {
        let losses = self.losses((node, with));
        self.known.insert((node, with), losses);
    }

    /// Cuts the way from one node to another.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cut.insert((from, to));
    }

    /// Whether the way from one node to another is open.
    pub fn is_open(&self, from: NodeId, to: NodeId) -> bool {
        !self.cut.contains(&(from, to))
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
