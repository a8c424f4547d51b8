//! What is written, and whether what is read was written.
//!
//! A value proves itself: it names its own length and one write, and the rest follows from its key
//! and that write. So a reader needs no memory of what was written to see that a value is another
//! key's, cut short, or damaged. That a value is old only [`super::written`] can see.
//!
//! ```text
//!   from 16 bytes on   8 letters: the write · 8 letters: the length · letters from key and write
//!   below              letters from the key alone
//! ```
//!
//! Numbers are the other kind of value: each key holds one, and what they hold together says
//! whether transfers between them lost or made anything.
//!
//! All bytes are letters from `a` to `p`, four bits each, so that a value is the same text in every
//! protocol.

use super::random::{Random, scramble};

/// From this length on a value names its write and its length.
const HEAD_BYTES: usize = 16;
/// What a value names of a write's number.
const WRITE_BITS: u64 = 0xffff_ffff;
/// The longest value: what a length of 32 bits can say, and more than any store here takes.
pub const VALUE_BYTES_MAX: u64 = 256 << 20;
/// The largest number that keys hold at first: far from what overflows in any store.
pub const NUMBER_MAX: u64 = 1_000_000_000_000;
/// The most that one transfer moves.
const AMOUNT_MAX: u64 = 10;

/// How long values are.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All alike.
    Fixed(u64),
    /// Evenly between two lengths, both included.
    Between(u64, u64),
    /// Exponential of this mean, cut at the second number.
    Exponential {
        /// The mean, in bytes.
        mean: u64,
        /// The longest.
        max: u64,
    },
    /// Some lengths, by weight.
    Weighted(Vec<(u64, u64)>),
    /// Numbers: what each key holds at first.
    Number(u64),
}

impl Sizes {
    /// The length of the next value.
    pub fn draw(&self, random: &mut Random) -> usize {
        let bytes = match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Between(from, to) => from + random.below(to - from + 1),
            Sizes::Exponential { mean, max } => {
                (random.exponential(*mean as f64) as u64).clamp(1, *max)
            }
            Sizes::Weighted(choices) => {
                let total: u64 = choices.iter().map(|(_, weight)| weight).sum();
                let mut at = random.below(total);
                let is_it = |(_, weight): &&(u64, u64)| match at.checked_sub(*weight) {
                    Some(rest) => {
                        at = rest;
                        false
                    }
                    None => true,
                };
                choices.iter().find(is_it).map_or(0, |(bytes, _)| *bytes)
            }
            Sizes::Number(number) => 1 + u64::from(number.checked_ilog10().unwrap_or(0)),
        };
        bytes as usize
    }

    /// Whether all values name the writes that made them.
    pub fn name_writes(&self) -> bool {
        !matches!(self, Sizes::Number(_)) && !(0..HEAD_BYTES).any(|bytes| self.allow(bytes))
    }

    /// Whether a value of this length can have been written.
    pub fn allow(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        match self {
            Sizes::Fixed(only) => bytes == *only,
            Sizes::Between(from, to) => (*from..=*to).contains(&bytes),
            Sizes::Exponential { max, .. } => (1..=*max).contains(&bytes),
            Sizes::Weighted(choices) => choices.iter().any(|(choice, _)| *choice == bytes),
            Sizes::Number(_) => (1..=20).contains(&bytes),
        }
    }
}

/// Eight letters for the lower 32 bits.
fn letters(bits: u64) -> [u8; 8] {
    let bits = bits & 0xffff_ffff;
    let spread = (bits | (bits << 16)) & 0x0000_ffff_0000_ffff;
    let spread = (spread | (spread << 8)) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread | (spread << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    (spread + 0x6161_6161_6161_6161).to_le_bytes()
}

/// What stands behind a head, or in a short value: pieces of eight letters without end.
fn stream(seed: u64) -> impl Iterator<Item = [u8; 8]> {
    let seed = scramble(seed ^ 0x2545_f491_4f6c_dd1d);
    (0u64..).map(move |place| letters((seed ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24))
}

fn seed_of(key: u64, write: u64) -> u64 {
    key.wrapping_add((write & 0xffff_ffff) << 32).rotate_left(7)
}

/// Appends the value of `len` bytes that write number `write` gives to a key.
pub fn write_value(key: u64, write: u64, len: usize, out: &mut Vec<u8>) {
    let mut rest = len;
    let mut seed = key;
    if len >= HEAD_BYTES {
        out.extend_from_slice(&letters(write));
        out.extend_from_slice(&letters(len as u64));
        rest -= HEAD_BYTES;
        seed = seed_of(key, write);
    }
    for piece in stream(seed) {
        if rest <= piece.len() {
            out.extend_from_slice(&piece[..rest]);
            return;
        }
        out.extend_from_slice(&piece);
        rest -= piece.len();
    }
}

/// Appends a value for a key: of the length that is drawn, or its first number. Returns the write
/// that it names.
pub fn write_drawn(key: u64, sizes: &Sizes, random: &mut Random, out: &mut Vec<u8>) -> u64 {
    let write = random.bits() & WRITE_BITS;
    match sizes {
        Sizes::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        _ => {
            let len = sizes.draw(random);
            write_value(key, write, len, out);
        }
    }
    write
}

/// The write that a value names, if it is long enough to name one.
pub fn write_of(value: &[u8]) -> Option<u64> {
    value.get(..HEAD_BYTES).and_then(|head| number(&head[..8]))
}

/// Appends an amount for a transfer.
pub fn write_amount(random: &mut Random, out: &mut Vec<u8>) {
    out.extend_from_slice((1 + random.below(AMOUNT_MAX)).to_string().as_bytes());
}

/// The number that a value is.
pub fn number_of(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Whether some write could have given this value to the key.
pub fn is_value_of(key: u64, sizes: &Sizes, value: &[u8]) -> bool {
    if !sizes.allow(value.len()) {
        return false;
    }
    if matches!(sizes, Sizes::Number(_)) {
        return number_of(value).is_some();
    }
    let (seed, body) = match value.split_first_chunk::<HEAD_BYTES>() {
        Some((head, body)) => {
            let Some(write) = number(&head[..8]) else { return false };
            if head[8..] != letters(value.len() as u64) {
                return false;
            }
            (seed_of(key, write), body)
        }
        None => (key, value),
    };
    body.chunks(8).zip(stream(seed)).all(|(found, expected)| *found == expected[..found.len()])
}

fn number(letters: &[u8]) -> Option<u64> {
    letters.iter().rev().try_fold(0, |number, letter| {
        let bits = letter.checked_sub(b'a').filter(|bits| *bits < 16)?;
        Some((number << 4) | u64::from(bits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: u64, write: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write_value(key, write, len, &mut out);
        out
    }

    #[test]
    fn values_prove_themselves() {
        let any = Sizes::Between(0, 5_000);
        for len in [0, 1, 7, 8, 15, 16, 17, 24, 100, 4_096] {
            let good = value(42, 7, len);
            assert_eq!(good.len(), len);
            assert!(good.iter().all(|byte| (b'a'..=b'p').contains(byte)));
            assert!(is_value_of(42, &any, &good), "{len}");
        }
        let good = value(42, 7, 100);
        assert!(!is_value_of(43, &any, &good), "another key's");
        assert!(!is_value_of(42, &any, &good[..99]), "cut short");
        assert!(!is_value_of(42, &Sizes::Fixed(99), &good), "of a length that nobody writes");
        for place in 0..100 {
            let mut bad = good.clone();
            bad[place] ^= 1;
            assert!(!is_value_of(42, &any, &bad), "damaged at {place}");
        }
        assert!(!is_value_of(42, &any, &value(43, 7, 8)), "a short one of another key");
    }

    #[test]
    fn two_writes_of_a_key_differ_throughout() {
        let (one, two) = (value(1, 1, 64), value(1, 2, 64));
        assert_ne!(one[16..24], two[16..24]);
        assert_ne!(one[56..], two[56..]);
    }

    #[test]
    fn sizes_are_drawn_as_they_are_allowed() {
        let mut random = Random::new(1);
        let all = [
            Sizes::Fixed(10),
            Sizes::Between(5, 9),
            Sizes::Exponential { mean: 100, max: 400 },
            Sizes::Weighted(vec![(10, 9), (1_000, 1)]),
            Sizes::Number(1_000),
        ];
        for sizes in all {
            let drawn: Vec<usize> = (0..20_000).map(|_| sizes.draw(&mut random)).collect();
            assert!(drawn.iter().all(|bytes| sizes.allow(*bytes)), "{sizes:?}");
            let mean = drawn.iter().sum::<usize>() as f64 / drawn.len() as f64;
            let expected = match sizes {
                Sizes::Fixed(_) => 10.0..=10.0,
                Sizes::Between(..) => 6.9..=7.1,
                Sizes::Exponential { .. } => 94.0..=103.0,
                Sizes::Weighted(_) => 100.0..=118.0,
                Sizes::Number(_) => 4.0..=4.0,
            };
            assert!(expected.contains(&mean), "{sizes:?}: {mean}");
        }
    }
}
