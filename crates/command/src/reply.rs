//! Replies as values, their bytes, and the trait by which a gateway receives them.

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{Cut, DecodeError};

use crate::ValueType;

/// Why a command was refused, with nothing changed. Gateways give it their own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The value is not an integer of 64 bits.
    NotInteger,
    /// The sum would leave 64 bits.
    Overflow,
    /// The value is not a float.
    NotFloat,
    /// The sum is not a number or infinite.
    NotFinite,
    /// The value would be longer than `value_bytes_max`.
    TooLong,
    /// RENAME of a key that is not there.
    NoSuchKey,
    /// LCS of values so long that it would take too much time and memory.
    LcsTooLarge,
    /// The keys, or some of them, are another shard's by now.
    Moved,
    /// A transaction reads or writes more than one may.
    TooMuch,
    /// The value is of another type than the command's. No value is, as long as all are strings.
    WrongType,
    /// Another session writes to the volume.
    Fenced,
}

/// An answer, owned.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done.
    Ok,
    /// There is no value.
    Nil,
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Box<[u8]>),
    /// A status word other than OK.
    Status(&'static str),
    /// Several.
    Array(Vec<Reply>),
    /// Pairs: a map in RESP3, a flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Nothing was done.
    Refused(Refusal),
    /// Nothing was done: the keys, or some of them, belong to another shard by now. A flush has
    /// flushed what this shard owns of it. The node that asked asks again; no client sees this.
    Moved {
        /// Of a flush, the first slot or key that is another shard's. Else slot 0.
        from: Cut,
    },
    /// Nothing was done: the shard obeys another session of writers ([`crate::Fence`]).
    Fenced {
        /// The highest epoch of that one.
        epoch: u64,
    },
    /// Nothing was done: this key, which a transaction has watched, is not as it was seen.
    Changed(Box<[u8]>),
}

impl Reply {
    /// About how many bytes it takes.
    pub fn bytes_about(&self) -> usize {
        16 + match self {
            Reply::Bulk(bytes) => bytes.len(),
            Reply::Array(all) => all.iter().map(Reply::bytes_about).sum(),
            Reply::Map(all) => all.iter().map(|(a, b)| a.bytes_about() + b.bytes_about()).sum(),
            _ => 0,
        }
    }
}

/// Takes an answer piece by piece, without a copy in between: RESP writers, JSON writers, tests.
pub trait Sink {
    /// Done.
    fn ok(&mut self);
    /// There is no value.
    fn nil(&mut self);
    /// A number.
    fn int(&mut self, value: i64);
    /// Bytes.
    fn bulk(&mut self, bytes: &[u8]);
    /// A status word other than OK.
    fn status(&mut self, word: &'static str);
    /// `len` answers follow.
    fn array(&mut self, len: usize);
    /// `len` pairs of answers follow.
    fn map(&mut self, len: usize);
    /// Nothing was done.
    fn refused(&mut self, why: Refusal);
}

/// Takes an answer as a value.
#[derive(Debug, Default)]
pub struct Collect {
    /// Arrays and maps that are not whole yet, the outermost first.
    open: Vec<Open>,
    whole: Option<Reply>,
}

#[derive(Debug)]
struct Open {
    is_map: bool,
    left: usize,
    items: Vec<Reply>,
}

impl Open {
    fn close(self) -> Reply {
        if !self.is_map {
            return Reply::Array(self.items);
        }
        let mut items = self.items.into_iter();
        Reply::Map(std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect())
    }
}

impl Collect {
    /// The answer.
    ///
    /// # Panics
    /// If none was given, or not all of one.
    pub fn into_reply(self) -> Reply {
        assert!(self.open.is_empty(), "an answer is given as a whole");
        self.whole.expect("every command is answered")
    }

    fn add(&mut self, mut reply: Reply) {
        while let Some(inner) = self.open.last_mut() {
            inner.items.push(reply);
            inner.left -= 1;
            if inner.left > 0 {
                return;
            }
            reply = self.open.pop().expect("it was the last").close();
        }
        self.whole = Some(reply);
    }

    fn begin(&mut self, is_map: bool, left: usize) {
        let open = Open { is_map, left, items: Vec::new() };
        if left == 0 { self.add(open.close()) } else { self.open.push(open) }
    }
}

impl Sink for Collect {
    fn ok(&mut self) {
        self.add(Reply::Ok);
    }

    fn nil(&mut self) {
        self.add(Reply::Nil);
    }

    fn int(&mut self, value: i64) {
        self.add(Reply::Int(value));
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.add(Reply::Bulk(bytes.into()));
    }

    fn status(&mut self, word: &'static str) {
        self.add(Reply::Status(word));
    }

    fn array(&mut self, len: usize) {
        self.begin(false, len);
    }

    fn map(&mut self, len: usize) {
        self.begin(true, 2 * len);
    }

    fn refused(&mut self, why: Refusal) {
        self.add(Reply::Refused(why));
    }
}

impl Reply {
    /// Gives this answer to a sink.
    pub fn give(&self, sink: &mut (impl Sink + ?Sized)) {
        match self {
            Reply::Ok => sink.ok(),
            Reply::Nil => sink.nil(),
            Reply::Int(value) => sink.int(*value),
            Reply::Bulk(bytes) => sink.bulk(bytes),
            Reply::Status(word) => sink.status(word),
            Reply::Array(items) => {
                sink.array(items.len());
                items.iter().for_each(|item| item.give(sink));
            }
            Reply::Map(pairs) => {
                sink.map(pairs.len());
                for (key, value) in pairs {
                    key.give(sink);
                    value.give(sink);
                }
            }
            Reply::Refused(why) => sink.refused(*why),
            Reply::Moved { .. } => sink.refused(Refusal::Moved),
            Reply::Fenced { .. } => sink.refused(Refusal::Fenced),
            Reply::Changed(_) => sink.nil(),
        }
    }
}

/// Appends replies, one after the other.
///
/// A tag, then: 3 number i64 · 4 `bytes` · 5 status `u8` · 6 count `varint`, replies · 7 count
/// `varint`, pairs of replies · 8 refusal `u8` · 9 moved: slot `varint` · 10 changed: key
/// `bytes` · 11 fenced: epoch u64; 1 is done, 2 nil.
pub fn encode_all(replies: &[Reply], out: &mut Vec<u8>) {
    for reply in replies {
        reply.encode(out);
    }
}

/// Reads replies until the bytes are used up.
///
/// # Errors
/// [`DecodeError`] if they are not replies.
pub fn decode_all(bytes: &[u8]) -> Result<Vec<Reply>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut replies = Vec::new();
    while !reader.rest().is_empty() {
        replies.push(Reply::decode(&mut reader, NESTED_MAX)?);
    }
    Ok(replies)
}

/// Reads the only reply in the bytes.
///
/// # Errors
/// [`DecodeError`] if they are not a reply, or more than one.
pub fn decode_one(bytes: &[u8]) -> Result<Reply, DecodeError> {
    let mut reader = Reader::new(bytes);
    let reply = Reply::decode(&mut reader, NESTED_MAX)?;
    reader.end()?;
    Ok(reply)
}

/// How deep replies stand in replies, at most.
const NESTED_MAX: usize = 4;

/// Status words, by their number.
const WORDS: [&str; 2] = [ValueType::String.name(), "none"];

const REFUSALS: [Refusal; 11] = [
    Refusal::NotInteger,
    Refusal::Overflow,
    Refusal::NotFloat,
    Refusal::NotFinite,
    Refusal::TooLong,
    Refusal::NoSuchKey,
    Refusal::LcsTooLarge,
    Refusal::Moved,
    Refusal::TooMuch,
    Refusal::WrongType,
    Refusal::Fenced,
];

impl Reply {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Ok => out.push(1),
            Reply::Nil => out.push(2),
            Reply::Int(value) => {
                out.push(3);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Reply::Bulk(bytes) => {
                out.push(4);
                put_bytes(bytes, out);
            }
            Reply::Status(word) => {
                let number = WORDS.iter().position(|known| known == word);
                out.extend([5, number.expect("every status word has its number") as u8]);
            }
            Reply::Array(items) => {
                out.push(6);
                put_varint(items.len() as u64, out);
                encode_all(items, out);
            }
            Reply::Map(pairs) => {
                out.push(7);
                put_varint(pairs.len() as u64, out);
                for (key, value) in pairs {
                    key.encode(out);
                    value.encode(out);
                }
            }
            Reply::Refused(why) => {
                let number = REFUSALS.iter().position(|known| known == why);
                out.extend([8, number.expect("every refusal has its number") as u8]);
            }
            Reply::Moved { from } => {
                out.push(9);
                from.encode(out);
            }
            Reply::Changed(key) => {
                out.push(10);
                put_bytes(key, out);
            }
            Reply::Fenced { epoch } => {
                out.push(11);
                out.extend_from_slice(&epoch.to_le_bytes());
            }
        }
    }

    fn decode(reader: &mut Reader<'_>, nested_max: usize) -> Result<Self, DecodeError> {
        let deeper = nested_max.checked_sub(1).ok_or(DecodeError::Field { what: "nested reply" });
        Ok(match reader.u8()? {
            1 => Reply::Ok,
            2 => Reply::Nil,
            3 => Reply::Int(reader.u64()? as i64),
            4 => Reply::Bulk(reader.bytes()?.into()),
            5 => Reply::Status(pick(&WORDS, reader.u8()?, "status word")?),
            6 => {
                let deeper = deeper?;
                let count = reader.varint()?;
                let items = (0..count).map(|_| Self::decode(reader, deeper));
                Reply::Array(items.collect::<Result<_, _>>()?)
            }
            7 => {
                let deeper = deeper?;
                let mut pairs = Vec::new();
                for _ in 0..reader.varint()? {
                    pairs.push((Self::decode(reader, deeper)?, Self::decode(reader, deeper)?));
                }
                Reply::Map(pairs)
            }
            8 => Reply::Refused(pick(&REFUSALS, reader.u8()?, "refusal")?),
            9 => Reply::Moved { from: Cut::decode(reader)? },
            10 => Reply::Changed(reader.bytes()?.into()),
            11 => Reply::Fenced { epoch: reader.u64()? },
            found => return Err(DecodeError::Tag { what: "reply", found }),
        })
    }
}

fn pick<T: Copy>(all: &[T], number: u8, what: &'static str) -> Result<T, DecodeError> {
    all.get(usize::from(number)).copied().ok_or(DecodeError::Tag { what, found: number })
}
