//! Blocks that a request looks at: which of them are there, and their bytes.

use std::ops::Range;

use command::{Refusal, Sink};
use gateway::nbd::Extent;
use keyspace::VolumeOptions;

/// Whether a block need not be there.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Most blocks that are not end early.
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|byte| *byte == 0)
}

/// Blocks that a read has found.
pub(super) struct FoundBlocks {
    first: u64,
    block_bytes: usize,
    /// Whether each is there.
    pub(super) there: Vec<bool>,
    /// The bytes of those that are, if they are wanted.
    bytes: Vec<u8>,
    has_bytes: bool,
    /// Whether somebody has put something else into the keyspace.
    pub(super) is_broken: bool,
}

impl FoundBlocks {
    /// Room for what these hold; for their bytes only if they are wanted.
    pub(super) fn new(blocks: &Range<u64>, volume: VolumeOptions, has_bytes: bool) -> Self {
        let count = (blocks.end - blocks.start) as usize;
        Self {
            first: blocks.start,
            block_bytes: volume.block_bytes as usize,
            there: Vec::with_capacity(count),
            bytes: Vec::new(),
            has_bytes,
            is_broken: false,
        }
    }

    /// Runs of what is there and what is not, from an offset on.
    pub(super) fn extents(&self, offset: u64, length: u64) -> Vec<Extent<'_>> {
        let (block, end) = (self.block_bytes as u64, offset + length);
        let (mut all, mut at, mut taken) = (Vec::<Extent<'_>>::new(), 0, 0);
        while at < self.there.len() {
            let is_there = self.there[at];
            let run = self.there[at..].iter().take_while(|there| **there == is_there).count();
            let start = (self.first + at as u64) * block;
            let (low, high) = (start.max(offset), (start + run as u64 * block).min(end));
            if low < high {
                let skipped = (low - start) as usize;
                let data = is_there.then(|| match self.has_bytes {
                    true => &self.bytes[taken + skipped..][..(high - low) as usize],
                    false => &[][..],
                });
                all.push(Extent { length: high - low, data });
            }
            taken += if is_there && self.has_bytes { run * self.block_bytes } else { 0 };
            at += run;
        }
        all
    }
}

impl Sink for FoundBlocks {
    fn nil(&mut self) {
        self.there.push(false);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.there.push(true);
        self.is_broken |= bytes.len() != self.block_bytes;
        if self.has_bytes {
            let end = self.bytes.len() + self.block_bytes;
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(self.block_bytes)]);
            self.bytes.resize(end, 0);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeOptions =
        VolumeOptions { bytes: 1 << 20, block_bytes: 4096, is_shared: false };

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
