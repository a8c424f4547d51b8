//! A linear-hash table grows and shrinks while everything else breaks.
//!
//! A client that knows the table's present or earlier size asks for one bucket more or fewer.
//! Leaders then carry out the change in the catalogue, by their control planes. In the end no
//! change is under way, and the arcs are exactly those of the record's buckets: so there are two
//! widths at most.

use std::collections::BTreeMap;

use keyspace::{
    Arc as RingArc, CatalogueOp, Feature, KeyspaceId, LinearHashOp, LinearHashRecord,
    LinearHashStep, ShardId,
};
use node::control::decisions::DecisionKind;
use node::event::EventKind;
use node::executor::Input;
use node::replica::entry::Waiter;
use node::reshape::linear_hash;

use super::{KEYSPACE, World};
use crate::check::Violation;
use crate::machine::NOBODY;

/// No file has more buckets.
const BUCKETS_MAX: u64 = 7;
/// Time between requests for more buckets, or fewer, in milliseconds.
pub(super) const RESIZE_INTERVAL_MS: u64 = 250;

impl World {
    /// What a node knows of the file of the keyspace that clients use, if it is of linear hashing.
    fn file_at(&self, at: usize) -> Option<(KeyspaceId, LinearHashRecord)> {
        let machine = self.node_slots[at].machine.as_ref()?;
        let keyspace = &machine.routes.get(KEYSPACE)?.keyspace;
        Some((keyspace.id, keyspace.linear_hash_table?))
    }

    /// Requests one bucket more, or fewer.
    pub(super) fn resize_table(&mut self) {
        let known = (0..self.node_slots.len()).filter_map(|at| Some((at, self.file_at(at)?)));
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            return;
        }
        let (at, (keyspace, record)) = *self.rng.pick(&known);
        let may = (record.buckets < BUCKETS_MAX, record.buckets > 1);
        let grows = !may.1 || (may.0 && !self.rng.one_in(3));
        let act = if grows { LinearHashOp::Grow } else { LinearHashOp::Shrink };
        self.act_on_file(at, keyspace, record.epoch, act);
    }

    /// The file of the keyspace that clients use is to grow or shrink, as some node knows it.
    pub(crate) fn turn_file_to(&mut self, act: LinearHashOp) {
        let known = (0..self.node_slots.len()).filter_map(|at| Some((at, self.file_at(at)?)));
        let newest = known.max_by_key(|(_, (_, record))| record.epoch);
        if let Some((at, (keyspace, record))) = newest {
            self.act_on_file(at, keyspace, record.epoch, act);
        }
    }

    /// The newest that any node knows of that file.
    pub(crate) fn linear_hash_table(&self) -> Option<LinearHashRecord> {
        let known = (0..self.node_slots.len()).filter_map(|at| Some(self.file_at(at)?.1));
        known.max_by_key(|record| record.epoch)
    }

    fn act_on_file(&mut self, at: usize, keyspace: KeyspaceId, epoch: u64, act: LinearHashOp) {
        let Some(machine) = self.node_slots[at].machine.as_mut() else { return };
        if !machine.cluster_version.allows(Feature::LinearHash) {
            return;
        }
        self.trace.event(format_args!("node {}: file, turn {epoch}: {act:?}", machine.node()));
        let mut op = Vec::new();
        CatalogueOp::LinearHash { keyspace, epoch, act }.encode(&mut op);
        let (origin, waiter) = (NOBODY, Waiter(0));
        machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
    }

    /// Counts what control has decided.
    pub(super) fn count_decided(&mut self, what: &EventKind) {
        let EventKind::DecisionMade(decided) = what else { return };
        match &decided.what {
            DecisionKind::Split { right, .. } => {
                self.reshapes_begun += 1;
                self.right_halves.insert(*right);
                self.counts.buckets_split += u64::from(self.is_bucket(decided.shard));
            }
            DecisionKind::Merge { .. } => {
                self.reshapes_begun += 1;
                self.counts.buckets_merged += u64::from(self.is_bucket(decided.shard));
            }
            DecisionKind::Replicas { .. } => self.counts.decisions += 1,
            DecisionKind::Leader { .. } => self.counts.balancer_transfers += 1,
        }
    }

    /// The changes of linear-hash tables that are under way, as text; empty if there are none.
    pub(super) fn describe_resizes(&self) -> String {
        let known = self.linear_hash_table();
        let step = known.and_then(|record| record.step.map(|step| (record, step)));
        step.map_or_else(String::new, |(record, step)| match step {
            // Where replicas are kept even, those of two may not come together for long.
            LinearHashStep::Shrink if self.profile.places_replicas => String::new(),
            _ => format!("the file has {record}; "),
        })
    }

    /// The arcs of a file are those of its buckets.
    ///
    /// # Errors
    /// There are others.
    pub(super) fn check_files(&mut self) -> Result<(), Violation> {
        let Some(record) = self.linear_hash_table() else { return Ok(()) };
        self.counts.table_epochs = record.epoch;
        let mut arcs: BTreeMap<ShardId, RingArc> = BTreeMap::new();
        for (at, shard) in self.led() {
            let view = self.node_slots[at].machine.as_ref().and_then(|machine| machine.view(shard));
            let view = view.expect("the shard is on this node");
            let state = view.read();
            if self.file_at(at).is_some_and(|(id, _)| id == state.descriptor.keyspace()) {
                arcs.insert(shard, state.descriptor.arc.clone());
            }
        }
        let mut arcs: Vec<RingArc> = arcs.into_values().collect();
        arcs.sort_by(|one, other| one.start().cmp(other.start()));
        let of_buckets = |buckets: u64| {
            let linear_hash_table = linear_hash::table_of(&LinearHashRecord { buckets, ..record })?;
            let of = |number| linear_hash_table.bucket(number).expect("the bucket is in the table");
            let keyspace = arcs.first()?.keyspace();
            let mut arcs: Vec<_> = (0..buckets).map(|number| of(number).arc(keyspace)).collect();
            arcs.sort_by(|one, other| one.start().cmp(other.start()));
            Some(arcs)
        };
        let after = match record.step {
            None => record.buckets,
            Some(LinearHashStep::Grow) => record.buckets + 1,
            Some(LinearHashStep::Shrink) => record.buckets - 1,
        };
        let are = |buckets| of_buckets(buckets).as_ref() == Some(&arcs);
        match are(record.buckets) || are(after) {
            true => Ok(()),
            false => {
                let text = format!("the file has {record}, and its arcs are {arcs:?}");
                Err(Violation::new("R11 arcs are buckets of the file", text))
            }
        }
    }
}
