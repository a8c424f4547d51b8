//! Tiles that a keyspace's route no longer has. Either another shard has absorbed them. Or their
//! places are unknown for a while, because the newest descriptors of their neighbours overlap with
//! the older one. Only a table that names another owner of a tile's first place proves that it was
//! absorbed.

use std::collections::BTreeMap;

use keyspace::{Generation, KeyspaceId, Position, ShardId};

use crate::routing::route::Route;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct MergedTiles {
    tiles: BTreeMap<ShardId, Tile>,
}

#[derive(Debug)]
struct Tile {
    /// Where it began.
    start: Position,
    /// Up to which generation its place's owners were told to supersede it.
    reported: Generation,
}

impl MergedTiles {
    /// The keyspace of a tile that its route no longer has.
    pub fn keyspace_of(&self, shard: ShardId) -> Option<KeyspaceId> {
        self.tiles.get(&shard).map(|tile| tile.start.keyspace())
    }

    /// Takes the new tiles of a keyspace. Returns the tiles that another shard now owns, with that
    /// shard and its generation. `owner` finds the shard that owns a tile's first place, if it is
    /// known and the tile's shard has no replica here. Each tile is named once for each generation.
    pub fn take_new_tiles(
        &mut self,
        old: &Route,
        new: &Route,
        owner: impl Fn(ShardId, &Position) -> Option<(ShardId, Generation)>,
    ) -> Vec<(ShardId, ShardId, Generation)> {
        let is_gone = |place: &usize| new.place_of(old.shard(*place)).is_none();
        for place in (0..old.shards().len()).filter(is_gone) {
            let (start, reported) = (old.arc(place).start().clone(), Generation(0));
            self.tiles.entry(old.shard(place)).or_insert(Tile { start, reported });
        }
        new.shards().iter().for_each(|shard| drop(self.tiles.remove(shard)));
        let of_keyspace = self.tiles.iter_mut();
        let of_keyspace = of_keyspace.filter(|(_, tile)| tile.start.keyspace() == new.keyspace.id);
        let superseded = of_keyspace.filter_map(|(shard, tile)| {
            let (by, generation) = owner(*shard, &tile.start).filter(|(by, _)| by != shard)?;
            let is_news = std::mem::replace(&mut tile.reported, generation) < generation;
            is_news.then_some((*shard, by, generation))
        });
        superseded.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyspace::{Arc as RingArc, Catalogue, KeyHasher, Keyspace, KeyspaceOptions};
    use parking_lot::RwLock;

    use super::*;
    use crate::reshape::bootstrap;
    use crate::routing::route::{ArcClaim, tiles};

    const SECOND: ShardId = ShardId(100);

    fn keyspace() -> Keyspace {
        let options = KeyspaceOptions::default();
        Catalogue::default().create("k", options).expect("a good name").clone()
    }

    /// The route in which the first shard has been cut, and what was cut off may have been, too.
    fn route(cuts: &[(u64, u16, u16, u64)]) -> Route {
        let (keyspace, hasher) = (keyspace(), KeyHasher::new([1; 16]));
        let claim = |&(shard, first, end, generation): &(u64, u16, u16, u64)| ArcClaim {
            shard: ShardId(shard),
            arc: RingArc::of_slots(keyspace.id, first, end),
            generation: Generation(generation),
        };
        let first = keyspace.shards[0].0;
        let mut claims: Vec<ArcClaim> = cuts.iter().map(claim).collect();
        claims.push(claim(&(first, 0, 10, 2)));
        let view = Arc::new(RwLock::new(bootstrap::first_state(&keyspace, 0, hasher)));
        let tiles = tiles(&keyspace, &claims).into_iter();
        let tiles = tiles.map(|(shard, arc)| (shard, arc, view.clone())).collect();
        Route::new(keyspace, hasher, tiles)
    }

    /// SAFETY G10: a client told that another shard has it would repeat there what may have been
    /// done already.
    #[test]
    fn tile_without_known_owner_is_not_superseded() {
        let whole = route(&[(SECOND.0, 10, 30, 2)]);
        // The third is known, and how much of the second was cut off for it is not yet.
        let hole = route(&[(101, 20, 30, 3)]);
        let cut = route(&[(SECOND.0, 10, 20, 3), (101, 20, 30, 3)]);
        assert!(whole.place_of(SECOND).is_some() && hole.place_of(SECOND).is_none());
        let mut gone = MergedTiles::default();
        assert_eq!(gone.take_new_tiles(&whole, &hole, |_, _| None), []);
        assert_eq!(gone.keyspace_of(SECOND), Some(whole.keyspace.id));
        assert_eq!(gone.take_new_tiles(&hole, &cut, |_, _| None), []);
        assert_eq!(gone.keyspace_of(SECOND), None);
    }

    #[test]
    fn absorbed_tile_is_superseded_once_owner_is_known() {
        let whole = route(&[(SECOND.0, 10, 30, 2)]);
        let hole = route(&[(101, 20, 30, 3)]);
        let mut gone = MergedTiles::default();
        assert_eq!(gone.take_new_tiles(&whole, &hole, |_, _| None), []);
        let by = |generation| {
            let by = (whole.shard(0), Generation(generation));
            move |shard, _: &Position| (shard == SECOND).then_some(by)
        };
        let reported = |generation| vec![(SECOND, whole.shard(0), Generation(generation))];
        assert_eq!(gone.take_new_tiles(&hole, &hole, by(3)), reported(3));
        assert_eq!(gone.take_new_tiles(&hole, &hole, by(3)), [], "once");
        assert_eq!(gone.take_new_tiles(&hole, &hole, by(4)), reported(4));
    }
}
