//! Commands that meet locks of transactions, or reserved keys, at a shard's leader. They wait, and
//! all later commands of the same asker wait behind them: so an asker's commands keep their order.
//!
//! The queue returns commands that have waited too long as late, to be refused; unless their sender
//! gives them up by itself ([`Commands::may_time_out`]).

use std::collections::{BTreeSet, VecDeque};

use command::Write;
use keyspace::BootNanos;

use super::COMMANDS_FIRST_NANOS;
use super::pending_writes::PendingWrites;
use super::planned_locks::PlannedLocks;
use crate::locks::Locks;

/// A batch of commands that were sent together.
pub trait Commands {
    /// Identifies a sender: commands of one asker wait for each other.
    type Asker: Ord;

    /// The asker of these; `None` if they wait for no other commands.
    fn asker(&self) -> Option<Self::Asker>;

    /// Whether one of the commands satisfies the predicate; false if these are no commands.
    fn any(&self, is_such: impl FnMut(&Write<'_>) -> bool) -> bool;

    /// Whether they are refused when they have waited for too long.
    fn may_time_out(&self) -> bool;
}

/// See the front page.
pub struct HeldCommands<C>(VecDeque<(BootNanos, C)>);

impl<C> Default for HeldCommands<C> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

/// Commands that were sorted.
pub struct Sorted<C> {
    /// To be proposed now, in their order.
    pub free: VecDeque<C>,
    /// To be refused: they have waited for too long.
    pub late: Vec<C>,
}

/// What commands wait for.
pub(super) struct Blockers<'w> {
    pub locks: &'w Locks,
    pub planned: &'w PlannedLocks,
    pub pending: &'w PendingWrites,
}

impl Blockers<'_> {
    /// Whether a command must wait: another transaction has locked a key of it, or is about to, or
    /// a key is reserved for one.
    fn stops(&self, write: &Write<'_>) -> bool {
        if let Write::Flush { .. } = write {
            return !self.locks.is_free() || !self.planned.is_empty();
        }
        let mut any = false;
        write.each_key(&mut |key| {
            any |= self.locks.blocking_lock(key).is_some()
                || self.planned.at(key).is_some()
                || self.pending.reservations.has(key);
        });
        any
    }
}

impl<C: Commands> HeldCommands<C> {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.0.iter().map(|(_, commands)| commands)
    }

    /// Whether one has waited so long that no key is reserved before it is done: a row of
    /// transactions with reservations would delay it for ever.
    pub fn have_waited_long(&self, now: BootNanos) -> bool {
        self.0.front().is_some_and(|(since, _)| since.saturating_add(COMMANDS_FIRST_NANOS) <= now)
    }

    /// All of them, in their order.
    pub fn take(&mut self) -> impl DoubleEndedIterator<Item = C> + use<C> {
        std::mem::take(&mut self.0).into_iter().map(|(_, commands)| commands)
    }

    /// Holds commands that must wait for locks, and later ones of the same askers; returns the held
    /// commands that need not wait any more first.
    pub(super) fn sort(
        &mut self,
        new: VecDeque<C>,
        in_the_way: &Blockers<'_>,
        now: BootNanos,
        waits_for: BootNanos,
    ) -> Sorted<C> {
        let mut waiting_askers = BTreeSet::new();
        let mut sorted = Sorted { free: VecDeque::new(), late: Vec::new() };
        let before = std::mem::take(&mut self.0);
        let new = new.into_iter().map(|commands| (now, commands));
        for (since, commands) in before.into_iter().chain(new) {
            let asker = commands.asker();
            let waits = asker.as_ref().is_some_and(|asker| waiting_askers.contains(asker))
                || commands.any(|write| in_the_way.stops(write));
            if !waits {
                sorted.free.push_back(commands);
            } else if since.saturating_add(waits_for) <= now && commands.may_time_out() {
                sorted.late.push(commands);
            } else {
                waiting_askers.extend(asker);
                self.0.push_back((since, commands));
            }
        }
        sorted
    }
}
