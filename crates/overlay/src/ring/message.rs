//! Messages between the members of a ring, as values and as bytes.
//!
//! | message | says | answered by |
//! |---|---|---|
//! | ask | "who is your predecessor, and who are your successors?" | neighbours |
//! | notify | "I believe that I am your predecessor" | |
//! | ping | "are you alive?" | pong |
//! | find | "which member is the first at or after this number?" Members pass it on | found, sent to the asker by the member that knows |
//! | ask finger | "which member is your finger of this level?" | finger |
//!
//! The answer repeats the question's number. Receiving a message twice is harmless.
//!
//! # Bytes
//!
//! After the head of a message ([`message`](crate::message)); `known` as in
//! [`known_shard`](crate::known_shard).
//!
//! | message | bytes |
//! |---|---|
//! | any | strategy `u8`: 1 linear, 2 chord, 3 chord-sharp; to `varint`; from `known`; tag `u8`, then |
//! | 1 ask, 4 ping, 5 pong | number `varint` |
//! | 2 neighbours | number `varint`, `varint` 0 or 1 predecessors, `known`; `varint` count of successors, at most [`SUCCESSORS_MAX`], `known` each |
//! | 3 notify | |
//! | 6 find | number `varint`, asker `varint`, its node `u64`, hops `u8`, target `u64` |
//! | 7 found | number `varint`, `known` |
//! | 8 ask finger | number `varint`, level `u8` |
//! | 9 finger | number `varint`, `varint` 0 or 1 fingers, `known` |

use std::sync::Arc as Shared;

use keyspace::codec::{DecodeError, Reader, VARINT_BYTES_MAX, put_varint};
use keyspace::{NodeId, ShardId};

use super::SUCCESSORS_MAX;
use crate::known_shard::{KNOWN_SHARD_BYTES_MAX, KnownShard};
use crate::message::MESSAGE_BYTES_MAX;

/// Which table of a shard is meant: each strategy keeps a ring of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// The ring and nothing else.
    Linear,
    /// Fingers over numbers.
    Chord,
    /// Fingers over members.
    ChordSharp,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 3] = [Strategy::Linear, Strategy::Chord, Strategy::ChordSharp];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Linear => "linear",
            Strategy::Chord => "chord",
            Strategy::ChordSharp => "chord-sharp",
        }
    }
}

/// A message from one member to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingMessage {
    /// "Who is your predecessor, and who are your successors?"
    Ask {
        /// Of the question.
        number: u64,
    },
    /// The answer to [`RingMessage::Ask`].
    Neighbours {
        /// Of the question.
        number: u64,
        /// Who stands before the sender, if it knows, and if there is room.
        predecessor: Option<Shared<KnownShard>>,
        /// Who comes after it, the nearest first, as many as there is room for.
        successors: Vec<Shared<KnownShard>>,
    },
    /// "I believe that I stand before you."
    Notify,
    /// "Are you there?"
    Ping {
        /// Of the question; 0 if any word will do.
        number: u64,
    },
    /// "I am." The answer to [`RingMessage::Ping`].
    Pong {
        /// Of the question.
        number: u64,
    },
    /// "Which member is the first whose prefix is at or after this number?" A member that does not
    /// know passes it on to the farthest that it knows before it.
    Find {
        /// Of the question.
        number: u64,
        /// Who asked.
        asker: ShardId,
        /// The node that leads it.
        node: NodeId,
        /// How many members have had the question.
        hops: u8,
        /// The number.
        target: u64,
    },
    /// The answer to [`RingMessage::Find`].
    Found {
        /// Of the question.
        number: u64,
        /// The first member at or after the target.
        member: Shared<KnownShard>,
    },
    /// "Which member is your finger of this level?"
    AskFinger {
        /// Of the question.
        number: u64,
        /// Counted from 0, the successor.
        level: u8,
    },
    /// The answer to [`RingMessage::AskFinger`].
    Finger {
        /// Of the question.
        number: u64,
        /// The finger, if there is one.
        member: Option<Shared<KnownShard>>,
    },
}

const ASK: u8 = 1;
const NEIGHBOURS: u8 = 2;
const NOTIFY: u8 = 3;
const PING: u8 = 4;
const PONG: u8 = 5;
const FIND: u8 = 6;
const FOUND: u8 = 7;
const ASK_FINGER: u8 = 8;
const FINGER: u8 = 9;

/// The most bytes of a message apart from who is in it.
const RING_MESSAGE_BYTES_MAX: usize = 5 + 4 * VARINT_BYTES_MAX + 8 + 1 + 8;

const _: () = assert!(RING_MESSAGE_BYTES_MAX + KNOWN_SHARD_BYTES_MAX <= MESSAGE_BYTES_MAX);

impl RingMessage {
    /// Names of the kinds of messages, for metrics: never changed.
    pub const KINDS: [&'static str; 9] = [
        "ring_ask",
        "ring_neighbours",
        "ring_notify",
        "ring_ping",
        "ring_pong",
        "ring_find",
        "ring_found",
        "ring_ask_finger",
        "ring_finger",
    ];

    /// The place of its kind in [`Self::KINDS`].
    pub fn kind(&self) -> usize {
        usize::from(self.tag() - 1)
    }

    fn tag(&self) -> u8 {
        match self {
            RingMessage::Ask { .. } => ASK,
            RingMessage::Neighbours { .. } => NEIGHBOURS,
            RingMessage::Notify => NOTIFY,
            RingMessage::Ping { .. } => PING,
            RingMessage::Pong { .. } => PONG,
            RingMessage::Find { .. } => FIND,
            RingMessage::Found { .. } => FOUND,
            RingMessage::AskFinger { .. } => ASK_FINGER,
            RingMessage::Finger { .. } => FINGER,
        }
    }
}

/// As much of an answer as one message from `from` has room for: the predecessor first, then the
/// nearest successors.
pub(crate) fn fitting(
    from: &KnownShard,
    predecessor: Option<Shared<KnownShard>>,
    mut successors: Vec<Shared<KnownShard>>,
) -> (Option<Shared<KnownShard>>, Vec<Shared<KnownShard>>) {
    let mut room = MESSAGE_BYTES_MAX - RING_MESSAGE_BYTES_MAX - from.bytes_max();
    let mut fits = |known: &KnownShard| {
        let left = room.checked_sub(known.bytes_max());
        room = left.unwrap_or(room);
        left.is_some()
    };
    let predecessor = predecessor.filter(|known| fits(known));
    let count = successors.iter().take_while(|known| fits(known)).count();
    successors.truncate(count);
    (predecessor, successors)
}

/// Whether a message from `from` has room for another member.
pub(crate) fn fits_beside(from: &KnownShard, member: &KnownShard) -> bool {
    RING_MESSAGE_BYTES_MAX + from.bytes_max() + member.bytes_max() <= MESSAGE_BYTES_MAX
}

/// Appends the bytes of a ring's message after its head.
pub(crate) fn put(
    strategy: Strategy,
    to: ShardId,
    from: &KnownShard,
    word: &RingMessage,
    out: &mut Vec<u8>,
) {
    out.push(strategy as u8 + 1);
    put_varint(to.0, out);
    from.encode(out);
    out.push(word.tag());
    match word {
        RingMessage::Ask { number }
        | RingMessage::Ping { number }
        | RingMessage::Pong { number } => {
            put_varint(*number, out);
        }
        RingMessage::Notify => {}
        RingMessage::Neighbours { number, predecessor, successors } => {
            put_varint(*number, out);
            put_known(predecessor.as_slice(), out);
            put_known(successors, out);
        }
        RingMessage::Find { number, asker, node, hops, target } => {
            put_varint(*number, out);
            put_varint(asker.0, out);
            out.extend_from_slice(&node.0.to_le_bytes());
            out.push(*hops);
            out.extend_from_slice(&target.to_le_bytes());
        }
        RingMessage::Found { number, member } => {
            put_varint(*number, out);
            member.encode(out);
        }
        RingMessage::AskFinger { number, level } => {
            put_varint(*number, out);
            out.push(*level);
        }
        RingMessage::Finger { number, member } => {
            put_varint(*number, out);
            put_known(member.as_slice(), out);
        }
    }
}

/// Reads what [`put`] wrote.
pub(crate) fn read(
    reader: &mut Reader<'_>,
) -> Result<(Strategy, ShardId, Shared<KnownShard>, RingMessage), DecodeError> {
    let strategy = match reader.u8()? {
        found @ 1..=3 => Strategy::ALL[usize::from(found - 1)],
        found => return Err(DecodeError::Tag { what: "strategy", found }),
    };
    let to = ShardId(reader.varint()?);
    let from = read_one(reader)?;
    let word = match reader.u8()? {
        ASK => RingMessage::Ask { number: reader.varint()? },
        NEIGHBOURS => RingMessage::Neighbours {
            number: reader.varint()?,
            predecessor: read_known(reader, 1)?.pop(),
            successors: read_known(reader, SUCCESSORS_MAX)?,
        },
        NOTIFY => RingMessage::Notify,
        PING => RingMessage::Ping { number: reader.varint()? },
        PONG => RingMessage::Pong { number: reader.varint()? },
        FIND => RingMessage::Find {
            number: reader.varint()?,
            asker: ShardId(reader.varint()?),
            node: NodeId(reader.u64()?),
            hops: reader.u8()?,
            target: reader.u64()?,
        },
        FOUND => RingMessage::Found { number: reader.varint()?, member: read_one(reader)? },
        ASK_FINGER => RingMessage::AskFinger { number: reader.varint()?, level: reader.u8()? },
        FINGER => {
            RingMessage::Finger { number: reader.varint()?, member: read_known(reader, 1)?.pop() }
        }
        found => return Err(DecodeError::Tag { what: "word of a ring", found }),
    };
    Ok((strategy, to, from, word))
}

fn put_known(known: &[Shared<KnownShard>], out: &mut Vec<u8>) {
    put_varint(known.len() as u64, out);
    known.iter().for_each(|known| known.encode(out));
}

fn read_one(reader: &mut Reader<'_>) -> Result<Shared<KnownShard>, DecodeError> {
    KnownShard::decode(reader).map(Shared::new)
}

fn read_known(reader: &mut Reader<'_>, max: usize) -> Result<Vec<Shared<KnownShard>>, DecodeError> {
    let count = reader.varint_max(max as u64, "member count")?;
    (0..count).map(|_| read_one(reader)).collect()
}
