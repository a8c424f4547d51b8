//! Scripts and functions: what a call names, and what is asked about them.

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::{CommandError, NOT_INTEGER, key_too_long};
use crate::resp::number::parse_i64;
use crate::resp::request::{
    LibraryRequest, Request, Restore, ScriptCall, ScriptName, ScriptRequest,
};

/// The digits of a SHA1.
const SHA_BYTES: usize = 40;
const NO_SCRIPT: CommandError =
    CommandError::Fixed("NOSCRIPT No matching script. Please use EVAL.");
const NO_FUNCTION: CommandError = CommandError::Fixed("ERR Function not found");
const TOO_MANY_KEYS: CommandError =
    CommandError::Fixed("ERR Number of keys can't be greater than number of args");
const NEGATIVE_KEYS: CommandError = CommandError::Fixed("ERR Number of keys can't be negative");
const BAD_KEYS: CommandError = CommandError::Fixed("ERR Bad number of keys provided");
const FLUSH_OPTION: CommandError =
    CommandError::Fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
const FUNCTION_FLUSH_OPTION: CommandError =
    CommandError::Fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");

/// `EVAL script numkeys [key …] [arg …]`
pub fn eval<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    script(call, args, ScriptName::Source(args.at(1)), false)
}

/// `EVALSHA sha1 numkeys [key …] [arg …]`
pub fn evalsha<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    script(call, args, ScriptName::Sha(args.at(1)), false)
}

/// `EVAL_RO script numkeys [key …] [arg …]`
pub fn eval_ro<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    script(call, args, ScriptName::Source(args.at(1)), true)
}

/// `EVALSHA_RO sha1 numkeys [key …] [arg …]`
pub fn evalsha_ro<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    script(call, args, ScriptName::Sha(args.at(1)), true)
}

/// `FCALL function numkeys [key …] [arg …]`
pub fn fcall<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    function(call, args, false)
}

/// `FCALL_RO function numkeys [key …] [arg …]`
pub fn fcall_ro<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    function(call, args, true)
}

fn function<'a>(call: &Call<'_>, args: Args<'a>, read_only: bool) -> Outcome<'a> {
    let name = args.at(1);
    let translated = script(call, args, ScriptName::Function(name), read_only);
    // That there is no such function comes before what is wrong with the call.
    translated.map_err(|wrong| if call.ctx.has_function(name) { wrong } else { NO_FUNCTION })
}

fn script<'a>(
    call: &Call<'_>,
    args: Args<'a>,
    name: ScriptName<'a>,
    read_only: bool,
) -> Outcome<'a> {
    // As in Redis, that it is none comes before what is wrong with the keys.
    if matches!(name, ScriptName::Sha(sha) if sha.len() != SHA_BYTES) {
        return Err(NO_SCRIPT);
    }
    let bad = if matches!(name, ScriptName::Function(_)) { BAD_KEYS } else { NOT_INTEGER };
    let number = parse_i64(args.at(2)).ok_or(bad)?;
    let number = usize::try_from(number).map_err(|_| NEGATIVE_KEYS)?;
    if number > args.len() - 3 {
        return Err(TOO_MANY_KEYS);
    }
    let mut keys: Vec<&[u8]> = args.from(3).iter().collect();
    let args = keys.split_off(number);
    let key_bytes_max = call.session.limits.key_bytes_max;
    if keys.iter().any(|key| key.len() > key_bytes_max) {
        return Err(key_too_long(key_bytes_max));
    }
    Ok(Request::Script(Box::new(ScriptCall { name, keys, args, read_only })))
}

/// `SCRIPT EXISTS sha1 …`
pub fn exists<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Scripts(ScriptRequest::Exists(args.from(2).iter().collect())))
}

/// `SCRIPT LOAD script`
pub fn load<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Scripts(ScriptRequest::Load(args.at(2))))
}

/// `SCRIPT SHOW sha1`
pub fn show<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Scripts(ScriptRequest::Show(args.at(2))))
}

/// `SCRIPT KILL`
pub fn kill<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Ok(Request::Scripts(ScriptRequest::Kill { functions: false }))
}

/// `SCRIPT FLUSH [ASYNC | SYNC]`
pub fn flush<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    checked_flush(args, FLUSH_OPTION)?;
    Ok(Request::Scripts(ScriptRequest::Flush))
}

fn checked_flush(args: Args<'_>, error: CommandError) -> Result<(), CommandError> {
    let is_known =
        args.len() == 2 || (args.len() == 3 && (args.is(2, "SYNC") || args.is(2, "ASYNC")));
    is_known.then_some(()).ok_or(error)
}

/// `SCRIPT HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "SCRIPT",
        &[
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache of all nodes.",
            "KILL",
            "    Kill the executing Lua scripts of linked nodes; nothing of them is done.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
            "SHOW <sha1>",
            "    Show the source of a script in the script cache.",
        ],
    )
}

/// `FUNCTION LOAD [REPLACE] code`
pub fn function_load<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let last = args.len() - 1;
    if let Some(index) = (2..last).find(|index| !args.is(*index, "REPLACE")) {
        let option = args.at(index).escape_ascii();
        return Err(CommandError::formatted(format!("ERR Unknown option given: {option}")));
    }
    Ok(Request::Libraries(LibraryRequest::Load { code: args.at(last), replace: last > 2 }))
}

/// `FUNCTION DELETE library`
pub fn function_delete<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Libraries(LibraryRequest::Delete(args.at(2))))
}

/// `FUNCTION FLUSH [ASYNC | SYNC]`
pub fn function_flush<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.len() > 3 {
        return Err(too_many(args));
    }
    checked_flush(args, FUNCTION_FLUSH_OPTION)?;
    Ok(Request::Libraries(LibraryRequest::Flush))
}

fn too_many(args: Args<'_>) -> CommandError {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(args.at(1));
    text.extend_from_slice(b"'. Try FUNCTION HELP.");
    CommandError::Formatted(text)
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
pub fn function_list<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (mut pattern, mut with_code) = (None, false);
    let mut index = 2;
    while index < args.len() {
        match () {
            () if !with_code && args.is(index, "WITHCODE") => with_code = true,
            () if pattern.is_none() && args.is(index, "LIBRARYNAME") => {
                index += 1;
                let given = args.get(index);
                let missing = CommandError::Fixed("ERR library name argument was not given");
                pattern = Some(given.ok_or(missing)?);
            }
            () => {
                let mut text = b"ERR Unknown argument ".to_vec();
                text.extend_from_slice(args.at(index));
                return Err(CommandError::Formatted(text));
            }
        }
        index += 1;
    }
    Ok(Request::Libraries(LibraryRequest::List { pattern, with_code }))
}

/// `FUNCTION DUMP`
pub fn function_dump<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Ok(Request::Libraries(LibraryRequest::Dump))
}

/// `FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]`
pub fn function_restore<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.len() > 4 {
        return Err(too_many(args));
    }
    let how = match () {
        () if args.len() == 3 || args.is(3, "APPEND") => Restore::Append,
        () if args.is(3, "REPLACE") => Restore::Replace,
        () if args.is(3, "FLUSH") => Restore::Flush,
        () => {
            return Err(CommandError::Fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    Ok(Request::Libraries(LibraryRequest::Restore { payload: args.at(2), how }))
}

/// `FUNCTION STATS`
pub fn function_stats<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Ok(Request::Libraries(LibraryRequest::Stats))
}

/// `FUNCTION KILL`
pub fn function_kill<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Ok(Request::Scripts(ScriptRequest::Kill { functions: true }))
}

/// `FUNCTION HELP`
pub fn function_help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "FUNCTION",
        &[
            "LOAD [REPLACE] <FUNCTION CODE>",
            "    Create a new library with the given library name and code.",
            "DELETE <LIBRARY NAME>",
            "    Delete the given library.",
            "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
            "    Return general information on all the libraries:",
            "    * Library name",
            "    * The engine used to run the Library",
            "    * Functions list",
            "    * Library code (if WITHCODE is given)",
            "    It also possible to get only function that matches a pattern using \
             LIBRARYNAME argument.",
            "STATS",
            "    Return information about the current function running:",
            "    * Function name",
            "    * Command used to run the function",
            "    * Duration in MS that the function is running",
            "    If no function is running, return nil",
            "    In addition, returns a list of available engines.",
            "KILL",
            "    Kill the current running function.",
            "FLUSH [ASYNC|SYNC]",
            "    Delete all the libraries.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the libraries.",
            "    * SYNC: Synchronously flush the libraries.",
            "DUMP",
            "    Return a serialized payload representing the current libraries, can be \
             restored using FUNCTION RESTORE command",
            "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
            "    Restore the libraries represented by the given payload, it is possible to \
             give a restore policy to",
            "    control how to handle existing libraries (default APPEND):",
            "    * FLUSH: delete all existing libraries.",
            "    * APPEND: appends the restored libraries to the existing libraries. On \
             collision, abort.",
            "    * REPLACE: appends the restored libraries to the existing libraries, On \
             collision, replace the old",
            "      libraries with the new libraries (notice that even on this option there \
             is a chance of failure",
            "      in case of functions name conflict with another library).",
        ],
    )
}
