//! How the server drives its control plane ([`node::control`]): who queues inputs, who steps it,
//! and what becomes of its effects.
//!
//! ```text
//!   lanes, links, ticker, HTTP ──post_news──► queue ──spread_news──► Control::step
//!                                                          one at a time │ effects, in order
//!          lanes, readers' copies of routes, links, log lines ◄──────────┘
//! ```
//!
//! Whoever has queued something spreads it, unless another thread does so already and will find it.
//! Control is stepped under its lock, and may ask lanes then; so whoever holds a lane queues and
//! waits for nobody. Its effects are carried out without the lock, before the next step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::{CatalogueOp, Durability, NodeId, ShardId};
use node::control::{Effect, Executors, Members, Routes};
use node::executor::{Input, ShardExecutor};
use node::replica::entry::Waiter;
use node::reshape::reroute::SentOn;
use overlay::{Message, Outbox};

use super::mail::Callback;
use super::peers::Peers;
use super::tallies::Tally;
use super::{Hub, NOBODY, News, SIDE_DOOR, boot_nanos};

/// The kind of frames that carry what one lookup says to another.
pub const KIND_LOOKUP: u8 = 4;

/// The lanes, as control asks them.
struct Lanes<'a>(&'a Hub);

impl Executors for Lanes<'_> {
    fn look(&mut self, shard: ShardId, at: &mut dyn FnMut(&ShardExecutor)) {
        self.0.lanes[self.0.lane_of(shard)].with(self.0, |lane| at(lane));
    }

    fn look_at_all(&mut self, at: &mut dyn FnMut(&ShardExecutor)) {
        self.0.lanes.iter().for_each(|cell| cell.with(self.0, |lane| at(lane)));
    }
}

impl Hub {
    /// Queues inputs of control, in order.
    pub fn post_news(&self, news: impl IntoIterator<Item = News>) {
        let mut news = news.into_iter().peekable();
        if news.peek().is_some() {
            self.news.lock().extend(news);
        }
    }

    /// Whether there are inputs that nobody has begun to spread.
    pub fn has_news(&self) -> bool {
        !self.news.lock().is_empty()
    }

    /// Messages of other nodes' lookups that were dropped, because too many waited.
    pub fn lookups_dropped(&self) -> u64 {
        self.news.lock().dropped()
    }

    /// Has control take what is queued, unless another thread is doing so and will find it.
    pub fn spread_news(&self) {
        loop {
            if self.news.lock().is_empty() {
                return;
            }
            let Some(_spreading) = self.spreading.try_lock() else { return };
            loop {
                let Some(news) = self.news.lock().pop() else { break };
                self.step_control(news);
            }
        }
    }

    /// As both.
    pub(super) fn tell_control(&self, news: News) {
        self.post_news([news]);
        self.spread_news();
    }

    /// Has control take an input here and now, after what is queued. For what comes with time and
    /// may take a while: a thread that serves clients, links or the log would do it otherwise.
    /// Whoever calls holds no lock.
    pub(super) fn step_here(&self, news: News) {
        let spreading = self.spreading.lock();
        loop {
            let Some(before) = self.news.lock().pop() else { break };
            self.step_control(before);
        }
        self.step_control(news);
        drop(spreading);
        self.spread_news();
    }

    fn step_control(&self, news: News) {
        let effects = {
            let mut control = self.control.lock();
            control.observe(boot_nanos());
            control.step(news, &mut Lanes(self))
        };
        self.carry_out(effects);
    }

    fn carry_out(&self, effects: Vec<Effect>) {
        let mut out = Outbox::new();
        for effect in effects {
            match effect {
                Effect::Submit(shard, input) => self.submit(shard, input),
                Effect::Reroute(SentOn { shard, origin, batch }) => {
                    self.counters.moved.add(batch.waiters().len() as u64);
                    self.submit(shard, Input::Propose { shard, origin, batch });
                }
                Effect::Confirm(half) => {
                    self.lanes.iter().for_each(|lane| lane.with(self, |lane| lane.confirm(half)));
                }
                Effect::Routes(routes) => self.publish(routes),
                Effect::AdminStates(states) => {
                    let removed = states.removed().collect();
                    self.standings.store(states);
                    if let Some(peers) = &self.peers {
                        peers.cluster.set_removed(removed);
                    }
                }
                Effect::ClusterVersion { level, before } => self.follow_level(level, before),
                Effect::Answer(answer) => self.deliver(answer, NOBODY, &mut Vec::new()),
                Effect::Reply { id, reply } => self.replied(id, reply),
                Effect::Rpc(node, letter) => self.send_letter(node, &letter),
                Effect::Table(node, message) => out.push((node, message)),
                Effect::Learned(known) => {
                    if let Some(peers) = &self.peers {
                        peers.lookups.learn(&known);
                    }
                }
                Effect::Forgotten(keyspace) => {
                    if let Some(peers) = &self.peers {
                        peers.lookups.forget_keyspace(keyspace);
                    }
                }
                Effect::Event(what) => self.happened(what),
            }
        }
        if let Some(peers) = &self.peers {
            self.send_lookup(peers, out);
        }
    }

    /// Makes these the routes.
    fn publish(&self, routes: Arc<Routes>) {
        let interval = routes.iter().any(|r| r.keyspace.options.durability == Durability::Interval);
        self.interval_keyspaces.store(interval, Ordering::Relaxed);
        self.routes.store(routes);
        self.routes_version.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells control who the other nodes are.
    pub(super) fn look_up_by(&self, peers: &Peers) {
        let members = peers.cluster.members();
        let others = || members.iter().filter(|member| member.node != self.node_id);
        let all = others().map(|member| member.node).collect();
        let up: Vec<NodeId> = others().filter(|m| m.is_up()).map(|member| member.node).collect();
        peers.lookups.peers(&up);
        self.tell_control(News::Members(Members { all, up }));
    }

    /// What another node's lookup says.
    pub(super) fn lookup_came(&self, peers: &Peers, from: NodeId, body: &[u8]) {
        let message = match Message::decode(body) {
            Ok(message) => message,
            Err(error) => {
                let from = from.0;
                return tracing::warn!(
                    "what node {from:016x} says of shards cannot be read, and was ignored: {error}"
                );
            }
        };
        let mut tally = Tally::default();
        tally.lookup(&message, body.len());
        peers.tallies.received.add(&tally);
        if let Message::Ring { .. } | Message::Request(_) = message {
            return self.lookups_came(peers, from, message);
        }
        self.tell_control(News::Table { from, message });
    }

    pub(super) fn send_lookup(&self, peers: &Peers, out: Outbox) {
        if out.is_empty() {
            return;
        }
        let (mut tally, mut bytes) = (Tally::default(), Vec::new());
        for (node, message) in out {
            bytes.clear();
            message.encode(&mut bytes);
            tally.lookup(&message, bytes.len());
            // What is lost is found missing by the next digest.
            let _lost = peers.cluster.send(node, KIND_LOOKUP, &[&bytes]);
        }
        peers.tallies.sent.add(&tally);
        peers.cluster.flush();
    }

    /// Asks the system shard for a change of the catalogue, which the cluster's level allows.
    /// `callback` is told when the change can be used, or why it was refused.
    pub fn ask_catalogue(&self, op: &CatalogueOp<'_>, callback: Option<Callback>) {
        let mut body = Vec::new();
        op.encode(&mut body);
        let (origin, waiter) = match callback {
            Some(callback) => (SIDE_DOOR, self.side_door.wait(callback)),
            None => (NOBODY, Waiter(0)),
        };
        self.submit(ShardId(0), Input::Catalogue { op: body, origin, waiter });
    }
}
