//! Nodes join, one by one.

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
    let first = stage.setup.nodes + 1;
    let mut windows = Vec::new();
    for node in first..first + scale.joins {
        let from = stage.mark(format!("node {node} joins"));
        stage.fleet.release(node)?;
        windows.push((node, from, settle(&mut stage, scale)));
        stage.wait(AFTER);
    }
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    for (node, from, rest) in windows {
        let what = format!("node {node} joins");
        figures.push(judge::throughput(&seen, &what, alone, (from, rest.at_s)));
        figures.push(judge::settled(&what, rest.is_so, rest.at_s - from));
    }
    figures.extend(judge::evenness(&seen, &[]));
    figures.extend(judge::rate(&seen));
    figures.extend(judge::failures(&seen, true));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
