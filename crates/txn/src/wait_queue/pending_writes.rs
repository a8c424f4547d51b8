//! Keys that are about to change, at a shard's leader: a transaction that watches and writes them
//! has come, and is not done.
//!
//! Who is told now what such a key has is told what will soon be old: if it is a client that
//! watches the key, its own transaction would fail. So a read that asks a leader for values waits
//! until what has come is done, for [`PENDING_NANOS`] at most; mostly it meets the lock then, and
//! after that the new value. It could be told the old one as well: nothing of it is committed.
//!
//! Where EXEC often fails because others have changed what was watched meanwhile, gateways have
//! those who watch ask as *contenders*, with reads that reserve ([`ReservingRead`]): one that has
//! reserved a key is the only contender who is told what it has, until its transaction comes, or
//! for [`RESERVED_NANOS`]; the others wait for that, for [`CONTENDED_NANOS`] at most, and the one
//! that has tried for longest is next. Nobody else knows of it: whoever asks otherwise is told at
//! once, and PREPARE and all commands go on as if nothing was reserved. So it only saves attempts
//! that would fail; and a contender that has reserved one key and waits for another keeps nobody
//! for long. It may also reserve keys from everyone ([`reservations`](super::reservations)).
//!
//! And what a lock is about to write is told as soon as it is known here that it is committed, not
//! only when that is applied: nothing else can become of it (docs/consistency.md). It is known by
//! RESOLVE, which follows the record's outcome, and by a DECIDE that is sure: another's may come
//! behind one of the coordinator itself that says ABORTED.

use std::collections::BTreeMap;

use keyspace::{BootNanos, Timestamp};
use smallvec::SmallVec;

use super::StepAsker;
use super::planned_locks::PlannedLocks;
use super::reservations::Reservations;
use crate::locks::{Name, Outcome, Step, TxnId};

/// For so long a reader waits for those who came before it to change its keys.
const PENDING_NANOS: BootNanos = 10_000_000;

/// For so long no other contender is told what a key has: enough for a client nearby to say what he
/// makes of it.
const RESERVED_NANOS: BootNanos = 2_500_000;

/// For so long a contender waits until nobody is about to change his keys, or has reserved them.
const CONTENDED_NANOS: BootNanos = 100_000_000;

/// Keys of a shard that are reserved from contenders; no more are.
const RESERVED_MAX: usize = 4096;

/// Nobody reserves a longer key.
const RESERVED_KEY_MAX: usize = 1024;

/// Nobody waits for a transaction that watches more keys of the shard: they are compared with all
/// that it writes.
const WATCHED_MAX: usize = 16;

/// A read of keys that its asker is about to change, and others change all the time: it waits for
/// those who have reserved them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservingRead {
    /// What its asker is known by: when he began to contend. Two of one name do not wait for each
    /// other.
    pub name: Timestamp,
    /// From whom it reserves the keys, if its asker goes by what he is told.
    pub from: ReserveFrom,
}

/// From whom keys are reserved, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveFrom {
    /// Nobody: the read only waits.
    Nobody,
    /// Other contenders are not told what they have.
    OtherReaders,
    /// As well, nobody changes them, but for older transactions.
    Everyone,
}

/// What a read of newest values asks for.
#[derive(Clone, Copy, Debug)]
pub struct KeysRead<'k> {
    /// In rising order, none twice.
    pub keys: &'k [Box<[u8]>],
    /// If its asker is about to change them, and lets others who are go first.
    pub reserving: Option<ReservingRead>,
}

/// See the front page.
#[derive(Default)]
pub(super) struct PendingWrites {
    /// What each of those who have come is about to write.
    by: BTreeMap<StepAsker, SmallVec<[Name; 2]>>,
    /// How many are about to write a key.
    keys: BTreeMap<Name, u32>,
    /// Steps by which transactions are known to be committed …
    tells: BTreeMap<StepAsker, TxnId>,
    /// … when that was, and how many steps say so.
    committed: BTreeMap<TxnId, (Timestamp, u32)>,
    /// Which contender has reserved each key, and until when.
    reserved: BTreeMap<Name, (Timestamp, BootNanos)>,
    /// What one of them has reserved from everyone.
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
            self.tells.insert(asker, *id);
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
        if let Some(id) = self.tells.remove(&asker)
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

    /// When a transaction was committed, if whoever sees to it has said so here.
    pub fn committed(&self, id: TxnId) -> Option<Timestamp> {
        self.committed.get(&id).map(|(at, _)| *at)
    }

    /// Nothing is known any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a read of these keys that came at `since` waits for those who came before; some
    /// keys are about to be locked.
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

    /// Whether somebody who came before is about to change one of these keys.
    fn has_any_of(&self, keys: &[Box<[u8]>]) -> bool {
        !self.keys.is_empty() && keys.iter().any(|key| self.keys.contains_key(&**key))
    }

    /// Whether another has reserved one of these keys.
    fn are_reserved(&self, keys: &[Box<[u8]>], name: Timestamp, now: BootNanos) -> bool {
        let by_another = |key: &[u8]| {
            self.reserved.get(key).is_some_and(|(by, until)| *by != name && now < *until)
        };
        !self.reserved.is_empty() && keys.iter().any(|key| by_another(key))
    }

    /// A read is answered now, and what it reserves is reserved; from everyone only if it may.
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
