//! Requests from node to node on behalf of clients, and their bytes.
//!
//! A node that is asked for a key asks the shard's leader, if another node leads. RPCs may be lost
//! and reordered like messages of replicas, and are sent again then. A batch has its number in a
//! session ([`crate::routing::session`]); every other request may be repeated. No link delivers an
//! RPC twice. So a batch that was sent once, and refused for want of room, will certainly not be
//! done.
//!
//! ```text
//!   Write           shard, batch id, commands ──► WriteReply: done, a gap, refused …
//!   ReadIndex       shard, number, time       ──► ReadIndexReply: apply to this index, then read
//!   Catalogue       number, operation         ──► CatalogueReply: its result, and its index
//!   Fetch           shard, number, what       ──► FetchReply: a result ([`crate::routing::fetch`])
//!                                             ──► NotLeader: another node leads, if known which
//!                                             ──► NoRoom: the disk is full
//!   Step            shard, number, step       ──► StepReply: the shard's answer ([`txn::locks`])
//!   RaiseSafePoint  keyspace, time            ──► SafePoint: the keyspace's safe point
//!   Count           shard, number, index      ──► CountReply: replicas with the log on disk so far
//!   Merge           between the leaders of two shards that merge ([`crate::reshape::merge`])
//!   Tracking        between a node whose clients cache and the leader ([`crate::tracking`])
//!   Notice          between replicas, about themselves ([`crate::rpc::notice`])
//! ```

use bytes::Bytes;
use keyspace::{CatalogueError, KeyspaceId, ShardId, Subject, Timestamp};
use overlay::KnownShard;

use crate::replica::{Count, SYSTEM, SafePoint, SafePointRequest};
use crate::reshape::merge::MergeMessage;
use crate::routing::fetch::{FetchRequest, FetchResult};
use crate::routing::session::{BATCH_ID_BYTES, BatchId, BatchVerdict};
use crate::rpc::notice::ReplicaNotice;
use crate::tracking::message::TrackingMessage;
use txn::locks::StepReply;

mod codec;

/// A message from node to node.
#[derive(Clone, Debug, PartialEq)]
pub enum RpcMessage {
    /// 1: commands for the leader of a shard.
    Write {
        /// The shard: `varint`.
        shard: ShardId,
        /// Their number: 32 bytes.
        id: BatchId,
        /// How many they are: `varint`.
        count: u32,
        /// Their bytes: all that is left.
        commands: Bytes,
    },
    /// 2: from which index on does a shard's state hold all that was ever committed, with nothing
    /// under way at or below this time?
    ReadIndex {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number for it: `varint`.
        number: u64,
        /// The time: u64.
        at: Timestamp,
    },
    /// 3: a change of the catalogue.
    Catalogue {
        /// The asker's number for it: `varint`.
        number: u64,
        /// A `keyspace::CatalogueOp`: `bytes`.
        op: Vec<u8>,
    },
    /// 4: what became of a batch.
    WriteReply {
        /// The shard: `varint`.
        shard: ShardId,
        /// Its session: u64.
        session: u64,
        /// Its place there: `varint`.
        sequence: u64,
        /// What: tag `u8` and fields.
        verdict: BatchVerdict,
    },
    /// 5: apply this far, and read.
    ReadIndexReply {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number: `varint`.
        number: u64,
        /// The index: `varint`.
        index: u64,
        /// The leader's clock when it was asked or, if that is later and not too far ahead, the
        /// time that it was asked for, in ms since 1970: `varint`.
        now_ms: u64,
        /// Nothing is under way at or below this time that is not applied as of the index, nor will
        /// be: u64. The same time, unless the leader's disk is full.
        settled: Timestamp,
    },
    /// 6: the catalogue's reply.
    CatalogueReply {
        /// The asker's number: `varint`.
        number: u64,
        /// Applied as this index of the system shard, or earlier: `varint`.
        index: u64,
        /// What it was about, as it is then: `u8` 0 and a keyspace, 1 and the error, or 2 and a
        /// node u64 with its administrative state.
        result: Result<Box<Subject>, CatalogueError>,
    },
    /// 7: nothing was done about one of these: another node leads the shard.
    NotLeader {
        /// The shard: `varint`.
        shard: ShardId,
        /// Which.
        what: RpcRequestId,
        /// The shard as that node knows it, so that a sender with an old route gets a newer one:
        /// `u8` 0, or 1 and an [`overlay::KnownShard`].
        known: Option<Box<KnownShard>>,
    },
    /// 8: nothing was done about one of these, for this node cannot now: its disk is full.
    NoRoom {
        /// The shard: `varint`.
        shard: ShardId,
        /// Which.
        what: RpcRequestId,
    },
    /// 9: what a shard holds, for a node that has no replica of it, or one that lags.
    Fetch {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number for it: `varint`.
        number: u64,
        /// What is wanted.
        want: FetchRequest,
    },
    /// 10: the result of a fetch.
    FetchReply {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number: `varint`.
        number: u64,
        /// When: u64.
        at: Timestamp,
        /// What.
        found: FetchResult,
    },
    /// 11: a keyspace's old versions could go, if its safe point rose; for the system shard.
    /// Keyspace `varint`, time u64, whether memory is short there `u8`.
    RaiseSafePoint(SafePointRequest),
    /// 12: what a keyspace's safe point is, or was a moment ago; of the system shard.
    SafePoint {
        /// The keyspace: `varint`.
        keyspace: KeyspaceId,
        /// Its safe point: u64. With pins it is 21, and their count `varint` and times u64 follow.
        point: SafePoint,
    },
    /// 13: how many replicas have a shard's log on disk up to an index; asked of its leader.
    Count {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number: `varint`; told back. Answered or lost: nobody keeps it.
        number: u64,
        /// … and who asks there: `varint`.
        origin: u32,
        /// The index, or 0, and then it is what the leader has applied by now: `varint`.
        index: u64,
    },
    /// 14: so many have.
    CountReply {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number: `varint`.
        number: u64,
        /// … and who asked there: `varint`.
        origin: u32,
        /// Who has it: index `varint`, others `varint`, whether the asker's node has it `u8`.
        count: Count,
    },
    /// 15: a merge message from the leader of a neighbour.
    Merge {
        /// The shard that it is said to: `varint`.
        shard: ShardId,
        /// What.
        word: MergeMessage,
    },
    /// 16: a step of a transaction over several shards.
    Step {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number: `varint`.
        number: u64,
        /// The step: all that is left.
        step: Bytes,
    },
    /// 17: the shard's reply to a step.
    StepReply {
        /// The shard: `varint`.
        shard: ShardId,
        /// The asker's number: `varint`.
        number: u64,
        /// This: all that is left.
        reply: StepReply,
    },
    /// 18: between a node whose clients cache keys and the leader of the shard.
    Tracking {
        /// The shard: `varint`.
        shard: ShardId,
        /// What.
        message: TrackingMessage,
    },
    /// 20: a replica's notice of itself or another.
    Notice {
        /// The shard: `varint`.
        shard: ShardId,
        /// What.
        notice: ReplicaNotice,
    },
}

/// The request that an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcRequestId {
    /// 0: a batch: session u64, sequence `varint`.
    Write {
        /// Its session.
        session: u64,
        /// Its place there.
        sequence: u64,
    },
    /// 1: an index to read at: number `varint`.
    Read {
        /// The asker's number.
        number: u64,
    },
    /// 2: a change of the catalogue: number `varint`.
    Catalogue {
        /// The asker's number.
        number: u64,
    },
    /// 3: what a shard holds: number `varint`.
    Fetch {
        /// The asker's number.
        number: u64,
    },
    /// 4: replicas with a shard's log on disk: number `varint`.
    Count {
        /// The asker's number.
        number: u64,
    },
    /// 5: a step of a transaction: number `varint`.
    Step {
        /// The asker's number.
        number: u64,
    },
}

impl RpcMessage {
    /// Whose business it is.
    pub fn shard(&self) -> ShardId {
        match self {
            RpcMessage::Write { shard, .. }
            | RpcMessage::ReadIndex { shard, .. }
            | RpcMessage::WriteReply { shard, .. }
            | RpcMessage::ReadIndexReply { shard, .. }
            | RpcMessage::NotLeader { shard, .. }
            | RpcMessage::Fetch { shard, .. }
            | RpcMessage::FetchReply { shard, .. }
            | RpcMessage::NoRoom { shard, .. }
            | RpcMessage::Count { shard, .. }
            | RpcMessage::CountReply { shard, .. }
            | RpcMessage::Merge { shard, .. }
            | RpcMessage::Step { shard, .. }
            | RpcMessage::StepReply { shard, .. }
            | RpcMessage::Tracking { shard, .. }
            | RpcMessage::Notice { shard, .. } => *shard,
            RpcMessage::Catalogue { .. } | RpcMessage::CatalogueReply { .. } => SYSTEM,
            RpcMessage::RaiseSafePoint(_) | RpcMessage::SafePoint { .. } => SYSTEM,
        }
    }

    /// Names of the kinds of RPCs, for metrics: never changed.
    pub const KINDS: [&'static str; 19] = [
        "write",
        "read",
        "catalogue",
        "written",
        "read_at",
        "catalogue_done",
        "not_led",
        "unable",
        "fetch",
        "fetched",
        "notice",
        "raise",
        "safe_point",
        "count",
        "counted",
        "merge",
        "step",
        "stepped",
        "tracking",
    ];

    /// The place of its kind in [`Self::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            RpcMessage::Write { .. } => 0,
            RpcMessage::ReadIndex { .. } => 1,
            RpcMessage::Catalogue { .. } => 2,
            RpcMessage::WriteReply { .. } => 3,
            RpcMessage::ReadIndexReply { .. } => 4,
            RpcMessage::CatalogueReply { .. } => 5,
            RpcMessage::NotLeader { .. } => 6,
            RpcMessage::NoRoom { .. } => 7,
            RpcMessage::Fetch { .. } => 8,
            RpcMessage::FetchReply { .. } => 9,
            RpcMessage::Notice { .. } => 10,
            RpcMessage::RaiseSafePoint(_) => 11,
            RpcMessage::SafePoint { .. } => 12,
            RpcMessage::Count { .. } => 13,
            RpcMessage::CountReply { .. } => 14,
            RpcMessage::Merge { .. } => 15,
            RpcMessage::Step { .. } => 16,
            RpcMessage::StepReply { .. } => 17,
            RpcMessage::Tracking { .. } => 18,
        }
    }

    /// The answer to a request for which the log has no room, if it needs any. Readers are
    /// admitted: most need none.
    pub fn no_room_reply(&self) -> Option<Self> {
        let shard = self.shard();
        let what = self.request_id()?;
        let is_write = matches!(
            what,
            RpcRequestId::Write { .. } | RpcRequestId::Catalogue { .. } | RpcRequestId::Step { .. }
        );
        is_write.then_some(RpcMessage::NoRoom { shard, what })
    }

    /// What it asks for, if it does.
    pub(crate) fn request_id(&self) -> Option<RpcRequestId> {
        match self {
            RpcMessage::Write { id: BatchId { session, sequence, .. }, .. } => {
                Some(RpcRequestId::Write { session: *session, sequence: *sequence })
            }
            RpcMessage::ReadIndex { number, .. } => Some(RpcRequestId::Read { number: *number }),
            RpcMessage::Catalogue { number, .. } => {
                Some(RpcRequestId::Catalogue { number: *number })
            }
            RpcMessage::Fetch { number, .. } => Some(RpcRequestId::Fetch { number: *number }),
            RpcMessage::Count { number, .. } => Some(RpcRequestId::Count { number: *number }),
            RpcMessage::Step { number, .. } => Some(RpcRequestId::Step { number: *number }),
            _ => None,
        }
    }

    /// About how many bytes it takes.
    pub fn bytes_about(&self) -> usize {
        match self {
            RpcMessage::Write { commands, .. } => 16 + BATCH_ID_BYTES + commands.len(),
            RpcMessage::WriteReply { verdict: BatchVerdict::Done(Some(replies)), .. } => {
                32 + replies.len()
            }
            RpcMessage::Fetch { want, .. } => want.bytes_about(),
            RpcMessage::Step { step, .. } => 16 + step.len(),
            RpcMessage::StepReply { reply, .. } => reply.bytes_about(),
            RpcMessage::Tracking { message, .. } => message.bytes_about(),
            RpcMessage::FetchReply { found, .. } => 32 + found.bytes_about(),
            _ => 32,
        }
    }
}
