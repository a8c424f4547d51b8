//! One client's connection: its socket, its unread input, and the replies it is owed, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use command::{Read, Reply};
use keyspace::ShardId;
use node::routing::pipeline::Pipeline;
use node::routing::route::Route;

use super::cluster::Redirects;
use super::late::Executed;
use super::memory_need::PendingMemoryNeeds;
use super::pending_reply::{PendingReply, ReplyFrame, ReplyKind, ReplyState, UNKNOWN};
use super::pubsub::CommitEffect;
use super::state::{ConnectionState, LoopLists, Next, Output, Ready, WaitsFor, Watching};
use super::timing::TimedRequests;
use super::tracking_connection::TrackingConnection;
use super::transactions::{ExecPart, effects_of, write_executed};
use super::transport::Transport;
use super::value_moves::{RetriedCommand, SpeculativeReply};
use super::volumes::{FENCED, VolumeSession};
use super::wait::WrittenShards;
use crate::runtime::lookups::Trace;
use gateway::access::Principal;
use gateway::native::{self, FrameSink};
use gateway::resp::{ArgRanges, Mode, RespWriter, Session, Version};

mod joined_reads;

/// Replies that one connection may be owed. Beyond, its further commands wait in its buffer.
pub const PENDING_MAX: usize = 4096;

/// What WATCH and MULTI answer.
pub const OK: &[u8] = b"+OK\r\n";
/// What a command that is queued is answered.
pub const QUEUED: &[u8] = b"+QUEUED\r\n";

/// Numbers of replies owed have 31 bits; others mean something else to the loop.
const NUMBER_MASK: u32 = u32::MAX >> 1;

/// Whether a reply owed is that of this number, or stands before it.
pub(super) fn is_at_most(reply: u32, number: u32) -> bool {
    number.wrapping_sub(reply) & NUMBER_MASK < PENDING_MAX as u32
}

/// The protocol of a connection, and what it remembers.
pub enum Protocol {
    /// RESP.
    Resp(Box<Session>, ArgRanges),
    /// Native frames.
    Native,
    /// The blocks of a volume.
    Volume(Box<VolumeSession>),
}

/// Where a reply goes: behind bytes that are ready to be sent, or behind replies owed.
#[derive(Clone, Copy)]
pub struct ReplyPlace {
    bytes: usize,
    owed: usize,
}

/// What replies are, as far as the process counts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepliesCount {
    /// Errors.
    pub errors: u64,
    /// GETs that found a value, of those that have joined a batch of the log.
    pub hits: u64,
    /// … and that found none.
    pub misses: u64,
}

/// One client.
pub struct Connection {
    /// Its number in the whole process, never used again.
    pub id: u64,
    /// Whether this node made it for itself: it is not counted, shown or closed when idle.
    pub is_own: bool,
    /// In which mode it is answered: the node's, unless a script of another node's client has it.
    pub mode: Mode,
    /// The command in what other connections' CLIENT LIST shows of it.
    pub(super) shown_command: &'static str,
    /// The client.
    pub principal: Principal,
    /// The way to its client.
    pub transport: Transport,
    /// What is known of its socket.
    pub ready: Ready,
    /// Its lifecycle.
    pub life: ConnectionState,
    /// How it speaks.
    pub protocol: Protocol,
    /// Received and not done yet.
    pub input: Vec<u8>,
    /// To be sent.
    pub output: Output,
    /// Replies owed, oldest first, and pushes between them.
    pub pending: VecDeque<PendingReply>,
    /// The number of the oldest; numbers count up and wrap.
    pub first_number: u32,
    /// What reads behind replies owed must know.
    pub pipeline: Pipeline,
    /// How many of the oldest parked reads were there when `next.at` was taken for them.
    pub(super) parked_at: usize,
    /// Its next command, or its oldest parked read while that waits for a shard.
    pub next: Next,
    /// What it watches.
    pub watching: Watching,
    /// The keyspace it acts on, and the version of the routes it comes from.
    pub route: Option<Arc<Route>>,
    /// See `route`.
    pub route_version: u64,
    /// The routes of the last command that had a lookup.
    pub last_routes: Vec<Trace>,
    /// The shards for which a read of it was lately redirected.
    pub(super) redirects: Redirects,
    /// The shards it has written to, for WAIT; nothing on a node alone.
    pub(super) written: WrittenShards,
    /// What its client caches, if it does.
    pub(super) tracking: Option<Box<TrackingConnection>>,
    /// The reply of its newest PUBLISH that waits for other nodes.
    pub(super) published: Option<u32>,
    /// What committed transactions do beside their writes, to be done now.
    pub(super) effects: Vec<CommitEffect>,
    /// What its writes under way may take of memory.
    pub(super) takes: PendingMemoryNeeds,
    /// Whether its client is gone, or has ended its side: for its scripts.
    pub gone: Arc<AtomicBool>,
    /// Which lists of its loop it is in.
    pub turn: LoopLists,
    /// When it last sent something, in milliseconds.
    pub active_millis: u64,
    /// Requests whose time is taken.
    pub(super) timed: Option<TimedRequests>,
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(
        id: u64,
        principal: Principal,
        transport: Transport,
        protocol: Protocol,
        now_millis: u64,
    ) -> Self {
        Self {
            id,
            is_own: false,
            mode: Mode::default(),
            shown_command: "",
            principal,
            transport,
            ready: Ready { readable: true, hung_up: false, writable: true },
            life: ConnectionState::Open,
            protocol,
            input: Vec::new(),
            output: Output::default(),
            pending: VecDeque::new(),
            first_number: 0,
            pipeline: Pipeline::default(),
            parked_at: 0,
            next: Next::default(),
            watching: Watching::default(),
            route: None,
            route_version: u64::MAX,
            last_routes: Vec::new(),
            redirects: Redirects::default(),
            written: WrittenShards::default(),
            tracking: None,
            published: None,
            effects: Vec::new(),
            takes: PendingMemoryNeeds::default(),
            gone: Arc::default(),
            turn: LoopLists::default(),
            active_millis: now_millis,
            timed: None,
        }
    }

    /// Moves its lifecycle on, at least to this.
    pub fn advance(&mut self, life: ConnectionState) {
        self.life = self.life.max(life);
    }

    /// Sends a push of these bytes, whole frames, behind all replies that are owed now. Not if it
    /// would make what waits for the client longer than `bytes_max`, or the replies and pushes
    /// that wait too many, or if the client speaks no RESP3: then nothing is sent.
    pub fn push(&mut self, frames: Vec<u8>, bytes_max: usize) -> bool {
        let Protocol::Resp(session, _) = &self.protocol else { return false };
        session.version() == Version::V3 && self.push_frames(&frames, bytes_max)
    }

    /// The same to a client of any protocol, which may be the one that is being served.
    pub(super) fn push_frames(&mut self, frames: &[u8], bytes_max: usize) -> bool {
        let waiting = self.unsent() + self.output.pushes_bytes;
        let joins = self.pending.back().is_some_and(PendingReply::is_push);
        let is_too_many = self.pending.len() >= PENDING_MAX && !joins;
        let is_too_much = waiting + frames.len() > bytes_max || is_too_many;
        if is_too_much || self.life >= ConnectionState::Closing {
            return false;
        }
        // It may be long before another command comes: WATCH's reply is on its way with it.
        self.watching.is_new = false;
        if self.pending.is_empty() {
            self.output.bytes.extend_from_slice(frames);
            return true;
        }
        self.output.pushes_bytes += frames.len();
        match self.pending.back_mut() {
            Some(last) if joins => last.push_more(frames),
            _ => self.pending.push_back(PendingReply::push(frames.to_vec())),
        }
        true
    }

    /// Sends a push of these bytes, whole frames, before all replies that are owed now. Not if it
    /// would make what waits for the client longer than `bytes_max`; then nothing is sent.
    pub(super) fn push_before_replies(&mut self, frames: &[u8], bytes_max: usize) -> bool {
        if self.life >= ConnectionState::Closing {
            return true;
        }
        if self.unsent() + self.output.pushes_bytes + frames.len() > bytes_max {
            return false;
        }
        self.watching.is_new = false;
        self.output.bytes.extend_from_slice(frames);
        true
    }

    /// Whether nothing is owed but counts of messages that it has published right before.
    pub(super) fn may_publish(&self) -> bool {
        let newest = self.next_number().wrapping_sub(1) & NUMBER_MASK;
        self.pending.is_empty() || self.published == Some(newest)
    }

    /// The number that the next reply owed will have.
    pub fn next_number(&self) -> u32 {
        self.first_number.wrapping_add(self.pending.len() as u32) & NUMBER_MASK
    }

    /// A reply, or a part of one, has come; from this shard, if it was done.
    #[inline]
    pub fn fill(&mut self, number: u32, reply: Result<Reply, Box<str>>, shard: Option<ShardId>) {
        let at = (number.wrapping_sub(self.first_number) & NUMBER_MASK) as usize;
        let reply = match (reply, &mut self.protocol) {
            (Ok(Reply::Fenced { .. }), Protocol::Volume(session)) => {
                session.fenced();
                Err(FENCED.into())
            }
            (reply, _) => reply,
        };
        let slot = self.pending.get_mut(at).expect("replies come to those who are owed them");
        slot.shard = shard;
        slot.fill(reply);
        if slot.kind == ReplyKind::JoinedRead {
            self.hold_answer(at, number);
        }
    }

    /// The only reply that is owed, if it is known unless something changes.
    pub(super) fn speculative_reply(&self) -> Option<&SpeculativeReply> {
        let ReplyState::Executing(parts) = &self.pending.front()?.state else { return None };
        if !self.pending.iter().skip(1).all(PendingReply::is_push) {
            return None;
        }
        if let [ExecPart::Speculative(speculative)] = &**parts { Some(speculative) } else { None }
    }

    /// Its speculative reply is not valid: returns the command to run again, and whether it is
    /// muted.
    pub(super) fn take_again(&mut self) -> Option<(RetriedCommand, bool)> {
        self.speculative_reply()?;
        let slot = self.pending.pop_front()?;
        let (ReplyState::Executing(parts), frame) = (slot.state, slot.frame) else { return None };
        let Some(ExecPart::Speculative(speculative)) = parts.into_iter().next() else {
            return None;
        };
        self.next.barrier = false;
        // Pushes have waited for it.
        if !self.pending.is_empty() {
            self.write_replies(native::ErrorText::Empty);
        }
        Some((speculative.again, matches!(frame, ReplyFrame::Resp { muted: true, .. })))
    }

    /// Writes the complete replies, in order, up to the first that is not. Returns what in them was
    /// not counted yet.
    pub fn write_replies(&mut self, reason: native::ErrorText) -> RepliesCount {
        let mut count = RepliesCount::default();
        while self.pending.front().is_some_and(PendingReply::is_done) {
            if !self.settle_read() {
                break;
            }
            if let Some((ReplyKind::JoinedRead, ReplyState::Done(reply))) =
                self.pending.front().map(|slot| (slot.kind, &slot.state))
                && let Some((_, Read::Get(_))) = self.pipeline.reads().next()
            {
                *if *reply == Reply::Nil { &mut count.misses } else { &mut count.hits } += 1;
            }
            if self.tracking.is_some() {
                self.tell_before_reply();
            }
            let number = self.first_number;
            let Some(slot) = self.pop_reply() else { break };
            count.errors += slot.state.errors();
            if self.life < ConnectionState::Broken {
                self.write(slot, reason);
                if self.tracking.is_some() {
                    self.tell_behind_reply(number);
                }
            } else if let ReplyState::Executed(executed) = slot.state {
                self.effects.extend(effects_of(&executed.0, &executed.1));
            }
        }
        self.end_replies();
        count
    }

    /// Puts what the oldest reply owed depends on before it.
    #[cold]
    fn tell_before_reply(&mut self) {
        let Protocol::Resp(session, _) = &self.protocol else { return };
        if let (Some(tracking), Some(slot)) = (&mut self.tracking, self.pending.front())
            && self.life < ConnectionState::Broken
        {
            let out = &mut self.output.bytes;
            tracking.before_reply(self.first_number, &slot.state, session.version(), out);
        }
    }

    /// Puts what a reply that was just written may show otherwise behind it.
    #[cold]
    fn tell_behind_reply(&mut self, number: u32) {
        let Protocol::Resp(session, _) = &self.protocol else { return };
        if let Some(tracking) = &mut self.tracking {
            tracking.after_reply(number, session.version(), &mut self.output.bytes);
        }
    }

    /// Takes the oldest reply owed.
    #[inline]
    pub(super) fn pop_reply(&mut self) -> Option<PendingReply> {
        let slot = self.pending.pop_front()?;
        self.takes.is_answered(self.first_number);
        self.first_number = self.first_number.wrapping_add(1) & NUMBER_MASK;
        match slot.kind {
            ReplyKind::JoinedRead | ReplyKind::ParkedRead => {
                self.takes.release(slot.answer_bytes().unwrap_or(0));
                self.pipeline.pop();
            }
            _ => slot.shard.into_iter().for_each(|shard| self.pipeline.answered(shard)),
        }
        Some(slot)
    }

    /// If nothing is owed any more, forgets what concerns replies owed.
    pub(super) fn end_replies(&mut self) {
        if self.pending.is_empty() {
            self.next.barrier = false;
            self.next.scripts = None;
            self.takes.all_are_answered();
            self.pipeline.all_are_answered();
        }
    }

    fn write(&mut self, slot: PendingReply, reason: native::ErrorText) {
        if !slot.before.is_empty() {
            self.output.bytes.extend_from_slice(&slot.before);
        }
        match (slot.frame, slot.state) {
            (ReplyFrame::Push, ReplyState::Bytes(bytes)) => {
                self.output.pushes_bytes -= bytes.len();
                self.output.bytes.extend_from_slice(&bytes);
            }
            (_, ReplyState::Bytes(bytes)) => self.output.bytes.extend_from_slice(&bytes),
            (ReplyFrame::Kept, state) => {
                let (parts, outcome) = match state {
                    ReplyState::Executed(executed) => (executed.0, Ok(executed.1)),
                    ReplyState::Failed(text) => (Box::default(), Err(text)),
                    _ => unreachable!("only what is done is written"),
                };
                self.next.executed = Some(Box::new(Executed { parts, outcome }));
            }
            (ReplyFrame::Resp { muted: true, .. }, ReplyState::Executed(executed)) => {
                self.effects.extend(effects_of(&executed.0, &executed.1));
            }
            (ReplyFrame::Resp { muted: true, .. } | ReplyFrame::Bytes | ReplyFrame::Push, _) => {}
            (ReplyFrame::Resp { version, .. }, state) => {
                let mut writer = RespWriter::new(&mut self.output.bytes, version);
                match state {
                    ReplyState::Done(reply) => reply.give(&mut writer),
                    ReplyState::Executed(executed) => {
                        let (parts, reply) = *executed;
                        write_executed(&parts, &reply, version, &mut self.output.bytes);
                        self.effects.extend(effects_of(&parts, &reply));
                    }
                    ReplyState::Failed(text) => writer.error(text.as_bytes()),
                    _ => unreachable!("only what is done is written"),
                }
            }
            (ReplyFrame::Volume(reply), state) => {
                let Protocol::Volume(session) = &mut self.protocol else { return };
                let failed = match &state {
                    ReplyState::Failed(text) => Some(&**text),
                    ReplyState::Done(Reply::Refused(_)) => Some("the block cannot be written"),
                    _ => None,
                };
                session.answered(reply, failed, &mut self.output.bytes);
            }
            (ReplyFrame::Native(op, key), state) => {
                let mut sink = FrameSink { out: &mut self.output.bytes, op, key: &key, reason };
                match state {
                    ReplyState::Done(reply) => reply.give(&mut sink),
                    // An error frame means that nothing was done. If that is not known, there is
                    // no frame to say so: the connection ends without one.
                    ReplyState::Failed(text) if text.starts_with(UNKNOWN) => {
                        self.advance(ConnectionState::Broken)
                    }
                    ReplyState::Failed(text) => sink.error(&text),
                    _ => unreachable!("only what is done is written"),
                }
            }
        }
    }

    /// Its next reply is this.
    pub fn reply_with(&mut self, bytes: Vec<u8>) {
        match self.pending.is_empty() {
            true => self.output.bytes.extend_from_slice(&bytes),
            false => self.pending.push_back(PendingReply::bytes(bytes)),
        }
    }

    /// It is owed the reply of a read whose keys a transaction locks.
    pub fn owe_locked(&mut self, part: ExecPart, frame: ReplyFrame) {
        self.pending.push_back(PendingReply::executing(vec![part], frame).reading(true));
    }

    /// Where the next reply will be.
    pub fn reply_place(&self) -> ReplyPlace {
        ReplyPlace { bytes: self.output.bytes.len(), owed: self.pending.len() }
    }

    /// Puts an attribute before the reply of the command that has just been run: the first at this
    /// place.
    pub fn precede(&mut self, attribute: Option<Box<[u8]>>, place: ReplyPlace) {
        let Some(attribute) = attribute else { return };
        let ReplyPlace { bytes, owed } = place;
        if self.output.bytes.len() > bytes {
            self.output.bytes.splice(bytes..bytes, attribute);
        } else if let Some(slot) = self.pending.get_mut(owed) {
            slot.before.extend_from_slice(&attribute);
        }
    }

    /// Whether its next command, which must not start before all replies owed are complete, has to
    /// wait. Then it is marked as waiting.
    pub fn waits_at_barrier(&mut self) -> bool {
        self.next.barrier |= !self.pending.is_empty();
        !self.pending.is_empty()
    }

    /// Bytes that are a reply, or no bytes if it is muted, have come.
    pub fn fill_bytes(&mut self, number: u32, bytes: Vec<u8>) {
        let at = (number.wrapping_sub(self.first_number) & NUMBER_MASK) as usize;
        let slot = self.pending.get_mut(at).expect("replies come to those who are owed them");
        slot.fill_bytes(bytes);
    }

    /// Whether its next command, which is no script of that queue, must wait for scripts. Then it
    /// is marked as waiting.
    pub fn waits_for_scripts(&mut self) -> bool {
        self.next.barrier |= self.next.scripts.is_some();
        self.next.scripts.is_some()
    }

    /// Whether its next command must wait, whatever it is.
    pub fn must_wait(&self) -> bool {
        self.next.waits_for != WaitsFor::Nothing || (self.next.barrier && !self.pending.is_empty())
    }

    /// Takes back up to so many bytes at the end of what is to be sent.
    pub fn take_unsent(&mut self, bytes: usize) -> Vec<u8> {
        let bytes = bytes.min(self.unsent());
        self.output.bytes.split_off(self.output.bytes.len() - bytes)
    }

    /// Whether WATCH may still take effect later: its reply is unsent, and nothing was watched
    /// before. It may take effect with the command right behind it.
    pub fn may_watch_later(&self, unsent: usize) -> bool {
        self.watching.is_new && unsent == OK.len()
    }

    /// Whether output is held back: WATCH's reply is sent with that of the next command, which
    /// waits for answers of other nodes.
    pub fn is_held(&self) -> bool {
        matches!(self.next.waits_for, WaitsFor::Fetches(1..)) && self.may_watch_later(self.unsent())
    }

    /// Bytes waiting to be sent.
    pub fn unsent(&self) -> usize {
        self.output.bytes.len() - self.output.sent
    }

    /// Whether nothing of it is left to do.
    pub fn is_finished(&self) -> bool {
        let idle = self.pending.is_empty() && self.next.waits_for == WaitsFor::Nothing;
        idle && match self.life {
            ConnectionState::Open | ConnectionState::Ended => false,
            ConnectionState::Closing => self.unsent() == 0,
            ConnectionState::Broken => true,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{TcpListener, TcpStream};

    use overlay::LookupChoice;

    use super::*;
    use crate::listeners::TransportKind;

    #[test]
    fn failed_read_only_command_reports_not_done() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("the listener has an address");
        let stream = TcpStream::connect(address).expect("somebody listens");
        let stream = Transport::new(TransportKind::Plain, None, stream).expect("a plain socket");
        let mut connection = Connection::new(1, Principal::Local, stream, Protocol::Native, 0);
        for only_reads in [true, false] {
            let frame = ReplyFrame::Resp { version: Version::V2, muted: false };
            let slot = PendingReply::executing(vec![ExecPart::Next], frame).reading(only_reads);
            let number = connection.next_number();
            connection.pending.push_back(slot);
            connection.fill(number, Err("UNKNOWN nobody has answered".into()), None);
            connection.write_replies(native::ErrorText::Text);
        }
        let replies = String::from_utf8(connection.output.bytes).expect("the bytes are text");
        let replies: Vec<&str> =
            replies.split(' ').map(|word| word.rsplit("\r\n").next().unwrap()).collect();
        assert!(replies.contains(&"-BUSY") && replies.contains(&"-UNKNOWN"), "{replies:?}");
    }

    /// A RESP3 connection and its client's end.
    pub(in crate::event_loop) fn connect() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("the listener has an address");
        let client = TcpStream::connect(address).expect("somebody listens");
        let (stream, _) = listener.accept().expect("a client has connected");
        let (limits, lookup) = (gateway::resp::RequestLimits::default(), LookupChoice::default());
        let peer = gateway::resp::Peer::default();
        let session = Box::new(Session::new(1, peer, limits, lookup, 0));
        let protocol = Protocol::Resp(session, ArgRanges::new());
        let transport = Transport::new(TransportKind::Plain, None, stream).expect("a plain socket");
        (Connection::new(1, Principal::Local, transport, protocol, 0), client)
    }

    fn pushed(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = RespWriter::new(&mut bytes, Version::V3);
        writer.push(1);
        command::Sink::bulk(&mut writer, text.as_bytes());
        bytes
    }

    pub(in crate::event_loop) fn owe(connection: &mut Connection) -> u32 {
        let number = connection.next_number();
        let frame = ReplyFrame::Resp { version: Version::V3, muted: false };
        connection.pending.push_back(PendingReply::waiting(frame));
        number
    }

    #[test]
    fn messages_join_the_push_before_them_within_the_limits() {
        let (mut connection, _client) = connect();
        owe(&mut connection);
        for number in 0..2 * PENDING_MAX {
            assert!(connection.push_frames(b"+m\r\n", 1 << 20), "message {number}");
        }
        assert_eq!(connection.pending.len(), 2, "they wait together for the reply owed before");
        assert_eq!(connection.output.pushes_bytes, 2 * PENDING_MAX * 4);
        assert!(!connection.may_publish());
        let newest = connection.next_number();
        owe(&mut connection);
        connection.published = Some(newest);
        assert!(connection.may_publish(), "only counts of messages are owed behind the newest");
        (connection.pending.len()..PENDING_MAX).for_each(|_| _ = owe(&mut connection));
        assert!(!connection.push_frames(b"+m\r\n", 1 << 20), "too many replies are owed");
    }

    #[test]
    fn pushes_come_behind_the_replies_owed_before_them_within_the_limit_of_output() {
        use std::io::{Read as _, Write as _};

        let (mut connection, mut client) = connect();
        assert!(!connection.push(pushed("x"), 1000), "the client speaks RESP2");
        let Protocol::Resp(session, _) = &mut connection.protocol else { panic!("RESP") };
        session.set_version(Version::V3);

        assert!(connection.push(pushed("a"), 1000));
        let first = owe(&mut connection);
        assert!(connection.push(pushed("b"), 1000));
        let second = owe(&mut connection);
        assert!(connection.push(pushed("c"), 1000));
        let waiting = connection.unsent() + connection.output.pushes_bytes;
        assert!(!connection.push(pushed("d"), waiting + pushed("d").len() - 1), "one byte more");
        connection.fill(second, Ok(Reply::Int(2)), None);
        connection.write_replies(native::ErrorText::Empty);
        assert_eq!(connection.output.bytes, pushed("a"), "the first reply is owed before all");
        connection.fill(first, Ok(Reply::Int(1)), None);
        connection.write_replies(native::ErrorText::Empty);
        assert_eq!((connection.output.pushes_bytes, connection.pending.len()), (0, 0));

        let sent = std::mem::take(&mut connection.output.bytes);
        connection.transport.write_all(&sent).expect("the client is there");
        connection.transport.shut_down();
        let mut got = Vec::new();
        client.read_to_end(&mut got).expect("the end comes");
        let expected = [&pushed("a")[..], b":1\r\n", &pushed("b"), b":2\r\n", &pushed("c")];
        assert_eq!(got, expected.concat());
    }
}
