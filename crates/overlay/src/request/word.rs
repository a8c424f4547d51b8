//! What is said for a request, as values and as bytes.
//!
//! # Bytes
//! Of a message of tag 8, after its head:
//!
//! | word | bytes |
//! |---|---|
//! | any | tag `u8`, number `varint`, then |
//! | 1 find | form `u8`: 1 iterative, 2 recursive, 3 semi-recursive; `varint` 0 or 1 shards, shard `varint`; origin `u64`; hops `varint`; most hops `varint`, both at most [`HOPS_LINEAR_MAX`]; keyspace `varint`; tail `bytes`, at most `TAIL_BYTES_MAX` |
//! | 2 next | `known` |
//! | 3 found | hops `varint`, at most [`HOPS_LINEAR_MAX`]; `known` |
//! | 4 busy, 5 lost | |

use std::sync::Arc as Shared;

use keyspace::codec::{DecodeError, Reader, put_bytes, put_varint};
use keyspace::{KeyspaceId, NodeId, ShardId};

use super::HOPS_LINEAR_MAX;
use crate::known::{Known, TAIL_BYTES_MAX};

/// Who goes from hop to hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The origin asks each in turn.
    Iterative,
    /// Each passes it on; the last answers the origin.
    Recursive,
    /// Each passes it on; the answer comes back the same way.
    SemiRecursive,
}

/// What is said for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// "Who owns this point?"
    Find {
        /// Of the question.
        number: u64,
        /// Which shard's table is asked; none: the node's.
        to: Option<ShardId>,
        /// How it goes on.
        form: Form,
        /// Whom the answer is for.
        origin: NodeId,
        /// How many hops it has made, this one included.
        hops: u32,
        /// How many it may make.
        hops_max: u32,
        /// The point's keyspace …
        keyspace: KeyspaceId,
        /// … and where on its circle.
        tail: Vec<u8>,
    },
    /// "Ask that one." The answer to an iterative find.
    Next {
        /// Of the question.
        number: u64,
        /// Who is closer.
        member: Shared<Known>,
    },
    /// "I do."
    Found {
        /// Of the question.
        number: u64,
        /// How many hops it made.
        hops: u32,
        /// Who owns the point.
        owner: Shared<Known>,
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

const FORMS: [Form; 3] = [Form::Iterative, Form::Recursive, Form::SemiRecursive];

impl Word {
    /// Names of the kinds of words, for metrics: never changed.
    pub const KINDS: [&'static str; 5] =
        ["request_find", "request_next", "request_found", "request_busy", "request_lost"];

    /// The place of its kind in [`Self::KINDS`].
    pub fn kind(&self) -> usize {
        usize::from(self.tag() - 1)
    }

    fn tag(&self) -> u8 {
        match self {
            Word::Find { .. } => FIND,
            Word::Next { .. } => NEXT,
            Word::Found { .. } => FOUND,
            Word::Busy { .. } => BUSY,
            Word::Lost { .. } => LOST,
        }
    }

    /// The number of the question.
    pub fn number(&self) -> u64 {
        match self {
            Word::Find { number, .. }
            | Word::Next { number, .. }
            | Word::Found { number, .. }
            | Word::Busy { number }
            | Word::Lost { number } => *number,
        }
    }

    pub(super) fn renumbered(mut self, new: u64) -> Self {
        match &mut self {
            Word::Find { number, .. }
            | Word::Next { number, .. }
            | Word::Found { number, .. }
            | Word::Busy { number }
            | Word::Lost { number } => *number = new,
        }
        self
    }

    /// Appends its bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
        put_varint(self.number(), out);
        match self {
            Word::Find { to, form, origin, hops, hops_max, keyspace, tail, .. } => {
                out.push(*form as u8 + 1);
                put_varint(to.iter().len() as u64, out);
                to.iter().for_each(|shard| put_varint(shard.0, out));
                out.extend_from_slice(&origin.0.to_le_bytes());
                put_varint((*hops).into(), out);
                put_varint((*hops_max).into(), out);
                put_varint(keyspace.0.into(), out);
                put_bytes(tail, out);
            }
            Word::Next { member, .. } => member.encode(out),
            Word::Found { hops, owner, .. } => {
                put_varint((*hops).into(), out);
                owner.encode(out);
            }
            Word::Busy { .. } | Word::Lost { .. } => {}
        }
    }

    /// Reads one from the front of what is left.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (tag, number) = (reader.u8()?, reader.varint()?);
        let hops = |reader: &mut Reader<'_>| {
            reader.varint_max(HOPS_LINEAR_MAX.into(), "hops").map(|hops| hops as u32)
        };
        let known = |reader: &mut Reader<'_>| Known::decode(reader).map(Shared::new);
        Ok(match tag {
            FIND => {
                let form = match reader.u8()? {
                    found @ 1..=3 => FORMS[usize::from(found - 1)],
                    found => return Err(DecodeError::Tag { what: "form", found }),
                };
                let to = match reader.varint_max(1, "shard count")? {
                    0 => None,
                    _ => Some(ShardId(reader.varint()?)),
                };
                let origin = NodeId(reader.u64()?);
                let (hops, hops_max) = (hops(reader)?, hops(reader)?);
                let id = reader.varint_max(u32::MAX.into(), "keyspace id")?;
                let (keyspace, tail) = (KeyspaceId(id as u32), reader.bytes()?.to_vec());
                if tail.len() > TAIL_BYTES_MAX {
                    return Err(DecodeError::Field { what: "point: too long" });
                }
                Word::Find { number, to, form, origin, hops, hops_max, keyspace, tail }
            }
            NEXT => Word::Next { number, member: known(reader)? },
            FOUND => Word::Found { number, hops: hops(reader)?, owner: known(reader)? },
            BUSY => Word::Busy { number },
            LOST => Word::Lost { number },
            found => return Err(DecodeError::Tag { what: "word of a request", found }),
        })
    }
}
