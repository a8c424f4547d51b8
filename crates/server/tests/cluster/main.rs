//! Do nodes find each other through one seed, and know who is there, over real sockets?

mod attached;
mod cluster_versions;
mod common;
mod finding;
mod rejected_nodes;
