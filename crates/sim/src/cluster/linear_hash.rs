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

use super::volumes::DISK;
use super::{KEYSPACE, World};
use crate::check::Violation;
use crate::machine::NOBODY;
use crate::options::Fault;
use crate::rng::Rng;

/// No file has more buckets.
const BUCKETS_MAX: u64 = 7;
/// Time between requests for more buckets, or fewer, in milliseconds.
pub(super) const RESIZE_INTERVAL_MS: u64 = 250;

/// One that knows the file asks for a bucket more, or fewer.
fn some_resize(
    rng: &mut Rng,
    known: &[(usize, (KeyspaceId, LinearHashRecord))],
) -> (usize, KeyspaceId, u64, LinearHashOp) {
    let (at, (keyspace, record)) = *rng.pick(known);
    let may = (record.buckets < BUCKETS_MAX, record.buckets > 1);
    let grows = !may.1 || (may.0 && !rng.one_in(3));
    let act = if grows { LinearHashOp::Grow } else { LinearHashOp::Shrink };
    (at, keyspace, record.epoch, act)
}

impl World {
    /// What a node knows of the file of a keyspace, if it is of linear hashing.
    fn file_at(&self, at: usize, name: &str) -> Option<(KeyspaceId, LinearHashRecord)> {
        let machine = self.node_slots[at].machine.as_ref()?;
        let keyspace = &machine.routes.get(name)?.keyspace;
        Some((keyspace.id, keyspace.linear_hash_table?))
    }

    /// What each node knows of such a file.
    fn files(&self, name: &str) -> Vec<(usize, (KeyspaceId, LinearHashRecord))> {
        let places = 0..self.node_slots.len();
        places.filter_map(|at| Some((at, self.file_at(at, name)?))).collect()
    }

    /// Requests one bucket more, or fewer, of the keyspace that clients use.
    pub(super) fn resize_table(&mut self) {
        let known = self.files(KEYSPACE);
        if !known.is_empty() {
            let (at, keyspace, epoch, act) = some_resize(&mut self.rng, &known);
            self.act_on_file(at, keyspace, epoch, act);
        }
    }

    /// The same of the volume, if there is one and it is time.
    pub(super) fn resize_volume(&mut self) {
        let turns = self.options.faults.has(Fault::Split) && !self.calm;
        if !turns || !self.now_ms.is_multiple_of(RESIZE_INTERVAL_MS) {
            return;
        }
        let known = self.files(DISK);
        if let Some(volumes) = self.volumes.as_mut().filter(|_| !known.is_empty()) {
            let (at, keyspace, epoch, act) = some_resize(&mut volumes.rng, &known);
            self.act_on_file(at, keyspace, epoch, act);
        }
    }

    /// The file of the keyspace that clients use is to grow or shrink, as some node knows it.
    pub(crate) fn turn_file_to(&mut self, act: LinearHashOp) {
        let known = self.files(KEYSPACE).into_iter();
        let newest = known.max_by_key(|(_, (_, record))| record.epoch);
        if let Some((at, (keyspace, record))) = newest {
            self.act_on_file(at, keyspace, record.epoch, act);
        }
    }

    /// The newest that any node knows of that file.
    pub(crate) fn linear_hash_table(&self) -> Option<LinearHashRecord> {
        self.newest_file(KEYSPACE)
    }

    fn newest_file(&self, name: &str) -> Option<LinearHashRecord> {
        let known = self.files(name).into_iter().map(|(_, (_, record))| record);
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
        let known = [KEYSPACE, DISK].into_iter().filter_map(|name| self.newest_file(name));
        let steps = known.filter_map(|record| Some((record, record.step?)));
        let text = steps.map(|(record, step)| match step {
            // Where replicas are kept even, those of two may not come together for long.
            LinearHashStep::Shrink if self.profile.places_replicas => String::new(),
            _ => format!("the file has {record}; "),
        });
        text.collect()
    }

    /// The arcs of a file are those of its buckets.
    ///
    /// # Errors
    /// There are others.
    pub(super) fn check_files(&mut self) -> Result<(), Violation> {
        [KEYSPACE, DISK].into_iter().try_for_each(|name| self.check_file(name))
    }

    fn check_file(&mut self, name: &str) -> Result<(), Violation> {
        let Some(record) = self.newest_file(name) else { return Ok(()) };
        self.counts.table_epochs += record.epoch;
        let mut arcs: BTreeMap<ShardId, RingArc> = BTreeMap::new();
        for (at, shard) in self.led() {
            let view = self.node_slots[at].machine.as_ref().and_then(|machine| machine.view(shard));
            let view = view.expect("the shard is on this node");
            let state = view.read();
            if self.file_at(at, name).is_some_and(|(id, _)| id == state.descriptor.keyspace()) {
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
