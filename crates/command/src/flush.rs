//! Which keys does a flush delete, if shards are split and merged while it is on its way?
//!
//! A node sends FLUSHDB as one *piece* to each shard that it knows of, for that arc of the
//! keyspace. The shard that applies the piece may have another arc by then:
//!
//! ```text
//!   pieces              [a ─────── m)           [m ─────── z)
//!   cut at g            [a ─ g) done, [g ─ m) goes on to the shard that has g
//!   merged              [a ────────────────────────────── z)   does each, and no more
//! ```
//!
//! Another client may have written a key again after its piece was answered. So a flush must not
//! delete a key twice: a piece states where it begins and where it ends, and a shard that has
//! absorbed its neighbour deletes that part alone, key by key. A piece that covers the whole shard
//! is one step, however many keys the shard holds.
//!
//! # Invariants
//! 1. A shard does its part of a piece from the piece's beginning on, without a gap, or nothing. So
//!    the rest begins at one place: at the shard's end, or at the piece's beginning.
//! 2. The pieces of a flush have no key in common, and no part of a piece is done twice.
//!
//! Until the cluster version allows merges, a piece states only its end, as all nodes can read it:
//! shards only become smaller then. Such a piece covers all keys of its shard.
//!
//! # Caveats
//! A node that does not know the new cluster version yet sends such pieces for a moment longer.

use keyspace::{Arc as RingArc, ClusterVersion, Cut, Feature, KeyspaceId};

use crate::Write;

impl Write<'_> {
    /// A piece of a flush, for a tile, as all nodes of a cluster of this version can read it.
    pub fn flush_of(tile: &RingArc, version: ClusterVersion) -> Write<'static> {
        let (from, end) = tile.ends();
        Write::Flush { from: version.allows(Feature::Merges).then_some(from), end }
    }

    /// Whether it is a piece of what is for all shards: it names no key, but where it begins.
    pub fn is_piece(&self) -> bool {
        matches!(self, Write::Flush { .. } | Write::Fence { .. })
    }

    /// Where it begins, of a piece that states it.
    pub fn beginning(&self) -> Option<&Cut> {
        match self {
            Write::Flush { from, .. } => from.as_ref(),
            Write::Fence { from, .. } => Some(from),
            _ => None,
        }
    }

    /// What is left of a piece that states its beginning, if a shard has answered that another one
    /// has the keys from `rest` on.
    pub fn remaining(mut self, rest: &Cut, keyspace: KeyspaceId) -> Self {
        if let Write::Flush { from: Some(from), .. } | Write::Fence { from, .. } = &mut self {
            *from = remaining_of(from.clone(), rest, keyspace);
        }
        self
    }

    /// The version that a cluster must have before this may be in a log.
    pub fn since(&self) -> ClusterVersion {
        match self {
            Write::Flush { from: Some(_), .. } => Feature::Merges.since(),
            Write::Transaction(_) => Feature::Transactions.since(),
            Write::Block { .. } | Write::Fence { .. } => Feature::VolumeWriters.since(),
            _ => ClusterVersion::FIRST,
        }
    }
}

/// What a shard with this arc does of a piece, and where the part begins that is another's.
pub fn part(arc: &RingArc, from: Option<&Cut>, end: &Cut) -> (Option<Write<'static>>, Option<Cut>) {
    let rest = behind(arc, end);
    let all = Write::Flush { from: None, end: Cut::Slot(0) };
    let Some(from) = from else { return (Some(all), rest) };
    let begin = from.position(arc.keyspace());
    if !arc.contains(&begin) {
        return (None, Some(from.clone()));
    }
    let is_to_the_end = rest.is_some() || end.position(arc.keyspace()) == *arc.end();
    let here = match begin == *arc.start() && is_to_the_end {
        true => all,
        false => Write::Flush { from: Some(from.clone()), end: end.clone() },
    };
    (Some(here), rest)
}

/// Where a shard with this arc ends, if a flush reaches farther: it was split since.
fn behind(arc: &RingArc, end: &Cut) -> Option<Cut> {
    let to = end.position(arc.keyspace());
    let is_whatever_it_has = *end == Cut::Slot(0);
    let is_short = !arc.end().is_origin() && (to.is_origin() || arc.end() < &to);
    (is_short && !is_whatever_it_has).then(|| arc.ends().1)
}

/// The rest of a piece that states its beginning, if a shard has answered that another shard has
/// the keys from `rest` on. A shard that has ended, or is frozen, names its own beginning.
pub fn remaining_of(from: Cut, rest: &Cut, keyspace: KeyspaceId) -> Cut {
    match rest.position(keyspace) > from.position(keyspace) {
        true => rest.clone(),
        false => from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: KeyspaceId = KeyspaceId(1);

    fn all() -> Option<Write<'static>> {
        Some(Write::Flush { from: None, end: Cut::Slot(0) })
    }

    fn piece(from: &Cut, end: &Cut) -> Option<Write<'static>> {
        Some(Write::Flush { from: Some(from.clone()), end: end.clone() })
    }

    /// Beginning, middle and end of a keyspace, and two places between, of either placement.
    fn places() -> [[Cut; 5]; 2] {
        let key = |key: &[u8]| Cut::Key(key.into());
        let slots = [0, 2000, 8000, 9000, keyspace::SLOTS].map(Cut::Slot);
        [slots, [Cut::Slot(0), key(b"fig"), key(b"melon"), key(b"pear"), Cut::Slot(16384)]]
    }

    #[test]
    fn a_shard_does_its_part_of_a_piece_from_its_beginning_on() {
        for [begin, low, middle, high, end] in places() {
            let arc =
                |from: &Cut, to: &Cut| RingArc::new(from.position(K), to.position(K)).unwrap();
            let of = |arc: &RingArc, from: &Cut, to: &Cut| part(arc, Some(from), to);
            let whole = arc(&begin, &end);
            assert_eq!(of(&whole, &begin, &end), (all(), None));
            assert_eq!(of(&whole, &begin, &middle), (piece(&begin, &middle), None));
            assert_eq!(of(&whole, &middle, &end), (piece(&middle, &end), None));
            let left = arc(&begin, &middle);
            assert_eq!(of(&left, &begin, &middle), (all(), None));
            assert_eq!(of(&left, &begin, &end), (all(), Some(middle.clone())));
            assert_eq!(of(&left, &low, &high), (piece(&low, &high), Some(middle.clone())));
            assert_eq!(of(&left, &low, &middle), (piece(&low, &middle), None));
            // It is another's altogether.
            assert_eq!(of(&left, &middle, &end), (None, Some(middle.clone())));
            let right = arc(&middle, &end);
            assert_eq!(of(&right, &low, &high), (None, Some(low.clone())));
            assert_eq!(of(&right, &middle, &high), (piece(&middle, &high), None));
            // What is left of it when a shard has turned it away, or done a part.
            assert_eq!(remaining_of(low.clone(), &begin, K), low);
            assert_eq!(remaining_of(low.clone(), &middle, K), middle);
            // Those that say where they end alone.
            assert_eq!(part(&whole, None, &middle), (all(), None));
            assert_eq!(part(&left, None, &end), (all(), Some(middle)));
            assert_eq!(part(&left, None, &Cut::Slot(0)), (all(), None));
        }
    }

    #[test]
    fn flush_pieces_have_old_encoding_before_merges_are_allowed() {
        let tile = RingArc::of_slots(K, 0, 2000);
        let of = |version| Write::flush_of(&tile, version);
        let old = of(ClusterVersion::FIRST);
        assert_eq!(old, Write::Flush { from: None, end: Cut::Slot(2000) });
        assert_eq!(Some(of(ClusterVersion::NEWEST)), piece(&Cut::Slot(0), &Cut::Slot(2000)));
        assert_eq!(
            [old.since(), of(ClusterVersion::NEWEST).since()],
            [ClusterVersion::FIRST, Feature::Merges.since()]
        );
    }
}
