//! Shards are split by load, and at keys: real processes, in parallel, since both take a while.

#[path = "../four/mod.rs"]
mod four;
mod hot;
mod merged;
mod ordered;
