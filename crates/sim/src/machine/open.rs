//! From a disk to a node that serves: the steps of a start, as the server takes them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use balancer::Policy;
use hlc::{Clock, Physical};
use keyspace::random::mix;
use keyspace::{Catalogue, ClusterVersion, Durability, KeyHasher, NodeId, ShardId, Timestamp};
use node::control::{self, Control, PlacementSetup, ReshapePace, Setup};
use node::executor::{Effects, ShardExecutor};
use node::recovery::{RecoverError, RecoveringReplica, Replay, ReplayResult};
use node::replica::ReplicaStart;
use node::replica::record::{HARD_STATE, decode_hard_state, encode_hard_state};
use node::replica::state::Content;
use node::reshape::bootstrap;
use replication::HardState;
use storage::Error;
use storage::checkpoint::{self, CheckpointReader};
use storage::disk::Disk;
use storage::engine::Settings;
use storage::log::{Log, LogOptions, Lsn, Record};
use storage::manifest::{self, Manifest, Origin};

use super::control::Outcomes;
use super::coordinator::NodeCoordinator;
use super::streams::Streams;
use super::{ExecutorSlot, Limits, Machine, NodeLog};
use crate::check::agreement::TailEntries;
use crate::rng::Rng;

/// A node that has just started, and how far each shard was recovered.
pub struct StartedMachine {
    /// The node.
    pub machine: Machine,
    /// Applied index of each shard that was found on disk.
    pub recovered: BTreeMap<ShardId, u64>,
    /// What waits behind that.
    pub behind: TailEntries,
    /// Shards whose replica has ended, as the log says.
    pub ended: Vec<ShardId>,
}

/// How a node is started.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// How many executors it has.
    pub executors: usize,
    /// Bytes of a segment of its log.
    pub segment_bytes: u64,
    /// The wall clock.
    pub wall_ms: u64,
    /// Its boot clock, in nanoseconds.
    pub boot: u64,
    /// The cluster that it joins, if its disk is empty.
    pub join: Option<Cluster>,
    /// Limits of its cores.
    pub limits: Limits,
    /// The cluster version, whatever its catalogue says: it has risen long ago.
    pub cluster_version: ClusterVersion,
    /// How many replicas the system shard should have.
    pub system_replicas: u8,
    /// When shards are split and merged by themselves.
    pub reshape: control::ReshapeLimits,
    /// Chooses elections and sessions of this start.
    pub seed: u64,
    /// Planted: what replicas of shards from this one on have voted is forgotten.
    pub forgets: Option<ShardId>,
    /// Planted: nobody remembers which replicas and shards have ended here.
    pub forgets_ends: bool,
}

/// The request timeout, in nanoseconds.
const REQUEST_TIMEOUT_NANOS: u64 = 1_500_000_000;

/// A node that was down for so long has lost its replicas' places.
pub const DEAD_AFTER: Duration = Duration::from_millis(2_000);

/// Times are shorter than a server's, which would only make runs longer.
const PACE: ReshapePace = ReshapePace {
    split_again: 1_000_000_000,
    cold: 1_000_000_000,
    again: 400_000_000,
    merge_wanted_max: 2_000_000_000,
};

/// What all nodes of a cluster have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its id.
    pub id: u64,
    /// Hashes keys.
    pub hash_seed: [u8; 16],
}

/// Starts a node on a disk.
///
/// # Errors
/// What the server would say, too.
pub fn open(
    handle: Arc<dyn Disk>,
    start: &Start,
    rng: &mut Rng,
) -> Result<StartedMachine, RecoverError> {
    let mut manifest = match manifest::load(&*handle)? {
        Some(manifest) => manifest,
        None => begin(&*handle, start.join, rng)?,
    };
    // A rename whose directory was not synced may be known to memory only: say it again before
    // anything that an older manifest would need is removed.
    match manifest::store(&*handle, &manifest) {
        Ok(()) => manifest::remove_unlisted(&*handle, &manifest)?,
        Err(Error::Full { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    checkpoint::remove_temporaries(&*handle)?;
    let hasher = KeyHasher::new(manifest.hash_seed);
    let settings = start.limits.settings(hasher);
    let mut replay =
        Replay::new(manifest.node, load_checkpoints(&*handle, &manifest, settings)?, settings);
    let options = LogOptions {
        cluster: manifest.cluster,
        salt: manifest.log_salt,
        segment_bytes: start.segment_bytes,
    };
    let (mut log, _) =
        Log::open(handle.clone(), options, manifest.log_start, &mut |lsn, record| {
            // Planted: what a right half has voted is forgotten.
            let is_half = start.forgets.is_some_and(|first| record.shard >= first);
            let state = decode_hard_state(record.payload);
            match state.filter(|_| is_half && record.kind == HARD_STATE) {
                Some(state) => {
                    let payload = encode_hard_state(HardState { vote: 0, ..state });
                    replay.record(lsn, &Record { payload: &payload, ..record })
                }
                None => replay.record(lsn, &record),
            }
        })?;
    let mut replayed = replay.finish()?;
    if start.forgets_ends {
        replayed.dropped.retain(|shard| !replayed.absorbed.contains_key(shard));
        replayed.absorbed.clear();
        replayed.ended.retain(|_, ended| !ended.is_removed());
    }
    let ReplayResult { shards, ended, .. } = &replayed;
    if manifest.log_start == Lsn::NEW {
        manifest.log_start = log.written_end();
        manifest::store(&*handle, &manifest)?;
    }
    log.append_marker()?;
    let recovered = shards.iter().map(|(id, shard)| (*id, shard.state().applied_index)).collect();
    let waiting = |shard: &RecoveringReplica| {
        shard.waiting().map(|e| (e.index(), e.term(), e.data().to_vec())).collect()
    };
    let behind = shards.iter().map(|(id, shard)| (*id, waiting(shard))).collect();
    let gone = ended.keys().copied().collect();
    let machine = build(OpenedNode { handle, manifest, hasher, log }, replayed, start);
    Ok(StartedMachine { machine, recovered, behind, ended: gone })
}

fn begin(disk: &dyn Disk, join: Option<Cluster>, rng: &mut Rng) -> Result<Manifest, RecoverError> {
    let mut hash_seed = [0; 16];
    hash_seed[..8].copy_from_slice(&rng.bits().to_le_bytes());
    hash_seed[8..].copy_from_slice(&rng.bits().to_le_bytes());
    let manifest = Manifest {
        cluster: join.map_or(rng.bits(), |cluster| cluster.id),
        node: NodeId(rng.bits()),
        hash_seed: join.map_or(hash_seed, |cluster| cluster.hash_seed),
        log_salt: rng.bits(),
        origin: if join.is_some() { Origin::Joined } else { Origin::Founder },
        joined_at: 0,
        log_start: Lsn::NEW,
        checkpoints: Vec::new(),
    };
    manifest::store(disk, &manifest)?;
    Ok(manifest)
}

fn load_checkpoints(
    disk: &dyn Disk,
    manifest: &Manifest,
    settings: Settings,
) -> Result<BTreeMap<ShardId, RecoveringReplica>, RecoverError> {
    let mut shards = BTreeMap::new();
    for reference in &manifest.checkpoints {
        let mut reader = CheckpointReader::open(disk, manifest.cluster, &reference.name())?;
        let mut shard =
            RecoveringReplica::from_checkpoint(reference.shard, reader.meta(), settings)?;
        let mut buffer = Vec::new();
        while let Some(block) = reader.next_block(&mut buffer)? {
            shard.restore(block)?;
        }
        shards.insert(reference.shard, shard);
    }
    Ok(shards)
}

/// The open parts of a machine at its start.
struct OpenedNode {
    handle: Arc<dyn Disk>,
    manifest: Manifest,
    hasher: KeyHasher,
    log: Log,
}

/// The machine, with all shards that it had.
fn build(opened: OpenedNode, replayed: ReplayResult, start: &Start) -> Machine {
    let ReplayResult { mut shards, ended, dropped, absorbed } = replayed;
    let highest = shards.values().map(RecoveringReplica::highest).max();
    let mut machine = without_shards(opened, highest.unwrap_or_default(), start);
    machine.now();
    for seat in &mut machine.executors {
        seat.executor.observe(start.boot);
        seat.executor.mark_ended(dropped.iter().copied());
    }
    let has_system = !ended.contains_key(&ShardId(0));
    for (shard, ended) in ended {
        let executor = machine.executor_of(shard);
        machine.executors[executor].executor.adopt_ended(shard, ended);
    }
    for (right, left) in absorbed {
        let executor = machine.executor_of(right);
        machine.executors[executor].executor.adopt_merged(right, left);
    }
    let catalogue = match shards.remove(&ShardId(0)) {
        Some(recovered) => Some(machine.adopt_system(recovered)),
        // It waits for a replica of the system shard.
        None if start.join.is_some() || !has_system => None,
        None => {
            let state = bootstrap::first_system(machine.manifest.node);
            machine.create_shard(state, Durability::Sync);
            None
        }
    };
    machine.allow(start.cluster_version);
    for recovered in shards.into_values() {
        let keyspace = recovered.state().descriptor.keyspace();
        let keyspace = catalogue.as_ref().and_then(|catalogue| catalogue.by_id(keyspace));
        let durability = keyspace.map(|keyspace| keyspace.options.durability);
        machine.adopt(recovered.finish(durability.unwrap_or(Durability::Sync)));
    }
    if let Some(catalogue) = catalogue {
        // Shards that the catalogue took before a crash, and nobody made, begin now. Those that
        // were dropped from it, and whose record of death was cut, end.
        machine.tell(control::Input::CatalogueReplaced(Arc::new(catalogue)));
    }
    machine
}

/// A machine before it has its shards. All times in them lie below `highest`, or are that.
fn without_shards(opened: OpenedNode, highest: Timestamp, start: &Start) -> Machine {
    let OpenedNode { handle, manifest, hasher, log } = opened;
    let clock = Arc::new(Clock::new(highest));
    let seed = manifest.node.0 ^ start.seed;
    let coordinates = NodeCoordinator::new(manifest.node, mix(seed));
    let seat = |_| ExecutorSlot {
        executor: ShardExecutor::new(clock.clone(), seed, start.limits.round_bytes_max),
        inbox: VecDeque::new(),
        effects: Effects::default(),
        unappended: false,
        again: true,
        credit_bytes: 0,
    };
    Machine {
        control: Control::new(control_setup(manifest.node, hasher, start)),
        handle,
        manifest,
        executors: (0..start.executors).map(seat).collect(),
        clock,
        time: Physical::start(start.wall_ms, highest),
        elapsed_ms: 0,
        boot: start.boot,
        outgoing: Vec::new(),
        streams: Streams::new(seed),
        ticks: 0,
        hasher,
        limits: start.limits,
        log: NodeLog::new(log),
        routes: BTreeMap::new(),
        news: control::Queue::default(),
        outcomes: Outcomes::default(),
        round: None,
        installation: None,
        cluster_version: start.cluster_version,
        unsynced_ack: false,
        ignores_lookup: false,
        short_checkpoint: false,
        forgets_shards: false,
        leaves_records: false,
        digests: Vec::new(),
        findings: Vec::new(),
        ended: Vec::new(),
        may_lose: false,
        sent_on: Vec::new(),
        loses_rerouted: None,
        inherited: Vec::new(),
        given_up: Vec::new(),
        coordinates,
        tracking: Default::default(),
    }
}

fn control_setup(node: NodeId, hasher: KeyHasher, start: &Start) -> Setup {
    Setup {
        node,
        settings: start.limits.settings(hasher),
        request_timeout: REQUEST_TIMEOUT_NANOS,
        caches_catalogue: false,
        limits: start.reshape,
        pace: PACE,
        placement: PlacementSetup {
            balances: true,
            policy: Policy::Balanced,
            dead_after: DEAD_AFTER,
            cool_down: 2_000_000_000,
            system_replicas: Some(start.system_replicas),
        },
        raise_version_after: Some(300_000_000),
        seed: node.0 ^ start.seed,
    }
}

impl Machine {
    fn adopt(&mut self, start: ReplicaStart) {
        let shard = start.view.read().descriptor.shard;
        let executor = self.executor_of(shard);
        self.control.adopt(start.view.clone());
        self.executors[executor].executor.adopt(start);
    }

    fn adopt_system(&mut self, recovered: RecoveringReplica) -> Catalogue {
        let catalogue = match &recovered.state().content {
            Content::System(system) => system.catalogue.clone(),
            Content::Keys(_) => unreachable!("shard 0 starts as the system shard"),
        };
        self.adopt(recovered.finish(Durability::Sync));
        catalogue
    }
}
