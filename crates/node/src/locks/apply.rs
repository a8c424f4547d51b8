//! What does a step do? The only judge of steps, run in log order (SAFETY G3, G8).
//!
//! [`apply`] is a pure function of the shard's state, the step and the entry's time.
//!
//! ```text
//!   PREPARE ── too old? ── known already? ── locked by another? ── as watched? ──► evaluated:
//!              its commands run on a copy of the keys they name, as they would on the shard;
//!              what is different afterwards is what each lock has to write
//! ```
//!
//! # Invariants
//! 1. A lock never changes, and goes by RESOLVE or DECIDE of its own id only.
//! 2. A key that has a mark of an id is never locked by it again.
//! 3. An outcome never changes. One that says COMMITTED was proposed by somebody who had seen
//!    every promised key locked, or resolved as committed.
//! 4. What is written at a commit time is written below the entry's own.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;

use keyspace::Timestamp;
use storage::engine::{Engine, Layout};

use super::step::{Finding, Prepare, Said, Standing, Step, Why};
use super::{
    Answers, Intent, KEPT_ANSWER_BYTES_MAX, LOCKED_BYTES_MAX, Lock, Locks, Mark, Outcome, Reach,
    Record, TxnId,
};
use crate::command::{Reply, Transaction, reply};
use crate::limits::ApplyLimits;

/// What the shard has.
pub struct Owns<'a> {
    /// Whether a key is its own.
    pub key: &'a dyn Fn(&[u8]) -> bool,
    /// Whether all keys from one of its own up to, but without, this are; or all behind it.
    pub up_to: &'a dyn Fn(Option<&[u8]>) -> bool,
}

/// Does what a step says, at the time of its entry, if all its keys are the shard's.
pub fn apply(
    locks: &mut Locks,
    engine: &mut Engine,
    step: &Step<'_>,
    at: Timestamp,
    owns: &Owns<'_>,
    limits: &ApplyLimits,
) -> Said {
    let mut are_here = true;
    step.each_key(&mut |key| are_here &= (owns.key)(key));
    if let Step::Prepare(prepare) = step {
        are_here &= prepare.part.ranges.iter().all(|(_, high)| (owns.up_to)(*high));
    }
    if !are_here {
        return Said::Moved;
    }
    match step {
        Step::Prepare(prepare) => match locks.prepare(engine, prepare, at, limits) {
            Ok((at, answers)) => Said::Voted(at, answers),
            Err(why) => Said::Refused(why),
        },
        Step::Decide { id, record, outcome } => {
            let (standing, rest) = locks.decide(engine, *id, record, outcome, at, owns.key);
            Said::Record(standing, rest)
        }
        Step::Look { id, record } => {
            let standing = locks.look(*id, record, at);
            let keys = locks.records.get(id).map(|record| record.keys.clone());
            Said::Record(standing, keys.unwrap_or_default())
        }
        Step::Resolve { id, outcome, keys } => {
            keys.iter().for_each(|key| locks.resolve(engine, *id, key, outcome, at));
            Said::Done
        }
        Step::Prevent { id, keys } => {
            Said::Found(keys.iter().map(|key| locks.prevent(*id, key)).collect())
        }
        Step::Forget { id, .. } => {
            if let Some(record) = locks.records.get_mut(id)
                && record.outcome != Outcome::Staged
            {
                locks.unfinished -= usize::from(!record.keys.is_empty());
                record.keys = Vec::new();
            }
            Said::Done
        }
    }
}

impl Locks {
    /// Forgets what became of transactions that are refused from now on anyway.
    pub(crate) fn forget(&mut self, at: Timestamp) {
        let is_over = |id: &TxnId, record: &mut Record| {
            id.is_too_old(at) && record.outcome != Outcome::Staged && record.keys.is_empty()
        };
        let too_old = self.records.iter().take_while(|(id, _)| id.is_too_old(at)).count();
        if too_old > 0 {
            let last = self.records.keys().nth(too_old - 1).copied().expect("it was counted");
            drop(self.records.extract_if(..=last, is_over).collect::<Vec<_>>());
        }
        while let Some(oldest) = self.marks.first_entry() {
            if !oldest.key().is_too_old(at) {
                break;
            }
            oldest.remove();
        }
    }

    fn prepare(
        &mut self,
        engine: &Engine,
        prepare: &Prepare<'_>,
        at: Timestamp,
        limits: &ApplyLimits,
    ) -> Result<(Timestamp, Answers), Why> {
        let Prepare { id, record, promised, places, part, .. } = prepare;
        if id.is_too_old(at) {
            return Err(Why::TooOld(at));
        }
        let keys = prepare.keys();
        if let Some(said) = self.said_before(*id, &keys) {
            return said.ok_or(Why::Aborted);
        }
        if !promised.is_empty() && self.records.contains_key(id) {
            return Err(Why::Aborted);
        }
        if let Some(key) = keys.iter().find(|key| self.stopping(key).is_some()) {
            return Err(Why::Locked((*key).into()));
        }
        if let Some((key, _)) = part.ranges.iter().find_map(|range| self.within(*id, *range)) {
            return Err(Why::Locked(key.into()));
        }
        if let Some(key) = part.changed(engine, at) {
            return Err(Why::Changed(key.into()));
        }
        if let Some(key) = part.came(engine, at) {
            return Err(Why::Changed(key));
        }
        let (answers, mut intents) = evaluate(engine, part, at, limits);
        let writes = intents.values().map(Intent::bytes).sum::<usize>();
        let names = keys.iter().map(|key| key.len()).sum::<usize>();
        if self.bytes + names + writes + bytes_of(&answers) > LOCKED_BYTES_MAX {
            return Err(Why::TooMuch);
        }
        let mut of_key: BTreeMap<&[u8], Answers> = BTreeMap::new();
        let mut all = Vec::with_capacity(answers.len());
        for ((place, answer), step) in places.iter().zip(answers).zip(&part.commands) {
            let first = step.first_key().or(keys.first().copied()).unwrap_or_default();
            of_key.entry(first).or_default().push((*place, answer.clone()));
            all.push((*place, answer));
        }
        let record: Arc<[u8]> = (*record).into();
        for key in keys {
            let intent = intents.remove(key).unwrap_or(Intent::Keep);
            let answers = of_key.remove(key).unwrap_or_default();
            let reach = match part.ranges.iter().find(|(low, _)| *low == key) {
                None => Reach::Key,
                Some((_, None)) => Reach::End,
                Some((_, Some(high))) => Reach::To((*high).into()),
            };
            let lock = Lock { id: *id, record: record.clone(), at, intent, reach, answers };
            self.put_lock(key, lock);
        }
        if !promised.is_empty() {
            let keys = promised.iter().map(|key| Box::from(*key)).collect();
            let outcome = Outcome::Staged;
            self.put_record(*id, Record { key: record, outcome, keys });
        }
        Ok((at, all))
    }

    /// What this id was told of these keys before, if it was told anything; none of it stands if
    /// one of them is not locked any more, or never was.
    fn said_before(&self, id: TxnId, keys: &[&[u8]]) -> Option<Option<(Timestamp, Answers)>> {
        let found: Vec<Option<(Timestamp, &Answers)>> = keys
            .iter()
            .map(|key| match self.locks.get(*key).filter(|lock| lock.id == id) {
                Some(lock) => Some(Some((lock.at, &lock.answers))),
                None => match self.marks.get(&id).and_then(|marks| marks.get(*key)) {
                    Some(Mark::Committed(at, _, answers)) => Some(Some((*at, answers))),
                    Some(Mark::Aborted) => Some(None),
                    None => None,
                },
            })
            .map(Option::flatten)
            .collect();
        let is_marked = |key: &&[u8]| self.marks.get(&id).is_some_and(|m| m.contains_key(*key));
        if found.iter().all(Option::is_none) && !keys.iter().any(is_marked) {
            return None;
        }
        let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() else {
            return Some(None);
        };
        let at = found.iter().map(|(at, _)| *at).max().unwrap_or_default();
        Some(Some((at, found.into_iter().flat_map(|(_, answers)| answers.clone()).collect())))
    }

    fn decide(
        &mut self,
        engine: &mut Engine,
        id: TxnId,
        key: &[u8],
        outcome: &Outcome,
        at: Timestamp,
        owns: &dyn Fn(&[u8]) -> bool,
    ) -> (Standing, Vec<Box<[u8]>>) {
        let Some(record) = self.records.get_mut(&id) else {
            let standing = match outcome {
                Outcome::Aborted => self.look(id, key, at),
                // Only what was STAGED can be committed.
                _ => Standing::TooOld,
            };
            return (standing, Vec::new());
        };
        if record.outcome == Outcome::Staged {
            record.outcome = outcome.clone();
        }
        let (outcome, keys) = (record.outcome.clone(), record.keys.clone());
        let (here, rest): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| owns(key));
        here.iter().for_each(|key| self.resolve(engine, id, key, &outcome, at));
        let standing = match outcome {
            Outcome::Committed(at) => Standing::Committed(at),
            _ => Standing::Aborted,
        };
        (standing, rest)
    }

    /// What a record says. If there is none, there will be none.
    fn look(&mut self, id: TxnId, key: &[u8], at: Timestamp) -> Standing {
        match self.records.get(&id).map(|record| &record.outcome) {
            Some(Outcome::Staged) => Standing::Staged,
            Some(Outcome::Committed(at)) => Standing::Committed(*at),
            Some(Outcome::Aborted) => Standing::Aborted,
            None if id.is_too_old(at) => Standing::TooOld,
            None => {
                let keys = Vec::new();
                self.put_record(id, Record { key: key.into(), outcome: Outcome::Aborted, keys });
                Standing::Aborted
            }
        }
    }

    fn resolve(
        &mut self,
        engine: &mut Engine,
        id: TxnId,
        key: &[u8],
        outcome: &Outcome,
        at: Timestamp,
    ) {
        let Some(lock) = self.take_lock(id, key) else {
            // What is aborted is never locked from now on.
            if *outcome == Outcome::Aborted && !id.is_too_old(at) {
                let marks = self.marks.entry(id).or_default();
                marks.entry(key.into()).or_insert(Mark::Aborted);
            }
            return;
        };
        let mark = match outcome {
            Outcome::Committed(commit) => {
                assert!(*commit < at, "what is written lies below its entry (G2)");
                let key = engine.hasher().key(key);
                match &lock.intent {
                    Intent::Keep => {}
                    Intent::Put(value, expiry_ms) => {
                        engine.put(&key, &[value], *expiry_ms, *commit);
                    }
                    Intent::Delete => {
                        engine.delete(&key, *commit);
                    }
                }
                let mut answers = lock.answers;
                if answers.iter().map(|(_, a)| bytes_of(from_ref(a))).sum::<usize>()
                    > KEPT_ANSWER_BYTES_MAX
                {
                    answers = Vec::new();
                }
                Mark::Committed(lock.at, *commit, answers)
            }
            _ => Mark::Aborted,
        };
        if !id.is_too_old(at) {
            self.marks.entry(id).or_default().insert(key.into(), mark);
        }
    }

    fn prevent(&mut self, id: TxnId, key: &[u8]) -> Finding {
        if let Some(lock) = self.locks.get(key).filter(|lock| lock.id == id) {
            return Finding::Locked(lock.at, lock.answers.clone());
        }
        let marks = self.marks.entry(id).or_default();
        Finding::Marked(marks.entry(key.into()).or_insert(Mark::Aborted).clone())
    }
}

fn bytes_of(answers: &[Reply]) -> usize {
    let mut bytes = Vec::new();
    reply::encode_all(answers, &mut bytes);
    bytes.len()
}

/// What the commands of a part answer, and what they would write: they are run on a copy of all
/// that they name.
fn evaluate<'a>(
    engine: &Engine,
    part: &Transaction<'a>,
    at: Timestamp,
    limits: &ApplyLimits,
) -> (Vec<Reply>, BTreeMap<&'a [u8], Intent>) {
    let hasher = engine.hasher();
    let mut copy = Engine::new(Layout::Ordered, hasher);
    let mut before = BTreeMap::new();
    part.each_named(&mut |name| {
        before.entry(name).or_insert_with(|| {
            let key = hasher.key(name);
            let version = engine.newest(&key, at)?;
            copy.put(&key, &[version.value], version.expiry_ms, version.timestamp);
            Some(version.timestamp)
        });
    });
    let answers = part.run(&mut copy, at, limits);
    let intent = |name: &[u8], had: bool| match copy.newest(&hasher.key(name), at) {
        Some(version) if version.timestamp == at => {
            Intent::Put(version.value.into(), version.expiry_ms)
        }
        None if had => Intent::Delete,
        _ => Intent::Keep,
    };
    let intents = before.iter().map(|(name, had)| (*name, intent(name, had.is_some()))).collect();
    (answers, intents)
}
