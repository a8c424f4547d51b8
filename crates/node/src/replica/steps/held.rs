//! Commands that meet locks of transactions, at a shard's leader, or keys that are kept for one:
//! they wait, and behind them all
//! that their asker sends later; so an asker's commands are done in their order.
//!
//! What waits for longer than [`Turn::waits_for_locks`] is refused, not done; but for what another
//! node has sent as one of a session, which that node gives up by itself.

use std::collections::{BTreeSet, VecDeque};

use super::Steps;
use crate::executor::{Effects, NotDone, Turn};
use crate::locks::Locks;
use crate::replica::entry::COMMANDS_OF_ONCE_AT;
use crate::replica::{Queued, Shard};
use command::{Write, codec};

/// Whose commands wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Origin(u32),
    Session(u64),
}

impl Line {
    fn of(queued: &Queued) -> Option<Self> {
        match queued {
            Queued::Batch { origin, .. } => Some(Line::Origin(origin.0)),
            Queued::Once { id, .. } => Some(Line::Session(id.session)),
            Queued::Operation { .. } => None,
        }
    }
}

impl Steps {
    /// Whether a command must wait: another transaction has locked a key of it, or is about to, or
    /// a key is kept for one.
    fn stops(&self, locks: &Locks, write: &Write<'_>) -> bool {
        if let Write::Flush { .. } = write {
            return !locks.is_free() || !self.coming.is_empty();
        }
        let mut any = false;
        write.each_key(&mut |key| {
            any |= locks.stopping(key).is_some()
                || self.coming_to(key).is_some()
                || self.sought.kept.has(key);
        });
        any
    }

    fn stops_any(&self, locks: &Locks, queued: &Queued) -> bool {
        any_command(queued, |write| self.stops(locks, write))
    }
}

impl Shard {
    /// In a turn, before anything is proposed: takes aside what meets locks.
    #[inline(never)]
    pub(in crate::replica) fn look_at_locks(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        self.steps.has_changed |= self.steps.sought.kept.forget(turn.now);
        let Steps { is_busy, coming, held, sought, .. } = &self.steps;
        let may_wait = *is_busy || !coming.is_empty() || !sought.kept.is_empty();
        if self.leads() && (may_wait || !held.is_empty()) {
            self.hold_locked(turn, effects);
        }
    }

    /// Takes aside what has to wait for locks, and what was sent behind it; and takes back what
    /// has not to wait any more, in its order.
    fn hold_locked(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        let state = self.state.clone();
        let state = state.read();
        let mut lines = BTreeSet::new();
        let (mut held, mut free) = (VecDeque::new(), VecDeque::new());
        let before = std::mem::take(&mut self.steps.held);
        let queued = std::mem::take(&mut self.queue).into_iter().map(|queued| (turn.now, queued));
        let mut late = Vec::new();
        for (since, queued) in before.into_iter().chain(queued) {
            let line = Line::of(&queued);
            let waits = line.is_some_and(|line| lines.contains(&line))
                || self.steps.stops_any(&state.locks, &queued);
            if !waits {
                free.push_back(queued);
            } else if since.saturating_add(turn.waits_for_locks()) <= turn.now
                && matches!(queued, Queued::Batch { .. })
            {
                late.push(queued);
            } else {
                lines.extend(line);
                held.push_back((since, queued));
            }
        }
        (self.steps.held, self.queue) = (held, free);
        drop(state);
        for queued in late {
            self.refuse(queued.into_asker(), NotDone::Locked, effects);
        }
    }
}

pub(super) fn each_key_of(queued: &Queued, show: &mut impl FnMut(&[u8])) {
    any_command(queued, |write| {
        write.each_key(show);
        false
    });
}

pub(super) fn is_flush(queued: &Queued) -> bool {
    any_command(queued, |write| matches!(write, Write::Flush { .. }))
}

fn any_command(queued: &Queued, mut is_it: impl FnMut(&Write<'_>) -> bool) -> bool {
    let mut rest = match queued {
        Queued::Batch { batch, .. } => batch.commands(),
        Queued::Once { bytes, .. } => &bytes[COMMANDS_OF_ONCE_AT..],
        Queued::Operation { .. } => return false,
    };
    while let Ok(write) = codec::decode(&mut rest) {
        if is_it(&write) {
            return true;
        }
    }
    false
}
