//! The thread that sends streams: the driver of [`node::control::snapshots::sender`].
//!
//! In each round it tells the core what has happened, begins a stream if there is a place, and has
//! every stream send one frame, as long as there is room.

use std::time::Duration;

use node::control::snapshots::Destination;
use node::control::snapshots::sender::{
    EndedStream, Frame, NextFrame, SnapshotRequest, SnapshotSender, StreamEnding,
};
use node::control::snapshots::source::{self, DestinationFacts};
use node::event::EventKind;
use node::executor::Input;
use node::recovery::checkpoint::BLOCK;
use node::rpc::stream::frame::{begin_of, head_of, tag};
use node::rpc::stream::pace::Pace;
use replication::BootNanos;

use super::{
    CHECK_NANOS, IDLE, LIMITS, SenderEvent, SenderInbox, SenderState, Snapshots, UNSENT_BYTES_MAX,
};
use crate::peer::SendError;
use crate::runtime::peers::{KIND_SNAPSHOT, Peers};
use crate::runtime::survey::called;
use crate::runtime::{NodeRuntime, boot_nanos};

/// How long the sender sleeps before it looks whether there is room.
const PAUSE: Duration = Duration::from_millis(1);

/// The outcome of a round, or of one stream's part in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RoundOutcome {
    Idle,
    /// A block may leave at this time.
    Held(BootNanos),
    NoRoom,
    /// A frame has left, or a stream has ended.
    Moved,
}

/// What the thread has.
struct Sender<'a> {
    snapshots: &'a Snapshots,
    runtime: &'a NodeRuntime,
    peers: &'a Peers,
    core: SnapshotSender,
    /// When progress was last reported.
    reported_at: BootNanos,
}

impl Snapshots {
    /// The sender's thread, until [`Self::stop`].
    pub fn run_sender(&self, runtime: &NodeRuntime, peers: &Peers, pace: Pace) {
        let core = SnapshotSender::new(LIMITS, pace, self.first_stream);
        let mut sender =
            Sender { snapshots: self, runtime, peers, core, reported_at: boot_nanos() };
        let mut last = RoundOutcome::Moved;
        while let Some(outbound) = self.outbound(last, sender.core.next_lost()) {
            last = sender.round(outbound);
        }
    }

    /// What has come meanwhile; waits for it if the last round did not get on. None at the end.
    fn outbound(&self, last: RoundOutcome, wake_at: Option<BootNanos>) -> Option<SenderInbox> {
        let mut outbound = self.outbound.lock();
        if last < RoundOutcome::Moved && outbound.news.is_empty() && outbound.requests.is_empty() {
            let now = boot_nanos();
            let until = |at: BootNanos| Duration::from_nanos(at.saturating_sub(now));
            let pause = match last {
                RoundOutcome::NoRoom => PAUSE,
                RoundOutcome::Held(at) => IDLE.min(until(at)),
                _ => IDLE,
            };
            let pause = wake_at.map_or(pause, |at| pause.min(until(at)));
            self.is_outbound.wait_for(&mut outbound, pause);
        }
        (!self.is_stopping()).then(|| std::mem::take(&mut *outbound))
    }
}

impl Sender<'_> {
    fn round(&mut self, SenderInbox { requests, news }: SenderInbox) -> RoundOutcome {
        let is_news = !requests.is_empty();
        news.into_iter().for_each(|(node, news)| match news {
            SenderEvent::Link { is_up } => self.core.linked(node, is_up),
            SenderEvent::Reply { stream, reply } => {
                if self.core.hear(node, stream, reply, boot_nanos()) {
                    self.peers.rpc_counters.snapshot_resumes.add(1);
                    tracing::debug!("goes on with stream {stream}: {reply:?}");
                }
            }
        });
        requests.into_iter().for_each(|request| self.core.ask(request));
        if self.core.wants_facts(boot_nanos()) {
            self.learn();
        }
        let request = self.core.take_request();
        let has_begun = request.is_some();
        if let Some(request) = request {
            self.begin(request);
        }
        let best = self.turn();
        let has_ended = self.settle();
        if is_news || has_begun || has_ended || boot_nanos() >= self.reported_at + CHECK_NANOS {
            self.tell();
        }
        // There may be a place for the next one.
        if has_begun || has_ended { RoundOutcome::Moved } else { best }
    }

    fn facts(&self, to: Destination, now: BootNanos) -> DestinationFacts {
        self.runtime.with_executor(to.shard, |executor| source::facts(executor, to, now))
    }

    fn learn(&mut self) {
        let now = boot_nanos();
        let facts = self.core.destinations().map(|to| (to, self.facts(to, now)));
        let facts: Vec<(Destination, DestinationFacts)> = facts.collect();
        for Destination { shard, replica } in self.core.learn(&facts, now) {
            tracing::info!(
                "shard {shard} commits nothing until replica {replica} has a snapshot: it is sent \
                 without the limit of `snapshot_rate`"
            );
        }
    }

    fn begin(&mut self, request: SnapshotRequest) {
        let to = request.to;
        if let Err(why) = self.try_begin(request) {
            self.core.refuse(to, why, boot_nanos());
        }
    }

    fn try_begin(&mut self, request: SnapshotRequest) -> Result<(), String> {
        let Destination { shard, .. } = request.to;
        let end = self.runtime.log.facts().written_end;
        let now = boot_nanos();
        let begun = self.runtime.with_executor(shard, |executor| {
            self.core.check(request.term, &source::facts(executor, request.to, now))?;
            let here = executor.shard(shard).expect("the shard is on this node");
            Ok::<_, &str>(source::source(here, request.head.clone(), end, BLOCK))
        })?;
        let (node, index) = (request.node, begun.checkpoint.index);
        let about_bytes = begun.about_bytes;
        self.runtime.happened(EventKind::SnapshotStarted { shard, index, about_bytes, to: node });
        let meta = begun.checkpoint.meta.clone();
        let begin = begin_of(shard, &begun.head);
        let number = self.core.begin(&request, begun.checkpoint, about_bytes, now);
        let parts = [&head_of(tag::BEGIN, number)[..], &begin, &meta];
        let sent = self.peers.cluster.send(node, KIND_SNAPSHOT, &parts);
        sent.map_err(|error| error.to_string())?;
        self.peers.cluster.flush();
        Ok(())
    }

    /// Has every stream send a frame; how far they came.
    fn turn(&mut self) -> RoundOutcome {
        let mut best = RoundOutcome::Idle;
        let mut place = 0;
        for _ in 0..self.core.count() {
            let (turn, has_moved_up) = self.turn_of(place);
            best = best.max(turn);
            place += usize::from(!has_moved_up);
        }
        best
    }

    /// Has a stream send a frame. Whether another one is at its place now.
    fn turn_of(&mut self, place: usize) -> (RoundOutcome, bool) {
        let (now, peers) = (boot_nanos(), self.peers);
        let frame = match self.core.next_frame(place, now) {
            NextFrame::Nothing => return (RoundOutcome::Idle, false),
            NextFrame::Held(until) => return (RoundOutcome::Held(until), false),
            NextFrame::Ended => return (RoundOutcome::Moved, true),
            NextFrame::Frame(frame) => frame,
        };
        let Frame { node, tag, stream, number, block, .. } = frame;
        if peers.cluster.unsent_bytes(node) >= UNSENT_BYTES_MAX {
            return (RoundOutcome::NoRoom, false);
        }
        let parts = [&head_of(tag, stream)[..], &number.to_le_bytes(), block];
        let bytes = block.len() as u64;
        match peers.cluster.send(node, KIND_SNAPSHOT, &parts) {
            Ok(()) => {}
            Err(SendError::Full) => return (RoundOutcome::NoRoom, false),
            Err(SendError::NotConnected) => {
                self.core.unlinked(place);
                return (RoundOutcome::Idle, false);
            }
            Err(error @ SendError::TooLong { .. }) => {
                self.core.unsendable(place, error.to_string(), now);
                return (RoundOutcome::Moved, true);
            }
        }
        peers.cluster.flush();
        self.core.sent(place, now);
        let is_block = tag == tag::BLOCK;
        if is_block {
            peers.rpc_counters.snapshot_blocks_sent.add(1);
            peers.rpc_counters.snapshot_bytes_sent.add(bytes);
        }
        (RoundOutcome::Moved, is_block)
    }

    /// Counts streams that have ended, and tells leaders. Whether there are any.
    fn settle(&mut self) -> bool {
        let ended = self.core.take_ended();
        let has_ended = !ended.is_empty();
        ended.iter().for_each(|ended| self.count(ended));
        for Destination { shard, replica } in self.core.take_lost(boot_nanos()) {
            self.runtime.submit(shard, Input::SnapshotLost { shard, to: replica });
        }
        has_ended
    }

    fn count(&self, EndedStream { to, ending, sent }: &EndedStream) {
        let (counters, shard) = (&self.peers.rpc_counters, to.shard);
        match ending {
            StreamEnding::Installed => {
                counters.snapshots_sent.add(1);
                let Some((node, bytes, begun)) = sent else { return };
                let node = called(*node, &self.runtime.members());
                let (bytes, nanos) = (*bytes, boot_nanos() - begun);
                self.runtime.happened(EventKind::SnapshotSent { shard, node, bytes, nanos });
            }
            StreamEnding::Declined => {
                counters.snapshots_unsent.add(1);
                let (why, is_wrong) = (None, false);
                self.runtime.happened(EventKind::SnapshotNotSent { shard, why, is_wrong });
            }
            StreamEnding::InvalidProgress(why) => {
                counters.snapshots_unsent.add(1);
                let (why, is_wrong) = (Some(why.to_string()), true);
                self.runtime.happened(EventKind::SnapshotNotSent { shard, why, is_wrong });
            }
            StreamEnding::Broken(why) => {
                counters.snapshots_unsent.add(1);
                let (why, is_wrong) = (Some(why.clone()), false);
                self.runtime.happened(EventKind::SnapshotNotSent { shard, why, is_wrong });
            }
        }
    }

    /// Reports the progress of the streams.
    fn tell(&mut self) {
        self.reported_at = boot_nanos();
        let (progress, waiting) = (self.core.progress().collect(), self.core.waiting());
        *self.snapshots.state.lock() = SenderState { progress, waiting };
    }
}
