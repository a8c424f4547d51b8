//! A blocking connection of RESP: requests out, replies in, each within a timeout.
//!
//! Replies are read by `client`'s decoder, and shown here as text, which tests compare.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use client::Decoder;

/// No reply is longer: the longest value there may be, and some.
const REPLY_BYTES_MAX: usize = 1 << 30;

/// A reply, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextReply {
    /// `+OK` and its like.
    Simple(String),
    /// An error, which the node has answered.
    Error(String),
    /// A number.
    Int(i64),
    /// A value.
    Bulk(String),
    /// No value, or no array.
    Nil,
    /// An array; of a map names and values in turn.
    Many(Vec<TextReply>),
}

impl From<client::Reply> for TextReply {
    fn from(reply: client::Reply) -> Self {
        use client::Reply as R;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match reply {
            R::Nil => TextReply::Nil,
            R::Status(bytes) => TextReply::Simple(text(&bytes)),
            R::Error(bytes) => TextReply::Error(text(&bytes)),
            R::Integer(number) => TextReply::Int(number),
            R::Bulk(bytes) => TextReply::Bulk(text(&bytes)),
            R::Double(number) => TextReply::Bulk(number.to_string()),
            R::Boolean(is_true) => TextReply::Int(is_true.into()),
            R::Array(all) => TextReply::Many(all.into_iter().map(TextReply::from).collect()),
            R::Map(pairs) => TextReply::Many(
                pairs.into_iter().flat_map(|(key, value)| [key.into(), value.into()]).collect(),
            ),
        }
    }
}

impl TextReply {
    /// In words, as tests compare it: elements of arrays with spaces between, `nil` for no value.
    pub fn text(&self) -> String {
        match self {
            TextReply::Simple(text) | TextReply::Error(text) | TextReply::Bulk(text) => {
                text.clone()
            }
            TextReply::Int(number) => number.to_string(),
            TextReply::Nil => "nil".to_owned(),
            TextReply::Many(all) => all.iter().map(TextReply::text).collect::<Vec<_>>().join(" "),
        }
    }

    /// As [`Self::text`], but `+OK`, `-ERR …` and `:1` begin as they do on the wire.
    pub fn line(&self) -> String {
        match self {
            TextReply::Simple(text) => format!("+{text}"),
            TextReply::Error(text) => format!("-{text}"),
            TextReply::Int(number) => format!(":{number}"),
            TextReply::Many(all) => all.iter().map(TextReply::line).collect::<Vec<_>>().join(" "),
            TextReply::Bulk(_) | TextReply::Nil => self.text(),
        }
    }
}

/// A connection.
pub struct Connection {
    stream: TcpStream,
    answer_max: Duration,
    decoder: Decoder,
    input: BytesMut,
}

impl Connection {
    /// Connects; an answer may take so long.
    ///
    /// # Errors
    /// What the system says; nothing was sent.
    pub fn open(
        address: SocketAddr,
        connect_max: Duration,
        answer_max: Duration,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, connect_max)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(answer_max))?;
        let decoder = Decoder::new(REPLY_BYTES_MAX);
        Ok(Self { stream, answer_max, decoder, input: BytesMut::with_capacity(1 << 16) })
    }

    /// Where the server sees it come from.
    ///
    /// # Errors
    /// The system does not know.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Whether the server has closed it, before any further reply.
    pub fn is_at_its_end(&mut self) -> bool {
        self.bytes_reply().is_err_and(|why| why.kind() == io::ErrorKind::UnexpectedEof)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// Whether it was done is unknown; the connection is of no further use.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<TextReply> {
        let mut request = Vec::new();
        encode(&mut request, words);
        self.send(&request)?;
        self.reply()
    }

    /// Asks with a line, words between spaces, and waits for the answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_line(&mut self, line: &str) -> io::Result<TextReply> {
        self.send(format!("{line}\r\n").as_bytes())?;
        self.reply()
    }

    /// Sends bytes; for each request in them a reply is owed.
    ///
    /// # Errors
    /// What the system says; a part may have been sent.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next reply.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn reply(&mut self) -> io::Result<TextReply> {
        self.bytes_reply().map(TextReply::from)
    }

    /// The next reply, its bytes as they are.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn bytes_reply(&mut self) -> io::Result<client::Reply> {
        let deadline = Instant::now() + self.answer_max;
        let bad = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        loop {
            if let Some(reply) = self.decoder.next(&mut self.input).map_err(bad)? {
                return Ok(reply);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // Zero would mean for ever.
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let mut piece = [0; 1 << 16];
            match self.stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.input.extend_from_slice(&piece[..read]),
            }
        }
    }
}

/// Appends a command as RESP has it.
pub fn encode<W: AsRef<[u8]>>(out: &mut Vec<u8>, words: &[W]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words.iter().map(AsRef::as_ref) {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        encode(&mut out, &["GET", "k"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }

    #[test]
    fn replies_come_whole_or_not_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let most = Duration::from_secs(60);
        let mut client = Connection::open(listener.local_addr().unwrap(), most, most).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut answer = |bytes: &[u8]| server.write_all(bytes).unwrap();
        answer(b"*4\r\n$2\r\n17\r\n:5\r\n$-1\r\n+OK\r\n-BUSY x\r\n");
        let all = client.reply().unwrap();
        assert_eq!((all.text(), all.line()), ("17 5 nil OK".into(), "17 :5 nil +OK".into()));
        assert_eq!(client.reply().unwrap(), TextReply::Error("BUSY x".into()));
        client.answer_max = Duration::from_millis(50);
        answer(b"$5\r\nhal");
        let kind = client.reply().unwrap_err().kind();
        assert!(matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{kind}");
        drop(server);
        assert_eq!(client.reply().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
