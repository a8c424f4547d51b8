//! May a PREPARE be proposed, is it to wait, or is it refused? The front page of
//! [`steps`](super) says when.
//!
//! Who asks once more for what is done, or will never be, waits for nobody: it locks nothing now
//! ([`Locks::knows`]), and is told what it was told. That is looked up if somebody is in its way,
//! for most ask once; else its keys count as about to be locked until it is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use keyspace::Timestamp;
use replication::BootNanos;

use super::held::{each_key_of, is_flush};
use super::{FAIR_NANOS, QueuedStep, Steps, WAITING_MAX, YOUNG_NANOS, decoded, holds, withheld};
use crate::executor::Turn;
use crate::locks::{Keys, Locks, Name, Prepare, Role, Step, TxnId, Why};
use crate::replica::Shard;
use crate::replica::state::ShardState;
use command::transaction::Seen;

/// Locks in the way of a PREPARE that are looked at, each time that it is.
const LOOKED_AT_MAX: usize = 256;

/// Locks that go before what is looked at is applied: by whom, and of which keys; and when what
/// they write was committed, if it was.
pub(super) type Going = BTreeMap<(TxnId, Name), Option<Timestamp>>;

/// What steps that are looked at together are judged by.
pub(super) struct Scene<'s> {
    state: &'s ShardState,
    going: Going,
    /// Keys that commands wait for are not locked before these are done.
    wanted: BTreeSet<Box<[u8]>>,
    /// Whether a flush waits, which wants them all.
    flushes: bool,
    /// Keys that what is proposed among these is to write, and not to lock.
    changing: BTreeSet<Box<[u8]>>,
}

/// What becomes of a PREPARE.
pub(super) enum Verdict {
    Goes,
    Waits,
    Refused(Why),
}

impl<'s> Scene<'s> {
    pub fn of(steps: &Steps, state: &'s ShardState, going: Going) -> Self {
        let mut wanted = BTreeSet::new();
        for (_, held) in &steps.held {
            each_key_of(held, &mut |key| {
                wanted.insert(Box::<[u8]>::from(key));
            });
        }
        let flushes = steps.held.iter().any(|(_, held)| is_flush(held));
        Self { state, going, wanted, flushes, changing: BTreeSet::new() }
    }
}

impl Shard {
    /// Judges one that has waited since then; keeps in mind what it locks or withholds.
    pub(super) fn judge_prepare(
        &mut self,
        prepare: &Prepare<'_>,
        since: BootNanos,
        scene: &mut Scene<'_>,
        turn: &Turn<'_>,
    ) -> Verdict {
        let (id, keys) = (prepare.id, prepare.keys());
        let state = scene.state;
        if let Some(key) = is_in_vain(state, prepare, &keys) {
            return Verdict::Refused(Why::Changed(key.into()));
        }
        // Who has a record there may have been ended in it, and nowhere else.
        let has_record = prepare.role != Role::Votes || !prepare.promised.is_empty();
        if has_record && state.locks.is_refused(id, &keys) {
            return Verdict::Refused(Why::Aborted);
        }
        let locked_by = self.steps.stopped_by(&state.locks, &scene.going, prepare, &keys);
        let waited = turn.now.saturating_sub(since);
        let withholds = locked_by.is_some()
            && withheld::may_withhold(prepare, &keys, waited)
            && !has_stayed(&state.locks, &scene.going, prepare, &keys, turn.clock.now());
        // It passes all who wait: they are kept from its keys, or will be told that these changed.
        let is_kept_for_it = self.steps.sought.kept.is_for(prepare, &keys);
        let withheld_by = || match prepare.role {
            _ if is_kept_for_it => None,
            Role::Votes => self.steps.withheld.stops(prepare, &keys),
            // It locks nothing, and has others give up what it has locked elsewhere.
            Role::Commits(_) => None,
        };
        let kept_by = || self.steps.sought.kept.stops(prepare, &keys);
        let stopped = locked_by.or_else(withheld_by).or_else(kept_by);
        let waits_since = |nanos| turn.now < since.saturating_add(nanos);
        let may_wait =
            waits_since(turn.waits_for_locks()) && self.steps.waiting.len() < WAITING_MAX;
        let has_commands_waiting =
            scene.flushes || keys.iter().any(|key| scene.wanted.contains(*key));
        // What locks nothing passes nobody for long.
        let would_pass_them = prepare.role == Role::Votes && waits_since(FAIR_NANOS);
        let is_wanted = has_commands_waiting && would_pass_them && !is_kept_for_it;
        // It would be in vain, and is refused for that once they are applied.
        let is_early = prepare.part.watched.iter().any(|(key, _)| scene.changing.contains(*key));
        if (stopped.is_some() || is_wanted || is_early) && state.locks.knows(id, &keys) {
            return Verdict::Goes;
        }
        match stopped {
            Some((by, _))
                if may_wait
                    && (prepare.is_first || !by.is_older_than(&id) || waits_since(YOUNG_NANOS)) =>
            {
                if withholds {
                    self.steps.withheld.wait(prepare, &keys);
                }
                return Verdict::Waits;
            }
            Some((_, key)) => return Verdict::Refused(Why::Locked(key.into())),
            None if (is_wanted || is_early) && may_wait => return Verdict::Waits,
            None => {}
        }
        self.expect(prepare, keys, scene, turn);
        Verdict::Goes
    }

    /// Keeps in mind what a PREPARE that goes will lock, or write.
    fn expect(
        &mut self,
        prepare: &Prepare<'_>,
        keys: Keys<'_>,
        scene: &mut Scene<'_>,
        turn: &Turn<'_>,
    ) {
        match prepare.role {
            Role::Commits(after) => {
                // The entry's time is above its locks.
                turn.clock.observe(after);
                scene.changing.extend(keys.into_iter().map(Box::from));
            }
            Role::Votes => {
                let index = self.group.last_index() + 1;
                for key in keys {
                    self.steps.coming.insert(key.into(), (index, prepare.id));
                }
                for (low, high) in &prepare.part.ranges {
                    let range = ((*low).into(), high.map(Box::from));
                    self.steps.coming_ranges.push((range, index, prepare.id));
                }
            }
        }
    }
}

impl Steps {
    /// Who is about to lock a key, or a range that it lies in.
    pub(super) fn coming_to(&self, key: &[u8]) -> Option<TxnId> {
        let of_key = self.coming.get(key).map(|(_, id)| *id);
        let range = || self.coming_ranges.iter().find(|(range, ..)| holds(range, key));
        of_key.or_else(|| range().map(|(_, _, id)| *id))
    }

    /// The transaction that stops a PREPARE, and at which key.
    fn stopped_by<'a>(
        &self,
        locks: &Locks,
        going: &Going,
        prepare: &Prepare<'a>,
        keys: &[&'a [u8]],
    ) -> Option<(TxnId, &'a [u8])> {
        let id = prepare.id;
        let is_going = |key: &[u8], by| {
            let committed = match going.is_empty() {
                true => None,
                false => going.get(&(by, key.into())),
            };
            let Some(committed) = committed else { return false };
            // Else it would have changed meanwhile; but that may be what was seen.
            let is_seen = |seen: Seen| committed.is_some_and(|at| seen == Seen::Version(at));
            let watched = prepare.part.watched.iter();
            watched.filter(|(watched, _)| *watched == key).all(|(_, seen)| is_seen(*seen))
                && locks.get(key).is_some_and(|lock| lock.id == by)
        };
        let by_key = keys.iter().find_map(|key| {
            let locked = locks.stopping(key).map(|lock| lock.id);
            locked
                .filter(|by| *by != id && !is_going(key, *by))
                .or_else(|| self.coming_to(key).filter(|by| *by != id))
                .map(|by| (by, *key))
        });
        by_key.or_else(|| {
            prepare.part.ranges.iter().find_map(|(low, high)| {
                let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.max(low)));
                let locked = locks.within(id, (low, *high)).next().map(|(_, lock)| lock.id);
                let mut coming = self.coming.range::<[u8], _>((Bound::Included(*low), end));
                let coming = || coming.find(|(_, (_, by))| *by != id).map(|(_, (_, by))| *by);
                locked.or_else(coming).map(|by| (by, *low))
            })
        })
    }
}

/// Whether a lock that a PREPARE waits for has been there for so long that whoever has it may be
/// gone; or it waits for so many that they are not all looked at.
fn has_stayed(
    locks: &Locks,
    going: &Going,
    prepare: &Prepare<'_>,
    keys: &[&[u8]],
    now: Timestamp,
) -> bool {
    let id = prepare.id;
    let of_keys = keys.iter().filter_map(|key| Some((*key, locks.stopping(key)?)));
    let within = prepare.part.ranges.iter().flat_map(|range| locks.within(id, *range));
    let stopping = of_keys.filter(|(_, lock)| lock.id != id).chain(within);
    stopping.zip(0..).any(|((key, lock), number)| {
        let kept_until = lock.at.millis().saturating_add(withheld::STAYS_MILLIS);
        let has_stayed = kept_until <= now.millis();
        number == LOOKED_AT_MAX || (has_stayed && !going.contains_key(&(lock.id, key.into())))
    })
}

/// A watched key for which a PREPARE would be refused by the log as well.
fn is_in_vain<'a>(state: &ShardState, prepare: &Prepare<'a>, keys: &[&[u8]]) -> Option<&'a [u8]> {
    let engine = state.keys().filter(|_| !prepare.part.watched.is_empty())?;
    let are_here = keys.iter().all(|key| state.owns(&engine.hasher().key(key)));
    if are_here { state.locks.is_in_vain(engine, prepare, keys) } else { None }
}

/// Locks that these steps give up.
pub(super) fn going(locks: &Locks, steps: &[QueuedStep]) -> Going {
    let mut going = Going::new();
    for queued in steps {
        match decoded(&queued.step) {
            Step::Resolve { id, keys, outcome } => {
                let at = outcome.committed();
                going.extend(keys.into_iter().map(|key| ((id, key.into()), at)));
            }
            Step::Decide { id, outcome, .. } => {
                let keys = locks.keys_of(id).iter();
                going.extend(keys.map(|key| ((id, key.clone()), outcome.committed())));
            }
            _ => {}
        }
    }
    going
}

#[cfg(test)]
mod tests {
    use keyspace::KeyHasher;
    use storage::engine::{Layout, MemoryEngine};

    use super::*;
    use crate::locks::apply::{Owns, apply};
    use crate::locks::{Places, Said};
    use crate::replica::steps::tests::prepare;
    use command::{Step as Command, Transaction, Write};

    /// Whoever may be gone has nothing withheld for who waits for it, whichever of the locks that
    /// are in the way it has.
    #[test]
    fn the_oldest_of_all_locks_in_the_way_says_whether_they_are_kept() {
        let mut locks = Locks::default();
        let mut engine = MemoryEngine::new(Layout::Ordered, KeyHasher::new([1; 16]));
        let mut lock = |start, key| {
            let commands = vec![Command::Write(Write::Delete { key })];
            let part = Transaction { commands, ..Transaction::default() };
            let places = Places::from_slice(&[0]);
            let step = Step::Prepare(Prepare { places, part, ..prepare(start, &[]) });
            let owns = Owns { key: &|_| true, up_to: &|_| true };
            let at = Timestamp::from_millis(start + 1);
            let said = apply(&mut locks, &mut engine, &step, at, &owns);
            assert!(matches!(said, Said::Voted(..)));
        };
        lock(100, b"m");
        lock(500, b"a");
        let (now, none) = (Timestamp::from_millis(700), Going::new());
        let kept = |going, waits: &Prepare<'_>, keys: &[&[u8]]| {
            has_stayed(&locks, going, waits, keys, now)
        };
        let waits = prepare(50, &[]);
        assert!(!kept(&none, &waits, &[b"a", b"b"]));
        assert!(kept(&none, &waits, &[b"a", b"m"]) && kept(&none, &waits, &[b"m", b"z"]));
        let range = prepare(50, &[(b"b", Some(b"z"))]);
        assert!(kept(&none, &range, &[b"b"]));
        assert!(!kept(&none, &prepare(50, &[(b"a", Some(b"m"))]), &[b"a"]));
        assert!(!kept(&none, &prepare(50, &[(b"z", Some(b"a"))]), &[b"z"]));
        // What goes with the next entry is not kept; nor is what is its own.
        let going = Going::from([((prepare(100, &[]).id, Name::from_slice(b"m")), None)]);
        assert!(!kept(&going, &waits, &[b"a", b"m"]) && !kept(&going, &range, &[b"b"]));
        assert!(!kept(&none, &prepare(100, &[(b"b", None)]), &[b"m"]));
    }
}
