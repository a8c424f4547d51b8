//! The arguments of a command: borrowed views of the bytes that a client sent.
//!
//! The parser notes `(start, length)` per argument in an [`ArgRanges`] that the connection keeps
//! and reuses; [`Args`] pairs those ranges with the buffer and hands out slices. Nothing is copied,
//! except the arguments of an inline command, whose quotes and escapes must be taken away: they lie
//! in the `ArgRanges` itself.

use super::parser::ParseProgress;

/// How many ranges and how many inline bytes are kept between commands; what a larger command took
/// is given back.
const SPARE_ARGS_MAX: usize = 1024;

/// The places of the arguments of the command being parsed, and how far parsing has come.
///
/// One per connection. As long as [`parse`](super::parser::parse) answers `Incomplete`, the next
/// call must see the same bytes again, with more behind them; they may have moved in memory.
#[derive(Debug, Default)]
pub struct ArgRanges {
    /// Start and length of each argument, in the buffer or, if `inline`, in `unquoted`.
    pub(super) ranges: Vec<(u32, u32)>,
    /// The arguments of an inline command, unquoted, one after the other.
    pub(super) unquoted: Vec<u8>,
    /// Whether the command was an inline one.
    pub(super) inline: bool,
    /// How far an unfinished command has been read.
    pub(super) progress: ParseProgress,
}

impl ArgRanges {
    /// Room for a command, without any yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The arguments of the command just parsed from `buf`, which must be the buffer that `parse`
    /// was given.
    #[inline]
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> Args<'a> {
        let source = if self.inline { &self.unquoted } else { buf };
        Args { source, ranges: &self.ranges }
    }

    /// The arguments of a command that did not come from a client's buffer: they are copied.
    pub fn gather<'a>(&'a mut self, args: &[&[u8]]) -> Args<'a> {
        self.begin_inline();
        for arg in args {
            self.ranges.push((self.unquoted.len() as u32, arg.len() as u32));
            self.unquoted.extend_from_slice(arg);
        }
        Args { source: &self.unquoted, ranges: &self.ranges }
    }

    /// Forgets an unfinished command: an earlier one is parsed again.
    pub fn begin_again(&mut self) {
        self.progress = ParseProgress::default();
    }

    /// How many bytes are missing at least, of `received` bytes that were `Incomplete`: a hint for
    /// how much to read next, at least 1. It comes from the client, so nothing may be allocated by
    /// it alone.
    pub fn bytes_missing(&self, received: usize) -> usize {
        self.progress.wanted().saturating_sub(received).max(1)
    }

    /// Forgets the command before, and gives memory back that only a very large one needed.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.ranges.clear();
        self.inline = false;
        if self.ranges.capacity() > SPARE_ARGS_MAX {
            self.ranges.shrink_to(SPARE_ARGS_MAX);
        }
    }

    /// As `begin`, for an inline command.
    pub(super) fn begin_inline(&mut self) {
        self.begin();
        self.inline = true;
        self.unquoted.clear();
        self.unquoted.shrink_to(SPARE_ARGS_MAX);
    }
}

/// The arguments of one command, its name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    source: &'a [u8],
    ranges: &'a [(u32, u32)],
}

impl<'a> Args<'a> {
    /// Those that lie there.
    pub(super) fn new(source: &'a [u8], ranges: &'a [(u32, u32)]) -> Self {
        Self { source, ranges }
    }

    /// How many arguments there are, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `index`; 0 is the name. Panics if there is none: arity is checked first.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let (start, len) = self.ranges[index];
        let start = start as usize;
        &self.source[start..start + len as usize]
    }

    /// The argument at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let (start, len) = *self.ranges.get(index)?;
        let start = start as usize;
        Some(&self.source[start..start + len as usize])
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        let source = self.source;
        self.ranges.iter().map(move |(start, len)| {
            let start = *start as usize;
            &source[start..start + *len as usize]
        })
    }

    /// The arguments from `index` on; none if there are not so many.
    pub fn from(&self, index: usize) -> Args<'a> {
        Args { source: self.source, ranges: self.ranges.get(index..).unwrap_or(&[]) }
    }

    /// The command's name in small letters, if it has three, as those asked for most do.
    #[inline]
    pub fn name_of_three(&self) -> Option<[u8; 3]> {
        let &[a, b, c] = self.get(0)? else { return None };
        Some([a | 0x20, b | 0x20, c | 0x20])
    }

    /// Key and value, if this is a SET of them and nothing else, with a key that is not longer than
    /// it may be.
    #[inline]
    pub fn plain_set(&self, key_bytes_max: usize) -> Option<(&'a [u8], &'a [u8])> {
        if self.len() != 3 || self.name_of_three() != Some(*b"set") {
            return None;
        }
        let key = self.at(1);
        (key.len() <= key_bytes_max).then(|| (key, self.at(2)))
    }

    /// The key, if this is a GET of one that is not longer than it may be.
    #[inline]
    pub fn plain_get(&self, key_bytes_max: usize) -> Option<&'a [u8]> {
        let is_get = self.len() == 2 && self.name_of_three() == Some(*b"get");
        is_get.then(|| self.at(1)).filter(|key| key.len() <= key_bytes_max)
    }

    /// Whether the argument at `index` is this word, whatever its case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }
}
