//! What the peer thread does, or its attendant ([`inline_poll`](super::inline_poll)): accepts,
//! dials, reads and keeps links alive.
//!
//! ```text
//!   turn:  wait ─► sockets, asks ─► read links ─► timers ─► handler.turn_ended ─► flush
//! ```
//!
//! Sockets are edge-triggered, for reading and writing from the beginning. A sender that finds a
//! socket full returns; when the socket has room again, its event makes the next turn go on.

mod connect;
mod handshakes;
mod linked;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use keyspace::NodeId;
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;

use super::dial::{Target, Targets};
use super::handshaking::Handshaking;
use super::links::{PeerHandler, Shared, WAKER, shown};
use super::outbox::Flushed;
use super::refusal::Refusal;
use linked::Linked;

const LISTENER: Token = Token(usize::MAX - 1);
/// Bytes read of one link in a turn, so that all get their turn.
const READ_BYTES_MAX: usize = 1 << 20;
/// Sockets that one turn is told of.
const EVENTS_MAX: usize = 256;
/// Connections accepted in a turn.
const ACCEPT_MAX: usize = 64;
/// How often timers are looked at, while something is being dialled and otherwise.
const TICK_DIALLING: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_millis(100);
const TICK_STOPPING: Duration = Duration::from_millis(5);
/// Refused strangers are logged no more often than this.
const WARNING_PAUSE: Duration = Duration::from_secs(1);

enum Connection {
    Shaking(Box<Handshaking>),
    Linked(Box<Linked>),
}

/// An attempt whose address is being looked up.
struct LookUp {
    target: Target,
    address: String,
    failures: u32,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// The handler got no call.
    Quiet,
    /// The handler was called.
    Delivered,
    /// The net has ended.
    Last,
}

/// State that only the thread that runs a turn needs.
pub(super) struct PeerThread {
    shared: Arc<Shared>,
    poll: Poll,
    events: Events,
    listener: Option<TcpListener>,
    /// The listener may have more, but the system refused.
    accept_again: bool,
    connections: Slab<Connection>,
    linked: BTreeMap<NodeId, usize>,
    targets: Targets,
    look_ups: BTreeMap<u64, LookUp>,
    next_look_up: u64,
    /// Links with bytes to be read.
    queue: VecDeque<usize>,
    /// The number of the last link committed.
    commit: u64,
    random: u64,
    /// The handler was called in this turn.
    delivered: bool,
    /// The last complaint about an address, so that it is made once.
    complaints: BTreeMap<String, String>,
    warned: Option<Instant>,
    /// Links with nodes that were removed, and since when that is known.
    leaving: BTreeMap<NodeId, Instant>,
    began: Instant,
    now: Instant,
    /// When timers were last looked at.
    ticked: Instant,
    /// Frames of other threads are still to be written, or poll has more events than one turn
    /// takes.
    more: bool,
    /// Stopping: until then.
    until: Option<Instant>,
}

impl PeerThread {
    /// A thread's state, with its listener registered.
    pub fn new(
        shared: Arc<Shared>,
        poll: Poll,
        listener: Option<std::net::TcpListener>,
    ) -> io::Result<Self> {
        let local = shared.local.load();
        let (node, random) = (local.node, local.process | 1);
        let listener = listener
            .map(|listener| {
                listener.set_nonblocking(true)?;
                let mut listener = TcpListener::from_std(listener);
                poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
                io::Result::Ok(listener)
            })
            .transpose()?;
        drop(local);
        let now = Instant::now();
        Ok(Self {
            shared,
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            listener,
            accept_again: false,
            connections: Slab::new(),
            linked: BTreeMap::new(),
            targets: Targets::new(node),
            look_ups: BTreeMap::new(),
            next_look_up: 0,
            queue: VecDeque::new(),
            commit: 0,
            random,
            delivered: false,
            complaints: BTreeMap::new(),
            warned: None,
            leaving: BTreeMap::new(),
            began: now,
            now,
            ticked: now,
            more: false,
            until: None,
        })
    }

    /// How long it may be until the next turn.
    pub fn tick(&self) -> Duration {
        match self.until {
            Some(_) => TICK_STOPPING,
            None if self.is_dialling() => TICK_DIALLING,
            None => TICK,
        }
    }

    /// Whether a turn has left something for the next one.
    pub fn has_more(&self) -> bool {
        self.more || !self.queue.is_empty()
    }

    /// Its poll.
    pub fn poll(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// One turn. Waits for something to do until the next tick, if it is to.
    pub fn turn(&mut self, handler: &dyn PeerHandler, waits: bool) -> TurnOutcome {
        let tick = self.tick();
        let timeout = match !waits || self.has_more() {
            true => Duration::ZERO,
            false => (self.ticked + tick).saturating_duration_since(Instant::now()),
        };
        if waits {
            // Other threads that want this processor run first: their frames leave in this turn
            // then.
            std::thread::yield_now();
        }
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        match self.poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                panic!("the links' poll is broken: {error}");
            }
            _ => self.now = Instant::now(),
        }
        for event in &events {
            match event.token() {
                WAKER => {}
                LISTENER => self.accept(),
                Token(at) => self.woken(at, event, handler),
            }
        }
        let is_all = events.iter().count() < EVENTS_MAX;
        self.events = events;
        self.answer_asks(handler);
        self.read_queued(handler);
        if self.now >= self.ticked + tick {
            self.ticked = self.now;
            self.look_at_timers(handler);
        }
        if self.shared.stopping.load(Ordering::Acquire) {
            let until = match self.until {
                Some(until) => until,
                None => self.begin_to_stop() + self.shared.options.stop,
            };
            self.until = Some(until);
            self.shut_links(self.now >= until, handler);
        }
        let delivered = std::mem::take(&mut self.delivered);
        if delivered {
            handler.turn_ended();
        }
        self.more = self.shared.flush() || !is_all;
        match delivered {
            _ if self.until.is_some() && self.connections.is_empty() => TurnOutcome::Last,
            true => TurnOutcome::Delivered,
            false => TurnOutcome::Quiet,
        }
    }

    fn is_dialling(&self) -> bool {
        self.targets.is_waiting() || self.connections.len() > self.linked.len()
    }

    fn draw(&mut self) -> u64 {
        // xorshift64: pauses must differ between nodes, no more.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }

    fn enqueue(&mut self, at: usize) {
        if let Some(Connection::Linked(linked)) = self.connections.get_mut(at)
            && !std::mem::replace(&mut linked.queued, true)
        {
            self.queue.push_back(at);
        }
    }

    fn read_queued(&mut self, handler: &dyn PeerHandler) {
        // Those that are queued anew have their turn after the others'.
        for _ in 0..self.queue.len() {
            let Some(at) = self.queue.pop_front() else { return };
            let Some(Connection::Linked(linked)) = self.connections.get_mut(at) else { continue };
            linked.queued = false;
            match linked.read(self.now, self.began, &self.shared, handler, &mut self.delivered) {
                Ok(true) => self.enqueue(at),
                Ok(false) => {}
                Err(error) => self.close(at, &error.to_string(), handler),
            }
        }
    }

    /// Ends a link.
    fn close(&mut self, at: usize, why: &str, handler: &dyn PeerHandler) {
        let Connection::Linked(linked) = self.connections.remove(at) else {
            unreachable!("only a link is closed")
        };
        let link = linked.link;
        deregister(self.poll.registry(), link.wire.socket());
        // It may be closed already, and a sender may hold it for a moment longer.
        let _gone = link.wire.shutdown(Shutdown::Both);
        link.outbox.close();
        self.linked.remove(&link.node);
        self.shared.links.rcu(|links| {
            let mut links = (**links).clone();
            links.remove(&link.node);
            links
        });
        let random = self.draw();
        self.targets.link_lost(link.node, self.now, random);
        tracing::info!(node = format!("{:016x}", link.node.0), "lost the link to a peer: {why}");
        self.delivered = true;
        handler.disconnected(link.node);
    }

    fn look_at_timers(&mut self, handler: &dyn PeerHandler) {
        if self.accept_again {
            self.accept();
        }
        let options = self.shared.options;
        let mut slow = Vec::new();
        let mut dead = Vec::new();
        for (at, connection) in &mut self.connections {
            match connection {
                Connection::Shaking(shaking) => {
                    if self.now >= shaking.began + options.handshake {
                        slow.push(at);
                    }
                }
                Connection::Linked(linked) if self.now >= linked.heard + options.dead => {
                    dead.push(at);
                }
                Connection::Linked(linked) => {
                    if self.now >= linked.pinged + options.ping {
                        linked.ping(self.now, self.began, &self.shared);
                    }
                }
            }
        }
        for at in slow {
            let ending = self.shaking(at).refuse(Refusal::TooSlow);
            self.end(at, &ending, handler);
        }
        for at in dead {
            self.close(at, &format!("silent for {}", shown(options.dead)), handler);
        }
        self.close_removed_links(handler);
        self.dial_due(handler);
    }

    /// Ends links with nodes that were removed a while ago.
    fn close_removed_links(&mut self, handler: &dyn PeerHandler) {
        let removed = self.shared.removed.load_full();
        let linked = |node: &NodeId| self.linked.contains_key(node);
        self.leaving.retain(|node, _| removed.contains(node) && linked(node));
        for node in removed.iter().filter(|node| self.linked.contains_key(node)) {
            self.leaving.entry(*node).or_insert(self.now);
        }
        let farewell = self.shared.options.farewell;
        let due = self.leaving.iter().filter(|(_, since)| self.now >= **since + farewell);
        let due: Vec<usize> = due.map(|(node, _)| self.linked[node]).collect();
        for at in due {
            self.close(at, "the node was removed from the cluster", handler);
        }
    }

    fn begin_to_stop(&mut self) -> Instant {
        self.listener = None;
        self.targets = Targets::new(self.shared.local.load().node);
        self.connections.retain(|_, connection| matches!(connection, Connection::Linked(_)));
        self.shared.links.store(Arc::default());
        self.now
    }

    /// Sends what is left on each link, then its end; closes those whose peers have answered with
    /// theirs, and at last all.
    fn shut_links(&mut self, at_once: bool, handler: &dyn PeerHandler) {
        let mut over = Vec::new();
        for (at, connection) in &mut self.connections {
            let Connection::Linked(linked) = connection else {
                unreachable!("handshakes ended when the stop began")
            };
            while linked.link.flush() == Flushed::More {}
            let is_all = linked.link.outbox.bytes() == 0 && !linked.link.wire.has_unsent();
            if is_all && !std::mem::replace(&mut linked.shut, true) {
                // If it fails, the link is gone already.
                let _gone = linked.link.wire.shutdown(Shutdown::Write);
            }
            if at_once {
                over.push(at);
            }
        }
        for at in over {
            self.close(at, "stopping", handler);
        }
    }
}

fn deregister(registry: &Registry, stream: &TcpStream) {
    // Closing the socket does the same, as soon as no sender holds it any more.
    let _unknown = registry.deregister(&mut SourceFd(&stream.as_raw_fd()));
}
