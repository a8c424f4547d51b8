//! How does a linear-hash table grow and shrink? By one bucket at a time.
//!
//! The shards of a `linear-hash` keyspace are the buckets of a table ([`crate::linear_hash`]). The
//! number of buckets, 2^i + n, determines all of them. So the record holds that number, the step
//! under way, and a **table epoch** (`epoch`), which rises with every change:
//!
//! ```text
//!   4 buckets, epoch 6              Grow 6  ──► 4 buckets, epoch 7, growing
//!   leader of bucket 0              Begin 7 ──► a new shard's id: it splits the bucket
//!   it sees that the split is done  Done 7  ──► 5 buckets, epoch 8
//! ```
//!
//! Every op names a table epoch, and apply refuses it at any other. So one of many equal requests
//! is accepted, and none repeats a step. No step is undone: the leader of the shard carries out
//! what was begun, however often the leader changes.
//!
//! A leader that sends `Begin` reads its shard's generation first. It splits or merges the shard
//! only at that generation, which held while the table had that epoch. So a late answer has no
//! effect. A leader that sends `Done` first knows the epoch, and then sees its shard's arc by a
//! linearizable read.
//!
//! # Invariants
//! 1. A keyspace has a table exactly if its placement is `linear-hash`.
//! 2. A table has at least one bucket, and at most [`BUCKETS_MAX`].
//! 3. Between two changes of their number one bucket was split, or one was absorbed.
//!
//! # Bytes
//! Number of buckets and epoch, `varint` each, and `u8`: 0 nothing is under way, 1 it grows, 2 it
//! shrinks. An op: keyspace id and epoch, `varint` each, and `u8`: 0 grow, 1 shrink, 2 begin, 3
//! done.

use super::{Catalogue, CatalogueError, Keyspace, Subject};
use crate::codec::{DecodeError, Reader, put_varint};
use crate::ids::{KeyspaceId, ShardId};

/// The most buckets of a table.
pub const BUCKETS_MAX: u64 = 1 << 16;

/// The shape of a linear-hash table, and the step under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearHashRecord {
    /// The number of buckets; during a step, the number before it.
    pub buckets: u64,
    /// The table epoch: how often this record has changed.
    pub epoch: u64,
    /// The step under way.
    pub step: Option<LinearHashStep>,
}

/// A step of a linear-hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearHashStep {
    /// The bucket at the pointer is split.
    Grow,
    /// The last bucket is absorbed by the one that it was split from.
    Shrink,
}

/// A change of a table's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearHashOp {
    /// Begin to grow, if no step is under way.
    Grow,
    /// Begin to shrink, if no step is under way.
    Shrink,
    /// Carry out the step of this epoch, if it is still to be done. To grow, it allocates an id for
    /// the new bucket's shard.
    Begin,
    /// The step of this epoch is done.
    Done,
}

impl LinearHashRecord {
    /// That of a new keyspace.
    pub const FIRST: Self = Self { buckets: 1, epoch: 0, step: None };

    /// How many buckets there are when what is under way is done.
    fn after(&self, step: LinearHashStep) -> Option<u64> {
        let buckets = match step {
            LinearHashStep::Grow => self.buckets + 1,
            LinearHashStep::Shrink => self.buckets - 1,
        };
        (1..=BUCKETS_MAX).contains(&buckets).then_some(buckets)
    }

    /// The record after an act; none if that is not to be.
    fn after_op(&self, epoch: u64, act: LinearHashOp) -> Option<Self> {
        let begun = |step: LinearHashStep| {
            let may_be = self.step.is_none() && self.after(step).is_some();
            may_be.then_some(Self { epoch: epoch + 1, step: Some(step), ..*self })
        };
        if epoch != self.epoch {
            return None;
        }
        match (act, self.step) {
            (LinearHashOp::Grow, _) => begun(LinearHashStep::Grow),
            (LinearHashOp::Shrink, _) => begun(LinearHashStep::Shrink),
            (LinearHashOp::Begin, Some(_)) => Some(*self),
            (LinearHashOp::Done, Some(step)) => {
                let buckets = self.after(step)?;
                Some(Self { buckets, epoch: epoch + 1, step: None })
            }
            (LinearHashOp::Begin | LinearHashOp::Done, None) => None,
        }
    }

    /// Appends its bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.buckets, out);
        put_varint(self.epoch, out);
        out.push(match self.step {
            None => 0,
            Some(LinearHashStep::Grow) => 1,
            Some(LinearHashStep::Shrink) => 2,
        });
    }

    /// Reads one.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (buckets, epoch) = (reader.varint()?, reader.varint()?);
        let step = match reader.u8()? {
            0 => None,
            1 => Some(LinearHashStep::Grow),
            2 => Some(LinearHashStep::Shrink),
            found => return Err(DecodeError::Tag { what: "step of a file", found }),
        };
        let record = Self { buckets, epoch, step };
        let fits = (1..=BUCKETS_MAX).contains(&buckets)
            && step.is_none_or(|step| record.after(step).is_some());
        if fits { Ok(record) } else { Err(DecodeError::Field { what: "buckets of a file" }) }
    }
}

impl std::fmt::Display for LinearHashRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let step = match self.step {
            None => "",
            Some(LinearHashStep::Grow) => ", and is growing",
            Some(LinearHashStep::Shrink) => ", and is shrinking",
        };
        write!(f, "{} of at most {BUCKETS_MAX} buckets at turn {}{step}", self.buckets, self.epoch)
    }
}

impl LinearHashOp {
    pub(super) fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Grow,
            1 => Self::Shrink,
            2 => Self::Begin,
            3 => Self::Done,
            found => return Err(DecodeError::Tag { what: "act of a file", found }),
        })
    }
}

impl Catalogue {
    /// Applies an op to a keyspace's table at this epoch. Returns the shard id for a new bucket, if
    /// one is allocated, or the keyspace.
    ///
    /// # Errors
    /// `NotFound`, `NotLinearHash`, `StaleTableEpoch`.
    pub fn apply_linear_hash(
        &mut self,
        id: KeyspaceId,
        epoch: u64,
        act: LinearHashOp,
    ) -> Result<Subject, CatalogueError> {
        let next_shard = self.next_shard;
        let found = self.keyspaces.values_mut().find(|keyspace| keyspace.id == id);
        let not_found = || CatalogueError::NotFound { name: format!("(id {id})").into() };
        let keyspace: &mut Keyspace = found.ok_or_else(not_found)?;
        let name = &keyspace.name;
        let Some(record) = keyspace.linear_hash_table else {
            return Err(CatalogueError::NotLinearHash { name: name.clone() });
        };
        let Some(next) = record.after_op(epoch, act) else {
            return Err(CatalogueError::StaleTableEpoch { name: name.clone(), record });
        };
        if (act, next.step) == (LinearHashOp::Begin, Some(LinearHashStep::Grow)) {
            self.next_shard = ShardId(next_shard.0 + 1);
            return Ok(Subject::Shard(id, next_shard));
        }
        keyspace.linear_hash_table = Some(next);
        Ok(Subject::Keyspace(keyspace.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::KeyspaceOptions;
    use crate::cluster_version::ClusterVersion;
    use crate::position::Placement;

    fn catalogue() -> (Catalogue, KeyspaceId) {
        let mut catalogue = Catalogue::default();
        let options = KeyspaceOptions { placement: Placement::LinearHash, ..Default::default() };
        let refused = catalogue.create("f", options).cloned();
        assert!(matches!(refused, Err(CatalogueError::VersionTooLow { .. })));
        catalogue.raise_version(ClusterVersion::NEWEST).unwrap();
        let id = catalogue.create("f", options).unwrap().id;
        (catalogue, id)
    }

    fn record(catalogue: &Catalogue) -> LinearHashRecord {
        catalogue.get("f").unwrap().linear_hash_table.unwrap()
    }

    #[test]
    fn table_grows_and_shrinks_by_epochs() {
        let (mut catalogue, id) = catalogue();
        assert_eq!(record(&catalogue), LinearHashRecord::FIRST);
        let mut act = |epoch, act| {
            let result = catalogue.apply_linear_hash(id, epoch, act);
            (result, record(&catalogue))
        };
        let refused =
            |(result, there): (Result<Subject, CatalogueError>, LinearHashRecord)| match result {
                Err(CatalogueError::StaleTableEpoch { record, .. }) => record == there,
                _ => false,
            };
        assert!(refused(act(0, LinearHashOp::Shrink)), "it has one bucket");
        assert!(refused(act(0, LinearHashOp::Begin)), "nothing is under way");
        assert!(refused(act(0, LinearHashOp::Done)));
        let (_, grows) = act(0, LinearHashOp::Grow);
        assert_eq!(
            grows,
            LinearHashRecord { buckets: 1, epoch: 1, step: Some(LinearHashStep::Grow) }
        );
        assert!(refused(act(0, LinearHashOp::Grow)), "somebody was first");
        assert!(refused(act(1, LinearHashOp::Grow)) && refused(act(1, LinearHashOp::Shrink)));
        let ids = [1, 1].map(|epoch| match act(epoch, LinearHashOp::Begin) {
            (Ok(Subject::Shard(_, shard)), record) if record == grows => shard.0,
            other => panic!("{other:?}"),
        });
        assert_eq!(ids[1], ids[0] + 1, "no id is given out twice");
        let (_, grown) = act(1, LinearHashOp::Done);
        assert_eq!(grown, LinearHashRecord { buckets: 2, epoch: 2, step: None });
        assert!(refused(act(1, LinearHashOp::Begin)) && refused(act(1, LinearHashOp::Done)));
        act(2, LinearHashOp::Shrink).0.unwrap();
        let (result, shrinks) = act(3, LinearHashOp::Begin);
        assert!(matches!(result, Ok(Subject::Keyspace(_))));
        assert_eq!(
            shrinks,
            LinearHashRecord { buckets: 2, epoch: 3, step: Some(LinearHashStep::Shrink) }
        );
        assert_eq!(
            act(3, LinearHashOp::Done).1,
            LinearHashRecord { buckets: 1, epoch: 4, step: None }
        );
    }

    #[test]
    fn other_placements_have_no_table() {
        let (mut catalogue, id) = catalogue();
        let other = catalogue.create("h", KeyspaceOptions::default()).unwrap();
        assert_eq!(other.linear_hash_table, None);
        let other = other.id;
        let result = catalogue.apply_linear_hash(other, 0, LinearHashOp::Grow);
        assert_eq!(result, Err(CatalogueError::NotLinearHash { name: "h".into() }));
        catalogue.drop("f").unwrap();
        let result = catalogue.apply_linear_hash(id, 0, LinearHashOp::Grow);
        assert!(matches!(result, Err(CatalogueError::NotFound { .. })));
    }

    #[test]
    fn table_has_at_most_buckets_max() {
        let last = LinearHashRecord { buckets: BUCKETS_MAX, ..LinearHashRecord::FIRST };
        assert_eq!(last.after_op(0, LinearHashOp::Grow), None);
        assert!(last.after_op(0, LinearHashOp::Shrink).is_some());
        let grows = LinearHashRecord { step: Some(LinearHashStep::Grow), ..last };
        let none = LinearHashRecord { buckets: 0, ..LinearHashRecord::FIRST };
        for wrong in [grows, none] {
            let mut bytes = Vec::new();
            wrong.encode(&mut bytes);
            let read = LinearHashRecord::decode(&mut Reader::new(&bytes));
            assert_eq!(read, Err(DecodeError::Field { what: "buckets of a file" }));
        }
    }
}
