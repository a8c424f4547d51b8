//! Clients in a closed loop, each with one GET under way, by a lookup that it names; all on one
//! thread.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::Outcome;
use crate::cluster::figures::part;
use crate::resp::{Connection, encode, key};

/// No reply for so long is an error of the benchmark.
const REPLY_MAX: Duration = Duration::from_secs(20);
/// Keys that are asked for: each has a value.
const KEYS: u64 = 100_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;

/// What came of one run.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Replies within the time.
    pub done: u64,
    /// Median and 99th percentile, in ms.
    pub ms: [f64; 2],
}

/// Gives every key a value.
pub fn fill(port: u16) -> Outcome<()> {
    Connection::open_for(port, REPLY_MAX)?.fill(KEYS as usize, VALUE_BYTES)
}

struct Client {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    began: Instant,
}

/// Runs so many clients for so long, spread over the nodes. `lookup`: what follows LOOKUP; nothing
/// is said if it is empty.
pub fn run(ports: &[u16], lookup: &str, clients: usize, lasting: Duration) -> Outcome<Counts> {
    let mut poll = Poll::new()?;
    let mut all = Vec::new();
    for n in 0..clients {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", ports[n % ports.len()]))?;
        stream.set_nodelay(true)?;
        if !lookup.is_empty() {
            let words: Vec<&str> = ["LOOKUP"].into_iter().chain(lookup.split(' ')).collect();
            let mut out = Vec::new();
            encode(&mut out, &words);
            stream.write_all(&out)?;
            let mut ok = [0; 5];
            stream.read_exact(&mut ok)?;
            if &ok != b"+OK\r\n" {
                return Err(format!("LOOKUP {lookup} was refused").into());
            }
        }
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(n), Interest::READABLE | Interest::WRITABLE)?;
        let (out, input, began) = (Vec::new(), Vec::new(), Instant::now());
        all.push(Client { stream, out, sent: 0, input, began });
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next_key = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        key((random % KEYS) as usize)
    };
    let mut done_ms = Vec::new();
    let until = Instant::now() + lasting;
    for client in &mut all {
        client.ask(&next_key())?;
    }
    let mut open = clients;
    let mut events = Events::with_capacity(clients);
    while open > 0 {
        poll.poll(&mut events, Some(REPLY_MAX))?;
        if events.is_empty() {
            return Err(format!("no reply for {} s", REPLY_MAX.as_secs()).into());
        }
        for event in &events {
            let client = &mut all[event.token().0];
            client.send()?;
            if !client.receive()? {
                continue;
            }
            if Instant::now() <= until {
                done_ms.push(client.began.elapsed().as_secs_f64() * 1e3);
                client.ask(&next_key())?;
            } else {
                open -= 1;
            }
        }
    }
    let ms = [0.5, 0.99].map(|of| part(&done_ms, of));
    Ok(Counts { done: done_ms.len() as u64, ms })
}

impl Client {
    fn ask(&mut self, key: &str) -> Outcome<()> {
        self.out.clear();
        encode(&mut self.out, &["GET", key]);
        (self.sent, self.began) = (0, Instant::now());
        self.input.clear();
        self.send()
    }

    fn send(&mut self) -> Outcome<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the reply is there.
    fn receive(&mut self) -> Outcome<bool> {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("a node has closed a connection".into()),
                Ok(received) => self.input.extend_from_slice(&bytes[..received]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        // The head of a value, and then as many bytes with their end.
        let head = format!("${VALUE_BYTES}\r\n");
        if self.input.len() >= head.len() && !self.input.starts_with(head.as_bytes()) {
            let said = String::from_utf8_lossy(&self.input).into_owned();
            return Err(format!("a GET was answered {said:?}").into());
        }
        Ok(self.input.len() == head.len() + VALUE_BYTES + 2)
    }
}
