//! Coordinators of transactions over shards die at every step: after every step they send, after
//! every answer they take, and after their clients have been answered.
//!
//! With even seeds a coordinator's node dies with it, some milliseconds later, so that the last
//! step may have left the node or not; with odd seeds the coordinator dies alone. All runs are the
//! same up to that step. Then others want the same keys. Within a bound they must get them, and no
//! lock or record of the transaction may be left. At the end its outcome must agree with the answer
//! that its client got.

use super::{Options, Run};
use crate::check::Violation;
use crate::cluster::{CoordinatorDeath, ScenarioSetup, World};

const STAGE: ScenarioSetup =
    ScenarioSetup { nodes: 3, keyspaces: 1, domains: 0, is_ordered: false, is_linear: false };
/// Virtual time within which all is well.
const REST_MS_MAX: u64 = 60_000;
/// How long clients ask before the transaction begins.
const BEFORE_MS: u64 = 400;
/// How long a transaction, or its end by others, takes at most.
const WHOLE_MS: u64 = 4_000;
/// How long its node outlives a coordinator, at most.
const LATE_MS_MAX: u64 = 8;
/// A transaction takes so many steps at least, or the scenario says nothing; and so many its end by
/// others, of whom one may find what another has decided.
const STEPS_MIN: u32 = 8;
const STEPS_OF_OTHERS_MIN: u32 = 6;
/// Where coordinators die whose transactions are then to be finished: when the client was told,
/// when all shards have been asked, when one has answered, when only two have been asked.
const FIRST_DEATHS: [u32; 4] = [7, 3, 4, 2];

/// A coordinator dies at every step of a transaction that is committed, and of one that is not.
pub(super) fn coordinator_crashes(run: &mut Run<'_>) -> Result<(), Violation> {
    for is_broken in [false, true] {
        let steps = at_every_step(run, |run, steps| {
            let dies = run.options.seed.is_multiple_of(2);
            in_world(run, |world, at| {
                let doomed = world.begin_with_dying_coordinator(at, is_broken, steps)?;
                let has_ended = ends(world, dies, None)?;
                if has_ended {
                    world.run_competing_txn(&doomed)?;
                }
                Ok((doomed, has_ended))
            })
        })?;
        has_steps(steps, STEPS_MIN)?;
    }
    Ok(())
}

/// A coordinator dies, and then every other that finishes what it has left, at every step of that.
pub(super) fn recovery_crashes(run: &mut Run<'_>) -> Result<(), Violation> {
    let mut most = 0;
    for first in &FIRST_DEATHS[..run.of(2, 4)] {
        let steps = at_every_step(run, |run, steps| {
            let dies = run.options.seed.is_multiple_of(2);
            in_world(run, |world, at| {
                let doomed = world.begin_with_dying_coordinator(at, false, *first)?;
                if !ends(world, dies, None)? {
                    return Err(Violation::new("scenario", "no coordinator has died first"));
                }
                let has_ended = ends(world, dies, Some((&doomed, steps)))?;
                world.run_competing_txn(&doomed)?;
                Ok((doomed, has_ended))
            })
        })?;
        most = most.max(steps);
    }
    has_steps(most, STEPS_OF_OTHERS_MIN)
}

fn has_steps(steps: u32, min: u32) -> Result<(), Violation> {
    if steps >= min {
        return Ok(());
    }
    Err(Violation::new("scenario", format!("coordinators are done after {steps} steps")))
}

/// Plays for 0 steps, for 1, …, until no coordinator ends before it is done: how many it took.
fn at_every_step(
    run: &mut Run<'_>,
    play: impl Fn(&mut Run<'_>, u32) -> Result<bool, Violation>,
) -> Result<u32, Violation> {
    let mut steps = 0;
    loop {
        let played = play(run, steps).map_err(|Violation { rule, text }| {
            Violation::new(rule, format!("after {steps} steps: {text}"))
        });
        match played? {
            true => steps += 1,
            false => return Ok(steps),
        }
    }
}

/// A world in which one node is spared by those who ask by themselves.
fn in_world(
    run: &mut Run<'_>,
    play: impl FnOnce(&mut World, usize) -> Result<(CoordinatorDeath, bool), Violation>,
) -> Result<bool, Violation> {
    let at = run.options.seed as usize / 2 % STAGE.nodes;
    let mut has_ended = false;
    let Options { seed, verbose, .. } = *run.options;
    run.in_world(World::for_multi_shard_scenario(seed, &STAGE, verbose), |world| {
        world.found(STAGE.keyspaces, REST_MS_MAX)?;
        world.spare(at);
        world.serve(BEFORE_MS, 1)?;
        let (doomed, ended) = play(world, at)?;
        has_ended = ended;
        world.finish()?;
        world.matches_answer(&doomed)
    })?;
    Ok(has_ended)
}

/// Lets time pass until coordinators have ended, of those who finish another's transaction if they
/// are doomed; and their nodes if they die as well; or so long that there is nothing left that they
/// would do. Whether one has.
fn ends(
    world: &mut World,
    dies: bool,
    finishers: Option<(&CoordinatorDeath, u32)>,
) -> Result<bool, Violation> {
    for _ in 0..WHOLE_MS {
        if let Some((doomed, steps)) = finishers {
            world.kill_recoverers(doomed, steps);
        }
        world.pass(1)?;
        let ended = world.ended_coordinators();
        if ended.is_empty() {
            continue;
        }
        if dies {
            let late = world.rng.below(LATE_MS_MAX);
            world.pass(late)?;
            ended.into_iter().for_each(|at| world.kill(at));
        }
        return Ok(true);
    }
    Ok(false)
}
