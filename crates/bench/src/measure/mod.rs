//! What was measured, and what it says. Pure.
//!
//! | module | holds |
//! |---|---|
//! | [`record`] | latencies, failures and seconds of one phase, while it runs and merged |
//! | [`result`] | results as files hold them |
//! | [`stats`] | medians and their confidence intervals |
//! | [`criteria`] | whether a run passed |
//! | [`compare`] | whether one result is worse than another |

pub mod compare;
pub mod criteria;
pub mod record;
pub mod result;
pub mod stats;
