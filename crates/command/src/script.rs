//! Commands as people type them, for tests: words in, the answer as text out.
//!
//! Understands only what the tests of this folder need. What a gateway refuses (syntax, numbers out
//! of range) is not a command here.

use keyspace::{KeyHasher, SLOTS, Timestamp};
use storage::engine::{Engine, Layout, Version};

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

/// The command that words mean; `None` if a gateway would not have made one of them.
pub(super) fn parse<'a>(words: &[&'a [u8]]) -> Option<Command<'a>> {
    let name = String::from_utf8(words.first()?.to_ascii_uppercase()).ok()?;
    let mut rest = words[1..].iter().copied();
    let key = rest.next().unwrap_or_default();
    let arg = rest.next().unwrap_or_default();
    let options: Vec<String> =
        rest.map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).collect();
    let has = |option: &str| options.iter().any(|word| word == option);
    let after = |option: &str| {
        let at = options.iter().position(|word| word == option)?;
        options.get(at + 1)?.parse::<u64>().ok()
    };
    let expiry = |never: Expiry| match (after("EXAT"), after("PXAT")) {
        (Some(seconds), _) => Expiry::At(seconds * 1000),
        (_, Some(millis)) => Expiry::At(millis),
        _ => never,
    };
    let set = |value, when, expiry, reply| Write::Set { key, value, when, expiry, reply };
    let expire = |at: i64| {
        let when = ExpireIf { nx: has("NX"), xx: has("XX"), gt: has("GT"), lt: has("LT") };
        Write::Expire { key, at, when }
    };
    let ttl = |millis, absolute| Read::Ttl { key, millis, absolute };
    let pairs = || words[1..].chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let write = match &name[..] {
        "SET" => {
            let when = match (has("NX"), has("XX")) {
                (true, _) => SetIf::Absent,
                (_, true) => SetIf::Present,
                _ => SetIf::Always,
            };
            let kept = if has("KEEPTTL") { Expiry::Keep } else { Expiry::Never };
            let reply = if has("GET") { SetReply::Old } else { SetReply::Ok };
            set(arg, when, expiry(kept), reply)
        }
        "SETNX" => set(arg, SetIf::Absent, Expiry::Never, SetReply::Flag),
        "GETSET" => set(arg, SetIf::Always, Expiry::Never, SetReply::Old),
        "DEL" => Write::Delete { key },
        "GETDEL" => Write::GetDelete { key },
        "GETEX" if words.len() > 2 => {
            let word = arg.to_ascii_uppercase();
            let expiry = match &word[..] {
                b"PERSIST" => Expiry::Never,
                b"PXAT" => Expiry::At(number(words[3])?),
                _ => return None,
            };
            Write::GetExpire { key, expiry }
        }
        "APPEND" => Write::append(key, arg),
        "SETRANGE" => Write::SetRange { key, offset: number(arg)?, value: words.get(3)? },
        "INCR" => Write::Increment { key, by: 1 },
        "DECR" => Write::Increment { key, by: -1 },
        "INCRBY" => Write::Increment { key, by: number(arg)? },
        "DECRBY" => Write::Increment { key, by: number::<i64>(arg)?.checked_neg()? },
        "INCRBYFLOAT" => Write::IncrementFloat { key, by: arg },
        "EXPIREAT" => expire(number::<i64>(arg)?.checked_mul(1000)?),
        "PEXPIREAT" => expire(number(arg)?),
        "PERSIST" => Write::Persist { key },
        "MSET" => {
            let all = pairs().map(|(key, value)| Write::Set {
                key,
                value,
                when: SetIf::Always,
                expiry: Expiry::Never,
                reply: SetReply::Ok,
            });
            return Some(Command::Writes(all.collect()));
        }
        "MSETNX" => Write::SetAllIfAbsent { pairs: pairs().collect() },
        "RENAME" => Write::Rename { from: key, to: arg, if_absent: false },
        "RENAMENX" => Write::Rename { from: key, to: arg, if_absent: true },
        "COPY" => Write::Copy { from: key, to: arg, replace: has("REPLACE") },
        "FLUSHALL" => Write::Flush { from: None, end: keyspace::Cut::Slot(0) },
        _ => {
            let read = match &name[..] {
                "GET" | "GETEX" => Read::Get(key),
                "MGET" => Read::GetMany(words[1..].to_vec()),
                "GETRANGE" => {
                    Read::GetRange { key, start: number(arg)?, end: number(words.get(3)?)? }
                }
                "STRLEN" => Read::Length(key),
                "EXISTS" => Read::Exists(words[1..].to_vec()),
                "TYPE" => Read::Type(key),
                "TTL" => ttl(false, false),
                "PTTL" => ttl(true, false),
                "EXPIRETIME" => ttl(false, true),
                "PEXPIRETIME" => ttl(true, true),
                "OBJECT" if key.eq_ignore_ascii_case(b"encoding") => Read::Encoding(arg),
                "LCS" => Read::Lcs {
                    keys: [key, arg],
                    len: has("LEN"),
                    idx: has("IDX"),
                    min_match: after("MINMATCHLEN").unwrap_or(0),
                    with_match_len: has("WITHMATCHLEN"),
                },
                _ => return None,
            };
            return Some(Command::Read(read));
        }
    };
    Some(Command::Write(write))
}

/// An empty engine for all slots.
pub(super) fn engine() -> Engine {
    Engine::new(Layout::Hashed { first_slot: 0, end_slot: SLOTS }, KeyHasher::new([7; 16]))
}

struct At<'e>(&'e Engine, Timestamp);

impl View for At<'_> {
    fn newest(&self, key: &[u8]) -> Option<Version<'_>> {
        self.0.newest(&self.0.hasher().key(key), self.1)
    }
}

/// Runs a command and answers as [`Text`] writes it.
pub(super) fn run(engine: &mut Engine, command: &Command<'_>, at: Timestamp) -> String {
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
            WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            TooMuch => "ERR too much for a transaction",
            LcsTooLarge => {
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
            }
        });
    }
}
