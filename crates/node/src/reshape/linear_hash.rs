//! What must the leader of a bucket do for its linear-hash table?
//!
//! The catalogue says how large a table is, and which step is under way
//! ([`keyspace::catalogue::linear_hash`]). The arc of each bucket follows from that
//! ([`overlay::lh`]). So a shard's leader sees by the shard's arc whether it must split or take in
//! its neighbour, and whether that is done:
//!
//! ```text
//!   3 buckets, growing       bucket 1 is next     [8000… ──── ────)   its leader: Cut
//!                            it was cut           [8000… ─)[C000… ─)  its leader: Done
//!   4 buckets, shrinking     bucket 3 is last     [8000… ─)           its leader: TakeIn
//!                            it was taken in      [8000… ──── ────)   its leader: Done
//! ```
//!
//! That holds after any crash, of any node, at any step. The catalogue names the step that was
//! begun, the shard's own arc shows the step that was done; nothing else is remembered.
//!
//! # Invariants
//! 1. A [`TableTask::Done`] is true: the node knew the record before a linearizable read showed the
//!    arc. So the arc changed after the table epoch began.
//! 2. At most one shard of a table has a task, as long as the table's arcs are buckets.

use keyspace::{Cut, LinearHashRecord, LinearHashStep};
use overlay::lh::{Bucket, LinearHashTable};
use replication::BootNanos;

use crate::replica::state::ShardState;

/// What the leader of a bucket must do for its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableTask {
    /// The shard is to be split here.
    Cut(Cut),
    /// It is to take its right neighbour in.
    MergeRight,
    /// The step is done: report it to the catalogue.
    Done,
    /// It seems to be done. That must be confirmed as a read is: wait at the shard's executor, and
    /// look again with the same `came`.
    ConfirmRead,
    /// Nothing is under way, and this is the bucket that would be cut next: it is one of so many of
    /// equal width in the whole circle, of which there are `buckets` now.
    MayGrow {
        /// Its share of the circle is one of so many.
        share: u64,
        /// How many buckets there are.
        buckets: u64,
        /// Whether it is [`TableTask::MayShrink`] as well: of two buckets the first is.
        may_shrink: bool,
    },
    /// No step is under way, and this bucket would absorb the last one.
    MayShrink,
}

/// The bucket that is cut next.
pub fn next_cut(record: &LinearHashRecord) -> Option<Bucket> {
    table_of(record)?.next_split()
}

/// The bucket that takes the last one in.
pub fn next_merger(record: &LinearHashRecord) -> Option<Bucket> {
    table_of(record)?.last_split().map(|(left, _)| left)
}

/// The table of a record; none if no table can be so large.
pub fn table_of(record: &LinearHashRecord) -> Option<LinearHashTable> {
    LinearHashTable::of_buckets(record.buckets.try_into().ok()?)
}

/// What the leader of a shard with this state has to do. `came` is the boot clock, read after the
/// record was known.
pub fn task(state: &ShardState, record: &LinearHashRecord, came: BootNanos) -> Option<TableTask> {
    let arc = &state.descriptor.arc;
    let is = |bucket: Bucket| *arc == bucket.arc(arc.keyspace());
    let done = || match state.serving.at(came) {
        _ if state.merged_away => None,
        true => Some(TableTask::Done),
        false => Some(TableTask::ConfirmRead),
    };
    match record.step {
        Some(LinearHashStep::Grow) => {
            let whole = next_cut(record)?;
            let (left, right) = whole.split()?;
            match () {
                () if is(whole) => Some(TableTask::Cut(Cut::Number(right.start()))),
                () if is(left) => done(),
                () => None,
            }
        }
        Some(LinearHashStep::Shrink) => {
            let left = next_merger(record)?;
            match () {
                () if is(left) => Some(TableTask::MergeRight),
                () if is(left.merged()?) => done(),
                () => None,
            }
        }
        None => {
            let (next, buckets) = (next_cut(record)?, record.buckets);
            let may_shrink = next_merger(record).is_some_and(is);
            if is(next) {
                return Some(TableTask::MayGrow { share: 1 << next.level(), buckets, may_shrink });
            }
            may_shrink.then_some(TableTask::MayShrink)
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{Arc, Descriptor, Generation, KeyHasher, KeyspaceId, ShardId};
    use storage::engine::{Layout, MemoryEngine};

    use super::*;
    use crate::replica::state::Content;

    fn state(arc: Arc) -> ShardState {
        let (replicas, generation, leader) = (Vec::new(), Generation(1), None);
        let descriptor = Descriptor { shard: ShardId(3), arc, replicas, generation, leader };
        let engine = MemoryEngine::new(Layout::LinearHash, KeyHasher::new([1; 16]));
        ShardState::new(descriptor, Content::Keys(Box::new(engine)))
    }

    fn arcs(buckets: u64) -> Vec<Arc> {
        let file = LinearHashTable::of_buckets(buckets.try_into().unwrap()).unwrap();
        (0..buckets).map(|number| file.bucket(number).unwrap().arc(KeyspaceId(7))).collect()
    }

    /// Of a file that grows, shrinks, or does neither, each step is one shard's, before it is done
    /// and when it is.
    #[test]
    fn exactly_one_shard_has_task_of_table_step() {
        for buckets in 1..20 {
            for (step, after) in [
                (Some(LinearHashStep::Grow), buckets + 1),
                (Some(LinearHashStep::Shrink), buckets - 1),
            ] {
                let record = LinearHashRecord { buckets, epoch: 4, step };
                if after == 0 {
                    continue;
                }
                let tasks = |arcs: Vec<Arc>, lease: u64| {
                    let of = |arc: Arc| {
                        let state = state(arc);
                        state.serving.until(lease);
                        task(&state, &record, 100)
                    };
                    arcs.into_iter().filter_map(of).collect::<Vec<TableTask>>()
                };
                let before = tasks(arcs(buckets), u64::MAX);
                match step {
                    Some(LinearHashStep::Grow) => {
                        assert!(matches!(before[..], [TableTask::Cut(_)]))
                    }
                    _ => assert_eq!(before, [TableTask::MergeRight]),
                }
                assert_eq!(tasks(arcs(after), 101), [TableTask::Done]);
                // Another may lead, and the arc be of long ago.
                assert_eq!(tasks(arcs(after), 100), [TableTask::ConfirmRead]);
            }
        }
    }

    #[test]
    fn only_leaders_of_next_buckets_resize_table() {
        let record = LinearHashRecord { buckets: 5, epoch: 4, step: None };
        let of = |arc: &Arc| task(&state(arc.clone()), &record, 0);
        let found: Vec<_> = arcs(5).iter().map(of).collect();
        let grows = Some(TableTask::MayGrow { share: 4, buckets: 5, may_shrink: false });
        assert_eq!(found, [Some(TableTask::MayShrink), grows, None, None, None]);
        let first = LinearHashRecord { buckets: 1, ..record };
        let grows = Some(TableTask::MayGrow { share: 1, buckets: 1, may_shrink: false });
        assert_eq!(task(&state(Arc::whole(KeyspaceId(7))), &first, 0), grows);
        let two = LinearHashRecord { buckets: 2, ..record };
        let both = Some(TableTask::MayGrow { share: 2, buckets: 2, may_shrink: true });
        assert_eq!(task(&state(arcs(2)[0].clone()), &two, 0), both);
    }

    #[test]
    fn bucket_is_split_at_its_middle() {
        for buckets in 1..40 {
            let record = LinearHashRecord { buckets, epoch: 1, step: Some(LinearHashStep::Grow) };
            let arc = next_cut(&record).unwrap().arc(KeyspaceId(7));
            let at = keyspace::linear_hash::middle(&arc).map(Cut::Number);
            assert_eq!(task(&state(arc), &record, 0), at.map(TableTask::Cut));
        }
    }
}
