//! The frame: how a message is laid out in the stream between two nodes.
//!
//! ```text
//!   ┌────────────┬──────────┬───────────────┬──────────────┐
//!   │ length u32 │ kind u8  │ body          │ CRC-32 u32   │   little-endian
//!   └────────────┴──────────┴───────────────┴──────────────┘
//!     of the body            length bytes     of all before
//! ```
//!
//! Bodies are slices of the read buffer, not copies: a [`Bytes`] shares it. So a small body that is
//! stored keeps its whole buffer ([`CHUNK_BYTES`]) alive; code that stores bodies copies small
//! ones.
//!
//! Invariants:
//! 1. The same stream gives the same frames, however reads cut it into pieces.
//! 2. A length is judged before anything of that size is allocated.
//! 3. After an error nothing more comes out: the stream has lost its place.
//!
//! It does not know what kinds mean, but that those from [`KIND_OWN_MIN`] are the links' own.
//! Caveat: the checksum finds accidents on the way, not forgers.

use bytes::{Buf, Bytes, BytesMut};

/// The longest body, as it was before long messages went in pieces.
pub const FRAME_BYTES_MAX: usize = (64 << 20) + (1 << 20);
/// Bytes of a frame before its body.
pub const HEAD_BYTES: usize = 5;
/// Bytes of a frame after its body.
pub const TAIL_BYTES: usize = 4;
/// Kinds from here on are the links' own; a handler never sees them.
pub const KIND_OWN_MIN: u8 = 0xf0;
/// Size of the buffers that are read into; a longer frame has one of its own.
pub const CHUNK_BYTES: usize = 64 << 10;
/// With less room than this behind received bytes, the decoder begins a new buffer.
const SPACE_BYTES_MIN: usize = 4 << 10;

/// One complete frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is, for the handler.
    pub kind: u8,
    /// What it says.
    pub body: Bytes,
}

/// The stream holds no frames, or was damaged on the way. The connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than any frame may be.
    #[error("received a frame of {bytes} bytes; the limit is {bytes_max}")]
    TooLong {
        /// The length it claims.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The checksum does not fit.
    #[error("received a damaged frame of kind {kind} and {bytes} bytes")]
    Damaged {
        /// The kind it claims.
        kind: u8,
        /// Its length.
        bytes: usize,
    },
    /// A piece of a message that cannot be the next one.
    #[error("received a piece of {bytes} bytes, expected {wanted}")]
    Misplaced {
        /// Its length.
        bytes: usize,
        /// What could have come: at least, of a first piece; at most, of others.
        wanted: usize,
    },
}

/// Bytes of a frame whose body has so many.
pub fn frame_bytes(body_bytes: usize) -> usize {
    HEAD_BYTES + body_bytes + TAIL_BYTES
}

/// What stands before a body and what stands after it: the body is `parts`, one after the other.
pub fn seal(kind: u8, parts: &[&[u8]]) -> ([u8; HEAD_BYTES], [u8; TAIL_BYTES]) {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    assert!(bytes <= FRAME_BYTES_MAX, "the sender has checked the length");
    let mut head = [kind; HEAD_BYTES];
    head[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    parts.iter().for_each(|part| crc.update(part));
    (head, crc.finalize().to_le_bytes())
}

/// Appends a frame whose body is `parts`, one after the other.
pub fn encode(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let (head, tail) = seal(kind, parts);
    put(out, &head, parts, &tail);
}

/// Appends a frame that [`seal`] has made.
pub fn put(out: &mut Vec<u8>, head: &[u8], parts: &[&[u8]], tail: &[u8]) {
    out.extend_from_slice(head);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(tail);
}

/// Takes a stream apart into frames.
#[derive(Debug)]
pub struct Decoder {
    /// All of it is initialized; the first `filled` bytes have come and are not given out yet.
    buffer: BytesMut,
    /// The size with which it was made.
    made_bytes: usize,
    filled: usize,
    body_bytes_max: usize,
}

impl Decoder {
    /// A decoder of frames with bodies of at most `body_bytes_max`, whose stream begins with
    /// `first`.
    pub fn new(body_bytes_max: usize, first: &[u8]) -> Self {
        let made_bytes = CHUNK_BYTES.max(first.len());
        let mut buffer = BytesMut::zeroed(made_bytes);
        buffer[..first.len()].copy_from_slice(first);
        Self { buffer, made_bytes, filled: first.len(), body_bytes_max }
    }

    /// Where the next bytes of the stream are to be put; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let wanted = self.wanted_bytes();
        let short = self.buffer.len() < wanted;
        if short || self.buffer.len() - self.filled < SPACE_BYTES_MIN.min(wanted - self.filled) {
            self.begin_buffer(wanted.max(CHUNK_BYTES));
        }
        &mut self.buffer[self.filled..]
    }

    /// Moves received bytes to the beginning of a buffer of `bytes`. It reuses the buffer before,
    /// if that has this size and no body of it is alive. So the buffer of a long frame is freed
    /// with it.
    fn begin_buffer(&mut self, bytes: usize) {
        self.buffer.truncate(self.filled);
        if self.made_bytes == bytes && self.buffer.try_reclaim(bytes - self.filled) {
            self.buffer.resize(bytes, 0);
        } else {
            let mut next = BytesMut::zeroed(bytes);
            next[..self.filled].copy_from_slice(&self.buffer);
            (self.buffer, self.made_bytes) = (next, bytes);
        }
    }

    /// How many bytes are wanted at least to go on, those that have come among them.
    fn wanted_bytes(&self) -> usize {
        match self.head() {
            // A length beyond the limit is refused by `next`, before anybody asks for space.
            Some((bytes, _)) if bytes <= self.body_bytes_max => {
                frame_bytes(bytes).max(self.filled + 1)
            }
            _ => self.filled + SPACE_BYTES_MIN,
        }
    }

    fn head(&self) -> Option<(usize, u8)> {
        let (length, rest) = self.buffer[..self.filled].split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*length) as usize, *rest.first()?))
    }

    /// So many bytes have been put at the beginning of [`space`](Self::space).
    pub fn filled(&mut self, bytes: usize) {
        self.filled += bytes;
        assert!(self.filled <= self.buffer.len(), "more was put than there was space");
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// If the stream cannot be read; it must not be asked again.
    pub fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((bytes, kind)) = self.head() else { return Ok(None) };
        if bytes > self.body_bytes_max {
            return Err(FrameError::TooLong { bytes, bytes_max: self.body_bytes_max });
        }
        let whole = frame_bytes(bytes);
        if self.filled < whole {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(whole);
        self.filled -= whole;
        let (checked, tail) = frame.split_at(HEAD_BYTES + bytes);
        if crc32fast::hash(checked).to_le_bytes() != tail {
            return Err(FrameError::Damaged { kind, bytes });
        }
        frame.truncate(HEAD_BYTES + bytes);
        frame.advance(HEAD_BYTES);
        Ok(Some(Frame { kind, body: frame.freeze() }))
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
