//! A node is drained.

use std::path::Path;

use super::{AFTER, Scale, baseline, settle, until_empty};
use crate::Outcome;
use crate::rearrange::fleet::Fleet;
use crate::rearrange::judge;
use crate::rearrange::live_cluster::{LiveCluster, RunRecord};
use crate::rearrange::timeline::Figure;

pub(super) fn play(
    mut stage: LiveCluster,
    scale: &Scale,
    logs: &Path,
) -> Outcome<(RunRecord, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let node = stage.setup.nodes;
    let bytes = stage.last().node(node).map_or(0, |node| node.bytes);
    let from = stage.mark(format!("node {node} is drained"));
    stage.fleet.post(1, &format!("/v1/nodes/{}/drain", Fleet::name(node)), "{}")?;
    stage.drained.push(node);
    let until = until_empty(&mut stage, node)?;
    let rest = settle(&mut stage, scale);
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    figures.push(judge::drain(&seen, bytes, until - from));
    figures.push(judge::settled("drained", rest.is_so, rest.at_s - from));
    figures.push(judge::lowest_second(&seen, "the drain", alone, (from, until)));
    figures.extend(judge::rate(&seen));
    figures.extend(judge::failures(&seen, true));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
