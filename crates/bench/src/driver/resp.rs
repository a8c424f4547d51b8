//! The Redis protocol. Replies are read by `client`'s decoder.

use bytes::{BufMut, Bytes, BytesMut};
use client::Decoder;

use super::resp_transfer::{Next, Transfer};
use super::{Codec, REPLY_BYTES_MAX, Reply, Request, fill_word};
use crate::scenario::Action;

/// One connection's.
pub struct Resp {
    greeting: Vec<Vec<String>>,
    decoder: Decoder,
    word: Vec<u8>,
    transfer: Option<Transfer>,
    /// What the transfer under way sends next.
    next: BytesMut,
    /// Whether keys of a transfer that failed may be watched.
    is_watching: bool,
}

impl Resp {
    /// A connection that begins with these commands.
    pub fn new(greeting: Vec<Vec<String>>) -> Self {
        Self {
            greeting,
            decoder: Decoder::new(REPLY_BYTES_MAX),
            word: Vec::new(),
            transfer: None,
            next: BytesMut::new(),
            is_watching: false,
        }
    }
}

fn number(mut number: usize, out: &mut BytesMut) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}

fn array(len: usize, out: &mut BytesMut) {
    out.put_u8(b'*');
    number(len, out);
    out.put_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut BytesMut) {
    out.put_u8(b'$');
    number(bytes.len(), out);
    out.put_slice(b"\r\n");
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// Appends a command.
pub(super) fn command(words: &[&[u8]], out: &mut BytesMut) {
    array(words.len(), out);
    words.iter().for_each(|word| bulk(word, out));
}

impl Codec for Resp {
    fn greet(&mut self, out: &mut BytesMut) -> usize {
        for command in &self.greeting {
            array(command.len(), out);
            command.iter().for_each(|word| bulk(word.as_bytes(), out));
        }
        self.greeting.len()
    }

    fn encode(&mut self, request: &Request<'_>, out: &mut BytesMut) {
        match request.action {
            Action::Get => {
                out.put_slice(b"*2\r\n$3\r\nGET\r\n");
                bulk(request.key, out);
            }
            Action::Put | Action::Insert => {
                out.put_slice(b"*3\r\n$3\r\nSET\r\n");
                bulk(request.key, out);
                bulk(request.value, out);
            }
            Action::Delete => {
                out.put_slice(b"*2\r\n$3\r\nDEL\r\n");
                bulk(request.key, out);
            }
            Action::Command(words) => {
                array(words.len(), out);
                for word in words {
                    self.word.clear();
                    fill_word(word, request, &mut self.word);
                    bulk(&self.word, out);
                }
            }
            Action::Transfer(method) => {
                let begun = Transfer::begin(*method, request, self.is_watching, out);
                self.is_watching = begun.is_watching();
                self.transfer = Some(begun);
            }
            Action::Sleep(_) => {}
        }
    }

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, String> {
        let mut reply = self.decoder.next(input).map_err(|error| error.to_string())?;
        while let (Some(came), Some(transfer)) = (&reply, &mut self.transfer) {
            match transfer.take(came, &mut self.next) {
                Next::Waits => {}
                Next::Retried => return Ok(Some(Reply::Retried)),
                Next::Over(reply) => {
                    // EXEC ends watching; what was refused before may not.
                    self.is_watching &= reply != Reply::Done;
                    self.transfer = None;
                    return Ok(Some(reply));
                }
            }
            reply = self.decoder.next(input).map_err(|error| error.to_string())?;
        }
        Ok(reply.map(|reply| match reply {
            client::Reply::Bulk(value) => Reply::Value(value),
            client::Reply::Nil => Reply::Absent,
            client::Reply::Error(why) => Reply::Refused(why),
            client::Reply::Array(items) => refused_within(&items).unwrap_or(Reply::Done),
            _ => Reply::Done,
        }))
    }

    fn take_output(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(&self.next);
        self.next.clear();
    }
}

/// `EXEC` and the like answer errors within a list.
fn refused_within(items: &[client::Reply]) -> Option<Reply> {
    items.iter().find_map(|item| match item {
        client::Reply::Error(why) => Some(Reply::Refused(Bytes::clone(why))),
        client::Reply::Array(items) => refused_within(items),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_arrays_of_texts() {
        let mut resp = Resp::new(vec![vec!["AUTH".into(), "x".into()]]);
        let mut out = BytesMut::new();
        assert_eq!(resp.greet(&mut out), 1);
        assert_eq!(out, "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n");
        let words = Action::Command(vec!["APPEND".into(), "a{key}".into(), "{value}".into()]);
        for (action, bytes) in [
            (Action::Get, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
            (Action::Put, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n"),
            (Action::Delete, "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"),
            (words, "*3\r\n$6\r\nAPPEND\r\n$2\r\nak\r\n$10\r\n0123456789\r\n"),
        ] {
            let mut out = BytesMut::new();
            let request = Request { action: &action, key: b"k", other: b"", value: b"0123456789" };
            resp.encode(&request, &mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn replies_are_told_apart() {
        let mut input =
            BytesMut::from("$1\r\nv\r\n$-1\r\n+OK\r\n:1\r\n-ERR no\r\n*2\r\n:1\r\n-OOM\r\n$");
        let mut resp = Resp::new(Vec::new());
        let mut next = || resp.decode(&mut input).unwrap();
        assert_eq!(next(), Some(Reply::Value("v".into())));
        assert_eq!(next(), Some(Reply::Absent));
        assert_eq!((next(), next()), (Some(Reply::Done), Some(Reply::Done)));
        assert_eq!(next(), Some(Reply::Refused("ERR no".into())));
        assert_eq!(next(), Some(Reply::Refused("OOM".into())));
        assert_eq!(next(), None);
        assert!(resp.decode(&mut BytesMut::from("HTTP/1.1 200 OK\r\n")).is_err());
    }
}
