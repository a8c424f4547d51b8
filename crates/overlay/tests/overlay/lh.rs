//! Files that grow and shrink, and clients whose images are older: every request ends at the owner,
//! after no more forwards than the front page of `lh` says.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc as Shared;

use keyspace::random::{Random, mix};
use keyspace::{Arc, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, ShardId};
use overlay::lh::memory::ADDRESSES_MAX;
use overlay::lh::{Bucket, FORWARDS_MAX, LinearHashCache, LinearHashTable};
use overlay::{KnownShard, LearnOutcome, Lookup, Point, Step, Update};

const K: KeyspaceId = KeyspaceId(1);
const FILES: u64 = 200;
const STEPS: u32 = 400;

/// A shard for each bucket, as it is now.
struct World {
    file: LinearHashTable,
    shards: BTreeMap<u64, Shared<KnownShard>>,
    /// Of each shard that there ever was: its bucket.
    numbers: BTreeMap<ShardId, u64>,
}

/// What a request cost.
#[derive(Debug, Default, PartialEq)]
struct Cost {
    forwards: u32,
    gone: u32,
}

fn known(shard: u64, arc: Arc, generation: u64) -> Shared<KnownShard> {
    let replicas = vec![(ReplicaId(1), NodeId(shard))];
    let (shard, generation) = (ShardId(shard), Generation(generation));
    Shared::new(KnownShard::new(Descriptor { shard, arc, replicas, generation, leader: None }, 0))
}

impl World {
    fn new() -> Self {
        let first = known(1, Arc::whole(K), 1);
        Self {
            file: LinearHashTable::FIRST,
            shards: BTreeMap::from([(0, first)]),
            numbers: BTreeMap::from([(ShardId(1), 0)]),
        }
    }

    fn split(&mut self) {
        let (left, right) = self.file.split().unwrap();
        let old = self.shards[&left.number()].clone();
        let (generation, shard) = (old.generation().0 + 1, self.numbers.len() as u64 + 1);
        self.shards.insert(left.number(), known(old.shard().0, left.arc(K), generation));
        self.shards.insert(right.number(), known(shard, right.arc(K), generation));
        self.numbers.insert(ShardId(shard), right.number());
    }

    fn merge(&mut self) {
        if let Some((left, right)) = self.file.last_split() {
            let whole = self.file.merge().unwrap();
            let gone = self.shards.remove(&right.number()).unwrap();
            let old = self.shards[&left.number()].clone();
            let generation = 1 + gone.generation().max(old.generation()).0;
            self.shards.insert(whole.number(), known(old.shard().0, whole.arc(K), generation));
        }
    }

    /// The arcs tile the circle, in at most two widths.
    fn check(&self) {
        assert_eq!(self.shards.len() as u64, self.file.buckets());
        let mut arcs: Vec<&Arc> = self.shards.values().map(|known| known.arc()).collect();
        arcs.sort_by(|a, b| a.start().cmp(b.start()));
        let all = arcs[1..].iter().try_fold(arcs[0].clone(), |all, arc| all.join(arc));
        assert_eq!(all, Some(Arc::whole(K)));
        let mut levels: Vec<u8> =
            arcs.iter().map(|arc| Bucket::of(arc).expect("a bucket").level()).collect();
        levels.sort_unstable();
        assert!(levels[levels.len() - 1] - levels[0] <= 1, "{levels:?}");
    }

    /// A client's request: from the bucket that it asks from one to the next, until one serves it.
    /// A bucket that is gone says so itself, or a node shows what is there now.
    fn request(&self, lh: &mut LinearHashCache, hash: u64, is_told: bool) -> Cost {
        let tail = hash.reverse_bits().to_be_bytes();
        let point = Point { keyspace: K, tail: &tail };
        let mut cost = Cost::default();
        let mut at = loop {
            let number = match lh.next(point) {
                Step::Owner(known) | Step::Closer(known) => self.numbers[&known.shard()],
                Step::Ask(_) => 0,
            };
            if self.shards.contains_key(&number) {
                break number;
            }
            cost.gone += 1;
            if is_told {
                let swallowed = self.file.address(number);
                lh.learn(Update::Shard(self.shards[&swallowed].clone()));
            } else {
                lh.gone(K, number);
            }
        };
        let bucket = |number: u64| Bucket::of(self.shards[&number].arc()).expect("a bucket");
        while let Some(next) = bucket(at).forward(hash) {
            cost.forwards += 1;
            at = next;
        }
        assert_eq!(at, self.file.address(hash));
        lh.learn(Update::Shard(self.shards[&at].clone()));
        let Step::Owner(owner) = lh.next(point) else { panic!("it was just learnt") };
        assert_eq!(owner.arc(), self.shards[&at].arc());
        cost
    }
}

fn clients(random: &mut Random) -> Vec<LinearHashCache> {
    let limits = [ADDRESSES_MAX, NonZeroUsize::new(3).unwrap()];
    (0..1 + random.below(5))
        .map(|_| LinearHashCache::new(limits[random.below(2) as usize]))
        .collect()
}

#[test]
fn while_files_grow_images_stay_behind_and_two_forwards_are_enough() {
    for seed in 0..FILES {
        let (mut random, mut world) = (Random::new(mix(seed)), World::new());
        let mut clients = clients(&mut random);
        for _ in 0..STEPS {
            if random.one_in(4) {
                world.split();
                world.check();
                continue;
            }
            let client = random.below(clients.len() as u64) as usize;
            let cost = world.request(&mut clients[client], random.bits(), false);
            assert_eq!(cost.gone, 0);
            assert!(cost.forwards <= FORWARDS_MAX, "{cost:?}");
            assert!(clients[client].image(K) <= world.file);
        }
    }
}

#[test]
fn while_files_also_shrink_requests_end_within_the_bound() {
    let mut most = 0;
    for seed in 0..FILES {
        let (mut random, mut world) = (Random::new(mix(seed)), World::new());
        let mut clients: Vec<(LinearHashCache, u8)> =
            clients(&mut random).into_iter().map(|lh| (lh, 0)).collect();
        let mut grows = true;
        for _ in 0..STEPS {
            if random.one_in(40) {
                grows = !grows;
            }
            for _ in 0..random.below(3) {
                if grows { world.split() } else { world.merge() }
            }
            world.check();
            let client = random.below(clients.len() as u64) as usize;
            let (lh, highest) = &mut clients[client];
            let is_told = random.one_in(2);
            let cost = world.request(lh, random.bits(), is_told);
            let ahead = (*highest + 1).saturating_sub(world.file.level());
            assert!(cost.gone <= u32::from(ahead), "{cost:?}, {ahead} levels ahead");
            assert!(cost.forwards <= FORWARDS_MAX, "{cost:?}");
            *highest = (*highest).max(lh.image(K).level());
            most = most.max(cost.gone);
        }
    }
    assert!(most >= 2, "images were never far ahead: nothing was tried");
}

/// A split for every 26 requests, as in the simulations behind the bound.
#[test]
fn growing_table_costs_few_forwards() {
    let (mut random, mut world) = (Random::new(1), World::new());
    let mut client = LinearHashCache::new(ADDRESSES_MAX);
    let mut forwards = 0;
    let requests = 20_000;
    for request in 0..requests {
        if request % 26 == 0 {
            world.split();
        }
        forwards += world.request(&mut client, random.bits(), false).forwards;
    }
    let mean = f64::from(forwards) / f64::from(requests);
    assert!(mean <= 0.1, "{mean} forwards a request");
    assert!(client.len() <= world.shards.len());
}

/// Nobody is asked who does not exist, once the image is set back.
#[test]
fn image_larger_than_table_shrinks() {
    let (mut random, mut world) = (Random::new(1), World::new());
    let mut client = LinearHashCache::new(ADDRESSES_MAX);
    (0..63).for_each(|_| world.split());
    for _ in 0..1000 {
        world.request(&mut client, random.bits(), false);
    }
    assert_eq!(client.image(K), world.file);
    (0..60).for_each(|_| world.merge());
    for _ in 0..1000 {
        world.request(&mut client, random.bits(), false);
    }
    assert!(client.image(K) <= world.file, "{:?}", client.image(K));
    let cost = world.request(&mut client, random.bits(), false);
    assert_eq!(cost, Cost::default());
}

/// Arcs that no file would have: each shard knows itself and the one behind it.
#[test]
fn arcs_that_were_cut_elsewhere_lead_to_the_owner_as_well() {
    for seed in 0..FILES {
        let mut random = Random::new(mix(seed));
        let mut cuts: Vec<u64> = (0..1 + random.below(20)).map(|_| random.bits() | 1).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let at = |cut: &u64| Position::at(K, &cut.to_be_bytes());
        let mut starts = vec![Position::origin(K)];
        starts.extend(cuts.iter().map(at));
        let shards: Vec<Shared<KnownShard>> = (0..starts.len())
            .map(|place| {
                let end = starts[(place + 1) % starts.len()].clone();
                known(place as u64 + 1, Arc::new(starts[place].clone(), end).unwrap(), 5)
            })
            .collect();
        let mut lh = LinearHashCache::new(ADDRESSES_MAX);
        lh.learn(Update::Shard(shards[0].clone()));
        for _ in 0..50 {
            let tail = random.bits().to_be_bytes();
            let point = Point { keyspace: K, tail: &tail };
            let mut hops = 0;
            loop {
                let (Step::Owner(found) | Step::Closer(found)) = lh.next(point) else {
                    panic!("somebody is known")
                };
                let place = found.shard().0 as usize - 1;
                if point.is_in(shards[place].arc()) {
                    break;
                }
                hops += 1;
                assert!(hops <= shards.len(), "it goes around");
                lh.learn(Update::Shard(shards[place].clone()));
                lh.learn(Update::Shard(shards[(place + 1) % shards.len()].clone()));
            }
        }
    }
}

#[test]
fn linear_hash_cache_ignores_older_descriptors() {
    let mut world = World::new();
    let mut lh = LinearHashCache::new(ADDRESSES_MAX);
    let whole = world.shards[&0].clone();
    world.split();
    let halves: Vec<Shared<KnownShard>> = world.shards.values().cloned().collect();
    let mut learn = |known: &Shared<KnownShard>| lh.learn(Update::Shard(known.clone()));
    assert_eq!(learn(&whole), LearnOutcome::New);
    assert_eq!(learn(&halves[1]), LearnOutcome::New);
    assert_eq!(learn(&whole), LearnOutcome::Known, "it is all that is known of the lower half");
    assert_eq!(learn(&halves[0]), LearnOutcome::New);
    assert_eq!(learn(&whole), LearnOutcome::Stale);
    world.merge();
    assert_eq!(learn(&world.shards[&0]), LearnOutcome::New);
    assert_eq!(learn(&halves[1]), LearnOutcome::Stale);
    assert_eq!((lh.len(), lh.image(K)), (1, LinearHashTable::FIRST));
    assert_eq!(lh.learn(Update::Dropped(K)), LearnOutcome::New);
    assert_eq!(lh.learn(Update::Shard(whole)), LearnOutcome::Stale);
    assert!(lh.is_empty());
}
