//! The order of places on a circle, seen from a member, and rows that are quick to search.
//!
//! A member's place is the start of its arc, a byte string. Seen from `a` going up, and around at
//! the top, every place comes once; `a` itself is the first and, one lap later, the last:
//!
//! ```text
//!      a ──► b ──► c ──► (top | origin) ──► d ──► a
//!            between(a, b, c)      between(c, d, a)      between(a, x, a) for every x but a
//! ```
//!
//! An [`Entry`] carries the first eight bytes of its place as a number. Numbers nearly always
//! decide. Where they are equal, the full places are compared, so members that differ only after
//! eight bytes are still ordered.

use std::sync::Arc as Shared;

use keyspace::{KeyspaceId, ShardId};

use crate::known_shard::KnownShard;
use crate::point::{Point, prefix};

/// Whether `x` lies strictly inside the way up from `a` to `b`; if these are the same, whether it
/// is another.
pub fn between(a: &[u8], x: &[u8], b: &[u8]) -> bool {
    match a.cmp(b) {
        std::cmp::Ordering::Less => a < x && x < b,
        std::cmp::Ordering::Greater => x > a || x < b,
        std::cmp::Ordering::Equal => x != a,
    }
}

/// As [`between`], or `x` is `b`, and is not `a`.
pub fn up_to(a: &[u8], x: &[u8], b: &[u8]) -> bool {
    between(a, x, b) || (x == b && x != a)
}

/// A member in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of its place.
    prefix: u64,
    known: Shared<KnownShard>,
}

impl Entry {
    /// A row for a member.
    pub fn new(known: Shared<KnownShard>) -> Self {
        Self { prefix: prefix(known.arc().start().tail()), known }
    }

    /// The member.
    pub fn known(&self) -> &Shared<KnownShard> {
        &self.known
    }

    /// The first eight bytes of its place.
    pub fn prefix(&self) -> u64 {
        self.prefix
    }

    /// Which shard it is.
    pub fn shard(&self) -> ShardId {
        self.known.shard()
    }

    /// Its place.
    pub fn place(&self) -> &[u8] {
        self.known.arc().start().tail()
    }

    /// Takes what is newer in what another remembers of the same shard.
    pub(crate) fn refresh(&mut self, news: &Shared<KnownShard>) {
        refresh(&mut self.known, news);
        self.prefix = prefix(self.known.arc().start().tail());
    }
}

/// Takes the newer descriptor and the newer hint of one shard, each by itself; nothing from who
/// [places](may_stand_at) it elsewhere.
pub(crate) fn refresh(known: &mut Shared<KnownShard>, news: &Shared<KnownShard>) {
    if !may_be_at(known, news) {
        return;
    }
    let older = known.hint();
    let mut hint = news.hint();
    if known.generation() < news.generation() {
        *known = news.clone();
        hint = older;
    }
    if let Some(hint) = hint.filter(|hint| hint.term > known.term()) {
        Shared::make_mut(known).take_hint(hint);
    }
}

/// Whether news of a shard has it where it was: a shard keeps its place for life, until it owns the
/// whole circle, and that begins at the origin. Who says otherwise is confused.
pub(crate) fn may_be_at(known: &KnownShard, news: &KnownShard) -> bool {
    known.arc().start() == news.arc().start() || news.arc().is_whole()
}

/// Whether one member is gone, by what a later descriptor of another says: that one has its place.
pub(crate) fn is_superseded_by(known: &KnownShard, other: &KnownShard) -> bool {
    let later = known.shard() != other.shard() && other.rank() > known.rank();
    later && other.arc().holds(known.arc().start().tail())
}

/// A point as it is seen from a member: how far up, in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointView<'a> {
    /// The place it is seen from, and its number.
    from: (&'a [u8], u64),
    tail: &'a [u8],
    distance: u64,
}

impl<'a> PointView<'a> {
    pub fn new(from: &'a Entry, tail: &'a [u8]) -> Self {
        let distance = prefix(tail).wrapping_sub(from.prefix);
        Self { from: (from.place(), from.prefix), tail, distance }
    }

    /// Whether an entry comes after where it is seen from, and not after the point.
    pub fn reaches(&self, entry: &Entry) -> bool {
        let distance = entry.prefix.wrapping_sub(self.from.1);
        if distance != self.distance && distance != 0 && self.distance != 0 {
            return distance < self.distance;
        }
        up_to(self.from.0, entry.place(), self.tail)
    }
}

/// All members of a ring by rising place: what tables of a stable ring are made of at once.
#[derive(Clone, Debug)]
pub struct Members {
    keyspace: KeyspaceId,
    rows: Vec<Entry>,
}

impl Members {
    /// # Panics
    /// If there is none, if they are of several keyspaces, or if two have one place.
    pub fn new(members: impl IntoIterator<Item = Shared<KnownShard>>) -> Self {
        let mut rows: Vec<Entry> = members.into_iter().map(Entry::new).collect();
        rows.sort_by(|a, b| a.place().cmp(b.place()));
        let keyspace = rows.first().expect("a ring has a member").known.arc().keyspace();
        assert!(rows.iter().all(|row| row.known.arc().keyspace() == keyspace), "two circles");
        assert!(rows.windows(2).all(|pair| pair[0].place() < pair[1].place()), "one place twice");
        Self { keyspace, rows }
    }

    /// How many there are; never 0.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The member that is `steps` after the one at `at`.
    pub fn after(&self, at: usize, steps: usize) -> &Entry {
        &self.rows[(at + steps) % self.rows.len()]
    }

    /// The first member whose prefix is at or after a number, going around.
    pub fn first_from(&self, number: u64) -> &Entry {
        let index = self.rows.partition_point(|row| row.prefix < number);
        &self.rows[index % self.rows.len()]
    }

    /// The index of the member at or before a point, going around: in a stable ring its owner.
    pub fn owner(&self, point: Point<'_>) -> usize {
        assert_eq!(point.keyspace, self.keyspace, "a point of another circle");
        let below = self.rows.partition_point(|row| row.place() <= point.tail);
        (below + self.rows.len() - 1) % self.rows.len()
    }

    /// All of them.
    pub fn rows(&self) -> &[Entry] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{Arc, Descriptor, Generation, Position};

    use super::*;

    /// The model: a small circle, walked step by step.
    #[test]
    fn between_against_walking() {
        let places: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"b", b"\xff"];
        for (a, x, b) in (0..216).map(|n| (n % 6, n / 6 % 6, n / 36)) {
            let steps = |to: usize| (to + 6 - a) % 6;
            let lap = |to: usize| if to == a { 6 } else { steps(to) };
            let (far, end) = (steps(x), lap(b));
            assert_eq!(between(places[a], places[x], places[b]), far > 0 && far < end);
            assert_eq!(up_to(places[a], places[x], places[b]), far > 0 && far <= end);
        }
    }

    #[test]
    fn what_is_reached_is_what_lies_on_the_way_even_with_equal_prefixes() {
        // Many share their first eight bytes.
        let long = |byte: u8| [&[7; 8][..], &[byte]].concat();
        let places = [vec![], vec![7; 8], long(1), long(2), vec![7; 7], vec![9], vec![200, 1]];
        let entry = |place: &Vec<u8>| {
            let keyspace = KeyspaceId(1);
            let arc = Arc::new(Position::at(keyspace, place), Position::at(keyspace, b"~"));
            let (shard, generation) = (ShardId(1), Generation(1));
            let arc = arc.expect("one circle");
            let descriptor =
                Descriptor { shard, arc, replicas: Vec::new(), generation, leader: None };
            Entry::new(Shared::new(KnownShard::new(descriptor, 0)))
        };
        for (from, point) in places.iter().flat_map(|a| places.iter().map(move |b| (a, b))) {
            let here = entry(from);
            let sight = PointView::new(&here, point);
            for at in &places {
                assert_eq!(sight.reaches(&entry(at)), up_to(from, at, point));
            }
        }
    }
}
