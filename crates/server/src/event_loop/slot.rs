//! One reply that a connection owes: which parts are there, and how is it written?

use command::Reply;

use super::transactions::Part;
use gateway::native::Op;
use gateway::resp::{Gather, Version};

/// A reply owed.
pub struct Slot {
    pub(super) state: State,
    pub(super) frame: Frame,
    /// To stand before it: replies that wait for it, an attribute.
    pub(super) before: Vec<u8>,
    /// Whether it is a transaction's that only reads: whatever becomes of that, nothing is done.
    only_reads: bool,
}

/// How the reply will be written.
pub enum Frame {
    /// RESP; thrown away if muted (CLIENT REPLY).
    Resp {
        /// The protocol when the command came; a HELLO behind it changes nothing.
        version: Version,
        /// Whether it is.
        muted: bool,
    },
    /// Encoded already.
    Bytes,
    /// Encoded already, and no reply: a push.
    Push,
    /// A native frame, which repeats the key.
    Native(Op, Box<[u8]>),
}

/// How far it is.
pub(super) enum State {
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
    Executing(Box<[Part]>),
    /// Boxed, so that other replies are no larger for it.
    Executed(Box<(Box<[Part]>, Reply)>),
    Done(Reply),
    Failed(Box<str>),
    Bytes(Vec<u8>),
}

/// How errors begin when it is not known whether anything was done (SAFETY G10).
pub(super) const UNKNOWN: &str = "UNKNOWN";

/// What is said instead to who has only read.
const NOT_READ: &str = "BUSY a shard of the transaction has not answered in time, or is gone; it \
                        only reads, so nothing was done. Send it again";

impl State {
    /// What has failed, once all its parts have come. If others were done, "nothing was done" is
    /// not the truth.
    fn settled(self) -> Self {
        match self {
            State::Failing { text, left: 0, any_done: false } => State::Failed(text),
            State::Failing { text, left: 0, any_done: true } => {
                State::Failed(format!("{UNKNOWN} done for some of the keys only: {text}").into())
            }
            other => other,
        }
    }
}

impl State {
    /// How many errors it is. Who makes bytes counts those in them.
    pub fn errors(&self) -> u64 {
        let is_refused = |reply: &&Reply| matches!(reply, Reply::Refused(_));
        match self {
            State::Failed(_) | State::Done(Reply::Refused(_)) => 1,
            State::Executed(executed) => match &**executed {
                (_, Reply::Array(all)) => all.iter().filter(is_refused).count() as u64,
                (_, Reply::Refused(_)) => 1,
                (parts, Reply::Changed(_)) => u64::from(matches!(**parts, [Part::Committed])),
                _ => 0,
            },
            _ => 0,
        }
    }
}

impl Slot {
    fn new(state: State, frame: Frame) -> Self {
        Self { state, frame, before: Vec::new(), only_reads: false }
    }

    /// One reply to come.
    pub fn waiting(frame: Frame) -> Self {
        Self::new(State::Waiting, frame)
    }

    /// One reply made of `parts` that are to come.
    pub fn gathering(gather: Gather, parts: u32, frame: Frame) -> Self {
        Self::new(State::Gathering { gather, left: parts, sum: 0, any_done: false }, frame)
    }

    /// One reply of a transaction's many.
    pub fn executing(parts: Vec<Part>, frame: Frame) -> Self {
        Self::new(State::Executing(parts.into()), frame)
    }

    /// The same, of one that only reads or does not.
    pub fn reading(self, only_reads: bool) -> Self {
        Self { only_reads, ..self }
    }

    /// The same, with replies before it that are sent together with it.
    pub fn behind(self, before: Vec<u8>) -> Self {
        Self { before, ..self }
    }

    /// A reply that is known, behind others that are not.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self::new(State::Bytes(bytes), Frame::Bytes)
    }

    /// A push, in its place among the replies.
    pub fn push(bytes: Vec<u8>) -> Self {
        Self::new(State::Bytes(bytes), Frame::Push)
    }

    /// Whether it is a push.
    pub fn is_push(&self) -> bool {
        matches!(self.frame, Frame::Push)
    }

    /// Whether it can be written.
    pub fn is_done(&self) -> bool {
        matches!(
            self.state,
            State::Done(_) | State::Failed(_) | State::Bytes(_) | State::Executed(..)
        )
    }

    /// The reply, or a part of it, has come.
    pub fn fill(&mut self, reply: Result<Reply, Box<str>>) {
        if let State::Waiting = self.state {
            self.state = reply.map_or_else(State::Failed, State::Done);
            return;
        }
        self.state = match (std::mem::replace(&mut self.state, State::Waiting), reply) {
            (State::Gathering { gather, left, sum, .. }, Ok(reply)) => {
                let sum = sum + if let Reply::Int(n) = reply { n } else { 0 };
                match (left - 1, gather) {
                    (0, Gather::Sum) => State::Done(Reply::Int(sum)),
                    (0, Gather::Ok) => State::Done(Reply::Ok),
                    (0, Gather::One) => State::Done(Reply::Int(1)),
                    (left, _) => State::Gathering { gather, left, sum, any_done: true },
                }
            }
            (State::Gathering { left, any_done, .. }, Err(text)) => {
                State::Failing { text, left: left - 1, any_done }.settled()
            }
            (State::Failing { text, left, any_done }, reply) => {
                let any_done = any_done || reply.is_ok();
                State::Failing { text, left: left - 1, any_done }.settled()
            }
            (State::Executing(parts), Ok(reply)) => State::Executed(Box::new((parts, reply))),
            (State::Executing(_), Err(text)) if self.only_reads && text.starts_with(UNKNOWN) => {
                State::Failed(NOT_READ.into())
            }
            (State::Executing(_), Err(text)) => State::Failed(text),
            (
                State::Waiting
                | State::Done(_)
                | State::Failed(_)
                | State::Bytes(_)
                | State::Executed(..),
                _,
            ) => unreachable!("a reply came twice"),
        };
    }
}
