//! Nets of nodes with real sockets: order, size, refusals, stalls, deaths.

mod common;
mod hostile;
mod processes;
mod traffic;
