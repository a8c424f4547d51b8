//! Keeps one reply from taking all memory: MGET may name a long value a million times.

use command::{Refusal, Sink};

/// What a client is told instead of a reply that is too long.
pub(super) const TOO_LONG: &str =
    "ERR the reply would be longer than output_bytes_max allows; ask for less at a time";

/// … of a GET, whose value is longer than a reply may be: it was stored when more was allowed.
#[cold]
pub(super) fn too_long(bytes: usize, bytes_max: usize) -> String {
    format!(
        "ERR the value has {bytes} bytes, and output_bytes_max allows replies of {bytes_max}; read \
         it in parts with GETRANGE, or raise output_bytes_max"
    )
}

/// Passes an answer on until it has become too long.
pub(super) struct Capped<'s, S> {
    sink: &'s mut S,
    left_bytes: usize,
    /// Whether it has: then what was passed on is only a beginning.
    pub overflown: bool,
}

impl<'s, S: Sink> Capped<'s, S> {
    /// Passes on about `bytes_max` bytes of values.
    pub fn new(sink: &'s mut S, bytes_max: usize) -> Self {
        Self { sink, left_bytes: bytes_max, overflown: false }
    }

    fn take(&mut self, bytes: usize) -> bool {
        self.overflown |= bytes > self.left_bytes;
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        !self.overflown
    }
}

impl<S: Sink> Sink for Capped<'_, S> {
    fn ok(&mut self) {
        self.sink.ok();
    }

    fn nil(&mut self) {
        if self.take(8) {
            self.sink.nil();
        }
    }

    fn int(&mut self, value: i64) {
        if self.take(8) {
            self.sink.int(value);
        }
    }

    fn bulk(&mut self, bytes: &[u8]) {
        if self.take(bytes.len() + 8) {
            self.sink.bulk(bytes);
        }
    }

    fn status(&mut self, word: &'static str) {
        self.sink.status(word);
    }

    fn array(&mut self, len: usize) {
        self.sink.array(len);
    }

    fn map(&mut self, len: usize) {
        self.sink.map(len);
    }

    fn refused(&mut self, why: Refusal) {
        self.sink.refused(why);
    }
}
