//! Charts as SVG: lines over two axes ([`lines`]), panels above each other with one axis of time
//! ([`stack`]), and nodes on circles with their connections ([`rings`]).
//!
//! The library plotters draws; this crate says what a chart of Carillon looks like: one palette
//! that is legible on light and on dark ground, round marks on axes, a legend beside the lines. The
//! same input gives the same bytes.

mod lines;
mod palette;
mod picture;
mod rings;
mod scale;
mod stack;

pub use lines::{Axis, Line, lines, log, plain};
pub use rings::{Ring, rings};
pub use stack::{Event, Panel, Stack, stack};
