//! Merges the events of several nodes by time, and waits for none that is silent.
//!
//! ```text
//!   node 1   ●  ●        ●  │ promised: nothing more up to here
//!   node 2     ●    ● │        promised
//!   node 3            ✕        silent for a second: not waited for
//!   given    ●●●    ●─┘        up to the lowest promise
//! ```
//!
//! An event that has waited for [`HOLD_NANOS`] passes in any case. What comes behind a later event
//! that was given is *late*: it is given at once, and moves no cursor.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use keyspace::{NodeId, Timestamp};

use super::followed::{Follow, Followed};
use super::pace::SamplePace;
use super::{Cursor, Gap, Item};

/// A node that says nothing for so long is not waited for.
pub const SILENT_NANOS: u64 = 1_000_000_000;
/// An event waits for others for at most so long.
pub const HOLD_NANOS: u64 = 1_000_000_000;

/// What a viewer gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// An event, or a sample.
    Event {
        /// Where to resume behind it; none if that is not to be from there.
        cursor: Option<Cursor>,
        /// All of it, as text.
        body: Arc<str>,
        /// Whether later ones were given before.
        is_late: bool,
    },
    /// Events of a node are missing.
    Gap {
        /// Of this one.
        of: NodeId,
        /// Where to resume behind it.
        cursor: Option<Cursor>,
        /// How many.
        gap: Gap,
    },
    /// A node's part of the stream has changed.
    Node {
        /// This one's.
        of: NodeId,
        /// To this.
        state: SourceState,
    },
    /// Nothing more will come.
    End(EndReason),
}

/// Why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The node stops.
    Stopping,
    /// All was told that was asked for.
    Until,
}

impl EndReason {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            EndReason::Stopping => "stopping",
            EndReason::Until => "until",
        }
    }
}

/// A node's part of a merged stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// It was asked, and has not answered yet.
    Awaited,
    /// It tells its events.
    Streaming,
    /// It has been silent for a while.
    Silent,
    /// It is not up.
    Down,
    /// It is no member any more.
    Gone,
    /// It has too many viewers.
    Refused,
}

impl SourceState {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            SourceState::Awaited => "awaited",
            SourceState::Streaming => "streaming",
            SourceState::Silent => "silent",
            SourceState::Down => "down",
            SourceState::Gone => "gone",
            SourceState::Refused => "refused",
        }
    }

    fn is_waited_for(self) -> bool {
        matches!(self, SourceState::Awaited | SourceState::Streaming)
    }
}

#[derive(Debug)]
struct Source {
    /// Items, and when they came.
    queue: VecDeque<(Item, u64)>,
    bytes: usize,
    promise: Timestamp,
    heard: u64,
    state: SourceState,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Merge {
    sources: BTreeMap<NodeId, Source>,
    /// Changes of sources that are to be given.
    changes: VecDeque<(NodeId, SourceState)>,
    /// Behind the latest event that was given.
    given: Cursor,
    /// Nothing that happened later is given.
    until: Timestamp,
    pace: Option<SamplePace>,
    /// Of requests and of transactions ([`SamplePace`]).
    turns: [u64; 2],
    /// Groups of samples that were begun with, on whatever node.
    followed: Followed,
}

impl Merge {
    /// A merge that begins at a place and ends at a time, and gives at most so many samples a
    /// second.
    pub fn new(cursor: Cursor, until: Timestamp, samples: u32) -> Self {
        let pace = SamplePace::new(samples);
        let (sources, changes, turns, followed) = Default::default();
        Self { sources, changes, given: cursor, until, pace, turns, followed }
    }

    /// Behind the latest event that was given.
    pub fn given(&self) -> Cursor {
        self.given
    }

    /// A node's events are to come, from now on.
    pub fn add(&mut self, node: NodeId, now_nanos: u64) {
        let promise = Timestamp::ZERO;
        let (queue, bytes, state) = (VecDeque::new(), 0, SourceState::Awaited);
        self.sources.entry(node).or_insert(Source {
            queue,
            bytes,
            promise,
            heard: now_nanos,
            state,
        });
    }

    /// A node is no member any more. What has come of it is still given.
    pub fn remove(&mut self, node: NodeId) {
        self.set_state(node, SourceState::Gone);
    }

    /// The state of a node, if it is a source.
    pub fn state(&self, node: NodeId) -> Option<SourceState> {
        Some(self.sources.get(&node)?.state)
    }

    /// A node's part changes.
    pub fn set_state(&mut self, node: NodeId, state: SourceState) {
        let Some(source) = self.sources.get_mut(&node).filter(|source| source.state != state)
        else {
            return;
        };
        source.state = state;
        if state != SourceState::Awaited {
            self.changes.push_back((node, state));
        }
    }

    /// A node that was down is to stream again.
    pub fn await_again(&mut self, node: NodeId, now_nanos: u64) {
        if let Some(source) = self.sources.get_mut(&node) {
            (source.state, source.heard) = (SourceState::Awaited, now_nanos);
        }
    }

    /// Bytes of a node's items that wait here.
    pub fn held_bytes(&self, node: NodeId) -> usize {
        self.sources.get(&node).map_or(0, |source| source.bytes)
    }

    /// A node tells items, and promises that nothing at or below a time will follow.
    pub fn receive(
        &mut self,
        node: NodeId,
        items: impl IntoIterator<Item = Item>,
        promise: Timestamp,
        now_nanos: u64,
    ) {
        let Some(source) = self.sources.get_mut(&node) else { return };
        for item in items {
            source.bytes += item.bytes();
            source.queue.push_back((item, now_nanos));
        }
        source.promise = source.promise.max(promise);
        source.heard = now_nanos;
        self.set_state(node, SourceState::Streaming);
    }

    /// A node is there, and tells its events when it is asked: this one.
    pub fn heard(&mut self, node: NodeId, now_nanos: u64) {
        if let Some(source) = self.sources.get_mut(&node) {
            source.heard = now_nanos;
        }
    }

    /// Lets time pass: who is silent is not waited for any more.
    pub fn tick(&mut self, now_nanos: u64) {
        let is_silent = |source: &Source| {
            source.state.is_waited_for() && source.heard + SILENT_NANOS <= now_nanos
        };
        let silent: Vec<NodeId> =
            self.sources.iter().filter(|(_, one)| is_silent(one)).map(|(node, _)| *node).collect();
        silent.into_iter().for_each(|node| self.set_state(node, SourceState::Silent));
    }

    /// Whether it has something to give now.
    pub fn has_more(&self, now_nanos: u64) -> bool {
        !self.changes.is_empty() || self.next(now_nanos).is_some()
    }

    /// Whether all has been given up to the end: no source that is waited for will tell anything
    /// before it.
    pub fn is_over(&self) -> bool {
        let is_told = |source: &Source| {
            let waits = source.queue.front().is_some_and(|(item, _)| item.at() <= self.until);
            !waits && (source.promise >= self.until || !source.state.is_waited_for())
        };
        self.changes.is_empty() && self.sources.values().all(is_told)
    }

    /// Gives the next thing.
    pub fn take(&mut self, now_nanos: u64) -> Option<Output> {
        loop {
            if let Some((of, state)) = self.changes.pop_front() {
                return Some(Output::Node { of, state });
            }
            let node = self.next(now_nanos)?;
            let source = self.sources.get_mut(&node)?;
            let (item, _) = source.queue.pop_front()?;
            source.bytes -= item.bytes();
            if source.state == SourceState::Gone && source.queue.is_empty() {
                self.sources.remove(&node);
            }
            if let Some(output) = self.given_as(node, item, now_nanos) {
                return Some(output);
            }
        }
    }

    /// What is given for an item; none for a sample beyond those that are wanted.
    fn given_as(&mut self, node: NodeId, item: Item, now_nanos: u64) -> Option<Output> {
        let place = Cursor::behind(item.at(), node);
        let is_late = place < self.given;
        let cursor = (!is_late).then_some(place);
        match item {
            Item::Event(_, body) => {
                self.given = self.given.max(place);
                Some(Output::Event { cursor, body, is_late })
            }
            Item::Sample(_, body, group) => {
                let follow = group.map(|group| self.followed.step(group, now_nanos));
                match follow.unwrap_or(Follow::MayBegin) {
                    Follow::No => return None,
                    Follow::Yes => {}
                    Follow::MayBegin => {
                        let turn = &mut self.turns[usize::from(group.is_some())];
                        *turn = self.pace?.take(*turn, now_nanos)?;
                        let begins =
                            group.is_none_or(|group| self.followed.begin(group, now_nanos));
                        begins.then_some(())?;
                    }
                }
                Some(Output::Event { cursor: None, body, is_late })
            }
            Item::Gap(gap) => {
                self.given = self.given.max(place);
                Some(Output::Gap { of: node, cursor, gap })
            }
        }
    }

    /// The node whose first item may be given now: of all first ones the earliest.
    fn next(&self, now_nanos: u64) -> Option<NodeId> {
        let first = |(node, source): (&NodeId, &Source)| {
            let (item, came) = source.queue.front()?;
            Some((item.at(), *node, *came))
        };
        let (at, node, came) = self.sources.iter().filter_map(first).min()?;
        if at > self.until {
            return None;
        }
        let waited_for = self.sources.values().filter(|source| source.state.is_waited_for());
        let promised = waited_for.map(|source| source.promise).min();
        let is_due = promised.is_none_or(|promised| at <= promised);
        (is_due || came + HOLD_NANOS <= now_nanos).then_some(node)
    }
}
