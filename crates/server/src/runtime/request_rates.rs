//! Estimates the request rate of each shard. Hot shards are split.
//!
//! ```text
//!   event loops: reads and writes of their clients ──┐ one in 64
//!   HTTP, and requests forwarded by other nodes ─────┴──► Record of each shard (balancer::hot)
//!   each second: a rate; above split_rate, where a split divides it ──► control
//! ```
//!
//! A shard's leader does nearly all of its work, so only requests to local leaders make a shard
//! hot. (Follower reads ask the leader for one index, for many reads at once.) The node gossips
//! their sum ([`super::survey::publish`]), so that the balancer can spread leaders; and beside it
//! the reads that its other replicas serve, for people.
//!
//! A loop only counts down to the next request that it samples; for a sample it takes a lock that
//! all loops share.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Instant;

use balancer::hot::{Sampler, ShardLoad, SplitPoint};
use command::{Write, codec};
use keyspace::linear_hash::bit_reversed_hash;
use keyspace::random::{Random, mix};
use keyspace::{Placement, ShardId, Slot, slot_of};
use node::control::{HotShard, Loads};
use node::routing::fetch::FetchRequest;
use node::routing::route::Route;
use node::rpc::message::RpcMessage;
use parking_lot::Mutex;

use super::NodeRuntime;
use super::routing::Routing;

/// A rate that a node gossips stays while it has changed by less than this, or by less than an
/// eighth; what is below half of it is gossiped as 0.
const REPORTED_STEP: u32 = 32;

/// Why a shard is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoSplitReason {
    /// One slot, which is never cut, has most of its keys.
    OneSlot,
    /// Too many of its requests are for one slot, or one key of an ordered keyspace.
    OneKey,
    /// Most of its requests read so many keys that both halves would get them.
    Scans,
}

impl NoSplitReason {
    /// All reasons of hot shards.
    pub const HOT: [Self; 2] = [Self::OneKey, Self::Scans];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            NoSplitReason::OneSlot => "one-slot",
            NoSplitReason::OneKey => "one-key",
            NoSplitReason::Scans => "scans",
        }
    }
}

/// Requests a second that a node serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedRates {
    /// Of shards that it leads.
    pub led: u32,
    /// Reads from its other replicas.
    pub follower_reads: u32,
}

impl ServedRates {
    /// All of them.
    pub fn sum(self) -> u64 {
        u64::from(self.led) + u64::from(self.follower_reads)
    }
}

/// What the node remembers about it.
pub struct RequestRates {
    /// Above this request rate a shard is hot, and is split.
    rate_max: Option<NonZeroU64>,
    seed: u64,
    /// The sampler of requests that do not come from an event loop.
    sampler: Mutex<Sampler>,
    records: Mutex<Records>,
    /// As they were gossiped last.
    reported: Mutex<ServedRates>,
}

struct Records {
    shards: BTreeMap<ShardId, ShardLoad>,
    random: Random,
    looked_at: Instant,
    /// Shards led here that stay whole, and why.
    whole: BTreeMap<ShardId, NoSplitReason>,
}

/// A place of a shard: what stands behind the keyspace's id in positions there.
fn place_of(placement: Placement, key: &[u8]) -> Box<[u8]> {
    match placement {
        Placement::Hashed => slot_of(key).to_be_bytes().into(),
        Placement::Ordered => key.into(),
        Placement::LinearHash => bit_reversed_hash(key).to_be_bytes().into(),
    }
}

impl RequestRates {
    /// As configured. `seed` was drawn at random.
    pub fn new(rate_max: Option<NonZeroU64>, seed: u64) -> Self {
        let (looked_at, random) = (Instant::now(), Random::new(mix(seed)));
        let (shards, whole) = (BTreeMap::new(), BTreeMap::new());
        Self {
            rate_max,
            seed,
            sampler: Mutex::new(Sampler::new(seed)),
            records: Mutex::new(Records { shards, random, looked_at, whole }),
            reported: Mutex::default(),
        }
    }

    /// What a loop counts with.
    pub fn sampler(&self, number: usize) -> Sampler {
        Sampler::new(mix(self.seed ^ number as u64))
    }

    /// Above this request rate a shard is split.
    pub fn rate_max(&self) -> Option<u64> {
        self.rate_max.map(NonZeroU64::get)
    }

    /// How many hot shards with a local leader are not split, for each reason.
    pub fn whole(&self) -> [(NoSplitReason, u64); NoSplitReason::HOT.len()] {
        let whole = &self.records.lock().whole;
        NoSplitReason::HOT
            .map(|why| (why, whole.values().filter(|other| **other == why).count() as u64))
    }

    /// A request that is noted: for keys of one keyspace.
    #[cold]
    pub fn note_keys<'k>(&self, route: &Route, keys: impl IntoIterator<Item = &'k [u8]>) {
        self.note(route, keys, None);
    }

    /// Notes a request; if it writes, of so many bytes.
    fn note<'k>(
        &self,
        route: &Route,
        keys: impl IntoIterator<Item = &'k [u8]>,
        written: Option<usize>,
    ) {
        let placement = route.keyspace.options.placement;
        let place = |key| (route.place_of_key(key), place_of(placement, key));
        let mut places: Vec<(usize, Box<[u8]>)> = keys.into_iter().map(place).collect();
        places.sort_unstable();
        let mut records = self.records.lock();
        for of_shard in places.chunk_by(|(one, _), (other, _)| one == other) {
            let [(place, first), ..] = of_shard else { continue };
            let last = of_shard.last().map(|(_, last)| &**last);
            let load = records.shards.entry(route.shard(*place)).or_default();
            load.add(first, last);
            if let Some(bytes) = written {
                load.is_write(bytes * of_shard.len() / places.len());
            }
        }
    }

    /// A request that is noted: a write.
    #[cold]
    pub fn note_write(&self, route: &Route, write: &Write<'_>) {
        let mut keys = Vec::new();
        write.each_key(&mut |key| keys.push(key));
        self.note(route, keys, Some(write.bytes_about()));
    }

    /// Records a sampled request for a range of a shard, from `first` to `last` inclusive, or to
    /// its end.
    pub fn note_range(&self, shard: ShardId, first: &[u8], last: Option<&[u8]>) {
        self.records.lock().shards.entry(shard).or_default().add(first, last);
    }

    /// A request for one key, which came by no loop; if it writes, of so many bytes.
    pub fn asked(&self, route: &Route, key: &[u8], written: Option<usize>) {
        if self.sampler.lock().notes() {
            self.note(route, [key], written);
        }
    }

    /// How often a shard with a local replica is asked here, as estimated: all that its leader
    /// serves, or what another replica does, which is reads.
    pub fn of_shard(&self, shard: ShardId, leads: bool) -> api::ShardLoad {
        let records = self.records.lock();
        let Some(load) = records.shards.get(&shard) else { return api::ShardLoad::default() };
        let reads_per_second = reads(load).round() as u64;
        if !leads {
            let follower_reads_per_second = reads_per_second;
            let none = api::ShardLoad::default();
            return api::ShardLoad { reads_per_second, follower_reads_per_second, ..none };
        }
        api::ShardLoad {
            reads_per_second,
            follower_reads_per_second: 0,
            writes_per_second: load.writes().round() as u64,
            written_bytes_per_second: load.written_bytes().round() as u64,
        }
    }

    /// Records a request that another node has forwarded for its clients.
    pub(super) fn asked_by_peer(&self, routing: &Routing, rpc: &RpcMessage) {
        match rpc {
            RpcMessage::Write { shard, count, commands, .. } => {
                let mut noted = Vec::new();
                // Each has a byte at least, whatever is said of their number.
                let count = (*count).min(commands.len() as u32);
                self.sampler.lock().among(count, |which| noted.push(which));
                if !noted.is_empty() {
                    self.note_commands(routing, *shard, commands, &noted);
                }
            }
            // These may be of several requests, and each key is taken for one.
            RpcMessage::Fetch { shard, want: FetchRequest::Keys { keys, .. }, .. } => {
                let mut noted = Vec::new();
                let count = keys.len() as u32;
                self.sampler.lock().among(count, |which| noted.push(which as usize));
                noted.into_iter().for_each(|which| self.note_key(routing, *shard, &keys[which]));
            }
            RpcMessage::Fetch { shard, want, .. } if self.sampler.lock().notes() => {
                self.note_want(routing, *shard, want);
            }
            _ => {}
        }
    }

    #[cold]
    fn note_commands(&self, routing: &Routing, shard: ShardId, mut commands: &[u8], noted: &[u32]) {
        let routes = routing.routes();
        let Some(route) = routes.of_shard(shard) else { return };
        for number in 0..=noted.last().copied().unwrap_or_default() {
            // What cannot be read is refused elsewhere.
            let Ok(write) = codec::decode(&mut commands) else { return };
            if noted.contains(&number) && !write.is_piece() {
                self.note_write(route, &write);
            }
        }
    }

    fn note_key(&self, routing: &Routing, shard: ShardId, key: &[u8]) {
        let routes = routing.routes();
        if let Some(route) = routes.of_shard(shard) {
            self.note_keys(route, [key]);
        }
    }

    #[cold]
    fn note_want(&self, routing: &Routing, shard: ShardId, want: &FetchRequest) {
        let routes = routing.routes();
        let Some(route) = routes.of_shard(shard) else { return };
        let slot = |slot: Slot| slot.to_be_bytes();
        match want {
            FetchRequest::At { key, .. } => self.note_keys(route, [&**key]),
            FetchRequest::Past { want, .. } => match &**want {
                FetchRequest::Keys { keys, .. } => self.note_keys(route, keys.iter().map(|k| &**k)),
                want => self.note_want(routing, shard, want),
            },
            FetchRequest::Scan { cursor, end, .. } => {
                let from = node::replica::scan::place_of_cursor(*cursor).slot;
                let last = end.saturating_sub(1);
                self.note_range(shard, &slot(from), Some(&slot(last)));
            }
            FetchRequest::Numbers { from, end, .. } => {
                let last = end.wrapping_sub(1).to_be_bytes();
                self.note_range(shard, &from.to_be_bytes(), Some(&last));
            }
            FetchRequest::Range { .. } => self.note_range(shard, &[], None),
            _ => {}
        }
    }
}

/// Reads a second. What goes on elsewhere is a write.
fn reads(load: &ShardLoad) -> f64 {
    (load.rate() - load.writes()).max(0.0)
}

/// Requests a second that this node serves, as estimated.
pub fn served(runtime: &NodeRuntime) -> ServedRates {
    let asked: Vec<(ShardId, u32, u32)> = {
        let records = runtime.request_rates.records.lock();
        let rates = |(shard, load): (&ShardId, &ShardLoad)| {
            (*shard, load.rate() as u32, reads(load) as u32)
        };
        records.shards.iter().map(rates).collect()
    };
    let mut served = ServedRates::default();
    for (shard, all, reads) in asked {
        match role(runtime, shard) {
            Some(true) => served.led = served.led.saturating_add(all),
            Some(false) => served.follower_reads = served.follower_reads.saturating_add(reads),
            // Another node serves what clients of this one ask of it.
            None => {}
        }
    }
    served
}

/// The same as it is gossiped: small changes cause no gossip.
pub fn reported(runtime: &NodeRuntime) -> ServedRates {
    let now = served(runtime);
    let mut reported = runtime.request_rates.reported.lock();
    *reported = ServedRates {
        led: settled(reported.led, now.led),
        follower_reads: settled(reported.follower_reads, now.follower_reads),
    };
    *reported
}

/// The rate to gossip, where another one was gossiped before.
fn settled(before: u32, now: u32) -> u32 {
    match now {
        0..REPORTED_HALF => 0,
        _ if now.abs_diff(before) < REPORTED_STEP.max(before / 8) && before > 0 => before,
        _ => now,
    }
}

const REPORTED_HALF: u32 = REPORTED_STEP / 2;

/// Measures request rates of shards, and finds places where hot shards can be split.
pub(super) fn loads(runtime: &NodeRuntime) -> Loads {
    let NodeRuntime { request_rates, clock, .. } = runtime;
    let now_ms = clock.elapsed_millis();
    let rate_max = request_rates.rate_max();
    let (mut hot, mut stay) = (Vec::new(), Vec::new());
    let rates = {
        let mut records = request_rates.records.lock();
        let Records { shards, random, looked_at, .. } = &mut *records;
        let elapsed = std::mem::replace(looked_at, Instant::now()).elapsed();
        for (shard, record) in shards.iter_mut() {
            let (elapsed_ms, most) = (elapsed.as_millis() as u64, rate_max.unwrap_or(u64::MAX));
            if let Some(at) = record.look(now_ms, elapsed_ms, most, random.bits()) {
                let rate = record.rate();
                let rate_max = rate_max.unwrap_or_default();
                let why = format!("it has {rate:.0} requests/s, above split_rate = {rate_max}");
                hot.push(HotShard { shard: *shard, at, why });
            }
            stay.extend(record.whole().map(|found| match found {
                SplitPoint::Scans => (*shard, NoSplitReason::Scans),
                _ => (*shard, NoSplitReason::OneKey),
            }));
        }
        shards.retain(|_, record| !record.is_idle());
        shards.iter().map(|(shard, record)| (*shard, record.rate() as u32)).collect()
    };
    stay.retain(|(shard, _)| leads(runtime, *shard));
    request_rates.records.lock().whole = stay.into_iter().collect();
    Loads { rates, hot }
}

/// Whether the replica here leads its shard; `None`: there is none.
fn role(runtime: &NodeRuntime, shard: ShardId) -> Option<bool> {
    runtime.with_executor(shard, |executor| Some(executor.shard(shard)?.is_leader()))
}

/// Whether there is a replica here that leads its shard.
fn leads(runtime: &NodeRuntime, shard: ShardId) -> bool {
    role(runtime, shard) == Some(true)
}

#[cfg(test)]
#[test]
fn gossiped_rate_is_close_and_changes_seldom() {
    assert_eq!([0, 5, 15, 16, 300].map(|now| settled(0, now)), [0, 0, 0, 16, 300]);
    assert_eq!([0, 20, 90, 131, 132].map(|now| settled(100, now)), [0, 20, 100, 100, 132]);
    assert_eq!([7_001, 8_999, 9_000].map(|now| settled(8_000, now)), [8_000, 8_000, 9_000]);
    for now in (16..u32::MAX / 2).step_by(99_991) {
        let told = settled(now - now / 9, now);
        assert!(told.abs_diff(now) <= REPORTED_STEP.max(now / 8), "{now}: {told}");
    }
}
