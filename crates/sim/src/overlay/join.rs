//! How many messages does it take until all members know a new one?
//!
//! | table | messages of one join | why |
//! |---|---|---|
//! | `full` | N | each member learns of it once, at least |
//! | `chord` | of its own fingers: hops + 1 for each level that is not the successor; of others' fingers: hops + 1 for each level to find who stands 2^i before it, and one for each of them | its table, and the tables it belongs in, at once (*aggressive*) |
//!
//! Both are counted on rings that are right, for [`JOINS`] new members drawn by chance. The papers'
//! M·log2 N, with a finger for each of M = 64 bits, counts the same without the hops that short
//! levels save.

use std::collections::BTreeSet;

use overlay::Chord;
use overlay::ring::SUCCESSORS;
use overlay::ring::place::Members;

use super::ring::{Ring, TAIL_BYTES, Tail};
use super::tables::MemberTables;
use super::walks::LookupStats;
use super::{Keys, walks};
use crate::rng::Rng;

/// Bits of a number: M of the papers.
const BITS: u32 = 64;
/// New members of each ring.
pub const JOINS: usize = 100;

/// Messages of one join, on average.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Members before it.
    pub nodes: usize,
    /// Of a full table.
    pub full: f64,
    /// Of Chord, counted.
    pub chord: f64,
    /// Of Chord, by the papers: M·log2 N.
    pub papers: f64,
}

/// The cost of a join to so many members.
pub fn cost(nodes: usize, seed: u64) -> Cost {
    let mut rng = Rng::new(seed ^ nodes as u64);
    let ring = Ring::new(nodes, Keys::Uniform, &mut rng);
    let members = Members::new(ring.members().iter().cloned());
    let tables = MemberTables::new(ring.len(), |at| Chord::ideal(&members, at, SUCCESSORS));
    let mut messages = 0;
    for _ in 0..JOINS {
        let joiner = ring.draw(&mut rng);
        let left = ring.owner(&joiner);
        let start = |place: usize| number(ring.start(place % nodes));
        let (me, before) = (number(&joiner), start(left));
        let mut find = |number: u64| {
            let mut tail = [0; TAIL_BYTES];
            tail[..8].copy_from_slice(&number.to_be_bytes());
            let mut walks = LookupStats::default();
            walks::route_from(&ring, &tables, left, &tail, &mut walks);
            messages += walks.hops.max() as u64 + 1;
            ring.owner(&tail)
        };
        let mut told = BTreeSet::new();
        for level in 0..BITS {
            let way = 1u64 << level;
            if way > start(left + 1).wrapping_sub(me) {
                find(me.wrapping_add(way));
            }
            // Who has it as this finger starts in (before − 2^i, me − 2^i]; often nobody does.
            if way > me.wrapping_sub(before) {
                let (target, last) = (me.wrapping_sub(way), find(me.wrapping_sub(way)));
                let backwards = (0..nodes).map(|steps| (last + nodes - steps) % nodes);
                let has_it =
                    |place: &usize| target.wrapping_sub(start(*place)) < me.wrapping_sub(before);
                told.extend(backwards.take_while(has_it));
            }
        }
        messages += told.len() as u64;
    }
    let papers = f64::from(BITS) * (nodes as f64).log2();
    let chord = messages as f64 / JOINS as f64;
    Cost { nodes, full: nodes as f64, chord, papers }
}

/// With how many members a full table costs as much as something else, between the two of these
/// sizes where the cheaper becomes the dearer, on a straight line of logarithms; `None` if there
/// are no two such.
pub fn break_even(costs: &[Cost], other: impl Fn(&Cost) -> f64) -> Option<f64> {
    let mut costs: Vec<&Cost> = costs.iter().filter(|cost| other(cost) > 0.0).collect();
    costs.sort_by_key(|cost| cost.nodes);
    let gap = |cost: &Cost| (cost.full / other(cost)).ln();
    let cross = |pair: &&[&Cost]| gap(pair[0]) <= 0.0 && gap(pair[1]) > 0.0;
    let pair = costs.windows(2).find(cross)?;
    let [from, to] = [pair[0], pair[1]].map(|cost| (cost.nodes as f64).ln());
    let part = gap(pair[0]) / (gap(pair[0]) - gap(pair[1]));
    Some((from + part * (to - from)).exp())
}

fn number(tail: &Tail) -> u64 {
    u64::from_be_bytes(*tail.first_chunk().expect("eight bytes and more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chord_is_dearer_on_small_rings_and_cheaper_on_large_ones() {
        let [small, large] = [16, 2000].map(|nodes| cost(nodes, 1));
        assert!(small.chord > small.full, "{small:?}");
        assert!(large.chord < large.full / 4.0, "{large:?}");
        assert!(large.chord < large.papers, "{large:?}");
    }

    #[test]
    fn break_even_is_where_costs_cross() {
        let cost = |nodes, chord| Cost { nodes, full: nodes as f64, chord, papers: 0.0 };
        let even = |costs: &[Cost]| break_even(costs, |cost| cost.chord);
        let found = even(&[cost(1000, 100.0), cost(10, 100.0)]).expect("they cross");
        assert!((found - 100.0).abs() < 1e-6, "{found}");
        assert_eq!(even(&[cost(10, 100.0), cost(20, 100.0)]), None);
        assert_eq!(even(&[]), None);
    }
}
