//! Tools for tests and benchmarks of real processes.
//!
//! | module | holds |
//! |---|---|
//! | [`process`] | a running program, its signals and its end; a directory for its files |
//! | [`command`] | a program that does one thing, and its exit status |
//! | [`lines`] | what a process prints, line by line |
//! | [`node`] | a node of Carillon as such a program, with its addresses and its log |
//! | [`cluster`] | several nodes that form one store |
//! | [`dev`] | a run of `carillon dev` |
//! | [`disk`] | a small disk that can be filled |
//! | [`events`] | a viewer of a node's events |
//! | [`resp`] | a blocking connection of RESP; replies are read by `client`'s decoder |
//! | [`nbd`] | a client of a volume |
//! | [`net`] | a network of namespaces that can be cut |
//! | [`ports`] | addresses that are free |
//! | [`seeds`] | the fuzzer's seeds, for tests of codecs |
//! | [`stalls`] | when the machine itself stalled, so that no process is blamed for it |
//!
//! Tests of `carillon`, `server` and `node` use it, and `bench`, with which `carillon bench` starts
//! what it measures. HTTP is `client::http`.
//!
//! If the system refuses something, these tools fail at once, with a panic or an error that says
//! why: a test that goes on without its network would show nothing.

pub mod cluster;
pub mod command;
pub mod dev;
pub mod disk;
pub mod events;
pub mod lines;
pub mod nbd;
pub mod net;
pub mod node;
pub mod ports;
pub mod process;
pub mod resp;
pub mod seeds;
pub mod stalls;

use std::time::{Duration, Instant};

/// Calls `look` every 10 ms until it returns a value; panics with `what` after the timeout.
#[track_caller]
pub fn until<T>(timeout: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < timeout, "not within {timeout:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
