//! Does the leader propose a PREPARE, let it wait, or refuse it? The front page of
//! [`wait_queue`](super) says when.
//!
//! A repeated PREPARE that was done already, or never will be, does not wait: it locks nothing now
//! ([`Locks::knows`]), and gets the same answer as before. The leader looks that up only if another
//! transaction blocks the PREPARE, since most come once. Else its keys count as about to be locked
//! until it is applied.

use std::collections::{BTreeMap, BTreeSet};

use command::Write;
use command::transaction::ObservedVersion;
use keyspace::{BootNanos, Timestamp};
use storage::engine::MemoryEngine;

use super::commands::{Commands, HeldCommands};
use super::reservations::Reservations;
use super::starvation_guard::{STAYS_MILLIS, may_guard};
use super::{
    COMMANDS_FIRST_NANOS, QueuedStep, WAITING_MAX, WaitQueue, YOUNGER_WAITS_NANOS, decoded,
};
use crate::locks::{Keys, Lock, Locks, Name, Prepare, PrepareRefusal, Role, Step, TxnId};

/// At most so many of the locks that block a PREPARE are examined each time it is judged.
const LOOKED_AT_MAX: usize = 256;

/// Locks that earlier steps of the entry release, by transaction and key; each with the commit time
/// of its value, if it was committed.
pub(super) type Releases = BTreeMap<(TxnId, Name), Option<Timestamp>>;

/// A shard's applied state.
#[derive(Clone, Copy)]
pub struct AppliedState<'s> {
    /// What transactions have locked.
    pub locks: &'s Locks,
    /// Its keys, if it has any.
    pub engine: Option<&'s MemoryEngine>,
    /// Whether a key is its own.
    pub owns: &'s dyn Fn(&[u8]) -> bool,
}

/// The time at which steps are judged.
#[derive(Clone, Copy)]
pub struct JudgedAt {
    /// By the node's boot clock.
    pub now: BootNanos,
    /// By its hybrid clock.
    pub time: Timestamp,
    /// How long a PREPARE may wait.
    pub waits_for: BootNanos,
}

/// The state by which one round judges its steps.
pub struct JudgeRound<'s> {
    shard: AppliedState<'s>,
    pub(super) moment: JudgedAt,
    releases: Releases,
    /// Keys that commands wait for are not locked before these are done.
    wanted: BTreeSet<Box<[u8]>>,
    /// Whether a flush waits, which wants all keys.
    flushes: bool,
    /// Whether a command waits that names no reserved key.
    others_wait: bool,
    /// Keys that proposed steps of this round will write without locking them.
    changing: BTreeSet<Box<[u8]>>,
}

/// What the leader does with a PREPARE.
#[derive(Debug)]
pub enum PrepareVerdict {
    /// It is proposed.
    Propose,
    /// It is judged again later.
    Wait,
    /// It is refused.
    Refuse(PrepareRefusal),
}

/// The transaction that blocks a PREPARE, and at which of its keys.
type BlockedBy<'a> = Option<(TxnId, &'a [u8])>;

impl<'s> JudgeRound<'s> {
    /// One in which these steps release locks, to be passed on; and these commands wait.
    pub(super) fn new(
        shard: AppliedState<'s>,
        moment: JudgedAt,
        releasing: &[QueuedStep],
        held: &HeldCommands<impl Commands>,
        reservations: &Reservations,
    ) -> Self {
        let (mut wanted, mut flushes, mut others_wait) = (BTreeSet::new(), false, false);
        for commands in held.iter() {
            let mut wants_reserved = false;
            commands.any(|write| {
                flushes |= matches!(write, Write::Flush { .. });
                write.each_key(&mut |key| {
                    wants_reserved |= reservations.has(key);
                    wanted.insert(Box::<[u8]>::from(key));
                });
                false
            });
            others_wait |= !wants_reserved;
        }
        let (releases, changing) = (releases(shard.locks, releasing), BTreeSet::new());
        Self { shard, moment, releases, wanted, flushes, others_wait, changing }
    }

    /// Why a PREPARE would be refused by the log as well.
    fn refusal(&self, prepare: &Prepare<'_>, keys: &[&[u8]]) -> Option<PrepareRefusal> {
        if let Some(key) = self.changed_key(prepare, keys) {
            return Some(PrepareRefusal::Changed(key.into()));
        }
        // Who has a record there may have been ended in it, and nowhere else.
        let has_record = prepare.role != Role::Votes || !prepare.promised.is_empty();
        let is_aborted = has_record && self.shard.locks.is_refused(prepare.id, keys);
        is_aborted.then_some(PrepareRefusal::Aborted)
    }

    /// A watched key that has changed for good.
    fn changed_key<'a>(&self, prepare: &Prepare<'a>, keys: &[&[u8]]) -> Option<&'a [u8]> {
        let AppliedState { locks, engine, owns } = self.shard;
        let engine = engine.filter(|_| !prepare.part.watched.is_empty())?;
        let are_here = keys.iter().all(|key| owns(key));
        if are_here { locks.changed_key(engine, prepare, keys) } else { None }
    }

    /// Whether the lock of a key is passed on to a PREPARE within the entry that releases it.
    fn passes_on(&self, key: &[u8], by: TxnId, prepare: &Prepare<'_>) -> bool {
        if self.releases.is_empty() {
            return false;
        }
        let Some(committed) = self.releases.get(&(by, key.into())) else { return false };
        // Else it would have changed meanwhile; but that may be what was seen.
        let is_seen = |seen: ObservedVersion| {
            committed.is_some_and(|at| seen == ObservedVersion::Version(at))
        };
        let mut watched = prepare.part.watched.iter().filter(|(watched, _)| *watched == key);
        watched.all(|(_, seen)| is_seen(*seen))
            && self.shard.locks.get(key).is_some_and(|lock| lock.id == by)
    }

    /// Whether a lock that a PREPARE waits for has been there for so long that it may be abandoned;
    /// or it waits for so many that they are not all looked at.
    fn has_stayed(&self, prepare: &Prepare<'_>, keys: &[&[u8]]) -> bool {
        let (id, locks, now_ms) = (prepare.id, self.shard.locks, self.moment.time.millis());
        let of_keys = keys.iter().filter_map(|key| Some((*key, locks.blocking_lock(key)?)));
        let within = prepare.part.ranges.iter().flat_map(|range| locks.within(id, *range));
        let in_arc = prepare.part.flush.iter().flat_map(|_| locks.of_others(id));
        let stopping = of_keys.filter(|(_, lock)| lock.id != id).chain(within).chain(in_arc);
        stopping.zip(0..).any(|((key, lock), number)| {
            let is_old = lock.at.millis().saturating_add(STAYS_MILLIS) <= now_ms;
            let is_released = || self.releases.contains_key(&(lock.id, key.into()));
            number == LOOKED_AT_MAX || (is_old && !is_released())
        })
    }

    /// Whether commands wait for a key of a PREPARE, an arc among them, that lets them go first:
    /// one with reserved keys passes those that wait for these.
    fn commands_want_any(&self, prepare: &Prepare<'_>, keys: &[&[u8]], is_reserved: bool) -> bool {
        match (&prepare.part.flush, is_reserved) {
            (Some(_), true) => self.others_wait,
            (Some(_), false) => self.flushes || !self.wanted.is_empty(),
            (None, true) => false,
            (None, false) => self.flushes || keys.iter().any(|key| self.wanted.contains(*key)),
        }
    }
}

impl WaitQueue {
    /// Judges a PREPARE that has waited since then, and would be in the entry of this index;
    /// remembers its planned locks, or the keys guarded for it.
    pub fn judge(
        &mut self,
        prepare: &Prepare<'_>,
        since: BootNanos,
        round: &mut JudgeRound<'_>,
        index: u64,
    ) -> PrepareVerdict {
        let (id, keys) = (prepare.id, prepare.keys());
        if let Some(why) = round.refusal(prepare, &keys) {
            return PrepareVerdict::Refuse(why);
        }
        let JudgedAt { now, waits_for, .. } = round.moment;
        let waits_since = |nanos| now < since.saturating_add(nanos);
        let locked_by = self.locked_by(round, prepare, &keys);
        let is_guarded = locked_by.is_some()
            && may_guard(prepare, &keys, now.saturating_sub(since))
            && !round.has_stayed(prepare, &keys);
        // It passes all who wait: they wait with its keys, or will be told that these changed.
        let is_reserved = self.pending.reservations.is_for(prepare, &keys);
        let stopped = locked_by
            .or_else(|| if is_reserved { None } else { self.guarded_from(prepare, &keys) })
            .or_else(|| self.pending.reservations.stops(prepare, &keys));
        // What locks nothing passes commands for no longer than a moment.
        let would_pass = prepare.role == Role::Votes && waits_since(COMMANDS_FIRST_NANOS);
        let is_wanted = would_pass && round.commands_want_any(prepare, &keys, is_reserved);
        // It would fail, and is refused for that once they are applied.
        let is_early = prepare.part.watched.iter().any(|(key, _)| round.changing.contains(*key));
        if (stopped.is_some() || is_wanted || is_early) && round.shard.locks.knows(id, &keys) {
            return PrepareVerdict::Propose;
        }
        let may_wait = waits_since(waits_for) && self.waiting.len() < WAITING_MAX;
        let Some((by, key)) = stopped else {
            if (is_wanted || is_early) && may_wait {
                return PrepareVerdict::Wait;
            }
            self.plan(prepare, keys, round, index);
            return PrepareVerdict::Propose;
        };
        let is_younger = by.is_older_than(&id) && !prepare.is_first;
        if !may_wait || (is_younger && !waits_since(YOUNGER_WAITS_NANOS)) {
            return PrepareVerdict::Refuse(PrepareRefusal::Locked(key.into()));
        }
        if is_guarded {
            self.guard.guard(prepare, &keys);
        }
        PrepareVerdict::Wait
    }

    /// Remembers the keys that a proposed PREPARE will lock or write.
    fn plan(
        &mut self,
        prepare: &Prepare<'_>,
        keys: Keys<'_>,
        round: &mut JudgeRound<'_>,
        index: u64,
    ) {
        if let Role::Commits(_) = prepare.role {
            return round.changing.extend(keys.into_iter().map(Box::from));
        }
        for key in keys {
            self.planned.add_key(key, index, prepare.id);
        }
        for range in &prepare.part.ranges {
            self.planned.add_range(*range, index, prepare.id);
        }
        if prepare.part.flush.is_some() {
            self.planned.add_arc(index, prepare.id);
        }
    }

    /// An older transaction for which the starvation guard stops a PREPARE. The guard stops no
    /// PREPARE that commits: it locks nothing, and its transaction's locks elsewhere are released.
    fn guarded_from<'a>(&self, prepare: &Prepare<'a>, keys: &[&'a [u8]]) -> BlockedBy<'a> {
        match prepare.role {
            Role::Votes => self.guard.stops(prepare, keys),
            Role::Commits(_) => None,
        }
    }

    /// The transaction that has locked a key of a PREPARE, or is about to; in an arc the oldest.
    fn locked_by<'a>(
        &self,
        round: &JudgeRound<'_>,
        prepare: &Prepare<'a>,
        keys: &[&'a [u8]],
    ) -> BlockedBy<'a> {
        let (id, locks) = (prepare.id, round.shard.locks);
        let of_key = |key: &[u8]| {
            let locked = locks.blocking_lock(key).map(|lock| lock.id);
            locked
                .filter(|by| *by != id && !round.passes_on(key, *by, prepare))
                .or_else(|| self.planned.at(key).filter(|by| *by != id))
        };
        if let Some((witness, ..)) = prepare.part.flushed_arc() {
            let is_in_the_way =
                |(key, lock): &(&[u8], &Lock)| !round.passes_on(key, lock.id, prepare);
            let locked = locks.of_others(id).filter(is_in_the_way).map(|(_, lock)| lock.id);
            return Some((locked.chain(self.planned.of_others(id)).min()?, witness));
        }
        let by_key = keys.iter().find_map(|key| Some((of_key(key)?, *key)));
        by_key.or_else(|| {
            prepare.part.ranges.iter().find_map(|range| {
                let locked = locks.within(id, *range).next().map(|(_, lock)| lock.id);
                let by = locked.or_else(|| self.planned.within(id, *range))?;
                Some((by, range.0))
            })
        })
    }
}

/// Locks that these steps release.
fn releases(locks: &Locks, steps: &[QueuedStep]) -> Releases {
    let mut all = Releases::new();
    for queued in steps {
        match decoded(&queued.step) {
            Step::Resolve { id, keys, outcome } => {
                let at = outcome.committed();
                all.extend(keys.into_iter().map(|key| ((id, key.into()), at)));
            }
            Step::Decide { id, outcome, .. } => {
                // Of several keyspaces, it is not known here which are this one's: they wait.
                let names = locks.keys_of(id).iter().filter(|_| !id.spans_keyspaces());
                all.extend(names.map(|key| ((id, key.clone()), outcome.committed())));
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests;
