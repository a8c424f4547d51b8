//! Ephemeral messages between nodes: which node wants which messages, and the bytes of both.
//!
//! ```text
//!   client ── SUBSCRIBE ──► node 2 ── Delta ──► nodes 1, 3 : "one here wants channel a"
//!                              ▲ ◄──── Ack ────────┘
//!   client ── PUBLISH ──► node 1 ── Publish ──► node 2 ──► its subscribers
//!                              ◄── Receivers ───┘
//! ```
//!
//! A message is in no log and on no disk: it is sent once, and is lost with a link or a node. What
//! nodes want ([`interest`]) is repaired within about a second after losses. No links, clocks or
//! threads here: the server's `runtime::pubsub` has them.

pub mod interest;
pub mod message;

pub use interest::Interests;
pub use message::{InterestMessage, PubSubMessage, TopicCount};
