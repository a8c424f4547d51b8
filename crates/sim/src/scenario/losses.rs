//! Power fails: at nodes one by one, at all, in a failure domain, at one that is replaced
//! meanwhile.

use keyspace::ShardId;

use super::Run;
use crate::check::Violation;
use crate::cluster::{ScenarioSetup, World};

/// Virtual time within which lost replicas are replaced, and load is balanced.
const REPLACED_MS_MAX: u64 = 60_000;
/// How long clients ask before anything happens, and while something is as it should not be.
const MEANWHILE_MS: u64 = 2_000;

/// One after the other nine of twenty nodes lose their power, each when the shards of the one
/// before have been replaced; after a while they have it back, one after the other.
pub(super) fn nine_of_twenty(run: &mut Run<'_>) -> Result<(), Violation> {
    let keyspaces = run.of(2, 4);
    let (nodes, lost) = run.of((10, 4), (20, 9));
    run.world(
        &ScenarioSetup { nodes, keyspaces, domains: 0, is_ordered: false, is_linear: false },
        |world| {
            world.found(keyspaces, REPLACED_MS_MAX)?;
            world.serve(MEANWHILE_MS, 10)?;
            let places = (0..world.count()).collect();
            let gone = world.rng.some(lost, places);
            for at in &gone {
                world.power_off(*at);
                world.serve(MEANWHILE_MS, 1)?;
                world.converge_without_balance(REPLACED_MS_MAX)?;
            }
            world.converge(REPLACED_MS_MAX)?;
            world.serve(MEANWHILE_MS, 10)?;
            for at in &gone {
                world.power_on(*at);
                world.serve(MEANWHILE_MS, 10)?;
            }
            world.converge(REPLACED_MS_MAX)?;
            world.finish()
        },
    )?;
    Ok(())
}

/// The power goes everywhere, twice: the second time before all is well again.
pub(super) fn all_off(run: &mut Run<'_>) -> Result<(), Violation> {
    let nodes = run.of(5, 20);
    run.world(
        &ScenarioSetup { nodes, keyspaces: 2, domains: 0, is_ordered: false, is_linear: false },
        |world| {
            world.found(2, REPLACED_MS_MAX)?;
            world.serve(MEANWHILE_MS, 10)?;
            for dark_ms in [3_000, 50] {
                let all: Vec<usize> = (0..world.count()).collect();
                all.iter().for_each(|at| world.power_off(*at));
                world.pass(dark_ms)?;
                // They do not start at the same moment.
                for at in all {
                    world.power_on(at);
                    let pause_ms = world.rng.below(100);
                    world.pass(pause_ms)?;
                }
                world.pass(MEANWHILE_MS)?;
            }
            world.serve(2 * MEANWHILE_MS, 10)?;
            world.converge(REPLACED_MS_MAX)?;
            world.finish()
        },
    )?;
    Ok(())
}

/// All nodes of one of four domains lose their power: no shard had two replicas there. What is
/// left is spread over three domains, and over four when the fourth is back.
pub(super) fn domain_lost(run: &mut Run<'_>) -> Result<(), Violation> {
    const DOMAINS: usize = 4;
    let nodes = DOMAINS * run.of(2, 5);
    run.world(
        &ScenarioSetup {
            nodes,
            keyspaces: 2,
            domains: DOMAINS,
            is_ordered: false,
            is_linear: false,
        },
        |world| {
            world.found(2, REPLACED_MS_MAX)?;
            world.serve(MEANWHILE_MS, 10)?;
            let lost: Vec<usize> = (0..nodes).filter(|at| at % DOMAINS == 1).collect();
            lost.iter().for_each(|at| world.power_off(*at));
            // All shards have a majority; some elect a leader first.
            world.pass(MEANWHILE_MS)?;
            world.serve(MEANWHILE_MS, 10)?;
            world.converge(REPLACED_MS_MAX)?;
            lost.iter().for_each(|at| world.power_on(*at));
            world.converge(REPLACED_MS_MAX)?;
            world.finish()
        },
    )?;
    Ok(())
}

/// A node with a replica of the system shard and of others is off until all of them have been
/// replaced. It comes back with what it had, which must do no harm, and ends; then it gets others.
pub(super) fn removed_returns(run: &mut Run<'_>) -> Result<(), Violation> {
    let rounds = run.of(2, 5);
    run.world(
        &ScenarioSetup { nodes: 5, keyspaces: 2, domains: 0, is_ordered: false, is_linear: false },
        |world| {
            world.found(2, REPLACED_MS_MAX)?;
            world.serve(MEANWHILE_MS, 10)?;
            for _ in 0..rounds {
                let at = some_holder(world);
                world.power_off(at);
                world.converge_without_balance(REPLACED_MS_MAX)?;
                world.serve(MEANWHILE_MS, 10)?;
                world.power_on(at);
                world.serve(MEANWHILE_MS, 10)?;
                world.converge(REPLACED_MS_MAX)?;
            }
            world.finish()
        },
    )?;
    Ok(())
}

/// A node with a replica of the system shard.
fn some_holder(world: &mut World) -> usize {
    let (mut holders, _) = world.holders(ShardId(0));
    if holders.is_empty() {
        holders.push(0);
    }
    *world.rng.pick(&holders)
}
