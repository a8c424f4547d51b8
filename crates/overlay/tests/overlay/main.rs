//! Tables, gossip, images and walks against histories of shards that split, merge and move.

mod bytes;
mod gossip;
mod history;
mod requests;
mod ring_world;
mod rings;
mod stories;
mod tables;
mod walks;
