//! Numbers as Redis reads and writes them.

/// A decimal integer, written in the one canonical way: no sign but `-`, no leading zero, no space.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() > 19 {
        return None;
    }
    let mut value = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // 19 digits stay below 10^19, which fits.
        value = value * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// The cursor of a SCAN: Redis reads it as C's `strtoul` does, but refuses a space before it. So
/// an empty one is 0, and a negative one wraps.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(if negative { value.wrapping_neg() } else { value })
}

const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Appends a number in decimal.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    push_digits(out, value);
}

fn push_digits(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while value >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&DIGIT_PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    if value >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&DIGIT_PAIRS[value as usize]);
    } else {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a number in decimal, with its sign if it is negative.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(out, value.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        for value in [0, 1, -1, 9, 10, 99, 100, 12345, i64::MAX, i64::MIN, 1 << 40] {
            let mut text = Vec::new();
            push_i64(&mut text, value);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(parse_i64(&text), Some(value));
        }
        for bad in ["", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "9223372036854775808", "a"] {
            assert_eq!(parse_i64(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"99999999999999999999"), None);
    }

    #[test]
    fn cursors_are_read_as_c_reads_them() {
        assert_eq!(parse_cursor(b""), Some(0));
        assert_eq!(parse_cursor(b"+007"), Some(7));
        assert_eq!(parse_cursor(b"-1"), Some(u64::MAX));
        assert_eq!(parse_cursor(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["-", "x", "1x", " 1", "18446744073709551616"] {
            assert_eq!(parse_cursor(bad.as_bytes()), None, "{bad}");
        }
    }
}
