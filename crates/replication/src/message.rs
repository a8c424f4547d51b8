//! Messages between the replicas of a group, and their bytes on the wire.
//!
//! A [`Message`] is opaque outside the group: drivers carry it from replica to replica and may
//! lose, repeat or reorder it. The format is Carillon's own and little-endian, so that no decoder
//! of the library ever reads bytes from outside:
//!
//! ```text
//!   kind u8 · flags u8 (1 reject, 2 snapshot) · from u64 · to u64 · term u64 · clock u64
//!   log_term u64 · index u64 · commit u64 · commit_term u64 · reject_hint u64
//!   context: len u8, bytes
//!   entries: count u32, each: flags u8 (1 a change of replicas) · index u64 · term u64
//!            · len u32 · data
//!   snapshot, if flagged: index u64 · term u64 · four lists of replicas (count u16, u64 each):
//!       voters, learners, outgoing voters, learners to be
//! ```
//!
//! `clock` carries leases (SAFETY G5). In a leader's message it is the leader's clock before
//! sending; in an answer, the newest such clock of this leader and term that the follower has
//! handled.
//!
//! Decoding checks the shape only; [`crate::Group::step`] decides whether it accepts a message.

use bytes::{Buf, Bytes};
use raft::eraftpb::{self, ConfState, EntryType, MessageType};

use keyspace::ReplicaId;

use crate::Members;

/// A message from one replica of a group to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub(crate) inner: eraftpb::Message,
    pub(crate) clock: u64,
}

/// Why the bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("a message of replicas ends too early")]
    Short,
    /// Its kind is unknown, or is never sent.
    #[error("a message of replicas has the unknown kind {0}")]
    Kind(u8),
    /// Bytes are left over behind its end.
    #[error("a message of replicas has bytes behind its end")]
    Long,
}

/// The kind of a message, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageKind {
    /// Entries, or a new commit index.
    Append,
    /// The index up to which entries are persisted, or which are missing.
    Appended,
    /// The leader renews its lease.
    Heartbeat,
    /// The follower confirms the leader.
    HeartbeatAnswer,
    /// Asks whether the receiver would vote for the sender; changes nothing.
    PreVote,
    /// Its answer.
    PreVoteAnswer,
    /// Asks for a vote.
    Vote,
    /// Its answer.
    VoteAnswer,
    /// The head of a snapshot; the state travels beside it.
    Snapshot,
    /// Asks the transfer target to campaign now.
    TimeoutNow,
}

const KINDS: [(MessageType, MessageKind); 10] = [
    (MessageType::MsgAppend, MessageKind::Append),
    (MessageType::MsgAppendResponse, MessageKind::Appended),
    (MessageType::MsgHeartbeat, MessageKind::Heartbeat),
    (MessageType::MsgHeartbeatResponse, MessageKind::HeartbeatAnswer),
    (MessageType::MsgRequestPreVote, MessageKind::PreVote),
    (MessageType::MsgRequestPreVoteResponse, MessageKind::PreVoteAnswer),
    (MessageType::MsgRequestVote, MessageKind::Vote),
    (MessageType::MsgRequestVoteResponse, MessageKind::VoteAnswer),
    (MessageType::MsgSnapshot, MessageKind::Snapshot),
    (MessageType::MsgTimeoutNow, MessageKind::TimeoutNow),
];

impl MessageKind {
    /// How many there are; each has its place among them, [`Self::place`].
    pub const COUNT: usize = KINDS.len();

    /// All of them, each at its place.
    pub fn all() -> [Self; Self::COUNT] {
        KINDS.map(|(_, kind)| kind)
    }

    /// Its place among [`Self::all`].
    pub fn place(self) -> usize {
        self as usize
    }

    /// Its name, for metrics: never changed.
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::Append => "append",
            MessageKind::Appended => "appended",
            MessageKind::Heartbeat => "heartbeat",
            MessageKind::HeartbeatAnswer => "heartbeat_answer",
            MessageKind::PreVote => "pre_vote",
            MessageKind::PreVoteAnswer => "pre_vote_answer",
            MessageKind::Vote => "vote",
            MessageKind::VoteAnswer => "vote_answer",
            MessageKind::Snapshot => "snapshot",
            MessageKind::TimeoutNow => "timeout_now",
        }
    }
}

const REJECT: u8 = 1;
const SNAPSHOT: u8 = 2;
const CHANGE: u8 = 1;

impl Message {
    /// The sender.
    pub fn from(&self) -> ReplicaId {
        ReplicaId(self.inner.from)
    }

    /// The receiver.
    pub fn to(&self) -> ReplicaId {
        ReplicaId(self.inner.to)
    }

    /// The term it belongs to.
    pub fn term(&self) -> u64 {
        self.inner.term
    }

    /// Its kind. `None` for kinds that stay within a group and are never sent.
    pub fn kind(&self) -> Option<MessageKind> {
        let kind = self.inner.get_msg_type();
        KINDS.iter().find(|(library, _)| *library == kind).map(|(_, kind)| *kind)
    }

    /// Bytes of the entries in it.
    pub fn entry_bytes(&self) -> u64 {
        self.inner.entries.iter().map(|entry| entry.data.len() as u64).sum()
    }

    /// Index and term of the last entry in the snapshot that it heads.
    pub fn snapshot(&self) -> Option<(u64, u64)> {
        let metadata = self.inner.get_snapshot().get_metadata();
        (self.kind() == Some(MessageKind::Snapshot)).then_some((metadata.index, metadata.term))
    }

    /// The same head for a snapshot of a later moment: the state that is sent beside it may be
    /// newer than what the leader had applied when it made the head.
    ///
    /// # Panics
    /// If it heads no snapshot.
    #[must_use]
    pub fn with_snapshot(mut self, at: (u64, u64), members: &Members) -> Self {
        assert!(self.snapshot().is_some(), "only the head of a snapshot");
        let metadata = self.inner.mut_snapshot().mut_metadata();
        (metadata.index, metadata.term) = at;
        metadata.set_conf_state(members.to_library());
        self
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let inner = &self.inner;
        let kind = self.kind().expect("only what replicas say to each other is sent");
        let has_snapshot = kind == MessageKind::Snapshot;
        out.push(kind as u8);
        out.push(u8::from(inner.reject) * REJECT + u8::from(has_snapshot) * SNAPSHOT);
        let numbers = [
            inner.from,
            inner.to,
            inner.term,
            self.clock,
            inner.log_term,
            inner.index,
            inner.commit,
            inner.commit_term,
            inner.reject_hint,
        ];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.push(u8::try_from(inner.context.len()).expect("the library's contexts are short"));
        out.extend_from_slice(&inner.context);
        out.extend_from_slice(&(inner.entries.len() as u32).to_le_bytes());
        for entry in &inner.entries {
            let is_change = entry.get_entry_type() != EntryType::EntryNormal;
            let data = payload(entry);
            out.push(u8::from(is_change) * CHANGE);
            out.extend_from_slice(&entry.index.to_le_bytes());
            out.extend_from_slice(&entry.term.to_le_bytes());
            out.extend_from_slice(&(data.len() as u32).to_le_bytes());
            out.extend_from_slice(data);
        }
        if has_snapshot {
            let metadata = inner.get_snapshot().get_metadata();
            out.extend_from_slice(&metadata.index.to_le_bytes());
            out.extend_from_slice(&metadata.term.to_le_bytes());
            let config = metadata.get_conf_state();
            let lists =
                [&config.voters, &config.learners, &config.voters_outgoing, &config.learners_next];
            for list in lists {
                out.extend_from_slice(&(list.len() as u16).to_le_bytes());
                list.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
            }
        }
    }

    /// Reads one from all of `bytes`. Data of entries shares their memory.
    ///
    /// # Errors
    /// [`DecodeError`]: there is no message in them.
    pub fn decode(mut bytes: Bytes) -> Result<Self, DecodeError> {
        let short = |_| DecodeError::Short;
        let input = &mut bytes;
        let kind = input.try_get_u8().map_err(short)?;
        let (library, _) =
            *KINDS.iter().find(|(_, known)| *known as u8 == kind).ok_or(DecodeError::Kind(kind))?;
        let flags = input.try_get_u8().map_err(short)?;
        let mut inner = eraftpb::Message::default();
        inner.set_msg_type(library);
        inner.reject = flags & REJECT != 0;
        let mut numbers = [0; 9];
        for number in &mut numbers {
            *number = input.try_get_u64_le().map_err(short)?;
        }
        let clock = numbers[3];
        [inner.from, inner.to, inner.term] = [numbers[0], numbers[1], numbers[2]];
        [inner.log_term, inner.index, inner.commit] = [numbers[4], numbers[5], numbers[6]];
        [inner.commit_term, inner.reject_hint] = [numbers[7], numbers[8]];
        let context = input.try_get_u8().map_err(short)?;
        inner.context = take(input, context.into())?;
        let count = input.try_get_u32_le().map_err(short)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(decode_entry(input)?);
        }
        inner.set_entries(entries.into());
        if flags & SNAPSHOT != 0 {
            let metadata = inner.mut_snapshot().mut_metadata();
            metadata.index = input.try_get_u64_le().map_err(short)?;
            metadata.term = input.try_get_u64_le().map_err(short)?;
            metadata.set_conf_state(ConfState {
                voters: decode_list(input)?,
                learners: decode_list(input)?,
                voters_outgoing: decode_list(input)?,
                learners_next: decode_list(input)?,
                ..ConfState::default()
            });
        }
        if input.has_remaining() { Err(DecodeError::Long) } else { Ok(Self { inner, clock }) }
    }
}

/// The data of an entry to apply. The library wants its own description of a change as data; ours
/// travels as context until the entry is in the log.
pub(crate) fn payload(entry: &eraftpb::Entry) -> &Bytes {
    if entry.context.is_empty() { &entry.data } else { &entry.context }
}

fn decode_entry(input: &mut Bytes) -> Result<eraftpb::Entry, DecodeError> {
    let short = |_| DecodeError::Short;
    let mut entry = eraftpb::Entry::default();
    if input.try_get_u8().map_err(short)? & CHANGE != 0 {
        entry.set_entry_type(EntryType::EntryConfChangeV2);
    }
    entry.index = input.try_get_u64_le().map_err(short)?;
    entry.term = input.try_get_u64_le().map_err(short)?;
    let len = input.try_get_u32_le().map_err(short)?;
    entry.data = take(input, len as usize)?;
    Ok(entry)
}

fn decode_list(input: &mut Bytes) -> Result<Vec<u64>, DecodeError> {
    let count = input.try_get_u16_le().map_err(|_| DecodeError::Short)?;
    let ids = (0..count).map(|_| input.try_get_u64_le().map_err(|_| DecodeError::Short));
    ids.collect()
}

fn take(input: &mut Bytes, len: usize) -> Result<Bytes, DecodeError> {
    if input.len() < len { Err(DecodeError::Short) } else { Ok(input.split_to(len)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_kinds_are_in_place_order_with_distinct_names() {
        let all = MessageKind::all();
        assert!(all.iter().enumerate().all(|(place, kind)| kind.place() == place));
        let mut names = all.map(MessageKind::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MessageKind::COUNT);
    }
}
