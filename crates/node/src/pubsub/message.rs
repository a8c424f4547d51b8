//! What nodes send each other about ephemeral messages, and its bytes.
//!
//! ```text
//!   Publish   number, channel, message ──► Receivers   number, count
//!   Delta     what has changed between two versions ──► Ack   I know this version
//!   Digest    my version, each second ──► Ack, or Pull ──► Delta or State
//! ```
//!
//! # Bytes
//! Tag `u8`, then the fields below in their order; words as in [`keyspace::codec`]. One message is
//! the body of one frame.

use bytes::Bytes;
use command::TopicKind;
use command::topic::CHANNEL_BYTES_MAX;
use keyspace::DecodeError;
use keyspace::codec::{Reader, put_bytes, put_varint};

/// A message about ephemeral messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PubSubMessage {
    /// 1: for the subscribers of a channel.
    Publish {
        /// The sender's number for it, which the answer repeats: `varint`; 0: nobody
        /// waits for an answer.
        number: u64,
        /// What the channel is: `u8` 0 a channel, 2 a shard channel.
        kind: TopicKind,
        /// Its name: `bytes`.
        channel: Box<[u8]>,
        /// What was published: all that is left.
        message: Bytes,
    },
    /// 2: so many got it.
    Receivers {
        /// The sender's number: `varint`.
        number: u64,
        /// How many: `varint`.
        count: u64,
    },
    /// 3 to 7: what a node's clients want.
    Interest(InterestMessage),
}

/// What a node's clients want, by versions. Incarnations and digests are u64, versions `varint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterestMessage {
    /// 3: what the sender is at.
    Digest {
        /// The sender's: a later start has a larger one.
        incarnation: u64,
        /// Its version.
        version: u64,
        /// All its topics and counts as of then.
        digest: u64,
    },
    /// 4: send what came after this version of yours; 0: all.
    Pull {
        /// The receiver's incarnation that the sender knows.
        incarnation: u64,
        /// … and up to which version.
        version: u64,
    },
    /// 5: what has changed.
    Delta {
        /// The sender's.
        incarnation: u64,
        /// After this version …
        from: u64,
        /// … up to this one.
        to: u64,
        /// As of then.
        digest: u64,
        /// Topics, with their counts as of then: a `varint` count of them.
        changes: Vec<TopicCount>,
    },
    /// 6: all of it.
    State {
        /// The sender's.
        incarnation: u64,
        /// As of this version.
        version: u64,
        /// As of then.
        digest: u64,
        /// Whether the topics are too many to be announced, and all messages are wanted: `u8`.
        wants_all: bool,
        /// All topics: a `varint` count of them.
        topics: Vec<TopicCount>,
    },
    /// 7: the sender knows this version of the receiver's.
    Ack {
        /// The receiver's incarnation.
        incarnation: u64,
        /// The version.
        version: u64,
    },
}

/// How many clients of a node want a topic: kind `u8`, name `bytes`, count `varint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCount {
    /// What it is.
    pub kind: TopicKind,
    /// Its name.
    pub name: Box<[u8]>,
    /// How many; 0: none any more.
    pub count: u32,
}

impl PubSubMessage {
    /// Appends the bytes of a [`PubSubMessage::Publish`] up to its message, which is to follow.
    pub fn encode_publish(number: u64, kind: TopicKind, channel: &[u8], out: &mut Vec<u8>) {
        out.push(1);
        put_varint(number, out);
        out.push(kind as u8);
        put_bytes(channel, out);
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            PubSubMessage::Publish { number, kind, channel, message } => {
                Self::encode_publish(*number, *kind, channel, out);
                out.extend_from_slice(message);
            }
            PubSubMessage::Receivers { number, count } => {
                out.push(2);
                put_varint(*number, out);
                put_varint(*count, out);
            }
            PubSubMessage::Interest(interest) => interest.encode(out),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let tag = reader.u8()?;
        Ok(match tag {
            1 => {
                let number = reader.varint()?;
                let kind = kind(&mut reader)?;
                let channel = name(&mut reader)?;
                if kind == TopicKind::Pattern {
                    return Err(DecodeError::Field { what: "channel of a message" });
                }
                let message = body.slice(body.len() - reader.rest().len()..);
                PubSubMessage::Publish { number, kind, channel, message }
            }
            2 => {
                let (number, count) = (reader.varint()?, reader.varint()?);
                reader.end()?;
                PubSubMessage::Receivers { number, count }
            }
            tag => PubSubMessage::Interest(InterestMessage::decode(tag, &mut reader)?),
        })
    }
}

impl InterestMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        let begin = |out: &mut Vec<u8>, tag: u8, incarnation: &u64| {
            out.push(tag);
            out.extend_from_slice(&incarnation.to_le_bytes());
        };
        match self {
            InterestMessage::Digest { incarnation, version, digest } => {
                begin(out, 3, incarnation);
                put_varint(*version, out);
                out.extend_from_slice(&digest.to_le_bytes());
            }
            InterestMessage::Pull { incarnation, version } => {
                begin(out, 4, incarnation);
                put_varint(*version, out);
            }
            InterestMessage::Delta { incarnation, from, to, digest, changes } => {
                begin(out, 5, incarnation);
                put_varint(*from, out);
                put_varint(*to, out);
                out.extend_from_slice(&digest.to_le_bytes());
                put_topics(changes, out);
            }
            InterestMessage::State { incarnation, version, digest, wants_all, topics } => {
                begin(out, 6, incarnation);
                put_varint(*version, out);
                out.extend_from_slice(&digest.to_le_bytes());
                out.push(u8::from(*wants_all));
                put_topics(topics, out);
            }
            InterestMessage::Ack { incarnation, version } => {
                begin(out, 7, incarnation);
                put_varint(*version, out);
            }
        }
    }

    fn decode(tag: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if !(3..=7).contains(&tag) {
            return Err(DecodeError::Tag { what: "message about ephemeral messages", found: tag });
        }
        let (incarnation, version) = (reader.u64()?, reader.varint()?);
        let read = match tag {
            3 => InterestMessage::Digest { incarnation, version, digest: reader.u64()? },
            4 => InterestMessage::Pull { incarnation, version },
            5 => {
                let (to, digest) = (reader.varint()?, reader.u64()?);
                if to < version {
                    return Err(DecodeError::Field { what: "versions of a delta" });
                }
                let changes = read_topics(reader)?;
                InterestMessage::Delta { incarnation, from: version, to, digest, changes }
            }
            6 => {
                let digest = reader.u64()?;
                let wants_all = match reader.u8()? {
                    0 => false,
                    1 => true,
                    found => return Err(DecodeError::Tag { what: "whether all is wanted", found }),
                };
                let topics = read_topics(reader)?;
                InterestMessage::State { incarnation, version, digest, wants_all, topics }
            }
            _ => InterestMessage::Ack { incarnation, version },
        };
        reader.end()?;
        Ok(read)
    }
}

fn kind(reader: &mut Reader<'_>) -> Result<TopicKind, DecodeError> {
    let found = reader.u8()?;
    TopicKind::of(found).ok_or(DecodeError::Tag { what: "kind of topic", found })
}

fn name(reader: &mut Reader<'_>) -> Result<Box<[u8]>, DecodeError> {
    let name = reader.bytes()?;
    match name.len() <= CHANNEL_BYTES_MAX {
        true => Ok(name.into()),
        false => Err(DecodeError::Field { what: "length of a channel's name" }),
    }
}

fn put_topics(topics: &[TopicCount], out: &mut Vec<u8>) {
    put_varint(topics.len() as u64, out);
    for TopicCount { kind, name, count } in topics {
        out.push(*kind as u8);
        put_bytes(name, out);
        put_varint((*count).into(), out);
    }
}

fn read_topics(reader: &mut Reader<'_>) -> Result<Vec<TopicCount>, DecodeError> {
    // Nothing is allocated for a count that is only said.
    let mut topics = Vec::new();
    for _ in 0..reader.varint()? {
        let (kind, name) = (kind(reader)?, name(reader)?);
        let count = reader.varint_max(u32::MAX.into(), "count of subscribers")? as u32;
        topics.push(TopicCount { kind, name, count });
    }
    Ok(topics)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_message_is_read_as_it_was_written() {
        let topic = |kind, count| TopicCount { kind, name: b"a"[..].into(), count };
        let topics = vec![topic(TopicKind::Channel, 1), topic(TopicKind::Pattern, 0)];
        let (incarnation, digest) = (7, 99);
        let all = [
            PubSubMessage::Publish {
                number: 300,
                kind: TopicKind::Shard,
                channel: b"c"[..].into(),
                message: Bytes::from_static(b"hello"),
            },
            PubSubMessage::Receivers { number: 300, count: 2 },
            PubSubMessage::Interest(InterestMessage::Digest { incarnation, version: 5, digest }),
            PubSubMessage::Interest(InterestMessage::Pull { incarnation, version: 5 }),
            PubSubMessage::Interest(InterestMessage::Delta {
                incarnation,
                from: 4,
                to: 5,
                digest,
                changes: topics.clone(),
            }),
            PubSubMessage::Interest(InterestMessage::State {
                incarnation,
                version: 5,
                digest,
                wants_all: false,
                topics,
            }),
            PubSubMessage::Interest(InterestMessage::Ack { incarnation, version: 5 }),
        ];
        for message in all {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(PubSubMessage::decode(&Bytes::from(bytes)), Ok(message));
        }
    }

    /// The fuzzer's seeds: the good ones are messages, the bad ones are refused.
    #[test]
    fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
        let seeds = harness::seeds::replay("pubsub_message", |bytes| {
            let message = PubSubMessage::decode(&Bytes::copy_from_slice(bytes));
            let mut again = Vec::new();
            message.map_err(|error| error.to_string())?.encode(&mut again);
            Ok(again)
        });
        let has_tag = |tag: u8| seeds.iter().any(|seed| seed[0] == tag);
        assert!((1..8).all(has_tag), "a tag without a seed");
    }

    #[test]
    fn long_names_and_patterns_as_channels_are_refused() {
        for (kind, length, is_read) in [
            (TopicKind::Channel, CHANNEL_BYTES_MAX, true),
            (TopicKind::Channel, CHANNEL_BYTES_MAX + 1, false),
            (TopicKind::Pattern, 1, false),
        ] {
            let mut bytes = Vec::new();
            PubSubMessage::encode_publish(1, kind, &vec![b'x'; length], &mut bytes);
            assert_eq!(PubSubMessage::decode(&bytes.into()).is_ok(), is_read);
        }
    }

    proptest! {
        /// Whatever comes is refused, or is what its own bytes say.
        #[test]
        fn any_bytes_are_read_or_refused(
            tag in 0u8..9,
            rest in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let bytes = Bytes::from([&[tag][..], &rest].concat());
            if let Ok(message) = PubSubMessage::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(Bytes::from(again), bytes);
            }
        }
    }
}
