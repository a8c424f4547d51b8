//! What must hold of transactions that are made to find one anomaly each? Sharper than a search
//! for cycles, which looks at all of them together, and easier to read when it fails.
//!
//! | case | transactions | never |
//! |---|---|---|
//! | [`write_skew`] | see that there are n elements in some lists, and append the next to one | two that have seen the same n |
//! | [`phantom`] | see that none of some keys is there, and make one | two of them |
//! | [`long_fork`] | one list each is appended to; others read all | two readers who disagree which came first |
//! | [`read_only`] | withdraw, having seen the deposits; deposit; others read both | a reader who has seen a deposit, and not a withdrawal that missed it |
//!
//! The last is that of Fekete, O'Neil and O'Neil, "A Read-Only Transaction Anomaly Under Snapshot
//! Isolation" (2004), the one before that of Sovran et al., "Transactional storage for
//! geo-replicated systems" (2011).
//!
//! The same transactions count as for cycles: those that were committed, and those of unknown
//! outcome of which a committed one has read an element. Only a case's transactions use its keys.

use std::collections::{BTreeMap, BTreeSet};

use super::{Anomaly, Kind, ObservedTxn, Op, Outcome};

/// Transactions of some keys, as they count.
struct KeyedTransactions<'a> {
    history: &'a [ObservedTxn],
    keys: &'a [Vec<u8>],
    seen: BTreeSet<u64>,
}

impl<'a> KeyedTransactions<'a> {
    fn new(history: &'a [ObservedTxn], keys: &'a [Vec<u8>]) -> Self {
        let committed = history.iter().filter(|done| is_committed(done));
        let ops = committed.flat_map(|done| &done.ops);
        let lists = ops.filter_map(|op| match op {
            Op::Read { key, list: Some(list) } if keys.contains(key) => Some(list),
            _ => None,
        });
        let seen = lists.flatten().copied().collect();
        Self { history, keys, seen }
    }

    /// Those that count, each with its place in the history.
    fn counted(&self) -> impl Iterator<Item = (usize, &'a ObservedTxn)> {
        self.history.iter().enumerate().filter(|(_, done)| {
            let is_seen = || self.appended(done).is_some_and(|(_, e)| self.seen.contains(&e));
            is_committed(done) || (done.outcome == Outcome::Unknown && is_seen())
        })
    }

    /// The first element that a transaction appends to one of the keys, and to which.
    fn appended(&self, done: &ObservedTxn) -> Option<(usize, u64)> {
        done.ops.iter().find_map(|op| match op {
            Op::Append { key, element } => Some((self.place(key)?, *element)),
            Op::Read { .. } => None,
        })
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        self.keys.iter().position(|name| name == key)
    }

    /// How many elements a transaction has seen in each of the keys, if it has read all of them.
    fn saw(&self, done: &ObservedTxn) -> Option<Vec<usize>> {
        let of = |name: &Vec<u8>| {
            done.ops.iter().find_map(|op| match op {
                Op::Read { key, list: Some(list) } if key == name => Some(list.len()),
                _ => None,
            })
        };
        self.keys.iter().map(of).collect()
    }

    /// Those that read all and append nothing.
    fn readers(&self) -> impl Iterator<Item = (usize, Vec<usize>)> {
        let readers = self.counted().filter(|(_, done)| self.appended(done).is_none());
        readers.filter_map(|(at, done)| Some((at, self.saw(done)?)))
    }
}

fn is_committed(done: &ObservedTxn) -> bool {
    matches!(done.outcome, Outcome::Committed { .. })
}

/// Two that have seen the same number of elements in these lists, and both have appended the next.
pub fn write_skew(history: &[ObservedTxn], keys: &[Vec<u8>]) -> Option<Anomaly> {
    let of = KeyedTransactions::new(history, keys);
    let mut turns: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, done) in of.counted().filter(|(_, done)| of.appended(done).is_some()) {
        let Some(saw) = of.saw(done) else { continue };
        let turn = saw.iter().sum();
        if let Some(other) = turns.insert(turn, at) {
            let text = format!("T{other} and T{at} both saw {turn} elements, and appended one");
            return Some(Anomaly::new(Kind::WriteSkew, history, vec![other, at], text));
        }
    }
    None
}

/// Two that have both seen that none of these keys is there, and have each made one.
pub fn phantom(history: &[ObservedTxn], keys: &[Vec<u8>]) -> Option<Anomaly> {
    let of = KeyedTransactions::new(history, keys);
    let mut makers = of.counted().filter(|(_, done)| of.appended(done).is_some());
    let (one, other) = (makers.next()?.0, makers.next()?.0);
    let text = format!("T{one} and T{other} have each made the first of these keys");
    Some(Anomaly::new(Kind::Phantom, history, vec![one, other], text))
}

/// Two readers of whom each has seen an element that the other has not.
pub fn long_fork(history: &[ObservedTxn], keys: &[Vec<u8>]) -> Option<Anomaly> {
    let mut readers: Vec<_> = KeyedTransactions::new(history, keys).readers().collect();
    readers.sort_by_key(|(at, saw)| (saw.iter().sum::<usize>(), *at));
    let is_before = |one: &[usize], other: &[usize]| one.iter().zip(other).all(|(a, b)| a <= b);
    // Each saw what the one before did, or all of them stand in one row.
    let fork = readers.windows(2).find(|two| !is_before(&two[0].1, &two[1].1))?;
    let [(one, saw), (other, sees)] = fork else { return None };
    let text = format!("T{one} saw {saw:?} elements, T{other} {sees:?}: which came first?");
    Some(Anomaly::new(Kind::LongFork, history, vec![*one, *other], text))
}

/// Finds a reader of withdrawals and deposits that has seen a deposit which a withdrawal missed,
/// but not that withdrawal.
pub fn read_only(history: &[ObservedTxn], keys: [&Vec<u8>; 2]) -> Option<Anomaly> {
    let keys = keys.map(Clone::clone);
    let of = KeyedTransactions::new(history, &keys);
    let withdrawals: Vec<(usize, u64, usize)> = of
        .counted()
        .filter_map(|(at, done)| {
            let (0, element) = of.appended(done)? else { return None };
            Some((at, element, of.saw(done)?[1]))
        })
        .collect();
    for (reader, saw) in of.readers() {
        let read = history[reader].ops.iter().find_map(|op| match op {
            Op::Read { key, list: Some(list) } if *key == keys[0] => Some(list),
            _ => None,
        })?;
        let missed = |(_, element, deposits): &&(usize, u64, usize)| {
            *deposits < saw[1] && !read.contains(element)
        };
        if let Some((by, _, deposits)) = withdrawals.iter().find(missed) {
            let text = format!(
                "T{reader} saw {} deposits, and not what T{by} withdrew after {deposits}",
                saw[1]
            );
            return Some(Anomaly::new(Kind::ReadOnly, history, vec![reader, *by], text));
        }
    }
    None
}
