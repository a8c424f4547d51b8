//! Decodes a node's replies: RESP2 and RESP3 as values, from bytes that come in pieces.
//!
//! | bytes | [`Reply`] |
//! |---|---|
//! | `_`, `$-1`, `*-1` | `Nil` |
//! | `+OK` | `Status` |
//! | `-ERR …`, `!` | `Error` |
//! | `:1` | `Integer` |
//! | `$2`, `=6 txt:hi`, `(` big number | `Bulk` |
//! | `,1.5` | `Double` |
//! | `#t` | `Boolean` |
//! | `*2`, `~2` | `Array` |
//! | `%1` | `Map` |
//! | `>`, `\|` at the top: nobody asked for it | left out |
//!
//! Invariants: no bytes make it panic; what it holds is at most twice [`Limits::reply_bytes_max`]
//! beside the input; it nests at most [`NESTING_MAX`] deep. It reads each byte a bounded number of
//! times, however the input is cut, since it takes complete items out at once.

use bytes::{Buf, Bytes, BytesMut};

/// How deep arrays and maps may lie in one another: the deepest answer of a node has 4 levels.
pub const NESTING_MAX: usize = 16;
/// The longest line: a header, a status or an error.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Values up to this size are copied out of the input, so that a small one keeps no large piece of
/// it in memory.
const COPIED_BYTES_MAX: usize = 32 << 10;
/// Items for which room is made before they have come.
const ITEMS_AHEAD_MAX: usize = 256;

/// A node's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A word, mostly `OK`.
    Status(Bytes),
    /// An error within an array. An error alone is an [`Error`](super::Error) instead.
    Error(Bytes),
    /// A whole number.
    Integer(i64),
    /// A value or a text.
    Bulk(Bytes),
    /// A fraction.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Several answers, in order; or a set of them.
    Array(Vec<Reply>),
    /// Pairs.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    /// Its bytes, if it is a text.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Reply::Bulk(bytes) | Reply::Status(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Its number, if it is a whole one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Of a map, or of an array that stands for one (RESP2): the answer beside a name.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&Reply> {
        let is_it = |key: &Reply| key.bytes().is_some_and(|key| key.as_ref() == name);
        match self {
            Reply::Map(pairs) => pairs.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value),
            Reply::Array(items) => {
                items.chunks_exact(2).find(|pair| is_it(&pair[0])).map(|pair| &pair[1])
            }
            _ => None,
        }
    }

    /// Its items, if it is an array.
    pub(crate) fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            _ => &[],
        }
    }
}

/// Why bytes are no answer. The connection is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not RESP.
    #[error("the answer is not RESP: {0}")]
    NotResp(&'static str),
    /// Longer than was allowed.
    #[error("the answer takes more than {bytes_max} bytes (reply_bytes_max)")]
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
}

/// An array or map that is not complete.
#[derive(Debug)]
struct Open {
    kind: Kind,
    /// Answers to come.
    left: usize,
    items: Vec<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    /// A push that was not asked for: read and thrown away.
    Aside,
}

enum Item {
    Leaf(Reply),
    Open(Kind, usize),
}

/// Decodes RESP replies, for programs that speak RESP without a [`Store`](super::Store).
#[derive(Debug)]
pub struct Decoder {
    bytes_max: usize,
    /// What the answer under way takes.
    taken_bytes: usize,
    open: Vec<Open>,
}

impl Decoder {
    /// Of answers that take at most so many bytes each.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, taken_bytes: 0, open: Vec::new() }
    }

    /// The next answer, taken out of `input`; `None` if it is not complete: call again with more.
    ///
    /// # Errors
    /// What follows cannot be understood: do not call again.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, DecodeError> {
        loop {
            let Some(item) = self.item(input)? else { return Ok(None) };
            let done = match item {
                Item::Leaf(reply) => self.close_with(reply),
                Item::Open(kind, left) => {
                    if self.open.len() == NESTING_MAX {
                        return Err(DecodeError::NotResp("it nests too deep"));
                    }
                    let items = Vec::with_capacity(left.min(ITEMS_AHEAD_MAX));
                    self.open.push(Open { kind, left, items });
                    if left == 0 { self.close() } else { None }
                }
            };
            if let Some(reply) = done {
                self.taken_bytes = 0;
                return Ok(Some(reply));
            }
            if self.open.is_empty() {
                self.taken_bytes = 0;
            }
        }
    }

    /// Puts an answer where it belongs; the whole one if it is complete with that.
    fn close_with(&mut self, reply: Reply) -> Option<Reply> {
        let Some(open) = self.open.last_mut() else { return Some(reply) };
        open.items.push(reply);
        open.left -= 1;
        if open.left == 0 { self.close() } else { None }
    }

    /// Closes the innermost, which is complete, and those that are complete with it.
    fn close(&mut self) -> Option<Reply> {
        let Open { kind, items, .. } = self.open.pop()?;
        match kind {
            Kind::Aside => None,
            Kind::Array => self.close_with(Reply::Array(items)),
            Kind::Map => {
                let mut items = items.into_iter();
                let mut pairs = Vec::with_capacity(items.len() / 2);
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                self.close_with(Reply::Map(pairs))
            }
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
        if self.taken_bytes > self.bytes_max {
            return Err(DecodeError::TooLong { bytes_max: self.bytes_max });
        }
        Ok(())
    }

    /// The next header with what belongs to it.
    fn item(&mut self, input: &mut BytesMut) -> Result<Option<Item>, DecodeError> {
        let Some(line_len) = line_len(input)? else { return Ok(None) };
        let Some((sigil, text)) = input[..line_len].split_first() else {
            return Err(DecodeError::NotResp("an empty line"));
        };
        let header_len = line_len + 2;
        let item = match sigil {
            b'$' | b'=' | b'!' => return self.blob(*sigil, number(text)?, header_len, input),
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let len = match number(text)? {
                    -1 if *sigil == b'*' => None,
                    len => Some(
                        usize::try_from(len)
                            .map_err(|_| DecodeError::NotResp("a length below zero"))?,
                    ),
                };
                let at_top = self.open.is_empty();
                let (kind, each) = match sigil {
                    b'%' => (Kind::Map, 2),
                    b'|' => (Kind::Aside, 2),
                    b'>' if at_top => (Kind::Aside, 1),
                    _ => (Kind::Array, 1),
                };
                match len {
                    None => Item::Leaf(Reply::Nil),
                    Some(len) => {
                        let items = len.saturating_mul(each);
                        self.take(items.saturating_mul(size_of::<Reply>()))?;
                        Item::Open(kind, items)
                    }
                }
            }
            b'+' if text == b"OK" => Item::Leaf(Reply::Status(Bytes::from_static(b"OK"))),
            b'+' => Item::Leaf(Reply::Status(Bytes::copy_from_slice(text))),
            b'-' => Item::Leaf(Reply::Error(Bytes::copy_from_slice(text))),
            b':' => Item::Leaf(Reply::Integer(number(text)?)),
            b'_' if text.is_empty() => Item::Leaf(Reply::Nil),
            b'#' if text == b"t" => Item::Leaf(Reply::Boolean(true)),
            b'#' if text == b"f" => Item::Leaf(Reply::Boolean(false)),
            b',' => Item::Leaf(Reply::Double(double(text)?)),
            b'(' => Item::Leaf(Reply::Bulk(Bytes::copy_from_slice(text))),
            _ => return Err(DecodeError::NotResp("an unknown kind of answer")),
        };
        self.take(header_len)?;
        input.advance(header_len);
        Ok(Some(item))
    }

    /// An answer of a length that is told before.
    fn blob(
        &mut self,
        sigil: u8,
        len: i64,
        header_len: usize,
        input: &mut BytesMut,
    ) -> Result<Option<Item>, DecodeError> {
        if len == -1 && sigil == b'$' {
            self.take(header_len)?;
            input.advance(header_len);
            return Ok(Some(Item::Leaf(Reply::Nil)));
        }
        let len = usize::try_from(len).map_err(|_| DecodeError::NotResp("a length below zero"))?;
        if len > self.bytes_max - self.taken_bytes.min(self.bytes_max) {
            return Err(DecodeError::TooLong { bytes_max: self.bytes_max });
        }
        let whole_len = header_len + len + 2;
        if input.len() < whole_len {
            return Ok(None);
        }
        if input[header_len + len..whole_len] != *b"\r\n" {
            return Err(DecodeError::NotResp("a text is not as long as was said"));
        }
        self.take(len)?;
        input.advance(header_len);
        let mut body = if len <= COPIED_BYTES_MAX {
            let copy = Bytes::copy_from_slice(&input[..len]);
            input.advance(len);
            copy
        } else {
            input.split_to(len).freeze()
        };
        input.advance(2);
        if sigil == b'=' {
            // Three letters and a colon say which kind of text it is.
            body.advance(len.min(4));
        }
        let reply = if sigil == b'!' { Reply::Error(body) } else { Reply::Bulk(body) };
        Ok(Some(Item::Leaf(reply)))
    }
}

/// How long the first line is, without its end.
fn line_len(input: &[u8]) -> Result<Option<usize>, DecodeError> {
    let seen = &input[..input.len().min(LINE_BYTES_MAX + 2)];
    let Some(len) = seen.iter().position(|byte| *byte == b'\r') else {
        let too_long = input.len() > LINE_BYTES_MAX;
        return if too_long { Err(DecodeError::NotResp("an endless line")) } else { Ok(None) };
    };
    match seen.get(len + 1) {
        None if len >= LINE_BYTES_MAX => Err(DecodeError::NotResp("an endless line")),
        None => Ok(None),
        Some(b'\n') => Ok(Some(len)),
        Some(_) => Err(DecodeError::NotResp("a line that ends strangely")),
    }
}

fn number(text: &[u8]) -> Result<i64, DecodeError> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = digits.first().is_some_and(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| plain);
    text.and_then(|text| text.parse().ok()).ok_or(DecodeError::NotResp("a bad number"))
}

fn double(text: &[u8]) -> Result<f64, DecodeError> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| text.parse().ok()).ok_or(DecodeError::NotResp("a bad fraction"))
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
