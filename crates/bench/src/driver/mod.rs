//! How requests are spoken: bytes out, replies in. A codec knows no socket.
//!
//! A new protocol is one codec here and a name in `scenario::target`. Replies come in the order of
//! requests, or the codec says which request each is of.

pub mod etcd;
pub mod exec;
pub mod http;
pub mod memory;
pub mod native;
pub mod nbd;
pub mod null_server;
pub mod resp;
mod resp_transfer;

use bytes::{Bytes, BytesMut};

use crate::scenario::{Action, Driver, TransferMethod};

/// The longest reply that is read.
pub const REPLY_BYTES_MAX: usize = 512 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is done.
    pub action: &'a Action,
    /// With which key.
    pub key: &'a [u8],
    /// Which other key, of actions that name two; else empty.
    pub other: &'a [u8],
    /// With which value, or how much a transfer moves; empty if the action needs none.
    pub value: &'a [u8],
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A value.
    Value(Bytes),
    /// The key has no value.
    Absent,
    /// It was done.
    Done,
    /// It was refused; the text says why.
    Refused(Bytes),
    /// A transfer met a key that had changed, and has begun again: its answer is yet to come.
    Retried,
}

/// Speaks a protocol on one connection.
pub trait Codec: Send {
    /// What a new connection begins with, and how many replies it gets. All must be good.
    fn greet(&mut self, out: &mut BytesMut) -> usize {
        let _nothing = out;
        0
    }

    /// Appends a request.
    fn encode(&mut self, request: &Request<'_>, out: &mut BytesMut);

    /// Takes the next reply out of `input`; `None` if it is not complete.
    ///
    /// # Errors
    /// What came is not of this protocol: the connection is of no use any more.
    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, String>;

    /// Whether `decode` has more to say without more input.
    fn has_replies(&self) -> bool {
        false
    }

    /// Which of the requests under way the last reply is of, counted from the oldest.
    fn place(&self) -> usize {
        0
    }

    /// Appends what is to be sent though nobody asks: of protocols that acknowledge.
    fn take_output(&mut self, out: &mut BytesMut) {
        let _nothing = out;
    }
}

/// The codec of a driver, if it speaks over a connection.
pub fn codec(driver: &Driver, host: &str) -> Option<Box<dyn Codec>> {
    match driver {
        Driver::Resp { greeting, .. } => Some(Box::new(resp::Resp::new(greeting.clone()))),
        Driver::Null => Some(Box::new(resp::Resp::new(Vec::new()))),
        Driver::Http { keyspace } => Some(Box::new(http::Http::new(host, keyspace))),
        Driver::Native => Some(Box::new(native::Native)),
        Driver::Etcd => Some(Box::new(etcd::Etcd::new(host))),
        Driver::Nbd { export, block_bytes } => Some(Box::new(nbd::Nbd::new(export, *block_bytes))),
        Driver::Exec { .. } => Some(Box::new(exec::Exec)),
        Driver::Memory => None,
    }
}

/// Which actions a driver cannot do, and why.
pub fn refusal(driver: &Driver, action: &Action) -> Option<&'static str> {
    match (driver, action) {
        (Driver::Http { .. } | Driver::Native | Driver::Memory, Action::Command(_)) => {
            Some("has no commands but get, put, insert and delete")
        }
        (Driver::Nbd { .. }, Action::Insert) => Some("has no new keys: its export has a size"),
        (Driver::Nbd { .. }, Action::Command(words)) if !matches!(&*words[0], "flush" | "fua") => {
            Some("has the commands `flush` and `fua`, a write that is on disk, and no other")
        }
        (Driver::Nbd { .. }, Action::Command(_)) => None,
        (Driver::Etcd, Action::Command(words)) => etcd::txn::refusal(words),
        (Driver::Etcd, Action::Transfer(TransferMethod::OneShot)) => {
            Some("cannot add to a number: transfer = \"watch\" reads and compares")
        }
        (Driver::Resp { is_cluster: true, .. }, Action::Transfer(_)) => {
            Some("has no transactions over nodes of a Redis Cluster: cluster = false")
        }
        (Driver::Resp { .. } | Driver::Etcd | Driver::Exec { .. }, _) => None,
        (_, Action::Transfer(_)) => Some("has no transfers"),
        _ => None,
    }
}

/// A word of a command with its placeholders filled.
pub fn fill_word(word: &str, request: &Request<'_>, out: &mut Vec<u8>) {
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{key}") {
            out.extend_from_slice(request.key);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{other}") {
            out.extend_from_slice(request.other);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{value}") {
            out.extend_from_slice(request.value);
            rest = after;
        } else {
            out.push(b'{');
            rest = &rest[1..];
        }
    }
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::random::Random;

    /// Replies of all protocols, whole and damaged, in pieces.
    #[test]
    fn no_bytes_make_a_codec_panic() {
        let drivers = [
            Driver::Resp { greeting: Vec::new(), is_cluster: false },
            Driver::Http { keyspace: "0".to_owned() },
            Driver::Native,
            Driver::Exec { program: Vec::new() },
            Driver::Nbd { export: "x".to_owned(), block_bytes: 4 },
        ];
        let good: [&[u8]; 5] = [
            b"$3\r\nabc\r\n+OK\r\n*2\r\n:1\r\n$-1\r\n-ERR x\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 204 No\r\n\r\n",
            b"GOK\0\0\0\x01\0\0\0\x02kvwPOK\0\0\0\x01\0\0\0\0k",
            b"{\"value\":\"v\"}\n{\"ok\":true}\n{\"error\":1}\n",
            b"NBDMAGICIHAVEOPT\0\x03\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\0\
              gDf\x98\0\0\0\0\0\0\0\0\0\0\0\x01abcd",
        ];
        let mut random = Random::new(1);
        for round in 0..20_000 {
            for (driver, good) in drivers.iter().zip(good) {
                let mut codec = codec(driver, "h:1").expect("it speaks over a connection");
                let get = Request { action: &Action::Get, key: b"1", other: b"", value: b"" };
                codec.encode(&get, &mut BytesMut::new());
                let mut bytes = good.to_vec();
                for _ in 0..round % 4 {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] = random.bits() as u8;
                }
                let cut = random.below(bytes.len() as u64 + 1) as usize;
                let mut input = BytesMut::new();
                let mut count = 0;
                for piece in [&bytes[..cut], &bytes[cut..]] {
                    input.extend_from_slice(piece);
                    while let Ok(Some(_)) = codec.decode(&mut input) {
                        count += 1;
                    }
                }
                assert!(count <= bytes.len(), "each reply takes bytes");
                assert!(round % 4 != 0 || count >= 2, "good ones are read");
            }
        }
    }

    #[test]
    fn words_have_their_placeholders_filled() {
        let request = Request { action: &Action::Get, key: b"k1", other: b"k2", value: b"v" };
        let filled = |word: &str| {
            let mut out = Vec::new();
            fill_word(word, &request, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(filled("a:{key}:{value}{key}"), "a:k1:vk1");
        assert_eq!(filled("{other}{tag}{"), "k2{tag}{");
        assert_eq!(filled("GET"), "GET");
    }
}
