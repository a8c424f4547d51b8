//! The gateways: one module for each client protocol. Bytes in, commands out; answers in, bytes
//! out. No sockets here.

pub mod access;
pub mod native;
pub mod nbd;
pub mod resp;
