//! When is a value an integer? Exactly if writing that integer gives the value's bytes.
//!
//! So `7` and `-7` are; `07`, `+7`, `-0`, ` 7`, and the empty value are not, as in Redis.

/// The most digits of an `i64`, with its sign.
pub const DIGITS_MAX: usize = 20;

/// The integer that a value is.
#[inline]
pub fn parse(value: &[u8]) -> Option<i64> {
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() < DIGITS_MAX => {}
        _ => return None,
    }
    // Counted downwards, for there is one more number below 0 than above.
    let mut number = 0i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(digit.into())?;
    }
    if negative { Some(number) } else { number.checked_neg() }
}

/// The digits of an integer, without an allocation.
pub struct Digits {
    buf: [u8; DIGITS_MAX],
    start: usize,
}

impl Digits {
    /// Writes down a number.
    #[inline]
    pub fn of(number: i64) -> Self {
        let mut digits = Self { buf: [0; DIGITS_MAX], start: DIGITS_MAX };
        let mut rest = number.unsigned_abs();
        loop {
            digits.push(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            digits.push(b'-');
        }
        digits
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.start -= 1;
        self.buf[self.start] = byte;
    }

    /// The written bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_canonical_text_is_an_integer() {
        for no in ["", "-", "+7", "07", "-0", " 7", "7 ", "1.0", "0x1", "--1", "00"] {
            assert_eq!(parse(no.as_bytes()), None, "{no:?}");
        }
        for no in ["9223372036854775808", "-9223372036854775809", "99999999999999999999"] {
            assert_eq!(parse(no.as_bytes()), None, "{no:?}");
        }
    }

    proptest! {
        #[test]
        fn written_integer_parses_to_itself(number in prop_oneof![
            any::<i64>(), -11..11i64, Just(i64::MIN), Just(i64::MAX)
        ]) {
            let digits = Digits::of(number);
            prop_assert_eq!(digits.bytes().to_vec(), number.to_string().into_bytes());
            prop_assert_eq!(parse(digits.bytes()), Some(number));
        }

        #[test]
        fn what_parses_is_written_the_same(text in "[-+0-9 ]{0,21}") {
            if let Some(number) = parse(text.as_bytes()) {
                prop_assert_eq!(number.to_string(), text);
            }
        }
    }
}
