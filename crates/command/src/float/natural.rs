//! Natural numbers of any size: just what turning digits into a float and back needs.
//!
//! Sizes are bounded by the caller's text (5 KiB) and exponents: at most about 34 000 bits.

use std::cmp::Ordering;

const LIMB_BITS: u64 = 32;
/// As many decimal digits as surely fit a limb.
const CHUNK_DIGITS: usize = 9;
const CHUNK: u32 = 1_000_000_000;
/// A quotient has at least this many bits: a mantissa, and enough to round it.
const QUOTIENT_BITS: u64 = 67;

/// Limbs from the lowest up; the highest is not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Natural(Vec<u32>);

impl From<u128> for Natural {
    fn from(number: u128) -> Self {
        let limbs = (0..4).map(|index| (number >> (index * LIMB_BITS as u32)) as u32);
        let mut natural = Self(limbs.collect());
        natural.trim();
        natural
    }
}

impl Natural {
    /// From decimal digits.
    pub(super) fn from_decimal(digits: &[u8]) -> Self {
        let mut natural = Self(Vec::new());
        for chunk in digits.chunks(CHUNK_DIGITS) {
            let value = chunk.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            natural.times_plus(10u32.pow(chunk.len() as u32), value);
        }
        natural
    }

    /// From hexadecimal digits of either case.
    pub(super) fn from_hexadecimal(digits: &[u8]) -> Self {
        let mut natural = Self(Vec::new());
        for digit in digits {
            let value = char::from(*digit).to_digit(16).expect("scanned as a digit");
            natural.times_plus(16, value);
        }
        natural
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn times_plus(&mut self, factor: u32, plus: u32) {
        let mut carry = u64::from(plus);
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> LIMB_BITS;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Multiplies by 10^`power`.
    pub(super) fn times_power_of_ten(&mut self, power: u32) {
        for _ in 0..power / CHUNK_DIGITS as u32 {
            self.times_plus(CHUNK, 0);
        }
        self.times_plus(10u32.pow(power % CHUNK_DIGITS as u32), 0);
    }

    /// How many bits it has, without zeros in front.
    pub(super) fn bits(&self) -> u64 {
        let top = self.0.last().map_or(0, |top| top.leading_zeros());
        self.0.len() as u64 * LIMB_BITS - u64::from(top)
    }

    fn limb(&self, index: u64) -> u64 {
        self.0.get(index as usize).copied().unwrap_or(0).into()
    }

    /// Its lowest 64 bits.
    pub(super) fn low64(&self) -> u64 {
        self.bits_from(0)
    }

    /// 64 bits, from bit `low` up.
    pub(super) fn bits_from(&self, low: u64) -> u64 {
        let (first, shift) = (low / LIMB_BITS, low % LIMB_BITS);
        let pair = self.limb(first) | self.limb(first + 1) << LIMB_BITS;
        // By 64 - `shift` in steps, since one shift by all 64 bits is not allowed.
        let above = self.limb(first + 2) << (LIMB_BITS - 1) << (LIMB_BITS - shift) << 1;
        pair >> shift | above
    }

    /// Whether a bit is set.
    pub(super) fn bit(&self, index: u64) -> bool {
        self.limb(index / LIMB_BITS) >> (index % LIMB_BITS) & 1 == 1
    }

    /// Whether any bit below `end` is set.
    pub(super) fn any_below(&self, end: u64) -> bool {
        let whole = (end / LIMB_BITS).min(self.0.len() as u64);
        self.0[..whole as usize].iter().any(|limb| *limb != 0)
            || (whole * LIMB_BITS..end.min(self.bits())).any(|index| self.bit(index))
    }

    /// Multiplies by 2^`bits`.
    pub(super) fn shift_up(&mut self, bits: u64) {
        let low = bits % LIMB_BITS;
        self.times_plus(1 << low, 0);
        let zeros = std::iter::repeat_n(0, (bits / LIMB_BITS) as usize);
        if !self.0.is_empty() {
            self.0.splice(0..0, zeros);
        }
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.0.iter_mut().rev() {
            let low = *limb & 1;
            *limb = *limb >> 1 | carry << (LIMB_BITS - 1);
            carry = low;
        }
        self.trim();
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Takes away a number that is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let less = other.0.get(index).copied().unwrap_or(0);
            let (difference, first) = limb.overflowing_sub(less);
            let (difference, second) = difference.overflowing_sub(borrow.into());
            (*limb, borrow) = (difference, first || second);
        }
        assert!(!borrow, "a larger number is taken away");
        self.trim();
    }

    fn divide_by_chunk(&mut self) -> u32 {
        let mut rest = 0u64;
        for limb in self.0.iter_mut().rev() {
            let part = rest << LIMB_BITS | u64::from(*limb);
            *limb = (part / u64::from(CHUNK)) as u32;
            rest = part % u64::from(CHUNK);
        }
        self.trim();
        rest as u32
    }

    /// Its decimal digits.
    pub(super) fn into_decimal(mut self) -> String {
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            chunks.push(self.divide_by_chunk());
        }
        let first = chunks.pop().unwrap_or(0).to_string();
        let rest = chunks.iter().rev().map(|chunk| format!("{chunk:09}"));
        std::iter::once(first).chain(rest).collect()
    }
}

/// `top` / `bottom` as (quotient · 2^scale, and whether there is more below it). The quotient has
/// 67 or 68 bits. Neither may be 0.
pub(super) fn divide(mut top: Natural, mut bottom: Natural) -> (u128, i64, bool) {
    let up = QUOTIENT_BITS as i64 + bottom.bits() as i64 - top.bits() as i64;
    if up >= 0 {
        top.shift_up(up as u64);
    } else {
        bottom.shift_up(up.unsigned_abs());
    }
    // Schoolbook, one bit at a time: `top` is now below `bottom` · 2^68.
    bottom.shift_up(QUOTIENT_BITS + 1);
    let mut quotient = 0;
    for _ in 0..QUOTIENT_BITS + 2 {
        let fits = top.compare(&bottom).is_ge();
        if fits {
            top.subtract(&bottom);
        }
        quotient = quotient << 1 | u128::from(fits);
        bottom.halve();
    }
    (quotient, -up, !top.0.is_empty())
}
