//! From a directory to a hub whose shards serve.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hlc::{AHEAD_MILLIS_MAX, Clock, Physical};
use keyspace::{
    Catalogue, CatalogueOp, Durability, KeyHasher, Levels, NodeId, ShardId, Timestamp, Unspoken,
};
use node::control::{Control, Limits, Pace, PlacementSetup, Setup};
use node::executor::Ended;
use node::executor::{FIRST_REPLICA, Input, ShardExecutor, TURN_BYTES_MAX};
use node::recovery::{self, RecoverError, Recovering, Replayed};
use node::replica::ShardStart;
use node::replica::entry::Header;
use node::replica::state::Content;
use node::reshape::bootstrap;
use parking_lot::Mutex;
use storage::addresses::{self, NodeAddress};
use storage::checkpoint::{self, CheckpointReader};
use storage::disk::Disk;
use storage::log::{Log, LogOptions, Lsn};
use storage::manifest::{self, Manifest, Origin};

use super::clocks::Clocks;
use super::disk_pace::DiskPace;
use super::growth::Growth;
use super::heat::Heat;
use super::kept::Kept;
use super::lanes::LaneCell;
use super::levels::ClusterLevel;
use super::log::LogRoom;
use super::mail::{Mailbox, SideDoor};
use super::open_txns::OpenTxns;
use super::peers::Peers;
use super::placement::COOL_DOWN;
use super::splits::Requests;
use super::{Hub, NOBODY, News, boot_nanos, wall_millis};
use crate::cluster::{Cluster, Identity};
use crate::config::Config;
use crate::medium::Directory;
use crate::peer;

/// The keyspace that every node has from its beginning: clients begin there.
const FIRST_KEYSPACE: &str = "0";

/// Why a directory cannot be opened. Nothing in it was changed, but for a torn tail that was cut.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be used.
    #[error("cannot use the data directory {dir}: {source}")]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error(
        "the data directory {dir} is in use by another process; stop that one, or choose another \
         directory with --dir"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// What lies in it cannot be read.
    #[error("{dir}: {source}")]
    Recover {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: RecoverError,
    },
    /// Its cluster's feature level is none that this program speaks.
    #[error("{dir}: {source}")]
    Level {
        /// The directory.
        dir: PathBuf,
        /// Which.
        source: Unspoken,
    },
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// In words, for people.
    pub text: String,
    /// Bytes of a torn tail that were cut.
    pub cut_bytes: u64,
}

/// An opened directory.
pub struct Opened {
    /// The node.
    pub hub: Arc<Hub>,
    /// Its directory.
    pub disk: Arc<dyn Disk>,
    /// What the directory held.
    pub found: Found,
    /// The manifest as it is on disk.
    pub manifest: Manifest,
}

/// A directory that nobody else uses, and whose it is.
pub struct Held {
    disk: Arc<dyn Disk>,
    /// None if the directory is empty.
    pub manifest: Option<Manifest>,
    is_new: bool,
}

/// Locks the node's directory and reads its manifest.
///
/// # Errors
/// [`OpenError`].
pub fn hold(config: &Config) -> Result<Held, OpenError> {
    let dir = config.dir.clone();
    let disk: Arc<dyn Disk> =
        Arc::new(Directory::open(&dir).map_err(|source| match source.kind() {
            std::io::ErrorKind::WouldBlock => OpenError::InUse { dir: dir.clone() },
            _ => OpenError::Directory { dir: dir.clone(), source },
        })?);
    let loaded = manifest::load(&*disk);
    let manifest = loaded.map_err(|e| OpenError::Recover { dir, source: e.into() })?;
    Ok(Held { disk, manifest, is_new: false })
}

impl Held {
    /// The manifest; in an empty directory a first one is stored, of a node that has joined a
    /// cluster, or with no `joined` of one that founds its own.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn load_or_begin(
        &mut self,
        config: &Config,
        joined: Option<&Identity>,
    ) -> Result<&Manifest, OpenError> {
        if self.manifest.is_none() {
            self.is_new = true;
            self.manifest = Some(begin(&*self.disk, &config.dir, joined)?);
        }
        Ok(self.manifest.as_ref().expect("there now"))
    }
}

impl Held {
    /// The directory.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Where the other members of its cluster were last. A file that is damaged or cannot be read
    /// is passed over: gossip writes a new one.
    pub fn addresses(&self) -> Vec<NodeAddress> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        match addresses::load(&*self.disk, manifest.cluster) {
            Ok(addresses) => addresses,
            Err(error) => {
                tracing::warn!(
                    "the addresses of the other members are not known: {error}. Nothing else is \
                     lost, and the file is written anew as soon as a member is reached: name one \
                     with --join if none is"
                );
                Vec::new()
            }
        }
    }
}

/// Recovers the shards of a directory whose manifest is there.
///
/// # Errors
/// [`OpenError`].
pub fn open(
    config: &Config,
    held: Held,
    mailboxes: Vec<Mailbox>,
    cluster: Option<Arc<Cluster>>,
) -> Result<Opened, OpenError> {
    let Held { disk, manifest, is_new } = held;
    let mut manifest = manifest.expect("a directory is opened when it has its manifest");
    let dir = config.dir.clone();
    let recover = |source| OpenError::Recover { dir: dir.clone(), source };
    let begun = Instant::now();
    // A rename whose directory was not synced may be known to memory only: say it again before
    // anything that an older manifest would need is removed.
    match manifest::store(&*disk, &manifest) {
        Ok(()) => manifest::remove_unlisted(&*disk, &manifest).map_err(|e| recover(e.into()))?,
        // A node starts on a full disk as well: its reads go on.
        Err(storage::Error::Full { .. }) => {}
        Err(error) => return Err(recover(error.into())),
    }
    checkpoint::remove_temporaries(&*disk).map_err(|e| recover(e.into()))?;
    let replay = replay(&disk, &manifest, config.segment_bytes).map_err(recover)?;
    if let Some(source) = unspoken(&replay, config.levels()) {
        return Err(OpenError::Level { dir, source });
    }
    if manifest.log_start == Lsn::NEW {
        manifest.log_start = replay.log.written_end();
        manifest::store(&*disk, &manifest).map_err(|e| recover(e.into()))?;
    }

    let keys: u64 = replay
        .shards
        .values()
        .filter_map(|s| s.state().keys())
        .map(|e| e.len(Timestamp::ZERO))
        .sum();
    let text = match (is_new, manifest.origin) {
        (true, Origin::Founder) => "a new cluster".to_owned(),
        (true, Origin::Joined) => format!("joined cluster {:016x}", manifest.cluster),
        (false, _) => format!(
            "{keys} keys, {} log records, in {:.1} s",
            replay.records,
            begun.elapsed().as_secs_f64()
        ),
    };
    let found = Found { text, cut_bytes: replay.cut_bytes };
    let seed = peer::draw().map(u64::from_le_bytes);
    let seed = seed.map_err(|source| OpenError::Directory { dir: dir.clone(), source })?;
    let hub = build(config, &manifest, replay, mailboxes, cluster, seed);
    hub.log.mark().map_err(|e| recover(e.into()))?;
    Ok(Opened { hub, disk, found, manifest })
}

/// Whether the catalogue that was read has a level that these do not speak.
fn unspoken(replay: &Replay, levels: Levels) -> Option<Unspoken> {
    match &replay.shards.get(&ShardId(0))?.state().content {
        Content::System(system) => Unspoken::of(system.catalogue.level(), levels),
        Content::Keys(_) => None,
    }
}

fn begin(disk: &dyn Disk, dir: &Path, joined: Option<&Identity>) -> Result<Manifest, OpenError> {
    let mut random = [0u8; 40];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })?;
    let word = |at: usize| u64::from_le_bytes(random[at..at + 8].try_into().expect("8 bytes"));
    let founder = Identity {
        node: NodeId(word(8)),
        cluster: peer::Cluster {
            id: word(0),
            hash_seed: random[16..32].try_into().expect("16 bytes"),
        },
        joined_at: wall_millis(),
    };
    let Identity { node, cluster, joined_at } = *joined.unwrap_or(&founder);
    let manifest = Manifest {
        cluster: cluster.id,
        node,
        hash_seed: cluster.hash_seed,
        log_salt: word(32),
        origin: if joined.is_some() { Origin::Joined } else { Origin::Founder },
        joined_at,
        log_start: Lsn::NEW,
        checkpoints: Vec::new(),
    };
    manifest::store(disk, &manifest)
        .map_err(|e| OpenError::Recover { dir: dir.to_owned(), source: e.into() })?;
    Ok(manifest)
}

/// What was read of a directory.
pub(crate) struct Replay {
    pub log: Log,
    pub shards: BTreeMap<ShardId, Recovering>,
    pub dropped: BTreeSet<ShardId>,
    pub ended: BTreeMap<ShardId, Ended>,
    records: u64,
    cut_bytes: u64,
    /// The earliest time in the log that is far ahead of the wall clock.
    ahead_from: Option<Timestamp>,
}

/// Reads checkpoints and log.
pub(crate) fn replay(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
    segment_bytes: u64,
) -> Result<Replay, RecoverError> {
    let hasher = KeyHasher::new(manifest.hash_seed);
    let shards = load_checkpoints(disk, manifest, hasher)?;
    let mut replay = recovery::Replay::new(manifest.node, shards, hasher);
    let options = LogOptions { cluster: manifest.cluster, salt: manifest.log_salt, segment_bytes };
    let limit = Timestamp::from_millis(wall_millis() + AHEAD_MILLIS_MAX);
    let mut ahead_from: Option<Timestamp> = None;
    let (log, recovered) =
        Log::open(disk.clone(), options, manifest.log_start, &mut |lsn, record| {
            let time = time_of(&record).filter(|time| *time > limit);
            ahead_from = ahead_from.into_iter().chain(time).min();
            replay.record(lsn, &record)
        })?;
    let Replayed { shards, ended, dropped } = replay.finish()?;
    let (records, cut_bytes) = (recovered.records, recovered.cut_bytes);
    Ok(Replay { log, shards, ended, dropped, records, cut_bytes, ahead_from })
}

/// The same, where no log was ever begun.
pub(crate) fn replay_checkpoints(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
) -> Result<Replayed, RecoverError> {
    let hasher = KeyHasher::new(manifest.hash_seed);
    let shards = load_checkpoints(disk, manifest, hasher)?;
    recovery::Replay::new(manifest.node, shards, hasher).finish()
}

/// When an entry was written, by the clock of its shard's leader.
fn time_of(record: &storage::log::Record<'_>) -> Option<Timestamp> {
    let (_, _, data) = match record.kind {
        node::replica::record::ENTRY => node::replica::record::split_entry(record.payload)?,
        _ => return None,
    };
    Header::decode(data).map(|(header, _)| header.timestamp)
}

/// Reads all checkpoints, on as many threads as there are cores.
fn load_checkpoints(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
    hasher: KeyHasher,
) -> Result<BTreeMap<ShardId, Recovering>, RecoverError> {
    let next = AtomicU64::new(0);
    let loaded = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Result<(), RecoverError> {
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as usize;
            let Some(reference) = manifest.checkpoints.get(at) else { return Ok(()) };
            let mut reader = CheckpointReader::open(&**disk, manifest.cluster, &reference.name())?;
            let mut shard = Recovering::from_checkpoint(reference.shard, reader.meta(), hasher)?;
            let mut buffer = Vec::new();
            while let Some(block) = reader.next_block(&mut buffer)? {
                shard.restore(block)?;
            }
            loaded.lock().insert(reference.shard, shard);
        }
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|h| h.join().expect("loading does not panic"))
    })?;
    Ok(loaded.into_inner())
}

/// Puts the pieces together and starts every shard.
fn build(
    config: &Config,
    manifest: &Manifest,
    replay: Replay,
    mailboxes: Vec<Mailbox>,
    cluster: Option<Arc<Cluster>>,
    seed: u64,
) -> Arc<Hub> {
    let highest = replay.shards.values().map(Recovering::highest).max();
    let clock = Arc::new(Clock::new(highest.unwrap_or_default()));
    let time = Physical::start(wall_millis(), highest.unwrap_or_default());
    let lanes_count = config.threads_count();
    let lane = |number| {
        let mut lane = ShardExecutor::new(clock.clone(), seed ^ number as u64, TURN_BYTES_MAX);
        lane.set_patience(config.request_timeout_ms * 1_000_000);
        lane.set_check_every(config.check_interval_ms * 1_000_000);
        lane.observe(boot_nanos());
        lane.bury(replay.dropped.iter().copied());
        LaneCell::new(number, lane)
    };
    let lanes = (0..lanes_count).map(lane).collect();
    let hasher = KeyHasher::new(manifest.hash_seed);
    let dead_after = Duration::from_millis(config.dead_after_ms);
    let control = Control::new(Setup {
        node: manifest.node,
        settings: hasher.into(),
        request_timeout: config.request_timeout_ms.saturating_mul(1_000_000),
        caches_catalogue: cluster.is_some(),
        limits: Limits {
            split_bytes: config.split_bytes,
            split_keys: config.split_keys,
            split_rate: config.split_rate,
            merge_bytes: config.merge_bytes.map(NonZeroU64::get),
        },
        pace: Pace::default(),
        placement: PlacementSetup {
            balances: config.balance,
            policy: config.placement,
            dead_after,
            cool_down: COOL_DOWN.as_nanos() as u64,
            system_replicas: None,
        },
        raise_version_after: config
            .auto_upgrade
            .then_some(config.auto_upgrade_after_ms.saturating_mul(1_000_000)),
        seed,
    });
    let hub = Arc::new(Hub {
        node_id: manifest.node,
        cluster_id: manifest.cluster,
        hasher,
        clock,
        lanes,
        log: LogRoom::new(
            replay.log,
            Duration::from_millis(config.interval_ms),
            config.has_peers(),
        ),
        mailboxes,
        side_door: SideDoor::default(),
        open_txns: OpenTxns::default(),
        counters: Arc::default(),
        memory_bytes_max: config.memory_bytes_max(),
        out_of_memory: AtomicBool::new(false),
        memory_used_bytes: AtomicU64::new(0),
        memory_old_bytes: AtomicU64::new(0),
        kept: Kept::default(),
        growth: Growth::default(),
        ready: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        peers: cluster.map(|cluster| {
            let table = control.table().clone();
            Peers::new(
                cluster,
                manifest.node,
                lanes_count,
                (config.balance, dead_after),
                table,
                seed,
            )
        }),
        overview: ArcSwap::default(),
        views: control.views().clone(),
        routes: ArcSwap::default(),
        routes_version: AtomicU64::new(0),
        standings: ArcSwap::default(),
        interval_keyspaces: AtomicBool::new(false),
        patience_nanos: config.request_timeout_ms.saturating_mul(1_000_000),
        seed,
        news: Mutex::default(),
        spreading: Mutex::new(()),
        started: Instant::now(),
        time: ArcSwap::from_pointee(time),
        disk_pace: DiskPace::default(),
        requests: Requests::default(),
        heat: Heat::new(config.split_rate, seed),
        events: Mutex::default(),
        clocks: Clocks::new(config.clock_offset_max_ms, replay.ahead_from),
        level: ClusterLevel::new(config),
        control: Mutex::new(control),
    });
    hub.clock.observe_millis(hub.millis());
    let is_founder = manifest.origin == Origin::Founder;
    // Without its replica of the system shard it waits for another, whoever it was.
    let waits = !is_founder || replay.ended.contains_key(&ShardId(0));
    for (shard, ended) in replay.ended {
        hub.lanes[hub.lane_of(shard)].adopt_ended(shard, ended);
    }
    hub.adopt(replay.shards, config, waits);
    if let Some(why) = hub.why_ahead() {
        tracing::warn!("{why}");
    }
    hub
}

impl Hub {
    /// Gives recovered shards to their lanes, and has control bring shards and catalogue to agree
    /// where a crash came between them.
    fn adopt(&self, mut shards: BTreeMap<ShardId, Recovering>, config: &Config, is_joined: bool) {
        let catalogue = match shards.remove(&ShardId(0)) {
            Some(recovered) => Some(self.adopt_system(recovered)),
            // It waits for a replica of the system shard.
            None if is_joined => None,
            None => {
                assert!(shards.is_empty(), "the system shard is created before all others");
                self.create_system();
                self.found_level();
                Some(Catalogue::default())
            }
        };
        for recovered in shards.into_values() {
            let id = recovered.state().descriptor.keyspace();
            let keyspace = catalogue.as_ref().and_then(|catalogue| catalogue.by_id(id));
            let durability = keyspace.map(|keyspace| keyspace.options.durability);
            self.adopt_one(recovered.finish(durability.unwrap_or(Durability::Sync)));
        }
        let is_empty = catalogue.as_ref().is_none_or(Catalogue::is_empty);
        if let Some(catalogue) = catalogue {
            // Shards that the catalogue took before a crash, and nobody made, begin now. Those that
            // were dropped from it, and whose record of death was cut, end.
            self.post_news([News::Jumped(Arc::new(catalogue))]);
        }
        // All together: each run looks at every shard that has something to do.
        self.lanes.iter().for_each(|lane| lane.run(self, NOBODY, &mut Vec::new()));
        self.spread_news();
        if !is_joined && is_empty {
            let options = config.keyspace_options();
            self.ask_catalogue(&CatalogueOp::Create { name: FIRST_KEYSPACE, options }, None);
        }
    }

    fn adopt_system(&self, recovered: Recovering) -> Catalogue {
        let catalogue = match &recovered.state().content {
            Content::System(system) => system.catalogue.clone(),
            Content::Keys(_) => unreachable!("shard 0 is born as the system shard"),
        };
        self.adopt_one(recovered.finish(Durability::Sync));
        catalogue
    }

    fn adopt_one(&self, start: ShardStart) {
        let shard = start.view.read().descriptor.shard;
        self.control.lock().adopt(start.view.clone());
        self.lanes[self.lane_of(shard)].adopt(start);
    }

    fn create_system(&self) {
        let state = bootstrap::first_system(self.node_id);
        let start = ShardStart::born(state, FIRST_REPLICA, Durability::Sync);
        self.control.lock().adopt(start.view.clone());
        self.submit(ShardId(0), Input::Create(start));
    }
}
