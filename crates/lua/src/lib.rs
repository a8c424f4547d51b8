//! Lua scripts as Redis 7.0 runs them, in a sandbox.
//!
//! An [`Interpreter`] has one Lua state and lives on one thread. It compiles scripts and libraries,
//! runs them, and writes their reply in RESP. It does nothing else: what a script asks of the data
//! goes to a [`Host`], one command at a time.
//!
//! **A script cannot harm its thread.** [`Limits`] of time, instructions and memory hold for
//! everything it does, also inside `pcall`, coroutines and the functions of the libraries; so does
//! the flag `killed` of a [`Run`]. How: `context`. It sees no file, clock but `os.clock`,
//! address, bytecode, nor anything that another script left: `sandbox`.
//!
//! **It reads a clock**, for the limit of time and `os.clock`; therefore it is not among the pure
//! crates. With no limit of time near, and a script without `os.clock`, equal runs give equal
//! bytes.
//!
//! **What differs from redis-server 7.0.15**; all else is compared byte for byte:
//! `math.random` begins anew in each run; settings of `cjson` hold for one run; `tostring` of a
//! table or function numbers it; there is `os.clock` and no `string.dump`; the metatable of strings
//! is read-only; an error that is a table without `err` is an error reply (Redis ends); a pattern
//! with more than 3 000 open repetitions raises `pattern too complex`.
//!
//! | module | has |
//! |---|---|
//! | `interpreter` | compiled scripts, runs, and the state they run in |
//! | `context` | limits, memory, the host |
//! | `sandbox`, `base` | globals, read-only tables, basic functions |
//! | `redis`, `errors`, `to_lua`, `to_resp` | the table `redis`, and conversions |
//! | [`library`] | `FUNCTION LOAD`: libraries and their functions; `dump`: their bytes |
//! | `script_flags` | the line `#!lua flags=…` |
//! | `cjson`, `cmsgpack`, `structs`, `bit` | Redis's libraries |
//! | `strings`, `pattern`, `tables`, `maths`, `coroutine` | Lua's, made stoppable |
//!
//! **Unsafe code.** Functions that Lua calls are C functions, which an error leaves by `longjmp`.
//! They own nothing then that must be dropped; buffers live in the context or are
//! Lua's (`buffer`).

mod base;
mod bit;
mod buffer;
mod cjson;
mod cmsgpack;
mod context;
mod coroutine;
mod errors;
mod interpreter;
pub mod library;
mod maths;
mod pattern;
mod redis;
mod sandbox;
mod script_flags;
mod sha;
mod stack;
mod strings;
mod structs;
mod tables;
mod to_lua;
mod to_resp;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use context::thread_time;
pub use interpreter::Interpreter;
pub use library::{Function, Library, LibraryError};
pub use script_flags::ScriptFlags;
pub use sha::Sha1Hex;

/// What scripts see as `redis.REDIS_VERSION`.
pub const REDIS_VERSION: &str = "7.0.15";
/// The same as a number: a byte for each part.
pub const REDIS_VERSION_NUM: f64 = 458_767.0;

/// What one run may use, together. A run that needs more is stopped within milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time by the clock, with what the host does.
    pub time: Duration,
    /// Once that is over it still goes on until its thread has had so much of the processor
    /// ([`thread_time`]), if this is set: a busy machine makes no script long.
    pub thread_time: Option<ThreadTime>,
    /// Instructions of Lua, and steps of library functions.
    pub instructions: u64,
    /// Bytes that the state holds at rest, with about 100 KB of its own. For moments, while a block
    /// grows, it may be half as much again and a megabyte.
    pub memory_bytes: usize,
}

/// How much of the processor a thread may have had.
#[derive(Clone, Copy, Debug)]
pub struct ThreadTime {
    /// So much, as [`thread_time`] counts it.
    pub until: Duration,
    /// After so long by the clock a run is stopped however little its thread has had.
    pub longest: Duration,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub enum Callable<'a> {
    /// A script that [`Interpreter::load`] has compiled.
    Script(&'a Sha1Hex),
    /// A function of a library that [`Interpreter::load_library`] has loaded.
    Function {
        /// The library's name.
        library: &'a [u8],
        /// The function's name.
        name: &'a [u8],
    },
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The script or function.
    pub what: Callable<'a>,
    /// Its `KEYS`.
    pub keys: &'a [&'a [u8]],
    /// Its `ARGV`.
    pub args: &'a [&'a [u8]],
    /// Does the client speak RESP3? The reply is in its protocol.
    pub resp3: bool,
    /// What it may use.
    pub limits: Limits,
    /// Another thread sets it to stop the run.
    pub killed: &'a AtomicBool,
}

/// What becomes of a script after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// It goes on with the command's reply.
    Continue,
    /// It ends at once, and nothing in it can prevent that: [`Outcome::Aborted`].
    Abort,
}

/// How loud a message of `redis.log` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLevel {
    /// `LOG_DEBUG`.
    Debug,
    /// `LOG_VERBOSE`.
    Verbose,
    /// `LOG_NOTICE`.
    Notice,
    /// `LOG_WARNING`.
    Warning,
}

/// Whom a script speaks to.
pub trait Host {
    /// Does one command of the script, and appends its reply: in RESP3 if `resp3` (the script has
    /// called `redis.setresp(3)`), else in RESP2. The reply must be whole and correct.
    ///
    /// A command that scripts cannot have is an error reply, in Redis's words: `-ERR Unknown Redis
    /// command called from script`, `-ERR Wrong number of args calling Redis command from script`,
    /// `-ERR This Redis command is not allowed from script`.
    fn call(&mut self, args: &[&[u8]], resp3: bool, reply: &mut Vec<u8>) -> Flow;

    /// May the script call this command (`redis.acl_check_cmd`)? `None`: there is none such.
    fn allows(&mut self, args: &[&[u8]]) -> Option<bool>;

    /// Takes a message of `redis.log`.
    fn log(&mut self, level: LogLevel, message: &[u8]);
}

/// Which limit stopped a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// [`Limits::time`].
    Time,
    /// [`Limits::instructions`].
    Instructions,
    /// [`Limits::memory_bytes`].
    Memory,
    /// [`Run::killed`].
    Killed,
}

/// How a run ended. Unless it replied, the output is as it was before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The reply is written.
    Replied {
        /// Is it an error, of the script or returned by it?
        is_error: bool,
    },
    /// The host wanted it.
    Aborted,
    /// A limit was reached. What commands have done so far is the host's to undo.
    Stopped(Stopped),
    /// The interpreter does not have this script or function.
    Unknown,
}

/// Why a script could not be compiled: the error reply, with its code and without the dash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileError(pub String);
