//! How do nodes stand in the cluster: who may get replicas, and who is to lose them?
//!
//! ```text
//!   member ⇄ cordoned ⇄ draining ──► removed
//!      ⇅───────────────────⇅           for ever
//! ```
//!
//! | standing | gets new replicas | keeps those it has | may speak with others |
//! |---|---|---|---|
//! | member | yes | yes | yes |
//! | cordoned | no | yes | yes |
//! | draining | no | no: they move elsewhere | yes |
//! | removed | no | has none | no |
//!
//! Nearly all nodes are members, so those are not stored. Whether a node is up is not known here,
//! nor whether it has replicas: who asks for its removal has looked, and a node that is draining
//! gets no more. Each op brings the nodes that are up ([`super::CatalogueOp::Node`]), and by them
//! it is judged whether enough are left: a pure function of state and entry (SAFETY G3).

use std::collections::{BTreeMap, BTreeSet};

use super::{Catalogue, CatalogueError, Keyspace};
use crate::ids::NodeId;

/// The most nodes that may stand otherwise than as members; removed ones count for ever.
pub const ADMIN_STATES_MAX: usize = 8192;
/// The most nodes that an op may bring.
pub const REMAINING_NODES_MAX: usize = 1024;

/// How a node stands in its cluster. See the table on the front page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminState {
    /// It takes its part.
    #[default]
    Member,
    /// It keeps its replicas and gets no more.
    Cordoned,
    /// It gets no more, and those it has are to move elsewhere.
    Draining,
    /// It is gone for good.
    Removed,
}

impl AdminState {
    /// The word for it, on the wire and for people.
    pub fn word(self) -> &'static str {
        match self {
            AdminState::Member => "member",
            AdminState::Cordoned => "cordoned",
            AdminState::Draining => "draining",
            AdminState::Removed => "removed",
        }
    }

    /// Whether new replicas may come to such a node.
    pub fn takes_replicas(self) -> bool {
        self == AdminState::Member
    }

    /// Whether replicas that are on such a node may stay there.
    pub fn keeps_replicas(self) -> bool {
        matches!(self, AdminState::Member | AdminState::Cordoned)
    }
}

/// How nodes stand: members are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminStates(BTreeMap<NodeId, AdminState>);

impl AdminStates {
    /// How a node stands.
    pub fn of(&self, node: NodeId) -> AdminState {
        self.0.get(&node).copied().unwrap_or_default()
    }

    /// Those that are no members, by id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, AdminState)> + '_ {
        self.0.iter().map(|(node, admin_state)| (*node, *admin_state))
    }

    /// Those that are gone for good, by id.
    pub fn removed(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.iter()
            .filter(|(_, admin_state)| *admin_state == AdminState::Removed)
            .map(|(node, _)| node)
    }

    /// How many are no members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all are members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes how a node stands. Nothing is judged: for those who follow a catalogue.
    pub fn set(&mut self, node: NodeId, admin_state: AdminState) {
        match admin_state {
            AdminState::Member => self.0.remove(&node),
            other => self.0.insert(node, other),
        };
    }
}

impl Catalogue {
    /// How nodes stand.
    pub fn admin_states(&self) -> &AdminStates {
        &self.admin_states
    }

    /// How a node stands.
    pub fn admin_state(&self, node: NodeId) -> AdminState {
        self.admin_states.of(node)
    }

    /// Has a node stand otherwise. What is so already may be asked for again. `among` are the nodes
    /// that are up; one that is not up itself takes nothing away by leaving.
    ///
    /// # Errors
    /// `NodeRemoved`, `NotDraining`, `TooFewNodes`, `LastNode`, `TooManyStandings`.
    pub fn set_admin_state(
        &mut self,
        node: NodeId,
        to: AdminState,
        among: &BTreeSet<NodeId>,
    ) -> Result<(), CatalogueError> {
        let from = self.admin_states.of(node);
        match (from, to) {
            _ if from == to => return Ok(()),
            (AdminState::Removed, _) => return Err(CatalogueError::NodeRemoved { node }),
            (_, AdminState::Member) | (AdminState::Draining, _) => {}
            (_, AdminState::Removed) => {
                return Err(CatalogueError::NotDraining { node, admin_state: from });
            }
            (_, AdminState::Cordoned | AdminState::Draining) => self.check_enough(node, among)?,
        }
        let is_new = from == AdminState::Member;
        if is_new && self.admin_states.len() >= ADMIN_STATES_MAX {
            return Err(CatalogueError::TooManyAdminStates);
        }
        self.admin_states.set(node, to);
        Ok(())
    }

    /// Whether those that are left when a node gets no more replicas can hold every keyspace.
    fn check_enough(&self, node: NodeId, among: &BTreeSet<NodeId>) -> Result<(), CatalogueError> {
        if !among.contains(&node) {
            return Ok(());
        }
        let takes = |other: &&NodeId| **other != node && self.admin_state(**other).takes_replicas();
        let left = among.iter().filter(takes).count() as u64;
        // The first by name, of those that ask for most.
        let most = self.keyspaces.values().rev().max_by_key(|keyspace| keyspace.options.replicas);
        match most {
            Some(Keyspace { name, options, .. }) if u64::from(options.replicas) > left => {
                let (keyspace, replicas) = (name.clone(), options.replicas);
                Err(CatalogueError::TooFewNodes { keyspace, replicas, left })
            }
            _ if left == 0 => Err(CatalogueError::LastNode),
            _ => Ok(()),
        }
    }
}
