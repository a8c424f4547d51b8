//! What a simulation that somebody watches does to a cluster ([`crate::live`]): the cluster forms
//! while he watches, faults come and go one by one, and his own writes and changes go the way of
//! any other.
//!
//! Nothing here waits: what takes time is asked for again in each of the next milliseconds, or is
//! answered under the number of its request ([`ViewerAnswer`]). What he sees ([`view`]) changes
//! nothing, so that a run is the same whether or not anybody watches.

pub(crate) mod form;
pub(crate) mod view;

use std::collections::BTreeSet;
use std::time::Duration;

use command::{NotDone, Reply, Transaction, Write};
use hlc::Physical;
use keyspace::{AdminState, CatalogueError, CatalogueOp, NodeId, ShardId, Timestamp};
use node::control::{self, Request};
use node::event::{Event, EventKind, MemberChange, SampledRequest, Trace, TraceStep};
use node::executor::{Answer, Input};
use node::replica::entry::{Batch, Waiter};
use node::routing::route::Route;
use overlay::LookupChoice;
use overlay::request::{HopSource, RouteHop};
use txn::coordinator::TxnOutcome;

use super::directed::SYSTEM;
use super::{KEYSPACE, NodeSlot, Plant, World, faults};
use crate::check::Violation;
use crate::machine::VIEWERS;

/// How long a node has been silent when the others call it down.
const SILENT_MS: u64 = 1_000;
/// How often that is looked at.
const LOOK_MS: u64 = 100;
/// Numbers of viewers' transactions begin here, above those of all clients.
pub(in crate::cluster) const VIEWERS_FIRST: u64 = 1 << 62;

/// What viewers are to see.
#[derive(Default)]
pub(crate) struct Watched {
    /// Events since they were last taken.
    pub events: Vec<Event>,
    /// Answers to his requests, since they were last taken.
    pub answers: Vec<(u64, ViewerAnswer)>,
    /// Whether requests and transactions of clients are shown, too.
    pub is_sampling: bool,
    /// Nodes that the others call down.
    down: BTreeSet<NodeId>,
    /// Since when each node is silent, by its place.
    silent_since: Vec<Option<u64>>,
}

/// What comes of a viewer's request.
#[derive(Debug)]
pub(crate) enum ViewerAnswer {
    /// A write is applied.
    Applied(Reply),
    /// A request was not done.
    NotDone(NotDone),
    /// The catalogue has answered.
    Catalogue(Result<(), CatalogueError>),
    /// Control has answered.
    Control(control::Reply),
    /// A transaction has ended.
    Txn(TxnOutcome),
}

impl World {
    /// Shows an event to viewers.
    pub(super) fn show(&mut self, event: Event) {
        if let Some(watched) = &mut self.watched {
            watched.events.push(event);
        }
    }

    /// Something has happened at a node that its cores do not tell.
    pub(super) fn show_at(&mut self, at: usize, what: EventKind) {
        let Some(machine) = &self.node_slots[at].machine else { return };
        let (node, at) = (machine.node(), machine.clock.now());
        self.show(Event { node, at, what });
    }

    pub(super) fn viewer_answered(&mut self, answer: Answer) {
        let mut told = Vec::new();
        match answer {
            Answer::Applied { spent, replies, .. } => {
                let replies = replies.into_iter().map(ViewerAnswer::Applied);
                told.extend(spent.waiters.iter().map(|waiter| waiter.0).zip(replies));
            }
            Answer::NotDone { waiters, why, .. } => {
                told.extend(waiters.iter().map(|waiter| (waiter.0, ViewerAnswer::NotDone(why))));
            }
            Answer::Catalogue { waiter, result, .. } => {
                told.push((waiter.0, ViewerAnswer::Catalogue(result.map(drop))));
            }
            other => unreachable!("no viewer asks for {other:?}"),
        }
        for (number, answer) in told {
            self.viewer_told(number, answer);
        }
    }

    /// Control has answered a request.
    pub(super) fn replied(&mut self, number: u64, reply: control::Reply) {
        self.viewer_told(number, ViewerAnswer::Control(reply));
    }

    /// Shows viewers what has come of his request.
    pub(in crate::cluster) fn viewer_told(&mut self, number: u64, answer: ViewerAnswer) {
        self.trace.event(format_args!("request {number}: {answer:?}"));
        if let Some(watched) = &mut self.watched {
            watched.answers.push((number, answer));
        }
    }

    /// Lets one millisecond pass of a cluster that somebody may watch.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn watched_millisecond(&mut self) -> Result<(), Violation> {
        self.lose_links();
        self.decay();
        self.millisecond()?;
        self.take_traces();
        if self.now_ms.is_multiple_of(LOOK_MS) {
            self.tell_members();
        }
        Ok(())
    }

    /// Shows the phases of transactions, while that is wanted.
    fn take_traces(&mut self) {
        let is_sampling = self.watched.as_ref().is_some_and(|watched| watched.is_sampling);
        for at in 0..self.node_slots.len() {
            let Some(machine) = &mut self.node_slots[at].machine else { continue };
            machine.trace_transactions(is_sampling);
            for trace in std::mem::take(&mut machine.coordinates.traces) {
                self.show_at(at, EventKind::Transaction(trace));
            }
        }
    }

    /// Shows a client's request, while that is wanted.
    pub(super) fn sample(
        &mut self,
        at: usize,
        route: &Route,
        key: &[u8],
        keys: usize,
        write: bool,
    ) {
        if !self.watched.as_ref().is_some_and(|watched| watched.is_sampling) {
            return;
        }
        let Some(machine) = &self.node_slots[at].machine else { return };
        let shard = route.shard(route.place_of_key(key));
        let owner = machine.table().shard(shard).cloned();
        let leader = owner.as_ref().and_then(|known| known.leader());
        let leg = leader.map(|node| RouteHop { shard, node, by: HopSource::Full });
        let took = Duration::ZERO;
        let trace = Trace {
            way: LookupChoice::default(),
            failure: owner.is_none().then_some("the node knows no owner"),
            owner,
            hops: 0,
            messages: Some(if leader == Some(machine.node()) { 0 } else { 2 }),
            begins_at: None,
            steps: leg.into_iter().map(|leg| TraceStep { leg, took: None }).collect(),
            took,
        };
        let request = SampledRequest {
            is_write: write,
            keyspace: route.keyspace.name.clone(),
            key: key.into(),
            keys,
            shard,
            leader,
            route: trace,
        };
        self.show_at(at, EventKind::Request(Box::new(request)));
    }

    /// The first node that is awake tells which others have fallen silent, or are back.
    fn tell_members(&mut self) {
        let Some(mut watched) = self.watched.take() else { return };
        let witness = (0..self.node_slots.len()).find(|at| self.is_awake(*at));
        watched.silent_since.resize(self.node_slots.len(), None);
        let mut told = Vec::new();
        for at in 0..self.node_slots.len() {
            let node = self.node_slots[at].node;
            if self.is_awake(at) {
                watched.silent_since[at] = None;
                if watched.down.remove(&node) {
                    told.push(EventKind::Member { node, state: MemberChange::Up });
                }
                continue;
            }
            let since = *watched.silent_since[at].get_or_insert(self.now_ms);
            let has_left = self.node_slots[at].has_left;
            if self.now_ms - since >= SILENT_MS && witness.is_some() && watched.down.insert(node) {
                let state = if has_left { MemberChange::Gone } else { MemberChange::Down };
                told.push(EventKind::Member { node, state });
            }
        }
        self.watched = Some(watched);
        if let Some(witness) = witness {
            told.into_iter().for_each(|what| self.show_at(witness, what));
        }
    }

    // ---- faults ----

    /// A process is killed, or its power goes, until it is started again.
    pub(crate) fn put_down(&mut self, at: usize, power: bool) {
        self.crash(at, power);
        self.node_slots[at].awake_at = u64::MAX;
    }

    /// A node is gone for good.
    pub(crate) fn remove_for_good(&mut self, at: usize) {
        self.put_down(at, true);
        self.node_slots[at].has_left = true;
    }

    /// A process that was put down starts again.
    pub(crate) fn put_up(&mut self, at: usize) {
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node} is started again"));
        self.node_slots[at].awake_at = self.now_ms;
    }

    /// A process stands still, for so long or until [`World::resume`].
    pub(crate) fn stand_still(&mut self, at: usize, millis: Option<u64>) {
        match millis {
            Some(millis) => self.pause(at, millis),
            None => {
                let node = self.node_slots[at].node;
                self.trace.event(format_args!("node {node} stands still"));
                self.counts.pauses += 1;
                self.node_slots[at].awake_at = u64::MAX;
                self.paused_since.insert(at, self.now_ms);
            }
        }
    }

    /// … and goes on.
    pub(crate) fn resume(&mut self, at: usize) {
        let (node, now_ms) = (self.node_slots[at].node, self.now_ms);
        self.trace.event(format_args!("node {node} goes on"));
        let since = self.paused_since.remove(&at).unwrap_or(now_ms);
        let planted = self.has(Plant::StaleLease);
        let slot = &mut self.node_slots[at];
        if planted {
            slot.slept_nanos += (now_ms - since) * slot.rate_ppm;
        }
        slot.awake_at = now_ms;
    }

    /// Each sync of a node's disk takes so long.
    pub(crate) fn slow_disk(&mut self, at: usize, sync_ms: u64) {
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node}: each sync takes {sync_ms} ms"));
        self.node_slots[at].sync_ms_min = sync_ms;
    }

    /// A node's wall clock is set ahead, or back.
    pub(crate) fn skew(&mut self, at: usize, by_ms: i64) {
        let (node, now_ms) = (self.node_slots[at].node, self.now_ms);
        self.trace.event(format_args!("node {node}: its clock is set by {by_ms} ms"));
        self.node_slots[at].wall_offset = by_ms;
        let wall_ms = self.node_slots[at].wall_ms(now_ms);
        if let Some(machine) = &mut self.node_slots[at].machine {
            machine.set_wall(wall_ms);
        }
    }

    /// All ways are open, all nodes up and awake, all disks as usual.
    pub(crate) fn heal_all(&mut self) {
        self.trace.event(format_args!("all is healed"));
        self.network.mend();
        self.set_attack(0);
        for at in 0..self.node_slots.len() {
            let slot = &mut self.node_slots[at];
            slot.sync_ms_min = 0;
            if slot.has_left || self.now_ms >= slot.awake_at {
                continue;
            }
            match slot.machine {
                Some(_) => self.resume(at),
                None => self.put_up(at),
            }
        }
    }

    /// So many clients ask.
    pub(crate) fn set_clients(&mut self, count: usize) {
        self.trace.event(format_args!("{count} clients ask"));
        self.clients.set_active(count, self.now_ms);
    }

    /// Plants another bug from now on, or none.
    pub(crate) fn set_plant(&mut self, plant: Option<Plant>) {
        let name = plant.map_or("none", Plant::name);
        self.trace.event(format_args!("planted from now on: {name}"));
        self.options.plant = plant;
        for machine in self.node_slots.iter_mut().filter_map(|slot| slot.machine.as_mut()) {
            faults::plant_in(machine, plant);
        }
    }

    // ---- requests of viewers ----

    /// Proposes a write of one key where its shard is led; false if nobody leads it.
    pub(crate) fn viewer_writes(
        &mut self,
        number: u64,
        (keyspace, key): (&str, &[u8]),
        write: &Write<'_>,
    ) -> bool {
        let Some((at, shard)) = self.leader_of_key(keyspace, key) else { return false };
        self.set_clocks(at);
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("request {number} at node {node}: {write:?}"));
        let mut batch = Batch::default();
        batch.push(write, Waiter(number));
        let machine = self.node_slots[at].machine.as_mut().expect("the node leads");
        machine.submit(shard, Input::Propose { shard, origin: VIEWERS, batch });
        true
    }

    /// Begins a transaction at the first node that is awake; false if there is none that knows the
    /// keyspace.
    pub(crate) fn viewer_transacts(
        &mut self,
        number: u64,
        keyspace: &str,
        transaction: &Transaction<'_>,
    ) -> bool {
        let id_at = |at: usize| {
            let route = self.node_slots[at].machine.as_ref()?.routes.get(keyspace)?;
            self.is_awake(at).then_some((at, route.keyspace.id))
        };
        let Some((at, id)) = (0..self.node_slots.len()).find_map(id_at) else { return false };
        self.set_clocks(at);
        self.trace.event(format_args!("request {number}: {transaction:?}"));
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        machine.coordinate(&[(id, transaction)], VIEWERS_FIRST + number, None);
        self.follow_coordinator(at);
        true
    }

    /// Asks who leads the system shard for a change of the catalogue; false if nobody does.
    pub(crate) fn viewer_changes(&mut self, number: u64, op: &CatalogueOp<'_>) -> bool {
        let Some(at) = self.awake_leader_of(SYSTEM) else { return false };
        self.trace.event(format_args!("request {number}: {op:?}"));
        let mut body = Vec::new();
        op.encode(&mut body);
        let machine = self.node_slots[at].machine.as_mut().expect("the node leads");
        let (origin, waiter) = (VIEWERS, Waiter(number));
        machine.submit(SYSTEM, Input::Catalogue { op: body, origin, waiter });
        true
    }

    /// Asks for another admin state of a node; false if nobody leads the system shard.
    pub(crate) fn viewer_admits(
        &mut self,
        number: u64,
        at: usize,
        admin_state: AdminState,
    ) -> bool {
        let node = self.node_slots[at].node;
        let up = (0..self.node_slots.len()).filter(|at| self.is_awake(*at));
        let among: BTreeSet<NodeId> = up.map(|at| self.node_slots[at].node).collect();
        self.viewer_changes(number, &CatalogueOp::Node { node, admin_state, among })
    }

    /// Asks who leads a shard to reshape it; false if nobody does.
    pub(crate) fn viewer_reshapes(&mut self, number: u64, shard: ShardId, what: Request) -> bool {
        let Some(at) = self.awake_leader_of(shard) else { return false };
        self.set_clocks(at);
        self.trace.event(format_args!("request {number}: {what:?}"));
        let machine = self.node_slots[at].machine.as_mut().expect("the node leads");
        machine.request(number, what);
        self.follow_sent_on(at);
        true
    }

    /// The node that leads a shard and is not paused.
    pub(crate) fn awake_leader_of(&self, shard: ShardId) -> Option<usize> {
        let leads = |at: &usize| {
            let machine = self.node_slots[*at].machine.as_ref();
            let shard = machine.and_then(|machine| machine.shard(shard));
            self.is_awake(*at) && shard.is_some_and(|shard| shard.is_leader())
        };
        (0..self.node_slots.len()).find(leads)
    }

    /// The shard of a key, and the node that leads it, as that node sees it.
    pub(crate) fn leader_of_key(&self, keyspace: &str, key: &[u8]) -> Option<(usize, ShardId)> {
        let leads = |at: usize| {
            let machine = self.node_slots[at].machine.as_ref()?;
            let route = machine.routes.get(keyspace)?;
            let shard = route.shard(route.place_of_key(key));
            let is_led = self.is_awake(at) && machine.shard(shard)?.is_leader();
            is_led.then_some((at, shard))
        };
        (0..self.node_slots.len()).find_map(leads)
    }

    /// The node at a place.
    pub(crate) fn node_at(&self, at: usize) -> NodeId {
        self.node_slots.get(at).map_or(NodeId(0), |slot| slot.node)
    }

    /// The place of the node of this id.
    pub(crate) fn place_of_node(&self, node: NodeId) -> Option<usize> {
        self.node_slots.iter().position(|slot| slot.node == node)
    }

    /// Whether a key is one of those that clients use, whose answers are judged.
    pub(crate) fn is_of_clients(&self, keyspace: &str, key: &[u8]) -> bool {
        let is_theirs = self.clients.names().iter().any(|name| name == key);
        keyspace == KEYSPACE && is_theirs || super::multi_shard::is_wide(keyspace)
    }

    /// Heals all and has the judges look at everything; clients ask again afterwards.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn check_all(&mut self) -> Result<(), Violation> {
        self.heal_all();
        let check_nanos = self.profile.check_nanos;
        self.finish()?;
        self.profile.check_nanos = check_nanos;
        let machines = self.node_slots.iter_mut().filter_map(|slot| slot.machine.as_mut());
        machines
            .flat_map(|machine| &mut machine.executors)
            .for_each(|slot| slot.executor.set_check_every(check_nanos));
        (self.clients.asking, self.calm) = (true, false);
        Ok(())
    }
}

impl NodeSlot {
    /// What its wall clock shows.
    pub(super) fn wall_ms(&self, now_ms: u64) -> u64 {
        super::WALL_MS.saturating_add(now_ms).saturating_add_signed(self.wall_offset)
    }
}

impl crate::machine::Machine {
    /// Its wall clock shows this from now on.
    fn set_wall(&mut self, wall_ms: u64) {
        self.set_time(Physical::start(wall_ms.saturating_sub(self.elapsed_ms), Timestamp::ZERO));
    }
}
