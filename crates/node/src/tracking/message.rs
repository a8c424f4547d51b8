//! Messages between a node that tracks keys and the leader of their shard, and their bytes.
//!
//! Tag `u8`, then the stream (term `varint`, number `varint`), then the fields in their order;
//! words as in [`keyspace::codec`]. They may be lost, late and in any order: those of a leader have
//! numbers, and `Renew` may be repeated.

use keyspace::DecodeError;
use keyspace::codec::{Reader, put_bytes, put_varint};

/// Names a stream: a leader draws a new number for each node that it gets to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    /// The leader's term.
    pub term: u64,
    /// In that term.
    pub number: u64,
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackingMessage {
    /// 0, to the leader: the node is there, and wants the stream confirmed.
    Renew {
        /// The stream.
        stream: StreamId,
        /// When it was sent, by the node's boot clock: `varint`.
        sent: u64,
    },
    /// 1, to the node: nobody else led when this was answered.
    Alive {
        /// The stream.
        stream: StreamId,
        /// The number of the next change: `varint`.
        next: u64,
        /// Of the `Renew`: `varint`.
        sent: u64,
    },
    /// 2, to the node: these keys may have changed. It is no longer registered for them.
    Changed {
        /// The stream.
        stream: StreamId,
        /// Its place in the stream: `varint`.
        number: u64,
        /// How many `varint`, and each `bytes`.
        keys: Vec<Box<[u8]>>,
    },
    /// 3, to the node: any key of the shard may have changed.
    AnyChanged {
        /// The stream.
        stream: StreamId,
        /// Its place in the stream: `varint`.
        number: u64,
    },
    /// 4, to the node: there is no such stream, or it has ended.
    Ended {
        /// The stream.
        stream: StreamId,
    },
}

impl TrackingMessage {
    /// Whether it is for a leader; else for a node that tracks keys.
    pub fn is_for_leader(&self) -> bool {
        matches!(self, Self::Renew { .. })
    }

    /// About how many bytes it takes.
    pub fn bytes_about(&self) -> usize {
        24 + match self {
            Self::Changed { keys, .. } => keys.iter().map(|key| key.len() + 4).sum(),
            _ => 0,
        }
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (tag, stream) = match self {
            Self::Renew { stream, .. } => (0, stream),
            Self::Alive { stream, .. } => (1, stream),
            Self::Changed { stream, .. } => (2, stream),
            Self::AnyChanged { stream, .. } => (3, stream),
            Self::Ended { stream } => (4, stream),
        };
        out.push(tag);
        stream.encode(out);
        match self {
            Self::Renew { sent, .. } => put_varint(*sent, out),
            Self::Alive { next, sent, .. } => {
                put_varint(*next, out);
                put_varint(*sent, out);
            }
            Self::Changed { number, keys, .. } => {
                put_varint(*number, out);
                put_varint(keys.len() as u64, out);
                keys.iter().for_each(|key| put_bytes(key, out));
            }
            Self::AnyChanged { number, .. } => put_varint(*number, out),
            Self::Ended { .. } => {}
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        let stream = StreamId::decode(reader)?;
        Ok(match tag {
            0 => Self::Renew { stream, sent: reader.varint()? },
            1 => Self::Alive { stream, next: reader.varint()?, sent: reader.varint()? },
            2 => {
                let number = reader.varint()?;
                // Each takes a byte at least.
                let count = reader.varint_max(reader.rest().len() as u64, "count of keys")?;
                let keys = (0..count).map(|_| Ok(Box::from(reader.bytes()?)));
                Self::Changed { stream, number, keys: keys.collect::<Result<_, DecodeError>>()? }
            }
            3 => Self::AnyChanged { stream, number: reader.varint()? },
            4 => Self::Ended { stream },
            found => return Err(DecodeError::Tag { what: "tracking message", found }),
        })
    }
}

impl StreamId {
    /// Appends its bytes.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_varint(self.term, out);
        put_varint(self.number, out);
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { term: reader.varint()?, number: reader.varint()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a message; `None` if it is none, or if something is behind it.
    fn read(bytes: &[u8]) -> Option<TrackingMessage> {
        let mut reader = Reader::new(bytes);
        let message = TrackingMessage::decode(&mut reader).ok()?;
        reader.rest().is_empty().then_some(message)
    }

    /// The fuzzer's seeds: the good ones are messages, the bad ones are refused.
    #[test]
    fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
        let seeds = harness::seeds::replay("tracking_message", |bytes| {
            let message = read(bytes).ok_or("it is none, or something is behind it")?;
            let mut again = Vec::new();
            message.encode(&mut again);
            Ok(again)
        });
        let has_tag = |tag: u8| seeds.iter().any(|seed| seed[0] == tag);
        assert!((0..5).all(has_tag), "a tag without a seed");
    }

    proptest! {
        /// Whatever comes is refused, or is what its own bytes say.
        #[test]
        fn any_bytes_are_read_or_refused(
            tag in 0u8..6,
            rest in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Some(message) = read(&[&[tag][..], &rest].concat()) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(read(&again), Some(message));
            }
        }
    }
}
