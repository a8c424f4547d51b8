//! Nodes on a circle, and lines between those that are connected.

use std::f64::consts::TAU;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::palette::{self, INK};
use super::picture::{picture, text};

/// Of the square around a circle.
const SIDE: i32 = 360;
const RADIUS: f64 = 140.0;
/// What the title takes at the top, and captions at the bottom.
const TOP: i32 = 40;
const BOTTOM: i32 = 20;

/// A circle of nodes.
#[derive(Clone, Debug)]
pub struct Ring {
    /// What stands below it.
    pub caption: String,
    /// The number of its colour.
    pub colour: usize,
    /// How many nodes it has.
    pub nodes: usize,
    /// Which of them are connected.
    pub pairs: Vec<(usize, usize)>,
}

/// The rings beside each other, as SVG.
pub fn rings(title: &str, rings: &[Ring]) -> String {
    let size = (SIDE as u32 * rings.len() as u32, (TOP + SIDE + BOTTOM) as u32);
    picture(title, size, |area| {
        for (place, ring) in rings.iter().enumerate() {
            let colour = palette::line(ring.colour);
            let (x, y) = (SIDE * place as i32 + SIDE / 2, TOP + SIDE / 2);
            let at = |node: usize| {
                let angle = TAU * (node as f64 / ring.nodes as f64 - 0.25);
                let offset = |part: f64| (RADIUS * part).round() as i32;
                (x + offset(angle.cos()), y + offset(angle.sin()))
            };
            for (one, other) in &ring.pairs {
                area.draw(&PathElement::new([at(*one), at(*other)], colour.mix(0.6)))?;
            }
            for node in 0..ring.nodes {
                area.draw(&Circle::new(at(node), 3, colour.filled()))?;
            }
            let caption = text(INK, HPos::Center);
            area.draw(&Text::new(ring.caption.as_str(), (x, TOP + SIDE), caption))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_a_dot_for_each_node_and_a_line_for_each_pair() {
        let ring = |nodes, pairs: &[(usize, usize)]| Ring {
            caption: format!("{nodes} nodes"),
            colour: 1,
            nodes,
            pairs: pairs.to_vec(),
        };
        let svg = rings("Connections", &[ring(4, &[(0, 2)]), ring(3, &[(0, 1), (1, 2)])]);
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (7, 3));
        assert!(svg.contains("4 nodes") && svg.contains("3 nodes"));
    }
}
