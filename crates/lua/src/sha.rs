//! The names of scripts.

use std::fmt;

use sha1::{Digest as _, Sha1};

/// The SHA-1 of a script's text: 40 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha1Hex([u8; 40]);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Sha1Hex {
    /// The name of a text.
    pub fn of(text: &[u8]) -> Self {
        let mut hex = [0; 40];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(text)) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(hex)
    }

    /// A name as a client sends it: 40 hexadecimal digits of either case.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let mut hex: [u8; 40] = name.try_into().ok()?;
        hex.make_ascii_lowercase();
        hex.iter().all(|digit| DIGITS.contains(digit)).then_some(Self(hex))
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8; 40] {
        &self.0
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits")
    }
}

impl fmt::Display for Sha1Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Sha1Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
