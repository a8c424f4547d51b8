//! The network is partitioned, two nodes from three, without any error. Clients reach all nodes.
//!
//! With five replicas every shard has its majority on the side of three. During the partition, one
//! of the three is asked to split a shard, and another to create a keyspace. Both must succeed, and
//! clients of the three go on. Clients of the other two wait until the network is healed.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{AFTER, Scale, baseline, settle_with, until};
use crate::Outcome;
use crate::rearrange::fleet::Fleet;
use crate::rearrange::judge;
use crate::rearrange::live_cluster::{LiveCluster, RunRecord};
use crate::rearrange::timeline::Figure;

/// Of every shard: one on each node.
pub(super) const REPLICAS: u64 = 5;
/// Of a keyspace that is made.
const SHARDS: usize = 8;
/// Who is cut off,
const MINORITY: [usize; 2] = [1, 2];
/// and from whom.
const MAJORITY: [usize; 3] = [3, 4, 5];
/// Seconds in which it is parted, before anything is asked for and after that was done.
const PARTITION_S: u64 = 4;
/// What is asked for while it is parted is done after so long, in seconds.
const DONE_MAX_S: f64 = 5.0;
/// Longer than anything takes that is asked for.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// Those that were cut off are served again after so long, in seconds: connections begin again
/// when TCP tries again.
const SERVED_MAX_S: f64 = 5.0;

pub(super) fn play(
    mut stage: LiveCluster,
    scale: &Scale,
    logs: &Path,
) -> Outcome<(RunRecord, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let from = stage.mark("a partition separates nodes 1, 2 from nodes 3, 4, 5");
    stage.fleet.part(&MINORITY, &MAJORITY);
    stage.wait(PARTITION_S);
    stage.mark("an operator asks for a split");
    let cut_s = cut(&stage.fleet)?;
    stage.mark("the shard has split");
    let made_s = make_keyspace(&stage.fleet)?;
    stage.mark("an operator creates a keyspace");
    stage.wait(PARTITION_S);
    let healed = stage.mark_end("the network is healed");
    stage.fleet.heal();
    let more = 1 + SHARDS as u64;
    let (replicas, shards) = (stage.setup.replicas + REPLICAS * more, stage.setup.shards + more);
    let rest = settle_with(&mut stage, scale, replicas, shards);
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    let parted = (from, healed);
    figures.push(judge::waits(
        &seen,
        "parted, nodes 3 to 5",
        parted,
        &MAJORITY,
        judge::SILENCE_MAX_S,
    ));
    figures.push(judge::none_fails(&seen, "parted, nodes 3 to 5", parted, &MAJORITY));
    figures.push(judge::answered(&seen, "parted, nodes 3 to 5", parted, &MAJORITY));
    figures.push(judge::is_cut_off(&seen, "parted, nodes 1 and 2", parted, &MINORITY));
    figures.push(Figure::at_most("parted: a shard is cut after", cut_s, "s", DONE_MAX_S));
    figures.push(Figure::at_most("parted: a keyspace is made after", made_s, "s", DONE_MAX_S));
    let what = "healed, nodes 1 and 2";
    figures.push(judge::served_again(&seen, what, healed, &MINORITY, SERVED_MAX_S));
    let what = "healed, nodes 3 to 5";
    let window = (healed, rest.known_s);
    figures.push(judge::waits(&seen, what, window, &MAJORITY, judge::SILENCE_MAX_S));
    figures.push(judge::none_fails(&seen, what, window, &MAJORITY));
    figures.push(judge::settled("healed", rest.is_so, rest.at_s - healed));
    figures.extend(judge::evenness(&seen, &[]));
    figures.extend(judge::failures(&seen, false));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}

/// Has a keyspace made, and waits until all who can know it to be led; how long it took, in
/// seconds.
fn make_keyspace(fleet: &Fleet) -> Outcome<f64> {
    let began = Instant::now();
    fleet.post(MAJORITY[1], "/v1/keyspaces", r#"{"name":"parted"}"#)?;
    let is_led = |node: &usize| -> Outcome<bool> {
        // A node that has not heard of it yet says that there is none.
        let Ok(shards) = fleet.get(*node, "/v1/shards?keyspace=parted") else { return Ok(false) };
        let shards = shards["shards"].as_array().into_iter().flatten();
        Ok(shards.filter(|shard| shard["without_leader_ms"] == 0).count() == SHARDS)
    };
    until("a keyspace is led", STEP_TIMEOUT, || {
        MAJORITY.iter().try_fold(true, |all, node| Ok(all && is_led(node)?))
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// Has a shard cut that is led among those who can, and waits until all of them know both halves;
/// how long it took, in seconds.
fn cut(fleet: &Fleet) -> Outcome<f64> {
    let mut right = None;
    let mut asked = MAJORITY.iter().cycle();
    let is_done = || -> Outcome<bool> {
        if right.is_none() {
            right = asked.next().map_or(Ok(None), |node| ask_for_cut(fleet, *node))?;
        }
        let Some(right) = right else { return Ok(false) };
        let mut all = true;
        for node in MAJORITY {
            let shards = fleet.get(node, "/v1/shards")?;
            let mut shards = shards["shards"].as_array().into_iter().flatten();
            all &= shards.any(|shard| shard["id"] == right && shard["without_leader_ms"] == 0);
        }
        Ok(all)
    };
    until("a shard is cut", STEP_TIMEOUT, is_done)
}

/// Asks a node to cut one of the shards that it leads; which half is new, if it will be done.
fn ask_for_cut(fleet: &Fleet, node: usize) -> Outcome<Option<u64>> {
    let shards = fleet.get(node, "/v1/shards?keyspace=0")?;
    let all = shards["shards"].as_array().into_iter().flatten();
    let led = all.filter(|shard| shard["leader"] == shards["node"]);
    for shard in led {
        // It may be busy, or led by another by now.
        if let Ok(said) = fleet.post(node, &format!("/v1/shards/{}/split", shard["id"]), "{}") {
            return Ok(said["right"].as_u64());
        }
    }
    Ok(None)
}
