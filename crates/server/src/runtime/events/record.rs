//! Keeps the node's last events in files, so that they survive a restart: `--record DIR`.
//!
//! ```text
//!   happened ── line ──► channel (bounded) ──► thread `record` ──► events-TIME.jsonl, …
//!                         full: counted                            the oldest file goes
//!   start: files ──► the ring of events, below those of this start
//! ```
//!
//! A line is an event as viewers get it. Nothing is synced: a crash of the machine may lose the
//! last seconds, and one of the process those lines that were not written. A node that stops writes
//! a last line that says that nothing is missing.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of all files | `record_bytes_max` | the oldest file is removed |
//! | lines that wait for the thread | [`LINES_MAX`] | not recorded, and counted |

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use api::events::{kept_of_line, recorded_line};
use keyspace::{NodeId, Timestamp};
use node::event::RecordState;
use node::event::stream::KeptEvent;

/// The most lines that wait to be written.
pub const LINES_MAX: usize = 8192;
/// All files but the newest have this part of the bytes.
const FILES: u64 = 8;
/// How often a failed write is logged.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// Why events cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot keep events in {}: {source}. Name another directory with --record, or leave it out",
    dir.display()
)]
pub struct RecordError {
    dir: PathBuf,
    source: io::Error,
}

enum Line {
    Event(Timestamp, String),
    End(Timestamp),
}

/// The thread that writes.
pub(super) struct Recorder {
    lines: SyncSender<Line>,
    thread: JoinHandle<()>,
}

/// What was found in a directory.
pub(super) struct Found {
    /// Events, the oldest first.
    pub events: Vec<KeptEvent>,
    /// Whether the last ones may be missing.
    pub state: RecordState,
    /// The thread.
    pub recorder: Recorder,
}

/// Reads what is in a directory, and begins to write there. What is of later than now was written
/// with a clock that was far ahead: it is left out, since nothing that happens comes behind it.
///
/// # Errors
/// If it cannot be used.
pub(super) fn open(
    dir: &Path,
    bytes_max: u64,
    own: NodeId,
    now: Timestamp,
) -> Result<Found, RecordError> {
    let failed = |source| RecordError { dir: dir.to_owned(), source };
    let (files, events, state) = RecordFiles::open(dir, bytes_max, own, now).map_err(failed)?;
    let (lines, receiver) = sync_channel(LINES_MAX);
    let thread = thread::Builder::new().name("record".into());
    let thread = thread.spawn(move || run(files, &receiver)).map_err(failed)?;
    Ok(Found { events, state, recorder: Recorder { lines, thread } })
}

impl Recorder {
    /// Has an event written. False: there is no room.
    pub fn write(&self, at: Timestamp, line: &str) -> bool {
        let sent = self.lines.try_send(Line::Event(at, line.to_owned()));
        !matches!(sent, Err(TrySendError::Full(_)))
    }

    /// Writes what waits, and the end.
    pub fn stop(self, at: Timestamp) {
        // If the thread has ended there is nothing to be written.
        let _ended = self.lines.send(Line::End(at));
        drop(self.lines);
        self.thread.join().expect("the thread that records does not panic");
    }
}

fn run(mut files: RecordFiles, lines: &Receiver<Line>) {
    let mut complained: Option<Instant> = None;
    let mut note = |result: io::Result<()>| {
        let Err(error) = result else { return };
        if complained.is_none_or(|at| at.elapsed() >= COMPLAINT_PAUSE) {
            complained = Some(Instant::now());
            tracing::warn!("events are not recorded: {error}");
        }
    };
    loop {
        let line = match lines.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {
                // Others can read it while nothing happens.
                note(files.flush());
                let Ok(line) = lines.recv() else { return };
                line
            }
        };
        match line {
            Line::Event(at, text) => note(files.write(at, &text)),
            Line::End(at) => {
                note(files.write(at, &recorded_line(at)));
                return note(files.flush());
            }
        }
    }
}

/// The files of a directory.
struct RecordFiles {
    dir: PathBuf,
    bytes_max: u64,
    /// Their names and lengths, the oldest first.
    all: VecDeque<(PathBuf, u64)>,
    newest: Option<BufWriter<File>>,
    _lock: File,
}

impl RecordFiles {
    fn open(
        dir: &Path,
        bytes_max: u64,
        own: NodeId,
        now: Timestamp,
    ) -> io::Result<(Self, Vec<KeptEvent>, RecordState)> {
        fs::create_dir_all(dir)?;
        let lock = File::create(dir.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another node keeps its events there")
            }
            TryLockError::Error(error) => error,
        })?;
        let mut all = Vec::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("events-") && name.ends_with(".jsonl") {
                let bytes = fs::metadata(&path)?.len();
                all.push((path, bytes));
            }
        }
        all.sort_unstable();
        let mut files =
            Self { dir: dir.to_owned(), bytes_max, all: all.into(), newest: None, _lock: lock };
        files.remove_oldest(0)?;
        let (mut events, mut state) = (Vec::<KeptEvent>::new(), RecordState::Empty);
        for (path, _) in &files.all {
            for line in String::from_utf8_lossy(&fs::read(path)?).lines() {
                match kept_of_line(line, own) {
                    Some(Some(event)) => {
                        state = RecordState::Torn;
                        let is_behind = events.last().is_none_or(|last| last.at < event.at);
                        if is_behind && event.at <= now {
                            events.push(event);
                        }
                    }
                    Some(None) => state = RecordState::Whole,
                    // It was cut off, or is of another node.
                    None => {}
                }
            }
        }
        Ok((files, events, state))
    }

    fn write(&mut self, at: Timestamp, line: &str) -> io::Result<()> {
        let bytes = line.len() as u64 + 1;
        let is_full = self.all.back().is_none_or(|(_, bytes)| *bytes >= self.bytes_max / FILES);
        if self.newest.is_none() || is_full {
            self.flush()?;
            self.newest = None;
            self.remove_oldest(bytes)?;
            let path = self.dir.join(format!("events-{:020}.jsonl", at.0));
            self.newest = Some(BufWriter::new(File::create(&path)?));
            self.all.push_back((path, 0));
        }
        if let (Some(newest), Some((_, length))) = (&mut self.newest, self.all.back_mut()) {
            *length += bytes;
            newest.write_all(line.as_bytes())?;
            newest.write_all(b"\n")?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.newest.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Removes the oldest files, until there is room for another one.
    fn remove_oldest(&mut self, bytes: u64) -> io::Result<()> {
        let room = self.bytes_max - self.bytes_max / FILES;
        while self.all.iter().map(|(_, length)| length).sum::<u64>() + bytes > room
            && let Some((oldest, _)) = self.all.pop_front()
        {
            fs::remove_file(oldest)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: NodeId = NodeId(7);

    fn line(at: u64) -> String {
        format!(r#"{{"type":"split","node":"0000000000000007","at":"{at}","keyspace":"a"}}"#)
    }

    fn open(dir: &Path, bytes_max: u64, own: NodeId) -> Result<Found, RecordError> {
        super::open(dir, bytes_max, own, Timestamp(1_000_000))
    }

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("carillon-{name}-{}", std::process::id()));
        let _none = fs::remove_dir_all(&dir);
        dir
    }

    fn times(found: &Found) -> Vec<u64> {
        found.events.iter().map(|event| event.at.0).collect()
    }

    #[test]
    fn what_was_written_is_found_again() {
        let dir = directory("record");
        let found = open(&dir, 1 << 20, OWN).unwrap();
        assert_eq!((times(&found), found.state), (vec![], RecordState::Empty));
        for at in [10, 20, 30] {
            assert!(found.recorder.write(Timestamp(at), &line(at)));
        }
        assert!(open(&dir, 1 << 20, OWN).is_err(), "it is in use");
        found.recorder.stop(Timestamp(31));
        let found = open(&dir, 1 << 20, OWN).unwrap();
        assert_eq!((times(&found), found.state), (vec![10, 20, 30], RecordState::Whole));
        assert_eq!(found.events[0].keyspace.as_deref(), Some("a"));
        assert!(found.recorder.write(Timestamp(40), &line(40)));
        // It is killed, in the middle of a line.
        let Recorder { lines, thread } = found.recorder;
        drop(lines);
        thread.join().unwrap();
        let mut newest: Vec<PathBuf> =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        newest.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
        newest.sort_unstable();
        let newest = newest.last().unwrap();
        let mut bytes = fs::read(newest).unwrap();
        bytes.extend_from_slice(&line(50).as_bytes()[..30]);
        fs::write(newest, bytes).unwrap();
        let found = open(&dir, 1 << 20, OWN).unwrap();
        assert_eq!((times(&found), found.state), (vec![10, 20, 30, 40], RecordState::Torn));
        found.recorder.stop(Timestamp(60));
        let of_another = open(&dir, 1 << 20, NodeId(8)).unwrap();
        assert_eq!(times(&of_another), [0; 0]);
        of_another.recorder.stop(Timestamp(61));
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Whatever stands there: what can be read of it is kept, and it is written on.
    #[test]
    fn damaged_files_are_read_as_far_as_they_can_be() {
        let dir = directory("record-damaged");
        fs::create_dir_all(&dir).unwrap();
        let future = line(1 << 60);
        let long = format!(r#"{{"type":"split","at":"1","x":"{}"}}"#, "x".repeat(100_000));
        let lines = [
            &line(10)[..40],
            "",
            "no event",
            "{}",
            &line(20),
            &line(15),
            &future,
            "\u{0}\u{0}\u{0}",
            &long,
            &line(30),
        ];
        let mut bytes = lines.join("\n").into_bytes();
        bytes.extend_from_slice(b"\n\xff\xfe\n");
        bytes.extend_from_slice(&line(40).as_bytes()[..50]);
        fs::write(dir.join("events-00000000000000000010.jsonl"), bytes).unwrap();
        fs::write(dir.join("events-00000000000000000050.jsonl"), b"").unwrap();
        fs::write(dir.join("notes.txt"), b"not ours").unwrap();
        let found = open(&dir, 1 << 20, OWN).unwrap();
        assert_eq!((times(&found), found.state), (vec![20, 30], RecordState::Torn));
        assert!(found.recorder.write(Timestamp(60), &line(60)));
        found.recorder.stop(Timestamp(61));
        let found = open(&dir, 1 << 20, OWN).unwrap();
        assert_eq!((times(&found), found.state), (vec![20, 30, 60], RecordState::Whole));
        found.recorder.stop(Timestamp(62));
        assert_eq!(fs::read(dir.join("notes.txt")).unwrap(), b"not ours");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn bytes_are_bounded() {
        let dir = directory("record-bounded");
        let found = open(&dir, 64 << 10, OWN).unwrap();
        for at in 1..=4000 {
            while !found.recorder.write(Timestamp(at), &line(at)) {
                thread::yield_now();
            }
        }
        found.recorder.stop(Timestamp(5000));
        let bytes: u64 =
            fs::read_dir(&dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!((48 << 10..=64 << 10).contains(&bytes), "{bytes}");
        let found = open(&dir, 64 << 10, OWN).unwrap();
        let times = times(&found);
        assert_eq!(times.last(), Some(&4000));
        assert_eq!(times.len() as u64, 4001 - times[0], "none is missing in between");
        found.recorder.stop(Timestamp(5001));
        fs::remove_dir_all(&dir).unwrap();
    }
}
