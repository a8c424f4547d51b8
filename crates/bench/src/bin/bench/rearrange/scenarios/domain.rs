//! All nodes of a failure domain are killed at once, and come back.
//!
//! Every shard has one replica in each domain, so none loses its majority. While the domain is
//! down, its replicas are replaced in the others, two of a shard in one. When it is back, replicas
//! spread again: `carillon prove` says whether the cluster could lose any one domain.

use std::path::Path;

use super::{AFTER, Scale, baseline, settle, until};
use crate::Outcome;
use crate::rearrange::fleet::Fleet;
use crate::rearrange::judge;
use crate::rearrange::live_cluster::{LiveCluster, RunRecord};
use crate::rearrange::timeline::Figure;

/// How many there are.
pub(super) const DOMAINS: usize = 3;

pub(super) fn play(
    mut stage: LiveCluster,
    scale: &Scale,
    logs: &Path,
) -> Outcome<(RunRecord, Vec<Figure>)> {
    until("no domain has two replicas of a shard", scale.settle, || {
        can_lose_a_domain(&stage.fleet)
    })?;
    let alone = baseline(&mut stage, scale);
    // The founder is among them.
    let nodes: Vec<usize> =
        (1..=stage.setup.nodes).filter(|node| stage.fleet.domain(*node) == 1).collect();
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let names = names.join(" and ");
    let from = stage.mark(format!("nodes {names} are killed"));
    stage.fleet.kill_all(&nodes)?;
    let replaced = settle(&mut stage, scale);
    let back = stage.mark(format!("nodes {names} return"));
    stage.fleet.start_all(&nodes)?;
    let end = settle(&mut stage, scale);
    let parts = until("no domain has two replicas of a shard", scale.settle, || {
        can_lose_a_domain(&stage.fleet)
    });
    if parts.is_ok() {
        stage.mark("any one domain can be lost");
    }
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    let what = "a domain is killed";
    figures.push(judge::waits(&seen, what, (from, replaced.known_s), &[], judge::SILENCE_MAX_S));
    figures.push(judge::settled(what, replaced.is_so, replaced.at_s - from));
    let what = "it returns";
    figures.push(judge::waits(&seen, what, (back, end.known_s), &[], judge::SILENCE_MAX_S));
    figures.push(judge::settled(what, end.is_so, end.at_s - back));
    let can_be_lost = f64::from(u8::from(parts.is_ok()));
    figures.push(Figure::at_least("any one domain can be lost again", can_be_lost, "", 1.0));
    figures.extend(judge::evenness(&seen, &[]));
    figures.extend(judge::failures(&seen, false));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}

fn can_lose_a_domain(fleet: &Fleet) -> Outcome<bool> {
    let node = *fleet.running().last().ok_or("nobody runs")?;
    Ok(fleet.run(&["prove", "--survive", "domain"], node)?.0)
}
