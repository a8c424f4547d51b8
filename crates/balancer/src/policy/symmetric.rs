//! The circle is cut into as many sectors as replicas are wanted, the first beginning at the
//! shard's place; each replica goes to the first node of its sector (A. Ghodsi's symmetric
//! replication, as in Scalaris: seen from any key, the points `place + i·2^64 / r`).
//!
//! So from a key alone all places of its replicas follow, and none depends on another. A sector
//! without a node gives its replica to the node that lies nearest behind the beginning of another.

use super::RetainedReplica;
use super::ring::distance;
use crate::nodes::NodeView;
use keyspace::NodeId;

pub(super) fn pick<'n>(
    place: u64,
    sectors: usize,
    retained: &[RetainedReplica],
    candidates: &[&'n NodeView],
) -> Option<&'n NodeView> {
    // The sector of a node, and how far behind its beginning the node lies.
    let lies = |node: NodeId| {
        let product = u128::from(distance(place, node)) * sectors as u128;
        ((product >> 64) as u64, product as u64)
    };
    let taken: Vec<u64> = retained.iter().map(|retained| lies(retained.node).0).collect();
    candidates.iter().copied().min_by_key(|site| {
        let (sector, behind) = lies(site.node.id);
        (taken.iter().filter(|other| **other == sector).count(), behind)
    })
}
