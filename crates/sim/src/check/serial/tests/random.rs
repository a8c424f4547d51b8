//! Histories as good and bad stores make them.

use std::collections::BTreeMap;

use crate::rng::Rng;

use super::*;

/// How a store executes transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    /// One after another, each at some time between call and answer.
    Serial,
    /// Each reads what there was at a time; none may append where another has since.
    Snapshot,
    /// Each reads for itself what there was some time ago.
    Lagging,
    /// Each operation at a time of its own.
    Torn,
}

/// How large a history is.
#[derive(Clone, Copy)]
struct Size {
    transactions: u64,
    keys: u64,
    /// How long one may take; about as many begin within that time.
    span: u64,
    /// Whether each reads before it appends; then it always sees how a list begins.
    reads_first: bool,
}

const SMALL: Size = Size { transactions: 7, keys: 3, span: 8, reads_first: false };
const LARGE: Size = Size { transactions: 400, keys: 8, span: 20, reads_first: true };

/// Each list, with the time since when each element was there.
type Lists = BTreeMap<Vec<u8>, Vec<(u64, u64)>>;

/// The name of a key.
fn name(key: u64) -> Vec<u8> {
    format!("k{key}").into_bytes()
}

/// A history that such a store made; the last transaction reads all, after all.
fn history(rng: &mut Rng, store: Store, size: Size) -> Vec<ObservedTxn> {
    let mut all: Vec<(u64, u64, ObservedTxn)> = (0..size.transactions)
        .map(|client| {
            let invoked_at = rng.below(size.transactions) + 1;
            let (begin, end) =
                (invoked_at + rng.below(size.span), invoked_at + rng.below(size.span));
            let (begin, end) = (begin.min(end), begin.max(end));
            let mut outcome = Outcome::Committed { answered_at: end + rng.below(size.span) };
            if rng.one_in(8) {
                outcome = *rng.pick(&[Outcome::Unknown, Outcome::NotDone]);
            }
            let ops = (0..rng.between(1, 4)).map(|at| {
                let key = name(rng.below(size.keys));
                let element = client * 10 + at;
                if rng.one_in(2) {
                    Op::Append { key, element }
                } else {
                    Op::Read { key, list: None }
                }
            });
            let mut ops: Vec<Op> = ops.collect();
            if size.reads_first {
                ops.sort_by_key(|op| matches!(op, Op::Append { .. }));
            }
            (begin, end, ObservedTxn { client, invoked_at, outcome, ops })
        })
        .collect();
    all.sort_by_key(|(_, end, _)| *end);
    let late = all.iter().map(|(_, end, _)| end + size.span).max().unwrap_or(0) + 1;
    let ops = (0..size.keys).map(|key| Op::Read { key: name(key), list: None }).collect();
    let outcome = Outcome::Committed { answered_at: late + 1 };
    all.push((late, late, ObservedTxn { client: 99, invoked_at: late, outcome, ops }));
    let mut lists = Lists::new();
    let mut done: Vec<ObservedTxn> =
        all.into_iter().map(|one| run(rng, store, &mut lists, size.span, one)).collect();
    // The order of the reports does not matter.
    done.sort_by_key(|done| done.client);
    done
}

/// Executes one.
fn run(
    rng: &mut Rng,
    store: Store,
    lists: &mut Lists,
    span: u64,
    (begin, end, mut done): (u64, u64, ObservedTxn),
) -> ObservedTxn {
    let since = match store {
        Store::Serial | Store::Torn => end,
        Store::Snapshot => begin,
        Store::Lagging if done.client == 99 => end,
        Store::Lagging => end - rng.below(end.min(2 * span)),
    };
    let appended_since = |op: &Op| match op {
        Op::Append { key, .. } => {
            lists.get(key).is_some_and(|list| list.iter().any(|(_, time)| *time > since))
        }
        Op::Read { .. } => false,
    };
    if store == Store::Snapshot && done.ops.iter().any(appended_since) {
        done.outcome = Outcome::NotDone;
    }
    // Half of those of unknown end happen.
    let happens = match done.outcome {
        Outcome::Committed { .. } => true,
        Outcome::Unknown => rng.one_in(2),
        Outcome::NotDone => false,
    };
    let mut own: Vec<(Vec<u8>, u64)> = Vec::new();
    let is_answered = matches!(done.outcome, Outcome::Committed { .. });
    for op in &mut done.ops {
        match op {
            Op::Append { key, element } => {
                own.push((key.clone(), *element));
            }
            Op::Read { key, list } => {
                let since =
                    if store == Store::Torn { end - rng.below(end - begin + 1) } else { since };
                let there = lists.get(key).into_iter().flatten();
                let there = there.filter(|(_, time)| *time <= since).map(|(element, _)| *element);
                let mine = own.iter().filter(|(of, _)| of == key).map(|(_, element)| *element);
                let all: Vec<u64> = there.chain(mine).collect();
                *list = is_answered.then_some(all);
            }
        }
    }
    for (key, element) in own.into_iter().filter(|_| happens) {
        lists.entry(key).or_default().push((element, end));
    }
    done
}

/// Makes a history say something else.
fn mutate(rng: &mut Rng, history: &mut [ObservedTxn]) {
    let at = rng.below(history.len() as u64) as usize;
    let other = rng.below(history.len() as u64) as usize;
    let elements: Vec<u64> = history
        .iter()
        .flat_map(|done| &done.ops)
        .filter_map(|op| match op {
            Op::Append { element, .. } => Some(*element),
            Op::Read { .. } => None,
        })
        .collect();
    if rng.one_in(4) {
        let (one, two) = (history[at].invoked_at, history[other].invoked_at);
        (history[at].invoked_at, history[other].invoked_at) = (two, one);
        for done in history {
            if let Outcome::Committed { answered_at } = &mut done.outcome {
                *answered_at = done.invoked_at.max(*answered_at);
            }
        }
        return;
    }
    let lists = history[at].ops.iter_mut().filter_map(|op| match op {
        Op::Read { list, .. } => list.as_mut(),
        Op::Append { .. } => None,
    });
    for list in lists {
        match rng.below(6) {
            0 => drop(list.pop()),
            1 if list.len() > 1 => {
                let place = rng.below(list.len() as u64 - 1) as usize;
                list.swap(place, place + 1);
            }
            2 if !list.is_empty() => drop(list.remove(rng.below(list.len() as u64) as usize)),
            3 if !elements.is_empty() => list.push(*rng.pick(&elements)),
            _ => {}
        }
    }
}

#[test]
fn good_histories_pass() {
    for seed in 0..100 {
        let history = history(&mut Rng::new(seed), Store::Serial, LARGE);
        let found = check(&history);
        assert!(found.is_empty(), "seed {seed}: {}", found[0]);
    }
}

#[test]
fn bad_histories_are_found() {
    for store in [Store::Snapshot, Store::Lagging, Store::Torn] {
        for seed in 0..100 {
            let found = check(&history(&mut Rng::new(seed), store, LARGE));
            let cycle = found.iter().any(|anomaly| matches!(anomaly.kind, Kind::Cycle { .. }));
            let internal = found.iter().any(|anomaly| anomaly.kind == Kind::Internal);
            assert!(cycle != (store == Store::Torn), "{store:?}, seed {seed}");
            // It reads a key again, at another time.
            assert!(internal == (store == Store::Torn), "{store:?}, seed {seed}");
        }
    }
}

#[test]
fn snapshots_are_never_worse_than_g2() {
    for seed in 0..100 {
        for anomaly in check(&history(&mut Rng::new(seed), Store::Snapshot, LARGE)) {
            let g2 = matches!(anomaly.kind, Kind::Cycle { class: Class::G2, .. });
            let text = anomaly.to_string();
            assert!(g2, "seed {seed}: {text}");
        }
    }
}

#[test]
fn the_oracle_agrees() {
    let mut kinds: BTreeMap<Option<Kind>, usize> = BTreeMap::new();
    for seed in 0..4_000 {
        let rng = &mut Rng::new(seed);
        let store = *rng.pick(&[Store::Serial, Store::Snapshot, Store::Lagging, Store::Torn]);
        let size = Size { reads_first: rng.one_in(2), ..SMALL };
        let mut history = history(rng, store, size);
        // Now and then, nobody reads all in the end.
        if rng.one_in(4) {
            history.pop();
        }
        (0..rng.below(3)).for_each(|_| mutate(rng, &mut history));
        let (serial, found) = (oracle::is_serial(&history), check(&history));
        let all: Vec<String> = history.iter().map(ToString::to_string).collect();
        assert_eq!(serial, found.is_empty(), "seed {seed}: {found:?}\n{}", all.join("\n"));
        *kinds.entry(found.first().map(|anomaly| anomaly.kind)).or_default() += 1;
    }
    // All kinds, but for G2-realtime, which has hardly room in so few.
    assert!(kinds.len() >= 15 && kinds[&None] > 1_000, "what was found: {kinds:?}");
}

#[test]
fn a_long_history_is_checked() {
    let size = Size { transactions: 10_000, keys: 100, span: 30, reads_first: true };
    let rng = &mut Rng::new(7);
    assert_eq!(check(&history(rng, Store::Serial, size)), []);
    assert!(!check(&history(rng, Store::Torn, size)).is_empty());
}
