//! Runs SUBSCRIBE, UNSUBSCRIBE and PUBLISH, and gives messages to this loop's subscribers.
//!
//! ```text
//!   PUBLISH of one of its connections ─┐
//!   Mail::Message of another thread  ──┴─► deliver ──► Connection::push_frames of each subscriber
//!                                                        └─ takes no more: cut off
//! ```
//!
//! A message is encoded once for each protocol and pattern. Delivery waits for nobody: a subscriber
//! that does not read is cut off, as Redis does with `client-output-buffer-limit pubsub`.
//!
//! [`push`] sends anything else to a connection of any loop, such as an invalidation of what its
//! client has cached.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use command::{TopicKind, topic};

use super::connection::{Connection, Protocol};
use super::pending_reply::{PendingReply, ReplyFrame};
use super::resp::CommandOutcome;
use super::serve::waiter;
use super::state::ConnectionState;
use super::{Clients, EventLoop, OUTPUT_PAUSE_BYTES};
use crate::runtime::NodeRuntime;
use crate::runtime::mailbox::{Mail, Push};
use crate::runtime::pubsub::{Message, Name, WaitingReply};
use gateway::resp::subscriptions::write_message;
use gateway::resp::{Gather, Request, RespWriter, Session, Subscriptions, Version};

/// A subscriber whose unread output is longer than this part of `pubsub_output_bytes_max` …
const SOFT_PART: u64 = 4;
/// … for so long is cut off as well.
const SOFT_MILLIS: u64 = 60_000;

/// The subscribers of one loop: places of its connections.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    channels: HashMap<Name, BTreeSet<usize>>,
    shard_channels: HashMap<Name, BTreeSet<usize>>,
    patterns: BTreeMap<Name, BTreeSet<usize>>,
}

impl Subscribers {
    fn add(&mut self, kind: TopicKind, name: &Name, at: usize) {
        let places = match kind {
            TopicKind::Channel => self.channels.entry(name.clone()).or_default(),
            TopicKind::Shard => self.shard_channels.entry(name.clone()).or_default(),
            TopicKind::Pattern => self.patterns.entry(name.clone()).or_default(),
        };
        places.insert(at);
    }

    fn remove(&mut self, kind: TopicKind, name: &Name, at: usize) {
        let places = match kind {
            TopicKind::Channel => self.channels.get_mut(name),
            TopicKind::Shard => self.shard_channels.get_mut(name),
            TopicKind::Pattern => self.patterns.get_mut(name),
        };
        let is_empty = places.is_some_and(|places| {
            places.remove(&at);
            places.is_empty()
        });
        if is_empty {
            match kind {
                TopicKind::Channel => _ = self.channels.remove(name),
                TopicKind::Shard => _ = self.shard_channels.remove(name),
                TopicKind::Pattern => _ = self.patterns.remove(name),
            }
        }
    }

    /// Who gets a message, first by its channel, then by each pattern.
    fn of(&self, message: &Message) -> Vec<(Option<&Name>, &BTreeSet<usize>)> {
        let Message { kind, channel, .. } = message;
        let by_name = match kind {
            TopicKind::Shard => self.shard_channels.get(channel),
            _ => self.channels.get(channel),
        };
        let has_patterns = *kind != TopicKind::Shard;
        let patterns = self.patterns.iter().filter(|_| has_patterns);
        let matching = patterns.filter(|(pattern, _)| topic::matches(pattern, channel));
        let by_name = by_name.map(|places| (None, places)).into_iter();
        by_name.chain(matching.map(|(pattern, places)| (Some(pattern), places))).collect()
    }
}

/// What a queued command does when its transaction is committed.
#[derive(Clone, Debug)]
pub enum CommitEffect {
    /// It sends a message.
    Publish(Arc<Message>),
    /// It subscribes.
    Subscribe(TopicKind, Vec<Name>),
    /// It unsubscribes, from all if none is named.
    Unsubscribe(TopicKind, Vec<Name>),
}

/// The connection that publishes, while it is served.
struct Publisher<'a> {
    at: usize,
    connection: &'a mut Connection,
    version: Version,
}

impl EventLoop {
    /// Runs a command of this module; none other comes here.
    pub(super) fn run_pubsub(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        request: Request<'_>,
        muted: bool,
    ) -> CommandOutcome {
        match request {
            Request::Subscribe { kind, names } => {
                let mut bytes = Vec::new();
                let mut writer = RespWriter::new(&mut bytes, session.version());
                let added = session.subscriptions_mut().add(kind, &names, &mut writer);
                self.confirm_subscribed(at, connection, kind, &added, bytes);
                self.describe(connection, session);
                CommandOutcome::Answered
            }
            Request::Unsubscribe { kind, names } => {
                let mut bytes = Vec::new();
                let mut writer = RespWriter::new(&mut bytes, session.version());
                let removed = session.subscriptions_mut().remove(kind, &names, &mut writer);
                self.unsubscribe(at, kind, &removed);
                connection.reply_with(bytes);
                self.describe(connection, session);
                CommandOutcome::Answered
            }
            Request::Publish { kind, channel, message } => {
                // Who gets it may read what was written before.
                if !connection.may_publish() {
                    connection.next.barrier = true;
                    return CommandOutcome::Deferred;
                }
                let message = Message {
                    kind,
                    channel: channel.into(),
                    message: Bytes::copy_from_slice(message),
                };
                self.publish(at, connection, session.version(), Arc::new(message), muted);
                CommandOutcome::Answered
            }
            other => unreachable!("{other:?} is not about messages"),
        }
    }

    /// Has new subscriptions known, and confirmed when other nodes know them.
    fn confirm_subscribed(
        &mut self,
        at: usize,
        connection: &mut Connection,
        kind: TopicKind,
        added: &[Name],
        confirmations: Vec<u8>,
    ) {
        let version = self.subscribe(at, kind, added);
        let (event_loop, waiter) = (self.number, waiter(at, connection.next_number()));
        let waiting = || WaitingReply { event_loop, waiter };
        let waits =
            version.is_some_and(|v| self.runtime.pubsub.wait_for_peers(&self.runtime, v, waiting));
        if !waits {
            return connection.reply_with(confirmations);
        }
        // They are pushes, whatever the client wants of replies: nothing else is written.
        let frame = ReplyFrame::Resp { version: Version::V3, muted: true };
        connection.pending.push_back(PendingReply::waiting(frame).behind(confirmations));
    }

    /// A connection of this loop subscribes to these. The version of the node's interest that says
    /// so, if there are any.
    fn subscribe(&mut self, at: usize, kind: TopicKind, added: &[Name]) -> Option<u64> {
        if added.is_empty() {
            return None;
        }
        added.iter().for_each(|name| self.subscribers.add(kind, name, at));
        Some(self.runtime.pubsub.change(&self.runtime, self.number, kind, added, true))
    }

    /// It unsubscribes from these.
    fn unsubscribe(&mut self, at: usize, kind: TopicKind, removed: &[Name]) {
        if removed.is_empty() {
            return;
        }
        removed.iter().for_each(|name| self.subscribers.remove(kind, name, at));
        self.runtime.pubsub.change(&self.runtime, self.number, kind, removed, false);
    }

    /// A connection subscribes to nothing any more.
    pub(super) fn end_subscriptions(&mut self, at: usize, subscriptions: &Subscriptions) {
        for kind in TopicKind::ALL.into_iter().filter(|_| !subscriptions.is_empty()) {
            let names: Vec<Name> = subscriptions.of(kind).map(Name::from).collect();
            self.unsubscribe(at, kind, &names);
        }
    }

    fn publish(
        &mut self,
        at: usize,
        connection: &mut Connection,
        version: Version,
        message: Arc<Message>,
        muted: bool,
    ) {
        let publisher = Publisher { at, connection, version };
        let (count, crowded) = self.publish_here(&message, Some(publisher));
        let number = connection.next_number();
        let waiting = WaitingReply { event_loop: self.number, waiter: waiter(at, number) };
        let pubsub = &self.runtime.pubsub;
        let waits_for_nodes = pubsub.send(&self.runtime, &message, Some((waiting, count)));
        let count_here = if waits_for_nodes { 0 } else { count };
        let waits_for_loop =
            crowded.is_some_and(|crowded| pubsub.wait_for_loop(crowded, waiting, count_here));
        let parts = u32::from(waits_for_nodes) + u32::from(waits_for_loop);
        if parts > 0 {
            let frame = ReplyFrame::Resp { version, muted };
            connection.pending.push_back(PendingReply::gathering(Gather::Sum, parts, frame));
            connection.published = Some(number);
            connection.next.barrier |= waits_for_loop;
        } else if !muted {
            let mut reply = Vec::new();
            command::Sink::int(&mut RespWriter::new(&mut reply, version), count as i64);
            connection.reply_with(reply);
        }
    }

    /// Gives a message to all subscribers in this process; how many they are, and a loop that has
    /// many messages to give.
    fn publish_here(
        &mut self,
        message: &Arc<Message>,
        publisher: Option<Publisher<'_>>,
    ) -> (u64, Option<usize>) {
        self.runtime.pubsub.counters().published.add(1);
        let (count, crowded) = self.runtime.pubsub.post(&self.runtime, message, Some(self.number));
        if count > 0 {
            self.deliver_message(message, publisher);
        }
        (count, crowded)
    }

    /// Takes a message of another thread.
    pub(super) fn take_message(&mut self, message: &Message) {
        self.deliver_message(message, None);
        self.runtime.pubsub.taken(&self.runtime, self.number, message);
    }

    /// Gives a message to this loop's subscribers, of which one may be its publisher.
    fn deliver_message(&mut self, message: &Message, mut publisher: Option<Publisher<'_>>) {
        let (mut delivered, mut cut, mut long) = (0, Vec::new(), Vec::new());
        let bytes_max = self.config.pubsub_output_bytes_max;
        let now_millis = self.now.millis();
        for (pattern, places) in self.subscribers.of(message) {
            let mut frames = [None, None];
            for &at in places {
                let own = publisher.as_mut().filter(|publisher| publisher.at == at);
                let (connection, version) = if let Some(own) = own {
                    (&mut *own.connection, own.version)
                } else if let Some(Some(connection)) = self.connections.get_mut(at)
                    && let Protocol::Resp(session, _) = &connection.protocol
                {
                    let version = session.version();
                    (&mut **connection, version)
                } else {
                    continue;
                };
                let frame = frames[usize::from(version == Version::V3)].get_or_insert_with(|| {
                    let mut bytes = Vec::new();
                    let mut writer = RespWriter::new(&mut bytes, version);
                    let pattern = pattern.map(|pattern| &**pattern);
                    let Message { kind, channel, message } = message;
                    write_message(&mut writer, *kind, pattern, channel, message);
                    bytes
                });
                if takes(connection, frame, bytes_max, now_millis) {
                    delivered += 1;
                    if !connection.turn.touched {
                        connection.turn.touched = true;
                        self.touched.push(at);
                    }
                    if connection.unsent() > OUTPUT_PAUSE_BYTES && connection.ready.writable {
                        long.push(at);
                    }
                } else if connection.life < ConnectionState::Broken {
                    cut.push((at, connection.id));
                    cut_off(connection);
                }
            }
        }
        self.runtime.pubsub.counters().delivered.add(delivered);
        // Many messages may come in one turn: who reads them is not cut off for that.
        for at in long {
            if let Some(mut connection) = self.connections[at].take() {
                self.flush(&mut connection);
                self.connections[at] = Some(connection);
            }
        }
        for (at, id) in cut {
            tracing::warn!(client = id, "closed a connection that does not read its messages");
            self.runtime.pubsub.counters().cut_off.add(1);
            self.enqueue(at);
        }
    }

    /// Pushes to a connection of this loop, behind all replies that are owed now. Closes it if it
    /// takes no more.
    pub(super) fn push_to(&mut self, push: &Push) {
        let Some((_, at)) = self.clients.place(push.id) else { return };
        let bytes_max = self.config.pubsub_output_bytes_max;
        let now_millis = self.now.millis();
        let slot = self.connections.get_mut(at).and_then(Option::as_mut);
        let Some(connection) = slot.filter(|connection| connection.id == push.id) else { return };
        let Protocol::Resp(session, _) = &connection.protocol else { return };
        let frames = match session.version() {
            Version::V3 => &push.resp3,
            Version::V2 if session.subscriptions().is_empty() && !session.is_monitor() => return,
            Version::V2 => &push.resp2,
        };
        if frames.is_empty() || takes(connection, frames, bytes_max, now_millis) {
            self.touch(at);
        } else if connection.life < ConnectionState::Closing {
            cut_off(connection);
            self.enqueue(at);
        }
    }

    /// Does what queued commands of a committed transaction do beside it.
    pub(super) fn run_effects(&mut self, at: usize) {
        let Some(slot) = self.connections.get_mut(at) else { return };
        let Some(mut connection) = slot.take() else { return };
        let effects = std::mem::take(&mut connection.effects);
        let protocol = std::mem::replace(&mut connection.protocol, Protocol::Native);
        if let Protocol::Resp(mut session, ranges) = protocol {
            self.run_effects_of(at, &mut connection, &mut session, effects);
            connection.protocol = Protocol::Resp(session, ranges);
        } else {
            connection.protocol = protocol;
        }
        self.connections[at] = Some(connection);
    }

    /// The same, of a connection that is being served.
    pub(super) fn run_effects_of(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        effects: Vec<CommitEffect>,
    ) {
        for effect in effects {
            let (mut unsaid, version) = (Vec::new(), session.version());
            let mut writer = RespWriter::new(&mut unsaid, version);
            match effect {
                CommitEffect::Publish(message) => {
                    let publisher = Publisher { at, connection, version };
                    self.publish_here(&message, Some(publisher));
                    // The transaction's reply has its count.
                    self.runtime.pubsub.send(&self.runtime, &message, None);
                }
                CommitEffect::Subscribe(kind, names) => {
                    let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
                    let added = session.subscriptions_mut().add(kind, &names, &mut writer);
                    self.subscribe(at, kind, &added);
                }
                CommitEffect::Unsubscribe(kind, names) => {
                    let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
                    let removed = session.subscriptions_mut().remove(kind, &names, &mut writer);
                    self.unsubscribe(at, kind, &removed);
                }
            }
        }
        self.describe(connection, session);
    }

    /// A queued command of this module: its reply, and what it does on commit. `subscriptions`: as
    /// the commands queued before leave them.
    pub(super) fn queue_pubsub(
        &self,
        session: &Session,
        subscriptions: &mut Subscriptions,
        request: Request<'_>,
    ) -> (Vec<u8>, CommitEffect) {
        let (mut bytes, owned) =
            (Vec::new(), |names: &[&[u8]]| names.iter().map(|name| Name::from(*name)).collect());
        let mut writer = RespWriter::new(&mut bytes, session.version());
        let effect = match request {
            Request::Subscribe { kind, names } => {
                subscriptions.add(kind, &names, &mut writer);
                CommitEffect::Subscribe(kind, owned(&names))
            }
            Request::Unsubscribe { kind, names } => {
                subscriptions.remove(kind, &names, &mut writer);
                CommitEffect::Unsubscribe(kind, owned(&names))
            }
            Request::Publish { kind, channel, message } => {
                let known = self.runtime.pubsub.receivers(kind, channel) as usize;
                let own_before = session.subscriptions().receives(kind, channel);
                let own = subscriptions.receives(kind, channel);
                let count = (known + own).saturating_sub(own_before);
                command::Sink::int(&mut writer, count as i64);
                let message = Bytes::copy_from_slice(message);
                CommitEffect::Publish(Arc::new(Message { kind, channel: channel.into(), message }))
            }
            other => unreachable!("{other:?} is not about messages"),
        };
        (bytes, effect)
    }
}

/// Whether a subscriber takes a message; else it is to be cut off.
fn takes(connection: &mut Connection, frame: &[u8], bytes_max: u64, now_millis: u64) -> bool {
    let waiting = (connection.unsent() + connection.output.pushes_bytes) as u64;
    let is_long = waiting > bytes_max / SOFT_PART;
    let since = *connection.output.long_since_millis.get_or_insert(now_millis);
    if !is_long {
        connection.output.long_since_millis = None;
    } else if now_millis.saturating_sub(since) > SOFT_MILLIS {
        return false;
    }
    connection.push_frames(frame, bytes_max as usize)
}

/// Its client sees the end at once, and its output's memory is free.
fn cut_off(connection: &mut Connection) {
    connection.advance(ConnectionState::Broken);
    connection.output.bytes = Vec::new();
    connection.output.sent = 0;
    connection.transport.shut_down();
}

/// Pushes to a connection of any loop, from any thread; one thread's pushes arrive in order. False
/// if it is gone.
pub fn push(runtime: &NodeRuntime, clients: &Clients, push: Push) -> bool {
    let place = clients.place(push.id);
    place.is_some_and(|(event_loop, _)| {
        runtime.delivery.mailboxes[event_loop].post(Mail::Push(Box::new(push)))
    })
}
