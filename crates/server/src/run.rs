//! Starts a node and runs it until it is asked to stop.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use api::http;
use mio::{Poll, Waker};
use node::event::EventKind;
use parking_lot::{Condvar, Mutex};
use storage::manifest::MANIFEST_NAME;

use crate::cluster::secret::{self, SecretError};
use crate::cluster::{self, ClusterError, Identity, MembershipDriver};
use crate::config::Config;
use crate::event_loop::{Clients, EventLoop, Texts, WAKER};
use crate::listeners::{Bound, ListenError, Listening, Protocol, TransportKind};
use crate::logging::Banner;
use crate::password::{PasswordError, PasswordGate};
use crate::peer::{Secret, draw};
use crate::process::{self, disk_failed};
use crate::runtime::events::RecordError;
use crate::runtime::mailbox::Mailbox;
use crate::runtime::open::{self, LockedDirectory, OpenError, OpenedNode};
use crate::runtime::{NodeRuntime, readiness, ticker};
use crate::scripts::{ScriptThreads, Surroundings};
use crate::service::{InquiryThread, NodeApi, NodeFacts, NotificationThread};
use crate::signals;
use crate::threads::Background;
use crate::tls::{Certificates, PeerTls, Tls, TlsError, TlsWatch};

/// How long others have to take over before a node stops.
const HAND_OVER: Duration = Duration::from_millis(500);

/// Why a node that was ready ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It was asked to stop, and drained.
    Stopped,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its data cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Its certificate cannot be used.
    #[error("{0}. The node has not started, and its data is unchanged")]
    Tls(#[from] TlsError),
    /// Its password cannot be had.
    #[error("{0}. The node has not started, and its data is unchanged")]
    Password(#[from] PasswordError),
    /// Its cluster's secret cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// It cannot join, or stay in, its cluster. It may have served for a moment.
    #[error(transparent)]
    Cluster(ClusterError),
    /// Its events cannot be kept where they should be.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The system refused threads, polls or signals.
    #[error("cannot start: {source}")]
    System {
        /// What it said.
        #[from]
        source: io::Error,
    },
}

/// Runs a node until SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot start; the data directory is unchanged.
pub fn run(mut config: Config) -> Result<ExitReason, StartError> {
    crate::logging::init(config.log_level, config.log_format);
    process::end_on_panic();
    process::raise_descriptor_limit();
    process::forgo_huge_pages();
    let certificates = Certificates {
        clients: config.tls_files().map(Tls::load).transpose()?.map(Arc::new),
        peers: config.peer_tls_files().map(PeerTls::load).transpose()?.map(Arc::new),
    };
    let gate = match config.password_file.clone() {
        Some(file) => Some(Arc::new(PasswordGate::load(file, draw()?)?)),
        None => None,
    };
    let listening = Listening::bind(&mut config)?;
    let stop = Arc::new(Stop::default());
    match Serving::start(Arc::new(config), certificates, gate, listening, &stop)? {
        Some(node) => {
            stop.wait();
            node.stop()
        }
        None => Ok(ExitReason::Stopped),
    }
}

/// A node whose threads run.
struct Serving {
    runtime: Arc<NodeRuntime>,
    config: Arc<Config>,
    cluster: Option<Arc<MembershipDriver>>,
    background: Background,
    http: Option<http::Server>,
    https: Option<http::Server>,
    tls_watch: Option<TlsWatch>,
    inquiries: InquiryThread,
    notifications: NotificationThread,
    loops: Vec<JoinHandle<()>>,
    scripts: ScriptThreads,
    _signals: signals::Listener,
}

impl Serving {
    /// Starts all threads, and waits until the shards serve. None if the node was asked to stop
    /// before it had a cluster.
    fn start(
        config: Arc<Config>,
        certificates: Certificates,
        gate: Option<Arc<PasswordGate>>,
        mut listening: Listening,
        stop: &Arc<Stop>,
    ) -> Result<Option<Self>, StartError> {
        let addresses = listening.addresses();
        let (polls, mailboxes) = make_polls(config.threads_count())?;
        let peer_tls = certificates.peers.clone();
        let Some(entered) = enter(&config, &mut listening, peer_tls, stop)? else {
            return Ok(None);
        };
        let EnteredCluster { held, cluster, signals } = entered;
        let opened = open::open(&config, held, mailboxes, cluster.clone())?;
        let OpenedNode { runtime, disk, found, manifest } = opened;
        let joined_at = manifest.joined_at;
        if let Some(dir) = &config.record {
            let own = runtime.identity.node;
            let now = runtime.clock.now();
            runtime.events.begin_record(dir, config.record_bytes_max, own, now)?;
        }
        // Until here a signal has ended the process at once, unless it waited for others.
        let signals = match signals {
            Some(signals) => signals,
            None => stop.listen()?,
        };
        let background = Background::spawn(&runtime, cluster.as_ref(), disk, manifest, &config)?;

        let banner = banner(&config, &found, addresses);
        let facts = NodeFacts::new(&banner, joined_at, certificates.clone(), gate.clone());
        let api = Arc::new(NodeApi::new(runtime.clone(), config.clone(), facts));
        let inquiries = InquiryThread::spawn(api.clone())?;
        let notifications = NotificationThread::spawn(api.clone())?;
        let passwords = gate.clone().map(|gate| gate as Arc<dyn http::Passwords>);
        let options =
            http::Options { passwords, ..config.http_options(runtime.clock.started_millis()) };
        let listener = listening.take(Protocol::Http, TransportKind::Plain);
        let serve = |listener| http::start(listener, api.clone(), options.clone());
        let http = listener.map(serve).transpose()?;
        let listener = listening.take(Protocol::Http, TransportKind::Tls);
        let serve = |listener| {
            let tls = certificates.clients.clone();
            let identity = tls.map(|tls| tls as Arc<dyn http::TlsIdentity>);
            let mut options = http::Options { tls: identity, ..options.clone() };
            if config.tls_client_ca_file.is_some() {
                // Who has shown a certificate needs no password.
                options.passwords = None;
            }
            http::start(listener, api.clone(), options)
        };
        let https = listener.map(serve).transpose()?;
        let tls_watch = TlsWatch::spawn(&certificates)?;
        let surroundings = Surroundings {
            config: config.clone(),
            clients: Arc::new(Clients::default()),
            texts: Arc::new(Texts::new(&runtime, &config)),
            tls: certificates.clients,
            gate,
        };
        let scripts = ScriptThreads::spawn(&runtime, &surroundings)?;
        let loops = spawn_loops(&runtime, &surroundings, polls, listening.take_for_loops())?;
        if wait_until_serving(&runtime, stop) {
            runtime.lifecycle.set_ready();
            let record = runtime.events.record_state();
            runtime.happened(EventKind::NodeStarted { record });
            banner.log();
        }
        let _signals = signals;
        let serving = Self {
            runtime,
            config,
            cluster,
            background,
            http,
            https,
            tls_watch,
            inquiries,
            notifications,
            loops,
            scripts,
            _signals,
        };
        Ok(Some(serving))
    }

    /// Transfers leaderships, answers requests under way, and ends all threads.
    fn stop(self) -> Result<ExitReason, StartError> {
        let Self {
            runtime,
            config,
            cluster,
            background,
            http,
            https,
            tls_watch,
            inquiries,
            notifications,
            loops,
            scripts,
            _signals,
        } = self;
        runtime.happened(EventKind::NodeStopping);
        // While requests are still taken, so that they go on to who leads then.
        ticker::hand_over(&runtime, HAND_OVER);
        let stopped = Instant::now();
        runtime.lifecycle.begin_stop();
        runtime.events.stop(&runtime);
        runtime.delivery.mailboxes.iter().for_each(Mailbox::wake);
        for event_loop in loops {
            event_loop.join().expect("a loop that panics has ended the process");
        }
        scripts.stop();
        if let Some(watch) = tls_watch {
            watch.stop();
        }
        for server in [http, https].into_iter().flatten() {
            // One time for all: clients of the loops may have taken it.
            let drain = Duration::from_millis(config.shutdown_timeout_ms);
            server.stop(drain.saturating_sub(stopped.elapsed()));
        }
        inquiries.stop(&runtime);
        notifications.stop();
        // Not before: what was under way may have needed other nodes.
        if let Some(cluster) = &cluster {
            cluster.stop();
        }
        background.stop(&runtime);
        runtime.events.end_record(&runtime);
        tracing::info!("stopped; all acknowledged writes are on disk");
        match cluster.as_ref().and_then(|cluster| cluster.fatal()) {
            Some(error) => Err(StartError::Cluster(error.clone())),
            None => Ok(ExitReason::Stopped),
        }
    }
}

/// What the event loops sleep on, and the mailboxes that wake them.
fn make_polls(count: usize) -> io::Result<(Vec<Poll>, Vec<Mailbox>)> {
    let polls = (0..count).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
    let mailbox = |poll: &Poll| Waker::new(poll.registry(), WAKER).map(Mailbox::new);
    let mailboxes = polls.iter().map(mailbox).collect::<io::Result<Vec<_>>>()?;
    Ok((polls, mailboxes))
}

/// A directory that has its manifest, and the links to other nodes if there is a peer listener.
struct EnteredCluster {
    held: LockedDirectory,
    cluster: Option<Arc<MembershipDriver>>,
    /// There if the node has waited for others, and a signal could end that.
    signals: Option<signals::Listener>,
}

/// Locks the directory, and founds or enters a cluster: a node without a peer listener has its own.
/// None if the node was asked to stop while it waited for others.
fn enter(
    config: &Config,
    listening: &mut Listening,
    tls: Option<Arc<PeerTls>>,
    stop: &Arc<Stop>,
) -> Result<Option<EnteredCluster>, StartError> {
    let listener = listening.take(Protocol::Peer, TransportKind::Plain);
    let peer = match (listener, &config.peer_secret_file) {
        (Some(listener), Some(file)) => {
            let is_of_a_cluster = config.dir.join(MANIFEST_NAME).exists();
            Some((listener, secret::read(file, is_of_a_cluster)?))
        }
        // Certificates prove who is a node.
        (Some(listener), None) => {
            assert!(tls.is_some(), "refused with the configuration");
            Some((listener, Secret::default()))
        }
        (None, _) => None,
    };
    let mut held = open::hold(config)?;
    let (mut cluster, mut signals) = (None, None);
    if let Some((listener, secret)) = peer {
        let waits = held.manifest.is_none() && !config.join.is_empty();
        if waits {
            signals = Some(stop.listen()?);
        }
        let mut options = cluster::Options::new(config, listener.local_addr()?, secret);
        options.tls = tls;
        cluster = enter_cluster(config, options, &mut held, listener, stop)?;
        if cluster.is_none() {
            return Ok(None);
        }
    }
    held.load_or_begin(config, None)?;
    Ok(Some(EnteredCluster { held, cluster, signals }))
}

/// Founds, joins or comes back to a cluster; the directory has a manifest afterwards. None if the
/// node was asked to stop while it waited for others.
fn enter_cluster(
    config: &Config,
    mut options: cluster::Options,
    held: &mut LockedDirectory,
    listener: TcpListener,
    stop: &Arc<Stop>,
) -> Result<Option<Arc<MembershipDriver>>, StartError> {
    options.addresses = held.addresses();
    let on_fatal = {
        let stop = stop.clone();
        move || stop.ask()
    };
    if held.manifest.is_none() && !config.join.is_empty() {
        let cluster = MembershipDriver::start(options, None, listener, on_fatal)?;
        let Some(identity) = cluster.wait_for_identity(|| stop.is_asked()) else {
            cluster.stop();
            return cluster.fatal().map_or(Ok(None), |why| Err(StartError::Cluster(why.clone())));
        };
        held.load_or_begin(config, Some(&identity))?;
        cluster.begin();
        return Ok(Some(cluster));
    }
    let identity = Identity::from(held.load_or_begin(config, None)?);
    Ok(Some(MembershipDriver::start(options, Some(identity), listener, on_fatal)?))
}

/// A stop that can be waited for.
#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    fn ask(&self) {
        *self.asked.lock() = true;
        self.wake.notify_all();
    }

    /// Has signals ask for it.
    fn listen(self: &Arc<Self>) -> io::Result<signals::Listener> {
        let stop = self.clone();
        signals::listen(move |_| stop.ask())
    }

    fn is_asked(&self) -> bool {
        *self.asked.lock()
    }

    fn wait(&self) {
        let mut asked = self.asked.lock();
        while !*asked {
            self.wake.wait(&mut asked);
        }
    }
}

fn spawn_loops(
    runtime: &Arc<NodeRuntime>,
    surroundings: &Surroundings,
    polls: Vec<Poll>,
    listeners: Vec<Bound>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut listeners = Some(listeners);
    // All of them before any loop runs: the first gives connections to the others at once.
    runtime.delivery.mailboxes.iter().for_each(Mailbox::open);
    let spawn = |(number, poll): (usize, Poll)| {
        let listeners = listeners.take().unwrap_or_default();
        let surroundings = surroundings.clone();
        let event_loop = EventLoop::new(runtime.clone(), surroundings, number, poll, listeners);
        thread::Builder::new().name(format!("loop-{number}")).spawn(move || {
            // Its connections and executors would wait for ever.
            event_loop.run().unwrap_or_else(|error| disk_failed("an event loop", &error));
        })
    };
    polls.into_iter().enumerate().map(spawn).collect()
}

/// Waits until every shard serves, or knows its leader. That takes one fsync on a lone node, else
/// an election. False if the node was asked to stop before that.
fn wait_until_serving(runtime: &NodeRuntime, stop: &Stop) -> bool {
    let mut said = Instant::now();
    while !readiness::is_serving(runtime) {
        if stop.is_asked() {
            return false;
        }
        if said.elapsed() >= Duration::from_secs(5) {
            said = Instant::now();
            tracing::info!("waits: {}", readiness::why_not_serving(runtime));
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

fn banner(
    config: &Config,
    found: &open::RecoveredData,
    listeners: Vec<(&'static str, SocketAddr)>,
) -> Banner {
    let mut warnings = Vec::new();
    if found.cut_bytes > 0 {
        warnings.push(format!("truncated {}", crate::check::torn(found.cut_bytes)));
    }
    if config.insecure {
        warnings
            .push("insecure: listeners may be reached by strangers, or are not encrypted".into());
    }
    Banner {
        name: config.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        listeners,
        dir: config.dir.clone(),
        recovered: found.text.clone(),
        warnings,
    }
}
