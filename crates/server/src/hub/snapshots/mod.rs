//! How does the state of a shard get to a replica that lags too far behind, or is new?
//!
//! ```text
//!   sender's thread                         receiver's thread
//!     begin:  head of the message, meta ──►  a checkpoint file is begun
//!     block, block, …                   ──►  written to the file, and restored in memory
//!                                       ◄──  has: the blocks below k
//!         ✂  the link is lost, another comes up
//!     ask                               ──►
//!                                       ◄──  has: the blocks below k
//!     block k, …                        ──►
//!     end                               ──►  file finished, manifest names it, lane installs it
//!                                       ◄──  done
//! ```
//!
//! A stream is of one moment's state. It outlives links: its sender keeps the checkpoint's cursor
//! and the blocks that are not confirmed, its receiver the half of a file and what is restored.
//! Where it goes on after a loss is what a question and its answer are for (`outgoing`).
//!
//! | limit | bound | when reached |
//! |---|---|---|
//! | a block | about 256 KiB, or one version | |
//! | kept of a stream, unconfirmed | `KEPT_BYTES_MAX` and one block | the sender waits |
//! | streams to a node at a time | `STREAMS_MAX` | the others wait |
//! | streams to all nodes to which there is a link | `STREAMS_OUT_MAX` | the others wait |
//! | bytes a second, of blocks that are not urgent | `move_rate` | they wait, in turn (`pace`) |
//! | on their way to a node | `UNSENT_BYTES_MAX` | the sender waits |
//! | wait for the receiver's disk | `WAITING_BYTES_MAX` | frames are lost; it is asked again |
//! | time in which nothing is confirmed | `RESUME_FOR` | both sides end it |
//!
//! Streams share the rate a block each, in turn: with few of them each is soon over, and what must
//! be kept for its sake (old versions here, entries for the replica to catch up with) stays little.
//! Waiting for the rate counts against nobody's patience (`outgoing`).
//!
//! A stream is *urgent* as long as nothing is committed in its shard without it: too few of its
//! other voters take entries. Clients wait for each of its blocks, so it does not wait for the
//! rate, its bytes do not count against that of others, and only other urgent ones take its place.
//!
//! What is sent and kept when, and the bytes, are said by [`node::stream`].
//!
//! # Invariants
//! 1. What is installed are all blocks of one checkpoint, each once, in their order (`coming`).
//! 2. Whatever becomes of a stream, the shard's leader is told, or there is a newer one to the same
//!    replica: a group sends nothing to a replica while it takes a snapshot to be on its way.
//! 3. Memory is bounded by the table, and by the states of shards that come in, of each one.
//!
//! # What ends a stream
//! Its shard is dropped or led by another, here or in a later term; a newer snapshot for the same
//! replica; another snapshot has taken the place of the state here; its receiver does not want it
//! or cannot write it; nothing is confirmed for long. A process that starts again knows nothing of
//! its streams: they begin anew.
//!
//! # Caveats
//! While a stream lasts, what its checkpoint may read is not collected. A process that is killed
//! leaves a temporary file at most, which the next start removes. What replicas send is limited,
//! not what one receives: from many senders it gets the sum of their rates.

mod receiver;
mod sender;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use keyspace::{NodeId, ReplicaId, ShardId};
use node::lane::{Envelope, Input};
use node::stream::frame::{self, Said};
use parking_lot::{Condvar, Mutex};

use super::Hub;

/// Blocks that the receiver has not confirmed, of one stream: beyond, the next waits.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Streams to a node at a time. More would not be sooner over all together, but each would last
/// longer, and while it lasts writes pile up that its receiver will lack.
const STREAMS_MAX: usize = 2;
/// Streams at a time, to all nodes together. Those whose link is lost do not count: until they are
/// given up, others may begin.
const STREAMS_OUT_MAX: usize = 4;
/// Bytes on their way to a node, beyond which the next block waits.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Bytes that have come and are not on disk yet.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// What receivers have said and the sender has not seen. What is beyond is lost, and asked for.
const NEWS_MAX: usize = 4096;
/// How long the receiver's lane has to install what it was sent, and to say so to its leader.
const INSTALL: Duration = Duration::from_secs(2);
/// How long the threads sleep if nobody wakes them.
const IDLE: Duration = Duration::from_millis(200);

/// See the front page.
pub struct Snapshots {
    /// The sender's.
    outbound: Mutex<Outbound>,
    is_outbound: Condvar,
    /// Streams on their way from here, as of a moment ago.
    progress: Mutex<Vec<Progress>>,
    /// Over, as far as streams go: shard, replica, when the leader may try again.
    over: Mutex<Vec<(ShardId, ReplicaId, Instant)>>,
    /// The receiver's.
    come: Mutex<Come>,
    has_come: Condvar,
    stopping: Mutex<bool>,
    first_stream: u64,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Of this shard.
    pub shard: ShardId,
    /// To this replica.
    pub to: ReplicaId,
    /// Bytes of blocks sent; those sent again count again.
    pub sent_bytes: u64,
    /// Bytes there are, about: what the shard's versions took in memory when it began.
    pub about_bytes: u64,
}

impl Progress {
    /// Whether it is of this shard, to this replica.
    pub fn goes_to(&self, shard: ShardId, replica: ReplicaId) -> bool {
        (self.shard, self.to) == (shard, replica)
    }

    /// Bytes still to be sent, about.
    pub fn left_bytes(&self) -> u64 {
        self.about_bytes.saturating_sub(self.sent_bytes)
    }
}

#[derive(Default)]
struct Outbound {
    asked: VecDeque<Envelope>,
    news: Heard,
}

/// Where a state goes: of which shard, to which of its replicas.
type Goal = (ShardId, ReplicaId);

fn goal(asked: &Envelope) -> Goal {
    (asked.shard, asked.message.to())
}

/// What the sender hears, of which node.
type Heard = VecDeque<(NodeId, News)>;

enum News {
    Link { is_up: bool },
    Said { stream: u64, said: Said },
}

#[derive(Default)]
struct Come {
    frames: VecDeque<(NodeId, Bytes)>,
    bytes: usize,
}

impl Snapshots {
    /// `first_stream` was drawn at random.
    pub fn new(first_stream: u64) -> Self {
        let (outbound, is_outbound, progress, over) = Default::default();
        let (come, has_come, stopping) = Default::default();
        Self { outbound, is_outbound, progress, over, come, has_come, stopping, first_stream }
    }

    /// A message heads a snapshot whose state is to be sent beside it.
    pub fn ask(&self, envelope: Envelope) {
        let mut outbound = self.outbound.lock();
        outbound.asked.retain(|other| goal(other) != goal(&envelope));
        outbound.asked.push_back(envelope);
        self.is_outbound.notify_one();
    }

    /// Those of which the states wait to be sent, to whom.
    fn asked(&self) -> Vec<Goal> {
        self.outbound.lock().asked.iter().map(goal).collect()
    }

    /// Streams that wait until others are over.
    pub fn waiting(&self) -> usize {
        self.outbound.lock().asked.len()
    }

    /// Streams on their way from here, as of half a second ago at most.
    pub fn progress(&self) -> Vec<Progress> {
        self.progress.lock().clone()
    }

    /// A frame has come.
    pub fn come(&self, from: NodeId, body: Bytes) {
        if frame::is_said(&body) {
            return self.said(from, body);
        }
        let mut come = self.come.lock();
        if come.bytes + body.len() > WAITING_BYTES_MAX && come.bytes > 0 {
            // The sender asks what is here, and goes on from there.
            return;
        }
        come.bytes += body.len();
        come.frames.push_back((from, body));
        self.has_come.notify_one();
    }

    fn said(&self, from: NodeId, body: Bytes) {
        let mut outbound = self.outbound.lock();
        match frame::take_said(body) {
            Ok((stream, said)) if outbound.news.len() < NEWS_MAX => {
                outbound.news.push_back((from, News::Said { stream, said }));
                self.is_outbound.notify_one();
            }
            Ok(_) => {}
            Err(why) => tracing::warn!("node {:016x}, of a snapshot: {why}", from.0),
        }
    }

    /// There is a link to a node, or none any more.
    pub fn linked(&self, node: NodeId, is_up: bool) {
        self.outbound.lock().news.push_back((node, News::Link { is_up }));
        self.is_outbound.notify_one();
    }

    /// Has the threads end.
    pub fn stop(&self) {
        *self.stopping.lock() = true;
        self.is_outbound.notify_all();
        self.has_come.notify_all();
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.lock()
    }

    /// Tells leaders of states that have not arrived in time. What has arrived is not affected.
    pub fn expire(&self, hub: &Hub) {
        let now = Instant::now();
        let mut over = self.over.lock();
        let late: Vec<_> = over.extract_if(.., |(_, _, until)| *until <= now).collect();
        drop(over);
        for (shard, to, _) in late {
            hub.submit(shard, Input::SnapshotLost { shard, to });
        }
    }
}
