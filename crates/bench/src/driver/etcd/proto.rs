//! The part of etcd's `rpc.proto` and `kv.proto` that is asked here, with their field numbers.
//!
//! ```proto
//! message RangeRequest       { bytes key = 1; }
//! message RangeResponse      { repeated KeyValue kvs = 2; }
//! message KeyValue           { bytes key = 1; int64 mod_revision = 3; bytes value = 5; }
//! message PutRequest         { bytes key = 1; bytes value = 2; }
//! message DeleteRangeRequest { bytes key = 1; }
//! message Compare            { CompareResult result = 1; CompareTarget target = 2; bytes key = 3;
//!                              oneof target_union { int64 version = 4;
//!                                                   int64 mod_revision = 6; } }
//! message RequestOp          { oneof request { RangeRequest request_range = 1;
//!                              PutRequest request_put = 2;
//!                              DeleteRangeRequest request_delete_range = 3; } }
//! message TxnRequest         { repeated Compare compare = 1; repeated RequestOp success = 2; }
//! message ResponseOp         { oneof response { RangeResponse response_range = 1; } }
//! message TxnResponse        { bool succeeded = 2; repeated ResponseOp responses = 3; }
//! ```
//!
//! Fields that are not named are skipped when they come, as protobuf wants it.

use bytes::Bytes;
use prost::Message;

/// Reads a key.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
}

/// What was read.
#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    /// One, or none.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
}

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// When it was written last.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// The value.
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
}

/// Writes a key.
#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The value.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// Deletes a key.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
}

/// `CompareResult.EQUAL` and `GREATER`.
pub const EQUAL: i32 = 0;
/// See above.
pub const GREATER: i32 = 1;
/// `CompareTarget.VERSION`: 0 of a key that is absent.
pub const VERSION: i32 = 0;
/// `CompareTarget.MOD`: when a key was written last.
pub const MOD: i32 = 2;

/// A condition of a transaction: on the version of a key, or on when it was written.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// How it must compare.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// What is compared.
    #[prost(int32, tag = "2")]
    pub target: i32,
    /// Of which key.
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    /// With what; a member of a `oneof`, so 0 is sent, too.
    #[prost(int64, optional, tag = "4")]
    pub version: Option<i64>,
    /// With what; another member of that `oneof`.
    #[prost(int64, optional, tag = "6")]
    pub mod_revision: Option<i64>,
}

/// A step of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    /// Which.
    #[prost(oneof = "Op", tags = "1, 2, 3")]
    pub request: Option<Op>,
}

/// What a step does.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Op {
    /// Reads.
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    /// Writes.
    #[prost(message, tag = "2")]
    Put(PutRequest),
    /// Deletes.
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

/// Steps that are done together, if all conditions hold.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    /// The conditions.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// The steps.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
}

/// What came of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    /// Whether all conditions held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// What each step returned.
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// What a step returned.
#[derive(Clone, PartialEq, Message)]
pub struct ResponseOp {
    /// Of which kind.
    #[prost(oneof = "Returned", tags = "1")]
    pub response: Option<Returned>,
}

/// What is read of it: only reads return something that is used.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Returned {
    /// What was read.
    #[prost(message, tag = "1")]
    Range(RangeResponse),
}

impl Returned {
    /// What was read.
    pub fn into_range(self) -> RangeResponse {
        let Returned::Range(range) = self;
        range
    }
}
