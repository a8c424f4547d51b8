//! Messages between nodes beside those of Raft groups, and their bytes.
//!
//! | here | what |
//! |---|---|
//! | [`frame_batch`] | the frames that carry both, of a step round |
//! | [`message`] | requests to another node for clients, and the answers |
//! | [`notice`] | what replicas of a shard report about themselves |
//! | [`stream`] | a shard's state, in pieces, over links that may be lost |

pub mod frame_batch;
pub mod message;
pub mod notice;
pub mod stream;

/// The kind of frames that carry messages of replicas, and RPCs.
pub const KIND_RPC: u8 = 2;
/// The kind of frames that carry snapshots.
pub const KIND_SNAPSHOT: u8 = 3;
/// The kind of frames that carry lookup messages.
pub const KIND_LOOKUP: u8 = 4;
