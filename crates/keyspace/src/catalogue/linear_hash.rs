//! How does a file of linear hashing grow and shrink? By one bucket at a time.
//!
//! The shards of a keyspace of linear hashing are the buckets of a file ([`crate::linear_hash`]),
//! and all of them follow from how many there are: those of 2^i + n buckets. So that number is the
//! record, beside what is to become of it and a **turn**, which rises with every change:
//!
//! ```text
//!   4 buckets, turn 6               Grow 6  ──► 4 buckets, turn 7, growing
//!   who leads bucket 0              Begin 7 ──► a new shard's id: the bucket is cut in two
//!   who leads it sees that it was   Done 7  ──► 5 buckets, turn 8
//! ```
//!
//! Every op names the turn that it is about and is refused at any other: so of many who ask for
//! the same one is heard, and nobody goes on with what has been done. Nothing takes a step back:
//! what was begun is carried out by whoever leads the shard, however often that changes.
//!
//! Who says `Begin` has looked at its shard's generation before. It cuts the shard, or has it take
//! its neighbour in, only if it has that generation still; until then the file was as the turn
//! says. So what comes of an answer that was long on its way comes too late. Who says `Done` has
//! learnt of the turn first, and then seen its shard's arc by a linearizable read.
//!
//! # Invariants
//! 1. A keyspace has a file if its placement is that of linear hashing, and only then.
//! 2. A file has one bucket at least, and at most [`BUCKETS_MAX`].
//! 3. Between two changes of their number one bucket was cut, or one was taken in.
//!
//! # Bytes
//! Number of buckets and turn, `varint` each, and `u8`: 0 nothing is under way, 1 it grows, 2 it
//! shrinks. An op: keyspace id and turn, `varint` each, and `u8`: 0 grow, 1 shrink, 2 begin, 3
//! done.

use super::{Catalogue, CatalogueError, Keyspace, Subject};
use crate::codec::{DecodeError, Reader, put_varint};
use crate::ids::{KeyspaceId, ShardId};

/// The most buckets that a file may have.
pub const BUCKETS_MAX: u64 = 1 << 16;

/// The shape of a file, and what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearHashRecord {
    /// How many buckets there are; while something is under way, were when it began.
    pub buckets: u64,
    /// How often this record has changed.
    pub turn: u64,
    /// What is under way.
    pub step: Option<LinearHashStep>,
}

/// What a file is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearHashStep {
    /// The bucket at the pointer is cut in two.
    Grow,
    /// The last bucket is taken in by the one that it was cut from.
    Shrink,
}

/// What is asked of a file's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearHashOp {
    /// It is to grow, if nothing is under way.
    Grow,
    /// It is to shrink, if nothing is under way.
    Shrink,
    /// Whether what this turn says is still to be done; if that is to grow, with an id for the new
    /// bucket's shard.
    Begin,
    /// What this turn says is done.
    Done,
}

impl LinearHashRecord {
    /// That of a new keyspace.
    pub const FIRST: Self = Self { buckets: 1, turn: 0, step: None };

    /// How many buckets there are when what is under way is done.
    fn after(&self, step: LinearHashStep) -> Option<u64> {
        let buckets = match step {
            LinearHashStep::Grow => self.buckets + 1,
            LinearHashStep::Shrink => self.buckets - 1,
        };
        (1..=BUCKETS_MAX).contains(&buckets).then_some(buckets)
    }

    /// The record after an act; none if that is not to be.
    fn after_op(&self, turn: u64, act: LinearHashOp) -> Option<Self> {
        let begun = |step: LinearHashStep| {
            let may_be = self.step.is_none() && self.after(step).is_some();
            may_be.then_some(Self { turn: turn + 1, step: Some(step), ..*self })
        };
        if turn != self.turn {
            return None;
        }
        match (act, self.step) {
            (LinearHashOp::Grow, _) => begun(LinearHashStep::Grow),
            (LinearHashOp::Shrink, _) => begun(LinearHashStep::Shrink),
            (LinearHashOp::Begin, Some(_)) => Some(*self),
            (LinearHashOp::Done, Some(step)) => {
                let buckets = self.after(step)?;
                Some(Self { buckets, turn: turn + 1, step: None })
            }
            (LinearHashOp::Begin | LinearHashOp::Done, None) => None,
        }
    }

    /// Appends its bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.buckets, out);
        put_varint(self.turn, out);
        out.push(match self.step {
            None => 0,
            Some(LinearHashStep::Grow) => 1,
            Some(LinearHashStep::Shrink) => 2,
        });
    }

    /// Reads one.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (buckets, turn) = (reader.varint()?, reader.varint()?);
        let step = match reader.u8()? {
            0 => None,
            1 => Some(LinearHashStep::Grow),
            2 => Some(LinearHashStep::Shrink),
            found => return Err(DecodeError::Tag { what: "step of a file", found }),
        };
        let record = Self { buckets, turn, step };
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
        write!(f, "{} of at most {BUCKETS_MAX} buckets at turn {}{step}", self.buckets, self.turn)
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
    /// What is asked of a keyspace's file at this turn; a shard's id, if one is given out for a new
    /// bucket, or the keyspace.
    ///
    /// # Errors
    /// `NotFound`, `NoFile`, `FileIs`.
    pub fn file(
        &mut self,
        id: KeyspaceId,
        turn: u64,
        act: LinearHashOp,
    ) -> Result<Subject, CatalogueError> {
        let next_shard = self.next_shard;
        let found = self.keyspaces.values_mut().find(|keyspace| keyspace.id == id);
        let not_found = || CatalogueError::NotFound { name: format!("(id {id})").into() };
        let keyspace: &mut Keyspace = found.ok_or_else(not_found)?;
        let name = &keyspace.name;
        let Some(record) = keyspace.file else {
            return Err(CatalogueError::NotLinearHash { name: name.clone() });
        };
        let Some(next) = record.after_op(turn, act) else {
            return Err(CatalogueError::StaleTableEpoch { name: name.clone(), record });
        };
        if (act, next.step) == (LinearHashOp::Begin, Some(LinearHashStep::Grow)) {
            self.next_shard = ShardId(next_shard.0 + 1);
            return Ok(Subject::Shard(id, next_shard));
        }
        keyspace.file = Some(next);
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
        catalogue.get("f").unwrap().file.unwrap()
    }

    #[test]
    fn a_file_grows_and_shrinks_by_turns() {
        let (mut catalogue, id) = catalogue();
        assert_eq!(record(&catalogue), LinearHashRecord::FIRST);
        let mut act = |turn, act| {
            let said = catalogue.file(id, turn, act);
            (said, record(&catalogue))
        };
        let refused =
            |(said, there): (Result<Subject, CatalogueError>, LinearHashRecord)| match said {
                Err(CatalogueError::StaleTableEpoch { record, .. }) => record == there,
                _ => false,
            };
        assert!(refused(act(0, LinearHashOp::Shrink)), "it has one bucket");
        assert!(refused(act(0, LinearHashOp::Begin)), "nothing is under way");
        assert!(refused(act(0, LinearHashOp::Done)));
        let (_, grows) = act(0, LinearHashOp::Grow);
        assert_eq!(
            grows,
            LinearHashRecord { buckets: 1, turn: 1, step: Some(LinearHashStep::Grow) }
        );
        assert!(refused(act(0, LinearHashOp::Grow)), "somebody was first");
        assert!(refused(act(1, LinearHashOp::Grow)) && refused(act(1, LinearHashOp::Shrink)));
        let ids = [1, 1].map(|turn| match act(turn, LinearHashOp::Begin) {
            (Ok(Subject::Shard(_, shard)), record) if record == grows => shard.0,
            other => panic!("{other:?}"),
        });
        assert_eq!(ids[1], ids[0] + 1, "no id is given out twice");
        let (_, grown) = act(1, LinearHashOp::Done);
        assert_eq!(grown, LinearHashRecord { buckets: 2, turn: 2, step: None });
        assert!(refused(act(1, LinearHashOp::Begin)) && refused(act(1, LinearHashOp::Done)));
        act(2, LinearHashOp::Shrink).0.unwrap();
        let (said, shrinks) = act(3, LinearHashOp::Begin);
        assert!(matches!(said, Ok(Subject::Keyspace(_))));
        assert_eq!(
            shrinks,
            LinearHashRecord { buckets: 2, turn: 3, step: Some(LinearHashStep::Shrink) }
        );
        assert_eq!(
            act(3, LinearHashOp::Done).1,
            LinearHashRecord { buckets: 1, turn: 4, step: None }
        );
    }

    #[test]
    fn others_have_no_file() {
        let (mut catalogue, id) = catalogue();
        let other = catalogue.create("h", KeyspaceOptions::default()).unwrap();
        assert_eq!(other.file, None);
        let other = other.id;
        let said = catalogue.file(other, 0, LinearHashOp::Grow);
        assert_eq!(said, Err(CatalogueError::NotLinearHash { name: "h".into() }));
        catalogue.drop("f").unwrap();
        let said = catalogue.file(id, 0, LinearHashOp::Grow);
        assert!(matches!(said, Err(CatalogueError::NotFound { .. })));
    }

    #[test]
    fn no_file_is_larger_than_it_may_be() {
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
