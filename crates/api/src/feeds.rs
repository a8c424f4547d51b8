//! Change feeds: `/v1/feed`. What a client asks for, and what a node hands out.

use std::time::Duration;

use bytes::Bytes;
use keyspace::{SnapshotToken, Timestamp};
use node::feed::changes::KeyFilter;
use node::feed::merge::Commit;

use crate::ApiError;

/// A feed that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRequest {
    /// The keyspace.
    pub keyspace: String,
    /// Which keys.
    pub keys: KeyFilter,
    /// What these begin with, as far as that is known.
    pub prefix: Bytes,
    /// Changes above this time; none: above all that was acknowledged before the request.
    pub since: Option<Timestamp>,
    /// With the values before.
    pub with_before: bool,
    /// It begins with the values that keys have at that time.
    pub begins_with_values: bool,
    /// Of what has changed before the request, only the newest change of each key.
    pub compacts: bool,
}

/// A feed has begun.
pub struct Feeding {
    /// Where.
    pub position: Timestamp,
    /// The cluster's id, for tokens.
    pub cluster: u64,
    /// The feed. Dropped, it has ended.
    pub stream: Box<dyn FeedStream>,
}

/// A feed that a client takes from.
pub trait FeedStream: Send + Sync {
    /// What comes next, about so many bytes. Nothing: there will be a wake.
    fn take(&mut self, bytes_max: usize) -> Vec<FeedOutput>;
    /// After so long it is to be looked at without a wake.
    fn pause(&self) -> Duration;
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedOutput {
    /// The value that a key has at the position where the feed begins.
    Value {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
        /// When it was written.
        version: Timestamp,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// These were all.
    ValuesEnd(Timestamp),
    /// All changes of one commit.
    Commit(Commit),
    /// Nothing more comes at or below this time.
    Resolved(Timestamp),
    /// It ends: changes above its position are collected.
    TooLate {
        /// All at or below it is gone.
        safe_point: Timestamp,
        /// From here on a feed can begin again, with the values of then.
        restart: Timestamp,
    },
    /// It ends: one commit is too large to be told.
    TooLarge {
        /// The commit. A feed can begin again behind it.
        at: Timestamp,
    },
    /// It ends for another reason.
    End(ApiError),
}

impl FeedOutput {
    /// Whether nothing follows.
    pub fn is_end(&self) -> bool {
        match self {
            FeedOutput::TooLate { .. } | FeedOutput::TooLarge { .. } | FeedOutput::End(_) => true,
            FeedOutput::Value { .. }
            | FeedOutput::ValuesEnd(_)
            | FeedOutput::Commit(_)
            | FeedOutput::Resolved(_) => false,
        }
    }
}

/// The token of a position: a time that every read takes, too. It keeps nothing.
pub fn position_token(cluster: u64, at: Timestamp) -> String {
    SnapshotToken { cluster, lease: 0, at }.to_string()
}
