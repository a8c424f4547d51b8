//! Recovery: from what is on disk to shards that can be stepped.
//!
//! ```text
//!   checkpoint of a shard ──► RecoveringReplica ──► entries of the log ──► ReplicaStart
//!        (or its bootstrap record in the log)
//! ```
//!
//! Each shard recovers by itself, so that a driver may use several threads. A sole voter's log
//! holds nothing that is not committed, so entries are applied as they are read and memory stays
//! bounded. With more voters, entries above the recorded commit index wait here for the group;
//! the index is recorded every so many bytes.
//!
//! Invariants: entries are applied without gaps; entries at or below the checkpoint's index are
//! passed over; of two entries at one index that are not applied, the later one in the log counts,
//! and those behind the first are gone; whatever contradicts this is an error that names the
//! shard, never a guess. What was replaced before it was applied may be there in part: the log is
//! cut where it is not needed any more. So entries behind a gap are passed over, and the gap is an
//! error if nothing takes their place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use command::Fence;
use keyspace::codec::{DecodeError, Reader};
use keyspace::{Durability, NodeId, ReplicaId, ShardId, Timestamp};
use parking_lot::RwLock;
use replication::{Entry, HardState, StartState};
use storage::engine::Settings;
use storage::log::{Lsn, Record};

use crate::executor::{EndedReplica, decode_merged};
use crate::replica::catalogue::System;
use crate::replica::entry::{Header, Kind, UnknownEntry};
use crate::replica::members::{self, Roster};
use crate::replica::record;
use crate::replica::state::{Content, Outcome, ShardState};
use crate::replica::{ReplicaStart, RightHalfStart, SafePoint};
use crate::reshape::merge::{Absorb, MergeStatus};
use crate::reshape::split::Half;
use crate::routing::session::Sessions;
use txn::locks::Locks;

pub mod checkpoint;
mod log_evidence;
mod merge;
pub mod quorum_loss;
mod recovered;
mod replay;
pub mod rewrite_times;

pub use log_evidence::LogEvidence;
pub use replay::{Replay, ReplayResult};

/// Why the directory cannot be used as it is. Nothing was changed on disk.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The storage below refused.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// A record or checkpoint passed its checksum and cannot be read: it was written by another
    /// version, or by a bug.
    #[error("shard {shard}: {what} cannot be read: {source}")]
    Unreadable {
        /// Whose.
        shard: ShardId,
        /// What.
        what: &'static str,
        /// Why.
        source: DecodeError,
    },
    /// An entry that a newer version has written.
    #[error(transparent)]
    Unknown(#[from] UnknownEntry),
    /// Entries are missing between the checkpoint, or the last entry read, and the next.
    #[error(
        "shard {shard}: the log goes on at entry {found}, but entry {expected} is missing. A file \
         was lost or replaced: restore the directory from a backup"
    )]
    Gap {
        /// Whose.
        shard: ShardId,
        /// The next index that was needed.
        expected: u64,
        /// The index that was found.
        found: u64,
    },
    /// The log ends before entries that were durable in it.
    #[error(
        "shard {shard}: its checkpoint holds entry {expected}, which was durable in the log, but \
         the log ends behind entry {found}: the end of the log is damaged, and acknowledged \
         writes are missing. Restore the directory from a backup, or, if other nodes have \
         replicas, start on an empty directory with --join"
    )]
    CutShort {
        /// Whose.
        shard: ShardId,
        /// The newest entry of the checkpoint.
        expected: u64,
        /// The last one in the log.
        found: u64,
    },
    /// Records of a shard of which neither a checkpoint nor its beginning is there.
    #[error(
        "shard {shard}: its beginning is neither in a checkpoint nor in the log. A file was lost \
         or replaced: restore the directory from a backup"
    )]
    NoBeginning {
        /// Whose.
        shard: ShardId,
    },
}

/// A shard on its way back.
pub struct RecoveringReplica {
    shard: ShardId,
    replica: ReplicaId,
    state: ShardState,
    hard_state: HardState,
    /// As it was before anything of the log was read.
    first_hard_state: HardState,
    /// Whether a checkpoint's first block is to come.
    sessions_due: bool,
    /// Entries that may not be applied yet, and where the first of them stands.
    pending: VecDeque<Entry>,
    pending_from: Option<Lsn>,
    gap: Option<Gap>,
    /// Right halves that were cut off from it, and of which nothing has been read yet.
    halves: BTreeMap<ShardId, Box<ShardState>>,
    /// The left half, if it has begun as a right one behind the newest checkpoint.
    left: Option<ShardId>,
    /// What is at hand before it can go on.
    waits_for: Option<Absorb>,
}

/// Entries are missing, and nothing has taken their place yet.
#[derive(Clone, Copy)]
struct Gap {
    /// The first of them.
    expected: u64,
    /// The one behind them.
    found: u64,
}

impl RecoveringReplica {
    /// From its bootstrap record: the replica that it had on this node.
    ///
    /// # Errors
    /// [`RecoverError::Unreadable`].
    pub fn created(
        shard: ShardId,
        node: NodeId,
        payload: &[u8],
        settings: impl Into<Settings>,
    ) -> Result<Self, RecoverError> {
        let state = ShardState::created(payload, settings)
            .map_err(|source| unreadable(shard, "its bootstrap record", source))?;
        let replica = state.descriptor.replica_on(node).ok_or_else(|| {
            let source = DecodeError::Field { what: "replicas: none is of this node" };
            unreadable(shard, "its bootstrap record", source)
        })?;
        Ok(Self::of(shard, replica, state, HardState::default()))
    }

    /// A replica that was waiting for its first snapshot.
    ///
    /// # Errors
    /// [`RecoverError::Unreadable`].
    pub fn awaiting(
        shard: ShardId,
        payload: &[u8],
        settings: impl Into<Settings>,
    ) -> Result<Self, RecoverError> {
        let read = || {
            let mut reader = Reader::new(payload);
            let replica = ReplicaId(reader.u64()?);
            Ok((replica, ShardState::awaiting(reader.rest(), settings)?))
        };
        let (replica, state) =
            read().map_err(|source| unreadable(shard, "a replica's bootstrap record", source))?;
        Ok(Self::of(shard, replica, state, HardState::default()))
    }

    fn of(shard: ShardId, replica: ReplicaId, state: ShardState, hard_state: HardState) -> Self {
        Self {
            shard,
            replica,
            state,
            hard_state,
            first_hard_state: hard_state,
            sessions_due: false,
            pending: VecDeque::new(),
            pending_from: None,
            gap: None,
            halves: BTreeMap::new(),
            left: None,
            waits_for: None,
        }
    }

    /// From the head of a checkpoint; its blocks follow by [`Self::restore`].
    ///
    /// # Errors
    /// [`RecoverError::Unreadable`].
    pub fn from_checkpoint(
        shard: ShardId,
        meta: &[u8],
        settings: impl Into<Settings>,
    ) -> Result<Self, RecoverError> {
        Self::decode_meta(shard, meta, settings.into())
            .map_err(|source| unreadable(shard, "the head of its checkpoint", source))
    }

    fn decode_meta(shard: ShardId, meta: &[u8], settings: Settings) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(meta);
        let bootstrap = reader.bytes()?;
        let mut state = ShardState::created(bootstrap, settings)?;
        state.applied_index = reader.u64()?;
        state.applied_term = reader.u64()?;
        state.horizon = Timestamp(reader.u64()?);
        state.last = Timestamp(reader.u64()?);
        let hard_state =
            HardState { term: reader.u64()?, vote: reader.u64()?, commit: reader.u64()? };
        let safe_point = Timestamp(reader.u64()?);
        let replica = ReplicaId(reader.u64()?);
        state.members = members::decode(&mut reader)?;
        state.roster = Roster::decode(&mut reader)?;
        let pins = match reader.rest().first() {
            Some(&PINS) => {
                reader.u8()?;
                SafePoint::decode_pins(&mut reader)?
            }
            _ => Box::default(),
        };
        if let Some(&FENCE) = reader.rest().first() {
            reader.u8()?;
            state.fence = Fence::decode(&mut reader)?;
        }
        state.merging = MergeStatus::decode(&mut reader)?;
        reader.end()?;
        if let Some(engine) = state.engine_mut() {
            engine.raise(safe_point, &pins);
        }
        let sessions_due = state.engine().is_some();
        Ok(Self { sessions_due, ..Self::of(shard, replica, state, hard_state) })
    }

    /// Takes one block of the checkpoint.
    ///
    /// # Errors
    /// [`RecoverError::Unreadable`].
    pub fn restore(&mut self, block: &[u8]) -> Result<(), RecoverError> {
        let what = "a block of its checkpoint";
        let shard = self.shard;
        if std::mem::take(&mut self.sessions_due) {
            let mut reader = Reader::new(block);
            let read = |reader: &mut Reader<'_>| {
                let sessions = Sessions::decode(reader)?;
                // Checkpoints from before there were any, and most others, have none.
                let locks = match reader.rest().is_empty() {
                    true => Locks::default(),
                    false => Locks::decode(reader)?,
                };
                reader.end().map(|()| (sessions, locks))
            };
            let read = read(&mut reader).map_err(|source| unreadable(shard, what, source))?;
            (self.state.sessions, self.state.locks) = read;
            return Ok(());
        }
        match &mut self.state.content {
            Content::Keys(engine) => engine
                .restore(block)
                .map_err(|_| unreadable(shard, what, DecodeError::Field { what: "version" })),
            Content::System(system) => {
                *system =
                    System::decode(block).map_err(|source| unreadable(shard, what, source))?;
                Ok(())
            }
        }
    }

    /// What was read of the log is of a replica that was here before this one. What of it was
    /// applied was committed, and so is the same for both.
    fn forget_log(&mut self) {
        (self.pending, self.pending_from, self.gap) = (VecDeque::new(), None, None);
        let commit = self.first_hard_state.commit.max(self.state.applied_index);
        self.hard_state = HardState { commit, ..self.first_hard_state };
    }

    /// Takes the shard's next record of the log.
    ///
    /// # Errors
    /// [`RecoverError::Unreadable`], [`RecoverError::Unknown`].
    pub fn record(&mut self, lsn: Lsn, kind: u8, payload: &[u8]) -> Result<(), RecoverError> {
        let field = |what| DecodeError::Field { what };
        match kind {
            record::ENTRY => {
                let (index, term, data) = record::split_entry(payload)
                    .ok_or_else(|| unreadable(self.shard, "an entry", field("prefix")))?;
                UnknownEntry::of(self.shard, index, data).map_or(Ok(()), Err)?;
                self.entry(lsn, index, term, data);
                Ok(())
            }
            record::HARD_STATE => {
                let state = record::decode_hard_state(payload)
                    .ok_or_else(|| unreadable(self.shard, "a hard state", field("length")))?;
                if state.term >= self.hard_state.term {
                    let commit = state.commit.max(self.hard_state.commit);
                    self.hard_state = HardState { commit, ..state };
                }
                self.apply_committed();
                Ok(())
            }
            // A checkpoint was made after its birth, and the log still holds the record.
            record::SHARD_CREATED | record::REPLICA_CREATED => Ok(()),
            record::REPLICA_RECOVERED => self.recovered(payload),
            _ => Err(unreadable(self.shard, "a record", field("kind"))),
        }
    }

    fn entry(&mut self, lsn: Lsn, index: u64, term: u64, data: &[u8]) {
        let last = self.pending.back().map_or(self.state.applied_index, Entry::index);
        // Of an older leader, behind what a snapshot has put in place of the log.
        let is_stale = term < self.state.applied_term;
        if index <= self.state.applied_index || is_stale {
            return;
        }
        if index > last + 1 {
            self.gap.get_or_insert(Gap { expected: last + 1, found: index });
            return;
        }
        // It takes the place of whatever stood behind a gap, too.
        self.gap = None;
        while self.pending.back().is_some_and(|entry| entry.index() >= index) {
            self.pending.pop_back();
        }
        let is_change = data.first() == Some(&(Kind::Members as u8));
        let data = bytes::Bytes::copy_from_slice(data);
        if self.pending.is_empty() {
            self.pending_from = Some(lsn);
        }
        self.pending.push_back(Entry::new(index, term, data, is_change));
        self.apply_committed();
    }

    /// Applies what waits and is known to be committed.
    fn apply_committed(&mut self) {
        while let Some(entry) = self.pending.front() {
            let is_sole = self.state.members.is_sole(self.replica);
            if !is_sole && entry.index() > self.hard_state.commit {
                return;
            }
            self.waits_for = self.state.absorbs(entry);
            if self.waits_for.is_some() {
                return;
            }
            let entry = self.pending.pop_front().expect("the lookup above found it");
            self.apply(&entry);
        }
    }

    /// Applies an entry; whether it has changed the members.
    fn apply(&mut self, entry: &Entry) -> bool {
        match self.state.apply(entry, &mut Vec::new()) {
            Outcome::Members(step) => {
                let members = self.state.members.after(&step.change);
                self.state.change_members(&step, members);
                return true;
            }
            Outcome::Split(Half(right)) => {
                self.halves.insert(right.descriptor.shard, right);
            }
            _ => {}
        }
        false
    }

    /// The highest timestamp in its state and log: the node's clock starts above it (SAFETY G12).
    pub fn highest(&self) -> Timestamp {
        let pending = self.pending.iter().filter_map(|entry| Header::decode(entry.data()));
        let pending = pending.map(|(header, _)| header.timestamp).max().unwrap_or_default();
        self.state.last.max(self.state.horizon).max(pending)
    }

    /// Which of the shard's replicas it is.
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Whether all that was read is applied, and nothing is under way with its neighbours.
    pub(crate) fn is_at_rest(&self) -> bool {
        let waits = self.waits_for.is_some() || !self.halves.is_empty() || self.state.merged_away;
        self.pending.is_empty() && !waits && self.state.merging == MergeStatus::None
    }

    /// Its hard state so far.
    pub fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// The entries after the applied ones, which wait for the group.
    pub fn waiting(&self) -> impl Iterator<Item = &Entry> {
        self.pending.iter()
    }

    /// Its state so far.
    pub fn state(&self) -> &ShardState {
        &self.state
    }

    /// Its state as a snapshot from another replica has it, to be installed here.
    pub fn into_state(self) -> ShardState {
        self.state
    }

    /// The shard, ready to be adopted by an executor.
    pub fn finish(self, durability: Durability) -> ReplicaStart {
        let Self { replica, state, hard_state, pending, pending_from, left, .. } = self;
        let (applied, term) = (state.applied_index, state.applied_term);
        let last = pending.back().map_or(applied, Entry::index);
        let log_from = pending_from.filter(|_| !pending.is_empty());
        let newest = hard_state.term.max(pending.back().map_or(term, Entry::term));
        let hard_state = HardState {
            term: newest,
            // A vote belongs to its term.
            vote: if newest == hard_state.term { hard_state.vote } else { 0 },
            commit: hard_state.commit.clamp(applied, last),
        };
        let log =
            StartState { hard_state, before: (applied, term), entries: pending.into(), applied };
        let half = left.map(|left| RightHalfStart { left, leads: false });
        ReplicaStart {
            view: Arc::new(RwLock::new(state)),
            durability,
            replica,
            log,
            log_from,
            half,
        }
    }
}

/// In the head of a checkpoint: pins follow. Tags of [`MergeStatus`] are below.
const PINS: u8 = 4;
/// The same: a fence follows, behind pins.
const FENCE: u8 = 5;

/// The head of a checkpoint of `state`: all of it but keys, versions and catalogue.
pub(crate) fn encode_meta(
    state: &ShardState,
    replica: ReplicaId,
    hard_state: HardState,
) -> Vec<u8> {
    let mut out = Vec::new();
    keyspace::codec::put_bytes(&state.bootstrap_record(), &mut out);
    let safe_point = state.engine().map_or(Timestamp::ZERO, |engine| engine.safe_point());
    for number in [
        state.applied_index,
        state.applied_term,
        state.horizon.0,
        state.last.0,
        hard_state.term,
        hard_state.vote,
        hard_state.commit.max(state.applied_index),
        safe_point.0,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&replica.0.to_le_bytes());
    members::encode(&state.members, &mut out);
    state.roster.encode(&mut out);
    let pins = state.engine().map_or(&[][..], |engine| engine.pins());
    if !pins.is_empty() {
        out.push(PINS);
        SafePoint { at: safe_point, pins: pins.into() }.encode_pins(&mut out);
    }
    if !state.fence.is_none() {
        out.push(FENCE);
        state.fence.encode(&mut out);
    }
    state.merging.encode(&mut out);
    out
}

fn unreadable(shard: ShardId, what: &'static str, source: DecodeError) -> RecoverError {
    RecoverError::Unreadable { shard, what, source }
}

#[cfg(test)]
mod tests;
