//! Nodes leave one by one, each replaced before the next, and come back one by one.
//!
//! Every second one is killed, the others are stopped as operators do. The cluster replaces their
//! replicas before they return, so each node finds replicas in its files that were removed.

use std::path::Path;

use super::{AFTER, Scale, baseline, settle};
use crate::Outcome;
use crate::rearrange::judge;
use crate::rearrange::live_cluster::{LiveCluster, RunRecord};
use crate::rearrange::timeline::Figure;

pub(super) fn play(
    mut stage: LiveCluster,
    scale: &Scale,
    logs: &Path,
) -> Outcome<(RunRecord, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let all = stage.fleet.running();
    // The founder is the first of them.
    let nodes: Vec<usize> = (1..).step_by(3).take(scale.leaves).collect();
    let mut windows = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        let is_killed = place % 2 == 1;
        let what = format!("node {node} {}", if is_killed { "is killed" } else { "leaves" });
        let from = stage.mark(&what);
        match is_killed {
            true => stage.fleet.kill(*node),
            false => stage.fleet.stop(*node)?,
        }
        windows.push((*node, what, is_killed, from, settle(&mut stage, scale)));
    }
    let mut returns = Vec::new();
    for node in nodes {
        let what = format!("node {node} returns");
        let from = stage.mark(&what);
        stage.fleet.start(node)?;
        returns.push((what, from, settle(&mut stage, scale)));
    }
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    for (node, what, is_killed, from, rest) in windows {
        let window = (from, rest.known_s);
        figures.push(judge::waits(&seen, &what, window, &[], judge::SILENCE_MAX_S));
        if !is_killed {
            let others: Vec<usize> = all.iter().copied().filter(|other| *other != node).collect();
            let what = format!("{what}, clients of other nodes");
            figures.push(judge::none_fails(&seen, &what, window, &others));
        }
        figures.push(judge::settled(&what, rest.is_so, rest.at_s - from));
    }
    for (what, from, rest) in returns {
        figures.push(judge::waits(&seen, &what, (from, rest.known_s), &[], judge::SILENCE_MAX_S));
        figures.push(judge::settled(&what, rest.is_so, rest.at_s - from));
    }
    figures.extend(judge::evenness(&seen, &[]));
    figures.extend(judge::failures(&seen, false));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
