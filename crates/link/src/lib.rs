//! How do two nodes know each other, and how does a message lie in the stream between them?
//!
//! ```text
//!   a stream:  hello, proof, commit │ frame │ frame │ …
//!              handshake            │ length, kind, body, checksum
//! ```
//!
//! | here | what |
//! |---|---|
//! | [`handshake`] | both sides prove that they know the cluster's secret |
//! | [`handshake_record`] | its records |
//! | [`refusal`] | why a node refuses another |
//! | [`secret`] | what all nodes of a cluster share |
//! | [`frame`] | a message in the stream, with a checksum |
//!
//! The server's `peer` carries these bytes over sockets. The simulator has them altered and forged
//! on the way, and sees them refused.
//!
//! # What it protects against
//!
//! | on the way | found by |
//! |---|---|
//! | a stranger without the secret, a replay, a change of a hello or a proof | the MAC of a proof |
//! | a change of a frame by accident, or by who does not make its checksum anew | the checksum |
//! | a change of a frame, with a new checksum; a frame more, less, or again | nothing |
//! | an eavesdropper | nothing |
//!
//! # Invariants
//! 1. Pure: bytes in, bytes out. Nonces are given.
//!
//! # What it does not know
//! Sockets, what messages mean, which nodes belong to the cluster.

pub mod frame;
pub mod handshake;
pub mod handshake_record;
pub mod refusal;
pub mod secret;

pub use handshake::{Cluster, Local, PeerHello, VERSIONS};
pub use refusal::{Refusal, Versions};
pub use secret::Secret;
