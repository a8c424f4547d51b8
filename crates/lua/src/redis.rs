//! The table `redis`, and the function that runs a script.

use std::ffi::c_int;
use std::io::Write as _;

use mlua::ffi;

use crate::context::{Stop, charge, charge_command, check_length, of, rethrow, stop};
use crate::errors::{self, push_error, raise};
use crate::sandbox::{self, enter_globals, set_constants};
use crate::stack::{
    bytes, format_double, get_registered, lua_State, push, set, set_function, set_registered, text,
};
use crate::{Flow, LogLevel, to_lua, to_resp};

/// The function [`run`] and the handler of errors, as values.
static RUNNER: u8 = 8;
static HANDLER: u8 = 9;
static COMPILER: u8 = 10;

const LOG_LEVELS: [(&str, f64); 4] =
    [("LOG_DEBUG", 0.0), ("LOG_VERBOSE", 1.0), ("LOG_NOTICE", 2.0), ("LOG_WARNING", 3.0)];

const REPLICATION: [(&str, f64); 5] = [
    ("REPL_NONE", 0.0),
    ("REPL_AOF", 1.0),
    ("REPL_SLAVE", 2.0),
    ("REPL_REPLICA", 2.0),
    ("REPL_ALL", 3.0),
];

const NOT_TEXT: &str = "Lua redis lib command arguments must be strings or integers";
const NO_ARGUMENT: &str = "Please specify at least one argument for this redis lib call";

unsafe fn open_common(l: *mut lua_State, table: c_int) {
    unsafe {
        set_constants(l, table, &LOG_LEVELS);
        set_constants(l, table, &[("REDIS_VERSION_NUM", crate::REDIS_VERSION_NUM)]);
        set_constants(l, table, &REPLICATION);
        set_function(l, table, "call", call);
        set_function(l, table, "pcall", pcall);
        set_function(l, table, "log", log);
        set_function(l, table, "setresp", setresp);
        set_function(l, table, "sha1hex", sha1hex);
        set_function(l, table, "error_reply", error_reply);
        set_function(l, table, "status_reply", status_reply);
        set_function(l, table, "set_repl", set_repl);
        set_function(l, table, "acl_check_cmd", acl_check_cmd);
    }
}

/// `redis` as scripts have it.
pub(crate) unsafe fn open_for_scripts(l: *mut lua_State, table: c_int) {
    unsafe {
        open_common(l, table);
        set_function(l, table, "replicate_commands", replicate_commands);
        set_function(l, table, "breakpoint", breakpoint);
        set_function(l, table, "debug", debug);
    }
}

/// `redis` as functions have it.
pub(crate) unsafe fn open_for_functions(l: *mut lua_State, table: c_int) {
    unsafe { open_common(l, table) }
}

/// `redis` as a library has it while it is loaded: it can register, and say something.
pub(crate) unsafe fn open_for_loading(l: *mut lua_State, table: c_int) {
    unsafe {
        set_constants(l, table, &LOG_LEVELS);
        set_constants(l, table, &[("REDIS_VERSION_NUM", crate::REDIS_VERSION_NUM)]);
        set_function(l, table, "log", log);
        set_function(l, table, "register_function", crate::library::register_function);
    }
}

/// What runs, for [`run`].
pub(crate) struct Job<'a> {
    /// The compiled function's place in the registry.
    pub(crate) reference: c_int,
    /// A function gets its keys and arguments as arguments, a script as globals.
    pub(crate) is_function: bool,
    /// For messages: the script's sha or the function's name.
    pub(crate) name: &'a [u8],
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) args: &'a [&'a [u8]],
}

/// Puts the values that every run needs into the registry.
pub(crate) unsafe fn make_runner(l: *mut lua_State) {
    unsafe {
        ffi::lua_pushcclosure(l, run, 0);
        set_registered(l, &RUNNER);
        ffi::lua_pushcclosure(l, errors::handler, 0);
        set_registered(l, &HANDLER);
        ffi::lua_pushcclosure(l, crate::interpreter::compile_script, 0);
        set_registered(l, &COMPILER);
    }
}

/// Pushes the function that compiles a script; allocates nothing.
pub(crate) unsafe fn push_compiler(l: *mut lua_State) {
    unsafe { get_registered(l, &COMPILER) }
}

/// Pushes the function that runs a [`Job`]; allocates nothing.
pub(crate) unsafe fn push_runner(l: *mut lua_State) {
    unsafe { get_registered(l, &RUNNER) }
}

/// Runs the job whose address is its only argument, and writes the reply.
unsafe extern "C-unwind" fn run(l: *mut lua_State) -> c_int {
    unsafe {
        let job = &*ffi::lua_touserdata(l, 1).cast::<Job<'_>>();
        ffi::lua_settop(l, 0);
        get_registered(l, &HANDLER);
        ffi::lua_rawgeti(l, ffi::LUA_REGISTRYINDEX, ffi::lua_Integer::from(job.reference));
        let count = if job.is_function {
            enter_globals(l, &sandbox::FUNCTION);
            push_list(l, job.keys);
            push_list(l, job.args);
            2
        } else {
            enter_globals(l, &sandbox::SCRIPT);
            get_registered(l, &sandbox::SCRIPT_REAL);
            push_list(l, job.keys);
            set(l, -2, "KEYS");
            push_list(l, job.args);
            set(l, -2, "ARGV");
            ffi::lua_settop(l, 2);
            0
        };
        let status = ffi::lua_pcall(l, count, 1, 1);
        rethrow(l);
        if status == 0 {
            to_resp::reply(l);
        } else {
            errors::reply(l, job.name);
        }
        0
    }
}

unsafe fn push_list(l: *mut lua_State, list: &[&[u8]]) {
    unsafe {
        ffi::lua_createtable(l, c_int::try_from(list.len()).unwrap_or(0), 0);
        for (index, item) in (1..).zip(list) {
            push(l, item);
            ffi::lua_rawseti(l, -2, index);
        }
    }
}

unsafe extern "C-unwind" fn call(l: *mut lua_State) -> c_int {
    unsafe { command(l, true) }
}

unsafe extern "C-unwind" fn pcall(l: *mut lua_State) -> c_int {
    unsafe { command(l, false) }
}

/// Pushes an error table; raises it or returns it.
unsafe fn refused(l: *mut lua_State, message: &str, raises: bool) -> c_int {
    unsafe {
        push_error(l, message.as_bytes(), false);
        if raises {
            ffi::lua_error(l);
        }
        1
    }
}

/// Collects the arguments as bytes; false if one is neither string nor number.
unsafe fn collect_arguments(l: *mut lua_State, count: c_int) -> bool {
    unsafe {
        let context = of(l);
        context.arguments.clear();
        let len = count as usize;
        if context.digits.len() < len {
            context.digits.resize(len, [0; 64]);
        }
        for index in 1..=count {
            if ffi::lua_type(l, index) == ffi::LUA_TNUMBER {
                let buffer = &mut context.digits[index as usize - 1];
                let len = digits(ffi::lua_tonumber(l, index), buffer);
                let start = buffer.as_ptr();
                context.arguments.push(std::slice::from_raw_parts(start, len));
            } else if let Some(argument) = bytes(l, index) {
                context.arguments.push(argument);
            } else {
                return false;
            }
        }
        true
    }
}

/// A number as Redis hands it to commands: 17 digits.
fn digits(number: f64, buffer: &mut [u8; 64]) -> usize {
    const EXACT: f64 = 1e15;
    if number.fract() == 0.0
        && number.abs() < EXACT
        && !(number == 0.0 && number.is_sign_negative())
    {
        let mut rest = &mut buffer[..];
        let before = rest.len();
        let _ = write!(rest, "{}", number as i64);
        return before - rest.len();
    }
    format_double(c"%.17g", number, buffer)
}

unsafe fn command(l: *mut lua_State, raises: bool) -> c_int {
    unsafe {
        let count = ffi::lua_gettop(l);
        if count == 0 {
            return refused(l, NO_ARGUMENT, raises);
        }
        if !collect_arguments(l, count) {
            return refused(l, NOT_TEXT, raises);
        }
        charge_command(l, 10);
        let context = of(l);
        let resp3 = context.script_resp3;
        let mut reply = std::mem::take(&mut context.reply);
        reply.clear();
        let mut arguments = std::mem::take(&mut context.arguments);
        let flow = match context.host() {
            Some(host) => host.call(&arguments, resp3, &mut reply),
            None => Flow::Abort,
        };
        // There may be so many that the stack has no room for the reply beside them.
        arguments.clear();
        ffi::lua_settop(l, 0);
        let context = of(l);
        context.arguments = arguments;
        context.reply = reply;
        if flow == Flow::Abort {
            stop(l, Stop::Aborted);
        }
        let is_error = context.reply.first() == Some(&b'-');
        let reply: &'static [u8] =
            std::slice::from_raw_parts(context.reply.as_ptr(), context.reply.len());
        to_lua::push_reply(l, reply);
        if is_error && raises {
            ffi::lua_error(l);
        }
        1
    }
}

unsafe extern "C-unwind" fn acl_check_cmd(l: *mut lua_State) -> c_int {
    unsafe {
        let count = ffi::lua_gettop(l);
        if count == 0 {
            raise(l, NO_ARGUMENT);
        }
        if !collect_arguments(l, count) {
            raise(l, NOT_TEXT);
        }
        let context = of(l);
        let arguments = std::mem::take(&mut context.arguments);
        let allowed = context.host().and_then(|host| host.allows(&arguments));
        of(l).arguments = arguments;
        match allowed {
            Some(allowed) => ffi::lua_pushboolean(l, c_int::from(allowed)),
            None => raise(l, "Invalid command passed to redis.acl_check_cmd()"),
        }
        1
    }
}

unsafe extern "C-unwind" fn log(l: *mut lua_State) -> c_int {
    unsafe {
        let count = ffi::lua_gettop(l);
        if count < 2 {
            raise(l, "redis.log() requires two arguments or more.");
        }
        if ffi::lua_isnumber(l, 1) == 0 {
            raise(l, "First argument must be a number (log level).");
        }
        let level = match ffi::lua_tonumber(l, 1) as i64 {
            0 => LogLevel::Debug,
            1 => LogLevel::Verbose,
            2 => LogLevel::Notice,
            3 => LogLevel::Warning,
            _ => raise(l, "Invalid debug level."),
        };
        of(l).scratch.clear();
        for index in 2..=count {
            if ffi::lua_isstring(l, index) == 0 {
                continue;
            }
            let part = text(l, index);
            check_length(l, of(l).scratch.len() + part.len());
            let scratch = &mut of(l).scratch;
            if index > 2 {
                scratch.push(b' ');
            }
            scratch.extend_from_slice(part);
        }
        let context = of(l);
        let message = std::mem::take(&mut context.scratch);
        if let Some(host) = context.host() {
            host.log(level, &message);
        }
        of(l).scratch = message;
        0
    }
}

unsafe extern "C-unwind" fn setresp(l: *mut lua_State) -> c_int {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            raise(l, "redis.setresp() requires one argument.");
        }
        let version = ffi::lua_tonumber(l, 1) as i64;
        if version != 2 && version != 3 {
            raise(l, "RESP version must be 2 or 3.");
        }
        of(l).script_resp3 = version == 3;
        0
    }
}

unsafe extern "C-unwind" fn sha1hex(l: *mut lua_State) -> c_int {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            raise(l, "wrong number of arguments");
        }
        let bytes = text(l, 1);
        charge(l, bytes.len() as u64 / 16);
        let sha = crate::Sha1Hex::of(bytes);
        push(l, sha.as_bytes());
        1
    }
}

/// The only argument, if it is a string.
unsafe fn only_text<'a>(l: *mut lua_State) -> Option<&'a [u8]> {
    unsafe { if ffi::lua_gettop(l) == 1 { bytes(l, 1) } else { None } }
}

unsafe extern "C-unwind" fn error_reply(l: *mut lua_State) -> c_int {
    unsafe {
        let Some(message) = only_text(l) else {
            return refused(l, "wrong number or type of arguments", false);
        };
        if message.first() == Some(&b'-') {
            push_error(l, message, false);
            return 1;
        }
        push(l, b"-");
        ffi::lua_pushvalue(l, 1);
        ffi::lua_concat(l, 2);
        push_error(l, text(l, -1), false);
        1
    }
}

unsafe extern "C-unwind" fn status_reply(l: *mut lua_State) -> c_int {
    unsafe {
        if only_text(l).is_none() {
            return refused(l, "wrong number or type of arguments", false);
        }
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_pushvalue(l, 1);
        set(l, -2, "ok");
        1
    }
}

/// Carillon replicates what scripts do as a whole: the flags are judged and change nothing.
unsafe extern "C-unwind" fn set_repl(l: *mut lua_State) -> c_int {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            raise(l, "redis.set_repl() requires two arguments.");
        }
        let flags = ffi::lua_tonumber(l, 1) as i64;
        if flags & !3 != 0 {
            raise(
                l,
                "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            );
        }
        0
    }
}

unsafe extern "C-unwind" fn replicate_commands(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::lua_pushboolean(l, 1);
        1
    }
}

unsafe extern "C-unwind" fn breakpoint(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::lua_pushboolean(l, 0);
        1
    }
}

unsafe extern "C-unwind" fn debug(_: *mut lua_State) -> c_int {
    0
}
