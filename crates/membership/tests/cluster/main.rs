//! Whole clusters of membership cores over a virtual network.

mod corpus;
mod lives;
mod tellings;
mod world;
