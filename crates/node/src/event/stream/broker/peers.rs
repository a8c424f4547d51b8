//! What a broker says to other nodes, and takes from them.

use keyspace::{NodeId, Timestamp};

use super::{Broker, Moment, REMOTE_VIEWERS_MAX, Source, ViewerId, promise};
use crate::event::stream::feed::{Feed, FeedKind, Item};
use crate::event::stream::merge::SourceState;
use crate::event::stream::message::{EventMessage, FRAME_BYTES_MAX, WatchMessage};
use crate::event::stream::subscription::LEASE_NANOS;

/// A viewer of another node.
pub(super) struct RemoteViewer {
    pub feed: Feed,
    restart: u64,
    sequence: u64,
    credit: u64,
    sent: u64,
    until: u64,
    /// The link was lost: nothing is sent until it asks again.
    is_cut: bool,
}

impl Broker {
    /// Takes a message of another node.
    pub fn receive(&mut self, from: NodeId, message: EventMessage, at: Moment) {
        match message {
            EventMessage::Watch(watch) => self.watched_by(from, watch, at),
            EventMessage::Unwatch { watch } => _ = self.remote.remove(&(from, watch)),
            EventMessage::Refused { watch } => {
                let viewer = self.viewers.get_mut(&ViewerId(watch));
                if let Some(merged) = viewer.and_then(|viewer| viewer.merged.as_mut()) {
                    merged.merge.set_state(from, SourceState::Refused);
                }
            }
            EventMessage::Events { watch, restart, sequence, promise, items } => {
                let viewer = self.viewers.get_mut(&ViewerId(watch));
                let Some(merged) = viewer.and_then(|viewer| viewer.merged.as_mut()) else {
                    // Its viewer has gone, and the message that says so may be lost.
                    return self.messages.push((from, EventMessage::Unwatch { watch }));
                };
                let Some(subscription) = merged.others.get_mut(&from) else { return };
                if let Some(items) = subscription.accept(restart, sequence, items) {
                    merged.merge.receive(from, items, promise, at.nanos);
                }
                self.renew(at);
            }
        }
        self.wake(at);
    }

    fn watched_by(&mut self, from: NodeId, watch: WatchMessage, at: Moment) {
        let WatchMessage { watch, restart, cursor, filter, samples, credit } = watch;
        let key = (from, watch);
        let is_new = self.remote.get(&key).is_none_or(|remote| remote.restart != restart);
        if is_new {
            if self.remote.len() >= REMOTE_VIEWERS_MAX && !self.remote.contains_key(&key) {
                self.counts.viewers_refused += 1;
                return self.messages.push((from, EventMessage::Refused { watch }));
            }
            let kind = FeedKind::Merge;
            let mut feed = Feed::new(kind, &self.ring, filter, samples, cursor, self.own);
            if let Some(before) = self.remote.remove(&key) {
                feed.go_on_from(before.feed);
            }
            let (sequence, sent, until, is_cut) = (0, 0, 0, false);
            let remote = RemoteViewer { feed, restart, sequence, credit, sent, until, is_cut };
            self.remote.insert(key, remote);
        }
        let Some(remote) = self.remote.get_mut(&key) else { return };
        if remote.is_cut {
            // It does not know that something is missing: a frame that is not the next one says so,
            // and it begins anew. What waits here is for then.
            let (sequence, promise, items) = (u64::MAX, Timestamp::ZERO, Vec::new());
            let events = EventMessage::Events { watch, restart, sequence, promise, items };
            self.messages.push((from, events));
        }
        remote.feed.set_samples(samples);
        remote.credit = remote.credit.max(credit);
        remote.until = at.nanos + LEASE_NANOS;
    }

    /// A link was lost, or made anew: what was on it may not have come.
    pub fn link_changed(&mut self, node: NodeId, at: Moment) {
        for (_, remote) in self.remote.iter_mut().filter(|((asker, _), _)| *asker == node) {
            remote.is_cut = true;
        }
        let merged = self.viewers.values_mut().filter_map(|viewer| viewer.merged.as_mut());
        for merged in merged {
            if let Some(subscription) = merged.others.get_mut(&node) {
                subscription.begin_anew();
            }
        }
        self.renew(at);
    }

    /// These are the other nodes.
    pub fn set_members(&mut self, sources: &[Source], at: Moment) {
        for (id, viewer) in &mut self.viewers {
            viewer.follow(*id, sources, at.nanos);
        }
    }

    /// Lets time pass: tells other nodes' viewers what they want, repeats what viewers here want,
    /// and waits no longer for who is silent. Some 20 times a second.
    pub fn tick(&mut self, at: Moment) {
        self.remote.retain(|_, remote| at.nanos < remote.until);
        let linked = self.remote.iter_mut().filter(|(_, remote)| !remote.is_cut);
        for (&(node, watch), remote) in linked {
            let room = remote.credit.saturating_sub(remote.sent).min(FRAME_BYTES_MAX as u64);
            let items = remote.feed.take(&self.ring, room as usize);
            remote.sent += items.iter().map(|item| item.bytes() as u64).sum::<u64>();
            let gaps = items.iter().filter(|item| matches!(item, Item::Gap(_))).count();
            self.counts.gaps += gaps as u64;
            let promise = promise(&remote.feed, &mut self.ring, at.now);
            let (restart, sequence) = (remote.restart, remote.sequence);
            remote.sequence += 1;
            let events = EventMessage::Events { watch, restart, sequence, promise, items };
            self.messages.push((node, events));
        }
        for viewer in self.viewers.values_mut() {
            if let Some(merged) = &mut viewer.merged {
                merged.merge.heard(self.own, at.nanos);
                merged.merge.tick(at.nanos);
            }
        }
        self.renew(at);
        self.wake(at);
    }

    /// Whether a tick has something to do.
    pub fn needs_ticks(&self) -> bool {
        !self.remote.is_empty() || self.viewers.values().any(|viewer| viewer.merged.is_some())
    }

    /// A message did not go: nothing more is sent to its viewer until the node asks again.
    pub fn not_sent(&mut self, node: NodeId, message: &EventMessage) {
        if let EventMessage::Events { watch, items, .. } = message
            && let Some(remote) = self.remote.get_mut(&(node, *watch))
        {
            remote.is_cut = true;
            remote.feed.give_back_samples(items);
        }
    }
}
