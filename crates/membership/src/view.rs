//! What the driver sees: members, news, effects, refusals.

use keyspace::{DecodeError, NodeId};
use thiserror::Error;

use crate::facts::Facts;

/// The liveness of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It answers.
    Alive,
    /// It did not answer, and may still object; treat it as alive, but do not wait for it.
    Suspect,
    /// It is dead, paused or cut off. It may come back, with a higher incarnation.
    Down,
    /// It has left on purpose.
    Left,
}

/// A node as this one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its id, for ever.
    pub node: NodeId,
    /// Which of its lives.
    pub incarnation: u64,
    /// What it tells of itself, the newest that is known here.
    pub facts: &'a Facts,
    /// Whether it lives.
    pub state: State,
    /// Since when this node sees it in this state, in the driver's nanoseconds.
    pub since: u64,
}

/// A change. Read the member itself with [`crate::Membership::member`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It is alive: it is new, or no longer suspected, or came back with a higher incarnation.
    Up(NodeId),
    /// It does not answer.
    Suspect(NodeId),
    /// It is taken for dead.
    Down(NodeId),
    /// It left on purpose.
    Left(NodeId),
    /// It tells something new about itself.
    Facts(NodeId),
    /// It was struck from the list; it is no longer a member.
    Forgotten(NodeId),
    /// We ourselves were taken for dead, and live on under this incarnation.
    Refuted(u64),
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a frame over the link to this node; open the link to its peer address if there is
    /// none. May be lost. Without a link and without facts of the node: drop it.
    Send {
        /// To whom.
        to: NodeId,
        /// What; at most [`crate::FRAME_BYTES_MAX`] bytes.
        bytes: Vec<u8>,
    },
    /// Open a link to this address, to any node there; then call [`crate::Membership::connected`].
    Dial {
        /// As given to [`crate::Membership::join`].
        address: String,
    },
    /// Tell whom it concerns.
    News(News),
}

/// A frame that makes no sense. Nothing has changed; count it, go on.
#[derive(Debug, Error)]
pub enum FrameError {
    /// Its bytes are wrong.
    #[error("a frame of node {from} is broken")]
    Decode {
        /// Who sent it.
        from: NodeId,
        /// How.
        source: DecodeError,
    },
    /// The failure detector refuses it.
    #[error("a packet of node {from} was refused")]
    Packet {
        /// Who sent it.
        from: NodeId,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The introduction at the other end of a link is not that node's.
    #[error("node {from} introduces itself as another, or not as one at work")]
    Introduction {
        /// Who is at the other end.
        from: NodeId,
    },
}

/// Why a node cannot be forgotten. Nothing has changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ForgetError {
    /// Nobody of that id is known.
    #[error("node {0} is not known")]
    Unknown(NodeId),
    /// It lives.
    #[error("node {0} is alive; it must leave, or be down")]
    Alive(NodeId),
}
