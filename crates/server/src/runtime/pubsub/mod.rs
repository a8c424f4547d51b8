//! Ephemeral messages: who subscribes to what, in this process and on other nodes.
//!
//! ```text
//!   PUBLISH on loop 0 ──┬─► its own subscribers, at once
//!                       ├─► Mail::Message ──► mailbox of each loop that has subscribers
//!                       └─► Publish frame ──► each node that has some ──► its loops' mailboxes
//!                                ◄── Receivers ── counted, or given up after RECEIVERS_WAIT
//!   SUBSCRIBE on loop 1 ──► registry, interest ──► Delta to all linked nodes
//!                                ◄── Ack of all, or SUBSCRIBE_WAIT is over ── then it is answered
//! ```
//!
//! A thread that publishes sends each message on all ways before the next one, and mailboxes and
//! links keep their order: so each publisher's messages arrive in order.
//!
//! | queue | bound | beyond |
//! |---|---|---|
//! | messages on the link to a node | [`LINK_BYTES_MAX`] of all that waits there | not sent to it |
//! | messages in a loop's mailbox | 8 MiB (`backlog`) | publishers here wait; beyond 64 MiB those of others are dropped |
//! | publishers that wait for other nodes | replies owed (`event_loop`) | their commands wait |
//! | a subscriber's output | `pubsub_output_bytes_max` | its connection is closed |
//!
//! Lock order: registry or waits, interests, links, mailboxes.

mod backlog;
mod registry;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use command::TopicKind;
use keyspace::{Feature, NodeId};
use node::pubsub::{InterestMessage, Interests, PubSubMessage, TopicCount};
use node::replica::entry::Waiter;
use parking_lot::{Mutex, RwLock};

use super::NodeRuntime;
use super::mailbox::Mail;
use super::peers::Peers;
use crate::counters::Counter;
use backlog::Backlog;
pub use registry::Name;
use registry::Registry;
use waits::Waits;

/// The kind of frames that carry ephemeral messages, and what nodes want of them.
pub const KIND_PUBSUB: u8 = 5;
/// How long a SUBSCRIBE's reply waits until other nodes know of it.
pub const SUBSCRIBE_WAIT: Duration = Duration::from_millis(100);
/// How long a PUBLISH waits for other nodes' counts; who has not answered counts as zero.
pub const RECEIVERS_WAIT: Duration = Duration::from_millis(500);
/// Nothing is published to a node while so many bytes wait for its link.
pub const LINK_BYTES_MAX: usize = 32 << 20;
/// Every so many ticks a node announces its version.
const DIGEST_TICKS: u64 = 20;

/// A message on its way to subscribers.
#[derive(Debug)]
pub struct Message {
    /// What its channel is.
    pub kind: TopicKind,
    /// The channel.
    pub channel: Name,
    /// What was published.
    pub message: Bytes,
}

/// A connection that waits for an answer: its loop, and its reply there.
#[derive(Clone, Copy, Debug)]
pub struct WaitingReply {
    /// Its loop.
    pub event_loop: usize,
    /// Its reply there.
    pub waiter: Waiter,
}

/// See the front page of this module.
pub struct PubSub {
    registry: RwLock<Registry>,
    interests: RwLock<Interests>,
    waits: Mutex<Waits>,
    /// By event loop.
    backlogs: Box<[Backlog]>,
    counters: PubSubCounters,
    /// Which keyspace notifications clients of this node have asked for.
    key_events: AtomicI64,
}

/// Numbers since the process started.
#[derive(Debug, Default)]
pub struct PubSubCounters {
    /// Messages that clients of this node published.
    pub published: Counter,
    /// Messages given to clients of this node, one for each subscription.
    pub delivered: Counter,
    /// Messages not sent to another node, or not given to an event loop: too much waited there, or
    /// the node was gone.
    pub dropped: Counter,
    /// Connections closed because their messages were not read.
    pub cut_off: Counter,
}

impl PubSub {
    /// That of a node that starts at this time.
    pub fn new(event_loops: usize, now_millis: u64) -> Self {
        Self {
            registry: RwLock::new(Registry::new(event_loops)),
            interests: RwLock::new(Interests::new(now_millis)),
            waits: Mutex::default(),
            backlogs: (0..event_loops).map(|_| Backlog::default()).collect(),
            counters: PubSubCounters::default(),
            key_events: AtomicI64::new(0),
        }
    }

    /// Which keyspace notifications there are: flags of [`gateway::resp::KeyEventFlags`].
    pub fn key_events(&self) -> i64 {
        self.key_events.load(Ordering::Relaxed)
    }

    /// There are these from now on, until the node stops.
    pub fn set_key_events(&self, flags: i64) {
        self.key_events.store(flags, Ordering::Relaxed);
    }

    /// What was counted.
    pub fn counters(&self) -> &PubSubCounters {
        &self.counters
    }

    /// How many clients of all nodes subscribe to this.
    pub fn subscribers(&self, kind: TopicKind, name: &[u8]) -> u64 {
        self.interests.read().subscribers(kind, name)
    }

    /// How many clients of this node subscribe to this.
    pub fn own_subscribers(&self, kind: TopicKind, name: &[u8]) -> u64 {
        self.interests.read().own_subscribers(kind, name)
    }

    /// All names of a kind that clients of any node subscribe to.
    pub fn names(&self, kind: TopicKind) -> Vec<Name> {
        self.interests.read().names(kind)
    }

    /// The names of a kind that clients of this node subscribe to.
    pub fn own_names(&self, kind: TopicKind) -> Vec<Name> {
        self.interests.read().own_names(kind)
    }

    /// How many names of a kind clients of this node subscribe to.
    pub fn own_len(&self, kind: TopicKind) -> u64 {
        self.interests.read().own_len(kind) as u64
    }

    /// How many would get a message to this channel, as far as this node knows.
    pub fn receivers(&self, kind: TopicKind, channel: &[u8]) -> u64 {
        self.interests.read().receivers(kind, channel)
    }

    /// Connections of a loop subscribe to these, or unsubscribe. Returns the version of this
    /// node's interest that says so.
    pub fn change(
        &self,
        runtime: &NodeRuntime,
        event_loop: usize,
        kind: TopicKind,
        names: &[Name],
        is_more: bool,
    ) -> u64 {
        let mut registry = self.registry.write();
        let changes = names.iter().map(|name| {
            let count = registry.change(kind, name, event_loop, is_more);
            TopicCount { kind, name: name.clone(), count }
        });
        let changes = changes.collect();
        let (mut interests, mut out) = (self.interests.write(), Vec::new());
        let version = interests.change(changes, &mut out);
        // Under the lock: deltas leave in the order of their versions.
        self.tell(runtime, &out);
        version
    }

    /// Has a reply wait until all linked nodes know this version. False: they do already, or this
    /// node announces nothing.
    pub fn wait_for_peers(
        &self,
        runtime: &NodeRuntime,
        version: u64,
        waiting: impl FnOnce() -> WaitingReply,
    ) -> bool {
        if !self.is_shared(runtime) {
            return false;
        }
        let mut waits = self.waits.lock();
        if self.interests.read().known_to_all() >= version {
            return false;
        }
        waits.wait_for_acks(version, waiting(), Instant::now() + SUBSCRIBE_WAIT);
        true
    }

    /// Whether this node announces anything to others.
    fn is_shared(&self, runtime: &NodeRuntime) -> bool {
        runtime.peers.is_some() && runtime.version.allows(Feature::EphemeralMessages)
    }

    /// Posts a message to all loops with subscribers but the calling one, which delivers it itself.
    /// Returns how many receivers there are in this process, and a loop whose mailbox has so many
    /// messages that publishers should wait.
    pub fn post(
        &self,
        runtime: &NodeRuntime,
        message: &Arc<Message>,
        caller: Option<usize>,
    ) -> (u64, Option<usize>) {
        let (count, mut loops) = self.registry.read().receivers(message.kind, &message.channel);
        loops.retain(|event_loop| Some(*event_loop) != caller);
        for &event_loop in &loops {
            if self.backlogs[event_loop].add(message) {
                let mail = Mail::Message(message.clone());
                if !runtime.delivery.mailboxes[event_loop].post(mail) {
                    // The loop has ended, and its subscribers with it.
                    self.taken(runtime, event_loop, message);
                }
            } else {
                self.counters.dropped.add(1);
            }
        }
        (count, loops.into_iter().find(|event_loop| self.backlogs[*event_loop].is_crowded()))
    }

    /// Has a publisher wait until a loop has caught up. False: it has.
    pub fn wait_for_loop(&self, event_loop: usize, waiting: WaitingReply, count: u64) -> bool {
        self.backlogs[event_loop].wait(waiting, count)
    }

    /// A loop has taken a message out of its mailbox.
    pub fn taken(&self, runtime: &NodeRuntime, event_loop: usize, message: &Message) {
        let done = self.backlogs[event_loop].taken(message);
        done.into_iter().for_each(|(waiting, count)| answer(runtime, waiting, count));
    }

    /// Sends a message to other nodes that want it. If somebody waits for their count, with that of
    /// this process, returns whether he must; he is answered by [`Mail::Receivers`].
    pub fn send(
        &self,
        runtime: &NodeRuntime,
        message: &Message,
        waiting: Option<(WaitingReply, u64)>,
    ) -> bool {
        let (Some(peers), true) = (&runtime.peers, self.is_shared(runtime)) else { return false };
        let nodes: Vec<NodeId> =
            self.interests.read().interested(message.kind, &message.channel).collect();
        if nodes.is_empty() {
            return false;
        }
        // Noted before it is sent: answers come to another thread.
        let number = waiting.map_or(0, |(waiting, count)| {
            let until = Instant::now() + RECEIVERS_WAIT;
            self.waits.lock().wait_for_receivers(nodes.clone(), count, waiting, until)
        });
        let mut head = Vec::with_capacity(message.channel.len() + 24);
        PubSubMessage::encode_publish(number, message.kind, &message.channel, &mut head);
        for node in nodes {
            let is_full = peers.cluster.unsent_bytes(node) > LINK_BYTES_MAX;
            let parts: [&[u8]; 2] = [&head, &message.message];
            if is_full || peers.cluster.send(node, KIND_PUBSUB, &parts).is_err() {
                self.counters.dropped.add(1);
                self.received(runtime, node, number, 0);
            }
        }
        peers.cluster.flush();
        number != 0
    }

    /// A node has given a message to so many, or will not.
    fn received(&self, runtime: &NodeRuntime, node: NodeId, number: u64, count: u64) {
        if let Some((waiting, count)) = self.waits.lock().received(node, number, count) {
            answer(runtime, waiting, count);
        }
    }

    /// Sends what the table of interest has to say.
    fn tell(&self, runtime: &NodeRuntime, out: &[(NodeId, InterestMessage)]) {
        let (Some(peers), true) = (&runtime.peers, self.is_shared(runtime)) else { return };
        if out.is_empty() {
            return;
        }
        for (node, message) in out {
            send(peers, *node, &PubSubMessage::Interest(message.clone()));
        }
        peers.cluster.flush();
    }

    /// Takes a frame of another node.
    pub fn take_frame(&self, runtime: &NodeRuntime, from: NodeId, body: &Bytes) {
        let message = match PubSubMessage::decode(body) {
            Ok(message) => message,
            Err(why) => {
                tracing::warn!("cannot read a message of node {:016x}: {why}", from.0);
                return;
            }
        };
        match message {
            PubSubMessage::Publish { number, kind, channel, message } => {
                let message = Arc::new(Message { kind, channel, message });
                let (count, _) = self.post(runtime, &message, None);
                if let Some(peers) = runtime.peers.as_ref().filter(|_| number != 0) {
                    // Sent at the end of the links' turn.
                    send(peers, from, &PubSubMessage::Receivers { number, count });
                }
            }
            PubSubMessage::Receivers { number, count } => {
                self.received(runtime, from, number, count);
            }
            PubSubMessage::Interest(message) => {
                let mut out = Vec::new();
                let mut interests = self.interests.write();
                interests.receive(from, message, &mut out);
                self.tell(runtime, &out);
                drop(interests);
                self.look_at_acks(runtime);
            }
        }
    }

    /// Answers SUBSCRIBEs that all linked nodes know of.
    fn look_at_acks(&self, runtime: &NodeRuntime) {
        let mut waits = self.waits.lock();
        let known = self.interests.read().known_to_all();
        waits.acknowledged(known).into_iter().for_each(|waiting| answer(runtime, waiting, 0));
    }

    /// A link was made.
    pub fn linked(&self, runtime: &NodeRuntime, node: NodeId) {
        let (mut interests, mut out) = (self.interests.write(), Vec::new());
        interests.linked(node, &mut out);
        self.tell(runtime, &out);
    }

    /// A link was lost: nobody waits for that node any more.
    pub fn unlinked(&self, runtime: &NodeRuntime, node: NodeId) {
        self.interests.write().unlinked(node);
        self.look_at_acks(runtime);
        let done = self.waits.lock().unlinked(node);
        done.into_iter().for_each(|(waiting, count)| answer(runtime, waiting, count));
    }

    /// Gives up what has waited too long, and announces this node's version. At each of the node's
    /// ticks.
    pub fn tick(&self, runtime: &NodeRuntime, ticks: u64) {
        let late = self.waits.lock().late(Instant::now());
        late.into_iter().for_each(|(waiting, count)| answer(runtime, waiting, count));
        if ticks.is_multiple_of(DIGEST_TICKS) {
            let (interests, mut out) = (self.interests.read(), Vec::new());
            interests.tick(&mut out);
            self.tell(runtime, &out);
        }
    }
}

fn send(peers: &Peers, node: NodeId, message: &PubSubMessage) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    // Nodes announce what they want again; counts are given up.
    let _lost = peers.cluster.send(node, KIND_PUBSUB, &[&bytes]);
}

fn answer(runtime: &NodeRuntime, waiting: WaitingReply, count: u64) {
    let WaitingReply { event_loop, waiter } = waiting;
    // A loop that has ended has no clients left.
    let _gone = runtime.delivery.mailboxes[event_loop].post(Mail::Receivers(waiter, count as i64));
}
