//! How does a shard's state reach another node in pieces, over links that may be lost?
//!
//! ```text
//!   sender                                  receiver
//!     outgoing: due? ── frame ──►             incoming: block, end ──► where it is stored
//!               has? ◄── frame ──                      answer
//! ```
//!
//! A stream carries one moment's state ([`crate::recovery::checkpoint`]). Frames between two nodes
//! arrive in the order of sending, or not at all. When a link comes up again, a question finds out
//! what was lost. The node's [`pace`] limits how fast blocks leave. Drivers send frames, make
//! blocks, and store what has arrived; this module decides what is next on either side.
//!
//! Invariants: those of [`outgoing`] and [`incoming`]. The receiver ends up with all blocks of one
//! checkpoint, each once, in their order.

pub mod frame;
pub mod incoming;
pub mod outgoing;
pub mod pace;
#[cfg(test)]
mod tests;
