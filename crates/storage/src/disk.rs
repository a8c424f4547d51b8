//! The only interface to the medium: everything durable goes through [`Disk`] and [`File`].
//!
//! The server implements it by the operating system; the simulator by `faulty`, which tears, loses,
//! shortens and reorders writes that were not synced.
//!
//! Assumptions about the medium, on which every promise of this crate rests:
//! 1. After [`File::sync`] returned `Ok`, the bytes written before it survive power loss.
//! 2. After [`Disk::sync_dir`] returned `Ok`, creations, renames and removals before it survive.
//! 3. Without a sync, any subset of the 512-byte sectors written since the last one may survive.
//! 4. A failed sync may have lost any of them for ever: it is never retried (Rebello et al.,
//!    USENIX ATC 2020); the caller that sees one stops the node.
//! 5. Space given by [`File::reserve`] does not run out when it is written.

use std::io;
use std::sync::Arc;

/// A directory of flat files. Names are ASCII, without separators.
pub trait Disk: Send + Sync {
    /// Makes a new, empty file, open for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists`, `StorageFull` (nothing was made), or whatever the medium says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound`, or whatever the medium says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Renames a file, replacing what had the new name, atomically.
    ///
    /// # Errors
    /// Whatever the medium says; the old name then still stands.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound`, or whatever the medium says.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Whatever the medium says.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals durable.
    ///
    /// # Errors
    /// As [`File::sync`]: never retried.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file. Shared by threads; positions are explicit.
// A file of no bytes is no special case to anyone here.
#[allow(clippy::len_without_is_empty)]
pub trait File: Send + Sync {
    /// Writes all of `bytes` at offset `at`, growing the file if needed. Not durable before
    /// [`File::sync`].
    ///
    /// # Errors
    /// `StorageFull` or what the medium says; any part of the range may then hold the new bytes.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Reads up to `buf.len()` bytes at `at`; fewer only at the end of the file.
    ///
    /// # Errors
    /// What the medium says.
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;
    /// Makes everything written so far survive power loss.
    ///
    /// # Errors
    /// Never retried: see assumption 4.
    fn sync(&self) -> io::Result<()>;
    /// Gives the file at least `bytes` bytes of real space, zeros where nothing was written; the
    /// length becomes at least `bytes`.
    ///
    /// # Errors
    /// `StorageFull`: the file is as it was.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// Cuts the file to `bytes`.
    ///
    /// # Errors
    /// What the medium says.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// The length in bytes.
    ///
    /// # Errors
    /// What the medium says.
    fn len(&self) -> io::Result<u64>;
}
