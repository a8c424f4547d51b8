//! Loads from other hosts.
