//! What scripts have come to since the process started, for metrics.

use std::time::Duration;

use crate::counters::Counter;
use crate::runtime::boot_nanos;
use crate::runtime::durations::Durations;

use super::job::{Job, ReplyTo};

/// How a script was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In the queue of its shard, which is led here.
    Queue,
    /// Here, over any shards.
    OverShards,
    /// In the queue of its shard at another node.
    Forwarded,
    /// Not at all, or it may have been: `BUSY`, `TRYAGAIN`, `UNKNOWN`, a limit.
    Refused,
}

impl Outcome {
    /// All, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Queue, Self::OverShards, Self::Forwarded, Self::Refused];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::OverShards => "over_shards",
            Self::Forwarded => "forwarded",
            Self::Refused => "refused",
        }
    }
}

/// See the front page.
#[derive(Debug, Default)]
pub struct ScriptCounts {
    by_outcome: [Counter; Outcome::ALL.len()],
    /// Runs that counted for nothing, since what they had read had changed.
    pub conflicts: Counter,
    /// Scripts that SCRIPT KILL or FUNCTION KILL has stopped.
    pub killed: Counter,
    /// Scripts that a limit has stopped.
    pub stopped: Counter,
    /// From the call of a client of this node to its reply.
    pub took: Durations,
}

impl ScriptCounts {
    /// A script is about to be answered.
    pub(super) fn ended(&self, job: &Job, outcome: Outcome) {
        self.by_outcome[outcome as usize].add(1);
        if matches!(job.reply_to, ReplyTo::Connection { .. }) {
            let nanos = boot_nanos().saturating_sub(job.came.boot);
            self.took.add(Duration::from_nanos(nanos));
        }
    }

    /// How many have come to this.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.by_outcome[outcome as usize].get()
    }
}
