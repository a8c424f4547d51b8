//! Do all replicas of a shard apply the same entries, and does each term have one leader?
//!
//! Every node's log is watched as it is handed out; what a replica applies is compared with what
//! the first one applied at that index (R3). Of each shard and term the node that was elected is
//! remembered (R1). The end of a run compares whole states (R6).

use std::collections::BTreeMap;

use keyspace::{NodeId, ShardId};
use node::record;
use node::shard::Shard;
use storage::log::{Group, Lsn};

use super::{Violation, Witness};

/// What all nodes have agreed on so far.
#[derive(Debug, Default)]
pub struct Agreement {
    applied: BTreeMap<(ShardId, u64), Entry>,
    leaders: BTreeMap<(ShardId, u64), NodeId>,
    nodes: BTreeMap<NodeId, BTreeMap<ShardId, Replica>>,
    elected: Vec<(ShardId, u64)>,
    /// Entries compared with what another replica applied.
    pub compared: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    term: u64,
    data: Vec<u8>,
}

#[derive(Debug, Default)]
struct Replica {
    entries: BTreeMap<u64, Entry>,
    applied: u64,
    installed: u64,
}

impl Agreement {
    /// What one node does, as far as it is asked.
    pub fn of(&mut self, node: NodeId) -> OfNode<'_> {
        OfNode { agreement: self, node }
    }

    /// The term of the entry that was applied at an index, if any was.
    pub fn term_at(&self, shard: ShardId, index: u64) -> Option<u64> {
        self.applied.get(&(shard, index)).map(|entry| entry.term)
    }

    /// The shards and terms whose leader was seen for the first time since the last call.
    pub fn take_elected(&mut self) -> Vec<(ShardId, u64)> {
        std::mem::take(&mut self.elected)
    }

    /// The node has started again, each of its shards applied up to this index.
    pub fn restarted(&mut self, node: NodeId, applied: &BTreeMap<ShardId, u64>) {
        let shards = self.nodes.entry(node).or_default();
        for (id, index) in applied {
            let replica = shards.entry(*id).or_default();
            (replica.applied, replica.installed) = (*index, 0);
        }
    }
}

/// One node, looked at.
pub struct OfNode<'a> {
    agreement: &'a mut Agreement,
    node: NodeId,
}

impl Witness for OfNode<'_> {
    fn hand_out(&mut self, group: &Group) -> Result<u64, Violation> {
        let shards = self.agreement.nodes.entry(self.node).or_default();
        for record in group.iter().filter(|record| record.kind == record::ENTRY) {
            let Some((index, term, data)) = record::split_entry(record.payload) else {
                return Err(Violation::new("R3", "a record that cannot be read"));
            };
            let replica = shards.entry(record.shard).or_default();
            // What stood behind is gone.
            replica.entries.split_off(&index);
            replica.entries.insert(index, Entry { term, data: data.to_vec() });
        }
        Ok(0)
    }

    fn written(&mut self, _: u64, _: Lsn) {}

    fn look(&mut self, shard: &Shard) -> Result<(), Violation> {
        let id = shard.id();
        let Agreement { applied, leaders, nodes, elected, compared } = &mut *self.agreement;
        if shard.is_elected() {
            let (term, _) = shard.term_and_commit();
            let first = *leaders.entry((id, term)).or_insert_with(|| {
                elected.push((id, term));
                self.node
            });
            if first != self.node {
                let text = format!("shard {id}, term {term}: nodes {first} and {}", self.node);
                return Err(Violation::new("R1 one leader a term", text));
            }
        }
        let replica = nodes.entry(self.node).or_default().entry(id).or_default();
        let view = shard.view();
        let (index, installed) = {
            let state = view.read();
            (state.applied_index, state.installed)
        };
        if installed != replica.installed {
            // A snapshot stands in place of these entries, whatever they were.
            replica.installed = installed;
            replica.entries.clear();
        }
        if index < replica.applied {
            let text = format!("shard {id} went back from {} to {index}", replica.applied);
            return Err(Violation::new("R3 what is applied stays", text));
        }
        for (at, entry) in replica.entries.range(replica.applied + 1..index + 1) {
            match applied.get(&(id, *at)) {
                None => {
                    applied.insert((id, *at), entry.clone());
                }
                Some(first) if first == entry => *compared += 1,
                Some(first) => {
                    let text = format!("shard {id}, entry {at}: {entry:?}, elsewhere {first:?}");
                    return Err(Violation::new("R3 replicas apply the same", text));
                }
            }
        }
        replica.applied = index;
        Ok(())
    }
}
