//! Digests of replicas' states, computed beside their executors (SAFETY G13), and replicas that are
//! quarantined for what digests show.
//!
//! ```text
//!   executor's turn ──► Digesting ──► one thread, a block at a time ──► Input::DigestDone
//!   executor's turn ──► ReplicaComparison: logged; a quarantined replica serves no reads any more
//! ```
//!
//! One thread computes one digest after the other, and rests after each block for as long as that
//! took, so that readers and writers of the shard have most of the machine.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use keyspace::{ReplicaId, ShardId};
use node::executor::Input;
use node::recovery::checkpoint::BLOCK;
use node::replica::digest::{DigestStep, Digesting};
use node::replica::{ReplicaComparison, ReplicaEndReason};
use parking_lot::{Condvar, Mutex};

use super::NodeRuntime;
use crate::counters::Counter;

/// The longest rest between two blocks.
const REST_MAX: Duration = Duration::from_millis(20);

/// See the front page.
#[derive(Default)]
pub struct Digests {
    queue: Mutex<VecDeque<Digesting>>,
    come: Condvar,
    stopping: Mutex<bool>,
    /// Digests computed here.
    pub done: Counter,
    /// Comparisons, by this node's leaders, in which all replicas that answered agreed …
    pub agreed: Counter,
    /// … and others.
    pub differed: Counter,
    /// Local replicas that were quarantined.
    pub quarantined: Counter,
    /// Local replicas that were removed from their groups.
    pub removed: Counter,
}

impl Digests {
    /// Ends the thread.
    pub fn stop(&self) {
        *self.stopping.lock() = true;
        self.come.notify_all();
        // Those who wait hold their shards' old versions back.
        self.queue.lock().clear();
    }

    pub(super) fn add(&self, digesting: Digesting) {
        self.queue.lock().push_back(digesting);
        self.come.notify_one();
    }

    fn next(&self) -> Option<Digesting> {
        let mut queue = self.queue.lock();
        loop {
            if *self.stopping.lock() {
                return None;
            }
            match queue.pop_front() {
                Some(digesting) => return Some(digesting),
                None => {
                    self.come.wait_for(&mut queue, Duration::from_millis(200));
                }
            }
        }
    }

    /// The thread, until [`Self::stop`].
    pub fn run(&self, runtime: &NodeRuntime) {
        let mut piece = Vec::new();
        while let Some(mut digesting) = self.next() {
            let digest = loop {
                let begun = Instant::now();
                match digesting.step(BLOCK, &mut piece) {
                    DigestStep::Done(digest) => break Some(digest),
                    DigestStep::Void => break None,
                    DigestStep::More if *self.stopping.lock() => return,
                    DigestStep::More => thread::sleep(begun.elapsed().min(REST_MAX)),
                }
            };
            self.done.add(u64::from(digest.is_some()));
            let Digesting { shard, replica, index, .. } = digesting;
            drop(digesting);
            runtime.submit(shard, Input::DigestDone { shard, replica, index, digest });
        }
    }

    /// A leader here has compared its replicas.
    pub(super) fn compared(&self, finding: &ReplicaComparison) {
        let counter = if finding.differing.is_empty() { &self.agreed } else { &self.differed };
        counter.add(1);
    }

    /// Counts a local replica that has ended or was quarantined.
    pub(super) fn ended(&self, why: ReplicaEndReason) {
        match why {
            ReplicaEndReason::Before => {}
            ReplicaEndReason::Removed => self.removed.add(1),
            ReplicaEndReason::LostLog
            | ReplicaEndReason::MissingMergeState
            | ReplicaEndReason::Differs => self.quarantined.add(1),
        }
    }
}

/// Logs which of these quarantined replicas still wait to be replaced.
pub(super) fn remind(quarantined: &[(ShardId, ReplicaId)]) {
    for (shard, replica) in quarantined {
        tracing::error!(
            "replica {replica} of shard {shard} is quarantined and was not replaced yet: a \
             replacement needs a majority of the shard's other replicas. Start their nodes"
        );
    }
}
