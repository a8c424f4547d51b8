//! The part of HTTP/1.1 that one request on one connection needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use super::error::ClientError;
use crate::{Tls, TlsFiles};

/// No reply may be longer: the longest value a node can be configured for, and some.
pub const REPLY_BYTES_MAX: u64 = 600 << 20;
/// No line of a stream may be longer: a commit of a change feed is one.
const LINE_BYTES_MAX: usize = 256 << 20;
/// No head of a reply may be longer.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// A node takes no longer request line.
const PATH_BYTES_MAX: usize = 65_000;

/// Where a node is, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `HOST:PORT`, as given.
    pub address: String,
    /// For a connection, and for each read and write.
    pub timeout: Duration,
    /// Whether it is reached by TLS.
    pub is_tls: bool,
    /// Whom it trusts then; without it, those that the system trusts.
    pub tls: Option<Tls>,
    /// The password that it gives.
    pub password: Option<Password>,
}

/// A password, which no text shows.
#[derive(Clone)]
pub struct Password(pub Arc<str>);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a password")
    }
}

/// The way to a node.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// What is asked. `Request { body, ..Request::write("PUT", path) }`: what is not named is left out.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// GET, PUT and so on.
    pub method: &'a str,
    /// Path and query, encoded.
    pub path: &'a str,
    /// Its body.
    pub body: &'a [u8],
    /// Whether the body is JSON.
    pub json: bool,
    /// Further headers: names and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// Whether it may change something.
    pub is_write: bool,
}

impl<'a> Request<'a> {
    /// Asks for what is at `path`.
    pub fn get(path: &'a str) -> Self {
        Self { method: "GET", path, body: b"", json: false, headers: &[], is_write: false }
    }

    /// Asks to change what is at `path`.
    pub fn write(method: &'a str, path: &'a str) -> Self {
        Self { method, path, body: b"", json: false, headers: &[], is_write: true }
    }
}

/// What is answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP's status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The value of a header, whose name is in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Its body as text, if need be with `\u{fffd}` for what is none.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a header that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.parse().ok()
    }
}

impl Endpoint {
    /// At `HOST:PORT`, `http://HOST:PORT`, or `https://HOST:PORT`.
    pub fn new(address: &str, timeout: Duration) -> Result<Self, ClientError> {
        let (scheme, given) = (address.split_once("://"), address);
        let (is_tls, address) = match scheme {
            None => (false, address),
            Some(("http", rest)) => (false, rest.trim_end_matches('/')),
            Some(("https", rest)) => (true, rest.trim_end_matches('/')),
            Some(_) => return Err(ClientError::BadAddress { address: given.to_owned() }),
        };
        let parts = address.rsplit_once(':').filter(|(host, port)| {
            let host_fits = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
            host_fits && !host.contains('/') && port.parse::<u16>().is_ok()
        });
        match parts {
            Some(_) => {
                Ok(Self { address: address.to_owned(), timeout, is_tls, tls: None, password: None })
            }
            None => Err(ClientError::BadAddress { address: given.to_owned() }),
        }
    }

    /// Sends a request and reads its reply. A node without data may send it on to another, once.
    pub fn ask(&self, request: &Request<'_>) -> Result<Reply, ClientError> {
        let reply = self.ask_once(request)?;
        if reply.status != 307 {
            return Ok(reply);
        }
        let scheme = if self.is_tls { "https://" } else { "http://" };
        let target = reply.header("location").and_then(|target| target.strip_prefix(scheme));
        let Some((address, _)) = target.and_then(|target| target.split_once('/')) else {
            return Ok(reply);
        };
        self.another(address)?.ask_once(request)
    }

    /// Another node, reached as this one is.
    pub(super) fn another(&self, address: &str) -> Result<Self, ClientError> {
        let new = Self::new(address, self.timeout)?;
        Ok(Self {
            is_tls: self.is_tls || new.is_tls,
            tls: self.tls.clone(),
            password: self.password.clone(),
            ..new
        })
    }

    fn ask_once(&self, request: &Request<'_>) -> Result<Reply, ClientError> {
        let failed = |why: String| match request.is_write {
            true => ClientError::Unknown { why, request_id: None },
            false => ClientError::Broken { address: self.address.clone(), why },
        };
        if request.path.len() > PATH_BYTES_MAX {
            let bytes = request.path.len();
            return Err(ClientError::PathTooLong { bytes, bytes_max: PATH_BYTES_MAX });
        }
        let mut stream = self.connect()?;
        let sent = self.send(&mut stream, request);
        // A node may refuse a body before all of it was sent; its answer says more than the error.
        match (read_reply(&mut stream, request.method), sent) {
            (Ok(reply), _) => Ok(reply),
            (Err(_), Err(error)) => {
                Err(failed(format!("sending broke off ({})", self.io_error_text(&error))))
            }
            (Err(error), Ok(())) => {
                Err(failed(format!("no answer came ({})", self.io_error_text(&error))))
            }
        }
    }

    /// What an error of a connection means to people.
    fn io_error_text(&self, error: &io::Error) -> String {
        match error.kind() {
            // Which of them it is depends on the system.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("nothing happened for {:?}", self.timeout)
            }
            _ => error.to_string(),
        }
    }

    /// Sends a request for a stream. Its body, as it comes, if it is answered with 200; else the
    /// reply.
    pub(super) fn open(&self, path: &str) -> Result<Result<ChunkReader, Reply>, ClientError> {
        let failed = |error| self.broken(&error);
        let mut stream = self.connect()?;
        self.send(&mut stream, &Request::get(path)).map_err(failed)?;
        let mut reader = BufReader::new(stream);
        let mut reply = read_head(&mut reader).map_err(failed)?;
        if reply.status == 200 && reply.header("transfer-encoding").is_some() {
            return Ok(Ok(ChunkReader {
                reader,
                text: Vec::new(),
                start: 0,
                seen: 0,
                is_over: false,
            }));
        }
        reply.body = read_body(&mut reader, &reply).map_err(failed)?;
        Ok(Err(reply))
    }

    /// The error for a read that broke off.
    pub(super) fn broken(&self, error: &io::Error) -> ClientError {
        let why = format!("no answer came ({})", self.io_error_text(error));
        ClientError::Broken { address: self.address.clone(), why }
    }

    fn connect(&self) -> Result<Stream, ClientError> {
        let failed = |source| ClientError::CannotConnect { address: self.address.clone(), source };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.timeout)).map_err(failed)?;
                    stream.set_write_timeout(Some(self.timeout)).map_err(failed)?;
                    return self.secured(stream).map_err(failed);
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Does the handshake of TLS, if it is wanted: nothing of a request is sent before.
    fn secured(&self, mut socket: TcpStream) -> io::Result<Stream> {
        if !self.is_tls {
            return Ok(Stream::Plain(socket));
        }
        let tls = match &self.tls {
            Some(tls) => tls.clone(),
            None => Tls::load(&TlsFiles::default()).map_err(io::Error::other)?,
        };
        let mut connection = tls.connection(&self.address)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, socket))))
    }

    fn send(&self, stream: &mut Stream, request: &Request<'_>) -> io::Result<()> {
        let Request { method, path, body, json, headers, .. } = request;
        let kind = if *json { "application/json" } else { "application/octet-stream" };
        let (address, length) = (&self.address, body.len());
        let more: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let more = match &self.password {
            Some(Password(text)) => {
                let both = keyspace::base64::encode(format!("default:{text}").as_bytes());
                format!("{more}Authorization: Basic {both}\r\n")
            }
            None => more,
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        stream.flush()
    }
}

fn read_reply(stream: impl Read, method: &str) -> io::Result<Reply> {
    let mut reader = BufReader::new(stream);
    let mut reply = read_head(&mut reader)?;
    // What a HEAD is answered has the length of a body, and none.
    if method != "HEAD" {
        reply.body = read_body(&mut reader, &reply)?;
    }
    Ok(reply)
}

/// A reply without its body.
fn read_head(mut reader: &mut impl BufRead) -> io::Result<Reply> {
    let mut head = HEAD_BYTES_MAX;
    let status = loop {
        let line = read_line(&mut reader, &mut head)?;
        let rest = line.strip_prefix("HTTP/1.").ok_or_else(|| bad("it is not HTTP/1"))?;
        let status = rest.get(2..5).and_then(|text| text.parse::<u16>().ok());
        let status = status.filter(|status| *status >= 100).ok_or_else(|| bad("bad status"))?;
        if status >= 200 {
            break status;
        }
        // An interim reply: it has headers, and the reply proper comes after it.
        while !read_line(&mut reader, &mut head)?.is_empty() {}
    };
    let mut headers = Vec::new();
    loop {
        let line = read_line(&mut reader, &mut head)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("bad header"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Reply { status, headers, body: Vec::new() })
}

/// A body in chunks, read line by line as it comes.
pub(super) struct ChunkReader {
    reader: BufReader<Stream>,
    /// What has come.
    text: Vec<u8>,
    /// So much of it is read.
    start: usize,
    /// Up to here there is no end of a line behind `start`.
    seen: usize,
    is_over: bool,
}

impl ChunkReader {
    /// The next line without its end, if there is one.
    pub(super) fn next_line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(at) = self.text[self.seen..].iter().position(|byte| *byte == b'\n') {
                let end = self.seen + at;
                let line = self.text[self.start..end].to_vec();
                (self.start, self.seen) = (end + 1, end + 1);
                return String::from_utf8(line).map(Some).map_err(|_| bad("a line is not text"));
            }
            if self.is_over {
                return Ok(None);
            }
            self.text.drain(..self.start);
            (self.start, self.seen) = (0, self.text.len());
            if self.text.len() > LINE_BYTES_MAX {
                return Err(bad("a line is too long"));
            }
            self.is_over = !read_chunk(&mut self.reader, &mut self.text)?;
        }
    }
}

fn read_body(reader: &mut impl BufRead, reply: &Reply) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if reply.status == 204 || reply.status == 304 {
        return Ok(body);
    }
    if reply.header("transfer-encoding").is_some() {
        read_chunks(reader, &mut body)?;
    } else if let Some(length) = reply.header("content-length") {
        let length = length.parse().map_err(|_| bad("bad length"))?;
        read_exactly(reader, &mut body, length)?;
    } else {
        reader.take(REPLY_BYTES_MAX + 1).read_to_end(&mut body)?;
        if body.len() as u64 > REPLY_BYTES_MAX {
            return Err(bad("the reply is too long"));
        }
    }
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    while read_chunk(reader, body)? {}
    Ok(())
}

/// Appends a chunk. False: it was the end.
fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let mut line_bytes = HEAD_BYTES_MAX;
    let line = read_line(reader, &mut line_bytes)?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    let length = u64::from_str_radix(digits, 16).map_err(|_| bad("bad chunk"))?;
    if length == 0 {
        while !read_line(reader, &mut line_bytes)?.is_empty() {}
        return Ok(false);
    }
    read_exactly(reader, body, length)?;
    match read_line(reader, &mut line_bytes)?.is_empty() {
        true => Ok(true),
        false => Err(bad("bad chunk")),
    }
}

/// Reads without believing `length` before its bytes are there.
fn read_exactly(reader: &mut impl BufRead, body: &mut Vec<u8>, length: u64) -> io::Result<()> {
    if length.saturating_add(body.len() as u64) > REPLY_BYTES_MAX {
        return Err(bad("the reply is too long"));
    }
    let read = reader.take(length).read_to_end(body)? as u64;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn read_line(reader: &mut impl BufRead, left: &mut u64) -> io::Result<String> {
    let mut line = Vec::new();
    *left -= reader.take(*left).read_until(b'\n', &mut line)? as u64;
    if line.pop() != Some(b'\n') {
        let too_long = *left == 0;
        return Err(if too_long { bad("the head is too long") } else { eof() });
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| bad("the head is not text"))
}

fn eof() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(bytes: &[u8]) -> io::Result<Vec<u8>> {
        read_reply(bytes, "GET").map(|reply| reply.body)
    }

    #[test]
    fn replies_end_in_three_ways() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhixx").unwrap(), b"hi");
        assert_eq!(body(b"HTTP/1.0 200 OK\n\nall there is").unwrap(), b"all there is");
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        assert_eq!(body(chunks).unwrap(), b"abc0123456789");
        let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nX: y\r\n\r\n";
        let reply = read_reply(&interim[..], "GET").unwrap();
        assert_eq!((reply.status, reply.header("x")), (204, Some("y")));
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(read_reply(&head[..], "HEAD").unwrap().number("content-length"), Some(2));
    }

    #[test]
    fn incomplete_reply_is_an_error() {
        for bad in [
            &b""[..],
            b"+PONG\r\n",
            b"HTTP/1.1 2",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc",
        ] {
            assert!(read_reply(bad, "GET").is_err(), "{}", String::from_utf8_lossy(bad));
        }
        let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'x'; 1 << 20]].concat();
        assert!(read_reply(&endless[..], "GET").is_err());
    }

    #[test]
    fn addresses_name_host_and_port() {
        let new = |address| Endpoint::new(address, Duration::from_secs(1));
        for good in ["127.0.0.1:7480", "localhost:1", "[::1]:7480", "https://db.example:65535"] {
            assert!(new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "localhost",
            ":7480",
            "a:",
            "a:b",
            "a:65536",
            "ftp://a:1",
            "http://",
            "a b:1",
            "a\r\n:1",
        ] {
            assert!(new(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            head in prop_oneof![
                Just("HTTP/1.1 200 OK\r\n"),
                Just("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Just("")
            ],
            rest: Vec<u8>,
        ) {
            let bytes = [head.as_bytes(), &rest].concat();
            if let Ok(reply) = read_reply(&bytes[..], "GET") {
                prop_assert!(reply.body.len() <= rest.len());
            }
        }
    }
}
