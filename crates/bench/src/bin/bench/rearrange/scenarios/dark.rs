//! All nodes are killed at once, and started again at the same moment.
//!
//! What they had written, the kernel still has: a loss of power is more than this.

use std::path::Path;

use super::{AFTER, Scale, baseline, settle};
use crate::Outcome;
use crate::rearrange::judge;
use crate::rearrange::live_cluster::{LiveCluster, RunRecord};
use crate::rearrange::timeline::Figure;

/// Seconds without power.
const OFF: u64 = 3;
/// After so long all clients are served again, in seconds: nodes have to start first.
const SERVED_MAX_S: f64 = 10.0;

pub(super) fn play(
    mut stage: LiveCluster,
    scale: &Scale,
    logs: &Path,
) -> Outcome<(RunRecord, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let nodes = stage.fleet.running();
    stage.mark("all nodes are killed");
    stage.fleet.kill_all(&nodes)?;
    stage.wait(OFF);
    let back = stage.mark_end("all are started");
    stage.fleet.start_all(&nodes)?;
    stage.mark("all are ready");
    let rest = settle(&mut stage, scale);
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    let what = "all are started";
    figures.push(judge::served_again(&seen, what, back, &[], SERVED_MAX_S));
    figures.push(judge::settled(what, rest.is_so, rest.at_s - back));
    figures.extend(judge::evenness(&seen, &[]));
    figures.extend(judge::failures(&seen, false));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
