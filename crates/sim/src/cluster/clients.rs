//! Clients of a cluster: each asks one thing after the other, of any node.
//!
//! Who is refused has had nothing done, and asks again somewhere. Who waits too long goes on to
//! something else, but still hears the answer. Who asked a node that is gone hears none: what he
//! asked was done if its entry is applied some day, and by then; or by the end of the node.
//! Values are never the same twice,
//! so that a history says which write a read saw.

use std::collections::BTreeMap;

use keyspace::ShardId;
use node::command::{Reply, SetIf, SetReply};
use node::entry::{Batch, Waiter};
use node::fetch::{Found, Want};
use node::lane::{Answer, Input, NotDone};
use node::read::{self, Now};

use super::options::Mood;
use super::{KEYSPACE, Plant, World};
use crate::check::Violation;
use crate::check::linear::{self, Linear, Seen};
use crate::command::{Command, Value};
use crate::machine::CLIENTS;

/// How long a client waits.
const PATIENCE_MS: u64 = 2_500;

/// What clients do and have seen.
pub struct Clients {
    /// Whether they begin anything new.
    pub asking: bool,
    ops: BTreeMap<u64, Op>,
    made: u64,
    events: u64,
    /// How many there were by the end of each millisecond.
    events_by: Vec<u64>,
    /// When each client asks again.
    free_at: Vec<u64>,
    names: Vec<Vec<u8>>,
    histories: Vec<Vec<Seen>>,
    /// Without an answer, and where they will be found if they are done.
    lost: Vec<(Op, ShardId, Place)>,
}

/// Where a write is found, once it is applied.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// As the entry of this index and term.
    Entry(u64, u64),
    /// In an entry that holds this batch: session and sequence.
    Batch(u64, u64),
}

struct Op {
    client: usize,
    at: usize,
    key: u64,
    command: Command,
    call: u64,
    began_ms: u64,
    /// Of a read: how old its answer may be, in ms.
    stale_ms: u64,
    gives_up_at: u64,
    /// Whether its client has gone on to something else.
    given_up: bool,
    /// Of a read: when it came, and whether it may be tried.
    moment: Option<Now>,
    ready: bool,
    /// Of a write: how it stands in the log, if it does, as far as is known.
    place: Option<Place>,
}

impl Clients {
    /// Before the first thing is asked.
    pub fn new(mood: &Mood) -> Self {
        Self {
            asking: true,
            ops: BTreeMap::new(),
            made: 0,
            events: 0,
            events_by: Vec::new(),
            free_at: vec![0; mood.clients as usize],
            names: (0..mood.keys).map(|key| format!("key-{key}").into_bytes()).collect(),
            histories: vec![Vec::new(); mood.keys as usize],
            lost: Vec::new(),
        }
    }

    /// Reads at a node that may be tried.
    pub fn ready(&self, at: usize) -> Vec<u64> {
        let ready = self.ops.iter().filter(|(_, op)| op.at == at && op.ready);
        ready.map(|(number, _)| *number).collect()
    }

    /// Whether nobody waits.
    pub fn is_idle(&self) -> bool {
        self.ops.is_empty()
    }

    fn note(&mut self, op: Op, replies: Option<Vec<Reply>>) {
        self.events += 1;
        let back = self.events;
        self.histories[op.key as usize].push(Seen {
            command: op.command,
            places: vec![0],
            client: op.client as u8,
            call: op.call,
            back,
            low_ms: 0,
            high_ms: u64::MAX,
            replies,
        });
    }

    /// Searches every history for a linear order; how many were too long to judge.
    ///
    /// # Errors
    /// The first history without one.
    pub fn search(&mut self) -> Result<u64, Violation> {
        let mut unjudged = 0;
        for (key, history) in self.histories.iter_mut().enumerate() {
            history.sort_by_key(|seen| seen.call);
            let verdict = linear::is_linear(&[None], history);
            match verdict {
                Linear::Yes => continue,
                // One command was under way while very many others came and went.
                Linear::TooLong => {
                    unjudged += 1;
                    continue;
                }
                Linear::No => {}
            }
            let end = linear::first_bad_prefix(&[None], history);
            let mut text = format!("key {key}: no order of these explains the answers");
            for seen in &history[..end] {
                text += &format!("\n    {seen}");
            }
            return Err(Violation::new("linearizable per key", text));
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
        let key = self.rng.below(self.mood.keys);
        let value = |number: u64| Value(number.to_string().into_bytes());
        let command = match self.rng.below(10) {
            0..=2 => Command::Set {
                value: value(self.clients.made * 1_000_003),
                when: SetIf::Always,
                expiry: node::command::Expiry::Never,
                reply: SetReply::Ok,
            },
            3 => Command::Delete,
            4 | 5 => Command::Increment(1),
            _ => Command::Get,
        };
        self.clients.free_at[client] = u64::MAX;
        // Mostly one of those who believe that they lead: there may be several.
        let mut leaders = self.leaders_of(key);
        leaders.retain(|at| self.is_awake(*at));
        let to_leader = !leaders.is_empty() && !self.rng.one_in(4);
        let at = if to_leader { *self.rng.pick(&leaders) } else { at };
        let stale_ms = match command.is_read() && self.rng.one_in(4) {
            true => self.rng.between(1, 1_500),
            false => 0,
        };
        self.begin_op(client, at, key, command, stale_ms);
    }

    /// The last read of a key.
    pub(super) fn read_last(&mut self, at: usize, key: u64) {
        self.begin_op(0, at, key, Command::Get, 0);
    }

    /// Someone reads every key at a node, at once: before its lanes do anything.
    pub(super) fn look_at(&mut self, at: usize) {
        let machine = self.seats[at].machine.as_ref();
        if !machine.is_some_and(|machine| machine.routes.contains_key(KEYSPACE)) {
            return;
        }
        for key in 0..self.mood.keys {
            self.begin_op(0, at, key, Command::Get, 0);
            let number = self.clients.made;
            if let Some(op) = self.clients.ops.get_mut(&number) {
                op.given_up = true;
            }
            self.read(at, number);
        }
    }

    fn begin_op(&mut self, client: usize, at: usize, key: u64, command: Command, stale_ms: u64) {
        self.clients.made += 1;
        self.clients.events += 1;
        let (number, call) = (self.clients.made, self.clients.events);
        let gives_up_at = self.now_ms + PATIENCE_MS;
        self.tell_time(at);
        let seat = &self.seats[at];
        let Some(machine) = &seat.machine else { return };
        self.trace.event(format_args!("op {number} at node {}: {command:?} of {key}", seat.node));
        let is_read = command.is_read();
        let moment = is_read.then(|| machine.moment());
        let (given_up, ready) = (false, is_read);
        let place = None;
        let began_ms = self.now_ms;
        let op = Op {
            client,
            at,
            key,
            command,
            call,
            began_ms,
            stale_ms,
            gives_up_at,
            given_up,
            moment,
            ready,
            place,
        };
        if !is_read {
            self.propose(number, &op);
        }
        self.clients.ops.insert(number, op);
    }

    fn propose(&mut self, number: u64, op: &Op) {
        let machine = self.seats[op.at].machine.as_mut().expect("it was asked");
        let route = machine.routes[KEYSPACE].clone();
        let names = [self.clients.names[op.key as usize].clone()];
        let mut batch = Batch::default();
        batch.push(&op.command.write(&names).expect("a write"), Waiter(number));
        let shard = route.shard(route.place(&route.key(&names[0])));
        machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
    }

    /// Tries a read.
    pub(super) fn read(&mut self, at: usize, number: u64) {
        let Some(op) = self.clients.ops.get_mut(&number) else { return };
        let machine = self.seats[at].machine.as_mut().expect("it runs");
        let route = machine.routes[KEYSPACE].clone();
        let name = self.clients.names[op.key as usize].clone();
        let mut now = op.moment.expect("a read");
        let shard = route.shard(route.place(&route.key(&name)));
        let elected = machine.shard(shard).is_some_and(|shard| shard.is_elected());
        if self.options.plant == Some(Plant::LeaseByRole) && elected {
            now.boot = 0;
        }
        if self.options.plant == Some(Plant::FreshLeaderReads) && elected {
            // Planted: nobody looks whether the term has begun.
            let found = machine.peek(shard, &name);
            return self.done(number, vec![found]);
        }
        if op.stale_ms > 0 {
            let age_max = op.stale_ms * 1_000_000;
            let old = read::value_stale(&route, &name, now, age_max, |version| match version {
                Some(version) => Reply::Bulk(version.value.into()),
                None => Reply::Nil,
            });
            if let Ok((found, age)) = old {
                return self.done_stale(number, found, age);
            }
        }
        let mut found = Reply::Nil;
        let answered = read::value(&route, &name, now, |version| {
            if let Some(version) = version {
                found = Reply::Bulk(version.value.into());
            }
        });
        match answered {
            Ok(()) => self.done(number, vec![found]),
            Err(_) if route.is_away(route.place(&route.key(&name)), machine.node()) => {
                op.ready = false;
                let (want, bytes_max) = (Box::new(Want::keys([&name[..]])), usize::MAX);
                let (origin, waiter) = (CLIENTS, Waiter(number));
                machine.submit(shard, Input::Fetch { shard, want, bytes_max, origin, waiter });
            }
            Err(blocked) => {
                op.ready = false;
                let (at, origin, waiter) = (blocked.at, CLIENTS, Waiter(number));
                machine.submit(shard, Input::Await { shard, at, origin, waiter });
            }
        }
    }

    /// An answer that may be old is right if a read could have seen it that had come so much
    /// earlier.
    fn done_stale(&mut self, number: u64, found: Reply, age: u64) {
        let Some(op) = self.clients.ops.get_mut(&number) else { return };
        // The node's clock may run 2 % fast or slow.
        let age_ms = age.div_ceil(1_000_000) * 103 / 100 + 1;
        if age > 0 {
            let then = op.began_ms.saturating_sub(age_ms + 1) as usize;
            let events = self.clients.events_by.get(then).copied().unwrap_or(0);
            op.call = op.call.min(events);
            self.counts.stale += 1;
        }
        self.trace.event(format_args!("op {number} may be {age_ms} ms old"));
        self.done(number, vec![found]);
    }

    fn done(&mut self, number: u64, replies: Vec<Reply>) {
        let Some(op) = self.clients.ops.remove(&number) else { return };
        self.trace.event(format_args!("op {number}: {replies:?}"));
        self.counts.answered += 1;
        self.rest(&op);
        self.clients.note(op, Some(replies));
    }

    /// Its client has something else to do, sooner or later.
    fn rest(&mut self, op: &Op) {
        if op.given_up {
            return;
        }
        self.clients.free_at[op.client] = self.now_ms + self.rng.between(0, self.mood.think_ms);
    }

    /// An answer has come from a node.
    pub(super) fn answered(&mut self, _: usize, answer: Answer) {
        match answer {
            Answer::Applied { spent, replies, .. } => {
                for (waiter, reply) in spent.waiters.iter().zip(replies) {
                    self.done(waiter.0, vec![reply]);
                }
            }
            Answer::NotDone { waiters, why, .. } => {
                for waiter in waiters {
                    let Some(op) = self.clients.ops.remove(&waiter.0) else { continue };
                    self.trace.event(format_args!("op {}: {why:?}", waiter.0));
                    self.rest(&op);
                    if why == NotDone::Unknown && op.moment.is_none() {
                        self.counts.unknown += 1;
                        // It may be applied later than this.
                        match self.place_of(waiter.0, &op) {
                            Some(place) => {
                                let shard = self.shard_of(op.at, op.key);
                                self.clients.lost.push((op, shard, place));
                            }
                            None => self.clients.note(op, None),
                        }
                    } else {
                        self.counts.refused += 1;
                    }
                }
            }
            Answer::Go { waiter, .. } => {
                if let Some(op) = self.clients.ops.get_mut(&waiter.0) {
                    op.ready = true;
                }
            }
            Answer::Fetched { waiter, found, .. } => {
                let Found::Versions(versions) = *found else { return };
                self.counts.fetched += 1;
                let found = versions.into_iter().next().flatten();
                self.done(waiter.0, vec![found.map_or(Reply::Nil, |held| Reply::Bulk(held.value))]);
            }
            Answer::Catalogue { .. } => {}
        }
    }

    /// Clients who have waited too long go on to something else; and what became of those whose
    /// node is gone may be known by now.
    pub(super) fn expire_ops(&mut self) {
        let now_ms = self.now_ms;
        self.clients.events_by.resize(now_ms as usize + 1, self.clients.events);
        let late = |op: &Op| op.gives_up_at <= now_ms && !op.given_up;
        let ops = self.clients.ops.iter().filter(|(_, op)| late(op));
        let numbers: Vec<u64> = ops.map(|(number, _)| *number).collect();
        for number in numbers {
            self.trace.event(format_args!("op {number}: no answer yet"));
            let mut op = self.clients.ops.remove(&number).expect("it was just found");
            self.rest(&op);
            // Nobody needs to know what a read would have said.
            if op.moment.is_none() {
                op.given_up = true;
                self.clients.ops.insert(number, op);
            }
        }
        for (op, shard, place) in std::mem::take(&mut self.clients.lost) {
            match place {
                Place::Batch(session, sequence) => {
                    match self.agreement.has_batch(shard, (session, sequence)) {
                        true => self.clients.note(op, None),
                        false => self.clients.lost.push((op, shard, place)),
                    }
                }
                Place::Entry(index, term) => match self.agreement.term_at(shard, index) {
                    None => self.clients.lost.push((op, shard, place)),
                    Some(found) if found == term => self.clients.note(op, None),
                    Some(_) => {}
                },
            }
        }
        self.follow_writes();
    }

    /// Remembers where the writes that are under way stand.
    fn follow_writes(&mut self) {
        let waiting = self.clients.ops.iter().filter(|(_, op)| op.moment.is_none());
        let places: Vec<(u64, Option<Place>)> =
            waiting.map(|(number, op)| (*number, self.place_of(*number, op))).collect();
        for (number, place) in places {
            self.clients.ops.get_mut(&number).expect("it was just found").place = place;
        }
    }

    /// How a write stands in the log, if it does. A batch stays the same, wherever it is proposed.
    fn place_of(&self, number: u64, op: &Op) -> Option<Place> {
        let Some(machine) = &self.seats[op.at].machine else { return op.place };
        let id = self.shard_of(op.at, op.key);
        let Some(shard) = machine.shard(id) else {
            let batch = machine.batch_of(id, Waiter(number)).map(|(a, b)| Place::Batch(a, b));
            return batch.or(op.place);
        };
        let batch = shard.batch_of(Waiter(number)).map(|(a, b)| Place::Batch(a, b));
        let entry = || shard.place_of(Waiter(number)).map(|(a, b)| Place::Entry(a, b));
        match op.place {
            Some(Place::Batch(..)) => batch.or(op.place),
            _ => batch.or_else(entry).or(op.place),
        }
    }

    fn shard_of(&self, at: usize, key: u64) -> ShardId {
        let machine = self.seats[at].machine.as_ref().expect("it was asked");
        let route = &machine.routes[KEYSPACE];
        route.shard(route.place(&route.key(&self.clients.names[key as usize])))
    }

    /// Nobody at this node will be answered any more.
    pub(super) fn lose_ops(&mut self, at: usize) {
        let lost = self.clients.ops.iter().filter(|(_, op)| op.at == at);
        let lost: Vec<(u64, Option<Place>)> =
            lost.map(|(number, op)| (*number, self.place_of(*number, op))).collect();
        let Some(machine) = self.seats[at].machine.take() else { return };
        for (number, place) in lost {
            let op = self.clients.ops.remove(&number).expect("it was just found");
            self.rest(&op);
            let route = &machine.routes[KEYSPACE];
            let name = &self.clients.names[op.key as usize];
            let id = route.shard(route.place(&route.key(name)));
            self.trace.event(format_args!("op {number} is lost at {place:?}"));
            self.counts.unknown += u64::from(place.is_some());
            match place {
                Some(place) => self.clients.lost.push((op, id, place)),
                // Not proposed, and never will be; or applied, and its answer was on its way.
                None if op.moment.is_none() => self.clients.note(op, None),
                None => {}
            }
        }
    }

    /// Nodes that believe they lead a key's shard.
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
