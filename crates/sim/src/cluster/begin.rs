//! The beginning of a run: one node makes the cluster, the others join it, and its shards get
//! their replicas.

use keyspace::{CatalogueOp, ClusterVersion, KeyspaceOptions, NodeId, Placement, ShardId};
use node::executor::Input;
use node::replica::entry::Waiter;

use super::{KEYSPACE, World};
use crate::check::Violation;
use crate::machine::NOBODY;

/// Virtual time within which replicas that have been added vote.
const RAISE_MS_MAX: u64 = 20_000;

impl World {
    /// One node makes the cluster, the others join it, and its shards get their replicas.
    pub(super) fn begin(&mut self) -> Result<(), Violation> {
        for at in 0..self.node_slots.len() {
            self.start(at)?;
            if at == 0 {
                let machine =
                    self.node_slots[0].machine.as_ref().expect("the node was just started");
                self.cluster = Some(machine.cluster());
                if !self.profile.starts_with_all_replicas {
                    self.create_keyspace();
                }
            }
        }
        let deadline = self.now_ms + RAISE_MS_MAX;
        while self.now_ms < deadline {
            self.millisecond()?;
            if self.now_ms.is_multiple_of(200) {
                self.add_replicas();
            }
            if self.is_raised() {
                if self.has_keyspace() {
                    return Ok(());
                }
                if self.now_ms.is_multiple_of(200) {
                    self.create_keyspace();
                }
            }
        }
        let mut text = format!("after {RAISE_MS_MAX} ms some replica has no vote: ");
        for seat in &self.node_slots {
            let Some(machine) = &seat.machine else { continue };
            for id in machine.shard_ids() {
                let view = machine.view(id).expect("the shard is on this node");
                let state = view.read();
                text += &format!(
                    "node {} shard {id} at {} {:?}; ",
                    seat.node, state.applied_index, state.members
                );
            }
        }
        Err(Violation::new("liveness", text))
    }

    fn create_keyspace(&mut self) {
        let mut op = Vec::new();
        let replicas = self.profile.replicas as u8;
        let placement = self.profile.placement();
        let options = KeyspaceOptions { replicas, placement, ..Default::default() };
        CatalogueOp::Create { name: KEYSPACE, options }.encode(&mut op);
        let machine = self.node_slots[0].machine.as_mut().expect("the node was just started");
        let (origin, waiter) = (NOBODY, Waiter(0));
        // Leases and feeds need it, too; where versions are mixed it rises later.
        let has_news = self.travellers.is_some() || self.feeds.is_some();
        let has_leases = has_news && self.upgrading.is_none();
        if placement == Placement::LinearHash || has_leases {
            let mut op = Vec::new();
            CatalogueOp::RaiseVersion { to: ClusterVersion::NEWEST }.encode(&mut op);
            machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
        }
        machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
    }

    fn add_replicas(&mut self) {
        let others: Vec<NodeId> = self.node_slots.iter().skip(1).map(|seat| seat.node).collect();
        let profile = self.profile;
        let Some(machine) = self.node_slots[0].machine.as_mut() else { return };
        for shard in machine.shard_ids() {
            let view = machine.view(shard).expect("the shard is on this node");
            let generation = view.read().descriptor.generation;
            let (add, remove) = (others[..profile.replicas_of(shard) - 1].to_vec(), Vec::new());
            machine.submit(shard, Input::ChangeReplicas { shard, generation, add, remove });
        }
    }

    /// Whether all shards have all their voters, as their leaders know.
    fn is_raised(&self) -> bool {
        let Some(machine) = &self.node_slots[0].machine else { return false };
        let raised = |shard: ShardId| {
            let view = machine.view(shard).expect("the first node has all shards");
            let state = view.read();
            let wanted = self.profile.replicas_of(shard);
            state.members.voters.len() == wanted && !state.members.is_joint()
        };
        let shards = machine.shard_ids();
        (self.profile.starts_with_all_replicas || self.has_keyspace())
            && shards.into_iter().all(raised)
    }

    /// Whether the first node has all shards.
    fn has_keyspace(&self) -> bool {
        let machine = self.node_slots[0].machine.as_ref();
        machine.is_some_and(|machine| machine.routes.contains_key(KEYSPACE))
    }
}
