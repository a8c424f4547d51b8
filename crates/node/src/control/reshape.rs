//! Limits and intervals of splits, merges and linear-hash tables, and the questions about them that
//! control asks the catalogue and executors.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use keyspace::{CatalogueOp, Cut as Place, Generation, Keyspace, LinearHashRecord, ShardId};
use replication::BootNanos;

use super::{CONTROL, Control, Executors, SYSTEM};
use crate::executor::{Answer, Input};
use crate::replica::entry::Waiter;

/// Two shards together are few keys up to this part of those beyond which a shard is cut.
const FEW: u64 = 8;

/// When shards are cut and merged without being asked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReshapeLimits {
    /// Beyond so many bytes a shard is cut …
    pub split_bytes: Option<NonZeroU64>,
    /// … or so many keys: cutting it takes time for each …
    pub split_keys: Option<NonZeroU64>,
    /// … or so many requests a second.
    pub split_rate: Option<NonZeroU64>,
    /// Two that hold less than so much together become one.
    pub merge_bytes: Option<u64>,
}

impl ReshapeLimits {
    /// Two shards merge below this many bytes together: at most half of the split size.
    pub fn merge_bytes_max(&self) -> Option<u64> {
        let cut = self.split_bytes.map(|bytes| bytes.get() / 2);
        self.merge_bytes.map(|bytes| cut.map_or(bytes, |cut| bytes.min(cut)))
    }

    /// Whether two shards with so many keys together may merge: fast enough, and with a result far
    /// from the next split.
    pub fn are_few(&self, keys: u64) -> bool {
        self.split_keys.is_none_or(|max| keys <= max.get() / FEW)
    }

    /// Why a shard of this size must split, if it must.
    pub fn too_large(&self, bytes: u64, keys: u64) -> Option<String> {
        if let Some(max) = self.split_bytes.filter(|max| bytes > max.get()) {
            let (mib, mib_max) = (bytes >> 20, max.get() >> 20);
            return Some(format!("it has {mib} MiB, above split_bytes = {mib_max} MiB"));
        }
        let keys_max = self.split_keys.filter(|max| keys > max.get())?;
        Some(format!("it has {keys} keys, above split_keys = {keys_max}"))
    }
}

/// How fast control reshapes shards, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReshapePace {
    /// A shard for which an id was asked is not cut again before.
    pub split_again: u64,
    /// Shards that have held little for so long are merged, and tables of linear hashing shrink.
    pub cold: u64,
    /// Between two tries at a merge, and two questions about a linear-hash table.
    pub again: u64,
    /// A merge that is wanted is given up after so long: its replicas did not come together.
    pub merge_wanted_max: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Default for ReshapePace {
    fn default() -> Self {
        Self {
            split_again: 10 * SECOND,
            cold: 10 * SECOND,
            again: 2 * SECOND,
            merge_wanted_max: 300 * SECOND,
        }
    }
}

/// How often shards that are led here are asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads {
    /// Requests a second, by shard.
    pub rates: BTreeMap<ShardId, u32>,
    /// Shards that are asked too often, and where a cut parts their requests.
    pub hot: Vec<HotShard>,
}

/// A shard that is asked too often.
#[derive(Clone, Debug, PartialEq)]
pub struct HotShard {
    /// Which.
    pub shard: ShardId,
    /// The first place of what is to be cut off: what stands behind the keyspace's id there.
    pub at: Box<[u8]>,
    /// Why it is to be cut, as a clause.
    pub why: String,
}

/// A question under way.
#[derive(Debug)]
pub(super) enum Question {
    /// An id for a shard that is cut off.
    Id(PendingSplit),
    /// Whether a linear-hash table grows, for people who have named its next bucket.
    Grow { shard: ShardId, request: u64 },
    /// Whether a linear-hash table still shrinks, so that a bucket takes its neighbour in.
    TakeIn { left: ShardId, right: ShardId, name: Box<str> },
    /// Whether a bucket is led here since `came`.
    Bucket { shard: ShardId, keyspace: Box<Keyspace>, record: LinearHashRecord, came: BootNanos },
}

/// A shard that is to be cut when it has an id for its right half.
#[derive(Debug)]
pub(super) struct PendingSplit {
    pub shard: ShardId,
    pub at: Place,
    /// The shard's generation when that was decided.
    pub generation: Generation,
    pub why: String,
    /// The request that asked for it.
    pub request: Option<u64>,
}

/// Questions under way, by their numbers; 0 is the catalogue cache's.
#[derive(Debug, Default)]
pub(super) struct Questions {
    next: u64,
    under_way: BTreeMap<u64, Question>,
}

impl Control {
    /// Asks the catalogue for a change. What comes of it without a question nobody hears.
    pub(super) fn ask_catalogue(&mut self, op: &CatalogueOp<'_>, question: Option<Question>) {
        let mut body = Vec::new();
        op.encode(&mut body);
        let (origin, waiter) = (CONTROL, self.ask(question));
        self.submit(SYSTEM, Input::Catalogue { op: body, origin, waiter });
    }

    /// A number for a question.
    pub(super) fn ask(&mut self, question: Option<Question>) -> Waiter {
        let questions = &mut self.questions;
        questions.next += 1;
        if let Some(question) = question {
            questions.under_way.insert(questions.next, question);
        }
        Waiter(questions.next)
    }

    /// A question of control was answered.
    pub(super) fn question_answered(&mut self, answer: Answer, executors: &mut dyn Executors) {
        let Some(number) = answer.waiters().first().map(|waiter| waiter.0) else { return };
        if number == 0 {
            return self.handle_catalogue_reply(answer, executors);
        }
        match self.questions.under_way.remove(&number) {
            Some(Question::Id(cutting)) => self.handle_shard_id_reply(cutting, answer, executors),
            Some(Question::Grow { shard, request }) => {
                self.handle_growth_reply(shard, request, answer)
            }
            Some(Question::TakeIn { left, right, name }) => {
                // Until then the one behind it was the last bucket, or had gone for good.
                if matches!(answer, Answer::Catalogue { result: Ok(_), .. }) {
                    let why = format!("the linear-hash table of keyspace {name} shrinks");
                    self.want_merge(left, right, why);
                }
            }
            Some(Question::Bucket { shard, keyspace, record, came }) => {
                if matches!(answer, Answer::Retry { .. }) {
                    self.look_at_bucket_again(shard, &keyspace, record, came);
                }
            }
            None => {}
        }
    }

    /// Whether the replica here leads a shard.
    pub(super) fn leads(shard: ShardId, executors: &mut dyn Executors) -> bool {
        executors.of(shard, |executor| executor.shard(shard).is_some_and(|shard| shard.is_leader()))
    }

    /// Whether the replica here is handing its lead over: what it is told to do would be lost.
    pub(super) fn hands_over(shard: ShardId, executors: &mut dyn Executors) -> bool {
        executors.of(shard, |executor| {
            executor.shard(shard).is_some_and(|shard| shard.is_handing_over())
        })
    }

    /// Whether a shard is asked so seldom that it may become one with another: less than a quarter
    /// of what makes it hot.
    pub(super) fn is_cold(&self, shard: ShardId) -> bool {
        let rate = self.loads.rates.get(&shard).copied().unwrap_or_default();
        let rate_max = self.setup.limits.split_rate;
        rate_max.is_none_or(|rate_max| u64::from(rate) * 4 < rate_max.get())
    }
}

/// Bytes of what a shard here holds, and how many keys that are.
pub(super) fn bytes_of(view: &crate::routing::route::View) -> Option<(u64, u64)> {
    let usage = view.read().engine()?.usage();
    Some((usage.live_bytes, usage.keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_may_merge_up_to_an_eighth_of_split_keys() {
        let limits =
            ReshapeLimits { split_keys: NonZeroU64::new(125_000), ..ReshapeLimits::default() };
        assert!(limits.are_few(15_625) && !limits.are_few(15_626));
        assert!(limits.too_large(0, 125_000).is_none() && limits.too_large(0, 125_001).is_some());
        assert!(ReshapeLimits::default().are_few(u64::MAX));
    }
}
