//! The Redis gateway seen from outside: bytes in, requests and bytes out.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests read golden files and may ask a real server"
)]

mod cluster;
mod context;
mod corpus;
mod errors;
mod parsing;
mod sessions;
mod transactions;
mod translating;
