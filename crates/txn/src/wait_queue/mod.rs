//! Which steps of transactions may a shard's leader propose, and who waits for locks?
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
//!                 is guarded for one ──────► waits for YOUNG_NANOS, and is refused then: its
//!                                            coordinator aborts it, and tries again
//!   commands ───► a key is locked, or is about to be ──► wait, and behind them all that their
//!                 asker sends later; else as always ([`HeldCommands`])
//!   other steps ─────────────────────────────► entry
//! ```
//!
//! Steps that come while others are on their way through the log wait for these, and go together
//! then: an entry costs more than a step in it. What gives up locks stands before what wants them,
//! so a lock is passed on within an entry to who waits for it; but not while a reader waits here,
//! nor always, for readers at other replicas would find it locked for ever ([`passes_on`]). Who
//! watches the key takes it over only if he has seen what is written to it then, as whoever asks
//! the leader for values may (`pending_writes`).
//!
//! But for [`YOUNGER_WAITS_NANOS`], of those who hold locks only older transactions wait for
//! younger ones: so nobody waits in a circle for longer. What is proposed by this queue is all that
//! can come into the log while the replica leads, so a command never meets a lock when it is
//! applied, unless the lock has come with a neighbour that was taken in. So that commands are not
//! passed for ever, a PREPARE that comes for a key which they wait for lets them go first, for
//! `COMMANDS_FIRST_NANOS` at most.
//!
//! A transaction that has failed before, since others had changed what it had read, may reserve
//! keys (`reservations`): commands and PREPAREs of younger transactions wait for its PREPARE.
//!
//! If the link to another node is lost, which may have died, no PREPARE of that node waits any
//! more. All of this is lost with the lead, and costs time then.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time that commands and PREPAREs wait | [`WAIT_NANOS`], or 3/5 of the request's timeout | busy, not done; refused |
//! | PREPAREs that wait for one shard | `WAITING_MAX` | refused |
//! | what is guarded for who waits (`starvation_guard`) | from 20 ms of its wait on, while no lock that it waits for is 500 ms old | younger ones pass |
//! | what is reserved (`reservations`) | 100 ms; 4096 keys of 1 KiB at most | all pass |

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

/// For no longer than that anyone waits for a lock.
pub const WAIT_NANOS: BootNanos = 3_000_000_000;
/// For so long a younger transaction waits for an older one: mostly that has gone by then.
pub const YOUNGER_WAITS_NANOS: BootNanos = 10_000_000;
/// For no longer than that PREPARE lets commands go first, or keys are reserved for one transaction
/// after another.
const COMMANDS_FIRST_NANOS: BootNanos = 50_000_000;
/// For how long of how long locks are passed on within an entry.
const PASSES_ON: (BootNanos, BootNanos) = (12_000_000, 16_000_000);
/// PREPAREs that wait for locks of one shard.
const WAITING_MAX: usize = 4096;

/// Who is answered when a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepAsker {
    /// Another node, or this one.
    pub from: Option<NodeId>,
    /// What it calls the step.
    pub number: u64,
}

/// A step that is to be proposed.
pub struct QueuedStep {
    /// Who is answered.
    pub asker: StepAsker,
    /// A [`Step`], encoded, which was looked at as it came.
    pub step: Bytes,
    /// When it came.
    pub since: BootNanos,
}

/// Steps that are to be looked at.
pub struct DueSteps {
    /// PREPAREs, the oldest transaction first, then what has come since.
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
    /// Whether locks have come or gone since they were looked at.
    has_changed: bool,
    /// When they are looked at again even if none has.
    look_at: BootNanos,
    /// What those of them who want several keys keep younger ones from.
    guard: StarvationGuard,
    planned: PlannedLocks,
    pending: PendingWrites,
}

/// Whether locks are passed on within an entry, at this time.
pub fn passes_on(now: BootNanos) -> bool {
    now % PASSES_ON.1 < PASSES_ON.0
}

/// A step that was looked at as it came.
pub fn decoded(bytes: &[u8]) -> Step<'_> {
    Step::decode(&mut Reader::new(bytes)).expect("it was looked at")
}

impl WaitQueue {
    /// Whether no step waits here.
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.waiting.is_empty()
    }

    /// Whether nothing that is here can stop a command.
    pub fn stops_nothing(&self) -> bool {
        self.planned.is_empty() && !self.has_reservations()
    }

    /// A step has come, of these bytes.
    pub fn push(&mut self, asker: StepAsker, bytes: Bytes, step: &Step<'_>, now: BootNanos) {
        self.pending.begin(asker, step);
        self.arrived.push_back(QueuedStep { asker, step: bytes, since: now });
    }

    /// Whether a step waits here.
    pub fn has(&self, asker: StepAsker) -> bool {
        self.arrived.iter().chain(self.waiting.values()).any(|queued| queued.asker == asker)
    }

    /// Takes what is to be looked at: all that has come, and those who wait, if they may have to
    /// wait no more. That is not so again until something changes.
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

    /// By what these are judged; what the others release is passed on, if it may be.
    pub fn round<'s>(
        &self,
        due: &DueSteps,
        held: &HeldCommands<impl Commands>,
        (shard, moment): (AppliedState<'s>, JudgedAt),
        may_pass_on: bool,
    ) -> JudgeRound<'s> {
        let releasing = if may_pass_on { &due.others[..] } else { &[] };
        JudgeRound::new(shard, moment, releasing, held)
    }

    /// A step that is due goes in a later round.
    pub fn put_back(&mut self, queued: QueuedStep) {
        self.arrived.push_back(queued);
    }

    /// A PREPARE waits, as [`judge`](Self::judge) says.
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

    /// A PREPARE goes, or is refused: nothing is reserved for it any more.
    pub fn release(&mut self, prepare: &Prepare<'_>) {
        if prepare.reserved_as.is_some() {
            self.pending.reservations.release(prepare);
            self.has_changed = true;
        }
    }

    /// A step is done, or asked for elsewhere.
    pub fn ended(&mut self, asker: StepAsker) {
        self.pending.end(asker);
    }

    /// All is applied up to this index: what its locks are is known.
    pub fn applied(&mut self, index: u64) {
        self.has_changed = true;
        self.planned.applied(index);
    }

    /// The lead is lost: nothing that was planned, pending or reserved counts any more.
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

    /// The link to a node is lost. If it is alive, it asks again for what it has asked.
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

    /// How long each step that waits here is, in bytes.
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

    /// Whether a read that came at `since` waits for those who came before it.
    pub fn stops_read(&self, read: KeysRead<'_>, since: BootNanos, now: BootNanos) -> bool {
        self.pending.stops(read, &self.planned, since, now)
    }

    /// A read is answered now, and what it reserves is reserved; from everyone only if it may.
    pub fn answered(&mut self, read: KeysRead<'_>, may_reserve_from_all: bool, now: BootNanos) {
        self.pending.answered(read, may_reserve_from_all, now);
    }

    /// When a transaction was committed, if a step that says so has come.
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
