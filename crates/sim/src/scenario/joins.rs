//! Nodes join: many at once, and while others leave.

use super::Run;
use crate::check::Violation;
use crate::cluster::ScenarioSetup;

/// Virtual time within which all nodes carry their part after many have joined at once.
const JOINED_MS_MAX: u64 = 120_000;
/// … and within which the first nodes do.
const FOUNDED_MS_MAX: u64 = 120_000;
/// How long clients ask before anything happens.
const BEFORE_MS: u64 = 1_500;

/// As many nodes as there are mostly, or a hundred, join at once. There are as many shards as it
/// takes for each node to get a replica.
pub(super) fn joins_into(run: &mut Run<'_>, nodes: usize) -> Result<(), Violation> {
    let (nodes, joining) = match nodes {
        3 => (3, run.of(20, 100)),
        _ => (run.of(20, 100), run.of(20, 100)),
    };
    let keyspaces = 1 + (nodes + joining) / 18;
    run.world(
        &ScenarioSetup { nodes, keyspaces, domains: 0, is_ordered: false, is_linear: false },
        |world| {
            world.found(keyspaces, FOUNDED_MS_MAX)?;
            world.serve(BEFORE_MS, 10)?;
            world.join(joining)?;
            world.converge(JOINED_MS_MAX)?;
            world.serve(BEFORE_MS, 10)?;
            world.finish()
        },
    )?;
    Ok(())
}

/// At one moment three join, two are drained and one loses its power. Those that were drained go
/// for good when they are empty; the other comes back.
pub(super) fn join_and_leave(run: &mut Run<'_>) -> Result<(), Violation> {
    let keyspaces = run.of(1, 3);
    run.world(
        &ScenarioSetup { nodes: 7, keyspaces, domains: 0, is_ordered: false, is_linear: false },
        |world| {
            world.found(keyspaces, FOUNDED_MS_MAX)?;
            world.serve(BEFORE_MS, 10)?;
            world.power_off(1);
            world.join(3)?;
            world.drain(&[2, 3])?;
            world.converge(JOINED_MS_MAX)?;
            world.leave(&[2, 3])?;
            world.serve(BEFORE_MS, 10)?;
            world.power_on(1);
            world.converge(JOINED_MS_MAX)?;
            world.finish()
        },
    )?;
    Ok(())
}
