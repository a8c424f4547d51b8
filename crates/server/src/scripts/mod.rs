//! Runs scripts and functions (EVAL, FCALL): over any keys, each as one transaction (SAFETY G25).
//!
//! ```text
//!   event loop ──job──► keys of one shard that is led here ──► its queue ─┐
//!                └────► any other ─────────────────────────────────────┐ │
//!                                                                     ▼ ▼
//!                               script threads: Lua runs on a copy of the keys (txn::interactive)
//!                                  queue: a batch of scripts, one entry of the shard's log
//!                                  else: reads are gathered, the script runs again until it lacks
//!                                        none, then a transaction over its shards
//!   event loop ◄──reply── done ◄── applied, if all that was read is as it was; else again
//! ```
//!
//! Lua runs on script threads only, never at apply, on an event loop or in an executor: a hostile
//! script stops nobody else. Nothing of a script is done before it has ended: one that is stopped,
//! by a limit or by SCRIPT KILL, leaves nothing.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time, instructions, memory of a script | `script_time_ms`, `script_instructions`, `script_memory_bytes` | stopped: an error, nothing done |
//! | time of a script in a queue, by the clock and of its thread | [`QUEUE_TIME`] | it leaves the queue |
//! | the same by the clock alone | [`QUEUE_TIME_MAX`] | it leaves the queue |
//! | bytes of a source | 1 MiB | an error |
//! | time of another script | `SHORT_TIME`, then `MEDIUM_TIME` | it begins again among the longer ones, which take turns by client ([`fair`]) |
//! | a long script whose client is gone | `MEDIUM_TIME` | stopped |
//! | lines that scripts log | [`log_limit::LINES_MAX`] a second | left out, and counted |
//! | keys and bytes that a script reads and writes | [`txn::interactive::KEYS_MAX`], [`BYTES_MAX`] | an error, nothing done |
//! | time until it commits, once it came or left its queue | `request_timeout_ms`, and its own time | `BUSY`, nothing done |
//! | sources in the cache, and what each takes besides | `script_cache_bytes` | those not used for longest are forgotten |
//! | changes of libraries and scripts in one EXEC | `exec_changes::CHANGES_MAX` | refused, nothing done |
//! | bytes of all libraries | [`keyspace::catalogue::LIBRARIES_BYTES_MAX`] | an error, nothing changed |
//! | scripts that wait | those that connections are owed answers for | – |

mod cache;
mod call_frames;
mod counts;
mod exec;
mod exec_changes;
mod exec_reply;
pub mod fair;
mod flushes;
mod forward;
mod host;
mod job;
mod keyspaces;
mod late;
pub mod libraries;
pub mod log_limit;
mod own_writes;
mod peers;
mod primaries;
mod queues;
mod run;
mod runs_at;
mod scans;
mod shards;
mod swaps;
mod threads;
mod topics;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::resp::{Mode, ScriptCall, ScriptName};
use keyspace::{Libraries, ShardId};
use parking_lot::{Condvar, Mutex};
use txn::script_queue::ScriptQueue;

pub use cache::{ExecProgram, NoScript, Program, Script, ScriptCache};
pub use counts::{Outcome, ScriptCounts};
pub use exec_changes::{Draft, kill, needs_news, policy, refusal, unknown_scripts};
pub use exec_changes::{push_with_news, push_with_scripts};
pub use exec_reply::{Filling, Gaps};
pub use forward::{Forwarded, forward, link_lost, take_frame, tick_forwarded};
pub use job::{Caller, Job, JobReply, ReplyTo, TouchedKeys};
pub use peers::{Found, ask, fetch, fetch_all, kill_elsewhere, member_lost, take_question, tick};
pub use runs_at::{RunsAt, find_queue};
pub use threads::{RunningScript, ScriptThreads};
pub use topics::SOURCE as PUBLISH;

use fair::{FairQueue, Usage};
use late::Readers;
use libraries::LibraryCache;
use log_limit::LogLimit;
use shards::Pace;
use threads::Running;

/// A script that runs longer than this in its shard's queue goes on outside of it.
pub const QUEUE_TIME: Duration = Duration::from_millis(5);
/// … and so does one that runs for so long by the clock alone, however busy the machine is.
pub const QUEUE_TIME_MAX: Duration = Duration::from_millis(50);
/// A script over any shards that runs longer than this begins again, among the medium ones …
const SHORT_TIME: Duration = Duration::from_millis(20);
/// … and after so long there, among the long ones. So those that loop hold up only each other.
const MEDIUM_TIME: Duration = Duration::from_millis(200);
/// Bytes that a script may read and write.
pub const BYTES_MAX: u64 = 64 << 20;
/// How long a script waits for new routes when a shard has moved.
const REROUTE_PAUSE: Duration = Duration::from_millis(5);
/// How often the first thread looks whether scripts have waited for too long.
const SWEEP_PERIOD: Duration = Duration::from_millis(100);
/// Scripts in one batch of a queue.
const BATCH_MAX: usize = 512;
/// After so long a queue's batch takes no further script.
const BATCH_TIME: Duration = Duration::from_millis(2);

/// The error of a script that is not known.
pub const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
const NO_FUNCTION: &str = "ERR Function not found";
const WRITES: &str = "ERR Can not execute a script with write flag using *_ro command.";
const OUT_OF_MEMORY: &str = "OOM allow-oom flag is not set on the script, can not run it when used \
                             memory > 'maxmemory'";
const NO_CLUSTER: &str = "ERR Can not run script on cluster, 'no-cluster' flag is set.";

/// What all threads share about scripts.
pub struct Scripts {
    /// How long a script may run.
    script_time: Duration,
    /// Scripts by their SHA1.
    pub cache: ScriptCache,
    /// Libraries of functions.
    pub libraries: LibraryCache,
    /// What scripts have come to.
    pub counts: ScriptCounts,
    /// How much they may log.
    log_limit: LogLimit,
    queues: Mutex<BTreeMap<ShardId, ScriptQueue<Job>>>,
    tasks: Mutex<Tasks>,
    wake: Condvar,
    /// Those that wait for keys.
    readers: Readers,
    /// Those that other nodes run.
    forwarded: Forwarded,
    /// What other nodes are asked for.
    questions: peers::Questions,
    /// What each script thread runs.
    running: Vec<Running>,
}

#[derive(Default)]
struct Tasks {
    queues: VecDeque<ShardId>,
    calls: VecDeque<Call>,
    short: VecDeque<shards::Attempt>,
    medium: FairQueue<shards::Attempt>,
    long: FairQueue<shards::Attempt>,
    /// Of clients' medium and long scripts.
    usage: Usage,
    /// By how much they are put back for it, at most.
    later_max: Duration,
    /// What pauses, by when it is due.
    pausing: VecDeque<(Instant, Paused)>,
    /// When the first thread is to look for those that have waited for too long.
    sweep_at: Option<Instant>,
    is_stopping: bool,
}

/// Kinds of tasks, in the order in which a thread takes one of each.
const KINDS: [TaskKind; 5] =
    [TaskKind::Queue, TaskKind::Call, TaskKind::Short, TaskKind::Medium, TaskKind::Long];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskKind {
    Queue,
    Call,
    Short,
    Medium,
    Long,
}

impl TaskKind {
    /// Whether a thread, one of so many, takes such tasks. The first serves queues only, the
    /// second short scripts and calls too, and the third no long ones if there are more: these hold
    /// up only each other.
    fn is_for(self, thread: usize, threads: usize) -> bool {
        match self {
            TaskKind::Queue => true,
            TaskKind::Call | TaskKind::Short => thread > 0,
            TaskKind::Medium => thread > 1,
            TaskKind::Long => thread > 2 || thread > 1 && threads == 3,
        }
    }
}

impl Tasks {
    fn take(&mut self, kind: TaskKind) -> Option<Task> {
        let other = |attempt| Task::Other(Box::new(attempt));
        match kind {
            TaskKind::Queue => self.queues.pop_front().map(Task::Queue),
            TaskKind::Call => self.calls.pop_front().map(Task::Call),
            TaskKind::Short => self.short.pop_front().map(other),
            TaskKind::Medium => self.medium.pop().map(other),
            TaskKind::Long => self.long.pop().map(other),
        }
    }

    /// The next task of a thread whose turn it is to take this kind; and whose is next.
    fn next(&mut self, thread: usize, threads: usize, turn: &mut usize) -> Option<Task> {
        for place in *turn..*turn + KINDS.len() {
            let kind = KINDS[place % KINDS.len()];
            if kind.is_for(thread, threads)
                && let Some(task) = self.take(kind)
            {
                *turn = (place + 1) % KINDS.len();
                return Some(task);
            }
        }
        None
    }

    fn push(&mut self, mut attempt: shards::Attempt) {
        let now = Instant::now();
        attempt.begin_to_wait(now);
        let (used, later_max) = (self.usage.of(attempt.client(), now), self.later_max);
        let place = attempt.place(|| fair::place(used, later_max, now));
        match attempt.pace() {
            Pace::Short => self.short.push_back(attempt),
            Pace::Medium => self.medium.push(attempt, place),
            Pace::Long => self.long.push(attempt, place),
        }
    }

    /// Takes those that have waited for too long.
    fn take_late(&mut self, is_late: impl Fn(&shards::Attempt) -> bool) -> Vec<shards::Attempt> {
        let mut late = Vec::new();
        if self.short.iter().any(&is_late) {
            let short = std::mem::take(&mut self.short).into_iter();
            let (too_late, in_time) = short.partition::<VecDeque<_>, _>(&is_late);
            self.short = in_time;
            late.extend(too_late);
        }
        late.extend(self.medium.take_if(&is_late));
        late.extend(self.long.take_if(&is_late));
        late
    }

    /// Whether the first thread is to look now for those that have waited for too long. It does so
    /// however busy the queues are.
    fn is_sweep_due(&mut self, now: Instant) -> bool {
        let is_due = self.sweep_at.is_none_or(|at| at <= now);
        if is_due {
            self.sweep_at = Some(now + SWEEP_PERIOD);
        }
        is_due
    }

    /// Ends pauses that are over; whether there were any.
    fn end_pauses(&mut self, now: Instant) -> bool {
        let mut has_ended = false;
        while let Some((_, paused)) = self.pausing.pop_front_if(|(due, _)| *due <= now) {
            match paused {
                Paused::Attempt(attempt) => self.push(*attempt),
                Paused::Call(call) => self.calls.push_back(call),
            }
            has_ended = true;
        }
        has_ended
    }
}

/// Work for a script thread that is no script.
type Call = Box<dyn FnOnce() + Send>;

/// What a script thread does after a pause.
enum Paused {
    Attempt(Box<shards::Attempt>),
    Call(Call),
}

/// What a script thread does next.
enum Task {
    /// A batch of this shard's queue.
    Queue(ShardId),
    /// One script, over any shards.
    Other(Box<shards::Attempt>),
    /// This.
    Call(Call),
    /// [`late::sweep`].
    Sweep,
}

impl Scripts {
    /// For so many threads, with so many bytes of sources; a script runs for `script_time` at most.
    /// A busy client's script is put back by a quarter of the time for which scripts wait at most.
    pub fn new(
        threads: usize,
        cache_bytes_max: u64,
        script_time: Duration,
        request_timeout: Duration,
    ) -> Self {
        let tasks = Tasks { later_max: request_timeout / 4, ..Tasks::default() };
        Self {
            script_time,
            cache: ScriptCache::new(cache_bytes_max),
            libraries: LibraryCache::default(),
            counts: ScriptCounts::default(),
            log_limit: LogLimit::default(),
            queues: Mutex::default(),
            tasks: Mutex::new(tasks),
            wake: Condvar::new(),
            readers: Readers::default(),
            forwarded: Forwarded::default(),
            questions: peers::Questions::default(),
            running: (0..threads).map(|_| Running::default()).collect(),
        }
    }

    /// Whether a call names a script or a function that says it only reads; none if it is not known
    /// here, or none.
    pub fn only_reads(&self, name: ScriptName<'_>) -> Option<bool> {
        let program = match name {
            ScriptName::Function(name) => self.libraries.find(name)?,
            ScriptName::Sha(_) => self.cache.find(name).ok()?,
            ScriptName::Source(source) => Program::Script(self.cache.of(source).ok()?),
        };
        Some(program.flags().no_writes)
    }

    /// The script that a call names, if it may be called so.
    ///
    /// # Errors
    /// The reply.
    pub fn resolve(
        &self,
        call: &ScriptCall<'_>,
        is_out_of_memory: bool,
        mode: Mode,
    ) -> Result<Program, String> {
        let program = match call.name {
            ScriptName::Function(name) => self.libraries.find(name).ok_or(NO_FUNCTION)?,
            name => self.cache.find(name).map_err(|why| match why {
                NoScript::Malformed(text) => text,
                NoScript::Unknown(_) => NO_SCRIPT.into(),
            })?,
        };
        Self::permit(&program, call, is_out_of_memory, mode)?;
        Ok(program)
    }

    /// Whether a program may be called so.
    ///
    /// # Errors
    /// The reply.
    fn permit(
        program: &Program,
        call: &ScriptCall<'_>,
        is_out_of_memory: bool,
        mode: Mode,
    ) -> Result<(), String> {
        let flags = program.flags();
        let may_write = flags.has_shebang && !flags.no_writes;
        match () {
            () if call.read_only && may_write => Err(WRITES.into()),
            () if may_write && !flags.allow_oom && is_out_of_memory => Err(OUT_OF_MEMORY.into()),
            () if flags.no_cluster && mode == Mode::Cluster => Err(NO_CLUSTER.into()),
            () => Ok(()),
        }
    }

    /// Has a script run in the queue of its shard, which is led here.
    pub fn push_in_queue(&self, shard: ShardId, job: Job) {
        let is_due = self.with_queue(shard, |queue| queue.push(job.client, job));
        self.schedule_queue(shard, is_due);
    }

    /// The same, with one that may have left a queue: before its client's later ones.
    fn push_in_queue_again(&self, shard: ShardId, mut job: Job) {
        let (client, left) = (job.client, job.left.take());
        if left == Some(shard) {
            self.with_queue(shard, |queue| queue.put_back(vec![(client, job)]));
        } else {
            self.push_in_queue(shard, job);
        }
        if let Some(left) = left {
            self.has_ended(left, client);
        }
    }

    /// Has a script run over any shards.
    pub fn push(&self, job: Job) {
        self.push_attempt(shards::Attempt::first(job));
    }

    /// Stops all scripts that run now, or functions; whether there were any.
    pub fn kill(&self, functions: bool) -> bool {
        let killed = self.running.iter().filter(|running| running.kill(functions));
        killed.count() > 0
    }

    /// The connection of a client is gone: its long scripts are stopped. Later ones of it know by
    /// [`Job::client_is_gone`].
    pub fn client_gone(&self, client: u64) {
        self.running.iter().for_each(|running| running.kill_long_of(client));
    }

    /// Control follows the catalogue.
    pub fn follow(&self, libraries: Libraries) {
        self.cache.flushed(libraries.script_epoch());
        self.libraries.store(libraries);
    }

    /// Has a script thread do something that is no script.
    pub fn call(&self, call: Call) {
        self.tasks.lock().calls.push_back(call);
        self.wake.notify_all();
    }

    /// A function that runs now, if there is one.
    pub fn running_function(&self) -> Option<RunningScript> {
        let mut running = self.running.iter().filter_map(Running::script);
        running.find(|running| running.program.is_function())
    }

    /// A client's script has ended that had left this queue.
    fn has_ended(&self, shard: ShardId, client: u64) {
        let is_due = self.with_queue(shard, |queue| queue.ended(client));
        self.schedule_queue(shard, is_due);
    }

    fn with_queue<R>(&self, shard: ShardId, act: impl FnOnce(&mut ScriptQueue<Job>) -> R) -> R {
        let mut queues = self.queues.lock();
        let queue = queues.entry(shard).or_default();
        let result = act(queue);
        if queue.is_empty() {
            queues.remove(&shard);
        }
        result
    }

    fn push_attempt(&self, attempt: shards::Attempt) {
        self.tasks.lock().push(attempt);
        // The first threads may sleep, and are none for it.
        self.wake.notify_all();
    }

    /// Has a script run again when there may be new routes.
    fn push_after_pause(&self, attempt: shards::Attempt) {
        self.pause(Paused::Attempt(Box::new(attempt)));
    }

    /// The same of what is no script.
    fn call_after_pause(&self, call: Call) {
        self.pause(Paused::Call(call));
    }

    fn pause(&self, paused: Paused) {
        self.tasks.lock().pausing.push_back((Instant::now() + REROUTE_PAUSE, paused));
        // They sleep no longer than that.
        self.wake.notify_all();
    }

    /// A client's medium or long script has run for so long.
    fn add_usage(&self, client: u64, took: Duration) {
        self.tasks.lock().usage.add(client, took, Instant::now());
    }

    fn schedule_queue(&self, shard: ShardId, is_due: bool) {
        if is_due {
            self.tasks.lock().queues.push_back(shard);
            self.wake.notify_one();
        }
    }

    /// The next task of a thread; none if the node stops. It takes one of each kind in turn, so
    /// that busy queues hold up nothing else.
    fn next(&self, thread: usize, turn: &mut usize) -> Option<Task> {
        let mut tasks = self.tasks.lock();
        loop {
            if tasks.is_stopping {
                return None;
            }
            let is_first = thread == 0;
            if is_first && tasks.is_sweep_due(Instant::now()) {
                return Some(Task::Sweep);
            }
            if !tasks.pausing.is_empty() && tasks.end_pauses(Instant::now()) {
                self.wake.notify_all();
            }
            if let Some(task) = tasks.next(thread, self.running.len(), turn) {
                return Some(task);
            }
            let sweep_at = tasks.sweep_at.filter(|_| is_first);
            match tasks.pausing.front().map(|(due, _)| *due).into_iter().chain(sweep_at).min() {
                Some(due) => _ = self.wake.wait_until(&mut tasks, due),
                None => self.wake.wait(&mut tasks),
            }
        }
    }

    fn stop(&self) {
        self.tasks.lock().is_stopping = true;
        self.running.iter().for_each(Running::stop);
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests;

/// What script threads need besides the runtime: what commands ask of the server.
#[derive(Clone)]
pub struct Surroundings {
    /// The node's settings.
    pub config: Arc<crate::config::Config>,
    /// All Redis clients of the process.
    pub clients: Arc<crate::event_loop::Clients>,
    /// Texts about the server.
    pub texts: Arc<crate::event_loop::Texts>,
    /// The node's certificate, if it has one.
    pub tls: Option<Arc<crate::tls::Tls>>,
    /// The password that clients must give, if there is one.
    pub gate: Option<Arc<crate::password::PasswordGate>>,
}
