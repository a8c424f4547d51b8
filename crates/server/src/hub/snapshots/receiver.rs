//! The thread that takes streams in: to disk and into memory, and installs those that are whole.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use keyspace::{NodeId, ShardId};
use node::lane::Input;
use node::recovery::Recovering;
use node::shard::Shard;
use node::state::Content;
use node::stream::coming::{Coming, Ended, Name};
use node::stream::frame::{self, Said, Sent};
use parking_lot::Mutex;
use replication::BootNanos;
use replication::Message;
use storage::checkpoint::CheckpointWriter;
use storage::manifest::CheckpointRef;

use super::{IDLE, Snapshots};
use crate::hub::checkpoints::Checkpoints;
use crate::hub::peers::{KIND_SNAPSHOT, Peers};
use crate::hub::tallies::Tally;
use crate::hub::{Hub, News, boot_nanos};

/// What a stream is taken into.
struct Incoming {
    shard: ShardId,
    head: Message,
    index: u64,
    /// Term and vote that the file says, since its beginning.
    vote: (u64, u64),
    state: Recovering,
    writer: CheckpointWriter,
}

/// What the thread has.
struct Receiver<'a> {
    hub: &'a Hub,
    peers: &'a Peers,
    checkpoints: &'a Mutex<Checkpoints>,
    coming: Coming<Incoming>,
}

impl Snapshots {
    /// The receiver's thread, until [`Self::stop`].
    pub fn run_receiver(&self, hub: &Hub, peers: &Peers, checkpoints: &Mutex<Checkpoints>) {
        let mut receiver = Receiver { hub, peers, checkpoints, coming: Coming::default() };
        let mut looked = Instant::now();
        while !self.is_stopping() {
            if let Some((from, body)) = self.next_frame() {
                receiver.frame(from, body);
                receiver.count();
            }
            let now = Instant::now();
            if now >= looked + IDLE {
                looked = now;
                receiver.expire(boot_nanos());
                receiver.count();
            }
        }
    }

    /// A frame that has come, waiting a little if there is none.
    fn next_frame(&self) -> Option<(NodeId, Bytes)> {
        let mut come = self.come.lock();
        if come.frames.is_empty() {
            self.has_come.wait_for(&mut come, IDLE);
        }
        let (from, body) = come.frames.pop_front()?;
        come.bytes -= body.len();
        Some((from, body))
    }
}

impl Receiver<'_> {
    fn count(&self) {
        self.peers.tallies.snapshots_coming.set(self.coming.count() as u64);
    }

    fn frame(&mut self, from: NodeId, body: Bytes) {
        let (stream, taken) = match frame::take_sent(body) {
            Ok((stream, sent)) => (Some(stream), self.take((from, stream), sent)),
            Err((stream, why)) => (stream, Err(why)),
        };
        let said = match taken {
            Ok(said) => said,
            Err(why) => {
                self.peers.tallies.snapshots_broken.add(1);
                tracing::warn!("a snapshot from node {:016x} is given up: {why}", from.0);
                let half = stream.and_then(|stream| self.coming.give_up((from, stream)));
                half.into_iter().for_each(|half| self.abandon(half));
                Some(Said::Gone)
            }
        };
        if let (Some(stream), Some(said)) = (stream, said) {
            // If there is no link or no room, the sender asks.
            let bytes = frame::said_of(stream, said);
            let _asks_again = self.peers.cluster.send(from, KIND_SNAPSHOT, &[&bytes]);
            self.peers.cluster.flush();
        }
    }

    /// What to answer; if it cannot be taken, the stream is given up.
    fn take(&mut self, name: Name, sent: Sent) -> Result<Option<Said>, String> {
        let now = boot_nanos();
        match sent {
            Sent::Begin { shard, head, meta } => {
                let begun = self.begin(name, shard, *head, &meta)?;
                Ok((!begun).then_some(Said::Gone))
            }
            Sent::Block { number, block } => {
                let Some(incoming) = self.coming.block(name, number, now) else { return Ok(None) };
                incoming.block(&block)?;
                self.peers.tallies.snapshot_blocks_received.add(1);
                self.peers.tallies.snapshot_bytes_received.add(block.len() as u64);
                // The number 0 answers no question.
                Ok(Some(self.coming.answer(name, 0, now)))
            }
            Sent::Ask { ask } => Ok(Some(self.coming.answer(name, ask, now))),
            Sent::End { blocks } => {
                let Ended::Whole(incoming) = self.coming.end(name, blocks) else { return Ok(None) };
                if !install(self.hub, self.checkpoints, incoming)? {
                    return Ok(Some(Said::Gone));
                }
                self.peers.tallies.snapshots_received.add(1);
                self.coming.done(name);
                Ok(Some(Said::Done))
            }
        }
    }

    /// Begins to take a stream in, if the shard wants it.
    fn begin(
        &mut self,
        name: Name,
        shard: ShardId,
        head: Message,
        meta: &[u8],
    ) -> Result<bool, String> {
        let hub = self.hub;
        let state = Recovering::from_checkpoint(shard, meta, hub.hasher);
        let state = state.map_err(|error| error.to_string())?;
        let index = state.state().applied_index;
        let meta = hub.lanes[hub.lane_of(shard)].with(hub, |lane| {
            let here = lane.shard(shard).filter(|here| here.wants(&head))?;
            Some((here.meta_of(state.state()), vote_of(here)))
        });
        let Some((meta, vote)) = meta else {
            hub.submit(shard, Input::Declined { shard, head: Box::new(head) });
            return Ok(false);
        };
        tracing::debug!("receives shard {shard}, as of entry {index}");
        let mut tally = Tally::default();
        tally.message(&head);
        self.peers.tallies.received.add(&tally);
        // Before there is a file of, perhaps, the same name and kind.
        let older = self.coming.make_way(shard);
        older.into_iter().for_each(|half| self.abandon(half));
        let (disk, cluster) = self.checkpoints.lock().place();
        let writer = CheckpointWriter::create_received(disk, cluster, shard, index, &meta);
        let writer = writer.map_err(|error| error.to_string())?;
        let incoming = Incoming { shard, head, index, vote, state, writer };
        self.coming.begin(name, shard, incoming, boot_nanos());
        Ok(true)
    }

    /// Gives back the space of what will not be whole.
    fn abandon(&self, half: Incoming) {
        if let Err(error) = half.writer.abandon() {
            let shard = half.shard;
            tracing::warn!("half a snapshot of shard {shard} stays until a restart: {error}");
        }
    }

    fn expire(&mut self, now: BootNanos) {
        for ((from, _), half) in self.coming.expire(now) {
            self.peers.tallies.snapshots_broken.add(1);
            let (from, shard) = (from.0, half.shard);
            tracing::info!("node {from:016x} does not go on with a snapshot of shard {shard}");
            self.abandon(half);
        }
    }
}

impl Incoming {
    fn block(&mut self, block: &[u8]) -> Result<(), String> {
        self.writer.block(block).map_err(|error| error.to_string())?;
        self.state.restore(block).map_err(|error| error.to_string())
    }
}

/// All of it is here: it takes the place of what the shard holds, on disk and then in its lane;
/// unless the shard has no use for it any more.
fn install(
    hub: &Hub,
    checkpoints: &Mutex<Checkpoints>,
    incoming: Incoming,
) -> Result<bool, String> {
    let Incoming { shard, head, index, vote, state, writer } = incoming;
    // No round of checkpoints goes on meanwhile.
    let mut checkpoints = checkpoints.lock();
    // First of all, for a round cuts the log: what is written there of votes is looked at below.
    if let Err(error) = checkpoints.cover_halves(hub) {
        hub.fatal("a checkpoint", &error);
    }
    let lane = &hub.lanes[hub.lane_of(shard)];
    // The file must not say less than the checkpoint whose place it takes (decision 0014).
    let fits = |here: &Shard| here.wants(&head) && vote_of(here) == vote;
    if !lane.with(hub, |lane| lane.shard(shard).is_some_and(fits)) {
        hub.submit(shard, Input::Declined { shard, head: Box::new(head) });
        return writer.abandon().map(|()| false).map_err(|error| error.to_string());
    }
    writer.finish().map_err(|error| error.to_string())?;
    match checkpoints.replace(hub, CheckpointRef { shard, applied_index: index }) {
        Ok(()) => {}
        Err(error @ storage::Error::Full { .. }) => return Err(error.to_string()),
        Err(error) => hub.fatal("installing a snapshot", &error),
    }
    let state = state.into_state();
    if let Content::System(system) = &state.content {
        // Nobody announces the changes that the snapshot has jumped over.
        hub.post_news([News::Jumped(Arc::new(system.catalogue.clone()))]);
    }
    hub.submit(shard, Input::Install { head: Box::new(head), state: Box::new(state) });
    tracing::info!("shard {shard} is here, as of entry {index}");
    Ok(true)
}

fn vote_of(here: &Shard) -> (u64, u64) {
    let hard_state = here.hard_state();
    (hard_state.term, hard_state.vote)
}
