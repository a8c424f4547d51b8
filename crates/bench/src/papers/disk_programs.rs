//! The two programs of document 003: search by Boyer and Moore, and quicksort in place.
//!
//! Both work on a [`Device`]. The search reads it from start to end. Quicksort looks at records
//! from
//! both ends of a part, through [`BLOCKS_HELD`] blocks in memory, and writes what it has swapped.

use std::cmp::Ordering;

use super::devices::Device;
use crate::Outcome;

/// What is read and written at once: a block of a volume, and a page of memory.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks that quicksort holds in memory, as a file system would: small parts are sorted there.
pub const BLOCKS_HELD: usize = 64;

/// Looks for a pattern, by Boyer and Moore (CACM 1977): from its end on, with both of their rules.
pub struct Search {
    pattern: Vec<u8>,
    /// By letter: how far behind the pattern's last letter it stands last.
    letters: [usize; 256],
    /// By place of a mismatch: how far the pattern moves for the letters behind it to fit again.
    suffixes: Vec<usize>,
}

impl Search {
    /// For a pattern, which has letters.
    pub fn new(pattern: &[u8]) -> Self {
        let len = pattern.len();
        let mut letters = [len; 256];
        pattern[..len - 1].iter().enumerate().for_each(|(at, letter)| {
            letters[usize::from(*letter)] = len - 1 - at;
        });
        Self { pattern: pattern.to_vec(), letters, suffixes: suffixes(pattern) }
    }

    /// How often the pattern is in a text; places may overlap.
    pub fn count(&self, text: &[u8]) -> u64 {
        let (pattern, len) = (&self.pattern[..], self.pattern.len());
        let (mut found, mut end) = (0, len);
        while end <= text.len() {
            let window = &text[end - len..end];
            match (0..len).rev().find(|at| window[*at] != pattern[*at]) {
                None => {
                    found += 1;
                    end += self.suffixes[0];
                }
                Some(at) => {
                    let behind = len - 1 - at;
                    let by_letter = self.letters[usize::from(window[at])].saturating_sub(behind);
                    end += self.suffixes[at + 1].max(by_letter).max(1);
                }
            }
        }
        found
    }
}

/// At k: how far to move if the letters from k on fit, and the one before does not; at 0: if all
/// do.
fn suffixes(pattern: &[u8]) -> Vec<usize> {
    let len = pattern.len();
    let (mut shifts, mut borders) = (vec![0; len + 1], vec![0; len + 1]);
    let (mut at, mut border) = (len, len + 1);
    borders[at] = border;
    while at > 0 {
        while border <= len && pattern[at - 1] != pattern[border - 1] {
            if shifts[border] == 0 {
                shifts[border] = border - at;
            }
            border = borders[border];
        }
        at -= 1;
        border -= 1;
        borders[at] = border;
    }
    let mut border = borders[0];
    for (at, shift) in shifts.iter_mut().enumerate() {
        if *shift == 0 {
            *shift = border;
        }
        if at == border {
            border = borders[border];
        }
    }
    shifts
}

/// How often a pattern is in the first bytes of a device.
///
/// # Errors
/// They cannot be read.
pub fn search(
    device: &mut dyn Device,
    length: u64,
    pieces: (usize, u64),
    pattern: &[u8],
) -> Outcome<u64> {
    let (search, mut found, mut text) = (Search::new(pattern), 0, Vec::new());
    device.read_through(length, pieces, &mut |piece| {
        text.extend_from_slice(piece);
        found += search.count(&text);
        // What may go on in the next piece.
        text.drain(..text.len().saturating_sub(pattern.len() - 1));
    })?;
    Ok(found)
}

/// A block in memory.
struct Held {
    number: u64,
    bytes: Vec<u8>,
    is_changed: bool,
}

/// Records of a device, all of one length, of which some are in memory.
pub struct Records<'a> {
    device: &'a mut dyn Device,
    record_bytes: usize,
    /// The one that was used last is last.
    held: Vec<Held>,
}

impl<'a> Records<'a> {
    /// Those of so many bytes: blocks, or equal parts of them.
    pub fn new(device: &'a mut dyn Device, record_bytes: usize) -> Self {
        assert!(BLOCK_BYTES.is_multiple_of(record_bytes), "a record lies in one block");
        Self { device, record_bytes, held: Vec::new() }
    }

    fn record(&mut self, number: u64) -> Outcome<&mut [u8]> {
        let offset = number * self.record_bytes as u64;
        let (block, at) = (offset / BLOCK_BYTES as u64, (offset % BLOCK_BYTES as u64) as usize);
        let held = match self.held.iter().position(|held| held.number == block) {
            Some(place) => self.held.remove(place),
            None => {
                let mut bytes = match self.held.len() {
                    BLOCKS_HELD => self.put_back()?,
                    _ => vec![0; BLOCK_BYTES],
                };
                self.device.read(block * BLOCK_BYTES as u64, &mut bytes)?;
                Held { number: block, bytes, is_changed: false }
            }
        };
        self.held.push(held);
        let last = self.held.last_mut().ok_or("it was held")?;
        Ok(&mut last.bytes[at..at + self.record_bytes])
    }

    /// Writes the block that was used longest ago, if it has changed; returns its bytes.
    fn put_back(&mut self) -> Outcome<Vec<u8>> {
        let Held { number, bytes, is_changed } = self.held.remove(0);
        if is_changed {
            self.device.write(number * BLOCK_BYTES as u64, &bytes)?;
        }
        Ok(bytes)
    }

    /// The first eight bytes of a record, by which it is sorted.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn key(&mut self, number: u64) -> Outcome<[u8; 8]> {
        let mut key = [0; 8];
        key.copy_from_slice(&self.record(number)?[..8]);
        Ok(key)
    }

    fn swap(&mut self, one: u64, other: u64) -> Outcome<()> {
        let first = self.record(one)?.to_vec();
        let second = self.record(other)?;
        let behind = second.to_vec();
        second.copy_from_slice(&first);
        self.change();
        self.record(one)?.copy_from_slice(&behind);
        self.change();
        Ok(())
    }

    fn change(&mut self) {
        self.held.last_mut().into_iter().for_each(|held| held.is_changed = true);
    }

    /// Sorts the first so many records, and writes all that has changed.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub fn quicksort(&mut self, count: u64) -> Outcome<()> {
        let mut parts = vec![(0, count as i64 - 1)];
        while let Some((first, last)) = parts.pop() {
            if first >= last {
                continue;
            }
            let pivot = self.key((first + (last - first) / 2) as u64)?;
            let (mut low, mut high) = (first, last);
            while low <= high {
                while self.key(low as u64)? < pivot {
                    low += 1;
                }
                while self.key(high as u64)? > pivot {
                    high -= 1;
                }
                match low.cmp(&high) {
                    Ordering::Greater => break,
                    Ordering::Equal => {}
                    Ordering::Less => self.swap(low as u64, high as u64)?,
                }
                (low, high) = (low + 1, high - 1);
            }
            // The smaller part is sorted first, so that few wait.
            let (left, right) = ((first, high), (low, last));
            let is_left_smaller = high - first < last - low;
            parts.extend(if is_left_smaller { [right, left] } else { [left, right] });
        }
        while !self.held.is_empty() {
            self.put_back()?;
        }
        self.device.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::random::Random;

    /// Bytes in memory. It counts what is read and written.
    #[derive(Default)]
    struct Memory {
        bytes: Vec<u8>,
        reads: u64,
        writes: u64,
    }

    impl Device for Memory {
        fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Outcome<()> {
            self.reads += 1;
            bytes.copy_from_slice(&self.bytes[offset as usize..][..bytes.len()]);
            Ok(())
        }

        fn write(&mut self, offset: u64, bytes: &[u8]) -> Outcome<()> {
            self.writes += 1;
            self.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn flush(&mut self) -> Outcome<()> {
            Ok(())
        }
    }

    #[test]
    fn patterns_are_found_as_often_as_they_are_there() {
        let mut random = Random::new(5);
        for round in 0..2_000 {
            let letters = 1 + round % 4;
            let mut text = |bytes: u64| -> Vec<u8> {
                (0..bytes).map(|_| b'a' + random.below(letters) as u8).collect()
            };
            let (bytes, pattern) = (text(300), text(1 + round % 9));
            let expected = bytes.windows(pattern.len()).filter(|part| *part == pattern).count();
            assert_eq!(Search::new(&pattern).count(&bytes), expected as u64, "{pattern:?}");
            // In pieces, some shorter than the pattern.
            let mut memory = Memory { bytes, ..Memory::default() };
            let found = search(&mut memory, 300, (1 + round as usize % 40, 1), &pattern).unwrap();
            assert_eq!(found, expected as u64, "{pattern:?} in pieces");
        }
        let (long, text) = ([b'x'; 1024], [b'x'; 4096]);
        assert_eq!(Search::new(&long).count(&text), 4096 - 1024 + 1);
    }

    #[test]
    fn long_patterns_look_at_few_letters() {
        // A letter that is not in the pattern moves it by its whole length.
        let search = Search::new(&[b'a'; 1024]);
        assert_eq!(search.letters[usize::from(b'z')], 1024);
        assert_eq!(search.count(&vec![b'z'; 50_000_000]), 0);
    }

    #[test]
    fn records_are_sorted_and_none_is_lost() {
        let mut random = Random::new(9);
        for (record_bytes, blocks, keys) in
            [(4096, 97, u64::MAX), (2048, 200, u64::MAX), (2048, 33, 3)]
        {
            let count = (blocks * BLOCK_BYTES / record_bytes) as u64;
            let mut bytes = Vec::new();
            for number in 0..count {
                let key = (random.bits() % keys).to_be_bytes();
                bytes.extend_from_slice(&key);
                bytes.extend_from_slice(&number.to_be_bytes());
                bytes.resize(bytes.len() + record_bytes - 16, key[7]);
            }
            let sorted = |bytes: &[u8]| {
                let mut all: Vec<Vec<u8>> =
                    bytes.chunks(record_bytes).map(<[u8]>::to_vec).collect();
                all.sort();
                all
            };
            let mut memory = Memory { bytes: bytes.clone(), ..Memory::default() };
            Records::new(&mut memory, record_bytes).quicksort(count).unwrap();
            assert_eq!(sorted(&memory.bytes), sorted(&bytes));
            let keys: Vec<&[u8]> = memory.bytes.chunks(record_bytes).map(|one| &one[..8]).collect();
            assert!(keys.is_sorted(), "{record_bytes}");
            assert!(memory.writes <= memory.reads, "what was not read has not changed");
        }
        Records::new(&mut Memory::default(), 4096).quicksort(0).unwrap();
    }
}
