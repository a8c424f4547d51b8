//! What a process prints into a file, read line by line while it prints.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(5);

/// Lines of a file that grows, each of them once.
pub struct Lines {
    file: PathBuf,
    /// Bytes that were read.
    read: u64,
    /// Of these, what belongs to no whole line yet.
    rest: Vec<u8>,
}

impl Lines {
    /// From the beginning of a file, which may not be there yet.
    pub fn of(file: &Path) -> Self {
        Self { file: file.to_owned(), read: 0, rest: Vec::new() }
    }

    /// The next whole line, if it is there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_now(&mut self) -> io::Result<Option<String>> {
        if !self.rest.contains(&b'\n') && self.file.exists() {
            let mut file = File::open(&self.file)?;
            file.seek(SeekFrom::Start(self.read))?;
            self.read += file.read_to_end(&mut self.rest)? as u64;
        }
        let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()))
    }

    /// Reads on until a line holds these words. After the timeout it panics with what it read.
    #[track_caller]
    pub fn until(&mut self, words: &str, timeout: Duration) -> String {
        let begun = Instant::now();
        let mut seen = Vec::new();
        loop {
            match self.next_now().expect("a file that can be read") {
                Some(line) if line.contains(words) => return line,
                Some(line) => seen.push(line),
                None if begun.elapsed() > timeout => {
                    panic!("not within {timeout:?}: {words:?}; read:\n{}", seen.join("\n"));
                }
                None => sleep(LOOK),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::process::Directory;

    #[test]
    fn each_complete_line_is_read_once() {
        let dir = Directory::new("lines").unwrap();
        let path = dir.path().join("out");
        let mut lines = Lines::of(&path);
        assert_eq!(lines.next_now().unwrap(), None, "there is no file");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(lines.until("w", Duration::ZERO), "two");
        assert_eq!(lines.next_now().unwrap(), None, "the third is not whole");
        file.write_all(b"ee\n").unwrap();
        assert_eq!(lines.until("three", Duration::ZERO), "three");
    }
}
