//! What was measured, and what it says. Pure.
//!
//! | module | holds |
//! |---|---|
//! | [`record`] | latencies, failures and seconds of one phase, while it runs and merged |
//! | [`result`] | results as files hold them |
//! | [`usage`] | what processes and networks did meanwhile, and what was done to them |
//! | [`availability`] | when nothing was answered |
//! | [`stats`] | medians and their confidence intervals |
//! | [`criteria`] | whether a run passed |
//! | [`compare`] | whether one result is worse than another |

pub mod availability;
pub mod compare;
pub mod criteria;
pub mod record;
pub mod result;
pub mod stats;
pub mod usage;
