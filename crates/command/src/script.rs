//! Commands as people type them, for tests: words in, the answer as text out.
//!
//! Understands only what the tests of this folder need. What a gateway refuses (syntax, numbers out
//! of range) is not a command here.

use keyspace::{KeyHasher, SLOTS, Timestamp};
use storage::engine::{Layout, MemoryEngine, Version};

use super::{ExpireIf, Expiry, Read, Reply, SetIf, SetReply, Sink, View, Write, answer, apply};

/// A command of either kind.
#[derive(Debug)]
pub(super) enum Command<'a> {
    Read(Read<'a>),
    Write(Write<'a>),
    /// MSET: writes that are answered together.
    Writes(Vec<Write<'a>>),
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A typed command, split into words.
struct TypedCommand<'w, 'a> {
    all: &'w [&'a [u8]],
    name: String,
    /// The first two words behind the name, empty if they are not there.
    key: &'a [u8],
    arg: &'a [u8],
    /// The others, in capitals.
    options: Vec<String>,
}

impl<'w, 'a> TypedCommand<'w, 'a> {
    fn of(all: &'w [&'a [u8]]) -> Option<Self> {
        let name = String::from_utf8(all.first()?.to_ascii_uppercase()).ok()?;
        let word = |at: usize| all.get(at).copied().unwrap_or_default();
        let rest = all.iter().skip(3);
        let options = rest.map(|word| String::from_utf8_lossy(word).to_ascii_uppercase());
        Some(Self { all, name, key: word(1), arg: word(2), options: options.collect() })
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|word| word == option)
    }

    /// The number behind an option.
    fn after(&self, option: &str) -> Option<u64> {
        let at = self.options.iter().position(|word| word == option)?;
        self.options.get(at + 1)?.parse().ok()
    }

    fn expiry(&self, otherwise: Expiry) -> Expiry {
        match (self.after("EXAT"), self.after("PXAT")) {
            (Some(seconds), _) => Expiry::At(seconds * 1000),
            (_, Some(millis)) => Expiry::At(millis),
            _ => otherwise,
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.all[1..].chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }

    fn set(&self, value: &'a [u8], when: SetIf, expiry: Expiry, reply: SetReply) -> Write<'a> {
        Write::Set { key: self.key, value, when, expiry, reply }
    }

    fn set_with_options(&self) -> Write<'a> {
        let when = match (self.has("NX"), self.has("XX")) {
            (true, _) => SetIf::Absent,
            (_, true) => SetIf::Present,
            _ => SetIf::Always,
        };
        let kept = if self.has("KEEPTTL") { Expiry::Keep } else { Expiry::Never };
        let reply = if self.has("GET") { SetReply::Old } else { SetReply::Ok };
        self.set(self.arg, when, self.expiry(kept), reply)
    }

    fn get_and_expire(&self) -> Option<Write<'a>> {
        let expiry = match &self.arg.to_ascii_uppercase()[..] {
            b"PERSIST" => Expiry::Never,
            b"PXAT" => Expiry::At(number(self.all[3])?),
            _ => return None,
        };
        Some(Write::GetExpire { key: self.key, expiry })
    }

    fn expire(&self, at: i64) -> Write<'a> {
        let [nx, xx, gt, lt] = ["NX", "XX", "GT", "LT"].map(|option| self.has(option));
        Write::Expire { key: self.key, at, when: ExpireIf { nx, xx, gt, lt } }
    }

    fn write(&self) -> Option<Write<'a>> {
        let &Self { key, arg, .. } = self;
        Some(match &self.name[..] {
            "SET" => self.set_with_options(),
            "SETNX" => self.set(arg, SetIf::Absent, Expiry::Never, SetReply::Flag),
            "GETSET" => self.set(arg, SetIf::Always, Expiry::Never, SetReply::Old),
            "DEL" => Write::Delete { key },
            "GETDEL" => Write::GetDelete { key },
            "GETEX" if self.all.len() > 2 => self.get_and_expire()?,
            "APPEND" => Write::append(key, arg),
            "SETRANGE" => Write::SetRange { key, offset: number(arg)?, value: self.all.get(3)? },
            "INCR" => Write::Increment { key, by: 1 },
            "DECR" => Write::Increment { key, by: -1 },
            "INCRBY" => Write::Increment { key, by: number(arg)? },
            "DECRBY" => Write::Increment { key, by: number::<i64>(arg)?.checked_neg()? },
            "INCRBYFLOAT" => Write::IncrementFloat { key, by: arg },
            "EXPIREAT" => self.expire(number::<i64>(arg)?.checked_mul(1000)?),
            "PEXPIREAT" => self.expire(number(arg)?),
            "PERSIST" => Write::Persist { key },
            "MSETNX" => Write::SetAllIfAbsent { pairs: self.pairs().collect() },
            "RENAME" => Write::Rename { from: key, to: arg, if_absent: false },
            "RENAMENX" => Write::Rename { from: key, to: arg, if_absent: true },
            "COPY" => Write::Copy { from: key, to: arg, replace: self.has("REPLACE") },
            "FLUSHALL" => Write::Flush { from: None, end: keyspace::Cut::Slot(0) },
            _ => return None,
        })
    }

    fn writes(&self) -> Vec<Write<'a>> {
        let set = |(key, value)| Write::Set {
            key,
            value,
            when: SetIf::Always,
            expiry: Expiry::Never,
            reply: SetReply::Ok,
        };
        self.pairs().map(set).collect()
    }

    fn read(&self) -> Option<Read<'a>> {
        let &Self { key, arg, .. } = self;
        let ttl = |millis, absolute| Read::Ttl { key, millis, absolute };
        Some(match &self.name[..] {
            "GET" => Read::Get(key),
            "GETEX" if self.all.len() <= 2 => Read::Get(key),
            "MGET" => Read::GetMany(self.all[1..].to_vec()),
            "GETRANGE" => {
                Read::GetRange { key, start: number(arg)?, end: number(self.all.get(3)?)? }
            }
            "STRLEN" => Read::Length(key),
            "EXISTS" => Read::Exists(self.all[1..].to_vec()),
            "TYPE" => Read::Type(key),
            "TTL" => ttl(false, false),
            "PTTL" => ttl(true, false),
            "EXPIRETIME" => ttl(false, true),
            "PEXPIRETIME" => ttl(true, true),
            "OBJECT" if key.eq_ignore_ascii_case(b"encoding") => Read::Encoding(arg),
            "LCS" => Read::Lcs {
                keys: [key, arg],
                len: self.has("LEN"),
                idx: self.has("IDX"),
                min_match: self.after("MINMATCHLEN").unwrap_or(0),
                with_match_len: self.has("WITHMATCHLEN"),
            },
            _ => return None,
        })
    }
}

/// The command that words mean; `None` if a gateway would not have made one of them.
pub(super) fn parse<'a>(words: &[&'a [u8]]) -> Option<Command<'a>> {
    let words = TypedCommand::of(words)?;
    if words.name == "MSET" {
        return Some(Command::Writes(words.writes()));
    }
    let write = words.write().map(Command::Write);
    write.or_else(|| words.read().map(Command::Read))
}

/// An empty engine for all slots.
pub(super) fn engine() -> MemoryEngine {
    MemoryEngine::new(Layout::Hashed { first_slot: 0, end_slot: SLOTS }, KeyHasher::new([7; 16]))
}

struct At<'e>(&'e MemoryEngine, Timestamp);

impl View for At<'_> {
    fn newest(&self, key: &[u8]) -> Option<Version<'_>> {
        self.0.newest(&self.0.hasher().key(key), self.1)
    }
}

/// Runs a command and answers as [`Text`] writes it.
pub(super) fn run(engine: &mut MemoryEngine, command: &Command<'_>, at: Timestamp) -> String {
    let mut text = Text::default();
    match command {
        Command::Read(read) => answer(&At(engine, at), read, at, &mut text),
        Command::Write(write) => apply(engine, write, at).give(&mut text),
        Command::Writes(writes) => {
            for write in writes {
                assert_eq!(apply(engine, write, at), Reply::Ok);
            }
            text.ok();
        }
    }
    text.0
}

/// Answers as text, on one line: `OK`, `nil`, `(1)`, `"bytes"`, `[2]`, maps as flat arrays.
#[derive(Default)]
pub(super) struct Text(pub(super) String);

impl Text {
    fn word(&mut self, word: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(word);
    }
}

impl Sink for Text {
    fn ok(&mut self) {
        self.word("OK");
    }

    fn nil(&mut self) {
        self.word("nil");
    }

    fn int(&mut self, value: i64) {
        self.word(&format!("({value})"));
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.word(&format!("\"{}\"", bytes.escape_ascii()));
    }

    fn status(&mut self, word: &'static str) {
        self.word(word);
    }

    fn array(&mut self, len: usize) {
        self.word(&format!("[{len}]"));
    }

    fn map(&mut self, len: usize) {
        self.array(len * 2);
    }

    fn refused(&mut self, why: super::Refusal) {
        use super::Refusal::*;
        self.word(match why {
            NotInteger => "ERR value is not an integer or out of range",
            Overflow => "ERR increment or decrement would overflow",
            NotFloat => "ERR value is not a valid float",
            NotFinite => "ERR increment would produce NaN or Infinity",
            TooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            NoSuchKey => "ERR no such key",
            Moved => "TRYAGAIN moved",
            Fenced => "FENCED another session writes",
            WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            TooMuch => "ERR too much for a transaction",
            LcsTooLarge => {
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
            }
        });
    }
}
