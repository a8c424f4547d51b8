//! Starts, watches and ends the nodes' processes.
//!
//! Each has a process group of its own, so that Ctrl-C in a terminal reaches `carillon dev` alone,
//! which then asks every node once to stop. The kernel kills each node when the thread that started
//! it ends, however it ends: that thread is the program's first, so no node is left behind.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use server::config::DEV_VARIABLE;

use super::log::Log;
use super::node_output::{self, NodeOutput};

/// A node's process.
pub struct Child {
    process: std::process::Child,
    ended: Option<ExitStatus>,
    output: Option<NodeOutput>,
}

impl Child {
    /// Starts a node with these words, whose lines go to a log and, with a prefix, to standard
    /// error. Its page can ask at `control` for the nodes. Call it from the program's first thread.
    ///
    /// # Errors
    /// If there is no such program, or no room for a process.
    pub fn start(
        program: &Path,
        words: &[OsString],
        control: &Path,
        log: Log,
        prefix: Option<String>,
    ) -> io::Result<Self> {
        let parent = std::process::id();
        let mut command = Command::new(program);
        command.args(words).env(DEV_VARIABLE, control);
        // Which nodes there are is decided here; everything else may come from the environment.
        command.env_remove("CARILLON_JOIN").env_remove("CARILLON_ADVERTISE");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: between fork and exec only system calls are made that take numbers; errors are
        // made of numbers too, so nothing allocates.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // It may have ended before that call.
                match libc::getppid().cast_unsigned() == parent {
                    true => Ok(()),
                    false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
                }
            });
        }
        let mut process = command.spawn()?;
        let stderr = process.stderr.take().expect("stderr is piped");
        let output = node_output::stream(stderr, log, prefix)?;
        Ok(Self { process, ended: None, output: Some(output) })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its exit status, once, after it has ended.
    pub fn ended_now(&mut self) -> Option<ExitStatus> {
        if self.ended.is_some() {
            return None;
        }
        // An error would mean that it is nobody's child; then it has ended for us.
        self.ended = self.process.try_wait().ok().flatten();
        self.ended
    }

    /// Whether it still runs, as far as is known.
    pub fn runs(&self) -> bool {
        self.ended.is_none()
    }

    /// Asks it to stop; a paused process (SIGSTOP) is resumed so that it can.
    pub fn ask_to_stop(&self) {
        self.signal(libc::SIGTERM);
        self.signal(libc::SIGCONT);
    }

    /// Has it stand still.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Has it go on.
    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Ends it at once.
    pub fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    fn signal(&self, signal: i32) {
        // Its id is its own until it was waited for.
        if self.runs() {
            // SAFETY: kill takes numbers only.
            unsafe { libc::kill(self.pid().cast_signed(), signal) };
        }
    }

    /// Waits until all its output is written, and returns its last lines, once. It must have
    /// ended.
    pub fn last_lines(&mut self) -> Vec<String> {
        assert!(!self.runs(), "a node that runs may go on speaking");
        // It only writes; a panic of it was printed.
        let last = self.output.take().and_then(|output| output.join().ok()).unwrap_or_default();
        last.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }
}

/// How a process has ended, for people.
pub fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
            format!("by {name} ({signal})")
        }
        (None, None) => "for a reason the system does not say".to_owned(),
    }
}
