//! The Redis gateway seen from outside: bytes in, requests and bytes out.

mod cluster;
mod context;
mod corpus;
mod errors;
mod parsing;
mod sessions;
mod transactions;
mod translating;
