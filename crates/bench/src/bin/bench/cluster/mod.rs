//! Three Carillon nodes, and other stores beside them.
//!
//! Everything of Carillon is durability `sync` with three replicas. Rates beside other stores, and
//! what clients notice when a node breaks, are scenarios of `carillon bench`: `cluster`,
//! `cluster-etcd`, `redis-synced`, `failover`, `idle`.
//!
//! Caveats: the three nodes of a cluster share one disk, so their fsyncs stand in one queue, and
//! they share the cores. A real cluster has a disk and cores for each node, and a network between
//! them, which here costs next to nothing.

pub mod figures;
pub mod nodes;
pub mod rivals;
