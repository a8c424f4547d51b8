//! The network block device protocol: a key is a block of an export, by its number, and a value its
//! bytes. Replies come in any order.
//!
//! ```text
//!   greeting ◄─ server · flags and GO ─► · export, … ACK ◄─ · then requests ─► and replies ◄─
//! ```
//!
//! Simple replies only, which every server speaks: 16 bytes, and the bytes that were read. A block
//! of zeroes was never written: values are letters.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Codec, Reply, Request};
use crate::scenario::Action;

/// The most bytes of one read or write: what servers must take, by the protocol.
pub const BLOCK_BYTES_MAX: u64 = 32 << 20;

const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const GREETING_BYTES: usize = 18;
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const OPTION_REPLY_BYTES: usize = 20;
/// The longest reply to an option that is read.
const OPTION_BYTES_MAX: usize = 64 << 10;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Bytes of a reply before what was read.
pub const REPLY_BYTES: usize = 16;
/// Fixed newstyle, and no padding.
const CLIENT_FLAGS: u32 = 3;
const GO: u32 = 7;
const ACK: u32 = 1;
const INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
/// Digits that name a block, at the end of a key.
const DIGITS: usize = 12;

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Bytes.
    Read,
    /// To take bytes.
    Write,
    /// The same, and to have them on disk before the answer.
    WriteThrough,
    /// To have all that was answered on disk.
    Flush,
    /// To make bytes zeroes.
    Trim,
}

/// Appends a request; the bytes of a write follow it.
pub fn put_request(ask: Ask, cookie: u64, offset: u64, length: u32, out: &mut impl BufMut) {
    let (flags, kind) = match ask {
        Ask::Read => (0, 0),
        Ask::Write => (0, 1),
        Ask::WriteThrough => (1, 1),
        Ask::Flush => (0, 3),
        Ask::Trim => (0, 4),
    };
    out.put_u32(REQUEST_MAGIC);
    out.put_u16(flags);
    out.put_u16(kind);
    out.put_u64(cookie);
    out.put_u64(offset);
    out.put_u32(length);
}

/// The head of a reply: its error, which is 0 if all went well, and its cookie.
///
/// # Errors
/// These bytes are no reply.
pub fn reply(mut head: &[u8]) -> Result<(u32, u64), String> {
    match head.get_u32() {
        REPLY_MAGIC => Ok((head.get_u32(), head.get_u64())),
        found => Err(format!("no simple reply: {found:08x}")),
    }
}

/// The way to an export.
#[derive(Debug, Default)]
pub struct Handshake {
    has_greeting: bool,
    size: u64,
}

impl Handshake {
    /// What a client says first: that it wants an export.
    pub fn begin(export: &str, out: &mut impl BufMut) {
        out.put_u32(CLIENT_FLAGS);
        out.put_slice(OPTION_MAGIC);
        out.put_u32(GO);
        out.put_u32(export.len() as u32 + 6);
        out.put_u32(export.len() as u32);
        out.put_slice(export.as_bytes());
        out.put_u16(0);
    }

    /// Takes what has come; the size of the export when it may be used.
    ///
    /// # Errors
    /// The export is refused, or this is another protocol.
    pub fn step(&mut self, input: &mut BytesMut) -> Result<Option<u64>, String> {
        if !self.has_greeting {
            if input.len() < GREETING_BYTES {
                return Ok(None);
            }
            if !input.starts_with(GREETING) {
                return Err("no server of block devices, or one of the old style".to_owned());
            }
            input.advance(GREETING_BYTES);
            self.has_greeting = true;
        }
        while input.len() >= OPTION_REPLY_BYTES {
            let mut head = &input[..OPTION_REPLY_BYTES];
            if head.get_u64() != OPTION_REPLY_MAGIC {
                return Err("no reply to an option".to_owned());
            }
            let (_option, kind, length) = (head.get_u32(), head.get_u32(), head.get_u32() as usize);
            if length > OPTION_BYTES_MAX {
                return Err(format!("a reply of {length} bytes to an option"));
            }
            if input.len() < OPTION_REPLY_BYTES + length {
                return Ok(None);
            }
            input.advance(OPTION_REPLY_BYTES);
            let mut data = input.split_to(length);
            match kind {
                ACK => return Ok(Some(self.size)),
                INFO if length >= 10 && data[..2] == INFO_EXPORT.to_be_bytes() => {
                    data.advance(2);
                    self.size = data.get_u64();
                }
                INFO => {}
                error => {
                    let text = String::from_utf8_lossy(&data).into_owned();
                    return Err(format!("the export is refused: {error:08x} {text}"));
                }
            }
        }
        Ok(None)
    }
}

/// What an error of a reply is called.
pub fn error_name(error: u32) -> &'static str {
    match error {
        1 => "EPERM",
        5 => "EIO",
        12 => "ENOMEM",
        22 => "EINVAL",
        28 => "ENOSPC",
        75 => "EOVERFLOW",
        95 => "ENOTSUP",
        108 => "ESHUTDOWN",
        _ => "an error that the protocol does not know",
    }
}

/// A request that is not answered.
struct UnderWay {
    cookie: u64,
    /// Bytes that its reply brings.
    bytes: usize,
}

/// One connection's.
pub struct Nbd {
    export: String,
    block_bytes: u64,
    handshake: Option<Handshake>,
    cookie: u64,
    under_way: VecDeque<UnderWay>,
    place: usize,
}

impl Nbd {
    /// A connection to an export, in blocks of so many bytes.
    pub fn new(export: &str, block_bytes: u64) -> Self {
        Self {
            export: export.to_owned(),
            block_bytes,
            handshake: Some(Handshake::default()),
            cookie: 0,
            under_way: VecDeque::new(),
            place: 0,
        }
    }
}

/// The number of a block: the last digits of a key.
fn number(key: &[u8]) -> u64 {
    let digits = &key[key.len().saturating_sub(DIGITS)..];
    digits
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

impl Codec for Nbd {
    fn greet(&mut self, out: &mut BytesMut) -> usize {
        Handshake::begin(&self.export, out);
        1
    }

    fn encode(&mut self, request: &Request<'_>, out: &mut BytesMut) {
        let ask = match request.action {
            Action::Get => Ask::Read,
            Action::Put | Action::Insert => Ask::Write,
            Action::Delete => Ask::Trim,
            Action::Command(words) if words[0] == "flush" => Ask::Flush,
            Action::Command(_) => Ask::WriteThrough,
            // Refused before anything has started (`driver::refusal`).
            Action::Transfer(_) | Action::Sleep(_) => return,
        };
        self.cookie += 1;
        let (offset, length) = match ask {
            Ask::Flush => (0, 0),
            _ => (number(request.key) * self.block_bytes, self.block_bytes),
        };
        put_request(ask, self.cookie, offset, length as u32, out);
        if matches!(ask, Ask::Write | Ask::WriteThrough) {
            out.put_slice(request.value);
        }
        let bytes = if ask == Ask::Read { length as usize } else { 0 };
        self.under_way.push_back(UnderWay { cookie: self.cookie, bytes });
    }

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, String> {
        if let Some(handshake) = &mut self.handshake {
            let Some(_size) = handshake.step(input)? else { return Ok(None) };
            self.handshake = None;
            return Ok(Some(Reply::Done));
        }
        let Some(head) = input.first_chunk::<REPLY_BYTES>() else { return Ok(None) };
        let (error, cookie) = reply(head)?;
        let place = self.under_way.iter().position(|one| one.cookie == cookie);
        let place = place.ok_or_else(|| format!("a reply to no request: {cookie}"))?;
        let bytes = if error == 0 { self.under_way[place].bytes } else { 0 };
        if input.len() < REPLY_BYTES + bytes {
            return Ok(None);
        }
        input.advance(REPLY_BYTES);
        self.under_way.remove(place);
        self.place = place;
        let value = input.split_to(bytes).freeze();
        Ok(Some(match error {
            0 if bytes == 0 => Reply::Done,
            0 if value.iter().all(|byte| *byte == 0) => Reply::Absent,
            0 => Reply::Value(value),
            error => Reply::Refused(Bytes::from_static(error_name(error).as_bytes())),
        }))
    }

    fn place(&self) -> usize {
        self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server says first: an export of so many bytes.
    fn welcome(size: u64) -> BytesMut {
        let mut out = BytesMut::from(&GREETING[..]);
        out.put_u16(3);
        let mut say = |kind: u32, data: &[u8]| {
            out.put_u64(OPTION_REPLY_MAGIC);
            out.put_u32(GO);
            out.put_u32(kind);
            out.put_u32(data.len() as u32);
            out.put_slice(data);
        };
        say(INFO, &[&[0, 0][..], &size.to_be_bytes(), &[0, 1]].concat());
        say(INFO, &[0, 3, 0, 0]);
        say(ACK, b"");
        out
    }

    fn answer(cookie: u64, error: u32, data: &[u8]) -> Vec<u8> {
        let head = [REPLY_MAGIC.to_be_bytes(), error.to_be_bytes()].concat();
        [&head, &cookie.to_be_bytes()[..], data].concat()
    }

    fn ask(nbd: &mut Nbd, action: Action, key: &[u8], value: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        nbd.encode(&Request { action: &action, key, other: b"", value }, &mut out);
        out
    }

    #[test]
    fn an_export_is_chosen_and_its_size_is_known() {
        let mut out = BytesMut::new();
        assert_eq!(Nbd::new("disk", 4).greet(&mut out), 1);
        assert_eq!(out, &b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x0a\0\0\0\x04disk\0\0"[..]);
        let whole = welcome(1 << 20);
        // Byte by byte.
        let (mut handshake, mut input) = (Handshake::default(), BytesMut::new());
        for byte in &whole[..whole.len() - 1] {
            input.put_u8(*byte);
            assert_eq!(handshake.step(&mut input), Ok(None));
        }
        input.put_u8(whole[whole.len() - 1]);
        assert_eq!(handshake.step(&mut input), Ok(Some(1 << 20)));
        let refused = &mut welcome(5);
        let at = GREETING_BYTES + 12;
        refused[at..at + 4].copy_from_slice(&0x8000_0006_u32.to_be_bytes());
        assert!(Handshake::default().step(refused).unwrap_err().contains("80000006"));
        assert!(Handshake::default().step(&mut BytesMut::from("HTTP/1.1 200 OK at last")).is_err());
    }

    #[test]
    fn replies_in_another_order_are_those_of_their_requests() {
        let mut nbd = Nbd::new("disk", 4);
        assert_eq!(nbd.decode(&mut welcome(64)), Ok(Some(Reply::Done)));
        let read = ask(&mut nbd, Action::Get, b"k:000000000003", b"");
        assert_eq!(read[..8], [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0]);
        assert_eq!((read[23], read[27], read.len()), (12, 4, 28));
        let write = ask(&mut nbd, Action::Put, b"k9000000000001", b"abcd");
        assert_eq!((write[7], write[23], &write[28..]), (1, 4, &b"abcd"[..]));
        let trim = ask(&mut nbd, Action::Delete, b"000000000000", b"");
        assert_eq!((trim[7], trim.len()), (4, 28));
        let flush = ask(&mut nbd, Action::Command(vec!["flush".to_owned()]), b"000000000001", b"");
        assert_eq!((flush[7], flush[23], flush[27]), (3, 0, 0));
        let through = ask(&mut nbd, Action::Command(vec!["fua".to_owned()]), b"1", b"efgh");
        assert_eq!((through[5], through[7], through.len()), (1, 1, 32));
        let mut input = BytesMut::new();
        let mut next = |nbd: &mut Nbd, bytes: &[u8]| {
            input.extend_from_slice(bytes);
            nbd.decode(&mut input).map(|reply| reply.map(|reply| (reply, nbd.place())))
        };
        assert_eq!(next(&mut nbd, &answer(2, 0, b"")), Ok(Some((Reply::Done, 1))));
        assert_eq!(next(&mut nbd, &answer(1, 0, b"ab")), Ok(None));
        assert_eq!(next(&mut nbd, b"cd"), Ok(Some((Reply::Value("abcd".into()), 0))));
        let refused = Reply::Refused("ENOSPC".into());
        assert_eq!(next(&mut nbd, &answer(5, 28, b"")), Ok(Some((refused, 2))));
        ask(&mut nbd, Action::Get, b"2", b"");
        assert_eq!(next(&mut nbd, &answer(6, 0, &[0; 4])), Ok(Some((Reply::Absent, 2))));
        assert!(next(&mut nbd, &answer(6, 0, b"")).is_err(), "it was answered");
    }
}
