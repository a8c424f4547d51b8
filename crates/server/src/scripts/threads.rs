//! The threads that run Lua.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lua::{Interpreter, Sha1Hex};
use parking_lot::Mutex;

use super::cache::Program;
use super::host::Workspace;
use super::job::Job;
use super::libraries::LoadedLibraries;
use super::{MEDIUM_TIME, Surroundings, Task, late};
use crate::runtime::NodeRuntime;

/// What a script thread runs.
#[derive(Default)]
pub struct Running {
    killed: AtomicBool,
    /// Whether all that begins is stopped: the node stops.
    is_stopping: AtomicBool,
    now: Mutex<Option<RunningScript>>,
    /// Whose it is, if it is a long one. Written under the lock of `now`.
    long_of: AtomicU64,
}

/// A script that runs now.
#[derive(Clone, Debug)]
pub struct RunningScript {
    /// Which.
    pub program: Program,
    /// Since when.
    pub since: Instant,
    /// For how long it had run before, if it is a long one.
    long_ran: Option<Duration>,
}

impl RunningScript {
    /// Whether nobody needs it to go on if its client is gone. A long one may not have run for
    /// long: it only looks through the keyspace, say, and its client may have ended its own side.
    fn ends_with_client(&self) -> bool {
        self.long_ran.is_some_and(|ran| ran + self.since.elapsed() >= MEDIUM_TIME)
    }
}

impl Running {
    /// Stops what runs, if it is a function or a script, as asked; whether it does.
    pub(super) fn kill(&self, functions: bool) -> bool {
        let now = self.now.lock();
        let is_meant =
            now.as_ref().is_some_and(|running| running.program.is_function() == functions);
        if is_meant {
            self.killed.store(true, Ordering::Release);
        }
        is_meant
    }

    /// Stops what runs, and all that begins.
    pub(super) fn stop(&self) {
        let _nothing_begins = self.now.lock();
        self.is_stopping.store(true, Ordering::Release);
        self.killed.store(true, Ordering::Release);
    }

    /// Stops a long script of this client that has run for long.
    pub(super) fn kill_long_of(&self, client: u64) {
        let now = self.now.lock();
        let is_meant = now.as_ref().is_some_and(RunningScript::ends_with_client);
        if is_meant && self.long_of.load(Ordering::Relaxed) == client {
            self.killed.store(true, Ordering::Release);
        }
    }

    /// A script begins. Its flag is set when it is to be stopped.
    pub(super) fn begin(&self, job: &Job, long_ran: Option<Duration>) -> &AtomicBool {
        let (program, since) = (job.program.clone(), Instant::now());
        let running = RunningScript { program, since, long_ran };
        let mut now = self.now.lock();
        // Its client may have gone just before.
        let is_stopped = running.ends_with_client() && job.client_is_gone()
            || self.is_stopping.load(Ordering::Acquire);
        self.killed.store(is_stopped, Ordering::Release);
        // No client has the number 0.
        let long_of = long_ran.map_or(0, |_| job.client);
        self.long_of.store(long_of, Ordering::Relaxed);
        *now = Some(running);
        &self.killed
    }

    pub(super) fn end(&self) {
        *self.now.lock() = None;
    }

    /// What runs.
    pub fn script(&self) -> Option<RunningScript> {
        self.now.lock().clone()
    }
}

/// What a thread has to run scripts with.
pub(super) struct Runner {
    pub runtime: Arc<NodeRuntime>,
    pub surroundings: Surroundings,
    pub number: usize,
    pub interpreter: Interpreter,
    /// The scripts that it has compiled, the oldest first.
    pub loaded: VecDeque<(Sha1Hex, usize)>,
    /// Bytes of their sources.
    pub loaded_bytes: usize,
    /// The libraries that it has loaded.
    pub libraries: LoadedLibraries,
    pub workspace: Workspace,
}

/// The script threads of a node.
pub struct ScriptThreads {
    runtime: Arc<NodeRuntime>,
    threads: Vec<JoinHandle<()>>,
}

impl ScriptThreads {
    /// Starts them.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn spawn(runtime: &Arc<NodeRuntime>, surroundings: &Surroundings) -> io::Result<Self> {
        let spawn = |number: usize| {
            let (runtime, surroundings) = (runtime.clone(), surroundings.clone());
            thread::Builder::new().name(format!("script-{number}")).spawn(move || {
                let workspace = Workspace::new(&surroundings);
                let interpreter = Interpreter::new();
                let (loaded, loaded_bytes, libraries) = Default::default();
                Runner {
                    runtime,
                    surroundings,
                    number,
                    interpreter,
                    loaded,
                    loaded_bytes,
                    libraries,
                    workspace,
                }
                .run();
            })
        };
        let threads = (0..runtime.scripts.running.len()).map(spawn).collect::<io::Result<_>>()?;
        Ok(Self { runtime: runtime.clone(), threads })
    }

    /// Stops scripts under way, and ends the threads.
    pub fn stop(self) {
        self.runtime.scripts.stop();
        for thread in self.threads {
            thread.join().expect("a script thread that panics has ended the process");
        }
    }
}

impl Runner {
    fn run(mut self) {
        let runtime = self.runtime.clone();
        let mut turn = 0;
        while let Some(task) = runtime.scripts.next(self.number, &mut turn) {
            match task {
                Task::Queue(shard) => self.run_queue(shard),
                Task::Other(attempt) => self.run_attempt(*attempt),
                Task::Call(call) => call(),
                Task::Sweep => late::sweep(&runtime),
            }
        }
    }
}
