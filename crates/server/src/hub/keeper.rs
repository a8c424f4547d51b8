//! The keeper: a thread that looks after memory, old versions and the length of the log, and tells
//! the other nodes what this one carries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hlc::safe_point;
use keyspace::{ShardId, Timestamp};
use node::event::Happened;
use node::executor::Input;
use node::replica::Raise;
use node::routing::route::Route;
use parking_lot::{Condvar, Mutex};
use storage::Error;
use storage::engine::{Engine, Usage};

use super::checkpoints::Checkpoints;
use super::{Hub, News, View, boot_nanos};
use crate::cluster::addresses::AddressFile;
use crate::counters::Rate;

/// How often the keeper looks.
const PERIOD: Duration = Duration::from_millis(100);
/// Every so many periods it tells the other nodes what this one carries.
const AROUND_PERIODS: u32 = 10;
/// Every so many periods it looks at the shards, while they rest and half of `memory_max` is free:
/// with a thousand of them, a look each period is what they cost most.
const REST_PERIODS: u32 = 5;
/// They do not rest if the log has grown by more than this.
const REST_BYTES: u64 = 64 << 10;
/// Old versions may take this share of `memory_max`; beyond it they go before their retention.
const OLD_SHARE: u64 = 10;
/// Versions collected under one hold of a shard's write guard.
const COLLECT_BUDGET: usize = 2_000;

/// Asks the keeper's thread to end.
#[derive(Default)]
pub struct KeeperStop {
    stop: Mutex<bool>,
    wake: Condvar,
}

impl KeeperStop {
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

/// The keeper's thread.
pub fn run(
    hub: &Arc<Hub>,
    checkpoints: &Mutex<Checkpoints>,
    mut addresses: Option<AddressFile>,
    log_bytes_max: u64,
    stop: &KeeperStop,
) {
    let mut retry_in = 0u32;
    let mut looks = BTreeMap::new();
    let mut pressed = false;
    let mut around_in = 0u32;
    let mut usage = Usage::default();
    let mut look_in = 0u32;
    let mut looked_at = 0u64;
    let mut rate = Rate::default();
    while !stop.wait() {
        let counters = &hub.counters;
        counters.commands_per_second.set(rate.observe(Instant::now(), counters.commands.get()));
        hub.clock.observe_millis(hub.millis());
        hub.open_txns.sweep(boot_nanos());
        let grown = hub.growth.begin_to_measure();
        // All that takes memory goes through the log.
        let written = hub.log.facts().written_end.0;
        let is_awake = written - looked_at > REST_BYTES || grown != hub.growth.last_measured();
        if look_in == 0 || is_awake {
            looked_at = written;
            let mut is_busy = false;
            usage = Usage::default();
            for route in hub.routes().iter() {
                is_busy |= keep_versions(hub, route, pressed, &mut looks, &mut usage);
            }
            hub.growth.measured(grown);
            pressed = limit_memory(hub, &usage);
            is_busy |= pressed || used_bytes(&usage) > hub.memory_bytes_max / 2;
            look_in = if is_busy { 1 } else { REST_PERIODS };
        }
        look_in -= 1;
        save_addresses(hub, addresses.as_mut());
        if around_in == 0 {
            hub.log.look_for_room().unwrap_or_else(|error| hub.fatal("the log", &error));
            hub.look_around();
            hub.limit_kept();
            hub.step_here(News::LookAround(hub.loads()));
            hub.step_here(News::RaiseVersion(hub.what_all_speak()));
        }
        hub.step_here(News::TendTables);
        around_in = around_in.checked_sub(1).unwrap_or(AROUND_PERIODS - 1);
        retry_in = retry_in.saturating_sub(1);
        let log_start = checkpoints.lock().log_start();
        let grown = hub.log.facts().written_end.0 - log_start.0;
        hub.counters.log_start.set(log_start.0);
        // Keys and values, all versions, are about what a checkpoint writes.
        let limit = log_bytes_max.max((usage.live_bytes + usage.old_bytes) / 2);
        if grown > limit && retry_in == 0 {
            match checkpoint(hub, checkpoints) {
                Ok(true) => hub.happened(Happened::Checkpointed { log_bytes: grown }),
                Ok(false) => {
                    hub.happened(Happened::NoSpaceForCheckpoint);
                    retry_in = 100;
                }
                Err(error) => hub.fatal("a checkpoint", &error),
            }
        }
    }
}

/// Has the directory know where the other members are.
fn save_addresses(hub: &Hub, file: Option<&mut AddressFile>) {
    if let (Some(file), Some(peers)) = (file, &hub.peers) {
        file.save(&peers.cluster);
    }
}

/// A checkpoint round, which INFO tells of.
fn checkpoint(hub: &Hub, checkpoints: &Mutex<Checkpoints>) -> Result<bool, Error> {
    hub.counters.checkpoint_running.set(1);
    let made = checkpoints.lock().round(hub);
    hub.counters.checkpoint_running.set(0);
    hub.counters.checkpoint_failed.set(u64::from(!matches!(made, Ok(true))));
    made
}

/// Refuses or admits writes, by what all shards take. Whether old versions take more than their
/// share.
fn limit_memory(hub: &Hub, usage: &Usage) -> bool {
    let used = used_bytes(usage);
    hub.memory_used_bytes.store(used, Ordering::Relaxed);
    hub.counters.memory_peak_bytes.raise(used);
    hub.memory_old_bytes.store(usage.old_bytes, Ordering::Relaxed);
    hub.out_of_memory.store(used > hub.memory_bytes_max, Ordering::Relaxed);
    usage.old_bytes > hub.memory_bytes_max / OLD_SHARE || used > hub.memory_bytes_max
}

fn used_bytes(usage: &Usage) -> u64 {
    usage.live_bytes + usage.old_bytes + usage.index_bytes
}

/// Has the keyspace's safe point raised when that would free something here, and collects.
///
/// A shard that is written to collects by itself as it applies, on the thread that needs the memory
/// again. `looks` tells which is not. `sum` grows by what its shards take. Whether any was written
/// to since the last look, or has more to collect.
fn keep_versions(
    hub: &Hub,
    route: &Route,
    pressed: bool,
    looks: &mut BTreeMap<ShardId, Look>,
    sum: &mut Usage,
) -> bool {
    let mut is_busy = false;
    let (mut current, mut wanted) = (Timestamp::MAX, None);
    let mut has_old = false;
    for (place, (view, shard)) in route.views.iter().zip(route.shards()).enumerate() {
        let index = view.read().applied_index;
        // There is nothing to collect, and no safe point to follow: it would seem to lag for ever.
        if index == 0 || hub.is_away(route, place) {
            continue;
        }
        let look = looks.entry(*shard).or_default();
        let more = if look.index != index {
            is_busy = true;
            *look = Look { index, is_done: false };
            view.write().keys_mut().is_some_and(|engine| engine.collect(0))
        } else {
            !look.is_done && collect(view, look)
        };
        is_busy |= more;
        count_expired(hub, view);
        let state = view.read();
        let Some(engine) = state.keys() else { continue };
        let usage = engine.usage();
        sum.live_bytes += usage.live_bytes;
        sum.old_bytes += usage.old_bytes;
        sum.index_bytes += usage.index_bytes;
        current = current.min(engine.safe_point());
        has_old |=
            usage.old_bytes > 0 || engine.next_expiry_millis().is_some_and(|e| e <= hub.millis());
        if pressed && !more {
            wanted = wanted.max(engine.point_to_free(usage.old_bytes / 2));
        }
    }
    let now = hub.clock.now();
    let retention = route.keyspace.options.retention_ms;
    let target = safe_point::target(current, now, retention, wanted);
    let is_pressed = wanted.is_some() && target > current;
    let due = target.millis() >= current.millis() + safe_point::step_millis(retention);
    if has_old && (due || is_pressed) && !hub.log.facts().full {
        let raise = Raise { keyspace: route.keyspace.id, to: target, is_pressed };
        hub.submit(ShardId(0), Input::RaiseKeyspace(raise));
    }
    is_busy
}

/// Adds a shard's expired keys that left its index to the node's.
fn count_expired(hub: &Hub, view: &View) {
    if view.read().keys().is_some_and(|engine| engine.expired_keys() > 0) {
        let expired = view.write().keys_mut().map_or(0, Engine::take_expired_keys);
        hub.counters.expired_keys.add(expired);
    }
}

/// How a shard was when it was last looked at.
#[derive(Default)]
struct Look {
    /// Up to here it was applied.
    index: u64,
    /// Whether nothing comes to be collected before the next entry: the safe point rises with one.
    is_done: bool,
}

/// Collects a shard's versions below its safe point, a little at a time; whether there is more.
fn collect(view: &View, look: &mut Look) -> bool {
    for _ in 0..COLLECT_ROUNDS {
        let mut state = view.write();
        let Some(engine) = state.keys_mut() else { return false };
        if !engine.collect(COLLECT_BUDGET) {
            // Whoever has pinned an old moment may leave without an entry.
            look.is_done = !engine.is_pinned();
            return false;
        }
    }
    true
}

/// Holds of the guard per shard and period.
const COLLECT_ROUNDS: usize = 50;
