//! How is a small file replaced atomically? A crash leaves the old one or the new one.
//!
//! The new content is written under a temporary name and synced; the file is renamed, and the
//! directory is synced.

use std::io;

use crate::Error;
use crate::disk::Disk;

/// Gives `name` this content, durably; `temporary` is its name until then.
///
/// # Errors
/// [`Error::Full`]: the old content counts, try again later. [`Error::Io`]: either counts; stop the
/// node.
pub(crate) fn replace(
    disk: &dyn Disk,
    name: &str,
    temporary: &str,
    bytes: &[u8],
) -> Result<(), Error> {
    let full = |e: io::Error, action| match e.kind() {
        io::ErrorKind::StorageFull => {
            Error::Full { file: temporary.to_owned(), needed_bytes: bytes.len() as u64 }
        }
        _ => Error::io(action, temporary, e),
    };
    // What an interrupted or refused replacement left.
    match disk.remove(temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", temporary, e));
        }
        _ => {}
    }
    let file = disk.create(temporary).map_err(|e| full(e, "create"))?;
    file.write_at(bytes, 0).map_err(|e| full(e, "write"))?;
    file.sync().map_err(|e| Error::io("sync", temporary, e))?;
    disk.rename(temporary, name).map_err(|e| Error::io("rename", temporary, e))?;
    disk.sync_dir().map_err(|e| Error::io("sync", "the directory", e))
}
