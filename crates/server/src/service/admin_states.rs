//! Cordons, drains and removes nodes for operators.
//!
//! ```text
//!   "n4" ──► which node? ──► is it empty? ──► draining ──► is it empty still? ──► removed
//!            404, 409         409: drain first   (catalogue)    409            (catalogue)
//! ```
//!
//! The catalogue checks what it knows: that enough nodes are left, and that removal is for good. It
//! does not know which node has replicas: this module checks that, by the table of descriptors and
//! by the node's own last report. A node is set to draining before it is removed, so that it gets
//! no replica meanwhile.

use std::collections::BTreeSet;

use keyspace::{CatalogueError, CatalogueOp, NodeId};
use node::executor;

use super::NodeApi;
use super::errors::not_done;
use crate::cluster::MemberInfo;
use crate::runtime::survey::name_of;
use crate::runtime::{requests, survey};
use api::{AdminState, ApiError, Done, NodeAdminState, RequestId};

impl NodeApi {
    /// Sets the admin state of the node with this id or name.
    pub(super) fn request_admin_state(
        &self,
        id: RequestId,
        node: &str,
        to: AdminState,
        unknown_too: bool,
        done: Done<NodeAdminState>,
    ) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        match (self.node_of(node), id_of(node)) {
            (Ok(node), _) if to == AdminState::Removed => self.remove(id, node, done),
            (Ok(node), _) => self.set_state(id, node, to, done),
            // No running node has heard of this one: the operator must be sure of its id, since a
            // mistyped one would be removed for good as well.
            (Err(ApiError::NoNode { .. }), Some(node)) if unknown_too => match to {
                AdminState::Removed => self.remove(id, node, done),
                _ => self.set_state(id, node, to, done),
            },
            (Err(error), _) => done(Err(error)),
        }
    }

    /// Which node is meant: by its id, or by a name that one member alone has.
    fn node_of(&self, asked: &str) -> Result<NodeId, ApiError> {
        let members = self.runtime.members();
        let admin_states = self.runtime.admin_states.all();
        let mut known: Vec<(NodeId, &str)> =
            members.iter().map(|member| (member.node, &*member.name)).collect();
        if known.is_empty() {
            known.push((self.runtime.identity.node, &self.config.name));
        }
        // Besides members: nodes that no running node has heard of, but that have replicas, or an
        // admin state in the catalogue (draining, removed).
        let held = survey::survey(&self.runtime).holdings_by_node();
        let nameless = held.into_keys().chain(admin_states.iter().map(|(node, _)| node));
        find(asked, &known, nameless)
    }

    /// Removes an empty node. If it was not draining, it is set to draining first. If it has got a
    /// replica meanwhile, it drains, and must be removed again when it is empty.
    fn remove(&self, id: RequestId, node: NodeId, done: Done<NodeAdminState>) {
        let admin_state = AdminState::from(self.runtime.admin_states.of(node));
        if admin_state == AdminState::Removed {
            return self.set_state(id, node, AdminState::Removed, done);
        }
        if let Err(error) = self.check_empty(node) {
            return done(Err(error));
        }
        if admin_state == AdminState::Draining {
            return self.set_state(id, node, AdminState::Removed, done);
        }
        let this = self.again();
        let drained: Done<NodeAdminState> = Box::new(move |drains| match drains {
            Ok(_) => match this.check_empty(node) {
                Ok(()) => this.set_state(id, node, AdminState::Removed, done),
                Err(error) => done(Err(error)),
            },
            Err(error) => done(Err(error)),
        });
        self.set_state(id, node, AdminState::Draining, drained);
    }

    /// Asks the catalogue.
    fn set_state(&self, id: RequestId, node: NodeId, to: AdminState, done: Done<NodeAdminState>) {
        let members = self.runtime.members();
        let up = members.iter().filter(|member| member.is_up()).map(|member| member.node);
        let among: BTreeSet<NodeId> = up.chain([self.runtime.identity.node]).collect();
        // One that is removed is nobody's member any more.
        let name = members.iter().find(|member| member.node == node).map(|m| m.name.clone());
        let this = self.again();
        let callback = move |answer| match answer {
            executor::Answer::Catalogue { result: Ok(_), .. } => {
                done(Ok(this.state_of(node, name, to)));
            }
            executor::Answer::Catalogue { result: Err(error), .. } => {
                done(Err(this.refused_admin_state(error)));
            }
            executor::Answer::NotDone { why, .. } => done(Err(not_done(why, Some(id)))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        let op = CatalogueOp::Node { node, admin_state: to.into(), among };
        requests::change_catalogue(&self.runtime, &op, Some(Box::new(callback)));
    }

    /// A node's admin state now, with the name that it had before.
    fn state_of(
        &self,
        node: NodeId,
        name: Option<String>,
        admin_state: AdminState,
    ) -> NodeAdminState {
        let survey = survey::survey(&self.runtime);
        let held = survey.holdings_by_node().get(&node).copied().unwrap_or_default();
        let member = survey.members.iter().find(|member| member.node == node);
        let this = node == self.runtime.identity.node;
        let told = member.map_or(0, |member| member.load.data_bytes);
        NodeAdminState {
            id: format!("{:016x}", node.0),
            name: name.or_else(|| this.then(|| self.config.name.clone())),
            admin_state,
            replicas: held.replicas,
            leads: held.leads,
            data_bytes: if this { survey.overview.data_bytes } else { told },
        }
    }

    /// Whether a node is empty: by the descriptors and, if it is up, by its own report.
    fn check_empty(&self, node: NodeId) -> Result<(), ApiError> {
        let survey = survey::survey(&self.runtime);
        let unknown = survey.unknown_count();
        if unknown > 0 {
            let why = format!(
                "this node does not know yet where all shards are ({unknown} missing): ask again"
            );
            return Err(ApiError::NodeInUse { why });
        }
        let held = survey.holdings_by_node().get(&node).copied().unwrap_or_default();
        let member = survey.members.iter().find(|member| member.node == node);
        let told = match member {
            Some(member) if member.is_up() => member.load.shards.into(),
            _ => 0,
        };
        let own = if node == self.runtime.identity.node { survey.overview.shards } else { told };
        match held.replicas.max(own) {
            0 => Ok(()),
            replicas => Err(ApiError::NodeInUse { why: in_use(node, member, replicas) }),
        }
    }

    fn refused_admin_state(&self, error: CatalogueError) -> ApiError {
        let members = self.runtime.members();
        match error {
            CatalogueError::NodeRemoved { node } => {
                ApiError::NodeRemoved { node: format!("{:016x}", node.0) }
            }
            CatalogueError::TooFewNodes { .. } | CatalogueError::LastNode => {
                ApiError::TooFewNodes { why: error.to_string() }
            }
            CatalogueError::NotDraining { node, admin_state } => {
                let (name, word) = (name_of(node, &members), admin_state.word());
                let why = format!("{name} is {word} again: another operator has changed it");
                ApiError::AdminStateRefused { why }
            }
            other => ApiError::AdminStateRefused { why: other.to_string() },
        }
    }
}

/// What a node still holds, for people.
fn in_use(node: NodeId, member: Option<&MemberInfo>, replicas: u64) -> String {
    let name = member.map_or_else(|| format!("{:016x}", node.0), |member| member.name.clone());
    let plural = if replicas == 1 { "" } else { "s" };
    let down = match member {
        Some(member) if member.is_up() => "",
        _ => " and is down",
    };
    format!(
        "{name} still has {replicas} replica{plural}{down}: their shards would be \
         under-replicated"
    )
}

/// The id that 16 hexadecimal digits are.
fn id_of(asked: &str) -> Option<NodeId> {
    let is_id = asked.len() == 16 && asked.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(asked, 16).ok().filter(|_| is_id).map(NodeId)
}

/// How many nodes the error names when a request names an unknown node.
const SHOWN_MAX: usize = 32;

/// Which of these nodes is meant by an id of 16 hexadecimal digits, or by a name, which not all
/// have.
fn find(
    asked: &str,
    known: &[(NodeId, &str)],
    nameless: impl Iterator<Item = NodeId>,
) -> Result<NodeId, ApiError> {
    let named: BTreeSet<NodeId> = known.iter().map(|(node, _)| *node).collect();
    let nameless: BTreeSet<NodeId> = nameless.filter(|node| !named.contains(node)).collect();
    if let Some(id) = id_of(asked)
        && (named.contains(&id) || nameless.contains(&id))
    {
        return Ok(id);
    }
    let shown = || {
        let named = known.iter().map(|(node, name)| format!("{name} ({:016x})", node.0));
        let all = named.chain(nameless.iter().map(|node| format!("{:016x}", node.0)));
        let count = known.len() + nameless.len();
        let more = (count > SHOWN_MAX).then(|| format!("and {} more", count - SHOWN_MAX));
        all.take(SHOWN_MAX).chain(more).collect()
    };
    let named = known.iter().filter(|(_, name)| *name == asked).map(|(node, _)| *node);
    match named.collect::<Vec<NodeId>>()[..] {
        [] => Err(ApiError::NoNode { node: asked.to_owned(), known: shown() }),
        [node] => Ok(node),
        ref several => {
            let ids = several.iter().map(|node| format!("{:016x}", node.0)).collect();
            Err(ApiError::AmbiguousNode { node: asked.to_owned(), ids })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_id_or_by_a_name_of_their_own() {
        let known = [(NodeId(0xa1), "n1"), (NodeId(0xa2), "n2"), (NodeId(0xa3), "n2")];
        let ask = |asked: &str| find(asked, &known, [NodeId(0xa9)].into_iter());
        assert_eq!(ask("n1"), Ok(NodeId(0xa1)));
        assert_eq!(ask("00000000000000a2"), Ok(NodeId(0xa2)));
        assert_eq!(ask("00000000000000A9"), Ok(NodeId(0xa9)), "a removed one");
        for none in ["", "n3", "a1", "+0000000000000a1", "00000000000000a4"] {
            let Err(ApiError::NoNode { node, known }) = ask(none) else { panic!("{none}") };
            assert_eq!(node, none);
            let ids = ["n1 (00000000000000a1)", "n2 (00000000000000a2)", "n2 (00000000000000a3)"];
            assert_eq!(known[..3], ids);
            assert_eq!(known[3..], ["00000000000000a9"], "a removed one has no name");
        }
        let Err(ApiError::AmbiguousNode { ids, .. }) = ask("n2") else { panic!("{:?}", ask("n2")) };
        assert_eq!(ids, ["00000000000000a2", "00000000000000a3"]);
        // A node whose name equals another's id is found by its own id.
        let odd = [(NodeId(1), "0000000000000002"), (NodeId(2), "b")];
        assert_eq!(find("0000000000000002", &odd, [].into_iter()), Ok(NodeId(2)));
    }

    #[test]
    fn what_is_in_the_way_is_said() {
        assert_eq!(
            in_use(NodeId(7), None, 1),
            "0000000000000007 still has 1 replica and is down: their shards would be \
             under-replicated"
        );
    }
}
