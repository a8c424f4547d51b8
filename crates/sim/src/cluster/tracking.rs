//! Clients that cache what they read (SAFETY G24).
//!
//! ```text
//!   pick a key ─► held? ─ no ─► registered by its leader ─┐
//!                   └─ yes ─► read ─► cached ◄────────────┘  until it is invalidated
//! ```
//!
//! The judge looks at all replicas. What one of them has applied is committed, and may have been
//! acknowledged. From then on a client may hold an older version for [`STALE_MS_MAX`], counted
//! while its node runs: a node that is paused tells nobody anything.
//!
//! These clients have dice of their own. They are there in a quarter of all runs, and wherever a
//! bug is planted that only they find.

use std::collections::BTreeMap;

use command::{NotDone, Read};
use keyspace::random::{Random, mix};
use keyspace::{ShardId, Timestamp};
use node::executor::{Answer, Input, Origin};
use node::replica::entry::Waiter;
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::{FetchRequest, FetchedData};
use node::routing::route::Route;
use node::tracking::LEASE_NANOS;
use node::tracking::interests::Invalidation;

use super::multi_shard::WIDE;
use super::{KEYSPACE, Options, Plant, World};
use crate::check::Violation;
use crate::command::Collect;
use crate::machine::Machine;
use crate::rng::Rng;

/// The origin of their requests.
pub const TRACKERS: Origin = Origin(9);
/// How long a version may be cached after a newer one was applied, in milliseconds: the lease, by a
/// clock that may run 2 % slow, and what a busy node needs to look.
const STALE_MS_MAX: u64 = LEASE_NANOS / 1_000_000 * 103 / 100 + 250;
/// How often a node looks after its streams.
const TICK_MS: u64 = 25;
/// How often all that is cached is judged.
const JUDGE_MS: u64 = 10;
/// Clients of each node.
const CLIENTS_EACH: usize = 2;
/// A client whose read takes longer begins another.
const PATIENCE_MS: u64 = 3_000;

/// Whether there are such clients in a run.
pub(super) fn has(options: &Options) -> bool {
    let drawn = Random::new(mix(options.seed ^ 0x6361_6368_6573)).below(4) == 0;
    match options.plant {
        Some(plant) => plant.is_of_caches(),
        None => drawn,
    }
}

/// All of them.
pub(super) struct CachingClients {
    rng: Rng,
    clients: Vec<CachingClient>,
    asked: u64,
}

struct CachingClient {
    at: usize,
    /// When its node had started: it is another client if the node has started again.
    started_at: u64,
    cache: BTreeMap<(Box<str>, Vec<u8>), Cached>,
    read: Option<UnderWay>,
    next_at: u64,
}

#[derive(Debug)]
struct Cached {
    version: Timestamp,
    /// For so long it has been another version than the newest.
    stale_ms: u64,
}

/// A read under way.
struct UnderWay {
    keyspace: Box<str>,
    key: Vec<u8>,
    number: u64,
    moment: Option<ReadTime>,
    fetched: FetchedData,
    ready: bool,
    until: u64,
    /// Whether the client must forget what it reads at once: it may have changed meanwhile.
    is_doubtful: bool,
    /// Planted: what was read before it was registered.
    early: Option<Timestamp>,
}

impl CachingClients {
    pub fn new(options: &Options) -> Self {
        let client = |number: usize| CachingClient {
            at: number / CLIENTS_EACH,
            started_at: 0,
            cache: BTreeMap::new(),
            read: None,
            next_at: 0,
        };
        let clients = (0..options.nodes * CLIENTS_EACH).map(client).collect();
        Self { rng: Rng::new(mix(options.seed)), clients, asked: 0 }
    }
}

impl World {
    /// A node's caching clients do what they can; called once a millisecond while it runs.
    pub(super) fn run_caches(&mut self, at: usize) -> Result<(), Violation> {
        let Some(mut caches) = self.caches.take() else { return Ok(()) };
        let seat = &mut self.node_slots[at];
        let (started_at, now_ms) = (seat.started_at, self.now_ms);
        if let Some(machine) = &mut seat.machine {
            machine.tracking.trusts_for_ever = self.options.plant == Some(Plant::TrustedStream);
            if now_ms.is_multiple_of(TICK_MS) {
                machine.tick_tracking();
            }
            let heard = std::mem::take(&mut machine.tracking.invalidations);
            for (number, what) in heard {
                caches.clients[number as usize].hear(what);
                self.counts.invalidations += 1;
            }
        }
        for number in 0..caches.clients.len() {
            let client = &mut caches.clients[number];
            if client.at != at {
                continue;
            }
            if client.started_at != started_at {
                client.started_at = started_at;
                client.cache.clear();
                client.read = None;
            }
            self.run_cache(&mut caches, number);
        }
        let judged = match now_ms.is_multiple_of(JUDGE_MS) {
            true => self.judge_caches(&mut caches, at),
            false => Ok(()),
        };
        self.caches = Some(caches);
        judged
    }

    fn run_cache(&mut self, caches: &mut CachingClients, number: usize) {
        let CachingClients { rng, clients, asked } = caches;
        let client = &mut clients[number];
        let Some(machine) = &mut self.node_slots[client.at].machine else { return };
        if client.read.as_ref().is_some_and(|read| self.now_ms >= read.until) {
            client.read = None;
        }
        if client.read.is_none() {
            if self.now_ms < client.next_at {
                return;
            }
            let keyspace = if rng.one_in(2) { KEYSPACE } else { WIDE };
            let Some(route) = machine.routes.get(keyspace) else { return };
            let names = match keyspace == WIDE {
                true => self.wide.as_ref().map(|wide| &*wide.names).unwrap_or_default(),
                false => self.clients.names(),
            };
            if names.is_empty() {
                return;
            }
            *asked += 1;
            client.next_at = self.now_ms + rng.between(1, 40);
            client.read = Some(UnderWay {
                keyspace: route.keyspace.name.clone(),
                key: rng.pick(names).clone(),
                number: *asked * clients_max() + number as u64,
                moment: None,
                fetched: FetchedData::default(),
                ready: true,
                until: self.now_ms + PATIENCE_MS,
                is_doubtful: false,
                early: None,
            });
        }
        let client = &mut clients[number];
        if client.read.as_ref().is_some_and(|read| read.ready) {
            self.go_on_reading(client, number as u64);
        }
    }

    /// Takes a read one step further.
    fn go_on_reading(&mut self, client: &mut CachingClient, number: u64) {
        let Some(machine) = &mut self.node_slots[client.at].machine else { return };
        let Some(read) = &mut client.read else { return };
        let Some(route) = machine.routes.get(&*read.keyspace).cloned() else {
            client.read = None;
            return;
        };
        let plant = self.options.plant;
        let shard = route.shard(route.place_of_key(&read.key));
        let now = machine.tracking.now(machine.boot);
        let is_late = plant == Some(Plant::LateInterest) && read.early.is_none();
        let held = machine.tracking.interests.hold(number, shard, &read.key, now);
        match (held, read.moment) {
            _ if is_late => {}
            (Some(since), Some(moment)) if moment.boot > since => {}
            (Some(_), None) => {}
            (None, None) => {
                let keys = vec![read.key.clone().into_boxed_slice()];
                let since = machine.boot;
                let want = Box::new(FetchRequest::Track { keys, wants_all: false, since });
                let (origin, waiter) = (TRACKERS, Waiter(read.number));
                let bytes_max = usize::MAX;
                machine.submit(shard, Input::Fetch { shard, want, bytes_max, origin, waiter });
                read.ready = false;
                return;
            }
            _ => read.is_doubtful = true,
        }
        if let Some(version) = read.early {
            return self.cached(client, number, shard, version);
        }
        let moment = *read.moment.get_or_insert_with(|| machine.moment());
        match look(&route, &read.key, moment, &read.fetched) {
            Ok(version) if is_late => {
                // Planted: only now it is registered.
                (read.early, read.moment) = (Some(version), None);
            }
            Ok(version) => self.cached(client, number, shard, version),
            Err(blocked) => {
                let (origin, waiter) = (TRACKERS, Waiter(read.number));
                let node = machine.node();
                let (shard, input) = match route.must_fetch(blocked.place, node) {
                    true => {
                        let want = Box::new(FetchRequest::keys([&*read.key]));
                        let bytes_max = usize::MAX;
                        (shard, Input::Fetch { shard, want, bytes_max, origin, waiter })
                    }
                    false => {
                        let Blocked { at, lock, place } = blocked;
                        let shard = route.shard(place);
                        (shard, Input::AwaitRead { shard, at, lock, origin, waiter })
                    }
                };
                read.ready = false;
                machine.submit(shard, input);
            }
        }
    }

    /// A client's read has shown this version.
    fn cached(
        &mut self,
        client: &mut CachingClient,
        number: u64,
        shard: ShardId,
        version: Timestamp,
    ) {
        let Some(UnderWay { keyspace, key, is_doubtful, .. }) = client.read.take() else { return };
        let Some(machine) = &mut self.node_slots[client.at].machine else { return };
        let interests = &mut machine.tracking.interests;
        // The order of what one connection hears is the server's business; here it hears at once.
        let _is_outdated = interests.told(number, shard, &key, Some(version));
        self.counts.cached += 1;
        match is_doubtful {
            true => _ = client.cache.remove(&(keyspace, key)),
            false => _ = client.cache.insert((keyspace, key), Cached { version, stale_ms: 0 }),
        }
    }

    /// An answer for a caching client.
    pub(super) fn cache_answered(&mut self, answer: &Answer) {
        let Some(caches) = &mut self.caches else { return };
        for waiter in answer.waiters() {
            let client = &mut caches.clients[(waiter.0 % clients_max()) as usize];
            let Some(read) = client.read.as_mut().filter(|read| read.number == waiter.0) else {
                continue;
            };
            match answer {
                Answer::Fetched { want, .. } if matches!(**want, FetchRequest::Track { .. }) => {}
                Answer::Fetched { shard, at, want, found, .. } => {
                    read.fetched.add(*shard, *at, (**want).clone(), (**found).clone());
                }
                Answer::NotDone { why: NotDone::ReplicaLagging, .. } | Answer::Retry { .. } => {}
                _ => {
                    client.read = None;
                    continue;
                }
            }
            read.ready = true;
        }
    }

    /// No client of a node may hold an old version for too long.
    fn judge_caches(&mut self, caches: &mut CachingClients, at: usize) -> Result<(), Violation> {
        let Some(machine) = &self.node_slots[at].machine else { return Ok(()) };
        let now_ms = machine.clock.now().millis();
        for client in caches.clients.iter_mut().filter(|client| client.at == at) {
            for ((keyspace, key), cached) in &mut client.cache {
                let newest = self.newest_version(keyspace, key);
                // Whether it has expired depends on the clock that is asked.
                let has_expired = matches!(newest, Some(Some((_, expiry_ms)))
                    if expiry_ms > 0 && expiry_ms <= now_ms);
                let newest = newest.map(|newest| newest.map(|(version, _)| version));
                let is_absent = cached.version == Timestamp::ZERO && has_expired;
                // What lags behind the cached version says nothing.
                let is_old = match newest {
                    Some(newest) => newest.is_none_or(|newest| newest > cached.version),
                    None => false,
                };
                match is_old && !is_absent && newest.flatten().unwrap_or_default() != cached.version
                {
                    true => cached.stale_ms += JUDGE_MS,
                    false => cached.stale_ms = 0,
                }
                self.counts.stale_ms_max = self.counts.stale_ms_max.max(cached.stale_ms);
                if cached.stale_ms > STALE_MS_MAX {
                    let text = format!(
                        "a client of node {} holds {} of {keyspace} as of {:?}, and for {} ms \
                         there has been {newest:?}",
                        self.node_slots[at].node,
                        key.escape_ascii(),
                        cached.version,
                        cached.stale_ms,
                    );
                    return Err(Violation::new("G24 caches are told of changes", text));
                }
            }
        }
        Ok(())
    }

    /// The version of a key in the replica that has applied most, if any runs; and when it expires.
    fn newest_version(&self, keyspace: &str, key: &[u8]) -> Option<Option<(Timestamp, u64)>> {
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let of = |machine: &Machine| {
            let route = machine.routes.get(keyspace)?;
            let hashed = route.key(key);
            let view = machine.view(route.shard(route.place(&hashed)))?;
            let state = view.read();
            let engine = state.engine().filter(|_| state.owns(&hashed))?;
            let newest = engine.newest(&hashed, Timestamp::ZERO);
            let at = (state.descriptor.generation, state.applied_index);
            Some((at, newest.map(|version| (version.timestamp, version.expiry_ms))))
        };
        machines.filter_map(of).max_by_key(|(at, _)| *at).map(|(_, newest)| newest)
    }
}

impl CachingClient {
    fn hear(&mut self, what: Invalidation) {
        match what {
            Invalidation::All => self.cache.clear(),
            Invalidation::Keys(keys) => {
                self.cache.retain(|(_, key), _| !keys.iter().any(|gone| **gone == **key));
            }
        }
    }
}

/// More than there are clients.
const fn clients_max() -> u64 {
    1 << 10
}

/// The version that a read of a key shows; zero: it has no value.
fn look(
    route: &Route,
    key: &[u8],
    now: ReadTime,
    fetched: &FetchedData,
) -> Result<Timestamp, Blocked> {
    let mut sink = Collect::default();
    let seen = read::read_versions(route, &Read::Get(key), now, fetched, &mut sink)?;
    Ok(seen.first().copied().unwrap_or_default())
}
