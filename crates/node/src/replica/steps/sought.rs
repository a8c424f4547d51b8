//! Keys that are about to change, at a shard's leader: a transaction that watches and writes them
//! has come, and is not through.
//!
//! Who is told now what such a key has is told what will soon be old: if it is a client that
//! watches the key, its own transaction would be in vain. So who asks a leader for values waits
//! until what has come is through, for [`SOUGHT_NANOS`] at most; mostly it meets the lock then, and
//! after that the new value. It could be told the old one as well: nothing of it is committed.
//!
//! Where EXEC is often in vain because others have changed what was watched meanwhile, gateways
//! have those who watch ask as *contenders*: one who reserves a key is the only contender who is
//! told what it has, until his transaction comes, or for [`RESERVED_NANOS`]; the others wait for
//! that, for [`CONTENDED_NANOS`] at most, and the one who has tried for longest is next. Nobody
//! else knows of it: whoever asks otherwise is told at once, and PREPARE and all commands go on as
//! if nothing was reserved. So it only keeps attempts from being made in vain; and who has
//! reserved one key and waits for another keeps nobody for long. A contender may also have keys
//! [`kept`](super::kept) from all.
//!
//! And what a lock is about to write is told as soon as it is known here that it is committed, not
//! only when that is applied: nothing else can become of it (docs/consistency.md). It is known by
//! RESOLVE, which follows the record's outcome, and by a DECIDE that is sure: another's may come
//! behind one of the coordinator itself that says ABORTED.

use std::collections::BTreeMap;

use keyspace::Timestamp;
use replication::BootNanos;
use smallvec::SmallVec;

use super::kept::Kept;
use super::{Coming, StepAsker};
use crate::locks::{Name, Outcome, Step, TxnId};
use crate::routing::fetch::{Contender, Reserves, Want};

/// For so long a reader waits for those who came before it to change its keys.
const SOUGHT_NANOS: BootNanos = 10_000_000;

/// For so long no other contender is told what a key has: enough for a client nearby to say what he
/// makes of it.
const RESERVED_NANOS: BootNanos = 2_500_000;

/// For so long a contender waits until nobody is about to change his keys, or has reserved them.
const CONTENDED_NANOS: BootNanos = 100_000_000;

/// Keys of a shard that are reserved; no more are.
const RESERVED_MAX: usize = 4096;

/// Nobody reserves a longer key.
const RESERVED_KEY_MAX: usize = 1024;

/// Nobody waits for a transaction that watches more keys of the shard: they are compared with all
/// that it writes.
const WATCHED_MAX: usize = 16;

/// See the front page.
#[derive(Default)]
pub(in crate::replica) struct Sought {
    /// What each of those who have come seeks.
    by: BTreeMap<StepAsker, SmallVec<[Name; 2]>>,
    /// How many seek a key.
    keys: BTreeMap<Name, u32>,
    /// Steps by which transactions are known to be committed …
    tells: BTreeMap<StepAsker, TxnId>,
    /// … when that was, and how many steps say so.
    committed: BTreeMap<TxnId, (Timestamp, u32)>,
    /// Which contender has reserved each key, and until when.
    reserved: BTreeMap<Name, (Timestamp, BootNanos)>,
    /// What one of them has reserved from all.
    pub kept: Kept,
}

impl Sought {
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

    /// It is through, whatever came of it.
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

    /// All are.
    pub fn clear(&mut self) {
        self.tells.clear();
        self.committed.clear();
        self.by.clear();
        self.keys.clear();
        self.reserved.clear();
        self.kept = Kept::default();
    }

    /// Whether who has asked for this at `since` waits for those who came before; some keys are
    /// about to be locked.
    pub fn keeps_waiting(
        &self,
        want: &Want,
        coming: &Coming,
        since: BootNanos,
        now: BootNanos,
    ) -> bool {
        let Want::Keys { keys, contender } = want else { return false };
        let waits_for = |nanos| now < since.saturating_add(nanos);
        match contender {
            None => waits_for(SOUGHT_NANOS) && self.has_any_of(keys),
            Some(Contender { name, reserves }) => {
                let is_about_to_change = match reserves {
                    // He is in the way himself of those who are not on their way yet.
                    Reserves::FromAll => keys.iter().any(|key| coming.contains_key(key)),
                    Reserves::Nothing | Reserves::FromContenders => self.has_any_of(keys),
                };
                waits_for(CONTENDED_NANOS)
                    && (is_about_to_change
                        || self.are_reserved(keys, *name, now)
                        || self.kept.has_any_from(*name, keys))
            }
        }
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

    /// Who asks for this is told it now, and may have keys kept.
    pub fn told(&mut self, want: &Want, may_keep: bool, now: BootNanos) {
        let Want::Keys { keys, contender: Some(Contender { name, reserves }) } = want else {
            return;
        };
        match reserves {
            Reserves::Nothing => return,
            Reserves::FromContenders => {}
            Reserves::FromAll if may_keep => return self.kept.keep(keys, *name, now),
            Reserves::FromAll => return,
        }
        if self.reserved.len() + keys.len() > RESERVED_MAX {
            self.reserved.retain(|_, (_, until)| now < *until);
        }
        let room = RESERVED_MAX.saturating_sub(self.reserved.len());
        let until = now.saturating_add(RESERVED_NANOS);
        for key in keys.iter().filter(|key| key.len() <= RESERVED_KEY_MAX).take(room) {
            self.reserved.insert((**key).into(), (*name, until));
        }
    }
}
