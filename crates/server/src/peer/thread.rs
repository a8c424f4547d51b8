//! The thread that accepts, dials, reads and keeps links alive.
//!
//! ```text
//!   turn:  wait ─► sockets, asks ─► read links ─► timers ─► handler.turn_ended ─► flush
//! ```
//!
//! Sockets are edge-triggered, for reading and writing from the beginning: a sender that finds
//! one full leaves, and the edge that tells of room brings this thread to go on.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use keyspace::NodeId;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;

use super::dial::{Target, Targets};
use super::frame::{Decoder, FRAME_BYTES_MAX, Frame, KIND_OWN_MIN};
use super::handshake::{Expected, HandshakeError, PeerHello};
use super::links::{Ask, Link, PeerHandler, Shared, WAKER, shown};
use super::outbox::{Flushed, Outbox};
use super::refusal::Refusal;
use super::resolve;
use super::shaking::{Ending, Parts, Shaking, Step};

const LISTENER: Token = Token(usize::MAX - 1);
/// Kinds of the links' own frames.
const PING: u8 = KIND_OWN_MIN;
const PONG: u8 = KIND_OWN_MIN + 1;
/// Bytes read of one link in a turn, so that all get their turn.
const READ_BYTES_MAX: usize = 1 << 20;
/// Connections accepted in a turn.
const ACCEPT_MAX: usize = 64;
/// How often timers are looked at, while something is being dialled and otherwise.
const TICK_DIALLING: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_millis(100);
const TICK_STOPPING: Duration = Duration::from_millis(5);
/// Refused strangers are logged no more often than this.
const WARNING_PAUSE: Duration = Duration::from_secs(1);

enum Connection {
    Shaking(Box<Shaking>),
    Linked(Box<Linked>),
}

struct Linked {
    link: Arc<Link>,
    decoder: Decoder,
    /// When bytes came last, and when a ping was sent last.
    heard: Instant,
    pinged: Instant,
    /// The other side sends no more: what is there is read to the end.
    read_closed: bool,
    queued: bool,
    /// This side sends no more.
    shut: bool,
}

/// An attempt whose address is being looked up.
struct LookUp {
    target: Target,
    address: String,
    failures: u32,
}

/// The peer thread's own.
pub(super) struct PeerThread {
    shared: Arc<Shared>,
    poll: Poll,
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
    began: Instant,
    now: Instant,
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
            began: now,
            now,
        })
    }

    /// Runs until the net is stopped.
    pub fn run(mut self, handler: &dyn PeerHandler) {
        let mut events = Events::with_capacity(256);
        let mut ticked = self.now;
        let mut more = false;
        let mut until = None;
        loop {
            let tick = match until {
                Some(_) => TICK_STOPPING,
                None if self.is_dialling() => TICK_DIALLING,
                None => TICK,
            };
            let busy = more || !self.queue.is_empty();
            let timeout = match busy {
                true => Duration::ZERO,
                false => (ticked + tick).saturating_duration_since(Instant::now()),
            };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    panic!("the peer thread's poll is broken: {error}");
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
            self.answer_asks(handler);
            self.read_queued(handler);
            if self.now >= ticked + tick {
                ticked = self.now;
                self.tick(handler);
            }
            if self.shared.stopping.load(Ordering::Acquire) {
                let until =
                    *until.get_or_insert_with(|| self.begin_to_stop() + self.shared.options.stop);
                self.shut_links(self.now >= until, handler);
            }
            if std::mem::take(&mut self.delivered) {
                handler.turn_ended();
            }
            more = self.shared.flush();
            if until.is_some() && self.connections.is_empty() {
                return;
            }
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

    // ── coming and going ────────────────────────────────────────────────────────────────────

    fn accept(&mut self) {
        self.accept_again = false;
        for _ in 0..ACCEPT_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, address)) => self.welcome(stream, address),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors: the next tick tries again.
                    tracing::warn!("cannot accept connections of peers now: {error}");
                    break;
                }
            }
        }
        self.accept_again = true;
    }

    fn welcome(&mut self, stream: TcpStream, address: SocketAddr) {
        let Ok(nonce) = super::draw() else { return };
        let strangers = self.connections.iter().filter_map(|(at, connection)| match connection {
            Connection::Shaking(shaking) if shaking.target.is_none() => Some((shaking.began, at)),
            _ => None,
        });
        let (count, oldest) = strangers.fold((0, None), |(count, oldest), stranger| {
            (count + 1, Some(oldest.map_or(stranger, |oldest| stranger.min(oldest))))
        });
        if count >= self.shared.options.half_open_max
            && let Some((_, at)) = oldest
        {
            self.connections.remove(at);
        }
        let local = (**self.shared.local.load()).clone();
        self.add(Shaking::accept(local, stream, address.to_string(), nonce, self.now));
    }

    /// Watches a connection. False if the system refuses to.
    fn add(&mut self, mut shaking: Shaking) -> bool {
        // Frames go out as they are; without this they may wait for an acknowledgement.
        let _unsupported = shaking.stream().set_nodelay(true);
        let entry = self.connections.vacant_entry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(entry.key());
        if let Err(error) = self.poll.registry().register(shaking.stream(), token, interest) {
            tracing::warn!("cannot watch a connection of a peer, so it is closed: {error}");
            return false;
        }
        entry.insert(Connection::Shaking(Box::new(shaking)));
        true
    }

    fn dial_due(&mut self) {
        while let Some((target, address, failures)) = self.targets.take_due(self.now) {
            match resolve::numeric(&address) {
                Some(socket) => self.dial(target, address, socket),
                None => {
                    let number = self.next_look_up;
                    self.next_look_up += 1;
                    resolve::look_up(&self.shared, number, address.clone());
                    self.look_ups.insert(number, LookUp { target, address, failures });
                }
            }
        }
    }

    fn dial(&mut self, target: Target, address: String, socket: SocketAddr) {
        if let Target::Peer(node) = target
            && self.linked.contains_key(&node)
        {
            return;
        }
        let expected = match target {
            Target::Peer(node) => Expected::Node(node),
            Target::Seed(_) => {
                let links = self.shared.links.load();
                Expected::AnyBut(links.values().map(|link| (link.node, link.process)).collect())
            }
        };
        let local = (**self.shared.local.load()).clone();
        let dialled = super::draw().and_then(|nonce| {
            let (target, address) = (target.clone(), address.clone());
            Shaking::dial(local, target, expected, socket, address, nonce, self.now)
        });
        let watched = dialled.map(|shaking| self.add(shaking)).unwrap_or_else(|error| {
            self.complain(&address, &error.to_string());
            false
        });
        if !watched {
            self.failed(&target);
        }
    }

    fn answer_asks(&mut self, handler: &dyn PeerHandler) {
        let asks = std::mem::take(&mut *self.shared.asks.lock());
        if asks.is_empty() || self.shared.stopping.load(Ordering::Acquire) {
            return;
        }
        for ask in asks {
            match ask {
                Ask::Peers(peers) => {
                    let linked = |node| self.linked.contains_key(&node);
                    self.targets.set_peers(peers, self.now, linked);
                }
                Ask::Seed(address) => self.targets.add_seed(address, self.now),
                Ask::Resolved { ask, found } => self.resolved(ask, found),
            }
        }
        self.dial_due();
        self.read_queued(handler);
    }

    fn resolved(&mut self, ask: u64, found: io::Result<Vec<SocketAddr>>) {
        let Some(LookUp { target, address, failures }) = self.look_ups.remove(&ask) else { return };
        match found {
            // Each attempt takes the next of a name's addresses.
            Ok(all) if !all.is_empty() => {
                self.dial(target, address, all[failures as usize % all.len()]);
            }
            found => {
                let why = found.err().map_or_else(|| "no address".into(), |e| e.to_string());
                self.complain(&address, &format!("cannot look up {address}: {why}"));
                self.failed(&target);
            }
        }
    }

    fn failed(&mut self, target: &Target) {
        let random = self.draw();
        self.targets.failed(target, self.now, random);
        if let Target::Peer(node) = target {
            self.shared.counters(*node).dials_failed.add(1);
        }
    }

    /// Logs why an address cannot be linked, unless that was said last.
    fn complain(&mut self, address: &str, why: &str) {
        if self.complaints.get(address).is_none_or(|last| last != why) {
            tracing::warn!(address, "cannot connect to a peer, trying on: {why}");
            self.complaints.insert(address.to_owned(), why.to_owned());
        }
    }

    // ── handshakes ──────────────────────────────────────────────────────────────────────────

    fn woken(&mut self, at: usize, event: &Event, handler: &dyn PeerHandler) {
        match self.connections.get_mut(at) {
            Some(Connection::Shaking(shaking)) => {
                let step = shaking.step();
                self.shaken(at, step, handler);
            }
            Some(Connection::Linked(linked)) => {
                linked.read_closed |= event.is_read_closed() || event.is_error();
                if event.is_writable() && linked.link.outbox.unblock() {
                    self.shared.touch(&linked.link);
                }
                if event.is_readable() || linked.read_closed {
                    self.enqueue(at);
                }
            }
            None => {}
        }
    }

    fn shaken(&mut self, at: usize, mut step: Step, handler: &dyn PeerHandler) {
        loop {
            step = match step {
                Step::Wait => return,
                Step::Proven(peer) => self.judge(at, &peer),
                Step::Linked(peer, commit) => return self.link(at, &peer, commit, handler),
                Step::Ended(ending) => return self.end(at, &ending, handler),
            }
        }
    }

    fn shaking(&mut self, at: usize) -> &mut Shaking {
        match &mut self.connections[at] {
            Connection::Shaking(shaking) => shaking,
            Connection::Linked(_) => unreachable!("its handshake is not done"),
        }
    }

    /// Whether a node that has proven itself may have a link.
    fn judge(&mut self, at: usize, peer: &PeerHello) -> Step {
        let there = self.linked.get(&peer.node).map(|at| &self.connections[*at]);
        let is_another = there.is_some_and(|there| match there {
            // A node that was started anew may come before its end was noticed.
            Connection::Linked(linked) => {
                let silent = self.now.duration_since(linked.heard);
                linked.link.process != peer.process && silent < 2 * self.shared.options.ping
            }
            Connection::Shaking(_) => unreachable!("only links are listed"),
        });
        self.commit += 1;
        let commit = self.commit;
        let shaking = self.shaking(at);
        if is_another {
            return Step::Ended(shaking.refuse(Refusal::SameNodeTwice { node: peer.node }));
        }
        shaking.proceed(peer, commit)
    }

    /// Makes a connection the link to its node.
    fn link(&mut self, at: usize, peer: &PeerHello, commit: u64, handler: &dyn PeerHandler) {
        let node = peer.node;
        if let Some(&there) = self.linked.get(&node) {
            if let Connection::Linked(linked) = &self.connections[there]
                && linked.link.process == peer.process
                && linked.link.commit > commit
            {
                self.connections.remove(at);
                return;
            }
            self.close(there, "replaced by a newer connection", handler);
        }
        self.drop_dials(node, at);
        let Connection::Shaking(shaking) = self.connections.remove(at) else {
            unreachable!("its handshake was not done")
        };
        if let Some(target) = &shaking.target {
            self.targets.done(target);
            self.complaints.remove(&shaking.address);
        }
        let address = shaking.address.clone();
        let Parts { stream, out, rest } = shaking.into_parts();
        let counters = self.shared.counters(node);
        counters.links.add(1);
        let outbox = Outbox::new(self.shared.options.outbox_bytes_max, out);
        let link = Arc::new(Link::new(peer, commit, stream, outbox, counters));
        let linked = Box::new(Linked {
            link: link.clone(),
            decoder: Decoder::new(FRAME_BYTES_MAX, &rest),
            heard: self.now,
            pinged: self.now,
            read_closed: false,
            queued: false,
            shut: false,
        });
        // The slot that was freed above: the socket is registered under it.
        let entry = self.connections.vacant_entry();
        assert_eq!(entry.key(), at, "a slot that was freed last is given out first");
        entry.insert(Connection::Linked(linked));
        self.linked.insert(node, at);
        self.targets.linked(node);
        self.shared.links.rcu(|links| {
            let mut links = (**links).clone();
            links.insert(node, link.clone());
            links
        });
        self.shared.touch(&link);
        tracing::info!(
            node = format!("{:016x}", node.0),
            address,
            software = peer.software,
            "connected to a peer"
        );
        self.delivered = true;
        handler.connected(node, peer);
        self.enqueue(at);
    }

    /// Ends this node's attempts to dial a node that is linked now, but the one that did it.
    fn drop_dials(&mut self, node: NodeId, but: usize) {
        let wanted = Some(Target::Peer(node));
        let own = self.connections.iter().filter_map(|(at, connection)| match connection {
            Connection::Shaking(shaking) => {
                let other = at != but && shaking.target == wanted;
                (other && shaking.is_undecided()).then_some(at)
            }
            Connection::Linked(_) => None,
        });
        for at in own.collect::<Vec<usize>>() {
            self.connections.remove(at);
        }
    }

    /// A handshake has ended without a link.
    fn end(&mut self, at: usize, ending: &Ending, handler: &dyn PeerHandler) {
        let Connection::Shaking(shaking) = self.connections.remove(at) else {
            unreachable!("its handshake was not done")
        };
        let Some(target) = shaking.target else {
            return self.warn(&shaking.address, ending);
        };
        let refusal = match ending {
            Ending::Handshake(error) => Some(error.refusal()),
            Ending::Socket(_) => None,
        };
        if let (Target::Seed(_), Some(Refusal::Linked)) = (&target, refusal) {
            return self.targets.done(&target);
        }
        self.complain(&shaking.address, &ending.to_string());
        if let Some(refusal) = refusal {
            handler.refused(&shaking.address, refusal);
        }
        match (&target, refusal) {
            (Target::Seed(_), Some(Refusal::Oneself { .. })) => self.targets.done(&target),
            _ => self.failed(&target),
        }
    }

    /// Logs that a stranger was refused; not what port scanners leave, and not all of it.
    fn warn(&mut self, address: &str, ending: &Ending) {
        let Ending::Handshake(error) = ending else { return };
        let quiet = matches!(error.refusal(), Refusal::Nonsense | Refusal::TooSlow);
        let lately = self.warned.is_some_and(|warned| self.now < warned + WARNING_PAUSE);
        if !quiet && !lately {
            self.warned = Some(self.now);
            match error {
                HandshakeError::Refused(_) => tracing::warn!(address, "a node is {error}"),
                HandshakeError::RefusedByPeer(_) => tracing::warn!(address, "{error}"),
            }
        }
    }

    // ── links ───────────────────────────────────────────────────────────────────────────────

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
        deregister(self.poll.registry(), &link.stream);
        // It may be closed already, and a sender may hold it for a moment longer.
        let _gone = link.stream.shutdown(Shutdown::Both);
        link.outbox.close();
        self.linked.remove(&link.node);
        self.shared.links.rcu(|links| {
            let mut links = (**links).clone();
            links.remove(&link.node);
            links
        });
        let random = self.draw();
        self.targets.lost(link.node, self.now, random);
        tracing::info!(node = format!("{:016x}", link.node.0), "the link to a peer is gone: {why}");
        self.delivered = true;
        handler.disconnected(link.node);
    }

    fn tick(&mut self, handler: &dyn PeerHandler) {
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
        self.dial_due();
    }

    // ── the end ─────────────────────────────────────────────────────────────────────────────

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
            if linked.link.outbox.bytes() == 0 && !std::mem::replace(&mut linked.shut, true) {
                // If it fails, the link is gone already.
                let _gone = linked.link.stream.shutdown(Shutdown::Write);
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

impl Linked {
    /// Reads and delivers what is there. Whether there may be more.
    fn read(
        &mut self,
        now: Instant,
        began: Instant,
        shared: &Shared,
        handler: &dyn PeerHandler,
        delivered: &mut bool,
    ) -> io::Result<bool> {
        let mut total = 0;
        let mut is_all = false;
        loop {
            while let Some(frame) = self.decoder.take().map_err(io::Error::other)? {
                if frame.kind >= KIND_OWN_MIN {
                    self.own(&frame, began, shared);
                } else {
                    *delivered = true;
                    self.link.counters.frames_in.add(1);
                    handler.frame(self.link.node, frame.kind, frame.body);
                }
            }
            // The socket is empty; what comes now makes a new edge. But its end made one already.
            if is_all && !self.read_closed {
                return Ok(false);
            }
            if total >= READ_BYTES_MAX {
                return Ok(true);
            }
            let space = self.decoder.space();
            let count = match (&self.link.stream).read(space) {
                Ok(0) => return Err(io::Error::other("closed by the peer")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            is_all = count < space.len();
            self.decoder.filled(count);
            self.link.counters.bytes_in.add(count as u64);
            self.heard = now;
            total += count;
        }
    }

    fn own(&self, frame: &Frame, began: Instant, shared: &Shared) {
        match (frame.kind, frame.body.first_chunk()) {
            // If there is no room, bytes are on their way that tell as much.
            (PING, _) => drop(shared.send_own(&self.link, PONG, &frame.body)),
            (PONG, Some(sent)) => {
                let now = began.elapsed().as_nanos() as u64;
                let rtt = now.saturating_sub(u64::from_le_bytes(*sent));
                self.link.counters.rtt_nanos.set(rtt);
            }
            // A later version's.
            _ => {}
        }
    }

    fn ping(&mut self, now: Instant, began: Instant, shared: &Shared) {
        self.pinged = now;
        // A peer that has not taken what was sent before is not sent more.
        if self.link.outbox.bytes() == 0 {
            let sent = began.elapsed().as_nanos() as u64;
            let _full = shared.send_own(&self.link, PING, &sent.to_le_bytes());
        }
    }
}
