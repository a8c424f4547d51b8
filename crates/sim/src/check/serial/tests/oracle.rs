//! Is there an order of these few transactions? By trying all.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

type Lists<'a> = BTreeMap<&'a [u8], Vec<u64>>;

/// Whether transactions one after another, each within its time, see what these have seen.
pub fn is_serial(history: &[ObservedTxn]) -> bool {
    assert!(history.len() <= 64, "too many to try");
    let mut known: BTreeSet<(u64, Lists<'_>)> = BTreeSet::new();
    let mut open = vec![(0u64, Lists::new())];
    while let Some((done, lists)) = open.pop() {
        let left = |at: &usize| done & (1 << at) == 0;
        let all = || (0..history.len()).filter(left);
        let answered = |at: usize| match history[at].outcome {
            Outcome::Committed { answered_at } => Some(answered_at),
            Outcome::Unknown | Outcome::NotDone => None,
        };
        let Some(first) = all().filter_map(answered).min() else { return true };
        for at in all().filter(|at| history[*at].invoked_at <= first) {
            if history[at].outcome == Outcome::NotDone {
                continue;
            }
            let Some(lists) = run(&history[at], lists.clone()) else { continue };
            let next = (done | 1 << at, lists);
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    false
}

/// The lists after this, if it sees what it saw.
fn run<'a>(done: &'a ObservedTxn, mut lists: Lists<'a>) -> Option<Lists<'a>> {
    for op in &done.ops {
        match op {
            Op::Append { key, element } => lists.entry(key).or_default().push(*element),
            Op::Read { key, list: Some(list) } => {
                let now = lists.get(key.as_slice()).map_or(&[][..], Vec::as_slice);
                if now != list {
                    return None;
                }
            }
            Op::Read { list: None, .. } => {}
        }
    }
    Some(lists)
}
