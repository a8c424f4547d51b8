//! What a node keeps: versions of keys in memory, a log and checkpoints on disk.

pub mod checkpoint;
pub mod disk;
pub mod engine;
pub mod error;
pub mod faulty;
pub mod log;
pub mod manifest;

pub use error::Error;
