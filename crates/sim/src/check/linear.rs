//! Could one client after another have seen this? Linearizability of keys.
//!
//! The search is Wing and Gong's (1993) with Lowe's memory (2017): go through the orders in which
//! the commands of a key can have taken effect, each between its call and its return, and look
//! for one in which every answer is right.
//!
//! ```text
//!   client 1   ├── SET k 1 ──┤ OK
//!   client 2         ├── INCR k ──────┤ 2          SET · INCR · GET is such an order
//!   client 3                ├ GET k ┤ 2
//! ```
//!
//! A command that was never answered took effect between its call and the end of the restart that
//! followed, or never. Expiry: the clock stood in `[low_ms, high_ms]` while the command was under
//! way. A command may have seen a value that ends within that, or not; but once one command has
//! found it expired, no later one may see it.
//!
//! Keys that share a hash tag have one history, since RENAME and its like read several of them.
//! Without such commands the checker divides it into histories of single keys ([`apart`]), which it
//! searches faster with the same result. It does not try every order of concurrent commands on
//! different keys (`next`).
//!
//! **What it does not know:** the log. It sees what clients see, and nothing else.

use std::collections::BTreeSet;

use command::Reply;

use crate::command::{Cell, Command, DisplayedReply};

/// One command, as its client saw it.
#[derive(Clone, Debug)]
pub struct ObservedCommand {
    /// The command.
    pub command: Command,
    /// Of which keys: their places in the history's cells.
    pub places: Vec<usize>,
    /// The client, for people.
    pub client: u8,
    /// When, in events of the run.
    pub call: u64,
    /// When the answer came; if none did, when it could no longer take effect.
    pub back: u64,
    /// The node's clock at the call.
    pub low_ms: u64,
    /// The node's clock at the answer.
    pub high_ms: u64,
    /// The answers, if they came.
    pub replies: Option<Vec<Reply>>,
}

impl std::fmt::Display for ObservedCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, places, client, call, back, low_ms, high_ms, replies } = self;
        write!(f, "{call:>5}-{back:<5} client {client}, clock {low_ms}-{high_ms}: {command:?} ")?;
        write!(f, "of {places:?} →")?;
        match replies {
            Some(replies) => {
                replies.iter().try_for_each(|reply| write!(f, " {}", DisplayedReply(reply)))
            }
            None => f.write_str(" no answer"),
        }
    }
}

/// How far ahead of the first command without a place one may be placed.
const AHEAD_MAX: usize = 128;
/// How many states the search visits before it gives up, by default.
const STATES_MAX: usize = 2_000_000;

/// What the search says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearizability {
    /// There is such an order.
    Yes,
    /// There is none.
    No,
    /// The search was given up.
    TooLong,
}

/// What each key of a history has.
pub type Cells = Vec<Option<Cell>>;

/// A history as several, one for each set of keys that commands look at together; with the places
/// that those keys had.
pub fn apart(
    first: &[Option<Cell>],
    history: &[ObservedCommand],
) -> Vec<(Vec<usize>, Cells, Vec<ObservedCommand>)> {
    let mut sets: Vec<usize> = (0..first.len()).collect();
    for seen in history.iter().filter(|seen| seen.command.is_joint()) {
        for place in &seen.places {
            let (one, other) = (sets[seen.places[0]], sets[*place]);
            sets.iter_mut().filter(|set| **set == other).for_each(|set| *set = one);
        }
    }
    let of_set = |set: usize| {
        let its: Vec<usize> = (0..first.len()).filter(|place| sets[*place] == set).collect();
        let seen = history.iter().filter_map(|seen| {
            let at = |place: &usize| its.binary_search(place).ok();
            let places: Vec<usize> = seen.places.iter().filter_map(at).collect();
            (!places.is_empty()).then(|| ObservedCommand { places, ..seen.clone() })
        });
        let (seen, cells) = (seen.collect(), its.iter().map(|place| first[*place].clone()));
        (its.clone(), cells.collect(), seen)
    };
    (0..first.len()).filter(|place| sets[*place] == *place).map(of_set).collect()
}

/// Whether there is an order in which each command answers what it answered, beginning with
/// `first`. `history` is in the order of calls.
pub fn is_linear(first: &[Option<Cell>], history: &[ObservedCommand]) -> Linearizability {
    is_linear_within(first, history, STATES_MAX)
}

/// As [`is_linear`], giving up after so many states.
pub fn is_linear_within(
    first: &[Option<Cell>],
    history: &[ObservedCommand],
    states_max: usize,
) -> Linearizability {
    let mut known: BTreeSet<(usize, u128, Cells)> = BTreeSet::new();
    let mut open = vec![(0usize, 0u128, first.to_vec())];
    while let Some((done, mask, cells)) = open.pop() {
        if done == history.len() {
            return Linearizability::Yes;
        }
        if known.len() > states_max {
            return Linearizability::TooLong;
        }
        // The next operation in the order must have been called before any unplaced one returned.
        let mut first_back = u64::MAX;
        let mut ahead = 0;
        while done + ahead < history.len() && ahead < AHEAD_MAX {
            let seen = &history[done + ahead];
            if seen.call > first_back {
                break;
            }
            if mask & (1 << ahead) == 0 {
                first_back = first_back.min(seen.back);
            }
            ahead += 1;
        }
        if ahead == AHEAD_MAX && done + ahead < history.len() {
            return Linearizability::TooLong;
        }
        let free =
            |place: &usize| mask & (1 << place) == 0 && history[done + place].call <= first_back;
        let candidates: Vec<usize> = (0..ahead).filter(free).collect();
        // Who only reads, and this, may go first whatever follows: it is in nobody's way.
        let seen_now = |place: &&usize| is_seen_now(&cells, &history[done + **place]);
        if let Some(place) = candidates.iter().find(seen_now) {
            let (done, mask) = advance(done, mask | 1 << place, history.len());
            if known.insert((done, mask, cells.clone())) {
                open.push((done, mask, cells));
            }
            continue;
        }
        for place in next(&history[done..], &candidates, first_back) {
            let seen = &history[done + place];
            let (done, mask) = advance(done, mask | 1 << place, history.len());
            let mut go = |cells: Cells| {
                if known.insert((done, mask, cells.clone())) {
                    open.push((done, mask, cells));
                }
            };
            if seen.replies.is_none() && seen.back == first_back {
                // It never took effect.
                go(cells.clone());
            }
            for mut after in lives(&cells, seen) {
                let mut its: Cells =
                    seen.places.iter().map(|place| after[*place].clone()).collect();
                let replies = seen.command.run_all(&seen.places, &mut its);
                if seen.replies.as_ref().is_none_or(|given| *given == replies) {
                    for (place, cell) in seen.places.iter().zip(its) {
                        after[*place] = cell;
                    }
                    go(after);
                }
            }
        }
    }
    Linearizability::No
}

/// Whether a command only reads and, if it takes effect now, answers what it answered beyond doubt.
fn is_seen_now(cells: &Cells, seen: &ObservedCommand) -> bool {
    let in_doubt = |place: &usize| {
        let ends = cells[*place].as_ref().map_or(0, |cell| cell.expiry_ms);
        ends != 0 && ends <= seen.high_ms
    };
    if !seen.command.is_read() || seen.places.iter().any(in_doubt) {
        return false;
    }
    let mut its: Cells = seen.places.iter().map(|place| cells[*place].clone()).collect();
    let replies = seen.command.run_all(&seen.places, &mut its);
    seen.replies.as_ref().is_none_or(|given| *given == replies)
}

/// Those of the candidates of which one may be placed next without loss: the one that was answered
/// first with all whose order matters to it. It comes before everything that is no candidate yet,
/// and the other candidates name other keys: whichever of these is placed first, it could as well
/// have been placed before them.
fn next(history: &[ObservedCommand], candidates: &[usize], first_back: u64) -> Vec<usize> {
    let keys = |place: usize| history[place].places.iter().fold(0u64, |keys, key| keys | 1 << key);
    let urgent = candidates.iter().find(|place| history[**place].back == first_back);
    let mut named = urgent.map_or(u64::MAX, |place| keys(*place));
    loop {
        let its = candidates.iter().copied().filter(|place| keys(*place) & named != 0);
        let all = its.clone().fold(named, |named, place| named | keys(place));
        if all == named {
            return its.collect();
        }
        named = all;
    }
}

/// How many commands from the front must be shown to see that there is no order.
pub fn first_bad_prefix(first: &[Option<Cell>], history: &[ObservedCommand]) -> usize {
    let mut ends: Vec<u64> = history.iter().map(|seen| seen.back).collect();
    ends.sort_unstable();
    // What was answered by then, with all that was called before: a prefix in time.
    let bad = ends.into_iter().find(|end| {
        let mut known: Vec<ObservedCommand> =
            history.iter().filter(|seen| seen.call < *end).cloned().collect();
        for seen in known.iter_mut().filter(|seen| seen.back > *end) {
            (seen.replies, seen.back) = (None, u64::MAX);
        }
        is_linear(first, &known) == Linearizability::No
    });
    history.iter().filter(|seen| bad.is_none_or(|end| seen.call < end)).count()
}

/// The cells as the command may have found them.
fn lives(cells: &Cells, seen: &ObservedCommand) -> Vec<Cells> {
    let mut found = vec![cells.clone()];
    if seen.command == Command::Flush {
        // It looks at none.
        return found;
    }
    for place in &seen.places {
        let ends = cells[*place].as_ref().map_or(0, |cell| cell.expiry_ms);
        let alive = ends == 0 || ends > seen.low_ms;
        let dead = ends != 0 && ends <= seen.high_ms;
        let mut others = if alive && dead { found.clone() } else { Vec::new() };
        let gone = if alive { &mut others } else { &mut found };
        gone.iter_mut().for_each(|cells| cells[*place] = None);
        found.append(&mut others);
    }
    found
}

fn advance(mut done: usize, mut mask: u128, len: usize) -> (usize, u128) {
    while done < len && mask & 1 == 1 {
        mask >>= 1;
        done += 1;
    }
    (done, mask)
}

#[cfg(test)]
mod tests {
    use command::{Expiry, SetIf, SetReply};

    use crate::command::Value;

    use super::*;

    fn seen(command: Command, call: u64, back: u64, reply: Option<Reply>) -> ObservedCommand {
        let replies = reply.map(|reply| vec![reply]);
        let places = vec![0];
        ObservedCommand { command, places, client: 0, call, back, low_ms: 10, high_ms: 10, replies }
    }

    fn set(value: &str) -> Command {
        let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Ok);
        Command::Set { value: Value(value.into()), when, expiry, reply }
    }

    fn bulk(value: &str) -> Option<Reply> {
        Some(Reply::Bulk(value.as_bytes().into()))
    }

    #[test]
    fn overlapping_commands_may_be_ordered_either_way() {
        let history = [
            seen(set("1"), 1, 5, Some(Reply::Ok)),
            seen(Command::Increment(1), 2, 6, Some(Reply::Int(2))),
            seen(Command::Get, 3, 4, bulk("2")),
        ];
        assert_eq!(is_linear(&[None], &history), Linearizability::Yes);
        let history = [
            seen(Command::Increment(1), 1, 5, Some(Reply::Int(1))),
            seen(Command::Increment(1), 2, 6, Some(Reply::Int(1))),
        ];
        assert_eq!(is_linear(&[None], &history), Linearizability::No);
    }

    #[test]
    fn a_read_may_not_go_back() {
        let history = [
            seen(set("1"), 1, 9, Some(Reply::Ok)),
            seen(Command::Get, 2, 3, bulk("1")),
            seen(Command::Get, 4, 5, Some(Reply::Nil)),
        ];
        assert_eq!(is_linear(&[None], &history), Linearizability::No);
    }

    #[test]
    fn unanswered_command_may_take_effect_until_restart() {
        let lost = seen(set("1"), 1, 5, None);
        let early = seen(Command::Get, 2, 3, Some(Reply::Nil));
        let yes = [lost.clone(), early.clone(), seen(Command::Get, 6, 7, bulk("1"))];
        assert_eq!(is_linear(&[None], &yes), Linearizability::Yes);
        let no = [lost.clone(), early.clone(), seen(Command::Get, 6, 7, Some(Reply::Nil))];
        assert_eq!(is_linear(&[None], &no), Linearizability::Yes);
        let late = seen(Command::Get, 6, 7, Some(Reply::Nil));
        let changed = [lost, early, late, seen(Command::Get, 8, 9, bulk("1"))];
        assert_eq!(is_linear(&[None], &changed), Linearizability::No);
    }

    #[test]
    fn a_value_seen_expired_is_gone() {
        let cell = Some(Cell { value: Value(b"v".to_vec()), expiry_ms: 20 });
        let at = |command, call, low_ms, high_ms, reply| ObservedCommand {
            low_ms,
            high_ms,
            ..seen(command, call, call + 1, reply)
        };
        let alive = at(Command::Get, 1, 15, 25, bulk("v"));
        let dead = at(Command::Get, 3, 15, 25, Some(Reply::Nil));
        let back = at(Command::Get, 5, 12, 14, bulk("v"));
        assert_eq!(
            is_linear(std::slice::from_ref(&cell), &[alive.clone(), dead.clone()]),
            Linearizability::Yes
        );
        assert_eq!(
            is_linear(std::slice::from_ref(&cell), &[alive, dead, back]),
            Linearizability::No
        );
        let early = at(Command::Get, 1, 10, 19, Some(Reply::Nil));
        assert_eq!(is_linear(std::slice::from_ref(&cell), &[early]), Linearizability::No);
    }

    #[test]
    fn a_renamed_value_is_at_one_place() {
        let of = |places: &[usize], seen: ObservedCommand| ObservedCommand {
            places: places.to_vec(),
            ..seen
        };
        let rename = Command::Rename { if_absent: false };
        let renamed = of(&[0, 1], seen(rename, 3, 8, Some(Reply::Ok)));
        let both = |first: &str, second: Option<Reply>| ObservedCommand {
            replies: Some(vec![bulk(first).unwrap_or(Reply::Nil), second.unwrap_or(Reply::Nil)]),
            ..of(&[0, 1], seen(Command::GetMany, 4, 5, None))
        };
        let set = seen(set("v"), 1, 2, Some(Reply::Ok));
        let before = [set.clone(), renamed.clone(), both("v", None)];
        assert_eq!(is_linear(&[None, None], &before), Linearizability::Yes);
        let twice = [set.clone(), renamed.clone(), both("v", bulk("v"))];
        assert_eq!(is_linear(&[None, None], &twice), Linearizability::No);
        let from = seen(Command::Get, 6, 7, Some(Reply::Nil));
        let late = of(&[1], seen(Command::Get, 9, 10, bulk("v")));
        let lost = of(&[1], seen(Command::Get, 9, 10, Some(Reply::Nil)));
        let moved = [set.clone(), renamed.clone(), from.clone(), late];
        assert_eq!(is_linear(&[None, None], &moved), Linearizability::Yes);
        assert_eq!(is_linear(&[None, None], &[set, renamed, from, lost]), Linearizability::No);
    }

    #[test]
    fn keys_that_nothing_joins_are_searched_apart() {
        let flush =
            ObservedCommand { places: vec![0, 1], ..seen(Command::Flush, 3, 4, Some(Reply::Ok)) };
        let history = vec![seen(set("v"), 1, 2, Some(Reply::Ok)), flush];
        let lens = |history: &[ObservedCommand]| -> Vec<(Vec<usize>, usize)> {
            let parts = apart(&[None, None, None], history).into_iter();
            parts.map(|(places, _, history)| (places, history.len())).collect()
        };
        assert_eq!(lens(&history), [(vec![0], 2), (vec![1], 1), (vec![2], 0)]);
        let copy = ObservedCommand {
            places: vec![1, 0],
            ..seen(Command::Copy { replace: true }, 5, 6, Some(Reply::Int(0)))
        };
        let joined = [history, vec![copy]].concat();
        assert_eq!(lens(&joined), [(vec![0, 1], 3), (vec![2], 0)]);
    }
}
