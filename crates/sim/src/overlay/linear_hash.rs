//! A linear-hash table that grows from one bucket, while clients send requests.
//!
//! | measured | how |
//! |---|---|
//! | hops | as LH\* counts: each forward behind the first bucket, by the client's image (cached routes) alone, as if it knew the address of every bucket |
//! | learnt | the same, of clients that know an address only from an answer |
//! | utilisation | mean over largest arc: what mean over largest load comes to with many keys |
//!
//! Splits come at an even pace: the table has all its buckets when the last request is made. Then
//! the same clients send as many requests again, and the table changes no more (*still*).

use std::sync::Arc as Shared;

use overlay::lh::{LinearHashCache, LinearHashTable};
use overlay::{KnownShard, Lookup, Point, Step, Update};

use super::ring::{KEYSPACE, shard};
use super::walks::Spread;
use super::{Kind, Run};
use crate::rng::Rng;

/// Clients, each with an image of its own.
pub const CLIENTS: usize = 4;

/// The other measurements of a table, besides hops.
#[derive(Clone, Debug)]
pub struct Growth {
    /// Forwards of a request while the file grew, of clients that learn addresses from answers.
    pub learnt: Spread,
    /// Forwards of a request afterwards.
    pub still: Spread,
    /// Mean over largest arc, at the end.
    pub utilisation: f64,
    /// That, on average over all requests while it grew.
    pub utilisation_mean: f64,
    /// How often an image was ahead of the file: never, for it only grows.
    pub ahead: u64,
}

/// A file with a shard for each bucket; shards are numbered as buckets, from 1.
struct World {
    file: LinearHashTable,
    shards: Vec<Shared<KnownShard>>,
}

/// A client: what it remembers, and the two numbers that it would have with every address.
struct Client {
    lh: LinearHashCache,
    image: LinearHashTable,
}

impl World {
    fn split(&mut self) {
        if let Some((left, right)) = self.file.split() {
            let old = self.shards[left.number() as usize].generation().0;
            let made = |number: u64, arc| shard(number + 1, arc, old + 1);
            self.shards[left.number() as usize] = made(left.number(), left.arc(KEYSPACE));
            self.shards.push(made(right.number(), right.arc(KEYSPACE)));
        }
    }

    /// The owner's bucket, and the forwards on the way to it.
    fn forward(&self, mut at: u64, hash: u64) -> (u64, usize) {
        let mut forwards = 0;
        while let Some(next) = self.file.bucket(at).and_then(|bucket| bucket.forward(hash)) {
            (at, forwards) = (next, forwards + 1);
        }
        (at, forwards)
    }

    /// The mean over the largest arc.
    fn utilisation(&self) -> f64 {
        let buckets = self.file.buckets();
        let widest = buckets.next_power_of_two() / if buckets.is_power_of_two() { 1 } else { 2 };
        widest as f64 / buckets as f64
    }
}

/// Lets a file grow to so many buckets.
pub fn grow(buckets: usize, requests: u64, seed: u64, on_progress: &(dyn Fn(u64) + Sync)) -> Run {
    let mut rng = Rng::new(seed ^ buckets as u64);
    let arc = LinearHashTable::FIRST.bucket(0).expect("the first").arc(KEYSPACE);
    let mut world = World { file: LinearHashTable::FIRST, shards: vec![shard(1, arc, 1)] };
    let addresses = buckets.try_into().expect("at least one bucket");
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client { lh: LinearHashCache::new(addresses), image: LinearHashTable::FIRST })
        .collect();
    let (mut growing, mut learnt, mut still) =
        (Spread::default(), Spread::default(), Spread::default());
    let (mut wrong, mut ahead, mut utilisation) = (0, 0, 0.0);
    for request in 0..2 * requests {
        let is_growing = request < requests;
        if is_growing {
            let wanted = 1 + (buckets as u64 - 1) * (request + 1) / requests;
            while world.file.buckets() < wanted {
                world.split();
            }
            utilisation += world.utilisation();
        }
        let client = &mut clients[rng.below(CLIENTS as u64) as usize];
        let hash = rng.bits();
        let (owner, forwards) = world.forward(client.image.address(hash), hash);
        let spread = if is_growing { &mut growing } else { &mut still };
        spread.add(forwards);
        let bucket = world.file.bucket(owner).expect("requests end at buckets that are there");
        client.image = client.image.max(LinearHashTable::smallest_with(bucket));
        ahead += u64::from(client.image > world.file);
        if is_growing {
            let (at, taken) = ask(&world, &mut client.lh, hash);
            wrong += u64::from(at != world.file.address(hash) || at != owner);
            ahead += u64::from(client.lh.image(KEYSPACE) > world.file);
            learnt.add(taken);
            if request.is_multiple_of(1024) {
                on_progress(request);
            }
        }
    }
    on_progress(requests);
    let known = clients.iter().map(|client| client.lh.len()).sum::<usize>() as f64;
    Run {
        kind: Kind::Lh,
        nodes: buckets,
        requests,
        hops: growing,
        entries: known / CLIENTS as f64,
        connections: known / CLIENTS as f64,
        wrong,
        file: Some(Growth {
            learnt,
            still,
            utilisation: world.utilisation(),
            utilisation_mean: utilisation / requests as f64,
            ahead,
        }),
    }
}

/// A request by what a client remembers; it learns from the answer. Who answered, and after how
/// many forwards.
fn ask(world: &World, lh: &mut LinearHashCache, hash: u64) -> (u64, usize) {
    let tail = hash.reverse_bits().to_be_bytes();
    let first = match lh.next(Point { keyspace: KEYSPACE, tail: &tail }) {
        Step::Owner(known) | Step::Closer(known) => known.shard().0 - 1,
        Step::Ask(_) => 0,
    };
    let (at, forwards) = world.forward(first, hash);
    lh.learn(Update::Shard(world.shards[at as usize].clone()));
    (at, forwards)
}
