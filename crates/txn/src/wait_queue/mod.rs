//! Which steps of transactions may a shard's leader propose, and which wait for locks?
//!
//! ```text
//!   PREPARE ──► a watched key has changed ──► refused: it would be refused by the log as well
//!               it is asked for again, and was done, or never will be ──► entry
//!               a key is locked by another, or is about to be?
//!                 no ──────────────────────► entry   (several steps are one entry)
//!                 by a younger one, or an
//!                 earlier attempt of its own,
//!                 or it has locked nothing yet ► waits, before all younger ones
//!                 by an older one, or it
//!                 is guarded for one ──────► waits for YOUNGER_WAITS_NANOS, and is refused then:
//!                                            its coordinator aborts it, and tries again
//!   commands ───► a key is locked, or is about to be ──► wait, and behind them all that their
//!                 asker sends later; else as always ([`HeldCommands`])
//!   other steps ─────────────────────────────► entry
//! ```
//!
//! **Batching.** Steps that arrive while others are on their way through the log wait for these,
//! and become one entry then: an entry costs more than a step in it.
//!
//! **Passing locks on.** In an entry, steps that release locks come before steps that want them. So
//! an entry can pass a lock on to the next transaction. It does not while a reader waits here, nor
//! at all times, since readers at other replicas would find the key locked for ever
//! ([`is_in_pass_on_phase`]). A transaction that watches the key takes it over only if it has seen
//! the value written to it, as a read at the leader may have (`pending_writes`).
//!
//! **No deadlock.** Among transactions that hold locks only older ones wait for younger ones, but
//! for [`YOUNGER_WAITS_NANOS`]: so no circle of waits lasts longer. While the replica leads, all
//! writes and steps reach the log through this queue. So a command never meets a lock when it is
//! applied, unless the lock has come with a merged neighbour.
//!
//! **No starvation of commands.** A PREPARE that arrives for a key that commands wait for, or for
//! the arc that it lies in, lets them go first, for `COMMANDS_FIRST_NANOS` at most.
//!
//! **Reservations.** A transaction that has failed because others changed keys that it had read may
//! reserve keys (`reservations`). Commands and PREPAREs of younger transactions then wait for its
//! PREPARE.
//!
//! If the link to another node is lost, no PREPARE of that node waits any more: the node may be
//! dead. A leader that loses the lead loses all of this, which costs time only.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time that commands and PREPAREs wait | [`WAIT_NANOS`], or 3/5 of the request's timeout | busy, not done; refused |
//! | PREPAREs that wait for one shard | `WAITING_MAX` | refused |
//! | keys guarded for a PREPARE (`starvation_guard`) | from 20 ms of its wait on, while no lock that it waits for is 500 ms old | younger ones pass |
//! | reserved keys (`reservations`) | 100 ms; 4096 keys of 1 KiB at most | all pass |

mod commands;
mod pending_writes;
mod planned_locks;
mod reservations;
#[cfg(test)]
mod samples;
mod starvation_guard;
mod verdict;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use keyspace::codec::Reader;
use keyspace::{BootNanos, NodeId, Timestamp};

use crate::locks::{Locks, Prepare, Step, TxnId};

use commands::Blockers;
pub use commands::{Commands, HeldCommands, Sorted};
use pending_writes::PendingWrites;
pub use pending_writes::{KeysRead, ReserveFrom, ReservingRead};
use planned_locks::PlannedLocks;
use starvation_guard::StarvationGuard;
pub use verdict::{AppliedState, JudgeRound, JudgedAt, PrepareVerdict};

/// The longest time that a step or command waits for a lock.
pub const WAIT_NANOS: BootNanos = 3_000_000_000;
/// How long a younger transaction waits for an older one: mostly that is over by then.
pub const YOUNGER_WAITS_NANOS: BootNanos = 10_000_000;
/// How long at most a PREPARE lets commands go first, and how long leaders reserve keys for one
/// transaction after another while a command waits.
const COMMANDS_FIRST_NANOS: BootNanos = 50_000_000;
/// In how much of each period locks are passed on within an entry: (part, period).
const PASSES_ON: (BootNanos, BootNanos) = (12_000_000, 16_000_000);
/// How many PREPAREs may wait for locks of one shard.
const WAITING_MAX: usize = 4096;

/// Where the answer to a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepAsker {
    /// Another node, or this one.
    pub from: Option<NodeId>,
    /// The step's number at that node.
    pub number: u64,
}

/// A step that is to be proposed.
pub struct QueuedStep {
    /// Where its answer goes.
    pub asker: StepAsker,
    /// A [`Step`], encoded, which was looked at as it came.
    pub step: Bytes,
    /// When it came.
    pub since: BootNanos,
}

/// Steps that are to be judged.
pub struct DueSteps {
    /// PREPAREs that have waited, the oldest transaction first, then those that have arrived since.
    pub prepares: Vec<QueuedStep>,
    /// All others, which go before them.
    pub others: Vec<QueuedStep>,
}

impl DueSteps {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.prepares.is_empty() && self.others.is_empty()
    }
}

/// See the front page.
#[derive(Default)]
pub struct WaitQueue {
    /// Steps to be looked at.
    arrived: VecDeque<QueuedStep>,
    /// PREPAREs that wait for locks, the oldest first.
    waiting: BTreeMap<TxnId, QueuedStep>,
    /// Whether locks were taken or released since they were judged.
    has_changed: bool,
    /// When they are judged again even if none was.
    look_at: BootNanos,
    /// Keys guarded for PREPAREs that want several.
    guard: StarvationGuard,
    planned: PlannedLocks,
    pending: PendingWrites,
}

/// Whether an entry that releases a lock may give it to the next transaction: three quarters of
/// the time, so that readers at other replicas find the key unlocked now and then (decision 0036).
pub fn is_in_pass_on_phase(now: BootNanos) -> bool {
    now % PASSES_ON.1 < PASSES_ON.0
}

/// A step that was looked at as it came.
pub fn decoded(bytes: &[u8]) -> Step<'_> {
    Step::decode(&mut Reader::new(bytes)).expect("the step was decoded as it arrived")
}

impl WaitQueue {
    /// Whether no step waits here.
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.waiting.is_empty()
    }

    /// Whether a step or a reservation here can make a command wait.
    pub fn can_block_commands(&self) -> bool {
        !self.planned.is_empty() || self.has_reservations()
    }

    /// Adds a step that has arrived, with its bytes.
    pub fn push(&mut self, asker: StepAsker, bytes: Bytes, step: &Step<'_>, now: BootNanos) {
        self.pending.begin(asker, step);
        self.arrived.push_back(QueuedStep { asker, step: bytes, since: now });
    }

    /// Whether a step waits here.
    pub fn has(&self, asker: StepAsker) -> bool {
        self.arrived.iter().chain(self.waiting.values()).any(|queued| queued.asker == asker)
    }

    /// Takes the steps to be judged: all that have arrived; and those that wait, if something has
    /// changed since they were judged.
    pub fn take_due(&mut self, now: BootNanos, do_commands_wait: bool) -> DueSteps {
        let has_changed = std::mem::take(&mut self.has_changed);
        let arrived = std::mem::take(&mut self.arrived).into_iter();
        let all: Vec<_> = match has_changed || do_commands_wait || self.look_at <= now {
            true => {
                self.look_at = BootNanos::MAX;
                self.guard = StarvationGuard::default();
                std::mem::take(&mut self.waiting).into_values().chain(arrived).collect()
            }
            false => arrived.collect(),
        };
        let is_prepare = |queued: &QueuedStep| Step::is_prepare(&queued.step);
        let (prepares, others) = all.into_iter().partition(is_prepare);
        DueSteps { prepares, others }
    }

    /// Prepares a round that judges these PREPAREs; it may pass on the locks that the other steps
    /// release.
    pub fn round<'s>(
        &self,
        due: &DueSteps,
        held: &HeldCommands<impl Commands>,
        (shard, moment): (AppliedState<'s>, JudgedAt),
        may_pass_on: bool,
    ) -> JudgeRound<'s> {
        let releasing = if may_pass_on { &due.others[..] } else { &[] };
        JudgeRound::new(shard, moment, releasing, held, &self.pending.reservations)
    }

    /// Returns a due step to the queue for a later round.
    pub fn put_back(&mut self, queued: QueuedStep) {
        self.arrived.push_back(queued);
    }

    /// Lets a PREPARE wait, as [`judge`](Self::judge) has decided.
    pub fn wait(&mut self, id: TxnId, queued: QueuedStep, round: &JudgeRound<'_>) {
        let JudgedAt { now, waits_for, .. } = round.moment;
        let ends = [YOUNGER_WAITS_NANOS, COMMANDS_FIRST_NANOS, waits_for]
            .into_iter()
            .chain(starvation_guard::BOUNDS);
        let ends = ends.map(|nanos| queued.since.saturating_add(nanos));
        let next = ends.filter(|end| *end > now).min();
        self.look_at = self.look_at.min(next.unwrap_or(now));
        let asker = queued.asker;
        // Who has asked for the same by another number asks again.
        if let Some(other) = self.waiting.insert(id, queued).filter(|other| other.asker != asker) {
            self.pending.end(other.asker);
        }
    }

    /// Releases the reservations of a PREPARE that is proposed or refused.
    pub fn release(&mut self, prepare: &Prepare<'_>) {
        if prepare.reserved_as.is_some() {
            self.pending.reservations.release(prepare);
            self.has_changed = true;
        }
    }

    /// Forgets a step that is done, or that its asker sends elsewhere.
    pub fn ended(&mut self, asker: StepAsker) {
        self.pending.end(asker);
    }

    /// The replica has applied all entries up to this index: their locks are in the lock table.
    pub fn applied(&mut self, index: u64) {
        self.has_changed = true;
        self.planned.applied(index);
    }

    /// Forgets planned, pending and reserved keys: the replica has lost the lead.
    pub fn forget(&mut self) {
        self.planned.clear();
        self.pending.clear();
    }

    /// Takes all steps that wait here, in their order.
    pub fn take_all(&mut self) -> impl Iterator<Item = StepAsker> + use<> {
        self.guard = StarvationGuard::default();
        let waiting = std::mem::take(&mut self.waiting).into_values();
        waiting.chain(std::mem::take(&mut self.arrived)).map(|queued| queued.asker)
    }

    /// Handles the loss of the link to a node. If that node is alive, it sends its steps again.
    pub fn link_lost(&mut self, node: NodeId) {
        let Self { arrived, waiting, pending, has_changed, .. } = self;
        *has_changed = true;
        // What was asked to give up locks, or to finish others' transactions, is as good as ever.
        let mut is_over = |queued: &QueuedStep| {
            let is_over = queued.asker.from == Some(node) && Step::is_prepare(&queued.step);
            if is_over {
                pending.end(queued.asker);
            }
            is_over
        };
        arrived.retain(|queued| !is_over(queued));
        waiting.retain(|_, queued| !is_over(queued));
    }

    /// The length in bytes of each step that waits here.
    pub fn step_bytes(&self) -> impl Iterator<Item = u64> {
        let all = self.arrived.iter().chain(self.waiting.values());
        all.map(|queued| queued.step.len() as u64)
    }

    /// Reserves keys from everyone, for a transaction of this name.
    pub fn reserve(&mut self, keys: &[Box<[u8]>], name: Timestamp, now: BootNanos) {
        self.pending.reservations.reserve(keys, name, now);
    }

    /// Whether keys are reserved from everyone.
    pub fn has_reservations(&self) -> bool {
        !self.pending.reservations.is_empty()
    }

    /// Forgets reservations whose time is over.
    pub fn expire_reservations(&mut self, now: BootNanos) {
        self.has_changed |= self.pending.reservations.expire(now);
    }

    /// Whether a read that came at `since` waits for transactions that came before it.
    pub fn stops_read(&self, read: KeysRead<'_>, since: BootNanos, now: BootNanos) -> bool {
        self.pending.stops(read, &self.planned, since, now)
    }

    /// Makes the reservations of a read that is answered now; from everyone only if allowed.
    pub fn answered(&mut self, read: KeysRead<'_>, may_reserve_from_all: bool, now: BootNanos) {
        self.pending.answered(read, may_reserve_from_all, now);
    }

    /// A transaction's commit time, if a step that states it has arrived.
    pub fn committed(&self, id: TxnId) -> Option<Timestamp> {
        self.pending.committed(id)
    }

    /// Holds commands that have to wait for locks, or for reserved keys.
    pub fn sort_commands<C: Commands>(
        &self,
        held: &mut HeldCommands<C>,
        new: VecDeque<C>,
        locks: &Locks,
        now: BootNanos,
        waits_for: BootNanos,
    ) -> Sorted<C> {
        let in_the_way = Blockers { locks, planned: &self.planned, pending: &self.pending };
        held.sort(new, &in_the_way, now, waits_for)
    }
}
