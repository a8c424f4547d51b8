//! Links that break: around a leader, and in one direction.

use super::Run;
use crate::check::Violation;
use crate::cluster::{ScenarioSetup, World};

/// Virtual time within which all is well again.
const REST_MS_MAX: u64 = 60_000;
/// How long clients ask before anything happens.
const BEFORE_MS: u64 = 1_500;
/// How long links are cut: short, so that no node counts as down; and long, so that one does.
const CUT_MS: [u64; 2] = [1_800, 7_000];

/// A leader receives no messages, and clients read all keys at it again and again: its answers must
/// still be linearizable. The others go on without it.
pub(super) fn isolated_leader(run: &mut Run<'_>) -> Result<(), Violation> {
    let rounds = run.of(1, 4);
    run.world(
        &ScenarioSetup { nodes: 5, keyspaces: 1, domains: 0, is_ordered: false, is_linear: false },
        |world| {
            world.found(1, REST_MS_MAX)?;
            world.serve(BEFORE_MS, 10)?;
            for cut_ms in CUT_MS.repeat(rounds) {
                let at = some_leader(world);
                world.cut_off(at);
                world.look_while(at, cut_ms)?;
                world.serve(BEFORE_MS, 1)?;
                world.open_ways();
                world.serve(BEFORE_MS, 5)?;
            }
            world.converge(REST_MS_MAX)?;
            world.finish()
        },
    )?;
    Ok(())
}

/// Between a leader and each other node, first nothing goes there, then nothing comes from there.
pub(super) fn one_way_link(run: &mut Run<'_>) -> Result<(), Violation> {
    let rounds = run.of(1, 3);
    run.world(
        &ScenarioSetup { nodes: 5, keyspaces: 1, domains: 0, is_ordered: false, is_linear: false },
        |world| {
            world.found(1, REST_MS_MAX)?;
            world.serve(BEFORE_MS, 10)?;
            for _ in 0..rounds {
                let at = some_leader(world);
                for other in (0..world.count()).filter(|other| *other != at) {
                    for (from, to) in [(at, other), (other, at)] {
                        world.cut_link(from, to);
                        world.serve(CUT_MS[0], 1)?;
                        world.open_ways();
                    }
                }
            }
            world.converge(REST_MS_MAX)?;
            world.finish()
        },
    )?;
    Ok(())
}

/// A node that leads the shard of a key.
fn some_leader(world: &mut World) -> usize {
    let key = world.rng.below(4);
    world.led_key(key).map_or(0, |(_, at)| at)
}
