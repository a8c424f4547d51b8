//! What a node decides about its shards as a whole, stepped by the server and by the simulator.

pub mod checkpoints;
pub mod snapshots;
