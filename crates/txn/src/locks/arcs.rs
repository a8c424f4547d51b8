//! Locks of whole arcs: what does a transaction lock that flushes its keyspace?
//!
//! ```text
//!   shard A  [a ───────── m)      lock at some key of it, the *witness*: reach [a, m)
//!   shard B  [m ───────── z)      lock at another:                       reach [m, z)
//! ```
//!
//! Each shard's arc is locked by the lock of one key in it, which need not have a value. Records,
//! marks and steps name the arc by that key, like any key that is locked. So an arc is prepared,
//! resolved, prevented and found abandoned as keys are, and a list of witnesses is one of arcs.
//!
//! Readers and writers of all keys in the arc wait, and PREPARE is refused while another's lock is
//! in the shard. If the transaction is committed, RESOLVE hides what is older than the commit time;
//! what the transaction writes behind the flush has that time.
//!
//! # Invariants
//! 1. PREPARE locks an arc only if the shard owns all of it. The coordinator's arcs are side by
//!    side and make up the keyspace. So while all of them are locked, all of the keyspace is.
//! 2. No shard is split within a locked arc: its part without the witness would be in no record,
//!    and might not be flushed. A split is refused while an arc is locked ([`Locks::may_split`]).
//! 3. A merge leaves the lock as it is, of a part of the shard. The rest of the shard is not
//!    flushed with it.

use keyspace::Cut;

use super::{Answers, Intent, Lock, LockRange, Locks, Name, TxnId};

impl Locks {
    /// The lock of the arc in which a key lies.
    pub(super) fn arc_lock(&self, key: &[u8]) -> Option<&Lock> {
        let mut arcs = self.arcs.iter().filter_map(|witness| self.locks.get(witness));
        arcs.find(|lock| lock.reach.arc().is_some_and(|(from, end)| from.is_before(key, end)))
    }

    /// The locks of other transactions, with their keys: an arc is locked when there are none.
    pub fn of_others(&self, id: TxnId) -> impl Iterator<Item = (&[u8], &Lock)> {
        self.iter().filter(move |(_, lock)| lock.id != id)
    }

    /// Whether the shard may be split: see the front page.
    pub fn may_split(&self) -> bool {
        self.arcs.is_empty()
    }

    /// Splits the lock of an arc across a cut: the half without the witness gets a lock of its own,
    /// at another key. Only shards that have lost their quorum are cut so: see the front page.
    pub(super) fn split_arc(&mut self, at: &Cut, right: &mut Self) {
        for (witness, from, end) in self.arcs_across(at) {
            let (stays, goes) = (LockRange::between(&from, at), LockRange::between(at, &end));
            self.divide((&witness, stays), right, (at.key_before(&end), goes));
        }
        for (witness, from, end) in right.arcs_across(at) {
            let (stays, goes) = (LockRange::between(at, &end), LockRange::between(&from, at));
            right.divide((&witness, stays), self, (from.key_before(at), goes));
        }
    }

    /// The locked arcs that a cut divides, each behind its witness.
    fn arcs_across(&self, at: &Cut) -> Vec<(Name, Cut, Cut)> {
        let all = self.locks.iter().filter_map(|(witness, lock)| {
            let (from, end) = lock.reach.arc()?;
            from.is_cut_at(at, end).then(|| (witness.clone(), from.clone(), end.clone()))
        });
        all.collect()
    }

    /// Has the lock of an arc reach so far, and that of another key as far in another shard.
    fn divide(
        &mut self,
        (witness, stays): (&Name, LockRange),
        other: &mut Self,
        (key, goes): (Box<[u8]>, LockRange),
    ) {
        let Some(lock) = self.locks.get_mut(witness) else { return };
        lock.reach = stays;
        let Lock { id, record, at, deadline, .. } = lock.clone();
        let (intent, answers, reach) = (Intent::Keep, Answers::new(), LockRange::Key);
        let new = Lock { id, record, at, deadline, intent, reach, answers };
        other.locks.entry(Name::from_slice(&key)).or_insert(new).reach = goes;
    }
}
