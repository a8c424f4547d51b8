//! Sends long messages in pieces, so that others need not wait for them.
//!
//! Each piece is a frame of the link's own; urgent frames can leave between two of them:
//!
//! ```text
//!   message  ┌ kind u8 │ length u32 ┬ bytes …  ┐┌ bytes …  ┐┌ bytes ┐
//!            └ first piece ─────────┴──────────┘└──────────┘└───────┘   each the body of a frame
//!   link     ▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬ heartbeat ▬▬▬▬▬▬▬▬▬▬▬▬ ping ▬▬▬▬
//! ```
//!
//! Invariants:
//! 1. The pieces of one message come before the first of the next: one is put together at a time.
//! 2. A length is judged before anything of that size is allocated.
//!
//! It does not know what messages mean, nor when pieces leave (`outbox`). Nodes of protocol version
//! 1 know no pieces: a message that does not fit into a frame cannot be sent to them.

use bytes::Bytes;

use super::frame::{Frame, FrameError, KIND_OWN_MIN};

/// The first version of the protocol with pieces.
pub const SINCE_VERSION: u16 = 2;
/// The kind of frames that carry a piece.
pub const PIECE: u8 = KIND_OWN_MIN + 2;
/// Longer messages go in pieces.
pub const SINGLE_FRAME_BYTES_MAX: usize = 2 << 20;
/// The longest message: the longest command or stored value, what may stand before it in its frame,
/// and an answer's other keys and values.
pub const MESSAGE_BYTES_MAX: usize = command::limits::COMMAND_BYTES_MAX + (6 << 20);

/// Bytes of a piece, but the last.
const PIECE_BYTES: usize = 256 << 10;
/// Kind and length of the message, before its first bytes.
const HEAD_BYTES: usize = 5;

/// A message that leaves piece by piece.
#[derive(Debug)]
pub struct Cut {
    head: [u8; HEAD_BYTES],
    message: Vec<u8>,
    at: usize,
}

impl Cut {
    /// Of a kind, made of `parts` one after the other.
    pub fn new(kind: u8, parts: &[&[u8]]) -> Self {
        let message = parts.concat();
        assert!(message.len() <= MESSAGE_BYTES_MAX, "the sender has checked the length");
        let mut head = [kind; HEAD_BYTES];
        head[1..].copy_from_slice(&(message.len() as u32).to_le_bytes());
        Self { head, message, at: 0 }
    }

    /// Bytes that have not left.
    pub fn left_bytes(&self) -> usize {
        self.message.len() - self.at
    }

    /// Hands the parts of the next piece's body to `put`.
    pub fn next(&mut self, put: impl FnOnce(&[&[u8]])) {
        let end = self.message.len().min(self.at + PIECE_BYTES);
        let head = if self.at == 0 { &self.head[..] } else { &[] };
        put(&[head, &self.message[self.at..end]]);
        self.at = end;
    }
}

/// Puts messages together again.
#[derive(Debug, Default)]
pub struct Assembly(Option<Open>);

/// An incomplete message.
#[derive(Debug)]
struct Open {
    kind: u8,
    bytes: usize,
    message: Vec<u8>,
}

impl Assembly {
    /// Takes the body of a piece; returns the message, if it is complete now.
    ///
    /// # Errors
    /// If it is no piece that can come now. The connection must end.
    pub fn take(&mut self, mut body: Bytes) -> Result<Option<Frame>, FrameError> {
        if self.0.is_none() {
            let bytes = body.len();
            let misplaced = FrameError::Misplaced { bytes, wanted: HEAD_BYTES };
            let head = if bytes < HEAD_BYTES { None } else { Some(body.split_to(HEAD_BYTES)) };
            let head = head.ok_or(misplaced)?;
            let (kind, length) = (head[0], head[1..].first_chunk().expect("four bytes"));
            let bytes = u32::from_le_bytes(*length) as usize;
            if bytes > MESSAGE_BYTES_MAX {
                return Err(FrameError::TooLong { bytes, bytes_max: MESSAGE_BYTES_MAX });
            }
            if kind >= KIND_OWN_MIN {
                return Err(FrameError::Damaged { kind, bytes });
            }
            self.0 = Some(Open { kind, bytes, message: Vec::with_capacity(bytes) });
        }
        let open = self.0.as_mut().expect("it was just begun");
        let left = open.bytes - open.message.len();
        if body.len() > left {
            return Err(FrameError::Misplaced { bytes: body.len(), wanted: left });
        }
        open.message.extend_from_slice(&body);
        if open.message.len() < open.bytes {
            return Ok(None);
        }
        let Open { kind, message, .. } = self.0.take().expect("the message is complete");
        Ok(Some(Frame { kind, body: message.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(cut: &mut Cut) -> Vec<Bytes> {
        let mut bodies = Vec::new();
        while cut.left_bytes() > 0 {
            cut.next(|parts| bodies.push(parts.concat().into()));
        }
        bodies
    }

    #[test]
    fn pieces_are_assembled_one_message_at_a_time() {
        let mut assembly = Assembly::default();
        for bytes in [1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES - 1] {
            let message: Vec<u8> = (0..bytes as u32).map(|n| (n / 3) as u8).collect();
            let (front, back) = message.split_at(bytes / 2);
            let bodies = bodies(&mut Cut::new(7, &[front, back]));
            assert_eq!(bodies.len(), bytes.div_ceil(PIECE_BYTES));
            let (last, before) = bodies.split_last().unwrap();
            for body in before {
                assert_eq!(assembly.take(body.clone()).unwrap(), None);
            }
            let frame = Frame { kind: 7, body: message.into() };
            assert_eq!(assembly.take(last.clone()).unwrap(), Some(frame));
        }
    }

    #[test]
    fn pieces_that_cannot_come_are_refused() {
        let piece = |kind: u8, bytes: usize, body: &[u8]| {
            let mut piece = vec![kind];
            piece.extend_from_slice(&(bytes as u32).to_le_bytes());
            piece.extend_from_slice(body);
            Assembly::default().take(piece.into()).map(|frame| frame.is_some())
        };
        assert_eq!(piece(1, 3, b"abc"), Ok(true));
        assert_eq!(piece(1, 4, b"abc"), Ok(false));
        assert_eq!(piece(1, 2, b"abc"), Err(FrameError::Misplaced { bytes: 3, wanted: 2 }));
        let (bytes, bytes_max) = (MESSAGE_BYTES_MAX + 1, MESSAGE_BYTES_MAX);
        assert_eq!(piece(1, bytes, b""), Err(FrameError::TooLong { bytes, bytes_max }));
        assert!(piece(PIECE, 3, b"abc").is_err());
        assert!(Assembly::default().take(Bytes::from_static(b"\x01\x02\0\0")).is_err());
    }
}
