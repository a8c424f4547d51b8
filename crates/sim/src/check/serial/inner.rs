//! Does each transaction see its own writes, and all or nothing of others'?

use std::collections::{BTreeMap, BTreeSet};

use super::anomaly::{List, Name};
use super::orders::{Element, Orders, Step};
use super::{Anomaly, Kind};

/// What transactions that count see wrongly of their own appends, and of the halves of others.
pub(super) fn check(orders: &Orders<'_>) -> Vec<Anomaly> {
    let mut found = Vec::new();
    let mut told = BTreeSet::new();
    for by in (0..orders.history.len()).filter(|by| orders.counts[*by]) {
        let mut own: BTreeMap<usize, TxnKeyView<'_>> = BTreeMap::new();
        for step in &orders.steps[by] {
            let (key, wrong) = match *step {
                Step::Append { key, element } => {
                    let own = own.entry(key).or_default();
                    own.appended.push(element);
                    (key, own.is_late(orders, by, key))
                }
                Step::Read { key, list } => {
                    let own = own.entry(key).or_default();
                    let wrong = own.read(orders, by, key, list);
                    (key, wrong.or_else(|| intermediate(orders, by, key, list, own)))
                }
            };
            let Some((kind, others, text)) = wrong else { continue };
            if told.insert((kind, key)) {
                let its = [vec![by], others].concat();
                found.push(Anomaly::new(kind, orders.history, its, text));
            }
        }
    }
    found
}

/// A rule that is broken, by whom else, and how.
type FoundViolation = Option<(Kind, Vec<usize>, String)>;

/// What a transaction knows of a key.
#[derive(Default)]
struct TxnKeyView<'a> {
    /// What it has appended so far.
    appended: Vec<u64>,
    /// What others had appended before, as it read.
    others: Option<&'a [u64]>,
}

impl<'a> TxnKeyView<'a> {
    /// The last append stands before the one before it, or was read while that was not.
    fn is_late(&self, orders: &Orders<'_>, by: usize, key: usize) -> FoundViolation {
        let [.., first, last] = self.appended[..] else { return None };
        let order = &orders.keys[key];
        let at = |element| order.find(element).and_then(|known| known.at).unwrap_or(usize::MAX);
        (at(first) > at(last)).then(|| {
            let (name, longest) = (Name(order.name), List(order.longest));
            let text = format!("T{by} appended {first}, then {last} to {name}, which is {longest}");
            (Kind::OwnOrder, order.reader.into_iter().collect(), text)
        })
    }

    /// The transaction reads the key.
    fn read(
        &mut self,
        orders: &Orders<'_>,
        by: usize,
        key: usize,
        list: &'a [u64],
    ) -> FoundViolation {
        let order = &orders.keys[key];
        let name = Name(order.name);
        let wrong = |text| Some((Kind::Internal, Vec::new(), text));
        if !list.ends_with(&self.appended) {
            let (own, list) = (List(&self.appended), List(list));
            return wrong(format!("T{by} had appended {own} to {name}, then read {list}"));
        }
        let others = &list[..list.len() - self.appended.len()];
        if let Some(before) = self.others.filter(|before| *before != others) {
            let (before, others) = (List(before), List(others));
            return wrong(format!(
                "T{by} read {before} of others in {name}, later {others}: it cannot be repeated"
            ));
        }
        self.others = Some(others);
        let soon = |known: &Element| known.at.is_some_and(|at| at < others.len());
        let soon = orders.appends(by, key).find(soon).filter(|_| order.longest.starts_with(others));
        let (soon, others) = (soon?.element, List(others));
        wrong(format!("T{by} read {others} in {name} before it appended {soon}"))
    }
}

/// A list that ends amid the appends of another transaction.
fn intermediate(
    orders: &Orders<'_>,
    by: usize,
    key: usize,
    list: &[u64],
    own: &TxnKeyView<'_>,
) -> FoundViolation {
    let order = &orders.keys[key];
    let seen = *list[..list.len() - own.appended.len()].last()?;
    let writer = order.find(seen)?.by;
    let last = orders.appends(writer, key).last()?.element;
    (last != seen).then(|| {
        let (name, list) = (Name(order.name), List(list));
        let text = format!(
            "T{by} read {list} in {name}: {seen} of T{writer}, and not yet {last} of the same"
        );
        (Kind::Intermediate, vec![writer], text)
    })
}
