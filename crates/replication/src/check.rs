//! May a message be stepped? The library trusts its peers and ends the process where one makes no
//! sense; this asks first.

use keyspace::ReplicaId;
use raft::eraftpb::{Message, MessageType};
use raft::{RawNode, StateRole, Storage};

use crate::entries::Entries;

/// Terms and indexes at or beyond this are nonsense: a group that counts a million a second gets
/// there in a hundred thousand years.
const NUMBER_END: u64 = 1 << 62;

/// Why a message was not stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectedMessage {
    /// It is for another replica, or has no sender.
    #[error("a message for replica {to} from {from} reached another")]
    WrongReplica {
        /// Whom it is for.
        to: u64,
        /// The sender.
        from: u64,
    },
    /// No correct replica sends it.
    #[error("a message of replicas makes no sense: {0}")]
    Invalid(&'static str),
    /// The leader knows that this replica has had entries which it has not: its disk has lost them.
    #[error("the log ends at {last} and {needed} was acknowledged before: entries were lost")]
    LostLog {
        /// The last entry here.
        last: u64,
        /// The entry that must be here.
        needed: u64,
    },
}

pub(crate) fn message(
    own: ReplicaId,
    raw: &RawNode<Entries>,
    message: &Message,
) -> Result<(), RejectedMessage> {
    if message.to != own.0 || message.from == own.0 || message.from == 0 {
        return Err(RejectedMessage::WrongReplica { to: message.to, from: message.from });
    }
    let numbers = [
        message.term,
        message.index,
        message.log_term,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ];
    if message.term == 0 || numbers.iter().any(|number| *number >= NUMBER_END) {
        return Err(RejectedMessage::Invalid("its numbers"));
    }
    let log = &raw.raft.raft_log;
    let (last, current) = (log.last_index(), message.term >= raw.raft.term);
    match message.get_msg_type() {
        MessageType::MsgAppend => {
            entries(message)?;
            let known = raw.store().term(log.committed);
            if current
                && message.index == log.committed
                && known.is_ok_and(|term| term != message.log_term)
            {
                return Err(RejectedMessage::LostLog { last, needed: log.committed });
            }
        }
        MessageType::MsgHeartbeat if current && message.commit > last => {
            return Err(RejectedMessage::LostLog { last, needed: message.commit });
        }
        MessageType::MsgSnapshot => snapshot(own, message)?,
        MessageType::MsgAppendResponse
            if raw.raft.state == StateRole::Leader
                && message.term == raw.raft.term
                && message.index.max(message.commit) > last =>
        {
            return Err(RejectedMessage::Invalid("it acknowledges what was never sent"));
        }
        _ => {}
    }
    let carries = matches!(message.get_msg_type(), MessageType::MsgAppend);
    if !carries && !message.entries.is_empty() {
        return Err(RejectedMessage::Invalid("entries in a message of another kind"));
    }
    Ok(())
}

fn entries(message: &Message) -> Result<(), RejectedMessage> {
    if message.log_term > message.term {
        return Err(RejectedMessage::Invalid("an entry of a later term before it"));
    }
    let (mut index, mut term) = (message.index, message.log_term);
    for entry in &message.entries {
        if entry.index != index + 1 || entry.term < term || entry.term > message.term {
            return Err(RejectedMessage::Invalid("entries out of order"));
        }
        (index, term) = (entry.index, entry.term);
    }
    Ok(())
}

fn snapshot(own: ReplicaId, message: &Message) -> Result<(), RejectedMessage> {
    let metadata = message.get_snapshot().get_metadata();
    if metadata.index == 0 || metadata.index >= NUMBER_END || metadata.term > message.term {
        return Err(RejectedMessage::Invalid("a snapshot of nothing"));
    }
    let config = metadata.get_conf_state();
    let lists = [&config.voters, &config.learners, &config.voters_outgoing];
    if config.voters.is_empty() || !lists.iter().any(|list| list.contains(&own.0)) {
        return Err(RejectedMessage::Invalid("a snapshot for others"));
    }
    let mut all: Vec<u64> = config.voters.iter().chain(&config.learners).copied().collect();
    all.sort_unstable();
    let twice = all.windows(2).any(|pair| pair[0] == pair[1]);
    if twice || config.learners_next.iter().any(|id| !config.voters_outgoing.contains(id)) {
        return Err(RejectedMessage::Invalid("members that contradict each other"));
    }
    Ok(())
}
