//! Old versions go while clients ask: what each node's maintenance thread does, at any time and
//! place.
//!
//! Any node may ask for a keyspace's safe point to be raised. The system shard's leader logs it,
//! every shard's leader follows, and each replica collects when it likes (SAFETY G14). In the end
//! each keyspace's safe point has risen at every replica, wherever the leaders are. All replicas
//! have collected all they may, and must hold the same versions.

use hlc::safe_point;
use keyspace::{Keyspace, ShardId, Timestamp};
use node::executor::Input;
use node::replica::state::Content;
use node::replica::{SafePoint, SafePointRequest};

use super::{ANSWER_MS_MAX, Plant, World};
use crate::check::Violation;
use crate::machine::Machine;

/// Versions that are collected at once, at most.
const BUDGET: u64 = 8;
/// One look in so many raises a safe point.
const RAISE_IN: u64 = 40;
/// How far behind a node's clock a safe point is raised to, in ms.
const BEHIND_MS: u64 = 600;
/// A node that wants a safe point raised asks again after this time.
const RAISE_AGAIN_MS: u64 = 100;

impl World {
    /// A node collects in one of its shards, or wants a safe point raised.
    pub(super) fn keep_versions(&mut self, at: usize) {
        let node = self.node_slots[at].node;
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
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
            if let Some(engine) = view.write().engine_mut() {
                engine.collect(budget);
            }
            self.counts.collected += 1;
            return;
        }
        let points = route.views.iter().filter_map(|v| v.read().engine().map(|e| e.safe_point()));
        let current = points.min().unwrap_or_default();
        // As if old versions took too much memory.
        let wanted = now.millis().saturating_sub(self.rng.below(BEHIND_MS));
        let wanted = Some(Timestamp::from_millis(wanted));
        let retention_ms = route.keyspace.options.retention_ms;
        let to = safe_point::target(current, now, retention_ms, wanted);
        if to > current {
            let keyspace = route.keyspace.id;
            self.trace.event(format_args!("node {node}: safe point of {keyspace} to {to:?}"));
            if self.options.plant == Some(Plant::CollectedLease) {
                // Planted: the shards here do not ask what the keyspace's record says.
                for shard in route.shards().to_vec() {
                    machine.submit(shard, Input::RaiseShard { shard, to: to.into() });
                }
            }
            if self.options.plant == Some(Plant::OldestPin) {
                for (view, shard) in route.views.iter().zip(route.shards().to_vec()) {
                    let point = view.read().engine().map(|engine| SafePoint {
                        at: engine.safe_point(),
                        pins: engine.pins().iter().copied().take(1).collect(),
                    });
                    let raise = point.map(|to| Input::RaiseShard { shard, to });
                    raise.into_iter().for_each(|input| machine.submit(shard, input));
                }
            }
            let raise = SafePointRequest { keyspace, to, is_pressed: true };
            machine.submit(ShardId(0), Input::RaiseKeyspace(raise));
        }
    }

    /// Nothing breaks any more: every keyspace's safe point rises, if nodes with replicas go on
    /// asking for that.
    ///
    /// # Errors
    /// It does not rise.
    pub(super) fn raise_all(&mut self, keyspaces: &[Keyspace]) -> Result<(), Violation> {
        let clocks =
            self.node_slots.iter().filter_map(|seat| seat.machine.as_ref()).map(|m| m.now());
        // By every clock: nobody raises anything above its own.
        let to = clocks.min().unwrap_or_default();
        let deadline = self.now_ms + ANSWER_MS_MAX;
        while self.now_ms < deadline {
            let mut lag = false;
            for keyspace in keyspaces {
                // Clocks may stand far apart: a lease may end long after its client has.
                let to = self.held_at(keyspace).map_or(to, |held| to.min(held));
                if self.lags_behind(keyspace, to) {
                    lag = true;
                    self.ask_to_raise(keyspace, to, self.now_ms < deadline - ANSWER_MS_MAX / 2);
                }
            }
            if !lag {
                return Ok(());
            }
            for _ in 0..RAISE_AGAIN_MS {
                self.millisecond()?;
            }
        }
        let lag = keyspaces.iter().map(|keyspace| self.lagging(keyspace, to).join(", "));
        let text = format!("safe points do not rise to {to:?}: {}", lag.collect::<String>());
        Err(Violation::new("liveness", text))
    }

    /// Replicas that lag behind, for people.
    fn lagging(&self, keyspace: &Keyspace, to: Timestamp) -> Vec<String> {
        let mut lag = Vec::new();
        for machine in self.node_slots.iter().filter_map(|seat| seat.machine.as_ref()) {
            for id in machine.shard_ids() {
                let view = machine.view(id);
                let view = view.filter(|v| v.read().descriptor.keyspace() == keyspace.id);
                let point = view.and_then(|v| v.read().engine().map(|engine| engine.safe_point()));
                if point.is_some_and(|point| point < to) {
                    let report = machine.shard(id).map(|shard| shard.report(self.now_ms));
                    let view = machine.view(id);
                    let locks = view.map(|v| (v.read().locks.counts(), v.read().locks.oldest()));
                    lag.push(format!("shard {id} at {point:?}, locks {locks:?}: {report:?}"));
                }
            }
        }
        lag
    }

    fn lags_behind(&self, keyspace: &Keyspace, to: Timestamp) -> bool {
        let mut machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        machines.any(|machine| lags_at(machine, keyspace, to))
    }

    /// What a lease on the keyspace holds its safe point at.
    fn held_at(&self, keyspace: &Keyspace) -> Option<Timestamp> {
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let held = machines.filter_map(|machine| {
            let view = machine.view(ShardId(0))?;
            let state = view.read();
            let Content::System(system) = &state.content else { return None };
            let lease = system.leases.oldest_hold(keyspace.id, machine.now().millis())?;
            Some(lease.at)
        });
        held.min()
    }

    /// Every node asks that has a replica which lags. At `first` not the one that leads the system
    /// shard.
    fn ask_to_raise(&mut self, keyspace: &Keyspace, to: Timestamp, first: bool) {
        for machine in self.node_slots.iter_mut().filter_map(|seat| seat.machine.as_mut()) {
            let leads = machine.shard(ShardId(0)).is_some_and(|shard| shard.is_leader());
            if lags_at(machine, keyspace, to) && !(first && leads) {
                let raise = SafePointRequest { keyspace: keyspace.id, to, is_pressed: true };
                machine.submit(ShardId(0), Input::RaiseKeyspace(raise));
            }
        }
    }

    /// Has everything collected that may be.
    pub(super) fn collect_all(&self) {
        for machine in self.node_slots.iter().filter_map(|seat| seat.machine.as_ref()) {
            for view in machine.shard_ids().into_iter().filter_map(|id| machine.view(id)) {
                let mut state = view.write();
                let Some(engine) = state.engine_mut() else { continue };
                while engine.collect(usize::MAX) {}
            }
        }
    }
}

/// Whether a replica here has a lower safe point.
fn lags_at(machine: &Machine, keyspace: &Keyspace, to: Timestamp) -> bool {
    let mut views = machine.shard_ids().into_iter().filter_map(|id| machine.view(id));
    views.any(|view| {
        let state = view.read();
        let is_of_it = state.descriptor.keyspace() == keyspace.id;
        is_of_it && state.engine().is_some_and(|engine| engine.safe_point() < to)
    })
}
