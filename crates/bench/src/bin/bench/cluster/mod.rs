//! Measures a cluster of three nodes beside other stores on this machine: its rates, its outages
//! when a node fails, and its cost while idle.
//!
//! ```text
//!   bench cluster    rates       three Carillon nodes │ etcd, three members │ redis-server
//!   bench failover   silences    three Carillon nodes, clients on all, one node broken in turn
//!   bench idle       resources   three Carillon nodes that hold 1 000 shards each
//! ```
//!
//! All processes run at once on this machine, and load goes to one system after the other, in an
//! order that changes with the round; medians count, and ratios are what to look at. Everything of
//! Carillon is durability `sync` with three replicas.
//!
//! Caveats: load generators share the cores with everything else, and the three nodes of a cluster
//! share one disk, so their fsyncs stand in one queue. A real cluster has a disk and cores for each
//! node, and a network between them, which here costs next to nothing.

pub mod compare;
pub mod competitor;
pub mod failover;
pub mod figures;
pub mod idle;
pub mod nodes;
pub mod pipes;
pub mod rivals;
mod silence;
