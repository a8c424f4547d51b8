//! Snapshots on their way, in pieces, as the server streams them: the second driver of
//! [`node::control::snapshots`].
//!
//! ```text
//!   head of a snapshot ──► stream ──(a step each)──► frames ──► coming ──► half a file and state
//!                            ▲                                   │ whole, and no round under way
//!                            └── has, done, gone ◄───────────────┴──► manifest ──► executor
//! ```
//!
//! Frames between two nodes come in order or not at all (`cluster::network`). A process that ends
//! forgets its streams; half a file that it leaves goes at the next start.

use std::num::NonZeroU64;

use keyspace::{NodeId, ShardId};
use node::control::checkpoints::facts;
use node::control::snapshots::Destination;
use node::control::snapshots::receiver::{Effect, SnapshotReceiver, StreamStart};
use node::control::snapshots::sender::{
    NextFrame, SenderLimits, SnapshotRequest, SnapshotSender, StreamEnding,
};
use node::control::snapshots::source::{self, DestinationFacts};
use node::executor::{Envelope, Input};
use node::recovery::RecoveringReplica;
use node::rpc::stream::frame::{self, ReceiverFrame, head_of, tag};
use node::rpc::stream::incoming::Name;
use node::rpc::stream::pace::{Pace, SLACK_NANOS};
use replication::{BootNanos, Message};
use storage::Error;
use storage::checkpoint::CheckpointWriter;

use super::Machine;
use super::peers::Packet;

/// A few blocks, two streams to a node, and facts at each step.
const LIMITS: SenderLimits = SenderLimits {
    unconfirmed_bytes_max: 200,
    streams_to_node_max: 2,
    streams_max: 4,
    install_nanos: 1_000_000_000,
    retry_nanos: 1_000_000_000,
    check_nanos: 0,
};

/// All streams of a node, in both directions.
pub struct Streams {
    sender: SnapshotSender,
    first: u64,
    receiver: SnapshotReceiver<Incoming>,
    paced: PacedStreams,
    /// Blocks that have left for replicas which are no members of their shards, to be looked at by
    /// the world.
    pub strays: Vec<Destination>,
    /// How often one went on after a loss.
    pub resumed: u64,
    /// Blocks that were sent.
    pub blocks: u64,
    /// How often a block was ready to be sent and too early.
    pub held: u64,
    /// Blocks for which a shard without a majority waited.
    pub urgent: u64,
}

/// The bytes sent since the process began, without urgent ones: no more than the rate allows.
#[derive(Default)]
struct PacedStreams {
    /// Bytes in a second; 0: no limit.
    rate: u64,
    begun: Option<BootNanos>,
    bytes: u64,
}

/// What a stream is taken into.
pub struct Incoming {
    /// Of this shard.
    pub shard: ShardId,
    /// The message that heads it.
    pub head: Message,
    /// As of this entry.
    pub index: u64,
    /// Term and vote that the file says, since its beginning.
    pub vote: facts::Vote,
    /// Half a state.
    pub state: RecoveringReplica,
    /// Half a file.
    pub writer: CheckpointWriter,
}

/// Bytes of a stream on their way.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The sending node.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    bytes: Vec<u8>,
}

impl Frame {
    /// What it says.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Streams {
    /// None yet; `first` was drawn at random.
    pub fn new(first: u64) -> Self {
        Self {
            sender: SnapshotSender::new(LIMITS, Pace::new(None), first),
            first,
            receiver: SnapshotReceiver::default(),
            paced: PacedStreams::default(),
            strays: Vec::new(),
            resumed: 0,
            blocks: 0,
            held: 0,
            urgent: 0,
        }
    }

    /// Limits the bytes of blocks that leave in a second, before there is any stream.
    pub fn limit(&mut self, rate: Option<NonZeroU64>) {
        self.sender = SnapshotSender::new(LIMITS, Pace::new(rate), self.first);
        self.paced.rate = rate.map_or(0, NonZeroU64::get);
    }

    /// Plants a bug: streams to removed replicas go on.
    pub fn plant_stream_to_removed_replica(&mut self) {
        self.sender.plant_stream_to_removed_replica();
    }

    /// Whether a state has come whole and is not installed yet.
    pub fn has_complete(&self) -> bool {
        self.receiver.has_complete()
    }

    pub(super) fn take_complete(&mut self) -> Option<Incoming> {
        self.receiver.take_complete()
    }
}

impl PacedStreams {
    fn sent(&mut self, bytes: usize, now: BootNanos) {
        let begun = *self.begun.get_or_insert(now);
        if self.rate > 0 {
            let nanos = u128::from(now - begun + SLACK_NANOS);
            let may = u128::from(self.rate) * nanos / 1_000_000_000 + 1;
            // The last goes whole.
            assert!(u128::from(self.bytes) <= may, "{} bytes before, {may} may leave", self.bytes);
        }
        self.bytes += bytes as u64;
    }
}

impl Machine {
    /// The leader wants this snapshot sent.
    pub(super) fn ask_stream(&mut self, envelope: Envelope) {
        self.streams.sender.ask(SnapshotRequest::of(envelope));
        self.go_on_streaming();
    }

    fn facts(&self, to: Destination) -> DestinationFacts {
        source::facts(&self.executors[self.executor_of(to.shard)].executor, to, self.boot)
    }

    /// Tells the sender what is known, begins streams that have a place, and tells leaders.
    fn go_on_streaming(&mut self) {
        let now = self.boot;
        let facts = self.streams.sender.destinations().map(|to| (to, self.facts(to)));
        let facts: Vec<(Destination, DestinationFacts)> = facts.collect();
        self.streams.sender.learn(&facts, now);
        while let Some(request) = self.streams.sender.take_request() {
            self.begin_stream(request);
        }
        for Destination { shard, replica } in self.streams.sender.take_lost(now) {
            self.submit(shard, Input::SnapshotLost { shard, to: replica });
        }
        for ended in self.streams.sender.take_ended() {
            // A receiver alone says what it has taken, in order.
            assert!(!matches!(ended.ending, StreamEnding::InvalidProgress(_)), "{ended:?}");
        }
    }

    fn begin_stream(&mut self, request: SnapshotRequest) {
        let (now, to, node) = (self.boot, request.to, request.node);
        if let Err(why) = self.streams.sender.check(request.term, &self.facts(to)) {
            return self.streams.sender.refuse(to, why.to_owned(), now);
        }
        let here = self.shard(to.shard).expect("the shard is on this node");
        let (end, block) = (self.log.log.written_end(), self.limits.block);
        let begun = source::source(here, request.head.clone(), end, block);
        let begin = frame::begin_of(to.shard, &begun.head);
        let meta = begun.checkpoint.meta.clone();
        let about_bytes = begun.about_bytes;
        let number = self.streams.sender.begin(&request, begun.checkpoint, about_bytes, now);
        self.send_frame(node, [&head_of(tag::BEGIN, number)[..], &begin, &meta].concat());
    }

    fn send_frame(&mut self, to: NodeId, bytes: Vec<u8>) {
        let from = self.manifest.node;
        self.outgoing.push(Packet::Frame(Frame { from, to, bytes }));
    }

    /// The places of streams that have something to do.
    pub fn due_streams(&mut self) -> Vec<usize> {
        self.go_on_streaming();
        let now = self.boot;
        let mut due = Vec::new();
        let mut place = 0;
        while place < self.streams.sender.count() {
            match self.streams.sender.next_frame(place, now) {
                NextFrame::Frame(_) => due.push(place),
                NextFrame::Held(_) => self.streams.held += 1,
                NextFrame::Nothing => {}
                // Another one is at its place.
                NextFrame::Ended => continue,
            }
            place += 1;
        }
        due
    }

    /// Takes a stream that is due one frame further.
    pub fn step_stream(&mut self, place: usize) {
        let now = self.boot;
        let to = self.streams.sender.progress().nth(place).map(|progress| progress.to);
        let NextFrame::Frame(frame) = self.streams.sender.next_frame(place, now) else { return };
        let (number, head) = (frame.number.to_le_bytes(), head_of(frame.tag, frame.stream));
        let bytes = [&head[..], &number, frame.block].concat();
        let (node, is_block, is_urgent) = (frame.node, frame.tag == tag::BLOCK, frame.is_urgent);
        let block_bytes = frame.block.len();
        self.streams.sender.sent(place, now);
        if is_block {
            let to = to.expect("it has sent a block");
            if !self.facts(to).is_member {
                self.streams.strays.push(to);
            }
            self.streams.blocks += 1;
            match is_urgent {
                true => self.streams.urgent += 1,
                false => self.streams.paced.sent(block_bytes, now),
            }
        }
        self.send_frame(node, bytes);
    }

    /// The link to a node was lost, and there is another.
    pub fn relinked(&mut self, node: NodeId) {
        self.streams.sender.linked(node, false);
        self.streams.sender.linked(node, true);
    }

    /// Informs leaders of states that have not arrived in time; gives up streams without a sender.
    pub(super) fn expire_streams(&mut self) {
        self.go_on_streaming();
        self.streams.receiver.expire(self.boot);
        self.run_receiver_effects().expect("nothing is written");
    }

    /// A frame has come.
    ///
    /// # Errors
    /// All are fatal.
    pub(super) fn take_frame(&mut self, frame: Frame) -> Result<(), Error> {
        let Frame { from, bytes, .. } = frame;
        let bytes = bytes.into();
        if frame::is_receiver_frame(&bytes) {
            let (stream, reply) =
                frame::decode_receiver_frame(bytes).expect("nodes send what can be read");
            self.hear(from, stream, reply);
            return Ok(());
        }
        let (stream, sent) =
            frame::decode_sender_frame(bytes).expect("nodes send what can be read");
        self.streams.receiver.frame((from, stream), sent, self.boot);
        self.run_receiver_effects()
    }

    fn hear(&mut self, node: NodeId, number: u64, reply: ReceiverFrame) {
        let has_lost = self.streams.sender.hear(node, number, reply, self.boot);
        self.streams.resumed += u64::from(has_lost);
        self.go_on_streaming();
    }

    /// Does all that the receiver wants done.
    fn run_receiver_effects(&mut self) -> Result<(), Error> {
        while let Some(effect) = self.streams.receiver.next_effect() {
            match effect {
                Effect::Inspect(name, shard, beginning) => {
                    let executor = &self.executors[self.executor_of(shard)].executor;
                    let is_wanted = facts::wants(executor, shard, &beginning.head);
                    self.streams.receiver.inspected(name, shard, beginning, is_wanted);
                }
                Effect::Create(name, shard, beginning) => {
                    match self.create_half(shard, beginning) {
                        Err(Error::Full { .. }) => self.streams.receiver.failed(name),
                        half => self.streams.receiver.created(name, shard, half?, self.boot),
                    }
                }
                Effect::Decline(shard, StreamStart { head, .. }) => {
                    self.submit(shard, Input::SnapshotDeclined { shard, head });
                }
                Effect::Write(name, block) => match self.write_block(name, &block) {
                    Err(Error::Full { .. }) => self.streams.receiver.failed(name),
                    written => {
                        written?;
                        self.streams.receiver.written(name, self.boot);
                    }
                },
                Effect::Abandon(half) => {
                    // Left behind, it takes space until the next start removes it.
                    half.writer.abandon().ok();
                }
                Effect::Answer((node, stream), reply) => {
                    self.send_frame(node, frame::receiver_frame(stream, reply));
                }
            }
        }
        Ok(())
    }

    fn create_half(&self, shard: ShardId, beginning: StreamStart) -> Result<Incoming, Error> {
        let StreamStart { head, meta } = beginning;
        let settings = self.limits.settings(self.hasher);
        let state = RecoveringReplica::from_checkpoint(shard, &meta, settings).expect("readable");
        let index = state.state().applied_index;
        let here = self.shard(shard).expect("the shard was inspected");
        let (meta, vote) = (here.meta_of(state.state()), facts::vote_of(here));
        let (disk, cluster) = (self.handle.clone(), self.manifest.cluster);
        let writer = CheckpointWriter::create_received(disk, cluster, shard, index, &meta)?;
        Ok(Incoming { shard, head: *head, index, vote, state, writer })
    }

    fn write_block(&mut self, name: Name, block: &[u8]) -> Result<(), Error> {
        let half = self.streams.receiver.half(name).expect("a block of it is taken");
        half.writer.block(block)?;
        half.state.restore(block).expect("nodes send what can be read");
        Ok(())
    }

    /// The installation of a snapshot is over.
    pub(super) fn installed(&mut self, is_installed: bool) {
        self.streams.receiver.installed(is_installed);
        self.run_receiver_effects().expect("nothing is written");
    }
}
