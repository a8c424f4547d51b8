//! Clients of a cluster: each sends one request after the other, to any node.
//!
//! - A refused request was not done, and the client sends another one somewhere.
//! - A client that waits too long goes on to something else, but still takes the answer.
//! - If the node ends, there is no answer. The request was done if its entry is applied some day,
//!   by that time; or else by the end of the node.
//!
//! Values are never the same twice, so that a history shows which write a read saw.
//!
//! **Time.** Nodes' clocks may differ by hours, and values expire. The replica judges a read at the
//! time that the read names, at the replica's floor, or at the time of the newest entry that it
//! saw, whichever is latest. It judges a write at its entry's time. That time lies above all
//! entries applied in its shard when the request was sent, and not above those applied when it was
//! answered. The search for a linear order gets these times.
//!
//! **Keyspaces.** Most requests are for one keyspace; some are for others that come, change and go
//! meanwhile ([`super::catalogue`]). A keyspace has ids of its own, and histories of its own.

mod answers;
mod histories;
mod reads;
mod unanswered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use command::Write;
use keyspace::{KeyspaceId, ShardId};
use node::executor::Input;
use node::replica::entry::{Batch, Waiter};
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::FetchedData;
use node::routing::route::Route;

use super::keyspace_scans::KeyspaceScan;
use super::options::RunProfile;
use super::volumes::is_apart;
use super::{KEYSPACE, Plant, World};
use crate::check::linear::ObservedCommand;
use crate::command::{Cell, Command, Value};
use crate::machine::CLIENTS;

/// How long a client waits.
const PATIENCE_MS: u64 = 2_500;

/// What clients do and have seen.
pub struct Clients {
    /// Whether they begin anything new.
    pub asking: bool,
    ops: BTreeMap<u64, Op>,
    pub(super) made: u64,
    events: u64,
    /// How many there were by the end of each millisecond.
    events_by: Vec<u64>,
    /// When each client asks again.
    free_at: Vec<u64>,
    /// So many of them ask.
    active: usize,
    names: Vec<Vec<u8>>,
    /// Keys that share a hash tag.
    tagged: u64,
    /// By keyspace and hash tag.
    histories: BTreeMap<(KeyspaceId, u64), Vec<ObservedCommand>>,
    /// Without an answer, and where they will be found if they are done.
    lost: Vec<(Op, Place)>,
    /// … and those that may be done as long as the run lasts.
    endless: Vec<Op>,
    /// Keyspaces that may lose unsynced writes: their histories are not judged.
    pub(super) weak: BTreeSet<KeyspaceId>,
}

/// Where a write is found, once it is applied.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// As the entry of this index and term.
    Entry(u64, u64),
    /// In an entry that holds this batch: session and sequence.
    Batch(u64, u64),
}

pub(super) struct Op {
    pub(super) client: usize,
    at: usize,
    what: ClientOp,
    pub(super) call: u64,
    began_ms: u64,
    gives_up_at: u64,
    /// Whether its client has gone on to something else.
    pub(super) given_up: bool,
}

pub(super) enum ClientOp {
    Keys(KeyOp),
    /// A question about all keys.
    Keyspace(KeyspaceScan),
    /// A change of the catalogue.
    Catalogue,
}

/// A command on keys of one hash tag, or FLUSH of a shard's.
pub(super) struct KeyOp {
    route: Arc<Route>,
    shard: ShardId,
    keys: Vec<u64>,
    command: Command,
    /// Of a read: how old its answer may be, in ms.
    stale_ms: u64,
    /// No earlier than this is it judged.
    low_ms: u64,
    /// Of a read: when it came, and whether it may be tried.
    moment: Option<ReadTime>,
    ready: bool,
    /// Of a write: how it stands in the log, if it does, as far as is known.
    place: Option<Place>,
    /// Of a FLUSH: a part of it may be done, and the rest was sent on. Its keys are judged one by
    /// one: each is emptied once until it is answered, or may be if it is refused.
    in_parts: bool,
}

impl Op {
    fn of_keys(&self) -> Option<&KeyOp> {
        match &self.what {
            ClientOp::Keys(of_keys) => Some(of_keys),
            ClientOp::Keyspace(_) | ClientOp::Catalogue => None,
        }
    }

    /// When its client first sent it, if it is the rest of an earlier request.
    pub(super) fn first_call(&self) -> u64 {
        match &self.what {
            ClientOp::Keyspace(of_whole) => of_whole.first_call().unwrap_or(self.call),
            ClientOp::Keys(_) | ClientOp::Catalogue => self.call,
        }
    }

    fn of_keys_mut(&mut self) -> Option<&mut KeyOp> {
        match &mut self.what {
            ClientOp::Keys(of_keys) => Some(of_keys),
            ClientOp::Keyspace(_) | ClientOp::Catalogue => None,
        }
    }

    /// Whether it is a read that may be tried.
    fn is_ready(&self) -> bool {
        match &self.what {
            ClientOp::Keys(of_keys) => of_keys.ready,
            ClientOp::Keyspace(of_whole) => of_whole.ready,
            ClientOp::Catalogue => false,
        }
    }

    /// Whether some of it may be done, whatever becomes of the rest.
    fn is_in_parts(&self) -> bool {
        self.of_keys().is_some_and(|of_keys| of_keys.in_parts)
    }

    fn is_write(&self) -> bool {
        self.of_keys().is_some_and(|of_keys| of_keys.moment.is_none())
    }
}

impl Clients {
    /// The clients before their first request.
    pub fn new(profile: &RunProfile) -> Self {
        let name = |key| format!("{{{}}}key-{key}", key / profile.tagged).into_bytes();
        Self {
            asking: true,
            ops: BTreeMap::new(),
            made: 0,
            events: 0,
            events_by: Vec::new(),
            free_at: vec![0; profile.clients as usize],
            active: profile.clients as usize,
            names: (0..profile.keys).map(name).collect(),
            tagged: profile.tagged,
            histories: BTreeMap::new(),
            lost: Vec::new(),
            endless: Vec::new(),
            weak: BTreeSet::new(),
        }
    }

    /// When each of those that ask does so again.
    fn active(&self) -> impl Iterator<Item = u64> + '_ {
        self.free_at.iter().copied().take(self.active)
    }

    /// So many ask from now on.
    pub(super) fn set_active(&mut self, count: usize, now_ms: u64) {
        if self.free_at.len() < count {
            self.free_at.resize(count, now_ms);
        }
        self.active = count;
    }

    /// How many ask.
    pub(super) fn active_count(&self) -> usize {
        self.active
    }

    /// Reads at a node that may be tried.
    pub fn ready(&self, at: usize) -> Vec<u64> {
        let ready = self.ops.iter().filter(|(_, op)| op.at == at && op.is_ready());
        ready.map(|(number, _)| *number).collect()
    }

    /// Whether no client waits.
    pub fn is_idle(&self) -> bool {
        self.ops.is_empty()
    }

    /// Requests that are under way, as text.
    pub fn open(&self) -> String {
        let names = self.ops.iter().map(|(number, op)| match &op.what {
            ClientOp::Keys(KeyOp { command, keys, .. }) => {
                format!("op {number}: {command:?} of {keys:?}; ")
            }
            ClientOp::Keyspace(of_whole) => format!("op {number}: {}; ", of_whole.describe()),
            ClientOp::Catalogue => format!("op {number}: a change of the catalogue; "),
        });
        names.collect()
    }

    pub(super) fn names_of(&self, keys: &[u64]) -> Vec<Vec<u8>> {
        keys.iter().map(|key| self.names[*key as usize].clone()).collect()
    }

    pub(super) fn name(&self, key: u64) -> &[u8] {
        &self.names[key as usize]
    }

    /// The names of all keys.
    pub(super) fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    /// Something happens now: its number.
    pub(super) fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// How much has happened.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn insert(&mut self, number: u64, op: Op) {
        self.ops.insert(number, op);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Op> {
        self.ops.remove(&number)
    }

    /// A command on keys that is under way.
    fn under_way(&mut self, number: u64) -> &mut KeyOp {
        let op = self.ops.get_mut(&number).and_then(Op::of_keys_mut);
        op.expect("the op is under way")
    }

    /// A question about all keys, if it is under way.
    pub(super) fn scan_mut(&mut self, number: u64) -> Option<&mut KeyspaceScan> {
        match &mut self.ops.get_mut(&number)?.what {
            ClientOp::Keyspace(of_whole) => Some(of_whole),
            ClientOp::Keys(_) | ClientOp::Catalogue => None,
        }
    }
}

impl World {
    pub(super) fn may_ask(&self, at: usize) -> bool {
        let machine = self.node_slots[at].machine.as_ref();
        self.clients.asking
            && !self.calm
            && machine.is_some_and(|machine| machine.routes.contains_key(KEYSPACE))
            && self.clients.active().any(|free_at| free_at <= self.now_ms)
    }

    /// Some client asks a node something.
    pub(super) fn ask(&mut self, at: usize) {
        let active = self.clients.active().enumerate();
        let free = active.filter(|(_, free_at)| *free_at <= self.now_ms);
        let free: Vec<usize> = free.map(|(client, _)| client).collect();
        let client = *self.rng.pick(&free);
        self.clients.free_at[client] = u64::MAX;
        if self.rng.one_in(self.profile.catalogue_in) {
            return self.ask_catalogue(client, at);
        }
        let route = self.some_route(at);
        if self.rng.one_in(self.profile.scan_in) {
            return self.start_scan(client, at, route);
        }
        let (command, keys) = self.some_command(at);
        // Mostly one of those who believe that they lead: there may be several.
        let mut leaders = self.leaders_of(keys[0]);
        leaders.retain(|at| self.is_awake(*at));
        let to_leader = !leaders.is_empty() && !self.rng.one_in(4);
        let at = if to_leader { *self.rng.pick(&leaders) } else { at };
        let stale_ms = match command.is_read() && self.rng.one_in(4) {
            true => self.rng.between(1, 1_500),
            false => 0,
        };
        let route = self.some_route(at);
        self.begin_op(client, at, route, keys, command, stale_ms);
    }

    /// Mostly of the keyspace that is always there.
    fn some_route(&mut self, at: usize) -> Arc<Route> {
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let routes = || machine.routes.values().filter(|route| !is_apart(&route.keyspace.name));
        let count = routes().count() as u64;
        if count > 1 && self.rng.one_in(4) {
            let number = self.rng.below(count) as usize;
            return routes().nth(number).expect("below their number").clone();
        }
        machine.routes[KEYSPACE].clone()
    }

    pub(super) fn new_op(&mut self, client: usize, at: usize, what: ClientOp) -> (u64, Op) {
        self.clients.made += 1;
        self.clients.events += 1;
        let gives_up_at = self.now_ms + PATIENCE_MS;
        let (call, began_ms) = (self.clients.events, self.now_ms);
        (self.clients.made, Op { client, at, what, call, began_ms, gives_up_at, given_up: false })
    }

    pub(super) fn begin_op(
        &mut self,
        client: usize,
        at: usize,
        route: Arc<Route>,
        keys: Vec<u64>,
        mut command: Command,
        stale_ms: u64,
    ) {
        self.set_clocks(at);
        self.look_at_watched(at, &route, &keys, &mut command);
        let seat = &self.node_slots[at];
        let Some(machine) = &seat.machine else { return };
        let moment = command.is_read().then(|| machine.moment());
        let shard = route.shard(route.place(&route.key(&self.clients.names[keys[0] as usize])));
        let low_ms = match moment {
            Some(moment) => moment.time.millis(),
            None => self.agreement.last_ms(shard),
        };
        let (ready, place, in_parts) = (moment.is_some(), None, false);
        let what =
            KeyOp { route, shard, keys, command, stale_ms, low_ms, moment, ready, place, in_parts };
        let (number, op) = self.new_op(client, at, ClientOp::Keys(what));
        let node = self.node_slots[at].node;
        let KeyOp { route, command, keys, .. } = op.of_keys().expect("the op was just made");
        let keyspace = &route.keyspace.name;
        let names = self.clients.names_of(keys);
        self.trace.event(format_args!(
            "op {number} at node {node}: {command:?} of {keys:?} in {keyspace}"
        ));
        let (route_shown, name) = (route.clone(), names[0].clone());
        let is_write = !command.is_read();
        self.sample(at, &route_shown, &name, names.len(), is_write);
        let tile = route.arc(route.place_of(shard).expect("the entry was found above"));
        let plant = self.options.plant;
        let version = self.node_slots[at].machine.as_ref().expect("the node runs").cluster_version;
        let flush = (*command == Command::Flush).then(|| Write::flush_of(tile, version));
        if let Some(mut write) = flush.or_else(|| command.write(&names)) {
            if let (Some(Plant::Unwatched), Write::Transaction(transaction)) = (plant, &mut write) {
                transaction.watched.clear();
            }
            let mut batch = Batch::default();
            batch.push(&write, Waiter(number));
            let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
            machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
        }
        self.clients.ops.insert(number, op);
    }

    /// A transaction that watches keys looks at them, if that can be done at once; else it watches
    /// none.
    fn look_at_watched(&self, at: usize, route: &Route, keys: &[u64], command: &mut Command) {
        let Command::Transaction { watched: watched @ Some(_), .. } = command else { return };
        let Some(machine) = &self.node_slots[at].machine else { return };
        let now = machine.moment();
        let names = self.clients.names_of(keys);
        let had = names.iter().map(|name| {
            let seen = read::seen(route, name, now, FetchedData::NONE)?;
            let cell = read::value(route, name, now, |version| {
                version.map(|version| Cell {
                    value: Value(version.value.to_vec()),
                    expiry_ms: version.expiry_ms,
                })
            })?;
            Ok((cell, seen))
        });
        *watched = had.collect::<Result<Vec<_>, Blocked>>().ok();
    }

    /// A client asks a node for a change of the catalogue.
    pub(super) fn begin_change(&mut self, client: usize, at: usize, op: Vec<u8>) {
        let (number, entry) = self.new_op(client, at, ClientOp::Catalogue);
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("op {number} at node {node}: a change of the catalogue"));
        self.clients.ops.insert(number, entry);
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let (origin, waiter) = (CLIENTS, Waiter(number));
        machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
    }

    /// A write that a shard had turned away is on its way to another one.
    pub(super) fn sent_on(&mut self, waiter: Waiter, shard: ShardId) {
        let last_ms = self.agreement.last_ms(shard);
        let Some(op) = self.clients.ops.get_mut(&waiter.0).and_then(Op::of_keys_mut) else {
            return;
        };
        (op.shard, op.low_ms, op.place) = (shard, last_ms, None);
        op.in_parts |= op.command == Command::Flush;
        self.counts.moved += 1;
        self.trace.event(format_args!("op {}: on to shard {shard}", waiter.0));
    }

    /// Handles a write to a shard that another shard has absorbed, which knows its outcome.
    pub(super) fn is_inherited(&mut self, waiter: Waiter, shard: ShardId) {
        if let Some(op) = self.clients.ops.get_mut(&waiter.0).and_then(Op::of_keys_mut) {
            op.shard = shard;
            self.counts.inherited += 1;
        }
    }

    /// Nodes that believe they lead the shard of a key of the keyspace that is always there.
    pub(super) fn leaders_of(&self, key: u64) -> Vec<usize> {
        let name = &self.clients.names[key as usize];
        let leads = |at: &usize| {
            let Some(machine) = &self.node_slots[*at].machine else { return false };
            let Some(route) = machine.routes.get(KEYSPACE) else { return false };
            let shard = route.shard(route.place(&route.key(name)));
            machine.shard(shard).is_some_and(|shard| shard.is_elected())
        };
        (0..self.node_slots.len()).filter(leads).collect()
    }
}
