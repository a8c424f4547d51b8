//! When nothing breaks any more: every client is answered, every key can be read, and all replicas
//! hold the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::{Keyspace, NodeId, ShardId};
use node::replica::ShardReport;
use node::routing::route::Route;

use super::volumes::is_apart;
use super::{ANSWER_MS_MAX, KEYSPACE, World};
use crate::check::Violation;

impl World {
    /// Lets everyone be answered and all replicas catch up.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        self.clients.asking = false;
        let deadline = self.now_ms + ANSWER_MS_MAX;
        while self.now_ms < deadline {
            self.millisecond()?;
            let is_idle = self.clients.is_idle()
                && self.is_multi_shard_idle()
                && self.is_pipeline_idle()
                && self.is_volume_idle();
            if is_idle && self.is_time_to_look() && self.is_settled() {
                return self.ask_everything();
            }
        }
        let left = self.describe_leftover_locks();
        if !left.is_empty() {
            let text = format!("{left}{}", self.unsettled());
            return Err(Violation::new("R12 transactions are finished", text));
        }
        let text = format!("{ANSWER_MS_MAX} ms after the last fault: {}", self.unsettled());
        Err(Violation::new("liveness", text))
    }

    /// Reads every key once more: what was acknowledged must be there.
    fn ask_everything(&mut self) -> Result<(), Violation> {
        let deadline = self.now_ms + ANSWER_MS_MAX;
        let knows = |at: &usize| {
            let machine = self.node_slots[*at].machine.as_ref();
            machine.is_some_and(|machine| machine.routes.contains_key(KEYSPACE))
        };
        let places: Vec<usize> = (0..self.node_slots.len()).filter(knows).collect();
        let machine = self.node_slots[places[0]].machine.as_ref().expect("the node has settled");
        let replicated =
            |keyspace: &Keyspace| &*keyspace.name == KEYSPACE || keyspace.options.replicas > 1;
        let others = machine.routes.values().filter(|route| !is_apart(&route.keyspace.name));
        let routes = others.filter(|route| replicated(&route.keyspace));
        let names: Vec<_> = routes.map(|route| route.keyspace.name.clone()).collect();
        let keys = self.profile.keys;
        for (name, key) in names.iter().flat_map(|name| (0..keys).map(move |key| (name, key))) {
            let mut done = false;
            while !done {
                if self.now_ms >= deadline {
                    let text = format!("key {key} of {name} cannot be read after the last fault");
                    return Err(Violation::new("liveness", text));
                }
                let at = match self.rng.one_in(2) {
                    true => *self.rng.pick(&places),
                    false => self.leaders_of(key).first().copied().unwrap_or(places[0]),
                };
                let machine = self.node_slots[at].machine.as_ref();
                let route = machine.and_then(|machine| machine.routes.get(name)).cloned();
                let answered = self.counts.answered;
                if let Some(route) = route {
                    self.read_last(at, route, key);
                }
                for _ in 0..300 {
                    if self.clients.is_idle() {
                        break;
                    }
                    self.millisecond()?;
                }
                done = self.counts.answered > answered;
            }
        }
        self.read_wide_last()?;
        // Where replicas move, one of the catalogue may wait for its state just now.
        while self.now_ms < deadline && self.agreed_keyspaces().is_err() {
            self.millisecond()?;
        }
        let keyspaces = self.agreed_keyspaces();
        self.raise_all(&keyspaces.map_err(|why| Violation::new("liveness", why))?)?;
        // What was forwarded may have been sent once more meanwhile.
        while self.now_ms < deadline && !(self.is_time_to_look() && self.is_settled()) {
            self.millisecond()?;
        }
        Ok(())
    }

    /// Where there are many nodes it takes long to look at all.
    fn is_time_to_look(&self) -> bool {
        self.now_ms.is_multiple_of(1 + self.node_slots.len() as u64 / 10 * 10)
    }

    fn is_settled(&self) -> bool {
        self.unsettled().is_empty()
    }

    /// What is not as it should be, in words.
    fn unsettled(&self) -> String {
        let mut found: BTreeMap<ShardId, Vec<u64>> = BTreeMap::new();
        let mut leaders: BTreeMap<ShardId, u32> = BTreeMap::new();
        for seat in self.node_slots.iter().filter(|seat| !seat.has_left) {
            let Some(machine) = &seat.machine else { return "a node is down".into() };
            for id in machine.shard_ids() {
                let shard = machine.shard(id).expect("the shard is on this node");
                let view = shard.view();
                let (applied, merging) = {
                    let state = view.read();
                    (state.applied_index, state.merging)
                };
                if !merging.is_not() {
                    return format!("shard {id} on node {} is {merging:?}; ", seat.node);
                }
                found.entry(id).or_default().push(applied);
                *leaders.entry(id).or_default() += u32::from(shard.is_leader());
            }
        }
        let mut text = self.clients.open();
        text += &self.wide.as_ref().map(|wide| wide.open()).unwrap_or_default();
        text += &self.describe_volumes();
        text += &self.describe_leftover_locks();
        text += &self.describe_resizes();
        let keyspaces = match self.agreed_keyspaces() {
            Ok(keyspaces) => keyspaces,
            Err(why) => return text + &why,
        };
        if !self.is_whole() {
            text += "a shard lacks a replica; ";
        }
        text += &self.misplaced(found.len());
        for (id, applied) in found {
            let equal = applied.windows(2).all(|pair| pair[0] == pair[1]);
            let wanted = self.replicas_wanted(&keyspaces, id);
            if !equal || Some(applied.len()) != wanted || leaders[&id] != 1 {
                let led = leaders[&id];
                text += &format!(
                    "shard {id} has applied {applied:?} and {led} leaders, of {wanted:?}: {:?}; ",
                    self.reports_of(id)
                );
            }
        }
        text
    }

    /// What each replica of a shard says of itself.
    fn reports_of(&self, id: ShardId) -> Vec<ShardReport> {
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        machines.filter_map(|machine| Some(machine.shard(id)?.report(self.now_ms))).collect()
    }

    /// Shards that some node's table or route has otherwise than their leaders do, in words.
    fn misplaced(&self, shards: usize) -> String {
        let mut text = String::new();
        let machines = || self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let leaders = machines().flat_map(|machine| {
            let shards = machine.shard_ids().into_iter().filter_map(|id| machine.shard(id));
            shards.filter(|shard| shard.is_leader())
        });
        for truth in leaders.map(|shard| shard.known()) {
            for machine in machines() {
                if machine.table().shard(truth.shard()).is_none_or(|known| **known != truth) {
                    let node = machine.node();
                    text += &format!("node {node} misplaces shard {}; ", truth.shard());
                }
                let arc = truth.arc();
                let mut routes = machine.routes.values();
                let route = routes.find(|route| route.keyspace.id == arc.keyspace());
                let leads_there = |route: &Arc<Route>| {
                    let place = route.place_of(truth.shard());
                    place.is_some_and(|place| route.arc(place) == arc)
                };
                if !route.is_none_or(leads_there) {
                    let node = machine.node();
                    text += &format!("node {node} has another route to {}; ", truth.shard());
                }
            }
        }
        for machine in machines().filter(|machine| machine.table().len() > shards) {
            let (node, count) = (machine.node(), machine.table().len());
            let ids: Vec<_> = machine.table().iter().map(|known| known.shard().0).collect();
            text += &format!("node {node} knows {count} shards of {shards}: {ids:?}; ");
        }
        text
    }

    /// All replicas of a shard hold the same.
    pub(super) fn compare_states(&self) -> Result<(), Violation> {
        let mut first: BTreeMap<ShardId, (NodeId, Vec<Vec<u8>>)> = BTreeMap::new();
        for seat in self.node_slots.iter().filter(|seat| !seat.has_left) {
            let machine = seat.machine.as_ref().expect("the node has settled");
            for id in machine.shard_ids() {
                let held = machine.dump(id);
                match first.get(&id) {
                    None => {
                        first.insert(id, (seat.node, held));
                    }
                    Some((_, same)) if *same == held => {}
                    Some((node, same)) => {
                        let differ = same.iter().zip(&held).position(|(one, other)| one != other);
                        let text = format!(
                            "shard {id} on nodes {node} and {}: {differ:?} of {} and {} blocks",
                            seat.node,
                            same.len(),
                            held.len()
                        );
                        return Err(Violation::new("R8 replicas hold the same", text));
                    }
                }
            }
        }
        Ok(())
    }
}
