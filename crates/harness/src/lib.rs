//! What do real processes need to be broken on purpose, on one machine?
//!
//! A network of their own, with scissors ([`net`]), or ports that nobody has ([`ports`]); and
//! somebody who knows when the machine itself stood still, so that no process is blamed for it
//! ([`stalls`]). Tests of `carillon` and `bench` stand on it, no program does. It knows no node and
//! no protocol.
//!
//! What cannot be made here fails at once, with a panic that says why: a test that goes on without
//! its network would show nothing.

pub mod net;
pub mod ports;
pub mod stalls;
