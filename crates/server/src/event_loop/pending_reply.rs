//! One reply that a connection is owed: which parts have come, and how it is written.

use command::{Refusal, Reply};
use keyspace::ShardId;

use super::transactions::ExecPart;
use super::volumes::VolumeReply;
use gateway::native::Op;
use gateway::resp::{Gather, Version};

/// A reply owed.
pub struct PendingReply {
    pub(super) state: ReplyState,
    pub(super) frame: ReplyFrame,
    /// To stand before it: replies that wait for it, an attribute.
    pub(super) before: Vec<u8>,
    /// What it replies to.
    pub(super) kind: ReplyKind,
    /// The shard that has answered it, if one has.
    pub(super) shard: Option<ShardId>,
}

/// What a reply is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// A command that may write, or one that is answered already.
    Other,
    /// A transaction that only reads: whatever becomes of it, nothing is done.
    ReadOnlyTransaction,
    /// A read that has joined a batch of the log ([`node::routing::pipeline`]).
    JoinedRead,
    /// A read that is read when this reply is the oldest.
    ParkedRead,
}

/// How the reply will be written.
pub enum ReplyFrame {
    /// RESP; thrown away if muted (CLIENT REPLY).
    Resp {
        /// The protocol when the command came; a HELLO behind it changes nothing.
        version: Version,
        /// Whether it is.
        muted: bool,
    },
    /// RESP, once the late commands of the transaction are run (`event_loop::late`).
    Kept,
    /// Encoded already.
    Bytes,
    /// Encoded already, and no reply: a push.
    Push,
    /// A native frame, which repeats the key.
    Native(Op, Box<[u8]>),
    /// Of writes of a volume's blocks.
    Volume(VolumeReply),
}

/// How far it is.
pub(super) enum ReplyState {
    Waiting,
    Gathering {
        gather: Gather,
        left: u32,
        sum: i64,
        any_done: bool,
    },
    /// A part has failed; the reply is its error, once the others have come.
    Failing {
        text: Box<str>,
        left: u32,
        any_done: bool,
    },
    /// A transaction is under way, whose commands are answered so.
    Executing(Box<[ExecPart]>),
    /// Boxed, so that other replies are no larger for it.
    Executed(Box<(Box<[ExecPart]>, Reply)>),
    Done(Reply),
    Failed(Box<str>),
    Bytes(Vec<u8>),
}

/// How errors begin when it is not known whether anything was done (SAFETY G10).
pub(super) const UNKNOWN: &str = "UNKNOWN";

/// The text for a transaction that only reads.
const NOT_READ: &str = "BUSY a shard has not answered in time, or is gone; the command only reads, \
                        so nothing was done. Send it again";

impl ReplyState {
    /// The error of the reply, once all its parts have come. If other parts were done, the text
    /// does not claim that nothing was done.
    fn settled(self) -> Self {
        match self {
            ReplyState::Failing { text, left: 0, any_done: false } => ReplyState::Failed(text),
            ReplyState::Failing { text, left: 0, any_done: true } => ReplyState::Failed(
                format!("{UNKNOWN} done for some of the keys only: {text}").into(),
            ),
            other => other,
        }
    }
}

impl ReplyState {
    /// Whether the reply says that its command has changed something.
    pub fn has_changed(&self) -> bool {
        match self {
            ReplyState::Done(Reply::Refused(_) | Reply::Nil | Reply::Int(0)) => false,
            ReplyState::Done(_) => true,
            ReplyState::Executed(executed) => matches!(executed.1, Reply::Array(_)),
            _ => false,
        }
    }

    /// How many errors it holds. Code that writes bytes itself counts the errors in them.
    pub fn errors(&self) -> u64 {
        let is_refused = |reply: &&Reply| matches!(reply, Reply::Refused(_));
        match self {
            ReplyState::Failed(_) | ReplyState::Done(Reply::Refused(_)) => 1,
            ReplyState::Executed(executed) => match &**executed {
                (_, Reply::Array(all)) => all.iter().filter(is_refused).count() as u64,
                (_, Reply::Refused(_)) => 1,
                (parts, Reply::Changed(_)) => u64::from(matches!(**parts, [ExecPart::Committed])),
                _ => 0,
            },
            _ => 0,
        }
    }
}

impl PendingReply {
    fn new(state: ReplyState, frame: ReplyFrame) -> Self {
        Self { state, frame, before: Vec::new(), kind: ReplyKind::Other, shard: None }
    }

    /// One reply to come.
    pub fn waiting(frame: ReplyFrame) -> Self {
        Self::new(ReplyState::Waiting, frame)
    }

    /// One reply made of `parts` that are to come.
    pub fn gathering(gather: Gather, parts: u32, frame: ReplyFrame) -> Self {
        Self::new(ReplyState::Gathering { gather, left: parts, sum: 0, any_done: false }, frame)
    }

    /// One reply of a transaction's many.
    pub fn executing(parts: Vec<ExecPart>, frame: ReplyFrame) -> Self {
        Self::new(ReplyState::Executing(parts.into()), frame)
    }

    /// The same, of one that only reads or does not.
    pub fn reading(self, only_reads: bool) -> Self {
        let kind = if only_reads { ReplyKind::ReadOnlyTransaction } else { ReplyKind::Other };
        Self { kind, ..self }
    }

    /// One reply to come, to a read of this kind.
    pub(super) fn of_read(frame: ReplyFrame, kind: ReplyKind) -> Self {
        Self { kind, ..Self::new(ReplyState::Waiting, frame) }
    }

    /// The same, with replies before it that are sent together with it.
    pub fn behind(self, before: Vec<u8>) -> Self {
        Self { before, ..self }
    }

    /// A reply that is known, behind others that are not.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self::new(ReplyState::Bytes(bytes), ReplyFrame::Bytes)
    }

    /// A push, in its place among the replies.
    pub fn push(bytes: Vec<u8>) -> Self {
        Self::new(ReplyState::Bytes(bytes), ReplyFrame::Push)
    }

    /// More bytes of a push.
    pub(super) fn push_more(&mut self, frames: &[u8]) {
        if let ReplyState::Bytes(bytes) = &mut self.state {
            bytes.extend_from_slice(frames);
        }
    }

    /// Whether it is a push.
    pub fn is_push(&self) -> bool {
        matches!(self.frame, ReplyFrame::Push)
    }

    /// Whether it can be written.
    pub fn is_done(&self) -> bool {
        matches!(
            self.state,
            ReplyState::Done(_)
                | ReplyState::Failed(_)
                | ReplyState::Bytes(_)
                | ReplyState::Executed(..)
        )
    }

    /// What the answer takes that has come for a read that has joined the log; none if there is
    /// none, or if it was refused as too long for its entry.
    pub(super) fn answer_bytes(&self) -> Option<u64> {
        match &self.state {
            ReplyState::Done(Reply::Refused(Refusal::TooMuch)) => None,
            ReplyState::Done(reply) => Some(reply.bytes_about() as u64),
            _ => None,
        }
    }

    /// The reply has come, encoded.
    pub fn fill_bytes(&mut self, bytes: Vec<u8>) {
        debug_assert!(matches!(self.state, ReplyState::Waiting), "a reply comes once");
        let is_muted = matches!(self.frame, ReplyFrame::Resp { muted: true, .. });
        self.state = ReplyState::Bytes(if is_muted { Vec::new() } else { bytes });
    }

    /// The reply, or a part of it, has come.
    pub fn fill(&mut self, reply: Result<Reply, Box<str>>) {
        if let ReplyState::Waiting = self.state {
            self.state = match reply {
                // The transaction of one read has one answer.
                Ok(Reply::Array(mut all)) if self.kind == ReplyKind::JoinedRead => {
                    ReplyState::Done(all.pop().unwrap_or(Reply::Nil))
                }
                Err(text) if self.kind != ReplyKind::Other && text.starts_with(UNKNOWN) => {
                    ReplyState::Failed(NOT_READ.into())
                }
                reply => reply.map_or_else(ReplyState::Failed, ReplyState::Done),
            };
            return;
        }
        self.state = match (std::mem::replace(&mut self.state, ReplyState::Waiting), reply) {
            (ReplyState::Gathering { gather, left, sum, .. }, Ok(reply)) => {
                let sum = sum + if let Reply::Int(n) = reply { n } else { 0 };
                match (left - 1, gather) {
                    (0, Gather::Sum) => ReplyState::Done(Reply::Int(sum)),
                    (0, Gather::Ok) => ReplyState::Done(Reply::Ok),
                    (0, Gather::One) => ReplyState::Done(Reply::Int(1)),
                    (left, _) => ReplyState::Gathering { gather, left, sum, any_done: true },
                }
            }
            (ReplyState::Gathering { left, any_done, .. }, Err(text)) => {
                ReplyState::Failing { text, left: left - 1, any_done }.settled()
            }
            (ReplyState::Failing { text, left, any_done }, reply) => {
                let any_done = any_done || reply.is_ok();
                ReplyState::Failing { text, left: left - 1, any_done }.settled()
            }
            (ReplyState::Executing(parts), Ok(reply)) => {
                ReplyState::Executed(Box::new((parts, reply)))
            }
            (ReplyState::Executing(_), Err(text))
                if self.kind == ReplyKind::ReadOnlyTransaction && text.starts_with(UNKNOWN) =>
            {
                ReplyState::Failed(NOT_READ.into())
            }
            (ReplyState::Executing(_), Err(text)) => ReplyState::Failed(text),
            (
                ReplyState::Waiting
                | ReplyState::Done(_)
                | ReplyState::Failed(_)
                | ReplyState::Bytes(_)
                | ReplyState::Executed(..),
                _,
            ) => unreachable!("a reply came twice"),
        };
    }
}
