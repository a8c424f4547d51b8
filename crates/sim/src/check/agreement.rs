//! Do all replicas of a shard apply the same entries, and does each term have one leader?
//!
//! The checker sees every group of a node's log, and compares each entry that a replica applies
//! with the one that the first replica applied at that index (R3). It remembers the elected node of
//! each shard and term (R1). The end of a run compares whole states (R6).
//!
//! It also checks that no log holds a feature before the catalogue has its cluster version (G3).

use std::collections::{BTreeMap, BTreeSet};

use command::codec;
use keyspace::codec::Reader;
use keyspace::{CatalogueOp, ClusterVersion, KeyspaceId, NodeId, ShardId};
use node::replica::Replica;
use node::replica::entry::{self, Header, Kind};
use node::replica::record;
use node::replica::state::BEFORE_FIRST_ENTRY;
use node::reshape::merge::MergeStep;
use node::routing::session::{BatchId, Sessions};
use storage::log::{Group, Lsn};

use super::{ReplicaObserver, Violation};

/// Entries that shards have on a node that starts, and that are not applied: index, term, bytes.
pub type TailEntries = BTreeMap<ShardId, Vec<(u64, u64, Vec<u8>)>>;

/// What all nodes have agreed on so far.
#[derive(Debug, Default)]
pub struct Agreement {
    applied: BTreeMap<(ShardId, u64), Entry>,
    leaders: BTreeMap<(ShardId, u64), NodeId>,
    /// Each shard's table of sessions, as its entries make it …
    sessions: BTreeMap<ShardId, Sessions>,
    /// … and how many batches of each session it has taken: one after the other, without gaps.
    batches: BTreeMap<(ShardId, u64), u64>,
    nodes: BTreeMap<NodeId, BTreeMap<ShardId, AgreedReplica>>,
    elected: Vec<(ShardId, u64)>,
    /// Keyspaces that may lose unsynced writes: their shards are not judged.
    weak: BTreeSet<KeyspaceId>,
    /// The latest time of an entry that was applied, of each shard, in ms.
    last_ms: BTreeMap<ShardId, u64>,
    /// The cluster version, as the first replica has applied it.
    cluster_version: ClusterVersion,
    /// How often it has risen.
    pub risen: u64,
    /// Entries compared with what another replica applied.
    pub compared: u64,
    /// Batches of a session that were applied.
    pub forwarded: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    term: u64,
    data: Vec<u8>,
}

#[derive(Debug, Default)]
struct AgreedReplica {
    entries: BTreeMap<u64, Entry>,
    applied: u64,
    installed: u64,
}

impl From<ClusterVersion> for Agreement {
    /// Of a cluster that has this version already.
    fn from(cluster_version: ClusterVersion) -> Self {
        Self { cluster_version, ..Self::default() }
    }
}

impl Agreement {
    /// The observer of one node.
    pub fn of(&mut self, node: NodeId) -> NodeObserver<'_> {
        NodeObserver { agreement: self, node }
    }

    /// The term of the entry that was applied at an index, if any was.
    pub fn term_at(&self, shard: ShardId, index: u64) -> Option<u64> {
        self.applied.get(&(shard, index)).map(|entry| entry.term)
    }

    /// Whether a batch of a session was applied, by anyone.
    pub fn has_batch(&self, shard: ShardId, (session, sequence): (u64, u64)) -> bool {
        self.batches.get(&(shard, session)).is_some_and(|applied| *applied >= sequence)
    }

    /// The latest time of any entry of a shard that was applied anywhere, in ms.
    pub fn last_ms(&self, shard: ShardId) -> u64 {
        self.last_ms.get(&shard).copied().unwrap_or_default()
    }

    /// Marks a keyspace that may lose unsynced writes from now on.
    pub fn allow_unsynced_loss(&mut self, keyspace: KeyspaceId) {
        self.weak.insert(keyspace);
    }

    /// The shards and terms whose leader was seen for the first time since the last call.
    pub fn take_elected(&mut self) -> Vec<(ShardId, u64)> {
        std::mem::take(&mut self.elected)
    }

    /// The replica of a shard on a node has ended; another may begin there.
    pub fn ended(&mut self, node: NodeId, shard: ShardId) {
        self.nodes.entry(node).or_default().remove(&shard);
    }

    /// The replica of a shard on a node has handed its state over to the shard that absorbs it. No
    /// other begins there, so its applied index stays known: one that began anew would be behind.
    pub fn absorbed(&mut self, node: NodeId, shard: ShardId) {
        let replica = self.nodes.entry(node).or_default().get_mut(&shard);
        replica.into_iter().for_each(|replica| replica.entries.clear());
    }

    /// Records that a node's disk has lost synced writes, and all records of some shards: all but
    /// these. Such a replica starts empty, until its leader finds out what it lacks.
    pub fn lost(&mut self, node: NodeId, left: &BTreeMap<ShardId, u64>) {
        self.nodes.entry(node).or_default().retain(|shard, _| left.contains_key(shard));
    }

    /// Records that a node has restarted, each of its shards applied up to this index, with these
    /// entries behind. Groups that it handed out before may never have been written.
    pub fn restarted(
        &mut self,
        node: NodeId,
        applied: &BTreeMap<ShardId, u64>,
        behind: &TailEntries,
    ) {
        let shards = self.nodes.entry(node).or_default();
        for (id, index) in applied {
            let replica = shards.entry(*id).or_default();
            (replica.applied, replica.installed) = (*index, 0);
            replica.entries.split_off(&(*index + 1));
            for (index, term, data) in behind.get(id).into_iter().flatten() {
                replica.entries.insert(*index, Entry { term: *term, data: data.clone() });
            }
        }
    }
}

/// One node, looked at.
pub struct NodeObserver<'a> {
    agreement: &'a mut Agreement,
    node: NodeId,
}

impl ReplicaObserver for NodeObserver<'_> {
    fn hand_out(&mut self, group: &Group) -> Result<u64, Violation> {
        let shards = self.agreement.nodes.entry(self.node).or_default();
        for record in group.iter().filter(|record| record.kind == record::ENTRY) {
            let Some((index, term, data)) = record::split_entry(record.payload) else {
                return Err(Violation::new("R3", "a record that cannot be read"));
            };
            // That it rises is what allows it to.
            let (has, wants) = (self.agreement.cluster_version, since(data));
            let is_rise = rise_of(data).is_some_and(|to| Some(to) == has.next());
            if wants.is_none_or(|wants| wants > has) && !is_rise {
                let shard = record.shard;
                let text = format!("shard {shard}, entry {index} wants {wants:?}, there is {has}");
                return Err(Violation::new("G3 nothing is used before all can", text));
            }
            let replica = shards.entry(record.shard).or_default();
            // What stood behind is gone.
            replica.entries.split_off(&index);
            replica.entries.insert(index, Entry { term, data: data.to_vec() });
        }
        Ok(0)
    }

    fn written(&mut self, _: u64, _: Lsn) {}

    fn look(&mut self, shard: &Replica) -> Result<(), Violation> {
        let id = shard.id();
        let keyspace = shard.view().read().descriptor.keyspace();
        if self.agreement.weak.contains(&keyspace) {
            return Ok(());
        }
        self.look_who_leads(shard)?;
        let view = shard.view();
        let (index, installed) = {
            let state = view.read();
            (state.applied_index, state.installed)
        };
        let replica = self.agreement.nodes.entry(self.node).or_default().entry(id).or_default();
        if installed != replica.installed {
            // A snapshot stands in place of these entries, whatever they were.
            replica.installed = installed;
            replica.entries.clear();
        }
        // A replica that was born, and whose bootstrap record is lost in a crash before anything
        // was applied, begins again to wait for its first state: 1 and 0 are both nothing.
        if index.max(BEFORE_FIRST_ENTRY.0) < replica.applied {
            let text = format!("shard {id} went back from {} to {index}", replica.applied);
            return Err(Violation::new("R3 what is applied stays", text));
        }
        let (entries, applied) = (std::mem::take(&mut replica.entries), replica.applied);
        for (at, entry) in entries.range(applied + 1..index + 1) {
            self.agreement.is_applied(id, *at, entry)?;
        }
        let replica = self.agreement.nodes.entry(self.node).or_default().entry(id).or_default();
        (replica.entries, replica.applied) = (entries, index);
        Ok(())
    }
}

impl NodeObserver<'_> {
    /// In each term of a shard there is one leader.
    fn look_who_leads(&mut self, shard: &Replica) -> Result<(), Violation> {
        if !shard.is_elected() {
            return Ok(());
        }
        let (id, (term, _)) = (shard.id(), shard.term_and_commit());
        let Agreement { leaders, elected, .. } = &mut *self.agreement;
        let first = *leaders.entry((id, term)).or_insert_with(|| {
            elected.push((id, term));
            self.node
        });
        if first != self.node {
            let text = format!("shard {id}, term {term}: nodes {first} and {}", self.node);
            return Err(Violation::new("R1 one leader a term", text));
        }
        Ok(())
    }
}

impl Agreement {
    /// A replica has applied an entry: the first to do so says what all others are to apply.
    fn is_applied(&mut self, id: ShardId, at: u64, entry: &Entry) -> Result<(), Violation> {
        match self.applied.get(&(id, at)) {
            Some(first) if first == entry => {
                self.compared += 1;
                return Ok(());
            }
            Some(first) => {
                let text = format!("shard {id}, entry {at}: {entry:?}, elsewhere {first:?}");
                return Err(Violation::new("R3 replicas apply the same", text));
            }
            None => {}
        }
        let header = Header::decode(&entry.data).map(|(header, _)| header);
        if let Some(header) = header.filter(|header| header.term == entry.term) {
            self.last_ms.insert(id, header.timestamp.millis());
        }
        if let Some(right) = merged_into(entry) {
            unite(&mut self.sessions, &mut self.batches, id, right);
        }
        if let Some(to) = rise_of(&entry.data).filter(|to| *to > self.cluster_version) {
            (self.cluster_version, self.risen) = (to, self.risen + 1);
        }
        if let Some((batch, now_ms)) = batch_of(&entry.data) {
            let table = self.sessions.entry(id).or_default();
            if table.judge(batch, now_ms).is_none() {
                table.applied(batch, &[]);
                self.batches.insert((id, batch.session), batch.sequence);
                self.forwarded += 1;
            }
        }
        self.applied.insert((id, at), entry.clone());
        Ok(())
    }
}

/// Whom an entry takes in, if it takes a neighbour in; or would, had that not been called off.
fn merged_into(entry: &Entry) -> Option<ShardId> {
    let (header, body) = Header::decode(&entry.data)?;
    let is_step = header.kind == Kind::Merge && header.term == entry.term;
    match is_step.then(|| MergeStep::decode(body).ok())?? {
        MergeStep::Absorb { right, .. } => Some(right),
        _ => None,
    }
}

/// The cluster version that an entry with all its commands needs before it may be in a log; none
/// if it cannot be read.
fn since(data: &[u8]) -> Option<ClusterVersion> {
    let mut version = entry::since(data)?;
    let mut commands = match Header::decode(data) {
        Some((Header { kind: Kind::Commands, .. }, body)) => body,
        Some((Header { kind: Kind::SessionBatch, .. }, body)) => BatchId::split(body)?.1,
        _ => &[],
    };
    while !commands.is_empty() {
        version = version.max(codec::decode(&mut commands).ok()?.since());
    }
    Some(version)
}

/// To which version an entry raises the cluster version.
fn rise_of(data: &[u8]) -> Option<ClusterVersion> {
    let (_, body) = Header::decode(data).filter(|(header, _)| header.kind == Kind::Catalogue)?;
    match CatalogueOp::decode(&mut Reader::new(body)) {
        Ok(CatalogueOp::RaiseVersion { to }) => Some(to),
        _ => None,
    }
}

/// What was applied once by a shard is known by who has taken it in. If that was called off, nobody
/// asks there.
fn unite(
    sessions: &mut BTreeMap<ShardId, Sessions>,
    batches: &mut BTreeMap<(ShardId, u64), u64>,
    left: ShardId,
    right: ShardId,
) {
    if let Some(mut table) = sessions.get(&right).cloned() {
        let ours = sessions.entry(left).or_default();
        table.unite(std::mem::take(ours));
        *ours = table;
    }
    let more: Vec<_> =
        batches.range((right, 0)..=(right, u64::MAX)).map(|((_, s), n)| (*s, *n)).collect();
    batches.extend(more.into_iter().map(|(session, sequence)| ((left, session), sequence)));
}

/// The batch of an entry, if it has one, and its time in ms.
fn batch_of(data: &[u8]) -> Option<(BatchId, u64)> {
    let (header, body) =
        Header::decode(data).filter(|(header, _)| header.kind == Kind::SessionBatch)?;
    BatchId::split(body).map(|(batch, _)| (batch, header.timestamp.millis()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hlc::Clock;
    use keyspace::{Arc as RingArc, Descriptor, Durability, Generation, KeyHasher, ReplicaId};
    use node::executor::{Input, ShardExecutor};
    use node::replica::ReplicaStart;
    use node::replica::state::{Content, ShardState};
    use storage::engine::{Layout, MemoryEngine};

    use super::*;

    /// Where a replica has ended another may begin; not where its shard was absorbed.
    #[test]
    fn a_replica_of_an_absorbed_shard_that_begins_again_is_noticed() {
        let (node, shard, replica) = (NodeId(1), ShardId(3), ReplicaId(1));
        let (arc, generation) = (RingArc::whole(KeyspaceId(1)), Generation(1));
        let replicas = vec![(replica, node), (ReplicaId(2), NodeId(2))];
        let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
        let engine = MemoryEngine::new(Layout::Ordered, KeyHasher::new([1; 16]));
        let state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
        let mut executor = ShardExecutor::new(Arc::new(Clock::default()), 1, 1 << 20);
        executor.observe(1);
        executor.accept(Input::Create(ReplicaStart::created(state, replica, Durability::Sync)));
        let begun = executor.shard(shard).expect("the shard is on this node");

        let mut agreement = Agreement::default();
        agreement.restarted(node, &BTreeMap::from([(shard, 5)]), &TailEntries::new());
        agreement.absorbed(node, shard);
        let noticed = agreement.of(node).look(begun);
        assert_eq!(noticed.map_err(|broken| broken.rule), Err("R3 what is applied stays"));
        agreement.ended(node, shard);
        assert!(agreement.of(node).look(begun).is_ok());
    }
}
