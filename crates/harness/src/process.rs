//! A running program: started, signalled, ended by its own id; and a directory for its files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::net::end_with_thread;

/// How long something may take to become ready.
const READY_MAX: Duration = Duration::from_secs(300);
/// Between two looks whether it is.
const LOOK: Duration = Duration::from_millis(5);
/// Of what a process has printed, what errors repeat.
const LAST_WORDS_BYTES: usize = 4000;

/// A signal for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGKILL: it ends at once.
    Kill,
    /// SIGTERM: it ends as it ends by itself.
    Terminate,
    /// SIGINT: as Ctrl-C.
    Interrupt,
    /// SIGSTOP: it is paused, and keeps everything that it holds.
    Stop,
    /// SIGCONT: it goes on.
    Continue,
}

/// A running process. Dropping it kills it, and so does the end of the thread that has started it.
pub struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts `command`; what it prints is appended to a file.
    ///
    /// # Errors
    /// There is no such program, or no room for its output.
    pub fn start(command: Command, output: &Path) -> io::Result<Self> {
        Self::start_apart(command, output, output)
    }

    /// As [`Self::start`], with a file for what it prints and one for what it complains. Errors
    /// repeat the second one's end.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub fn start_apart(mut command: Command, out: &Path, output: &Path) -> io::Result<Self> {
        let append = |path| File::options().create(true).append(true).open(path);
        end_with_thread(&mut command);
        command.stdin(Stdio::null()).stdout(append(out)?).stderr(append(output)?);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start {program}: {error}"))
        })?;
        Ok(Self { child, output: output.to_owned() })
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. It reaches no other process: the id stays this one's until its end has been
    /// waited for.
    ///
    /// # Errors
    /// Its end has been waited for.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        send_signal(self.child.id(), signal)
    }

    /// Sends a signal to all of its process group. It leads one if it was started with
    /// `process_group(0)`; then what it has started itself is reached, too.
    ///
    /// # Errors
    /// There is no such group.
    pub fn signal_group(&self, signal: Signal) -> io::Result<()> {
        // No group of ours has this number unless this process leads it.
        send(-self.child.id().cast_signed(), signal)
    }

    /// kill -9, and its end.
    ///
    /// # Errors
    /// The system cannot tell how it ended.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// SIGTERM, and its end, which may take so long.
    ///
    /// # Errors
    /// It does not end, and goes on.
    pub fn stop(&mut self, most: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::Terminate)?;
        self.wait_for(most)
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// As [`Self::wait`], but so long at most.
    ///
    /// # Errors
    /// It runs still; the error holds the end of what it printed.
    pub fn wait_for(&mut self, most: Duration) -> io::Result<ExitStatus> {
        let began = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(ended) => return Ok(ended),
                None if began.elapsed() > most => {
                    let (pid, words) = (self.pid(), self.last_words());
                    let why = format!("process {pid} has not ended in {most:?}:\n{words}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                None => sleep(LOOK),
            }
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// The system cannot tell how it ended.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Waits until `ready` says so.
    ///
    /// # Errors
    /// It has ended, or is not ready in five minutes; the error holds the end of what it printed.
    pub fn wait_until(&mut self, what: &str, mut ready: impl FnMut() -> bool) -> io::Result<()> {
        let began = Instant::now();
        while !ready() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || began.elapsed() > READY_MAX {
                let output = self.last_words();
                let why = format!("{what} does not become ready ({ended:?}):\n{output}");
                return Err(io::Error::other(why));
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// The end of what it has printed.
    pub fn last_words(&self) -> String {
        last_words(&self.output)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Sends a signal to a process that somebody else has started: a node of `carillon dev`, say. The
/// caller knows that the id is still its own.
///
/// # Errors
/// There is no such process.
pub fn send_signal(pid: u32, signal: Signal) -> io::Result<()> {
    send(pid.cast_signed(), signal)
}

/// To a process, or to a process group if the number is below 0.
fn send(target: i32, signal: Signal) -> io::Result<()> {
    let signal = match signal {
        Signal::Kill => libc::SIGKILL,
        Signal::Terminate => libc::SIGTERM,
        Signal::Interrupt => libc::SIGINT,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    // SAFETY: kill takes numbers only.
    match unsafe { libc::kill(target, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The end of a file of text; empty if there is none.
pub fn last_words(file: &Path) -> String {
    let output = fs::read(file).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let from = output.floor_char_boundary(output.len().saturating_sub(LAST_WORDS_BYTES));
    output[from..].to_owned()
}

/// All our directories begin so.
const PREFIX: &str = "carillon-run-";

/// Removes the directories of runs that were ended before they could.
fn sweep(base: &Path) {
    let Ok(names) = fs::read_dir(base) else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Files that cannot be removed stay.
            let _left = fs::remove_dir_all(base.join(&name));
        }
    }
}

/// A directory of this run's own; dropping it removes it, or else the next run does.
pub struct Directory(PathBuf);

impl Directory {
    /// A new, empty one, in BENCH_DIR or where temporary files go. Within a process no two have the
    /// same name at the same time.
    ///
    /// # Errors
    /// The system refuses to make it.
    pub fn new(name: &str) -> io::Result<Self> {
        let base = std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        Self::within(&base, name)
    }

    /// As [`Self::new`], in a directory of choice.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn within(base: &Path, name: &str) -> io::Result<Self> {
        sweep(base);
        let path = base.join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes what the nodes of a cluster share to a file there that nobody else may read, and
    /// returns where.
    ///
    /// # Errors
    /// The system refuses to write it.
    pub fn write_secret(&self) -> io::Result<PathBuf> {
        let mut random = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.0.join("secret");
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files that cannot be removed stay; the next run tries again.
        let _left = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, dir: &Directory) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, &dir.path().join("output")).unwrap()
    }

    #[test]
    fn processes_end_by_themselves_by_signals_and_with_their_value() {
        let dir = Directory::new("process").unwrap();
        let most = Duration::from_secs(60);
        let status = shell("echo said; exit 3", &dir).wait_for(most).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(!shell("sleep 600", &dir).stop(most).unwrap().success());
        let mut endless = shell("sleep 600", &dir);
        let why = endless.wait_for(Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("said"), "{why}");
        let pid = endless.pid();
        drop(endless);
        assert!(!Path::new("/proc").join(pid.to_string()).exists());
        let why = shell("exit 1", &dir).wait_until("nothing", || false).unwrap_err();
        assert!(why.to_string().starts_with("nothing does not become ready"), "{why}");
    }

    #[test]
    fn directories_go_with_their_values_and_those_of_dead_runs_with_the_next() {
        let dir = Directory::new("goes").unwrap();
        let path = dir.path().to_owned();
        let secret = fs::read_to_string(dir.write_secret().unwrap()).unwrap();
        assert_eq!(secret.len(), 64);
        drop(dir);
        assert!(!path.exists());
    }
}
