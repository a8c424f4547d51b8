//! The operating system's files as the node's medium.

use std::fs::{self, File as OsFile, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storage::disk::{Disk, File};

/// The node's directory. Locked for as long as this lives: one process per directory (SAFETY G20).
pub struct Directory {
    path: PathBuf,
    dir: OsFile,
    _lock: OsFile,
}

/// Name of the file that is locked.
const LOCK: &str = "LOCK";

impl Directory {
    /// Opens the directory, making it if it is not there, and locks it.
    ///
    /// # Errors
    /// `WouldBlock` if another process holds it; else what the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        // SAFETY: flock takes an open descriptor and no memory.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { path: path.to_owned(), dir: OsFile::open(path)?, _lock: lock })
    }
}

impl Disk for Directory {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let options = OpenOptions::new().read(true).write(true).create_new(true).to_owned();
        let file = options.open(self.path.join(name)).map_err(full_by_quota)?;
        Ok(Arc::new(OpenFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let options = OpenOptions::new().read(true).write(true).to_owned();
        Ok(Arc::new(OpenFile(options.open(self.path.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to)).map_err(full_by_quota)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            match entry?.file_name().into_string() {
                Ok(name) if name != LOCK => names.push(name),
                _ => {}
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

/// A used-up quota is a full disk: there may be room again.
fn full_by_quota(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => io::ErrorKind::StorageFull.into(),
        _ => error,
    }
}

struct OpenFile(OsFile);

impl File for OpenFile {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at).map_err(full_by_quota)
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        loop {
            // SAFETY: posix_fallocate takes an open descriptor and no memory.
            match unsafe { libc::posix_fallocate(self.0.as_raw_fd(), 0, length) } {
                0 => return Ok(()),
                libc::EINTR => {}
                error => return Err(full_by_quota(io::Error::from_raw_os_error(error))),
            }
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_quota_is_a_full_disk_and_nothing_else_is() {
        let kind = |code| full_by_quota(io::Error::from_raw_os_error(code)).kind();
        assert_eq!(kind(libc::EDQUOT), io::ErrorKind::StorageFull);
        assert_eq!(kind(libc::ENOSPC), io::ErrorKind::StorageFull);
        assert_eq!(kind(libc::EFBIG), io::ErrorKind::FileTooLarge);
        assert_eq!(kind(libc::EIO), io::Error::from_raw_os_error(libc::EIO).kind());
    }
}
