//! What do tests and measurements of real processes stand on?
//!
//! | module | holds |
//! |---|---|
//! | [`process`] | a program that runs, its signals and its end; a directory that goes with it |
//! | [`command`] | a program that does one thing, and how it ended |
//! | [`lines`] | what a process prints, line by line |
//! | [`node`] | a node of Carillon as such a program, with its addresses and its log |
//! | [`dev`] | a run of `carillon dev` |
//! | [`disk`] | a small disk that can be filled |
//! | [`resp`] | a blocking connection of RESP; replies are read by `client`'s decoder |
//! | [`net`] | a network of namespaces, with scissors |
//! | [`ports`] | addresses that nobody listens on |
//! | [`stalls`] | when the machine itself stood still, so that no process is blamed for it |
//!
//! Tests of `carillon` and `server`, and `bench`, use it, no program does. HTTP is `client::http`.
//!
//! What cannot be made here fails at once, with a panic or an error that says why: a test that goes
//! on without its network would show nothing.

pub mod command;
pub mod dev;
pub mod disk;
pub mod lines;
pub mod net;
pub mod node;
pub mod ports;
pub mod process;
pub mod resp;
pub mod stalls;

use std::time::{Duration, Instant};

/// Looks every 10 ms until something is there, and panics with `what` when `patience` is over.
#[track_caller]
pub fn until<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < patience, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
