//! What nodes ask each other about themselves, to answer for the whole cluster.
//!
//! ```text
//!   GET /v1/shards?scope=cluster ──► this node ── Question::Shards ──► leaders of these shards
//!   POST /v1/shards/2/split      ──► this node ── Question::Split ───► the leader of shard 2
//!                                        ◄───────── Answer ───────────┘
//! ```
//!
//! A question and its answer are JSON: the same values that HTTP shows. So a node of a later
//! version may add fields, and one of an earlier version passes them over; what it does not know
//! at all it refuses ([`Refusal::Unknown`]).

use serde::{Deserialize, Serialize};

use crate::{ApiError, CutAt, Decisions, MergeStatus, MetricsSummary, ShardStatus, SplitStatus};

/// The longest question, as JSON.
pub const QUESTION_BYTES_MAX: usize = 256 << 10;
/// The longest answer, as JSON.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;

/// A question to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Which decisions has it made, or would make?
    Decisions {
        /// Those that it would make.
        dry: bool,
    },
    /// What does it know of these shards, as far as it leads them?
    Shards {
        /// By id, rising.
        shards: Vec<u64>,
        /// And how often is it asked for these, as far as it does not lead them? By id, rising.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        followed: Vec<u64>,
    },
    /// What has it counted?
    Metrics,
    /// Split a shard that it leads.
    Split {
        /// Which.
        shard: u64,
        /// Where.
        at: Option<CutAt>,
    },
    /// Merge a shard that it leads with its right neighbour.
    Merge {
        /// Which.
        shard: u64,
    },
}

impl Question {
    /// Whether it may change something.
    pub fn is_write(&self) -> bool {
        match self {
            Question::Split { .. } | Question::Merge { .. } => true,
            Question::Decisions { .. } | Question::Shards { .. } | Question::Metrics => false,
        }
    }
}

impl Question {
    /// Its bytes.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers become JSON")
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|why| why.to_string())
    }
}

/// The answer to one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Decisions of the node.
    Decisions(Decisions),
    /// Shards that it leads; and those that it follows, if it serves reads of them.
    Shards(Vec<ShardStatus>),
    /// What it has counted.
    Metrics(MetricsSummary),
    /// How the shard will be split.
    Split(SplitStatus),
    /// How the shard will merge.
    Merge(MergeStatus),
    /// Nothing was done.
    Refused(Refusal),
}

impl Answer {
    /// Its bytes.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers become JSON")
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|why| why.to_string())
    }
}

/// Why a node does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// [`ApiError::NoShard`].
    NoShard {
        /// Its number.
        shard: u64,
    },
    /// [`ApiError::NotLeader`].
    NotLeader {
        /// Which node leads it, as a clause.
        why: String,
    },
    /// [`ApiError::NoSplit`].
    NoSplit {
        /// Its number.
        shard: u64,
        /// Why, as a clause.
        why: String,
    },
    /// [`ApiError::NoMerge`].
    NoMerge {
        /// Its number.
        shard: u64,
        /// Why, as a clause.
        why: String,
    },
    /// It cannot now.
    Busy,
    /// It stops.
    Stopping,
    /// It does not know the question.
    Unknown,
}

impl Refusal {
    /// For an error of which nothing was done. None: the outcome is unknown.
    pub fn of(error: ApiError) -> Option<Self> {
        Some(match error {
            ApiError::NoShard { shard } => Refusal::NoShard { shard },
            ApiError::NotLeader { why } => Refusal::NotLeader { why },
            ApiError::NoSplit { shard, why } => Refusal::NoSplit { shard, why },
            ApiError::NoMerge { shard, why } => Refusal::NoMerge { shard, why },
            ApiError::Stopping => Refusal::Stopping,
            ApiError::Unknown { .. } => return None,
            _ => Refusal::Busy,
        })
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoShard { shard } => ApiError::NoShard { shard },
            Refusal::NotLeader { why } => ApiError::NotLeader { why },
            Refusal::NoSplit { shard, why } => ApiError::NoSplit { shard, why },
            Refusal::NoMerge { shard, why } => ApiError::NoMerge { shard, why },
            Refusal::Busy => {
                ApiError::Busy { why: "the node that was asked could not do it; nothing was done" }
            }
            Refusal::Stopping => {
                ApiError::Busy { why: "the node that was asked is stopping; nothing was done" }
            }
            Refusal::Unknown => ApiError::Busy {
                why: "the node that was asked runs an older version and cannot answer; nothing was \
                      done",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_read_as_they_are_written() {
        for question in [
            Question::Decisions { dry: true },
            Question::Shards { shards: vec![0, 7], followed: vec![] },
            Question::Shards { shards: vec![], followed: vec![3] },
            Question::Metrics,
            Question::Split { shard: 1, at: Some(CutAt::Key("m".into())) },
            Question::Split { shard: 1, at: None },
            Question::Merge { shard: 2 },
        ] {
            assert_eq!(Question::from_json(&question.to_json()).unwrap(), question);
        }
        let answer = Answer::Refused(Refusal::NoSplit { shard: 1, why: "it has slot 7".into() });
        let json = serde_json::to_string(&answer).unwrap();
        assert_eq!(json, r#"{"refused":{"no-split":{"shard":1,"why":"it has slot 7"}}}"#);
        assert_eq!(serde_json::from_str::<Answer>(&json).unwrap(), answer);
        let newer = r#"{"merge":{"shard":2,"right":3,"moves":false,"later":[1]}}"#;
        let merge = MergeStatus { shard: 2, right: 3, moves: false };
        assert_eq!(serde_json::from_str::<Answer>(newer).unwrap(), Answer::Merge(merge));
    }

    #[test]
    fn refusals_are_the_errors_they_were() {
        for error in [
            ApiError::NoShard { shard: 1 },
            ApiError::NotLeader { why: "n2 leads it".into() },
            ApiError::NoSplit { shard: 1, why: "no".into() },
            ApiError::NoMerge { shard: 1, why: "no".into() },
        ] {
            assert_eq!(ApiError::from(Refusal::of(error.clone()).unwrap()), error);
        }
        let id = crate::RequestId { incarnation: 1, sequence: 2 };
        assert_eq!(Refusal::of(ApiError::Unknown { id }), None);
        let busy = ApiError::from(Refusal::of(ApiError::Busy { why: "no id" }).unwrap());
        assert!(matches!(busy, ApiError::Busy { .. }));
    }
}
