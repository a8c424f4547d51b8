//! Bytes of steps, one behind the other in a piece of memory that many share: a step is short, and
//! is over soon. One that is not keeps its piece, so at most [`PIECE_BYTES`] beside its own bytes.

use bytes::{Bytes, BytesMut};

use crate::locks::Step;

/// Bytes of a piece; what is longer than half of one has its own.
const PIECE_BYTES: usize = 4096;

/// See the front page.
#[derive(Default)]
pub(super) struct StepArena {
    piece: BytesMut,
    /// What is being written.
    draft: Vec<u8>,
}

impl StepArena {
    /// The bytes of a step.
    pub fn put(&mut self, step: &Step<'_>) -> Bytes {
        self.with(|out| step.encode(out))
    }

    /// What is appended by that.
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
    fn what_was_put_stays_as_it_was() {
        let mut arena = StepArena::default();
        let lengths = [0, 1, 100, PIECE_BYTES / 2, PIECE_BYTES / 2 + 1, 3 * PIECE_BYTES];
        let texts: Vec<Vec<u8>> =
            (0..100).map(|nr: usize| vec![nr as u8; lengths[nr % lengths.len()]]).collect();
        let put: Vec<Bytes> =
            texts.iter().map(|text| arena.with(|out| out.extend_from_slice(text))).collect();
        assert_eq!(put, texts);
    }
}
