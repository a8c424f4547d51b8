//! Commands that scripts call: what they may not do, in Redis's words.

use super::args::Args;
use super::commands::cluster::DISABLED;
use super::context::Context;
use super::error::CommandError;
use super::request::Request;
use super::session::Session;
use super::table;
use super::topology::Mode;
use crate::access::Access;

const UNKNOWN: CommandError = CommandError::Fixed("ERR Unknown Redis command called from script");
const ARITY: CommandError =
    CommandError::Fixed("ERR Wrong number of args calling Redis command from script");
const NOT_ALLOWED: CommandError =
    CommandError::Fixed("ERR This Redis command is not allowed from script");
const READ_ONLY: CommandError =
    CommandError::Fixed("ERR Write commands are not allowed from read-only scripts.");
const OUT_OF_MEMORY: CommandError =
    CommandError::Fixed("OOM command not allowed when used memory > 'maxmemory'.");

/// What the script that calls a command may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptedCommand {
    /// Only read.
    pub read_only: bool,
    /// Nothing that takes memory: there is none.
    pub deny_oom: bool,
}

/// Whether a command runs a script or a function, or has a script compiled.
pub fn is_script(args: Args<'_>) -> bool {
    let runs = |spec: &&table::CommandSpec| {
        matches!(
            spec.name,
            "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro" | "script|load"
        )
    };
    table::lookup(args).ok().filter(runs).is_some()
}

/// Whether a command may name a key of another keyspace than the selected one, or touches keys that
/// it does not name: it runs on copies of keys.
pub fn spans_keyspaces(args: Args<'_>) -> bool {
    let names_keyspace = |spec: &&table::CommandSpec| match spec.name {
        "move" | "swapdb" | "tpublish" => true,
        "copy" => (3..args.len()).any(|index| args.is(index, "DB")),
        _ => false,
    };
    table::lookup(args).ok().filter(names_keyspace).is_some()
}

/// Whether a command flushes keyspaces.
pub fn flushes(args: Args<'_>) -> bool {
    let is_flush = |spec: &&table::CommandSpec| ["flushdb", "flushall"].contains(&spec.name);
    table::lookup(args).ok().filter(is_flush).is_some()
}

/// Whether a command changes which scripts or libraries all nodes have, or stops those that run.
pub fn changes_scripts(args: Args<'_>) -> bool {
    let changes = |spec: &&table::CommandSpec| {
        matches!(
            spec.name,
            "script|flush"
                | "script|kill"
                | "function|load"
                | "function|delete"
                | "function|flush"
                | "function|restore"
                | "function|kill"
        )
    };
    table::lookup(args).ok().filter(changes).is_some()
}

/// The SHA1 by which a command calls a script.
pub fn called_script<'a>(args: Args<'a>) -> Option<&'a [u8]> {
    let calls = |spec: &&table::CommandSpec| ["evalsha", "evalsha_ro"].contains(&spec.name);
    table::lookup(args).ok().filter(calls).and_then(|_| args.get(1))
}

/// The function that a command calls.
pub fn called_function<'a>(args: Args<'a>) -> Option<&'a [u8]> {
    let calls = |spec: &&table::CommandSpec| ["fcall", "fcall_ro"].contains(&spec.name);
    table::lookup(args).ok().filter(calls).and_then(|_| args.get(1))
}

/// Whether a command may need more memory, or is a script, which may.
pub fn needs_memory(args: Args<'_>) -> bool {
    let denies = |spec: &&table::CommandSpec| spec.flags.split(' ').any(|flag| flag == "denyoom");
    is_script(args) || table::lookup(args).ok().filter(denies).is_some()
}

/// Whether Redis has a command in its cluster only. A script has no connection that it could
/// change.
fn is_of_clusters(name: &str) -> bool {
    matches!(name, "asking" | "readonly" | "readwrite")
}

/// Whether a command sends a message: it writes nothing, but others see it.
fn publishes(name: &str) -> bool {
    name == "publish" || name == "spublish"
}

impl Session {
    /// As [`translate`](Session::translate), of a command that a script calls.
    pub fn translate_scripted<'a>(
        &mut self,
        args: Args<'a>,
        may: ScriptedCommand,
        ctx: &dyn Context,
        out: &mut Vec<u8>,
    ) -> Request<'a> {
        match Self::refused_to_script(args, may, ctx.mode()) {
            Some(error) => {
                self.writer(out).error(error.text());
                Request::Answered
            }
            None => self.translate(args, ctx, out),
        }
    }

    fn refused_to_script(args: Args<'_>, may: ScriptedCommand, mode: Mode) -> Option<CommandError> {
        let Ok(spec) = table::lookup(args) else { return Some(UNKNOWN) };
        let has = |flag| spec.flags.split(' ').any(|word| word == flag);
        match () {
            () if !spec.fits(args.len()) => Some(ARITY),
            () if has("noscript") => Some(NOT_ALLOWED),
            () if mode == Mode::Any && is_of_clusters(spec.name) => Some(DISABLED),
            () if may.read_only && (spec.access == Access::Write || publishes(spec.name)) => {
                Some(READ_ONLY)
            }
            () if may.deny_oom && has("denyoom") => Some(OUT_OF_MEMORY),
            () => None,
        }
    }
}
