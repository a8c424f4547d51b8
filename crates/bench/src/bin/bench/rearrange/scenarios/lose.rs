//! Nodes are killed one by one; the replicas of each are replaced before the next is killed.

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
    let mut windows = Vec::new();
    // The founder is the first of them.
    for node in (1..).step_by(2).take(scale.losses) {
        let from = stage.mark(format!("node {node} is killed"));
        stage.fleet.kill(node);
        windows.push((node, from, settle(&mut stage, scale)));
    }
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    for (node, from, rest) in windows {
        let what = format!("node {node} is killed");
        figures.push(judge::waits(&seen, &what, (from, rest.known_s), &[], judge::SILENCE_MAX_S));
        figures.push(judge::settled(&what, rest.is_so, rest.at_s - from));
    }
    figures.extend(judge::evenness(&seen, &[]));
    figures.extend(judge::failures(&seen, false));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
