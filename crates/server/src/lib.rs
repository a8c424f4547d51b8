//! Being built.

pub mod gateway;
