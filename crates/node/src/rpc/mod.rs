//! Messages between nodes beside those of Raft groups, and their bytes.
//!
//! | here | what |
//! |---|---|
//! | [`message`] | requests to another node for clients, and the answers |
//! | [`notice`] | what replicas of a shard report about themselves |
//! | [`stream`] | a shard's state, in pieces, over links that may be lost |

pub mod message;
pub mod notice;
pub mod stream;
