//! Runs one script on a copy of its keys.

use std::sync::Arc;
use std::time::{Duration, Instant};

use command::Sink as _;
use gateway::resp::{RespWriter, ScriptedCommand, Version};
use lua::{Callable, Limits, Outcome, Run, Stopped, ThreadTime};
use node::replica::read::ReadTime;
use node::routing::route::Route;
use txn::interactive::InteractiveTxn;

use super::QUEUE_TIME_MAX;
use super::cache::{Program, Script};
use super::host::{Halt, ScriptHost};
use super::job::{Job, JobReply};
use super::keyspaces::OtherKeyspaces;
use super::threads::Runner;

/// A script was compiled once, and cannot be again: memory or time did not suffice.
const NOT_COMPILED: &str = "ERR the script could not be compiled within its limits; nothing of \
                            it was done. Send it again";
/// Who has closed only its own side still reads this.
const CLIENT_GONE: &str = "ERR the script takes long, and its client has closed the connection; \
                           nothing of it was done. Keep the connection open until the reply is \
                           there";
/// Bytes of sources that a thread keeps compiled.
const LOADED_BYTES_MAX: usize = 16 << 20;
/// Scripts that a thread keeps compiled.
const LOADED_MAX: usize = 500;

/// What became of a script.
pub enum Ran {
    /// It has ended; this is its reply, if what it read is as it was.
    Ended(JobReply),
    /// It has no meaning: this is its reply, whatever else.
    Refused(JobReply),
    /// It cannot go on here.
    Halted(Halt),
    /// It was stopped.
    Stopped(Stopped),
}

/// A script that is called.
pub(super) struct Called<'a> {
    /// A script or a function.
    pub program: &'a Program,
    pub keys: &'a [&'a [u8]],
    pub args: &'a [&'a [u8]],
    pub read_only: bool,
    /// The keyspace that is selected as it begins, unless it is its own.
    pub selected: Option<Arc<Route>>,
}

/// On what a script runs.
pub struct Ground<'a> {
    /// Its keyspace.
    pub route: &'a Arc<Route>,
    /// The place of the only shard whose keys it may touch.
    pub place: Option<usize>,
    /// When its reads happen.
    pub now: ReadTime,
    /// Its keys.
    pub copy: &'a mut InteractiveTxn,
    /// Those of other keyspaces; none in a queue.
    pub others: Option<&'a mut OtherKeyspaces>,
    /// When it is stopped …
    pub until: Instant,
    /// … unless its thread has not had so much of the processor by then, and it has run for less
    /// than [`QUEUE_TIME_MAX`].
    pub thread_time: Option<Duration>,
    /// Whether it runs among the long ones, and may look through the keyspace.
    pub is_long: bool,
    /// For how long it has run before.
    pub ran: Duration,
}

impl Ground<'_> {
    /// The same, for one of several that run on it.
    pub(super) fn again(&mut self) -> Ground<'_> {
        Ground { copy: self.copy, others: self.others.as_deref_mut(), ..*self }
    }
}

impl Runner {
    /// Runs a job; what became of it, and whether it has changed the copy.
    pub(super) fn execute(&mut self, job: &Job, ground: Ground<'_>) -> (Ran, bool) {
        match &job.program {
            Program::Exec(exec) => (self.execute_all(job, exec, ground), true),
            Program::Load(script) => {
                let loaded = self.load(script);
                let mut bytes = Vec::new();
                RespWriter::new(&mut bytes, job.version).bulk(script.sha.as_bytes());
                let reply = JobReply::new(bytes, false);
                (Ran::Refused(loaded.map_or_else(|text| job.error(&text), |()| reply)), false)
            }
            program => {
                let (keys, args) = job.arguments();
                let read_only = job.read_only;
                let call = Called { program, keys: &keys, args: &args, read_only, selected: None };
                self.execute_script(job, &call, ground)
            }
        }
    }

    /// Has the interpreter know a script, or says why it cannot.
    pub(super) fn load(&mut self, script: &Script) -> Result<(), String> {
        if self.interpreter.has(&script.sha) {
            return Ok(());
        }
        while self.loaded.len() == LOADED_MAX || self.loaded_bytes > LOADED_BYTES_MAX {
            let Some((oldest, bytes)) = self.loaded.pop_front() else { break };
            self.loaded_bytes -= bytes;
            self.interpreter.unload(&oldest);
        }
        self.loaded.push_back((script.sha, script.source.len()));
        self.loaded_bytes += script.source.len();
        self.interpreter.load(&script.source).map(|_| ()).map_err(|error| {
            self.loaded.pop_back();
            self.loaded_bytes -= script.source.len();
            self.runtime.scripts.cache.forget(&script.sha);
            error.0
        })
    }

    pub(super) fn execute_script(
        &mut self,
        job: &Job,
        Called { program, keys, args, read_only, selected }: &Called<'_>,
        ground: Ground<'_>,
    ) -> (Ran, bool) {
        let what = match program {
            Program::Script(script) => self.load(script).map(|()| Callable::Script(&script.sha)),
            Program::Function(function) => self.load_function(function),
            Program::Load(_) | Program::Exec(_) => unreachable!("these run no code of their own"),
        };
        let what = match what {
            Ok(what) => what,
            Err(text) => return (Ran::Refused(job.error(&text)), false),
        };
        let config = &self.surroundings.config;
        let longest = QUEUE_TIME_MAX;
        let limits = Limits {
            time: ground.until.saturating_duration_since(Instant::now()),
            thread_time: ground.thread_time.map(|until| ThreadTime { until, longest }),
            instructions: config.script_instructions,
            memory_bytes: config.script_memory_bytes as usize,
        };
        let deny_oom = self.runtime.memory.is_full() && !program.flags().allow_oom;
        let may = ScriptedCommand { read_only: *read_only, deny_oom };
        let (runtime, surroundings) = (&self.runtime, &self.surroundings);
        let long_ran = ground.is_long.then_some(ground.ran);
        let mut host = ScriptHost::new(runtime, surroundings, &mut self.workspace, ground, may);
        host.mode = job.mode;
        host.selected.clone_from(selected);
        host.touched = job.tracks.then(Default::default);
        let running = &self.runtime.scripts.running[self.number];
        let killed = running.begin(job, long_ran);
        host.killed = Some(killed);
        let run = Run { what, keys, args, resp3: job.version == Version::V3, limits, killed };
        let mut bytes = Vec::new();
        let outcome = self.interpreter.run(&run, &mut host, &mut bytes);
        running.end();
        let wrote = host.wrote;
        let ran = match outcome {
            Outcome::Replied { is_error } => {
                let ScriptHost { messages, touched, .. } = host;
                Ran::Ended(JobReply { messages, touched, ..JobReply::new(bytes, is_error) })
            }
            Outcome::Aborted => {
                Ran::Halted(host.halt.take().expect("the host says why it ended a script"))
            }
            Outcome::Stopped(why) => Ran::Stopped(why),
            Outcome::Unknown => Ran::Refused(job.error(NOT_COMPILED)),
        };
        (ran, wrote)
    }

    /// The error of a script that was stopped.
    pub(super) fn stopped_text(&self, job: &Job, why: Stopped) -> String {
        let (config, counts) = (&self.surroundings.config, &self.runtime.scripts.counts);
        match why {
            Stopped::Killed => counts.killed.add(1),
            _ => counts.stopped.add(1),
        }
        match why {
            Stopped::Killed if job.client_is_gone() => CLIENT_GONE.into(),
            Stopped::Killed if job.program.is_function() => {
                "ERR Script killed by user with FUNCTION KILL; nothing of it was done".into()
            }
            Stopped::Killed => {
                "ERR Script killed by user with SCRIPT KILL; nothing of it was done".into()
            }
            Stopped::Time => format!(
                "BUSY the script ran for {} ms, the longest time for one (script_time_ms); \
                 nothing of it was done. Have it do less",
                config.script_time_ms
            ),
            Stopped::Instructions => format!(
                "ERR the script ran {} instructions, the most for one (script_instructions); \
                 nothing of it was done",
                config.script_instructions
            ),
            Stopped::Memory => format!(
                "ERR not enough memory: the script took {} bytes, the most for one \
                 (script_memory_bytes); nothing of it was done",
                config.script_memory_bytes
            ),
        }
    }
}
