//! From a key to the shard that owns it, on this node: what gateways hold of a keyspace.
//!
//! A keyspace begins with the shards that the catalogue lists, and splits change them. So a route
//! holds **tiles**: which shard owns which slots or keys, as far as this node knows, from its own
//! replicas and from the full table ([`tiles`]):
//!
//! ```text
//!   the catalogue's list      17 [0, 8192)            18 [8192, 16384)
//!   known: 17, generation 2   17 [0, 4096)
//!   known: 25, generation 2           25 [4096, 8192)
//!   tiles                     17      25              18
//! ```
//!
//! Generations rise with every change, and both halves of a split have a higher one than the shard
//! before. So of two shards that claim a place, the one of the higher generation is right.
//!
//! Tiles may be wrong or old. Each shard checks what it owns (SAFETY G1 check 1), and a request to
//! the wrong one looks up the owner again.

use std::sync::Arc;

use keyspace::linear_hash::{bit_reversed_hash, number_at};
use keyspace::{
    Arc as RingArc, Cut, Generation, HashedKey, KeyHasher, Keyspace, Placement, Position, SLOTS,
    ShardId, Slot, slot_of,
};
use parking_lot::RwLock;
use txn::{ShardMap, Witnesses};

use crate::replica::state::ShardState;

/// What readers see of a shard.
pub type View = Arc<RwLock<ShardState>>;

/// A range of slots: the first, and the first after it.
pub type Slots = (Slot, Slot);

/// A keyspace as gateways use it: its settings, and its shards in ring order with their views.
/// Every change replaces it as a whole. A caller with an old route is sent back by the shards
/// themselves (G1 check 1).
pub struct Route {
    /// Settings, and where it began.
    pub keyspace: Keyspace,
    /// Hashes keys for all keyspaces of the cluster.
    pub hasher: KeyHasher,
    /// The view of each shard, in ring order: its number here is the shard's *place*.
    pub views: Vec<View>,
    shards: Vec<ShardId>,
    /// The part of each: side by side, from the origin on.
    arcs: Vec<RingArc>,
    /// The first slot of each: rising, from 0. 0 alone, if the keyspace is not hashed.
    firsts: Vec<Slot>,
    /// A key in each part.
    witnesses: Witnesses,
}

/// What is known of a shard's arc in its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArcClaim {
    /// Which shard.
    pub shard: ShardId,
    /// What it owned …
    pub arc: RingArc,
    /// … at this generation.
    pub generation: Generation,
}

impl ArcClaim {
    /// Of a descriptor.
    pub fn of(descriptor: &keyspace::Descriptor) -> Self {
        let (shard, generation) = (descriptor.shard, descriptor.generation);
        Self { shard, arc: descriptor.arc.clone(), generation }
    }

    /// Whether shards of the keyspace may have such an arc.
    fn may_be_of(&self, keyspace: &Keyspace) -> bool {
        let arc = &self.arc;
        let is_straight = arc.end().is_origin() || arc.start() < arc.end();
        let is_of_placement = match keyspace.options.placement {
            Placement::Hashed => arc.slots().is_some(),
            Placement::Ordered => true,
            Placement::LinearHash => {
                let ends = [arc.start(), arc.end()];
                ends.iter().all(|end| number_at(end.tail()).is_some())
            }
        };
        arc.keyspace() == keyspace.id && is_straight && is_of_placement
    }
}

impl Route {
    /// With these tiles, which begin at the origin and leave no gap, and a view for each.
    pub fn new(
        keyspace: Keyspace,
        hasher: KeyHasher,
        tiles: Vec<(ShardId, RingArc, View)>,
    ) -> Self {
        let first_of = |(_, arc, _): &(_, RingArc, _)| {
            let (first, _) = arc.slots().expect("hashed keyspaces are cut at slots");
            first
        };
        let firsts: Vec<Slot> = match keyspace.options.placement {
            Placement::Hashed => tiles.iter().map(first_of).collect(),
            Placement::Ordered | Placement::LinearHash => vec![0],
        };
        let begins = tiles.first().map(|(_, arc, _)| arc.start().is_origin());
        assert_eq!(begins, Some(true), "tiles begin at the origin");
        let shards = tiles.iter().map(|(shard, ..)| *shard).collect();
        let arcs = tiles.iter().map(|(_, arc, _)| arc.clone()).collect();
        let views = tiles.into_iter().map(|(.., view)| view).collect();
        let witnesses = Witnesses::default();
        Self { keyspace, hasher, views, shards, arcs, firsts, witnesses }
    }

    /// As the keyspace began, with a view of each shard.
    pub fn begun(keyspace: Keyspace, hasher: KeyHasher, views: Vec<View>) -> Self {
        let tiles = tiles(&keyspace, &[]).into_iter().zip(views);
        let tiles = tiles.map(|((shard, arc), view)| (shard, arc, view)).collect();
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
            Placement::Ordered => self.place_at(key.bytes),
            Placement::LinearHash => self.place_of_number(bit_reversed_hash(key.bytes)),
        }
    }

    /// The place of a key's shard. O(key): the slot is computed.
    #[inline]
    pub fn place_of_key(&self, key: &[u8]) -> usize {
        match self.keyspace.options.placement {
            Placement::Hashed => self.place_of_slot(slot_of(key)),
            Placement::Ordered => self.place_at(key),
            Placement::LinearHash => self.place_of_number(bit_reversed_hash(key)),
        }
    }

    /// The place of the shard that has a position, without the keyspace's id: of an ordered
    /// keyspace, that is a key.
    #[inline]
    pub fn place_at(&self, tail: &[u8]) -> usize {
        self.arcs.partition_point(|arc| arc.start().tail() <= tail) - 1
    }

    /// The place of the shard that has a number of linear hashing.
    #[inline]
    pub fn place_of_number(&self, number: u64) -> usize {
        self.place_at(&number.to_be_bytes())
    }

    /// The place of the shard that has a place for cuts of this keyspace.
    pub fn place_of_cut(&self, cut: &Cut) -> usize {
        match cut {
            Cut::Slot(slot) => self.place_of_slot(*slot),
            Cut::Key(key) => self.place_at(key),
            Cut::Number(number) => self.place_of_number(*number),
        }
    }

    /// The place of the shard that has a slot; 0 if the keyspace is not hashed, and has none.
    #[inline]
    pub fn place_of_slot(&self, slot: Slot) -> usize {
        self.firsts.partition_point(|first| *first <= slot) - 1
    }

    /// The index of a shard in this route, if it has one.
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

    /// The slots of the shard at a place; all of them, if the keyspace is not hashed.
    pub fn slots(&self, place: usize) -> Slots {
        match self.keyspace.options.placement {
            Placement::Hashed => {
                (self.firsts[place], self.firsts.get(place + 1).copied().unwrap_or(SLOTS))
            }
            Placement::Ordered | Placement::LinearHash => (0, SLOTS),
        }
    }

    /// The numbers of the shard at a place, of linear hashing: the first, and the first behind it,
    /// which is 0 of the last shard.
    pub fn numbers(&self, place: usize) -> (u64, u64) {
        let number = |end: &Position| number_at(end.tail()).unwrap_or(0);
        let arc = self.arc(place);
        (number(arc.start()), number(arc.end()))
    }

    /// What the shard at a place has.
    pub fn arc(&self, place: usize) -> &RingArc {
        &self.arcs[place]
    }

    /// Whether a shard's state covers exactly this tile. A scan needs states that together hold
    /// each key once.
    pub fn is_tile(&self, place: usize, state: &ShardState) -> bool {
        !state.merged_away && state.descriptor.arc == self.arcs[place]
    }

    /// All tiles, with their views.
    pub fn tiles(&self) -> impl Iterator<Item = (ShardId, RingArc, View)> + '_ {
        let tile = |(place, view): (usize, &View)| {
            (self.shards[place], self.arcs[place].clone(), view.clone())
        };
        self.views.iter().enumerate().map(tile)
    }

    /// Whether both give the same arcs to the same shards.
    pub fn has_tiles_of(&self, other: &Self) -> bool {
        (&self.shards, &self.arcs) == (&other.shards, &other.arcs)
    }

    /// The same with other settings.
    pub fn altered(&self, keyspace: Keyspace) -> Self {
        Self::new(keyspace, self.hasher, self.tiles().collect())
    }
}

impl ShardMap for Route {
    fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    fn place_of_key(&self, key: &[u8]) -> usize {
        self.place_of_key(key)
    }

    fn arc(&self, place: usize) -> &RingArc {
        &self.arcs[place]
    }

    fn witnesses(&self) -> &[Box<[u8]>] {
        self.witnesses.of(&self.arcs)
    }
}

/// The tiles of a keyspace, from what is known of its shards. Of one shard the highest generation
/// counts; of two that claim a place the higher one. The first shards of the keyspace are known, as
/// at its creation. An unclaimed place goes to the left neighbour, of which it may have been split
/// off. Each shard has one tile at most.
pub fn tiles(keyspace: &Keyspace, known: &[ArcClaim]) -> Vec<(ShardId, RingArc)> {
    let began =
        keyspace.tiles().map(|(shard, arc)| ArcClaim { shard, arc, generation: Generation(0) });
    let known = known.iter().filter(|claim| claim.may_be_of(keyspace)).cloned();
    let mut claims: Vec<ArcClaim> = began.chain(known).collect();
    claims.sort_by_key(|claim| (claim.shard, claim.generation));
    // Of each shard the last, which is the newest.
    claims.reverse();
    claims.dedup_by_key(|claim| claim.shard);
    claims.sort_by_key(|claim| (claim.generation, claim.shard));
    // Between two points next to each other all has one owner. The first is the origin.
    let ends = |claim: &'_ ArcClaim| [claim.arc.start().clone(), claim.arc.end().clone()];
    let mut points: Vec<Position> = claims.iter().flat_map(ends).collect();
    points.push(Position::origin(keyspace.id));
    points.sort_unstable();
    points.dedup();
    let mut owners = vec![None; points.len()];
    for claim in &claims {
        let place = |point| points.binary_search(point).expect("the point is in the list");
        let first = place(claim.arc.start());
        let end = if claim.arc.end().is_origin() { points.len() } else { place(claim.arc.end()) };
        owners[first..end].fill(Some(claim.shard));
    }
    let mut begins: Vec<(ShardId, usize)> = Vec::new();
    let mut before = None;
    for (place, owner) in owners.iter().enumerate() {
        let is_new = |shard: &ShardId| begins.iter().all(|(there, _)| there != shard);
        if *owner != before
            && let Some(shard) = owner.filter(is_new)
        {
            begins.push((shard, place));
        }
        before = *owner;
    }
    // Nothing is known of the lowest places: the next shard takes them, and knows better.
    if let Some((_, first)) = begins.first_mut() {
        *first = 0;
    }
    let ends = begins.iter().skip(1).map(|(_, first)| *first).chain([0]);
    let tile = |((shard, first), end): (&(ShardId, usize), usize)| {
        let arc = RingArc::new(points[*first].clone(), points[end].clone());
        (*shard, arc.expect("both are of this keyspace"))
    };
    begins.iter().zip(ends).map(tile).collect()
}

#[cfg(test)]
mod tests {
    use keyspace::{Catalogue, ClusterVersion, KeyspaceOptions};
    use proptest::prelude::*;

    use super::*;
    use crate::reshape::bootstrap;

    fn keyspace() -> Keyspace {
        keyspace_of(Placement::Hashed)
    }

    fn keyspace_of(placement: Placement) -> Keyspace {
        let mut catalogue = Catalogue::default();
        catalogue.raise_version(ClusterVersion::NEWEST).expect("the version is the next one");
        let options = KeyspaceOptions { placement, ..Default::default() };
        catalogue.create("k", options).expect("a good name").clone()
    }

    fn claim(shard: u64, (first, end): Slots, generation: u64) -> ArcClaim {
        let arc = RingArc::of_slots(keyspace().id, first, end);
        ArcClaim { shard: ShardId(shard), arc, generation: Generation(generation) }
    }

    /// Tiles of the hashed keyspace, by their slots.
    fn tiles_of(known: &[ArcClaim]) -> Vec<(ShardId, Slots)> {
        let slots = |arc: RingArc| arc.slots().expect("the keyspace is hashed");
        tiles(&keyspace(), known).into_iter().map(|(shard, arc)| (shard, slots(arc))).collect()
    }

    #[test]
    fn unknown_places_belong_to_left_neighbour() {
        let began = tiles_of(&[]);
        assert_eq!((began.len(), began[1]), (8, (ShardId(2), (2048, 4096))));
        // The left half has been heard of, not the right one.
        let found = tiles_of(&[claim(2, (2048, 3000), 2)]);
        assert_eq!(found, began);
        // The right half has been heard of, not the left one; and then its own right half.
        let found = tiles_of(&[claim(9, (3000, 4096), 2)]);
        assert_eq!(found[1..3], [(ShardId(2), (2048, 3000)), (ShardId(9), (3000, 4096))]);
        let found = tiles_of(&[claim(9, (3000, 3500), 3)]);
        assert_eq!(found[1..3], [(ShardId(2), (2048, 3000)), (ShardId(9), (3000, 4096))]);
    }

    /// A transaction that flushes asks for them in each attempt.
    #[test]
    fn key_of_each_arc_is_searched_for_once() {
        for placement in [Placement::Hashed, Placement::Ordered, Placement::LinearHash] {
            let keyspace = keyspace_of(placement);
            let hasher = KeyHasher::new([1; 16]);
            let view =
                |place| Arc::new(RwLock::new(bootstrap::first_state(&keyspace, place, hasher)));
            let views = (0..keyspace.shards.len()).map(view).collect();
            let route = Route::begun(keyspace, hasher, views);
            let first = route.witnesses();
            assert_eq!(first.len(), route.views.len());
            for (place, key) in first.iter().enumerate() {
                assert_eq!(route.place_of_key(key), place, "{placement:?}");
            }
            assert!(std::ptr::eq(first, route.witnesses()), "the same ones");
        }
    }

    /// One cut after the other; each shard changes otherwise, too.
    #[derive(Clone, Debug)]
    struct Step {
        place: prop::sample::Index,
        at: u16,
        raise: u64,
    }

    proptest! {
        /// However much of the history is known, in whatever order: there are tiles, and if the
        /// newest of all is known, they are right.
        #[test]
        fn tiles_cover_circle_whatever_history_is_known(
            placement in prop_oneof![
                Just(Placement::Hashed),
                Just(Placement::Ordered),
                Just(Placement::LinearHash),
            ],
            steps in prop::collection::vec(
                (any::<prop::sample::Index>(), any::<u16>(), 0u64..3)
                    .prop_map(|(place, at, raise)| Step { place, at, raise }),
                0..12,
            ),
            heard in prop::collection::vec(any::<bool>(), 40),
        ) {
            let keyspace = keyspace_of(placement);
            let mut now: Vec<ArcClaim> = tiles(&keyspace, &[])
                .into_iter()
                .map(|(shard, arc)| ArcClaim { shard, arc, generation: Generation(1) })
                .collect();
            let (mut history, mut next) = (now.clone(), 100);
            for Step { place, at, raise } in &steps {
                let place = place.index(now.len());
                let ArcClaim { shard, arc, generation } = now[place].clone();
                let tail = match placement {
                    Placement::Hashed => (at % SLOTS).to_be_bytes().to_vec(),
                    Placement::Ordered => at.to_string().into_bytes(),
                    Placement::LinearHash => (u64::from(*at) << 48).to_be_bytes().to_vec(),
                };
                let at = Cut::at(placement, &tail).map(|cut| cut.position(keyspace.id));
                let Some((left, right)) = at.and_then(|at| arc.split(&at)) else { continue };
                let generation = Generation(generation.0 + 1 + raise);
                now[place] = ArcClaim { shard, arc: left, generation };
                now.insert(place + 1, ArcClaim { shard: ShardId(next), arc: right, generation });
                history.extend([now[place].clone(), now[place + 1].clone()]);
                next += 1;
            }
            let right: Vec<_> = now.iter().map(|claim| (claim.shard, claim.arc.clone())).collect();
            history.reverse();
            prop_assert_eq!(&tiles(&keyspace, &history), &right);
            prop_assert_eq!(&tiles(&keyspace, &now), &right);
            let some: Vec<_> = history
                .iter()
                .zip(&heard)
                .filter(|(_, heard)| **heard)
                .map(|(claim, _)| claim.clone())
                .collect();
            let found = tiles(&keyspace, &some);
            prop_assert!(found[0].1.start().is_origin());
            prop_assert!(found[found.len() - 1].1.end().is_origin());
            prop_assert!(found.windows(2).all(|pair| pair[0].1.is_before(&pair[1].1)));
            let mut shards: Vec<_> = found.iter().map(|(shard, _)| *shard).collect();
            shards.sort_unstable();
            shards.dedup();
            prop_assert_eq!(shards.len(), found.len());
        }
    }
}
