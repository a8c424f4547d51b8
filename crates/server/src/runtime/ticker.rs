//! The ticker: a thread that ticks executors and control, and transfers leaderships before the node
//! stops.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use keyspace::{ReplicaId, ShardId};
use node::executor::Input;

use super::peers::{self, Peers};
use super::{ControlInput, NodeRuntime, digests, lookups, placement, survey};

/// Every so many ticks a node checks whether its disk is slow …
const DISK_TICKS: u64 = 4;
/// … leaders whether their shards want more replicas …
const PLACE_TICKS: u64 = 5;
/// … control gets the list of members …
const MEMBERS_TICKS: u64 = 4;
/// … whether one should be elsewhere …
const DECIDE_TICKS: u64 = 20;
/// … control checks whether leaders should move …
const SPREAD_TICKS: u64 = 40;
/// … and replicas that wait to be replaced are logged.
const REMIND_TICKS: u64 = 600;

/// The ticker's thread, until [`Peers::stop`].
pub fn run(runtime: &NodeRuntime, peers: &Peers) {
    let mut ticks = 0u64;
    while !peers.wait_for_tick() {
        ticks += 1;
        tick(runtime, peers, ticks);
    }
}

fn tick(runtime: &NodeRuntime, peers: &Peers, ticks: u64) {
    let every = |period: u64| ticks.is_multiple_of(period);
    let step = |input| runtime.control.step_here(runtime, input);
    runtime.clock.observe();
    runtime.submit_to_all(|| Input::Tick);
    if every(MEMBERS_TICKS) {
        peers::members_changed(runtime, peers);
    }
    step(ControlInput::Tick);
    lookups::tick(runtime, peers, ticks);
    runtime.pubsub.tick(runtime, ticks);
    runtime.events.tick(runtime);
    runtime.inquiries.tick();
    crate::scripts::tick(runtime);
    crate::scripts::tick_forwarded(runtime);
    if every(PLACE_TICKS) {
        step(ControlInput::AddReplicas(placement::gossip(runtime, peers)));
    }
    if every(REMIND_TICKS) {
        digests::remind(&survey::quarantined(runtime));
    }
    let has_stalled = every(DISK_TICKS) && watch_disk(runtime);
    if (has_stalled || every(DECIDE_TICKS)) && placement::may_place(&runtime.clock) {
        step(ControlInput::PlanPlacement(placement::gossip_with_names(runtime, peers)));
    }
    if every(SPREAD_TICKS) && !peers.balances {
        step(ControlInput::SpreadLeaders(placement::gossip(runtime, peers)));
    }
}

/// Gossips at once that the disk has become slow, or is not slow any more. Whether it has become
/// slow.
fn watch_disk(runtime: &NodeRuntime) -> bool {
    let change = runtime.disk_pace.watch(&runtime.log);
    if change.is_some() {
        survey::publish(runtime);
    }
    change == Some(true)
}

/// Leads as few shards as it can: before it stops. Returns when others lead, or after `timeout`.
pub fn hand_over(runtime: &NodeRuntime, timeout: Duration) {
    let Some(peers) = &runtime.peers else { return };
    let until = Instant::now() + timeout;
    let mut asked = BTreeSet::new();
    loop {
        let targets = transfer_targets(runtime, peers);
        for &(shard, to) in &targets {
            if asked.insert(shard) {
                runtime.submit(shard, Input::Transfer { shard, to });
            }
        }
        if targets.is_empty() || Instant::now() >= until {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Shards that this node leads, each with the replica that should take over.
fn transfer_targets(runtime: &NodeRuntime, peers: &Peers) -> Vec<(ShardId, ReplicaId)> {
    let mut found = Vec::new();
    runtime.each_executor(|executor| {
        let may = |node| peers.cluster.is_connected(node);
        let best = |targets: Vec<ReplicaId>| targets.first().copied();
        let targets =
            executor.shards().map(|shard| (shard.id(), best(shard.transfer_targets(may))));
        found.extend(targets.filter_map(|(shard, target)| Some((shard, target?))));
    });
    found
}
