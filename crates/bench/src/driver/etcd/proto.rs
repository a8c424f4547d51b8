//! The part of etcd's `rpc.proto` and `kv.proto` that is asked here, with their field numbers.
//!
//! ```proto
//! message RangeRequest       { bytes key = 1; }
//! message RangeResponse      { repeated KeyValue kvs = 2; }
//! message KeyValue           { bytes key = 1; bytes value = 5; }
//! message PutRequest         { bytes key = 1; bytes value = 2; }
//! message DeleteRangeRequest { bytes key = 1; }
//! message Compare            { CompareResult result = 1; CompareTarget target = 2; bytes key = 3;
//!                              oneof target_union { int64 version = 4; } }
//! message RequestOp          { oneof request { RangeRequest request_range = 1;
//!                              PutRequest request_put = 2;
//!                              DeleteRangeRequest request_delete_range = 3; } }
//! message TxnRequest         { repeated Compare compare = 1; repeated RequestOp success = 2; }
//! message TxnResponse        { bool succeeded = 2; }
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

/// A condition of a transaction: on the version of a key.
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
}
