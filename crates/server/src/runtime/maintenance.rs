//! Maintenance: a thread that watches memory, collects old versions, bounds the log, gossips this
//! node's load, and ends what has waited for too long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hlc::safe_point;
use keyspace::{ShardId, Timestamp};
use node::event::EventKind;
use node::executor::Input;
use node::replica::SafePointRequest;
use node::routing::route::Route;
use parking_lot::{Condvar, Mutex};
use storage::Error;
use storage::engine::{MemoryEngine, Usage};

use super::checkpoints::Checkpoints;
use super::lease_budget::{self, Held, HeldVersions};
use super::memory::sum_bytes;
use super::{
    ControlInput, NodeRuntime, View, boot_nanos, cluster_version, log_retention, request_rates,
    survey,
};
use crate::cluster::addresses::AddressFile;
use crate::counters::Rate;
use crate::process::disk_failed;

/// How often the thread looks.
const PERIOD: Duration = Duration::from_millis(100);
/// Every so many periods it gossips this node's load.
const GOSSIP_PERIODS: u32 = 10;
/// Every so many periods it looks at the shards, while they rest and half of `memory_max` is free:
/// with a thousand of them, a look each period is what they cost most.
const REST_PERIODS: u32 = 5;
/// How often safe points are asked for that this node has no reason to raise.
const SAFE_POINTS_ASK: Duration = Duration::from_secs(2);
/// They do not rest if the log has grown by more than this.
const REST_BYTES: u64 = 64 << 10;
/// Versions collected under one hold of a shard's write guard.
const COLLECT_BUDGET: usize = 2_000;

/// Asks the thread to end.
#[derive(Default)]
pub struct MaintenanceStop {
    stop: Mutex<bool>,
    wake: Condvar,
}

impl MaintenanceStop {
    /// Asks.
    pub fn stop(&self) {
        *self.stop.lock() = true;
        self.wake.notify_all();
    }

    /// Waits a period; whether to end.
    fn wait(&self) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.wake.wait_for(&mut stop, PERIOD);
        }
        *stop
    }
}

/// What the thread looks after, and when it has looked last.
pub struct Maintenance {
    runtime: Arc<NodeRuntime>,
    checkpoints: Arc<Mutex<Checkpoints>>,
    addresses: Option<AddressFile>,
    log_bytes_max: u64,
    stop: Arc<MaintenanceStop>,
    commands: Rate,
    /// Of the shards.
    looks: BTreeMap<ShardId, ShardLook>,
    /// What they took at the last look.
    usage: Usage,
    /// Whether old versions had to go before their retention.
    is_short_of_memory: bool,
    /// Periods until the next look at the shards …
    look_in: u32,
    /// When the system shard was last asked for safe points that others may have raised.
    safe_points_asked: Instant,
    /// … and how long the log was at the last.
    looked_at: u64,
    /// Periods until the next look around.
    gossip_in: u32,
    /// Periods until a checkpoint is tried again.
    retry_in: u32,
}

impl Maintenance {
    /// Before its thread runs. The log is to be no longer than `log_bytes_max`, or than about what
    /// a checkpoint writes.
    pub fn new(
        runtime: Arc<NodeRuntime>,
        checkpoints: Arc<Mutex<Checkpoints>>,
        addresses: Option<AddressFile>,
        log_bytes_max: u64,
        stop: Arc<MaintenanceStop>,
    ) -> Self {
        let (commands, looks, usage, is_short_of_memory) = Default::default();
        let (look_in, looked_at, gossip_in, retry_in) = Default::default();
        Self {
            runtime,
            checkpoints,
            addresses,
            log_bytes_max,
            stop,
            commands,
            looks,
            usage,
            is_short_of_memory,
            look_in,
            safe_points_asked: Instant::now(),
            looked_at,
            gossip_in,
            retry_in,
        }
    }

    /// The thread, until [`MaintenanceStop::stop`].
    pub fn run(mut self) {
        while !self.stop.clone().wait() {
            let counters = &self.runtime.counters;
            let rate = self.commands.observe(Instant::now(), counters.commands.get());
            counters.commands_per_second.set(rate);
            self.runtime.clock.observe();
            self.runtime.open_txns.sweep(boot_nanos());
            self.measure();
            self.save_addresses();
            self.look_around();
            self.limit_log();
        }
    }

    /// Collects old versions and measures what shards take, unless they rest.
    fn measure(&mut self) {
        let runtime = &*self.runtime;
        let growth = runtime.memory.growth();
        let grown = growth.begin_to_measure();
        // All that takes memory goes through the log.
        let written = runtime.log.facts().written_end.0;
        let is_awake = written - self.looked_at > REST_BYTES || grown != growth.last_measured();
        if self.look_in == 0 || is_awake {
            self.looked_at = written;
            let mut is_busy = false;
            let mut held = Held::new();
            self.usage = Usage::default();
            let asks = self.safe_points_asked.elapsed() >= SAFE_POINTS_ASK;
            if asks {
                self.safe_points_asked = Instant::now();
            }
            for route in runtime.routing.routes().iter() {
                let (looks, usage) = (&mut self.looks, &mut self.usage);
                let reason = LookReason { is_short_of_memory: self.is_short_of_memory, asks };
                let look = limit_old_versions(runtime, route, reason, looks, usage);
                is_busy |= look.is_busy;
                held.insert(route.keyspace.id, look.held);
            }
            lease_budget::enforce(&self.runtime, held);
            growth.measured(grown);
            self.is_short_of_memory = runtime.memory.measured(&self.usage);
            let used = sum_bytes(&self.usage);
            runtime.counters.memory_peak_bytes.raise(used);
            is_busy |= self.is_short_of_memory || used > runtime.memory.bytes_max() / 2;
            self.look_in = if is_busy { 1 } else { REST_PERIODS };
        }
        self.look_in -= 1;
    }

    /// Has the directory know where the other members are.
    fn save_addresses(&mut self) {
        if let (Some(file), Some(peers)) = (&mut self.addresses, &self.runtime.peers) {
            file.save(&peers.cluster);
        }
    }

    /// Once a second: gossips this node's load, and gives control the facts for its decisions.
    fn look_around(&mut self) {
        let runtime = &*self.runtime;
        if self.gossip_in == 0 {
            runtime.log.look_for_room().unwrap_or_else(|error| disk_failed("the log", &error));
            survey::publish(runtime);
            log_retention::limit(runtime);
            let loads = ControlInput::MaintainShards(request_rates::loads(runtime));
            runtime.control.step_here(runtime, loads);
            let input = ControlInput::RaiseVersion(cluster_version::member_versions(runtime));
            runtime.control.step_here(runtime, input);
        }
        runtime.control.step_here(runtime, ControlInput::MaintainTables);
        self.gossip_in = self.gossip_in.checked_sub(1).unwrap_or(GOSSIP_PERIODS - 1);
    }

    /// Writes a checkpoint if the log has grown too long.
    fn limit_log(&mut self) {
        self.retry_in = self.retry_in.saturating_sub(1);
        let runtime = &*self.runtime;
        let log_start = self.checkpoints.lock().log_start();
        let grown = runtime.log.facts().written_end.0 - log_start.0;
        runtime.counters.log_start.set(log_start.0);
        // Keys and values, all versions, are about what a checkpoint writes.
        let written = (self.usage.live_bytes + self.usage.old_bytes) / 2;
        if grown <= self.log_bytes_max.max(written) || self.retry_in > 0 {
            return;
        }
        match checkpoint(runtime, &self.checkpoints) {
            Ok(true) => runtime.happened(EventKind::Checkpointed { log_bytes: grown }),
            Ok(false) => {
                runtime.happened(EventKind::NoSpaceForCheckpoint);
                self.retry_in = 100;
            }
            Err(error) => disk_failed("a checkpoint", &error),
        }
    }
}

/// A checkpoint round, which INFO tells of.
fn checkpoint(runtime: &NodeRuntime, checkpoints: &Mutex<Checkpoints>) -> Result<bool, Error> {
    runtime.counters.checkpoint_running.set(1);
    let made = checkpoints.lock().round(runtime);
    runtime.counters.checkpoint_running.set(0);
    runtime.counters.checkpoint_failed.set(u64::from(!matches!(made, Ok(true))));
    made
}

/// Why safe points are looked at.
#[derive(Clone, Copy)]
struct LookReason {
    /// Old versions may go within the retention.
    is_short_of_memory: bool,
    /// Somebody else may have raised them (`carillon gc`), which nodes without a replica of the
    /// system shard do not hear of by themselves.
    asks: bool,
}

/// Raises the keyspace's safe point when that would free memory here, and collects.
///
/// A shard with writes collects by itself as it applies, on the thread that reuses the memory;
/// `looks` shows which shards have none. Adds the memory of its shards to `sum`.
fn limit_old_versions(
    runtime: &NodeRuntime,
    route: &Route,
    reason: LookReason,
    looks: &mut BTreeMap<ShardId, ShardLook>,
    sum: &mut Usage,
) -> KeyspaceLook {
    let mut is_busy = false;
    let (mut current, mut wanted) = (Timestamp::MAX, None);
    let (mut has_old, mut has_pinned) = (false, false);
    let (now, retention) = (runtime.clock.last(), route.keyspace.options.retention_ms);
    let aged = safe_point::target(Timestamp::ZERO, now, retention, None);
    let mut held = HeldVersions { aged, bytes: 0 };
    for (place, (view, shard)) in route.views.iter().zip(route.shards()).enumerate() {
        let index = view.read().applied_index;
        // There is nothing to collect, and no safe point to follow: it would seem to lag for ever.
        if index == 0 || runtime.routing.is_remote(route, place) {
            continue;
        }
        let look = looks.entry(*shard).or_default();
        // Writes collect by themselves, but not all that comes between two looks is a write.
        let rounds = if look.index == index { COLLECT_ROUNDS } else { 1 };
        if look.index != index {
            is_busy = true;
            *look = ShardLook { index, is_done: false };
        }
        let more = !look.is_done && collect(view, look, rounds);
        is_busy |= more;
        count_expired(runtime, view);
        let state = view.read();
        let Some(engine) = state.engine() else { continue };
        let usage = engine.usage();
        sum.live_bytes += usage.live_bytes;
        sum.old_bytes += usage.old_bytes;
        sum.index_bytes += usage.index_bytes;
        let pinned_bytes = engine.pinned_bytes();
        held.bytes += engine.bytes_freed_at(aged) + pinned_bytes;
        current = current.min(engine.safe_point());
        // What only pins keep goes when these end, for which nothing has to rise.
        has_pinned |= pinned_bytes > 0;
        has_old |= usage.old_bytes > pinned_bytes
            || engine.next_expiry_millis().is_some_and(|e| e <= runtime.clock.millis());
        if reason.is_short_of_memory && !more {
            wanted = wanted.max(engine.point_to_free(usage.old_bytes / 2));
        }
    }
    let target = safe_point::target(current, now, retention, wanted);
    let is_short_of_memory = wanted.is_some() && target > current;
    let due = target.millis() >= current.millis() + safe_point::step_millis(retention);
    let rises = has_old && (due || is_short_of_memory);
    let asks = (has_old || has_pinned) && reason.asks;
    if (rises || asks) && !runtime.log.facts().full {
        let raise = SafePointRequest {
            keyspace: route.keyspace.id,
            // What is not to rise is asked for.
            to: if rises { target } else { current },
            is_pressed: is_short_of_memory,
        };
        runtime.submit(ShardId(0), Input::RaiseKeyspace(raise));
    }
    KeyspaceLook { is_busy, held }
}

/// What a look at the shards of a keyspace has shown.
struct KeyspaceLook {
    /// Whether any had writes since the last look, or has more to collect.
    is_busy: bool,
    /// What a safe point would free that rises as the retention lets it.
    held: HeldVersions,
}

/// Adds a shard's expired keys that left its index to the node's.
fn count_expired(runtime: &NodeRuntime, view: &View) {
    if view.read().engine().is_some_and(|engine| engine.expired_keys() > 0) {
        let expired = view.write().engine_mut().map_or(0, MemoryEngine::take_expired_keys);
        runtime.counters.expired_keys.add(expired);
    }
}

/// How a shard was when it was last looked at.
#[derive(Default)]
struct ShardLook {
    /// Up to here it was applied.
    index: u64,
    /// Whether nothing comes to be collected before the next entry: the safe point rises with one.
    is_done: bool,
}

/// Collects a shard's versions below its safe point, a little at a time; whether there is more.
fn collect(view: &View, look: &mut ShardLook, rounds: usize) -> bool {
    for _ in 0..rounds {
        let mut state = view.write();
        let Some(engine) = state.engine_mut() else { return false };
        if !engine.collect(COLLECT_BUDGET) {
            // A stream that pins an old moment may end without an entry.
            look.is_done = !engine.is_held();
            return false;
        }
    }
    true
}

/// Holds of the guard per shard and period in which nothing was applied.
const COLLECT_ROUNDS: usize = 50;
