//! Exit codes, for scripts. `carillon --help` lists them.

use std::process::ExitCode;

use client::http::{ClientError, Outcome};

/// See the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, found.
    Done,
    /// Not found, refused, failed: nothing was changed.
    Refused,
    /// The command line or the configuration makes no sense.
    Usage,
    /// No node could be reached: nothing was changed.
    Unreachable,
    /// The outcome is unknown.
    Unknown,
    /// The node's directory is of another cluster, or the node runs already.
    NotHere,
    /// The lease of a lock was lost while its command ran.
    LockLost,
    /// What a command has ended with that was run.
    OfCommand(u8),
}

impl Exit {
    /// This, unless `self` is worse news.
    pub fn and(self, other: Self) -> Self {
        if self == Exit::Done { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Done => 0u8,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Unknown => 4,
            Exit::NotHere => 5,
            Exit::LockLost => 6,
            Exit::OfCommand(code) => code,
        })
    }
}

impl From<&ClientError> for Exit {
    fn from(error: &ClientError) -> Self {
        if error.outcome() == Outcome::Unknown {
            return Exit::Unknown;
        }
        match error {
            ClientError::BadAddress { .. }
            | ClientError::Tls(_)
            | ClientError::PathTooLong { .. }
            | ClientError::BadRequest(_) => Exit::Usage,
            ClientError::CannotConnect { .. } | ClientError::Broken { .. } => Exit::Unreachable,
            ClientError::Refused(_) | ClientError::Unknown { .. } => Exit::Refused,
        }
    }
}
