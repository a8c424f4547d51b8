//! From a key to the shard that owns it, on this node: what gateways hold of a keyspace.
//!
//! A keyspace begins with the shards that the catalogue lists, and they change: one is cut in two,
//! and each half is a shard. So a route holds **tiles**: which shard has which slots, as far as
//! this node knows, from its own replicas and from the table of all ([`tiles`]):
//!
//! ```text
//!   the catalogue's list      17 [0, 8192)            18 [8192, 16384)
//!   known: 17, generation 2   17 [0, 4096)
//!   known: 25, generation 2           25 [4096, 8192)
//!   tiles                     17      25              18
//! ```
//!
//! Generations rise with every change, and both halves of a shard have a higher one than the whole
//! had. So of two that claim a slot, the one of the higher generation is right.
//!
//! Tiles may be wrong or old: each shard says itself what it owns (SAFETY G1 check 1), and who asks
//! the wrong one asks again.

use std::sync::Arc;

use keyspace::{
    Generation, HashedKey, KeyHasher, Keyspace, Placement, SLOTS, ShardId, Slot, slot_of,
};
use parking_lot::RwLock;
use storage::engine::Layout;

use crate::state::ShardState;

/// What readers see of a shard.
pub type View = Arc<RwLock<ShardState>>;

/// A stretch of slots: the first, and the first behind it. All of them for an ordered keyspace.
pub type Slots = (Slot, Slot);

/// A keyspace as a gateway uses it: its settings, and its shards in ring order with their views.
/// Replaced as a whole when it changes; whoever holds an old one is sent back by the shards
/// themselves (G1 check 1).
pub struct Route {
    /// Settings, and where it began.
    pub keyspace: Keyspace,
    /// Hashes keys for all keyspaces of the cluster.
    pub hasher: KeyHasher,
    /// The view of each shard, in ring order: its number here is the shard's *place*.
    pub views: Vec<View>,
    shards: Vec<ShardId>,
    /// The first slot of each: rising, from 0.
    firsts: Vec<Slot>,
}

/// What is known of a shard's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which shard.
    pub shard: ShardId,
    /// What it owned …
    pub slots: Slots,
    /// … at this generation.
    pub generation: Generation,
}

impl Claim {
    /// Of a descriptor; `None` if its arc is no stretch of slots.
    pub fn of(descriptor: &keyspace::Descriptor) -> Option<Self> {
        let slots = descriptor.arc.slots()?;
        Some(Self { shard: descriptor.shard, slots, generation: descriptor.generation })
    }
}

impl Route {
    /// With these tiles, which begin with slot 0 and leave no gap, and a view for each.
    pub fn new(keyspace: Keyspace, hasher: KeyHasher, tiles: Vec<(ShardId, Slots, View)>) -> Self {
        let firsts: Vec<Slot> = tiles.iter().map(|(_, (first, _), _)| *first).collect();
        assert_eq!(firsts.first(), Some(&0), "tiles begin with slot 0");
        let shards = tiles.iter().map(|(shard, ..)| *shard).collect();
        let views = tiles.into_iter().map(|(.., view)| view).collect();
        Self { keyspace, hasher, views, shards, firsts }
    }

    /// As the keyspace began, with a view of each shard.
    pub fn begun(keyspace: Keyspace, hasher: KeyHasher, views: Vec<View>) -> Self {
        let tiles = tiles(&keyspace, &[]).into_iter().zip(views);
        let tiles = tiles.map(|((shard, slots), view)| (shard, slots, view)).collect();
        Self::new(keyspace, hasher, tiles)
    }

    /// The key with its slot and hash.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> HashedKey<'a> {
        self.hasher.key(bytes)
    }

    /// The place of a key's shard in `views`.
    #[inline]
    pub fn place(&self, key: &HashedKey<'_>) -> usize {
        match self.keyspace.options.placement {
            Placement::Hashed => self.place_of_slot(key.slot),
            Placement::Ordered => 0,
        }
    }

    /// The place of a key's shard. O(key): the slot is computed.
    #[inline]
    pub fn place_of_key(&self, key: &[u8]) -> usize {
        match self.keyspace.options.placement {
            Placement::Hashed => self.place_of_slot(slot_of(key)),
            Placement::Ordered => 0,
        }
    }

    /// The place of the shard that has a slot.
    #[inline]
    pub fn place_of_slot(&self, slot: Slot) -> usize {
        self.firsts.partition_point(|first| *first <= slot) - 1
    }

    /// The place of a shard, if it is one of them.
    pub fn place_of(&self, shard: ShardId) -> Option<usize> {
        self.shards.iter().position(|id| *id == shard)
    }

    /// The shard at a place.
    pub fn shard(&self, place: usize) -> ShardId {
        self.shards[place]
    }

    /// All shards, in ring order.
    pub fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    /// The slots of the shard at a place.
    pub fn slots(&self, place: usize) -> Slots {
        (self.firsts[place], self.firsts.get(place + 1).copied().unwrap_or(SLOTS))
    }

    /// Whether a shard's state is of just these slots: a question about all keys is asked of states
    /// that together hold each key once.
    pub fn is_tile(&self, place: usize, state: &ShardState) -> bool {
        match state.keys().map(|engine| engine.layout()) {
            Some(Layout::Hashed { first_slot, end_slot }) => {
                (first_slot, end_slot) == self.slots(place)
            }
            _ => true,
        }
    }

    /// All tiles, with their views.
    pub fn tiles(&self) -> impl Iterator<Item = (ShardId, Slots, View)> + '_ {
        let tile =
            |(place, view): (usize, &View)| (self.shards[place], self.slots(place), view.clone());
        self.views.iter().enumerate().map(tile)
    }

    /// Whether both say the same of who has which slots.
    pub fn has_tiles_of(&self, other: &Self) -> bool {
        (&self.shards, &self.firsts) == (&other.shards, &other.firsts)
    }

    /// The same with other settings.
    pub fn altered(&self, keyspace: Keyspace) -> Self {
        Self::new(keyspace, self.hasher, self.tiles().collect())
    }
}

/// Which shard has which slots of a keyspace, from what is known of its shards: of one shard the
/// highest generation counts, of two that claim a slot the higher one. Those that began with the
/// keyspace are known, at its beginning. What nobody claims is taken to be the left neighbour's:
/// it may have been cut off there. Each shard has one tile at most.
pub fn tiles(keyspace: &Keyspace, known: &[Claim]) -> Vec<(ShardId, Slots)> {
    if keyspace.options.placement == Placement::Ordered {
        return vec![(keyspace.shards[0], (0, SLOTS))];
    }
    let began = keyspace.tiles().map(|(shard, arc)| {
        let slots = arc.slots().expect("hashed keyspaces are cut at slots");
        Claim { shard, slots, generation: Generation(0) }
    });
    let mut claims: Vec<Claim> = began.chain(known.iter().copied()).collect();
    claims.sort_by_key(|claim| (claim.shard, claim.generation));
    // Of each shard the last, which is the newest.
    claims.reverse();
    claims.dedup_by_key(|claim| claim.shard);
    claims.sort_by_key(|claim| (claim.generation, claim.shard));
    let mut owners = vec![None; usize::from(SLOTS)];
    for claim in &claims {
        let (first, end) = claim.slots;
        owners[usize::from(first)..usize::from(end)].fill(Some(claim.shard));
    }
    let mut begins: Vec<(ShardId, Slot)> = Vec::new();
    let mut before = None;
    for (slot, owner) in (0..).zip(&owners) {
        let is_new = |shard: &ShardId| begins.iter().all(|(there, _)| there != shard);
        if *owner != before
            && let Some(shard) = owner.filter(is_new)
        {
            begins.push((shard, slot));
        }
        before = *owner;
    }
    let ends = begins.iter().skip(1).map(|(_, first)| *first).chain([SLOTS]);
    let mut tiles: Vec<_> =
        begins.iter().zip(ends).map(|((shard, first), end)| (*shard, (*first, end))).collect();
    // Nothing is known of the lowest slots: whoever is next knows better.
    if let Some((_, (first, _))) = tiles.first_mut() {
        *first = 0;
    }
    tiles
}

#[cfg(test)]
mod tests {
    use keyspace::{Catalogue, KeyspaceOptions};
    use proptest::prelude::*;

    use super::*;

    fn keyspace() -> Keyspace {
        let mut catalogue = Catalogue::default();
        catalogue.create("k", KeyspaceOptions::default()).expect("a good name").clone()
    }

    fn claim(shard: u64, slots: Slots, generation: u64) -> Claim {
        Claim { shard: ShardId(shard), slots, generation: Generation(generation) }
    }

    #[test]
    fn what_is_not_known_is_the_left_neighbours() {
        let began: Vec<_> = tiles(&keyspace(), &[]);
        assert_eq!((began.len(), began[1]), (8, (ShardId(2), (2048, 4096))));
        // The left half has been heard of, not the right one.
        let found = tiles(&keyspace(), &[claim(2, (2048, 3000), 2)]);
        assert_eq!(found, began);
        // The right half has been heard of, not the left one; and then its own right half.
        let found = tiles(&keyspace(), &[claim(9, (3000, 4096), 2)]);
        assert_eq!(found[1..3], [(ShardId(2), (2048, 3000)), (ShardId(9), (3000, 4096))]);
        let found = tiles(&keyspace(), &[claim(9, (3000, 3500), 3)]);
        assert_eq!(found[1..3], [(ShardId(2), (2048, 3000)), (ShardId(9), (3000, 4096))]);
    }

    /// One cut after the other; each shard changes otherwise, too.
    #[derive(Clone, Debug)]
    struct Step {
        place: prop::sample::Index,
        at: prop::sample::Index,
        raise: u64,
    }

    proptest! {
        /// However much of the history is known, in whatever order: there are tiles, and if the
        /// newest of all is known, they are right.
        #[test]
        fn tiles_tile(
            steps in prop::collection::vec(
                (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u64..3)
                    .prop_map(|(place, at, raise)| Step { place, at, raise }),
                0..12,
            ),
            heard in prop::collection::vec(any::<bool>(), 40),
        ) {
            let keyspace = keyspace();
            let mut now: Vec<Claim> = tiles(&keyspace, &[])
                .into_iter()
                .map(|(shard, slots)| claim(shard.0, slots, 1))
                .collect();
            let (mut history, mut next) = (now.clone(), 100);
            for Step { place, at, raise } in &steps {
                let place = place.index(now.len());
                let Claim { shard, slots: (first, end), generation } = now[place];
                if end - first < 2 {
                    continue;
                }
                let cut = first + 1 + at.index(usize::from(end - first - 1)) as Slot;
                let generation = generation.0 + 1 + raise;
                now[place] = claim(shard.0, (first, cut), generation);
                now.insert(place + 1, claim(next, (cut, end), generation));
                history.extend([now[place], now[place + 1]]);
                next += 1;
            }
            let right: Vec<_> = now.iter().map(|claim| (claim.shard, claim.slots)).collect();
            history.reverse();
            prop_assert_eq!(&tiles(&keyspace, &history), &right);
            prop_assert_eq!(&tiles(&keyspace, &now), &right);
            let some: Vec<_> =
                history.iter().zip(&heard).filter(|(_, heard)| **heard).map(|(c, _)| *c).collect();
            let found = tiles(&keyspace, &some);
            prop_assert_eq!(found[0].1.0, 0);
            prop_assert_eq!(found[found.len() - 1].1.1, SLOTS);
            prop_assert!(found.windows(2).all(|pair| pair[0].1.1 == pair[1].1.0));
            let mut shards: Vec<_> = found.iter().map(|(shard, _)| *shard).collect();
            shards.sort_unstable();
            shards.dedup();
            prop_assert_eq!(shards.len(), found.len());
        }
    }
}
