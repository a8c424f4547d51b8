//! The edge around a node: configuration, protocols, sockets, logs, signals.

pub mod api;
pub mod check;
pub mod config;
pub mod gateway;
pub mod http;
pub mod logging;
pub mod run;
pub mod signals;
