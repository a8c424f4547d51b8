//! Which command runs first, of those that take values from shard to shard and are retried after
//! conflicts?
//!
//! Such a command fails if a key that it has read has changed before it is committed. Of two that
//! are under way with a key in common one mostly fails, so those of one queue run one after the
//! other, in the order in which they came:
//!
//! ```text
//!   RENAME a b ──► runs ──────────► changed ──► rests ──► runs again ──► done
//!   RENAME b c ──► waits for b ─────────────────────────────────────────► runs
//!   RENAME d e ──► runs
//! ```
//!
//! So conflicts come only from another node or queue, or from another kind of command. A command
//! that has met a conflict runs again after a random pause, from a range that doubles each time: so
//! one of several gets through. It keeps its places in the queues meanwhile. If that does not help,
//! its keys are reserved from everyone while it runs ([`wait_queue`](crate::wait_queue)).
//!
//! There is no deadlock: a command enters the queues of all its keys at once, behind all commands
//! that came before it.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time until it last waits, rests or runs again | the request's timeout | `BUSY`: nothing done |
//! | a pause | `BACKOFF_MAX_NANOS` | – |
//! | commands in the queue | one for each asker | – |

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keyspace::{BootNanos, Timestamp};

/// The range of the second pause; the first one is none.
const BACKOFF_NANOS: BootNanos = 1_000_000;
/// The longest pause.
const BACKOFF_MAX_NANOS: BootNanos = 32_000_000;

/// A command that still fails after this time reserves its keys from everyone. Not sooner, since
/// that makes all others wait, and most commands get through without.
pub const RESERVE_AFTER_NANOS: BootNanos = 200_000_000;

/// The state of a transaction that is begun late, or again, since others have changed its keys.
#[derive(Clone, Debug)]
pub struct ConflictRetry {
    /// From when its time counts: when the first attempt began.
    pub since: BootNanos,
    /// The last key that was in conflict, if there was one.
    pub key: Option<Box<[u8]>>,
    /// The name by which its keys are reserved now, if they are.
    pub reserved_as: Option<Timestamp>,
}

/// See the front page. An asker, known by a number, has at most one command in it.
#[derive(Default)]
pub struct RetryQueue {
    all: BTreeMap<usize, QueuedRetry>,
    /// The askers that want each key, in order of arrival.
    by_key: BTreeMap<Box<[u8]>, VecDeque<usize>>,
    /// When commands that wait or rest are due.
    times: BTreeSet<(BootNanos, usize)>,
}

struct QueuedRetry {
    keys: Vec<Box<[u8]>>,
    since: BootNanos,
    /// How often it has met a change.
    changes: u32,
    /// The key that another has changed last, or had when it came.
    conflict_key: Option<Box<[u8]>>,
    /// By which name its keys are reserved from everyone, if they are.
    reserved_as: Option<Timestamp>,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Another command has one of its keys. Refused at this time.
    WaitingForKey(BootNanos),
    /// Runs again at this time, or is refused if that is too late.
    BackingOff(BootNanos),
    Running,
}

impl QueuedRetry {
    fn new(keys: Vec<Box<[u8]>>, since: BootNanos) -> Self {
        Self {
            keys,
            since,
            changes: 0,
            conflict_key: None,
            reserved_as: None,
            state: State::Running,
        }
    }

    /// If others were in its way and it is not to be run any more: the last key of theirs.
    fn is_late(&self, now: BootNanos, timeout: u64) -> Option<&[u8]> {
        self.conflict_key.as_deref().filter(|_| self.since.saturating_add(timeout) <= now)
    }
}

/// What an asker must do.
#[derive(Debug, PartialEq)]
pub enum RetryAction {
    /// Run its command.
    Run(usize),
    /// Refuse it: another command held this key all the time.
    Refuse(usize, Box<[u8]>),
}

impl RetryQueue {
    /// Whether an asker's command on these keys may run now; else it waits in the queue until
    /// [`leave`](Self::leave) or [`due`](Self::due) lets it run.
    pub fn may_run(
        &mut self,
        at: usize,
        keys: Vec<Box<[u8]>>,
        now: BootNanos,
        timeout: u64,
    ) -> bool {
        if let Some(one) = self.all.get(&at) {
            let runs = one.state == State::Running;
            let is_late = runs && one.is_late(now, timeout).is_some();
            if is_late {
                self.enter(at, State::BackingOff(now));
            }
            return runs && !is_late;
        }
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().push_back(at);
        }
        self.all.insert(at, QueuedRetry::new(keys, now));
        let Some(key) = self.conflicting_key(at).map(Box::from) else { return true };
        self.enter(at, State::WaitingForKey(now.saturating_add(timeout)));
        self.all.entry(at).and_modify(|one| one.conflict_key = Some(key));
        false
    }

    /// The first of its keys that another had before.
    fn conflicting_key(&self, at: usize) -> Option<&[u8]> {
        let keys = self.all.get(&at)?.keys.iter().map(|key| &**key);
        keys.into_iter().find(|key| self.by_key.get(*key).and_then(VecDeque::front) != Some(&at))
    }

    fn enter(&mut self, at: usize, state: State) {
        let Some(one) = self.all.get_mut(&at) else { return };
        let before = std::mem::replace(&mut one.state, state);
        if let State::WaitingForKey(time) | State::BackingOff(time) = before {
            self.times.remove(&(time, at));
        }
        if let State::WaitingForKey(time) | State::BackingOff(time) = state {
            self.times.insert((time, at));
        }
    }

    /// Records a conflict at this key; returns when the command runs again, if it does. `random`
    /// draws the pause.
    pub fn back_off(
        &mut self,
        at: usize,
        changed: &[u8],
        now: BootNanos,
        timeout: BootNanos,
        random: u64,
    ) -> Option<BootNanos> {
        let one = self.all.get_mut(&at)?;
        let doubled = one.changes.checked_sub(1).map_or(0, |n| BACKOFF_NANOS << n.min(16));
        let pause = random % (doubled.min(BACKOFF_MAX_NANOS) + 1);
        let until = now.saturating_add(pause);
        if until >= one.since.saturating_add(timeout) {
            return None;
        }
        one.changes += 1;
        one.conflict_key = Some(changed.into());
        self.enter(at, State::BackingOff(until));
        Some(until)
    }

    /// Removes an asker's finished command, if there is one; returns those that may run now.
    pub fn leave(&mut self, at: usize) -> Vec<RetryAction> {
        self.enter(at, State::Running);
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
        let waits = |at: &usize| matches!(self.all[at].state, State::WaitingForKey(_));
        behind.retain(|at| waits(at) && self.conflicting_key(*at).is_none());
        behind.iter().for_each(|at| self.enter(*at, State::Running));
        behind.into_iter().map(RetryAction::Run).collect()
    }

    /// The actions that are due at this time.
    pub fn due(&mut self, now: BootNanos, timeout: u64) -> Vec<RetryAction> {
        let mut all = Vec::new();
        while let Some((time, at)) = self.times.first().copied()
            && time <= now
        {
            let is_late = || self.all[&at].is_late(now, timeout);
            match self.conflicting_key(at).or_else(is_late).map(Box::from) {
                None => {
                    self.enter(at, State::Running);
                    all.push(RetryAction::Run(at));
                }
                Some(key) => {
                    all.extend(self.leave(at));
                    all.push(RetryAction::Refuse(at, key));
                }
            }
        }
        all
    }

    /// Whether no command is in it.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// When the next action is due.
    pub fn next_due(&self) -> Option<BootNanos> {
        self.times.first().map(|(time, _)| *time)
    }

    /// The retry state of an asker's command, if it has met a conflict.
    pub fn conflict_retry(&self, at: usize) -> Option<ConflictRetry> {
        let one = self.all.get(&at)?;
        let (since, reserved_as) = (one.since, one.reserved_as);
        Some(ConflictRetry { since, key: Some(one.conflict_key.clone()?), reserved_as })
    }

    /// The name by which an asker's command reserves its keys from everyone, if it does.
    pub fn reserved_as(&self, at: usize) -> Option<Timestamp> {
        self.all.get(&at)?.reserved_as
    }

    /// Makes an asker's command reserve its keys from now on, if it has been retried for long.
    pub fn reserve_if_long(&mut self, at: usize, now: BootNanos, name: impl FnOnce() -> Timestamp) {
        if let Some(one) = self.all.get_mut(&at)
            && one.since.saturating_add(RESERVE_AFTER_NANOS) <= now
        {
            one.reserved_as.get_or_insert_with(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: u64 = 5_000_000_000;

    fn keys(names: &str) -> Vec<Box<[u8]>> {
        names.bytes().map(|name| Box::from([name])).collect()
    }

    #[test]
    fn commands_with_common_key_run_in_order() {
        let mut queue = RetryQueue::default();
        assert!(queue.may_run(1, keys("ab"), 0, TIMEOUT));
        assert!(!queue.may_run(2, keys("bc"), 1, TIMEOUT));
        assert!(
            !queue.may_run(3, keys("c"), 2, TIMEOUT),
            "behind who came before, though c is free"
        );
        assert!(queue.may_run(4, keys("d"), 3, TIMEOUT));
        assert!(queue.may_run(1, keys("ab"), 4, TIMEOUT), "it runs still");
        assert!(!queue.may_run(2, keys("bc"), 4, TIMEOUT));
        assert_eq!(queue.leave(4), []);
        assert_eq!(queue.leave(1), [RetryAction::Run(2)]);
        assert_eq!(queue.leave(1), [], "it had none");
        assert!(queue.may_run(2, keys("bc"), 5, TIMEOUT));
        // Who goes away out of the middle lets others by.
        assert!(!queue.may_run(5, keys("bx"), 6, TIMEOUT));
        assert!(!queue.may_run(6, keys("x"), 6, TIMEOUT));
        assert_eq!(queue.leave(5), [RetryAction::Run(6)]);
        assert_eq!(queue.leave(2), [RetryAction::Run(3)]);
        assert_eq!((queue.leave(3), queue.leave(6)), (vec![], vec![]));
        assert!(queue.all.is_empty() && queue.by_key.is_empty() && queue.times.is_empty());
    }

    /// Pauses grow and end, and so do repetitions.
    #[test]
    fn retried_command_backs_off_and_is_refused_at_timeout() {
        let mut queue = RetryQueue::default();
        assert!(queue.may_run(1, keys("a"), 0, TIMEOUT));
        assert!(!queue.may_run(2, keys("a"), 7, TIMEOUT));
        let (mut now, mut runs) = (0, 0);
        while let Some(until) = queue.back_off(1, b"a", now, TIMEOUT, u64::MAX - 1) {
            assert!(until - now <= BACKOFF_MAX_NANOS && until < TIMEOUT);
            assert!(!queue.may_run(1, keys("a"), now, TIMEOUT), "it rests");
            assert_eq!(queue.due(until, TIMEOUT), [RetryAction::Run(1)]);
            assert_eq!(queue.due(until, TIMEOUT), []);
            assert!(queue.may_run(1, keys("a"), until, TIMEOUT));
            now = until + 10_000_000;
            runs += 1;
        }
        assert!((100..500).contains(&runs), "{runs}");
        // Nor does it go on if what it reads has taken too long.
        assert!(!queue.may_run(1, keys("a"), TIMEOUT, TIMEOUT));
        let refused = |at| RetryAction::Refuse(at, Box::from(*b"a"));
        assert!(!queue.may_run(3, keys("a"), TIMEOUT, TIMEOUT));
        assert_eq!(queue.due(TIMEOUT, TIMEOUT), [RetryAction::Run(2), refused(1)]);
        // Who waits has waited as long.
        assert_eq!(queue.due(2 * TIMEOUT - 1, TIMEOUT), []);
        assert_eq!(queue.due(2 * TIMEOUT, TIMEOUT), [refused(3)]);
        assert_eq!(queue.leave(2), []);
        assert!(queue.all.is_empty() && queue.by_key.is_empty() && queue.times.is_empty());
    }
}
