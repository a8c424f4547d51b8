//! The nodes this one is connected to, and how any thread sends to them.
//!
//! One connection per pair of nodes carries both directions. It has one file descriptor, one
//! keepalive and acknowledgements that travel with the answers, where two one-way connections have
//! two of each. One event, [`PeerHandler::disconnected`], tells callers that an answer will not
//! come. A node that joins is answered on the connection it made, so its own address need not be
//! known. The price is that two nodes may dial each other at once: the smaller id decides then
//! (`handshake`).
//!
//! ```text
//!   any thread:   send ─► outbox of the peer ─┐   flush, once a turn: one write per peer
//!                 send ─► outbox of the peer ─┴─► socket ──────────────────────►
//!                                                   │ full
//!   a turn:       accept, dial, read, decode ─►     └─► goes on when it is not
//!                 handler.frame … turn_ended
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use bytes::Bytes;
use keyspace::{ClusterVersion, NodeId, UnsupportedVersion};
use mio::{Poll, Token, Waker};
use parking_lot::Mutex;

use super::counters::PeerCounters;
use super::frame::{FRAME_BYTES_MAX, KIND_OWN_MIN};
use super::handshake::{Cluster, Local, PeerHello};
use super::handshake_record::FACTS_BYTES_MAX;
use super::inline_poll::{InlinePoller, PollTurns};
use super::outbox::{Flushed, Outbox, PushError, SendOrder};
use super::pieces::{self, MESSAGE_BYTES_MAX, SINGLE_FRAME_BYTES_MAX};
use super::thread::PeerThread;
use super::wire::Wire;
use super::{Options, Refusal};
use crate::tls::PeerTls;

pub(super) const WAKER: Token = Token(usize::MAX);

/// How often the log says of one peer that a message is too long for it.
const TOO_LONG_LOG_EVERY: Duration = Duration::from_secs(10);

/// Interprets what peers send. The thread that runs the net's turns calls it, one call at a time.
///
/// While a call runs nothing is read from any peer, so it must be short: if it takes longer than
/// [`Options::dead`], links are lost. It may send.
pub trait PeerHandler: Send + Sync {
    /// A link is up; frames sent from now on go over it. Between two calls for one node there is a
    /// call of [`disconnected`](Self::disconnected).
    fn connected(&self, node: NodeId, hello: &PeerHello);
    /// A node's link is down. Frames that were sent and not answered may have arrived or not.
    fn disconnected(&self, node: NodeId);
    /// A frame has come. Frames of one link come in the order in which they were sent.
    fn frame(&self, from: NodeId, kind: u8, body: Bytes);
    /// The end of a turn in which any of the above was called: a handler may now carry out what it
    /// gathered. Frames that it sends are flushed afterwards.
    fn turn_ended(&self);
    /// An attempt to link with the node at an address was refused, by it or by this one. It is
    /// tried again, unless the address is this node's own.
    fn refused(&self, _address: &str, _refusal: &Refusal) {}
    /// A node that has proven itself reports a cluster version that this node does not support.
    fn version_unsupported(&self, _unsupported: UnsupportedVersion) {}
    /// No connection to an address could be made. It is tried again.
    fn unreachable(&self, _address: &str, _why: &str) {}
}

/// Why a frame was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no link to this node.
    #[error("not connected to the node")]
    NotConnected,
    /// Too much is on its way to it already.
    #[error("too many bytes are waiting to be sent to the node")]
    Full,
    /// Longer than this peer takes. It is logged and counted.
    #[error("a message of {bytes} bytes is longer than the node takes: {bytes_max}")]
    TooLong {
        /// How long.
        bytes: usize,
        /// What it takes.
        bytes_max: usize,
    },
}

/// A connection whose handshake is done.
pub(super) struct Link {
    pub node: NodeId,
    pub process: u64,
    pub commit: u64,
    /// The version of the protocol that both speak.
    version: u16,
    pub wire: Wire,
    pub outbox: Outbox,
    pub counters: Arc<PeerCounters>,
    /// Something was sent since the last flush.
    touched: AtomicBool,
}

impl Link {
    pub fn new(
        hello: &PeerHello,
        commit: u64,
        wire: Wire,
        outbox: Outbox,
        counters: Arc<PeerCounters>,
    ) -> Self {
        let (node, process) = (hello.node, hello.process);
        let (version, touched) = (hello.version, AtomicBool::new(true));
        Self { node, process, commit, version, wire, outbox, counters, touched }
    }

    /// The longest message that the peer takes.
    fn message_bytes_max(&self) -> usize {
        if self.version >= pieces::SINCE_VERSION { MESSAGE_BYTES_MAX } else { FRAME_BYTES_MAX }
    }

    /// How a message of this length leaves.
    fn order(&self, bytes: usize, is_urgent: bool) -> SendOrder {
        match is_urgent {
            _ if bytes > SINGLE_FRAME_BYTES_MAX && self.version >= pieces::SINCE_VERSION => {
                SendOrder::Pieces
            }
            true => SendOrder::Urgent,
            false => SendOrder::Next,
        }
    }

    /// Logs a message that the peer does not take, now and then, and keeps that it was.
    fn cannot_send(&self, bytes: usize, bytes_max: usize) {
        let (now, counters) = (wall_millis(), &self.counters);
        counters.too_long.add(1);
        counters.too_long_millis.set(now);
        let before = counters.too_long_logged_millis.get();
        if now < before || now - before >= TOO_LONG_LOG_EVERY.as_millis() as u64 {
            counters.too_long_logged_millis.set(now);
            tracing::warn!(
                "a message of {bytes} bytes cannot be sent to node {:016x}, which accepts \
                 {bytes_max}: replication or a read is stuck. Upgrade that node, or delete the \
                 long value",
                self.node.0
            );
        }
    }

    /// Writes what is there.
    pub fn flush(&self) -> Flushed {
        let written = |bytes| self.counters.bytes_out.add(bytes as u64);
        self.outbox.flush(&self.wire, written).unwrap_or_else(|_| {
            // The peer thread finds it closed and lets go of it.
            let _gone_already = self.wire.shutdown(std::net::Shutdown::Both);
            Flushed::Done
        })
    }

    /// It has something to be flushed.
    pub fn touch(&self) {
        self.touched.store(true, Ordering::Release);
    }
}

/// The wall clock, in ms since 1970.
pub(super) fn wall_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

pub(super) type Links = BTreeMap<NodeId, Arc<Link>>;

/// What other threads ask of the peer thread.
pub(super) enum PeerCommand {
    Peers(BTreeMap<NodeId, String>),
    Seed(String),
    Resolved { ask: u64, found: io::Result<Vec<SocketAddr>> },
}

/// What the peer thread and the others share.
pub(super) struct Shared {
    pub links: ArcSwap<Links>,
    pub local: ArcSwap<Local>,
    /// Nodes that are no members any more.
    pub removed: ArcSwap<BTreeSet<NodeId>>,
    pub asks: Mutex<Vec<PeerCommand>>,
    pub stopping: AtomicBool,
    /// How far the node's time is ahead of the wall clock, in ms.
    ahead_millis: AtomicI64,
    pub options: Options,
    /// Certificates, if links are encrypted.
    pub tls: Option<Arc<PeerTls>>,
    counters: Mutex<BTreeMap<NodeId, Arc<PeerCounters>>>,
    /// Some link is touched.
    touched: AtomicBool,
    waker: Waker,
}

impl Shared {
    /// The node's time, in ms since 1970.
    pub fn millis(&self) -> u64 {
        wall_millis().saturating_add_signed(self.ahead_millis.load(Ordering::Relaxed))
    }

    /// Asks the peer thread for something.
    pub fn ask(&self, ask: PeerCommand) {
        self.asks.lock().push(ask);
        self.wake();
    }

    pub fn wake(&self) {
        // The eventfd can only fail to take a wake-up that is pending already.
        let _pending = self.waker.wake();
    }

    /// The counters of a node.
    pub fn counters(&self, node: NodeId) -> Arc<PeerCounters> {
        self.counters.lock().entry(node).or_default().clone()
    }

    /// Appends a frame to a peer's outbox.
    pub fn send(
        &self,
        to: NodeId,
        kind: u8,
        parts: &[&[u8]],
        is_urgent: bool,
    ) -> Result<(), SendError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let links = self.links.load();
        let link = links.get(&to).ok_or(SendError::NotConnected)?;
        let bytes_max = link.message_bytes_max();
        if bytes > bytes_max {
            link.cannot_send(bytes, bytes_max);
            return Err(SendError::TooLong { bytes, bytes_max });
        }
        match link.outbox.push(link.order(bytes, is_urgent), kind, parts) {
            Ok(()) => {}
            Err(PushError::Closed) => return Err(SendError::NotConnected),
            Err(PushError::Full) => {
                link.counters.drops.add(1);
                return Err(SendError::Full);
            }
        }
        link.counters.frames_out.add(1);
        self.touch(link);
        Ok(())
    }

    /// Appends a frame of the links' own.
    pub fn send_own(&self, link: &Link, kind: u8, body: &[u8]) -> Result<(), PushError> {
        link.outbox.push(SendOrder::Urgent, kind, &[body])?;
        self.touch(link);
        Ok(())
    }

    /// A link has something to be flushed.
    pub fn touch(&self, link: &Link) {
        link.touch();
        self.touched.store(true, Ordering::Release);
    }

    /// Writes to all touched links. Whether some of them should be flushed again.
    pub fn flush(&self) -> bool {
        // Who touches a link after this, touches this afterwards and flushes himself.
        if !self.touched.load(Ordering::Relaxed) || !self.touched.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut more = false;
        for link in self.links.load().values() {
            let touched = link.touched.swap(false, Ordering::AcqRel);
            if touched && link.flush() == Flushed::More {
                self.touch(link);
                more = true;
            }
        }
        more
    }
}

/// The connections of this node with others. It lives until [`stop`](Self::stop).
pub struct PeerNet {
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    /// What turns need, before the first.
    thread: Mutex<Option<PeerThread>>,
    running: Mutex<Option<Running>>,
}

/// The peer thread, and what it shares with an attendant.
struct Running {
    thread: JoinHandle<()>,
    turns: Arc<PollTurns>,
}

impl PeerNet {
    /// A net that accepts on `listener`, if there is one, as soon as it is started.
    ///
    /// # Errors
    /// If the system has no poll for it.
    pub fn new(
        local: Local,
        listener: Option<std::net::TcpListener>,
        options: Options,
    ) -> io::Result<Self> {
        Self::with_tls(local, listener, options, None)
    }

    /// As [`new`](Self::new), with certificates: then all links are encrypted.
    ///
    /// # Errors
    /// The same.
    pub fn with_tls(
        local: Local,
        listener: Option<std::net::TcpListener>,
        options: Options,
        tls: Option<Arc<PeerTls>>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let address = listener.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
        let shared = Arc::new(Shared {
            links: ArcSwap::default(),
            local: ArcSwap::from_pointee(local),
            removed: ArcSwap::default(),
            asks: Mutex::default(),
            stopping: AtomicBool::new(false),
            ahead_millis: AtomicI64::new(0),
            options,
            tls,
            counters: Mutex::default(),
            touched: AtomicBool::new(false),
            waker,
        });
        let thread = PeerThread::new(shared.clone(), poll, listener)?;
        let (thread, running) = (Mutex::new(Some(thread)), Mutex::default());
        Ok(Self { shared, address, thread, running })
    }

    /// Starts the peer thread, once.
    ///
    /// # Errors
    /// If the system refuses a thread; the net is of no use then.
    pub fn start(&self, handler: Arc<dyn PeerHandler>) -> io::Result<()> {
        let peer_thread = self.thread.lock().take().expect("a net is started once");
        let turns = Arc::new(PollTurns::new(peer_thread, self.shared.clone(), handler));
        let builder = thread::Builder::new().name("peers".into());
        let run = turns.clone();
        let thread = builder.spawn(move || run.run())?;
        *self.running.lock() = Some(Running { thread, turns });
        Ok(())
    }

    /// The caller runs the net's turns until it drops the returned value: see
    /// [`inline_poll`](super::inline_poll). None before the start and after the end. There may be
    /// one at a time.
    pub fn poll_inline(&self) -> Option<InlinePoller> {
        let running = self.running.lock();
        let Running { thread, turns } = running.as_ref()?;
        Some(InlinePoller::new(turns.clone(), thread.thread().clone()))
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Sets the nodes to keep links with, and their addresses (`HOST:PORT`); no others are dialled
    /// any more. Existing links stay, and other nodes may dial this one.
    pub fn set_peers(&self, peers: BTreeMap<NodeId, String>) {
        self.shared.ask(PeerCommand::Peers(peers));
    }

    /// Dials an address, again and again until it has led to a link with some node, to one that is
    /// linked already or to this node itself. Whether the link is kept is up to
    /// [`set_peers`](Self::set_peers).
    pub fn dial_address(&self, address: String) {
        self.shared.ask(PeerCommand::Seed(address));
    }

    /// Appends a message, made of `parts` one after the other, to what is on its way to a
    /// node. It leaves with the next [`flush`](Self::flush) by any thread. Kinds from
    /// [`KIND_OWN_MIN`] are not the caller's.
    ///
    /// # Errors
    /// If it is not taken, see [`SendError`]. `Ok` does not mean that it will arrive.
    pub fn send(&self, to: NodeId, kind: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        assert!(kind < KIND_OWN_MIN, "kind {kind} is the links' own");
        self.shared.send(to, kind, parts, false)
    }

    /// As [`send`](Self::send), of what overtakes long messages that were sent before.
    ///
    /// # Errors
    /// The same.
    pub fn send_urgent(&self, to: NodeId, kind: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        assert!(kind < KIND_OWN_MIN, "kind {kind} is the links' own");
        self.shared.send(to, kind, parts, true)
    }

    /// Writes what was sent, with one write for each peer; never waits. To be called at the end of
    /// a turn; the peer thread does so by itself.
    pub fn flush(&self) {
        if self.shared.flush() {
            // Others send as fast as this thread writes: it has done its share.
            self.shared.wake();
        }
    }

    /// Whether there is a link to a node.
    pub fn is_connected(&self, node: NodeId) -> bool {
        self.shared.links.load().contains_key(&node)
    }

    /// The nodes linked now.
    pub fn connected(&self) -> Vec<NodeId> {
        self.shared.links.load().keys().copied().collect()
    }

    /// Bytes on their way to a node that the socket has not taken.
    pub fn unsent_bytes(&self, node: NodeId) -> usize {
        self.shared.links.load().get(&node).map_or(0, |link| link.outbox.bytes())
    }

    /// Sets this node's time, in ms ahead of the wall clock; peers that ping get it.
    pub fn set_time_ahead(&self, ahead_millis: i64) {
        self.shared.ahead_millis.store(ahead_millis, Ordering::Relaxed);
    }

    /// The counters of all peers ever linked.
    pub fn counters(&self) -> Vec<(NodeId, Arc<PeerCounters>)> {
        let all = self.shared.counters.lock();
        all.iter().map(|(node, counters)| (*node, counters.clone())).collect()
    }

    /// Sets the facts that this node sends in later handshakes.
    pub fn set_facts(&self, facts: Bytes) {
        assert!(facts.len() <= FACTS_BYTES_MAX, "facts within their limit");
        self.shared.local.rcu(|local| Local { facts: facts.clone(), ..(**local).clone() });
    }

    /// These nodes were removed from the cluster: they are refused from now on, and links with them
    /// end after [`Options::farewell`].
    pub fn set_removed(&self, removed: BTreeSet<NodeId>) {
        self.shared.removed.store(Arc::new(removed));
        self.shared.wake();
    }

    /// Sets the cluster version: nodes that do not support it are refused from now on.
    pub fn set_cluster_version(&self, version: ClusterVersion) {
        let version = Some(version);
        self.shared.local.rcu(|local| Local {
            cluster_version: local.cluster_version.max(version),
            ..(**local).clone()
        });
    }

    /// Sets this node's cluster, for later handshakes; existing links stay.
    pub fn set_cluster(&self, cluster: Cluster) {
        self.shared.local.rcu(|local| Local { cluster: Some(cluster), ..(**local).clone() });
    }

    /// Ends: no more connections, what was sent is written as far as peers take it within
    /// [`Options::stop`], every link is closed and the handler told. Returns when all is done, so
    /// it is not for the handler to call.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.wake();
        let running = self.running.lock().take();
        if let Some(Running { thread, .. }) = running {
            thread.thread().unpark();
            thread.join().expect("the peer thread does not panic");
        }
    }
}

/// A timer's period in words that a log can hold.
pub(super) fn shown(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
