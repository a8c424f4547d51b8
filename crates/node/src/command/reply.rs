//! Answers as values, and the door through which a gateway takes them.

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
        }
    }
}
