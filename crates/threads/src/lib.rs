//! What executors and readers share, in every order in which threads can take their steps: see
//! `tests/orders.rs`. Nothing else.
//!
//! A crate of its own, tested by itself: loom asks more of libraries that the server has, too, than
//! the server does, and all that depends on them would be compiled once for the tests and once for
//! the binary.
