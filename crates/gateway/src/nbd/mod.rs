//! The network block device protocol (NBD): a volume as a disk that clients read and write.
//!
//! After the protocol's own document (`doc/proto.md` of the NBD project): fixed newstyle
//! negotiation; simple, structured and extended-header replies.
//!
//! ```text
//!   server ── NBDMAGIC, IHAVEOPT, flags ──────► client        [`GREETING`]
//!   client ── flags, options ─────────────────► server        [`Negotiation`]
//!   server ── what each option is answered ───► client
//!   client ── read, write, flush, trim, … ────► server        [`parse`]
//!   server ── data, holes, errors ────────────► client        [`ReplyWriter`]
//! ```
//!
//! # What is spoken
//!
//! | thing | which |
//! |---|---|
//! | options | `EXPORT_NAME`, `ABORT`, `LIST`, `STARTTLS`, `INFO`, `GO`, `STRUCTURED_REPLY`, `EXTENDED_HEADERS`, `LIST_META_CONTEXT`, `SET_META_CONTEXT`; others are answered `ERR_UNSUP` |
//! | commands | `READ`, `WRITE`, `DISC`, `FLUSH`, `TRIM`, `CACHE`, `WRITE_ZEROES`, `BLOCK_STATUS` |
//! | flags of commands | `FUA`, `NO_HOLE`, `DF`, `REQ_ONE`, `PAYLOAD_LEN`; `FAST_ZERO` is answered `ENOTSUP` |
//! | meta contexts | `base:allocation` |
//!
//! # Bad input
//!
//! A request that can be told from the next one is answered with the error that belongs to it:
//! `EINVAL` for a write that is not of whole blocks, or for what is empty or unknown, `ENOSPC` for
//! a write past the end, `EPERM` for a write to what is read-only. The bytes of a refused write are
//! skipped. After a wrong magic number, or a write whose bytes are more than
//! [`PAYLOAD_BYTES_MAX`], the connection ends: nothing that follows can be trusted.
//!
//! # Invariants
//!
//! 1. Parsing is a pure function of the bytes: how they are cut into pieces changes nothing.
//! 2. A length is judged before its bytes are waited for, so the limits bound what a connection
//!    holds.
//! 3. Nothing here knows sockets, volumes, or when a write is durable.

#[cfg(test)]
mod conversation_tests;
mod negotiation;
mod reply;
mod request;
mod sessions;
#[cfg(test)]
mod tests;

pub use negotiation::{Export, Exports, Found, GREETING, Negotiated, Negotiation, Step, TlsOffer};
pub use reply::{Extent, ReplyWriter};
pub use request::{Command, Fault, Parsed, Request, Transmission, parse};
pub use sessions::{JOIN_MILLIS, SESSION_PREFIX, SessionTime, WriterSessions, check_session_name};

/// The most bytes that one read or write moves: 32 MiB, the protocol's default.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// The most bytes of an option: the longest name, with room for queries.
pub const OPTION_BYTES_MAX: u32 = 16 << 10;
/// The most options of a negotiation: one that goes on for ever is ended.
pub const OPTIONS_MAX: u32 = 1_000;
/// The longest name of an export: the protocol's limit.
pub const NAME_BYTES_MAX: usize = 4_096;
/// The id under which `base:allocation` is reported.
pub const ALLOCATION_CONTEXT: u32 = 1;
/// Its name.
pub const ALLOCATION: &str = "base:allocation";

/// An error of a request, with the number that the protocol gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Writing is not permitted.
    Perm = 1,
    /// It could not be done, or may have been done.
    Io = 5,
    /// The server has no memory for it.
    NoMemory = 12,
    /// The request makes no sense.
    Invalid = 22,
    /// There is no room: past the end, or memory is full.
    NoSpace = 28,
    /// The answer cannot be sent in one piece.
    Overflow = 75,
    /// It would not be fast.
    NotSupported = 95,
    /// The server is about to stop.
    Shutdown = 108,
}

/// Appends a number in network order, as all of the protocol's are.
fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// The numbers at the front of bytes; `None` while they have not come.
fn be_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn be_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
