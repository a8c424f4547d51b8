//! One replica of one group: its verbs over the library's node.
//!
//! [`limits`] has its configuration, [`leading`] the leader's part, [`types`] inputs and outputs of
//! its verbs, [`rest`] the messages that need no work, [`stand`] when it may campaign. This file
//! decides three things: when the replica may campaign or vote ([`lease`]), which messages leave
//! before an fsync and which after it, and which applied entries stay in memory.
//!
//! [`lease`]: crate::lease

use std::collections::VecDeque;

use keyspace::ReplicaId;
use keyspace::random::mix;
use raft::eraftpb::{self, MessageType};
use raft::{Config, RawNode, StateRole};

use crate::BootNanos;
use crate::check::{self, RejectedMessage};
use crate::entries::{Entries, Entry, all_from_library};
use crate::lease::{Lease, VotePromise};
use crate::{Change, Members, Message};

mod campaign;
mod heartbeat;
mod leading;
mod limits;
#[cfg(test)]
mod tests;
mod types;

pub use limits::GroupLimits;
pub use types::{
    ChangeRefused, Follower, HardState, NotLeader, Proposed, StartContext, StartState, Work,
};

/// A follower counts as active if it has answered within this time.
const RECENTLY_ACTIVE_NANOS: BootNanos = 2_000_000_000;

/// One replica of one group.
pub struct Group {
    id: ReplicaId,
    raw: RawNode<Entries>,
    saved: HardState,
    limits: GroupLimits,
    lease: Lease,
    vote_promise: VotePromise,
    now: BootNanos,
    /// Chooses election time-outs: equal seeds, equal elections.
    seed: u64,
    campaigns: u64,
    /// How often it has campaigned since there was a leader.
    campaigns_since_leader: u64,
    /// The newest work with entries that is not persisted, or 0: until then it does not campaign.
    unsynced: u64,
    /// The work that brought a snapshot and is not persisted, and the snapshot's index.
    restored: Option<(u64, u64)>,
    /// At most so many bytes of entries are retained for other replicas.
    retained_bytes_max: usize,
    /// A `TimeoutNow` of its leader that came too early.
    pending_timeout_now: Option<Message>,
    /// To be sent now.
    outbox: Vec<Message>,
    /// The commit index that each replica was last informed of, while this one leads.
    sent_commits: Vec<(ReplicaId, u64)>,
    /// Messages to send when the work of this number is persisted: they acknowledge it.
    owed: VecDeque<(u64, Vec<eraftpb::Message>)>,
}

impl Group {
    /// A replica with its voters, from what it has persisted.
    ///
    /// # Panics
    /// If `start` contradicts itself: the caller has checked what it read from disk.
    pub fn new(
        replica: ReplicaId,
        members: &Members,
        start: StartState,
        limits: &GroupLimits,
        clock: StartContext,
    ) -> Self {
        assert!(start.before.0 <= start.applied, "state older than the log's beginning");
        assert!(start.applied <= start.hard_state.commit, "applied what was not committed");
        let config = Config {
            id: replica.0,
            applied: start.applied,
            election_tick: limits.election_ticks,
            min_election_tick: limits.election_ticks,
            max_election_tick: limits.election_ticks_end,
            heartbeat_tick: limits.heartbeat_ticks,
            max_size_per_msg: limits.message_bytes_max,
            max_uncommitted_size: limits.uncommitted_bytes_max,
            max_committed_size_per_ready: limits.committed_bytes_max,
            check_quorum: true,
            pre_vote: true,
            // What is committed is news that the next entries or heartbeat carry, or
            // [`Self::send_commit_index`]: a message of its own for every commit doubles the
            // traffic.
            skip_bcast_commit: true,
            // Joins entries to a message that names another place before them (0.7.0).
            batch_append: false,
            ..Config::default()
        };
        let saved = start.hard_state;
        // Nobody else could have got a sole voter's vote. But a change of members may wait in the
        // log, which was in force before the start.
        let waits = start.entries.iter().any(Entry::is_change);
        let is_alone = members.is_sole(replica) && !waits;
        let entries = Entries::new(start, members.clone());
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, entries, &logger)
            .expect("the configuration is constant and the start state was checked above");
        let mut vote_promise = VotePromise::default();
        // SAFETY G4: what it promised before the start it has forgotten, so it waits until all
        // such promises have run out. One without any term may have forgotten everything.
        if !is_alone {
            vote_promise.no_forced_vote_until = clock.started + limits.no_vote_nanos();
        }
        let mut group = Self {
            id: replica,
            raw,
            saved,
            limits: *limits,
            lease: Lease::default(),
            vote_promise,
            now: clock.now,
            seed: clock.seed,
            campaigns: 0,
            campaigns_since_leader: 0,
            unsynced: 0,
            restored: None,
            retained_bytes_max: usize::MAX,
            pending_timeout_now: None,
            outbox: Vec::new(),
            sent_commits: Vec::new(),
            owed: VecDeque::new(),
        };
        group.choose_timeout();
        group
    }

    /// Lets one tick pass. Ticks that were missed must not be made up (SAFETY G5). Whether it has
    /// led to work or messages.
    pub fn tick(&mut self, now: BootNanos) -> bool {
        self.observe(now);
        if !self.is_leader() {
            let core = &self.raw.raft;
            let is_due = core.promotable()
                && core.election_elapsed + 1 >= core.randomized_election_timeout();
            if is_due && !self.may_campaign() {
                return false;
            }
            self.campaigns += u64::from(is_due);
            self.campaigns_since_leader += u64::from(is_due);
        }
        let has_work = self.raw.tick();
        if has_work {
            self.choose_timeout();
        }
        has_work
    }

    /// Sets the group's clock, which never goes back.
    pub fn observe(&mut self, now: BootNanos) {
        self.now = self.now.max(now);
    }

    /// Handles a message of another replica at `now`, which was read when its handling began.
    ///
    /// # Errors
    /// [`RejectedMessage`]: nothing has changed. [`RejectedMessage::LostLog`] means that this
    /// replica's disk holds less than it has promised: it must be quarantined (SAFETY G9).
    pub fn step(&mut self, message: Message, now: BootNanos) -> Result<(), RejectedMessage> {
        self.observe(now);
        check::message(self.id, &self.raw, &message.inner)?;
        let Message { inner, clock } = message;
        let (kind, term) = (inner.get_msg_type(), inner.term);
        let from = ReplicaId(inner.from);
        let asks_vote =
            matches!(kind, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote);
        let forced = inner.context == raft::CAMPAIGN_TRANSFER || kind == MessageType::MsgTimeoutNow;
        if asks_vote || kind == MessageType::MsgTimeoutNow {
            let still = self.now < self.vote_promise.no_vote_until && !forced;
            if still || self.now < self.vote_promise.no_forced_vote_until {
                return Ok(());
            }
        }
        if kind == MessageType::MsgTimeoutNow && !self.can_obey_timeout_now() {
            // `TimeoutNow` is sent once, and the leader proposes nothing until this campaigns.
            self.pending_timeout_now = Some(Message { inner, clock });
            return Ok(());
        }
        if kind == MessageType::MsgRequestPreVote && self.outranks(&inner) {
            return Ok(());
        }
        match self.raw.step(inner) {
            Ok(()) | Err(raft::Error::StepPeerNotFound | raft::Error::StepLocalMsg) => {}
            Err(raft::Error::ProposalDropped) => {}
            Err(error) => panic!("step fails only on a broken store, and ours is memory: {error}"),
        }
        let follows = self.raw.raft.term == term && self.raw.raft.leader_id == from.0;
        match kind {
            MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot
                if follows =>
            {
                self.vote_promise.record_handled(
                    term,
                    from,
                    clock,
                    self.now,
                    self.limits.no_vote_nanos(),
                );
            }
            MessageType::MsgAppendResponse | MessageType::MsgHeartbeatResponse
                if self.is_leader() && term == self.term() && clock <= self.now =>
            {
                self.lease.echo(term, from, clock);
            }
            _ => {}
        }
        self.choose_timeout();
        if kind == MessageType::MsgRequestPreVote {
            self.abandon_campaign(from);
        }
        Ok(())
    }

    /// Whether stepping this head of a snapshot would put the snapshot in place of the log. If so,
    /// install the state first, and then step the head at once; else step the head without.
    pub fn wants(&self, head: &Message) -> bool {
        let log = &self.raw.raft.raft_log;
        let sound = check::message(self.id, &self.raw, &head.inner).is_ok();
        head.snapshot().is_some_and(|(index, term)| {
            let known = log.match_term(index, term);
            sound && head.term() >= self.term() && index > log.committed && !known
        })
    }

    /// Takes the messages to send now, in order; each of them may be lost.
    pub fn take_messages(&mut self, out: &mut Vec<Message>) {
        out.append(&mut self.outbox);
    }

    /// The members, as of the entries applied here.
    pub fn members(&self) -> &Members {
        self.raw.store().members()
    }

    /// The leader of this replica's term, if known.
    pub fn leader(&self) -> Option<ReplicaId> {
        Some(ReplicaId(self.raw.raft.leader_id)).filter(|leader| leader.0 != 0)
    }

    /// How often it has campaigned since it began: after an election timeout, or by
    /// [`Self::campaign`]. Campaigns after a `TimeoutNow` are not counted.
    pub fn campaigns(&self) -> u64 {
        self.campaigns
    }

    /// Proposes a change of members; `data` is what will be applied, and describes it.
    ///
    /// # Errors
    /// [`ChangeRefused`]: nothing was proposed.
    ///
    /// # Panics
    /// If `data` is empty: that is how a leader opens its term.
    pub fn propose_change(
        &mut self,
        change: &Change,
        data: Vec<u8>,
    ) -> Result<Proposed, ChangeRefused> {
        assert!(!data.is_empty(), "a change says what it changes");
        self.may_change(change)?;
        match self.raw.propose_conf_change(data, change.to_library()) {
            Ok(()) => Ok(Proposed { index: self.last_index(), term: self.term() }),
            Err(raft::Error::ProposalDropped) => Err(ChangeRefused::NotLeader),
            Err(error) => panic!("propose fails only on a broken store: {error}"),
        }
    }

    /// Whether a change could be proposed now.
    ///
    /// # Errors
    /// [`ChangeRefused`]: why not.
    pub fn may_change(&self, change: &Change) -> Result<(), ChangeRefused> {
        if !self.is_leader() || self.raw.raft.lead_transferee.is_some() {
            return Err(ChangeRefused::NotLeader);
        }
        if self.raw.raft.has_pending_conf() {
            return Err(ChangeRefused::Pending);
        }
        if self.members().is_joint() != (*change == Change::LeaveJoint) {
            return Err(ChangeRefused::WrongJointState);
        }
        Ok(())
    }

    /// Applies the change of an applied entry; returns the members from then on.
    ///
    /// # Panics
    /// If it does not fit the members: entries are checked before they are proposed.
    pub fn change(&mut self, change: &Change) -> &Members {
        let config = self.raw.apply_conf_change(&change.to_library());
        let config = config.expect("changes are checked before they are proposed");
        self.raw.mut_store().set_members(Members::from_library(&config));
        self.members()
    }

    /// Chooses the election timeout from the seed: the library draws a random one at every reset.
    fn choose_timeout(&mut self) {
        let GroupLimits { election_ticks, election_ticks_end, retry_election_ticks, .. } =
            self.limits;
        let core = &mut self.raw.raft;
        let mixed = mix(self.seed ^ mix(self.id.0 ^ mix(core.term ^ mix(self.campaigns))));
        let spread = (election_ticks_end - election_ticks) as u64;
        core.set_randomized_election_timeout(election_ticks + (mixed % spread) as usize);
        let stands = matches!(core.state, StateRole::PreCandidate | StateRole::Candidate);
        if core.leader_id != raft::INVALID_ID {
            self.campaigns_since_leader = 0;
        } else if stands && self.campaigns_since_leader == 1 {
            core.election_elapsed =
                core.election_elapsed.max(election_ticks - retry_election_ticks);
        }
        if self.raw.raft.state == StateRole::Leader {
            self.lease.lead(self.raw.raft.term);
        }
    }

    fn wrap(&mut self, inner: eraftpb::Message) -> Message {
        let clock = match inner.get_msg_type() {
            MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot => {
                let to = ReplicaId(inner.to);
                match self.sent_commits.iter_mut().find(|(id, _)| *id == to) {
                    Some((_, sent_commits)) => *sent_commits = inner.commit,
                    None => self.sent_commits.push((to, inner.commit)),
                }
                self.now
            }
            MessageType::MsgAppendResponse | MessageType::MsgHeartbeatResponse => {
                self.vote_promise.echo(inner.term, ReplicaId(inner.to))
            }
            MessageType::MsgTimeoutNow => {
                self.lease.give_up();
                0
            }
            _ => 0,
        };
        Message { inner, clock }
    }

    fn send(&mut self, mut messages: Vec<eraftpb::Message>) {
        if messages.is_empty() {
            return;
        }
        // The library walks a hash table.
        messages.sort_by_key(|message| message.to);
        for message in messages {
            let message = self.wrap(message);
            self.outbox.push(message);
        }
    }

    /// Whether this replica leads its term.
    pub fn is_leader(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// The current term.
    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// The index of the newest entry, persisted or not.
    pub fn last_index(&self) -> u64 {
        self.raw.raft.raft_log.last_index()
    }

    /// The commit index.
    pub fn committed(&self) -> u64 {
        self.raw.raft.raft_log.committed
    }

    /// The hard state as it was last handed out for persisting.
    pub fn hard_state(&self) -> HardState {
        HardState { commit: self.committed(), ..self.saved }
    }

    /// Puts `data` at the end of the leader's log.
    ///
    /// # Errors
    /// [`NotLeader`]: nothing was proposed.
    pub fn propose(&mut self, data: Vec<u8>) -> Result<Proposed, NotLeader> {
        let takes_part = self.raw.raft.prs().get(self.id.0).is_some();
        if !self.is_leader() || !takes_part || self.is_transferring() {
            return Err(NotLeader);
        }
        // All that the library's own verb does besides is to send itself a message about it.
        let entry = eraftpb::Entry { data: data.into(), ..Default::default() };
        if !self.raw.raft.append_entry(&mut [entry]) {
            return Err(NotLeader);
        }
        self.raw.raft.bcast_append();
        Ok(Proposed { index: self.last_index(), term: self.term() })
    }

    /// Whether its log holds this entry. If that is committed, so is all before it here.
    pub fn has(&self, index: u64, term: u64) -> bool {
        self.raw.raft.raft_log.match_term(index, term)
    }

    /// This entry, which its log [has](Self::has), is committed, as another replica has reported.
    pub fn commit(&mut self, index: u64) {
        self.raw.raft.raft_log.commit_to(index);
    }

    /// The work to do now, if there is any.
    pub fn ready(&mut self) -> Option<Work> {
        if !self.raw.has_ready() {
            return None;
        }
        let mut ready = self.raw.ready();
        let hard_state =
            ready.hs().map(|hs| HardState { term: hs.term, vote: hs.vote, commit: hs.commit });
        let changed =
            hard_state.filter(|hs| hs.term != self.saved.term || hs.vote != self.saved.vote);
        if let Some(hs) = changed {
            self.saved = hs;
        }
        let restored = (!ready.snapshot().is_empty()).then(|| {
            let metadata = ready.snapshot().get_metadata();
            let at = (metadata.index, metadata.term);
            let members = Members::from_library(metadata.get_conf_state());
            self.raw.mut_store().restore(at, members);
            at
        });
        self.raw.mut_store().append(ready.entries());
        let number = ready.number();
        let now = ready.take_messages();
        let owed = ready.take_persisted_messages();
        if !owed.is_empty() {
            self.owed.push_back((number, owed));
        }
        let entries = all_from_library(ready.take_entries());
        let committed = all_from_library(ready.take_committed_entries());
        self.raw.advance_append_async(ready);
        if restored.is_some() || !entries.is_empty() {
            self.unsynced = number;
        }
        if let Some((index, _)) = restored {
            self.restored = Some((number, index));
        }
        self.send(now);
        Some(Work { number, entries, hard_state: changed, committed, restored })
    }

    /// Reports that the work of this number, and all before it, is persisted as the shard demands.
    pub fn persisted(&mut self, number: u64) {
        self.raw.on_persist_ready(number);
        if let Some((_, index)) = self.restored.take_if(|(first, _)| *first <= number) {
            // Its state was installed before its head was stepped.
            self.raw.advance_apply_to(index);
        }
        if self.unsynced <= number {
            self.unsynced = 0;
        }
        while let Some((_, messages)) = self.owed.pop_front_if(|(first, _)| *first <= number) {
            self.send(messages);
        }
        self.campaign_if_pending();
    }

    /// Reports that the state machine has applied all entries up to `index`; they stay in memory
    /// only as far as other replicas may need them.
    pub fn applied(&mut self, index: u64) {
        self.raw.advance_apply_to(index);
        self.raw.mut_store().set_applied(index);
        self.campaign_if_pending();
        if self.members().is_sole(self.id) {
            return self.raw.mut_store().compact(index, 0);
        }
        let GroupLimits {
            retained_bytes,
            retained_for_followers_bytes,
            retained_for_active_followers_bytes,
            ..
        } = self.limits;
        // Up to where nobody needs them, and nobody who answers.
        let (mut by_none, mut by_lively) = (index, index);
        if self.is_leader() {
            let behind = self.raw.raft.prs().iter().filter(|(_, pr)| pr.matched < index);
            let is_lively =
                |id| self.lease.echoed(ReplicaId(id)) + RECENTLY_ACTIVE_NANOS > self.now;
            for (id, progress) in behind.filter(|(id, _)| **id != self.id.0) {
                by_none = by_none.min(progress.matched);
                if is_lively(*id) {
                    by_lively = by_lively.min(progress.matched);
                }
            }
        }
        let kept_max = self.retained_bytes_max;
        let store = self.raw.mut_store();
        store.compact(by_none, retained_bytes.min(kept_max));
        store.compact(by_lively, retained_for_followers_bytes.min(kept_max));
        store.compact(index, retained_for_active_followers_bytes.min(kept_max));
    }

    /// Bytes of the entries that it keeps in memory.
    pub fn retained_bytes(&self) -> usize {
        self.raw.store().retained_bytes()
    }

    /// Bounds the retained entries, in bytes, from the next entry on, below its other limits: a
    /// share of the node's budget.
    pub fn set_retained_bytes_max(&mut self, bytes: usize) {
        self.retained_bytes_max = bytes;
    }
}
