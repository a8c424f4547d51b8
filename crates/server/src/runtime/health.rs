//! The node's health verdict, with its reasons in words.
//!
//! It covers shards of which this node has a replica: of others it knows nothing for sure.
//!
//! - A shard is **failing** when no leader is known, or when this node is elected and cannot lead.
//! - It is **degraded** when it has fewer live voters than its keyspace asks for, as a voter here
//!   sees it, or when a local leader has a lagging voter ([`lagging_replicas`]).
//!
//! So an operator who is about to stop a node asks all other nodes: each answers for the shards
//! that it leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Health, Verdict};
use keyspace::{NodeId, ReplicaId, ShardId};
use node::replica::ShardReport;

use super::survey::{ShardView, name_of, quarantined};
use super::{NodeRuntime, lagging_replicas, readiness, wall_millis};
use crate::cluster::MemberInfo;
use crate::peer::PeerCounters;

/// How many reasons are listed; the number of further ones is given too.
const REASONS_MAX: usize = 8;
/// How long health reports that a message was too long; such messages are tried again.
const TOO_LONG_FOR_MS: u64 = 60_000;
/// Shards that a reason names.
const NAMED_MAX: usize = 6;

/// Judges what a survey has seen.
pub(super) fn assess(
    runtime: &NodeRuntime,
    shards: &[ShardView],
    members: &[MemberInfo],
    up: &BTreeSet<NodeId>,
) -> Health {
    let mut reasons = Reasons::default();
    if let Some(why) = readiness::not_ready(runtime) {
        reasons.add(Verdict::Failing, format!("this node does not serve: {why}"));
    }
    judge_shards(shards, members, up, &mut reasons);
    if runtime.lifecycle.is_ready() {
        judge_unreached(runtime, shards, &mut reasons);
    }
    judge_clock(runtime, &mut reasons);
    judge_quarantined(&quarantined(runtime), &mut reasons);
    if let Some(peers) = &runtime.peers {
        let counters = peers.cluster.counters().peers;
        judge_messages(&counters, members, wall_millis(), &mut reasons);
    }
    if runtime.log.facts().full {
        let why = "the disk of this node is full: writes to shards that it leads are refused until \
                   there is room";
        reasons.add(Verdict::Degraded, why.into());
    }
    if runtime.memory.is_full() {
        let why = "memory is full: this node refuses writes that need more";
        reasons.add(Verdict::Degraded, why.into());
    }
    reasons.finish()
}

fn judge_clock(runtime: &NodeRuntime, reasons: &mut Reasons) {
    if let Some(ahead) = runtime.clock.wrong_millis() {
        let why = format!(
            "the clock of this node is {ahead} ms ahead of the median of its peers: set it right, \
             and start the node again"
        );
        reasons.add(Verdict::Degraded, why);
    }
    if let Some(why) = runtime.clock.why_ahead(runtime.peers.is_some()) {
        reasons.add(Verdict::Degraded, why);
    }
}

fn judge_quarantined(quarantined: &[(ShardId, ReplicaId)], reasons: &mut Reasons) {
    if quarantined.is_empty() {
        return;
    }
    let names = quarantined.iter().take(NAMED_MAX);
    let names = names.map(|(shard, replica)| format!("{replica} of shard {shard}"));
    let why = format!(
        "{} replicas here are quarantined and wait to be replaced ({}), which takes a majority of \
         the others: this node's disk or memory may be faulty",
        quarantined.len(),
        names.collect::<Vec<_>>().join(", ")
    );
    reasons.add(Verdict::Degraded, why);
}

/// Names the nodes that shards without a leader lack, and why they cannot be reached.
/// [`readiness`] does so itself.
fn judge_unreached(runtime: &NodeRuntime, shards: &[ShardView], reasons: &mut Reasons) {
    let unled =
        |seen: &&ShardView| seen.report.as_ref().is_some_and(|r| r.leaderless_for_nanos() > 0);
    let replicas = shards.iter().filter(unled).flat_map(|seen| &seen.descriptor.replicas);
    let nodes: BTreeSet<NodeId> = replicas.map(|(_, node)| *node).collect();
    if !nodes.is_empty() {
        let why = "replicas of shards that nobody leads are not there";
        let unreached = readiness::with_unreached(runtime, why.into(), Some(&nodes));
        if unreached != why {
            reasons.add(Verdict::Failing, unreached);
        }
    }
}

/// Names nodes that could not take a recent message: their version does not support its length.
fn judge_messages(
    counters: &[(NodeId, Arc<PeerCounters>)],
    members: &[MemberInfo],
    now_ms: u64,
    reasons: &mut Reasons,
) {
    for (node, counters) in counters {
        let at = counters.too_long_millis.get();
        if at > 0 && now_ms.saturating_sub(at) < TOO_LONG_FOR_MS {
            let why = format!(
                "a message is too long for {}, which runs an older version: replication or reads \
                 are stuck. Upgrade that node, or delete the long value",
                name_of(*node, members)
            );
            reasons.add(Verdict::Degraded, why);
        }
    }
}

/// Reports problems of shards: once for all shards of a keyspace with the same problem.
fn judge_shards(
    shards: &[ShardView],
    members: &[MemberInfo],
    up: &BTreeSet<NodeId>,
    reasons: &mut Reasons,
) {
    let mut unled: BTreeMap<(Option<&str>, bool), Vec<&ShardView>> = BTreeMap::new();
    let mut weak: BTreeMap<(Option<&str>, usize), Vec<&ShardView>> = BTreeMap::new();
    for seen in shards.iter().filter(|seen| seen.report.is_some()) {
        let keyspace = seen.keyspace.as_deref();
        if seen.verdict() == Verdict::Failing {
            let is_stalled = seen.report.as_ref().is_some_and(ShardReport::is_stalled);
            unled.entry((keyspace, is_stalled)).or_default().push(seen);
        }
        if seen.is_under_replicated() {
            weak.entry((keyspace, seen.live)).or_default().push(seen);
        }
    }
    for seen in shards.iter().filter(|seen| seen.disagrees()) {
        let why = format!(
            "replicas of {} hold different states and no majority agrees: stop writing to it, keep \
             copies of the directories, and see docs/operations.md",
            named(seen.keyspace.as_deref(), &[seen])
        );
        reasons.add(Verdict::Degraded, why);
    }
    for ((keyspace, is_stalled), shards) in unled {
        reasons.add(Verdict::Failing, leaderless_reason(keyspace, is_stalled, &shards));
    }
    lagging_replicas::write_reasons(shards, members, |why| reasons.add(Verdict::Degraded, why));
    for ((keyspace, live), shards) in weak {
        let missing: BTreeSet<NodeId> = shards.iter().flat_map(|seen| seen.missing(up)).collect();
        let mut missing: Vec<String> = missing.iter().map(|node| name_of(*node, members)).collect();
        missing.sort_unstable();
        reasons.add(Verdict::Degraded, under_replicated_reason(keyspace, live, &shards, &missing));
    }
}

/// These shards have no leader that gets anything done.
fn leaderless_reason(keyspace: Option<&str>, is_stalled: bool, shards: &[&ShardView]) -> String {
    let nanos = shards.iter().filter_map(|seen| Some(seen.report.as_ref()?.leaderless_for_nanos()));
    let seconds = nanos.max().unwrap_or(0) as f64 / 1e9;
    let named = named(keyspace, shards);
    match is_stalled {
        false => format!(
            "no leader of {named} for {seconds:.1} s: requests for it are not done until a \
             majority of its replicas elects one"
        ),
        true => format!(
            "this node leads {named}, and has committed nothing there for {seconds:.1} s: requests \
             for it are not done until a majority of its replicas answers and writes its entries"
        ),
    }
}

/// These shards have `live` replicas, fewer than they should: `missing` are the other nodes.
fn under_replicated_reason(
    keyspace: Option<&str>,
    live: usize,
    shards: &[&ShardView],
    missing: &[String],
) -> String {
    let wanted = shards.iter().map(|seen| seen.replicas_wanted).max().unwrap_or(0);
    let because = match missing.is_empty() {
        true => "further nodes are needed, or still catch up".to_owned(),
        false => format!("missing: {}", missing.join(", ")),
    };
    format!("{live} of {wanted} replicas of {} are live ({because})", named(keyspace, shards))
}

fn named(keyspace: Option<&str>, shards: &[&ShardView]) -> String {
    let Some(keyspace) = keyspace else { return "the catalogue of keyspaces (shard 0)".into() };
    let mut ids: Vec<String> = shards.iter().map(|seen| seen.id().to_string()).collect();
    let more = ids.len().saturating_sub(NAMED_MAX);
    ids.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let word = if shards.len() == 1 { "shard" } else { "shards" };
    format!("{word} {}{more} of keyspace \"{keyspace}\"", ids.join(", "))
}

/// The reasons found so far.
#[derive(Default)]
struct Reasons(Vec<(Verdict, String)>);

impl Reasons {
    fn add(&mut self, verdict: Verdict, why: String) {
        self.0.push((verdict, why));
    }

    /// The worst first.
    fn finish(mut self) -> Health {
        self.0.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
        let verdict = self.0.first().map_or(Verdict::Ok, |(verdict, _)| *verdict);
        let more = self.0.len().saturating_sub(REASONS_MAX);
        self.0.truncate(REASONS_MAX);
        let mut reasons: Vec<String> = self.0.into_iter().map(|(_, why)| why).collect();
        if more > 0 {
            reasons.push(format!("and {more} more"));
        }
        Health { verdict, reasons }
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
