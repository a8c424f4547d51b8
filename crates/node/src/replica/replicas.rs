//! A shard's traffic with its other replicas.
//!
//! ```text
//!   message, tick ──► group ──► messages, each with the node its replica is on
//!   Exchange ──► learners ──(near the end of the log)──► joint ──(applied)──► left ──► settled
//!   a leader that goes ──► hands over while joint
//!   settled ──► the node's table no longer names removed replicas ──► they end
//!   "I am quarantined" ──► a learner in its place ──► joint: it votes, the old one goes
//!   a replica without state ──► messages to it carry the shard's bootstrap
//!   the head of a snapshot ──► the driver sends the state beside it; the other side installs it
//! ```
//!
//! The leader takes the next step of a change, whichever node began it (SAFETY G20).

use std::cmp::Reverse;
use std::sync::Arc;

use command::NotDone;
use hlc::Clock;
use keyspace::descriptor::REPLICAS_MAX;
use keyspace::{Generation, NodeId, ReplicaId};
use overlay::KnownShard;
use replication::{BootNanos, Change, Follower, HardState, Message, RejectedMessage};

use super::leading::Leading;
use super::{Asker, InFlight, Replica};
use crate::executor::{Effects, Envelope, RoundContext};
use crate::recovery::encode_meta;
use crate::replica::catalogue;
use crate::replica::entry::{Kind, operation};
use crate::replica::members::ChangeStep;
use crate::replica::state::{BEFORE_FIRST_ENTRY, Content, ShardState};

/// Who has not answered for so long may not even know that it is there: its disk may have lost its
/// beginning.
const SILENT_NANOS: u64 = 2_000_000_000;

/// Who has answered within so long may take the lead.
const RECENTLY_ACTIVE_NANOS: u64 = 500_000_000;

/// How many entries a learner may lack to be near enough the end of the log to vote.
const NEAR: u64 = 1024;

/// Which replicas have a shard's log on disk up to an index, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The index. What stands there is committed.
    pub index: u64,
    /// So many replicas beside the leader's have it.
    pub others: u64,
    /// Whether the replica on the asker's node, if any, has it: the leader's, if that asks.
    pub is_here: bool,
}

impl Replica {
    /// Tells the replica on a node, now, what is committed: somebody there waits for it.
    pub(super) fn send_commit_index(&mut self, node: NodeId) {
        let replica = {
            let replicas = &self.state.read().descriptor.replicas;
            replicas.iter().find(|(_, at)| *at == node).map(|(replica, _)| *replica)
        };
        if let Some(replica) = replica {
            self.group.send_commit_index(replica);
        }
    }

    /// Which replica it is.
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// The node of the leader, if it is known.
    pub fn leader(&self) -> Option<NodeId> {
        let leader = self.group.leader()?;
        let node = self.state.read().descriptor.node_of(leader);
        node.or_else(|| node_in(&self.links.heard, leader))
    }

    /// A replica speaks, from this node.
    pub(crate) fn hears(&mut self, replica: ReplicaId, node: NodeId) {
        if self.links.heard.contains(&(replica, node)) {
            return;
        }
        self.links.heard.retain(|(other, _)| *other != replica);
        if self.links.heard.len() == REPLICAS_MAX {
            self.links.heard.remove(0);
        }
        self.links.heard.push((replica, node));
    }

    /// Whether it leads, and knows all that was ever committed.
    pub fn is_leader(&self) -> bool {
        self.leads()
    }

    /// Whether it is handing leadership over: it proposes nothing until that is done or fails.
    pub fn is_handing_over(&self) -> bool {
        self.group.is_transferring()
    }

    /// Whether its group has elected it. It may not know all committed entries yet.
    pub fn is_elected(&self) -> bool {
        self.group.is_leader()
    }

    /// The term it is in, and the index up to where it knows entries to be committed.
    pub fn term_and_commit(&self) -> (u64, u64) {
        (self.group.term(), self.group.committed())
    }

    /// Which replicas have the entries up to `index` durably. Only a leader knows. `from` is the
    /// asking node, or `None` for this one. Index 0 means what is applied here: all that was
    /// acknowledged before. For another node that takes a lease, as that node may have heard from a
    /// later leader.
    pub fn count(&self, index: u64, from: Option<NodeId>, now: BootNanos) -> Option<Count> {
        let is_sure = index > 0 || from.is_none() || self.is_sole();
        if !self.leads() || index > self.applied || !(is_sure || now < self.group.lease_until()) {
            return None;
        }
        let index = if index == 0 { self.applied } else { index };
        let asker = match from {
            None => Some(self.replica),
            Some(node) => self.state.read().descriptor.replica_on(node),
        };
        let mut has = self.group.progress();
        has.retain(|(replica, matched)| {
            *matched >= index && !self.leading.broken.contains(replica)
        });
        let others = has.iter().filter(|(replica, _)| *replica != self.replica).count() as u64;
        let is_here = has.iter().any(|(replica, _)| Some(*replica) == asker);
        Some(Count { index, others, is_here })
    }

    /// The index up to which its state holds the log.
    pub fn applied_index(&self) -> u64 {
        self.applied
    }

    /// Time passes. Whether there is anything to do about it.
    pub(crate) fn tick(&mut self, now: BootNanos) -> bool {
        self.group.tick(now)
    }

    /// Handles what another replica says, if it only says that all is as it was; only while this
    /// one has nothing to do. `false`: it is to be stepped.
    pub(crate) fn rest(
        &mut self,
        message: &Message,
        now: BootNanos,
        effects: &mut Effects,
    ) -> bool {
        if self.active || !self.group.rest(message, now) {
            return false;
        }
        self.publish();
        self.send(now, effects);
        true
    }

    /// Handles what another replica says.
    ///
    /// # Errors
    /// [`RejectedMessage`]; nothing has changed.
    pub(crate) fn step(&mut self, message: Message, now: BootNanos) -> Result<(), RejectedMessage> {
        self.group.step(message, now)
    }

    /// Bytes of entries that it keeps in memory for other replicas.
    pub fn retained_bytes(&self) -> usize {
        self.group.retained_bytes()
    }

    pub(crate) fn set_retained_bytes_max(&mut self, bytes: usize) {
        self.group.set_retained_bytes_max(bytes);
    }

    /// Replicas that could take over, if this one leads and no change is under way: voters on nodes
    /// that `may` allows, the longest log first.
    pub fn transfer_targets(&self, may: impl Fn(NodeId) -> bool) -> Vec<ReplicaId> {
        if !self.leads() || self.group.is_transferring() || self.group.members().is_joint() {
            return Vec::new();
        }
        let near = self.group.last_index().saturating_sub(NEAR);
        let state = self.state.read();
        let fits = |replica: ReplicaId| {
            let node = state.descriptor.node_of(replica);
            let is_broken = replica == self.replica || self.leading.broken.contains(&replica);
            !is_broken && state.members.votes(replica) && node.is_some_and(&may)
        };
        let mut targets = self.group.progress();
        targets.retain(|(replica, matched)| fits(*replica) && *matched >= near);
        targets.sort_by_key(|(_, matched)| std::cmp::Reverse(*matched));
        targets.into_iter().map(|(replica, _)| replica).collect()
    }

    /// Hands leadership over, if it leads.
    pub(crate) fn transfer(&mut self, target: ReplicaId) {
        self.group.transfer(target);
    }

    /// Whether the snapshot with this head should replace the local state.
    pub fn wants(&self, head: &Message) -> bool {
        self.group.wants(head)
    }

    /// The head of a checkpoint of `state`, which came from another replica, for this one.
    pub fn meta_of(&self, state: &ShardState) -> Vec<u8> {
        let hard_state = HardState { commit: state.applied_index, ..self.group.hard_state() };
        encode_meta(state, self.replica, hard_state)
    }

    /// A snapshot's state is on disk, and takes the place of what is here.
    pub(crate) fn install(
        &mut self,
        head: Message,
        state: ShardState,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        if !self.group.wants(&head) {
            return;
        }
        let snapshot = head.snapshot();
        assert_eq!(snapshot, Some((state.applied_index, state.applied_term)), "its own head");
        // What it had proposed up to there is lost in the state, if it is there at all. What it had
        // proposed behind may yet come.
        while let Some(lost) = self.in_flight.pop_front_if(|f| f.index <= state.applied_index) {
            self.refuse(lost.asker, NotDone::OutcomeUnknown, effects);
        }
        self.outlive(state.applied_term, effects);
        self.promise.clear();
        self.applied = state.applied_index;
        self.is_settled = state.roster.is_settled;
        {
            let mut view = self.state.write();
            let (serving, unsettled) = (view.serving.clone(), view.unsettled.clone());
            let (installed, cuts) = (view.installed + 1, view.cuts);
            let mut locks = state.locks;
            locks.succeed(&view.locks);
            *view = ShardState { serving, unsettled, installed, cuts, locks, ..state };
        }
        if let Content::System(system) = &self.state.read().content {
            // Nobody announces the changes that the snapshot has jumped over.
            effects.changes.push(catalogue::Change::Replaced(Arc::new(system.catalogue.clone())));
        }
        self.locks_changed(self.applied);
        self.published.is_stale = true;
        self.forget_halted();
        if let Err(refused) = self.group.step(head, now) {
            unreachable!("its head was found sound: {refused}");
        }
    }

    /// Answers who sent a snapshot that is of no use here.
    pub(crate) fn decline(&mut self, head: Message, now: BootNanos) {
        if !self.group.wants(&head) {
            // If it makes no sense, there is nobody to answer.
            let _refused = self.group.step(head, now);
        }
    }

    /// The snapshot that was on its way to a replica has not arrived.
    pub(crate) fn snapshot_lost(&mut self, to: ReplicaId) {
        self.group.snapshot_sent(to, false);
    }

    /// Gives it new replicas on these nodes, and lets others go for them, if it leads, is still as
    /// who asks knows it, and no change is under way.
    pub(crate) fn exchange(
        &mut self,
        generation: Generation,
        add: Vec<NodeId>,
        remove: Vec<ReplicaId>,
        now: BootNanos,
        clock: &Clock,
    ) {
        let step = {
            let state = self.state.read();
            let ShardState { descriptor, members, roster, .. } = &*state;
            let all = members.all();
            let is_known = descriptor.generation == generation
                && remove.iter().all(|replica| all.contains(replica))
                && add.iter().all(|node| descriptor.replica_on(*node).is_none())
                && add.iter().enumerate().all(|(at, node)| !add[..at].contains(node))
                && all.len() + add.len() <= REPLICAS_MAX;
            let stay = members.voters.iter().any(|voter| !remove.contains(voter));
            let is_idle = roster.is_settled && (members.learners.is_empty() || add.is_empty());
            if !self.leads()
                || self.keeps_replicas()
                || !is_known
                || !is_idle
                || (add.is_empty() && !stay)
            {
                return;
            }
            // Called off are all that do not vote yet, so that it never rests at an even number.
            let mut remove = remove;
            if add.is_empty() && !remove.is_empty() {
                remove.extend_from_slice(&members.learners);
                remove.sort_unstable();
                remove.dedup();
            }
            let new: Vec<_> = (roster.newest.0 + 1..).map(ReplicaId).zip(add).collect();
            match (new.is_empty(), remove.is_empty()) {
                (true, true) => return,
                (true, false) => ChangeStep::of(Change::EnterJoint { promote: Vec::new(), remove }),
                (false, _) => ChangeStep::exchange(new, remove),
            }
        };
        self.propose_step(&step, now, clock);
    }

    /// Whether its group has gone on without it, as a table knows.
    pub(crate) fn is_out(&self, known: &KnownShard) -> bool {
        let here = self.state.read().descriptor.generation;
        known.generation() > here && known.descriptor().node_of(self.replica).is_none()
    }

    /// A replica on `node` has announced that it is quarantined.
    pub(super) fn lacks(&mut self, replica: ReplicaId, node: NodeId) {
        let is_there = self.state.read().descriptor.node_of(replica) == Some(node);
        if self.leads() && is_there {
            self.leading.broken.insert(replica);
        }
    }

    /// Replicas that take no part any more, and are still among the members, as far as it knows.
    pub(super) fn quarantined_members(&self) -> Vec<ReplicaId> {
        if !self.leads() {
            return Vec::new();
        }
        let descriptor = &self.state.read().descriptor;
        let mut missed = self.group.members().all();
        let is_placed = |replica| descriptor.node_of(replica).is_some();
        missed.retain(|replica| !is_placed(*replica) || self.leading.broken.contains(replica));
        missed
    }

    /// A new replica for the place of each that is broken.
    fn replacement(&mut self) -> Option<ChangeStep> {
        if self.leading.broken.is_empty() {
            return None;
        }
        let state = self.state.read();
        let replicas = &state.descriptor.replicas;
        self.leading.broken.retain(|broken| replicas.iter().any(|(replica, _)| replica == broken));
        let nodes =
            self.leading.broken.iter().filter_map(|broken| state.descriptor.node_of(*broken));
        let new: Vec<_> = (state.roster.newest.0 + 1..).map(ReplicaId).zip(nodes).collect();
        (!new.is_empty()).then(|| ChangeStep::add(new))
    }

    /// Takes the next step of a change that is under way.
    pub(super) fn change_members(&mut self, now: BootNanos, clock: &Clock) {
        if !self.leads() {
            self.leading.broken.clear();
            return;
        }
        if self.keeps_replicas() {
            return;
        }
        let is_joint = self.group.members().is_joint();
        if !is_joint && !self.is_settled {
            return self.settle(now, clock);
        }
        if !is_joint && let Some(step) = self.replacement() {
            return self.propose_step(&step, now, clock);
        }
        if is_joint || !self.group.members().learners.is_empty() {
            self.advance_change(now, clock);
        }
    }

    /// Proposes the entry that ends the newest change. A replica that has this entry on disk also
    /// has the end of the joint state on disk, and so has a majority of the voters that stay.
    #[inline(never)]
    fn settle(&mut self, now: BootNanos, clock: &Clock) {
        let asked = (self.group.term(), self.state.read().descriptor.generation);
        if self.leading.settle_requested == Some(asked) || self.group.is_transferring() {
            return;
        }
        self.leading.settle_requested = Some(asked);
        let index = self.group.last_index() + 1;
        let mut bytes = operation(&[]);
        let term = self.stamp(clock, index, Kind::Settle, 1, &mut bytes);
        let place = self.group.propose(bytes);
        assert!(
            place.is_ok_and(|place| place.index == index),
            "a leader's proposal takes the next index"
        );
        self.in_flight.push_back(InFlight { index, term, since: now, asker: Asker::Nobody });
    }

    /// Who goes does not end what it is to leave: who stays does, and leads then.
    #[inline(never)]
    fn transfer_before_leaving(&mut self, now: BootNanos) {
        if self.group.is_transferring() {
            return;
        }
        let members = self.group.members().clone();
        let is_lively = |follower: &Follower| follower.echoed + RECENTLY_ACTIVE_NANOS > now;
        let mut targets = self.group.followers();
        targets.retain(|follower| members.voters.contains(&follower.replica));
        targets.sort_by_key(|follower| (!is_lively(follower), Reverse(follower.matched)));
        if let Some(target) = targets.first() {
            self.group.transfer(target.replica);
        }
    }

    #[inline(never)]
    fn advance_change(&mut self, now: BootNanos, clock: &Clock) {
        let members = self.group.members();
        if members.is_joint() {
            return match members.voters.contains(&self.replica) {
                true => self.propose_step(&ChangeStep::of(Change::LeaveJoint), now, clock),
                false => self.transfer_before_leaving(now),
            };
        }
        let mut remove = members.all();
        {
            // Others have taken the place of some, or will.
            let ShardState { descriptor, roster, .. } = &*self.state.read();
            let goes = |replica| roster.leaving.contains(&replica);
            remove.retain(|replica| descriptor.node_of(*replica).is_none() || goes(*replica));
        }
        let mut promote = members.learners.clone();
        promote.retain(|replica| !remove.contains(replica));
        let end = self.group.last_index().saturating_sub(NEAR);
        // … and is there.
        let silent = now.saturating_sub(SILENT_NANOS);
        let near = |(replica, index): &(ReplicaId, u64)| {
            let is_there = || *index >= end && !self.group.is_fresh(*replica, silent);
            !promote.contains(replica) || is_there()
        };
        // All together, so that the group never rests at an even number (SAFETY G20).
        if self.group.progress().iter().all(near) {
            let enter = Change::EnterJoint { promote, remove };
            self.propose_step(&ChangeStep::of(enter), now, clock);
        }
    }

    #[inline(never)]
    fn propose_step(&mut self, step: &ChangeStep, now: BootNanos, clock: &Clock) {
        let index = self.group.last_index() + 1;
        if self.group.may_change(&step.change).is_err() {
            return;
        }
        let mut bytes = operation(&step.encode());
        let term = self.stamp(clock, index, Kind::Members, 1, &mut bytes);
        let place = self.group.propose_change(&step.change, bytes);
        assert!(
            place.is_ok_and(|place| place.index == index),
            "the group may change its members: may_change was asked"
        );
        self.in_flight.push_back(InFlight { index, term, since: now, asker: Asker::Nobody });
    }

    /// Without the lead: what is asked is for who has it.
    #[inline(never)]
    pub(super) fn follow(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if self.leading.opened_term != 0 {
            // What was told here to have ended lay below both.
            self.serving.raise_floor(turn.clock.now().min(self.state.read().horizon));
            self.leading = Leading::default();
            self.forget_steps();
            self.promise.clear();
        }
        // Alone, or elected already: it is a matter of its own disk.
        if self.is_sole() || self.group.is_leader() {
            return;
        }
        self.hand_over(turn, effects);
    }

    /// Puts messages on their way.
    pub(super) fn send(&mut self, now: BootNanos, effects: &mut Effects) {
        self.group.take_messages(&mut self.links.outbox);
        if !self.links.outbox.is_empty() {
            self.send_outbox(now, effects);
        }
    }

    #[inline(never)]
    fn send_outbox(&mut self, now: BootNanos, effects: &mut Effects) {
        let state = self.state.read();
        let leads = self.group.is_leader();
        let is_newborn = self.group.last_index() == BEFORE_FIRST_ENTRY.0;
        for message in self.links.outbox.drain(..) {
            let to = message.to();
            // Its own log may not have come to where a replica was added.
            let node = state.descriptor.node_of(to).or_else(|| node_in(&self.links.heard, to));
            let Some(node) = node else { continue };
            let is_fresh = match leads {
                true => self.group.is_fresh(to, now.saturating_sub(SILENT_NANOS)),
                // Those who are to vote may not have heard of the shard yet.
                false => is_newborn && state.members.all().contains(&to),
            };
            let bootstrap = is_fresh.then(|| state.bootstrap_record());
            effects.messages.push(Envelope { shard: self.id, node, bootstrap, message });
        }
    }
}

fn node_in(heard: &[(ReplicaId, NodeId)], replica: ReplicaId) -> Option<NodeId> {
    heard.iter().find(|(other, _)| *other == replica).map(|(_, node)| *node)
}
