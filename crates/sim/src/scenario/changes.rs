//! Crashes at every point of a change of replicas.
//!
//! First a world without a crash says how often each disk changes while one replica is exchanged
//! for another; then there is a world for each of these changes, in which just there the power
//! goes. All worlds are the same up to the exchange.

use keyspace::ShardId;

use super::Run;
use crate::check::Violation;
use crate::cluster::{ScenarioSetup, World};

/// Virtual time within which all is well again.
const REST_MS_MAX: u64 = 60_000;
/// How long clients ask before the exchange, and at least after it has begun.
const CHANGE_MS: u64 = 1_500;
/// The stage of all these worlds.
const STAGE: ScenarioSetup =
    ScenarioSetup { nodes: 5, keyspaces: 1, domains: 0, is_ordered: false, is_linear: false };
/// Worlds with a crash in the short form, about.
const SHORT_WORLDS: u64 = 24;

/// The power of each node goes at each change of its disk while a replica is exchanged: a
/// follower's with even seeds, the leader's with odd ones.
pub(super) fn replica_change_crashes(run: &mut Run<'_>) -> Result<(), Violation> {
    let leaves = run.options.seed % 2 == 1;
    let ends = |world: &mut World, shard| world.wait_for_change(shard);
    at_every_change(run, &STAGE, |world| begin(world, leaves), ends)
}

/// First in a world without a crash; then there is a world for each change of a disk between the
/// beginning and the end, in which just there the power goes.
pub(super) fn at_every_change<T>(
    run: &mut Run<'_>,
    stage: &ScenarioSetup,
    begin: impl Fn(&mut World) -> Result<T, Violation>,
    ends: impl Fn(&mut World, T) -> Result<(), Violation>,
) -> Result<(), Violation> {
    let mut changes = Vec::new();
    run.world(stage, |world| {
        let begun = begin(world)?;
        let before = world.changes_of_disks();
        ends(world, begun)?;
        let after = world.changes_of_disks();
        changes = after.iter().zip(before).map(|(after, before)| after - before).collect();
        world.finish()
    })?;
    let all: u64 = changes.iter().sum();
    let step = run.of((all / SHORT_WORLDS).max(1), 1);
    let points = changes.iter().enumerate().flat_map(|(at, n)| (0..*n).map(move |k| (at, k)));
    for (at, change) in points.step_by(step as usize) {
        let played = run.world(stage, |world| {
            begin(world)?;
            world.power_goes(at, change);
            world.pass(CHANGE_MS)?;
            world.finish()
        });
        played.map_err(|Violation { rule, text }| {
            Violation::new(rule, format!("node {at}, change {change} of its disk: {text}"))
        })?;
    }
    Ok(())
}

/// Up to the moment in which the exchange begins.
fn begin(world: &mut World, leaves: bool) -> Result<ShardId, Violation> {
    world.found(STAGE.keyspaces, REST_MS_MAX)?;
    world.serve(CHANGE_MS, 5)?;
    let Some((shard, leader)) = world.led_key(0) else {
        return Err(Violation::new("liveness", "nobody leads the shard of the first key"));
    };
    let (mut holders, others) = world.holders(shard);
    holders.retain(|at| (*at == leader) == leaves);
    if let (Some(from), Some(to)) = (holders.first(), others.first()) {
        world.exchange(shard, *from, *to);
    }
    Ok(shard)
}
