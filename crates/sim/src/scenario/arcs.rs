//! Shards are split and become one, and just then something goes wrong. With odd seeds their
//! keyspace is ordered: it has one shard, which is cut before two can become one.

use keyspace::{LinearHashOp, LinearHashRecord};

use super::Run;
use super::changes::at_every_change;
use crate::check::Violation;
use crate::cluster::{ScenarioSetup, World};

/// Virtual time within which all is well again.
const REST_MS_MAX: u64 = 60_000;
/// How long clients ask before anything happens, and while ways are cut.
const BEFORE_MS: u64 = 1_500;
/// How long the change takes, at most, when nothing goes wrong.
const CHANGE_MS: u64 = 300;
/// Within so long a file grows or shrinks by a bucket.
const FILE_MS_MAX: u64 = 20_000;
/// How often it is looked at.
const LOOK_MS: u64 = 20;
/// All replicas are on the same nodes.
const THREE: usize = 3;
const FIVE: usize = 5;

/// The power of each node goes at each change of its disk while a shard is split.
pub(super) fn split_crashes(run: &mut Run<'_>) -> Result<(), Violation> {
    let stage = stage(run, THREE);
    at_every_change(
        run,
        &stage,
        |world| {
            begin(world)?;
            cut_first(world);
            Ok(())
        },
        ends,
    )
}

/// The power of each node goes at each change of its disk while a shard merges with its neighbour.
pub(super) fn merge_crashes(run: &mut Run<'_>) -> Result<(), Violation> {
    let stage = stage(run, THREE);
    at_every_change(
        run,
        &stage,
        |world| {
            begin_halves(world)?;
            take_in_first(world);
            Ok(())
        },
        ends,
    )
}

/// The power of each node goes at each change of its disk while a file grows by a bucket.
pub(super) fn grow_crashes(run: &mut Run<'_>) -> Result<(), Violation> {
    file_crashes(run, LinearHashOp::Grow)
}

/// … and while it shrinks by one.
pub(super) fn shrink_crashes(run: &mut Run<'_>) -> Result<(), Violation> {
    file_crashes(run, LinearHashOp::Shrink)
}

/// The file has three buckets before.
fn file_crashes(run: &mut Run<'_>, act: LinearHashOp) -> Result<(), Violation> {
    let linear = ScenarioSetup { is_ordered: false, is_linear: true, ..stage(run, THREE) };
    at_every_change(
        run,
        &linear,
        |world| {
            begin(world)?;
            for buckets in 2..=3 {
                world.turn_file_to(LinearHashOp::Grow);
                has_buckets(world, buckets)?;
            }
            world.turn_file_to(act);
            Ok(())
        },
        |world, ()| has_buckets(world, if act == LinearHashOp::Grow { 4 } else { 2 }),
    )
}

/// Lets time pass until a file is at rest with so many buckets.
fn has_buckets(world: &mut World, buckets: u64) -> Result<(), Violation> {
    for _ in 0..FILE_MS_MAX / LOOK_MS {
        world.pass(LOOK_MS)?;
        let is_so = |record: &LinearHashRecord| record.step.is_none() && record.buckets == buckets;
        if world.linear_hash_table().as_ref().is_some_and(is_so) {
            return Ok(());
        }
    }
    let text =
        format!("after {FILE_MS_MAX} ms a file has {:?}, not {buckets}", world.linear_hash_table());
    Err(Violation::new("liveness", text))
}

/// By then it is over.
fn ends(world: &mut World, (): ()) -> Result<(), Violation> {
    world.pass(CHANGE_MS)
}

/// A shard splits while one of its followers is isolated, and then its leader.
pub(super) fn split_in_partition(run: &mut Run<'_>) -> Result<(), Violation> {
    in_partition(run, FIVE, begin, cut_first)
}

/// A shard absorbs its neighbour while one of its followers is isolated, and then its leader.
pub(super) fn merge_in_partition(run: &mut Run<'_>) -> Result<(), Violation> {
    in_partition(run, THREE, begin_halves, take_in_first)
}

fn in_partition(
    run: &mut Run<'_>,
    nodes: usize,
    begin: impl Fn(&mut World) -> Result<(), Violation>,
    act: impl Fn(&mut World) -> Option<usize>,
) -> Result<(), Violation> {
    let (rounds, stage) = (run.of(2, 8), stage(run, nodes));
    for round in 0..rounds {
        run.world(&stage, |world| {
            begin(world)?;
            let others = |world: &World, leader| (0..world.count()).filter(move |at| *at != leader);
            if round % 2 == 0 {
                // A follower, from before it begins.
                let leader = world.led_key(0).map_or(0, |(_, at)| at);
                let other = others(world, leader).nth(round as usize / 2 % 2).expect("of three");
                world.cut_off(other);
            }
            let before = world.reshapes_begun;
            let leader = act(world).unwrap_or(0);
            if round % 2 == 1 {
                // The leader, some milliseconds after its shard was told to: an id comes first.
                for _ in 0..CHANGE_MS {
                    if world.reshapes_begun > before {
                        break;
                    }
                    world.pass(1)?;
                }
                world.pass(1 + 2 * round)?;
                world.cut_off(leader);
                world.look_while(leader, BEFORE_MS)?;
            }
            world.serve(BEFORE_MS, 1)?;
            world.open_ways();
            world.serve(BEFORE_MS, 5)?;
            world.converge(REST_MS_MAX)?;
            world.finish()
        })?;
    }
    Ok(())
}

fn stage(run: &Run<'_>, nodes: usize) -> ScenarioSetup {
    let is_ordered = run.options.seed % 2 == 1;
    ScenarioSetup { nodes, keyspaces: 1, domains: 0, is_ordered, is_linear: false }
}

fn begin(world: &mut World) -> Result<(), Violation> {
    world.found(1, REST_MS_MAX)?;
    world.serve(BEFORE_MS, 5)
}

/// Two shards have neighbours: the keyspace begins with several, or is cut.
fn begin_halves(world: &mut World) -> Result<(), Violation> {
    begin(world)?;
    if world.profile().is_ordered {
        cut_first(world);
        world.serve(BEFORE_MS, 5)?;
    }
    Ok(())
}

/// The shard of the first key is cut; who leads it.
fn cut_first(world: &mut World) -> Option<usize> {
    let (shard, at) = world.led_key(0)?;
    world.split_shard(at, shard);
    Some(at)
}

/// The shard of the first key merges with its neighbour, or that of the next key, …; who leads it.
fn take_in_first(world: &mut World) -> Option<usize> {
    let led = (0..4).filter_map(|key| world.led_key(key)).collect::<Vec<_>>();
    let pair = |(left, at): &(_, usize)| world.right_of(*at, *left).map(|_| (*at, *left));
    let (at, left) = led.iter().find_map(pair)?;
    world.merge_right(at, left);
    Some(at)
}
