//! Starting a node and running it until it is asked to stop.

use crate::config::Config;

/// Why a node that was ready ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It was asked to, and drained.
    Stopped,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This build has no event loops.
    #[error("this build cannot start a node")]
    Unbuilt,
}

/// Runs a node until SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot start; the data directory is as it was.
pub fn run(config: Config) -> Result<ExitReason, StartError> {
    crate::logging::init(config.log_level, config.log_format);
    Err(StartError::Unbuilt)
}
