//! Snapshots on their way, in pieces, as the server streams them: the second driver of
//! [`node::stream`].
//!
//! ```text
//!   head of a snapshot ──► stream ──(a step each)──► frames ──► coming ──► half a file and state
//!                            ▲                                   │ whole, and no round under way
//!                            └── has, done, gone ◄───────────────┴──► manifest ──► lane
//! ```
//!
//! Frames between two nodes come in order or not at all (`cluster::network`). A process that ends
//! forgets its streams; half a file that it leaves goes at the next start.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use keyspace::{NodeId, ReplicaId, ShardId};
use node::checkpoint::Checkpoint;
use node::lane::{Envelope, Input};
use node::recovery::Recovering;
use node::shard::Shard;
use node::stream::coming::{Coming, Ended, Name};
use node::stream::frame::{self, Said, Sent, head_of, tag};
use node::stream::outgoing::{Due, Outgoing};
use node::stream::pace::{Pace, SLACK_NANOS};
use replication::{BootNanos, Message};
use storage::Error;
use storage::checkpoint::CheckpointWriter;

use super::Machine;
use super::peers::Packet;

/// Blocks that are kept of a stream until they are confirmed: a few.
const KEPT_BYTES_MAX: usize = 200;
/// Streams to a node at a time.
const STREAMS_MAX: usize = 2;
/// How long the receiver's lane has to install what it was sent, and to say so to its leader.
const INSTALL_MS: u64 = 1_000;

/// All streams of a node, in both directions.
#[derive(Default)]
pub struct Streams {
    /// Snapshots whose turn has not come.
    asked: VecDeque<Envelope>,
    out: Vec<Stream>,
    pace: Pace,
    paced: Paced,
    /// Numbers of streams begin anywhere in every process.
    next: u64,
    coming: Coming<Incoming>,
    /// All of it is here, but a round of checkpoints is under way: both write the manifest.
    pub(super) whole: Vec<(Name, Incoming)>,
    /// Over, as far as streams go: until when their leader waits.
    over: Vec<(ShardId, ReplicaId, u64)>,
    /// How often one went on after a loss.
    pub resumed: u64,
    /// Blocks that were sent.
    pub blocks: u64,
    /// How often a block was ready to be sent and too early.
    pub held: u64,
    /// Blocks for which a shard without a majority waited.
    pub urgent: u64,
}

/// What has left since the process began, but for what was urgent: it must not be more than the
/// rate allows.
#[derive(Default)]
struct Paced {
    /// Bytes in a second; 0: no limit.
    rate: u64,
    begun: Option<BootNanos>,
    bytes: u64,
}

/// A stream on its way.
struct Stream {
    number: u64,
    shard: ShardId,
    to: ReplicaId,
    node: NodeId,
    term: u64,
    /// Until its last block is made.
    checkpoint: Option<Checkpoint>,
    out: Outgoing,
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
    pub vote: (u64, u64),
    /// Half a state.
    pub state: Recovering,
    /// Half a file.
    pub writer: CheckpointWriter,
}

/// Bytes of a stream on their way.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Who has sent it.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    bytes: Vec<u8>,
}

impl Streams {
    /// Whether a state has come whole and is not installed yet.
    pub fn has_whole(&self) -> bool {
        !self.whole.is_empty()
    }

    /// None yet; `first` was drawn at random.
    pub fn new(first: u64) -> Self {
        Self { next: first, ..Self::default() }
    }

    /// Limits the bytes of blocks that leave in a second.
    pub fn limit(&mut self, rate: Option<NonZeroU64>) {
        self.pace = Pace::new(rate);
        self.paced.rate = rate.map_or(0, NonZeroU64::get);
    }
}

impl Paced {
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
        let (shard, to) = (envelope.shard, envelope.message.to());
        let is_before = |other: &Envelope| (other.shard, other.message.to()) == (shard, to);
        self.streams.asked.retain(|other| !is_before(other));
        self.streams.asked.push_back(envelope);
        self.begin_streams();
    }

    /// Whether nothing is committed in this shard until its state is with this replica.
    fn is_urgent(&self, shard: ShardId, to: ReplicaId) -> bool {
        self.shard(shard).is_some_and(|here| here.hinges_on(to, self.boot))
    }

    /// Begins those that have a place.
    fn begin_streams(&mut self) {
        while let Some(envelope) = self.next_stream() {
            self.begin_stream(envelope);
        }
    }

    /// Whose turn it is, if anyone's.
    fn next_stream(&mut self) -> Option<Envelope> {
        let is_urgent = |asked: &Envelope| self.is_urgent(asked.shard, asked.message.to());
        let has_place = |asked: &Envelope, only_urgent: bool| {
            let others = self.streams.out.iter().filter(|stream| stream.node == asked.node);
            let others = others.filter(|stream| !stream.is_before(asked));
            let others = others.filter(|o| !only_urgent || self.is_urgent(o.shard, o.to));
            others.count() < STREAMS_MAX
        };
        let asked = &self.streams.asked;
        let place = asked.iter().position(|asked| is_urgent(asked) && has_place(asked, true));
        let place = place.or_else(|| asked.iter().position(|asked| has_place(asked, false)));
        let envelope = self.streams.asked.remove(place?)?;
        self.streams.out.retain(|stream| !stream.is_before(&envelope));
        Some(envelope)
    }

    fn begin_stream(&mut self, envelope: Envelope) {
        let Envelope { shard, node, message, .. } = envelope;
        let (to, term) = (message.to(), message.term());
        self.streams.over.retain(|(of, at, _)| (*of, *at) != (shard, to));
        let here = self.shard(shard).filter(|here| leads(here, term));
        let Some(here) = here else { return self.submit(shard, Input::SnapshotLost { shard, to }) };
        let end = self.log.log.written_end();
        let checkpoint = Checkpoint::begin(here, end, self.limits.block);
        let view = here.view();
        let state = view.read();
        let at = (state.applied_index, state.applied_term);
        let head = message.with_snapshot(at, &state.members);
        drop(state);
        let number = self.streams.next;
        self.streams.next = number.wrapping_add(1);
        let head = [&head_of(tag::BEGIN, number)[..], &frame::begin_of(shard, &head)].concat();
        self.send_frame(node, [&head[..], &checkpoint.meta].concat());
        let out = Outgoing::new(KEPT_BYTES_MAX, self.boot);
        let checkpoint = Some(checkpoint);
        self.streams.out.push(Stream { number, shard, to, node, term, checkpoint, out });
    }

    fn send_frame(&mut self, to: NodeId, bytes: Vec<u8>) {
        let from = self.manifest.node;
        self.outgoing.push(Packet::Frame(Frame { from, to, bytes }));
    }

    /// The places of streams that have something to do.
    pub fn due_streams(&mut self) -> Vec<usize> {
        let now = self.boot;
        let mut due = Vec::new();
        for place in 0..self.streams.out.len() {
            let is_held = self.is_held(place);
            match self.streams.out[place].out.due(is_held, now) {
                Due::Nothing => {}
                Due::Held => self.streams.held += 1,
                _ => due.push(place),
            }
        }
        due
    }

    /// Whether the blocks of a stream wait for the rate, which urgent ones do not.
    fn is_held(&self, place: usize) -> bool {
        let Stream { shard, to, .. } = self.streams.out[place];
        self.streams.pace.held_until(self.boot).is_some() && !self.is_urgent(shard, to)
    }

    /// Takes a stream one frame further.
    pub fn step_stream(&mut self, place: usize) {
        let now = self.boot;
        let Stream { shard, term, .. } = self.streams.out[place];
        if !self.shard(shard).is_some_and(|here| leads(here, term)) {
            return self.end_stream(place, None);
        }
        let Stream { to, .. } = self.streams.out[place];
        let (is_held, is_urgent) = (self.is_held(place), self.is_urgent(shard, to));
        let stream = &mut self.streams.out[place];
        let mut due = stream.out.due(is_held, now);
        if due == Due::Make {
            if !stream.make() {
                return self.end_stream(place, None);
            }
            due = stream.out.due(is_held, now);
        }
        let (tag, number) = match due {
            Due::Nothing | Due::Make | Due::Held => return,
            Due::GiveUp => return self.end_stream(place, None),
            Due::Block(number) => (tag::BLOCK, number),
            Due::End(blocks) => (tag::END, blocks),
            Due::Ask(ask) => (tag::ASK, ask),
        };
        let block = if tag == tag::BLOCK { stream.out.block(number) } else { &[] };
        let block_bytes = block.len();
        let bytes = [&head_of(tag, stream.number)[..], &number.to_le_bytes(), block].concat();
        stream.out.sent(&due, now);
        let node = stream.node;
        if tag == tag::BLOCK {
            self.streams.blocks += 1;
            match is_urgent {
                true => self.streams.urgent += 1,
                false => {
                    self.streams.pace.sent(block_bytes, now);
                    self.streams.paced.sent(block_bytes, now);
                }
            }
        }
        self.send_frame(node, bytes);
    }

    /// Ends a stream; its leader waits a while, or (`None`) is told at once.
    fn end_stream(&mut self, place: usize, wait_ms: Option<u64>) {
        let Stream { shard, to, .. } = self.streams.out.swap_remove(place);
        match wait_ms {
            Some(ms) => self.streams.over.push((shard, to, self.elapsed_ms + ms)),
            None => self.submit(shard, Input::SnapshotLost { shard, to }),
        }
        self.begin_streams();
    }

    /// The link to a node was lost, and there is another.
    pub fn relinked(&mut self, node: NodeId) {
        for stream in self.streams.out.iter_mut().filter(|stream| stream.node == node) {
            stream.out.linked(false);
            stream.out.linked(true);
        }
    }

    /// Tells leaders of states that have not arrived in time; gives up what nobody goes on with.
    pub(super) fn expire_streams(&mut self) {
        let now_ms = self.elapsed_ms;
        let late: Vec<_> = self.streams.over.extract_if(.., |over| over.2 <= now_ms).collect();
        for (shard, to, _) in late {
            self.submit(shard, Input::SnapshotLost { shard, to });
        }
        let boot = self.boot;
        for (_, half) in self.streams.coming.expire(boot) {
            // Left behind, it takes space until the next start removes it.
            half.writer.abandon().ok();
        }
    }

    /// A frame has come.
    ///
    /// # Errors
    /// All are fatal.
    pub(super) fn take_frame(&mut self, frame: Frame) -> Result<(), Error> {
        let Frame { from, bytes, .. } = frame;
        let bytes = bytes.into();
        if frame::is_said(&bytes) {
            let (stream, said) = frame::take_said(bytes).expect("nodes send what can be read");
            self.hear(from, stream, said);
            return Ok(());
        }
        let (stream, sent) = frame::take_sent(bytes).expect("nodes send what can be read");
        let name = (from, stream);
        let said = match self.take_sent(name, sent) {
            Ok(said) => said,
            Err(Error::Full { .. }) => {
                if let Some(half) = self.streams.coming.give_up(name) {
                    half.writer.abandon().ok();
                }
                Some(Said::Gone)
            }
            Err(error) => return Err(error),
        };
        if let Some(said) = said {
            self.say(name, said);
        }
        Ok(())
    }

    /// Answers who sends a stream.
    fn say(&mut self, (node, stream): Name, said: Said) {
        self.send_frame(node, frame::said_of(stream, said));
    }

    fn hear(&mut self, node: NodeId, number: u64, said: Said) {
        let is_it = |stream: &Stream| (stream.node, stream.number) == (node, number);
        let Some(place) = self.streams.out.iter().position(is_it) else { return };
        match said {
            Said::Done | Said::Gone => self.end_stream(place, Some(INSTALL_MS)),
            Said::Has { ask, blocks } => {
                let now = self.boot;
                let has = self.streams.out[place].out.has(ask, blocks, now);
                // What its receiver has taken is told by its receiver alone, in order.
                let has_lost = has.expect("a receiver is sane");
                self.streams.resumed += u64::from(has_lost);
            }
        }
    }

    fn take_sent(&mut self, name: Name, sent: Sent) -> Result<Option<Said>, Error> {
        let now = self.boot;
        match sent {
            Sent::Begin { shard, head, meta } => {
                let begun = self.begin_coming(name, shard, *head, &meta)?;
                Ok((!begun).then_some(Said::Gone))
            }
            Sent::Block { number, block } => {
                let Some(incoming) = self.streams.coming.block(name, number, now) else {
                    return Ok(None);
                };
                incoming.writer.block(&block)?;
                incoming.state.restore(&block).expect("nodes send what can be read");
                Ok(Some(self.streams.coming.answer(name, 0, now)))
            }
            Sent::Ask { ask } => {
                // While it waits for a round to end, it is neither coming nor done.
                let waits = self.streams.whole.iter().any(|(other, _)| *other == name);
                Ok((!waits).then(|| self.streams.coming.answer(name, ask, now)))
            }
            Sent::End { blocks } => {
                if let Ended::Whole(incoming) = self.streams.coming.end(name, blocks) {
                    self.streams.whole.push((name, incoming));
                }
                Ok(None)
            }
        }
    }

    fn begin_coming(
        &mut self,
        name: Name,
        shard: ShardId,
        head: Message,
        meta: &[u8],
    ) -> Result<bool, Error> {
        let settings = self.limits.settings(self.hasher);
        let state = Recovering::from_checkpoint(shard, meta, settings).expect("readable");
        let index = state.state().applied_index;
        let Some(here) = self.shard(shard).filter(|here| here.wants(&head)) else {
            self.submit(shard, Input::Declined { shard, head: Box::new(head) });
            return Ok(false);
        };
        let (meta, vote) = (here.meta_of(state.state()), vote_of(here));
        // One that waits to be installed may have the same file.
        if self.streams.whole.iter().any(|(_, whole)| whole.shard == shard) {
            return Ok(false);
        }
        for half in self.streams.coming.make_way(shard) {
            half.writer.abandon().ok();
        }
        let (disk, cluster) = (self.handle.clone(), self.manifest.cluster);
        let writer = CheckpointWriter::create_received(disk, cluster, shard, index, &meta)?;
        let incoming = Incoming { shard, head, index, vote, state, writer };
        self.streams.coming.begin(name, shard, incoming, self.boot);
        Ok(true)
    }

    /// What has come whole, unless a round of checkpoints is under way.
    pub(super) fn take_whole(&mut self) -> Vec<(Name, Incoming)> {
        match self.is_checkpointing() {
            true => Vec::new(),
            false => std::mem::take(&mut self.streams.whole),
        }
    }

    /// What came whole is installed, or is not wanted any more.
    pub(super) fn tell_installed(&mut self, name: Name, is_installed: bool) {
        if is_installed {
            self.streams.coming.done(name);
        }
        self.say(name, if is_installed { Said::Done } else { Said::Gone });
    }
}

impl Stream {
    /// Whether another one is asked for in its place.
    fn is_before(&self, asked: &Envelope) -> bool {
        (self.shard, self.to) == (asked.shard, asked.message.to())
    }

    /// Makes the next block; false if another snapshot has taken the place of what it is of.
    fn make(&mut self) -> bool {
        let mut block = self.out.buffer();
        let checkpoint = self.checkpoint.as_mut().expect("blocks are due until the last is made");
        if checkpoint.next_block(&mut block) {
            self.out.made(block);
            return true;
        }
        let is_void = checkpoint.is_void();
        self.out.no_more();
        self.checkpoint = None;
        !is_void
    }
}

fn leads(here: &Shard, term: u64) -> bool {
    here.is_elected() && here.term_and_commit().0 == term
}

/// Term and vote of a replica.
pub(super) fn vote_of(here: &Shard) -> (u64, u64) {
    let hard_state = here.hard_state();
    (hard_state.term, hard_state.vote)
}
