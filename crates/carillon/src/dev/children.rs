//! The nodes' processes: started, watched, ended.
//!
//! Each has a process group of its own, so that Ctrl-C in a terminal reaches `carillon dev` alone,
//! which then asks every node once. And each is killed by the kernel when the thread that started
//! it ends, however it ends: that thread is the program's first, so no node is left behind.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use super::node_output;
use super::plan::NodePlan;

/// A node's process.
pub struct Child {
    process: std::process::Child,
    ended: Option<ExitStatus>,
    output: Option<JoinHandle<()>>,
}

impl Child {
    /// Starts a node. Call it from the program's first thread.
    ///
    /// # Errors
    /// If there is no such program, or no room for a process.
    pub fn start(program: &Path, node: &NodePlan, width: usize) -> io::Result<Self> {
        let parent = std::process::id();
        let mut command = Command::new(program);
        command.args(node.arguments.iter().map(AsRef::<OsStr>::as_ref));
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
        let stderr = process.stderr.take().expect("it is piped");
        let output = node_output::stream(stderr, node.number, width)?;
        Ok(Self { process, ended: None, output: Some(output) })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it has ended, if that is new: asked again it says nothing.
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

    /// Asks it to stop; one that stands still (SIGSTOP) goes on in order to do so.
    pub fn ask_to_stop(&self) {
        self.signal(libc::SIGTERM);
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

    /// Waits until everything it said is printed. It must have ended.
    pub fn finish(&mut self) {
        assert!(!self.runs(), "a node that runs may go on speaking");
        if let Some(output) = self.output.take() {
            // It only prints; a panic of it was printed as well.
            let _panicked = output.join();
        }
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
