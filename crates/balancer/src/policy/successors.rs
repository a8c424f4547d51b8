//! The nodes that follow a shard's arc on the ring, nearest first: Chord's successor lists.
//!
//! A node that joins takes a place in the lists of its neighbours only; one that dies is followed
//! by the next. Arcs between nodes vary, and loads with them: by as much as the mean itself.

use super::ring::distance;
use crate::nodes::NodeView;

pub(super) fn pick<'n>(place: u64, candidates: &[&'n NodeView]) -> Option<&'n NodeView> {
    candidates.iter().copied().min_by_key(|site| distance(place, site.node.id))
}
