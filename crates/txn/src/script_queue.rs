//! In which order do the scripts of one shard run?
//!
//! Scripts whose keys lie in one shard run at the shard's leader, one after the other (SAFETY G25).
//! All that wait when a script thread is free make one *batch*: they run on one copy of their keys,
//! each sees what those before it wrote, and one entry of the log carries what they wrote together.
//! So a key that all scripts want costs one round of the log for all of them, not one for each.
//!
//! ```text
//!   push a, b ──► scheduled ──take──► [a b] run ──► one entry under way ──finish──► answered
//!   push c    ──► waits ───────────────────────────────────────────────────take──► [c] runs
//! ```
//!
//! At most one batch is under way, so that every batch runs on applied state that no other batch is
//! about to change.
//!
//! A script may have to leave the queue: it takes long, or touches a key of another shard. Its
//! connection's later scripts stay in the queue until it has ended, so that a client's pipeline
//! takes effect in order. Other connections' scripts overtake it.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | scripts in a batch | the caller's | the rest make the next batch |
//! | scripts in the queue | those that connections are owed answers for | – |

use std::collections::{BTreeMap, VecDeque};

/// Scripts of one shard, each of a client.
#[derive(Debug)]
pub struct ScriptQueue<J> {
    queue: VecDeque<(u64, J)>,
    /// Clients with scripts that have left the queue and not ended, and how many.
    away: BTreeMap<u64, u32>,
    /// Whether a batch is scheduled, runs or is under way.
    is_busy: bool,
}

impl<J> Default for ScriptQueue<J> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), away: BTreeMap::new(), is_busy: false }
    }
}

impl<J> ScriptQueue<J> {
    /// Adds a client's script. True: the caller must have a thread take a batch.
    pub fn push(&mut self, client: u64, job: J) -> bool {
        self.queue.push_back((client, job));
        self.schedule()
    }

    /// Takes a batch of up to `max` scripts, in order, but none of a client with a script away.
    pub fn take(&mut self, max: usize) -> Vec<(u64, J)> {
        if self.away.is_empty() {
            return self.queue.drain(..self.queue.len().min(max)).collect();
        }
        let (mut batch, mut kept) = (Vec::new(), VecDeque::new());
        for (client, job) in self.queue.drain(..) {
            match batch.len() == max || self.away.contains_key(&client) {
                true => kept.push_back((client, job)),
                false => batch.push((client, job)),
            }
        }
        self.queue = kept;
        batch
    }

    /// A client's script of the batch leaves the queue.
    pub fn leave(&mut self, client: u64) {
        *self.away.entry(client).or_default() += 1;
    }

    /// A script that had left the queue has ended. True: the caller must have a thread take a
    /// batch.
    pub fn ended(&mut self, client: u64) -> bool {
        if let Some(count) = self.away.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.away.remove(&client);
            }
        }
        self.schedule()
    }

    /// These scripts of the batch have not run: they come before all that wait.
    pub fn put_back(&mut self, jobs: Vec<(u64, J)>) {
        jobs.into_iter().rev().for_each(|job| self.queue.push_front(job));
    }

    /// The batch is done; these of its scripts must run again, before all others. True: the caller
    /// must have a thread take a batch.
    pub fn finish(&mut self, again: Vec<(u64, J)>) -> bool {
        self.put_back(again);
        self.is_busy = false;
        self.schedule()
    }

    /// Whether nothing waits, runs, or is away.
    pub fn is_empty(&self) -> bool {
        !self.is_busy && self.queue.is_empty() && self.away.is_empty()
    }

    /// How many scripts wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    fn schedule(&mut self) -> bool {
        let is_due = !self.is_busy && self.queue.iter().any(|(c, _)| !self.away.contains_key(c));
        self.is_busy |= is_due;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_came_while_a_batch_was_under_way_make_the_next_batch() {
        let mut queue = ScriptQueue::default();
        assert!(queue.push(1, "a"));
        assert!(!queue.push(2, "b"), "a batch is scheduled already");
        assert_eq!(queue.take(10), [(1, "a"), (2, "b")]);
        assert!(!queue.push(3, "c"), "one batch at a time");
        assert!(queue.finish(Vec::new()));
        assert_eq!(queue.take(10), [(3, "c")]);
        assert!(!queue.finish(Vec::new()));
        assert!(queue.is_empty());
    }

    #[test]
    fn scripts_that_must_run_again_come_before_all_others() {
        let mut queue = ScriptQueue::default();
        queue.push(1, "a");
        queue.push(2, "b");
        let batch = queue.take(10);
        queue.push(3, "c");
        assert!(queue.finish(batch));
        assert_eq!(queue.take(2), [(1, "a"), (2, "b")], "the batch holds two");
        assert!(queue.finish(Vec::new()));
        assert_eq!(queue.take(2), [(3, "c")]);
    }

    #[test]
    fn later_scripts_of_a_client_wait_for_its_script_that_left_the_queue() {
        let mut queue = ScriptQueue::default();
        queue.push(1, "long");
        assert_eq!(queue.take(1), [(1, "long")]);
        queue.push(1, "behind it");
        queue.push(2, "another's");
        queue.leave(1);
        assert!(queue.finish(Vec::new()));
        assert_eq!(queue.take(10), [(2, "another's")]);
        assert!(!queue.finish(Vec::new()), "what is left waits for the long one");
        assert!(queue.ended(1));
        assert_eq!(queue.take(10), [(1, "behind it")]);
    }
}
