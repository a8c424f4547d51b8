//! Clients that read a past time: they take snapshots of the lists that transactions append to
//! ([`super::multi_shard`]), and read them twice (SAFETY G14, G21, G23).
//!
//! ```text
//!   each shard's newest time ─► lease ─► each shard passes it ─► read all lists
//!     ─► pause, another node ─► read them again
//! ```
//!
//! A replica at hand answers, if it may; else the leader does.
//!
//! The judge knows what each transaction appended, and what was acknowledged before a snapshot.
//! 1. Both reads of a snapshot show the same.
//! 2. A snapshot shows all that a transaction appended, or nothing of it.
//! 3. It shows all that was acknowledged before it was asked for.
//! 4. Of two snapshots the later shows all that the earlier shows.
//! 5. It shows nothing of what was begun after all shards had passed it.
//! 6. While a lease lives, nothing that it holds is too old to be read.
//!
//! These clients have dice of their own. They are there in half of the runs with transactions, and
//! wherever a bug is planted that only they find.

use std::collections::{BTreeMap, BTreeSet};

use command::NotDone;
use keyspace::random::{Random, mix};
use keyspace::{CatalogueOp, Feature, LeaseKind, LeaseOp, ShardId, Subject, Timestamp};
use node::executor::{Answer, Input, Origin};
use node::replica::entry::Waiter;
use node::replica::state::Content;
use node::routing::fetch::{Ends, FetchRequest, FetchResult, HeldVersion, PastValue, past_here};
use node::routing::route::View;
use storage::engine::ReadResult;

use super::multi_shard::{SNAPSHOT_KEYS, WIDE, list_of};
use super::{Options, Plant, World};
use crate::check::Violation;
use crate::check::serial::{ObservedTxn, Op, Outcome};
use crate::rng::Rng;

/// The origin of their requests.
pub const TRAVELLERS: Origin = Origin(10);
const CLIENTS: usize = 4;
/// More than there are clients.
const NUMBERS: u64 = 1 << 10;
/// A client whose step takes longer begins anew.
const PATIENCE_MS: u64 = 2_500;
/// Before a snapshot is read first: others write meanwhile.
const PAUSE_MS: u64 = 300;
/// Leases last so long: not until a healed cluster is to come to rest.
const LEASE_MS: u64 = 4_000;
const SYSTEM: ShardId = ShardId(0);

/// Whether there are such clients in a run.
pub(super) fn has(options: &Options) -> bool {
    let drawn = Random::new(mix(options.seed ^ 0x736e_6170)).below(2) == 0;
    match options.plant {
        Some(plant) => plant.is_of_snapshots(),
        None => drawn,
    }
}

/// The lists of a snapshot, by key.
type Lists = BTreeMap<Vec<u8>, Vec<u64>>;

/// All of them.
pub(super) struct Travellers {
    rng: Rng,
    clients: Vec<Traveller>,
    asked: u64,
    seen: Vec<SeenSnapshot>,
    /// The latest that any node's clock has shown.
    clock_max_ms: u64,
    /// When each node that runs had started.
    started_at: Vec<u64>,
    broken: Option<Violation>,
}

/// What both reads of a snapshot have shown.
struct SeenSnapshot {
    at: Timestamp,
    /// So many of the observed transactions had ended before it was asked for.
    ended: usize,
    /// What was begun later is above it.
    passed_at: u64,
    lists: Lists,
}

struct Traveller {
    at: usize,
    number: u64,
    ready: bool,
    until_ms: u64,
    next_at_ms: u64,
    phase: Phase,
    time: Timestamp,
    ended: usize,
    passed_at: u64,
    lease: Option<(u64, u64)>,
    first: Option<Lists>,
    lists: Lists,
}

enum Phase {
    Resting,
    /// Asks leaders for their newest times; these parts have answered.
    Times(Vec<Ends>, Option<Ends>),
    Opening,
    /// Has leaders pass the time; these parts have answered.
    Passing(Vec<Ends>, Option<Ends>),
    /// Reads the keys of a shard that was asked.
    Reading(Vec<Box<[u8]>>),
    /// Planted: reads without a look at locks.
    Peeking(ShardId, Vec<Box<[u8]>>),
}

impl Travellers {
    pub fn new(options: &Options) -> Self {
        let client = |at| Traveller {
            at,
            number: 0,
            ready: true,
            until_ms: 0,
            next_at_ms: 0,
            phase: Phase::Resting,
            time: Timestamp::ZERO,
            ended: 0,
            passed_at: 0,
            lease: None,
            first: None,
            lists: Lists::new(),
        };
        Self {
            rng: Rng::new(mix(options.seed ^ 0x7472_6176)),
            clients: (0..CLIENTS).map(|number| client(number % options.nodes)).collect(),
            asked: 0,
            seen: Vec::new(),
            clock_max_ms: 0,
            started_at: vec![0; options.nodes],
            broken: None,
        }
    }

    /// Breaks a rule if what was seen does not fit together.
    fn judge(&self, history: &[ObservedTxn]) -> Result<(), Violation> {
        let broken = |text: String| Err(Violation::new("snapshots are whole (G14, G23)", text));
        for seen in &self.seen {
            for (number, txn) in history.iter().enumerate() {
                let mut shown = BTreeMap::new();
                for op in &txn.ops {
                    let Op::Append { key, element } = op else { continue };
                    if let Some(list) = seen.lists.get(key) {
                        shown.insert(element, list.contains(element));
                    }
                }
                let count = shown.values().filter(|shown| **shown).count();
                if count > 0 && count < shown.len() {
                    return broken(format!(
                        "the snapshot at {:?} shows a part of {:?}: {shown:?}",
                        seen.at, txn.ops
                    ));
                }
                let is_acknowledged =
                    number < seen.ended && matches!(txn.outcome, Outcome::Committed { .. });
                if is_acknowledged && count < shown.len() {
                    return broken(format!(
                        "the snapshot at {:?} lacks {:?}, which was acknowledged before",
                        seen.at, txn.ops
                    ));
                }
                if count > 0 && txn.invoked_at > seen.passed_at {
                    return broken(format!(
                        "the snapshot at {:?} shows {:?}, which was begun after it",
                        seen.at, txn.ops
                    ));
                }
                if count > 0 && txn.outcome == Outcome::NotDone {
                    return broken(format!("the snapshot at {:?} shows {:?}", seen.at, txn.ops));
                }
            }
        }
        let mut ordered: Vec<&SeenSnapshot> = self.seen.iter().collect();
        ordered.sort_by_key(|seen| seen.at);
        for pair in ordered.windows(2) {
            for (key, list) in &pair[0].lists {
                if pair[1].lists.get(key).is_some_and(|later| !later.starts_with(list)) {
                    return broken(format!(
                        "{} at {:?} is {list:?}, and at {:?} {:?}",
                        key.escape_ascii(),
                        pair[0].at,
                        pair[1].at,
                        pair[1].lists[key]
                    ));
                }
            }
        }
        Ok(())
    }
}

impl World {
    /// What these clients have seen is judged.
    ///
    /// # Errors
    /// A rule is broken.
    pub(super) fn judge_snapshots(&mut self) -> Result<(), Violation> {
        let Some(travellers) = &self.travellers else { return Ok(()) };
        self.counts.travels = travellers.seen.len() as u64;
        travellers.judge(self.list_history())
    }

    /// The clients at a node do what they can; called once a millisecond while it runs.
    pub(super) fn run_travellers(&mut self, at: usize) -> Result<(), Violation> {
        let Some(mut all) = self.travellers.take() else { return Ok(()) };
        self.forget_leases(&mut all, at);
        for number in 0..all.clients.len() {
            let client = &all.clients[number];
            if client.at == at && (client.ready || self.now_ms >= client.until_ms) {
                self.travel(&mut all, number);
            }
        }
        let broken = all.broken.take();
        self.travellers = Some(all);
        broken.map_or(Ok(()), Err)
    }

    /// Planted: a node that starts again knows of no lease.
    fn forget_leases(&mut self, all: &mut Travellers, at: usize) {
        let (seat, plants) = (&self.node_slots[at], self.has(Plant::ForgottenLease));
        let Some(machine) = &seat.machine else { return };
        all.clock_max_ms = all.clock_max_ms.max(machine.now().millis());
        if all.started_at[at] == seat.started_at {
            return;
        }
        all.started_at[at] = seat.started_at;
        if plants
            && let Some(view) = machine.view(SYSTEM)
            && let Content::System(system) = &mut view.write().content
        {
            system.leases.clear();
        }
    }

    fn travel(&mut self, all: &mut Travellers, number: usize) {
        let Travellers { rng, clients, asked, .. } = all;
        let client = &mut clients[number];
        if self.now_ms >= client.until_ms && !matches!(client.phase, Phase::Resting) {
            // It begins anew, at any node.
            client.rest(self.now_ms + rng.between(1, 200));
            client.at = rng.below(self.node_slots.len() as u64) as usize;
            return;
        }
        let Some(machine) = &mut self.node_slots[client.at].machine else { return };
        let Some(route) = machine.routes.get(WIDE).cloned() else { return };
        if self.now_ms < client.next_at_ms || !machine.cluster_version.allows(Feature::Snapshots) {
            return;
        }
        let ended = self.wide.as_ref().map_or(0, |wide| wide.list_history().len());
        let names = self.wide.as_ref().map(|wide| &wide.names[..SNAPSHOT_KEYS]).unwrap_or_default();
        if matches!(client.phase, Phase::Resting) {
            if self.calm || !self.clients.asking {
                return;
            }
            client.phase = Phase::Times(Vec::new(), None);
            (client.time, client.ended) = (Timestamp::ZERO, ended);
            (client.first, client.lease) = (None, None);
            client.until_ms = self.now_ms + PATIENCE_MS;
        }
        *asked += 1;
        client.number = *asked * NUMBERS + number as u64;
        let (origin, waiter, bytes_max) = (TRAVELLERS, Waiter(client.number), usize::MAX);
        let fetch = |shard, want| {
            let want = Box::new(want);
            (shard, Input::Fetch { shard, want, bytes_max, origin, waiter })
        };
        let (shard, input) = match &mut client.phase {
            Phase::Resting => unreachable!("it has just begun"),
            Phase::Times(covered, asked) => {
                let ends = |place: usize| route.arc(place).ends();
                let places = 0..route.shards().len();
                match places.into_iter().find(|place| !covered.contains(&ends(*place))) {
                    Some(place) => {
                        let ends = ends(place);
                        *asked = Some(ends.clone());
                        fetch(route.shard(place), FetchRequest::Newest { ends })
                    }
                    None => {
                        client.phase = Phase::Opening;
                        let (request, at) = (client.number, client.time);
                        let keyspaces = vec![route.keyspace.id];
                        let (kind, ttl_ms) = (LeaseKind::Pin, LEASE_MS);
                        let open = LeaseOp::Open { request, kind, keyspaces, at, ttl_ms };
                        let mut op = Vec::new();
                        CatalogueOp::Lease(open).encode(&mut op);
                        (SYSTEM, Input::Catalogue { op, origin, waiter })
                    }
                }
            }
            // It was not heard: the same once more.
            Phase::Opening => return,
            Phase::Passing(covered, asked) => {
                let ends = |place: usize| route.arc(place).ends();
                let places = 0..route.shards().len();
                match places.into_iter().find(|place| !covered.contains(&ends(*place))) {
                    Some(place) => {
                        let (ends, at) = (ends(place), client.time);
                        *asked = Some(ends.clone());
                        let want = Box::new(FetchRequest::Newest { ends });
                        fetch(route.shard(place), FetchRequest::Past { at, want })
                    }
                    None => {
                        client.passed_at = self.clients.next_event();
                        client.begin_reading(self.now_ms);
                        client.next_at_ms = self.now_ms + rng.below(PAUSE_MS);
                        return;
                    }
                }
            }
            Phase::Reading(_) | Phase::Peeking(..) => {
                let Some(next) = names.iter().find(|name| !client.lists.contains_key(*name)) else {
                    return;
                };
                let place = route.place_of_key(next);
                let shard = route.shard(place);
                let missing = names.iter().filter(|name| !client.lists.contains_key(*name));
                let keys = missing.filter(|name| route.place_of_key(name) == place);
                let want = FetchRequest::keys(keys.map(Vec::as_slice));
                let FetchRequest::Keys { keys, .. } = &want else {
                    unreachable!("it asks for keys")
                };
                let keys = keys.clone();
                let at = client.time;
                let is_here = !route.must_fetch(place, machine.node());
                let follows = is_here
                    && machine.view(shard).is_some_and(|view| {
                        let leader = view.read().serving.leader();
                        leader.is_some_and(|leader| leader != machine.node())
                    });
                let found = match self.options.plant {
                    Some(Plant::UnwaitedSnapshot) => None,
                    Some(Plant::UnclosedSnapshot) if follows => {
                        machine.view(shard).and_then(|view| unclosed(&view, &keys, at))
                    }
                    _ => past_here(&route, place, at, &want),
                };
                if let Some(found) = found {
                    client.phase = Phase::Reading(keys);
                    self.counts.followers_read += u64::from(follows);
                    let (want, found) = (Box::new(want), Box::new(found));
                    let answer = Answer::Fetched { origin, waiter, shard, at, want, found };
                    return self.travelled(all, number, &answer);
                }
                if follows && asked.is_multiple_of(2) {
                    // Its leader closes the past up to there, and it answers then.
                    client.phase = Phase::Reading(keys);
                    (shard, Input::AwaitRead { shard, at, lock: None, origin, waiter })
                } else if self.options.plant == Some(Plant::UnwaitedSnapshot) && is_here {
                    client.phase = Phase::Peeking(shard, keys);
                    (shard, Input::AwaitRead { shard, at, lock: None, origin, waiter })
                } else {
                    client.phase = Phase::Reading(keys);
                    fetch(shard, FetchRequest::Past { at, want: Box::new(want) })
                }
            }
        };
        client.ready = false;
        machine.submit(shard, input);
    }

    /// An answer for one of these clients.
    pub(super) fn traveller_answered(&mut self, answer: &Answer) {
        let Some(mut all) = self.travellers.take() else { return };
        for waiter in answer.waiters() {
            let number = (waiter.0 % NUMBERS) as usize;
            if all.clients.get(number).is_some_and(|client| client.number == waiter.0) {
                self.travelled(&mut all, number, answer);
            }
        }
        self.travellers = Some(all);
    }

    fn travelled(&mut self, all: &mut Travellers, number: usize, answer: &Answer) {
        let clock_max_ms = all.clock_max_ms;
        let client = &mut all.clients[number];
        client.ready = true;
        match (&mut client.phase, answer) {
            (Phase::Times(covered, asked), Answer::Fetched { found, .. }) => {
                if let (FetchResult::Newest(at), Some(ends)) = (&**found, asked.take()) {
                    client.time = client.time.max(*at);
                    covered.push(ends);
                }
            }
            (Phase::Opening, Answer::Catalogue { result: Ok(subject), .. }) => {
                if let Subject::Lease(lease) = &**subject {
                    client.lease = Some((lease.id, lease.end_ms));
                    self.counts.leases += 1;
                }
                client.phase = Phase::Passing(Vec::new(), None);
                if matches!(
                    self.options.plant,
                    Some(Plant::UnwaitedSnapshot | Plant::UnclosedSnapshot)
                ) {
                    // Passing waits for them.
                    client.passed_at = u64::MAX;
                    client.begin_reading(self.now_ms);
                }
            }
            (Phase::Passing(covered, asked), Answer::Fetched { found, .. }) => {
                if let (FetchResult::Newest(_), Some(ends)) = (&**found, asked.take()) {
                    covered.push(ends);
                }
            }
            (Phase::Reading(keys), Answer::Fetched { found, .. }) => match &**found {
                FetchResult::Past(values) => {
                    for (key, value) in keys.iter().zip(values) {
                        let list = match value {
                            PastValue::Value(held) => list_of(&held.value),
                            _ => Vec::new(),
                        };
                        client.lists.insert(key.to_vec(), list);
                    }
                }
                FetchResult::BelowSafePoint(safe_point) => {
                    let lives = client.lease.is_some_and(|(_, end_ms)| clock_max_ms < end_ms);
                    if lives {
                        let text = format!(
                            "lease {:?} holds {:?}, and the safe point is {safe_point:?}",
                            client.lease, client.time
                        );
                        all.broken = Some(Violation::new("leases hold (G14, G21)", text));
                        return;
                    }
                    client.rest(self.now_ms + 1);
                    return;
                }
                _ => {}
            },
            (Phase::Peeking(shard, keys), Answer::Retry { .. }) => {
                let machine = self.node_slots[client.at].machine.as_ref();
                let view = machine.and_then(|machine| machine.view(*shard));
                let Some(view) = view else { return };
                let state = view.read();
                let Some(engine) = state.engine() else { return };
                for key in keys.iter() {
                    let hashed = engine.hasher().key(key);
                    if state.owns(&hashed) && engine.is_readable(client.time) {
                        let list = match engine.at(&hashed, client.time) {
                            ReadResult::Value(version) => list_of(version.value),
                            _ => Vec::new(),
                        };
                        client.lists.insert(key.to_vec(), list);
                    }
                }
            }
            (_, Answer::Retry { .. } | Answer::NotDone { why: NotDone::ReplicaLagging, .. }) => {}
            _ => {
                client.rest(self.now_ms + 1);
                return;
            }
        }
        if client.lists.len() < SNAPSHOT_KEYS {
            return;
        }
        let lists = std::mem::take(&mut client.lists);
        match client.first.take() {
            None => {
                client.first = Some(lists);
                client.begin_reading(self.now_ms);
                client.next_at_ms = self.now_ms + all.rng.between(1, 900);
                client.at = all.rng.below(self.node_slots.len() as u64) as usize;
            }
            Some(first) if first == lists => {
                let Traveller { time: at, ended, passed_at, .. } = *client;
                all.seen.push(SeenSnapshot { at, ended, passed_at, lists });
                self.release_lease(client, all.asked);
                client.rest(self.now_ms + all.rng.between(1, 300));
            }
            Some(first) => {
                let differs = |(key, list): &(&Vec<u8>, &Vec<u64>)| first.get(*key) != Some(*list);
                let keys: BTreeSet<_> = lists.iter().filter(differs).collect();
                let text = format!("at {:?}, first {first:?}, later {keys:?}", client.time);
                all.broken = Some(Violation::new("a snapshot stays as it is (G2, G14)", text));
            }
        }
    }

    fn release_lease(&mut self, client: &mut Traveller, asked: u64) {
        let Some((id, _)) = client.lease.take() else { return };
        let Some(machine) = &mut self.node_slots[client.at].machine else { return };
        if !asked.is_multiple_of(3) {
            return;
        }
        let mut op = Vec::new();
        CatalogueOp::Lease(LeaseOp::End { id }).encode(&mut op);
        let (origin, waiter) = (TRAVELLERS, Waiter(0));
        machine.submit(SYSTEM, Input::Catalogue { op, origin, waiter });
    }
}

/// Planted: what a replica has of keys at a time, whether that is all or not.
fn unclosed(view: &View, keys: &[Box<[u8]>], at: Timestamp) -> Option<FetchResult> {
    let state = view.read();
    let engine = state.engine().filter(|engine| engine.is_readable(at))?;
    let value = |key: &[u8]| {
        let hashed = engine.hasher().key(key);
        state.owns(&hashed).then(|| match engine.at(&hashed, at) {
            ReadResult::Value(version) => PastValue::Value(HeldVersion::of(&version)),
            ReadResult::Nil => PastValue::Nil,
            ReadResult::NilYet => PastValue::NilYet,
        })
    };
    keys.iter().map(|key| value(key)).collect::<Option<_>>().map(FetchResult::Past)
}

impl Traveller {
    fn rest(&mut self, next_at_ms: u64) {
        self.phase = Phase::Resting;
        self.lists.clear();
        (self.next_at_ms, self.ready, self.number) = (next_at_ms, true, u64::MAX);
    }

    fn begin_reading(&mut self, now_ms: u64) {
        self.phase = Phase::Reading(Vec::new());
        self.until_ms = now_ms + PATIENCE_MS;
    }
}
