//! Records when the machine itself stalled.
//!
//! Processes that are tested together share few processors and one disk with all else that runs
//! there. A disk that takes half a second for an fsync, or a busy processor, delays answers without
//! a fault of Carillon's. A witness thread does what a node does all the time, a small write and an
//! fsync, on the same disk, and notes when it took long. Tests do not count that time as silence of
//! a node.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the witness waits between two writes.
const PAUSE: Duration = Duration::from_millis(20);
/// So long a pause and a write may take together without being a stall.
const STALL_MIN: Duration = Duration::from_millis(60);

/// A thread that writes.
pub struct StallRecorder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Duration, Duration)>>,
}

/// The periods in which the machine stalled.
#[derive(Default)]
pub struct Stalls(Vec<(Duration, Duration)>);

impl StallRecorder {
    /// Begins to write to a file in `dir`; times count from `begun`.
    pub fn start(dir: &Path, begun: Instant) -> Self {
        let file = File::create(dir.join("witness")).expect("a file can be made");
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || {
            let mut stalls = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let from = begun.elapsed();
                thread::sleep(PAUSE);
                // What nodes write is checked elsewhere; a disk that fails here fails them too.
                let _written = file.write_all_at(&[0; 512], 0).and_then(|()| file.sync_data());
                let until = begun.elapsed();
                if until - from > STALL_MIN {
                    stalls.push((from, until));
                }
            }
            stalls
        });
        Self { stop, thread }
    }

    /// Ends it.
    pub fn finish(self) -> Stalls {
        self.stop.store(true, Ordering::Relaxed);
        Stalls(self.thread.join().expect("the witness"))
    }
}

impl Stalls {
    /// By how much a service between these two moments may be late on the machine's account.
    pub fn allowance(&self, from: Duration, until: Duration) -> Duration {
        let parts = self.0.iter().map(|stall| stall.1.min(until).saturating_sub(stall.0.max(from)));
        parts.filter(|part| *part > STALL_MIN).sum()
    }
}

#[test]
fn stalls_count_where_they_meet() {
    let ms = Duration::from_millis;
    let stalls = Stalls(vec![(ms(100), ms(300)), (ms(900), ms(1_000))]);
    assert_eq!(stalls.allowance(ms(0), ms(50)), ms(0));
    assert_eq!(stalls.allowance(ms(200), ms(800)), ms(100));
    assert_eq!(stalls.allowance(ms(0), ms(1_000)), ms(300));
}
