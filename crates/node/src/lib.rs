//! One node as a pure state machine, stepped by the server and by the simulator.

pub mod catalogue;
pub mod command;
pub mod entry;
pub mod lane;
pub mod limits;
pub mod record;
pub mod shard;
pub mod state;
