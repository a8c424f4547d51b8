//! How does a shard split? By one entry of its log, at the same index everywhere (SAFETY G11).
//!
//! ```text
//!   left's log    … i-1   [ split: 25 from 4096 on ]   i+1 …     slots [0, 8192) → [0, 4096)
//!                               │ each replica that applies it
//!   right's log                 └──► begins behind index 1, term 1   slots [4096, 8192)
//! ```
//!
//! The right half begins with what the left one had at that entry: the versions of its keys, the
//! safe point, the horizon, the newest timestamp, the fence. It gets a replica, with the same id,
//! wherever the left one has a voter. Both halves have a higher generation than the shard before: a
//! node that knows both can tell which is right ([`crate::routing::route`]).
//!
//! Locks, and marks of transactions, go with their keys ([`txn::locks`]). Only the left half keeps
//! the sessions ([`crate::routing::session`]). A command that it has turned away
//! ([`command::Reply::Moved`]) was never done, so its sender asks the right half as for a new
//! command. No command goes to both.
//!
//! The entry does nothing if the shard has changed since its proposer looked, its replicas are
//! changing, or a transaction that flushes has locked the shard ([`txn::locks`]).
//!
//! # What is on disk
//! The left half's log holds all that the right one begins with, so there is no bootstrap record.
//! But before anything that the right half writes, the left one writes down how far it has agreed:
//! so a replay has applied the entry when it meets the right half's first record. And a round of
//! checkpoints that has one of the left half behind the entry has one of the right half too, or the
//! log would be cut that makes it ([`crate::executor::ShardExecutor::pending_halves`]).
//!
//! # Bytes
//! Body of an entry of kind [`crate::replica::entry::Kind::Split`]: the right half's id, the
//! generation that the shard has before, `varint` each, and where it is cut: a [`Cut`].

use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::{Arc, Cut, Descriptor, Generation, ShardId, linear_hash};
use storage::engine::MemoryEngine;
use txn::locks::Locks;

use crate::replica::members::Roster;
use crate::replica::state::{Content, ShardState};

/// A shard is to be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The id of the right half, which was given out for it.
    pub right: ShardId,
    /// The shard as it is known.
    pub generation: Generation,
    /// The first slot or key of the right half.
    pub at: Cut,
}

/// The state that a right half begins with.
#[derive(Debug)]
pub struct Half(pub Box<ShardState>);

impl PartialEq for Half {
    fn eq(&self, other: &Self) -> bool {
        self.0.descriptor == other.0.descriptor
    }
}

impl Split {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(self.right.0, &mut out);
        put_varint(self.generation.0, &mut out);
        self.at.encode(&mut out);
        out
    }

    /// Reads one from all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`]: they hold something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(bytes);
        let (right, generation) = (ShardId(reader.varint()?), Generation(reader.varint()?));
        let at = Cut::decode(reader)?;
        reader.end()?;
        Ok(Self { right, generation, at })
    }

    /// Whether a shard can be cut so now.
    pub fn fits(&self, state: &ShardState) -> bool {
        let Descriptor { generation, arc, .. } = &state.descriptor;
        let is_within = arc.split(&self.at.position(arc.keyspace())).is_some();
        let is_of_layout =
            state.engine().is_some_and(|engine| engine.layout().placement() == self.at.placement());
        // Buckets are halved and nothing else.
        let is_half = match self.at {
            Cut::Number(at) => linear_hash::middle(arc) == Some(at),
            Cut::Slot(_) | Cut::Key(_) => true,
        };
        let is_place = is_within && is_of_layout && is_half;
        *generation == self.generation && is_place && state.is_at_rest() && state.locks.may_split()
    }
}

impl ShardState {
    /// Cuts off the right half, if it fits; what that begins with.
    pub(crate) fn split(&mut self, split: &Split) -> Option<Half> {
        if !split.fits(self) {
            return None;
        }
        let (of_right, cut_off, locks) = self.cut_off(&split.at)?;
        let generation = Generation(split.generation.0 + 1);
        self.descriptor.generation = generation;
        let voters = &self.members.voters;
        let replicas = self.descriptor.replicas.iter().copied();
        let descriptor = Descriptor {
            shard: split.right,
            arc: of_right,
            replicas: replicas.filter(|(replica, _)| voters.contains(replica)).collect(),
            generation,
            leader: None,
        };
        let mut right = Self::new(descriptor, Content::Keys(Box::new(cut_off)));
        right.locks = locks;
        right.roster = Roster { newest: self.roster.newest, ..right.roster };
        (right.horizon, right.last) = (self.horizon, self.last);
        right.fence = self.fence;
        Some(Half(Box::new(right)))
    }

    /// Cuts off all from this place on, and no more than that. None: it has no such place, or only
    /// such, and nothing has changed.
    pub(crate) fn cut_off(&mut self, at: &Cut) -> Option<(Arc, MemoryEngine, Locks)> {
        let position = at.position(self.descriptor.keyspace());
        let (of_left, of_right) = self.descriptor.arc.split(&position)?;
        let cut_off = self.engine_mut()?.split_off(at).ok()?;
        // A reader in several pieces starts again.
        self.cuts += 1;
        self.descriptor.arc = of_left;
        Some((of_right, cut_off, self.locks.split_off(at)))
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{KeyHasher, KeyspaceId, NodeId, ReplicaId, SLOTS, Timestamp};
    use replication::Members;
    use storage::engine::Layout;

    use command::{Flush, Transaction, Writer};
    use txn::locks::apply::{Owns, apply};
    use txn::locks::{Deadline, Keys, Outcome, Places, Prepare, Role, Step, StepReply, TxnId};

    use super::*;

    const HASHER: KeyHasher = KeyHasher::new([1; 16]);

    fn state() -> ShardState {
        state_of(Layout::Hashed { first_slot: 0, end_slot: SLOTS })
    }

    fn state_of(layout: Layout) -> ShardState {
        let replicas = (1..=3).map(|id| (ReplicaId(id), NodeId(id * 10))).collect();
        let descriptor = Descriptor {
            shard: ShardId(9),
            arc: Arc::of_slots(KeyspaceId(1), 0, SLOTS),
            replicas,
            generation: Generation(4),
            leader: None,
        };
        ShardState::new(descriptor, Content::Keys(Box::new(MemoryEngine::new(layout, HASHER))))
    }

    const SPLIT: Split =
        Split { right: ShardId(300), generation: Generation(4), at: Cut::Slot(8000) };

    #[test]
    fn split_roundtrips_and_other_bytes_are_refused() {
        let bytes = SPLIT.encode();
        assert_eq!(Split::decode(&bytes), Ok(SPLIT));
        assert!(Split::decode(&bytes[..bytes.len() - 1]).is_err());
        assert!(Split::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn split_halves_have_their_keys_and_read_promises() {
        let mut left = state();
        let names: Vec<Vec<u8>> = (0..100).map(|n: u32| n.to_string().into_bytes()).collect();
        for name in &names {
            let engine = left.engine_mut().expect("the shard has keys");
            engine.put(&HASHER.key(name), &[b"v"], 0, Timestamp(5));
        }
        (left.horizon, left.last) = (Timestamp(70), Timestamp(60));
        let writer = Writer { epoch: 5, session: 1 };
        left.fence.raise(writer).expect("nobody writes");
        left.roster.newest = ReplicaId(7);
        let Half(right) = left.split(&SPLIT).expect("the split fits");
        assert_eq!((left.descriptor.generation, left.cuts), (Generation(5), 1));
        assert_eq!(right.descriptor.generation, Generation(5));
        assert_eq!(right.descriptor.replicas, left.descriptor.replicas);
        assert_eq!((right.horizon, right.last), (Timestamp(70), Timestamp(60)));
        assert_eq!((right.roster.newest, right.applied_index), (ReplicaId(7), 1));
        assert!(left.fence.admits(writer) && right.fence.admits(writer));
        for name in &names {
            let key = HASHER.key(name);
            let (in_left, in_right) = (left.owns(&key), right.owns(&key));
            assert_eq!((in_left, in_right), (key.slot < 8000, key.slot >= 8000));
            let half = if in_left { &left } else { &*right };
            let engine = half.engine().expect("the shard has keys");
            assert!(engine.newest(&key, Timestamp(60)).is_some());
        }
        // Once is enough.
        assert!(left.split(&SPLIT).is_none());
    }

    /// A half without the lock's key would be in no record of the transaction.
    #[test]
    fn shard_is_not_split_while_a_transaction_flushes_it() {
        let mut left = state();
        let id = TxnId { start: Timestamp::from_millis(5), coordinator: 7, attempt: 0 };
        let witness = &b"w"[..];
        let flush = Flush::Arc { witness, from: Cut::Slot(0), end: Cut::Slot(SLOTS) };
        let part = Transaction { flush: Some(Box::new(flush)), ..Transaction::default() };
        let prepare = Prepare {
            id,
            is_first: false,
            reserved_as: None,
            record: witness,
            promised: Keys::from_slice(&[witness]),
            role: Role::Votes,
            deadline: Some(Deadline::NEVER),
            places: Places::new(),
            part,
        };
        let keys = Keys::from_slice(&[witness]);
        let resolve = Step::Resolve { id, outcome: Outcome::Aborted, keys };
        for (at, step, may_split) in [(6, Step::Prepare(prepare), false), (7, resolve, true)] {
            let ShardState { locks, content: Content::Keys(engine), descriptor, .. } = &mut left
            else {
                panic!("it has keys");
            };
            let owns = Owns { arc: &descriptor.arc, key: &|_| true, up_to: &|_| true };
            let at = Timestamp::from_millis(at);
            let reply = apply(locks, engine, &step, at, &owns, &mut ());
            assert!(matches!(reply, StepReply::Voted(_) | StepReply::Done), "{reply:?}");
            assert_eq!(left.split(&SPLIT).is_some(), may_split);
        }
    }

    #[test]
    fn ordered_shard_and_its_halves_split_at_a_key() {
        let mut left = state_of(Layout::Ordered);
        let names = [&b"apple"[..], b"melon", b"melon pie", b"pear"];
        for name in names {
            let engine = left.engine_mut().expect("the shard has keys");
            engine.put(&HASHER.key(name), &[b"v"], 0, Timestamp(5));
        }
        left.last = Timestamp(60);
        assert!(left.split(&SPLIT).is_none(), "it has no slots");
        let at = |key: &[u8]| Cut::Key(key.into());
        let split = Split { at: at(b"melon"), ..SPLIT };
        assert_eq!(Split::decode(&split.encode()), Ok(split.clone()));
        let Half(mut middle) = left.split(&split).expect("the split fits");
        let generation = Generation(5);
        assert!(!Split { at: at(b"apple"), generation, ..SPLIT }.fits(&middle));
        let split = Split { right: ShardId(301), generation, at: at(b"nut") };
        let Half(right) = middle.split(&split).expect("the split fits");
        for (half, its) in [(&left, 0..1), (&*middle, 1..3), (&*right, 3..4)] {
            for (place, name) in names.iter().enumerate() {
                let key = HASHER.key(name);
                let engine = half.engine().expect("the shard has keys");
                let is_here = engine.newest(&key, Timestamp(60)).is_some();
                assert_eq!((is_here, half.owns(&key)), (its.contains(&place), is_here));
            }
        }
    }

    #[test]
    fn bucket_splits_only_at_its_middle() {
        let mut left = state_of(Layout::LinearHash);
        let names: Vec<Vec<u8>> = (0..100).map(|n: u32| n.to_string().into_bytes()).collect();
        for name in &names {
            let engine = left.engine_mut().expect("the shard has keys");
            engine.put(&HASHER.key(name), &[b"v"], 0, Timestamp(5));
        }
        left.last = Timestamp(60);
        let half = 1 << 63;
        for at in [Cut::Slot(8000), Cut::Key(b"5"[..].into()), Cut::Number(half / 2)] {
            assert!(!Split { at, ..SPLIT }.fits(&left));
        }
        let split = Split { at: Cut::Number(half), ..SPLIT };
        assert_eq!(Split::decode(&split.encode()), Ok(split.clone()));
        let Half(right) = left.split(&split).expect("the split fits");
        for name in &names {
            let key = HASHER.key(name);
            let is_right = linear_hash::bit_reversed_hash(name) >= half;
            for (half, is_its) in [(&left, !is_right), (&*right, is_right)] {
                let engine = half.engine().expect("the shard has keys");
                let is_here = engine.newest(&key, Timestamp(60)).is_some();
                assert_eq!((is_here, half.owns(&key)), (is_its, is_its));
            }
        }
        let record = right.bootstrap_record();
        let again = ShardState::created(&record, HASHER).expect("the bytes were written here");
        assert_eq!(again.engine().map(MemoryEngine::layout), Some(Layout::LinearHash));
    }

    #[test]
    fn shard_with_member_change_does_not_split() {
        let ids = |ids: &[u64]| ids.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
        let mut joint = state();
        joint.members.outgoing = ids(&[1, 2]);
        let mut learning = state();
        learning.members = Members { learners: ids(&[3]), ..Members::of_voters(&ids(&[1, 2])) };
        let mut unsettled = state();
        unsettled.roster.is_settled = false;
        for mut state in [joint, learning, unsettled] {
            assert!(state.split(&SPLIT).is_none());
        }
        for at in [0, SLOTS] {
            assert!(!Split { at: Cut::Slot(at), ..SPLIT }.fits(&state()));
        }
    }
}
