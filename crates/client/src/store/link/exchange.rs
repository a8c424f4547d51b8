//! Sends and receives bytes on one connection of a link, until it ends.

use std::io::ErrorKind;
use std::pin::Pin;

use bytes::BytesMut;
use tokio::io::Interest;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep};

use super::{End, Link, SILENCE_MAX};
use crate::store::reply::{Decoder, Reply};
use crate::store::stream::Stream;

/// Read at once.
const READ_BYTES: usize = 64 << 10;

/// Why a connection is of no more use.
struct Broken {
    why: String,
    /// Whether what came as an answer could not be used.
    unusable: bool,
}

impl Broken {
    fn new(why: impl ToString) -> Self {
        Self { why: why.to_string(), unusable: false }
    }
}

/// One connection, and what is on its way over it.
pub(super) struct Exchange<'a> {
    link: &'a Link,
    stream: Stream,
    /// Taken from the link's queue, and how much of it was written.
    out: Vec<u8>,
    out_written: usize,
    /// Bytes that the system took, counted from the first that was ever queued.
    written: u64,
    decoder: Decoder,
    input: BytesMut,
    replies: Vec<Reply>,
    /// Whether an answer has come.
    answered: bool,
    silence: Silence,
}

impl<'a> Exchange<'a> {
    pub fn new(link: &'a Link, stream: Stream, written: u64) -> Self {
        Self {
            link,
            stream,
            out: Vec::new(),
            out_written: 0,
            written,
            decoder: Decoder::new(link.options.reply_bytes_max),
            input: BytesMut::new(),
            replies: Vec::new(),
            answered: false,
            silence: Silence::new(),
        }
    }

    /// Sends and receives until the connection ends.
    pub async fn run(mut self) -> End {
        let broken = loop {
            if let Err(broken) = self.send() {
                break broken;
            }
            if let Err(broken) = self.receive() {
                break broken;
            }
            if let Err(broken) = self.wait().await {
                break broken;
            }
        };
        let Broken { why, unusable } = broken;
        End { why, unusable, written: self.written, answered: self.answered }
    }

    fn has_sent_all(&self) -> bool {
        self.out_written == self.out.len()
    }

    /// Writes what the system takes now.
    fn send(&mut self) -> Result<(), Broken> {
        if self.has_sent_all() {
            self.out_written = 0;
            if self.link.take(&mut self.out) {
                return Err(Broken::new("it was closed"));
            }
            if !self.out.is_empty() {
                self.silence.watch();
            }
        }
        while !self.has_sent_all() {
            match self.stream.try_write(&self.out[self.out_written..]) {
                Ok(bytes) => {
                    self.out_written += bytes;
                    self.written += bytes as u64;
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) => return Err(Broken::new(why)),
            }
        }
        Ok(())
    }

    /// Reads what is there now, and hands on the answers in it.
    fn receive(&mut self) -> Result<(), Broken> {
        loop {
            self.input.reserve(READ_BYTES);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(Broken::new("it has closed the connection")),
                Ok(_) => self.silence.heard = Instant::now(),
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(why) => return Err(Broken::new(why)),
            }
            let decoded = self.decode();
            self.answered |= decoded.is_ok() && !self.replies.is_empty();
            let is_expected = self.link.answer(&mut self.replies);
            decoded?;
            if !is_expected {
                return Err(Broken::new("it answers what was not asked"));
            }
        }
    }

    /// Takes all whole replies from the input.
    fn decode(&mut self) -> Result<(), Broken> {
        loop {
            match self.decoder.next(&mut self.input) {
                Ok(Some(reply)) => self.replies.push(reply),
                Ok(None) => return Ok(()),
                Err(why) => return Err(Broken { why: why.to_string(), unusable: true }),
            }
        }
    }

    /// Until there is something to send or to receive, or the node has been silent for long.
    async fn wait(&mut self) -> Result<(), Broken> {
        let interest = match self.has_sent_all() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        tokio::select! {
            biased;
            ready = self.stream.ready(interest) => {
                ready.map_err(Broken::new)?;
            }
            () = self.link.work.notified() => tokio::task::yield_now().await,
            is_there = greeted(&mut self.silence.greeting) => {
                if self.silence.is_unresponsive(is_there) {
                    return Err(Broken::new("it stands still"));
                }
            }
            () = &mut self.silence.look, if self.silence.is_watched => {
                self.silence.look_after(self.link);
            }
        }
        Ok(())
    }
}

/// How long the node has been silent, and whether it answers a greeting.
struct Silence {
    /// When the last byte came, or answers were first due.
    heard: Instant,
    /// Whether answers are due: then it is looked after them now and then.
    is_watched: bool,
    look: Pin<Box<Sleep>>,
    /// Since when a greeting is under way.
    greeting: Option<(Instant, JoinHandle<bool>)>,
}

impl Silence {
    fn new() -> Self {
        let look = Box::pin(sleep(SILENCE_MAX));
        Self { heard: Instant::now(), is_watched: false, look, greeting: None }
    }

    /// Answers are due from now on.
    fn watch(&mut self) {
        if !self.is_watched {
            (self.is_watched, self.heard) = (true, Instant::now());
            self.look.as_mut().reset(self.heard + SILENCE_MAX);
        }
    }

    /// It is time to look: a node that has been silent for too long is greeted.
    fn look_after(&mut self, link: &Link) {
        let now = Instant::now();
        self.is_watched = !link.is_idle();
        let silent_until = self.heard + SILENCE_MAX;
        if self.is_watched && silent_until <= now && self.greeting.is_none() {
            self.greeting = Some((now, tokio::spawn(link.greeting())));
        }
        let next = if silent_until > now { silent_until } else { now + SILENCE_MAX };
        self.look.as_mut().reset(next);
    }

    /// Whether a finished greeting shows that the node does not answer: it was not answered, and no
    /// byte came meanwhile.
    fn is_unresponsive(&mut self, was_answered: bool) -> bool {
        let begun = self.greeting.take().map(|(begun, _)| begun);
        !was_answered && begun.is_some_and(|begun| self.heard < begun)
    }
}

/// When the greeting has been answered, or not in time. Never if there is none.
async fn greeted(greeting: &mut Option<(Instant, JoinHandle<bool>)>) -> bool {
    match greeting {
        Some((_, answer)) => answer.await.unwrap_or(false),
        None => std::future::pending().await,
    }
}
