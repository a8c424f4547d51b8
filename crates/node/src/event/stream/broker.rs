//! A node's part in streams of events: its ring, its viewers, and those of other nodes.
//!
//! ```text
//!   event, sample ──┐            ┌──► wakes: viewers that have something to take
//!   message ────────┼─► Broker ──┤
//!   tick ───────────┘            └──► messages to other nodes
//!                        ▲
//!   viewer ── take ──────┘
//! ```
//!
//! A viewer of the whole cluster has a [`Merge`] here, and a [`Subscription`] for each other node.
//! A viewer of another node has a [`Feed`] here, under that node's number for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::{NodeId, Timestamp};

use super::feed::{Sample, SampleTaken};
use super::merge::{EndReason, Merge, Output, SourceState};
use super::message::EventMessage;
use super::ring::{KeptEvent, Ring};
use super::subscription::{CREDIT_BYTES_MAX, Subscription};
use super::{Cursor, Feed, FeedKind, Filter, Item, SampleGroup};
use crate::event::EventType;

mod peers;

use peers::RemoteViewer;

/// The most viewers of a node.
pub const VIEWERS_MAX: usize = 32;
/// The most viewers of other nodes that a node sends to.
pub const REMOTE_VIEWERS_MAX: usize = 256;
/// Who takes nothing for so long, though something waits, is to be cut off.
pub const VIEWER_STALL_NANOS: u64 = 5_000_000_000;

/// Names a viewer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViewerId(pub u64);

/// The present time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the node's hybrid clock.
    pub now: Timestamp,
    /// By its boot clock.
    pub nanos: u64,
}

/// Another node, as members know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Which.
    pub node: NodeId,
    /// Whether it is up.
    pub is_up: bool,
}

/// Whose events a viewer wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This node's.
    Node,
    /// All nodes': of this one, and these.
    Cluster(Vec<Source>),
}

/// What a viewer wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Which events.
    pub filter: Filter,
    /// Whose.
    pub scope: Scope,
    /// From where on; none: from now on.
    pub cursor: Option<Cursor>,
    /// At most so many samples a second.
    pub samples: u32,
    /// What happened later is not wanted: the stream ends.
    pub until: Option<Timestamp>,
}

/// Why nobody more may watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchRefusal {
    /// There are too many viewers.
    TooMany,
    /// The node stops.
    Stopping,
}

/// What a broker counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerCounts {
    /// Events of this node.
    pub events: u64,
    /// Samples that some viewer wanted.
    pub samples: u64,
    /// Samples that had no room, one for each viewer.
    pub samples_dropped: u64,
    /// Gaps that viewers got.
    pub gaps: u64,
    /// Viewers that were refused.
    pub viewers_refused: u64,
}

struct Viewer {
    feed: Feed,
    filter: Filter,
    samples: u32,
    until: Timestamp,
    merged: Option<MergedView>,
    /// Since when something waits that it has not taken.
    waits_since: Option<u64>,
    /// It has got the end.
    is_over: bool,
}

struct MergedView {
    merge: Merge,
    others: BTreeMap<NodeId, Subscription>,
}

/// See the module's documentation.
pub struct Broker {
    own: NodeId,
    ring: Ring,
    viewers: BTreeMap<ViewerId, Viewer>,
    remote: BTreeMap<(NodeId, u64), RemoteViewer>,
    next_viewer: u64,
    messages: Vec<(NodeId, EventMessage)>,
    woken: Vec<ViewerId>,
    is_stopping: bool,
    counts: BrokerCounts,
}

impl Broker {
    /// That of a node that starts at this time. `seed` differs at each start.
    pub fn new(own: NodeId, started: Timestamp, seed: u64) -> Self {
        Self {
            own,
            ring: Ring::new(started),
            viewers: BTreeMap::new(),
            remote: BTreeMap::new(),
            // Other nodes may still know viewers of the process before.
            next_viewer: seed >> 16,
            messages: Vec::new(),
            woken: Vec::new(),
            is_stopping: false,
            counts: BrokerCounts::default(),
        }
    }

    // ---- what happens ----

    /// Something happens here. `encode` gets its time, and returns its text.
    pub fn event(
        &mut self,
        at: Moment,
        event_type: EventType,
        keyspace: Option<&str>,
        encode: impl FnOnce(Timestamp) -> String,
    ) {
        let time = self.ring.stamp(at.now);
        let (body, keyspace) = (encode(time).into(), keyspace.map(Into::into));
        let event = KeptEvent { at: time, event_type, keyspace, body };
        self.counts.events += 1;
        let number = self.ring.end();
        for (id, viewer) in &mut self.viewers {
            if viewer.feed.pushed(number, &event) && viewer.is_alone() {
                self.woken.extend(viewer.wakes(at.nanos).then_some(*id));
            }
        }
        self.remote.values_mut().for_each(|remote| _ = remote.feed.pushed(number, &event));
        self.ring.push(event);
    }

    /// A sample: it goes to those who want one now. `group` as in `Sample`.
    pub fn sample(
        &mut self,
        at: Moment,
        event_type: EventType,
        keyspace: Option<&str>,
        group: Option<SampleGroup>,
        encode: impl FnOnce(Timestamp) -> String,
    ) {
        let time = self.ring.stamp(at.now);
        let body: Arc<str> = encode(time).into();
        let sample = Sample { at: time, event_type, keyspace, body, group };
        let mut is_wanted = false;
        let counts = &mut self.counts;
        let mut offer = |feed: &mut Feed| {
            let taken = feed.sample(at.nanos, &sample);
            is_wanted |= taken == SampleTaken::Yes;
            counts.samples_dropped += u64::from(taken == SampleTaken::Dropped);
            taken == SampleTaken::Yes
        };
        for (id, viewer) in &mut self.viewers {
            if offer(&mut viewer.feed) && viewer.is_alone() {
                self.woken.extend(viewer.wakes(at.nanos).then_some(*id));
            }
        }
        self.remote.values_mut().for_each(|remote| _ = offer(&mut remote.feed));
        self.counts.samples += u64::from(is_wanted);
    }

    /// Keeps so many bytes of events from now on, and puts events of earlier lives of the node
    /// before those that there are; these are returned. Before anybody watches.
    pub fn restore(&mut self, earlier: Vec<KeptEvent>, bytes_max: usize) -> Vec<KeptEvent> {
        let now = self.ring.iter().cloned().collect();
        self.ring.restore(earlier, bytes_max);
        now
    }

    /// The most samples a second that anybody wants.
    pub fn samples_wanted(&self) -> u32 {
        let here = self.viewers.values().map(|viewer| viewer.feed.samples_wanted());
        let there = self.remote.values().map(|remote| remote.feed.samples_wanted());
        here.chain(there).max().unwrap_or_default()
    }

    // ---- viewers here ----

    /// Begins a stream; and the place where.
    ///
    /// # Errors
    /// If nobody more may watch.
    pub fn watch(
        &mut self,
        at: Moment,
        options: WatchOptions,
    ) -> Result<(ViewerId, Cursor), WatchRefusal> {
        if self.is_stopping {
            return Err(WatchRefusal::Stopping);
        }
        if self.viewers.len() >= VIEWERS_MAX {
            self.counts.viewers_refused += 1;
            return Err(WatchRefusal::TooMany);
        }
        let WatchOptions { filter, scope, cursor, samples, until } = options;
        let until = until.unwrap_or(Timestamp::MAX);
        let now = self.ring.promise(at.now);
        let cursor = cursor.unwrap_or(Cursor { at: now, node: Some(NodeId(u64::MAX)) });
        self.next_viewer += 1;
        let id = ViewerId(self.next_viewer);
        let kind = match scope {
            Scope::Node => FeedKind::Viewer,
            Scope::Cluster(_) => FeedKind::Merge,
        };
        let feed = Feed::new(kind, &self.ring, filter.clone(), samples, cursor, self.own);
        let mut viewer = Viewer {
            feed,
            filter,
            samples,
            until,
            merged: None,
            waits_since: None,
            is_over: false,
        };
        if let Scope::Cluster(sources) = scope {
            let mut merge = Merge::new(cursor, until, samples);
            merge.add(self.own, at.nanos);
            viewer.merged = Some(MergedView { merge, others: BTreeMap::new() });
            viewer.follow(id, &sources, at.nanos);
        }
        self.viewers.insert(id, viewer);
        self.renew(at);
        self.wake(at);
        Ok((id, cursor))
    }

    /// Gives a viewer what comes next, about so many bytes. Nothing: it is woken when there is
    /// something.
    pub fn take(&mut self, id: ViewerId, at: Moment, bytes_max: usize) -> Vec<Output> {
        let Some(viewer) = self.viewers.get_mut(&id) else { return Vec::new() };
        let mut outputs = Vec::new();
        let is_told;
        if let Some(MergedView { merge, .. }) = &mut viewer.merged {
            let room = CREDIT_BYTES_MAX.saturating_sub(merge.held_bytes(self.own));
            let items = viewer.feed.take(&self.ring, room);
            let promise = promise(&viewer.feed, &mut self.ring, at.now);
            merge.receive(self.own, items, promise, at.nanos);
            let mut bytes = 0;
            while bytes < bytes_max
                && let Some(output) = merge.take(at.nanos)
            {
                bytes += output_bytes(&output);
                outputs.push(output);
            }
            is_told = merge.is_over();
        } else {
            let mut items = viewer.feed.take(&self.ring, bytes_max);
            let is_later = |item: &Item| item.is_after(viewer.until);
            items.truncate(items.iter().position(is_later).unwrap_or(items.len()));
            is_told = promise(&viewer.feed, &mut self.ring, at.now) >= viewer.until;
            let own = self.own;
            outputs.extend(items.into_iter().map(|item| as_output(item, own)));
        }
        let gaps = outputs.iter().filter(|output| matches!(output, Output::Gap { .. })).count();
        self.counts.gaps += gaps as u64;
        let has_more = viewer.has_more(&self.ring, at.nanos);
        viewer.waits_since = has_more.then_some(at.nanos);
        let end = match () {
            () if is_told => Some(EndReason::Until),
            () if self.is_stopping && !has_more => Some(EndReason::Stopping),
            () => None,
        };
        if let Some(reason) = end.filter(|_| !viewer.is_over) {
            viewer.is_over = true;
            outputs.push(Output::End(reason));
        }
        if viewer.merged.is_some() {
            // What was taken makes room for more.
            self.renew(at);
        }
        outputs
    }

    /// Whether a viewer has taken nothing for so long that it is to be cut off.
    pub fn is_stuck(&self, id: ViewerId, nanos: u64) -> bool {
        let since = self.viewers.get(&id).and_then(|viewer| viewer.waits_since);
        since.is_some_and(|since| since + VIEWER_STALL_NANOS <= nanos)
    }

    /// A viewer goes.
    pub fn unwatch(&mut self, id: ViewerId) {
        let Some(viewer) = self.viewers.remove(&id) else { return };
        let others = viewer.merged.into_iter().flat_map(|merged| merged.others.into_keys());
        let unwatch = |node| (node, EventMessage::Unwatch { watch: id.0 });
        self.messages.extend(others.map(unwatch));
    }

    /// The node stops: viewers get what there is, and the end.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.woken.extend(self.viewers.keys());
    }

    // ---- for the driver ----

    /// Messages that are to be sent.
    pub fn take_messages(&mut self) -> Vec<(NodeId, EventMessage)> {
        std::mem::take(&mut self.messages)
    }

    /// Viewers that have something to take.
    pub fn take_woken(&mut self) -> Vec<ViewerId> {
        std::mem::take(&mut self.woken)
    }

    /// How many viewers there are: here, and on other nodes.
    pub fn viewers(&self) -> (usize, usize) {
        (self.viewers.len(), self.remote.len())
    }

    /// What was counted.
    pub fn counts(&self) -> BrokerCounts {
        self.counts
    }

    // ---- within ----

    /// Asks other nodes for what viewers here want, where it is due.
    fn renew(&mut self, at: Moment) {
        for viewer in self.viewers.values_mut() {
            let Some(MergedView { merge, others }) = &mut viewer.merged else { continue };
            let share = share(viewer.samples, others.len() + 1);
            viewer.feed.set_samples(share);
            for (&node, subscription) in others {
                if merge.state(node) == Some(SourceState::Down) {
                    continue;
                }
                let held = merge.held_bytes(node);
                let due = subscription.due(at.nanos, held, &viewer.filter, share);
                self.messages.extend(due.map(|message| (node, message)));
            }
        }
    }

    fn wake(&mut self, at: Moment) {
        for (id, viewer) in &mut self.viewers {
            if viewer.has_more(&self.ring, at.nanos) {
                viewer.waits_since.get_or_insert(at.nanos);
                self.woken.push(*id);
            }
        }
    }
}

impl Viewer {
    /// Whether it waits for no other node: the others' promises come with ticks.
    fn is_alone(&self) -> bool {
        self.merged.as_ref().is_none_or(|merged| merged.others.is_empty())
    }

    /// There is something to take. Whether its reader does not know that.
    fn wakes(&mut self, nanos: u64) -> bool {
        let is_news = self.waits_since.is_none();
        self.waits_since.get_or_insert(nanos);
        is_news
    }

    fn has_more(&self, ring: &Ring, nanos: u64) -> bool {
        match &self.merged {
            None => self.feed.has_more(ring),
            // Its own node's events are in the merge only when it takes something.
            Some(merged) => merged.merge.has_more(nanos) || self.feed.has_more(ring),
        }
    }

    /// Watches these nodes from now on, if it watches the cluster.
    fn follow(&mut self, id: ViewerId, sources: &[Source], nanos: u64) {
        let Some(MergedView { merge, others }) = &mut self.merged else { return };
        let are_members = |node: &NodeId| sources.iter().any(|source| source.node == *node);
        others.retain(|node, _| {
            let is_member = are_members(node);
            if !is_member {
                merge.remove(*node);
            }
            is_member
        });
        for Source { node, is_up } in sources {
            others.entry(*node).or_insert_with(|| {
                merge.add(*node, nanos);
                Subscription::new(*node, id.0, merge.given())
            });
            match (is_up, merge.state(*node)) {
                // It tells its events, whatever members believe.
                (false, Some(SourceState::Streaming)) => {}
                (false, _) => merge.set_state(*node, SourceState::Down),
                (true, Some(SourceState::Down)) => merge.await_again(*node, nanos),
                _ => {}
            }
        }
    }
}

/// The part of the samples that each of so many nodes takes.
fn share(samples: u32, nodes: usize) -> u32 {
    samples.div_ceil(u32::try_from(nodes).unwrap_or(u32::MAX))
}

/// Up to which time a feed has given all.
fn promise(feed: &Feed, ring: &mut Ring, now: Timestamp) -> Timestamp {
    match feed.next_at(ring) {
        Some(next) => Timestamp(next.0.saturating_sub(1)),
        None => ring.promise(now),
    }
}

fn as_output(item: Item, own: NodeId) -> Output {
    let cursor = Some(Cursor::behind(item.at(), own));
    match item {
        Item::Event(_, body) => Output::Event { cursor, body, is_late: false },
        Item::Sample(_, body, _) => Output::Event { cursor: None, body, is_late: false },
        Item::Gap(gap) => Output::Gap { of: own, cursor, gap },
    }
}

fn output_bytes(output: &Output) -> usize {
    const BESIDE: usize = 64;
    match output {
        Output::Event { body, .. } => body.len() + BESIDE,
        _ => BESIDE,
    }
}
