//! Requests of the transmission phase.
//!
//! ```text
//!   compact   25609513  flags u16  type u16  cookie u64  offset u64  length u32   28 bytes
//!   extended  21e41c71  flags u16  type u16  cookie u64  offset u64  length u64   32 bytes
//!   then, of a write, its bytes
//! ```

use super::{Errno, PAYLOAD_BYTES_MAX, be_u16, be_u32, be_u64};

const COMPACT_MAGIC: u32 = 0x2560_9513;
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;
const COMPACT_BYTES: usize = 28;
const EXTENDED_BYTES: usize = 32;

mod kind {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

mod flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// What requests of a connection look like, and what they may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Whether replies are structured.
    pub has_structured: bool,
    /// Whether headers are extended ones; then replies are structured.
    pub has_extended: bool,
    /// Whether `base:allocation` may be asked for.
    pub has_context: bool,
    /// The size of the volume in bytes.
    pub size: u64,
    /// The bytes of a block.
    pub block: u32,
    /// Whether nothing may be written.
    pub is_read_only: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Send the bytes.
    Read {
        /// In one piece.
        is_whole: bool,
    },
    /// Take these.
    Write(&'a [u8]),
    /// What was written is to be durable.
    Flush,
    /// The bytes are not needed any more.
    Trim,
    /// The bytes will soon be read.
    Cache,
    /// They are to be zeroes.
    WriteZeroes {
        /// And to keep their room.
        has_no_hole: bool,
    },
    /// Which of them are there?
    BlockStatus {
        /// One extent is enough.
        is_one: bool,
    },
    /// The client goes.
    Disconnect,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What its reply repeats.
    pub cookie: u64,
    /// What it asks.
    pub command: Command<'a>,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Whether it is to be durable when it is answered.
    pub is_durable: bool,
}

/// What is at the front of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// Not all has come.
    More,
    /// A request, of so many bytes.
    Request(Request<'a>, usize),
    /// A request that is refused, of so many bytes and so many more of its payload that are to be
    /// skipped, whether they have come or not.
    Refused(Fault, usize, u64),
    /// Nothing that follows can be trusted: the connection ends.
    Broken(&'static str),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which request.
    pub cookie: u64,
    /// From which byte on it asked.
    pub offset: u64,
    /// The error.
    pub errno: Errno,
    /// In words.
    pub why: &'static str,
}

/// Reads what is at the front of the input.
pub fn parse<'a>(input: &'a [u8], form: &Transmission) -> Parsed<'a> {
    let (magic, header) = match form.has_extended {
        true => (EXTENDED_MAGIC, EXTENDED_BYTES),
        false => (COMPACT_MAGIC, COMPACT_BYTES),
    };
    if be_u32(input, 0).is_some_and(|found| found != magic) {
        return Parsed::Broken("a request begins with another magic number");
    }
    let Some(fields) = fields(input, form.has_extended) else { return Parsed::More };
    let Fields { flags, kind, cookie, offset, length } = fields;
    let has_payload = match form.has_extended {
        true => kind == kind::WRITE || flags & flag::PAYLOAD_LEN != 0,
        false => kind == kind::WRITE,
    };
    let payload = if has_payload { length } else { 0 };
    if payload > PAYLOAD_BYTES_MAX.into() {
        return Parsed::Broken("a write has more bytes than a request may have");
    }
    if kind == kind::DISC {
        let command = Command::Disconnect;
        let request = Request { cookie, command, offset, length, is_durable: false };
        return Parsed::Request(request, header);
    }
    if let Err((errno, why)) = fields.check(form) {
        return Parsed::Refused(Fault { cookie, offset, errno, why }, header, payload);
    }
    let command = match kind {
        kind::READ => Command::Read { is_whole: flags & flag::DF != 0 },
        kind::WRITE => match input.get(header..header + payload as usize) {
            Some(bytes) => Command::Write(bytes),
            None => return Parsed::More,
        },
        kind::FLUSH => Command::Flush,
        kind::TRIM => Command::Trim,
        kind::CACHE => Command::Cache,
        kind::WRITE_ZEROES => Command::WriteZeroes { has_no_hole: flags & flag::NO_HOLE != 0 },
        _ => Command::BlockStatus { is_one: flags & flag::REQ_ONE != 0 },
    };
    let is_durable = flags & flag::FUA != 0;
    let used = header + payload as usize;
    Parsed::Request(Request { cookie, command, offset, length, is_durable }, used)
}

#[derive(Clone, Copy)]
struct Fields {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u64,
}

fn fields(input: &[u8], has_extended: bool) -> Option<Fields> {
    Some(Fields {
        flags: be_u16(input, 4)?,
        kind: be_u16(input, 6)?,
        cookie: be_u64(input, 8)?,
        offset: be_u64(input, 16)?,
        length: match has_extended {
            true => be_u64(input, 24)?,
            false => be_u32(input, 24)?.into(),
        },
    })
}

impl Fields {
    /// Whether the request may be done.
    fn check(&self, form: &Transmission) -> Result<(), (Errno, &'static str)> {
        let allowed = match self.kind {
            kind::READ => flag::DF,
            kind::WRITE if form.has_extended => flag::FUA | flag::PAYLOAD_LEN,
            kind::WRITE | kind::TRIM => flag::FUA,
            kind::WRITE_ZEROES => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
            kind::BLOCK_STATUS => flag::REQ_ONE,
            kind::FLUSH | kind::CACHE => 0,
            _ => return Err((Errno::Invalid, "unknown command")),
        };
        let writes = matches!(self.kind, kind::WRITE | kind::TRIM | kind::WRITE_ZEROES);
        if writes && form.is_read_only {
            return Err((Errno::Perm, "the volume can only be read"));
        }
        // A client may set FUA on anything once it was offered.
        if self.flags & !(allowed | flag::FUA) != 0 {
            return Err((Errno::Invalid, "a flag that this command does not have"));
        }
        if self.flags & flag::FAST_ZERO != 0 {
            return Err((Errno::NotSupported, "zeroes are not faster than other bytes"));
        }
        if self.kind == kind::FLUSH {
            return match (self.offset, self.length) {
                (0, 0) => Ok(()),
                _ => Err((Errno::Invalid, "a flush names no bytes")),
            };
        }
        if self.length == 0 {
            return Err((Errno::Invalid, "no bytes are asked for"));
        }
        if self.offset.checked_add(self.length).is_none_or(|end| end > form.size) {
            let errno = if writes { Errno::NoSpace } else { Errno::Invalid };
            return Err((errno, "past the end of the volume"));
        }
        let block = u64::from(form.block);
        if writes && !(self.offset | self.length).is_multiple_of(block) {
            return Err((Errno::Invalid, "what is written is no whole number of blocks"));
        }
        match self.kind {
            kind::READ if self.length > PAYLOAD_BYTES_MAX.into() => {
                Err((Errno::Overflow, "more bytes than a reply may have"))
            }
            kind::BLOCK_STATUS if !form.has_context => {
                Err((Errno::Invalid, "no meta context was chosen"))
            }
            _ => Ok(()),
        }
    }
}
