//! Merging, and brokers of several nodes with links that lose what they carry.

mod brokers;
mod merging;
mod steps;
