//! Gateways: the protocols through which clients speak to a node.

pub mod resp;
