//! The workloads of transactions: lists, and cases in which one anomaly would show at once.
//!
//! | workload | clients | judge |
//! |---|---|---|
//! | list-append | append to any of 48 lists and read them, in all ways | search for cycles |
//! | register | give three keys one value, or read them | [`register`](fn@crate::check::register::register) |
//! | bank | move money between four accounts, blindly or as it was seen; read all | [`serial::bank`](fn@serial::bank) |
//! | write-skew | watch two lists, and append the next element to one | [`cases::write_skew`] |
//! | phantom | watch that three keys are absent, and make one; then on to three others | [`cases::phantom`] |
//! | long-fork | append to one of three lists, blindly; read all | [`cases::long_fork`] |
//! | expiring | give one key a value that ends soon; read it and write another key; watch both | [`ExpiryChecker`] |
//! | read-only | withdraw by what was deposited; deposit blindly; read both | [`cases::read_only`] |
//! | spanning | append to lists in two keyspaces and read them, at one moment | search for cycles |
//! | flush | give six keys one value; or flush their keyspace and set one key; or read all | as register |
//!
//! All but the lists have several sets of keys, each of which is judged by itself. Whatever is a
//! list is part of the search for cycles, too. A run has lists and two of the others, unless it is
//! told which one: then that alone.

use std::ops::Range;

use command::{ObservedVersion, Reply};
use keyspace::random::{Random, mix};

#[cfg(doc)]
use super::ends::ExpiryChecker;
use super::parts::list_of;
use super::{FLUSHED, KEYS, MultiShardClients, Part, WIDE};
use crate::check::register::{RegisterAccess, RegisterOp, register};
use crate::check::serial::{self, Outcome, cases};
use crate::cluster::{Options, Plant, World, upgrade};
use crate::named::named;

named! {
    #[what = "workload"]
    /// What transactions over shards are made for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Workload {
        /// Lists are appended to, and read.
        ListAppend = "list-append",
        /// Several keys are written and read like one.
        Register = "register",
        /// Money is moved, and the sum stays.
        Bank = "bank",
        /// One key is written because of what two have.
        WriteSkew = "write-skew",
        /// One key is made because none of several is there.
        Phantom = "phantom",
        /// Keys are written blindly, and readers must see that in one order.
        LongFork = "long-fork",
        /// Two writers and one read-only transaction.
        ReadOnly = "read-only",
        /// Writes depend on a value that expires soon.
        Expiring = "expiring",
        /// Lists of two keyspaces are appended to, and read.
        Spanning = "spanning",
        /// Several keys are written and read like one, and flushed.
        Flush = "flush",
    }
}

/// Keys of workloads come in so many independent sets: the locks of a dead coordinator block one of
/// them only.
const SETS: usize = 4;
/// Sets of keys of which at most one is ever made; so many are in use at a time.
const PHANTOMS: usize = 16;
/// Keys of a set of each, and how many sets there are.
const SIZES: [(usize, usize); 10] = [
    (1, KEYS),
    (3, SETS),
    (4, SETS),
    (2, SETS),
    (3, PHANTOMS),
    (3, SETS),
    (2, SETS),
    (2, SETS),
    (4, SETS),
    (6, 1),
];
/// Where the keys of each begin, one after the other; and the end.
const STARTS: [usize; 11] = {
    let (mut starts, mut at) = ([0; 11], 0);
    while at < SIZES.len() {
        starts[at + 1] = starts[at] + SIZES[at].0 * SIZES[at].1;
        at += 1;
    }
    starts
};
/// Keys of all workloads.
pub(super) const KEYS_OF_ALL: usize = STARTS[SIZES.len()];
/// Money that is moved at once, at most.
const AMOUNT_MAX: u64 = 9;
/// A value that ends soon ends within so many ms.
const MORTAL_MS_MAX: u64 = 120;

impl Workload {
    /// Its keys.
    fn keys(self) -> Range<usize> {
        let place = self as usize;
        STARTS[place]..STARTS[place + 1]
    }

    /// Whether its history is not part of the search for cycles.
    pub(super) fn has_own_judge(self) -> bool {
        matches!(self, Self::Register | Self::Bank | Self::Expiring | Self::Flush)
    }

    /// Its keys in sets that are read together.
    pub(super) fn sets(self) -> Vec<Vec<usize>> {
        let keys: Vec<usize> = self.keys().collect();
        keys.chunks(SIZES[self as usize].0).map(<[usize]>::to_vec).collect()
    }
}

/// Whether a key is in the keyspace [`BESIDE`](super::BESIDE) the others: every second one of the
/// workload that spans keyspaces.
pub(super) fn is_beside(key: usize) -> bool {
    Workload::Spanning.keys().contains(&key) && key % 2 == 1
}

/// The name of a key: those of one workload are far apart in an ordered keyspace.
pub(super) fn name_of(key: usize) -> Vec<u8> {
    match key {
        ..KEYS => format!("wide-{key:02}").into_bytes(),
        _ => format!("wide-{:02}-{key}", key * 17 % KEYS).into_bytes(),
    }
}

/// What a run's clients do.
pub(super) fn of(options: &Options) -> Vec<Workload> {
    if let Some(workload) = options.workload {
        return vec![workload];
    }
    if options.plant == Some(Plant::LateCommit) {
        // Nothing else would show it.
        return vec![Workload::Expiring];
    }
    if options.plant == Some(Plant::OwnNames) {
        return vec![Workload::Spanning];
    }
    if let Some(Plant::FlushAborted | Plant::HalfFlush) = options.plant {
        return vec![Workload::Flush];
    }
    let mut random = Random::new(mix(mix(options.seed) ^ 0x0063_6173_6573));
    let mut others = Workload::ALL[1..Workload::Expiring as usize].to_vec();
    let first = others.remove(random.below(others.len() as u64) as usize);
    let second = others[random.below(others.len() as u64) as usize];
    let mut all = vec![Workload::ListAppend, first, second];
    // Drawn apart: runs without it are as they were before there was any.
    let expires = Random::new(mix(mix(options.seed) ^ 0x656e_6473)).below(4) == 0;
    if expires {
        all.push(Workload::Expiring);
    }
    let spans = Random::new(mix(mix(options.seed) ^ 0x7370_616e)).below(4) == 0;
    if spans && !upgrade::mixes(options) {
        all.push(Workload::Spanning);
    }
    let flushes = Random::new(mix(mix(options.seed) ^ 0x666c_7573)).below(4) == 0;
    if flushes && options.plant.is_none() && !upgrade::mixes(options) {
        all.push(Workload::Flush);
    }
    all
}

/// A watched key with the version and the value that the client saw.
pub(super) type WatchedKey = (usize, ObservedVersion, Vec<u8>);

impl MultiShardClients {
    /// Whether some transactions span keyspaces.
    pub(in crate::cluster) fn span_keyspaces(&self) -> bool {
        self.workloads.contains(&Workload::Spanning)
    }

    /// Whether some transactions flush a keyspace.
    pub(in crate::cluster) fn flush_keyspace(&self) -> bool {
        self.workloads.contains(&Workload::Flush)
    }

    /// The keyspace of a workload, or one of those of one that spans several.
    pub(super) fn keyspace_of(&self, workload: Workload) -> &'static str {
        let is_flushed = workload == Workload::Flush && self.flush_keyspace();
        if is_flushed { FLUSHED } else { WIDE }
    }

    /// The part with which a transaction flushes, and leaves a value that says so.
    fn flush_part(&mut self) -> Part {
        self.elements += 1;
        Part::FlushSet(Workload::Flush.keys().start, 2 * self.elements as i64 + 1)
    }

    /// The workload of a client's next transaction.
    pub(super) fn pick_workload(&mut self) -> Workload {
        match self.workloads[..] {
            [only] => only,
            [first, ..] if self.rng.one_in(2) => first,
            _ => *self.rng.pick(&self.workloads[1..]),
        }
    }

    /// Some set of a workload's keys that is in use now.
    pub(super) fn some_set(&mut self, workload: Workload) -> Vec<usize> {
        let (sets, some) = (workload.sets(), self.rng.below(SETS as u64) as usize);
        let first = if workload == Workload::Phantom { self.phantom } else { 0 };
        sets[(first + some) % sets.len()].clone()
    }

    /// What a transaction does that has seen this, if anything.
    pub(super) fn plan(&mut self, workload: Workload, seen: &[WatchedKey]) -> Option<Vec<Part>> {
        let some = self.rng.below(seen.len() as u64) as usize;
        match workload {
            Workload::ListAppend => Some(self.some_parts()),
            Workload::Bank => {
                let amount = self.rng.between(1, AMOUNT_MAX) as i64;
                let [(from, _, had), (to, _, has)] = seen else { return None };
                Some(vec![
                    Part::Set(*from, number_in(had) - amount),
                    Part::Set(*to, number_in(has) + amount),
                ])
            }
            Workload::Phantom if seen.iter().any(|(_, _, value)| !value.is_empty()) => {
                let is_first = workload.sets()[self.phantom][0] == seen[0].0;
                self.phantom += usize::from(is_first && self.phantom + 1 < PHANTOMS);
                None
            }
            Workload::ReadOnly => Some(vec![self.append(seen[0].0)]),
            Workload::Flush => Some(vec![self.flush_part()]),
            Workload::Expiring => {
                if let [_, (_, ObservedVersion::Version(at), witness)] = seen {
                    self.ends.committed(number_in(witness), *at);
                }
                None
            }
            _ => Some(vec![self.append(seen[some].0)]),
        }
    }

    /// Records an access of registers, or a read of the bank; nothing for lists, or if the outcome
    /// is unknown.
    pub(super) fn note_case(
        &mut self,
        workload: Workload,
        (call, outcome): (u64, Outcome),
        parts: &[Part],
        replies: &[Reply],
    ) {
        let back = match outcome {
            Outcome::Committed { answered_at } => Some(answered_at),
            Outcome::Unknown => None,
            Outcome::NotDone => return,
        };
        let key = parts[0].key();
        let values = || replies.iter().map(number_of).collect::<Vec<i64>>();
        let is_read = parts.iter().all(|part| matches!(part, Part::Get(_)));
        match (workload, parts) {
            (Workload::Register | Workload::Flush, [Part::Set(_, value), ..])
            | (Workload::Flush, [Part::FlushSet(_, value)]) => {
                let what = RegisterOp::Wrote(*value as u64);
                self.registers.entry(key).or_default().push(RegisterAccess { call, back, what });
            }
            (Workload::Register | Workload::Flush, _) if back.is_some() => {
                let mut values = values();
                if workload == Workload::Flush && values[0] % 2 == 1 {
                    // What is absent was flushed together with that.
                    let first = values[0];
                    values.iter_mut().filter(|value| **value == 0).for_each(|value| *value = first);
                }
                let what = RegisterOp::Read(values.into_iter().map(|value| value as u64).collect());
                self.registers.entry(key).or_default().push(RegisterAccess { call, back, what });
            }
            (Workload::Expiring, [Part::Get(_), Part::Set(_, witness)]) if back.is_some() => {
                self.ends.found(*witness, replies.first().map_or(0, number_of) as u64);
            }
            (Workload::Bank, _) if back.is_some() && is_read => self.audits.push(values()),
            _ => {}
        }
    }

    /// All violations, each with the workload whose checker found it; the search for cycles belongs
    /// to the lists.
    pub(super) fn judge(&self) -> Vec<(Workload, String)> {
        let history = &self.history;
        let text = |anomaly: serial::Anomaly| anomaly.to_string();
        let each = |workload: Workload, judge: &dyn Fn(&[Vec<u8>]) -> Option<serial::Anomaly>| {
            workload.sets().into_iter().find_map(|set| {
                let names: Vec<_> = set.into_iter().map(|key| self.names[key].clone()).collect();
                judge(&names).map(text)
            })
        };
        let one = |workload: Workload| match workload {
            Workload::ListAppend => {
                let found = serial::check(history).first().map(ToString::to_string);
                found.or_else(|| self.judge_pipelines())
            }
            Workload::Register | Workload::Flush => {
                let keys = workload.keys();
                let its = self.registers.iter().filter(|(key, _)| keys.contains(key));
                its.map(|(_, set)| set).find_map(|set| register(set))
            }
            Workload::Bank => serial::bank(0, &self.audits).map(text),
            Workload::Expiring => self.ends.judge(),
            Workload::Spanning => {
                let names: Vec<&[u8]> = workload.keys().map(|key| &*self.names[key]).collect();
                let is_its = |op: &serial::Op| match op {
                    serial::Op::Append { key, .. } | serial::Op::Read { key, .. } => {
                        names.contains(&&**key)
                    }
                };
                let its = history.iter().filter(|txn| txn.ops.iter().all(is_its));
                let its: Vec<_> = its.cloned().collect();
                serial::check(&its).first().map(ToString::to_string)
            }
            Workload::WriteSkew => each(workload, &|keys| cases::write_skew(history, keys)),
            Workload::Phantom => each(workload, &|keys| cases::phantom(history, keys)),
            Workload::LongFork => each(workload, &|keys| cases::long_fork(history, keys)),
            Workload::ReadOnly => each(workload, &|keys| match keys {
                [withdrawals, deposits] => cases::read_only(history, [withdrawals, deposits]),
                _ => unreachable!("a set has two"),
            }),
        };
        Workload::ALL.into_iter().filter_map(|workload| Some((workload, one(workload)?))).collect()
    }
}

impl World {
    /// A client asks for what a case is made of.
    pub(super) fn ask_case(&mut self, client: Option<usize>, at: usize, workload: Workload) {
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let now_ms = machine.clock.now().millis();
        let Some(wide) = &mut self.wide else { return };
        let keys = wide.some_set(workload);
        let is_mortal = workload == Workload::Expiring;
        let end_in = if is_mortal { wide.rng.between(1, MORTAL_MS_MAX) } else { 0 };
        let some = *wide.rng.pick(&keys);
        let parts = match (workload, wide.rng.below(4)) {
            (Workload::Register, 0 | 1) => {
                wide.elements += 1;
                let value = wide.elements as i64;
                keys.into_iter().map(|key| Part::Set(key, value)).collect()
            }
            (Workload::Flush, 0) => {
                wide.elements += 1;
                let value = 2 * wide.elements as i64;
                keys.into_iter().map(|key| Part::Set(key, value)).collect()
            }
            (Workload::Flush, 1) if wide.rng.one_in(3) => {
                return self.begin_watching(client, at, workload, keys);
            }
            (Workload::Flush, 1) => vec![wide.flush_part()],
            (Workload::Bank, 0 | 1) => {
                let amount = wide.rng.between(1, AMOUNT_MAX) as i64;
                let two = wide.rng.some(2, keys);
                if wide.rng.one_in(2) {
                    return self.begin_watching(client, at, workload, two);
                }
                vec![Part::Add(two[0], -amount), Part::Add(two[1], amount)]
            }
            (Workload::Expiring, 0) => vec![Part::Expiring(keys[0], now_ms + end_in)],
            (Workload::Expiring, 1 | 2) => {
                wide.elements += 1;
                vec![Part::Get(keys[0]), Part::Set(keys[1], wide.elements as i64)]
            }
            (Workload::Expiring, _) => return self.begin_watching(client, at, workload, keys),
            (Workload::WriteSkew | Workload::Phantom, 0..=2) => {
                return self.begin_watching(client, at, workload, keys);
            }
            (Workload::LongFork, 0 | 1) => vec![wide.append(some)],
            (Workload::Spanning, kind) => {
                let count = wide.rng.between(1, 4);
                let mut keys = wide.rng.some(count as usize, keys);
                keys.sort_unstable_by_key(|key| (is_beside(*key), *key));
                let reads = kind == 0;
                let mut part = |key| {
                    let is_read = reads || wide.rng.one_in(3);
                    if is_read { Part::Get(key) } else { wide.append(key) }
                };
                keys.into_iter().map(&mut part).collect()
            }
            (Workload::ReadOnly, 0) => vec![wide.append(keys[1])],
            (Workload::ReadOnly, 1) if wide.rng.one_in(2) => {
                return self.begin_watching(client, at, workload, keys);
            }
            (Workload::ReadOnly, 1) => {
                vec![Part::Get(keys[0]), Part::Get(keys[1]), wide.append(keys[0])]
            }
            _ => {
                let parts = keys.into_iter().map(Part::Get).collect();
                return match wide.rng.one_in(2) {
                    true => self.begin_looking(client, at, workload, parts),
                    false => {
                        self.begin_transaction(client, at, workload, parts, Default::default())
                    }
                };
            }
        };
        self.begin_transaction(client, at, workload, parts, Default::default());
    }
}

fn number_in(value: &[u8]) -> i64 {
    let text = std::str::from_utf8(value).ok();
    // What is no number is one that nobody has ever written.
    if value.is_empty() { 0 } else { text.and_then(|text| text.parse().ok()).unwrap_or(i64::MAX) }
}

pub(super) fn number_of(reply: &Reply) -> i64 {
    match reply {
        Reply::Bulk(bytes) => number_in(bytes),
        Reply::Nil => 0,
        _ => i64::MAX,
    }
}

/// A watched list, as a read of its elements.
pub(super) fn list_seen((key, _, value): &WatchedKey, names: &[Vec<u8>]) -> serial::Op {
    serial::Op::Read { key: names[*key].clone(), list: Some(list_of(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_keys_of_its_own() {
        let sizes = Workload::ALL.map(|workload| workload.keys().len());
        assert_eq!(sizes, [48, 12, 16, 8, 48, 12, 8, 8, 16, 6]);
        let mut names: Vec<_> = (0..KEYS_OF_ALL).map(name_of).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), sizes.iter().sum::<usize>());
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(workload));
            assert_eq!(workload.sets().concat(), workload.keys().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_run_has_lists_and_two_others() {
        for seed in 0..50 {
            let mut workloads = of(&Options::of(seed));
            workloads.retain(|workload| *workload < Workload::Expiring);
            assert_eq!((workloads[0], workloads.len()), (Workload::ListAppend, 3));
            workloads.sort();
            workloads.dedup();
            assert_eq!(workloads.len(), 3);
        }
    }
}
