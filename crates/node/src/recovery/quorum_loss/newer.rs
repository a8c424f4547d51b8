//! Which part of the circle does each shard that is left keep, beside those that are newer?
//!
//! Two shards that are left may have been at the same places at different times: one of them was
//! split or absorbed while a node was away, and its replica there has not heard of it. The shard
//! with the higher generation has them now; at equal generations, the one with the higher id.
//!
//! ```text
//!   here, from before a split    ●━━━━━━━━━━━━━━━━━━━━━━━○   generation 5
//!   there, its right half                    ●━━━━━━━━━━━○   generation 9
//!   it keeps                     ●━━━━━━━━━━━○
//! ```
//!
//! # Invariants
//! 1. No two shards keep the same place.
//! 2. A shard keeps what begins at its first place, or nothing: then others have absorbed it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use keyspace::{Arc, Cut, NodeId, Placement, ShardId, linear_hash};

use super::{Left, SurvivingReplica, fullest};

/// A shard that keeps something, as its fullest replica knows it.
pub(super) struct Kept<'a> {
    /// The node of the replica, …
    pub node: NodeId,
    /// … which this is.
    pub remains: &'a SurvivingReplica,
    /// The part that it keeps.
    pub arc: Arc,
    /// Where that ends, if newer shards are behind it.
    pub cut: Option<Cut>,
    /// The newer shards at places that it had, if neither they nor it can have all of these.
    pub beside: Option<Vec<ShardId>>,
}

/// What each shard keeps; those that keep nothing are not there.
pub(super) fn kept<'a>(shards: &BTreeMap<ShardId, Left<'a>>) -> BTreeMap<ShardId, Kept<'a>> {
    let whole = shards.iter().filter_map(|(shard, left)| Some((*shard, fullest(left)?)));
    let mut newest_first: Vec<_> = whole.collect();
    // A generation may count a change that was never committed. So at equal ones the right half is
    // newer: it has the higher id.
    newest_first.sort_by_key(|(shard, (_, one))| Reverse((one.generation, *shard)));
    let mut kept: BTreeMap<ShardId, Kept<'a>> = BTreeMap::new();
    for (shard, (node, remains)) in newest_first {
        let Some(arc) = remains.arc() else { continue };
        let newer = kept.iter().filter(|(_, one)| one.arc.overlaps(&arc));
        let newer: Vec<(ShardId, &Arc)> = newer.map(|(id, one)| (*id, &one.arc)).collect();
        if newer.iter().any(|(_, newer)| newer.contains(arc.start())) {
            continue;
        }
        let cut_at = |left: &Arc, (_, newer): &(_, &Arc)| left.split(newer.start());
        let left = newer.iter().fold(arc.clone(), |left, newer| {
            cut_at(&left, newer).map_or(left, |(nearer, _)| nearer)
        });
        let rest = arc.split(left.end()).map(|(_, rest)| rest);
        let cut = rest.as_ref().map(|rest| rest.ends().0);
        let is_complete =
            rest.is_none_or(|rest| can_end(&left, cut.as_ref()) && covers(&newer, rest));
        let beside = (!is_complete).then(|| newer.iter().map(|(id, _)| *id).collect());
        kept.insert(shard, Kept { node, remains, arc: left, cut, beside });
    }
    kept
}

/// Whether a shard can be so much: one of linear hashing is a bucket.
fn can_end(left: &Arc, cut: Option<&Cut>) -> bool {
    let is_linear = cut.is_some_and(|cut| cut.placement() == Placement::LinearHash);
    !is_linear || linear_hash::middle(left).is_some()
}

/// Whether these have all of an arc.
fn covers(arcs: &[(ShardId, &Arc)], mut rest: Arc) -> bool {
    loop {
        let mut arcs = arcs.iter().map(|(_, arc)| *arc);
        let Some(first) = arcs.find(|arc| arc.contains(rest.start())) else { return false };
        match rest.split(first.end()) {
            Some((_, behind)) => rest = behind,
            None => return true,
        }
    }
}
