//! The admin states of nodes: which may get replicas, and which lose them.
//!
//! ```text
//!   member ⇄ cordoned ⇄ draining ──► removed
//!      ⇅───────────────────⇅           for ever
//! ```
//!
//! | admin state | gets new replicas | keeps those it has | may connect to others |
//! |---|---|---|---|
//! | member | yes | yes | yes |
//! | cordoned | no | yes | yes |
//! | draining | no | no: they move elsewhere | yes |
//! | removed | no | has none | no |
//!
//! Nearly all nodes are members, so those are not stored. The catalogue does not know whether a
//! node is up, or has replicas: the proposer of its removal has checked that, and a draining node
//! gets no more. Each op names the nodes that are up ([`super::CatalogueOp::Node`]), by which apply
//! judges whether enough are left: a pure function of state and entry (SAFETY G3).

use std::collections::{BTreeMap, BTreeSet};

use super::{Catalogue, CatalogueError, Keyspace};
use crate::ids::NodeId;

/// The most nodes that may stand otherwise than as members; removed ones count for ever.
pub const ADMIN_STATES_MAX: usize = 8192;
/// The most nodes that an op may bring.
pub const REMAINING_NODES_MAX: usize = 1024;

/// The admin state of a node. See the table in the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminState {
    /// It takes its part.
    #[default]
    Member,
    /// It keeps its replicas and gets no more.
    Cordoned,
    /// It gets no more replicas, and those it has must move to other nodes.
    Draining,
    /// It is out of the cluster for good.
    Removed,
}

impl AdminState {
    /// Its name, on the wire and in texts.
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
    /// The admin state of a node.
    pub fn of(&self, node: NodeId) -> AdminState {
        self.0.get(&node).copied().unwrap_or_default()
    }

    /// Those that are no members, by id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, AdminState)> + '_ {
        self.0.iter().map(|(node, admin_state)| (*node, *admin_state))
    }

    /// The removed nodes, by id.
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

    /// Sets a node's admin state without checks: for nodes that follow a catalogue.
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

    /// The admin state of a node.
    pub fn admin_state(&self, node: NodeId) -> AdminState {
        self.admin_states.of(node)
    }

    /// Sets the admin state of a node; setting the present one again is allowed. `among` are the
    /// nodes that are up. A node that is not up reduces nothing by leaving.
    ///
    /// # Errors
    /// `NodeRemoved`, `NotDraining`, `TooFewNodes`, `LastNode`, `TooManyAdminStates`.
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
