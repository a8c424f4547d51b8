//! The language of transaction scripts, line by line.
//!
//! ```text
//!   if exists a               conditions, all of which must hold; of a transaction in one go
//!   if not exists a
//!   if a = 1
//!   if version a = 110537293516800005
//!   then                      … then this is done
//!   put a "two words" ttl 10s
//!   else                      … and else this
//!   get a
//!   del a
//!   incr a 5
//!   range a m limit 10 reverse
//!   publish orders "paid 7"
//!   commit                    of a transaction step by step: the end; or rollback
//! ```
//!
//! Blanks separate words. `"…"` knows the escapes `\n`, `\r`, `\t`, `\0`, `\\`, `\"` and `\xHH`; in
//! `'…'` every character stands for itself. `#` begins a comment. A quoted word is never a keyword.

use api::http::txn::OPS_MAX;
use client::http::txn::word;
use serde_json::{Value, json};

/// A line, understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// There is nothing in it.
    Empty,
    /// A condition, as the node takes it.
    If(Value),
    /// What follows is done if the conditions hold.
    Then,
    /// … if they do not.
    Else,
    /// An operation, as the node takes it.
    Op(Value),
    /// Do all of it.
    Commit,
    /// Do nothing of it.
    Rollback,
    /// Say what can be said.
    Help,
}

/// A file, understood.
#[derive(Debug, PartialEq)]
pub enum Script {
    /// All of it in one request.
    AtOnce(ConditionalTxn),
    /// Operations one after the other, each with the number of its line; and whether all is done at
    /// the end.
    Steps(Vec<(usize, Value)>, bool),
}

/// A transaction with conditions.
#[derive(Debug, PartialEq)]
pub struct ConditionalTxn {
    /// The request, but for the keyspace.
    pub txn: Value,
    /// Whether it has an `else` branch.
    pub has_else: bool,
    /// The numbers of the lines of its operations, of `then` and of `else`.
    pub lines: [Vec<usize>; 2],
}

/// A word, and whether it was quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    bytes: Vec<u8>,
    quoted: bool,
}

impl Token {
    fn is(&self, keyword: &str) -> bool {
        !self.quoted && self.bytes.eq_ignore_ascii_case(keyword.as_bytes())
    }

    fn json(&self) -> Value {
        word(&self.bytes)
    }

    fn shown(&self) -> String {
        quoted(&self.bytes)
    }

    fn number<T: std::str::FromStr>(&self) -> Option<T> {
        std::str::from_utf8(&self.bytes).ok()?.parse().ok()
    }
}

/// Understands one line.
///
/// # Errors
/// Why it cannot be understood, as a clause.
pub fn line(text: &[u8]) -> Result<Line, String> {
    let tokens = tokens(text)?;
    let Some((first, rest)) = tokens.split_first() else { return Ok(Line::Empty) };
    let verb = first.bytes.to_ascii_lowercase();
    let verb = if first.quoted { &b""[..] } else { &verb };
    match (verb, rest) {
        (b"get", [key]) => Ok(Line::Op(json!({ "get": key.json() }))),
        (b"del" | b"delete", [key]) => Ok(Line::Op(json!({ "delete": key.json() }))),
        (b"put" | b"set", [key, value]) => {
            Ok(Line::Op(json!({ "put": { "key": key.json(), "value": value.json() } })))
        }
        (b"put" | b"set", [key, value, ttl, time]) if ttl.is("ttl") => {
            let millis =
                std::str::from_utf8(&time.bytes).ok().and_then(|t| crate::cli::millis(t).ok());
            let Some(millis) = millis.filter(|millis| *millis > 0) else {
                return Err(format!(
                    "{} is not a time: 1500 (milliseconds), 90s, 30m",
                    time.shown()
                ));
            };
            let (key, value) = (key.json(), value.json());
            Ok(Line::Op(json!({ "put": { "key": key, "value": value, "ttl_ms": millis } })))
        }
        (b"incr", [key]) => Ok(Line::Op(json!({ "increment": { "key": key.json() } }))),
        (b"incr", [key, by]) => match by.number::<i64>() {
            Some(by) => Ok(Line::Op(json!({ "increment": { "key": key.json(), "by": by } }))),
            None => Err(format!("{} is not an integer of 64 bits", by.shown())),
        },
        (b"publish", [topic, message]) => {
            let (topic, message) = (topic.json(), message.json());
            Ok(Line::Op(json!({ "publish": { "topic": topic, "message": message } })))
        }
        (b"range", rest) => range(rest).map(Line::Op),
        (b"if", rest) => condition(rest).map(Line::If),
        (b"then", []) => Ok(Line::Then),
        (b"else", []) => Ok(Line::Else),
        (b"commit", []) => Ok(Line::Commit),
        (b"rollback" | b"abort", []) => Ok(Line::Rollback),
        (b"help" | b"?", _) => Ok(Line::Help),
        (verb, _) => Err(misuse(verb, first)),
    }
}

/// How the words of a line are used.
fn misuse(verb: &[u8], first: &Token) -> String {
    let usage = match verb {
        b"get" => "get KEY",
        b"del" | b"delete" => "del KEY",
        b"put" | b"set" => "put KEY VALUE [ttl TIME]",
        b"incr" => "incr KEY [NUMBER]",
        b"publish" => "publish TOPIC MESSAGE",
        b"then" | b"else" | b"commit" | b"rollback" | b"abort" => {
            return format!("{} takes no arguments", first.shown());
        }
        _ => {
            return format!(
                "{} is not a command: get, put, del, incr, range, publish, if, then, else, \
                 commit, rollback, help",
                first.shown()
            );
        }
    };
    format!("expected {usage}; words with blanks are quoted")
}

fn range(mut tokens: &[Token]) -> Result<Value, String> {
    const USAGE: &str = "expected range [FROM [TO]] [limit NUMBER] [reverse]";
    let mut range = serde_json::Map::new();
    for name in ["from", "to"] {
        match tokens {
            [end, rest @ ..] if !end.is("limit") && !end.is("reverse") => {
                if !end.is("-") && !end.is("+") {
                    range.insert(name.into(), end.json());
                }
                tokens = rest;
            }
            _ => break,
        }
    }
    while let [option, rest @ ..] = tokens {
        tokens = match (option, rest) {
            (option, rest) if option.is("reverse") => {
                range.insert("reverse".into(), true.into());
                rest
            }
            (option, [limit, rest @ ..]) if option.is("limit") => {
                let limit: u64 = limit
                    .number()
                    .ok_or_else(|| format!("{} is not a number of keys", limit.shown()))?;
                range.insert("limit".into(), limit.into());
                rest
            }
            _ => return Err(USAGE.into()),
        };
    }
    Ok(json!({ "range": range }))
}

fn condition(tokens: &[Token]) -> Result<Value, String> {
    match tokens {
        [exists, key] if exists.is("exists") => Ok(json!({ "key": key.json(), "exists": true })),
        [not, exists, key] if not.is("not") && exists.is("exists") => {
            Ok(json!({ "key": key.json(), "exists": false }))
        }
        [key, equals, value] if equals.is("=") => {
            Ok(json!({ "key": key.json(), "value": value.json() }))
        }
        [version, key, equals, number] if version.is("version") && equals.is("=") => {
            match number.number::<u64>() {
                Some(at) => Ok(json!({ "key": key.json(), "version": at.to_string() })),
                None => Err(format!("{} is not a version: get --json has it", number.shown())),
            }
        }
        _ => Err("expected if exists KEY, if not exists KEY, if KEY = VALUE, or if version KEY = \
                  NUMBER"
            .into()),
    }
}

/// Understands a file.
///
/// # Errors
/// The number of a line, the first being 1, and why it cannot be understood.
pub fn script(text: &[u8]) -> Result<Script, (usize, String)> {
    let (mut compare, mut branches) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (mut steps, mut lines) = (Vec::new(), [Vec::new(), Vec::new()]);
    // Behind `then` or `else`.
    let mut branch = None;
    let mut ended = None;
    let mut has_else = false;
    let mut last = 1;
    // Editors of some systems begin a file of UTF-8 so.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for (at, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        last = at;
        let line = line(text).map_err(|why| (at, why))?;
        if ended.is_some() && line != Line::Empty {
            return Err((at, "nothing may follow commit or rollback".into()));
        }
        let is_at_once = branch.is_some() || !compare.is_empty();
        match line {
            Line::Empty => {}
            Line::If(_) | Line::Then | Line::Else if !steps.is_empty() => {
                return Err((at, "conditions come first, then `then` and `else`".into()));
            }
            Line::If(_) if branch.is_some() => {
                return Err((at, "conditions come before `then` and `else`".into()));
            }
            Line::If(_) if compare.len() == OPS_MAX => {
                return Err((at, format!("a transaction has at most {OPS_MAX} conditions")));
            }
            Line::If(condition) => compare.push(condition),
            Line::Then if branch.is_none() => branch = Some(0),
            Line::Else if !has_else && is_at_once => {
                (branch, has_else) = (Some(1), true);
            }
            Line::Then | Line::Else => {
                return Err((at, "the order is if …, then, and at most one else".into()));
            }
            Line::Op(op) => match branch {
                Some(branch) if branches[branch].len() == OPS_MAX => {
                    return Err((
                        at,
                        format!(
                            "a transaction with conditions has at most {OPS_MAX} operations in \
                             `then`, and in `else`; without conditions a file may be longer"
                        ),
                    ));
                }
                Some(branch) => {
                    branches[branch].push(op);
                    lines[branch].push(at);
                }
                None if is_at_once => return Err((at, "`then` is missing before it".into())),
                None => steps.push((at, op)),
            },
            Line::Commit | Line::Rollback if is_at_once => {
                return Err((at, "a transaction with `then` commits by itself".into()));
            }
            Line::Commit => ended = Some(true),
            Line::Rollback => ended = Some(false),
            Line::Help => return Err((at, "help is for the terminal: see --help".into())),
        }
    }
    if branch.is_none() && !compare.is_empty() {
        return Err((last, "`then` is missing".into()));
    }
    if branch.is_none() {
        return Ok(Script::Steps(steps, ended.unwrap_or(true)));
    }
    let [then, otherwise] = branches;
    let txn = json!({ "compare": compare, "then": then, "else": otherwise });
    Ok(Script::AtOnce(ConditionalTxn { txn, has_else, lines }))
}

fn tokens(text: &[u8]) -> Result<Vec<Token>, String> {
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [] | [b'#', ..] => return Ok(all),
            [b'"', after @ ..] => {
                let (bytes, behind) = escaped(after)?;
                rest = parted(behind)?;
                all.push(Token { bytes, quoted: true });
            }
            [b'\'', after @ ..] => {
                let end = after.iter().position(|byte| *byte == b'\'');
                let end = end.ok_or("a quote ' is not closed")?;
                rest = parted(&after[end + 1..])?;
                all.push(Token { bytes: after[..end].to_vec(), quoted: true });
            }
            word => {
                let end = word.iter().position(u8::is_ascii_whitespace).unwrap_or(word.len());
                all.push(Token { bytes: word[..end].to_vec(), quoted: false });
                rest = &word[end..];
            }
        }
    }
}

/// A quoted word ends at a blank.
fn parted(behind: &[u8]) -> Result<&[u8], String> {
    match behind.first() {
        Some(byte) if !byte.is_ascii_whitespace() => {
            Err("after a closing quote there must be a blank".into())
        }
        _ => Ok(behind),
    }
}

/// The text before a closing `"`, and the rest behind it.
fn escaped(text: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Err("a quote \" is not closed".into()),
            [b'"', behind @ ..] => return Ok((out, behind)),
            [b'\\', b'x', high, low, behind @ ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                    return Err("\\x is followed by two hexadecimal digits".into());
                };
                out.push((high * 16 + low) as u8);
                behind
            }
            [b'\\', escape, behind @ ..] => {
                out.push(match escape {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'0' => 0,
                    b'\\' | b'"' | b'\'' => *escape,
                    _ => return Err("after \\ come n, r, t, 0, \\, \" or xHH".into()),
                });
                behind
            }
            [byte, behind @ ..] => {
                out.push(*byte);
                behind
            }
        };
    }
}

/// Bytes as a word that can be typed again: quoted if that is needed.
pub fn quoted(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes);
    let plain = |text: &&str| {
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '\\');
        !text.is_empty() && !text.starts_with(['#', '(']) && !text.contains(odd)
    };
    if let Ok(text) = text
        && plain(&text)
    {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for piece in bytes.utf8_chunks() {
        for c in piece.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '"' | '\\' => out.extend(['\\', c]),
                c if c.is_control() => {
                    let mut utf8 = [0; 4];
                    for byte in c.encode_utf8(&mut utf8).bytes() {
                        out.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                c => out.push(c),
            }
        }
        for byte in piece.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
