//! What do nodes send each other beside the messages of raft groups, and in which bytes?
//!
//! | here | what |
//! |---|---|
//! | [`request`] | what a node asks of another for its clients, and the answers |
//! | [`status`] | what replicas of a shard report about themselves |
//! | [`stream`] | a shard's state, in pieces, over links that are lost |

pub mod message;
pub mod notice;
pub mod stream;
