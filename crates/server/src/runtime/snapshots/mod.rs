//! Streams of snapshots: the state of a shard, sent to a replica that lags too far behind or is
//! new.
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
//!     end                               ──►  file finished, manifest names it, state installed
//!                                       ◄──  done
//! ```
//!
//! A stream holds the state at one moment. It outlives links: its sender keeps the checkpoint's
//! cursor and the unconfirmed blocks, its receiver the unfinished file and the restored state.
//! After a link was lost, the sender asks where to go on (`outgoing`).
//!
//! | limit | bound | when reached |
//! |---|---|---|
//! | a block | about 256 KiB, or one version | |
//! | kept of a stream, unconfirmed | `UNCONFIRMED_BYTES_MAX` and one block | the sender waits |
//! | streams to a node at a time | `STREAMS_MAX` | the others wait |
//! | streams to all nodes to which there is a link | `STREAMS_OUT_MAX` | the others wait |
//! | bytes a second, of blocks that are not urgent | `snapshot_rate` | they wait, in turn (`pace`) |
//! | on their way to a node | `UNSENT_BYTES_MAX` | the sender waits |
//! | wait for the receiver's disk | `WAITING_BYTES_MAX` | frames are lost; it is asked again |
//! | time in which nothing is confirmed | `GIVE_UP_AFTER` | both sides end it |
//!
//! Streams share the rate, a block each in turn. Few run at a time, so each is soon over, and the
//! sender retains few old versions and log entries for it. Time that a stream waits for the rate
//! does not count towards timeouts (`outgoing`).
//!
//! [`node::control::snapshots`] decides which streams begin, go on and end; [`node::rpc::stream`]
//! decides what a stream sends when, and encodes it. Here are the threads, the links and the files.
//!
//! # Invariants
//! 1. An installed snapshot has all blocks of one checkpoint, each once, in order (`coming`).
//! 2. However a stream ends, the shard's leader learns it, unless a newer stream to the same
//!    replica has begun: a leader sends no entries to a replica while a snapshot is on its way.
//! 3. Memory is bounded by the table, and by one state of each shard that comes in.
//!
//! # What ends a stream
//! The sender's core lists that ([`node::control::snapshots::sender`]). Its receiver may also not
//! be able to write it. A process that starts again knows nothing of its streams: they begin anew.
//!
//! # Caveats
//! While a stream lasts, what its checkpoint may read is not collected. A process that is killed
//! leaves a temporary file at most, which the next start removes. What replicas send is limited,
//! not what one receives: from many senders it gets the sum of their rates.

mod receiver;
mod sender;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use keyspace::NodeId;
pub use node::control::snapshots::sender::StreamProgress;
use node::control::snapshots::sender::{SenderLimits, SnapshotRequest};
use node::executor::Envelope;
use node::rpc::stream::frame::{self, ReceiverFrame};
use parking_lot::{Condvar, Mutex};
use replication::BootNanos;

/// Blocks that the receiver has not confirmed, of one stream: beyond, the next waits.
const UNCONFIRMED_BYTES_MAX: usize = 4 << 20;
/// Streams to a node at a time. More would not be sooner over all together, but each would last
/// longer, and while it lasts writes pile up that its receiver will lack.
const STREAMS_MAX: usize = 2;
/// Streams at a time, to all nodes together. Streams without a link do not count: others may begin
/// before they are given up.
const STREAMS_OUT_MAX: usize = 4;
/// Bytes on their way to a node, beyond which the next block waits.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Bytes that have come and are not on disk yet.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// Unread messages of receivers. Further ones are dropped, and the sender asks again.
const NEWS_MAX: usize = 4096;
/// How long the receiver's executor has to install the state, and to report it to its leader.
const INSTALL_NANOS: BootNanos = 2_000_000_000;
/// How long a leader waits before it tries again what the receiver does not take.
const RETRY_NANOS: BootNanos = 1_000_000_000;
/// How often the sender checks whether this node still leads the shards that it sends, and which of
/// them are urgent, and reports progress.
const CHECK_NANOS: BootNanos = 500_000_000;
/// How long the threads sleep if no other thread wakes them.
const IDLE: Duration = Duration::from_millis(200);

/// What the sender is held to.
const LIMITS: SenderLimits = SenderLimits {
    unconfirmed_bytes_max: UNCONFIRMED_BYTES_MAX,
    streams_to_node_max: STREAMS_MAX,
    streams_max: STREAMS_OUT_MAX,
    install_nanos: INSTALL_NANOS,
    retry_nanos: RETRY_NANOS,
    check_nanos: CHECK_NANOS,
};

/// See the front page.
pub struct Snapshots {
    /// What the sender has not seen yet.
    outbound: Mutex<SenderInbox>,
    is_outbound: Condvar,
    /// As of a moment ago.
    state: Mutex<SenderState>,
    /// The receiver's.
    come: Mutex<Inbound>,
    has_come: Condvar,
    stopping: Mutex<bool>,
    first_stream: u64,
}

#[derive(Default)]
struct SenderState {
    progress: Vec<StreamProgress>,
    waiting: usize,
}

#[derive(Default)]
struct SenderInbox {
    requests: Vec<SnapshotRequest>,
    news: VecDeque<(NodeId, SenderEvent)>,
}

/// What the sender hears, of some node.
enum SenderEvent {
    Link { is_up: bool },
    Reply { stream: u64, reply: ReceiverFrame },
}

#[derive(Default)]
struct Inbound {
    frames: VecDeque<(NodeId, Bytes)>,
    bytes: usize,
}

impl Snapshots {
    /// `first_stream` was drawn at random.
    pub fn new(first_stream: u64) -> Self {
        let (outbound, is_outbound, state) = Default::default();
        let (come, has_come, stopping) = Default::default();
        Self { outbound, is_outbound, state, come, has_come, stopping, first_stream }
    }

    /// Begins a stream: the message heads a snapshot whose state is sent beside it.
    pub fn ask(&self, envelope: Envelope) {
        self.outbound.lock().requests.push(SnapshotRequest::of(envelope));
        self.is_outbound.notify_one();
    }

    /// Streams that wait until others are over, as of half a second ago at most.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Streams on their way from here, as of half a second ago at most.
    pub fn progress(&self) -> Vec<StreamProgress> {
        self.state.lock().progress.clone()
    }

    /// A frame has come.
    pub fn take_frame(&self, from: NodeId, body: Bytes) {
        if frame::is_receiver_frame(&body) {
            return self.take_answer(from, body);
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

    fn take_answer(&self, from: NodeId, body: Bytes) {
        let mut outbound = self.outbound.lock();
        match frame::decode_receiver_frame(body) {
            Ok((stream, reply)) if outbound.news.len() < NEWS_MAX => {
                outbound.news.push_back((from, SenderEvent::Reply { stream, reply }));
                self.is_outbound.notify_one();
            }
            Ok(_) => {}
            Err(why) => tracing::warn!("node {:016x}, of a snapshot: {why}", from.0),
        }
    }

    /// There is a link to a node, or none any more.
    pub fn linked(&self, node: NodeId, is_up: bool) {
        self.outbound.lock().news.push_back((node, SenderEvent::Link { is_up }));
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
}
