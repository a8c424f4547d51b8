//! Parses the next command of a byte stream, and where its arguments lie.
//!
//! A request is a *multibulk* command, counted and binary safe,
//!
//! ```text
//! *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n
//! └ 3 arguments   └ the bytes counted by the $ before them
//! ```
//!
//! or, if it does not begin with `*`, an *inline* one: a line of words
//! ([`inline`](super::inline)). [`parse`] looks at the bytes received so far, and either finds one
//! whole command, or notes in the [`ArgRanges`] how far it came and waits for more; it never reads
//! an argument twice, so that a value which arrives in a thousand pieces costs a thousand short
//! calls.
//!
//! Invariants: the same bytes give the same commands and the same error, however they were cut into
//! pieces. A declared length allocates nothing before its bytes arrive. As in Redis, a lone
//! carriage return ends a count, and the two bytes behind an argument are not checked.
//!
//! It does not know what commands mean.

use super::args::ArgRanges;
use super::inline;
use super::number::parse_i64;

/// What a client may ask of the server's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Arguments of one command, its name included.
    pub args_max: usize,
    /// Bytes of a key.
    pub key_bytes_max: usize,
    /// Bytes of a value, and so of any argument.
    pub value_bytes_max: usize,
    /// Bytes of one whole command; not above 4 GiB − 1.
    pub request_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            args_max: 1024 * 1024,
            key_bytes_max: 64 * 1024,
            value_bytes_max: 64 * 1024 * 1024,
            request_bytes_max: 1024 * 1024 * 1024,
        }
    }
}

/// Bytes of an inline command, and of the line that holds a count.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// What was found at the beginning of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A command; its arguments are in the `ArgRanges`.
    Command {
        /// Its bytes. The next command begins behind them.
        consumed: usize,
    },
    /// Nothing to do: an empty line, or a count of no arguments. Redis answers nothing to it.
    Empty {
        /// Its bytes.
        consumed: usize,
    },
    /// The beginning of a command. Call again with the same bytes and more behind them.
    Incomplete,
}

/// The bytes are no request. The server answers with this and closes the connection, since the
/// start of the next command is unknown. The texts are Redis's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The count behind `*` is no number or above `args_max`.
    #[error("ERR Protocol error: invalid multibulk length")]
    MultibulkLength,
    /// The length behind `$` is no number, negative or above `value_bytes_max`.
    #[error("ERR Protocol error: invalid bulk length")]
    BulkLength,
    /// An argument does not begin with `$`.
    #[error("ERR Protocol error: expected '$', got '{}'", printable(*.got))]
    ExpectedDollar {
        /// The byte in its place.
        got: u8,
    },
    /// The line behind `*` does not end.
    #[error("ERR Protocol error: too big mbulk count string")]
    CountTooBig,
    /// The line behind `$` does not end.
    #[error("ERR Protocol error: too big bulk count string")]
    LengthTooBig,
    /// An inline command does not end.
    #[error("ERR Protocol error: too big inline request")]
    InlineTooBig,
    /// An inline command ends within quotes, or has something else than a space behind them.
    #[error("ERR Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The command as a whole is longer than `request_bytes_max`.
    #[error("ERR Protocol error: too big request")]
    RequestTooBig,
}

/// A byte as it may stand in an error line: an end of line would end the reply.
fn printable(byte: u8) -> char {
    if byte == b'\r' || byte == b'\n' { ' ' } else { byte as char }
}

/// How far an unfinished command was read. Positions count from its first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ParseProgress {
    phase: Phase,
    /// Where the next line or argument begins.
    at: usize,
    /// Up to here the line at `at` was searched for its end.
    searched: usize,
    /// Arguments that have not been read.
    args_left: usize,
}

/// What stands at `ParseProgress::at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The first byte of a command.
    #[default]
    Start,
    /// An inline command.
    Line,
    /// `*` and the count.
    Count,
    /// `$` and a length.
    Length,
    /// The bytes of an argument.
    Bytes {
        /// Their number.
        len: usize,
    },
}

impl ParseProgress {
    /// How long the buffer must be for the argument in flight; 0 if none is.
    pub(super) fn wanted(&self) -> usize {
        match self.phase {
            Phase::Bytes { len } => self.at + len + 2,
            _ => 0,
        }
    }
}

/// Reads one command from the beginning of `buf`.
///
/// After `Command` or `Empty` the caller drops `consumed` bytes and calls again. After an error
/// the connection is to be closed; `args` may be used for another one.
#[inline]
pub fn parse(
    buf: &[u8],
    limits: &RequestLimits,
    args: &mut ArgRanges,
) -> Result<Parsed, ProtocolError> {
    let parsed = advance(buf, limits, args);
    if !matches!(parsed, Ok(Parsed::Incomplete)) {
        args.progress.phase = Phase::Start;
    }
    parsed
}

#[inline]
fn advance(
    buf: &[u8],
    limits: &RequestLimits,
    args: &mut ArgRanges,
) -> Result<Parsed, ProtocolError> {
    if args.progress.phase == Phase::Start {
        let Some(first) = buf.first() else { return Ok(Parsed::Incomplete) };
        let inline = *first != b'*';
        if inline {
            args.begin_inline();
        } else {
            args.begin();
            if let Some(consumed) = whole(buf, limits, &mut args.ranges) {
                return Ok(Parsed::Command { consumed });
            }
            args.ranges.clear();
        }
        let phase = if inline { Phase::Line } else { Phase::Count };
        args.progress = ParseProgress { phase, ..ParseProgress::default() };
    }
    match args.progress.phase {
        Phase::Line => return line(buf, args),
        Phase::Count => {
            let progress = &mut args.progress;
            let Some((count, next)) = number(buf, progress, ProtocolError::CountTooBig)? else {
                return Ok(Parsed::Incomplete);
            };
            match count {
                Some(count) if count <= 0 => return Ok(Parsed::Empty { consumed: next }),
                Some(count) if count as u64 <= limits.args_max as u64 => {
                    progress.args_left = count as usize;
                }
                _ => return Err(ProtocolError::MultibulkLength),
            }
            progress.advance_to(Phase::Length, next);
        }
        _ => {}
    }
    arguments(buf, limits, args)
}

/// The common case, fast: the whole command has arrived and there is nothing odd about it. Nothing
/// if that is not so; then the command is read again from its beginning, with care. That happens
/// once per command, since what is left over begins in a later phase.
#[inline]
fn whole(buf: &[u8], limits: &RequestLimits, ranges: &mut Vec<(u32, u32)>) -> Option<usize> {
    let buf = &buf[..buf.len().min(limits.request_bytes_max).min(u32::MAX as usize)];
    let (count, mut at) = plain_number(buf, 1)?;
    if count == 0 || count > limits.args_max {
        return None;
    }
    for _ in 0..count {
        if *buf.get(at)? != b'$' {
            return None;
        }
        let (len, start) = plain_number(buf, at + 1)?;
        if len > limits.value_bytes_max {
            return None;
        }
        at = start + len + 2;
        if at > buf.len() {
            return None;
        }
        // No truncation: `buf` is not longer than 4 GiB.
        ranges.push((start as u32, len as u32));
    }
    Some(at)
}

/// A number of up to nine digits at `at` and the position behind its line, if all that is there.
#[inline]
fn plain_number(buf: &[u8], at: usize) -> Option<(usize, usize)> {
    let [a, b, c, d, ..] = *buf.get(at..)? else { return None };
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    let (a, b, c) = (digit(a), (digit(b), b), (digit(c), c));
    if a > 9 {
        return None;
    }
    if b.1 == b'\r' {
        return Some((a, at + 3));
    }
    // A zero before other digits is odd.
    if a == 0 || b.0 > 9 {
        return None;
    }
    if c.1 == b'\r' {
        return Some((a * 10 + b.0, at + 4));
    }
    if c.0 > 9 {
        return None;
    }
    let mut value = a * 100 + b.0 * 10 + c.0;
    let mut byte = d;
    let mut next = at + 3;
    while byte != b'\r' {
        if digit(byte) > 9 || next == at + 9 {
            return None;
        }
        value = value * 10 + digit(byte);
        next += 1;
        byte = *buf.get(next)?;
    }
    (next + 2 <= buf.len()).then_some((value, next + 2))
}

/// Reads arguments from where `args.progress` stands, which is at a length or at bytes.
fn arguments(
    buf: &[u8],
    limits: &RequestLimits,
    args: &mut ArgRanges,
) -> Result<Parsed, ProtocolError> {
    let mut progress = args.progress;
    while progress.args_left > 0 {
        let len = match progress.phase {
            Phase::Bytes { len } => len,
            _ => {
                let found = number(buf, &mut progress, ProtocolError::LengthTooBig)?;
                let Some((len, next)) = found else { break };
                let sigil = buf[progress.at];
                if sigil != b'$' {
                    return Err(ProtocolError::ExpectedDollar { got: sigil });
                }
                let len = match len {
                    Some(len) if len >= 0 && len as u64 <= limits.value_bytes_max as u64 => {
                        len as usize
                    }
                    _ => return Err(ProtocolError::BulkLength),
                };
                if next + len + 2 > limits.request_bytes_max.min(u32::MAX as usize) {
                    return Err(ProtocolError::RequestTooBig);
                }
                progress.advance_to(Phase::Bytes { len }, next);
                len
            }
        };
        let next = progress.at + len + 2;
        if buf.len() < next {
            break;
        }
        // No truncation: `next` is below request_bytes_max.
        args.ranges.push((progress.at as u32, len as u32));
        progress.args_left -= 1;
        progress.advance_to(Phase::Length, next);
    }
    if progress.args_left > 0 {
        args.progress = progress;
        return Ok(Parsed::Incomplete);
    }
    Ok(Parsed::Command { consumed: progress.at })
}

impl ParseProgress {
    fn advance_to(&mut self, phase: Phase, at: usize) {
        self.phase = phase;
        self.at = at;
        self.searched = at;
    }
}

/// A count (nothing if it is none), and the position behind its line.
type Counted = (Option<i64>, usize);

/// The number behind the sigil at `progress.at`, once its line is complete.
fn number(
    buf: &[u8],
    progress: &mut ParseProgress,
    too_big: ProtocolError,
) -> Result<Option<Counted>, ProtocolError> {
    let Some(end) = find(buf, b'\r', progress) else {
        return if buf.len() - progress.at > LINE_BYTES_MAX { Err(too_big) } else { Ok(None) };
    };
    if end + 1 >= buf.len() {
        progress.searched = end;
        return Ok(None);
    }
    // The search begins at the sigil: if that is the carriage return itself there is no number.
    let digits = buf.get(progress.at + 1..end).unwrap_or(&[]);
    Ok(Some((parse_i64(digits), end + 2)))
}

/// The first `wanted` at or behind `progress.at`, as far as a line may reach.
fn find(buf: &[u8], wanted: u8, progress: &mut ParseProgress) -> Option<usize> {
    let from = progress.searched.max(progress.at);
    let to = buf.len().min(progress.at + LINE_BYTES_MAX + 1);
    let found = buf.get(from..to)?.iter().position(|byte| *byte == wanted);
    progress.searched = to;
    found.map(|at| from + at)
}

/// An inline command, once its line is complete.
fn line(buf: &[u8], args: &mut ArgRanges) -> Result<Parsed, ProtocolError> {
    let Some(end) = find(buf, b'\n', &mut args.progress) else {
        let too_big = buf.len() > LINE_BYTES_MAX;
        return if too_big { Err(ProtocolError::InlineTooBig) } else { Ok(Parsed::Incomplete) };
    };
    let line = &buf[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    inline::split(line, args)?;
    let consumed = end + 1;
    if args.ranges.is_empty() {
        return Ok(Parsed::Empty { consumed });
    }
    Ok(Parsed::Command { consumed })
}
