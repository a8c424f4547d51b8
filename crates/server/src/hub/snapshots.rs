//! How does the state of a shard get to a replica that lags too far behind, or is new?
//!
//! ```text
//!   sender's thread                         receiver's thread
//!     begin:  head of the message, meta ──►  a checkpoint file is begun
//!     block, block, …                   ──►  written to the file, and restored in memory
//!     end                               ──►  file finished, manifest names it, lane installs it
//! ```
//!
//! A block is about 256 KiB; no more than `UNSENT_BYTES_MAX` are on their way to a node at one
//! time, and no more than `WAITING_BYTES_MAX` wait for the receiver's disk: beyond that a stream
//! is dropped. A stream that was dropped, or whose link has gone, begins again from its beginning
//! when the leader asks for it again. Frames have checksums, and so has the file.
//!
//! | frame | after the tag u8 and the stream's number u64 |
//! |---|---|
//! | 1 begin | shard u64, length of the head u32, head, meta |
//! | 2 block | its number u32, the block |
//! | 3 end | number of blocks u32 |
//!
//! # What it leaves
//! A stream that breaks off leaves a temporary file at most, which the next one of the shard, or
//! the next start, removes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use keyspace::{NodeId, ReplicaId, ShardId};
use node::checkpoint::{BLOCK, Checkpoint};
use node::lane::{Envelope, Input};
use node::recovery::Recovering;
use node::state::Content;
use parking_lot::{Condvar, Mutex};
use replication::Message;
use storage::checkpoint::CheckpointWriter;
use storage::manifest::CheckpointRef;

use super::checkpoints::Checkpoints;
use super::peers::{KIND_SNAPSHOT, Peers};
use super::tallies::Tally;
use super::{Hub, News};
use crate::peer::SendError;

/// Bytes on their way to a node, beyond which the next block waits.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Bytes that have come and are not on disk yet.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// A stream that gets nowhere for so long is given up.
const STUCK: Duration = Duration::from_secs(10);
/// How long the receiver has to install what it was sent, and as long again for every
/// [`BYTES_A_SECOND`].
const INSTALL: Duration = Duration::from_secs(2);
const BYTES_A_SECOND: u64 = 50 << 20;
/// How long the sender sleeps before it looks whether there is room.
const PAUSE: Duration = Duration::from_millis(1);

const BEGIN: u8 = 1;
const BLOCK_OF: u8 = 2;
const END: u8 = 3;

/// See the front page.
#[derive(Default)]
pub struct Snapshots {
    asked: Mutex<VecDeque<Envelope>>,
    is_asked: Condvar,
    /// On their way or to be installed: shard, replica, until when.
    sent: Mutex<Vec<(ShardId, ReplicaId, Instant)>>,
    come: Mutex<Come>,
    has_come: Condvar,
    streams: AtomicU64,
    stopping: Mutex<bool>,
}

#[derive(Default)]
struct Come {
    frames: VecDeque<(NodeId, Bytes)>,
    bytes: usize,
}

struct Incoming {
    shard: ShardId,
    head: Message,
    index: u64,
    state: Recovering,
    writer: CheckpointWriter,
    blocks: u32,
}

impl Snapshots {
    /// A message heads a snapshot whose state is to be sent beside it.
    pub fn ask(&self, envelope: Envelope) {
        let mut asked = self.asked.lock();
        let (shard, to) = (envelope.shard, envelope.message.to());
        asked.retain(|other| (other.shard, other.message.to()) != (shard, to));
        asked.push_back(envelope);
        self.is_asked.notify_one();
    }

    /// A frame has come.
    pub fn come(&self, from: NodeId, body: Bytes) {
        let mut come = self.come.lock();
        if come.bytes + body.len() > WAITING_BYTES_MAX && come.bytes > 0 {
            // A gap in its numbers gives the stream up.
            return;
        }
        come.bytes += body.len();
        come.frames.push_back((from, body));
        self.has_come.notify_one();
    }

    /// Has the threads end.
    pub fn stop(&self) {
        *self.stopping.lock() = true;
        self.is_asked.notify_all();
        self.has_come.notify_all();
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.lock()
    }

    /// Tells leaders of states that have not arrived in time. What has arrived is not affected.
    pub fn expire(&self, hub: &Hub) {
        let now = Instant::now();
        let mut sent = self.sent.lock();
        let late: Vec<_> = sent.extract_if(.., |(_, _, until)| *until <= now).collect();
        drop(sent);
        for (shard, to, _) in late {
            hub.submit(shard, Input::SnapshotLost { shard, to });
        }
    }

    /// The sender's thread, until [`Self::stop`].
    pub fn run_sender(&self, hub: &Hub, peers: &Peers) {
        loop {
            let envelope = {
                let mut asked = self.asked.lock();
                loop {
                    if self.is_stopping() {
                        return;
                    }
                    match asked.pop_front() {
                        Some(envelope) => break envelope,
                        None => {
                            self.is_asked.wait_for(&mut asked, Duration::from_millis(200));
                        }
                    }
                }
            };
            let (shard, to) = (envelope.shard, envelope.message.to());
            match self.send(hub, peers, envelope) {
                Ok(bytes) => {
                    peers.tallies.snapshots_sent.add(1);
                    peers.tallies.snapshot_bytes_sent.add(bytes);
                    let seconds = (bytes / BYTES_A_SECOND) as u32;
                    let until = Instant::now() + INSTALL * (1 + seconds);
                    self.sent.lock().push((shard, to, until));
                }
                Err(why) => {
                    peers.tallies.snapshots_unsent.add(1);
                    tracing::info!("a snapshot of shard {shard} was not sent: {why}");
                    hub.submit(shard, Input::SnapshotLost { shard, to });
                }
            }
        }
    }

    fn send(&self, hub: &Hub, peers: &Peers, envelope: Envelope) -> Result<u64, String> {
        let Envelope { shard, node, message, .. } = envelope;
        let end = hub.log.facts().written_end;
        let begun = hub.lanes[hub.lane_of(shard)].with(hub, |lane| {
            let here = lane.shard(shard).filter(|here| here.is_elected())?;
            let checkpoint = Checkpoint::begin(here, end, BLOCK);
            let view = here.view();
            let state = view.read();
            let at = (state.applied_index, state.applied_term);
            let head = message.with_snapshot(at, &state.members);
            Some((checkpoint, head))
        });
        let (mut checkpoint, head) = begun.ok_or("this node does not lead it any more")?;
        let index = checkpoint.index;
        tracing::debug!("sends shard {shard}, as of entry {index}, to node {:016x}", node.0);
        let stream = self.streams.fetch_add(1, Ordering::Relaxed);
        let mut head_bytes = Vec::new();
        head.encode(&mut head_bytes);
        let length = (head_bytes.len() as u32).to_le_bytes();
        let id = shard.0.to_le_bytes();
        let push = |tag: u8, parts: &[&[u8]]| self.push(peers, node, tag, stream, parts);
        push(BEGIN, &[&id, &length, &head_bytes, &checkpoint.meta])?;
        let (mut block, mut blocks, mut bytes) = (Vec::new(), 0u32, 0);
        while checkpoint.next_block(&mut block) {
            push(BLOCK_OF, &[&blocks.to_le_bytes(), &block])?;
            blocks += 1;
            bytes += block.len() as u64;
        }
        if checkpoint.is_void() {
            return Err("another snapshot has taken its place".into());
        }
        push(END, &[&blocks.to_le_bytes()])?;
        Ok(bytes)
    }

    /// Sends a frame, when there is room.
    fn push(
        &self,
        peers: &Peers,
        node: NodeId,
        tag: u8,
        stream: u64,
        parts: &[&[u8]],
    ) -> Result<(), String> {
        let mut head = [tag; 9];
        head[1..].copy_from_slice(&stream.to_le_bytes());
        let mut all: Vec<&[u8]> = vec![&head];
        all.extend_from_slice(parts);
        let begun = Instant::now();
        loop {
            if self.is_stopping() {
                return Err("the node stops".into());
            }
            let has_room = peers.cluster.unsent_bytes(node) < UNSENT_BYTES_MAX;
            let sent = if has_room {
                peers.cluster.send(node, KIND_SNAPSHOT, &all)
            } else {
                Err(SendError::Full)
            };
            match sent {
                Ok(()) => {
                    peers.cluster.flush();
                    return Ok(());
                }
                Err(SendError::Full) if begun.elapsed() < STUCK => thread::sleep(PAUSE),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// The receiver's thread, until [`Self::stop`].
    pub fn run_receiver(&self, hub: &Hub, peers: &Peers, checkpoints: &Mutex<Checkpoints>) {
        let mut streams = BTreeMap::new();
        loop {
            let (from, body) = {
                let mut come = self.come.lock();
                loop {
                    if self.is_stopping() {
                        return;
                    }
                    match come.frames.pop_front() {
                        Some((from, body)) => {
                            come.bytes -= body.len();
                            break (from, body);
                        }
                        None => {
                            self.has_come.wait_for(&mut come, Duration::from_millis(200));
                        }
                    }
                }
            };
            if let Err(why) = self.take(hub, peers, checkpoints, &mut streams, from, body) {
                peers.tallies.snapshots_broken.add(1);
                tracing::warn!("a snapshot from node {:016x} is given up: {why}", from.0);
            }
        }
    }

    fn take(
        &self,
        hub: &Hub,
        peers: &Peers,
        checkpoints: &Mutex<Checkpoints>,
        streams: &mut BTreeMap<(NodeId, u64), Incoming>,
        from: NodeId,
        mut body: Bytes,
    ) -> Result<(), String> {
        let short = |_| "a frame ends too early".to_owned();
        let tag = body.try_get_u8().map_err(short)?;
        let key = (from, body.try_get_u64_le().map_err(short)?);
        match tag {
            BEGIN => {
                let Some(incoming) = self.begin(hub, checkpoints, body)? else { return Ok(()) };
                let mut tally = Tally::default();
                tally.message(&incoming.head);
                peers.tallies.received.add(&tally);
                // Of one shard one stream: the newer.
                streams.retain(|_, other| other.shard != incoming.shard);
                streams.insert(key, incoming);
                Ok(())
            }
            BLOCK_OF => {
                let Some(incoming) = streams.get_mut(&key) else { return Ok(()) };
                let number = body.try_get_u32_le().map_err(short)?;
                peers.tallies.snapshot_bytes_received.add(body.len() as u64);
                let taken = match number == incoming.blocks {
                    true => incoming.block(&body),
                    false => Err(format!("block {number} instead of {}", incoming.blocks)),
                };
                if taken.is_err() {
                    streams.remove(&key);
                }
                taken
            }
            END => {
                let Some(incoming) = streams.remove(&key) else { return Ok(()) };
                let blocks = body.try_get_u32_le().map_err(short)?;
                if blocks != incoming.blocks {
                    return Err(format!("{} blocks of {blocks}", incoming.blocks));
                }
                if install(hub, checkpoints, incoming)? {
                    peers.tallies.snapshots_received.add(1);
                }
                Ok(())
            }
            other => Err(format!("a frame of kind {other}")),
        }
    }

    fn begin(
        &self,
        hub: &Hub,
        checkpoints: &Mutex<Checkpoints>,
        mut body: Bytes,
    ) -> Result<Option<Incoming>, String> {
        let short = |_| "a frame ends too early".to_owned();
        let shard = ShardId(body.try_get_u64_le().map_err(short)?);
        let length = body.try_get_u32_le().map_err(short)? as usize;
        if body.len() < length {
            return Err("a frame ends too early".into());
        }
        let head = Message::decode(body.split_to(length)).map_err(|error| error.to_string())?;
        let state = Recovering::from_checkpoint(shard, &body, hub.hasher)
            .map_err(|error| error.to_string())?;
        let index = state.state().applied_index;
        let meta = hub.lanes[hub.lane_of(shard)].with(hub, |lane| {
            let here = lane.shard(shard).filter(|here| here.wants(&head))?;
            Some(here.meta_of(state.state()))
        });
        let Some(meta) = meta else { return Ok(None) };
        tracing::debug!("receives shard {shard}, as of entry {index}");
        let (disk, cluster) = checkpoints.lock().place();
        let writer = CheckpointWriter::create(disk, cluster, shard, index, &meta);
        let writer = writer.map_err(|error| error.to_string())?;
        Ok(Some(Incoming { shard, head, index, state, writer, blocks: 0 }))
    }
}

impl Incoming {
    fn block(&mut self, block: &[u8]) -> Result<(), String> {
        self.blocks += 1;
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
    let Incoming { shard, head, index, state, writer, .. } = incoming;
    // No round of checkpoints goes on meanwhile.
    let mut checkpoints = checkpoints.lock();
    let lane = &hub.lanes[hub.lane_of(shard)];
    if !lane.with(hub, |lane| lane.shard(shard).is_some_and(|here| here.wants(&head))) {
        return writer.abandon().map(|()| false).map_err(|error| error.to_string());
    }
    writer.finish().map_err(|error| error.to_string())?;
    match checkpoints.replace(CheckpointRef { shard, applied_index: index }) {
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
