//! One replica of one group.

use keyspace::ReplicaId;
use raft::{Config, RawNode, StateRole};

use crate::entries::{Entries, Entry, from_library};

/// Sizes in bytes and ticks, as the library is told them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries per message to a peer.
    pub message_bytes_max: u64,
    /// Proposed and not committed. The lane holds its queue below this, so that the library never
    /// drops a proposal.
    pub uncommitted_bytes_max: u64,
    /// Committed entries handed out by one [`Group::ready`].
    pub committed_bytes_max: u64,
    /// Ticks between heartbeats.
    pub heartbeat_ticks: usize,
    /// Ticks without a leader before an election.
    pub election_ticks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 256 << 10,
            uncommitted_bytes_max: u64::MAX,
            committed_bytes_max: 16 << 20,
            heartbeat_ticks: 3,
            election_ticks: 12,
        }
    }
}

/// What must survive beside the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term seen.
    pub term: u64,
    /// The replica voted for in it, 0 if none.
    pub vote: u64,
    /// A lower bound of what is committed.
    pub commit: u64,
}

/// What a replica begins with: from a checkpoint and the log, or all zero for a new shard.
#[derive(Debug, Default)]
pub struct Start {
    /// As last persisted.
    pub hard_state: HardState,
    /// Index and term of the entry before the first of `entries`.
    pub before: (u64, u64),
    /// Entries in the log that are kept in memory.
    pub entries: Vec<Entry>,
    /// How far the state machine has applied: at least `before`, at most the commit index.
    pub applied: u64,
}

/// The place a proposal got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// Its index.
    pub index: u64,
    /// The proposer's term: another term at that index means that the proposal was replaced.
    pub term: u64,
}

/// This replica does not lead: nothing was proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeader;

/// What [`Group::ready`] asks of its caller.
#[derive(Debug)]
#[must_use = "dropping work loses entries"]
pub struct Work {
    /// To be told to [`Group::persisted`] when `entries` and `hard_state` are persisted.
    pub number: u64,
    /// To be persisted, in this order.
    pub entries: Vec<Entry>,
    /// To be persisted and fsynced at every durability: term or vote have changed (SAFETY G9).
    pub hard_state: Option<HardState>,
    /// To be applied, in this order.
    pub committed: Vec<Entry>,
}

/// One replica of one group.
pub struct Group {
    raw: RawNode<Entries>,
    saved: HardState,
}

impl Group {
    /// A replica with its voters, from what it has persisted.
    ///
    /// # Panics
    /// If `start` contradicts itself: the caller has checked what it read from disk.
    pub fn new(replica: ReplicaId, voters: &[ReplicaId], start: Start, limits: &Limits) -> Self {
        assert!(start.before.0 <= start.applied, "state older than the log's beginning");
        assert!(start.applied <= start.hard_state.commit, "applied what was not committed");
        let config = Config {
            id: replica.0,
            applied: start.applied,
            election_tick: limits.election_ticks,
            heartbeat_tick: limits.heartbeat_ticks,
            max_size_per_msg: limits.message_bytes_max,
            max_uncommitted_size: limits.uncommitted_bytes_max,
            max_committed_size_per_ready: limits.committed_bytes_max,
            check_quorum: true,
            pre_vote: true,
            batch_append: true,
            ..Config::default()
        };
        let saved = start.hard_state;
        let entries = Entries::new(start, voters.iter().map(|v| v.0).collect());
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, entries, &logger)
            .expect("the configuration is constant and the start state was checked above");
        Self { raw, saved }
    }

    /// Stands for election. A sole voter wins at once.
    pub fn campaign(&mut self) {
        self.raw.campaign().expect("campaign fails only on a broken store, and ours is memory");
    }

    /// Lets one tick pass.
    pub fn tick(&mut self) {
        self.raw.tick();
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
        if !self.is_leader() {
            return Err(NotLeader);
        }
        match self.raw.propose(Vec::new(), data) {
            Ok(()) => Ok(Proposed { index: self.last_index(), term: self.term() }),
            Err(raft::Error::ProposalDropped) => Err(NotLeader),
            Err(error) => {
                panic!("propose fails only on a broken store, and ours is memory: {error}")
            }
        }
    }

    /// What is to be done now, if anything.
    pub fn ready(&mut self) -> Option<Work> {
        if !self.raw.has_ready() {
            return None;
        }
        let mut ready = self.raw.ready();
        assert!(ready.messages().is_empty(), "a sole voter has nobody to send to");
        assert!(ready.persisted_messages().is_empty(), "a sole voter has nobody to send to");
        assert!(ready.snapshot().is_empty(), "nobody sends snapshots to a sole voter");
        let hard_state =
            ready.hs().map(|hs| HardState { term: hs.term, vote: hs.vote, commit: hs.commit });
        let changed =
            hard_state.filter(|hs| hs.term != self.saved.term || hs.vote != self.saved.vote);
        if let Some(hs) = changed {
            self.saved = hs;
        }
        self.raw.mut_store().append(ready.entries());
        let entries = ready.take_entries().into_iter().map(from_library).collect();
        let committed = ready.take_committed_entries().into_iter().map(from_library).collect();
        let number = ready.number();
        self.raw.advance_append_async(ready);
        Some(Work { number, entries, hard_state: changed, committed })
    }

    /// The work of this number, and all before it, is persisted as far as the shard demands.
    pub fn persisted(&mut self, number: u64) {
        self.raw.on_persist_ready(number);
    }

    /// The state machine has applied everything up to `index`; entries up to there are no longer
    /// needed in memory.
    pub fn applied(&mut self, index: u64) {
        self.raw.advance_apply_to(index);
        self.raw.mut_store().compact(index);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn sole() -> Group {
        Group::new(ReplicaId(1), &[ReplicaId(1)], Start::default(), &Limits::default())
    }

    fn settle(group: &mut Group, applied: &mut Vec<Bytes>) {
        while let Some(work) = group.ready() {
            if let Some(last) = work.committed.last().map(|e| e.index) {
                applied.extend(work.committed.into_iter().map(|e| e.data));
                group.applied(last);
            }
            group.persisted(work.number);
        }
    }

    #[test]
    fn a_sole_voter_leads_and_commits_what_it_persisted() {
        let mut group = sole();
        assert_eq!(group.propose(vec![1]), Err(NotLeader));
        group.campaign();
        let mut applied = Vec::new();
        settle(&mut group, &mut applied);
        assert_eq!(group.propose(b"a".to_vec()), Ok(Proposed { index: 2, term: 1 }));
        let work = group.ready().expect("an entry to persist");
        assert!(work.committed.is_empty(), "committed before it was persisted");
        assert_eq!(work.entries.len(), 1);
        // A second proposal while the first is on its way to the disk.
        group.propose(b"b".to_vec()).expect("leads");
        group.persisted(work.number);
        settle(&mut group, &mut applied);
        assert_eq!(applied, [Bytes::new(), Bytes::from("a"), Bytes::from("b")]);
    }

    #[test]
    fn restarts_from_a_checkpoint_and_a_log() {
        let start = Start {
            hard_state: HardState { term: 3, vote: 1, commit: 7 },
            before: (7, 2),
            entries: vec![Entry { index: 8, term: 3, data: Bytes::from("x") }],
            applied: 7,
        };
        let mut group = Group::new(ReplicaId(1), &[ReplicaId(1)], start, &Limits::default());
        group.campaign();
        let mut applied = Vec::new();
        settle(&mut group, &mut applied);
        assert_eq!(applied, [Bytes::from("x"), Bytes::new()]);
        assert_eq!(group.term(), 4);
        assert_eq!(group.hard_state(), HardState { term: 4, vote: 1, commit: 9 });
    }
}
