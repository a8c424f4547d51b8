//! Parses a line typed by hand into arguments, by the quoting rules of Redis.
//!
//! Words stand between spaces. Within `"…"` a backslash begins an escape (`\n \r \t \b \a`, `\xHH`,
//! else the character itself); within `'…'` only `\'` is one. Quotes may begin within a word, and
//! must end it: `foo"bar"` is `foobar`, but `"foo"bar` is an error.

use super::args::ArgRanges;
use super::parser::ProtocolError;

/// Splits a line, without its end, into arguments, appended to `args`.
pub(super) fn split(line: &[u8], args: &mut ArgRanges) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = args.unquoted.len();
        rest = word(rest, &mut args.unquoted)?;
        // A line has at most LINE_BYTES_MAX bytes: no truncation.
        args.ranges.push((start as u32, (args.unquoted.len() - start) as u32));
    }
}

/// Appends the word at the beginning of `rest` to `out`, and returns what follows it.
fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', tail @ ..] => return quoted(tail, out),
            [b'\'', tail @ ..] => return single_quoted(tail, out),
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

fn quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', tail @ ..] => return closed(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), tail)
            }
            [b'\\', escaped, tail @ ..] => (unescape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', tail @ ..] => return closed(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
}

/// A closing quote must end the word.
fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_blank(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// What C's `isspace` takes for one: the vertical tab too, which Rust's does not.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        letter => (letter | 0x20) - b'a' + 10,
    }
}
