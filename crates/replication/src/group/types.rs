//! Inputs and outputs of a group's verbs.

use keyspace::ReplicaId;

use crate::BootNanos;
use crate::entries::Entry;

/// The state that must survive beside the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term seen.
    pub term: u64,
    /// The replica voted for in it, 0 if none.
    pub vote: u64,
    /// A lower bound of the commit index.
    pub commit: u64,
}

/// The state with which a replica starts: from a checkpoint and the log, or all zero for a new
/// shard.
#[derive(Debug, Default)]
pub struct StartState {
    /// As last persisted.
    pub hard_state: HardState,
    /// Index and term of the entry before the first of `entries`.
    pub before: (u64, u64),
    /// Entries in the log that stay in memory.
    pub entries: Vec<Entry>,
    /// How far the state machine has applied: at least `before`, at most the commit index.
    pub applied: u64,
}

/// Time and random seed with which a replica starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartContext {
    /// The node's clock now.
    pub now: BootNanos,
    /// When its process began, or a little later: the replica may have forgotten earlier promises.
    pub started: BootNanos,
    /// Chooses election time-outs. Equal seeds, equal elections.
    pub seed: u64,
}

/// The place of a proposal in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// Its index.
    pub index: u64,
    /// The proposer's term: another term at that index means that the proposal was replaced.
    pub term: u64,
}

/// The progress of a replica, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its id.
    pub replica: ReplicaId,
    /// The index up to which its log is known to agree with the leader's.
    pub matched: u64,
    /// The leader's clock when it last sent something that this replica has answered since; 0:
    /// never in this term, or it is the leader itself.
    pub echoed: BootNanos,
    /// Whether a snapshot is on its way to it: it gets no entries meanwhile.
    pub awaits_snapshot: bool,
}

impl Follower {
    /// How many entries it lacks of a log that ends at `last_index`. `None` if it has not answered
    /// since this leader was elected.
    pub fn behind(&self, last_index: u64) -> Option<u64> {
        let is_heard = self.echoed > 0 || self.matched > 0;
        is_heard.then(|| last_index.saturating_sub(self.matched))
    }
}

/// This replica does not lead, or is transferring the lead: nothing was proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeader;

/// Why a change of members was not proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    /// This replica does not lead.
    NotLeader,
    /// Another change is proposed and not applied.
    Pending,
    /// It does not fit the members: a joint group must leave the joint state first, and only a
    /// joint group can leave it.
    WrongJointState,
}

/// What [`Group::ready`](super::Group::ready) asks of its caller.
#[derive(Debug)]
#[must_use = "dropping work loses entries"]
pub struct Work {
    /// The number for [`Group::persisted`](super::Group::persisted) when `entries` and `hard_state`
    /// are persisted.
    pub number: u64,
    /// To be persisted, in this order.
    pub entries: Vec<Entry>,
    /// To be persisted and fsynced at every durability: term or vote have changed (SAFETY G9).
    pub hard_state: Option<HardState>,
    /// To be applied, in this order.
    pub committed: Vec<Entry>,
    /// Index and term of a snapshot that took the place of all entries; its state is installed
    /// already.
    pub restored: Option<(u64, u64)>,
}
