//! Commands over all keys of a keyspace, sent to any node: FLUSH, DBSIZE, KEYS, RANGE, RANDOMKEY
//! and SCAN.
//!
//! ```text
//!   KEYS at node 2     shard 1 is here   admit ──► Await, or each key of it
//!                      shard 2 is remote Fetch ──► its leader ──► its keys
//!   judged as          of every key: it was there, or was not, at some moment of the command
//! ```
//!
//! They promise no common moment for all keys, so each key is judged by itself, in the history of
//! its hash tag: what was shown as an EXISTS (or GET) that found it, what was not shown as one that
//! did not. DBSIZE of a shard whose keys are all of one tag is judged as one command on all of
//! them. FLUSH is a write of each shard. The pages of a SCAN are asked for at different nodes: what
//! no page has shown must have been absent at some moment since the first was asked for (G18).

mod look;
mod sights;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use command::Reply;
use keyspace::{KeyspaceId, Placement, ShardId, Timestamp};
use node::executor::Input;
use node::replica::entry::Waiter;
use node::replica::read::{Blocked, ReadTime};
use node::replica::scan::{self, ScanScope};
use node::routing::fetch::{FetchRequest, FetchResult};
use node::routing::route::Route;
use storage::engine::ScanCursor;

use look::Question;

use super::clients::ClientOp;
use super::{Plant, World};
use crate::check::Violation;
use crate::check::linear::ObservedCommand;
use crate::command::Command;
use crate::machine::{CLIENTS, Machine};

/// A question, and how far it has come.
pub(super) struct KeyspaceScan {
    route: Arc<Route>,
    ask: ScanQuery,
    moment: ReadTime,
    pub(super) ready: bool,
    /// Shards on other nodes whose answer is under way.
    fetching: BTreeSet<ShardId>,
    /// Their answers, each with its request, and the time of the answer.
    fetched: BTreeMap<ShardId, (FetchRequest, Timestamp, FetchResult)>,
}

#[derive(Clone, Debug)]
enum ScanQuery {
    Size,
    Keys,
    /// Of an ordered keyspace.
    Range {
        reverse: bool,
    },
    Random(u64),
    /// Of a hashed one.
    Scan(Scan),
}

/// A SCAN, with what the pages before have shown.
#[derive(Clone, Debug)]
struct Scan {
    cursor: u64,
    /// When the first page was requested.
    call: u64,
    low_ms: u64,
    high_ms: u64,
    shown: BTreeSet<u64>,
}

/// What the answer says of one key, or of all of a shard.
struct KeyObservation {
    keys: Vec<u64>,
    command: Command,
    reply: Reply,
    low_ms: u64,
    high_ms: u64,
}

/// What one shard has answered.
struct ShardAnswer {
    shard: ShardId,
    /// It was judged at a time between these.
    low_ms: u64,
    high_ms: u64,
    found: FetchResult,
}

impl KeyspaceScan {
    /// Goes on after a fetch was answered, a replica came here or lags, or a lock was released.
    pub(super) fn resume(
        &mut self,
        found: Option<(ShardId, FetchRequest, Timestamp, FetchResult)>,
    ) {
        match found {
            Some((shard, want, at, found)) => {
                self.fetched.insert(shard, (want, at, found));
                self.ready |= self.fetching.iter().all(|shard| self.fetched.contains_key(shard));
            }
            None => {
                self.fetching.clear();
                self.ready = true;
            }
        }
    }

    /// When it was first sent.
    pub(super) fn first_call(&self) -> Option<u64> {
        match &self.ask {
            ScanQuery::Scan(scan) => Some(scan.call),
            _ => None,
        }
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        format!("{:?} of {}", self.ask, self.route.keyspace.name)
    }

    /// The place of the only shard that it is about, if it is about one: where some are away, a
    /// page of a SCAN is.
    fn only(&self, away: &[bool]) -> Option<usize> {
        let ScanQuery::Scan(Scan { cursor, .. }) = &self.ask else { return None };
        let place = scan::place_of(&self.route, *cursor);
        away.contains(&true).then(|| place.expect("cursors come from scans"))
    }

    /// Whether all answers of shards that are away, with their places, have come; fetches those
    /// that have not.
    fn has_fetched(
        &mut self,
        far: &[(usize, ShardId)],
        count: u64,
        machine: &mut Machine,
        number: u64,
    ) -> bool {
        let mut has_all = true;
        for (place, shard) in far {
            // What was wanted of a shard that has other slots by now is no answer any more.
            let want = self.want(*place, count);
            if self.fetched.get(shard).is_some_and(|(wanted, ..)| *wanted == want) {
                continue;
            }
            has_all = false;
            self.fetched.remove(shard);
            if self.fetching.insert(*shard) {
                let (want, bytes_max) = (Box::new(want), usize::MAX);
                let (shard, origin, waiter) = (*shard, CLIENTS, Waiter(number));
                machine.submit(shard, Input::Fetch { shard, want, bytes_max, origin, waiter });
            }
        }
        has_all
    }

    /// What is wanted of a shard that is away.
    fn want(&self, place: usize, count: u64) -> FetchRequest {
        let (first, end) = self.route.slots(place);
        let placement = self.route.keyspace.options.placement;
        let numbers = |from: Option<u64>, keys_max| {
            let (first, end) = self.route.numbers(place);
            FetchRequest::Numbers { from: from.unwrap_or(first), end, keys_max }
        };
        let ends = || self.route.arc(place).ends();
        let everything = |reverse, with_values| {
            let arc = self.route.arc(place);
            let (low, high) = scan::within(arc, Bound::Unbounded, Bound::Unbounded);
            FetchRequest::Range { low, high, reverse, keys_max: u64::MAX, with_values }
        };
        match &self.ask {
            ScanQuery::Size => FetchRequest::Size { ends: ends() },
            ScanQuery::Random(random) => FetchRequest::Random { ends: ends(), number: *random },
            ScanQuery::Range { reverse } => everything(*reverse, true),
            ScanQuery::Keys if placement == Placement::Ordered => everything(false, false),
            ScanQuery::Keys if placement == Placement::LinearHash => numbers(None, u64::MAX),
            ScanQuery::Scan(scan) if placement == Placement::LinearHash => {
                numbers(Some(scan.cursor), count)
            }
            ScanQuery::Keys => {
                let cursor = scan::cursor_of(ScanCursor { slot: first, hash: 0 });
                FetchRequest::Scan { cursor, end, keys_max: u64::MAX }
            }
            ScanQuery::Scan(scan) => {
                FetchRequest::Scan { cursor: scan.cursor, end, keys_max: count }
            }
        }
    }
}

impl World {
    /// A client asks a node something about all keys.
    pub(super) fn start_scan(&mut self, client: usize, at: usize, route: Arc<Route>) {
        let ordered = route.keyspace.options.placement == Placement::Ordered;
        let ask = match self.rng.weighted(&[3, 2, 3, 2, 4]) {
            0 => return self.flush(client, at, &route),
            1 => ScanQuery::Size,
            2 => ScanQuery::Keys,
            3 => ScanQuery::Random(self.rng.bits()),
            _ if ordered => ScanQuery::Range { reverse: self.rng.one_in(2) },
            _ => {
                let call = self.clients.events() + 1;
                let (low_ms, high_ms, shown) = (u64::MAX, 0, BTreeSet::new());
                ScanQuery::Scan(Scan { cursor: 0, call, low_ms, high_ms, shown })
            }
        };
        self.begin_scan(client, at, route, ask);
    }

    /// One command for each shard, as nodes do it.
    fn flush(&mut self, client: usize, at: usize, route: &Arc<Route>) {
        for (_, keys) in self.keys_of_shards(route) {
            self.begin_op(client, at, route.clone(), keys, Command::Flush, 0);
        }
    }

    fn begin_scan(&mut self, client: usize, at: usize, route: Arc<Route>, ask: ScanQuery) {
        self.set_clocks(at);
        let seat = &self.node_slots[at];
        let Some(machine) = &seat.machine else { return };
        let (node, moment) = (seat.node, machine.moment());
        let (fetching, fetched) = (BTreeSet::new(), BTreeMap::new());
        let whole = KeyspaceScan { route, ask, moment, ready: true, fetching, fetched };
        let text = whole.describe();
        let (number, op) = self.new_op(client, at, ClientOp::Keyspace(whole));
        self.trace.event(format_args!("op {number} at node {node}: {text}"));
        self.clients.insert(number, op);
    }

    /// Tries to answer a keyspace scan.
    ///
    /// # Errors
    /// A violation that is certain without the search for an order.
    pub(super) fn try_scan(&mut self, at: usize, number: u64) -> Result<(), Violation> {
        let own_clock = self.has(Plant::OwnClock);
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let node = machine.node();
        let Some(of) = self.clients.scan_mut(number) else { return Ok(()) };
        // Replicas may have come to the node since, or gone from it.
        let keyspace = &of.route.keyspace;
        let same = machine.routes.get(&*keyspace.name).filter(|r| r.keyspace.id == keyspace.id);
        of.route = same.unwrap_or(&of.route).clone();
        let route = of.route.clone();
        let places = 0..route.views.len();
        let away: Vec<bool> = places.clone().map(|place| route.must_fetch(place, node)).collect();
        let only = of.only(&away);
        let wanted = |place: usize| only.is_none_or(|only| only == place);
        let near = |place: usize| wanted(place) && !away[place];
        of.ready = false;
        let asked = match scan::admit(&route, &near, of.moment) {
            Ok(asked) => asked,
            Err(Blocked { place, at, lock }) => {
                let (shard, origin, waiter) = (route.shard(place), CLIENTS, Waiter(number));
                machine.submit(shard, Input::AwaitRead { shard, at, lock, origin, waiter });
                return Ok(());
            }
        };
        let count = 1 + number % 3;
        let far = places.clone().filter(|place| wanted(*place) && away[*place]);
        let far: Vec<(usize, ShardId)> = far.map(|place| (place, route.shard(place))).collect();
        if !of.has_fetched(&far, count, machine, number) {
            return Ok(());
        }
        let (ask, moment) = (of.ask.clone(), of.moment);
        let mut answers = Vec::new();
        for (_, shard) in far {
            let (_, at, found) = of.fetched[&shard].clone();
            let high_ms = at.millis().max(self.agreement.last_ms(shard));
            answers.push(ShardAnswer { shard, low_ms: at.millis(), high_ms, found });
        }
        let near: Vec<usize> = places.filter(|place| near(*place)).collect();
        let question = Question {
            route: &route,
            ask: &ask,
            near: &near,
            // Planted: what has expired is judged by this node's clock, wherever others' stand.
            asked: &if own_clock {
                ScanScope::unchecked(&route, moment.time)
            } else {
                asked.clone()
            },
            moment,
            count: count as usize,
        };
        let found = question.look()?;
        if !scan::is_unchanged(&route, &asked) {
            return Err(Violation::new("steps are whole", "a shard was cut within a step"));
        }
        for (place, found) in near.into_iter().zip(found) {
            let low_ms = asked.time(place).expect("it was asked about").millis();
            let high_ms = low_ms.max(route.views[place].read().last.millis());
            answers.push(ShardAnswer { shard: route.shard(place), low_ms, high_ms, found });
        }
        let mut sights = Vec::new();
        for answer in &answers {
            self.see_shard(&route, &ask, answer, &mut sights)?;
        }
        let next = match &ask {
            ScanQuery::Scan(scan) => self.see_page(&route, scan, &answers, only, &mut sights),
            _ => None,
        };
        self.answer_scan(number, &route, sights, next);
        Ok(())
    }

    /// The client has its answer, and asks for the next page if there is one: at another node.
    fn answer_scan(
        &mut self,
        number: u64,
        route: &Route,
        sights: Vec<KeyObservation>,
        next: Option<Scan>,
    ) {
        let Some(op) = self.clients.remove(number) else { return };
        self.counts.whole += 1;
        self.counts.answered += 1;
        let keyspace = route.keyspace.id;
        let (client, first_call) = (op.client, op.first_call());
        for KeyObservation { keys, command, reply, low_ms, high_ms } in sights {
            self.trace.event(format_args!("op {number}: {keys:?} {reply:?}"));
            // What SCAN has not shown may have been absent since its first page.
            let call = if reply == Reply::Int(0) { first_call } else { op.call };
            let (places, replies) = (Vec::new(), Some(vec![reply]));
            let (client, back) = (client as u8, 0);
            let seen =
                ObservedCommand { command, places, client, call, back, low_ms, high_ms, replies };
            self.clients.saw(keyspace, &keys, seen);
        }
        let Some(scan) = next else { return self.rest(&op) };
        let knows = |at: &usize| {
            let machine = self.node_slots[*at].machine.as_ref();
            self.is_awake(*at) && machine.is_some_and(|m| route_of(m, keyspace).is_some())
        };
        let nodes: Vec<usize> = (0..self.node_slots.len()).filter(knows).collect();
        if nodes.is_empty() || op.given_up {
            return self.rest(&op);
        }
        let at = *self.rng.pick(&nodes);
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let route = route_of(machine, keyspace).expect("the entry was found above");
        self.begin_scan(client, at, route, ScanQuery::Scan(scan));
    }
}

fn route_of(machine: &Machine, keyspace: KeyspaceId) -> Option<Arc<Route>> {
    machine.routes.values().find(|route| route.keyspace.id == keyspace).cloned()
}

fn invented(text: String) -> Violation {
    Violation::new("nothing invented", text)
}
