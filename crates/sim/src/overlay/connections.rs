//! Which nodes are connected, if each node keeps a connection to all nodes that its table names?
//!
//! A connection joins two nodes, whichever of them names the other. With full tables all nodes are
//! connected with all: N·(N − 1) / 2. For a ring's tables the study counts connections on a correct
//! ring; predecessors add none, since each names its successor.

use overlay::chord_sharp::BASE;
use overlay::ring::place::Members;
use overlay::{Chord, ChordSharp, Kind, Linear};

use super::ring::Ring;
use super::tables::{MemberTables, RingTable};
use super::{Keys, Options};
use crate::rng::Rng;

/// Which lookups are compared.
pub const KINDS: [Kind; 4] = [Kind::Full, Kind::Chord, Kind::ChordSharp, Kind::Linear];

/// The most nodes of a picture in which lines can be told apart.
pub const PICTURE_NODES_MAX: usize = 64;

/// What one lookup comes to.
#[derive(Clone, Debug)]
pub struct ConnectionCount {
    /// Which lookup.
    pub kind: Kind,
    /// How many nodes.
    pub nodes: usize,
    /// How many connections there are between them.
    pub connections: u64,
    /// Each of them, if there are few nodes.
    pub pairs: Vec<(usize, usize)>,
}

impl ConnectionCount {
    /// How many one node has, on average.
    pub fn of_each(&self) -> f64 {
        2.0 * self.connections as f64 / self.nodes as f64
    }
}

/// Counts, for so many nodes.
pub fn counts(nodes: usize, options: &Options) -> Vec<ConnectionCount> {
    let mut rng = Rng::new(options.seed ^ nodes as u64);
    let ring = Ring::new(nodes, Keys::Uniform, &mut rng);
    let all = Members::new(ring.members().iter().cloned());
    let length = options.successors;
    let is_drawn = nodes <= PICTURE_NODES_MAX;
    let counted = |kind| {
        let pairs = match kind {
            Kind::Chord => pairs(&MemberTables::new(nodes, |at| Chord::ideal(&all, at, length))),
            Kind::ChordSharp => {
                pairs(&MemberTables::new(nodes, |at| ChordSharp::ideal(&all, at, length, BASE)))
            }
            Kind::Linear => pairs(&MemberTables::new(nodes, |at| Linear::ideal(&all, at, length))),
            Kind::Full | Kind::Lh if is_drawn => {
                (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect()
            }
            Kind::Full | Kind::Lh => Vec::new(),
        };
        let connections = match kind {
            Kind::Full | Kind::Lh => nodes as u64 * (nodes as u64 - 1) / 2,
            _ => pairs.len() as u64,
        };
        let pairs = if is_drawn { pairs } else { Vec::new() };
        ConnectionCount { kind, nodes, connections, pairs }
    };
    KINDS.into_iter().map(counted).collect()
}

fn pairs<L: RingTable>(tables: &MemberTables<L>) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = tables
        .all()
        .iter()
        .enumerate()
        .flat_map(|(at, table)| {
            let others = table.shards().into_iter().map(|shard| shard.0 as usize - 1);
            others.map(move |other| (at.min(other), at.max(other))).collect::<Vec<_>>()
        })
        .filter(|(a, b)| a != b)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::plot;
    use super::*;

    #[test]
    fn full_tables_connect_all_and_rings_a_few() {
        let options = Options { successors: 2, ..Options::default() };
        let [full, chord, sharp, linear] = &counts(32, &options)[..] else { panic!("four") };
        assert_eq!((full.connections, full.pairs.len()), (496, 496));
        assert_eq!(linear.connections, 64, "each with the next two");
        for fingers in [chord, sharp] {
            assert!((100..200).contains(&fingers.connections), "{fingers:?}");
        }
        assert_eq!(counts(1, &options)[1].connections, 0);
        assert_eq!(counts(100, &options)[0].connections, 4950);
        assert!(counts(100, &options)[1].pairs.is_empty());
        let [picture] = &plot::connections(&[full.clone(), chord.clone()])[1..] else {
            panic!("both on one picture")
        };
        let lines = picture.1.matches("<polyline").count();
        assert!(picture.1.contains("496 connections"));
        assert_eq!(lines, full.pairs.len() + chord.pairs.len());
    }
}
