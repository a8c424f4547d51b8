//! How do clients speak to a node? One module for each protocol: bytes in, commands out; answers
//! in, bytes out. No sockets here.

pub mod access;
pub mod native;
pub mod resp;
