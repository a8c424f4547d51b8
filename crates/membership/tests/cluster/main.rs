//! Whole clusters of membership cores over a virtual network.

mod lives;
mod tellings;
mod world;
