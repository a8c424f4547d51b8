//! An exclusive connection: one transaction at a time uses it.
//!
//! Commands are sent one after the other. A command whose future was dropped is still sent and
//! answered; its answer is thrown away, so that each command gets its own. A connection that ended,
//! or was given up, never connects again: its commands belong to the transaction begun on it.
//!
//! If no byte of an answer comes for [`SILENCE_MAX`], the client greets the node over another
//! connection, as a [`link`](super::link) does. It gives the connection up if the greeting stays
//! unanswered for [`GREETING_MAX`].
//!
//! Invariant: a command that was written to its end is `sent`; of all others the node had only
//! part.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::Interest;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Reason;
use super::dial::{self, DialError, Purpose};
use super::link::{GREETING_MAX, SILENCE_MAX};
use super::options::Options;
use super::reply::{Decoder, Reply};
use super::request::Request;
use super::stream::Stream;

/// Room for what is read at once.
const READ_BYTES: usize = 16 << 10;

/// A command has no answer, and the line is of no use any more.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// Whether the node may have had the whole command.
    pub sent: bool,
    /// Out of time, no answer, or none that can be used.
    pub reason: Reason,
    /// What happened.
    pub why: String,
}

/// See the front page.
#[derive(Debug)]
pub(crate) struct Line {
    address: String,
    options: Arc<Options>,
    stream: Stream,
    decoder: Decoder,
    input: BytesMut,
    out: Vec<u8>,
    /// So much of it was taken by the system.
    written: usize,
    /// Answers to come.
    owed: usize,
}

impl Line {
    /// Connects with a node, within `limit`.
    pub async fn dial(
        address: &str,
        options: &Arc<Options>,
        limit: Duration,
    ) -> Result<Self, DialError> {
        let dialled = dial::dial(address, options, Purpose::Detour, limit).await?;
        Ok(Self {
            address: address.to_owned(),
            options: options.clone(),
            stream: dialled.stream,
            decoder: Decoder::new(options.reply_bytes_max),
            input: BytesMut::new(),
            out: Vec::new(),
            written: 0,
            owed: 0,
        })
    }

    /// The node's.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a command, and waits for the answer. If the future is dropped, the command is still
    /// done, with the next one.
    ///
    /// # Errors
    /// There is no answer: drop the line.
    pub async fn ask(&mut self, request: &Request<'_>, until: Instant) -> Result<Reply, Failed> {
        request.write(&mut self.out);
        self.owed += 1;
        let done = timeout_at(until, self.exchange()).await;
        let (reason, why) = match done {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(failed)) => failed,
            Err(_) => (Reason::TimedOut, "it has not answered in time".to_owned()),
        };
        let (sent, why) = (self.written == self.out.len(), format!("{}: {why}", self.address));
        Err(Failed { sent, reason, why })
    }

    /// Sends what is to be sent, and takes answers up to the last that is owed.
    async fn exchange(&mut self) -> Result<Reply, (Reason, String)> {
        let gone = |why: std::io::Error| (Reason::NoNode, why.to_string());
        let unusable = |why: String| (Reason::BadAnswer, why);
        loop {
            while self.written < self.out.len() {
                match self.stream.try_write(&self.out[self.written..]) {
                    Ok(bytes) => self.written += bytes,
                    Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(why) => return Err(gone(why)),
                }
            }
            loop {
                self.input.reserve(READ_BYTES);
                match self.stream.try_read_buf(&mut self.input) {
                    Ok(0) => {
                        let why = "it has closed the connection".to_owned();
                        return Err((Reason::NoNode, why));
                    }
                    Ok(_) => {}
                    Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(why) => return Err(gone(why)),
                }
                loop {
                    let next = self.decoder.next(&mut self.input);
                    let Some(reply) = next.map_err(|why| unusable(why.to_string()))? else { break };
                    self.owed -= 1;
                    if self.owed > 0 {
                        continue;
                    }
                    if self.written < self.out.len() || !self.input.is_empty() {
                        return Err(unusable("it answers what was not asked".to_owned()));
                    }
                    (self.out, self.written) = (Vec::new(), 0);
                    return Ok(reply);
                }
            }
            let interest = match self.written < self.out.len() {
                true => Interest::READABLE | Interest::WRITABLE,
                false => Interest::READABLE,
            };
            tokio::select! {
                biased;
                ready = self.stream.ready(interest) => drop(ready.map_err(gone)?),
                () = self.silence() => return Err((Reason::NoNode, "it stands still".to_owned())),
            }
        }
    }

    /// Ready when no byte has come for too long, and the node answers no greeting either.
    async fn silence(&self) {
        loop {
            sleep_until(Instant::now() + SILENCE_MAX).await;
            let options = &self.options;
            let greeted = dial::dial(&self.address, options, Purpose::Detour, GREETING_MAX).await;
            if let Err(DialError::Unreachable(_)) = greeted {
                return;
            }
        }
    }
}
