//! Who is first in line, of those who take values from shard to shard ([`super::executes`])?
//!
//! Such a command is in vain if a key that it has read has changed before it is committed. Of two
//! that are under way with a key in common one is mostly in vain, so those of a loop run one after
//! the other, in the order in which they came:
//!
//! ```text
//!   RENAME a b ──► runs ──────────► changed ──► rests ──► runs again ──► done
//!   RENAME b c ──► waits for b ─────────────────────────────────────────► runs
//!   RENAME d e ──► runs
//! ```
//!
//! Who is in the way then came to another node or loop, or is another kind of command. A command
//! that has met a change runs again after a pause that is drawn, from a range that doubles with
//! each: so one of several gets through. It keeps its places meanwhile; and if that does
//! not help, it has its keys kept from all others while it runs ([`super::contends`]).
//!
//! Nobody waits in a circle: a command stands in the lines of all its keys at once, behind all
//! that came before it.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time until it last waits, rests or runs again | the request's patience | `BUSY`: nothing done |
//! | a pause | [`PAUSE_MAX_NANOS`] | – |
//! | commands in line | one for each connection | – |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use keyspace::Timestamp;
use node::coordinator::{Ended, InVain};
use replication::BootNanos;

use super::EventLoop;
use super::coordinates::ended_text;
use super::serve::go_waiter;
use crate::runtime::boot_nanos;

/// The range of the second pause; the first one is none.
const PAUSE_NANOS: u64 = 1_000_000;
/// The longest pause.
const PAUSE_MAX_NANOS: u64 = 32_000_000;

/// What is in vain again after so long has its keys kept from others ([`super::contends`]): that
/// has them all wait, and most get through without.
pub(crate) const KEPT_AFTER_NANOS: u64 = 200_000_000;

/// See the front page. Connections are known by their places in the loop.
#[derive(Default)]
pub(super) struct Lines {
    all: BTreeMap<usize, InLine>,
    /// Who wants each key, in the order of coming.
    by_key: BTreeMap<Box<[u8]>, VecDeque<usize>>,
    /// When those who wait or rest are looked at.
    times: BTreeSet<(BootNanos, usize)>,
}

struct InLine {
    keys: Vec<Box<[u8]>>,
    since: BootNanos,
    /// How often it was in vain.
    changes: u32,
    /// The key that another has changed last, or had when it came.
    met: Option<Box<[u8]>>,
    /// By which name its keys are kept from others, if they are.
    kept_as: Option<Timestamp>,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Another has one of its keys. Refused then.
    Waits(BootNanos),
    /// Runs again then, or is refused, if it is too late.
    Rests(BootNanos),
    Runs,
}

impl InLine {
    fn new(keys: Vec<Box<[u8]>>, since: BootNanos) -> Self {
        Self { keys, since, changes: 0, met: None, kept_as: None, state: State::Runs }
    }

    /// If others were in its way and it is not to be run any more: the last key of theirs.
    fn is_late(&self, now: BootNanos, patience: u64) -> Option<&[u8]> {
        self.met.as_deref().filter(|_| self.since.saturating_add(patience) <= now)
    }
}

/// What a connection is to do.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Run its command.
    Run(usize),
    /// Refuse it: another had this key all the time.
    Refuse(usize, Box<[u8]>),
}

impl Lines {
    /// Whether a connection's command on these keys may run now; else it stands in line, and is
    /// told.
    fn take(&mut self, at: usize, keys: Vec<Box<[u8]>>, now: BootNanos, patience: u64) -> bool {
        if let Some(one) = self.all.get(&at) {
            let runs = one.state == State::Runs;
            let is_late = runs && one.is_late(now, patience).is_some();
            if is_late {
                self.enter(at, State::Rests(now));
            }
            return runs && !is_late;
        }
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().push_back(at);
        }
        self.all.insert(at, InLine::new(keys, now));
        let Some(key) = self.in_the_way(at).map(Box::from) else { return true };
        self.enter(at, State::Waits(now.saturating_add(patience)));
        self.all.entry(at).and_modify(|one| one.met = Some(key));
        false
    }

    /// The first of its keys that another had before.
    fn in_the_way(&self, at: usize) -> Option<&[u8]> {
        let keys = self.all.get(&at)?.keys.iter().map(|key| &**key);
        keys.into_iter().find(|key| self.by_key.get(*key).and_then(VecDeque::front) != Some(&at))
    }

    fn enter(&mut self, at: usize, state: State) {
        let Some(one) = self.all.get_mut(&at) else { return };
        let before = std::mem::replace(&mut one.state, state);
        if let State::Waits(time) | State::Rests(time) = before {
            self.times.remove(&(time, at));
        }
        if let State::Waits(time) | State::Rests(time) = state {
            self.times.insert((time, at));
        }
    }

    /// A command has met a change of this key: when it is to run again, if it is to.
    fn rest(
        &mut self,
        at: usize,
        changed: &[u8],
        now: BootNanos,
        patience: u64,
        random: u64,
    ) -> Option<BootNanos> {
        let one = self.all.get_mut(&at)?;
        let doubled = one.changes.checked_sub(1).map_or(0, |n| PAUSE_NANOS << n.min(16));
        let pause = random % (doubled.min(PAUSE_MAX_NANOS) + 1);
        let until = now.saturating_add(pause);
        if until >= one.since.saturating_add(patience) {
            return None;
        }
        one.changes += 1;
        one.met = Some(changed.into());
        self.enter(at, State::Rests(until));
        Some(until)
    }

    /// A connection's command is over, if it had one: who may run now.
    fn leave(&mut self, at: usize) -> Vec<Next> {
        self.enter(at, State::Runs);
        let Some(one) = self.all.remove(&at) else { return Vec::new() };
        let mut behind = BTreeSet::new();
        for key in one.keys {
            let Some(line) = self.by_key.get_mut(&key) else { continue };
            line.retain(|other| *other != at);
            behind.extend(line.front());
            if line.is_empty() {
                self.by_key.remove(&key);
            }
        }
        let waits = |at: &usize| matches!(self.all[at].state, State::Waits(_));
        behind.retain(|at| waits(at) && self.in_the_way(*at).is_none());
        behind.iter().for_each(|at| self.enter(*at, State::Runs));
        behind.into_iter().map(Next::Run).collect()
    }

    /// Time has passed: what is to be done.
    fn due(&mut self, now: BootNanos, patience: u64) -> Vec<Next> {
        let mut all = Vec::new();
        while let Some((time, at)) = self.times.first().copied()
            && time <= now
        {
            let is_late = || self.all[&at].is_late(now, patience);
            match self.in_the_way(at).or_else(is_late).map(Box::from) {
                None => {
                    self.enter(at, State::Runs);
                    all.push(Next::Run(at));
                }
                Some(key) => {
                    all.extend(self.leave(at));
                    all.push(Next::Refuse(at, key));
                }
            }
        }
        all
    }

    /// In how long something is due.
    pub fn next_look(&self) -> Option<Duration> {
        let (time, _) = self.times.first()?;
        Some(Duration::from_nanos(time.saturating_sub(boot_nanos())))
    }
}

impl EventLoop {
    /// Whether a connection's command on these keys may run; if not it is told when it may.
    pub(super) fn may_run_in_line(&mut self, at: usize, keys: Vec<Box<[u8]>>) -> bool {
        self.lines.take(at, keys, boot_nanos(), self.runtime.request_timeout_nanos)
    }

    /// What has come of a connection's command so far, if others were in its way.
    pub(super) fn in_vain(&self, at: usize) -> Option<InVain> {
        let one = self.lines.all.get(&at)?;
        Some(InVain { since: one.since, key: one.met.clone()?, kept_as: one.kept_as })
    }

    /// By which name the keys of a connection's command are to be kept from others.
    pub(super) fn kept_as(&self, at: usize) -> Option<Timestamp> {
        self.lines.all.get(&at)?.kept_as
    }

    /// Has a connection's command, which was in vain, run again after a pause; not if it has taken
    /// too long.
    pub(super) fn rests(&mut self, at: usize, changed: &[u8]) -> bool {
        let (patience, random) = (self.runtime.request_timeout_nanos, self.random());
        let is_again = self.lines.rest(at, changed, boot_nanos(), patience, random).is_some();
        if let Some(one) = self.lines.all.get_mut(&at)
            && one.since.saturating_add(KEPT_AFTER_NANOS) <= boot_nanos()
        {
            one.kept_as.get_or_insert_with(|| self.runtime.clock.tick());
        }
        is_again
    }

    /// A connection's command is over.
    pub(super) fn leaves_line(&mut self, at: usize) {
        if !self.lines.all.is_empty() {
            let next = self.lines.leave(at);
            self.tell_lines(next);
        }
    }

    /// Goes on with those who have rested, and refuses those who have waited too long.
    pub(super) fn tick_lines(&mut self) {
        if !self.lines.times.is_empty() {
            let next = self.lines.due(boot_nanos(), self.runtime.request_timeout_nanos);
            self.tell_lines(next);
        }
    }

    fn tell_lines(&mut self, all: Vec<Next>) {
        for next in all {
            match next {
                Next::Run(at) => self.go_on(go_waiter(at), None),
                Next::Refuse(at, key) => {
                    let text = ended_text(&Ended::Busy(Some(key)));
                    self.go_on(go_waiter(at), Some(text.into()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: u64 = 5_000_000_000;

    fn keys(names: &str) -> Vec<Box<[u8]>> {
        names.bytes().map(|name| Box::from([name])).collect()
    }

    #[test]
    fn those_with_a_key_in_common_run_one_after_the_other() {
        let mut lines = Lines::default();
        assert!(lines.take(1, keys("ab"), 0, PATIENCE));
        assert!(!lines.take(2, keys("bc"), 1, PATIENCE));
        assert!(!lines.take(3, keys("c"), 2, PATIENCE), "behind who came before, though c is free");
        assert!(lines.take(4, keys("d"), 3, PATIENCE));
        assert!(lines.take(1, keys("ab"), 4, PATIENCE), "it runs still");
        assert!(!lines.take(2, keys("bc"), 4, PATIENCE));
        assert_eq!(lines.leave(4), []);
        assert_eq!(lines.leave(1), [Next::Run(2)]);
        assert_eq!(lines.leave(1), [], "it had none");
        assert!(lines.take(2, keys("bc"), 5, PATIENCE));
        // Who goes away out of the middle lets others by.
        assert!(!lines.take(5, keys("bx"), 6, PATIENCE));
        assert!(!lines.take(6, keys("x"), 6, PATIENCE));
        assert_eq!(lines.leave(5), [Next::Run(6)]);
        assert_eq!(lines.leave(2), [Next::Run(3)]);
        assert_eq!((lines.leave(3), lines.leave(6)), (vec![], vec![]));
        assert!(lines.all.is_empty() && lines.by_key.is_empty() && lines.times.is_empty());
    }

    /// Pauses grow and end, and so do repetitions.
    #[test]
    fn what_is_in_vain_rests_and_is_refused_in_the_end() {
        let mut lines = Lines::default();
        assert!(lines.take(1, keys("a"), 0, PATIENCE));
        assert!(!lines.take(2, keys("a"), 7, PATIENCE));
        let (mut now, mut runs) = (0, 0);
        while let Some(until) = lines.rest(1, b"a", now, PATIENCE, u64::MAX - 1) {
            assert!(until - now <= PAUSE_MAX_NANOS && until < PATIENCE);
            assert!(!lines.take(1, keys("a"), now, PATIENCE), "it rests");
            assert_eq!(lines.due(until, PATIENCE), [Next::Run(1)]);
            assert_eq!(lines.due(until, PATIENCE), []);
            assert!(lines.take(1, keys("a"), until, PATIENCE));
            now = until + 10_000_000;
            runs += 1;
        }
        assert!((100..500).contains(&runs), "{runs}");
        // Nor does it go on if what it reads has taken too long.
        assert!(!lines.take(1, keys("a"), PATIENCE, PATIENCE));
        let refused = |at| Next::Refuse(at, Box::from(*b"a"));
        assert!(!lines.take(3, keys("a"), PATIENCE, PATIENCE));
        assert_eq!(lines.due(PATIENCE, PATIENCE), [Next::Run(2), refused(1)]);
        // Who waits has waited as long.
        assert_eq!(lines.due(2 * PATIENCE - 1, PATIENCE), []);
        assert_eq!(lines.due(2 * PATIENCE, PATIENCE), [refused(3)]);
        assert_eq!(lines.leave(2), []);
        assert!(lines.all.is_empty() && lines.by_key.is_empty() && lines.times.is_empty());
    }
}
