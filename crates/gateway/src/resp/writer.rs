//! Writes answers as RESP2 or RESP3 into the connection's output.
//!
//! | answer | RESP2 | RESP3 |
//! |---|---|---|
//! | no value | `$-1` | `_` |
//! | no array | `*-1` | `_` |
//! | map of 2 | `*4` | `%2` |
//! | set of 2 | `*2` | `~2` |
//! | true | `:1` | `#t` |
//! | 1.5 | `$3 1.5` | `,1.5` |
//! | text | `$2 hi` | `=6 txt:hi` |
//!
//! Nothing is buffered here: each call appends to the output at once.

use command::{Refusal, Sink};

use super::number::{push_i64, push_u64};

/// The protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RESP2, which every connection begins with.
    #[default]
    V2,
    /// RESP3, after `HELLO 3`.
    V3,
}

impl Version {
    /// 2 or 3.
    pub fn number(self) -> i64 {
        match self {
            Version::V2 => 2,
            Version::V3 => 3,
        }
    }
}

/// Writes answers to a connection's output.
#[derive(Debug)]
pub struct RespWriter<'o> {
    /// Where the bytes go.
    pub out: &'o mut Vec<u8>,
    /// In which protocol.
    pub version: Version,
}

impl<'o> RespWriter<'o> {
    /// A writer at the end of `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, version: Version) -> Self {
        Self { out, version }
    }

    /// A sigil and a number. Those of few digits, which nearly all are, in one piece.
    #[inline]
    fn header(&mut self, sigil: u8, len: usize) {
        let digit = |unit: usize| b'0' + (len / unit % 10) as u8;
        match len {
            0..10 => self.out.extend_from_slice(&[sigil, digit(1), b'\r', b'\n']),
            10..100 => {
                self.out.extend_from_slice(&[sigil, digit(10), digit(1), b'\r', b'\n']);
            }
            100..1000 => {
                let text = [sigil, digit(100), digit(10), digit(1), b'\r', b'\n'];
                self.out.extend_from_slice(&text);
            }
            _ => {
                self.out.push(sigil);
                push_u64(self.out, len as u64);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An error: its code in capitals, a space, and a sentence (`ERR syntax error`). Ends of line
    /// within become spaces, so that text from a client cannot begin a reply of its own.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let text = text.as_ref();
        let len = text.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
        self.out.push(b'-');
        let clean = text[..len].iter().map(|byte| match byte {
            byte if is_end(byte) => b' ',
            other => *other,
        });
        self.out.extend(clean);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A status that is put together at run time.
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// No array: what a blocking or aborted command answers in place of one.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::V2 => b"*-1\r\n",
            Version::V3 => b"_\r\n",
        });
    }

    /// A floating point number.
    pub fn double(&mut self, value: f64) {
        let text = if value.is_infinite() {
            if value > 0.0 { "inf".to_owned() } else { "-inf".to_owned() }
        } else if value.is_nan() {
            "nan".to_owned()
        } else {
            value.to_string()
        };
        match self.version {
            Version::V2 => self.bulk(text.as_bytes()),
            Version::V3 => {
                self.out.push(b',');
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// True or false; 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match self.version {
            Version::V2 => self.int(i64::from(value)),
            Version::V3 => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// `len` different answers follow, in no order.
    pub fn set(&mut self, len: usize) {
        let sigil = if self.version == Version::V3 { b'~' } else { b'*' };
        self.header(sigil, len);
    }

    /// The head of an attribute of so many pairs, to stand before a reply. RESP2 has none: then
    /// nothing is written, and the answer is false.
    pub fn attribute(&mut self, pairs: usize) -> bool {
        let has_them = self.version == Version::V3;
        if has_them {
            self.header(b'|', pairs);
        }
        has_them
    }

    /// The head of a push of `len` items; an array in RESP2.
    pub fn push(&mut self, len: usize) {
        let sigil = if self.version == Version::V3 { b'>' } else { b'*' };
        self.header(sigil, len);
    }

    /// Text for people; a bulk string in RESP2.
    pub fn verbatim(&mut self, text: &[u8]) {
        match self.version {
            Version::V2 => self.bulk(text),
            Version::V3 => {
                self.header(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A number as a bulk string, as SCAN writes its cursor.
    pub fn bulk_u64(&mut self, value: u64) {
        let mut digits = Vec::with_capacity(20);
        push_u64(&mut digits, value);
        self.bulk(&digits);
    }

    /// `len` pairs in order follow, each begun by [`pair`](Self::pair): a flat array in RESP2, an
    /// array of arrays in RESP3.
    pub fn pairs(&mut self, len: usize) {
        match self.version {
            Version::V2 => self.array(len * 2),
            Version::V3 => self.array(len),
        }
    }

    /// Two answers follow, a pair of [`pairs`](Self::pairs).
    pub fn pair(&mut self) {
        if self.version == Version::V3 {
            self.array(2);
        }
    }
}

impl Sink for RespWriter<'_> {
    #[inline]
    fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    #[inline]
    fn nil(&mut self) {
        match self.version {
            Version::V2 => self.out.extend_from_slice(b"$-1\r\n"),
            Version::V3 => self.out.extend_from_slice(b"_\r\n"),
        }
    }

    #[inline]
    fn int(&mut self, value: i64) {
        self.out.push(b':');
        push_i64(self.out, value);
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        // One growth at most: 26 is the longest header with both ends of line.
        self.out.reserve(bytes.len() + 26);
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    fn status(&mut self, word: &'static str) {
        self.simple(word);
    }

    fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    fn map(&mut self, len: usize) {
        match self.version {
            Version::V2 => self.header(b'*', len * 2),
            Version::V3 => self.header(b'%', len),
        }
    }

    fn refused(&mut self, why: Refusal) {
        self.error(refusal_text(why));
    }
}

/// Redis's words for a refusal.
pub fn refusal_text(why: Refusal) -> &'static str {
    match why {
        Refusal::NotInteger => "ERR value is not an integer or out of range",
        Refusal::Overflow => "ERR increment or decrement would overflow",
        Refusal::NotFloat => "ERR value is not a valid float",
        Refusal::NotFinite => "ERR increment would produce NaN or Infinity",
        Refusal::TooMuch => {
            "ERR a transaction answers with at most 60 MiB of stored values, and makes at most \
             128 MiB; this command was not done"
        }
        Refusal::TooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        Refusal::NoSuchKey => "ERR no such key",
        Refusal::Fenced => "FENCED another session writes to the volume; nothing was done",
        Refusal::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
        Refusal::LcsTooLarge => {
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
        }
        Refusal::Moved => {
            "TRYAGAIN the key's shard was split meanwhile; nothing was done. Send it again"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: Version, write: impl Fn(&mut RespWriter<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut RespWriter::new(&mut out, version));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_two_protocols_differ_where_they_should() {
        type Case = (fn(&mut RespWriter<'_>), &'static str, &'static str);
        let cases: [Case; 13] = [
            (|w| w.ok(), "+OK\r\n", "+OK\r\n"),
            (|w| w.nil(), "$-1\r\n", "_\r\n"),
            (|w| w.null_array(), "*-1\r\n", "_\r\n"),
            (|w| w.int(-12), ":-12\r\n", ":-12\r\n"),
            (|w| w.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (|w| w.map(2), "*4\r\n", "%2\r\n"),
            (|w| w.set(2), "*2\r\n", "~2\r\n"),
            (|w| w.push(2), "*2\r\n", ">2\r\n"),
            (|w| w.boolean(true), ":1\r\n", "#t\r\n"),
            (|w| w.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|w| w.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (|w| w.verbatim(b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|w| w.bulk_u64(17), "$2\r\n17\r\n", "$2\r\n17\r\n"),
        ];
        for (write, two, three) in cases {
            assert_eq!(written(Version::V2, write), two);
            assert_eq!(written(Version::V3, write), three);
        }
        let pairs = |w: &mut RespWriter<'_>| {
            w.pairs(1);
            w.pair();
        };
        assert_eq!(written(Version::V2, pairs), "*2\r\n");
        assert_eq!(written(Version::V3, pairs), "*1\r\n*2\r\n");
    }

    #[test]
    fn a_length_of_any_number_of_digits_is_written_out() {
        for len in [0, 9, 10, 42, 99, 100, 407, 999, 1000, 65_536] {
            let bulk = written(Version::V2, |w| w.bulk(&vec![b'x'; len]));
            assert_eq!(bulk, format!("${len}\r\n{}\r\n", "x".repeat(len)));
            assert_eq!(written(Version::V2, |w| w.array(len)), format!("*{len}\r\n"));
        }
    }

    #[test]
    fn an_error_stays_one_line() {
        assert_eq!(written(Version::V2, |w| w.error("ERR a\r\n+OK\n")), "-ERR a  +OK\r\n");
    }
}
