//! Errors of requests: what happened, what state is left, what to do next.

use std::io;

use serde::Deserialize;

/// What is known about a request that failed (SAFETY G10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was changed by it, and nothing will be.
    NotDone,
    /// It may have been done, or may yet be.
    Unknown,
}

/// The node's answer to a request that it did not do (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// Which problem, without what all types begin with: `nil`, `out-of-memory`.
    #[serde(rename = "type", deserialize_with = "short")]
    pub kind: String,
    /// In two words.
    pub title: String,
    /// HTTP's status.
    pub status: u16,
    /// What happened.
    pub detail: String,
    /// `not done` or `unknown`.
    pub outcome: String,
    /// What to do.
    #[serde(default)]
    pub remedy: String,
    /// Which request, if its outcome is unknown.
    #[serde(default)]
    pub request_id: Option<String>,
}

fn short<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let full = String::deserialize(deserializer)?;
    Ok(full.rsplit(':').next().unwrap_or_default().to_owned())
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No address of a node. Nothing was sent.
    #[error("{address:?} is no address of a node: expected HOST:PORT such as 127.0.0.1:7480")]
    BadAddress {
        /// As given.
        address: String,
    },
    /// A file of certificates is no good. Nothing was sent.
    #[error("{0}. Nothing was sent")]
    Tls(#[from] crate::TlsError),
    /// The key does not fit in a request line. Nothing was sent.
    #[error(
        "the key takes {bytes} bytes in a path, where at most {bytes_max} fit; the Redis and \
         native protocols take longer keys"
    )]
    PathTooLong {
        /// Its length, encoded.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Nobody answers there. Nothing was done.
    #[error(
        "cannot connect to a node at {address}: {source}. Start one with `carillon start`, or name \
         another with --http HOST:PORT"
    )]
    CannotConnect {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The node answers that the request is malformed. Nothing was done.
    #[error("{}", sentence(.0))]
    BadRequest(Box<Problem>),
    /// The node did not do it. Nothing was changed.
    #[error("{}", sentence(.0))]
    Refused(Box<Problem>),
    /// It may have been done: read what it would have changed before sending it again.
    #[error(
        "unknown outcome: {why}. Read what the request would have changed before sending it again"
    )]
    Unknown {
        /// What happened.
        why: String,
        /// The name of the request in the node's log.
        request_id: Option<String>,
    },
    /// The connection broke while something was read, or what answers is no node. Nothing was
    /// changed.
    #[error("no usable answer from {address}: {why}")]
    Broken {
        /// Where.
        address: String,
        /// What happened.
        why: String,
    },
}

fn sentence(problem: &Problem) -> String {
    let remedy = problem.remedy.trim_end_matches('.');
    if remedy.is_empty() {
        return problem.detail.clone();
    }
    format!("{}. {remedy}", problem.detail)
}

impl ClientError {
    /// What is known about the request.
    pub fn outcome(&self) -> Outcome {
        match self {
            ClientError::Unknown { .. } => Outcome::Unknown,
            ClientError::BadAddress { .. }
            | ClientError::Tls(_)
            | ClientError::PathTooLong { .. }
            | ClientError::CannotConnect { .. }
            | ClientError::BadRequest(_)
            | ClientError::Refused(_)
            | ClientError::Broken { .. } => Outcome::NotDone,
        }
    }
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> Self {
        if problem.outcome != "not done" {
            let Problem { detail, request_id, .. } = problem;
            return ClientError::Unknown { why: detail, request_id };
        }
        // The request is at fault, not the state of the node.
        let malformed = matches!(problem.status, 400 | 405 | 413 | 414 | 415 | 421 | 431);
        if malformed || problem.kind == "unknown-path" {
            return ClientError::BadRequest(Box::new(problem));
        }
        ClientError::Refused(Box::new(problem))
    }
}
