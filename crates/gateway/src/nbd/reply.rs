//! Replies of the transmission phase, in the form that was negotiated.
//!
//! ```text
//!   simple      67446698  error u32  cookie u64                                  then data
//!   structured  668e33ef  flags u16  type u16  cookie u64  length u32            then payload
//!   extended    6e8a278c  flags u16  type u16  cookie u64  offset u64  length u64
//! ```
//!
//! A read is one chunk for each run of blocks that are there, and one for each hole between; with
//! `DF`, or by simple replies, it is one piece in which holes are zeroes. Replies may come in any
//! order; the chunks of one are written together.

use super::request::Transmission;
use super::{ALLOCATION_CONTEXT, Errno, put_u16, put_u32, put_u64};

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_MAGIC: u32 = 0x6e8a_278c;
/// The flag of a reply's last chunk.
const DONE: u16 = 1;
/// The longest text of an error: the protocol's limit.
const WHY_BYTES_MAX: usize = 4096;

mod chunk {
    pub const NONE: u16 = 0;
    pub const DATA: u16 = 1;
    pub const HOLE: u16 = 2;
    pub const STATUS: u16 = 5;
    pub const STATUS_EXT: u16 = 6;
    pub const ERROR: u16 = 0x8001;
}

/// Allocation of a run of bytes that are not there: a hole, which reads as zeroes.
const HOLE_AND_ZERO: u64 = 3;

/// A run of bytes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent<'a> {
    /// How many.
    pub length: u64,
    /// The bytes; `None` for a hole. For a status any bytes do.
    pub data: Option<&'a [u8]>,
}

/// Writes replies.
#[derive(Clone, Copy, Debug)]
pub struct ReplyWriter {
    has_structured: bool,
    has_extended: bool,
}

impl ReplyWriter {
    /// One for a connection.
    pub fn new(form: &Transmission) -> Self {
        Self { has_structured: form.has_structured, has_extended: form.has_extended }
    }

    /// It is done, and there is nothing to say.
    pub fn done(self, cookie: u64, offset: u64, out: &mut Vec<u8>) {
        match self.has_structured {
            true => self.header(DONE, chunk::NONE, cookie, offset, 0, out),
            false => simple(0, cookie, out),
        }
    }

    /// It is not done.
    pub fn error(self, cookie: u64, offset: u64, errno: Errno, why: &str, out: &mut Vec<u8>) {
        if !self.has_structured {
            return simple(errno as u32, cookie, out);
        }
        let why = &why[..why.floor_char_boundary(WHY_BYTES_MAX)];
        self.header(DONE, chunk::ERROR, cookie, offset, 6 + why.len() as u64, out);
        put_u32(out, errno as u32);
        put_u16(out, why.len() as u16);
        out.extend_from_slice(why.as_bytes());
    }

    /// The bytes of a read from `offset` on.
    pub fn data(
        self,
        cookie: u64,
        offset: u64,
        extents: &[Extent<'_>],
        is_whole: bool,
        out: &mut Vec<u8>,
    ) {
        let length: u64 = extents.iter().map(|extent| extent.length).sum();
        if !self.has_structured {
            simple(0, cookie, out);
            return whole(extents, out);
        }
        if is_whole {
            self.header(DONE, chunk::DATA, cookie, offset, 8 + length, out);
            put_u64(out, offset);
            return whole(extents, out);
        }
        let mut at = offset;
        for (number, extent) in extents.iter().enumerate() {
            let flags = if number + 1 == extents.len() { DONE } else { 0 };
            match extent.data {
                Some(data) => {
                    self.header(flags, chunk::DATA, cookie, offset, 8 + extent.length, out);
                    put_u64(out, at);
                    out.extend_from_slice(data);
                }
                None => {
                    self.header(flags, chunk::HOLE, cookie, offset, 12, out);
                    put_u64(out, at);
                    put_u32(out, extent.length as u32);
                }
            }
            at += extent.length;
        }
    }

    /// Which bytes are there, from `offset` on.
    pub fn status(self, cookie: u64, offset: u64, extents: &[Extent<'_>], out: &mut Vec<u8>) {
        let count = extents.len() as u64;
        let state = |extent: &Extent<'_>| if extent.data.is_some() { 0 } else { HOLE_AND_ZERO };
        if self.has_extended {
            self.header(DONE, chunk::STATUS_EXT, cookie, offset, 8 + 16 * count, out);
            put_u32(out, ALLOCATION_CONTEXT);
            put_u32(out, count as u32);
            for extent in extents {
                put_u64(out, extent.length);
                put_u64(out, state(extent));
            }
            return;
        }
        self.header(DONE, chunk::STATUS, cookie, offset, 4 + 8 * count, out);
        put_u32(out, ALLOCATION_CONTEXT);
        for extent in extents {
            // Requests of this form ask for less than 4 GiB.
            put_u32(out, u32::try_from(extent.length).unwrap_or(u32::MAX));
            put_u32(out, state(extent) as u32);
        }
    }

    fn header(
        self,
        flags: u16,
        kind: u16,
        cookie: u64,
        offset: u64,
        length: u64,
        out: &mut Vec<u8>,
    ) {
        put_u32(out, if self.has_extended { EXTENDED_MAGIC } else { STRUCTURED_MAGIC });
        put_u16(out, flags);
        put_u16(out, kind);
        put_u64(out, cookie);
        match self.has_extended {
            true => {
                put_u64(out, offset);
                put_u64(out, length);
            }
            false => put_u32(out, length as u32),
        }
    }
}

fn simple(error: u32, cookie: u64, out: &mut Vec<u8>) {
    put_u32(out, SIMPLE_MAGIC);
    put_u32(out, error);
    put_u64(out, cookie);
}

/// The bytes in one piece.
fn whole(extents: &[Extent<'_>], out: &mut Vec<u8>) {
    for extent in extents {
        match extent.data {
            Some(data) => out.extend_from_slice(data),
            None => out.resize(out.len() + extent.length as usize, 0),
        }
    }
}
