//! Keys that are about to change, at a shard's leader: a transaction that watches and writes them
//! has arrived, and is not done.
//!
//! A reader that gets the present value of such a key gets one that will soon be old. If the reader
//! watches the key, its own transaction will fail. So a read at the leader waits until the pending
//! transaction is done, for [`PENDING_NANOS`] at most. Mostly it meets the lock then, and after
//! that the new value. The old value would be a correct answer as well: nothing is committed yet.
//!
//! **Reserving reads.** Where EXEC often fails because a watched key has changed, gateways send
//! reads that reserve ([`ReservingRead`]):
//!
//! - When one reserving read has reserved a key, no other gets the key's value until the first
//!   one's transaction arrives, or for [`RESERVED_NANOS`].
//! - The others wait, for [`CONTENDED_NANOS`] at most; the one that began first is next.
//! - Plain reads get an answer at once, and PREPARE and all commands ignore this reservation.
//!
//! So a reservation only saves attempts that would fail. A reader that has reserved one key and
//! waits for another delays no other for long. It may also reserve keys from everyone
//! ([`reservations`](super::reservations)).
//!
//! **Early answers.** A read gets the value that a lock is about to write as soon as the leader
//! knows that the transaction is committed, before the entry is applied: the outcome cannot change
//! (docs/consistency.md). The leader knows it from RESOLVE, which follows the record's outcome, and
//! from a DECIDE that is sure. Another coordinator's DECIDE is not: it may come behind one of the
//! transaction's own coordinator that says ABORTED.

use std::collections::BTreeMap;

use keyspace::{BootNanos, Timestamp};
use smallvec::SmallVec;

use super::StepAsker;
use super::planned_locks::PlannedLocks;
use super::reservations::Reservations;
use crate::locks::{Name, Outcome, Step, TxnId};

/// How long a reader waits for transactions that came before it and change its keys.
const PENDING_NANOS: BootNanos = 10_000_000;

/// How long no other reserving read gets the key's value: enough for a client nearby to send its
/// transaction.
const RESERVED_NANOS: BootNanos = 2_500_000;

/// How long a reserving read waits for pending changes of its keys, and for other reservations.
const CONTENDED_NANOS: BootNanos = 100_000_000;

/// At most so many keys of a shard are reserved from other reserving reads.
const RESERVED_MAX: usize = 4096;

/// Longer keys are not reserved.
const RESERVED_KEY_MAX: usize = 1024;

/// No read waits for a transaction that watches more keys of the shard: each is compared with all
/// keys that it writes.
const WATCHED_MAX: usize = 16;

/// A read of keys that its asker is about to change, and that others change all the time: it waits
/// for earlier reservations of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservingRead {
    /// Identifies the asker: the time of its first conflict. Reads of one name do not wait for each
    /// other.
    pub name: Timestamp,
    /// From whom it reserves the keys, if it is answered.
    pub from: ReserveFrom,
}

/// From whom keys are reserved, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveFrom {
    /// Nobody: the read only waits.
    Nobody,
    /// Other reserving reads get no values of the keys.
    OtherReaders,
    /// In addition, only older transactions may change them.
    Everyone,
}

/// What a read of newest values asks for.
#[derive(Clone, Copy, Debug)]
pub struct KeysRead<'k> {
    /// In rising order, none twice.
    pub keys: &'k [Box<[u8]>],
    /// Set if the asker is about to change the keys, and waits for others that are.
    pub reserving: Option<ReservingRead>,
}

/// See the front page.
#[derive(Default)]
pub(super) struct PendingWrites {
    /// The keys that each pending step is about to write.
    by: BTreeMap<StepAsker, SmallVec<[Name; 2]>>,
    /// How many steps are about to write a key.
    keys: BTreeMap<Name, u32>,
    /// Pending steps that state that a transaction is committed.
    commit_steps: BTreeMap<StepAsker, TxnId>,
    /// Its commit time, and how many pending steps state it.
    committed: BTreeMap<TxnId, (Timestamp, u32)>,
    /// Which reserving read has reserved each key, and until when.
    reserved: BTreeMap<Name, (Timestamp, BootNanos)>,
    /// Keys that are reserved from everyone.
    pub reservations: Reservations,
}

impl PendingWrites {
    /// A step has come.
    pub fn begin(&mut self, asker: StepAsker, step: &Step<'_>) {
        // It may come once more, when the lead has been lost and won.
        self.end(asker);
        if let Step::Decide { id, outcome: Outcome::Committed(at), is_sure: true, .. }
        | Step::Resolve { id, outcome: Outcome::Committed(at), .. } = step
        {
            self.commit_steps.insert(asker, *id);
            self.committed.entry(*id).or_insert((*at, 0)).1 += 1;
        }
        let Step::Prepare(prepare) = step else { return };
        if !self.reserved.is_empty() {
            // What is only watched is free again, too.
            prepare.part.watched.iter().for_each(|(key, _)| {
                self.reserved.remove(*key);
            });
        }
        if !(1..=WATCHED_MAX).contains(&prepare.part.watched.len()) {
            return;
        }
        let mut written = SmallVec::<[Name; 2]>::new();
        prepare.part.each_named(&mut |key| {
            if prepare.part.watched.iter().any(|(watched, _)| *watched == key) {
                written.push(key.into());
            }
        });
        for key in &written {
            *self.keys.entry(key.clone()).or_default() += 1;
        }
        self.by.insert(asker, written);
    }

    /// It is done, whatever came of it.
    pub fn end(&mut self, asker: StepAsker) {
        if let Some(id) = self.commit_steps.remove(&asker)
            && let Some((_, count)) = self.committed.get_mut(&id)
        {
            *count -= 1;
            if *count == 0 {
                self.committed.remove(&id);
            }
        }
        for key in self.by.remove(&asker).unwrap_or_default() {
            if let Some(count) = self.keys.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.keys.remove(&key);
                }
            }
        }
    }

    /// A transaction's commit time, if a pending step of its coordinator states it.
    pub fn committed(&self, id: TxnId) -> Option<Timestamp> {
        self.committed.get(&id).map(|(at, _)| *at)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a read of these keys that came at `since` waits for earlier transactions; some keys
    /// are about to be locked.
    pub fn stops(
        &self,
        read: KeysRead<'_>,
        planned: &PlannedLocks,
        since: BootNanos,
        now: BootNanos,
    ) -> bool {
        let KeysRead { keys, reserving } = read;
        let waits_for = |nanos| now < since.saturating_add(nanos);
        let Some(ReservingRead { name, from }) = reserving else {
            return waits_for(PENDING_NANOS) && self.has_any_of(keys);
        };
        let is_about_to_change = || match from {
            // He is in the way himself of those who are not on their way yet.
            ReserveFrom::Everyone => keys.iter().any(|key| planned.has_key(key)),
            ReserveFrom::Nobody | ReserveFrom::OtherReaders => self.has_any_of(keys),
        };
        waits_for(CONTENDED_NANOS)
            && (is_about_to_change()
                || self.are_reserved(keys, name, now)
                || self.reservations.has_any_older(name, keys))
    }

    /// Whether a pending step is about to change one of these keys.
    fn has_any_of(&self, keys: &[Box<[u8]>]) -> bool {
        !self.keys.is_empty() && keys.iter().any(|key| self.keys.contains_key(&**key))
    }

    /// Whether another reserving read has reserved one of these keys.
    fn are_reserved(&self, keys: &[Box<[u8]>], name: Timestamp, now: BootNanos) -> bool {
        let by_another = |key: &[u8]| {
            self.reserved.get(key).is_some_and(|(by, until)| *by != name && now < *until)
        };
        !self.reserved.is_empty() && keys.iter().any(|key| by_another(key))
    }

    /// Makes the reservations of a read that is answered now; from everyone only if allowed.
    pub fn answered(
        &mut self,
        KeysRead { keys, reserving }: KeysRead<'_>,
        may_reserve_from_all: bool,
        now: BootNanos,
    ) {
        let Some(ReservingRead { name, from }) = reserving else { return };
        match from {
            ReserveFrom::Nobody => return,
            ReserveFrom::OtherReaders => {}
            ReserveFrom::Everyone if may_reserve_from_all => {
                return self.reservations.reserve(keys, name, now);
            }
            ReserveFrom::Everyone => return,
        }
        if self.reserved.len() + keys.len() > RESERVED_MAX {
            self.reserved.retain(|_, (_, until)| now < *until);
        }
        let room = RESERVED_MAX.saturating_sub(self.reserved.len());
        let until = now.saturating_add(RESERVED_NANOS);
        for key in keys.iter().filter(|key| key.len() <= RESERVED_KEY_MAX).take(room) {
            self.reserved.insert((**key).into(), (name, until));
        }
    }
}
