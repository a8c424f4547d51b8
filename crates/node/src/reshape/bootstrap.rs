//! How does a shard begin? From its keyspace, the same on every node.
//!
//! The catalogue's entry that creates a keyspace names the nodes of its first shards. Every node
//! that applies or reads it makes the same first state of them. The named nodes have a replica from
//! the beginning; the others know which nodes to ask.

use keyspace::{
    DecodeError, Descriptor, Durability, Generation, Keyspace, KeyspaceId, NodeId, Placement,
    ReplicaId, ShardId,
};
use storage::engine::{Layout, MemoryEngine, Settings};

use crate::executor::FIRST_REPLICA;
use crate::replica::ReplicaStart;
use crate::replica::catalogue::System;
use crate::replica::state::{Content, ShardState};

/// The first state of a keyspace's shard.
pub fn first_state(keyspace: &Keyspace, place: usize, settings: impl Into<Settings>) -> ShardState {
    let (shard, arc) = (keyspace.shards[place], keyspace.arc(place));
    let layout = layout_of(keyspace.options.placement, &arc);
    let content = Content::Keys(Box::new(MemoryEngine::new(layout, settings)));
    ShardState::new(first_descriptor(shard, arc, first_replicas(keyspace)), content)
}

fn layout_of(placement: Placement, arc: &keyspace::Arc) -> Layout {
    match placement {
        Placement::Ordered => Layout::Ordered,
        Placement::LinearHash => Layout::LinearHash,
        Placement::Hashed => {
            let (first_slot, end_slot) = arc.slots().expect("hashed arcs are cut at slots");
            Layout::Hashed { first_slot, end_slot }
        }
    }
}

/// What routes lead to on a node without a replica of a shard: nothing, that others have, as far as
/// is known these. Also where the shard had a replica on the node, which has ended.
pub fn remote_view(
    keyspace: &Keyspace,
    (shard, arc): (ShardId, keyspace::Arc),
    mut replicas: Vec<(ReplicaId, NodeId)>,
    node: NodeId,
    settings: impl Into<Settings>,
) -> ShardState {
    replicas.retain(|(_, at)| *at != node);
    let layout = layout_of(keyspace.options.placement, &arc);
    let generation = FIRST_GENERATION;
    let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
    ShardState::new(descriptor, Content::Keys(Box::new(MemoryEngine::new(layout, settings))))
}

/// The replicas with which a keyspace's shards begin.
pub fn first_replicas(keyspace: &Keyspace) -> Vec<(ReplicaId, NodeId)> {
    (FIRST_REPLICA.0..).map(ReplicaId).zip(keyspace.nodes.iter().copied()).collect()
}

/// The first state of the system shard of a cluster that this node founds.
pub fn first_system(node: NodeId) -> ShardState {
    let arc = keyspace::Arc::whole(KeyspaceId(0));
    let descriptor = first_descriptor(ShardId(0), arc, vec![(FIRST_REPLICA, node)]);
    ShardState::new(descriptor, Content::System(System::default()))
}

/// Whether this replica campaigns first when its shard begins: the replicas take turns over shards.
pub fn campaigns_first(descriptor: &Descriptor, replica: ReplicaId) -> bool {
    let replicas = &descriptor.replicas;
    let turn = descriptor.shard.0.checked_rem(replicas.len() as u64).unwrap_or(0);
    replicas.get(turn as usize).is_some_and(|(first, _)| *first == replica)
}

/// A replica that another node's message is for, with the shard's bootstrap record beside it: one
/// of those with which the shard begins, if it has not changed since; else one that was added, and
/// waits for a snapshot.
///
/// # Errors
/// [`DecodeError`] if the record cannot be read.
pub fn by_message(
    record: &[u8],
    replica: ReplicaId,
    node: NodeId,
    settings: impl Into<Settings>,
) -> Result<ReplicaStart, DecodeError> {
    let settings = settings.into();
    let state = ShardState::created(record, settings)?;
    let Descriptor { generation, replicas, .. } = &state.descriptor;
    if *generation == FIRST_GENERATION && replicas.contains(&(replica, node)) {
        return Ok(ReplicaStart::created(state, replica, Durability::Sync));
    }
    let state = ShardState::awaiting(record, settings)?;
    Ok(ReplicaStart::awaiting(state, replica, Durability::Sync))
}

const FIRST_GENERATION: Generation = Generation(1);

fn first_descriptor(
    shard: ShardId,
    arc: keyspace::Arc,
    replicas: Vec<(ReplicaId, NodeId)>,
) -> Descriptor {
    Descriptor { shard, arc, replicas, generation: FIRST_GENERATION, leader: Some(FIRST_REPLICA) }
}

#[cfg(test)]
mod tests {
    use keyspace::{CatalogueOp, KeyHasher, KeyspaceOptions};

    use super::*;
    use crate::replica::catalogue::Change;

    /// Also on a node where the shard had begun: what is wanted of it is fetched then.
    #[test]
    fn remote_view_names_replicas_of_other_nodes_only() {
        let nodes = [NodeId(10), NodeId(20), NodeId(30)];
        let mut op = Vec::new();
        let options = KeyspaceOptions { replicas: 3, ..Default::default() };
        CatalogueOp::Create { name: "k", options }.encode(&mut op);
        let mut system = System::default();
        let Ok(Change::Created(keyspace)) = system.apply(&op, &nodes, keyspace::Timestamp::ZERO)
        else {
            panic!("not made")
        };
        let hasher = KeyHasher::new([1; 16]);
        assert!(first_state(&keyspace, 0, hasher).descriptor.replica_on(nodes[0]).is_some());
        let (replicas, tile) = (first_replicas(&keyspace), (keyspace.shards[0], keyspace.arc(0)));
        let state = remote_view(&keyspace, tile, replicas, nodes[0], hasher);
        assert_eq!(state.descriptor.arc, keyspace.arc(0));
        let replicas = nodes.map(|node| state.descriptor.replica_on(node));
        assert_eq!(replicas, [None, Some(ReplicaId(2)), Some(ReplicaId(3))]);
    }
}
