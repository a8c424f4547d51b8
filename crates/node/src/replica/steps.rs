//! Steps of transactions over several shards, at a shard's leader. The leader proposes the steps
//! that the wait queue ([`txn::wait_queue`]) releases, and answers them.
//!
//! ```text
//!   another node's RPC, or a forwarded step of this one ──► wait queue ──► entry of several steps
//!                                                          │ refused        │ applied
//!                                                          └────► answered ◄┘
//! ```
//!
//! Commands that meet locks wait apart before the leader proposes anything. Readers that met a lock
//! are released when one is resolved. Transactions that seem abandoned are reported to the driver
//! ([`txn::abandoned`]), which has a node finish them.

use std::collections::BTreeMap;

use bytes::Bytes;
use hlc::Clock;
use keyspace::NodeId;
use keyspace::codec::Reader;
use replication::BootNanos;
use txn::abandoned::{AbandonedLocks, Inspection};
use txn::locks::{Outcome, Role, Step, StepReply};
use txn::wait_queue::{
    self, AppliedState, HeldCommands, JudgeRound, JudgedAt, PrepareVerdict, QueuedStep, Sorted,
    StepAsker, WaitQueue,
};

use super::{Asker, InFlight, Queued, Replica};
use crate::executor::{Answer, Caller, Effects, Origin, RoundContext};
use crate::replica::entry::{ENTRY_BYTES_MAX, HEADER_BYTES, Kind, Waiter};
use crate::replica::state::ShardState;
use crate::routing::fetch::FetchRequest;
use crate::rpc::message::{RpcMessage, RpcRequestId};
use command::NotDone;

mod commands;

struct LockReader {
    /// The shard's count of released locks when the reader met one.
    released: u64,
    origin: Origin,
    waiter: Waiter,
    since: BootNanos,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Steps {
    pub queue: WaitQueue,
    /// Commands that wait for locks, and what came behind them.
    held: HeldCommands<Queued>,
    /// The highest number by which each node has asked for a step.
    newest: BTreeMap<NodeId, u64>,
    /// Whether there is a lock here, or a record to be seen to, as of what is applied.
    needs_inspection: bool,
    /// Whether any of this may hold something, or a forwarded step may be under way. A shard
    /// without transactions checks only this flag.
    needs_round: bool,
    /// Readers here that have met a lock.
    readers: Vec<LockReader>,
    abandoned: AbandonedLocks,
}

impl Steps {
    pub fn of(state: &ShardState) -> Self {
        let needs_inspection = state.locks.needs_inspection();
        Self { needs_inspection, needs_round: needs_inspection, ..Self::default() }
    }

    /// Whether something may wait here, or is to be inspected.
    #[inline]
    pub fn needs_round(&self) -> bool {
        self.needs_round
    }

    /// There may be something for it.
    pub fn wake(&mut self) {
        self.needs_round = true;
    }

    fn queues_are_empty(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }

    /// Reserves the keys of a read that wants that, from everyone.
    pub fn reserve_for(&mut self, want: &FetchRequest, now: BootNanos) {
        if let Some((keys, name)) = want.reserves_from_everyone()
            && !self.have_commands_waited_long(now)
        {
            self.queue.reserve(keys, name, now);
            self.needs_round = true;
        }
    }

    /// Keys may be reserved since it was looked at last.
    pub fn wake_if_reserved(&mut self) {
        self.needs_round |= self.queue.has_reservations();
    }

    /// Whether a command has waited so long that no key may be reserved before it is done.
    pub fn have_commands_waited_long(&self, now: BootNanos) -> bool {
        self.held.have_waited_long(now)
    }

    /// Bytes of what waits, and how many entries it may become.
    pub fn held_bytes(&self) -> (u64, u64) {
        if !self.needs_round {
            return (0, 0);
        }
        let held = self.held.iter().map(Queued::len_bytes);
        let all = self.queue.step_bytes().chain(held);
        all.fold((0, 0), |(sum, count), bytes| (sum + bytes, count + 1))
    }
}

/// An entry of steps that is being written.
struct NewEntry {
    bytes: Vec<u8>,
    askers: Vec<StepAsker>,
}

impl NewEntry {
    fn with_room(room: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + room);
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes, askers: Vec::new() }
    }
}

impl Replica {
    /// Whether steps and lock waiters only wait for others. A shard with several replicas is
    /// ticked; a sole one must check by itself whether a lock stays too long.
    pub(super) fn steps_only_wait(&self) -> bool {
        let must_inspect = self.steps.needs_inspection && self.is_sole();
        self.steps.queues_are_empty()
            && self.steps.readers.is_empty()
            && self.outgoing.forwarded_steps.all_are_sent()
            && !must_inspect
    }

    /// Somebody here wants a step.
    pub(crate) fn forward_step(
        &mut self,
        step: Bytes,
        asker: Caller,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        self.steps.needs_round = true;
        self.outgoing.forwarded_steps.ask(step, asker, now, effects);
    }

    /// Another node wants a step.
    pub(super) fn handle_step(
        &mut self,
        from: NodeId,
        number: u64,
        step: Bytes,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        let read = read_step(&step).filter(|_| self.state.read().engine().is_some());
        let Some(read) = read.filter(|_| self.group.is_leader()) else {
            return self.reply_not_leader(from, RpcRequestId::Step { number }, effects);
        };
        let asker = StepAsker { from: Some(from), number };
        let newest = self.steps.newest.insert(from, number);
        if newest.is_none_or(|newest| number <= newest) {
            self.steps.newest.insert(from, newest.unwrap_or(0).max(number));
            // It asks again, maybe for what is here.
            if self.has_step_of(asker) {
                return;
            }
        }
        self.steps.queue.push(asker, step.clone(), &read, now);
        self.steps.needs_round = true;
    }

    /// Whether a step waits here, or is on its way through the log.
    fn has_step_of(&self, asker: StepAsker) -> bool {
        let has = |entry: &InFlight| match &entry.asker {
            Asker::Steps(askers) => askers.contains(&asker),
            _ => false,
        };
        self.steps.queue.has(asker) || self.in_flight.iter().any(has)
    }

    /// A reader has met a lock, when so many had gone.
    pub(crate) fn await_unlocked(
        &mut self,
        released: u64,
        Caller { origin, waiter }: Caller,
        now: BootNanos,
    ) {
        self.steps.readers.push(LockReader { released, origin, waiter, since: now });
        self.steps.needs_round = true;
    }

    /// In a turn: lets readers go that have met a lock, if one has gone since.
    fn release_lock_readers(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if self.steps.readers.is_empty() {
            return;
        }
        let released = self.state.read().locks.released();
        self.steps.readers.retain(|reader| {
            let LockReader { origin, waiter, .. } = *reader;
            if reader.released != released {
                effects.answers.push(Answer::Retry { origin, waiter });
                return false;
            }
            let is_late = reader.since.saturating_add(turn.lock_wait_max()) <= turn.now;
            if is_late {
                let (waiters, why) = (vec![waiter], NotDone::Locked);
                effects.answers.push(Answer::NotDone { origin, waiters, why });
            }
            !is_late
        });
    }

    /// The replica ends: readers look again.
    pub(super) fn release_all_lock_readers(&mut self, effects: &mut Effects) {
        for LockReader { origin, waiter, .. } in self.steps.readers.drain(..) {
            effects.answers.push(Answer::Retry { origin, waiter });
        }
    }

    /// In a turn: proposes the steps that may be.
    #[inline(never)]
    pub(super) fn propose_steps(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if self.leads() && !self.outgoing.forwarded_steps.is_empty() {
            let now = turn.now;
            for (number, step) in self.outgoing.forwarded_steps.due(None, now) {
                let asker = StepAsker { from: None, number };
                self.steps.queue.push(asker, step.clone(), &wait_queue::decoded(&step), now);
            }
        }
        if !self.steps.queue.is_empty() {
            self.propose_waiting_steps(turn, effects);
        }
    }

    fn propose_waiting_steps(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if !self.leads() || self.group.is_transferring() || self.is_halted() {
            return;
        }
        // What comes until those are applied goes together.
        if self.in_flight.iter().any(|entry| matches!(entry.asker, Asker::Steps(_))) {
            return;
        }
        let due = self.steps.queue.take_due(turn.now, !self.steps.held.is_empty());
        if due.is_empty() {
            return;
        }
        let state = self.state.clone();
        let state = state.read();
        let owns = |key: &[u8]| state.engine().is_some_and(|it| state.owns(&it.hasher().key(key)));
        let applied = AppliedState { locks: &state.locks, engine: state.engine(), owns: &owns };
        let moment = moment(turn);
        let passes_on = self.steps.readers.is_empty() && wait_queue::is_in_pass_on_phase(turn.now);
        let mut round =
            self.steps.queue.round(&due, &self.steps.held, (applied, moment), passes_on);
        let steps = || due.others.iter().chain(&due.prepares);
        let room = steps().map(|queued| queued.step.len()).sum::<usize>().min(ENTRY_BYTES_MAX);
        let mut entry = NewEntry::with_room(room);
        let mut proposed = effects.records.bytes();
        for queued in due.others.into_iter().chain(due.prepares) {
            if proposed >= turn.bytes_max {
                self.steps.queue.put_back(queued);
                continue;
            }
            let Some(queued) = self.judge_step(queued, &mut round, turn, effects) else { continue };
            proposed += queued.step.len() as u64;
            entry.bytes.extend_from_slice(&queued.step);
            entry.askers.push(queued.asker);
            if entry.bytes.len() >= ENTRY_BYTES_MAX {
                let full = std::mem::replace(&mut entry, NewEntry::with_room(0));
                self.propose_entry_of_steps(full, turn.now, turn.clock);
            }
        }
        if !entry.askers.is_empty() {
            self.propose_entry_of_steps(entry, turn.now, turn.clock);
        }
    }

    /// A step that goes now; else it waits, or is answered.
    fn judge_step(
        &mut self,
        queued: QueuedStep,
        round: &mut JudgeRound<'_>,
        turn: &RoundContext<'_>,
        effects: &mut Effects,
    ) -> Option<QueuedStep> {
        let step = queued.step.clone();
        match wait_queue::decoded(&step) {
            Step::Prepare(prepare) => {
                let index = self.group.last_index() + 1;
                let queue = &mut self.steps.queue;
                match queue.judge(&prepare, queued.since, round, index) {
                    PrepareVerdict::Propose => queue.release(&prepare),
                    PrepareVerdict::Wait => {
                        queue.wait(prepare.id, queued, round);
                        return None;
                    }
                    PrepareVerdict::Refuse(why) => {
                        queue.release(&prepare);
                        self.reply_step(queued.asker, StepReply::Refused(why), effects);
                        return None;
                    }
                }
                // The entry's time is above its locks.
                if let Role::Commits(after) = prepare.role {
                    turn.clock.observe(after);
                }
            }
            // The entry's time is above what it writes.
            Step::Decide { outcome: Outcome::Committed(at), .. }
            | Step::Resolve { outcome: Outcome::Committed(at), .. } => turn.clock.observe(at),
            _ => {}
        }
        Some(queued)
    }

    fn propose_entry_of_steps(&mut self, entry: NewEntry, now: BootNanos, clock: &Clock) {
        let NewEntry { mut bytes, askers } = entry;
        // Steps that keep waiting leave capacity unused, and the entry may be retained for long.
        if bytes.capacity() > 2 * bytes.len() {
            bytes.shrink_to_fit();
        }
        let index = self.group.last_index() + 1;
        let term = self.stamp(clock, index, Kind::Steps, askers.len() as u32, &mut bytes);
        let place = self.group.propose(bytes);
        assert!(
            place.is_ok_and(|place| place.index == index),
            "a leader's proposal takes the next index"
        );
        self.in_flight.push_back(InFlight { index, term, since: now, asker: Asker::Steps(askers) });
    }

    /// At the end of a turn: sees to who waits, and whether anything is left to be seen to.
    #[inline(never)]
    pub(super) fn end_steps(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        self.release_lock_readers(turn, effects);
        self.report_abandoned(turn, effects);
        let Steps { needs_inspection, queue, readers, .. } = &self.steps;
        let nothing_waits =
            self.steps.queues_are_empty() && !queue.can_block_commands() && readers.is_empty();
        self.steps.needs_round =
            *needs_inspection || !nothing_waits || !self.outgoing.forwarded_steps.is_empty();
    }

    /// In a turn: reports transactions whose locks have stayed too long, if it leads.
    fn report_abandoned(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if !self.steps.needs_inspection {
            return;
        }
        let term = if self.leads() { self.leading.opened_term } else { 0 };
        let at = Inspection { now: turn.now, term, losses: turn.losses };
        if self.steps.abandoned.is_due(at) {
            let state = self.state.read();
            let keyspace = state.descriptor.keyspace();
            effects.abandoned.extend(self.steps.abandoned.inspect(&state.locks, keyspace, at));
        }
    }

    /// In a turn, before anything is proposed: takes aside commands that meet locks.
    #[inline(never)]
    pub(super) fn look_at_locks(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        self.steps.queue.expire_reservations(turn.now);
        let Steps { needs_inspection, queue, held, .. } = &self.steps;
        let may_wait = *needs_inspection || queue.can_block_commands() || !held.is_empty();
        if self.leads() && may_wait {
            self.hold_locked(turn, effects);
        }
    }

    /// Takes aside what has to wait for locks, and what was sent behind it; and takes back what
    /// has not to wait any more, in its order.
    fn hold_locked(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        let (now, waits_for) = (turn.now, turn.lock_wait_max());
        let new = std::mem::take(&mut self.queue);
        let Steps { queue, held, .. } = &mut self.steps;
        let sorted = queue.sort_commands(held, new, &self.state.read().locks, now, waits_for);
        let Sorted { free, late } = sorted;
        self.queue = free;
        for queued in late {
            self.refuse(queued.into_asker(), NotDone::Locked, effects);
        }
    }

    /// Steps of an entry are applied, and this is what came of them.
    pub(super) fn stepped(
        &mut self,
        askers: Vec<StepAsker>,
        replies: Vec<StepReply>,
        effects: &mut Effects,
    ) {
        for (asker, reply) in askers.into_iter().zip(replies) {
            self.reply_step(asker, reply, effects);
        }
    }

    /// This much is applied: what its locks are is known.
    pub(super) fn locks_changed(&mut self, index: u64) {
        self.steps.needs_inspection = self.state.read().locks.needs_inspection();
        self.steps.needs_round |= self.steps.needs_inspection;
        self.steps.queue.applied(index);
    }

    fn reply_step(&mut self, asker: StepAsker, reply: StepReply, effects: &mut Effects) {
        self.steps.queue.ended(asker);
        let StepAsker { from, number } = asker;
        match from {
            Some(node) => {
                let shard = self.id;
                effects.rpcs.push((node, RpcMessage::StepReply { shard, number, reply }));
            }
            None => self.outgoing.forwarded_steps.handle_reply(number, reply, effects),
        }
    }

    /// Steps that were to be proposed here, or were and are lost, are asked for elsewhere.
    pub(super) fn redirect_steps(&mut self, askers: Vec<StepAsker>, effects: &mut Effects) {
        for asker in askers {
            self.steps.queue.ended(asker);
            let StepAsker { from, number } = asker;
            match from {
                Some(node) => self.reply_not_leader(node, RpcRequestId::Step { number }, effects),
                None => self.outgoing.forwarded_steps.handle_not_leader(number, 0),
            }
        }
    }

    /// It does not lead: gives back what waits for locks, in its order, and has steps asked for
    /// elsewhere.
    pub(super) fn give_up_steps(&mut self, effects: &mut Effects) {
        self.steps.queue.forget();
        self.release_all_lock_readers(effects);
        if self.steps.queues_are_empty() {
            return;
        }
        let askers = self.steps.queue.take_all().collect();
        self.redirect_steps(askers, effects);
        for queued in self.steps.held.take().rev() {
            self.queue.push_front(queued);
        }
    }

    /// The link to a node is lost. If it is alive, it asks again for what it has asked.
    pub(super) fn askers_lost(&mut self, node: NodeId) {
        self.steps.newest.remove(&node);
        self.steps.queue.link_lost(node);
    }
}

/// When steps are looked at, in a turn.
fn moment(turn: &RoundContext<'_>) -> JudgedAt {
    let (now, time) = (turn.now, turn.clock.now());
    JudgedAt { now, time, waits_for: turn.lock_wait_max() }
}

/// A step that comes from elsewhere, if these bytes are one.
fn read_step(bytes: &[u8]) -> Option<Step<'_>> {
    let mut reader = Reader::new(bytes);
    Step::decode(&mut reader).ok().filter(|_| reader.rest().is_empty())
}
