//! Could one client after another have seen this? Linearizability, key by key.
//!
//! The search is Wing and Gong's (1993) with Lowe's memory (2017): go through the orders in which
//! the commands of one key can have taken effect, each between its call and its return, and look
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
//! way. A value that ends within that may have been seen or not; but who did not see it has ended
//! it for everyone after.
//!
//! **What it does not know:** the log. It sees what clients see, and nothing else.

use std::collections::BTreeSet;

use node::command::Reply;

use crate::command::{Cell, Command, Shown};

/// One command of one key, as its client saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was asked.
    pub command: Command,
    /// Who asked, for people.
    pub client: u8,
    /// When, in events of the run.
    pub call: u64,
    /// When the answer came; if none did, when it could no longer take effect.
    pub back: u64,
    /// The node's clock at the call.
    pub low_ms: u64,
    /// The node's clock at the answer.
    pub high_ms: u64,
    /// The answer, if one came.
    pub reply: Option<Reply>,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, client, call, back, low_ms, high_ms, reply } = self;
        write!(f, "{call:>5}-{back:<5} client {client}, clock {low_ms}-{high_ms}: {command:?} ")?;
        match reply {
            Some(reply) => write!(f, "→ {}", Shown(reply)),
            None => f.write_str("→ no answer"),
        }
    }
}

/// How far ahead of the first command without a place one may be placed.
const AHEAD_MAX: usize = 128;
/// States looked at before giving up.
const STATES_MAX: usize = 2_000_000;

/// What the search says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linear {
    /// There is such an order.
    Yes,
    /// There is none.
    No,
    /// The search was given up.
    TooLong,
}

/// Whether there is an order in which each command answers what it answered, beginning with
/// `first`. `history` is in the order of calls.
pub fn is_linear(first: Option<&Cell>, history: &[Seen]) -> Linear {
    let mut known: BTreeSet<(usize, u128, Option<Cell>)> = BTreeSet::new();
    let mut open = vec![(0usize, 0u128, first.cloned())];
    while let Some((done, mask, cell)) = open.pop() {
        if done == history.len() {
            return Linear::Yes;
        }
        if known.len() > STATES_MAX {
            return Linear::TooLong;
        }
        // Whoever is placed next must have been called before any without a place was answered.
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
            return Linear::TooLong;
        }
        for place in (0..ahead).filter(|place| mask & (1 << place) == 0) {
            let seen = &history[done + place];
            if seen.call > first_back {
                continue;
            }
            let (done, mask) = advance(done, mask | 1 << place, history.len());
            let mut go = |cell: Option<Cell>| {
                if known.insert((done, mask, cell.clone())) {
                    open.push((done, mask, cell));
                }
            };
            if seen.reply.is_none() && seen.back == first_back {
                // It never took effect.
                go(cell.clone());
            }
            for alive in lives(&cell, seen) {
                let (after, reply) = seen.command.run(alive);
                if seen.reply.as_ref().is_none_or(|given| *given == reply) {
                    go(after);
                }
            }
        }
    }
    Linear::No
}

/// How many commands from the front must be shown to see that there is no order.
pub fn first_bad_prefix(first: Option<&Cell>, history: &[Seen]) -> usize {
    let mut ends: Vec<u64> = history.iter().map(|seen| seen.back).collect();
    ends.sort_unstable();
    // What was answered by then, with all that was called before: a prefix in time.
    let bad = ends.into_iter().find(|end| {
        let mut known: Vec<Seen> =
            history.iter().filter(|seen| seen.call < *end).cloned().collect();
        for seen in known.iter_mut().filter(|seen| seen.back > *end) {
            (seen.reply, seen.back) = (None, u64::MAX);
        }
        is_linear(first, &known) != Linear::Yes
    });
    history.iter().filter(|seen| bad.is_none_or(|end| seen.call < end)).count()
}

/// The cell as the command may have found it.
fn lives(cell: &Option<Cell>, seen: &Seen) -> impl Iterator<Item = Option<Cell>> {
    let ends = cell.as_ref().map_or(0, |cell| cell.expiry_ms);
    let alive = ends == 0 || ends > seen.low_ms;
    let dead = ends != 0 && ends <= seen.high_ms;
    let first = alive.then(|| cell.clone());
    first.into_iter().chain(dead.then_some(None))
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
    use node::command::{Expiry, SetIf, SetReply};

    use crate::command::Value;

    use super::*;

    fn seen(command: Command, call: u64, back: u64, reply: Option<Reply>) -> Seen {
        Seen { command, client: 0, call, back, low_ms: 10, high_ms: 10, reply }
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
        assert_eq!(is_linear(None, &history), Linear::Yes);
        let history = [
            seen(Command::Increment(1), 1, 5, Some(Reply::Int(1))),
            seen(Command::Increment(1), 2, 6, Some(Reply::Int(1))),
        ];
        assert_eq!(is_linear(None, &history), Linear::No);
    }

    #[test]
    fn a_read_may_not_go_back() {
        let history = [
            seen(set("1"), 1, 9, Some(Reply::Ok)),
            seen(Command::Get, 2, 3, bulk("1")),
            seen(Command::Get, 4, 5, Some(Reply::Nil)),
        ];
        assert_eq!(is_linear(None, &history), Linear::No);
    }

    #[test]
    fn what_was_never_answered_may_have_been_done_until_the_restart() {
        let lost = seen(set("1"), 1, 5, None);
        let early = seen(Command::Get, 2, 3, Some(Reply::Nil));
        let yes = [lost.clone(), early.clone(), seen(Command::Get, 6, 7, bulk("1"))];
        assert_eq!(is_linear(None, &yes), Linear::Yes);
        let no = [lost.clone(), early.clone(), seen(Command::Get, 6, 7, Some(Reply::Nil))];
        assert_eq!(is_linear(None, &no), Linear::Yes);
        let late = seen(Command::Get, 6, 7, Some(Reply::Nil));
        let changed = [lost, early, late, seen(Command::Get, 8, 9, bulk("1"))];
        assert_eq!(is_linear(None, &changed), Linear::No);
    }

    #[test]
    fn a_value_seen_expired_is_gone() {
        let cell = Cell { value: Value(b"v".to_vec()), expiry_ms: 20 };
        let at = |command, call, low_ms, high_ms, reply| Seen {
            low_ms,
            high_ms,
            ..seen(command, call, call + 1, reply)
        };
        let alive = at(Command::Get, 1, 15, 25, bulk("v"));
        let dead = at(Command::Get, 3, 15, 25, Some(Reply::Nil));
        let back = at(Command::Get, 5, 12, 14, bulk("v"));
        assert_eq!(is_linear(Some(&cell), &[alive.clone(), dead.clone()]), Linear::Yes);
        assert_eq!(is_linear(Some(&cell), &[alive, dead, back]), Linear::No);
        let early = at(Command::Get, 1, 10, 19, Some(Reply::Nil));
        assert_eq!(is_linear(Some(&cell), &[early]), Linear::No);
    }
}
