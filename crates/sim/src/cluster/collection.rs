//! Old versions go while clients ask: what each node's keeper does, at any time and place.
//!
//! Any node may want a keyspace's safe point raised; who leads the system shard logs it, every
//! shard's leader follows, and each replica collects when it likes (SAFETY G14). In the end all
//! have collected all they may, and must hold the same.

use keyspace::{ShardId, Timestamp};
use node::lane::Input;
use txn::safe_point;

use super::World;

/// Versions that are collected at once, at most.
const BUDGET: u64 = 8;
/// One look in so many raises a safe point.
const RAISE_IN: u64 = 40;
/// How far behind a node's clock a safe point is raised to, in ms.
const BEHIND_MS: u64 = 600;

impl World {
    /// A node collects in one of its shards, or wants a safe point raised.
    pub(super) fn keep_versions(&mut self, at: usize) {
        let node = self.seats[at].node;
        let machine = self.seats[at].machine.as_mut().expect("it runs");
        if machine.routes.is_empty() {
            return;
        }
        let number = self.rng.below(machine.routes.len() as u64) as usize;
        let route = machine.routes.values().nth(number).expect("below their number").clone();
        let now = machine.now();
        // Each raise is an entry of every shard: while nothing else changes, they come to rest.
        if self.calm || !self.rng.one_in(RAISE_IN) {
            let view = self.rng.pick(&route.views);
            let budget = self.rng.between(1, BUDGET) as usize;
            if let Some(engine) = view.write().keys_mut() {
                engine.collect(budget);
            }
            self.counts.collected += 1;
            return;
        }
        let points = route.views.iter().filter_map(|v| v.read().keys().map(|e| e.safe_point()));
        let current = points.min().unwrap_or_default();
        // As if old versions took too much memory.
        let wanted = now.millis().saturating_sub(self.rng.below(BEHIND_MS));
        let wanted = Some(Timestamp::from_millis(wanted));
        let retention_ms = route.keyspace.options.retention_ms;
        let to = safe_point::target(current, now, retention_ms, wanted);
        if to > current {
            let keyspace = route.keyspace.id;
            self.trace.event(format_args!("node {node}: safe point of {keyspace} to {to:?}"));
            machine.submit(ShardId(0), Input::RaiseKeyspace { keyspace, to });
        }
    }

    /// Has everything collected that may be.
    pub(super) fn collect_all(&self) {
        for machine in self.seats.iter().filter_map(|seat| seat.machine.as_ref()) {
            for view in machine.shard_ids().into_iter().filter_map(|id| machine.view(id)) {
                let mut state = view.write();
                let Some(engine) = state.keys_mut() else { continue };
                while engine.collect(usize::MAX) {}
            }
        }
    }
}
