//! The sending side: which streams begin, what each sends next, and how each ends.
//!
//! | limit | when reached |
//! |---|---|
//! | streams to one node | other requests wait |
//! | streams to all nodes to which there is a link | other requests wait |
//! | unconfirmed bytes of a stream | it waits ([`crate::rpc::stream::outgoing`]) |
//! | bytes a second, of blocks that are not urgent | they wait, in turn ([`crate::rpc::stream::pace`]) |
//!
//! A stream is *urgent* as long as nothing is committed in its shard without it. Clients wait for
//! each of its blocks, so it does not wait for the rate, its bytes do not count against that of
//! others, and only other urgent ones take its place.
//!
//! What ends a stream:
//! - its receiver has installed it, or takes nothing;
//! - a newer request for the same destination;
//! - this node does not lead the shard in the stream's term any more;
//! - the replica is no member of the shard any more;
//! - another snapshot has taken the place of the state here;
//! - nothing is confirmed for long.
//!
//! Example: a leader asks for a stream to replica 7 and loses the link. The stream stays, takes no
//! place of others, and goes on when there is a link again. If the leader asks once more meanwhile,
//! the newer request ends the stream and begins another.
//!
//! Invariants:
//! 1. There is one stream to a destination at most.
//! 2. Of each request the leader hears that its snapshot is lost ([`SnapshotSender::take_lost`]),
//!    unless a newer request for the same destination comes first: a group sends nothing to a
//!    replica while it takes a snapshot to be on its way.
//! 3. No block leaves for a replica after it is known to be no member.

use std::collections::{BTreeSet, VecDeque};

use keyspace::{NodeId, ReplicaId, ShardId};
use replication::{BootNanos, Message};

use super::Destination;
use super::source::{Blocks, DestinationFacts};
use crate::executor::Envelope;
use crate::recovery::checkpoint::Checkpoint;
use crate::rpc::stream::frame::{ReceiverFrame, tag};
use crate::rpc::stream::outgoing::{InvalidProgress, OutgoingStream, SendAction};
use crate::rpc::stream::pace::Pace;

/// Bounds of a sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderLimits {
    /// Bytes of a stream that are kept until they are confirmed.
    pub unconfirmed_bytes_max: usize,
    /// Streams to one node.
    pub streams_to_node_max: usize,
    /// Streams to all nodes to which there is a link.
    pub streams_max: usize,
    /// How long the receiver's executor has to install what it was sent, and to tell its leader.
    pub install_nanos: BootNanos,
    /// When a leader may try again what the receiver does not take.
    pub retry_nanos: BootNanos,
    /// How often the sender wants facts.
    pub check_nanos: BootNanos,
}

/// A state that a leader wants sent.
#[derive(Clone, Debug)]
pub struct SnapshotRequest<H = Message> {
    /// Where it goes.
    pub to: Destination,
    /// On this node.
    pub node: NodeId,
    /// The leader's term.
    pub term: u64,
    /// The message that heads it.
    pub head: H,
}

impl SnapshotRequest {
    /// What the head of a snapshot asks for.
    pub fn of(envelope: Envelope) -> Self {
        let Envelope { shard, node, message, .. } = envelope;
        let (replica, term) = (message.to(), message.term());
        Self { to: Destination { shard, replica }, node, term, head: message }
    }
}

/// How a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// It is installed.
    Installed,
    /// The receiver takes nothing.
    Declined,
    /// The answer of the receiver is impossible.
    InvalidProgress(InvalidProgress),
    /// For this reason.
    Broken(String),
}

/// A stream that has ended, or did not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedStream {
    /// Where it went.
    pub to: Destination,
    /// How.
    pub ending: StreamEnding,
    /// The node, bytes of blocks that were sent, and when it began; unless it did not.
    pub sent: Option<(NodeId, u64, BootNanos)>,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// Where it goes.
    pub to: Destination,
    /// Bytes of blocks sent; those sent again count again.
    pub sent_bytes: u64,
    /// Bytes there are, about.
    pub about_bytes: u64,
}

impl StreamProgress {
    /// Whether it is of this shard, to this replica.
    pub fn goes_to(&self, shard: ShardId, replica: ReplicaId) -> bool {
        self.to == Destination { shard, replica }
    }

    /// Bytes still to be sent, about.
    pub fn left_bytes(&self) -> u64 {
        self.about_bytes.saturating_sub(self.sent_bytes)
    }
}

/// What a stream sends next.
#[derive(Debug, PartialEq, Eq)]
pub enum NextFrame<'a> {
    /// Nothing at present.
    Nothing,
    /// Nothing before this time: a block is ready, and the rate holds it.
    Held(BootNanos),
    /// A frame; say [`SnapshotSender::sent`] when it has left.
    Frame(Frame<'a>),
    /// Nothing: it has ended.
    Ended,
}

/// A frame of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// To this node.
    pub node: NodeId,
    /// Its tag.
    pub tag: u8,
    /// The stream's number.
    pub stream: u64,
    /// The number that it carries.
    pub number: u32,
    /// The block, if it carries one.
    pub block: &'a [u8],
    /// Whether clients wait for it.
    pub is_urgent: bool,
}

struct Stream<B> {
    number: u64,
    to: Destination,
    node: NodeId,
    term: u64,
    /// Until its last block is made.
    blocks: Option<B>,
    begun: BootNanos,
    sent_bytes: u64,
    about_bytes: u64,
    out: OutgoingStream,
    /// The frame that is to leave.
    due: SendAction,
}

/// See the module's documentation.
pub struct SnapshotSender<H = Message, B = Checkpoint> {
    limits: SenderLimits,
    pace: Pace,
    requests: VecDeque<SnapshotRequest<H>>,
    /// In the order in which they may send their next blocks.
    streams: Vec<Stream<B>>,
    next_number: u64,
    urgent: BTreeSet<Destination>,
    /// When facts were given last.
    learned_at: Option<BootNanos>,
    /// Leaders hear at these times that their snapshots are lost.
    lost: Vec<(Destination, BootNanos)>,
    ended: Vec<EndedStream>,
    /// Planted: members are not looked at.
    ignores_members: bool,
}

impl<H, B: Blocks> SnapshotSender<H, B> {
    /// A sender without streams, whose first one has this number.
    pub fn new(limits: SenderLimits, pace: Pace, first_number: u64) -> Self {
        Self {
            limits,
            pace,
            requests: VecDeque::new(),
            streams: Vec::new(),
            next_number: first_number,
            urgent: BTreeSet::new(),
            learned_at: None,
            lost: Vec::new(),
            ended: Vec::new(),
            ignores_members: false,
        }
    }

    /// A planted bug that the simulator must find: streams to removed replicas go on.
    pub fn plant_stream_to_removed_replica(&mut self) {
        self.ignores_members = true;
    }

    /// A leader wants a state sent.
    pub fn ask(&mut self, request: SnapshotRequest<H>) {
        self.requests.retain(|other| other.to != request.to);
        self.requests.push_back(request);
    }

    /// There is a link to a node, or none any more.
    pub fn linked(&mut self, node: NodeId, is_up: bool) {
        let there = self.streams.iter_mut().filter(|stream| stream.node == node);
        there.for_each(|stream| stream.out.set_link(is_up));
    }

    /// Whether it is time for facts of all [`Self::destinations`].
    pub fn wants_facts(&self, now: BootNanos) -> bool {
        self.learned_at.is_none_or(|at| now >= at + self.limits.check_nanos)
    }

    /// Of streams, and of requests that wait.
    pub fn destinations(&self) -> impl Iterator<Item = Destination> {
        let requested = self.requests.iter().map(|request| request.to);
        self.streams.iter().map(|stream| stream.to).chain(requested)
    }

    /// Learns the state of destinations. Returns those that have become urgent.
    pub fn learn(
        &mut self,
        facts: &[(Destination, DestinationFacts)],
        now: BootNanos,
    ) -> Vec<Destination> {
        self.learned_at = Some(now);
        for (to, facts) in facts {
            let Some(place) = self.streams.iter().position(|stream| stream.to == *to) else {
                continue;
            };
            if let Err(why) = self.check(self.streams[place].term, facts) {
                self.end(place, StreamEnding::Broken(why.to_owned()), now);
            }
        }
        let urgent = facts.iter().filter(|(_, facts)| facts.is_urgent).map(|(to, _)| *to);
        let urgent: BTreeSet<Destination> = urgent.collect();
        let new = urgent.difference(&self.urgent).copied().collect();
        self.urgent = urgent;
        new
    }

    /// Whether a stream of this term may be sent; if not, why.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self, term: u64, facts: &DestinationFacts) -> Result<(), &'static str> {
        if facts.leads_term != Some(term) {
            return Err("this node does not lead it any more");
        }
        match facts.is_member || self.ignores_members {
            true => Ok(()),
            false => Err("the replica is no member of it any more"),
        }
    }

    /// The request whose stream begins now, if there is a place for one: an urgent one, if there is
    /// any. It ends an older stream to the same destination. Say [`Self::begin`] or
    /// [`Self::refuse`].
    pub fn take_request(&mut self) -> Option<SnapshotRequest<H>> {
        let is_urgent = |request: &SnapshotRequest<H>| self.urgent.contains(&request.to);
        let mut waiting = self.requests.iter();
        let first = waiting.position(|asked| is_urgent(asked) && self.has_place(asked, true));
        let first = first.or_else(|| {
            let mut waiting = self.requests.iter();
            waiting.position(|asked| self.has_place(asked, false))
        });
        let request = self.requests.remove(first?)?;
        self.streams.retain(|stream| stream.to != request.to);
        self.lost.retain(|(to, _)| *to != request.to);
        Some(request)
    }

    /// Whether a stream may begin beside the others; or beside urgent ones only.
    fn has_place(&self, request: &SnapshotRequest<H>, only_urgent: bool) -> bool {
        let (mut to_node, mut linked) = (0, 0);
        let others = self.streams.iter().filter(|stream| stream.to != request.to);
        for other in others.filter(|other| !only_urgent || self.urgent.contains(&other.to)) {
            to_node += usize::from(other.node == request.node);
            linked += usize::from(other.out.is_linked());
        }
        to_node < self.limits.streams_to_node_max && linked < self.limits.streams_max
    }

    /// A stream begins; its number.
    pub fn begin<G>(
        &mut self,
        request: &SnapshotRequest<G>,
        blocks: B,
        about_bytes: u64,
        now: BootNanos,
    ) -> u64 {
        let SnapshotRequest { to, node, term, .. } = *request;
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let out = OutgoingStream::new(self.limits.unconfirmed_bytes_max, now);
        self.streams.push(Stream {
            number,
            to,
            node,
            term,
            blocks: Some(blocks),
            begun: now,
            sent_bytes: 0,
            about_bytes,
            out,
            due: SendAction::Nothing,
        });
        number
    }

    /// A stream does not begin, or its beginning could not be sent.
    pub fn refuse(&mut self, to: Destination, why: String, now: BootNanos) {
        match self.streams.iter().position(|stream| stream.to == to) {
            Some(place) => self.end(place, StreamEnding::Broken(why), now),
            None => {
                self.over(EndedStream { to, ending: StreamEnding::Broken(why), sent: None }, now)
            }
        }
    }

    /// Streams on their way.
    pub fn count(&self) -> usize {
        self.streams.len()
    }

    /// What the stream at a place sends next.
    pub fn next_frame(&mut self, place: usize, now: BootNanos) -> NextFrame<'_> {
        let is_urgent = self.urgent.contains(&self.streams[place].to);
        let held_until = self.pace.held_until(now).filter(|_| !is_urgent);
        let stream = &mut self.streams[place];
        let mut due = stream.out.due(held_until.is_some(), now);
        if due == SendAction::Make {
            if !stream.make() {
                let why = "another snapshot has taken its place".to_owned();
                self.end(place, StreamEnding::Broken(why), now);
                return NextFrame::Ended;
            }
            due = stream.out.due(held_until.is_some(), now);
        }
        let (tag, number) = match due {
            SendAction::Nothing | SendAction::Make => return NextFrame::Nothing,
            SendAction::Paused => return held_until.map_or(NextFrame::Nothing, NextFrame::Held),
            SendAction::GiveUp => {
                let why = "the receiver has confirmed nothing for long".to_owned();
                self.end(place, StreamEnding::Broken(why), now);
                return NextFrame::Ended;
            }
            SendAction::Block(number) => (tag::BLOCK, number),
            SendAction::End(blocks) => (tag::END, blocks),
            SendAction::Ask(ask) => (tag::ASK, ask),
        };
        let stream = &mut self.streams[place];
        stream.due = due;
        let block = if tag == tag::BLOCK { stream.out.block(number) } else { &[] };
        let (node, stream) = (stream.node, stream.number);
        NextFrame::Frame(Frame { node, tag, stream, number, block, is_urgent })
    }

    /// The next frame of the stream at a place has left. If it was a block, all others may send one
    /// before it sends its next: those behind it move up.
    pub fn sent(&mut self, place: usize, now: BootNanos) {
        let stream = &mut self.streams[place];
        stream.out.sent(&stream.due, now);
        let SendAction::Block(number) = stream.due else { return };
        let bytes = stream.out.block(number).len();
        stream.sent_bytes += bytes as u64;
        if !self.urgent.contains(&stream.to) {
            self.pace.sent(bytes, now);
        }
        self.streams[place..].rotate_left(1);
    }

    /// The next frame of the stream at a place finds no link.
    pub fn unlinked(&mut self, place: usize) {
        self.streams[place].out.set_link(false);
    }

    /// The next frame of the stream at a place cannot be sent, for good.
    pub fn unsendable(&mut self, place: usize, why: String, now: BootNanos) {
        self.end(place, StreamEnding::Broken(why), now);
    }

    /// Handles a receiver's frame. Returns whether the stream goes on after a loss.
    pub fn hear(
        &mut self,
        node: NodeId,
        number: u64,
        reply: ReceiverFrame,
        now: BootNanos,
    ) -> bool {
        let is_it = |stream: &Stream<B>| (stream.node, stream.number) == (node, number);
        // Of streams that are over, answers may still come.
        let Some(place) = self.streams.iter().position(is_it) else { return false };
        let ending = match reply {
            ReceiverFrame::Done => StreamEnding::Installed,
            ReceiverFrame::NotFound => StreamEnding::Declined,
            ReceiverFrame::Has { ask, blocks } => {
                match self.streams[place].out.on_progress(ask, blocks, now) {
                    Ok(has_lost) => return has_lost,
                    Err(nonsense) => StreamEnding::InvalidProgress(nonsense),
                }
            }
        };
        self.end(place, ending, now);
        false
    }

    fn end(&mut self, place: usize, ending: StreamEnding, now: BootNanos) {
        // The others stay in their order.
        let Stream { to, node, sent_bytes, begun, .. } = self.streams.remove(place);
        self.over(EndedStream { to, ending, sent: Some((node, sent_bytes, begun)) }, now);
    }

    fn over(&mut self, ended: EndedStream, now: BootNanos) {
        let pause = match ended.ending {
            StreamEnding::Installed => self.limits.install_nanos,
            StreamEnding::Declined => self.limits.retry_nanos,
            StreamEnding::InvalidProgress(_) | StreamEnding::Broken(_) => 0,
        };
        self.lost.push((ended.to, now + pause));
        self.ended.push(ended);
    }

    /// Destinations whose leaders are to hear that their snapshots are lost. One that has arrived
    /// is not affected.
    pub fn take_lost(&mut self, now: BootNanos) -> Vec<Destination> {
        self.lost.extract_if(.., |(_, at)| *at <= now).map(|(to, _)| to).collect()
    }

    /// When there is the next one, if there is any.
    pub fn next_lost(&self) -> Option<BootNanos> {
        self.lost.iter().map(|(_, at)| *at).min()
    }

    /// Streams that have ended since this was called last.
    pub fn take_ended(&mut self) -> Vec<EndedStream> {
        std::mem::take(&mut self.ended)
    }

    /// How far the streams are.
    pub fn progress(&self) -> impl Iterator<Item = StreamProgress> {
        self.streams.iter().map(|stream| {
            let Stream { to, sent_bytes, about_bytes, .. } = *stream;
            StreamProgress { to, sent_bytes, about_bytes }
        })
    }

    /// Requests that wait until streams are over.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }
}

impl<B: Blocks> Stream<B> {
    /// Makes the next block; false if the state is not there any more.
    fn make(&mut self) -> bool {
        let mut block = self.out.buffer();
        let blocks = self.blocks.as_mut().expect("blocks are due until the last is made");
        if blocks.next_block(&mut block) {
            self.out.made(block);
            return true;
        }
        let is_void = blocks.is_void();
        self.out.finish_blocks();
        self.blocks = None;
        !is_void
    }
}
