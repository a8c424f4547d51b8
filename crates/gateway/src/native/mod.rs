//! The native protocol: the frames of the original clients, byte for byte.
//!
//! They come from the appendix *A.1 Database Client Protocol* of the bachelor thesis that Carillon
//! descends from (its figure 18 and the table there). Requests and replies have one form:
//!
//! ```text
//!   0        3                7                11           11 + key      11 + key + value
//!   ┌────────┬────────────────┬────────────────┬────────────┬─────────────┐
//!   │ op     │ key length     │ value length   │ key        │ value       │
//!   │ 3 × A  │ u32 big-endian │ u32 big-endian │            │             │
//!   └────────┴────────────────┴────────────────┴────────────┴─────────────┘
//!
//!   request  key   value           reply  key        value      or  key        value
//!   GET      key   —               GOK    the same   the value  GER the same   —
//!   PUT      key   the new value   POK    the same   —          PER the same   —
//!   DEL      key   —               DOK    the same   —          DER the same   —
//! ```
//!
//! Requests may be pipelined; replies come in the order of the requests. Nothing else ties a reply
//! to its request but the key that it repeats. `DEL` of a key without a value answers `DOK`;
//! `GET` of one answers `GER`.
//!
//! # Where the thesis is silent, or we differ
//!
//! - It does not state the byte order: network order is taken, as its clients (Java, Erlang)
//!   wrote by default.
//! - Its table leaves the value of error replies empty, and so do we by default, byte for byte.
//!   With the setting `native_error_reason` the value holds the reason: `not found`, or why a write
//!   was refused. A client that reads frames by their lengths reads both.
//! - An error reply always means that nothing was done. A write whose outcome is unknown is not
//!   answered: the connection is closed, so that the two stay apart (SAFETY G10) with and without
//!   reasons.
//! - Keys may be empty; limits are `key_bytes_max` and `value_bytes_max`.
//!
//! # Malformed requests
//!
//! After an unknown op, a length above its limit, or a `GET` or `DEL` that announces a value, the
//! start of the next request cannot be trusted. The server answers all earlier requests, writes one
//! error frame and closes the connection. The frame is `GER` if the op is unknown; its key is
//! empty, for the key has not been read.
//!
//! # Invariants
//!
//! 1. Parsing is a pure function of the bytes: how they are cut into pieces changes nothing.
//! 2. A length is judged as soon as it has arrived, before any byte of the body. So the limits
//!    bound the bytes that a connection holds.
//! 3. Nothing is copied: a request borrows from the input.
//!
//! It does not know sockets, keyspaces (clients of this protocol use keyspace `0`) or what a
//! command does.

mod parse;
#[cfg(test)]
mod tests;
mod write;

use command::{Read, Write};

use crate::access::Access;

pub use parse::{Fault, FaultKind, FrameLimits, Parsed, parse};
pub use write::{ErrorText, FrameSink, write_error, write_fault, write_frame};

/// Bytes before the key.
pub const HEADER_BYTES: usize = 11;

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The value of a key.
    Get,
    /// A new value for a key.
    Put,
    /// No value for a key.
    Delete,
}

impl Op {
    /// What it is for.
    #[inline]
    pub fn access(self) -> Access {
        match self {
            Op::Get => Access::Read,
            Op::Put | Op::Delete => Access::Write,
        }
    }

    /// The op of three letters.
    pub fn from_letters(letters: [u8; 3]) -> Option<Self> {
        match &letters {
            b"GET" => Some(Op::Get),
            b"PUT" => Some(Op::Put),
            b"DEL" => Some(Op::Delete),
            _ => None,
        }
    }

    /// The letters of a request.
    pub fn request(self) -> [u8; 3] {
        *match self {
            Op::Get => b"GET",
            Op::Put => b"PUT",
            Op::Delete => b"DEL",
        }
    }

    /// The letters of a reply when all is well.
    pub fn done(self) -> [u8; 3] {
        *match self {
            Op::Get => b"GOK",
            Op::Put => b"POK",
            Op::Delete => b"DOK",
        }
    }

    /// The letters of a reply when it is not.
    pub fn error(self) -> [u8; 3] {
        *match self {
            Op::Get => b"GER",
            Op::Put => b"PER",
            Op::Delete => b"DER",
        }
    }
}

/// One request, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is asked.
    pub op: Op,
    /// Of which key.
    pub key: &'a [u8],
    /// The new value of a put; empty otherwise.
    pub value: &'a [u8],
}

/// A request as the node understands it.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<'a> {
    /// Only reads.
    Read(Read<'a>),
    /// Changes something.
    Write(Write<'a>),
}

impl<'a> Request<'a> {
    /// As a command. A put keeps no expiry and asks for no condition.
    pub fn command(&self) -> Command<'a> {
        let key = self.key;
        match self.op {
            Op::Get => Command::Read(Read::Get(key)),
            Op::Put => Command::Write(Write::set(key, self.value)),
            Op::Delete => Command::Write(Write::Delete { key }),
        }
    }
}
