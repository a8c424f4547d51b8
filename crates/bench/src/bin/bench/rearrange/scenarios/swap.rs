//! A node joins, and at the same moment another one is drained.

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
    let (old, new) = (stage.setup.nodes, stage.setup.nodes + 1);
    let from = stage.mark(format!("node {new} joins, node {old} is drained"));
    stage.fleet.release(new)?;
    stage.fleet.post(1, &format!("/v1/nodes/{}/drain", Fleet::name(old)), "{}")?;
    stage.drained.push(old);
    let empty = until_empty(&mut stage, old)?;
    let rest = settle(&mut stage, scale);
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    figures.push(Figure::told("drained in", empty - from, "s"));
    figures.push(judge::settled("both are done", rest.is_so, rest.at_s - from));
    figures.push(judge::lowest_second(&seen, "both", alone, (from, rest.at_s)));
    let window = (from, rest.known_s);
    figures.push(judge::waits(&seen, "both", window, &[], judge::SILENCE_MAX_S));
    figures.extend(judge::evenness(&seen, &[old]));
    figures.extend(judge::rate(&seen));
    figures.extend(judge::failures(&seen, true));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
