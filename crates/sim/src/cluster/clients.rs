//! Clients of a cluster: each asks one thing after the other, of any node.
//!
//! Who is refused has had nothing done, and asks again somewhere. Who waits too long goes on to
//! something else, but still hears the answer. Who asked a node that is gone hears none: what he
//! asked was done if its entry is applied some day, and by then; or by the end of the node.
//! Values are never the same twice, so that a history says which write a read saw.
//!
//! **Time.** Nodes' clocks may lie hours apart, and values end. A read was judged at the time that
//! it was given, or at the floor that its replica then had, or at that of the newest entry it saw
//! if that is later; a write at its entry's
//! time, which lies above all that was applied of its shard when it was asked, and not above what
//! was when it was answered. The search for a linear order is told that.
//!
//! **Keyspaces.** Most is asked of one; some of others that come, change and go meanwhile
//! ([`super::catalogue`]). A keyspace has ids of its own, and histories of its own.

mod lost;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use command::{Read, Reply, Write};
use keyspace::{KeyspaceId, ShardId, Timestamp};
use node::executor::{Answer, Input, NotDone};
use node::replica::entry::{Batch, Waiter};
use node::replica::read::{self, Blocked, Now};
use node::routing::fetch::{Fetched, Found, Want};
use node::routing::route::Route;

use super::options::Mood;
use super::whole::OfWhole;
use super::wide::WIDE;
use super::{KEYSPACE, Plant, World};
use crate::check::Violation;
use crate::check::linear::{self, Linear, Seen};
use crate::command::{Cell, Collect, Command, Value};
use crate::machine::CLIENTS;

/// How long a client waits.
const PATIENCE_MS: u64 = 2_500;

/// States that the search of a history looks at before it is given up.
const STATES_MAX: usize = 100_000;

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
    names: Vec<Vec<u8>>,
    /// Keys that share a hash tag.
    tagged: u64,
    /// By keyspace and hash tag.
    histories: BTreeMap<(KeyspaceId, u64), Vec<Seen>>,
    /// Without an answer, and where they will be found if they are done.
    lost: Vec<(Op, Place)>,
    /// … and those that may be done as long as the run lasts.
    endless: Vec<Op>,
    /// Keyspaces that may lose what was not synced: their histories are not judged.
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
    what: What,
    pub(super) call: u64,
    began_ms: u64,
    gives_up_at: u64,
    /// Whether its client has gone on to something else.
    pub(super) given_up: bool,
}

pub(super) enum What {
    Keys(OfKeys),
    /// A question about all keys.
    Whole(OfWhole),
    /// A change of the catalogue.
    Catalogue,
}

/// A command on keys of one hash tag, or FLUSH of a shard's.
pub(super) struct OfKeys {
    route: Arc<Route>,
    shard: ShardId,
    keys: Vec<u64>,
    command: Command,
    /// Of a read: how old its answer may be, in ms.
    stale_ms: u64,
    /// No earlier than this is it judged.
    low_ms: u64,
    /// Of a read: when it came, and whether it may be tried.
    moment: Option<Now>,
    ready: bool,
    /// Of a write: how it stands in the log, if it does, as far as is known.
    place: Option<Place>,
    /// Of a FLUSH: a part of it may be done, and the rest was sent on. Its keys are judged one by
    /// one: each is emptied once until it is answered, or may be if it is refused.
    in_parts: bool,
}

impl Op {
    fn of_keys(&self) -> Option<&OfKeys> {
        match &self.what {
            What::Keys(of_keys) => Some(of_keys),
            What::Whole(_) | What::Catalogue => None,
        }
    }

    /// When its client first asked it, if it is the rest of something.
    pub(super) fn first_call(&self) -> u64 {
        match &self.what {
            What::Whole(of_whole) => of_whole.first_call().unwrap_or(self.call),
            What::Keys(_) | What::Catalogue => self.call,
        }
    }

    fn of_keys_mut(&mut self) -> Option<&mut OfKeys> {
        match &mut self.what {
            What::Keys(of_keys) => Some(of_keys),
            What::Whole(_) | What::Catalogue => None,
        }
    }

    /// Whether it is a read that may be tried.
    fn is_ready(&self) -> bool {
        match &self.what {
            What::Keys(of_keys) => of_keys.ready,
            What::Whole(of_whole) => of_whole.ready,
            What::Catalogue => false,
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
    /// Before the first thing is asked.
    pub fn new(mood: &Mood) -> Self {
        let name = |key| format!("{{{}}}key-{key}", key / mood.tagged).into_bytes();
        Self {
            asking: true,
            ops: BTreeMap::new(),
            made: 0,
            events: 0,
            events_by: Vec::new(),
            free_at: vec![0; mood.clients as usize],
            names: (0..mood.keys).map(name).collect(),
            tagged: mood.tagged,
            histories: BTreeMap::new(),
            lost: Vec::new(),
            endless: Vec::new(),
            weak: BTreeSet::new(),
        }
    }

    /// Reads at a node that may be tried.
    pub fn ready(&self, at: usize) -> Vec<u64> {
        let ready = self.ops.iter().filter(|(_, op)| op.at == at && op.is_ready());
        ready.map(|(number, _)| *number).collect()
    }

    /// Whether nobody waits.
    pub fn is_idle(&self) -> bool {
        self.ops.is_empty()
    }

    /// What is open, in words.
    pub fn open(&self) -> String {
        let names = self.ops.iter().map(|(number, op)| match &op.what {
            What::Keys(OfKeys { command, keys, .. }) => {
                format!("op {number}: {command:?} of {keys:?}; ")
            }
            What::Whole(of_whole) => format!("op {number}: {}; ", of_whole.describe()),
            What::Catalogue => format!("op {number}: a change of the catalogue; "),
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

    /// A question about all keys, if it is under way.
    pub(super) fn whole_mut(&mut self, number: u64) -> Option<&mut OfWhole> {
        match &mut self.ops.get_mut(&number)?.what {
            What::Whole(of_whole) => Some(of_whole),
            What::Keys(_) | What::Catalogue => None,
        }
    }

    fn note(&mut self, op: Op, replies: Option<Vec<Reply>>, high_ms: u64) {
        let Op { client, what: What::Keys(of_keys), call, .. } = op else { return };
        let OfKeys { route, keys, command, low_ms, in_parts, .. } = of_keys;
        let (client, high_ms, back) = (client as u8, high_ms.max(low_ms), 0);
        let places = Vec::new();
        let seen = Seen { command, places, client, call, back, low_ms, high_ms, replies };
        match in_parts {
            true => keys.iter().for_each(|key| self.saw(route.keyspace.id, &[*key], seen.clone())),
            false => self.saw(route.keyspace.id, &keys, seen),
        }
    }

    /// Something was seen of keys just now. Those that FLUSH empties may have several tags.
    pub(super) fn saw(&mut self, keyspace: KeyspaceId, keys: &[u64], seen: Seen) {
        self.events += 1;
        let (back, tagged) = (self.events, self.tagged);
        let mut of_tags: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for key in keys {
            of_tags.entry(key / tagged).or_default().push((key % tagged) as usize);
        }
        for (tag, places) in of_tags {
            let history = self.histories.entry((keyspace, tag)).or_default();
            history.push(Seen { places, back, ..seen.clone() });
        }
    }

    /// Searches every history for a linear order; how many were too long to judge.
    ///
    /// # Errors
    /// The first history without one.
    pub fn search(&mut self) -> Result<u64, Violation> {
        // What a sole replica has applied while it started was seen by nobody.
        let lost = std::mem::take(&mut self.lost).into_iter().map(|(op, _)| op);
        for op in std::mem::take(&mut self.endless).into_iter().chain(lost) {
            self.note(op, None, u64::MAX);
        }
        let mut unjudged = 0;
        let cells = vec![None; self.tagged as usize];
        for ((keyspace, tag), history) in &mut self.histories {
            if self.weak.contains(keyspace) {
                continue;
            }
            history.sort_by_key(|seen| seen.call);
            for (places, cells, seen) in linear::apart(&cells, history) {
                match linear::is_linear_within(&cells, &seen, STATES_MAX) {
                    Linear::Yes => continue,
                    // One command was under way while very many others came and went.
                    Linear::TooLong => {
                        unjudged += 1;
                        continue;
                    }
                    Linear::No => {}
                }
                let keys: Vec<u64> =
                    places.iter().map(|place| tag * self.tagged + *place as u64).collect();
                let end = linear::first_bad_prefix(&cells, &seen);
                let mut text = format!(
                    "keyspace {keyspace}, keys {keys:?}: no order of these explains the answers"
                );
                for seen in &seen[..end] {
                    text += &format!("\n    {seen}");
                }
                return Err(Violation::new("linearizable per key", text));
            }
        }
        Ok(unjudged)
    }
}

impl World {
    pub(super) fn may_ask(&self, at: usize) -> bool {
        let machine = self.seats[at].machine.as_ref();
        self.clients.asking
            && !self.calm
            && machine.is_some_and(|machine| machine.routes.contains_key(KEYSPACE))
            && self.clients.free_at.iter().any(|free_at| *free_at <= self.now_ms)
    }

    /// Some client asks a node something.
    pub(super) fn ask(&mut self, at: usize) {
        let free: Vec<usize> = (0..self.clients.free_at.len())
            .filter(|client| self.clients.free_at[*client] <= self.now_ms)
            .collect();
        let client = *self.rng.pick(&free);
        self.clients.free_at[client] = u64::MAX;
        if self.rng.one_in(self.mood.catalogue_in) {
            return self.ask_catalogue(client, at);
        }
        let route = self.some_route(at);
        if self.rng.one_in(self.mood.whole_in) {
            return self.ask_whole(client, at, route);
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
        let machine = self.seats[at].machine.as_ref().expect("it runs");
        let routes = || machine.routes.values().filter(|route| &*route.keyspace.name != WIDE);
        let count = routes().count() as u64;
        if count > 1 && self.rng.one_in(4) {
            let number = self.rng.below(count) as usize;
            return routes().nth(number).expect("below their number").clone();
        }
        machine.routes[KEYSPACE].clone()
    }

    /// The last read of a key.
    pub(super) fn read_last(&mut self, at: usize, route: Arc<Route>, key: u64) {
        self.begin_op(0, at, route, vec![key], Command::Get, 0);
    }

    /// Someone reads every key at a node, at once: before its lanes do anything.
    pub(super) fn look_at(&mut self, at: usize) {
        let machine = self.seats[at].machine.as_ref();
        let route = machine.and_then(|machine| machine.routes.get(KEYSPACE)).cloned();
        let Some(route) = route else { return };
        for key in 0..self.mood.keys {
            self.begin_op(0, at, route.clone(), vec![key], Command::Get, 0);
            let number = self.clients.made;
            if let Some(op) = self.clients.ops.get_mut(&number) {
                op.given_up = true;
            }
            self.read(at, number);
        }
    }

    pub(super) fn new_op(&mut self, client: usize, at: usize, what: What) -> (u64, Op) {
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
        self.tell_time(at);
        self.look_at_watched(at, &route, &keys, &mut command);
        let seat = &self.seats[at];
        let Some(machine) = &seat.machine else { return };
        let moment = command.is_read().then(|| machine.moment());
        let shard = route.shard(route.place(&route.key(&self.clients.names[keys[0] as usize])));
        let low_ms = match moment {
            Some(moment) => moment.time.millis(),
            None => self.agreement.last_ms(shard),
        };
        let (ready, place, in_parts) = (moment.is_some(), None, false);
        let what = OfKeys {
            route,
            shard,
            keys,
            command,
            stale_ms,
            low_ms,
            moment,
            ready,
            place,
            in_parts,
        };
        let (number, op) = self.new_op(client, at, What::Keys(what));
        let node = self.seats[at].node;
        let OfKeys { route, command, keys, .. } = op.of_keys().expect("it was just made");
        let keyspace = &route.keyspace.name;
        let names = self.clients.names_of(keys);
        self.trace.event(format_args!(
            "op {number} at node {node}: {command:?} of {keys:?} in {keyspace}"
        ));
        let tile = route.arc(route.place_of(shard).expect("it was just found"));
        let plant = self.options.plant;
        let level = self.seats[at].machine.as_ref().expect("it was asked").level;
        let flush = (*command == Command::Flush).then(|| Write::flush_of(tile, level));
        if let Some(mut write) = flush.or_else(|| command.write(&names)) {
            if let (Some(Plant::Unwatched), Write::Transaction(transaction)) = (plant, &mut write) {
                transaction.watched.clear();
            }
            let mut batch = Batch::default();
            batch.push(&write, Waiter(number));
            let machine = self.seats[at].machine.as_mut().expect("it was asked");
            machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
        }
        self.clients.ops.insert(number, op);
    }

    /// A transaction that watches keys looks at them, if that can be done at once; else it watches
    /// none.
    fn look_at_watched(&self, at: usize, route: &Route, keys: &[u64], command: &mut Command) {
        let Command::Transaction { watched: watched @ Some(_), .. } = command else { return };
        let Some(machine) = &self.seats[at].machine else { return };
        let now = machine.moment();
        let names = self.clients.names_of(keys);
        let had = names.iter().map(|name| {
            let seen = read::seen(route, name, now, Fetched::NONE)?;
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
        let (number, entry) = self.new_op(client, at, What::Catalogue);
        let node = self.seats[at].node;
        self.trace.event(format_args!("op {number} at node {node}: a change of the catalogue"));
        self.clients.ops.insert(number, entry);
        let machine = self.seats[at].machine.as_mut().expect("it was asked");
        let (origin, waiter) = (CLIENTS, Waiter(number));
        machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
    }

    /// Tries a read.
    pub(super) fn read(&mut self, at: usize, number: u64) {
        self.look_again(at, number);
        let Some(op) = self.clients.ops.get(&number).and_then(Op::of_keys) else { return };
        let names = self.clients.names_of(&op.keys);
        let (route, shard, plant) = (op.route.clone(), op.shard, self.options.plant);
        let mut now = op.moment.expect("a read");
        let machine = self.seats[at].machine.as_mut().expect("it runs");
        let elected = machine.shard(shard).is_some_and(|shard| shard.is_elected());
        if plant == Some(Plant::LeaseByRole) && elected {
            now.boot = 0;
        }
        if plant == Some(Plant::FreshLeaderReads)
            && elected
            && op.command == Command::Get
            && let Some(found) = machine.peek(shard, &names[0])
        {
            // Planted: nobody looks whether the term has begun.
            return self.done(number, vec![found], now.time.millis());
        }
        let stale_ms = op.stale_ms;
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let request = request_of(&self.clients.ops[&number], &names);
        if stale_ms > 0 {
            // Planted: what is old passes for a part of that.
            let less = if plant == Some(Plant::WrongAge) { 10 } else { 1 };
            let (age_max, mut sink) = (stale_ms * 1_000_000 * less, Collect::default());
            let old = read::read_stale(&route, &request, now, age_max, Fetched::NONE, &mut sink);
            if let Ok(age) = old
                && age > 0
            {
                return self.done_stale(number, sink.0, age / less);
            }
        }
        let mut sink = Collect::default();
        match read::read(&route, &request, now, &mut sink) {
            Ok(()) => {
                let view = machine.view(shard);
                let (judged_at, last) = view.map_or((now.time, now.time), |view| {
                    let state = view.read();
                    (state.serving.judged_at(now.time), state.last)
                });
                let op = self.clients.ops.get_mut(&number).and_then(Op::of_keys_mut);
                let op = op.expect("it is under way");
                op.low_ms = judged_at.millis();
                self.done(number, sink.0, last.millis());
            }
            Err(blocked) if route.must_fetch(blocked.place, machine.node()) => {
                let (want, bytes_max) = (Box::new(Want::keys(names)), usize::MAX);
                let (origin, waiter) = (CLIENTS, Waiter(number));
                machine.submit(shard, Input::Fetch { shard, want, bytes_max, origin, waiter });
                let op = self.clients.ops.get_mut(&number).and_then(Op::of_keys_mut);
                op.expect("it is under way").ready = false;
            }
            Err(blocked) => {
                let Blocked { at, lock, .. } = blocked;
                let (origin, waiter) = (CLIENTS, Waiter(number));
                let shard = route.shard(blocked.place);
                machine.submit(shard, Input::Await { shard, at, lock, origin, waiter });
                let op = self.clients.ops.get_mut(&number).and_then(Op::of_keys_mut);
                op.expect("it is under way").ready = false;
            }
        }
    }

    /// A replica may have come to the node since the read was asked for, or gone from it.
    fn look_again(&mut self, at: usize, number: u64) {
        let op = self.clients.ops.get_mut(&number).and_then(Op::of_keys_mut);
        let Some((op, machine)) = op.zip(self.seats[at].machine.as_ref()) else { return };
        let keyspace = &op.route.keyspace;
        let route = machine.routes.get(&*keyspace.name).filter(|r| r.keyspace.id == keyspace.id);
        if let Some(route) = route {
            op.route = route.clone();
            let name = &self.clients.names[op.keys[0] as usize];
            op.shard = route.shard(route.place_of_key(name));
        }
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

    /// A write that was sent to a shard which another has taken in, who knows what became of it.
    pub(super) fn is_inherited(&mut self, waiter: Waiter, shard: ShardId) {
        if let Some(op) = self.clients.ops.get_mut(&waiter.0).and_then(Op::of_keys_mut) {
            op.shard = shard;
            self.counts.inherited += 1;
        }
    }

    /// What was wanted for a read has come: it is answered from that.
    fn fetched(&mut self, number: u64, shard: ShardId, at: Timestamp, want: Want, found: Found) {
        let Some(op) = self.clients.ops.get(&number).and_then(Op::of_keys) else { return };
        let names = self.clients.names_of(&op.keys);
        let route = op.route.clone();
        let now = op.moment.expect("a read");
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let request = request_of(&self.clients.ops[&number], &names);
        let (mut fetched, mut sink) = (Fetched::default(), Collect::default());
        fetched.add(shard, at, want, found);
        let answered = read::read_with(&route, &request, now, &fetched, &mut sink);
        // A replica here that has caught up meanwhile may have answered.
        let (low, high) = {
            let state = route.views[route.place(&route.key(names[0]))].read();
            let here = state.serving.at(now.boot);
            let judged_at = state.serving.judged_at(now.time);
            if here { (at.min(judged_at), at.max(judged_at)) } else { (at, at) }
        };
        let op = self.clients.ops.get_mut(&number).and_then(Op::of_keys_mut);
        let op = op.expect("it is under way");
        if answered.is_err() {
            // Not all of it had come.
            op.ready = true;
            return;
        }
        self.counts.fetched += 1;
        // Its leader's clock judged it.
        op.low_ms = low.millis();
        let high_ms = high.millis().max(self.agreement.last_ms(shard));
        self.done(number, sink.0, high_ms);
    }

    /// An answer that may be old is right if a read could have seen it that had come so much
    /// earlier.
    fn done_stale(&mut self, number: u64, replies: Vec<Reply>, age: u64) {
        let Some(op) = self.clients.ops.get_mut(&number) else { return };
        // The node's clock may run 2 % fast or slow.
        let age_ms = age.div_ceil(1_000_000) * 103 / 100 + 1;
        let then = op.began_ms.saturating_sub(age_ms + 1) as usize;
        let events = self.clients.events_by.get(then).copied().unwrap_or(0);
        op.call = op.call.min(events);
        let high_ms = {
            let op = op.of_keys_mut().expect("a read");
            // It was judged at the time up to which the replica's past was closed.
            op.low_ms = 0;
            self.agreement.last_ms(op.shard).max(op.moment.expect("a read").time.millis())
        };
        self.counts.stale += 1;
        self.trace.event(format_args!("op {number} may be {age_ms} ms old"));
        self.done(number, replies, high_ms);
    }

    fn done(&mut self, number: u64, replies: Vec<Reply>, high_ms: u64) {
        let Some(op) = self.clients.ops.remove(&number) else { return };
        self.trace.event(format_args!("op {number}: {replies:?}"));
        self.counts.answered += 1;
        let joint = op.of_keys().is_some_and(|of_keys| of_keys.command.is_joint());
        self.counts.joint += u64::from(joint);
        self.rest(&op);
        if let Some(OfKeys { command: Command::Transaction { .. }, .. }) = op.of_keys() {
            self.counts.transactions += 1;
            if let [Reply::Changed(_)] = replies[..] {
                // A watched key may have changed and have the same value again: nothing was done,
                // and why is not for histories to tell.
                self.counts.broken += 1;
                return;
            }
        }
        self.clients.note(op, Some(replies), high_ms);
    }

    /// Its client has something else to do, sooner or later.
    pub(super) fn rest(&mut self, op: &Op) {
        if op.given_up {
            return;
        }
        self.clients.free_at[op.client] = self.now_ms + self.rng.between(0, self.mood.think_ms);
    }

    /// An answer has come from a node.
    pub(super) fn answered(&mut self, answer: Answer) {
        if Self::is_wide(&answer) {
            return self.answered_wide(answer);
        }
        match answer {
            Answer::Applied { spent, replies, .. } => {
                for (waiter, reply) in spent.waiters.iter().zip(replies) {
                    let high_ms = self.high_ms(waiter.0);
                    self.done(waiter.0, vec![reply], high_ms);
                }
            }
            Answer::NotDone { waiters, why: NotDone::Lags, .. } => {
                self.counts.lags += waiters.len() as u64;
                waiters.into_iter().for_each(|waiter| self.go_on(waiter));
            }
            Answer::NotDone { waiters, why, .. } => {
                for waiter in waiters {
                    self.not_done(waiter.0, why);
                }
            }
            Answer::Go { waiter, .. } => self.go_on(waiter),
            Answer::Fetched { waiter, at, want, found, shard, .. } => {
                match self.clients.whole_mut(waiter.0) {
                    Some(of_whole) => of_whole.go(Some((shard, *want, at, *found))),
                    None => self.fetched(waiter.0, shard, at, *want, *found),
                }
            }
            Answer::Counted { .. } => unreachable!("no client asks who has its writes"),
            Answer::Stepped { .. } => unreachable!("coordinators ask for steps"),
            Answer::Catalogue { waiter, result, .. } => {
                self.trace.event(format_args!("op {}: {result:?}", waiter.0));
                let Some(op) = self.clients.ops.remove(&waiter.0) else { return };
                self.counts.changes += u64::from(result.is_ok());
                self.rest(&op);
            }
        }
    }

    /// A read that waited may be tried again.
    fn go_on(&mut self, waiter: Waiter) {
        match self.clients.ops.get_mut(&waiter.0).map(|op| &mut op.what) {
            Some(What::Keys(of_keys)) => of_keys.ready = true,
            Some(What::Whole(of_whole)) => of_whole.go(None),
            Some(What::Catalogue) | None => {}
        }
    }

    fn not_done(&mut self, number: u64, why: NotDone) {
        let Some(op) = self.clients.ops.remove(&number) else { return };
        self.trace.event(format_args!("op {number}: {why:?}"));
        self.rest(&op);
        if matches!(why, NotDone::Unknown | NotDone::Dropped) && op.is_write() {
            self.counts.unknown += 1;
            // It may be applied later than this.
            match self.place_of(number, &op) {
                Some(place) => self.clients.lost.push((op, place)),
                None => self.clients.endless.push(op),
            }
        } else {
            self.counts.refused += 1;
            self.counts.full += u64::from(why == NotDone::DiskFull);
            if op.is_in_parts() {
                self.note_lost(op);
            }
        }
    }

    /// The latest that a write was judged, if it is applied by now.
    fn high_ms(&self, number: u64) -> u64 {
        let op = self.clients.ops.get(&number).and_then(Op::of_keys);
        op.map_or(0, |op| self.agreement.last_ms(op.shard))
    }

    /// Nodes that believe they lead the shard of a key of the keyspace that is always there.
    pub(super) fn leaders_of(&self, key: u64) -> Vec<usize> {
        let name = &self.clients.names[key as usize];
        let leads = |at: &usize| {
            let Some(machine) = &self.seats[*at].machine else { return false };
            let Some(route) = machine.routes.get(KEYSPACE) else { return false };
            let shard = route.shard(route.place(&route.key(name)));
            machine.shard(shard).is_some_and(|shard| shard.is_elected())
        };
        (0..self.seats.len()).filter(leads).collect()
    }
}

/// What an operation asks.
fn request_of<'n>(op: &Op, names: &[&'n [u8]]) -> Read<'n> {
    match (&op.of_keys().expect("a read").command, names) {
        (Command::Get, [key]) => Read::Get(key),
        (Command::GetMany, keys) => Read::GetMany(keys.to_vec()),
        (Command::Exists, keys) => Read::Exists(keys.to_vec()),
        (Command::ExpiryTime, [key]) => Read::Ttl { key, millis: true, absolute: true },
        (Command::Length, [key]) => Read::Length(key),
        other => unreachable!("{other:?} is no read"),
    }
}
