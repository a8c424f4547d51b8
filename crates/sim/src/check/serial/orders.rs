//! Which transactions count, and in which order were the elements of each list appended?

use std::collections::{BTreeMap, BTreeSet};

use super::anomaly::{List, Name};
use super::{Anomaly, Kind, ObservedTxn, Op, Outcome};

/// What a transaction did, with keys as numbers; reads without an answer are left out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// It appended an element.
    Append { key: usize, element: u64 },
    /// It read a list.
    Read { key: usize, list: &'a [u64] },
}

/// An element of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    /// The appended element.
    pub element: u64,
    /// By which transaction.
    pub by: usize,
    /// Its place in the order, if it was read.
    pub at: Option<usize>,
}

/// The order of a key's elements, as known from its reads.
#[derive(Debug)]
pub(super) struct Order<'a> {
    /// The key.
    pub name: &'a [u8],
    /// The longest list that was read and makes sense.
    pub longest: &'a [u64],
    /// The transaction that read it first.
    pub reader: Option<usize>,
    /// The transaction that appended each element of the longest list.
    pub writers: Vec<usize>,
    /// Transactions that count, with an element that no transaction has read; in ascending order.
    pub unread: Vec<usize>,
    /// All that was appended, sorted.
    elements: Vec<Element>,
}

impl Order<'_> {
    /// An element, if it is known.
    pub fn find(&self, element: u64) -> Option<Element> {
        let at = self.elements.binary_search_by_key(&element, |known| known.element);
        at.ok().map(|at| self.elements[at])
    }
}

/// A history with the orders of its lists.
#[derive(Debug)]
pub(super) struct Orders<'a> {
    /// The transactions.
    pub history: &'a [ObservedTxn],
    /// What each did.
    pub steps: Vec<Vec<Step<'a>>>,
    /// Which of them count.
    pub counts: Vec<bool>,
    /// Of each key.
    pub keys: Vec<Order<'a>>,
}

impl<'a> Orders<'a> {
    /// The orders of a history, and which lists make no sense.
    pub fn of(history: &'a [ObservedTxn]) -> (Self, Vec<Anomaly>) {
        let mut orders = Self::read(history);
        orders.count();
        let found = orders.arrange();
        (orders, found)
    }

    /// What the appends of a transaction to a key are.
    pub fn appends(&self, by: usize, key: usize) -> impl Iterator<Item = Element> + '_ {
        let its = move |step: &Step<'_>| match *step {
            Step::Append { key: of, element } if of == key => self.keys[key].find(element),
            _ => None,
        };
        self.steps[by].iter().filter_map(its)
    }

    fn read(history: &'a [ObservedTxn]) -> Self {
        let mut numbers: BTreeMap<&'a [u8], usize> = BTreeMap::new();
        let mut keys: Vec<Order<'a>> = Vec::new();
        let mut number = |name: &'a [u8], keys: &mut Vec<Order<'a>>| {
            *numbers.entry(name).or_insert_with(|| {
                let (writers, unread, elements) = (Vec::new(), Vec::new(), Vec::new());
                keys.push(Order { name, longest: &[], reader: None, writers, unread, elements });
                keys.len() - 1
            })
        };
        let mut all = Vec::with_capacity(history.len());
        for (by, done) in history.iter().enumerate() {
            let mut steps = Vec::with_capacity(done.ops.len());
            for op in &done.ops {
                match op {
                    Op::Append { key, element } => {
                        let (key, element) = (number(key, &mut keys), *element);
                        keys[key].elements.push(Element { element, by, at: None });
                        steps.push(Step::Append { key, element });
                    }
                    Op::Read { key, list: Some(list) } => {
                        steps.push(Step::Read { key: number(key, &mut keys), list });
                    }
                    Op::Read { list: None, .. } => {}
                }
            }
            all.push(steps);
        }
        for order in &mut keys {
            order.elements.sort_unstable_by_key(|known| known.element);
            let twice = order.elements.windows(2).find(|two| two[0].element == two[1].element);
            assert!(twice.is_none(), "{twice:?} were both appended to {}", Name(order.name));
        }
        let committed = |done: &ObservedTxn| matches!(done.outcome, Outcome::Committed { .. });
        let counts = history.iter().map(committed).collect();
        Self { history, steps: all, counts, keys }
    }

    /// Those of unknown end count of which one that counts has seen an element.
    fn count(&mut self) {
        let mut open: Vec<usize> = (0..self.history.len()).filter(|at| self.counts[*at]).collect();
        // Lists mostly begin alike: that part is not looked at again.
        let mut known: Vec<&[u64]> = vec![&[]; self.keys.len()];
        while let Some(at) = open.pop() {
            for step in &self.steps[at] {
                let Step::Read { key, list } = *step else { continue };
                for element in &list[same(known[key], list)..] {
                    let Some(Element { by, .. }) = self.keys[key].find(*element) else { continue };
                    if self.history[by].outcome == Outcome::Unknown && !self.counts[by] {
                        self.counts[by] = true;
                        open.push(by);
                    }
                }
                if list.len() > known[key].len() {
                    known[key] = list;
                }
            }
        }
    }

    /// Finds the longest list of each key, and those that do not fit.
    fn arrange(&mut self) -> Vec<Anomaly> {
        let mut reads: Vec<Vec<(usize, &'a [u64])>> = vec![Vec::new(); self.keys.len()];
        for at in (0..self.history.len()).filter(|at| self.counts[*at]) {
            for step in &self.steps[at] {
                if let Step::Read { key, list } = *step {
                    reads[key].push((at, list));
                }
            }
        }
        let mut found = Vec::new();
        for (key, mut reads) in reads.into_iter().enumerate() {
            reads.sort_by_key(|(_, list)| std::cmp::Reverse(list.len()));
            let mut told = BTreeSet::new();
            for (reader, list) in reads {
                let order = &mut self.keys[key];
                if order.longest.starts_with(list) {
                    continue;
                }
                let odd = odd(self.history, order, reader, list);
                if odd.is_none() && order.reader.is_none() {
                    (order.longest, order.reader) = (list, Some(reader));
                    continue;
                }
                let odd = odd.unwrap_or_else(|| incompatible(self.history, order, reader, list));
                if told.insert(odd.kind) {
                    found.push(odd);
                }
            }
            self.place(key);
        }
        found
    }

    /// Notes where each element of a key stands.
    fn place(&mut self, key: usize) {
        let order = &mut self.keys[key];
        for (at, element) in order.longest.iter().enumerate() {
            let known = order.elements.binary_search_by_key(element, |known| known.element);
            let known = &mut order.elements[known.expect("it was appended")];
            known.at = Some(at);
            order.writers.push(known.by);
        }
        let unread = order.elements.iter().filter(|known| known.at.is_none());
        let unread = unread.map(|known| known.by).filter(|by| self.counts[*by]);
        order.unread = unread.collect::<BTreeSet<_>>().into_iter().collect();
    }
}

/// How many elements two lists begin alike with.
fn same(one: &[u64], other: &[u64]) -> usize {
    if one.starts_with(other) {
        return other.len();
    }
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// What makes no sense in a list, whatever others have read.
fn odd(history: &[ObservedTxn], order: &Order<'_>, reader: usize, list: &[u64]) -> Option<Anomaly> {
    let name = Name(order.name);
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|two| two[0] == two[1]) {
        let text = format!("T{reader} read {} twice in {name}, {}", twice[0], List(list));
        return Some(Anomaly::new(Kind::Duplicate, history, vec![reader], text));
    }
    for element in list {
        let Some(Element { by, .. }) = order.find(*element) else {
            let text = format!("T{reader} read {element} in {name}; nobody appended it");
            return Some(Anomaly::new(Kind::Garbage, history, vec![reader], text));
        };
        if history[by].outcome == Outcome::NotDone {
            let text = format!("T{reader} read {element} in {name}; T{by} did not happen");
            return Some(Anomaly::new(Kind::Aborted, history, vec![reader, by], text));
        }
    }
    None
}

/// That a list does not begin the longest one.
fn incompatible(
    history: &[ObservedTxn],
    order: &Order<'_>,
    reader: usize,
    list: &[u64],
) -> Anomaly {
    let other = order.reader.unwrap_or(reader);
    let (name, at) = (Name(order.name), same(order.longest, list));
    let text = format!(
        "after {at} elements of {name}, T{other} read {}, T{reader} {}",
        order.longest[at], list[at],
    );
    Anomaly::new(Kind::Incompatible, history, vec![other, reader], text)
}
