//! A node's storage: versions of keys in memory, a log and checkpoints on disk.

pub mod addresses;
pub mod checkpoint;
pub mod disk;
pub mod engine;
pub mod error;
pub mod faulty;
pub mod log;
pub mod manifest;
mod replace;

pub use error::Error;
