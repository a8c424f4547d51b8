//! One executor: the single-threaded core that steps some of a node's shards.
//!
//! ```text
//!   accept(input)…  ──►  turn() ──► Effects { records for the log, answers, news }
//!                          ▲                      │ the driver appends the records, and tells:
//!                          └── Written(ticket) ◄──┤
//!                          └── Durable(ticket) ◄──┘ after an fsync
//! ```
//!
//! A driver feeds any number of inputs and then calls [`ShardExecutor::turn`] until it has no more
//! effects. All records of one turn form one group of the log, known by a ticket. An entry counts
//! as persisted when its group is written (durability `interval`, `memory`) or durable (`sync`, and
//! all control entries: SAFETY G9); only then is it committed, applied and answered (G3).
//!
//! Invariants:
//! 1. Tickets rise; `Written` comes in their order, `Durable` covers all up to its own.
//! 2. An answer leaves after its entry is applied and visible to readers (G3).
//! 3. Commit and apply happen in the same turn (G11), so what is committed here is applied here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hlc::Clock;
use keyspace::{ClusterVersion, NodeId, ReplicaId, ShardId};
use parking_lot::RwLock;
use replication::{BootNanos, HardState, StartContext};
use txn::abandoned::LinkLosses;

use crate::replica::entry::Waiter;
use crate::replica::state::ShardState;
use crate::replica::{Replica, ReplicaCounters, ReplicaStart};
use crate::routing::proxy::Proxy;
use txn::wait_queue::WAIT_NANOS;

mod accept;
pub mod admission;
mod answer;
mod early_messages;
mod effects;
mod ended_replicas;
mod input;
mod merged;

pub use answer::{Answer, Caller, Origin};
use early_messages::EarlyMessages;
pub use effects::{Effects, Envelope};
pub(crate) use effects::{push, report};
pub use ended_replicas::EndedReplica;
pub use input::Input;
use merged::AbsorbedEnds;
pub use merged::{
    HandoverRequest, MergeHandover, MergedShard, PendingRequestsHandover, decode_merged,
};

/// See the module's documentation.
pub struct ShardExecutor {
    clock: Arc<Clock>,
    /// Boot clock of the node, as the driver last told it.
    now: BootNanos,
    /// … and as it told it first.
    started: BootNanos,
    seed: u64,
    /// Far larger than their ids, among which one is looked up for each message.
    shards: BTreeMap<ShardId, Box<Replica>>,
    /// Shards that are on other nodes only.
    remote_shards: BTreeMap<ShardId, Proxy>,
    /// Those with something to do or on its way.
    active_remote: Vec<ShardId>,
    /// Shards whose replica here takes no part any more.
    ended_replicas: BTreeMap<ShardId, EndedReplica>,
    ticks: u64,
    /// Shards that have ended here. Their replicas had voted and promised: none begins again.
    ended: BTreeSet<ShardId>,
    /// Shards with something to do or on its way. The others cost a turn nothing, and those of
    /// these that only wait for others hardly anything, until something comes for them or time
    /// passes.
    active: Vec<ShardId>,
    /// Whether all of them have their turn next: time has passed.
    all_are_due: bool,
    next_ticket: u64,
    round_bytes_max: u64,
    /// The timeout of requests to remote leaders, in nanoseconds.
    request_timeout: u64,
    /// How often leaders compare their replicas, in nanoseconds; 0: never.
    check_every: u64,
    /// Whether the log has no room but for what it was reserved for.
    is_full: bool,
    /// The cluster version, as far as it is known here.
    cluster_version: ClusterVersion,
    /// Answers and records of inputs that needed no turn of a shard.
    pending: Effects,
    /// What happened in shards that have gone.
    ended_counters: ReplicaCounters,
    /// Messages for replicas that are not here yet.
    early: EarlyMessages,
    /// Right halves that were handed out to be begun.
    pending_halves: BTreeSet<ShardId>,
    /// Shards that others have taken in.
    absorbed: BTreeMap<ShardId, MergedShard>,
    /// Those whose replica ended here with that, ever.
    merged_ends: AbsorbedEnds,
    /// Whether `pending` may have something about that.
    has_merged: bool,
    losses: LinkLosses,
}

impl ShardExecutor {
    /// An executor without shards. `clock` is the node's; `seed` chooses when its replicas stand
    /// for election; `round_bytes_max` is how many bytes of commands a turn proposes, usually
    /// [`ROUND_BYTES_MAX`].
    pub fn new(clock: Arc<Clock>, seed: u64, round_bytes_max: u64) -> Self {
        Self {
            clock,
            now: 0,
            started: 0,
            seed,
            shards: BTreeMap::new(),
            remote_shards: BTreeMap::new(),
            active_remote: Vec::new(),
            ended_replicas: BTreeMap::new(),
            ticks: 0,
            ended: BTreeSet::new(),
            active: Vec::new(),
            all_are_due: false,
            next_ticket: 1,
            round_bytes_max,
            request_timeout: REQUEST_TIMEOUT_NANOS,
            check_every: 0,
            is_full: false,
            cluster_version: ClusterVersion::FIRST,
            pending: Effects::default(),
            ended_counters: ReplicaCounters::default(),
            early: EarlyMessages::default(),
            pending_halves: BTreeSet::new(),
            absorbed: BTreeMap::new(),
            merged_ends: AbsorbedEnds::default(),
            has_merged: false,
            losses: LinkLosses::default(),
        }
    }

    /// Sets the request timeout: then a client learns that no node leads, or that the outcome is
    /// unknown. Usually [`REQUEST_TIMEOUT_NANOS`].
    pub fn set_request_timeout(&mut self, nanos: u64) {
        self.request_timeout = nanos;
    }

    /// Sets the interval at which leaders compare their replicas. Zero, the default: never.
    pub fn set_check_every(&mut self, nanos: u64) {
        self.check_every = nanos;
    }

    /// The cluster version is at least `version`: proposals may use its features.
    pub fn allow(&mut self, version: ClusterVersion) {
        self.cluster_version = self.cluster_version.max(version);
    }

    /// Whether the log has only reserved room left, as the driver found it last. Then nothing is
    /// logged for readers (decision 0007).
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// It is this late by the node's boot clock. Going back is ignored.
    pub fn observe(&mut self, now: BootNanos) {
        if self.started == 0 {
            self.started = now;
        }
        self.now = self.now.max(now);
    }

    /// Adopts a shard from what was recovered from disk. A sole voter leads at once.
    pub fn adopt(&mut self, start: ReplicaStart) -> Arc<RwLock<ShardState>> {
        let mut shard = self.start(start);
        shard.begin();
        let view = shard.view();
        let id = shard.id();
        let before = self.shards.insert(id, Box::new(shard));
        assert!(before.is_none(), "a shard is adopted once");
        self.touch(id);
        view
    }

    /// The log says that these shards have ended here. The executor ignores later requests to begin
    /// one again: the new replica would not know what the old one had promised under the same id
    /// (SAFETY G4, G9).
    pub fn mark_ended(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        self.ended.extend(shards);
    }

    fn start(&self, start: ReplicaStart) -> Replica {
        let shard = start.view.read().descriptor.shard;
        let seed = self.seed ^ shard.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Replica::new(start, StartContext { now: self.now, started: self.started, seed })
    }

    /// The view of a shard, for readers.
    pub fn view(&self, shard: ShardId) -> Option<Arc<RwLock<ShardState>>> {
        self.shards.get(&shard).map(|shard| shard.view())
    }

    /// A checkpoint of a shard, with this hard state, is on disk.
    pub fn covered(&mut self, shard: ShardId, hard_state: HardState) {
        if let Some(shard) = self.shards.get_mut(&shard) {
            shard.covered(hard_state);
        }
    }

    /// The shards of this executor, in the order of their ids.
    pub fn shards(&self) -> impl Iterator<Item = &Replica> {
        self.shards.values().map(Box::as_ref)
    }

    /// The replica of a shard, if it is here.
    pub fn shard(&self, shard: ShardId) -> Option<&Replica> {
        self.shards.get(&shard).map(Box::as_ref)
    }

    /// Session and sequence of the batch with a waiter's write, if it was sent to a remote shard's
    /// leader and its outcome is unknown.
    pub fn batch_of(&self, shard: ShardId, waiter: Waiter) -> Option<(u64, u64)> {
        self.remote_shards.get(&shard)?.batch_of(waiter)
    }

    /// Right halves that were handed out to be begun, and have not been confirmed since
    /// ([`Self::confirm`]). Before a checkpoint may count that was made of a left half, the right
    /// one has to have begun, and to be in a checkpoint, too.
    pub fn pending_halves(&self) -> impl Iterator<Item = ShardId> {
        self.pending_halves.iter().copied()
    }

    /// This right half, of another executor or this one, has begun, or will not.
    pub fn confirm(&mut self, shard: ShardId) {
        self.pending_halves.remove(&shard);
    }

    /// Whether a replica of the shard is here, or was.
    pub fn has_had(&self, shard: ShardId) -> bool {
        self.shards.contains_key(&shard)
            || self.ended_replicas.contains_key(&shard)
            || self.ended.contains(&shard)
    }

    /// Counters of all shards that were ever here, up to `now`.
    pub fn counters(&self, now: BootNanos) -> ReplicaCounters {
        self.shards.values().fold(self.ended_counters, |sum, shard| sum.and(shard.counters(now)))
    }

    /// From its next entry on, each shard holds at most so many bytes of applied entries in memory
    /// for lagging replicas.
    pub fn set_retained_bytes_max(&mut self, bytes: usize) {
        self.shards.values_mut().for_each(|shard| shard.set_retained_bytes_max(bytes));
    }

    /// Room in the log that pending requests may need in later rounds, with `framing_bytes` for
    /// each entry. These are requests that wait because their shard does not lead yet or the round
    /// was full. Requests sent to remote leaders count too, as long as a local replica may come to
    /// lead. The driver keeps that room reserved, since the executor appends whatever it proposes.
    pub fn held_log_bytes(&self, framing_bytes: u64) -> u64 {
        let shards = self.active.iter().filter_map(|id| self.shard(*id)).map(Replica::held);
        let remote_shards =
            self.active_remote.iter().filter_map(|id| self.remote_shards.get(id)).map(Proxy::held);
        shards.chain(remote_shards).map(|(bytes, entries)| bytes + entries * framing_bytes).sum()
    }

    /// Runs one step round: every active shard proposes queued commands, hands out entries to
    /// persist, applies committed ones, and answers.
    pub fn turn(&mut self, effects: &mut Effects) {
        effects.ticket = self.next_ticket;
        effects.answers.append(&mut self.pending.answers);
        effects.refused.append(&mut self.pending.refused);
        effects.messages.append(&mut self.pending.messages);
        effects.rpcs.append(&mut self.pending.rpcs);
        effects.known.append(&mut self.pending.known);
        effects.ended.append(&mut self.pending.ended);
        effects.events.append(&mut self.pending.events);
        effects.changes.append(&mut self.pending.changes);
        effects.moved.append(&mut self.pending.moved);
        effects.tracking.append(&mut self.pending.tracking);
        if std::mem::take(&mut self.has_merged) {
            effects.words.append(&mut self.pending.words);
            effects.given.append(&mut self.pending.given);
            effects.pending_requests.append(&mut self.pending.pending_requests);
        }
        effects.safe_points.append(&mut self.pending.safe_points);
        if !self.pending.records.is_empty() {
            std::mem::swap(&mut effects.records, &mut self.pending.records);
            effects.sync = true;
        }
        let Self { now, seed, request_timeout, check_every, is_full, cluster_version, .. } = *self;
        let (shards, clock, losses) = (&mut self.shards, &*self.clock, &self.losses);
        let bytes_max = self.round_bytes_max;
        let turn = RoundContext {
            now,
            clock,
            losses,
            bytes_max,
            request_timeout,
            check_every,
            is_full,
            cluster_version,
            seed,
        };
        let (mut unfit, mut given_up) = (Vec::new(), Vec::new());
        let all_are_due = std::mem::take(&mut self.all_are_due);
        self.active.retain(|id| {
            let Some(shard) = shards.get_mut(id) else { return false };
            if !shard.is_due && !all_are_due {
                return true;
            }
            if effects.records.bytes() >= bytes_max {
                // A group of the log has room for this and one longest entry; the rest goes next.
                shard.is_due = true;
                return true;
            }
            shard.turn(&turn, effects);
            unfit.extend(shard.unfit().map(|why| (*id, why)));
            given_up.extend(shard.surrenders().map(|_| *id));
            shard.active = !shard.is_idle();
            shard.is_due = !shard.only_waits();
            shard.active
        });
        let remote_shards = &mut self.remote_shards;
        self.active_remote.retain(|id| {
            let Some(proxy) = remote_shards.get_mut(id) else { return false };
            proxy.turn(&turn, effects);
            proxy.active = !proxy.is_idle();
            proxy.active
        });
        let halves = effects.halves.iter().map(|start| start.view.read().descriptor.shard);
        self.pending_halves.extend(halves);
        unfit.into_iter().for_each(|(id, why)| self.end_replica(id, why, effects));
        given_up.into_iter().for_each(|id| self.give_up(id, effects));
        if !effects.records.is_empty() {
            self.next_ticket += 1;
        }
    }

    /// The shard, put on the list of those with something to do.
    fn touch(&mut self, id: ShardId) -> Option<&mut Replica> {
        Some(self.touch_here(id)?.0)
    }

    /// The same, with what its effects come to.
    fn touch_here(&mut self, id: ShardId) -> Option<(&mut Replica, &mut Effects)> {
        let shard = self.shards.get_mut(&id)?;
        shard.is_due = true;
        if !shard.active {
            shard.active = true;
            self.active.push(id);
        }
        Some((shard, &mut self.pending))
    }

    /// Those with something to do or on its way have their turn next.
    fn each_active(&mut self, mut tell: impl FnMut(&mut Replica)) {
        for id in &self.active {
            if let Some(shard) = self.shards.get_mut(id) {
                tell(shard);
                shard.is_due = true;
            }
        }
    }

    /// A shard is on these nodes only.
    fn become_remote(&mut self, shard: ShardId, nodes: Vec<NodeId>) {
        let proxy = self.remote_shards.entry(shard);
        proxy.or_insert_with(|| Proxy::new(shard, Vec::new())).is_on(nodes);
    }

    /// As [`Self::touch`], for a shard that is on other nodes only; and where to put answers.
    fn touch_remote(&mut self, id: ShardId) -> Option<(&mut Proxy, &mut Effects)> {
        let proxy = self.remote_shards.get_mut(&id)?;
        if !proxy.active {
            proxy.active = true;
            self.active_remote.push(id);
        }
        Some((proxy, &mut self.pending))
    }
}

/// What a turn of a shard is told.
pub(crate) struct RoundContext<'a> {
    /// The node's boot clock.
    pub now: BootNanos,
    /// The node's clock.
    pub clock: &'a Clock,
    /// Links that were lost not long ago.
    pub losses: &'a LinkLosses,
    /// Bytes of commands to be proposed.
    pub bytes_max: u64,
    /// The request timeout, in nanoseconds.
    pub request_timeout: u64,
    /// How often leaders compare their replicas, in nanoseconds; 0: never.
    pub check_every: u64,
    /// Whether the log has no room for what readers need.
    pub is_full: bool,
    /// The cluster version: what may be proposed.
    pub cluster_version: ClusterVersion,
    /// Drawn for the executor.
    pub seed: u64,
}

impl RoundContext<'_> {
    /// How long a request waits for a lock, in nanoseconds: less than the request timeout, so that
    /// its sender learns of the lock in time.
    pub fn lock_wait_max(&self) -> u64 {
        WAIT_NANOS.min(self.request_timeout / 5 * 3)
    }
}

/// The default request timeout.
pub const REQUEST_TIMEOUT_NANOS: u64 = 5_000_000_000;

/// Bytes of commands that one round usually proposes, without its last entry. All records of a
/// round are one group of the log, and a group has its limit. A driver that chooses another value
/// stays above [`storage::log::Group::bytes_of_empty`], or nothing is proposed.
pub const ROUND_BYTES_MAX: u64 = 256 << 20;

/// The replica id of a shard's first replica.
pub const FIRST_REPLICA: ReplicaId = ReplicaId(1);
