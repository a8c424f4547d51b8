//! Starting a node and running it until it is asked to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use node::rpc::stream::pace::Pace;
use parking_lot::{Condvar, Mutex};
use storage::manifest::MANIFEST_NAME;

use crate::cluster::addresses::AddressFile;
use crate::cluster::secret::{self, SecretError};
use crate::cluster::{self, Cluster, ClusterError, Identity};
use crate::config::Config;
use crate::event_loop::{Clients, EventLoop, Texts, WAKER};
use crate::hub::Hub;
use crate::hub::checkpoints::Checkpoints;
use crate::hub::keeper::{self, KeeperStop};
use crate::hub::mail::Mailbox;
use crate::hub::open::{self, Held, OpenError, Opened};
use crate::hub::peers::{HubFrames, Peers};
use crate::listeners::{Bound, ListenError, Listening, Protocol};
use crate::logging::Banner;
use crate::peer::Secret;
use crate::side_door::{NodeApi, NodeFacts};
use crate::signals;
use api::http;

/// How long others have to take over before a node stops.
const HAND_OVER: Duration = Duration::from_millis(500);

/// Why a node that was ready ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It was asked to, and drained.
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
    /// Its cluster's secret cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// It is not to be where it was told to be. It may have served for a moment.
    #[error(transparent)]
    Cluster(ClusterError),
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
/// If it cannot start; the data directory is as it was.
pub fn run(config: Config) -> Result<ExitReason, StartError> {
    crate::logging::init(config.log_level, config.log_format);
    end_on_panic();
    raise_descriptor_limit();
    forgo_huge_pages();
    let mut config = config;
    let mut listening = Listening::bind(&mut config)?;
    let addresses = listening.addresses();
    let peer = match (listening.take(Protocol::Peer), &config.peer_secret_file) {
        (Some(listener), Some(file)) => {
            let is_of_a_cluster = config.dir.join(MANIFEST_NAME).exists();
            Some((listener, secret::read(file, is_of_a_cluster)?))
        }
        (Some(_), None) => unreachable!("refused with the configuration"),
        (None, _) => None,
    };
    let config = Arc::new(config);

    let threads = config.threads_count();
    let polls = (0..threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
    let mailboxes = polls
        .iter()
        .map(|poll| Waker::new(poll.registry(), WAKER).map(Mailbox::new))
        .collect::<io::Result<Vec<_>>>()?;

    let stop = Arc::new(Stop::default());
    let mut signals = None;
    let mut held = open::hold(&config)?;
    let cluster = match peer {
        None => None,
        Some((listener, secret)) => {
            let waits = held.manifest.is_none() && !config.join.is_empty();
            if waits {
                signals = Some(stop.listen()?);
            }
            match enter(&config, secret, &mut held, listener, &stop)? {
                Some(cluster) => Some(cluster),
                None => return Ok(ExitReason::Stopped),
            }
        }
    };
    held.load_or_begin(&config, None)?;
    let opened = open::open(&config, held, mailboxes, cluster.clone())?;
    let Opened { hub, disk, found, manifest } = opened;
    let joined_at = manifest.joined_at;
    // Until here a signal has ended the process at once, unless it waited for others.
    let _signals = match signals {
        Some(signals) => signals,
        None => stop.listen()?,
    };
    let log_thread = spawn_log_thread(&hub)?;
    let maker = spawn_segment_maker(&hub)?;
    let keeper_stop = Arc::new(KeeperStop::default());
    let address_file = cluster.is_some().then(|| AddressFile::new(disk.clone(), manifest.cluster));
    let checkpoints = Arc::new(Mutex::new(Checkpoints::new(disk, manifest)));
    let keeper = {
        let (hub, stop, bytes) = (hub.clone(), keeper_stop.clone(), config.checkpoint_log_bytes);
        let checkpoints = checkpoints.clone();
        thread::Builder::new()
            .name("keeper".into())
            .spawn(move || keeper::run(&hub, &checkpoints, address_file, bytes, &stop))?
    };
    let peer_threads = match &cluster {
        Some(cluster) => {
            let pace = Pace::new(config.move_rate);
            spawn_peer_threads(&hub, cluster, &checkpoints, pace)?
        }
        None => Vec::new(),
    };

    let banner = banner(&config, &found, addresses);
    let facts = NodeFacts::new(&banner, joined_at);
    let api = Arc::new(NodeApi::new(hub.clone(), config.clone(), facts));
    let options = config.http_options(hub.started_millis());
    let http = listening.take(Protocol::Http);
    let http_server = http.map(|listener| http::start(listener, api, options)).transpose()?;
    let loops = spawn_loops(&hub, &config, polls, listening.take_for_loops())?;
    if wait_until_serving(&hub, &stop) {
        hub.ready.store(true, Ordering::Release);
        banner.log();
    }

    stop.wait();
    // While requests are still taken, so that they go on to who leads then.
    hub.hand_over(HAND_OVER);
    let stopped = Instant::now();
    hub.stopping.store(true, Ordering::Release);
    hub.mailboxes.iter().for_each(Mailbox::wake);
    for event_loop in loops {
        event_loop.join().expect("a loop that panics has ended the process");
    }
    if let Some(server) = http_server {
        // One time for all: clients of the loops may have taken it.
        let drain = Duration::from_millis(config.shutdown_timeout_ms);
        server.stop(drain.saturating_sub(stopped.elapsed()));
    }
    // Not before: what was under way may have needed other nodes.
    if let Some(cluster) = &cluster {
        cluster.stop();
    }
    if let Some(peers) = &hub.peers {
        peers.stop();
    }
    for thread in peer_threads {
        thread.join().expect("a thread that panics has ended the process");
    }
    keeper_stop.stop();
    keeper.join().expect("the keeper does not panic");
    hub.log.stop();
    log_thread.join().expect("the log thread does not panic");
    maker.join().expect("the maker of segments does not panic");
    tracing::info!("stopped; everything acknowledged is on disk");
    match cluster.as_ref().and_then(|cluster| cluster.fatal()) {
        Some(error) => Err(StartError::Cluster(error.clone())),
        None => Ok(ExitReason::Stopped),
    }
}

/// Founds, joins or comes back to a cluster; the directory has a manifest afterwards. None if the
/// node was asked to stop while it waited for others.
fn enter(
    config: &Config,
    secret: Secret,
    held: &mut Held,
    listener: std::net::TcpListener,
    stop: &Arc<Stop>,
) -> Result<Option<Arc<Cluster>>, StartError> {
    let mut options = cluster::Options::new(config, listener.local_addr()?, secret);
    options.addresses = held.addresses();
    let on_fatal = {
        let stop = stop.clone();
        move || stop.ask()
    };
    if held.manifest.is_none() && !config.join.is_empty() {
        let cluster = Cluster::start(options, None, listener, on_fatal)?;
        let Some(identity) = cluster.wait_for_identity(|| stop.is_asked()) else {
            cluster.stop();
            return cluster.fatal().map_or(Ok(None), |why| Err(StartError::Cluster(why.clone())));
        };
        held.load_or_begin(config, Some(&identity))?;
        cluster.begin();
        return Ok(Some(cluster));
    }
    let identity = Identity::from(held.load_or_begin(config, None)?);
    Ok(Some(Cluster::start(options, Some(identity), listener, on_fatal)?))
}

/// Has a panic on any thread end the process: a broken invariant may have left state half changed,
/// and the other threads would go on serving it. What was acknowledged is in the log.
fn end_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        say(what);
        std::process::abort();
    }));
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

fn spawn_log_thread(hub: &Arc<Hub>) -> io::Result<JoinHandle<()>> {
    let hub = hub.clone();
    thread::Builder::new().name("log".into()).spawn(move || {
        let run = hub.log.run(|lane, ticket| hub.durable(lane, ticket));
        if let Err(error) = run {
            hub.fatal("the log", &error);
        }
    })
}

/// The threads that a node has for the sake of others, from when frames are read on.
fn spawn_peer_threads(
    hub: &Arc<Hub>,
    cluster: &Arc<Cluster>,
    checkpoints: &Arc<Mutex<Checkpoints>>,
    pace: Pace,
) -> io::Result<Vec<JoinHandle<()>>> {
    type Run = Box<dyn FnOnce(&Arc<Hub>, &Peers) + Send>;
    let spawn = |name: &str, run: Run| {
        let hub = hub.clone();
        thread::Builder::new().name(name.into()).spawn(move || {
            let peers = hub.peers.as_ref().expect("a node of a cluster has peers");
            run(&hub, peers);
        })
    };
    let checkpoints = checkpoints.clone();
    let threads = vec![
        spawn("digests", Box::new(|hub, peers| peers.digests.run(hub)))?,
        spawn("ticker", Box::new(|hub, _| hub.run_ticks()))?,
        spawn(
            "snapshots out",
            Box::new(move |hub, peers| peers.snapshots.run_sender(hub, peers, pace)),
        )?,
        spawn(
            "snapshots in",
            Box::new(move |hub, peers| peers.snapshots.run_receiver(hub, peers, &checkpoints)),
        )?,
    ];
    cluster.attach(Arc::new(HubFrames(hub.clone())));
    Ok(threads)
}

fn spawn_segment_maker(hub: &Arc<Hub>) -> io::Result<JoinHandle<()>> {
    let hub = hub.clone();
    thread::Builder::new().name("segments".into()).spawn(move || {
        if let Err(error) = hub.log.make_segments() {
            hub.fatal("making a log segment", &error);
        }
    })
}

fn spawn_loops(
    hub: &Arc<Hub>,
    config: &Arc<Config>,
    polls: Vec<Poll>,
    listeners: Vec<Bound>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let clients = Arc::new(Clients::default());
    let texts = Arc::new(Texts::new(hub, config));
    let mut listeners = Some(listeners);
    // All of them before any loop runs: the first gives connections to the others at once.
    hub.mailboxes.iter().for_each(Mailbox::open);
    let spawn = |(number, poll): (usize, Poll)| {
        let listeners = listeners.take().unwrap_or_default();
        let event_loop = EventLoop::new(
            hub.clone(),
            config.clone(),
            clients.clone(),
            texts.clone(),
            number,
            poll,
            listeners,
        );
        let hub = hub.clone();
        thread::Builder::new().name(format!("loop-{number}")).spawn(move || {
            // Its connections and lanes would wait for ever.
            event_loop.run().unwrap_or_else(|error| hub.fatal("an event loop", &error));
        })
    };
    polls.into_iter().enumerate().map(spawn).collect()
}

/// Every shard serves, or knows who leads it: a matter of one fsync if it is alone, else of an
/// election. False if the node was asked to stop before that.
fn wait_until_serving(hub: &Hub, stop: &Stop) -> bool {
    let mut said = Instant::now();
    while !hub.is_serving() {
        if stop.is_asked() {
            return false;
        }
        if said.elapsed() >= Duration::from_secs(5) {
            said = Instant::now();
            tracing::info!("waits: {}", hub.why_not_serving());
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

fn banner(
    config: &Config,
    found: &open::Found,
    listeners: Vec<(&'static str, SocketAddr)>,
) -> Banner {
    let mut warnings = Vec::new();
    if found.cut_bytes > 0 {
        warnings.push(format!("cut {}", crate::check::torn(found.cut_bytes)));
    }
    if config.insecure {
        warnings.push("insecure: whoever reaches the listeners may read and write all data".into());
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

/// Has the kernel give memory in small pages. Zeroing a huge one takes milliseconds, in which a
/// lane's turn waits: the slowest percent of SETs takes three times as long with them. Where the
/// kernel does not know the call, nothing changes.
fn forgo_huge_pages() {
    // SAFETY: this call of prctl takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// Lets the process open as many sockets as the system allows.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for one rlimit, read and written during the calls only.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
