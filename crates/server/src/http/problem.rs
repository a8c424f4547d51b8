//! What went wrong, for people and programs: `application/problem+json` (RFC 9457).
//!
//! ```json
//! {"type": "urn:carillon:problem:nil-yet", "title": "No value yet", "status": 404,
//!  "detail": "…what happened…", "outcome": "not done", "remedy": "…what to do…"}
//! ```
//!
//! `outcome` is `not done` or `unknown` (SAFETY G10): programs decide by it, and by `type`.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::api::{ApiError, Outcome, RequestId};

/// What each `type` begins with.
pub const TYPE_PREFIX: &str = "urn:carillon:problem:";

/// An error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    detail: String,
    remedy: &'static str,
    unknown: Option<RequestId>,
}

#[derive(Serialize)]
struct Wire<'a> {
    #[serde(rename = "type")]
    type_: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    outcome: &'a str,
    remedy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl Problem {
    /// A problem of which nothing was done.
    pub fn new(
        status: StatusCode,
        slug: &'static str,
        title: &'static str,
        detail: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self { status, slug, title, detail: detail.into(), remedy, unknown: None }
    }

    /// The request itself makes no sense; `detail` says why.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        let remedy = "Correct the request; sending it again as it is will not help.";
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "Bad request", detail, remedy)
    }

    /// The same, of a part of the request.
    pub fn at(self, part: &str) -> Self {
        Self { detail: format!("{part}: {}", self.detail), ..self }
    }

    /// The node did not answer a read in time.
    pub fn no_answer() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-answer",
            "No answer",
            "the node did not answer in time; a read changes nothing",
            "Try again a little later; look at the node's log if it happens often.",
        )
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        use StatusCode as S;
        let (status, slug, title, remedy) = match &error {
            ApiError::NoKeyspace { .. } => (
                S::NOT_FOUND,
                "no-keyspace",
                "No such keyspace",
                "See those there are with `carillon keyspace list` (GET /v1/keyspaces), or create \
                 it first.",
            ),
            ApiError::KeyspaceDropped => (
                S::NOT_FOUND,
                "no-keyspace",
                "No such keyspace",
                "Use another one; see those there are with `carillon keyspace list` (GET \
                 /v1/keyspaces).",
            ),
            ApiError::KeyspaceExists { .. } => (
                S::CONFLICT,
                "keyspace-exists",
                "Keyspace exists",
                "Use it, choose another name, or drop it first.",
            ),
            ApiError::BadKeyspace { .. } => {
                (S::BAD_REQUEST, "bad-keyspace", "Bad keyspace", "Correct that, and ask again.")
            }
            ApiError::NoNode { .. } => (
                S::NOT_FOUND,
                "no-node",
                "No such node",
                "See ids and names with `carillon nodes` (GET /v1/nodes). An id that no node here \
                 knows is taken with --unknown ({\"unknown\": true}).",
            ),
            ApiError::AmbiguousNode { .. } => (
                S::CONFLICT,
                "ambiguous-node",
                "Ambiguous name",
                "Say which one by its id; `carillon nodes` (GET /v1/nodes) says who is who.",
            ),
            ApiError::NodeInUse { .. } => (
                S::CONFLICT,
                "node-in-use",
                "Node in use",
                "Drain it first, and wait until it has no replicas; if it is down, until its \
                 replicas are replaced.",
            ),
            ApiError::TooFewNodes { .. } => (
                S::CONFLICT,
                "too-few-nodes",
                "Too few nodes",
                "Add nodes first, uncordon others, or drop what needs so many.",
            ),
            ApiError::NodeRemoved { .. } => (
                S::CONFLICT,
                "node-removed",
                "Node removed",
                "To have its machine back, start it on an empty directory with --join: it joins as \
                 a new node.",
            ),
            ApiError::NoShard { .. } => (
                S::NOT_FOUND,
                "no-shard",
                "No such shard",
                "See their numbers with `carillon shards` (GET /v1/shards).",
            ),
            ApiError::NotLeader { .. } => (
                S::CONFLICT,
                "not-leader",
                "Not the leader",
                "Ask the node that leads the shard; `carillon shards` (GET /v1/shards) says who \
                 does.",
            ),
            ApiError::NoSplit { .. } => (S::CONFLICT, "no-split", "Not cut", "Nothing was done."),
            ApiError::NoMerge { .. } => {
                (S::CONFLICT, "no-merge", "Not merged", "Nothing was done.")
            }
            ApiError::NoLevel { .. } => (
                S::CONFLICT,
                "no-level",
                "Level refused",
                "See what each node speaks with `carillon upgrade --check` (GET /v1/level).",
            ),
            ApiError::NoStanding { .. } => (
                S::CONFLICT,
                "no-standing",
                "Refused",
                "See how nodes stand with `carillon nodes` (GET /v1/nodes).",
            ),
            ApiError::KeyTooLong { .. } => (
                S::BAD_REQUEST,
                "key-too-long",
                "Key too long",
                "Use a shorter key, or raise key_bytes_max.",
            ),
            ApiError::ValueTooLong { .. } => (
                S::PAYLOAD_TOO_LARGE,
                "value-too-long",
                "Value too long",
                "Cut the value into several keys, or raise value_bytes_max.",
            ),
            ApiError::BelowSafePoint { .. } => (
                S::GONE,
                "below-safe-point",
                "Too long ago",
                "Read at a later time, or raise the keyspace's retention_ms for the future.",
            ),
            ApiError::InFuture { .. } => {
                (S::BAD_REQUEST, "in-future", "In the future", "Ask again when that time has come.")
            }
            ApiError::OutOfMemory { .. } => (
                S::INSUFFICIENT_STORAGE,
                "out-of-memory",
                "Out of memory",
                "Delete keys or raise memory_max; reads and deletes go on.",
            ),
            ApiError::DiskFull => (
                S::INSUFFICIENT_STORAGE,
                "disk-full",
                "Disk full",
                "Make room on the data directory's disk; writes then work again by themselves.",
            ),
            ApiError::Busy { .. } => {
                (S::SERVICE_UNAVAILABLE, "busy", "Busy", "Try again a little later.")
            }
            ApiError::Contended { .. } => (
                S::SERVICE_UNAVAILABLE,
                "busy",
                "Busy",
                "Nothing was done: send it again a little later.",
            ),
            ApiError::Conflict { .. } => (
                S::CONFLICT,
                "conflict",
                "Conflict",
                "The transaction is over: begin again, and read anew.",
            ),
            ApiError::NoTransaction { .. } => (
                S::NOT_FOUND,
                "no-transaction",
                "No such transaction",
                "If no commit was sent before, begin again (POST /v1/txn/begin), and send all \
                 requests for it to that node.",
            ),
            ApiError::CommittedPerhaps { .. } => (
                S::NOT_FOUND,
                "no-transaction",
                "No such transaction",
                "Read what the transaction would have changed before you send it again.",
            ),
            ApiError::TransactionInUse => (
                S::CONFLICT,
                "transaction-in-use",
                "Transaction in use",
                "Wait for the answer to the other request; the transaction goes on.",
            ),
            ApiError::TooManyTransactions { .. } => (
                S::SERVICE_UNAVAILABLE,
                "too-many-transactions",
                "Too many transactions",
                "Try again when others have ended; commit or roll back what is open.",
            ),
            ApiError::TransactionTooLarge { .. } => (
                S::PAYLOAD_TOO_LARGE,
                "transaction-too-large",
                "Transaction too large",
                "Do it in several transactions, or read less.",
            ),
            ApiError::OperationRefused { .. } => (
                S::CONFLICT,
                "operation-refused",
                "Operation refused",
                "Correct the operation, or look at what the key has.",
            ),
            ApiError::Loading => (
                S::SERVICE_UNAVAILABLE,
                "loading",
                "Loading",
                "Try again when GET /health/ready answers 200.",
            ),
            ApiError::Stopping => (
                S::SERVICE_UNAVAILABLE,
                "stopping",
                "Stopping",
                "Ask another node, or this one after its restart.",
            ),
            ApiError::StorageFailed => (
                S::SERVICE_UNAVAILABLE,
                "storage-failed",
                "Storage failed",
                "Look at the node's log and disk, then restart the node.",
            ),
            ApiError::Unknown { .. } => (
                S::GATEWAY_TIMEOUT,
                "unknown-outcome",
                "Unknown outcome",
                "Read what the request would have changed before sending it again; the node's \
                 log has the request's id.",
            ),
        };
        let unknown = match (error.outcome(), &error) {
            (
                Outcome::Unknown,
                ApiError::Unknown { id } | ApiError::CommittedPerhaps { id, .. },
            ) => Some(*id),
            _ => None,
        };
        let detail = error.to_string();
        Self { status, slug, title, detail, remedy, unknown }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let wire = Wire {
            type_: format!("{TYPE_PREFIX}{}", self.slug),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            outcome: if self.unknown.is_some() { "unknown" } else { "not done" },
            remedy: self.remedy,
            request_id: self.unknown.map(|id| id.to_string()),
        };
        let json = serde_json::to_vec(&wire).expect("strings and numbers become JSON");
        let mut response = (self.status, json).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
