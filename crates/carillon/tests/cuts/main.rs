//! Shards are cut by load, and at keys: real processes, side by side, since both take a while.

#[path = "../four/mod.rs"]
mod four;
mod hot;
mod merged;
mod ordered;
