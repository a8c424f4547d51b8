//! Do replicas share a failure domain while they need not?
//!
//! One replica at a time leaves the domain that holds most of the shard, if another would then
//! hold fewer than this one does now. So with as many domains as replicas each gets its own, and
//! five replicas in two domains end as three and two. This is for safety, so no band and no chance
//! hold it back.

use crate::chance::Chance;
use crate::decide::Plan;
use crate::measure::Rank;
use crate::reason::DecisionReason;
use crate::view::{View, Voter, in_domain, without};

pub(crate) fn part(view: &View<'_>, chance: &mut Chance) -> Option<Plan> {
    let share = |voter: &Voter<'_>| in_domain(&view.retained, voter.domain());
    let most = view.voters.iter().map(share).max().filter(|most| *most > 1)?;

    // Of those that share: the leader last, and the fullest node first.
    let sharing = || view.voters.iter().filter(|voter| share(voter) == most);
    let goes = sharing().max_by_key(|voter| (!voter.leads, Rank(view.fullness(voter))))?;
    let beside = sharing().find(|v| v.domain() == goes.domain() && v.node != goes.node)?;

    let mut candidates = view.candidates();
    candidates.retain(|site| in_domain(&view.retained, Some(site.domain)) + 1 < most);
    let add = view.choose(&without(&view.retained, goes.node), candidates, 1, chance);
    let to = *add.first()?;
    let domain = goes.site?.node.domain.clone();
    let why = DecisionReason::SpreadDomains { node: goes.node, beside: beside.node, domain, to };
    Some(Plan { add, remove: vec![goes.replica], why })
}
