//! What does a step do? The only judge of steps, run in log order (SAFETY G3, G8).
//!
//! [`apply`] is a pure function of the shard's state, the step and the entry's time.
//!
//! ```text
//!   PREPARE ── too old? ── known already? ── locked by another? ── as watched? ──► evaluated:
//!              its commands run on a draft of the keys they name, as they would on the shard;
//!              each lock will write the draft's final value of its key. If it commits,
//!              they run on the shard itself
//! ```
//!
//! # Invariants
//! 1. A lock never changes. Only RESOLVE or DECIDE of its own id releases it.
//! 2. An id never locks a key again that has a mark of this id.
//! 3. An outcome never changes. The coordinator that proposed COMMITTED had seen every promised key
//!    locked, or resolved as committed, with the commit time below each lock's deadline. The entry
//!    that commits in the last shard judges that itself.
//! 4. A commit time is below the time of the entry that writes the value.

use keyspace::{Arc, Cut, KeyspaceId, Timestamp};
use smallvec::SmallVec;
use storage::engine::MemoryEngine;

use super::marks::{self, Marks};
use super::speculative::SpeculativeView;
use super::step::{
    KeyFinding, Keys, Prepare, PrepareRefusal, RecordState, Role, Step, StepReply, Vote,
};
use super::{
    AGE_MAX_MS, Answers, Deadline, Intent, LOCKED_BYTES_MAX, Lock, LockRange, Locks, Mark, Name,
    Outcome, RETAINED_ANSWER_BYTES_MAX, Record, TxnId,
};
use command::changes::{Changes, ObservedValues};
use command::{Reply, Transaction, write_tombstone};

/// Answers of commands, and marks of keys: mostly one.
type Replies = SmallVec<[Reply; 1]>;
/// What is changed, and the observer.
type Observed<'a, C> = (&'a mut MemoryEngine, &'a mut C);
type NewMarks<'k> = SmallVec<[(&'k [u8], Mark); 1]>;

/// What the shard owns.
pub struct Owns<'a> {
    /// Its part of its keyspace.
    pub arc: &'a Arc,
    /// Whether a key is its own.
    pub key: &'a dyn Fn(&[u8]) -> bool,
    /// Whether all keys from one of its own up to, but without, this are; or all behind it.
    pub up_to: &'a dyn Fn(Option<&[u8]>) -> bool,
}

impl Owns<'_> {
    fn keyspace(&self) -> KeyspaceId {
        self.arc.keyspace()
    }

    /// The arc between two places.
    fn between(&self, from: &Cut, end: &Cut) -> Arc {
        let [from, end] = [from, end].map(|place| place.position(self.keyspace()));
        Arc::new(from, end).expect("both lie in its keyspace")
    }
}

/// Carries out a step, at the time of its entry, if the shard owns all its keys, and names what it
/// changes. A key that will be written counts from its lock on: the transaction's client may learn
/// of the commit before the shard resolves the lock.
pub fn apply(
    locks: &mut Locks,
    engine: &mut MemoryEngine,
    step: &Step<'_>,
    at: Timestamp,
    owns: &Owns<'_>,
    changes: &mut impl Changes,
) -> StepReply {
    let mut are_here = true;
    step.each_key(&mut |key| are_here &= (owns.key)(key));
    if let Step::Prepare(prepare) = step {
        are_here &= prepare.part.ranges.iter().all(|(_, high)| (owns.up_to)(*high));
        let mut arcs = prepare.part.flushed_arc().into_iter();
        are_here &= arcs.all(|(_, from, end)| owns.arc.covers(&owns.between(from, end)));
    }
    if !are_here {
        return StepReply::Moved;
    }
    match step {
        Step::Prepare(prepare) => match locks.prepare((engine, changes), prepare, at, owns) {
            Ok(vote) => StepReply::Voted(vote),
            Err(why) => StepReply::Refused(why),
        },
        Step::Decide { id, record, outcome, .. } => {
            let (state, rest) = locks.decide((engine, changes), (*id, record), outcome, at, owns);
            StepReply::Record(state, rest)
        }
        Step::ReadRecord { id, record } => {
            let state = locks.look(*id, record, at);
            StepReply::Record(state, locks.keys_of(*id).to_vec())
        }
        Step::Resolve { id, outcome, keys } => {
            locks.resolve_all((engine, changes), (*id, keys), outcome, at, owns);
            StepReply::Done
        }
        Step::Prevent { id, keys } => StepReply::Found(locks.prevent(*id, keys)),
        Step::Forget { all, floor } => {
            all.iter().for_each(|(id, _)| locks.forget_keys(*id));
            if let Some((coordinator, before)) = floor {
                locks.raise_floor(*coordinator, *before);
            }
            StepReply::Done
        }
    }
}

impl Locks {
    /// Forgets outcomes of transactions that the shard refuses from now on anyway.
    pub fn forget(&mut self, at: Timestamp) {
        // The first id that is not too old.
        let start = Timestamp::from_millis((at.millis() + 1).saturating_sub(AGE_MAX_MS));
        let end = TxnId { start, coordinator: 0, attempt: 0 };
        self.records.extract_if(..end, |_, record| record.is_over()).for_each(drop);
        while let Some(oldest) = self.marks.first_entry() {
            if *oldest.key() >= end {
                break;
            }
            oldest.remove();
        }
        self.floors.retain(|_, before| *before > start);
    }

    /// A coordinator prepares no transaction any more that it began before this time: forgets their
    /// outcomes.
    pub(super) fn raise_floor(&mut self, coordinator: u64, before: Timestamp) {
        let floor = self.floors.entry(coordinator).or_default();
        if before <= *floor {
            return;
        }
        *floor = before;
        let end = TxnId { start: before, coordinator: 0, attempt: 0 };
        self.marks.extract_if(..end, |id, _| id.coordinator == coordinator).for_each(drop);
        let is_over =
            |id: &TxnId, record: &mut Record| id.coordinator == coordinator && record.is_over();
        self.records.extract_if(..end, is_over).for_each(drop);
    }

    /// Whether the shard refuses the id from now on, and keeps no outcome of it.
    fn is_over(&self, id: TxnId, at: Timestamp) -> bool {
        id.is_too_old(at) || self.is_below_floor(id)
    }

    pub(super) fn is_below_floor(&self, id: TxnId) -> bool {
        self.floors.get(&id.coordinator).is_some_and(|before| id.start < *before)
    }

    fn prepare(
        &mut self,
        (engine, changes): Observed<'_, impl Changes>,
        prepare: &Prepare<'_>,
        at: Timestamp,
        owns: &Owns<'_>,
    ) -> Result<Vote, PrepareRefusal> {
        let Prepare { id, promised, role, part, .. } = prepare;
        if self.is_over(*id, at) {
            return Err(PrepareRefusal::TooOld(at));
        }
        let keys = prepare.keys();
        let commits = matches!(role, Role::Commits(_));
        if let Some(said) = self.earlier_reply(*id, &keys, commits) {
            return said.ok_or(PrepareRefusal::Aborted);
        }
        if (commits || !promised.is_empty()) && self.records.contains_key(id) {
            return Err(PrepareRefusal::Aborted);
        }
        if prepare.deadline.is_some_and(|deadline| deadline.is_over(at)) {
            return Err(PrepareRefusal::Expired);
        }
        if let Some(key) = keys.iter().find(|key| self.blocking_lock(key).is_some()) {
            return Err(PrepareRefusal::Locked((*key).into()));
        }
        if let Some((key, _)) = part.ranges.iter().find_map(|range| self.within(*id, *range).next())
        {
            return Err(PrepareRefusal::Locked(key.into()));
        }
        if part.flush.is_some()
            && let Some((key, _)) = self.of_others(*id).next()
        {
            return Err(PrepareRefusal::Locked(key.into()));
        }
        if let Some(key) = part.changed(engine, at) {
            return Err(PrepareRefusal::Changed(key.into()));
        }
        if let Some(key) = part.appeared_key(engine, at) {
            return Err(PrepareRefusal::Changed(key));
        }
        match role {
            Role::Commits(after) => {
                assert!(*after < at, "a transaction is committed above its locks (G8)");
                if let Some((_, from, end)) = part.flushed_arc() {
                    flush((engine, changes), (from, end), at, owns);
                }
                Ok(self.commit((engine, changes), prepare, keys, at))
            }
            Role::Votes => self.lock((engine, changes), prepare, keys, at),
        }
    }

    /// Runs the commands of a PREPARE that commits, and creates its record as COMMITTED.
    fn commit(
        &mut self,
        (engine, changes): Observed<'_, impl Changes>,
        prepare: &Prepare<'_>,
        keys: Keys<'_>,
        at: Timestamp,
    ) -> Vote {
        let values = &mut ObservedValues { values: engine, changes };
        let answers: Replies = prepare.part.run(values, at);
        let (all, of_key) = by_first_key(answers, prepare, &keys);
        let done = |answers| Mark::Committed {
            locked_at: at,
            commit_time: at,
            answers: if_short(answers),
        };
        let mut marks: NewMarks<'_> = keys.into_iter().zip(of_key.into_iter().map(done)).collect();
        self.marks.entry(prepare.id).or_default().put_all(&mut marks);
        let key = prepare.id.key_of(prepare.record).into();
        let outcome = Outcome::Committed(at);
        let record = Record { key, outcome, keys: names(&prepare.promised) };
        self.put_record(prepare.id, record);
        Vote { at, deadline: Deadline::NEVER, answers: all }
    }

    /// Runs the commands of a PREPARE that votes on a draft, and locks its keys.
    fn lock(
        &mut self,
        (engine, changes): Observed<'_, impl Changes>,
        prepare: &Prepare<'_>,
        keys: Keys<'_>,
        at: Timestamp,
    ) -> Result<Vote, PrepareRefusal> {
        let Prepare { id, record, promised, part, .. } = prepare;
        let mut draft = SpeculativeView::new(engine, part);
        let answers: Replies = part.run(&mut draft, at);
        let found_alive = draft.deadline().min(watched_until(part, engine, at));
        let deadline = prepare.deadline.map_or(Deadline::NEVER, |_| found_alive);
        let intents = draft.into_intents();
        let writes = intents.iter().map(|(_, intent)| intent.bytes()).sum::<usize>();
        let named = keys.iter().map(|key| key.len()).sum::<usize>();
        let answered = answers.iter().map(Reply::bytes_about).sum::<usize>();
        if self.bytes + named + writes + answered > LOCKED_BYTES_MAX {
            return Err(PrepareRefusal::TooMuch);
        }
        let (all, of_key) = by_first_key(answers, prepare, &keys);
        let record = Name::from_slice(record);
        // Those that are only watched have none.
        let mut intents = intents.into_iter().peekable();
        for (key, answers) in keys.into_iter().zip(of_key) {
            let intent = intents.next_if(|(name, _)| *name == key);
            let intent = intent.map_or(Intent::Keep, |(_, intent)| intent);
            if !matches!(intent, Intent::Keep) {
                changes.changed(key, at);
            }
            let range = part.ranges.binary_search_by(|(low, _)| (*low).cmp(key));
            let reach = match (part.flushed_arc(), range.map(|place| part.ranges[place].1)) {
                (Some((witness, from, end)), _) if witness == key => {
                    changes.flushed(Some(from), end, at);
                    LockRange::between(from, end)
                }
                (_, Err(_)) => LockRange::Key,
                (_, Ok(None)) => LockRange::End,
                (_, Ok(Some(high))) => LockRange::Until(high.into()),
            };
            let record = Name::from_slice(&record);
            let lock = Lock { id: *id, record, at, deadline, intent, reach, answers };
            self.put_lock(key, lock);
        }
        if !promised.is_empty() {
            let outcome = Outcome::Staged;
            let key = id.key_of(&record).into();
            self.put_record(*id, Record { key, outcome, keys: names(promised) });
        }
        Ok(Vote { at, deadline, answers: all })
    }

    /// Whether this id holds a lock or has a mark at one of these keys.
    pub fn knows(&self, id: TxnId, keys: &[&[u8]]) -> bool {
        let is_mine = |key: &[u8]| self.locks.get(key).is_some_and(|lock| lock.id == id);
        let marks = self.marks.get(&id).map(Marks::sorted).unwrap_or_default();
        let is_marked = |key: &[u8]| marks.binary_search_by(|(there, _)| (*there).cmp(key)).is_ok();
        keys.iter().any(|key| is_mine(key) || is_marked(key))
    }

    /// A watched key of a PREPARE that has changed for good, if no part of it was ever done here:
    /// the log would refuse it at any time.
    pub fn changed_key<'a>(
        &self,
        engine: &MemoryEngine,
        prepare: &Prepare<'a>,
        keys: &[&[u8]],
    ) -> Option<&'a [u8]> {
        let outdated = prepare.part.outdated(engine)?;
        (!self.knows(prepare.id, keys)).then_some(outdated)
    }

    /// Whether the last PREPARE of a transaction comes too late: another coordinator has aborted
    /// it.
    pub fn is_refused(&self, id: TxnId, keys: &[&[u8]]) -> bool {
        self.records.contains_key(&id) && !self.knows(id, keys)
    }

    /// The earlier answer to this id for these keys, if there was one; `Some(None)` if one of them
    /// is not locked any more, or never was. A PREPARE that commits has locked none of them.
    fn earlier_reply(&self, id: TxnId, keys: &[&[u8]], commits: bool) -> Option<Option<Vote>> {
        if !self.knows(id, keys) {
            return None;
        }
        let marks = self.marks.get(&id).map(Marks::sorted).unwrap_or_default();
        let mark = |key: &[u8]| marks::find(&marks, key);
        let lock = |key: &[u8]| self.locks.get(key).filter(|lock| lock.id == id && !commits);
        let found = keys.iter().map(|key| match (lock(key), mark(key)) {
            (Some(lock), _) => Some(lock.vote()),
            // It was committed: below whatever deadline there was.
            (None, Some(Mark::Committed { locked_at, answers, .. })) => {
                Some(Vote { at: locked_at, deadline: Deadline::NEVER, answers })
            }
            (None, Some(Mark::Aborted) | None) => None,
        });
        let Some(found) = found.collect::<Option<Vec<Vote>>>() else {
            return Some(None);
        };
        let at = found.iter().map(|vote| vote.at).max().unwrap_or_default();
        let deadline = found.iter().map(|vote| vote.deadline).min().unwrap_or(Deadline::NEVER);
        let answers = found.into_iter().flat_map(|vote| vote.answers).collect();
        Some(Some(Vote { at, deadline, answers }))
    }

    fn decide(
        &mut self,
        observed: Observed<'_, impl Changes>,
        (id, key): (TxnId, &[u8]),
        outcome: &Outcome,
        at: Timestamp,
        owns: &Owns<'_>,
    ) -> (RecordState, Vec<Name>) {
        let Some(record) = self.records.get_mut(&id) else {
            let state = match outcome {
                Outcome::Aborted => self.look(id, key, at),
                // Only what was STAGED can be committed.
                _ => RecordState::TooOld,
            };
            return (state, Vec::new());
        };
        if record.outcome == Outcome::Staged {
            record.outcome = outcome.clone();
        }
        let (outcome, keys) = (record.outcome.clone(), std::mem::take(&mut record.keys));
        let (mut here, mut rest) = (Keys::new(), Vec::new());
        for name in &keys {
            let (keyspace, key) = id.place_of(owns.keyspace(), name);
            match keyspace == owns.keyspace() && (owns.key)(key) {
                true => here.push(key),
                false => rest.push(Name::from_slice(name)),
            }
        }
        self.resolve_all(observed, (id, &here), &outcome, at, owns);
        drop(here);
        self.records.get_mut(&id).expect("the record exists").keys = keys;
        let state = match outcome {
            Outcome::Committed(at) => RecordState::Committed(at),
            _ => RecordState::Aborted,
        };
        (state, rest)
    }

    /// The state of a record. If there is none, it makes sure that there never will be.
    fn look(&mut self, id: TxnId, key: &[u8], at: Timestamp) -> RecordState {
        match self.records.get(&id).map(|record| &record.outcome) {
            Some(Outcome::Staged) => RecordState::Staged,
            Some(Outcome::Committed(at)) => RecordState::Committed(*at),
            Some(Outcome::Aborted) => RecordState::Aborted,
            None if self.is_over(id, at) => RecordState::TooOld,
            None => {
                let keys = Vec::new();
                self.put_record(id, Record { key: key.into(), outcome: Outcome::Aborted, keys });
                RecordState::Aborted
            }
        }
    }

    fn resolve_all(
        &mut self,
        (engine, changes): Observed<'_, impl Changes>,
        (id, keys): (TxnId, &[&[u8]]),
        outcome: &Outcome,
        at: Timestamp,
        owns: &Owns<'_>,
    ) {
        if let Outcome::Committed(commit) = outcome
            && !self.arcs.is_empty()
        {
            // First: what else it writes lies behind the flush.
            let locks = keys.iter().filter_map(|key| self.locks.get(*key));
            for arc in locks.filter(|lock| lock.id == id).filter_map(|lock| lock.reach.arc()) {
                flush((&mut *engine, &mut *changes), arc, *commit, owns);
            }
        }
        let resolve =
            |key| Some((key, self.resolve((&mut *engine, &mut *changes), id, key, outcome, at)?));
        let mut marks: NewMarks<'_> = keys.iter().copied().filter_map(resolve).collect();
        if !marks.is_empty() && !self.is_over(id, at) {
            self.marks.entry(id).or_default().put_all(&mut marks);
        }
    }

    /// Gives up the lock of a key, if this id has it, and says which mark it gets.
    fn resolve(
        &mut self,
        (engine, changes): Observed<'_, impl Changes>,
        id: TxnId,
        key: &[u8],
        outcome: &Outcome,
        at: Timestamp,
    ) -> Option<Mark> {
        let Some(lock) = self.take_lock(id, key) else {
            // What is aborted is never locked from now on.
            return (*outcome == Outcome::Aborted).then_some(Mark::Aborted);
        };
        Some(match outcome {
            Outcome::Committed(commit) => {
                assert!(*commit < at, "what is written lies below its entry (G2)");
                let key = engine.hasher().key(key);
                let has_changed = match &lock.intent {
                    Intent::Keep => false,
                    Intent::Put(value, expiry_ms) => {
                        engine.put(&key, &[value], *expiry_ms, *commit)
                    }
                    Intent::Delete => {
                        write_tombstone(engine, &key, *commit);
                        true
                    }
                };
                if has_changed {
                    changes.changed(key.bytes, *commit);
                }
                Mark::Committed {
                    locked_at: lock.at,
                    commit_time: *commit,
                    answers: if_short(lock.answers),
                }
            }
            _ => Mark::Aborted,
        })
    }

    fn forget_keys(&mut self, id: TxnId) {
        if let Some(record) = self.records.get_mut(&id)
            && record.outcome != Outcome::Staged
        {
            self.unfinished -= usize::from(!record.keys.is_empty());
            record.keys = Vec::new();
        }
    }

    fn prevent(&mut self, id: TxnId, keys: &[&[u8]]) -> Vec<KeyFinding> {
        let marks = self.marks.get(&id).map(Marks::sorted).unwrap_or_default();
        let (mut found, mut news) = (Vec::with_capacity(keys.len()), Vec::new());
        for key in keys {
            let lock = self.locks.get(*key).filter(|lock| lock.id == id);
            found.push(match (lock, marks::find(&marks, key)) {
                (Some(lock), _) => KeyFinding::Locked(lock.vote()),
                (None, Some(mark)) => KeyFinding::Marked(mark),
                (None, None) => {
                    news.push((*key, Mark::Aborted));
                    KeyFinding::Marked(Mark::Aborted)
                }
            });
        }
        if !news.is_empty() && !self.is_below_floor(id) {
            self.marks.entry(id).or_default().put_all(&mut news);
        }
        found
    }
}

/// Flushes an arc that is the shard's, or a part of what is: a neighbour may have become part of
/// the shard since the arc was locked.
fn flush(
    (engine, changes): Observed<'_, impl Changes>,
    (from, end): (&Cut, &Cut),
    at: Timestamp,
    owns: &Owns<'_>,
) {
    engine.flush_older(from, end, *owns.arc == owns.between(from, end), at);
    changes.flushed(Some(from), end, at);
}

/// The earliest expiry of the watched values, all of which exist.
fn watched_until(part: &Transaction<'_>, engine: &MemoryEngine, at: Timestamp) -> Deadline {
    let hasher = engine.hasher();
    let found = part.watched.iter().filter_map(|(key, _)| engine.newest(&hasher.key(key), at));
    found.map(|version| Deadline::of(version.expiry_ms)).min().unwrap_or(Deadline::NEVER)
}

/// What a mark keeps of them.
fn if_short(answers: Answers) -> Answers {
    let bytes = answers.iter().map(|(_, answer)| answer.bytes_about()).sum::<usize>();
    if bytes > RETAINED_ANSWER_BYTES_MAX { Answers::new() } else { answers }
}

/// The answers of a PREPARE's commands, each with its place; and those of each key, for who asks
/// again: of a command that names several, those of its first.
fn by_first_key(
    answers: Replies,
    prepare: &Prepare<'_>,
    keys: &[&[u8]],
) -> (Answers, SmallVec<[Answers; 1]>) {
    let mut of_key: SmallVec<[_; 1]> = keys.iter().map(|_| Answers::new()).collect();
    let mut all = Answers::with_capacity(answers.len());
    let commands = prepare.places.iter().zip(answers).zip(&prepare.part.commands);
    for ((place, answer), command) in commands {
        let first = command.first_key().map_or(Ok(0), |first| keys.binary_search(&first));
        let of_first = first.ok().and_then(|first| of_key.get_mut(first));
        if let Some(answers) = of_first {
            answers.push((*place, answer.clone()));
        }
        all.push((*place, answer));
    }
    (all, of_key)
}

fn names(keys: &[&[u8]]) -> Vec<Name> {
    keys.iter().map(|key| Name::from_slice(key)).collect()
}
