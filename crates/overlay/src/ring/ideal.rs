//! Checks of a ring, for tests and simulations that see all tables at once.
//!
//! [`ideal`]: is each list and each predecessor exactly right? That holds after enough ticks
//! without change. [`invariant`]: is it still one ring that can become right again? That must hold
//! at every moment (Zave 2017), as long as failures keep to the assumption ([`may_fail`]).
//!
//! ```text
//!   principal: a live member that no list skips        extended list of m: m, then its list
//!      m: [a, c, d]   skips b (between a and c): b is none, until m learns of it
//! ```
//!
//! | of | must hold |
//! |---|---|
//! | I1 | every list has a live member |
//! | I2 | there are at least r + 1 principals |
//! | order | each list rises strictly, seen from its owner |
//! | one ring | from any member the first live successors lead into one circle, which goes around once |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use keyspace::ShardId;

use super::Ring;
use super::place::{Entry, between};

/// An error in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// I1: no member of its list is alive.
    Lost(ShardId),
    /// I2: the number of principals, and the number needed.
    FewPrincipals(usize, usize),
    /// Its list does not rise.
    Unordered(ShardId),
    /// It does not lead to the ring of the others, or that ring goes around more than once.
    Apart(ShardId),
    /// Its list is not that of an ideal ring.
    Successors(ShardId),
    /// Its predecessor is not that of an ideal ring.
    Predecessor(ShardId),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Lost(shard) => write!(f, "shard {shard}: nobody in its list is alive"),
            Flaw::FewPrincipals(count, needed) => {
                write!(f, "{count} principals, {needed} are needed")
            }
            Flaw::Unordered(shard) => write!(f, "shard {shard}: its list does not rise"),
            Flaw::Apart(shard) => write!(f, "shard {shard}: not on one ring with the others"),
            Flaw::Successors(shard) => write!(f, "shard {shard}: its list is not the ideal one"),
            Flaw::Predecessor(shard) => write!(f, "shard {shard}: another stands before it"),
        }
    }
}

/// The live members by rising place.
struct Live<'a> {
    rings: Vec<&'a Ring>,
    index: BTreeMap<ShardId, usize>,
}

impl<'a> Live<'a> {
    fn new(rings: impl IntoIterator<Item = &'a Ring>) -> Self {
        let mut rings: Vec<&Ring> = rings.into_iter().collect();
        rings.sort_by(|a, b| a.row().place().cmp(b.row().place()));
        let index = rings.iter().enumerate().map(|(at, ring)| (ring.me().shard(), at));
        Self { index: index.collect(), rings }
    }

    fn first_live(&self, ring: &Ring) -> Option<usize> {
        ring.successors().iter().find_map(|entry| self.index.get(&entry.shard()).copied())
    }

    /// Whether everybody lists another who is alive without this one.
    fn list_live_members(&self, without: ShardId) -> bool {
        let keeps_one = |ring: &Ring| {
            let mut others = ring.successors().iter().map(Entry::shard);
            let me = ring.me().shard();
            me == without
                || others
                    .any(|shard| ![me, without].contains(&shard) && self.index.contains_key(&shard))
        };
        self.rings.len() == 2 || self.rings.iter().all(|ring| keeps_one(ring))
    }

    /// Those that no list skips.
    fn principals(&self) -> BTreeSet<ShardId> {
        let mut skipped = vec![false; self.rings.len()];
        let count = self.rings.len();
        let place = |at: usize| self.rings[at % count].row().place();
        for ring in &self.rings {
            let extended = || [ring.row()].into_iter().chain(ring.successors());
            for (a, b) in extended().zip(ring.successors()) {
                // From the first that is after `a` on, as long as they are before `b`.
                let first = self.rings.partition_point(|other| other.row().place() <= a.place());
                let inside = (first..first + count)
                    .take_while(|at| between(a.place(), place(*at), b.place()));
                inside.for_each(|at| skipped[at % count] = true);
            }
        }
        let kept = self.rings.iter().zip(skipped).filter(|(_, skipped)| !skipped);
        kept.map(|(ring, _)| ring.me().shard()).collect()
    }
}

/// Whether every list and every predecessor is the right one.
///
/// # Errors
/// The first [`Flaw`] by rising place.
pub fn ideal<'a>(rings: impl IntoIterator<Item = &'a Ring>) -> Result<(), Flaw> {
    let live = Live::new(rings);
    let count = live.rings.len();
    for (at, ring) in live.rings.iter().enumerate() {
        let shard = ring.me().shard();
        let listed = ring.successors().iter().map(Entry::shard);
        let right = (1..=ring.length().min(count))
            .map(|steps| live.rings[(at + steps) % count].me().shard());
        if !listed.eq(right) {
            return Err(Flaw::Successors(shard));
        }
        let before = live.rings[(at + count - 1) % count].me().shard();
        let known = ring.predecessor().map(|known| known.shard());
        if known != Some(before).filter(|_| count > 1) {
            return Err(Flaw::Predecessor(shard));
        }
    }
    Ok(())
}

/// Whether the ring can become ideal again: I1, I2, order, one ring. It takes a ring that has had
/// r + 1 members; a smaller one has no principals to spare.
///
/// # Errors
/// The first [`Flaw`] found.
pub fn invariant<'a>(rings: impl IntoIterator<Item = &'a Ring>) -> Result<(), Flaw> {
    let live = Live::new(rings);
    for ring in &live.rings {
        let shard = ring.me().shard();
        if live.first_live(ring).is_none() {
            return Err(Flaw::Lost(shard));
        }
        let me = ring.row().place();
        let mut last = me;
        for (at, entry) in ring.successors().iter().enumerate() {
            let closes = ring.is_me(entry.known()) && at + 1 == ring.successors().len();
            if !closes && !between(last, entry.place(), me) {
                return Err(Flaw::Unordered(shard));
            }
            last = entry.place();
        }
    }
    let needed = live.rings.iter().map(|ring| ring.length() + 1).max().unwrap_or(0);
    let principals = live.principals().len();
    if principals < needed {
        return Err(Flaw::FewPrincipals(principals, needed));
    }
    one_ring(&live)
}

/// Whether first live successors lead from everybody into one circle that goes around once.
fn one_ring(live: &Live<'_>) -> Result<(), Flaw> {
    let count = live.rings.len();
    let next = |at: usize| live.first_live(live.rings[at]).expect("I1 was looked at");
    // As many steps as there are members lead onto the circle.
    let on_it = (0..count).fold(0, |at, _| next(at));
    let mut circle = BTreeSet::from([on_it]);
    let (mut at, mut laps) = (on_it, 0);
    loop {
        let to = next(at);
        laps += usize::from(to <= at);
        if to == on_it {
            break;
        }
        circle.insert(to);
        at = to;
    }
    if laps != 1 {
        return Err(Flaw::Apart(live.rings[on_it].me().shard()));
    }
    let mut reaches: Vec<bool> = (0..count).map(|at| circle.contains(&at)).collect();
    for start in 0..count {
        let mut way = Vec::new();
        let mut at = start;
        while !reaches[at] && way.len() <= count {
            way.push(at);
            at = next(at);
        }
        if !reaches[at] {
            return Err(Flaw::Apart(live.rings[start].me().shard()));
        }
        way.into_iter().for_each(|at| reaches[at] = true);
    }
    Ok(())
}

/// Whether a member may go without anybody losing the last other that it lists. Of two it may.
pub fn may_leave<'a>(rings: impl IntoIterator<Item = &'a Ring>, leaves: ShardId) -> bool {
    Live::new(rings).list_live_members(leaves)
}

/// Whether a member may fail by the assumption: nobody loses the last live member of its list, and
/// more than r + 1 principals exist if it is one.
pub fn may_fail<'a>(rings: impl IntoIterator<Item = &'a Ring>, fails: ShardId) -> bool {
    let live = Live::new(rings);
    let principals = live.principals();
    let needed = live.rings.iter().map(|ring| ring.length() + 1).max().unwrap_or(0);
    live.list_live_members(fails) && (!principals.contains(&fails) || principals.len() > needed)
}
