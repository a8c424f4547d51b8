//! What does INCRBYFLOAT compute? The 80-bit "long double" of x86, which Redis uses, on any
//! machine.
//!
//! Clients compare the text, so the same digits must come out: 10.5 + 0.1 is `10.6`, which a
//! 64-bit float would print as `10.59999999999999964` at 17 decimals. Values are parsed to the
//! nearest such number, added to the nearest again, and written with 17 decimals, zeros at the end
//! dropped. All steps are exact integers with one rounding, half to even; so every replica computes
//! the same bits (SAFETY G3).
//!
//! A finite number is ± `mantissa` · 2^`exponent` with a mantissa of 64 bits:
//!
//! ```text
//!   0.1  =  0xcccccccccccccccd · 2^-67        highest bit set, unless the exponent is the least
//! ```
//!
//! Accepted text: what C's `strtold` takes without leading space: `[+-]`, then decimal or `0x`
//! hexadecimal digits with at most one point and an exponent, or `inf`, `infinity`, in upper or
//! lower case. Refused: `nan`, numbers that are too large, and those that round to 0 but are not 0.

mod natural;

use natural::Natural;

/// The longest text that is tried, in bytes, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Bits of a mantissa.
const BITS: i64 = 64;
/// The least exponent: mantissas with this one may have their highest bits clear.
const EXPONENT_MIN: i64 = -16_445;
/// The largest exponent of a mantissa with its highest bit set.
const EXPONENT_MAX: i64 = 16_384 - BITS;
/// Decimal exponents beyond this, seen from the first digit, are surely too large or too small.
const DECIMAL_EXPONENT_MAX: i64 = 5_000;
/// Decimals in the answer.
const DECIMALS: u32 = 17;

/// An extended-precision number, not NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float {
    negative: bool,
    size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// `mantissa` · 2^`exponent`. Zero: both 0.
    Finite {
        mantissa: u64,
        exponent: i64,
    },
    Infinite,
}

impl Float {
    /// Nothing.
    pub const ZERO: Self =
        Self { negative: false, size: Size::Finite { mantissa: 0, exponent: 0 } };

    /// The nearest number to ± (`whole` + something below 1 if `more`) · 2^`exponent`. If `more`,
    /// `whole` must have more than 64 bits.
    fn nearest(negative: bool, whole: &Natural, exponent: i64, more: bool) -> Self {
        let bits = whole.bits() as i64;
        let mut to = (exponent + bits - BITS).max(EXPONENT_MIN);
        let drop = to - exponent;
        let mut mantissa;
        if drop <= 0 {
            assert!(!more, "digits are missing");
            // At most 64 bits after the shift, for `to` was chosen so.
            mantissa = whole.low64() << -drop.max(-(BITS - 1));
        } else {
            mantissa = whole.bits_from(drop as u64);
            let half = whole.bit(drop as u64 - 1);
            let above_half = more || whole.any_below(drop as u64 - 1);
            if half && (above_half || mantissa & 1 == 1) {
                mantissa = mantissa.wrapping_add(1);
                if mantissa == 0 {
                    (mantissa, to) = (1 << (BITS - 1), to + 1);
                }
            }
        }
        let size = match mantissa {
            0 => Size::Finite { mantissa: 0, exponent: 0 },
            _ if to > EXPONENT_MAX => Size::Infinite,
            _ => Size::Finite { mantissa, exponent: to },
        };
        Self { negative, size }
    }

    /// Whether it is infinite: no sum with it is a number that counts.
    pub fn is_infinite(self) -> bool {
        self.size == Size::Infinite
    }

    /// The sum; `None` if it is not a number or infinite.
    pub fn plus(self, other: Self) -> Option<Self> {
        let (Size::Finite { .. }, Size::Finite { .. }) = (self.size, other.size) else {
            return None;
        };
        let (large, small) =
            if self.shifted() >= other.shifted() { (self, other) } else { (other, self) };
        let ((exponent, high), (small_exponent, low)) = (large.shifted(), small.shifted());
        if low == 0 {
            let both_negative = self.negative && other.negative;
            let negative = if high == 0 { both_negative } else { large.negative };
            return Some(Self { negative, ..large });
        }
        // 63 more bits below, so that one rounding of the exact sum remains.
        let (high, low) = (u128::from(high) << 63, u128::from(low) << 63);
        let apart = u32::try_from(exponent - small_exponent).expect("the larger comes first");
        let kept = low.checked_shr(apart).unwrap_or(0);
        let more = kept.checked_shl(apart) != Some(low);
        let sum = match self.negative == other.negative {
            true => high + kept,
            // What was shifted out is taken away too: a bit less than the difference, and more.
            false => high - kept - u128::from(more),
        };
        if sum == 0 && !more {
            return Some(Self::ZERO);
        }
        let sum = Self::nearest(large.negative, &Natural::from(sum), exponent - 63, more);
        (!sum.is_infinite()).then_some(sum)
    }

    /// Exponent and mantissa with its highest bit set, even below the least exponent. Zero sorts
    /// below all.
    fn shifted(self) -> (i64, u64) {
        match self.size {
            Size::Infinite => (i64::MAX, 0),
            Size::Finite { mantissa: 0, .. } => (i64::MIN, 0),
            Size::Finite { mantissa, exponent } => {
                let shift = mantissa.leading_zeros();
                (exponent - i64::from(shift), mantissa << shift)
            }
        }
    }

    /// The number with 17 decimals, without zeros at the end.
    pub fn to_text(self) -> Vec<u8> {
        let sign = if self.negative { "-" } else { "" };
        let Size::Finite { mantissa, exponent } = self.size else {
            return format!("{sign}inf").into_bytes();
        };
        let text = if exponent >= 0 {
            let mut whole = Natural::from(u128::from(mantissa));
            whole.shift_up(exponent as u64);
            whole.into_decimal()
        } else {
            fraction_text(mantissa, exponent.unsigned_abs())
        };
        // What rounds to nothing has no sign.
        let sign = if text == "0" { "" } else { sign };
        [sign.as_bytes(), text.as_bytes()].concat()
    }
}

/// `mantissa` / 2^`down` with 17 decimals, without zeros at the end.
fn fraction_text(mantissa: u64, down: u64) -> String {
    const ONE: u128 = 10u128.pow(DECIMALS);
    // Below 2^121. Shifted by more it is less than half of the last decimal.
    let scaled = u128::from(mantissa) * ONE;
    let rounded = match u32::try_from(down) {
        Ok(down) if down < u128::BITS => {
            let (whole, rest) = (scaled >> down, scaled & ((1 << down) - 1));
            let half = 1u128 << (down - 1);
            let up = rest > half || (rest == half && whole & 1 == 1);
            whole + u128::from(up)
        }
        _ => 0,
    };
    let text = format!("{}.{:017}", rounded / ONE, rounded % ONE);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The number a text stands for; `None` if it is none, or beyond what there is.
pub fn parse(text: &[u8]) -> Option<Float> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
        return Some(Float { negative, size: Size::Infinite });
    }
    let parsed = match digits {
        [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(negative, rest),
        rest => parse_decimal(negative, rest),
    };
    parsed.filter(|float| !float.is_infinite())
}

fn parse_decimal(negative: bool, text: &[u8]) -> Option<Float> {
    let Scanned { digits, exponent, .. } = scan(text, b'e', u8::is_ascii_digit)?;
    let exponent = exponent.saturating_sub(digits.after_point);
    if digits.all.is_empty() {
        return Some(Float { negative, ..Float::ZERO });
    }
    let first_digit = exponent.saturating_add(digits.all.len() as i64);
    if first_digit.abs() > DECIMAL_EXPONENT_MAX {
        return None;
    }
    let mut top = Natural::from_decimal(&digits.all);
    let float = if exponent >= 0 {
        top.times_power_of_ten(exponent as u32);
        Float::nearest(negative, &top, 0, false)
    } else {
        let mut bottom = Natural::from(1);
        bottom.times_power_of_ten(exponent.unsigned_abs() as u32);
        let (quotient, scale, more) = natural::divide(top, bottom);
        Float::nearest(negative, &Natural::from(quotient), scale, more)
    };
    check_underflow(float)
}

fn parse_hexadecimal(negative: bool, text: &[u8]) -> Option<Float> {
    let Scanned { digits, exponent } = scan(text, b'p', u8::is_ascii_hexdigit)?;
    if digits.all.is_empty() {
        return Some(Float { negative, ..Float::ZERO });
    }
    let exponent = exponent.saturating_sub(digits.after_point.saturating_mul(4));
    let far = 1 << 20;
    let whole = Natural::from_hexadecimal(&digits.all);
    check_underflow(Float::nearest(negative, &whole, exponent.clamp(-far, far), false))
}

/// What was not 0 must not become it.
fn check_underflow(float: Float) -> Option<Float> {
    (float.shifted().1 != 0 || float.is_infinite()).then_some(float)
}

struct Scanned {
    digits: ScannedDigits,
    exponent: i64,
}

struct ScannedDigits {
    /// Without zeros at the front.
    all: Vec<u8>,
    /// How many of the digits stand after the point.
    after_point: i64,
}

/// Parses digits, with at most one point, and an exponent after the character `mark`. The text must
/// have a digit, and nothing else may be left over.
fn scan(text: &[u8], mark: u8, is_digit: fn(&u8) -> bool) -> Option<Scanned> {
    let end = text.iter().position(|byte| !is_digit(byte) && *byte != b'.').unwrap_or(text.len());
    let (mantissa, rest) = text.split_at(end);
    let exponent = match rest {
        [] => 0,
        [character, exponent @ ..] if character.eq_ignore_ascii_case(&mark) => {
            scan_exponent(exponent)?
        }
        _ => return None,
    };
    let mut parts = mantissa.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if whole.len() + fraction.len() == 0 || fraction.contains(&b'.') {
        return None;
    }
    let digits = whole.iter().chain(fraction);
    let all = digits.copied().skip_while(|digit| *digit == b'0').collect();
    Some(Scanned { digits: ScannedDigits { all, after_point: fraction.len() as i64 }, exponent })
}

fn scan_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
    let size = digits.iter().fold(0, add);
    Some(if negative { -size } else { size })
}

#[cfg(test)]
mod tests;
