//! Errors of this crate, and what the caller must do about each.
//!
//! One enum for log, checkpoints and manifest, because their callers do one of four things only:
//! wait for space ([`Error::Full`]), stop the node ([`Error::Io`], [`Error::Poisoned`]), refuse to
//! start and name the place ([`Error::Rot`], [`Error::Foreign`], [`Error::Version`],
//! [`Error::Orphan`]), or refuse the request ([`Error::TooLarge`]).

use std::io;

/// What failed, where, and what state that left.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The medium failed. A log that sees one is poisoned; a reader may be dropped.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// The failed operation: "write", "sync", ….
        action: &'static str,
        /// The file it was tried on.
        file: String,
        /// The medium's error.
        source: io::Error,
    },
    /// The disk has no room. Nothing changed; the same call succeeds once space returns.
    #[error("no space for {needed_bytes} bytes in {file}")]
    Full {
        /// The file that could not be made or grown.
        file: String,
        /// How many bytes were wanted.
        needed_bytes: u64,
    },
    /// An earlier write or sync failed, so the disk's content is unknown. Stop the node: only a new
    /// start, which reads the disk, knows more (Rebello et al., USENIX ATC 2020).
    #[error("an earlier write or sync failed; the log takes no more until the node is restarted")]
    Poisoned,
    /// Larger than the format allows. Nothing changed.
    #[error("{what} of {bytes} bytes is larger than {bytes_max}")]
    TooLarge {
        /// The kind of thing that is too large: "group", "block", ….
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest size allowed.
        bytes_max: u64,
    },
    /// Bytes that were durable can no longer be read back. Nothing was changed on disk.
    #[error("{file} is damaged at byte {offset}: {what}. {remedy}")]
    Rot {
        /// The damaged (or missing) file.
        file: String,
        /// Where the damage begins, in bytes from the start of the file.
        offset: u64,
        /// A description of what was found there.
        what: &'static str,
        /// What a human is to do.
        remedy: &'static str,
    },
    /// The file belongs to another cluster or directory. Nothing was changed on disk.
    #[error(
        "{file} belongs to cluster {found:016x}, not to {expected:016x}; is this the right \
         directory?"
    )]
    Foreign {
        /// The file.
        file: String,
        /// The cluster it names.
        found: u64,
        /// The cluster expected.
        expected: u64,
    },
    /// The file is of a format version this program does not know. Nothing was changed on disk.
    #[error("{file} has format version {found}; this program reads version {supported}")]
    Version {
        /// The file.
        file: String,
        /// The version it names.
        found: u32,
        /// The version this program knows.
        supported: u32,
    },
    /// There is data, but no manifest that says what it is. Nothing was changed on disk.
    #[error(
        "{file} exists but MANIFEST does not: the directory is damaged or incomplete. {remedy}"
    )]
    Orphan {
        /// The first file found that only a manifest gives meaning to.
        file: String,
        /// What a human is to do.
        remedy: &'static str,
    },
}

/// What to do about bytes that were durable and are not readable any more.
pub const REMEDY_ROT: &str = "Check the disk, then restore this directory from a copy; if the \
     data is replicated, start this node with an empty directory under a new id instead";

impl Error {
    /// An [`Error::Io`] about `file`.
    pub(crate) fn io(action: &'static str, file: &str, source: io::Error) -> Self {
        Self::Io { action, file: file.to_owned(), source }
    }

    /// An [`Error::Rot`] at `offset` of `file`.
    pub(crate) fn rot(file: &str, offset: u64, what: &'static str) -> Self {
        Self::Rot { file: file.to_owned(), offset, what, remedy: REMEDY_ROT }
    }
}
