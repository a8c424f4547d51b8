//! Tests of real nodes whose network, processes and disks break.
//!
//! ```text
//!   harness   real processes, each in a network namespace; cuts; proxies; kills; small disks
//!   load      Redis clients that write down what they saw, and whether it can be true
//!   tools     do the scissors cut, does the checker see?
//!   service   what clients notice when nodes break
//!   weather   what they notice when the links between nodes are late, narrow, stalled and cut
//!   transactions  are they whole, and one after another, whatever breaks?
//!   snapshots a shard's state on its way over links that are cut
//!   members   who is there, who is not
//!   upgrade   versions N and N−1 together, one node after the other; the cluster version rises
//!   unfit     a replica whose disk has lost what it had promised is replaced
//! ```
//!
//! `cargo test --release -p carillon --test faults -- --nocapture` also prints what was measured.
//! As root; without, what cuts networks or mounts a small disk fails, or, with
//! `CARILLON_TESTS_WITHOUT_ROOT=1`, is skipped, which is printed.

mod cluster;
mod load;
mod members;
mod service;
mod snapshots;
mod tools;
mod transactions;
mod unfit;
mod upgrade;
mod weather;
