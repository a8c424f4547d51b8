//! Blocks that a request looks at: which of them are there, and their bytes.

use std::ops::Range;

use command::{Refusal, Sink, Write};
use gateway::nbd::{Extent, ReplyWriter, Request};
use keyspace::VolumeOptions;

/// Whether a block need not be there.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Most blocks that are not end early.
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|byte| *byte == 0)
}

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// It has no key.
    Absent,
    /// Its value is empty: it is all zeroes.
    Zero,
    /// It has bytes.
    Data,
}

/// The write that makes a block zeroes: of a clone it leaves an empty value, for without one the
/// block would be that of the source.
pub(super) fn zeroed(volume: VolumeOptions, key: &[u8]) -> Write<'_> {
    match volume.marks_zeroes() {
        true => Write::set(key, b""),
        false => Write::Delete { key },
    }
}

/// Whether a block must be written to become zeroes.
pub(super) fn must_zero(volume: VolumeOptions, block: Block) -> bool {
    match block {
        Block::Data => true,
        Block::Zero => !volume.marks_zeroes(),
        Block::Absent => volume.source().is_some(),
    }
}

/// Blocks that a read has found.
pub(super) struct FoundBlocks {
    first: u64,
    block_bytes: usize,
    /// What each is.
    pub(super) blocks: Vec<Block>,
    /// The bytes of all, if they are wanted: zeroes, where there are none.
    bytes: Vec<u8>,
    has_bytes: bool,
    /// Whether somebody has put something else into the keyspace.
    pub(super) is_broken: bool,
}

impl FoundBlocks {
    /// Room for what these hold; for their bytes only if they are wanted.
    pub(super) fn new(blocks: &Range<u64>, volume: VolumeOptions, has_bytes: bool) -> Self {
        let (count, block_bytes) = ((blocks.end - blocks.start) as usize, volume.block_bytes);
        let bytes = if has_bytes { count * block_bytes as usize } else { 0 };
        Self {
            first: blocks.start,
            block_bytes: block_bytes as usize,
            blocks: Vec::with_capacity(count),
            bytes: Vec::with_capacity(bytes),
            has_bytes,
            is_broken: false,
        }
    }

    /// The same, of which none is there.
    pub(super) fn absent(blocks: &Range<u64>, volume: VolumeOptions, has_bytes: bool) -> Self {
        let mut all = Self::new(blocks, volume, has_bytes);
        blocks.clone().for_each(|_| all.add(None));
        all
    }

    fn add(&mut self, value: Option<&[u8]>) {
        self.blocks.push(Block::Absent);
        if self.has_bytes && value.is_none_or(|value| value.len() != self.block_bytes) {
            self.bytes.resize(self.bytes.len() + self.block_bytes, 0);
        } else if self.has_bytes {
            self.bytes.extend_from_slice(value.unwrap_or_default());
        }
        let place = self.blocks.len() - 1;
        value.into_iter().for_each(|value| self.judge(place, value));
    }

    fn judge(&mut self, place: usize, value: &[u8]) {
        self.blocks[place] = if value.is_empty() { Block::Zero } else { Block::Data };
        self.is_broken |= !value.is_empty() && value.len() != self.block_bytes;
    }

    /// Another volume has this value for one that was absent.
    pub(super) fn fill(&mut self, number: u64, value: &[u8]) {
        let place = (number - self.first) as usize;
        self.judge(place, value);
        if self.has_bytes && value.len() == self.block_bytes {
            self.bytes[place * self.block_bytes..][..value.len()].copy_from_slice(value);
        }
    }

    /// The numbers of those that are absent.
    pub(super) fn missing(&self) -> Vec<u64> {
        let all = (self.first..).zip(&self.blocks);
        all.filter(|(_, block)| **block == Block::Absent).map(|(number, _)| number).collect()
    }

    /// Runs of what is there and what is not, from an offset on.
    pub(super) fn extents(&self, offset: u64, length: u64) -> Vec<Extent<'_>> {
        let (block, end) = (self.block_bytes as u64, offset + length);
        let is_data = |block: &Block| *block == Block::Data;
        let (mut all, mut at) = (Vec::<Extent<'_>>::new(), 0);
        while at < self.blocks.len() {
            let has_data = is_data(&self.blocks[at]);
            let run = self.blocks[at..].iter().take_while(|one| is_data(one) == has_data).count();
            let start = (self.first + at as u64) * block;
            let (low, high) = (start.max(offset), (start + run as u64 * block).min(end));
            if low < high {
                let from = (low - self.first * block) as usize;
                let data = has_data.then(|| match self.has_bytes {
                    true => &self.bytes[from..][..(high - low) as usize],
                    false => &[][..],
                });
                all.push(Extent { length: high - low, data });
            }
            at += run;
        }
        all
    }
}

impl Sink for FoundBlocks {
    fn nil(&mut self) {
        self.add(None);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.add(Some(bytes));
    }

    fn array(&mut self, _len: usize) {}

    fn map(&mut self, _len: usize) {}

    fn ok(&mut self) {
        self.is_broken = true;
    }

    fn int(&mut self, _value: i64) {
        self.is_broken = true;
    }

    fn status(&mut self, _word: &'static str) {
        self.is_broken = true;
    }

    fn refused(&mut self, _why: Refusal) {
        self.is_broken = true;
    }
}

/// How a request is answered that reads blocks, or asks which are there.
#[derive(Clone, Copy)]
pub(super) struct ReadReply {
    pub(super) writer: ReplyWriter,
    pub(super) cookie: u64,
    offset: u64,
    length: u64,
    /// What the client wants to know.
    form: ReadForm,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadForm {
    /// The bytes; in one piece, if it says so.
    Bytes { is_whole: bool },
    /// Which are there; of the first run alone, if it says so.
    Status { is_one: bool },
}

impl ReadReply {
    /// To a request for bytes.
    pub(super) fn bytes(writer: ReplyWriter, request: &Request<'_>, is_whole: bool) -> Self {
        let Request { cookie, offset, length, .. } = *request;
        Self { writer, cookie, offset, length, form: ReadForm::Bytes { is_whole } }
    }

    /// To a request for what is there, of at most so many bytes.
    pub(super) fn status(
        writer: ReplyWriter,
        request: &Request<'_>,
        is_one: bool,
        bytes_max: u64,
    ) -> Self {
        let Request { cookie, offset, length, .. } = *request;
        let length = length.min(bytes_max);
        Self { writer, cookie, offset, length, form: ReadForm::Status { is_one } }
    }

    /// Whether bytes are wanted.
    pub(super) fn has_bytes(&self) -> bool {
        matches!(self.form, ReadForm::Bytes { .. })
    }

    /// The blocks that it is about.
    pub(super) fn blocks(&self, volume: VolumeOptions) -> Range<u64> {
        let block = u64::from(volume.block_bytes);
        self.offset / block..(self.offset + self.length).div_ceil(block)
    }

    /// Appends the reply.
    ///
    /// # Errors
    /// What was found are no blocks; nothing is appended.
    pub(super) fn put(&self, found: &FoundBlocks, out: &mut Vec<u8>) -> Result<(), &'static str> {
        if found.is_broken && self.has_bytes() {
            return Err("a block has no value of bytes");
        }
        let mut extents = found.extents(self.offset, self.length);
        match self.form {
            ReadForm::Bytes { is_whole } => {
                self.writer.data(self.cookie, self.offset, &extents, is_whole, out);
            }
            ReadForm::Status { is_one } => {
                extents.truncate(if is_one { 1 } else { usize::MAX });
                self.writer.status(self.cookie, self.offset, &extents, out);
            }
        }
        Ok(())
    }

    /// Its offset, as errors tell it.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use keyspace::VolumeOrigin;

    use super::*;

    const VOLUME: VolumeOptions = VolumeOptions {
        bytes: 1 << 20,
        block_bytes: 4096,
        is_shared: false,
        origin: VolumeOrigin::Empty,
    };

    #[test]
    fn extents_are_runs_cut_to_the_request() {
        let mut found = FoundBlocks::new(&(2..6), VOLUME, true);
        found.nil();
        found.bulk(&[7; 4096]);
        found.bulk(&[8; 4096]);
        found.nil();
        let extents = found.extents(2 * 4096 + 100, 3 * 4096);
        let shape: Vec<_> = extents.iter().map(|one| (one.length, one.data.is_some())).collect();
        assert_eq!(shape, [(3996, false), (8192, true), (100, false)]);
        let data = extents[1].data.expect("two blocks are there");
        assert_eq!((data[0], data[4095], data[4096], data.len()), (7, 7, 8, 8192));
        let inside = found.extents(3 * 4096 + 1, 2);
        assert_eq!(inside, [Extent { length: 2, data: Some(&[7, 7]) }]);
    }

    #[test]
    fn what_a_source_has_fills_what_is_absent_and_nothing_else() {
        for has_bytes in [true, false] {
            let mut found = FoundBlocks::new(&(2..6), VOLUME, has_bytes);
            found.nil();
            found.bulk(&[7; 4096]);
            // It was made zeroes: what the source has must not come through.
            found.bulk(b"");
            found.nil();
            assert_eq!(found.missing(), [2, 5]);
            found.fill(5, &[9; 4096]);
            assert_eq!(found.missing(), [2]);
            found.fill(2, b"");
            assert!(found.missing().is_empty() && !found.is_broken);
            use Block::{Data, Zero};
            assert_eq!(found.blocks, [Zero, Data, Zero, Data]);
            let extents = found.extents(2 * 4096, 4 * 4096);
            let shape: Vec<_> =
                extents.iter().map(|one| (one.length, one.data.and_then(<[u8]>::first))).collect();
            let first = |byte| if has_bytes { Some(byte) } else { None };
            let expected = [(4096, None), (4096, first(&7)), (4096, None), (4096, first(&9))];
            assert_eq!(shape, expected);
        }
        let mut none = FoundBlocks::absent(&(0..2), VOLUME, true);
        assert_eq!(none.missing(), [0, 1]);
        none.fill(1, b"no block");
        assert!(none.is_broken);
    }

    /// A clone in which a block that was made zeroes has no key reads the source's: so would one
    /// that does not write blocks that it does not have. A flattened one must keep empty values:
    /// a node that takes it for a clone yet would look at the source.
    #[test]
    fn zeroes_of_a_clone_keep_an_empty_value() {
        use Block::{Absent, Data, Zero};
        let at = keyspace::Timestamp(5);
        let source = keyspace::KeyspaceId(1);
        let of = |origin| VolumeOptions { origin, ..VOLUME };
        let (clone, flat) =
            (of(VolumeOrigin::Clone { source, at }), of(VolumeOrigin::Flattened { since: at }));
        let is_delete = |volume| matches!(zeroed(volume, b"k"), Write::Delete { .. });
        assert_eq!([VOLUME, clone, flat].map(is_delete), [true, false, false]);
        assert!(
            matches!(zeroed(clone, b"k"), Write::Set { value, .. } if value.is_empty()),
            "an empty value is zeroes"
        );
        let written = |volume| [Absent, Zero, Data].map(|block| must_zero(volume, block));
        assert_eq!(written(VOLUME), [false, true, true]);
        assert_eq!(written(clone), [true, false, true]);
        assert_eq!(written(flat), [false, false, true]);
    }

    #[test]
    fn short_value_is_no_block() {
        let mut found = FoundBlocks::new(&(0..1), VOLUME, true);
        found.bulk(b"x");
        assert!(found.is_broken);
        assert_eq!(found.extents(0, 4096)[0].data.map(<[u8]>::len), Some(4096));
    }

    #[test]
    fn zeroes_are_seen() {
        assert!(is_zero(&[0; 4096]) && is_zero(&[0; 3]));
        let mut bytes = [0; 4096];
        bytes[4095] = 1;
        assert!(!is_zero(&bytes));
    }
}
