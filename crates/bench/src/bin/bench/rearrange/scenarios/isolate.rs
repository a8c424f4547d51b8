//! Two nodes in turn are cut off from all others, while their clients still reach them: they lead
//! shards, and do not know yet that others have been elected. Then one link loses all frames in one
//! direction.
//!
//! Clients of other nodes go on. Requests at a node that is cut off wait. After the one-way cut,
//! requests at either end of that link wait for shards that the other end leads: a node forwards
//! nothing through a third node.

use std::path::Path;

use super::{AFTER, Convergence, Scale, baseline, settle};
use crate::Outcome;
use crate::rearrange::judge;
use crate::rearrange::live_cluster::{LiveCluster, RunRecord};
use crate::rearrange::timeline::Figure;

/// Seconds for which each is cut off.
const CUT: u64 = 6;
/// How many are, in turn.
const TURNS: usize = 2;
/// Those that asked who was cut off are served again after so long, in seconds: connections begin
/// again when TCP tries again.
const RECONNECT_MAX_S: f64 = 5.0;

pub(super) fn play(
    mut stage: LiveCluster,
    scale: &Scale,
    logs: &Path,
) -> Outcome<(RunRecord, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let all = stage.fleet.running();
    let mut turns: Vec<(usize, f64, f64, Convergence)> = Vec::new();
    for _ in 0..TURNS {
        // Who leads most, of those whose turn it has not been.
        let sample = stage.last();
        let left =
            sample.nodes.iter().filter(|node| !turns.iter().any(|(one, ..)| *one == node.node));
        let most = left.max_by_key(|node| node.leaders).ok_or("nobody answers")?;
        let node = most.node;
        let from = stage.mark(format!("node {node}, which leads {}, is cut off", most.leaders));
        stage.fleet.isolate(node);
        stage.wait(CUT);
        let healed = stage.mark_end(format!("node {node} is back"));
        stage.fleet.heal();
        turns.push((node, from, healed, settle(&mut stage, scale)));
    }
    let (here, there) = (all[all.len() - 2], all[all.len() - 1]);
    let from = stage.mark(format!("node {there} does not hear node {here}"));
    stage.fleet.silence(here, there);
    stage.wait(CUT);
    let healed = stage.mark_end("it does again");
    stage.fleet.heal();
    let rest = settle(&mut stage, scale);
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    for (node, from, healed, rest) in turns {
        let others: Vec<usize> = all.iter().copied().filter(|other| *other != node).collect();
        let what = format!("node {node} is cut off, other nodes");
        let window = (from, rest.known_s);
        figures.push(judge::waits(&seen, &what, window, &others, judge::SILENCE_MAX_S));
        figures.push(judge::none_fails(&seen, &what, window, &others));
        let what = format!("node {node} is cut off, its clients");
        figures.push(judge::is_cut_off(&seen, &what, (from, healed), &[node]));
        let what = format!("node {node} is back");
        figures.push(judge::served_again(&seen, &what, healed, &[node], RECONNECT_MAX_S));
        figures.push(judge::settled(&what, rest.is_so, rest.at_s - healed));
    }
    let ends = [here, there];
    let others: Vec<usize> = all.into_iter().filter(|other| !ends.contains(other)).collect();
    let what = format!("node {there} does not hear node {here}, other nodes");
    let window = (from, rest.known_s);
    figures.push(judge::waits(&seen, &what, window, &others, judge::SILENCE_MAX_S));
    figures.push(judge::none_fails(&seen, &what, window, &others));
    let what = format!("node {there} does not hear node {here}, clients of both");
    figures.push(judge::answered(&seen, &what, (from, healed), &ends));
    let what = "it does again";
    figures.push(judge::served_again(&seen, what, healed, &ends, RECONNECT_MAX_S));
    figures.push(judge::settled(what, rest.is_so, rest.at_s - healed));
    figures.extend(judge::failures(&seen, false));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
