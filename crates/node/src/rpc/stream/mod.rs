//! How does a shard's state get to another node in pieces, over links that are lost?
//!
//! ```text
//!   sender                                  receiver
//!     outgoing: due? ── frame ──►             coming: block, end ──► what it is taken into
//!               has? ◄── frame ──                      answer
//! ```
//!
//! A stream is of one moment's state ([`crate::recovery::checkpoint`]). Frames between two nodes
//! come in the order in which they were sent, or not at all; what was lost is found out by a
//! question when the next link comes up. How fast blocks leave a node is said by its [`pace`].
//! Drivers send frames, make blocks, and keep what has come; what is next on either side is said
//! here.
//!
//! Invariants: those of [`outgoing`] and [`coming`]; what comes out at the end are all blocks of
//! one checkpoint, each once, in their order.

pub mod frame;
pub mod incoming;
pub mod outgoing;
pub mod pace;
#[cfg(test)]
mod tests;
