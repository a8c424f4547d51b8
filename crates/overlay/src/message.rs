//! Messages between the lookups of nodes, as values and as bytes.
//!
//! Messages may be lost, repeated and reordered; each is handled by itself. [`full`](crate::full)
//! and [`ring`](crate::ring) explain their use. A message of a ring is for the table of one
//! strategy of one shard; a node without such a table ignores it.
//!
//! # Bytes
//!
//! Numbers and counted bytes as in `keyspace::codec`, all little-endian. A message takes at most
//! [`MESSAGE_BYTES_MAX`], and every message has one encoding only.
//!
//! | message | bytes |
//! |---|---|
//! | any | version `u8` 1, tag `u8`, then |
//! | 1 digest | dropped sum `u64`, sums: [`BUCKETS`] × `u64` |
//! | 2 summary | `varint` count of buckets, each bucket `u8` rising, then `varint` count of versions: shard `varint` rising and of that bucket, generation `varint`, term `varint` |
//! | 3 want | `varint` count, shard `varint` each |
//! | 4 shards, 5 rumour | `varint` count, each as in [`known_shard`](crate::known_shard) |
//! | 6 dropped | `varint` count, then first and last keyspace id, `varint` each, as rising ranges with gaps between them |
//! | 7 ring | as in [`ring::message`](crate::ring::message) |
//! | 8 request | as in [`request::message`] |
//!
//! Reading never panics, and allocates no more than a small multiple of the bytes read.

use std::sync::Arc as Shared;

use keyspace::codec::{DecodeError, Reader, VARINT_BYTES_MAX, put_varint};
use keyspace::{Generation, KeyspaceId, ShardId};

use crate::dropped_keyspaces::{DroppedKeyspaces, RANGES_MAX};
use crate::known_shard::{KNOWN_SHARD_BYTES_MAX, KnownShard};
use crate::request;
use crate::ring::message::{self, RingMessage, Strategy};
use crate::table::{BUCKETS, Sums, Version, bucket_of};

/// The most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// The most versions a summary tells, over all its buckets.
pub const SUMMARY_VERSIONS_MAX: usize = 8 * 1024;

/// The most shards a message asks for.
pub const WANT_SHARDS_MAX: usize = 8 * 1024;

/// The most bytes of a message before what it lists: version, tag, count.
const HEAD_BYTES_MAX: usize = 2 + VARINT_BYTES_MAX;

const _: () = {
    let head = HEAD_BYTES_MAX;
    assert!(head + KNOWN_SHARD_BYTES_MAX <= MESSAGE_BYTES_MAX);
    assert!(head + 8 + 8 * BUCKETS <= MESSAGE_BYTES_MAX);
    let buckets = BUCKETS * (1 + VARINT_BYTES_MAX);
    assert!(head + buckets + SUMMARY_VERSIONS_MAX * 3 * VARINT_BYTES_MAX <= MESSAGE_BYTES_MAX);
    assert!(head + WANT_SHARDS_MAX * VARINT_BYTES_MAX <= MESSAGE_BYTES_MAX);
    assert!(head + RANGES_MAX * 2 * VARINT_BYTES_MAX <= MESSAGE_BYTES_MAX);
};

const VERSION: u8 = 1;
const DIGEST: u8 = 1;
const SUMMARY: u8 = 2;
const WANT: u8 = 3;
const SHARDS: u8 = 4;
const RUMOUR: u8 = 5;
const DROPPED: u8 = 6;
const RING: u8 = 7;
const REQUEST: u8 = 8;

/// The kinds of messages of full tables.
const FULL_KINDS: [&str; 6] = ["digest", "summary", "want", "shards", "rumour", "dropped"];

/// A message from one table to another. Repeating any of them is harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// "Is your table like this?" Once a tick, to one peer. Equal tables: no answer.
    Digest {
        /// [`DroppedKeyspaces::sum`].
        dropped: u64,
        /// The sums of the table's buckets.
        sums: Box<Sums>,
    },
    /// "In these buckets I have this." The answer to a digest, for buckets whose sums differ: all
    /// of each bucket, as many buckets as fit.
    Summary(Vec<(u8, Vec<Version>)>),
    /// "Tell me these shards." The answer to a summary that lists newer ones.
    Want(Vec<ShardId>),
    /// Shards by falling rank: the answer to a want, or to a summary that lacks them.
    Shards(Vec<Shared<KnownShard>>),
    /// Shards that the sender has just learnt. A receiver to which one is new passes it on, once.
    Rumour(Vec<Shared<KnownShard>>),
    /// "These keyspaces are gone." When the digest's sum differs, and in answer if there are more.
    Dropped(DroppedKeyspaces),
    /// From one member of a ring to another.
    Ring {
        /// Which of the receiver's tables is meant.
        strategy: Strategy,
        /// Which member.
        to: ShardId,
        /// Who says it, as it knows itself.
        from: Shared<KnownShard>,
        /// What it says.
        word: RingMessage,
    },
    /// For a request on its way.
    Request(request::RequestMessage),
}

impl Message {
    /// Names of the kinds of messages, for metrics: never changed.
    pub const KINDS: [&'static str;
        FULL_KINDS.len() + RingMessage::KINDS.len() + request::RequestMessage::KINDS.len()] = {
        let parts: [&[&str]; 3] =
            [&FULL_KINDS, &RingMessage::KINDS, &request::RequestMessage::KINDS];
        let mut kinds = [""; FULL_KINDS.len()
            + RingMessage::KINDS.len()
            + request::RequestMessage::KINDS.len()];
        let (mut part, mut first, mut place) = (0, 0, 0);
        while place < kinds.len() {
            if place - first == parts[part].len() {
                (part, first) = (part + 1, place);
            }
            kinds[place] = parts[part][place - first];
            place += 1;
        }
        kinds
    };

    /// The place of its kind in [`Self::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Message::Digest { .. } => 0,
            Message::Summary(_) => 1,
            Message::Want(_) => 2,
            Message::Shards(_) => 3,
            Message::Rumour(_) => 4,
            Message::Dropped(_) => 5,
            Message::Ring { word, .. } => FULL_KINDS.len() + word.kind(),
            Message::Request(word) => FULL_KINDS.len() + RingMessage::KINDS.len() + word.kind(),
        }
    }

    /// Appends its bytes.
    ///
    /// # Panics
    /// If it breaks a limit.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let before = out.len();
        out.push(VERSION);
        match self {
            Message::Digest { dropped, sums } => {
                out.push(DIGEST);
                out.extend_from_slice(&dropped.to_le_bytes());
                sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
            }
            Message::Summary(buckets) => {
                out.push(SUMMARY);
                put_varint(buckets.len() as u64, out);
                for (bucket, versions) in buckets {
                    out.push(*bucket);
                    put_varint(versions.len() as u64, out);
                    for version in versions {
                        put_varint(version.shard.0, out);
                        put_varint(version.generation.0, out);
                        put_varint(version.term, out);
                    }
                }
            }
            Message::Want(shards) => {
                out.push(WANT);
                put_varint(shards.len() as u64, out);
                shards.iter().for_each(|shard| put_varint(shard.0, out));
            }
            Message::Shards(known) => put_known(SHARDS, known, out),
            Message::Rumour(known) => put_known(RUMOUR, known, out),
            Message::Dropped(dropped) => {
                out.push(DROPPED);
                put_varint(dropped.ranges().len() as u64, out);
                for (first, last) in dropped.ranges() {
                    put_varint(first.0.into(), out);
                    put_varint(last.0.into(), out);
                }
            }
            Message::Ring { strategy, to, from, word } => {
                out.push(RING);
                message::put(*strategy, *to, from, word, out);
            }
            Message::Request(word) => {
                out.push(REQUEST);
                word.put(out);
            }
        }
        let bytes = out.len() - before;
        assert!(bytes <= MESSAGE_BYTES_MAX, "a message of {bytes} bytes");
    }

    /// Reads one that is all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no message of this version, or break a rule of the table above.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(DecodeError::Field { what: "message: too long" });
        }
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            found => return Err(DecodeError::Version { what: "lookup message", found }),
        }
        let message = match reader.u8()? {
            DIGEST => read_digest(&mut reader)?,
            SUMMARY => read_summary(&mut reader)?,
            WANT => {
                let count = reader.varint_max(WANT_SHARDS_MAX as u64, "want count")?;
                let shards = (0..count).map(|_| Ok(ShardId(reader.varint()?)));
                Message::Want(shards.collect::<Result<_, DecodeError>>()?)
            }
            SHARDS => Message::Shards(read_known(&mut reader)?),
            RUMOUR => Message::Rumour(read_known(&mut reader)?),
            DROPPED => read_dropped(&mut reader)?,
            RING => {
                let (strategy, to, from, word) = message::read(&mut reader)?;
                Message::Ring { strategy, to, from, word }
            }
            REQUEST => Message::Request(request::RequestMessage::read(&mut reader)?),
            found => return Err(DecodeError::Tag { what: "lookup message", found }),
        };
        reader.end()?;
        Ok(message)
    }
}

/// Cuts shards into messages' worth, in order: at most `messages_max` pieces, the rest is left out.
pub(crate) fn pieces(
    known: Vec<Shared<KnownShard>>,
    messages_max: usize,
) -> Vec<Vec<Shared<KnownShard>>> {
    let mut pieces: Vec<Vec<Shared<KnownShard>>> = Vec::new();
    let mut room = 0;
    for known in known {
        let bytes = known.bytes_max();
        if bytes > room {
            if pieces.len() == messages_max {
                break;
            }
            pieces.push(Vec::new());
            room = MESSAGE_BYTES_MAX - HEAD_BYTES_MAX;
        }
        room -= bytes;
        pieces.last_mut().expect("just pushed").push(known);
    }
    pieces
}

fn put_known(tag: u8, known: &[Shared<KnownShard>], out: &mut Vec<u8>) {
    out.push(tag);
    put_varint(known.len() as u64, out);
    known.iter().for_each(|known| known.encode(out));
}

fn read_known(reader: &mut Reader<'_>) -> Result<Vec<Shared<KnownShard>>, DecodeError> {
    let count = reader.varint()?;
    (0..count).map(|_| KnownShard::decode(reader).map(Shared::new)).collect()
}

fn read_digest(reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
    let dropped = reader.u64()?;
    let mut sums = Box::new([0; BUCKETS]);
    for sum in sums.iter_mut() {
        *sum = reader.u64()?;
    }
    Ok(Message::Digest { dropped, sums })
}

fn read_summary(reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
    let count = reader.varint_max(BUCKETS as u64, "bucket count")?;
    let mut buckets: Vec<(u8, Vec<Version>)> = Vec::new();
    let mut left = SUMMARY_VERSIONS_MAX as u64;
    for _ in 0..count {
        let bucket = reader.u8()?;
        if buckets.last().is_some_and(|(last, _)| *last >= bucket) {
            return Err(DecodeError::Field { what: "buckets: not rising" });
        }
        let count = reader.varint_max(left, "version count")?;
        left -= count;
        let mut versions: Vec<Version> = Vec::new();
        for _ in 0..count {
            let shard = ShardId(reader.varint()?);
            let (generation, term) = (Generation(reader.varint()?), reader.varint()?);
            let rises = versions.last().is_none_or(|last| last.shard < shard);
            if !rises || bucket_of(shard) != bucket {
                return Err(DecodeError::Field { what: "shards: order, or of another bucket" });
            }
            versions.push(Version { shard, generation, term });
        }
        buckets.push((bucket, versions));
    }
    Ok(Message::Summary(buckets))
}

fn read_dropped(reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
    let count = reader.varint_max(RANGES_MAX as u64, "range count")?;
    let mut dropped = DroppedKeyspaces::default();
    let mut above = 0;
    for _ in 0..count {
        let mut id = || reader.varint_max(u32::MAX.into(), "keyspace id").map(|id| id as u32);
        let (first, last) = (id()?, id()?);
        // Rising, not touching the one before, and never the system keyspace.
        if first <= above || !dropped.insert(KeyspaceId(first), KeyspaceId(last)) {
            return Err(DecodeError::Field { what: "ranges: order, or empty" });
        }
        above = last.saturating_add(1);
    }
    Ok(Message::Dropped(dropped))
}
