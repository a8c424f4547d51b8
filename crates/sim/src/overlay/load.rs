//! How even is load, if each node has several places on the ring?
//!
//! Starts are drawn by chance, and a node's load is the part of the circle that its shards own. Of
//! one shard a node the deviation is about the mean, whatever the number of nodes; of *v* about
//! 1/√v of it (ALGORITHMS 9.1). The last row is for comparison: arcs of a file of linear hashing,
//! which are cut where they are widest.

use overlay::lh::LinearHashTable;

use crate::rng::Rng;

/// Shards of each node that are tried.
pub const SHARDS: [usize; 4] = [1, 8, 64, 128];
/// The most shards of a ring.
pub const SHARDS_MAX: usize = 16_000_000;

/// Loads of one ring's nodes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many nodes.
    pub nodes: usize,
    /// How many shards each has; `None`: one, an arc of a file.
    pub shards: Option<usize>,
    /// The standard deviation of their loads, in parts of the mean.
    pub deviation: f64,
    /// The largest load, in parts of the mean.
    pub largest: f64,
}

/// Loads for each number of shards, and of a file, for so many nodes. Numbers of shards that make
/// more than [`SHARDS_MAX`] are left out.
pub fn loads(nodes: usize, seed: u64) -> Vec<Load> {
    let tried = SHARDS.into_iter().filter(|shards| nodes * shards <= SHARDS_MAX);
    let drawn = tried.map(|shards| {
        let mut rng = Rng::new(seed ^ (nodes * shards) as u64);
        let mut starts: Vec<(u64, u32)> =
            (0..nodes * shards).map(|place| (rng.bits(), (place % nodes) as u32)).collect();
        starts.sort_unstable();
        let mut loads = vec![0.0; nodes];
        for (place, (start, node)) in starts.iter().enumerate() {
            let next = starts[(place + 1) % starts.len()].0;
            // Of one arc, and only then, the next start is its own: the whole circle.
            let width = if starts.len() == 1 { u64::MAX } else { next.wrapping_sub(*start) };
            loads[*node as usize] += width as f64;
        }
        Load { nodes, shards: Some(shards), ..of(&loads) }
    });
    let file = std::num::NonZeroU64::new(nodes as u64).and_then(LinearHashTable::of_buckets);
    let widths: Vec<f64> = file
        .into_iter()
        .flat_map(|file| (0..file.buckets()).filter_map(move |number| file.bucket(number)))
        .map(|bucket| 0.5f64.powi(bucket.level().into()))
        .collect();
    drawn.chain([Load { nodes, shards: None, ..of(&widths) }]).collect()
}

fn of(loads: &[f64]) -> Load {
    let count = loads.len() as f64;
    let mean = loads.iter().sum::<f64>() / count;
    let square = loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>() / count;
    let largest = loads.iter().copied().fold(0.0, f64::max) / mean;
    Load { nodes: loads.len(), shards: None, deviation: square.sqrt() / mean, largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_shards_per_node_spread_load_better() {
        let loads = loads(1000, 1);
        for load in &loads {
            let Load { deviation, .. } = *load;
            match load.shards {
                Some(shards) => {
                    let expected = 1.0 / (shards as f64).sqrt();
                    assert!((deviation / expected - 1.0).abs() < 0.2, "{load:?}");
                }
                // At most √2 / 4, and none of more than twice the width of another.
                None => assert!(deviation <= 0.3536 && load.largest < 2.0, "{load:?}"),
            }
        }
        assert_eq!(loads.len(), SHARDS.len() + 1);
    }

    #[test]
    fn one_node_has_all() {
        for load in loads(1, 1) {
            assert_eq!((load.deviation, load.largest), (0.0, 1.0));
        }
    }
}
