//! Clients of Carillon in a closed loop, each with one transfer under way; all on one thread.
//!
//! ```text
//!   one-shot   MULTI, INCRBY a -n, INCRBY b n, EXEC ──► done, or an error
//!   watching   WATCH a b, MGET a b ──► MULTI, SET a, SET b, EXEC ──► done, or an error
//!                  ▲                                         │
//!                  └───────── nil: an abort ─────────────────┘
//!   script     EVALSHA: GET a, GET b, SET a, SET b ──► done, or an error
//! ```
//!
//! Each line up to an arrow is one pipeline. A transfer that ends after the given time does not
//! count; one that is aborted then is not begun again.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::accounts::account;
use crate::Outcome;
use crate::cluster::figures::part;
use bytes::BytesMut;
use client::Decoder;
use harness::resp::TextReply;
use harness::resp::encode;

/// No reply for so long is an error of the benchmark: nodes answer earlier, one way or another.
const REPLY_MAX: Duration = Duration::from_secs(20);
/// More than any reply to a transfer takes.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// The most that one transfer moves.
const AMOUNT_MAX: u64 = 10;

/// How a transfer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferMethod {
    /// In one pipeline, by INCRBY.
    OneShot,
    /// By WATCH, with values that the client makes.
    Watching,
    /// In a script, which runs again where the server finds it changed.
    Script,
}

/// The transfer as a script.
const SCRIPT: &str = "local from, to = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) \
                      redis.call('SET', KEYS[1], from - ARGV[1]) \
                      redis.call('SET', KEYS[2], to + ARGV[1]) \
                      return 1";

/// What came of the transfers of one run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Transfers that were done.
    pub done: u64,
    /// Median, 99th percentile and longest time of one, with its aborts, in ms.
    pub ms: [f64; 3],
    /// EXECs that did nothing because a watched key had changed.
    pub aborts: u64,
    /// Error replies, by their first word.
    pub errors: BTreeMap<String, u64>,
}

struct Client {
    stream: TcpStream,
    /// The name of the script, if it calls one.
    script: String,
    /// Bytes to be sent, and how many of them were.
    out: Vec<u8>,
    sent: usize,
    /// Bytes of replies that are not whole yet.
    input: BytesMut,
    decoder: Decoder,
    replies: Vec<TextReply>,
    /// Replies to the pipeline under way; 0 if there is none.
    awaited: usize,
    accounts: [usize; 2],
    amount: i64,
    began: Instant,
    /// Whether the pipeline under way ends with EXEC.
    ends: bool,
    /// Whether keys may still be watched from a transfer that failed.
    watches: bool,
}

/// Runs so many clients for so long, spread over the nodes, with random pairs of so many accounts.
pub fn run(
    ports: &[u16],
    way: TransferMethod,
    clients: usize,
    accounts: usize,
    lasting: Duration,
) -> Outcome<Counts> {
    let script = match way {
        TransferMethod::Script => {
            crate::resp::Connection::open(ports[0])?.call(&["SCRIPT", "LOAD", SCRIPT])?
        }
        _ => String::new(),
    };
    let mut poll = Poll::new()?;
    let mut all = Vec::new();
    for n in 0..clients {
        let stream = std::net::TcpStream::connect(("127.0.0.1", ports[n % ports.len()]))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(n), Interest::READABLE | Interest::WRITABLE)?;
        all.push(Client::new(stream, script.clone()));
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut counts = Counts::default();
    let mut done_ms = Vec::new();
    let until = Instant::now() + lasting;
    for client in &mut all {
        client.begin(way, accounts, &mut random);
        client.send()?;
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
            let counted = Instant::now() <= until;
            let goes_on = match client.step() {
                Next::Sends => true,
                Next::Again => {
                    counts.aborts += u64::from(counted);
                    if counted {
                        client.ask(way);
                    }
                    counted
                }
                Next::Ends(error) => {
                    if let Some(error) = error {
                        *counts.errors.entry(error).or_default() += 1;
                    } else if counted {
                        done_ms.push(client.began.elapsed().as_secs_f64() * 1e3);
                    }
                    if counted {
                        client.begin(way, accounts, &mut random);
                    }
                    counted
                }
            };
            if goes_on {
                client.send()?;
            } else {
                open -= 1;
            }
        }
    }
    counts.done = done_ms.len() as u64;
    counts.ms = [0.5, 0.99, 1.0].map(|of| part(&done_ms, of));
    Ok(counts)
}

/// What a client does once its pipeline is answered.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// It has another pipeline to send.
    Sends,
    /// A watched key has changed: once more.
    Again,
    /// The transfer is over: done, or with an error.
    Ends(Option<String>),
}

impl Client {
    fn new(stream: TcpStream, script: String) -> Self {
        Self {
            stream,
            script,
            out: Vec::new(),
            sent: 0,
            input: BytesMut::new(),
            decoder: Decoder::new(REPLY_BYTES_MAX),
            replies: Vec::new(),
            awaited: 0,
            accounts: [0, 1],
            amount: 0,
            began: Instant::now(),
            ends: false,
            watches: false,
        }
    }

    /// A transfer between two others.
    fn begin(&mut self, way: TransferMethod, accounts: usize, random: &mut Random) {
        let from = random.below(accounts as u64) as usize;
        let to = random.below(accounts as u64 - 1) as usize;
        self.accounts = [from, to + usize::from(to >= from)];
        self.amount = 1 + random.below(AMOUNT_MAX) as i64;
        self.began = Instant::now();
        self.ask(way);
    }

    /// Its first pipeline.
    fn ask(&mut self, way: TransferMethod) {
        let [from, to] = self.accounts.map(account);
        match way {
            TransferMethod::OneShot => self.pipeline(&[
                &["MULTI"],
                &["INCRBY", &from, &(-self.amount).to_string()],
                &["INCRBY", &to, &self.amount.to_string()],
                &["EXEC"],
            ]),
            TransferMethod::Watching if self.watches => {
                self.pipeline(&[&["UNWATCH"], &["WATCH", &from, &to], &["MGET", &from, &to]])
            }
            TransferMethod::Watching => {
                self.pipeline(&[&["WATCH", &from, &to], &["MGET", &from, &to]])
            }
            TransferMethod::Script => {
                let script = self.script.clone();
                self.pipeline(&[&["EVALSHA", &script, "2", &from, &to, &self.amount.to_string()]])
            }
        }
        self.ends = way != TransferMethod::Watching;
        self.watches = !self.ends;
    }

    fn pipeline(&mut self, commands: &[&[&str]]) {
        self.out.clear();
        (self.sent, self.awaited) = (0, commands.len());
        for command in commands {
            encode(&mut self.out, command);
        }
    }

    /// What to do with the replies to a whole pipeline.
    fn step(&mut self) -> Next {
        let mut replies = std::mem::take(&mut self.replies);
        let last = replies.pop().unwrap_or(TextReply::Nil);
        if self.ends {
            // EXEC ends watching, whatever it answers.
            self.watches = false;
        }
        let refused = replies.iter().chain([&last]).find_map(error);
        match last {
            _ if refused.is_some() => Next::Ends(refused),
            TextReply::Nil if self.ends => Next::Again,
            TextReply::Many(_) | TextReply::Int(_) if self.ends => Next::Ends(None),
            TextReply::Many(held) => {
                let held: Vec<i64> = held.iter().filter_map(number).collect();
                let [from, to] = held[..] else {
                    return Next::Ends(Some("an account is missing".into()));
                };
                let [a, b] = self.accounts.map(account);
                self.pipeline(&[
                    &["MULTI"],
                    &["SET", &a, &(from - self.amount).to_string()],
                    &["SET", &b, &(to + self.amount).to_string()],
                    &["EXEC"],
                ]);
                self.ends = true;
                Next::Sends
            }
            other => Next::Ends(Some(format!("unexpected {other:?}"))),
        }
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

    /// Reads what has come; whether the pipeline under way has all its replies now.
    fn receive(&mut self) -> Outcome<bool> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(bytes) => {
                    self.input.extend_from_slice(&buffer[..bytes]);
                    if bytes < buffer.len() {
                        // What comes after it is an event of its own.
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        while let Some(reply) = self.decoder.next(&mut self.input)?.map(TextReply::from) {
            if self.replies.len() == self.awaited {
                return Err(format!("a reply that nobody asked for: {reply:?}").into());
            }
            self.replies.push(reply);
        }
        let whole = self.awaited > 0 && self.replies.len() == self.awaited;
        if whole {
            self.awaited = 0;
        }
        Ok(whole)
    }
}

fn number(reply: &TextReply) -> Option<i64> {
    if let TextReply::Bulk(text) = reply { text.parse().ok() } else { None }
}

/// The first word of an error, also of one among several replies.
fn error(reply: &TextReply) -> Option<String> {
    match reply {
        TextReply::Error(text) => Some(text.split(' ').next().unwrap_or_default().to_owned()),
        TextReply::Many(each) => each.iter().find_map(error),
        _ => None,
    }
}

/// xorshift64: which accounts is of no account, only that they differ.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper bits of a product: the lower ones of the number follow each other.
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(way: TransferMethod) -> Client {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut client = Client::new(TcpStream::from_std(stream), "sha".into());
        client.accounts = [3, 5];
        client.amount = 4;
        client.ask(way);
        client
    }

    fn answered(client: &mut Client, text: &str) -> Next {
        let mut bytes = BytesMut::from(text);
        while let Some(reply) = client.decoder.next(&mut bytes).unwrap() {
            client.replies.push(reply.into());
        }
        assert_eq!(client.replies.len(), client.awaited);
        client.step()
    }

    #[test]
    fn a_one_shot_is_one_pipeline() {
        let mut client = client(TransferMethod::OneShot);
        let done = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:996\r\n:1004\r\n";
        assert_eq!(answered(&mut client, done), Next::Ends(None));
        client.ask(TransferMethod::OneShot);
        let busy = "+OK\r\n+QUEUED\r\n+QUEUED\r\n-BUSY others\r\n";
        assert_eq!(answered(&mut client, busy), Next::Ends(Some("BUSY".into())));
    }

    #[test]
    fn a_script_is_one_command() {
        let mut client = client(TransferMethod::Script);
        assert!(String::from_utf8_lossy(&client.out).ends_with("$1\r\n4\r\n"));
        assert_eq!(answered(&mut client, ":1\r\n"), Next::Ends(None));
        client.ask(TransferMethod::Script);
        assert_eq!(answered(&mut client, "-BUSY x\r\n"), Next::Ends(Some("BUSY".into())));
    }

    #[test]
    fn a_watched_account_that_changed_has_it_begin_again() {
        let mut client = client(TransferMethod::Watching);
        assert_eq!(answered(&mut client, "+OK\r\n*2\r\n$1\r\n7\r\n$1\r\n8\r\n"), Next::Sends);
        let sent = String::from_utf8(client.out.clone()).unwrap();
        assert!(sent.contains("$1\r\n3\r\n") && sent.contains("$2\r\n12\r\n"), "{sent}");
        assert_eq!(answered(&mut client, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n"), Next::Again);
        client.ask(TransferMethod::Watching);
        assert_eq!(client.awaited, 2);
        let refused = answered(&mut client, "+OK\r\n-TRYAGAIN it was cut\r\n");
        assert_eq!(refused, Next::Ends(Some("TRYAGAIN".into())));
        client.ask(TransferMethod::Watching);
        assert!(String::from_utf8_lossy(&client.out).contains("UNWATCH"));
    }
}
