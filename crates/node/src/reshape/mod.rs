//! How do shards begin, split and merge, and what happens to commands in flight?
//!
//! | here | what |
//! |---|---|
//! | [`bootstrap`] | a shard begins, the same on every node |
//! | [`split`] | one shard becomes two, at the same entry everywhere (SAFETY G11) |
//! | [`merge`] | two neighbours become one |
//! | [`reroute`] | a command that reached a shard which no longer owns its key |
//! | [`linear_hash`] | the linear-hash table: which bucket splits or merges next |

pub mod bootstrap;
pub mod linear_hash;
pub mod merge;
pub mod reroute;
pub mod split;
