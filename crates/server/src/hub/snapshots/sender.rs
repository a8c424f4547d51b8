//! The thread that sends streams, in turn: one frame of each, as long as there is room, and blocks
//! as fast as they may leave.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use keyspace::{NodeId, ReplicaId, ShardId};
use node::checkpoint::{BLOCK, Checkpoint};
use node::lane::{Envelope, Input};
use node::shard::Shard;
use node::stream::frame::{self, Said, head_of, tag};
use node::stream::outgoing::{Due, Outgoing};
use node::stream::pace::Pace;
use replication::BootNanos;

use super::{
    Goal, Heard, IDLE, INSTALL, KEPT_BYTES_MAX, News, Outbound, Progress, STREAMS_MAX,
    STREAMS_OUT_MAX, Snapshots, UNSENT_BYTES_MAX, goal,
};
use crate::hub::peers::{KIND_SNAPSHOT, Peers};
use crate::hub::{Hub, boot_nanos};
use crate::peer::SendError;

/// How long the sender sleeps before it looks whether there is room.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a leader waits before it tries again what the receiver does not take.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it looks whether this node still leads what it sends, and for which shards that is
/// urgent, and says how far it is.
const CHECK_EVERY_NANOS: u64 = 500_000_000;

/// A stream on its way.
struct Stream {
    number: u64,
    shard: ShardId,
    to: ReplicaId,
    node: NodeId,
    term: u64,
    /// Until its last block is made.
    checkpoint: Option<Checkpoint>,
    begun: BootNanos,
    sent_bytes: u64,
    about_bytes: u64,
    out: Outgoing,
    checked: BootNanos,
}

/// How a stream ends.
enum Ending {
    /// It is installed, or about to be.
    Done,
    /// The receiver takes nothing.
    Gone,
    /// For another reason.
    Broken(String),
}

/// What a turn of a stream has led to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Idle,
    /// A block may leave at this time.
    Held(BootNanos),
    NoRoom,
    /// A frame has left …
    Moved,
    /// … that carries a block.
    Block,
}

/// What the thread has.
struct Sender<'a> {
    snapshots: &'a Snapshots,
    hub: &'a Hub,
    peers: &'a Peers,
    pace: Pace,
    /// In the order in which they may send their next blocks.
    streams: Vec<Stream>,
    next_stream: u64,
    /// When it was said how far they are.
    told: BootNanos,
    /// What is sent, or waits to be, and is urgent …
    urgent: BTreeSet<Goal>,
    /// … as of this time.
    looked: BootNanos,
}

impl Snapshots {
    /// The sender's thread, until [`Self::stop`].
    pub fn run_sender(&self, hub: &Hub, peers: &Peers, pace: Pace) {
        let now = boot_nanos();
        let mut sender = Sender {
            snapshots: self,
            hub,
            peers,
            pace,
            streams: Vec::new(),
            next_stream: self.first_stream,
            told: now,
            urgent: BTreeSet::new(),
            looked: now,
        };
        let mut turn = Turn::Moved;
        while let Some((news, asked)) = self.outbound(turn, &sender.streams, &sender.urgent) {
            news.into_iter().for_each(|(node, news)| sender.hear(node, news));
            if let Some(envelope) = asked {
                sender.begin(envelope);
            }
            turn = sender.turn();
        }
    }

    /// What has come meanwhile; waits for it if the last turn did not get on. None at the end.
    fn outbound(
        &self,
        last: Turn,
        streams: &[Stream],
        urgent: &BTreeSet<Goal>,
    ) -> Option<(Heard, Option<Envelope>)> {
        let mut outbound = self.outbound.lock();
        let mut asked = outbound.take_asked(streams, urgent);
        if last < Turn::Moved && outbound.news.is_empty() && asked.is_none() {
            let pause = match last {
                Turn::NoRoom => PAUSE,
                Turn::Held(until) => {
                    IDLE.min(Duration::from_nanos(until.saturating_sub(boot_nanos())))
                }
                _ => IDLE,
            };
            self.is_outbound.wait_for(&mut outbound, pause);
            asked = outbound.take_asked(streams, urgent);
        }
        let news = std::mem::take(&mut outbound.news);
        (!self.is_stopping()).then_some((news, asked))
    }
}

impl Outbound {
    /// The first that may begin beside these; an urgent one, if there is any.
    fn take_asked(&mut self, streams: &[Stream], urgent: &BTreeSet<Goal>) -> Option<Envelope> {
        let asked = self.asked.iter().map(|asked| (goal(asked), asked.node));
        let streams = streams.iter().map(|s| (s.goal(), s.node, s.out.is_linked()));
        self.asked.remove(next(asked, streams, urgent)?)
    }
}

/// The place of the one that begins next beside these streams, with goal, node and whether there is
/// a link. Those that are not urgent take no place of urgent ones.
fn next(
    mut asked: impl Iterator<Item = (Goal, NodeId)> + Clone,
    streams: impl Iterator<Item = (Goal, NodeId, bool)> + Clone,
    urgent: &BTreeSet<Goal>,
) -> Option<usize> {
    let has_place = |goal: Goal, node: NodeId, only_urgent: bool| {
        let others = streams.clone().filter(|(other, ..)| *other != goal);
        let others = others.filter(|(other, ..)| !only_urgent || urgent.contains(other));
        has_place(node, others.map(|(_, node, is_linked)| (node, is_linked)))
    };
    let is_urgent = |(goal, node)| urgent.contains(&goal) && has_place(goal, node, true);
    let first = asked.clone().position(is_urgent);
    first.or_else(|| asked.position(|(goal, node)| has_place(goal, node, false)))
}

/// Whether a stream to this node may begin beside these: to whom, and whether there is a link.
fn has_place(to: NodeId, others: impl Iterator<Item = (NodeId, bool)>) -> bool {
    let (mut there, mut linked) = (0, 0);
    for (node, is_linked) in others {
        there += usize::from(node == to);
        linked += usize::from(is_linked);
    }
    there < STREAMS_MAX && linked < STREAMS_OUT_MAX
}

impl Stream {
    /// Whether another one is asked for in its place.
    fn is_before(&self, asked: &Envelope) -> bool {
        self.goal() == goal(asked)
    }

    fn goal(&self) -> Goal {
        (self.shard, self.to)
    }

    fn progress(&self) -> Progress {
        let Self { shard, to, sent_bytes, about_bytes, .. } = *self;
        Progress { shard, to, sent_bytes, about_bytes }
    }

    fn log_done(&self) {
        let Self { shard, node, sent_bytes, begun, .. } = self;
        let seconds = (boot_nanos() - begun) as f64 / 1e9;
        let rate = *sent_bytes as f64 / seconds.max(1e-3);
        tracing::info!(
            "shard {shard} is at node {:016x}: {sent_bytes} bytes in {seconds:.3} s, {rate:.0} a \
             second",
            node.0
        );
    }

    /// Makes the next block.
    fn make(&mut self) -> Result<(), String> {
        let mut block = self.out.buffer();
        let checkpoint = self.checkpoint.as_mut().expect("blocks are due until the last is made");
        if checkpoint.next_block(&mut block) {
            self.out.made(block);
            return Ok(());
        }
        if checkpoint.is_void() {
            return Err("another snapshot has taken its place".into());
        }
        self.out.no_more();
        self.checkpoint = None;
        Ok(())
    }
}

impl Sender<'_> {
    fn begin(&mut self, envelope: Envelope) {
        // The leader has begun anew with this replica.
        self.streams.retain(|stream| !stream.is_before(&envelope));
        let (shard, to) = goal(&envelope);
        self.snapshots.over.lock().retain(|(of, at, _)| (*of, *at) != (shard, to));
        match self.try_begin(envelope) {
            Ok(stream) => self.streams.push(stream),
            Err(why) => self.over(shard, to, Ending::Broken(why)),
        }
        self.tell();
    }

    fn try_begin(&mut self, envelope: Envelope) -> Result<Stream, String> {
        let Envelope { shard, node, message, .. } = envelope;
        let (to, term) = (message.to(), message.term());
        let end = self.hub.log.facts().written_end;
        let begun = self.hub.lanes[self.hub.lane_of(shard)].with(self.hub, |lane| {
            let here = lane.shard(shard).filter(|here| leads(here, term))?;
            let checkpoint = Checkpoint::begin(here, end, BLOCK);
            let view = here.view();
            let state = view.read();
            let at = (state.applied_index, state.applied_term);
            let head = message.with_snapshot(at, &state.members);
            let usage = state.keys().map(|engine| engine.usage());
            let about_bytes = usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes);
            Some((checkpoint, head, about_bytes))
        });
        let begun = begun.ok_or("this node does not lead it any more")?;
        let (checkpoint, head, about_bytes) = begun;
        let index = checkpoint.index;
        tracing::info!(
            "sends shard {shard}, as of entry {index}, about {about_bytes} bytes, to node {:016x}",
            node.0
        );
        let number = self.next_stream;
        self.next_stream = number.wrapping_add(1);
        let parts = [&head_of(tag::BEGIN, number)[..], &frame::begin_of(shard, &head)];
        let parts = [&parts[..], &[&checkpoint.meta[..]]].concat();
        let sent = self.peers.cluster.send(node, KIND_SNAPSHOT, &parts);
        sent.map_err(|error| error.to_string())?;
        self.peers.cluster.flush();
        let now = boot_nanos();
        let (out, checkpoint) = (Outgoing::new(KEPT_BYTES_MAX, now), Some(checkpoint));
        Ok(Stream {
            number,
            shard,
            to,
            node,
            term,
            checkpoint,
            begun: now,
            sent_bytes: 0,
            about_bytes,
            out,
            checked: now,
        })
    }

    fn hear(&mut self, node: NodeId, news: News) {
        let (number, said) = match news {
            News::Link { is_up } => {
                let there = self.streams.iter_mut().filter(|stream| stream.node == node);
                return there.for_each(|stream| stream.out.linked(is_up));
            }
            News::Said { stream, said } => (stream, said),
        };
        let is_it = |stream: &Stream| (stream.node, stream.number) == (node, number);
        // Of streams that are over, answers may still come.
        let Some(place) = self.streams.iter().position(is_it) else { return };
        let ending = match said {
            Said::Done => Ending::Done,
            Said::Gone => Ending::Gone,
            Said::Has { ask, blocks } => {
                let stream = &mut self.streams[place];
                match stream.out.has(ask, blocks, boot_nanos()) {
                    Ok(has_lost) => {
                        if has_lost {
                            self.peers.tallies.snapshot_resumes.add(1);
                            let shard = stream.shard;
                            tracing::debug!("goes on with shard {shard} from block {blocks}");
                        }
                        return;
                    }
                    Err(nonsense) => Ending::Broken(nonsense.to_string()),
                }
            }
        };
        self.end(place, ending);
    }

    /// Looks what is urgent: what waits too, for it need not wait any more then.
    fn look(&mut self, now: BootNanos) {
        self.looked = now;
        let hub = self.hub;
        let hinges = |goal: &Goal| {
            let (shard, to) = *goal;
            hub.lanes[hub.lane_of(shard)]
                .with(hub, |lane| lane.shard(shard).is_some_and(|here| here.hinges_on(to, now)))
        };
        let goals = self.streams.iter().map(Stream::goal).chain(self.snapshots.asked());
        let urgent: BTreeSet<Goal> = goals.filter(hinges).collect();
        for (shard, to) in urgent.difference(&self.urgent) {
            tracing::info!(
                "nothing is done in shard {shard} until its state is at replica {to}: it is sent \
                 as fast as it can be, whatever `move_rate` is"
            );
        }
        self.urgent = urgent;
    }

    /// Gives every stream its turn; how far they came.
    fn turn(&mut self) -> Turn {
        let now = boot_nanos();
        if now >= self.looked + CHECK_EVERY_NANOS {
            self.look(now);
        }
        let mut best = Turn::Idle;
        let mut place = 0;
        for _ in 0..self.streams.len() {
            match self.turn_of(place) {
                Ok(turn) => {
                    best = best.max(turn);
                    match turn {
                        // Before its next block, all others may send one.
                        Turn::Block => self.streams[place..].rotate_left(1),
                        _ => place += 1,
                    }
                }
                Err(why) => self.end(place, Ending::Broken(why)),
            }
        }
        if boot_nanos() >= self.told + CHECK_EVERY_NANOS {
            self.tell();
        }
        best
    }

    /// Says how far the streams are.
    fn tell(&mut self) {
        self.told = boot_nanos();
        let progress = self.streams.iter().map(Stream::progress);
        *self.snapshots.progress.lock() = progress.collect();
    }

    fn turn_of(&mut self, place: usize) -> Result<Turn, String> {
        let (hub, peers) = (self.hub, self.peers);
        let stream = &mut self.streams[place];
        let now = boot_nanos();
        if now >= stream.checked + CHECK_EVERY_NANOS {
            stream.checked = now;
            let (shard, term) = (stream.shard, stream.term);
            let is_led = hub.lanes[hub.lane_of(shard)]
                .with(hub, |lane| lane.shard(shard).is_some_and(|here| leads(here, term)));
            if !is_led {
                return Err("this node does not lead it any more".into());
            }
        }
        let is_urgent = self.urgent.contains(&stream.goal());
        let held_until = self.pace.held_until(now).filter(|_| !is_urgent);
        let mut due = stream.out.due(held_until.is_some(), now);
        if due == Due::Make {
            stream.make()?;
            due = stream.out.due(held_until.is_some(), now);
        }
        let (tag, number) = match due {
            Due::Nothing | Due::Make => return Ok(Turn::Idle),
            Due::Held => return Ok(held_until.map_or(Turn::Idle, Turn::Held)),
            Due::GiveUp => return Err("the receiver has confirmed nothing for long".into()),
            Due::Block(number) => (tag::BLOCK, number),
            Due::End(blocks) => (tag::END, blocks),
            Due::Ask(ask) => (tag::ASK, ask),
        };
        if peers.cluster.unsent_bytes(stream.node) >= UNSENT_BYTES_MAX {
            return Ok(Turn::NoRoom);
        }
        let head = head_of(tag, stream.number);
        let block = if tag == tag::BLOCK { stream.out.block(number) } else { &[] };
        let bytes = block.len();
        let parts = [&head[..], &number.to_le_bytes(), block];
        match peers.cluster.send(stream.node, KIND_SNAPSHOT, &parts) {
            Ok(()) => {}
            Err(SendError::Full) => return Ok(Turn::NoRoom),
            Err(SendError::NotConnected) => {
                stream.out.linked(false);
                return Ok(Turn::Idle);
            }
            Err(error @ SendError::TooLong { .. }) => return Err(error.to_string()),
        }
        peers.cluster.flush();
        stream.out.sent(&due, now);
        if tag != tag::BLOCK {
            return Ok(Turn::Moved);
        }
        if !is_urgent {
            self.pace.sent(bytes, now);
        }
        stream.sent_bytes += bytes as u64;
        peers.tallies.snapshot_blocks_sent.add(1);
        peers.tallies.snapshot_bytes_sent.add(bytes as u64);
        Ok(Turn::Block)
    }

    fn end(&mut self, place: usize, ending: Ending) {
        // The others stay in their order.
        let stream = self.streams.remove(place);
        if let Ending::Done = ending {
            stream.log_done();
        }
        self.over(stream.shard, stream.to, ending);
        self.tell();
    }

    /// Tells the leader of a stream that has ended.
    fn over(&self, shard: ShardId, to: ReplicaId, ending: Ending) {
        let tallies = &self.peers.tallies;
        let again = match ending {
            Ending::Done => {
                tallies.snapshots_sent.add(1);
                Some(INSTALL)
            }
            Ending::Gone => {
                tallies.snapshots_unsent.add(1);
                tracing::info!("a snapshot of shard {shard} is not taken by its receiver");
                Some(AGAIN)
            }
            Ending::Broken(why) => {
                tallies.snapshots_unsent.add(1);
                tracing::info!("a snapshot of shard {shard} was not sent: {why}");
                None
            }
        };
        match again {
            Some(pause) => self.snapshots.over.lock().push((shard, to, Instant::now() + pause)),
            None => self.hub.submit(shard, Input::SnapshotLost { shard, to }),
        }
    }
}

fn leads(here: &Shard, term: u64) -> bool {
    here.is_elected() && here.term_and_commit().0 == term
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_have_places_at_a_node_and_at_all_and_lost_links_take_none_of_these() {
        let has = |others: &[(u64, bool)]| {
            let others = others.iter().map(|(node, is_linked)| (NodeId(*node), *is_linked));
            has_place(NodeId(1), others)
        };
        assert!(has(&[]));
        assert!(has(&[(1, true); STREAMS_MAX - 1]));
        assert!(!has(&[(1, true); STREAMS_MAX]));
        assert!(!has(&[(1, false); STREAMS_MAX]));
        assert!(has(&[(2, true); STREAMS_OUT_MAX - 1]));
        assert!(!has(&[(2, true); STREAMS_OUT_MAX]));
        assert!(has(&[(2, false); STREAMS_OUT_MAX]));
    }

    #[test]
    fn urgent_ones_begin_first_and_wait_for_their_like_only() {
        let goal = |shard| (ShardId(shard), ReplicaId(1));
        let at = |shard, node| (goal(shard), NodeId(node));
        let to = |shard, node| (goal(shard), NodeId(node), true);
        let next = |asked: &[(Goal, NodeId)], streams: &[(Goal, NodeId, bool)], urgent: &[u64]| {
            let urgent = urgent.iter().map(|shard| goal(*shard)).collect();
            next(asked.iter().copied(), streams.iter().copied(), &urgent)
        };
        let asked = [at(10, 1), at(11, 1), at(12, 2), at(13, 1)];
        assert_eq!(next(&asked, &[], &[]), Some(0));
        assert_eq!(next(&asked, &[], &[13]), Some(3));
        let (one, two) = ([to(1, 1)], [to(1, 1), to(2, 1)]);
        assert_eq!(next(&asked, &one, &[]), Some(0));
        assert_eq!(next(&asked, &two, &[]), Some(2), "two are on their way to the first node");
        assert_eq!(next(&asked, &two, &[11, 13]), Some(1), "they hold nobody up");
        assert_eq!(next(&asked, &two, &[1, 11]), Some(1));
        assert_eq!(next(&asked, &two, &[1, 2, 11]), Some(2), "urgent ones wait for urgent ones");
        assert_eq!(next(&asked[3..], &[to(13, 1), to(2, 1)], &[]), Some(0), "in its own place");
    }
}
