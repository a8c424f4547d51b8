//! Keeps one reply from taking all memory: MGET may name a long value a million times.

use command::{Refusal, Sink};

/// The error that replaces a reply that is too long.
pub(super) const TOO_LONG: &str =
    "ERR the reply would be longer than output_bytes_max allows; ask for less at a time";

/// … of a GET whose value is longer than a reply may be: it was stored when the limit was higher.
#[cold]
pub(super) fn too_long(bytes: usize, bytes_max: usize) -> String {
    format!(
        "ERR the value has {bytes} bytes, and output_bytes_max allows replies of {bytes_max}; read \
         it in parts with GETRANGE, or raise output_bytes_max"
    )
}

/// What one item of an answer takes beside its bytes.
const ITEM_BYTES: usize = 8;

/// Passes an answer on until it has become too long.
pub(super) struct LimitedSink<'s, S> {
    sink: &'s mut S,
    left_bytes: usize,
    /// Whether it has: then what was passed on is only a beginning.
    pub overflown: bool,
}

impl<'s, S: Sink> LimitedSink<'s, S> {
    /// Passes on about `bytes_max` bytes of values: one value of so many, too, as a GET alone does.
    pub fn new(sink: &'s mut S, bytes_max: usize) -> Self {
        Self { sink, left_bytes: bytes_max.saturating_add(ITEM_BYTES), overflown: false }
    }

    fn take(&mut self, bytes: usize) -> bool {
        self.overflown |= bytes > self.left_bytes;
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        !self.overflown
    }
}

impl<S: Sink> Sink for LimitedSink<'_, S> {
    fn ok(&mut self) {
        self.sink.ok();
    }

    fn nil(&mut self) {
        if self.take(ITEM_BYTES) {
            self.sink.nil();
        }
    }

    fn int(&mut self, value: i64) {
        if self.take(ITEM_BYTES) {
            self.sink.int(value);
        }
    }

    fn bulk(&mut self, bytes: &[u8]) {
        if self.take(bytes.len() + ITEM_BYTES) {
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

/// What a version of a key takes in memory beside its bytes: its header, and its place in the
/// table.
const RECORD_BYTES: usize = 32 + 16;

/// What a key and its value take of memory on each replica.
pub(crate) fn size_of(key_bytes: usize, value_bytes: usize) -> i64 {
    (RECORD_BYTES + key_bytes + value_bytes) as i64
}

/// Gives, in place of a key's value, its size.
pub(super) struct SizeSink<'s, S> {
    pub sink: &'s mut S,
    pub key_bytes: usize,
}

impl<S: Sink> Sink for SizeSink<'_, S> {
    fn ok(&mut self) {
        self.sink.ok();
    }

    fn nil(&mut self) {
        self.sink.nil();
    }

    fn int(&mut self, value: i64) {
        self.sink.int(value);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.sink.int(size_of(self.key_bytes, bytes.len()));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what is passed on.
    #[derive(Default)]
    struct Count(usize);

    impl Sink for Count {
        fn ok(&mut self) {}

        fn nil(&mut self) {}

        fn int(&mut self, _: i64) {}

        fn bulk(&mut self, bytes: &[u8]) {
            self.0 += bytes.len();
        }

        fn status(&mut self, _: &'static str) {}

        fn array(&mut self, _: usize) {}

        fn map(&mut self, _: usize) {}

        fn refused(&mut self, _: Refusal) {}
    }

    /// How many bytes of these values are passed on; none if it was too long.
    fn passed(values: &[usize]) -> Option<usize> {
        let mut sink = Count::default();
        let mut capped = LimitedSink::new(&mut sink, 100);
        values.iter().for_each(|bytes| capped.bulk(&vec![0; *bytes]));
        let overflown = capped.overflown;
        (!overflown).then_some(sink.0)
    }

    #[test]
    fn the_longest_value_alone_is_a_reply() {
        assert_eq!((passed(&[100]), passed(&[101])), (Some(100), None));
        assert_eq!((passed(&[46, 46]), passed(&[50, 50])), (Some(92), None));
    }
}
