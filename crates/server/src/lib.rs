//! The edge around a node: configuration, protocols, sockets, logs, signals.

pub mod api;
pub mod check;
pub mod config;
pub mod counters;
pub mod event_loop;
pub mod gateway;
pub mod http;
pub mod hub;
pub mod logging;
pub mod medium;
pub mod process;
pub mod run;
pub mod side_door;
pub mod signals;
