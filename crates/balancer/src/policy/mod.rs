//! Which of several nodes gets the next replica of a shard?
//!
//! A policy only chooses among candidates that are equal in all that comes before it. None has a
//! replica of the shard, none is leaving, and none shares its failure domain with more of the
//! shard's replicas than another. So under every policy no two replicas are on a node, nor in one
//! domain while another is free.
//!
//! | policy | chooses | a shard's places |
//! |---|---|---|
//! | `balanced` | a node at random, weighted by how much it lacks | anywhere |
//! | `successors` | the nodes that follow the shard's arc on the ring | next to each other, as in Chord |
//! | `symmetric` | the node that follows each of `r` equidistant points | spread over the ring, as in Scalaris |
//!
//! The last two leave no choice: wherever loads differ, they stay so. They serve for comparison,
//! and for users who want to compute where a key's replicas are.

use std::fmt;

use keyspace::NodeId;

use crate::chance::Chance;
use crate::nodes::NodeView;
use crate::view::{View, Voter};

pub(crate) mod balanced;
mod ring;
mod successors;
mod symmetric;

pub use ring::place_of;

/// Where new replicas go (front page of the module).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Where there is most room, by bytes and by count.
    #[default]
    Balanced,
    /// On the nodes that follow the shard's arc on the ring.
    Successors,
    /// On nodes at equal distances around the ring.
    Symmetric,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Balanced => "balanced",
            Policy::Successors => "successors",
            Policy::Symmetric => "symmetric",
        })
    }
}

/// A replica that stays, or that has just been given its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetainedReplica {
    pub(crate) node: NodeId,
    pub(crate) domain: Option<u32>,
}

impl From<&Voter<'_>> for RetainedReplica {
    fn from(voter: &Voter<'_>) -> Self {
        Self { node: voter.node, domain: voter.domain() }
    }
}

impl From<&NodeView> for RetainedReplica {
    fn from(site: &NodeView) -> Self {
        Self { node: site.node.id, domain: Some(site.domain) }
    }
}

impl Policy {
    /// Whether a shard's nodes follow from its place, so that loads do not count.
    pub(crate) fn is_fixed(self) -> bool {
        match self {
            Policy::Balanced => false,
            Policy::Successors | Policy::Symmetric => true,
        }
    }

    /// The one of these candidates that it prefers, beside replicas that are kept.
    pub(crate) fn pick<'n>(
        self,
        view: &View<'_>,
        retained: &[RetainedReplica],
        candidates: &[&'n NodeView],
        chance: &mut Chance,
    ) -> Option<&'n NodeView> {
        let (place, wanted) = (view.shard.place, view.shard.wanted_odd());
        match self {
            Policy::Balanced => balanced::pick(view.size, view.nodes.middle(), candidates, chance),
            Policy::Successors => successors::pick(place, candidates),
            Policy::Symmetric => symmetric::pick(place, wanted, retained, candidates),
        }
    }
}
