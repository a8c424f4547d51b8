//! The keeper: a thread that looks after memory, old versions and the length of the log, and tells
//! the other nodes what this one carries.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keyspace::{ShardId, Timestamp};
use node::lane::Input;
use node::route::Route;
use node::shard::Raise;
use parking_lot::{Condvar, Mutex};
use txn::safe_point;

use super::Hub;
use super::checkpoints::Checkpoints;

/// How often the keeper looks.
const PERIOD: Duration = Duration::from_millis(100);
/// Every so many periods it tells the other nodes what this one carries.
const AROUND_PERIODS: u32 = 10;
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
pub fn run(hub: &Hub, checkpoints: &Mutex<Checkpoints>, log_bytes_max: u64, stop: &KeeperStop) {
    let mut retry_in = 0u32;
    let mut applied = BTreeMap::new();
    let mut around_in = 0u32;
    while !stop.wait() {
        hub.clock.observe_millis(hub.millis());
        let usage = measure(hub);
        for route in hub.routes().iter() {
            keep_versions(hub, route, usage.pressed, &mut applied);
        }
        if around_in == 0 {
            hub.look_around();
        }
        around_in = around_in.checked_sub(1).unwrap_or(AROUND_PERIODS - 1);
        retry_in = retry_in.saturating_sub(1);
        let log_start = checkpoints.lock().log_start();
        let grown = hub.log.facts().written_end.0 - log_start.0;
        hub.counters.log_start.set(log_start.0);
        let limit = log_bytes_max.max(usage.data_bytes / 2);
        if grown > limit && retry_in == 0 {
            match checkpoints.lock().round(hub) {
                Ok(true) => tracing::debug!(grown, "checkpoint"),
                Ok(false) => {
                    tracing::warn!("no space for a checkpoint; the log grows until there is");
                    retry_in = 100;
                }
                Err(error) => hub.fatal("a checkpoint", &error),
            }
        }
    }
}

struct Measured {
    /// Keys and values, all versions: about what a checkpoint writes.
    data_bytes: u64,
    /// Whether old versions take more than their share.
    pressed: bool,
}

/// Sums up memory, and refuses or admits writes accordingly.
fn measure(hub: &Hub) -> Measured {
    let (mut live, mut old, mut index) = (0, 0, 0);
    let grown = hub.growth.begin_to_measure();
    for route in hub.routes().iter() {
        for view in &route.views {
            if let Some(engine) = view.read().keys() {
                let usage = engine.usage();
                live += usage.live_bytes;
                old += usage.old_bytes;
                index += usage.index_bytes;
            }
        }
    }
    let used = live + old + index;
    hub.growth.measured(grown);
    hub.memory_used_bytes.store(used, Ordering::Relaxed);
    hub.memory_old_bytes.store(old, Ordering::Relaxed);
    hub.out_of_memory.store(used > hub.memory_bytes_max, Ordering::Relaxed);
    let pressed = old > hub.memory_bytes_max / OLD_SHARE || used > hub.memory_bytes_max;
    Measured { data_bytes: live + old, pressed }
}

/// Has the keyspace's safe point raised when that would free something here, and collects.
///
/// A shard that is written to collects by itself as it applies, on the thread that needs the memory
/// again. `applied` tells which is not: how far each was when it was last looked at.
fn keep_versions(hub: &Hub, route: &Route, pressed: bool, applied: &mut BTreeMap<ShardId, u64>) {
    let (mut current, mut wanted) = (Timestamp::MAX, None);
    let mut has_old = false;
    for (place, (view, shard)) in route.views.iter().zip(&route.keyspace.shards).enumerate() {
        let index = view.read().applied_index;
        // There is nothing to collect, and no safe point to follow: it would seem to lag for ever.
        if index == 0 || hub.is_away(route, place) {
            continue;
        }
        let busy = applied.insert(*shard, index) != Some(index);
        let more = match busy {
            true => view.write().keys_mut().is_some_and(|engine| engine.collect(0)),
            false => collect(view),
        };
        let state = view.read();
        let Some(engine) = state.keys() else { continue };
        let usage = engine.usage();
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
}

/// Collects a shard's versions below its safe point, a little at a time; whether there is more.
fn collect(view: &parking_lot::RwLock<node::state::ShardState>) -> bool {
    for _ in 0..COLLECT_ROUNDS {
        let more = match view.write().keys_mut() {
            Some(engine) => engine.collect(COLLECT_BUDGET),
            None => false,
        };
        if !more {
            return false;
        }
    }
    true
}

/// Holds of the guard per shard and period.
const COLLECT_ROUNDS: usize = 50;
