//! One client: its socket, what it has sent, and the replies it is owed, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use command::{Reply, Seen};
use keyspace::Timestamp;
use node::fetch::Fetched;
use node::interactive::Interactive;
use node::read::Now;
use node::route::Route;

use super::cluster::SentOn;
use super::executes::{Repeated, Told};
use super::takes::TakesOwed;
use super::transactions::{Part, write_executed};
use super::transport::Transport;
use super::waits::Written;
use crate::hub::lookups::Trace;
use gateway::native::{self, FrameSink, Op};
use gateway::resp::{ArgRanges, Gather, RespWriter, Session, Version};

/// Replies that one connection may be owed. Beyond, its further commands wait in its buffer.
pub const PENDING_MAX: usize = 4096;

/// What WATCH and MULTI answer.
pub const OK: &[u8] = b"+OK\r\n";
/// What a command that is queued is answered.
pub const QUEUED: &[u8] = b"+QUEUED\r\n";

/// Numbers of replies owed have 31 bits; others mean something else to the loop.
const NUMBER_MASK: u32 = u32::MAX >> 1;

/// The protocol of a connection, and what it remembers.
pub enum Protocol {
    /// RESP.
    Resp(Box<Session>, ArgRanges),
    /// Native frames.
    Native,
}

/// One client.
pub struct Connection {
    /// Its number in the whole process, never used again.
    pub id: u64,
    /// The way to its client.
    pub transport: Transport,
    /// How it speaks.
    pub protocol: Protocol,
    /// Received and not done yet.
    pub input: Vec<u8>,
    /// To be sent.
    pub output: Vec<u8>,
    /// How much of `output` was sent.
    pub sent: usize,
    /// As how many bytes `output` counts among those that nobody reads (`event_loop::unread`).
    pub unread_bytes: usize,
    /// Replies owed, oldest first.
    pub pending: VecDeque<Slot>,
    /// The number of the oldest; numbers count up and wrap.
    pub first_number: u32,
    /// The keyspace it acts on, and the version of the routes it comes from.
    pub route: Option<Arc<Route>>,
    /// See `route`.
    pub route_version: u64,
    /// The socket may have more to read.
    pub readable: bool,
    /// The client has closed its side: read until the end is seen.
    pub hung_up: bool,
    /// The socket takes more.
    pub writable: bool,
    /// The next command must not start before all replies owed are there.
    pub barrier: bool,
    /// The next command waits for its shard ([`node::lane::Answer::Go`]) or its keyspace.
    pub awaiting: bool,
    /// So many questions to shards on other nodes it waits for.
    pub fetching: u32,
    /// What was fetched for the next command, which was put off for it.
    pub fetched: Fetched,
    /// The next command is answered with this error instead of being run.
    pub refuse_next: Option<Box<str>>,
    /// How the next command was to be answered when it was put off: muted or not.
    pub put_off_muted: Option<bool>,
    /// The time for which a command on all keys was put off: it is tried again with that.
    pub put_off_at: Option<Now>,
    /// What the next command, which takes values from shard to shard, has read by now.
    pub copy: Option<Box<Interactive>>,
    /// What the next command, which reads keys of several shards, has seen of them when it last
    /// looked, and how often it has.
    pub looked: Option<(u32, Vec<Seen>)>,
    /// Whether the ways to the keys of the next command were looked for, and those found so far.
    pub ways: Option<Vec<Trace>>,
    /// The ways to the keys of the last command for which they were looked for.
    pub last_ways: Vec<Trace>,
    /// The shards it was lately told that another node leads, for reads.
    pub(super) sent_on: SentOn,
    /// The shards it has written to, for WAIT; nothing on a node alone.
    pub(super) written: Written,
    /// What its writes under way may take of memory.
    pub(super) takes: TakesOwed,
    /// The client has sent its last; what it asked is still to be answered.
    pub ended: bool,
    /// Nothing more is read; closed when all is answered and sent.
    pub closing: bool,
    /// The socket is gone; forgotten when nothing is on its way any more.
    pub broken: bool,
    /// WATCH has just been answered with all that is to be sent, nothing was watched before, and
    /// nothing but reads has been done since: see [`Connection::may_watch_later`].
    pub watches_anew: bool,
    /// Its name as a contender for what it watches, if it is one (`event_loop::contends`).
    pub contends_as: Option<Timestamp>,
    /// Whether it reads what it watches in several shards at once, so that it looks twice.
    pub looks_twice: bool,
    /// Whether the transaction that it hands over is an EXEC with watched keys …
    pub executes_watched: bool,
    /// … and the one that is under way over shards.
    pub tries: bool,
    /// Whether its command has been put off as a contender's, and is to go on as any other.
    pub has_contended: bool,
    /// Whether its output is to be sent at the end of the turn.
    pub touched: bool,
    /// Whether its commands waited for its output to be sent.
    pub paused: bool,
    /// Whether it stands in the loop's queue.
    pub queued: bool,
    /// When it last sent something, in milliseconds.
    pub active_millis: u64,
}

/// A reply owed.
pub struct Slot {
    state: State,
    frame: Frame,
    /// To stand before it: replies that wait for it, an attribute.
    before: Vec<u8>,
    /// Whether it is a transaction's that only reads: whatever becomes of that, nothing is done.
    only_reads: bool,
}

/// How the reply will be written.
pub enum Frame {
    /// RESP; thrown away if muted (CLIENT REPLY).
    Resp {
        /// The protocol when the command came; a HELLO behind it changes nothing.
        version: Version,
        /// Whether it is.
        muted: bool,
    },
    /// Encoded already.
    Bytes,
    /// A native frame, which repeats the key.
    Native(Op, Box<[u8]>),
}

enum State {
    Waiting,
    Gathering {
        gather: Gather,
        left: u32,
        sum: i64,
        any_done: bool,
    },
    /// A part has failed; the reply is its error, once the others have come.
    Failing {
        text: Box<str>,
        left: u32,
        any_done: bool,
    },
    /// A transaction is under way, whose commands are answered so.
    Executing(Box<[Part]>),
    /// Boxed, so that other replies are no larger for it.
    Executed(Box<(Box<[Part]>, Reply)>),
    Done(Reply),
    Failed(Box<str>),
    Bytes(Vec<u8>),
}

/// How errors begin when it is not known whether anything was done (SAFETY G10).
const UNKNOWN: &str = "UNKNOWN";

/// What is said instead to who has only read.
const NOT_READ: &str = "BUSY a shard of the transaction has not answered in time, or is gone; it \
                        only reads, so nothing was done. Send it again";

impl State {
    /// What has failed, once all its parts have come. If others were done, "nothing was done" is
    /// not the truth.
    fn settled(self) -> Self {
        match self {
            State::Failing { text, left: 0, any_done: false } => State::Failed(text),
            State::Failing { text, left: 0, any_done: true } => {
                State::Failed(format!("{UNKNOWN} done for some of the keys only: {text}").into())
            }
            other => other,
        }
    }
}

impl State {
    /// How many errors it is. Who makes bytes counts those in them.
    fn errors(&self) -> u64 {
        let is_refused = |reply: &&Reply| matches!(reply, Reply::Refused(_));
        match self {
            State::Failed(_) | State::Done(Reply::Refused(_)) => 1,
            State::Executed(executed) => match &**executed {
                (_, Reply::Array(all)) => all.iter().filter(is_refused).count() as u64,
                (_, Reply::Refused(_)) => 1,
                (parts, Reply::Changed(_)) => u64::from(matches!(**parts, [Part::Committed])),
                _ => 0,
            },
            _ => 0,
        }
    }
}

impl Slot {
    fn new(state: State, frame: Frame) -> Self {
        Self { state, frame, before: Vec::new(), only_reads: false }
    }

    /// One reply to come.
    pub fn waiting(frame: Frame) -> Self {
        Self::new(State::Waiting, frame)
    }

    /// One reply made of `parts` that are to come.
    pub fn gathering(gather: Gather, parts: u32, frame: Frame) -> Self {
        Self::new(State::Gathering { gather, left: parts, sum: 0, any_done: false }, frame)
    }

    /// One reply of a transaction's many.
    pub fn executing(parts: Vec<Part>, frame: Frame) -> Self {
        Self::new(State::Executing(parts.into()), frame)
    }

    /// The same, of one that only reads or does not.
    pub fn reading(self, only_reads: bool) -> Self {
        Self { only_reads, ..self }
    }

    /// The same, with replies before it that are sent together with it.
    pub fn behind(self, before: Vec<u8>) -> Self {
        Self { before, ..self }
    }

    /// A reply that is known, behind others that are not.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self::new(State::Bytes(bytes), Frame::Bytes)
    }

    fn is_done(&self) -> bool {
        matches!(
            self.state,
            State::Done(_) | State::Failed(_) | State::Bytes(_) | State::Executed(..)
        )
    }
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(id: u64, transport: Transport, protocol: Protocol, now_millis: u64) -> Self {
        Self {
            id,
            transport,
            protocol,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            unread_bytes: 0,
            pending: VecDeque::new(),
            first_number: 0,
            route: None,
            route_version: u64::MAX,
            readable: true,
            hung_up: false,
            writable: true,
            barrier: false,
            awaiting: false,
            sent_on: SentOn::default(),
            fetching: 0,
            fetched: Fetched::default(),
            refuse_next: None,
            put_off_muted: None,
            put_off_at: None,
            copy: None,
            ways: None,
            last_ways: Vec::new(),
            looked: None,
            written: Written::default(),
            takes: TakesOwed::default(),
            ended: false,
            closing: false,
            broken: false,
            watches_anew: false,
            contends_as: None,
            looks_twice: false,
            executes_watched: false,
            tries: false,
            has_contended: false,
            touched: false,
            paused: false,
            queued: false,
            active_millis: now_millis,
        }
    }

    /// The number that the next reply owed will have.
    pub fn next_number(&self) -> u32 {
        self.first_number.wrapping_add(self.pending.len() as u32) & NUMBER_MASK
    }

    /// A reply, or a part of one, has come.
    pub fn fill(&mut self, number: u32, reply: Result<Reply, Box<str>>) {
        let at = (number.wrapping_sub(self.first_number) & NUMBER_MASK) as usize;
        let slot = self.pending.get_mut(at).expect("replies come to those who are owed them");
        if let State::Waiting = slot.state {
            slot.state = reply.map_or_else(State::Failed, State::Done);
            return;
        }
        slot.state = match (std::mem::replace(&mut slot.state, State::Waiting), reply) {
            (State::Gathering { gather, left, sum, .. }, Ok(reply)) => {
                let sum = sum + if let Reply::Int(n) = reply { n } else { 0 };
                match (left - 1, gather) {
                    (0, Gather::Sum) => State::Done(Reply::Int(sum)),
                    (0, Gather::Ok) => State::Done(Reply::Ok),
                    (0, Gather::One) => State::Done(Reply::Int(1)),
                    (left, _) => State::Gathering { gather, left, sum, any_done: true },
                }
            }
            (State::Gathering { left, any_done, .. }, Err(text)) => {
                State::Failing { text, left: left - 1, any_done }.settled()
            }
            (State::Failing { text, left, any_done }, reply) => {
                let any_done = any_done || reply.is_ok();
                State::Failing { text, left: left - 1, any_done }.settled()
            }
            (State::Executing(parts), Ok(reply)) => State::Executed(Box::new((parts, reply))),
            (State::Executing(_), Err(text)) if slot.only_reads && text.starts_with(UNKNOWN) => {
                State::Failed(NOT_READ.into())
            }
            (State::Executing(_), Err(text)) => State::Failed(text),
            (
                State::Waiting
                | State::Done(_)
                | State::Failed(_)
                | State::Bytes(_)
                | State::Executed(..),
                _,
            ) => unreachable!("a reply came twice"),
        };
    }

    /// The only reply that is owed, if it is known unless something changes.
    pub(super) fn told(&self) -> Option<&Told> {
        let (Some(slot), 1) = (self.pending.front(), self.pending.len()) else { return None };
        let State::Executing(parts) = &slot.state else { return None };
        if let [Part::Told(told)] = &**parts { Some(told) } else { None }
    }

    /// It is not true: takes back what is to be run again, and whether it is muted.
    pub(super) fn take_again(&mut self) -> Option<(Repeated, bool)> {
        self.told()?;
        let slot = self.pending.pop_front()?;
        let (State::Executing(parts), frame) = (slot.state, slot.frame) else { return None };
        let Some(Part::Told(told)) = parts.into_iter().next() else { return None };
        self.barrier = false;
        Some((told.again, matches!(frame, Frame::Resp { muted: true, .. })))
    }

    /// Writes the replies that are there, in order, up to the first that is not; how many of them
    /// are errors that nobody has counted yet.
    pub fn write_replies(&mut self, reason: native::Reason) -> u64 {
        let mut errors = 0;
        while self.pending.front().is_some_and(Slot::is_done) {
            let Some(slot) = self.pending.pop_front() else { break };
            errors += slot.state.errors();
            self.takes.is_answered(self.first_number);
            self.first_number = self.first_number.wrapping_add(1) & NUMBER_MASK;
            if !self.broken {
                self.write(slot, reason);
            }
        }
        if self.pending.is_empty() {
            self.barrier = false;
            self.takes.all_are_answered();
        }
        errors
    }

    fn write(&mut self, slot: Slot, reason: native::Reason) {
        if !slot.before.is_empty() {
            self.output.extend_from_slice(&slot.before);
        }
        match (slot.frame, slot.state) {
            (_, State::Bytes(bytes)) => self.output.extend_from_slice(&bytes),
            (Frame::Resp { muted: true, .. } | Frame::Bytes, _) => {}
            (Frame::Resp { version, .. }, state) => {
                let mut writer = RespWriter::new(&mut self.output, version);
                match state {
                    State::Done(reply) => reply.give(&mut writer),
                    State::Executed(executed) => {
                        let (parts, reply) = *executed;
                        write_executed(&parts, &reply, version, &mut self.output);
                    }
                    State::Failed(text) => writer.error(text.as_bytes()),
                    _ => unreachable!("only what is done is written"),
                }
            }
            (Frame::Native(op, key), state) => {
                let mut sink = FrameSink { out: &mut self.output, op, key: &key, reason };
                match state {
                    State::Done(reply) => reply.give(&mut sink),
                    // An error frame means that nothing was done. If that is not known, there is
                    // no frame to say so: the connection ends without one.
                    State::Failed(text) if text.starts_with(UNKNOWN) => self.broken = true,
                    State::Failed(text) => sink.error(&text),
                    _ => unreachable!("only what is done is written"),
                }
            }
        }
    }

    /// Puts an attribute before the reply of the command that has just been run: the first beyond
    /// so many bytes, or replies that are owed.
    pub fn precede(&mut self, attribute: Option<Box<[u8]>>, (bytes, owed): (usize, usize)) {
        let Some(attribute) = attribute else { return };
        if self.output.len() > bytes {
            self.output.splice(bytes..bytes, attribute);
        } else if let Some(slot) = self.pending.get_mut(owed) {
            slot.before.extend_from_slice(&attribute);
        }
    }

    /// Whether its next command, which is not to start before all replies owed are there, has to
    /// wait for some: then it does.
    pub fn waits_its_turn(&mut self) -> bool {
        self.barrier |= !self.pending.is_empty();
        !self.pending.is_empty()
    }

    /// Whether its next command must wait, whatever it is.
    pub fn must_wait(&self) -> bool {
        self.awaiting || (self.barrier && !self.pending.is_empty())
    }

    /// Takes back up to so many bytes at the end of what is to be sent.
    pub fn take_unsent(&mut self, bytes: usize) -> Vec<u8> {
        let bytes = bytes.min(self.unsent());
        self.output.split_off(self.output.len() - bytes)
    }

    /// Whether WATCH may still be done later than it was: nobody has been told that it is done, and
    /// nothing was watched before. It may be as late as the command that came right behind it.
    pub fn may_watch_later(&self, unsent: usize) -> bool {
        self.watches_anew && unsent == OK.len()
    }

    /// Whether to send nothing yet: WATCH's reply goes with that of the command that came with it
    /// and waits for what other nodes hold.
    pub fn is_held(&self) -> bool {
        self.fetching > 0 && self.may_watch_later(self.unsent())
    }

    /// Bytes waiting to be sent.
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether nothing of it is left to do.
    pub fn is_finished(&self) -> bool {
        let idle = self.pending.is_empty() && !self.awaiting;
        idle && (self.broken || (self.closing && self.unsent() == 0))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::listeners::TransportKind;

    #[test]
    fn who_only_reads_is_told_that_nothing_was_done() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it listens");
        let stream = TcpStream::connect(address).expect("somebody listens");
        let stream = Transport::new(TransportKind::Plain, stream);
        let mut connection = Connection::new(1, stream, Protocol::Native, 0);
        for only_reads in [true, false] {
            let frame = Frame::Resp { version: Version::V2, muted: false };
            let slot = Slot::executing(vec![Part::Next], frame).reading(only_reads);
            let number = connection.next_number();
            connection.pending.push_back(slot);
            connection.fill(number, Err("UNKNOWN nobody has answered".into()));
            connection.write_replies(native::Reason::Words);
        }
        let said = String::from_utf8(connection.output).expect("it is text");
        let said: Vec<&str> =
            said.split(' ').map(|word| word.rsplit("\r\n").next().unwrap()).collect();
        assert!(said.contains(&"-BUSY") && said.contains(&"-UNKNOWN"), "{said:?}");
    }
}
