//! One process of a cluster: started, signalled, ended by its own id.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::net::end_with_thread;

use crate::Outcome;

/// How long something may take to become ready.
const READY_MAX: Duration = Duration::from_secs(120);
/// Between two looks whether it is.
const LOOK: Duration = Duration::from_millis(20);

/// A running process. Dropping it kills it, and so does the end of the thread that has started it.
pub struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts `command`; what it prints goes to a file.
    pub fn start(mut command: Command, output: &Path) -> Outcome<Self> {
        let file = File::options().create(true).append(true).open(output)?;
        end_with_thread(&mut command);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
        Ok(Self { child, output: output.to_owned() })
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by the name that `kill` knows.
    pub fn signal(&self, name: &str) -> Outcome<()> {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status()?;
        if sent.success() { Ok(()) } else { Err(format!("kill -s {name}: {sent}").into()) }
    }

    /// As [`Self::wait`], but so long at most.
    pub fn wait_for(&mut self, most: Duration) -> Outcome<ExitStatus> {
        let began = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(ended) => return Ok(ended),
                None if began.elapsed() > most => {
                    return Err(format!("process {} has not ended in {most:?}", self.pid()).into());
                }
                None => sleep(LOOK),
            }
        }
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> Outcome<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Waits until `ready` says so; an error holds what the process printed.
    pub fn wait_until(&mut self, what: &str, mut ready: impl FnMut() -> bool) -> Outcome<()> {
        let began = Instant::now();
        while !ready() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || began.elapsed() > READY_MAX {
                let said = fs::read_to_string(&self.output)?;
                let end = &said[said.floor_char_boundary(said.len().saturating_sub(2000))..];
                return Err(format!("{what} does not become ready ({ended:?}):\n{end}").into());
            }
            sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// All our directories begin so.
const PREFIX: &str = "carillon-bench-";

/// Removes the directories of benchmarks that were ended before they could.
fn sweep(base: &Path) {
    let Ok(names) = fs::read_dir(base) else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Files that cannot go stay for whoever cleans up.
            let _left = fs::remove_dir_all(base.join(&name));
        }
    }
}

/// A directory of this benchmark's own; dropping it removes it, or else the next one does.
pub struct Directory(PathBuf);

impl Directory {
    /// A new, empty one, in BENCH_DIR or where temporary files go.
    pub fn new(name: &str) -> Outcome<Self> {
        let base = std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        sweep(&base);
        let path = base.join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files that cannot go stay for whoever cleans up.
        let _left = fs::remove_dir_all(&self.0);
    }
}
