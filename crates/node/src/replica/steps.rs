//! Steps of transactions over several shards, at a shard's leader; and who waits for locks.
//!
//! ```text
//!   PREPARE ──► a watched key has changed ──► refused: it would be refused by the log as well
//!               it is asked for again, and was done, or never will be ──► entry
//!               a key is locked by another, or is about to be?
//!                 no ──────────────────────► entry   (several steps are one entry)
//!                 by a younger one, or an
//!                 earlier attempt of its own,
//!                 or it has locked nothing yet ► waits, before all who are younger
//!                 by an older one, or it
//!                 is withheld for one ─────► waits for YOUNG_NANOS, and is refused then: its
//!                                            coordinator aborts it, and tries again ([`withheld`])
//!   commands ───► a key is locked, or is about to be ──► wait, and behind them all that their
//!                 asker sends later; else as always
//!   other steps ─────────────────────────────► entry
//! ```
//!
//! Steps that come while others are on their way through the log wait for these, and go together
//! then: an entry costs more than a step in it. What gives up locks stands before what wants them,
//! so a lock is passed on within an entry to who waits for it; but not while a reader waits here,
//! nor always, for readers at other replicas would find it locked for ever ([`PASSES_ON`]). Who
//! watches the key takes it over only if he has seen what is written to it then, as whoever asks
//! the leader for values may ([`sought`]).
//!
//! But for [`YOUNG_NANOS`], of those who hold locks only older transactions wait for younger ones:
//! so nobody waits in a circle for longer. What is proposed here is all that can come into the log
//! while this replica leads, so a command never meets a lock when it is applied, unless the lock
//! has come with a neighbour that was taken in. So that commands are not passed for ever, a PREPARE
//! that comes for a key which they wait for lets them go first, for [`FAIR_NANOS`] at most.
//!
//! Who was in vain before, since others had changed what he had read, may have keys *kept* for him
//! ([`kept`]): with these commands, and PREPAREs of younger transactions, wait for his.
//!
//! Locks that stay are told to the driver ([`stuck`]). If the link to another node is lost, which
//! may have died, no PREPARE of that node stands in line any more.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time that commands and PREPAREs wait | [`WAIT_NANOS`], or 3/5 of the node's patience | busy, not done; refused |
//! | PREPAREs that wait for one shard | [`WAITING_MAX`] | refused |
//! | what is withheld for who waits ([`withheld`]) | from 20 ms of its wait on, while no lock that it waits for is 500 ms old | younger ones pass |
//! | what is kept for who was in vain ([`kept`]) | 100 ms; 4096 keys of 1 KiB at most | all pass |

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use hlc::Clock;
use keyspace::NodeId;
use keyspace::codec::Reader;
use replication::BootNanos;

use super::{Asker, InFlight, Queued, Shard};
use crate::executor::{Answer, Caller, Effects, NotDone, Origin, Turn};
use crate::locks::{Outcome, Prepare, Said, Step, TxnId};
use crate::replica::entry::{ENTRY_BYTES_MAX, HEADER_BYTES, Kind, Waiter};
use crate::replica::state::ShardState;
use crate::routing::fetch::Want;
use crate::rpc::request::{Asked, Letter};

mod held;
mod judge;
mod kept;
mod sought;
mod stuck;
#[cfg(test)]
mod tests;
mod withheld;

use judge::{Going, Scene, Verdict, going};
use sought::Sought;
use stuck::Lookout;
pub use stuck::{STUCK_NANOS, Stuck};
use withheld::Withheld;

/// For no longer than that anyone waits for a lock.
pub const WAIT_NANOS: u64 = 3_000_000_000;
/// For so long a younger transaction waits for an older one: mostly that has gone by then.
pub const YOUNG_NANOS: u64 = 10_000_000;
/// For no longer than that PREPARE lets commands go first, or keys are kept for one after another.
const FAIR_NANOS: u64 = 50_000_000;
/// For how long of how long locks are passed on within an entry.
const PASSES_ON: (u64, u64) = (12_000_000, 16_000_000);
/// PREPAREs that wait for locks of one shard.
const WAITING_MAX: usize = 4096;

/// Who is told what is said to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepAsker {
    /// Another node, or this one.
    pub from: Option<NodeId>,
    pub number: u64,
}

struct QueuedStep {
    asker: StepAsker,
    step: Bytes,
    since: BootNanos,
}

/// The first key of a range, and the first behind it.
type OwnedRange = (Box<[u8]>, Option<Box<[u8]>>);

/// Keys that are about to be locked: by which entry, and for whom.
pub(super) type Coming = BTreeMap<Box<[u8]>, (u64, TxnId)>;

struct LockReader {
    /// How many locks had gone when it was met.
    released: u64,
    origin: Origin,
    waiter: Waiter,
    since: BootNanos,
}

/// See the front page.
#[derive(Default)]
pub(super) struct Steps {
    /// To be proposed.
    queue: VecDeque<QueuedStep>,
    /// PREPAREs that wait for locks, the oldest first.
    waiting: BTreeMap<TxnId, QueuedStep>,
    /// Whether locks have come or gone since they were looked at.
    has_changed: bool,
    /// When they are looked at again even if none has.
    look_at: BootNanos,
    /// What those of them who want several keys keep younger ones from.
    withheld: Withheld,
    /// Commands that do, and what came behind them.
    held: VecDeque<(BootNanos, Queued)>,
    /// Keys that entries which are not applied yet will lock, each with the entry's index.
    pub coming: Coming,
    /// The same of ranges.
    coming_ranges: Vec<(OwnedRange, u64, TxnId)>,
    /// Keys that are about to change.
    pub sought: Sought,
    /// The highest number by which each node has asked for a step.
    newest: BTreeMap<NodeId, u64>,
    /// Whether there is a lock here, or a record to be seen to, as of what is applied.
    is_busy: bool,
    /// Whether any of this may have something in it, or an errand may be under way: what a shard
    /// that no transaction is about looks at, and nothing else.
    is_awake: bool,
    /// Readers here that have met a lock.
    readers: Vec<LockReader>,
    lookout: Lookout,
}

impl Steps {
    pub fn of(state: &ShardState) -> Self {
        let is_busy = !state.locks.is_quiet();
        Self { is_busy, is_awake: is_busy, ..Self::default() }
    }

    /// Whether nothing waits here, and nothing is to be seen to.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.is_awake
    }

    /// There may be something for it.
    pub fn wake(&mut self) {
        self.is_awake = true;
    }

    fn is_calm(&self) -> bool {
        self.queue.is_empty() && self.waiting.is_empty() && self.held.is_empty()
    }

    /// Whether those who wait may have to wait no more; if so, that is not so again until
    /// something changes.
    fn are_to_be_looked_at(&mut self, now: BootNanos) -> bool {
        let has_changed = std::mem::take(&mut self.has_changed);
        has_changed || !self.held.is_empty() || self.look_at <= now
    }

    /// Somebody wants keys to be kept for him.
    pub fn keep_for(&mut self, want: &Want, now: BootNanos) {
        if let Some((keys, name)) = want.kept()
            && !self.has_held_for_long(now)
        {
            self.sought.kept.keep(keys, name, now);
            self.is_awake = true;
        }
    }

    /// Something may be kept since it was looked at last.
    pub fn wake_if_kept(&mut self) {
        self.is_awake |= !self.sought.kept.is_empty();
    }

    /// Whether a command has waited for so long that nothing more is kept before it is done: many
    /// who follow each other would never let it go.
    pub fn has_held_for_long(&self, now: BootNanos) -> bool {
        self.held.front().is_some_and(|(since, _)| since.saturating_add(FAIR_NANOS) <= now)
    }

    /// Nothing is kept for a PREPARE any more.
    fn give_up_for(&mut self, prepare: &Prepare<'_>) {
        if prepare.kept_as.is_some() {
            self.sought.kept.release(prepare);
            self.has_changed = true;
        }
    }

    /// A PREPARE waits.
    fn wait(&mut self, id: TxnId, queued: QueuedStep, turn: &Turn<'_>) {
        let now = turn.now;
        let ends = [YOUNG_NANOS, FAIR_NANOS, turn.waits_for_locks()].into_iter();
        let ends = ends.chain(withheld::BOUNDS).map(|nanos| queued.since.saturating_add(nanos));
        let next = ends.filter(|end| *end > now).min();
        self.look_at = self.look_at.min(next.unwrap_or(now));
        let asker = queued.asker;
        // Who has asked for the same by another number asks again.
        if let Some(other) = self.waiting.insert(id, queued).filter(|other| other.asker != asker) {
            self.sought.end(other.asker);
        }
    }

    /// Bytes of what waits, and how many entries it may become.
    pub fn held_bytes(&self) -> (u64, u64) {
        if self.is_idle() {
            return (0, 0);
        }
        let steps = self.queue.iter().chain(self.waiting.values());
        let steps = steps.map(|queued| queued.step.len() as u64);
        let held = self.held.iter().map(|(_, queued)| queued.len_bytes());
        steps.chain(held).fold((0, 0), |(sum, count), bytes| (sum + bytes, count + 1))
    }
}

impl Shard {
    /// Whether steps, and who waits for locks, only wait for others. Time passes for who has
    /// replicas elsewhere; alone, it looks whenever it can whether a lock stays too long.
    pub(super) fn steps_rest(&self) -> bool {
        let looks = self.steps.is_busy && self.is_sole();
        self.steps.is_calm()
            && self.steps.readers.is_empty()
            && self.outgoing.errands.rests()
            && !looks
    }

    /// Somebody here wants a step.
    pub(crate) fn errand(
        &mut self,
        step: Bytes,
        asker: Caller,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        self.steps.is_awake = true;
        self.outgoing.errands.ask(step, asker, now, effects);
    }

    /// Another node wants a step.
    pub(super) fn asked_to_step(
        &mut self,
        from: NodeId,
        number: u64,
        step: Bytes,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        let read = read_step(&step).filter(|_| self.state.read().keys().is_some());
        let Some(read) = read.filter(|_| self.group.is_leader()) else {
            return self.not_led(from, Asked::Step { number }, effects);
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
        self.steps.sought.begin(asker, &read);
        drop(read);
        self.steps.queue.push_back(QueuedStep { asker, step, since: now });
        self.steps.is_awake = true;
    }

    /// Whether a step waits here, or is on its way through the log.
    fn has_step_of(&self, asker: StepAsker) -> bool {
        let mut waits = self.steps.queue.iter().chain(self.steps.waiting.values());
        let has = |entry: &InFlight| match &entry.asker {
            Asker::Steps(askers) => askers.contains(&asker),
            _ => false,
        };
        waits.any(|queued| queued.asker == asker) || self.in_flight.iter().any(has)
    }

    /// A reader has met a lock, when so many had gone.
    pub(crate) fn await_unlocked(
        &mut self,
        released: u64,
        Caller { origin, waiter }: Caller,
        now: BootNanos,
    ) {
        self.steps.readers.push(LockReader { released, origin, waiter, since: now });
        self.steps.is_awake = true;
    }

    /// In a turn: lets readers go that have met a lock, if one has gone since.
    fn let_lock_readers_go(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        if self.steps.readers.is_empty() {
            return;
        }
        let released = self.state.read().locks.released();
        self.steps.readers.retain(|reader| {
            let LockReader { origin, waiter, .. } = *reader;
            if reader.released != released {
                effects.answers.push(Answer::Go { origin, waiter });
                return false;
            }
            let is_late = reader.since.saturating_add(turn.waits_for_locks()) <= turn.now;
            if is_late {
                let (waiters, why) = (vec![waiter], NotDone::Locked);
                effects.answers.push(Answer::NotDone { origin, waiters, why });
            }
            !is_late
        });
    }

    /// The replica ends: readers look again.
    pub(super) fn let_all_lock_readers_go(&mut self, effects: &mut Effects) {
        for LockReader { origin, waiter, .. } in self.steps.readers.drain(..) {
            effects.answers.push(Answer::Go { origin, waiter });
        }
    }

    /// In a turn: proposes the steps that may be.
    #[inline(never)]
    pub(super) fn propose_steps(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        if self.leads() && !self.outgoing.errands.is_idle() {
            let now = turn.now;
            for (number, step) in self.outgoing.errands.due(None, now) {
                let asker = StepAsker { from: None, number };
                self.steps.sought.begin(asker, &decoded(&step));
                self.steps.queue.push_back(QueuedStep { asker, step, since: now });
            }
        }
        if self.steps.queue.is_empty() && self.steps.waiting.is_empty() {
            return;
        }
        self.propose_waiting_steps(turn, effects);
    }

    fn propose_waiting_steps(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        if !self.leads() || self.group.is_transferring() || self.stands_still() {
            return;
        }
        // What comes until those are applied goes together.
        if self.in_flight.iter().any(|entry| matches!(entry.asker, Asker::Steps(_))) {
            return;
        }
        let state = self.state.clone();
        let state = state.read();
        // The oldest first, then what has come since.
        let queue: Vec<_> = match self.steps.are_to_be_looked_at(turn.now) {
            true => {
                self.steps.look_at = BootNanos::MAX;
                self.steps.withheld = Withheld::default();
                let waiting = std::mem::take(&mut self.steps.waiting).into_values();
                waiting.chain(std::mem::take(&mut self.steps.queue)).collect()
            }
            false => std::mem::take(&mut self.steps.queue).into(),
        };
        if queue.is_empty() {
            return;
        }
        let is_prepare = |queued: &QueuedStep| Step::is_prepare(&queued.step);
        let (prepares, others): (Vec<_>, Vec<_>) = queue.into_iter().partition(is_prepare);
        let going = match self.steps.readers.is_empty() && turn.now % PASSES_ON.1 < PASSES_ON.0 {
            true => going(&state.locks, &others),
            false => Going::new(),
        };
        let steps = others.iter().chain(&prepares).map(|queued| queued.step.len());
        let room = HEADER_BYTES + steps.sum::<usize>().min(ENTRY_BYTES_MAX);
        let (mut bytes, mut askers) = (Vec::with_capacity(room), Vec::new());
        bytes.resize(HEADER_BYTES, 0);
        let mut proposed = effects.records.bytes();
        let mut scene = Scene::of(&self.steps, &state, going);
        for queued in others.into_iter().chain(prepares) {
            if proposed >= turn.bytes_max {
                self.steps.queue.push_back(queued);
                continue;
            }
            let bytes_here = queued.step.clone();
            let step = decoded(&bytes_here);
            if let Step::Prepare(prepare) = &step {
                match self.judge_prepare(prepare, queued.since, &mut scene, turn) {
                    Verdict::Goes => self.steps.give_up_for(prepare),
                    Verdict::Waits => {
                        self.steps.wait(prepare.id, queued, turn);
                        continue;
                    }
                    Verdict::Refused(why) => {
                        self.steps.give_up_for(prepare);
                        self.tell_step(queued.asker, Said::Refused(why), effects);
                        continue;
                    }
                }
            }
            if let Step::Decide { outcome: Outcome::Committed(at), .. }
            | Step::Resolve { outcome: Outcome::Committed(at), .. } = &step
            {
                // The entry's time is above what it writes.
                turn.clock.observe(*at);
            }
            proposed += queued.step.len() as u64;
            bytes.extend_from_slice(&queued.step);
            askers.push(queued.asker);
            if bytes.len() >= ENTRY_BYTES_MAX {
                let full = std::mem::replace(&mut bytes, vec![0; HEADER_BYTES]);
                self.propose_entry_of_steps(
                    full,
                    std::mem::take(&mut askers),
                    turn.now,
                    turn.clock,
                );
            }
        }
        if !askers.is_empty() {
            self.propose_entry_of_steps(bytes, askers, turn.now, turn.clock);
        }
    }

    fn propose_entry_of_steps(
        &mut self,
        mut bytes: Vec<u8>,
        askers: Vec<StepAsker>,
        now: BootNanos,
        clock: &Clock,
    ) {
        // Those that wait on have left their room, and the entry may be kept for long.
        if bytes.capacity() > 2 * bytes.len() {
            bytes.shrink_to_fit();
        }
        let index = self.group.last_index() + 1;
        let term = self.stamp(clock, index, Kind::Steps, askers.len() as u32, &mut bytes);
        let place = self.group.propose(bytes);
        assert!(place.is_ok_and(|place| place.index == index), "it leads");
        self.in_flight.push_back(InFlight { index, term, since: now, asker: Asker::Steps(askers) });
    }

    /// At the end of a turn: sees to who waits, and whether anything is left to be seen to.
    #[inline(never)]
    pub(super) fn end_steps(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        self.let_lock_readers_go(turn, effects);
        self.look_for_stuck(turn, effects);
        let Steps { is_busy, coming, readers, .. } = &self.steps;
        let is_kept = !self.steps.sought.kept.is_empty();
        let is_calm = self.steps.is_calm() && coming.is_empty() && readers.is_empty() && !is_kept;
        self.steps.is_awake = *is_busy || !is_calm || !self.outgoing.errands.is_idle();
    }

    /// Steps of an entry are applied, and this is what came of them.
    pub(super) fn stepped(
        &mut self,
        askers: Vec<StepAsker>,
        said: Vec<Said>,
        effects: &mut Effects,
    ) {
        for (asker, said) in askers.into_iter().zip(said) {
            self.tell_step(asker, said, effects);
        }
    }

    /// This much is applied: what its locks are is known.
    pub(super) fn locks_changed(&mut self, index: u64) {
        self.steps.is_busy = !self.state.read().locks.is_quiet();
        self.steps.is_awake |= self.steps.is_busy;
        self.steps.has_changed = true;
        self.steps.coming.retain(|_, (at, _)| *at > index);
        self.steps.coming_ranges.retain(|(_, at, _)| *at > index);
    }

    fn tell_step(&mut self, asker: StepAsker, said: Said, effects: &mut Effects) {
        self.steps.sought.end(asker);
        let StepAsker { from, number } = asker;
        match from {
            Some(node) => {
                let shard = self.id;
                effects.letters.push((node, Letter::Stepped { shard, number, said }));
            }
            None => self.outgoing.errands.said(number, said, effects),
        }
    }

    /// Steps that were to be proposed here, or were and are lost, are asked for elsewhere.
    pub(super) fn send_steps_elsewhere(&mut self, askers: Vec<StepAsker>, effects: &mut Effects) {
        for asker in askers {
            self.steps.sought.end(asker);
            let StepAsker { from, number } = asker;
            match from {
                Some(node) => self.not_led(node, Asked::Step { number }, effects),
                None => self.outgoing.errands.misled(number, 0),
            }
        }
    }

    /// It does not lead: gives back what waits for locks, in its order, and has steps asked for
    /// elsewhere.
    pub(super) fn give_up_steps(&mut self, effects: &mut Effects) {
        self.steps.coming.clear();
        self.steps.coming_ranges.clear();
        self.steps.sought.clear();
        self.let_all_lock_readers_go(effects);
        if self.steps.is_calm() {
            return;
        }
        let queue = std::mem::take(&mut self.steps.queue).into_iter();
        let waiting = std::mem::take(&mut self.steps.waiting).into_values();
        self.steps.withheld = Withheld::default();
        let askers = waiting.chain(queue).map(|queued| queued.asker).collect();
        self.send_steps_elsewhere(askers, effects);
        for (_, queued) in std::mem::take(&mut self.steps.held).into_iter().rev() {
            self.queue.push_front(queued);
        }
    }

    /// The link to a node is lost. If it is alive, it asks again for what it has asked.
    pub(super) fn askers_lost(&mut self, node: NodeId) {
        let Steps { queue, waiting, sought, has_changed, newest, .. } = &mut self.steps;
        (*has_changed, _) = (true, newest.remove(&node));
        // What was asked to give up locks, or to finish others' transactions, is as good as ever.
        let mut is_over = |queued: &QueuedStep| {
            let is_over = queued.asker.from == Some(node) && Step::is_prepare(&queued.step);
            if is_over {
                sought.end(queued.asker);
            }
            is_over
        };
        queue.retain(|queued| !is_over(queued));
        waiting.retain(|_, queued| !is_over(queued));
    }
}

fn holds((low, high): &OwnedRange, key: &[u8]) -> bool {
    **low <= *key && high.as_ref().is_none_or(|high| *key < **high)
}

/// A step that was looked at as it came.
fn decoded(bytes: &[u8]) -> Step<'_> {
    Step::decode(&mut Reader::new(bytes)).expect("it was looked at")
}

/// A step that comes from elsewhere, if these bytes are one.
fn read_step(bytes: &[u8]) -> Option<Step<'_>> {
    let mut reader = Reader::new(bytes);
    Step::decode(&mut reader).ok().filter(|_| reader.rest().is_empty())
}
