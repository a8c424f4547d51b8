//! A node's log file: bounded, and begun anew at each start.
//!
//! A file that is full, or of an earlier run, is renamed to [`old`] and stays until the next one
//! replaces it. So the log of the run before can be read, and a node has at most two files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Longest file.
const BYTES_MAX: u64 = 16 << 20;

/// The log that a node is writing.
pub struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Log {
    /// An empty file; an existing one is renamed to [`old`].
    ///
    /// # Errors
    /// If the file cannot be renamed or made.
    pub fn begin(path: &Path) -> io::Result<Self> {
        Self::of_size(path, BYTES_MAX)
    }

    fn of_size(path: &Path, bytes_max: u64) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: begin_file(path)?, bytes: 0, bytes_max })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// If it cannot be written; the next one may.
    pub fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let more = line.len() as u64 + 1;
        if self.bytes > 0 && self.bytes + more > self.bytes_max {
            self.file = begin_file(&self.path)?;
            self.bytes = 0;
        }
        self.bytes += more;
        self.file.write_all(&[line, b"\n"].concat())
    }
}

fn begin_file(path: &Path) -> io::Result<File> {
    match fs::rename(path, old(path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => File::create(path),
    }
}

/// Where the file before this one is.
fn old(path: &Path) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(".old");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_and_one_of_an_earlier_run_are_kept_once() {
        let path = std::env::temp_dir().join(format!("carillon-log-{}", std::process::id()));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let mut log = Log::of_size(&path, 8).unwrap();
        for line in ["one", "two", "three", "a line that is too long", "four"] {
            log.line(line.as_bytes()).unwrap();
        }
        assert_eq!(
            (read(&path), read(&old(&path))),
            ("four\n".into(), "a line that is too long\n".into())
        );
        let _again = Log::begin(&path).unwrap();
        assert_eq!((read(&path), read(&old(&path))), (String::new(), "four\n".into()));
        fs::remove_file(old(&path)).unwrap();
        fs::remove_file(&path).unwrap();
    }
}
