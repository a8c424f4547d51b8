//! What does a shard know of transactions over several shards? Locks, records and marks
//! (SAFETY G8, decision 0036).
//!
//! ```text
//!   PREPARE ──► Lock: what is to be written        the shard of the record key: Record, STAGED
//!                 │ RESOLVE, or PREVENT finds it                │ DECIDE
//!                 ▼                                             ▼
//!               Mark: its outcome                         COMMITTED at …, or ABORTED
//!                 └── until the shard's logged clock refuses the id ([`AGE_MAX_MS`]) ──┘
//! ```
//!
//! Only log entries change this state ([`step`], [`apply`](mod@apply)). It is part of checkpoints,
//! digests and snapshots. A split divides it by key, and a merge unites it.
//!
//! # What a lock stops
//! Writers of the key wait until the lock is released. Readers wait, too, if the transaction writes
//! the key. A key that a transaction has only read may be read.
//!
//! If a transaction has read a range of an ordered shard, the lock of the range's first key
//! *reaches* to the range's end ([`LockRange`]). That key may have no value. Writers of any key in
//! between wait, too. So the reaches of two transactions never overlap, and no other's lock lies
//! within one. If the shard is split within a reach, the right half gets a lock of its own, which
//! is in no record. The leader there has the transaction finished, as if it were abandoned.
//!
//! A transaction that flushes its keyspace locks the arc of each shard (`arcs`).
//!
//! # Why nothing is forgotten too soon
//! The shard forgets a mark or an outcome by the same test by which PREPARE refuses the id: its
//! start + [`AGE_MAX_MS`] ≤ the entry's time, or it began before the *floor* of its coordinator. A
//! COMMITTED record keeps its keys until FORGET. A STAGED one stays until it is decided, however
//! old.
//!
//! FORGET carries the floor: the coordinator asks for no PREPARE any more of transactions that it
//! began before, and waits for no answer to one. Nearly all of them are over, in all shards. Those
//! that it has given up are finished from records that are STAGED or still have keys, which no
//! floor removes. A coordinator that finds no record takes the transaction for aborted. That is
//! right: either all its locks are resolved, or the record never promised them.
//!
//! To a shard a floor is as if its clock had jumped for one coordinator; shards may learn of it in
//! any order, or not at all. With floors most marks and outcomes are forgotten after some tenths of
//! a second; without one, as when a coordinator ends, after ten seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use keyspace::{Cut, NodeId, Timestamp};
use smallvec::SmallVec;

use command::Reply;
use command::transaction::KeyRange;

pub mod apply;
mod arcs;
mod codec;
mod deadline;
mod marks;
mod name;
mod speculative;
pub mod step;
#[cfg(test)]
mod tests;

pub use deadline::{Deadline, commit_time};
use marks::Marks;
pub use step::{
    KeyFinding, Keys, Places, Prepare, PrepareRefusal, RecordState, Role, Step, StepReply, Vote,
};

/// How long after its start a transaction may take locks, by the shard's logged clock, in ms; and
/// how long the shard remembers its outcome.
pub const AGE_MAX_MS: u64 = 10_000;
/// Bytes of replies that a mark retains; the shard forgets longer ones with the lock.
pub const RETAINED_ANSWER_BYTES_MAX: usize = 256;
/// Bytes that the locks of one shard may take: keys, values to be written, and replies. Beyond,
/// the shard refuses PREPARE.
pub const LOCKED_BYTES_MAX: usize = 128 << 20;

/// Identifies a transaction, and the attempt at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId {
    /// When it began, by its coordinator's clock. The same for all attempts.
    pub start: Timestamp,
    /// Which coordinator: see [`TxnId::name`].
    pub coordinator: u64,
    /// 0, 1, 2 … One follows when the one before is ABORTED. One bit says how it names its keys
    /// ([`spans_keyspaces`](Self::spans_keyspaces)).
    pub attempt: u32,
}

impl TxnId {
    /// The name of a coordinator: half of it comes from its node, the other half is random.
    /// Together with the start it names one transaction.
    pub fn name(node: NodeId, drawn: u32) -> u64 {
        node.0 << 32 | u64::from(drawn)
    }

    /// Whether this node began it. Wrongly true for one in 2³² pairs of nodes.
    pub fn is_of(&self, node: NodeId) -> bool {
        self.coordinator >> 32 == u64::from(node.0 as u32)
    }

    /// Whether it began before the other; attempts do not count.
    pub fn is_older_than(&self, other: &Self) -> bool {
        (self.start, self.coordinator) < (other.start, other.coordinator)
    }

    /// Whether a shard whose logged clock stands at `at` refuses it, and forgets it.
    pub fn is_too_old(&self, at: Timestamp) -> bool {
        self.start.millis().saturating_add(AGE_MAX_MS) <= at.millis()
    }
}

/// A key, the beginning of one, or what a transaction names a key by: a short one needs no memory
/// of its own.
pub type Name = SmallVec<[u8; 24]>;

/// The answers of a transaction's commands in one shard, each with the place of its command.
pub type Answers = SmallVec<[(u32, Reply); 1]>;

/// What a key gets if the transaction is committed.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Its present value: the key was only read.
    Keep,
    /// This value, with its expiry in ms (0: never). A number needs no memory of its own.
    Put(SmallVec<[u8; 24]>, u64),
    /// None.
    Delete,
}

impl Intent {
    /// How many bytes it writes.
    pub fn bytes(&self) -> usize {
        if let Intent::Put(value, _) = self { value.len() } else { 0 }
    }
}

/// Which keys a lock stops others from writing, besides its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRange {
    /// None.
    Key,
    /// All behind it, up to this one, exclusive.
    Until(Box<[u8]>),
    /// All behind it.
    End,
    /// All from one place on and before another. Nobody reads them either: they are flushed if the
    /// transaction is committed. In a box, since hardly any lock is one of an arc.
    Arc(Box<(Cut, Cut)>),
}

impl LockRange {
    /// Whether a key behind that of the lock is in a range.
    fn holds(&self, key: &[u8]) -> bool {
        match self {
            LockRange::Key | LockRange::Arc(..) => false,
            LockRange::Until(end) => *key < **end,
            LockRange::End => true,
        }
    }

    /// The arc, if it is one.
    pub fn arc(&self) -> Option<(&Cut, &Cut)> {
        if let LockRange::Arc(arc) = self { Some((&arc.0, &arc.1)) } else { None }
    }

    /// That of an arc between two places.
    fn between(from: &Cut, end: &Cut) -> Self {
        LockRange::Arc(Box::new((from.clone(), end.clone())))
    }
}

/// A key that a transaction has locked.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Whose.
    pub id: TxnId,
    /// The name of the key by which the transaction's record is found.
    pub record: Name,
    /// The time of the entry that locked it.
    pub at: Timestamp,
    /// The earliest expiry of a value that its PREPARE has found alive, at this key or another: the
    /// commit time lies below it, or the transaction is aborted.
    pub deadline: Deadline,
    /// What the key gets if the transaction is committed.
    pub intent: Intent,
    /// How far it reaches.
    pub reach: LockRange,
    /// The replies of the commands that name this key first.
    pub answers: Answers,
}

impl Lock {
    /// The vote that it gives its transaction.
    pub fn vote(&self) -> Vote {
        Vote { at: self.at, deadline: self.deadline, answers: self.answers.clone() }
    }

    /// Whether it writes if the transaction is committed.
    pub fn writes(&self) -> bool {
        self.intent != Intent::Keep || self.reach.arc().is_some()
    }

    fn bytes(&self, key: &[u8]) -> usize {
        key.len() + self.intent.bytes()
    }
}

/// The outcome in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed if all of the promised keys are locked, or were and are resolved, and the commit
    /// time lies below each lock's deadline.
    Staged,
    /// Committed at this time.
    Committed(Timestamp),
    /// Never to be committed.
    Aborted,
}

impl Outcome {
    /// When it was committed, if it was.
    pub fn committed(&self) -> Option<Timestamp> {
        if let Outcome::Committed(at) = self { Some(*at) } else { None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    key: Name,
    outcome: Outcome,
    /// Names of all keys that the transaction has locked, in all shards, until they are resolved.
    keys: Vec<Name>,
}

impl Record {
    /// Whether no key of it is left to be resolved.
    fn is_over(&self) -> bool {
        self.outcome != Outcome::Staged && self.keys.is_empty()
    }
}

/// The outcome of a transaction at one key.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// It is not locked and never will be.
    Aborted,
    /// Committed: what the transaction wrote here is in the engine.
    Committed {
        /// The time of the entry that locked it.
        locked_at: Timestamp,
        /// The time at which its value was written.
        commit_time: Timestamp,
        /// The replies of the commands that name this key first, if they are short.
        answers: Answers,
    },
}

/// See the front page.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    locks: BTreeMap<Name, Lock>,
    records: BTreeMap<TxnId, Record>,
    marks: BTreeMap<TxnId, Marks>,
    /// Of what a coordinator has begun before nothing is prepared any more; until that is too old
    /// anyway.
    floors: BTreeMap<u64, Timestamp>,
    /// Those that reach further than their key, but for arcs.
    reaching: BTreeSet<Name>,
    /// The witnesses of locked arcs.
    arcs: BTreeSet<Name>,
    /// Bytes of locked keys, and of values to be written.
    bytes: usize,
    /// Records that still have keys.
    unfinished: usize,
    /// How many locks were released on this replica: not part of the replicated state.
    released: u64,
}

impl PartialEq for Locks {
    fn eq(&self, other: &Self) -> bool {
        (&self.locks, &self.records, &self.marks, &self.floors)
            == (&other.locks, &other.records, &other.marks, &other.floors)
    }
}

impl Locks {
    /// Whether no key is locked.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.locks.is_empty()
    }

    /// Whether nothing is known of any transaction.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
            && self.records.is_empty()
            && self.marks.is_empty()
            && self.floors.is_empty()
    }

    /// How many keys are locked, records are known, and marks.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.locks.len(), self.records.len(), self.marked())
    }

    fn marked(&self) -> usize {
        self.marks.values().map(|marks| marks.iter().count()).sum()
    }

    /// The lock of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Lock> {
        self.locks.get(key)
    }

    /// The lock that keeps a key from being written: its own, or one that reaches to it.
    pub fn blocking_lock(&self, key: &[u8]) -> Option<&Lock> {
        self.locks.get(key).or_else(|| {
            let before = (Bound::Unbounded, Bound::Included(key));
            let first = self.reaching.range::<[u8], _>(before).next_back();
            let lock = first.and_then(|first| self.locks.get(first));
            lock.filter(|lock| lock.reach.holds(key)).or_else(|| self.arc_lock(key))
        })
    }

    /// The locks of other transactions in a range, with their keys; and those of all arcs, some of
    /// which may lie elsewhere in the shard.
    pub fn within(
        &self,
        id: TxnId,
        (low, high): KeyRange<'_>,
    ) -> impl Iterator<Item = (&[u8], &Lock)> {
        // One that ends before it begins holds nothing.
        let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.max(low)));
        let there = self.locks.range::<[u8], _>((Bound::Included(low), end));
        let arcs = self.arcs.iter().filter_map(|witness| self.locks.get_key_value(witness));
        let all = there.chain(arcs).filter(move |(_, lock)| lock.id != id);
        all.map(|(key, lock)| (&**key, lock))
    }

    /// Whether a read must not return the newest value of a key: it may have another one already.
    #[inline]
    pub fn hides_newest(&self, key: &[u8]) -> bool {
        self.locks.get(key).is_some_and(|lock| lock.intent != Intent::Keep)
            || self.arc_lock(key).is_some()
    }

    /// Whether a read must not return a key's value at a past time.
    pub fn hides_at(&self, key: &[u8], at: Timestamp) -> bool {
        self.locks.get(key).is_some_and(|lock| lock.intent != Intent::Keep && lock.at <= at)
            || self.arc_lock(key).is_some_and(|lock| lock.at <= at)
    }

    /// Whether a transaction writes a key that it locked at or before a time, or in the same
    /// millisecond: leaders report their clocks in milliseconds.
    pub fn writes_by(&self, at: Timestamp) -> bool {
        let is_by = |lock: &Lock| lock.at.millis() <= at.millis();
        self.locks.values().any(|lock| lock.writes() && is_by(lock))
    }

    /// Counts anew what is there.
    fn count(&mut self) {
        self.bytes = self.locks.iter().map(|(key, lock)| lock.bytes(key)).sum();
        (self.reaching, self.arcs) = (BTreeSet::new(), BTreeSet::new());
        for (key, lock) in &self.locks {
            if let Some(all) = reaching(&lock.reach, &mut self.reaching, &mut self.arcs) {
                all.insert(key.clone());
            }
        }
        self.unfinished = self.records.values().filter(|record| !record.keys.is_empty()).count();
    }

    fn put_lock(&mut self, key: &[u8], lock: Lock) {
        self.bytes += lock.bytes(key);
        if let Some(all) = reaching(&lock.reach, &mut self.reaching, &mut self.arcs) {
            all.insert(key.into());
        }
        self.locks.insert(Name::from_slice(key), lock);
    }

    /// Takes away the lock of a key, if it is this transaction's.
    fn take_lock(&mut self, id: TxnId, key: &[u8]) -> Option<Lock> {
        self.locks.get(key).filter(|lock| lock.id == id)?;
        let lock = self.locks.remove(key)?;
        self.bytes -= lock.bytes(key);
        if let Some(all) = reaching(&lock.reach, &mut self.reaching, &mut self.arcs) {
            all.remove(key);
        }
        self.released += 1;
        Some(lock)
    }

    fn put_record(&mut self, id: TxnId, record: Record) {
        self.unfinished += usize::from(!record.keys.is_empty());
        self.records.insert(id, record);
    }

    /// Whether there is a lock, or a record with keys, which a leader has to inspect.
    #[inline]
    pub fn needs_inspection(&self) -> bool {
        !self.locks.is_empty() || self.unfinished > 0
    }

    /// When the oldest lock was taken.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.locks.values().map(|lock| lock.at).min()
    }

    /// The latest time below all locks: a locked key is written at its lock's time or later.
    pub fn below(&self) -> Timestamp {
        self.oldest().map_or(Timestamp::MAX, |at| Timestamp(at.0 - 1))
    }

    /// How many locks were released: rises when a step that waits for one may try again.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// The names in the record of a transaction, if that is here.
    pub fn keys_of(&self, id: TxnId) -> &[Name] {
        self.records.get(&id).map_or(&[], |record| &record.keys)
    }

    /// All locks, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Lock)> {
        self.locks.iter().map(|(key, lock)| (&**key, lock))
    }

    /// Records that still have unresolved keys, each with its record key: the leader has them
    /// finished.
    pub fn unfinished(&self) -> impl Iterator<Item = (TxnId, &Name, Timestamp)> {
        let open = self.records.iter().filter(|(_, record)| !record.keys.is_empty());
        open.map(|(id, record)| (*id, &record.key, id.start))
    }

    /// Takes out the state of keys to the right of a cut.
    pub fn split_off(&mut self, at: &Cut) -> Self {
        let is_right = |key: &[u8]| at.is_right_of(key);
        let mut right = Self {
            locks: self.locks.extract_if(.., |key, _| is_right(key)).collect(),
            records: self.records.extract_if(.., |_, record| is_right(&record.key)).collect(),
            floors: self.floors.clone(),
            ..Self::default()
        };
        for (id, marks) in &mut self.marks {
            let of_right = marks.extract(is_right);
            if !of_right.is_empty() {
                right.marks.insert(*id, of_right);
            }
        }
        self.marks.retain(|_, marks| !marks.is_empty());
        if let Cut::Key(first) = at {
            self.split_range(first, &mut right);
        }
        self.split_arc(at, &mut right);
        self.released += right.locks.len() as u64;
        self.count();
        right.count();
        right
    }

    /// Splits a lock that reaches across a cut: the right half's lock begins at its first key.
    fn split_range(&mut self, first: &[u8], right: &mut Self) {
        let Some((_, lock)) = self.locks.iter_mut().find(|(_, lock)| lock.reach.holds(first))
        else {
            return;
        };
        let reach = std::mem::replace(&mut lock.reach, LockRange::Until(first.into()));
        let (id, record) = (lock.id, lock.record.clone());
        let (at, deadline) = (lock.at, lock.deadline);
        let of_right = right.locks.entry(first.into()).or_insert_with(|| {
            let (intent, answers) = (Intent::Keep, Answers::new());
            Lock { id, record, at, deadline, intent, reach: LockRange::Key, answers }
        });
        of_right.reach = reach;
    }

    /// Adds the state of another shard, which has other keys.
    pub fn unite(&mut self, others: Self) {
        self.locks.extend(others.locks);
        self.records.extend(others.records);
        for (coordinator, before) in others.floors {
            self.raise_floor(coordinator, before);
        }
        for (id, marks) in others.marks {
            let all = self.marks.entry(id).or_default();
            let mut news: Vec<_> =
                marks.iter().map(|(key, mark)| (key, marks::read(mark))).collect();
            all.put_all(&mut news);
        }
        self.released += 1;
        self.count();
    }

    /// Continues the counters of the lock table that this one replaces.
    pub fn succeed(&mut self, other: &Self) {
        self.released = other.released + 1;
    }
}

/// Those that reach like this, of the two kinds.
fn reaching<'s>(
    reach: &LockRange,
    ranges: &'s mut BTreeSet<Name>,
    arcs: &'s mut BTreeSet<Name>,
) -> Option<&'s mut BTreeSet<Name>> {
    match reach {
        LockRange::Key => None,
        LockRange::Until(_) | LockRange::End => Some(ranges),
        LockRange::Arc(..) => Some(arcs),
    }
}
