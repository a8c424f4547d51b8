//! One node as a pure state machine, stepped by the server and by the simulator.

pub mod catalogue;
pub mod checkpoint;
pub mod command;
pub mod entry;
pub mod lane;
pub mod limits;
pub mod read;
pub mod record;
pub mod recovery;
pub mod route;
pub mod shard;
pub mod state;
pub mod whole;
