//! Descriptors by place and by shard: the set below the full table and the route cache.
//!
//! For each keyspace there are rows sorted by the start of their arcs; the owner of a point is the
//! row with the highest start not above it, the last row if there is none (an arc that wraps
//! around), and in any case only if its arc really holds the point, for there may be gaps:
//!
//! ```text
//!   rows of keyspace 3      [c, f)   [f, m)      [p, c)
//!   point "d" ──────────────►│                     │
//!   point "n"  none: a gap             │            │
//!   point "a"  below all starts: the last row ────►│ wraps around and holds it
//! ```
//!
//! Each row carries the first eight bytes of its start, so that a search mostly compares numbers
//! that lie side by side. Rows are shared pointers: a copy of a table copies no descriptor.
//!
//! Beside the rows stands an index by shard, in **buckets** by a hash of the shard's id, with a
//! **sum** of each bucket: the exclusive or of a number for each (shard, generation, term) in it.
//! Equal sums mean, but for rare chance, equal buckets; this is how tables of two nodes are
//! compared.
//!
//! # Invariants
//! 1. Rows of a keyspace are sorted by start; no two overlap.
//! 2. A shard has one row and one place in the index, both the same pointer.
//! 3. Learning descriptors by falling rank, one of each shard and newer than what there was of it,
//!    leaves a table that depends only on the set of all that were learnt or there before: of each
//!    shard the highest generation counts; of these the highest rank stays, then the highest that
//!    overlaps none that stayed, and so on.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc as Shared;

use keyspace::random::mix;
use keyspace::{Arc, Generation, KeyspaceId, ShardId};

use crate::dropped_keyspaces::DroppedKeyspaces;
use crate::known_shard::{Hint, KnownShard};
use crate::lookup::LearnOutcome;
use crate::point::{Point, prefix};

/// How many buckets the index has; the first byte of a hash selects one.
pub const BUCKETS: usize = 256;

/// Each bucket's sum.
pub type Sums = [u64; BUCKETS];

/// How new something is: a shard, its generation, the term of its hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Which shard.
    pub shard: ShardId,
    /// Of its descriptor.
    pub generation: Generation,
    /// Of its hint; 0 without one.
    pub term: u64,
}

impl Version {
    /// The version of a known shard.
    pub fn of(known: &KnownShard) -> Self {
        Self { shard: known.shard(), generation: known.generation(), term: known.term() }
    }

    /// Its share of a bucket's sum.
    fn number(&self) -> u64 {
        mix(mix(mix(self.shard.0) ^ self.generation.0) ^ self.term)
    }
}

/// The bucket of a shard.
pub fn bucket_of(shard: ShardId) -> u8 {
    (mix(shard.0) >> 56) as u8
}

/// A place in the rows.
#[derive(Clone, Debug)]
struct Row {
    /// Of the start's tail.
    prefix: u64,
    known: Shared<KnownShard>,
}

impl Row {
    fn start(&self) -> &[u8] {
        self.known.arc().start().tail()
    }

    /// Whether its arc starts below `tail`, or, if `or_at`, at it.
    fn starts_below(&self, tail: &[u8], number: u64, or_at: bool) -> bool {
        match self.prefix.cmp(&number) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal if or_at => self.start() <= tail,
            std::cmp::Ordering::Equal => self.start() < tail,
        }
    }
}

/// How many rows start below `tail`, or also at it.
fn rank_of(rows: &[Row], tail: &[u8], or_at: bool) -> usize {
    let number = prefix(tail);
    rows.partition_point(|row| row.starts_below(tail, number, or_at))
}

/// A set of descriptors of which no two contradict each other.
#[derive(Clone, Debug)]
pub struct Table {
    rows: BTreeMap<KeyspaceId, Vec<Row>>,
    shards: BTreeMap<(u8, ShardId), Shared<KnownShard>>,
    sums: Box<Sums>,
    dropped: DroppedKeyspaces,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            shards: BTreeMap::new(),
            sums: Box::new([0; BUCKETS]),
            dropped: DroppedKeyspaces::default(),
        }
    }
}

impl Table {
    /// The shard whose arc holds a point, if it is known.
    #[inline]
    pub fn owner(&self, point: Point<'_>) -> Option<&Shared<KnownShard>> {
        let rows = self.rows.get(&point.keyspace)?;
        let row = match rank_of(rows, point.tail, true) {
            0 => rows.last()?,
            above => &rows[above - 1],
        };
        point.is_in(row.known.arc()).then_some(&row.known)
    }

    /// A shard, if it is known.
    pub fn shard(&self, shard: ShardId) -> Option<&Shared<KnownShard>> {
        self.shards.get(&(bucket_of(shard), shard))
    }

    /// The shards of a keyspace, by rising start of their arcs.
    pub fn keyspace(&self, keyspace: KeyspaceId) -> impl Iterator<Item = &Shared<KnownShard>> {
        self.rows.get(&keyspace).into_iter().flatten().map(|row| &row.known)
    }

    /// All shards, bucket after bucket, by rising id in each.
    pub fn iter(&self) -> impl Iterator<Item = &Shared<KnownShard>> {
        self.shards.values()
    }

    /// The shards of one bucket, by rising id.
    pub fn bucket(&self, bucket: u8) -> impl Iterator<Item = &Shared<KnownShard>> {
        let whole = (bucket, ShardId(0))..=(bucket, ShardId(u64::MAX));
        self.shards.range(whole).map(|(_, known)| known)
    }

    /// How many shards are known.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// The sums of the buckets.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// The dropped keyspaces.
    pub fn dropped(&self) -> &DroppedKeyspaces {
        &self.dropped
    }

    /// Takes a descriptor with its hint, unless something newer contradicts it; what is older and
    /// contradicts it goes, and an older one of its shard in any case. With `entries_max` shards or
    /// more nothing is learnt that would add one.
    ///
    /// Of the same shard the hint is taken by its term, whichever descriptor is newer.
    pub fn learn(&mut self, known: Shared<KnownShard>, entries_max: usize) -> LearnOutcome {
        if self.dropped.contains(known.arc().keyspace()) {
            return LearnOutcome::Stale;
        }
        if !known.fits() {
            return LearnOutcome::TooLarge;
        }
        let old = self.shard(known.shard()).map(|old| (old.generation(), old.hint()));
        if let Some((generation, _)) = old
            && known.generation() <= generation
        {
            let equal = known.generation() == generation;
            return match known.hint().map(|hint| self.hint(known.shard(), hint)) {
                Some(LearnOutcome::Leader) => LearnOutcome::Leader,
                _ if equal => LearnOutcome::Known,
                _ => LearnOutcome::Stale,
            };
        }
        let against = self.overlapping(known.arc());
        let newer =
            |shard: &ShardId| self.shard(*shard).is_some_and(|other| other.rank() > known.rank());
        if against.iter().any(newer) {
            // Neither this one nor an older one of its shard is true any more.
            self.remove(known.shard());
            return LearnOutcome::Stale;
        }
        if old.is_none() && against.is_empty() && self.len() >= entries_max {
            return LearnOutcome::TooLarge;
        }
        against.into_iter().for_each(|shard| drop(self.remove(shard)));
        let shard = known.shard();
        self.remove(shard);
        self.insert(known);
        if let Some((_, Some(hint))) = old {
            self.hint(shard, hint);
        }
        LearnOutcome::New
    }

    /// Learns a shard's leader, if the shard is known and the term is newer.
    pub fn hint(&mut self, shard: ShardId, hint: Hint) -> LearnOutcome {
        match self.shard(shard).map(|known| known.term()) {
            None => LearnOutcome::Unknown,
            Some(term) if hint.term == term => LearnOutcome::Known,
            Some(term) if hint.term < term => LearnOutcome::Stale,
            Some(_) => {
                let mut known = self.remove(shard).expect("just seen");
                Shared::make_mut(&mut known).take_hint(hint);
                self.insert(known);
                LearnOutcome::Leader
            }
        }
    }

    /// Forgets a shard; it may be learnt again.
    pub fn remove(&mut self, shard: ShardId) -> Option<Shared<KnownShard>> {
        let bucket = bucket_of(shard);
        let known = self.shards.remove(&(bucket, shard))?;
        let keyspace = known.arc().keyspace();
        let rows = self.rows.get_mut(&keyspace).expect("a shard has a row");
        let at = rank_of(rows, known.arc().start().tail(), false);
        let row = rows.remove(at);
        assert!(Shared::ptr_eq(&row.known, &known), "shard {shard} has another's row");
        if rows.is_empty() {
            self.rows.remove(&keyspace);
        }
        self.sums[usize::from(bucket)] ^= Version::of(&known).number();
        Some(known)
    }

    /// Forgets the shards of the keyspaces `first..=last` for ever; answers whether any id was new
    /// (see [`DroppedKeyspaces::insert`]).
    pub fn drop_keyspaces(&mut self, first: KeyspaceId, last: KeyspaceId) -> bool {
        let new = self.dropped.insert(first, last);
        if new {
            let rows = self.rows.range(first..=last).flat_map(|(_, rows)| rows);
            let shards: Vec<ShardId> = rows.map(|row| row.known.shard()).collect();
            shards.into_iter().for_each(|shard| drop(self.remove(shard)));
        }
        new
    }

    /// [`Self::drop_keyspaces`] of one, as an answer to somebody who learns it.
    pub fn drop_keyspace(&mut self, keyspace: KeyspaceId) -> LearnOutcome {
        if self.drop_keyspaces(keyspace, keyspace) {
            LearnOutcome::New
        } else {
            LearnOutcome::Known
        }
    }

    /// The shard whose place in the index comes after `place`, the first after the last; `None`
    /// only if the table is empty.
    pub fn after(&self, place: (u8, ShardId)) -> Option<ShardId> {
        let above = (Bound::Excluded(place), Bound::Unbounded);
        let next = self.shards.range(above).next().or_else(|| self.shards.iter().next());
        next.map(|((_, shard), _)| *shard)
    }

    /// Adds a shard that contradicts none.
    fn insert(&mut self, known: Shared<KnownShard>) {
        let (shard, start) = (known.shard(), known.arc().start().tail());
        let rows = self.rows.entry(known.arc().keyspace()).or_default();
        let at = rank_of(rows, start, false);
        let row = Row { prefix: prefix(start), known: known.clone() };
        rows.insert(at, row);
        let before = rows[(at + rows.len() - 1) % rows.len()].known.arc();
        let after = rows[(at + 1) % rows.len()].known.arc();
        let apart = |other: &Arc| rows.len() == 1 || !other.overlaps(known.arc());
        assert!(apart(before) && apart(after), "{:?} overlaps a neighbour", known.arc());
        let bucket = bucket_of(shard);
        self.sums[usize::from(bucket)] ^= Version::of(&known).number();
        let old = self.shards.insert((bucket, shard), known);
        assert!(old.is_none(), "shard {shard} twice");
    }

    /// Whether a shard is known whose arc shares a position with `arc`.
    pub fn has_any_of(&self, arc: &Arc) -> bool {
        !self.overlapping(arc).is_empty()
    }

    /// The shards whose arcs share a position with `arc`.
    fn overlapping(&self, arc: &Arc) -> Vec<ShardId> {
        let Some(rows) = self.rows.get(&arc.keyspace()) else { return Vec::new() };
        let (start, end) = (arc.start().tail(), arc.end().tail());
        let (from, to) = (rank_of(rows, start, false), rank_of(rows, end, false));
        // Those that start in the arc; and the one that reaches into it from before its start.
        let [first, second] =
            if start < end { [from..to, 0..0] } else { [from..rows.len(), 0..to] };
        let inside = first.chain(second).map(|at| rows[at].known.shard());
        let before = self.owner(Point { keyspace: arc.keyspace(), tail: start });
        let before = before.filter(|known| known.arc().start() != arc.start());
        let before = before.map(|known| known.shard());
        let mut shards: Vec<ShardId> = inside.chain(before).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }
}
