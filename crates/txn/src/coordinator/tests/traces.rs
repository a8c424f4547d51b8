//! What viewers are shown: each attempt that was begun comes to its end, by its own coordinator or
//! by the one that finishes it, whatever is lost and whichever coordinators die.

use super::*;

/// The steps that were told of each attempt, by each coordinator.
#[derive(Default)]
pub(super) struct SeenTraces {
    steps: BTreeMap<(TxnId, u64), Vec<TxnTrace>>,
    dead: BTreeSet<u64>,
}

impl SeenTraces {
    /// The coordinator of this name tells a step.
    pub fn take(&mut self, by: u64, trace: TxnTrace) {
        self.steps.entry((trace.id, by)).or_default().push(trace);
    }

    /// It is dead.
    pub fn died(&mut self, name: u64) {
        self.dead.insert(name);
    }

    /// All is over, and nobody has a lock.
    pub fn check(&self, seed: u64) {
        let mut held: BTreeMap<TxnId, BTreeSet<ShardId>> = BTreeMap::new();
        let mut finished: BTreeSet<TxnId> = BTreeSet::new();
        for ((id, by), steps) in &self.steps {
            let phases: Vec<_> = steps.iter().map(|step| &step.phase).collect();
            let begins = matches!(phases[0], TxnPhase::Prepare { .. } | TxnPhase::Recover);
            assert!(begins, "seed {seed}: {id:?} by {by}: {phases:?}");
            let is_end =
                |phase: &&TxnPhase| matches!(phase, TxnPhase::Finished | TxnPhase::GivenUp);
            let is_over = phases.last().is_some_and(is_end);
            assert!(is_over || self.dead.contains(by), "seed {seed}: {id:?} by {by}: {phases:?}");
            for pair in steps.windows(2) {
                let goes_on =
                    !is_end(&&pair[0].phase) || matches!(pair[1].phase, TxnPhase::Recover);
                assert!(goes_on, "seed {seed}: {id:?} by {by}: {phases:?}");
            }
            if phases.contains(&&TxnPhase::Finished) {
                finished.insert(*id);
            }
            let decided =
                |phase: &&TxnPhase| matches!(phase, TxnPhase::Committed { .. } | TxnPhase::Aborted);
            let resolves = phases
                .iter()
                .position(|phase| matches!(phase, TxnPhase::Resolve { .. } | TxnPhase::Finished));
            let is_told = resolves.is_none_or(|at| phases[..at].iter().any(decided));
            assert!(is_told, "seed {seed}: {id:?} by {by}: it ends without an outcome: {phases:?}");
        }
        // Who dies behind RESOLVE may have left nothing that another would find.
        let steps = || self.steps.values().flatten();
        for step in steps() {
            if let TxnPhase::Voted { shard } = step.phase {
                held.entry(step.id).or_default().insert(shard);
            }
        }
        for step in steps() {
            if let TxnPhase::Resolve { shards, .. } = &step.phase {
                held.entry(step.id).or_default().retain(|shard| !shards.contains(shard));
            }
        }
        held.retain(|id, shards| !shards.is_empty() && !finished.contains(id));
        assert!(held.is_empty(), "seed {seed}: locks that seem to be held for ever: {held:?}");
    }
}

/// Of each transaction that one coordinator ends alone, one step says that it is the last.
#[test]
fn last_step_of_all_attempts_is_marked() {
    for seed in 0..40 {
        let mut world = World::new(seed);
        for token in 0..6 {
            let commands = [account(token % ACCOUNTS), account((token + 1) % ACCOUNTS)];
            let add = |key: &Vec<u8>| Command::Write(Write::Increment { key: leak(key), by: 0 });
            world.begin(0, commands.iter().map(add).collect(), token);
        }
        while !world.coordinators[0].runs.is_empty() {
            settle(&mut world, 0);
            world.now += 10_000_000;
            world.with(0, |c, at, routes| c.tick(at, routes));
        }
        let mut last: BTreeMap<Timestamp, usize> = BTreeMap::new();
        for ((id, _), steps) in &world.traces.steps {
            let count = steps.iter().filter(|step| step.is_last).count();
            *last.entry(id.start).or_default() += count;
        }
        assert!(!last.is_empty() && last.values().all(|count| *count == 1), "{seed}: {last:?}");
    }
}
