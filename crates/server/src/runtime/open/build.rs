//! Puts the parts of a node together and starts every shard.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use keyspace::{Catalogue, CatalogueOp, Durability, KeyHasher, ShardId};
use node::control::{Control, PlacementSetup, ReshapeLimits, ReshapePace, Setup};
use node::executor::{FIRST_REPLICA, Input, ROUND_BYTES_MAX, ShardExecutor};
use node::recovery::{RecoveringReplica, ReplayResult};
use node::replica::ReplicaStart;
use node::replica::state::Content;
use node::reshape::bootstrap;
use storage::manifest::{Manifest, Origin};

use super::replay::Replay;
use crate::cluster::MembershipDriver;
use crate::config::Config;
use crate::runtime::admin_states::AdminStateCache;
use crate::runtime::background_walks::BackgroundWalks;
use crate::runtime::clock::{NodeClock, boot_nanos};
use crate::runtime::cluster_version::{self, ClusterVersionState};
use crate::runtime::control_plane::ControlPlane;
use crate::runtime::delivery::Delivery;
use crate::runtime::disk_pace::DiskPace;
use crate::runtime::drains::Drains;
use crate::runtime::durations::Durations;
use crate::runtime::events::Events;
use crate::runtime::executors::{ExecutorCell, Executors};
use crate::runtime::identity::NodeIdentity;
use crate::runtime::inquiries::Inquiries;
use crate::runtime::lease_budget::LeaseBudget;
use crate::runtime::lifecycle::Lifecycle;
use crate::runtime::log::NodeLog;
use crate::runtime::mailbox::Mailbox;
use crate::runtime::memory::Memory;
use crate::runtime::open_txns::OpenTxns;
use crate::runtime::peers::Peers;
use crate::runtime::placement::COOL_DOWN;
use crate::runtime::pubsub::PubSub;
use crate::runtime::request_rates::RequestRates;
use crate::runtime::routing::Routing;
use crate::runtime::tracking::Tracking;
use crate::runtime::{ControlInput, NO_ORIGIN, NodeRuntime, requests};
use crate::scripts::Scripts;

/// The keyspace that every node has from its beginning: clients begin there.
const FIRST_KEYSPACE: &str = "0";

/// Builds the node of a directory that was read. `seed` was drawn at random.
pub(super) fn build(
    config: &Config,
    manifest: &Manifest,
    replay: Replay,
    mailboxes: Vec<Mailbox>,
    cluster: Option<Arc<MembershipDriver>>,
    seed: u64,
) -> Arc<NodeRuntime> {
    let Replay { log, replayed, ahead_from, .. } = replay;
    let ReplayResult { shards, ended, dropped, absorbed } = replayed;
    let highest = shards.values().map(RecoveringReplica::highest).max().unwrap_or_default();
    let hasher = KeyHasher::new(manifest.hash_seed);
    let identity = NodeIdentity { node: manifest.node, cluster: manifest.cluster, hasher, seed };
    let clock = NodeClock::start(highest, config.clock_offset_max_ms, ahead_from);
    let executor = |number| {
        let mut executor =
            ShardExecutor::new(clock.hybrid().clone(), seed ^ number as u64, ROUND_BYTES_MAX);
        executor.set_request_timeout(config.request_timeout_ms * 1_000_000);
        executor.set_check_every(config.consistency_check_interval_ms * 1_000_000);
        executor.observe(boot_nanos());
        executor.mark_ended(dropped.iter().copied());
        ExecutorCell::new(number, executor)
    };
    let executors = Executors::new((0..config.threads_count()).map(executor).collect());
    let setup = control_setup(config, &identity, cluster.is_some());
    let control = Control::new(setup);
    let interval = Duration::from_millis(config.interval_ms);
    let pubsub = PubSub::new(mailboxes.len(), clock.millis());
    let tracking = Tracking::new(mailboxes.len(), config.tracking_keys_max);
    let events = Events::new(manifest.node, clock.now(), seed);
    let runtime = Arc::new(NodeRuntime {
        identity,
        lifecycle: Lifecycle::default(),
        clock,
        executors,
        log: NodeLog::new(log, interval, config.has_peers()),
        delivery: Delivery::new(mailboxes),
        routing: Routing::new(cluster.is_some().then_some(manifest.node), control.views().clone()),
        admin_states: AdminStateCache::default(),
        version: ClusterVersionState::new(config),
        memory: Memory::new(config.memory_bytes_max()),
        lease_budget: LeaseBudget::new(config.snapshot_bytes_max()),
        walks: BackgroundWalks::default(),
        events,
        request_rates: RequestRates::new(config.split_rate, seed),
        disk_pace: DiskPace::default(),
        open_txns: OpenTxns::default(),
        drains: Drains::default(),
        inquiries: Inquiries::default(),
        tracking,
        volume_writers: parking_lot::Mutex::default(),
        pubsub,
        scripts: Scripts::new(
            config.script_threads_count(),
            config.script_cache_bytes,
            Duration::from_millis(config.script_time_ms),
            Duration::from_nanos(setup.request_timeout),
        ),
        peers: cluster.map(|cluster| {
            let table = control.table().clone();
            Peers::new(cluster, manifest.node, &setup.placement, table, seed)
        }),
        counters: Arc::default(),
        request_times: Durations::default(),
        overview: ArcSwap::default(),
        request_timeout_nanos: setup.request_timeout,
        control: ControlPlane::new(control),
    });
    let is_founder = manifest.origin == Origin::Founder;
    // Without its replica of the system shard it waits for another, whichever it was.
    let waits = !is_founder || ended.contains_key(&ShardId(0));
    for (shard, ended) in ended {
        runtime.executors.of(shard).adopt_ended(shard, ended);
    }
    for (right, left) in absorbed {
        runtime.executors.of(right).adopt_merged(right, left);
    }
    adopt(&runtime, shards, config, waits);
    if let Some(why) = runtime.clock.why_ahead(runtime.peers.is_some()) {
        tracing::warn!("{why}");
    }
    runtime
}

/// The control plane's setup.
fn control_setup(config: &Config, identity: &NodeIdentity, is_member: bool) -> Setup {
    Setup {
        node: identity.node,
        settings: identity.hasher.into(),
        request_timeout: config.request_timeout_ms.saturating_mul(1_000_000),
        caches_catalogue: is_member,
        limits: ReshapeLimits {
            split_bytes: config.split_bytes,
            split_keys: config.split_keys,
            split_rate: config.split_rate,
            merge_bytes: config.merge_bytes.map(NonZeroU64::get),
        },
        pace: ReshapePace::default(),
        placement: PlacementSetup {
            balances: config.balance,
            policy: config.placement,
            dead_after: Duration::from_millis(config.dead_after_ms),
            cool_down: COOL_DOWN.as_nanos() as u64,
            system_replicas: None,
        },
        raise_version_after: config
            .auto_upgrade
            .then_some(config.auto_upgrade_after_ms.saturating_mul(1_000_000)),
        seed: identity.seed,
    }
}

/// Gives recovered shards to their executors, and has control bring shards and catalogue to agree
/// where a crash came between them.
fn adopt(
    runtime: &NodeRuntime,
    mut shards: BTreeMap<ShardId, RecoveringReplica>,
    config: &Config,
    is_joined: bool,
) {
    let catalogue = match shards.remove(&ShardId(0)) {
        Some(recovered) => Some(adopt_system(runtime, recovered)),
        // It waits for a replica of the system shard.
        None if is_joined => None,
        None => {
            assert!(shards.is_empty(), "the system shard is created before all others");
            create_system(runtime);
            cluster_version::found(runtime);
            Some(Catalogue::default())
        }
    };
    for recovered in shards.into_values() {
        let id = recovered.state().descriptor.keyspace();
        let keyspace = catalogue.as_ref().and_then(|catalogue| catalogue.by_id(id));
        let durability = keyspace.map(|keyspace| keyspace.options.durability);
        adopt_one(runtime, recovered.finish(durability.unwrap_or(Durability::Sync)));
    }
    let is_empty = catalogue.as_ref().is_none_or(Catalogue::is_empty);
    if let Some(catalogue) = catalogue {
        // Shards that the catalogue took before a crash, and nobody made, begin now. Those that
        // were dropped from it, and whose record of death was cut, end.
        runtime.control.post([ControlInput::CatalogueReplaced(Arc::new(catalogue))]);
    }
    // All together: each run looks at every shard that has something to do.
    let cells = runtime.executors.cells();
    cells.iter().for_each(|cell| cell.run(runtime, NO_ORIGIN, &mut Vec::new()));
    runtime.control.run(runtime);
    if !is_joined && is_empty {
        let options = config.keyspace_options();
        let op = CatalogueOp::Create { name: FIRST_KEYSPACE, options };
        requests::change_catalogue(runtime, &op, None);
    }
}

fn adopt_system(runtime: &NodeRuntime, recovered: RecoveringReplica) -> Catalogue {
    let catalogue = match &recovered.state().content {
        Content::System(system) => system.catalogue.clone(),
        Content::Keys(_) => unreachable!("shard 0 starts as the system shard"),
    };
    adopt_one(runtime, recovered.finish(Durability::Sync));
    catalogue
}

fn adopt_one(runtime: &NodeRuntime, start: ReplicaStart) {
    let shard = start.view.read().descriptor.shard;
    runtime.control.adopt(start.view.clone());
    runtime.executors.of(shard).adopt(start);
}

fn create_system(runtime: &NodeRuntime) {
    let state = bootstrap::first_system(runtime.identity.node);
    let start = ReplicaStart::created(state, FIRST_REPLICA, Durability::Sync);
    runtime.control.adopt(start.view.clone());
    runtime.submit(ShardId(0), Input::Create(start));
}
