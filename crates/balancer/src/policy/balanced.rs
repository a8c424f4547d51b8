//! The emptier a node, the likelier it is chosen.
//!
//! A node that lacks `z` shards of this size to the mean has the weight `1 + z`, and one that has
//! `z` too many `1 / (1 + z)`. So an empty node among full ones gets nearly all, equal ones get
//! equal parts, and of a hundred leaders that choose at the same moment each node gets about as
//! many as it lacks.

use crate::chance::Chance;
use crate::measure::Measure;
use crate::nodes::NodeView;

/// Draws one of these for a shard of this size, where `level` is what a node should carry.
pub(crate) fn pick<'n>(
    size: Measure,
    level: Measure,
    candidates: &[&'n NodeView],
    chance: &mut Chance,
) -> Option<&'n NodeView> {
    let lacks = candidates.iter().map(|site| size.shards_in(level - site.load));
    draw(lacks, chance).map(|index| candidates[index])
}

/// Draws the index of one, by how much each lacks.
pub(crate) fn draw(lacks: impl Iterator<Item = f64>, chance: &mut Chance) -> Option<usize> {
    let weight = |lacks: f64| if lacks >= 0.0 { 1.0 + lacks } else { 1.0 / (1.0 - lacks) };
    let weights: Vec<f64> = lacks.map(weight).collect();
    let drawn = chance.draw(&weights, weights.iter().sum());
    // Sums of floats may leave a hair above the last one.
    drawn.or(weights.len().checked_sub(1))
}
