//! Messages for a request, as values and as bytes.
//!
//! # Bytes
//! Of a message of tag 8, after its head:
//!
//! | message | bytes |
//! |---|---|
//! | any | tag `u8`, number `varint`, then |
//! | 1 find | kind `u8`: 1 full, 2 chord, 3 chord-sharp, 4 linear, 5 lh; form `u8`: 1 iterative, 2 recursive, 3 semi-recursive; flags `u8`: 1 by images, too, 2 traced; `varint` 0 or 1 shards, shard `varint`; origin `u64`; hops `varint`; most hops `varint`, both at most [`HOPS_LINEAR_MAX`]; keyspace `varint`; tail `bytes`, at most `TAIL_BYTES_MAX`; trail |
//! | 2 next | by; `known` |
//! | 3 found | hops `varint`, at most [`HOPS_LINEAR_MAX`]; `known`; trail |
//! | 4 busy, 5 lost | |
//!
//! A trail is a `varint` count, at most [`TRAIL_MAX`], none if not traced; of each hop the shard
//! `varint`, the node `u64`, by. By is a `u8`: 1 any node, 2 a route cache, 3 a bucket, 6 a full
//! table; 4 a successor, 5 a finger, and then its number `u8`.

use std::fmt;
use std::sync::Arc as Shared;

use keyspace::codec::{DecodeError, Reader, put_bytes, put_varint};
use keyspace::{KeyspaceId, NodeId, ShardId};

use super::HOPS_LINEAR_MAX;
use crate::known_shard::{KnownShard, TAIL_BYTES_MAX};
use crate::lookup::Kind;
use crate::ring::TableEntry;

/// The most legs of a trail; it has no more of a longer way.
pub const TRAIL_MAX: usize = 256;

/// How a request goes from hop to hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// The origin asks each in turn.
    Iterative,
    /// Each passes it on; the last answers the origin.
    Recursive,
    /// Each passes it on; the answer comes back the same way.
    SemiRecursive,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Iterative, Self::Recursive, Self::SemiRecursive];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iterative => "iterative",
            Self::Recursive => "recursive",
            Self::SemiRecursive => "semi-recursive",
        }
    }

    /// The one of this name, in capitals or not.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|form| name.eq_ignore_ascii_case(form.name().as_bytes()))
    }
}

/// What led a request to where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopSource {
    /// Nothing: any node was asked.
    AnyNode,
    /// The remembered owner.
    RouteCache,
    /// The number of a bucket.
    Bucket,
    /// The full table.
    Full,
    /// A table of a ring.
    Ring(TableEntry),
}

impl fmt::Display for HopSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HopSource::AnyNode => f.write_str("any node"),
            HopSource::RouteCache => f.write_str("image"),
            HopSource::Bucket => f.write_str("bucket"),
            HopSource::Full => f.write_str("full table"),
            HopSource::Ring(via) => via.fmt(f),
        }
    }
}

impl HopSource {
    fn put(self, out: &mut Vec<u8>) {
        match self {
            HopSource::AnyNode => out.push(1),
            HopSource::RouteCache => out.push(2),
            HopSource::Bucket => out.push(3),
            HopSource::Full => out.push(6),
            HopSource::Ring(TableEntry::Successor(index)) => out.extend_from_slice(&[4, index]),
            HopSource::Ring(TableEntry::Finger(level)) => out.extend_from_slice(&[5, level]),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => HopSource::AnyNode,
            2 => HopSource::RouteCache,
            3 => HopSource::Bucket,
            6 => HopSource::Full,
            4 => HopSource::Ring(TableEntry::Successor(reader.u8()?)),
            5 => HopSource::Ring(TableEntry::Finger(reader.u8()?)),
            found => return Err(DecodeError::Tag { what: "what led a request on", found }),
        })
    }
}

/// One move of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteHop {
    /// To which shard; 0, which is in no ring, if any of a node's was asked.
    pub shard: ShardId,
    /// At which node.
    pub node: NodeId,
    /// What led there.
    pub by: HopSource,
}

/// "Which shard owns this point?"
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// Of the question.
    pub number: u64,
    /// By which lookup.
    pub kind: Kind,
    /// Which shard's table is asked; none: the node's, or any of its shards'.
    pub to: Option<ShardId>,
    /// How it goes on.
    pub form: Form,
    /// Whether those asked may go by whatever they happen to know.
    pub cached: bool,
    /// The node that gets the answer.
    pub origin: NodeId,
    /// How many hops it has made, this one included.
    pub hops: u32,
    /// How many it may make.
    pub hops_max: u32,
    /// The point's keyspace …
    pub keyspace: KeyspaceId,
    /// … and where on its circle.
    pub tail: Vec<u8>,
    /// If it is traced: where it was passed on to since the origin has sent it.
    pub trail: Option<Vec<RouteHop>>,
}

/// A message for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestMessage {
    /// "Which shard owns this point?"
    Find(Find),
    /// "Ask that one." The answer to an iterative find.
    Next {
        /// Of the question.
        number: u64,
        /// Who is closer.
        member: Shared<KnownShard>,
        /// What says so.
        by: HopSource,
    },
    /// "I do."
    Found {
        /// Of the question.
        number: u64,
        /// How many hops it made.
        hops: u32,
        /// Who owns the point.
        owner: Shared<KnownShard>,
        /// If it was traced: where it was passed on to since the origin has sent it.
        trail: Vec<RouteHop>,
    },
    /// "Not now: ask again later."
    Busy {
        /// Of the question.
        number: u64,
    },
    /// "That was the last hop."
    Lost {
        /// Of the question.
        number: u64,
    },
}

const FIND: u8 = 1;
const NEXT: u8 = 2;
const FOUND: u8 = 3;
const BUSY: u8 = 4;
const LOST: u8 = 5;

const CACHED: u8 = 1;
const TRACED: u8 = 2;

impl RequestMessage {
    /// Names of the kinds of messages, for metrics: never changed.
    pub const KINDS: [&'static str; 5] =
        ["request_find", "request_next", "request_found", "request_busy", "request_lost"];

    /// The place of its kind in [`Self::KINDS`].
    pub fn kind(&self) -> usize {
        usize::from(self.tag() - 1)
    }

    fn tag(&self) -> u8 {
        match self {
            RequestMessage::Find(_) => FIND,
            RequestMessage::Next { .. } => NEXT,
            RequestMessage::Found { .. } => FOUND,
            RequestMessage::Busy { .. } => BUSY,
            RequestMessage::Lost { .. } => LOST,
        }
    }

    /// The number of the question.
    pub fn number(&self) -> u64 {
        match self {
            RequestMessage::Find(Find { number, .. })
            | RequestMessage::Next { number, .. }
            | RequestMessage::Found { number, .. }
            | RequestMessage::Busy { number }
            | RequestMessage::Lost { number } => *number,
        }
    }

    pub(super) fn renumbered(mut self, new: u64) -> Self {
        match &mut self {
            RequestMessage::Find(Find { number, .. })
            | RequestMessage::Next { number, .. }
            | RequestMessage::Found { number, .. }
            | RequestMessage::Busy { number }
            | RequestMessage::Lost { number } => *number = new,
        }
        self
    }

    /// Appends its bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
        put_varint(self.number(), out);
        match self {
            RequestMessage::Find(find) => find.put(out),
            RequestMessage::Next { member, by, .. } => {
                by.put(out);
                member.encode(out);
            }
            RequestMessage::Found { hops, owner, trail, .. } => {
                put_varint((*hops).into(), out);
                owner.encode(out);
                put_trail(trail, out);
            }
            RequestMessage::Busy { .. } | RequestMessage::Lost { .. } => {}
        }
    }

    /// Reads one value from the front of the reader.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (tag, number) = (reader.u8()?, reader.varint()?);
        let known = |reader: &mut Reader<'_>| KnownShard::decode(reader).map(Shared::new);
        Ok(match tag {
            FIND => RequestMessage::Find(Find::read(number, reader)?),
            NEXT => {
                let by = HopSource::read(reader)?;
                RequestMessage::Next { number, member: known(reader)?, by }
            }
            FOUND => {
                let (hops, owner) = (read_hops(reader)?, known(reader)?);
                RequestMessage::Found { number, hops, owner, trail: read_trail(reader)? }
            }
            BUSY => RequestMessage::Busy { number },
            LOST => RequestMessage::Lost { number },
            found => return Err(DecodeError::Tag { what: "word of a request", found }),
        })
    }
}

impl Find {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8 + 1);
        out.push(self.form as u8 + 1);
        let traced = if self.trail.is_some() { TRACED } else { 0 };
        out.push(if self.cached { CACHED | traced } else { traced });
        put_varint(self.to.iter().len() as u64, out);
        self.to.iter().for_each(|shard| put_varint(shard.0, out));
        out.extend_from_slice(&self.origin.0.to_le_bytes());
        put_varint(self.hops.into(), out);
        put_varint(self.hops_max.into(), out);
        put_varint(self.keyspace.0.into(), out);
        put_bytes(&self.tail, out);
        put_trail(self.trail.as_deref().unwrap_or_default(), out);
    }

    fn read(number: u64, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = match reader.u8()? {
            found @ 1..=5 => Kind::ALL[usize::from(found - 1)],
            found => return Err(DecodeError::Tag { what: "lookup of a request", found }),
        };
        let form = match reader.u8()? {
            found @ 1..=3 => Form::ALL[usize::from(found - 1)],
            found => return Err(DecodeError::Tag { what: "form", found }),
        };
        let flags = reader.u8()?;
        if flags > CACHED | TRACED {
            return Err(DecodeError::Field { what: "flags of a request" });
        }
        let to = match reader.varint_max(1, "shard count")? {
            0 => None,
            _ => Some(ShardId(reader.varint()?)),
        };
        let origin = NodeId(reader.u64()?);
        let (hops, hops_max) = (read_hops(reader)?, read_hops(reader)?);
        let id = reader.varint_max(u32::MAX.into(), "keyspace id")?;
        let (keyspace, tail) = (KeyspaceId(id as u32), reader.bytes()?.to_vec());
        if tail.len() > TAIL_BYTES_MAX {
            return Err(DecodeError::Field { what: "point: too long" });
        }
        let (cached, is_traced) = (flags & CACHED > 0, flags & TRACED > 0);
        let trail = read_trail(reader)?;
        if !is_traced && !trail.is_empty() {
            return Err(DecodeError::Field { what: "trail: of what is not traced" });
        }
        let trail = is_traced.then_some(trail);
        Ok(Self { number, kind, to, form, cached, origin, hops, hops_max, keyspace, tail, trail })
    }
}

fn read_hops(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    reader.varint_max(HOPS_LINEAR_MAX.into(), "hops").map(|hops| hops as u32)
}

fn put_trail(trail: &[RouteHop], out: &mut Vec<u8>) {
    put_varint(trail.len() as u64, out);
    for leg in trail {
        put_varint(leg.shard.0, out);
        out.extend_from_slice(&leg.node.0.to_le_bytes());
        leg.by.put(out);
    }
}

fn read_trail(reader: &mut Reader<'_>) -> Result<Vec<RouteHop>, DecodeError> {
    let count = reader.varint_max(TRAIL_MAX as u64, "legs")?;
    let leg = |_| {
        let (shard, node) = (ShardId(reader.varint()?), NodeId(reader.u64()?));
        Ok(RouteHop { shard, node, by: HopSource::read(reader)? })
    };
    (0..count).map(leg).collect()
}
