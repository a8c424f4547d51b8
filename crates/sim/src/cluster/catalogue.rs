//! Keyspaces that come, change and go while everything breaks, asked for at any node; and whether
//! all nodes agree about them in the end.
//!
//! Guests, as those keyspaces are called here, have as many replicas as everything else and
//! durability `sync`, or one replica and any durability. What a guest of less than `sync` says
//! after a loss of power is not judged: it may have lost what was not synced.
//!
//! Nodes that are none of the cluster's are cordoned, drained and removed meanwhile.

use std::collections::BTreeSet;

use keyspace::{
    AdminState, CatalogueOp, Durability, Feature, Keyspace, KeyspaceAlteration, KeyspaceId,
    KeyspaceOptions, NodeId, Placement, ShardId,
};

use super::{KEYSPACE, World};

/// Keyspaces that come and go.
const GUESTS: [&str; 3] = ["guest-a", "guest-b", "guest-c"];
/// Nodes whose admin states change: no node of the cluster has such an id.
const FOREIGN_NODES: [NodeId; 2] = [NodeId(u64::MAX), NodeId(u64::MAX - 1)];

impl World {
    /// A client asks a node for a change: a guest comes, another changes, or goes.
    pub(super) fn ask_catalogue(&mut self, client: usize, at: usize) {
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let name = *self.rng.pick(&GUESTS);
        let there = machine.routes.contains_key(name);
        let may_skip = machine.cluster_version.allows(Feature::SkippedWrites);
        let levels = [Durability::Sync, Durability::Interval, Durability::Memory];
        let retention_ms = self.rng.between(1, 100_000);
        let op = match self.rng.below(4) {
            // Sometimes what does not make sense: it must be refused by all alike.
            0 | 1 if there && !self.rng.one_in(6) => CatalogueOp::Drop { name },
            0 | 1 => {
                let sole = self.rng.one_in(4);
                let options = KeyspaceOptions {
                    placement: match self.rng.one_in(5) {
                        true => Placement::Hashed,
                        false => Placement::Ordered,
                    },
                    durability: if sole { *self.rng.pick(&levels) } else { Durability::Sync },
                    retention_ms,
                    replicas: if sole { 1 } else { self.profile.replicas as u8 },
                    skips_equal: false,
                    volume: None,
                };
                CatalogueOp::Create { name, options }
            }
            2 if retention_ms.is_multiple_of(3) => CatalogueOp::Node {
                node: *self.rng.pick(&FOREIGN_NODES),
                admin_state: *self.rng.pick(&[
                    AdminState::Member,
                    AdminState::Cordoned,
                    AdminState::Draining,
                    AdminState::Removed,
                ]),
                // Of the two too few would be left.
                among: match self.rng.one_in(4) {
                    true => BTreeSet::from(FOREIGN_NODES),
                    false => BTreeSet::new(),
                },
            },
            _ => {
                let name = if self.rng.one_in(3) { KEYSPACE } else { name };
                let durability = self.rng.one_in(2).then(|| match name {
                    // It may have one replica in the catalogue, and must not lose anything.
                    KEYSPACE => Durability::Sync,
                    _ => *self.rng.pick(&levels),
                });
                let change = KeyspaceAlteration {
                    durability,
                    retention_ms: Some(retention_ms),
                    replicas: None,
                    // Nodes propose nothing that others could not read.
                    skips_equal: (may_skip && retention_ms.is_multiple_of(5))
                        .then_some(retention_ms.is_multiple_of(2)),
                    volume_bytes: None,
                    flattened_at: None,
                };
                CatalogueOp::Alter { name, change }
            }
        };
        self.trace.event(format_args!("{op:?}"));
        let mut body = Vec::new();
        op.encode(&mut body);
        self.begin_change(client, at, body);
    }

    /// A node has followed a change.
    pub(super) fn keyspace_changed(&mut self, at: usize, keyspace: &Keyspace) {
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node} follows: {keyspace:?}"));
        if keyspace.options.durability != Durability::Sync {
            self.clients.weak.insert(keyspace.id);
            self.agreement.allow_unsynced_loss(keyspace.id);
        }
    }

    /// How many replicas a shard should have in the end; nothing if there is no such shard.
    pub(super) fn replicas_wanted(&self, keyspaces: &[Keyspace], shard: ShardId) -> Option<usize> {
        if shard == ShardId(0) {
            return Some(self.profile.replicas_of(shard));
        }
        let id = self.keyspace_of(shard)?;
        let of = keyspaces.iter().find(|keyspace| keyspace.id == id)?;
        Some(match &*of.name {
            KEYSPACE => self.profile.replicas,
            _ if self.placement_state.is_some() => self.asked_of(of),
            _ => of.nodes.len(),
        })
    }

    /// The keyspaces as the first node with a catalogue has them; or what nodes disagree about.
    pub(super) fn agreed_keyspaces(&self) -> Result<Vec<Keyspace>, String> {
        let mut agreed: Option<Vec<Keyspace>> = None;
        let mut admin_states = None;
        for seat in &self.node_slots {
            let node = seat.node;
            if seat.has_left {
                continue;
            }
            let Some(machine) = &seat.machine else { return Err("a node is down".into()) };
            let Some(catalogue) = machine.catalogue() else { continue };
            let keyspaces: Vec<Keyspace> = catalogue.iter().cloned().collect();
            let routes: Vec<&Keyspace> =
                machine.routes.values().map(|route| &route.keyspace).collect();
            if !routes.iter().copied().eq(&keyspaces) {
                return Err(format!("node {node} routes {routes:?}, and has {keyspaces:?}; "));
            }
            let first = admin_states.get_or_insert_with(|| catalogue.admin_states().clone());
            if first != catalogue.admin_states() {
                return Err(format!(
                    "node {node} has {:?}, another {first:?}; ",
                    catalogue.admin_states()
                ));
            }
            match &agreed {
                None => agreed = Some(keyspaces),
                Some(first) if *first == keyspaces => {}
                Some(first) => {
                    return Err(format!("node {node} has {keyspaces:?}, another {first:?}; "));
                }
            }
        }
        let agreed = agreed.unwrap_or_default();
        let known: BTreeSet<KeyspaceId> = agreed.iter().map(|keyspace| keyspace.id).collect();
        for seat in &self.node_slots {
            let ids = seat.machine.as_ref().map(|machine| machine.shard_ids()).unwrap_or_default();
            let is_known = |id: &ShardId| self.keyspace_of(*id).is_some_and(|k| known.contains(&k));
            let stray = ids.into_iter().find(|id| *id != ShardId(0) && !is_known(id));
            if let Some(id) = stray {
                return Err(format!("node {} has shard {id} of no keyspace; ", seat.node));
            }
        }
        Ok(agreed)
    }
}
