//! Entries: proposed, persisted, applied, answered.
//!
//! A replica lists its proposals by index and term. An applied entry with that index and term
//! answers one. An applied entry with another term proves that it will never be done.

use command::NotDone;
use hlc::Clock;
use keyspace::{Durability, NodeId, ReplicaId};
use replication::{Entry, HardState, Work};

use super::{Append, Asker, InFlight, Queued, Replica};
use crate::event::EventKind;
use crate::executor::{Caller, Effects, RoundContext, push, report};
use crate::replica::entry::{self, Header, Kind, Spent};
use crate::replica::record;
use crate::replica::state::{Outcome, ShardState};
use crate::reshape::reroute::answer_applied;
use crate::routing::session::BatchId;

impl Replica {
    pub(super) fn propose_queued(&mut self, turn: &RoundContext<'_>, mut turn_bytes: u64) {
        if self.queue.is_empty() || !self.leads() || self.group.is_transferring() {
            return;
        }
        if self.is_halted() {
            return;
        }
        while turn_bytes < turn.bytes_max {
            let Some(queued) = self.queue.pop_front() else { return };
            let index = self.group.last_index() + 1;
            let (kind, mut bytes, count, asker) = match queued {
                Queued::Batch { origin, batch } => {
                    let (bytes, waiters) = batch.into_parts();
                    let count = waiters.len() as u32;
                    (Kind::Commands, bytes, count, Asker::Batch { origin, waiters })
                }
                Queued::Operation { kind, bytes, asker } => (kind, bytes, 1, asker),
                Queued::SessionBatch { from, id, count, bytes } => {
                    let BatchId { session, sequence, .. } = id;
                    (
                        Kind::SessionBatch,
                        bytes,
                        count,
                        Asker::SessionBatch { from, session, sequence },
                    )
                }
            };
            turn_bytes += bytes.len() as u64;
            assert!(
                kind.since() <= turn.cluster_version,
                "all nodes can read what is proposed (G3)"
            );
            let term = self.stamp(turn.clock, index, kind, count, &mut bytes);
            let place = match self.group.propose(bytes) {
                Ok(place) => place,
                Err(_) => unreachable!("a leader that hands nothing over proposes"),
            };
            assert_eq!(place.index, index, "the index was reserved under the same executor step");
            self.in_flight.push_back(InFlight { index, term, since: turn.now, asker });
        }
    }

    /// Takes the timestamp of the entry that is proposed next, and fills in its header; its term.
    pub(super) fn stamp(
        &mut self,
        clock: &Clock,
        index: u64,
        kind: Kind,
        count: u32,
        bytes: &mut [u8],
    ) -> u64 {
        let timestamp = self.promise.take(clock, index);
        let term = self.group.term();
        let skips_equal = self.skips_equal && kind.has_commands();
        Header { kind, skips_equal, timestamp, term, count }.fill(bytes);
        term
    }

    /// Puts what must persist into the turn's group, and applies what is committed.
    pub(super) fn hand_out(&mut self, work: Work, clock: &Clock, effects: &mut Effects) {
        // SAFETY G9: what others count on is fsynced at every durability.
        let mut needs_sync = self.durability == Durability::Sync || !self.is_sole();
        if let Some(hard_state) = work.hard_state {
            let first = work.entries.first().map_or(u64::MAX, Entry::index);
            self.mark(hard_state, first, effects);
            needs_sync = true;
            self.persistence.vote_uncovered = true;
        }
        self.replace(&work.entries, effects);
        let restored = work.restored.map(|(index, _)| index);
        let before = work.entries.first().map(|first| first.index() - 1);
        if let Some(last_index) = restored.or(before) {
            self.persistence.forget_replaced(last_index);
        }
        for entry in &work.entries {
            self.mark_committed(entry, effects);
            if !self.group.is_leader() {
                observe(entry, clock);
            }
            let prefix = record::entry_prefix(entry.index(), entry.term());
            push(&mut effects.records, self.id, record::ENTRY, &[&prefix, entry.data()]);
            let kind = entry::kind_byte(entry.data());
            // All but commands are fsynced at every durability (SAFETY G9). A safe point does not
            // hold up the commands behind it, though: the system shard's record of it is durable
            // already, so that here it is only followed. An empty entry opens a term.
            let is_commands = [Kind::Commands as u8, Kind::SessionBatch as u8];
            effects.sync |= !kind.is_some_and(|kind| is_commands.contains(&kind));
            let follows = [Kind::Commands as u8, Kind::SafePoint as u8, Kind::SessionBatch as u8];
            needs_sync |= !kind.is_some_and(|kind| follows.contains(&kind));
        }
        if work.hard_state.is_some() || !work.entries.is_empty() {
            effects.sync |= needs_sync;
            self.persistence.appends.push_back(Append {
                number: work.number,
                ticket: effects.ticket,
                last_index: work.entries.last().map_or(0, Entry::index),
                needs_sync,
                lsn: None,
                persisted: false,
            });
        } else {
            // There is nothing to persist, but what it says must not overtake what is persisted.
            match self.persistence.appends.back_mut().filter(|append| !append.persisted) {
                Some(append) => append.number = work.number,
                None => self.group.persisted(work.number),
            }
        }
        if !work.committed.is_empty() {
            self.apply(work.committed, clock, effects);
        }
    }

    /// Logs the commit index now and then. A restart applies entries up to it as it reads, and
    /// keeps only later ones in memory. With a sole voter, the whole log is committed.
    ///
    /// A change of members always logs it. A replica that has the next change on disk must know
    /// after a restart that the previous one is in force. Else it would lead among members of the
    /// past (decision 0012). So does the entry that settles a change: the commit index is what
    /// settles it.
    ///
    /// Called for each entry, before it is written.
    fn mark_committed(&mut self, entry: &Entry, effects: &mut Effects) {
        self.persistence.unmarked_bytes += entry.data().len();
        let is_due = self.persistence.unmarked_bytes >= MARK_BYTES && !self.is_sole();
        if is_due || is_of_change(entry) {
            self.persistence.unmarked_bytes = 0;
            self.mark(self.group.hard_state(), entry.index(), effects);
        }
    }

    /// Writes down term, vote and how far the group has agreed, ahead of the entry at `before`. It
    /// never says that this one is agreed upon, or one behind it: what stands there in the log so
    /// far may be another leader's, and a restart applies what is agreed as it reads.
    fn mark(&self, hard_state: HardState, before: u64, effects: &mut Effects) {
        let commit = hard_state.commit.min(before - 1);
        let payload = record::encode_hard_state(HardState { commit, ..hard_state });
        push(&mut effects.records, self.id, record::HARD_STATE, &[&payload]);
    }

    /// These entries replace entries that this replica proposed. Another replica may still hold the
    /// old ones and commit them, if the new ones are lost in turn. So no client learns yet that its
    /// write was not done (SAFETY G10). Requests that a shard applies only once go to the current
    /// leader.
    fn replace(&mut self, entries: &[Entry], effects: &mut Effects) {
        let Some(first) = entries.first() else { return };
        let mut lost = Vec::new();
        for in_flight in self.in_flight.iter_mut().rev() {
            if in_flight.index < first.index() || in_flight.term >= first.term() {
                break;
            }
            if matches!(in_flight.asker, Asker::SessionBatch { .. } | Asker::Steps(_)) {
                lost.push(std::mem::replace(&mut in_flight.asker, Asker::Nobody));
            }
        }
        lost.into_iter().for_each(|asker| self.refuse(asker, NotDone::EntryReplaced, effects));
    }

    /// What is applied is of this term: nothing that was proposed here in an older one, and has not
    /// been applied, ever will be.
    #[inline(never)]
    pub(super) fn outlive(&mut self, term: u64, effects: &mut Effects) {
        for in_flight in std::mem::take(&mut self.in_flight) {
            match in_flight.term < term {
                true => self.refuse(in_flight.asker, NotDone::EntryReplaced, effects),
                false => self.in_flight.push_back(in_flight),
            }
        }
    }

    /// Applies what is committed, and answers it. The others hear of it with the next entries, but
    /// of what changes the catalogue at once: all nodes' clients meet that.
    pub(super) fn apply(&mut self, committed: Vec<Entry>, clock: &Clock, effects: &mut Effects) {
        for entry in committed {
            let may_halt = !self.merges_nothing();
            if may_halt && self.halts(&entry, effects) {
                self.halt(entry);
            } else {
                self.apply_entry(entry, None, clock, effects);
            }
        }
    }

    /// Applies one; with the state of the neighbour that it takes in, if it takes one in.
    #[inline]
    pub(super) fn apply_entry(
        &mut self,
        entry: Entry,
        right: Option<ShardState>,
        clock: &Clock,
        effects: &mut Effects,
    ) {
        let mut replies = Vec::new();
        let outcome = self.change_state(&entry, right, &mut replies, clock, effects);
        let (index, term) = (entry.index(), entry.term());
        self.applied = index;
        self.group.applied(index);
        self.promise.applied(index);
        let outcome = self.note_outcome(outcome, index, effects);
        let mine = self.in_flight.front().is_some_and(|f| f.index == index);
        let asker = if mine { self.in_flight.pop_front() } else { None };
        if self.in_flight.front().is_some_and(|oldest| oldest.term < term) {
            self.outlive(term, effects);
        }
        match asker {
            Some(lost) if lost.term != term => {
                self.refuse(lost.asker, NotDone::EntryReplaced, effects);
                report(outcome, None, effects);
            }
            Some(InFlight { asker: Asker::Batch { origin, waiters }, .. }) => {
                assert_eq!(waiters.len(), replies.len(), "one reply per command");
                // Nobody else holds the entry any more, so this takes its memory, not a copy.
                let spent = Spent { bytes: entry.into_data().into(), waiters };
                answer_applied(self.id, origin, spent, replies, effects);
            }
            Some(InFlight { asker: Asker::Operation { origin, waiter }, .. }) => {
                report(outcome, Some(Caller { origin, waiter }), effects);
            }
            Some(InFlight { asker: Asker::Steps(askers), .. }) => match outcome {
                Outcome::Steps(replies) => self.stepped(askers, replies, effects),
                _ => unreachable!("steps are answered as steps"),
            },
            Some(InFlight { asker, .. }) => self.reply_remote(asker, outcome, effects),
            None => report(outcome, None, effects),
        }
    }

    /// Changes what readers see, under the write guard.
    #[inline]
    fn change_state(
        &mut self,
        entry: &Entry,
        right: Option<ShardState>,
        replies: &mut Vec<command::Reply>,
        clock: &Clock,
        effects: &mut Effects,
    ) -> Outcome {
        let mut changed = self.observer();
        let mut state = self.state.write();
        // Who is no member any more has its place until then.
        let settled =
            (is_settle(entry) && self.group.is_leader()).then(|| state.descriptor.replicas.clone());
        let outcome = match right {
            None => state.apply_observed(entry, replies, &mut changed),
            Some(right) => {
                state.absorb(entry, right);
                Outcome::Merge
            }
        };
        if outcome == Outcome::Check {
            let leads = self.group.is_leader() && entry.term() == self.group.term();
            let digesting = self.checks.begin(self.replica, leads, &self.state, &mut state);
            effects.digests.extend(digesting);
        }
        if let Some(before) = settled {
            self.report_member_change(&before, &state.descriptor.replicas, effects);
        }
        if let Outcome::Members(step) = &outcome {
            let members = self.group.change(&step.change).clone();
            let before = state.descriptor.replicas.clone();
            state.change_members(step, members);
            if self.group.is_leader() {
                self.report_member_change(&before, &state.descriptor.replicas, effects);
            }
            if !state.members.all().contains(&self.replica) {
                self.group.step_down();
            }
        }
        let opens_term = entry.data().is_empty() && entry.term() == self.group.term();
        if opens_term && self.group.is_leader() {
            // SAFETY G2: above everything that the leaders before have promised.
            clock.observe(state.horizon.max(state.last));
            self.leading.opened_term = entry.term();
            let (shard, replica, term) = (self.id, self.replica, entry.term());
            effects.events.push(EventKind::LeaderElected { shard, replica, term });
            self.promise.lead();
            self.serving.raise_floor(clock.now());
        }
        if let (Some(log), Some(changed)) = (&mut self.change_log, &changed) {
            log.note(changed, &state);
        }
        drop(state);
        if let Some(changed) = changed.filter(|changed| !changed.is_empty()) {
            self.tell_changed(&changed, effects);
        }
        outcome
    }

    /// What an outcome means for the replica itself. What is left of it is for the asker.
    #[inline]
    fn note_outcome(&mut self, outcome: Outcome, index: u64, effects: &mut Effects) -> Outcome {
        if matches!(outcome, Outcome::Members(_) | Outcome::Settled) {
            self.published.is_stale = true;
            self.is_settled = self.state.read().roster.is_settled;
        }
        let is_reshaped = matches!(
            outcome,
            Outcome::Members(_) | Outcome::Settled | Outcome::Split(_) | Outcome::Merge
        );
        if is_reshaped && !self.tracked.is_empty() {
            // SAFETY G24: interests count for one generation.
            self.end_tracking(effects);
        }
        if matches!(outcome, Outcome::Catalogue(_)) {
            self.group.send_commit_index_to_all();
        }
        if matches!(outcome, Outcome::Steps(_) | Outcome::Split(_) | Outcome::Merge) {
            self.locks_changed(index);
        }
        match outcome {
            Outcome::Split(half) => {
                self.was_split(half, effects);
                Outcome::Quiet
            }
            Outcome::Merge => {
                self.merged();
                Outcome::Quiet
            }
            outcome => outcome,
        }
    }
}

impl Replica {
    /// Tells of replicas that have come or gone.
    #[inline(never)]
    fn report_member_change(
        &self,
        before: &[(ReplicaId, NodeId)],
        now: &[(ReplicaId, NodeId)],
        effects: &mut Effects,
    ) {
        let lacks = |all: &[(ReplicaId, NodeId)], others: &[(ReplicaId, NodeId)]| {
            all.iter().filter(|one| !others.contains(one)).copied().collect::<Vec<_>>()
        };
        let (shard, added, removed) = (self.id, lacks(now, before), lacks(before, now));
        if !added.is_empty() || !removed.is_empty() {
            effects.events.push(EventKind::ReplicasChanged { shard, added, removed });
        }
    }
}

/// Whether an entry is a step of a change of members, its end among them.
fn is_of_change(entry: &Entry) -> bool {
    entry.is_change() || is_settle(entry)
}

/// Whether an entry ends a change of members.
#[inline]
fn is_settle(entry: &Entry) -> bool {
    entry.data().first() == Some(&(Kind::Settle as u8))
}

/// A follower's clock goes above what it is sent, so that it may lead next (SAFETY G2).
fn observe(entry: &Entry, clock: &Clock) {
    if let Some((header, _)) = Header::decode(entry.data()) {
        clock.observe(header.timestamp);
    }
}

/// Bytes of entries after which the commit index is written down.
const MARK_BYTES: usize = 1 << 20;
