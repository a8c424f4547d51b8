//! The threads of a node beside its event loops and HTTP: log, segments, maintenance, peers,
//! snapshots.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use node::rpc::stream::pace::Pace;
use parking_lot::Mutex;
use storage::disk::Disk;
use storage::manifest::Manifest;

use crate::cluster::MembershipDriver;
use crate::cluster::addresses::AddressFile;
use crate::config::Config;
use crate::process::disk_failed;
use crate::runtime::checkpoints::Checkpoints;
use crate::runtime::maintenance::{Maintenance, MaintenanceStop};
use crate::runtime::peer_frames::PeerFrames;
use crate::runtime::peers::Peers;
use crate::runtime::{NodeRuntime, executors, ticker};

/// See the front page of this module.
pub struct Background {
    log: JoinHandle<()>,
    segments: JoinHandle<()>,
    maintenance: JoinHandle<()>,
    maintenance_stop: Arc<MaintenanceStop>,
    for_peers: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts all; from then on frames of other nodes are read.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn spawn(
        runtime: &Arc<NodeRuntime>,
        cluster: Option<&Arc<MembershipDriver>>,
        disk: Arc<dyn Disk>,
        manifest: Manifest,
        config: &Config,
    ) -> io::Result<Self> {
        let log = spawn_log(runtime)?;
        let segments = spawn_segments(runtime)?;
        let addresses = cluster.map(|_| AddressFile::new(disk.clone(), manifest.cluster));
        let checkpoints = Arc::new(Mutex::new(Checkpoints::new(disk, manifest)));
        let maintenance_stop = Arc::new(MaintenanceStop::default());
        let maintenance = Maintenance::new(
            runtime.clone(),
            checkpoints.clone(),
            addresses,
            config.checkpoint_log_bytes,
            maintenance_stop.clone(),
        );
        let maintenance = spawn("maintenance", move || maintenance.run())?;
        let for_peers = match cluster {
            Some(cluster) => {
                spawn_for_peers(runtime, cluster, &checkpoints, Pace::new(config.snapshot_rate))?
            }
            None => Vec::new(),
        };
        Ok(Self { log, segments, maintenance, maintenance_stop, for_peers })
    }

    /// Ends all threads, when no request is under way any more; acknowledged writes are on disk
    /// then.
    pub fn stop(self, runtime: &NodeRuntime) {
        if let Some(peers) = &runtime.peers {
            peers.stop();
        }
        for thread in self.for_peers {
            thread.join().expect("a thread that panics has ended the process");
        }
        self.maintenance_stop.stop();
        self.maintenance.join().expect("maintenance does not panic");
        runtime.log.stop();
        self.log.join().expect("the log thread does not panic");
        self.segments.join().expect("the maker of segments does not panic");
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(run)
}

fn spawn_log(runtime: &Arc<NodeRuntime>) -> io::Result<JoinHandle<()>> {
    let runtime = runtime.clone();
    spawn("log", move || {
        let run =
            runtime.log.run(|executor, ticket| executors::durable(&runtime, executor, ticket));
        if let Err(error) = run {
            disk_failed("the log", &error);
        }
    })
}

fn spawn_segments(runtime: &Arc<NodeRuntime>) -> io::Result<JoinHandle<()>> {
    let runtime = runtime.clone();
    spawn("segments", move || {
        if let Err(error) = runtime.log.make_segments() {
            disk_failed("making a log segment", &error);
        }
    })
}

/// The threads that a node has for the sake of others, from when frames are read on.
fn spawn_for_peers(
    runtime: &Arc<NodeRuntime>,
    cluster: &Arc<MembershipDriver>,
    checkpoints: &Arc<Mutex<Checkpoints>>,
    pace: Pace,
) -> io::Result<Vec<JoinHandle<()>>> {
    type Run = Box<dyn FnOnce(&NodeRuntime, &Peers) + Send>;
    let spawn = |name: &str, run: Run| {
        let runtime = runtime.clone();
        spawn(name, move || {
            let peers = runtime.peers.as_ref().expect("a node of a cluster has peers");
            run(&runtime, peers);
        })
    };
    let checkpoints = checkpoints.clone();
    let threads = vec![
        spawn("digests", Box::new(|runtime, peers| peers.digests.run(runtime)))?,
        spawn("ticker", Box::new(ticker::run))?,
        spawn(
            "snapshots out",
            Box::new(move |runtime, peers| peers.snapshots.run_sender(runtime, peers, pace)),
        )?,
        spawn(
            "snapshots in",
            Box::new(move |runtime, peers| {
                peers.snapshots.run_receiver(runtime, peers, &checkpoints);
            }),
        )?,
    ];
    cluster.attach(Arc::new(PeerFrames::new(runtime.clone())));
    Ok(threads)
}
