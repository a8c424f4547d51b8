//! What a client or node remembers of linear-hash tables: for each keyspace an image, and learnt
//! addresses.
//!
//! An **address** is a descriptor, remembered by the start of its arc. That start never changes, so
//! an address leads to its shard however often the arc was halved since; only a merge ends it.
//!
//! ```text
//!   next:  the highest start at or below the point: its arc holds the point ──► Owner
//!          else the bucket that the image names, or the one that it was cut from,
//!               and so on down to bucket 0: the first whose address is known ─► Closer
//!          nobody ────────────────────────────────────────────────────────────► Ask
//! ```
//!
//! # How it corrects itself
//! | what is learnt | image | addresses |
//! |---|---|---|
//! | a bucket, by its arc | at least the smallest table that has it | its own; those it absorbed are dropped |
//! | such a bucket is gone ([`LinearHashCache::gone`], or absorbed) | at most the largest table without it | without it |
//! | no answer from it ([`Lookup::mark_unreachable`]) | as it was | without it: the bucket that it was split from is asked |
//! | an arc that is no bucket's | means nothing from now on | as for buckets |
//!
//! In the last case the keyspace is no linear-hash table; then the highest start at or below the
//! point is asked. Each answer that shows a start between that and the point brings the request
//! closer, so it ends at the owner, as on a ring.
//!
//! # Limits
//! At most as many addresses, over all keyspaces, as it was created with ([`ADDRESSES_MAX`]). When
//! it is full, learning one removes another, taken in turn from all shards. A keyspace without an
//! address loses its image, too. Both cost forwards when they are next needed.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Bound;
use std::sync::Arc as Shared;

use keyspace::{Generation, KeyspaceId, NodeId, Position, ShardId};

use super::bucket::{Bucket, parent};
use super::hash_of;
use super::table::LinearHashTable;
use crate::dropped_keyspaces::DroppedKeyspaces;
use crate::known_shard::{Hint, KnownShard};
use crate::lookup::{LearnOutcome, Lookup, Step, Update};
use crate::point::Point;

/// The most addresses that it need ever hold: some 20 MiB of them.
pub const ADDRESSES_MAX: NonZeroUsize = NonZeroUsize::new(64 * 1024).expect("not zero");

/// One keyspace, as it is remembered.
#[derive(Clone, Debug, Default)]
struct CachedTable {
    image: LinearHashTable,
    /// Whether an arc was seen that is no bucket's.
    is_cut_elsewhere: bool,
    /// By the tail of the start.
    addresses: BTreeMap<Box<[u8]>, Shared<KnownShard>>,
}

impl CachedTable {
    /// The address with the highest start at or below a tail, around the circle.
    fn at_or_below(&self, tail: &[u8]) -> Option<&Shared<KnownShard>> {
        let below = self.addresses.range::<[u8], _>((Bound::Unbounded, Bound::Included(tail)));
        let below = below.map(|(_, known)| known).next_back();
        below.or_else(|| self.addresses.values().next_back())
    }

    /// The bucket that the image names for a point, or the nearest it was cut from that is known.
    fn guess(&self, point: Point<'_>) -> Option<&Shared<KnownShard>> {
        let first = self.image.address(hash_of(point));
        let mut line = std::iter::successors(Some(first), |number| parent(*number));
        line.find_map(|number| self.bucket(number))
    }

    /// The address of a bucket.
    fn bucket(&self, number: u64) -> Option<&Shared<KnownShard>> {
        let start = number.reverse_bits().to_be_bytes();
        let tail: &[u8] = if number == 0 { &[] } else { &start };
        self.addresses.get(tail)
    }
}

/// An asker's memory of files of linear hashing.
#[derive(Clone, Debug)]
pub struct LinearHashCache {
    keyspaces: BTreeMap<KeyspaceId, CachedTable>,
    /// Where the address of each shard is.
    starts: BTreeMap<ShardId, Position>,
    dropped: DroppedKeyspaces,
    peers: Vec<NodeId>,
    addresses_max: usize,
    /// The shard after which the next victim is looked for.
    hand: ShardId,
}

impl LinearHashCache {
    /// One that knows nothing and holds at most `addresses_max` addresses ([`ADDRESSES_MAX`] unless
    /// there is a reason).
    pub fn new(addresses_max: NonZeroUsize) -> Self {
        Self {
            keyspaces: BTreeMap::new(),
            starts: BTreeMap::new(),
            dropped: DroppedKeyspaces::default(),
            peers: Vec::new(),
            addresses_max: addresses_max.get(),
            hand: ShardId(0),
        }
    }

    /// The table of a keyspace, as far as known; one bucket, if nothing is known.
    pub fn image(&self, keyspace: KeyspaceId) -> LinearHashTable {
        self.keyspaces.get(&keyspace).map_or(LinearHashTable::FIRST, |remembered| remembered.image)
    }

    /// How many addresses it knows.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether it knows no address.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// A node that had this bucket reports that it was merged away. The image shrinks, and the next
    /// request asks the bucket that it was split from. The first bucket never goes.
    pub fn gone(&mut self, keyspace: KeyspaceId, number: u64) {
        let Some(file) = LinearHashTable::largest_without(number) else { return };
        let Some(remembered) = self.keyspaces.get_mut(&keyspace) else { return };
        remembered.image = remembered.image.min(file);
        if let Some(shard) = remembered.bucket(number).map(|known| known.shard()) {
            self.forget(shard);
        }
    }

    /// Takes the descriptor that an answer carried.
    fn adjust(&mut self, known: Shared<KnownShard>) -> LearnOutcome {
        let (keyspace, shard) = (known.arc().keyspace(), known.shard());
        if self.dropped.contains(keyspace) {
            return LearnOutcome::Stale;
        }
        if !known.fits() {
            return LearnOutcome::TooLarge;
        }
        let start = known.arc().start();
        let remembered = self.keyspaces.get(&keyspace);
        if let Some(other) = remembered.and_then(|all| all.at_or_below(start.tail()))
            && other.rank() >= known.rank()
            && other.arc().contains(start)
        {
            // Something as new holds the place where it begins: it is known, or no shard any more,
            // or its arc is another by now.
            let (is_same, is_known) = (other.shard() == shard, other.rank() == known.rank());
            if is_known {
                self.raise(&known);
            }
            return match known.hint().filter(|_| is_same).map(|hint| self.hint(shard, hint)) {
                Some(LearnOutcome::Leader) => LearnOutcome::Leader,
                _ if is_known => LearnOutcome::Known,
                _ => LearnOutcome::Stale,
            };
        }
        self.swallow(&known);
        let old = self.address(shard).map(|old| (old.hint(), old.arc().start() == start));
        if old.is_some_and(|(_, is_there)| !is_there) {
            // A shard's start never changes: one of the two reports is wrong.
            self.forget(shard);
        }
        if old.is_none() && self.len() >= self.addresses_max {
            self.evict();
        }
        self.raise(&known);
        let start = start.clone();
        let remembered = self.keyspaces.entry(keyspace).or_default();
        let before = remembered.addresses.insert(start.tail().into(), known);
        if let Some(before) = before.filter(|before| before.shard() != shard) {
            self.starts.remove(&before.shard());
        }
        self.starts.insert(shard, start);
        if let Some((Some(hint), _)) = old {
            self.hint(shard, hint);
        }
        LearnOutcome::New
    }

    /// Lets the image have what a descriptor shows.
    fn raise(&mut self, known: &KnownShard) {
        let remembered = self.keyspaces.entry(known.arc().keyspace()).or_default();
        match Bucket::of(known.arc()) {
            Some(bucket) => {
                remembered.image = remembered.image.max(LinearHashTable::smallest_with(bucket))
            }
            None => remembered.is_cut_elsewhere = true,
        }
    }

    /// Forgets older shards that begin within a new one's arc: they have merged into it.
    fn swallow(&mut self, known: &KnownShard) {
        let keyspace = known.arc().keyspace();
        let Some(remembered) = self.keyspaces.get(&keyspace) else { return };
        let (start, end) = (known.arc().start().tail(), known.arc().end().tail());
        // Up to the end; around the circle, from its beginning to there.
        let above = (Bound::Excluded(start), Bound::Unbounded);
        let upwards = remembered.addresses.range::<[u8], _>(above);
        let upwards = upwards.take_while(|(tail, _)| known.arc().holds(tail));
        let below = (Bound::Unbounded, Bound::Excluded(end));
        let around = remembered.addresses.range::<[u8], _>(below).take_while(|_| end <= start);
        let within = upwards.chain(around).map(|(_, other)| other);
        let older = |other: &&Shared<KnownShard>| {
            other.arc().start() != known.arc().start() && other.rank() < known.rank()
        };
        let gone: Vec<Shared<KnownShard>> = within.filter(older).cloned().collect();
        for other in gone {
            self.forget(other.shard());
            if let (Some(remembered), Some(file)) = (
                self.keyspaces.get_mut(&keyspace),
                Bucket::of(other.arc())
                    .and_then(|bucket| LinearHashTable::largest_without(bucket.number())),
            ) {
                remembered.image = remembered.image.min(file);
            }
        }
    }

    /// The address of a shard.
    fn address(&self, shard: ShardId) -> Option<&Shared<KnownShard>> {
        let start = self.starts.get(&shard)?;
        self.keyspaces.get(&start.keyspace())?.addresses.get(start.tail())
    }

    /// Forgets the address of a shard, and with the last one of a keyspace its image.
    fn forget(&mut self, shard: ShardId) {
        let Some(start) = self.starts.remove(&shard) else { return };
        let keyspace = start.keyspace();
        let remembered = self.keyspaces.get_mut(&keyspace).expect("it has an address");
        remembered.addresses.remove(start.tail());
        if remembered.addresses.is_empty() {
            self.keyspaces.remove(&keyspace);
        }
    }

    /// Makes room for one address.
    fn evict(&mut self) {
        let after = (Bound::Excluded(self.hand), Bound::Unbounded);
        let victim = self.starts.range(after).next().or_else(|| self.starts.iter().next());
        self.hand = *victim.expect("what is full is not empty").0;
        self.forget(self.hand);
    }

    /// Takes who leads a shard.
    fn hint(&mut self, shard: ShardId, hint: Hint) -> LearnOutcome {
        let known = self.starts.get(&shard).and_then(|start| {
            let remembered = self.keyspaces.get_mut(&start.keyspace())?;
            remembered.addresses.get_mut(start.tail())
        });
        match known {
            None => LearnOutcome::Unknown,
            Some(known) if hint.term == known.term() => LearnOutcome::Known,
            Some(known) if hint.term < known.term() => LearnOutcome::Stale,
            Some(known) => {
                Shared::make_mut(known).take_hint(hint);
                LearnOutcome::Leader
            }
        }
    }
}

impl Lookup for LinearHashCache {
    fn next(&self, point: Point<'_>) -> Step<'_> {
        let Some(remembered) = self.keyspaces.get(&point.keyspace) else {
            return Step::Ask(&self.peers);
        };
        let nearest = remembered.at_or_below(point.tail);
        match nearest {
            Some(known) if point.is_in(known.arc()) => Step::Owner(known),
            Some(known) if remembered.is_cut_elsewhere => Step::Closer(known),
            _ => remembered.guess(point).map_or(Step::Ask(&self.peers), Step::Closer),
        }
    }

    fn learn(&mut self, news: Update) -> LearnOutcome {
        match news {
            Update::Shard(known) => self.adjust(known),
            Update::Leader { shard, hint } => self.hint(shard, hint),
            Update::Dropped(keyspace) => {
                if !self.dropped.insert(keyspace, keyspace) {
                    return LearnOutcome::Known;
                }
                let remembered = self.keyspaces.remove(&keyspace).unwrap_or_default();
                for known in remembered.addresses.values() {
                    self.starts.remove(&known.shard());
                }
                LearnOutcome::New
            }
        }
    }

    fn mark_unreachable(&mut self, shard: ShardId, generation: Generation) {
        if self.address(shard).is_some_and(|known| known.generation() == generation) {
            self.forget(shard);
        }
    }

    fn peers(&mut self, nodes: &[NodeId]) {
        self.peers = nodes.to_vec();
    }
}
