//! A merge of two neighbours: what their leaders send and propose, and what each replica does.
//!
//! ```text
//!   left leads:   Merge ──► INTEND ──► says "freeze" ──► hears "frozen" ──► ABSORB
//!                              └─ too late, unfit, a replica is broken ──► CANCEL ──► says "free"
//!   right leads:  hears "freeze", all are lively ──► FREEZE ──► all have it ──► says "frozen"
//!                 hears "free" ──► FREE ──► says so when it is asked again
//!   each of left: ABSORB is agreed upon ──► stops there ──► has what the right one's replica here
//!                 holds ──► applies it, and goes on
//!   each of right: asked for that ──► applies FREEZE ──► hands it over, and ends
//! ```
//!
//! What it does to the state, and why that is safe: [`crate::reshape::merge`].
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time from INTEND to ABSORB | [`MERGE_TIMEOUT_NANOS`] | CANCEL |
//! | time that a request waits at a frozen shard | the request timeout | not done |

use std::collections::VecDeque;

use command::NotDone;
use hlc::Clock;
use keyspace::{NodeId, ShardId};
use replication::{BootNanos, Entry};

use super::forward::handover::{InheritedSession, RequestHandover};
use super::readers::Asker as ReadAsker;
use super::{Asker, InFlight, Queued, Replica};
use crate::executor::{Effects, HandoverRequest, RoundContext, push};
use crate::replica::entry::{Kind, operation};
use crate::replica::record;
use crate::replica::state::ShardState;
use crate::reshape::merge::{Absorb, MergeMessage, MergeStatus, MergeStep};
use crate::routing::session::BatchId;
use crate::rpc::message::RpcRequestId;

/// How long a shard tries to absorb its neighbour, which may be frozen all that time.
pub const MERGE_TIMEOUT_NANOS: u64 = 400_000_000;
/// So often it is said again.
const AGAIN_NANOS: u64 = 50_000_000;
/// How far behind its leader a replica may be when a shard is frozen: it stands still until all
/// have caught up.
const NEAR: u64 = 256;
/// Who has not been heard of for so long would keep a frozen shard waiting.
const LIVELY_NANOS: u64 = 500_000_000;

/// What a replica knows of it, beside its state.
#[derive(Default)]
pub(super) struct Merges {
    /// As applied here.
    pub merging: MergeStatus,
    /// The index of the newest step that was proposed here.
    proposed: u64,
    /// … and of the newest by which it is frozen: nothing may stand behind it.
    freezes: u64,
    /// When that was proposed; 0 if it was not, or not in this term.
    froze_at: BootNanos,
    /// Since when it stands so, as its leader knows.
    since: BootNanos,
    sent_at: BootNanos,
    /// Whether it has reported that all replicas have it on disk.
    has_reported_durable: bool,
    /// Entries that wait, the first for what the neighbour's replica here holds.
    waiting_entries: VecDeque<Entry>,
    /// … which this is.
    given: Option<Box<ShardState>>,
    /// For whom it gives up what it holds, by which entry of that one, and as of which of its own.
    surrenders: Option<(ShardId, u64, u64)>,
    /// The halted replica has found no state to absorb.
    pub misses_merge_state: bool,
}

impl Merges {
    pub fn of(state: &ShardState) -> Self {
        Self { merging: state.merging, ..Self::default() }
    }
}

impl Replica {
    /// Has it take in its right neighbour, if it leads, and both are as who asks knows them.
    pub(crate) fn intend(&mut self, step: MergeStep, now: BootNanos, clock: &Clock) {
        let MergeStep::Intend { ours, .. } = step else { return };
        let fits = {
            let state = self.state.read();
            state.is_at_rest() && state.descriptor.generation == ours
        };
        if fits && self.leading.broken.is_empty() {
            self.propose_merge(step, now, clock);
        }
    }

    /// Whether no change of members may begin, for it stands between two shards, or is about to.
    pub(super) fn keeps_replicas(&self) -> bool {
        self.merges.merging.keeps_replicas() || self.merges.proposed > self.applied
    }

    /// Whether it has nothing of a merge to see to.
    pub(super) fn merges_nothing(&self) -> bool {
        self.merges.merging.is_not() && self.merges.surrenders.is_none()
    }

    /// Whether nobody is served, and nothing proposed but what ends that.
    pub(super) fn is_halted(&self) -> bool {
        self.merges.merging.is_frozen() || self.merges.freezes > self.applied
    }

    /// Whether nobody is served.
    pub(super) fn merges_freeze(&self) -> bool {
        self.merges.merging.is_frozen()
    }

    /// It does not lead any more: what it had proposed may be lost.
    pub(super) fn forget_steps(&mut self) {
        (self.merges.proposed, self.merges.freezes, self.merges.froze_at) = (0, 0, 0);
    }

    fn propose_merge(&mut self, step: MergeStep, now: BootNanos, clock: &Clock) {
        if !self.leads() || self.group.is_transferring() || self.merges.proposed > self.applied {
            return;
        }
        let index = self.group.last_index() + 1;
        let mut bytes = operation(&step.encode());
        let term = self.stamp(clock, index, Kind::Merge, 1, &mut bytes);
        let place = self.group.propose(bytes);
        assert!(
            place.is_ok_and(|place| place.index == index),
            "a leader's proposal takes the next index"
        );
        self.in_flight.push_back(InFlight { index, term, since: now, asker: Asker::Nobody });
        self.merges.proposed = index;
        if matches!(step, MergeStep::Freeze { .. }) {
            (self.merges.freezes, self.merges.froze_at) = (index, now);
        }
    }

    /// In a turn: goes on with what is under way.
    pub(super) fn merge(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if !self.merges.merging.is_not() {
            self.advance_merge(turn, effects);
        }
    }

    #[inline(never)]
    fn advance_merge(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        let now = turn.now;
        if !self.leads() {
            (self.merges.since, self.merges.sent_at, self.merges.has_reported_durable) =
                (0, 0, false);
            return;
        }
        if self.merges.since == 0 {
            self.merges.since = now.max(1);
        }
        let is_due = self.merges.sent_at.saturating_add(AGAIN_NANOS) <= now;
        let generation = self.state.read().descriptor.generation;
        match self.merges.merging {
            MergeStatus::None => {}
            MergeStatus::TakingRight { right, generation: yours } => {
                let is_late = self.merges.since.saturating_add(MERGE_TIMEOUT_NANOS) <= now;
                if is_late || !self.leading.broken.is_empty() {
                    self.propose_merge(MergeStep::Cancel { ours: generation }, now, turn.clock);
                } else if is_due || self.merges.sent_at == 0 {
                    let state = self.state.read();
                    let arc = &state.descriptor.arc;
                    let (keyspace, end) = (arc.keyspace(), arc.end().tail().to_vec());
                    let (left, ours, nodes) = (self.id, generation, nodes_of(&state));
                    let word = MergeMessage::Freeze { left, ours, yours, keyspace, end, nodes };
                    effects.words.push((right, word));
                    self.merges.sent_at = now;
                }
            }
            MergeStatus::Cancelled { right, generation: yours } => {
                if is_due || self.merges.sent_at == 0 {
                    effects.words.push((right, MergeMessage::Unfreeze { left: self.id, yours }));
                    self.merges.sent_at = now;
                }
            }
            MergeStatus::Frozen { .. } => {
                if !self.merges.has_reported_durable {
                    self.report_frozen(effects);
                }
                if self.merges.since.saturating_add(turn.request_timeout) <= now {
                    self.refuse_queued(NotDone::NotLeader, effects);
                    self.refuse_readers(NotDone::NotLeader, effects);
                }
            }
        }
    }

    /// Says that all replicas have it on disk that this one is frozen, if they do.
    fn report_frozen(&mut self, effects: &mut Effects) {
        let MergeStatus::Frozen { by, generation, index, term, last, horizon } =
            self.merges.merging
        else {
            return;
        };
        if self.group.progress().iter().any(|(_, matched)| *matched < index) {
            return;
        }
        let last = last.max(horizon);
        let word = MergeMessage::Frozen { right: self.id, yours: generation, index, term, last };
        effects.words.push((by, word));
        self.merges.has_reported_durable = true;
    }

    /// The leader of a neighbour says something.
    pub(super) fn handle_merge_message(
        &mut self,
        word: MergeMessage,
        now: BootNanos,
        clock: &Clock,
        effects: &mut Effects,
    ) {
        if !self.leads() {
            return;
        }
        let generation = self.state.read().descriptor.generation;
        match word {
            MergeMessage::Freeze { left, ours, yours, .. } => match self.merges.merging {
                MergeStatus::Frozen { by, generation: at, .. }
                    if (by, at, yours) == (left, ours, generation) =>
                {
                    self.report_frozen(effects);
                }
                _ if self.merges.proposed > self.applied => {}
                _ if self.may_freeze(&word, now) => {
                    let step = MergeStep::Freeze { by: left, theirs: ours, ours: generation };
                    self.propose_merge(step, now, clock);
                }
                _ => effects
                    .words
                    .push((left, MergeMessage::CannotFreeze { right: self.id, yours: ours })),
            },
            MergeMessage::Frozen { right, yours, index, term, last } => {
                if self.intends(right) && yours == generation {
                    // What is written from then on is later than all that was written there.
                    clock.observe(last);
                    let step = MergeStep::Absorb { right, index, term, ours: generation };
                    self.propose_merge(step, now, clock);
                }
            }
            MergeMessage::CannotFreeze { right, yours } => {
                if self.intends(right) && yours == generation {
                    self.propose_merge(MergeStep::Cancel { ours: generation }, now, clock);
                }
            }
            MergeMessage::Unfreeze { left, yours } => {
                let by_another = matches!(self.merges.merging,
                    MergeStatus::Frozen { by, .. } if by != left);
                if generation > yours || by_another {
                    effects
                        .words
                        .push((left, MergeMessage::UnfreezeDone { right: self.id, ours: yours }));
                } else if generation == yours {
                    self.propose_merge(MergeStep::Unfreeze { ours: generation }, now, clock);
                }
            }
            MergeMessage::UnfreezeDone { right, ours } => {
                let waits = MergeStatus::Cancelled { right, generation: ours };
                if self.merges.merging == waits {
                    self.propose_merge(MergeStep::UnfreezeDone { right }, now, clock);
                }
            }
        }
    }

    fn intends(&self, right: ShardId) -> bool {
        self.merges.merging.takes_right(right)
    }

    /// Whether it can be frozen for who asks so: it follows that one, has its replicas where that
    /// one has them, and all of them would have it on disk soon.
    fn may_freeze(&self, word: &MergeMessage, now: BootNanos) -> bool {
        let MergeMessage::Freeze { yours, keyspace, end, nodes, .. } = word else { return false };
        let state = self.state.read();
        let start = state.descriptor.arc.start();
        let follows = state.descriptor.keyspace() == *keyspace
            && start.tail() == end.as_slice()
            && !end.is_empty();
        let near = self.group.last_index().saturating_sub(NEAR);
        let is_ready = |follower: &replication::Follower| {
            let is_lively = follower.echoed.saturating_add(LIVELY_NANOS) > now;
            follower.replica == self.replica || (follower.matched >= near && is_lively)
        };
        follows
            && state.descriptor.generation == *yours
            && state.is_at_rest()
            && nodes_of(&state) == *nodes
            && self.leading.broken.is_empty()
            && self.group.followers().iter().all(is_ready)
    }

    /// A step is applied here.
    #[inline(never)]
    pub(super) fn merged(&mut self) {
        self.merges.merging = self.state.read().merging;
        (self.merges.since, self.merges.sent_at, self.merges.has_reported_durable) = (0, 0, false);
        self.published.is_stale = true;
        // All that follow have to do something about it, at once.
        self.group.send_commit_index_to_all();
    }

    /// What the entry needs that is to be applied next, if that is to be waited for.
    pub(super) fn halts(&mut self, entry: &Entry, effects: &mut Effects) -> bool {
        if !self.merges.waiting_entries.is_empty() {
            return true;
        }
        let absorb = self.state.read().absorbs(entry);
        let Some(Absorb { right, index, term }) = absorb else { return false };
        // Before the right one's replica ends here: see the front page of `merge`.
        let payload = record::encode_hard_state(self.group.hard_state());
        push(&mut effects.records, self.id, record::HARD_STATE, &[&payload]);
        effects.sync = true;
        let at = entry.index();
        effects.handover_requests.push(HandoverRequest { left: self.id, at, right, index, term });
        true
    }

    /// Whether it has stopped until its right neighbour's local replica hands over its state.
    pub fn awaits_merge_handover(&self) -> bool {
        !self.merges.waiting_entries.is_empty()
    }

    /// Keeps an entry until what comes before it is applied.
    pub(super) fn halt(&mut self, entry: Entry) {
        self.merges.waiting_entries.push_back(entry);
    }

    /// A snapshot has come past all that waits.
    pub(super) fn forget_halted(&mut self) {
        self.merges.waiting_entries.clear();
        self.merges.merging = self.state.read().merging;
    }

    /// What the neighbour's replica here held; none: there is no such thing.
    pub(crate) fn is_given(&mut self, right: Option<Box<ShardState>>) {
        // A snapshot may have come meanwhile.
        if self.merges.waiting_entries.is_empty() {
            return;
        }
        self.merges.misses_merge_state |= right.is_none();
        self.merges.given = right;
    }

    /// In a turn: applies what has waited for that.
    pub(super) fn apply_handover(&mut self, clock: &Clock, effects: &mut Effects) {
        if self.merges.given.is_some() {
            self.absorb(clock, effects);
        }
    }

    #[inline(never)]
    fn absorb(&mut self, clock: &Clock, effects: &mut Effects) {
        let Some(right) = self.merges.given.take() else { return };
        if self.merges.waiting_entries.is_empty() {
            return;
        }
        let waiting_entries = std::mem::take(&mut self.merges.waiting_entries);
        let mut waiting_entries = waiting_entries.into_iter();
        let first = waiting_entries.next().expect("the entry was found above");
        self.apply_entry(first, Some(*right), clock, effects);
        self.apply(waiting_entries.collect(), clock, effects);
    }

    /// Is to give up what it holds as of this entry, for its left neighbour's replica here. False:
    /// it does not have it.
    pub(crate) fn request_handover(
        &mut self,
        to: (ShardId, u64),
        (index, term): (u64, u64),
    ) -> bool {
        if self.applied < index {
            if !self.group.has(index, term) {
                return false;
            }
            self.group.commit(index);
        }
        self.merges.surrenders = Some((to.0, to.1, index));
        true
    }

    /// Who waits for it to give up what it holds.
    pub(crate) fn is_waited_for_by(&self) -> Option<ShardId> {
        self.merges.surrenders.map(|(to, ..)| to)
    }

    /// To whom it gives up what it holds, now, and by which entry of that one.
    pub(crate) fn surrenders(&self) -> Option<(ShardId, u64)> {
        let (to, at, index) = self.merges.surrenders?;
        let is_ready = matches!(self.merges.merging,
            MergeStatus::Frozen { by, index: at, .. } if (by, at) == (to, index));
        is_ready.then_some((to, at))
    }

    /// Since when nobody is served because it is to be taken in, if it is known: it leads.
    pub(crate) fn halted_since(&self) -> Option<BootNanos> {
        Some(self.merges.froze_at).filter(|at| *at > 0 && self.is_halted())
    }

    /// Goes on with what was sent to a neighbour that it has taken in.
    pub(crate) fn take_over_requests(&mut self, inherited: InheritedSession) {
        self.outgoing.forward.take_over_requests(inherited);
    }

    /// Gives up what it holds, and what it has been asked.
    pub(crate) fn end_as_right(
        &mut self,
        effects: &mut Effects,
    ) -> (Box<ShardState>, RequestHandover) {
        self.serving.end();
        let taken = Box::new(self.state.write().take());
        let mut legacy = self.outgoing.forward.hand_over_requests();
        self.give_up_steps(effects);
        self.outgoing.forwarded_steps.release_waiters(effects);
        self.release_all_lock_readers(effects);
        for queued in std::mem::take(&mut self.queue) {
            match queued {
                Queued::Batch { origin, batch } => legacy.batches.push((origin, batch)),
                // Its own are in `sent`.
                Queued::SessionBatch { from: None, .. } | Queued::Operation { .. } => {}
                Queued::SessionBatch { from, id: BatchId { session, sequence, .. }, .. } => {
                    self.redirect_asker(Asker::SessionBatch { from, session, sequence }, effects);
                }
            }
        }
        for (at, asker, _) in self.take_readers() {
            match asker {
                ReadAsker::Local { origin, waiter } | ReadAsker::Find { origin, waiter, .. } => {
                    legacy.readers.push((at, origin, waiter));
                }
                ReadAsker::Remote { node, number } => {
                    self.reply_not_leader(node, RpcRequestId::Read { number }, effects);
                }
                ReadAsker::Fetch { node, number, .. } => {
                    self.reply_not_leader(node, RpcRequestId::Fetch { number }, effects);
                }
            }
        }
        for in_flight in std::mem::take(&mut self.in_flight) {
            if !matches!(in_flight.asker, Asker::SessionBatch { from: None, .. }) {
                self.refuse(in_flight.asker, NotDone::OutcomeUnknown, effects);
            }
        }
        self.outgoing.fetches.release_waiters(effects);
        (taken, legacy)
    }
}

/// Where a shard's voters are, in order.
fn nodes_of(state: &ShardState) -> Vec<NodeId> {
    let voters = state.members.voters.iter();
    let mut nodes: Vec<_> = voters.filter_map(|id| state.descriptor.node_of(*id)).collect();
    nodes.sort_unstable();
    nodes
}
