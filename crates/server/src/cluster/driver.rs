//! Connects links with membership, and runs the thread that lets time pass for membership.

mod handler;

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use keyspace::{ClusterVersion, NodeId, UnsupportedVersion, VersionRange};
use membership::{Effect, Load};
use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::addresses::NodeAddress;

use super::members::MemberInfo;
use super::state::MembershipState;
use super::{ClusterError, Frames, Identity, KIND_MEMBERSHIP, Options};
use crate::peer::{InlinePoller, Local, PeerCounters, PeerNet, SendError, VERSIONS, draw};

/// How often a node that waits for a cluster says so.
const REPORT_PAUSE: Duration = Duration::from_secs(5);
/// How often it looks whether it was asked to stop.
const STOP_PAUSE: Duration = Duration::from_millis(50);
/// How long a leaving node tries to tell the others.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// What was counted since the start.
#[derive(Clone, Debug)]
pub struct ClusterCounters {
    /// Membership frames that could not be decoded.
    pub bad_frames: u64,
    /// Frames of other kinds that came before anybody was attached.
    pub early_frames: u64,
    /// How often this node refuted a rumour of its death.
    pub refutations: u64,
    /// Inner errors of the failure detector; should be 0.
    pub complaints: u64,
    /// Of each node ever linked.
    pub peers: Vec<(NodeId, Arc<PeerCounters>)>,
}

/// This node's edge towards the others. See the module's front page.
pub struct MembershipDriver {
    node: NodeId,
    supported: VersionRange,
    net: PeerNet,
    desk: Mutex<MembershipState>,
    /// The thread of members has to look sooner than it meant.
    sooner: Condvar,
    /// An identity was found, or the node is gone, or it must end.
    settled: Condvar,
    members: ArcSwap<Vec<MemberInfo>>,
    addresses: ArcSwap<Vec<NodeAddress>>,
    frames: OnceLock<Arc<dyn Frames>>,
    /// Links that were reported up, and not down since; locked during a report.
    reported_up: Mutex<BTreeSet<NodeId>>,
    /// The attached `Frames` was called in this turn of the net.
    reported: AtomicBool,
    early_frames: AtomicU64,
    fatal: OnceLock<ClusterError>,
    on_fatal: Box<dyn Fn() + Send + Sync>,
    began: Instant,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl MembershipDriver {
    /// Accepts and dials from now on. With an `identity` that is in the node's directory it is a
    /// member at once; without, it asks the seeds, and [`begins`](Self::begin) later.
    /// `on_fatal` is called, in a turn of the net, when [`fatal`](Self::fatal) has something.
    ///
    /// # Errors
    /// If the system refuses threads or polls, or the options break a limit; nothing runs then.
    pub fn start(
        options: Options,
        identity: Option<Identity>,
        listener: TcpListener,
        on_fatal: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let drawn = NodeId(u64::from_le_bytes(draw()?));
        let node = identity.map_or(drawn, |identity| identity.node);
        let desk = MembershipState::new(&options, node, identity, u64::from_le_bytes(draw()?))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let local = Local {
            versions: VERSIONS,
            node,
            process: u64::from_le_bytes(draw()?),
            incarnation: desk.membership.incarnation(),
            software: Options::software(),
            cluster: identity.map(|identity| identity.cluster),
            facts: desk.membership.introduction().into(),
            supported: options.supported,
            cluster_version: None,
            secret: options.secret,
        };
        let net = PeerNet::with_tls(local, Some(listener), options.net, options.tls)?;
        let began = Instant::now();
        let this = Arc::new(Self {
            node,
            supported: options.supported,
            net,
            members: ArcSwap::from_pointee(desk.members(began)),
            addresses: ArcSwap::from_pointee(options.addresses),
            desk: Mutex::new(desk),
            sooner: Condvar::new(),
            settled: Condvar::new(),
            frames: OnceLock::new(),
            reported_up: Mutex::default(),
            reported: AtomicBool::new(false),
            early_frames: AtomicU64::new(0),
            fatal: OnceLock::new(),
            on_fatal: Box::new(on_fatal),
            began,
            running: Mutex::default(),
        });
        this.net.start(this.clone())?;
        let thread = {
            let this = this.clone();
            thread::Builder::new().name("members".into()).spawn(move || this.run())
        };
        match thread {
            Ok(thread) => *this.running.lock() = Some(thread),
            Err(error) => {
                this.net.stop();
                return Err(error);
            }
        }
        match identity {
            Some(_) => this.begin(),
            None => options.seeds.into_iter().for_each(|seed| this.net.dial_address(seed)),
        }
        Ok(this)
    }

    // ---- for the start of a node ----

    /// Waits until a member has sent this node the cluster's identity, and logs what it waits for.
    /// `None` if `stop` holds; it never gives up by itself. The caller writes the result into the
    /// node's directory, then calls [`begin`](Self::begin).
    pub fn wait_for_identity(&self, stop: impl Fn() -> bool) -> Option<Identity> {
        let mut desk = self.desk.lock();
        if desk.identity.is_none() {
            tracing::info!(
                "waiting to join a cluster: with --join and an empty directory a node never founds \
                 one of its own. Seeds: {}",
                desk.seed_statuses.shown()
            );
        }
        let mut report = Instant::now() + REPORT_PAUSE;
        while desk.identity.is_none() && !stop() {
            self.settled.wait_for(&mut desk, STOP_PAUSE);
            if desk.identity.is_none() && Instant::now() >= report {
                report += REPORT_PAUSE;
                tracing::warn!("still waiting to join a cluster. {}", desk.seed_statuses.shown());
            }
        }
        desk.identity
    }

    /// The state of each seed, for people: which did not answer, which refused and why.
    pub fn seeds_shown(&self) -> String {
        self.desk.lock().seed_statuses.shown()
    }

    /// The identity is durable in the directory: from now on this node is a member.
    pub fn begin(&self) {
        let mut desk = self.desk.lock();
        desk.begin(self.now());
        self.settle(&mut desk);
        self.hand_over(desk);
    }

    /// Attaches `frames`: it gets links, frames of other kinds and changes of members. Links and
    /// members that exist already are reported at once. May be called once.
    pub fn attach(&self, frames: Arc<dyn Frames>) {
        let reported_up = self.reported_up.lock();
        reported_up.iter().for_each(|node| frames.link_up(*node));
        assert!(self.frames.set(frames.clone()).is_ok(), "attached once");
        drop(reported_up);
        frames.members_changed();
        frames.turn_ended();
        self.net.flush();
    }

    /// Why this node must end, if it must.
    pub fn fatal(&self) -> Option<&ClusterError> {
        self.fatal.get()
    }

    /// Tells the others that this node leaves for good; returns when they know, after about a
    /// second. The node is no member then; call [`stop`](Self::stop) next.
    pub fn leave(&self) {
        let mut desk = self.desk.lock();
        let now = self.now();
        let MembershipState { membership, effects, .. } = &mut *desk;
        membership.leave(now, effects);
        desk.stale = true;
        self.settle(&mut desk);
        self.sooner.notify_one();
        let until = Instant::now() + LEAVE_MAX;
        while !desk.has_left() && !self.settled.wait_until(&mut desk, until).timed_out() {}
        drop(desk);
        self.net.flush();
    }

    /// Ends: links are closed, threads have ended when it returns. Others will find this node
    /// down, and up again when it comes back.
    pub fn stop(&self) {
        self.desk.lock().stopping = true;
        self.sooner.notify_one();
        let running = self.running.lock().take();
        if let Some(running) = running {
            running.join().expect("the thread of members does not panic");
        }
        self.net.stop();
    }

    // ---- for everybody ----

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.net.address().expect("it was given a listener")
    }

    /// All members in the order of joining, this node included; also those that are down or have
    /// left.
    pub fn members(&self) -> Arc<Vec<MemberInfo>> {
        self.members.load_full()
    }

    /// Where all other members are, or were last: what the directory is to remember.
    pub fn addresses(&self) -> Arc<Vec<NodeAddress>> {
        self.addresses.load_full()
    }

    /// Which of these nodes, or of all members, are not up, and why each cannot be reached, for
    /// people.
    pub fn unreached(&self, among: Option<&BTreeSet<NodeId>>) -> Vec<String> {
        self.desk.lock().unreached(among)
    }

    /// Appends a frame to what is on its way to a node; it leaves with the next
    /// [`flush`](Self::flush) by any thread. See [`PeerNet::send`].
    ///
    /// # Errors
    /// [`SendError`]: nothing of it was sent. `Ok` does not mean that it will arrive.
    pub fn send(&self, to: NodeId, kind: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        assert!(kind != KIND_MEMBERSHIP, "kind {kind} is the cluster's own");
        self.net.send(to, kind, parts)
    }

    /// As [`send`](Self::send), of what overtakes long messages that were sent before.
    ///
    /// # Errors
    /// The same.
    pub fn send_urgent(&self, to: NodeId, kind: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        assert!(kind != KIND_MEMBERSHIP, "kind {kind} is the cluster's own");
        self.net.send_urgent(to, kind, parts)
    }

    /// Writes what was sent; never waits. At the end of a turn of [`Frames`] it is done anyway.
    pub fn flush(&self) {
        self.net.flush();
    }

    /// The caller reads what other nodes send from now on, see [`PeerNet::poll_inline`].
    pub fn poll_inline(&self) -> Option<InlinePoller> {
        self.net.poll_inline()
    }

    /// Bytes that were sent to a node and have not left.
    pub fn unsent_bytes(&self, node: NodeId) -> usize {
        self.net.unsent_bytes(node)
    }

    /// Sets this node's time, in ms ahead of the wall clock; peers that ping get it.
    pub fn set_time_ahead(&self, ahead_millis: i64) {
        self.net.set_time_ahead(ahead_millis);
    }

    /// Whether there is a link to a node.
    pub fn is_connected(&self, node: NodeId) -> bool {
        self.net.is_connected(node)
    }

    /// These nodes were removed from the cluster: they are no members any more. If this one is
    /// among them, it must end: [`fatal`](Self::fatal).
    pub fn set_removed(&self, removed: BTreeSet<NodeId>) {
        if removed.contains(&self.node) {
            return self.end(ClusterError::Removed { node: self.node });
        }
        self.net.set_removed(removed.clone());
        let mut desk = self.desk.lock();
        desk.set_removed(self.now(), removed);
        self.settle(&mut desk);
        self.hand_over(desk);
    }

    /// Sets the cluster version. A node that does not support it is refused; if that is this node,
    /// it must end.
    pub fn set_cluster_version(&self, version: ClusterVersion) {
        self.net.set_cluster_version(version);
        if let Some(unsupported) = UnsupportedVersion::of(version, self.supported) {
            self.end(unsupported.into());
        }
    }

    /// Has the node end, for this.
    fn end(&self, why: ClusterError) {
        if self.fatal.set(why.clone()).is_ok() {
            tracing::error!("{why}");
            (self.on_fatal)();
        }
    }

    /// Sets this node's load; gossip spreads it in the next second or so.
    pub fn set_load(&self, load: Load) {
        let mut desk = self.desk.lock();
        desk.set_load(self.now(), load);
        self.settle(&mut desk);
        self.hand_over(desk);
    }

    /// What was counted.
    pub fn counters(&self) -> ClusterCounters {
        let desk = self.desk.lock();
        ClusterCounters {
            bad_frames: desk.bad_frames,
            early_frames: self.early_frames.load(Ordering::Relaxed),
            refutations: desk.refutations,
            complaints: desk.membership.complaints(),
            peers: self.net.counters(),
        }
    }

    // ---- within ----

    /// Nanoseconds of membership.
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Does what the desk has gathered, and brings the list of members up to date.
    fn settle(&self, desk: &mut MembershipState) {
        for effect in std::mem::take(&mut desk.effects) {
            match effect {
                // Gossip may be lost: to whom there is no link, one is being made.
                Effect::Send { to, bytes } if desk.begun => {
                    let _lost = self.net.send_urgent(to, KIND_MEMBERSHIP, &[&bytes]);
                }
                Effect::Send { .. } => {}
                Effect::Dial { address } => self.net.dial_address(address),
                Effect::News(news) => desk.news(news),
            }
        }
        if std::mem::take(&mut desk.stale) {
            self.net.set_facts(desk.membership.introduction().into());
            self.members.store(Arc::new(desk.members(self.began)));
            desk.update_addresses();
            let known = self.addresses.load();
            if !desk.book.all().eq(known.iter()) {
                self.addresses.store(Arc::new(desk.book.all().cloned().collect()));
            }
            let peers = desk.wanted_peers();
            if peers != desk.peers {
                desk.peers.clone_from(&peers);
                desk.seed_statuses.follow(peers.values());
                self.net.set_peers(peers);
            }
            desk.has_unreported_change = true;
        }
    }

    /// Leaves the rest to the thread of members.
    fn hand_over(&self, desk: MutexGuard<'_, MembershipState>) {
        drop(desk);
        self.sooner.notify_one();
    }

    /// In a turn of the net: carries out gathered effects, reports them, and wakes the other thread
    /// if that has to look sooner.
    fn apply_effects(&self, mut desk: MutexGuard<'_, MembershipState>) {
        self.settle(&mut desk);
        let sooner = desk.deadline() < desk.planned;
        let has_unreported_change = std::mem::take(&mut desk.has_unreported_change);
        drop(desk);
        if sooner {
            self.sooner.notify_one();
        }
        self.report_members(has_unreported_change);
    }

    fn report_members(&self, has_unreported_change: bool) {
        if let (true, Some(frames)) = (has_unreported_change, self.frames.get()) {
            frames.members_changed();
        }
    }

    /// The thread of members: lets time pass for them.
    fn run(&self) {
        let mut desk = self.desk.lock();
        while !desk.stopping {
            desk.tick(self.now());
            desk.forget_removed(self.now());
            self.settle(&mut desk);
            if desk.has_left() {
                self.settled.notify_all();
            }
            let has_unreported_change = std::mem::take(&mut desk.has_unreported_change);
            drop(desk);
            self.net.flush();
            self.report_members(has_unreported_change);
            desk = self.desk.lock();
            desk.planned = desk.deadline();
            if !desk.has_unreported_change && !desk.stopping && desk.planned > self.now() {
                match desk.planned {
                    u64::MAX => self.sooner.wait(&mut desk),
                    at => {
                        let at = self.began + Duration::from_nanos(at);
                        self.sooner.wait_until(&mut desk, at);
                    }
                }
            }
        }
    }
}
