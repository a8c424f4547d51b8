//! Nodes join, one by one.

use std::path::Path;

use super::{AFTER, Scale, baseline, settle};
use crate::Outcome;
use crate::rearrange::judge;
use crate::rearrange::stage::{Seen, Stage};
use crate::rearrange::timeline::Figure;

pub(super) fn play(mut stage: Stage, scale: &Scale, logs: &Path) -> Outcome<(Seen, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let (first, replicas) = (stage.setup.nodes + 1, stage.setup.replicas);
    let mut windows = Vec::new();
    for node in first..first + scale.joins {
        let from = stage.mark(format!("node {node} joins"));
        stage.fleet.release(node)?;
        windows.push((node, (from, settle(&mut stage, scale.settle, replicas).0)));
        stage.wait(AFTER);
    }
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    for (node, window) in windows {
        figures.push(judge::throughput(&seen, &format!("node {node} joins"), alone, window));
    }
    figures.extend(judge::evenness(&seen, &[]));
    figures.extend(judge::rate(&seen));
    figures.extend(judge::failures(&seen, true));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
