//! Encoded steps, one behind the other in pieces of memory that many share: a step is short, and is
//! over soon. A step that is not retains its piece: at most [`PIECE_BYTES`] besides its own bytes.

use bytes::{Bytes, BytesMut};

use crate::locks::Step;

/// Bytes of a piece; a step longer than half of one gets its own memory.
const PIECE_BYTES: usize = 4096;

/// See the front page.
#[derive(Default)]
pub(super) struct StepArena {
    piece: BytesMut,
    /// The bytes that are being written.
    draft: Vec<u8>,
}

impl StepArena {
    /// The bytes of a step.
    pub fn put(&mut self, step: &Step<'_>) -> Bytes {
        self.with(|out| step.encode(out))
    }

    /// The bytes that `write` appends.
    pub fn with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        self.draft.clear();
        write(&mut self.draft);
        if self.draft.len() > PIECE_BYTES / 2 {
            // Kept for as long as it is asked for: without the room that it has grown into.
            return std::mem::take(&mut self.draft).into_boxed_slice().into();
        }
        if self.piece.capacity() < self.draft.len() {
            self.piece = BytesMut::with_capacity(PIECE_BYTES);
        }
        self.piece.extend_from_slice(&self.draft);
        self.piece.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arena_steps_do_not_change() {
        let mut arena = StepArena::default();
        let lengths = [0, 1, 100, PIECE_BYTES / 2, PIECE_BYTES / 2 + 1, 3 * PIECE_BYTES];
        let texts: Vec<Vec<u8>> =
            (0..100).map(|nr: usize| vec![nr as u8; lengths[nr % lengths.len()]]).collect();
        let put: Vec<Bytes> =
            texts.iter().map(|text| arena.with(|out| out.extend_from_slice(text))).collect();
        assert_eq!(put, texts);
    }
}
