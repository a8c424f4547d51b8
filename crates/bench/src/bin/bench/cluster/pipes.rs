//! Pipelines that redis-benchmark cannot send: with a WAIT at their end, or of SETs and GETs.
//!
//! Many connections on one thread, each with one pipeline outstanding, random keys. For Redis in a
//! cluster each pipeline ends with `WAIT 1`, so that it is answered when another node has it.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::figures::part;
use crate::Outcome;
use crate::load::Run;
use crate::resp::{encode, key};

/// No reply for so long is an error.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Connections.
    pub clients: usize,
    /// Commands of a pipeline.
    pub pipeline: usize,
    /// Which commands.
    pub commands: Commands,
    /// Whether all keys of a pipeline have one hash tag.
    pub tagged: bool,
    /// Random keys are drawn from so many.
    pub keys: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Whether a pipeline ends with WAIT 1.
    pub wait: bool,
}

/// Commands of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commands {
    /// SETs.
    Set,
    /// GETs.
    Get,
    /// A SET, a GET, and so on.
    Mixed,
}

struct Pipe {
    stream: TcpStream,
    /// Bytes to be sent, and how many of them were.
    out: Vec<u8>,
    sent: usize,
    /// Bytes of a value that are still to come.
    skips: usize,
    /// Bytes of the last line that came.
    line: Vec<u8>,
    replies: usize,
    began: Instant,
}

/// Sends about `requests` commands. The processor time of the run is for the caller to add.
pub fn run(ports: &[u16], shape: &Shape, requests: usize) -> Outcome<Run> {
    let mut poll = Poll::new()?;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut pipes = Vec::new();
    for n in 0..shape.clients {
        let port = ports[n % ports.len()];
        let stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(n), Interest::READABLE | Interest::WRITABLE)?;
        let (out, line) = (Vec::new(), Vec::new());
        let began = Instant::now();
        pipes.push(Pipe { stream, out, sent: 0, skips: 0, line, replies: 0, began });
    }
    let value = "x".repeat(shape.value_bytes);
    let mut left = requests.div_ceil(shape.pipeline);
    let sets = left * shape.pipeline;
    let mut done_ms = Vec::with_capacity(left);
    let began = Instant::now();
    let mut open = 0;
    for pipe in &mut pipes {
        if left > 0 {
            (left, open) = (left - 1, open + 1);
            pipe.begin(shape, &value, &mut random);
            pipe.send()?;
        }
    }
    let mut events = Events::with_capacity(shape.clients);
    while open > 0 {
        poll.poll(&mut events, Some(REPLY_MAX))?;
        if events.is_empty() {
            return Err("no reply for ten seconds".into());
        }
        for event in &events {
            let pipe = &mut pipes[event.token().0];
            pipe.send()?;
            if pipe.receive(shape)? {
                done_ms.push(pipe.began.elapsed().as_secs_f64() * 1e3);
                open -= 1;
                if left > 0 {
                    (left, open) = (left - 1, open + 1);
                    pipe.begin(shape, &value, &mut random);
                    pipe.send()?;
                }
            }
        }
    }
    let rate = sets as f64 / began.elapsed().as_secs_f64();
    Ok(Run { rate, p50_ms: part(&done_ms, 0.5), p99_ms: part(&done_ms, 0.99), cpu_us: 0.0 })
}

impl Pipe {
    fn begin(&mut self, shape: &Shape, value: &str, random: &mut u64) {
        self.out.clear();
        self.sent = 0;
        self.replies = shape.pipeline + usize::from(shape.wait);
        let mut tag = None;
        for place in 0..shape.pipeline {
            // xorshift64: which keys is of no account, only that they differ.
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            let number = (*random % shape.keys as u64) as usize;
            let name = match shape.tagged {
                true => format!("{{{:04}}}:{number:012}", *tag.get_or_insert(number % 1000)),
                false => key(number),
            };
            let sets = match shape.commands {
                Commands::Set => true,
                Commands::Get => false,
                Commands::Mixed => place % 2 == 0,
            };
            match sets {
                true => encode(&mut self.out, &["SET", &name, value]),
                false => encode(&mut self.out, &["GET", &name]),
            }
        }
        if shape.wait {
            encode(&mut self.out, &["WAIT", "1", "5000"]);
        }
        self.began = Instant::now();
    }

    fn send(&mut self) -> Outcome<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what has come; whether that was the last reply of a pipeline under way.
    fn receive(&mut self, shape: &Shape) -> Outcome<bool> {
        let mut buffer = [0; 4096];
        let before = self.replies;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(bytes) => self.take(&buffer[..bytes], shape)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(before > 0 && self.replies == 0 && self.skips == 0)
    }

    fn take(&mut self, bytes: &[u8], shape: &Shape) -> Outcome<()> {
        for byte in bytes {
            if self.skips > 0 {
                self.skips -= 1;
                continue;
            }
            self.line.push(*byte);
            if *byte == b'\n' {
                let is_wait = shape.wait && self.replies == 1;
                let nobody = is_wait && self.line == b":0\r\n";
                if self.line.starts_with(b"-") || nobody || self.replies == 0 {
                    return Err(format!("reply {}", String::from_utf8_lossy(&self.line)).into());
                }
                if self.line.starts_with(b"$") && !self.line.starts_with(b"$-") {
                    let bytes = std::str::from_utf8(&self.line[1..])?.trim_end();
                    self.skips = bytes.parse::<usize>()? + 2;
                }
                self.replies -= 1;
                self.line.clear();
            }
        }
        Ok(())
    }
}
