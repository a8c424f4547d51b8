//! A viewer of a node's events: reads the stream of `/v1/events`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// An event of a stream.
#[derive(Clone, Debug)]
pub struct Event {
    /// Where to resume behind it.
    pub id: Option<String>,
    /// All of it.
    pub json: Value,
}

impl Event {
    /// Its type.
    pub fn name(&self) -> &str {
        self.json["type"].as_str().unwrap_or_default()
    }

    /// A field that is text; empty if it is not there.
    pub fn text(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_default()
    }

    /// When, by the hybrid clock.
    pub fn at(&self) -> u64 {
        self.text("at").parse().unwrap_or_default()
    }
}

/// A stream that is open.
pub struct Events {
    stream: BufReader<TcpStream>,
    /// Of the chunk that is being read, what is left.
    chunk_left: usize,
    text: Vec<u8>,
}

/// How a stream goes on.
#[derive(Clone, Debug)]
pub enum Next {
    /// By an event.
    Event(Event),
    /// Nothing came in time.
    Nothing,
    /// It has ended, or its connection has.
    Ended,
}

impl Events {
    /// Asks for a stream; `query` is what follows the question mark, `last` the id of an event that
    /// was seen.
    ///
    /// # Errors
    /// If there is no connection, or the reply, as text, if it is no stream.
    pub fn open(node: SocketAddr, query: &str, last: Option<&str>) -> io::Result<Self> {
        let mut stream = TcpStream::connect(node)?;
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /v1/events?{query} HTTP/1.1\r\nHost: {node}\r\n{last}Connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if !head.starts_with("HTTP/1.1 200") {
            let mut body = String::new();
            stream.read_to_string(&mut body)?;
            return Err(io::Error::other(format!("{head}{body}")));
        }
        Ok(Self { stream, chunk_left: 0, text: Vec::new() })
    }

    /// The next event, if it comes within a time.
    ///
    /// # Panics
    /// If what comes is no stream of events.
    pub fn next_within(&mut self, timeout: Duration) -> Next {
        let until = Instant::now() + timeout;
        loop {
            if let Some(event) = self.take() {
                return Next::Event(event);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::Nothing;
            }
            match self.receive(left) {
                Ok(true) => {}
                Ok(false) => return Next::Ended,
                Err(error) if is_timeout(&error) => {}
                Err(_) => return Next::Ended,
            }
        }
    }

    /// The next event that is wanted; others are passed over.
    ///
    /// # Panics
    /// If it does not come in time.
    #[track_caller]
    pub fn until(
        &mut self,
        timeout: Duration,
        what: &str,
        is_it: impl Fn(&Event) -> bool,
    ) -> Event {
        let until = Instant::now() + timeout;
        let mut passed = Vec::new();
        loop {
            match self.next_within(until.saturating_duration_since(Instant::now())) {
                Next::Event(event) if is_it(&event) => return event,
                Next::Event(event) => passed.push(event.text("text").to_owned() + event.name()),
                other => panic!("no {what}: {other:?}; before: {passed:#?}"),
            }
        }
    }

    /// All events that come within a time.
    pub fn all_within(&mut self, time: Duration) -> Vec<Event> {
        let until = Instant::now() + time;
        let mut all = Vec::new();
        while let Next::Event(event) =
            self.next_within(until.saturating_duration_since(Instant::now()))
        {
            all.push(event);
        }
        all
    }

    /// Takes an event of what has come, if it is there. Comments are dropped.
    fn take(&mut self) -> Option<Event> {
        loop {
            let end = self.text.windows(2).position(|two| two == b"\n\n")?;
            let text: Vec<u8> = self.text.drain(..end + 2).collect();
            let text = String::from_utf8(text).expect("the stream is text");
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            if let Some(json) = field("data: ") {
                let json = serde_json::from_str(json).expect("an event is JSON");
                return Some(Event { id: field("id: ").map(str::to_owned), json });
            }
            assert!(text.starts_with(':'), "neither an event nor a comment: {text:?}");
        }
    }

    /// Waits for more. False: there is no more.
    fn receive(&mut self, timeout: Duration) -> io::Result<bool> {
        self.stream.get_ref().set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        if self.chunk_left == 0 {
            // A chunk's length comes whole, mostly; if it does not, it is waited for.
            let buffer = self.stream.fill_buf()?;
            if buffer.is_empty() {
                return Ok(false);
            }
            self.stream.get_ref().set_read_timeout(Some(Duration::from_secs(20)))?;
            let mut line = String::new();
            while line.trim().is_empty() {
                if self.stream.read_line(&mut line)? == 0 {
                    return Ok(false);
                }
            }
            let length = usize::from_str_radix(line.trim(), 16);
            self.chunk_left = length.expect("a chunk begins with its length");
            return Ok(self.chunk_left > 0);
        }
        let buffer = self.stream.fill_buf()?;
        let some = buffer.len().min(self.chunk_left);
        if some == 0 {
            return Ok(false);
        }
        self.text.extend_from_slice(&buffer[..some]);
        self.stream.consume(some);
        self.chunk_left -= some;
        Ok(true)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
