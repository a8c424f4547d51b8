//! Tables, gossip, cached routes and lookups against histories of shards that split, merge and
//! move; files of linear hashing.

mod bytes;
mod gossip;
mod history;
mod lh;
mod members;
mod requests;
mod ring_world;
mod rings;
mod switchboards;
mod tables;
mod walks;
