//! `CONFIG …`: settings under the names that Redis gives them.

use command::Sink;

use super::generic::NUMBERED_KEYSPACES;
use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::context::Facts;
use crate::resp::error::{CommandError, SYNTAX};
use crate::resp::parser::RequestLimits;
use crate::resp::topology::Mode;
use ::command::glob;

/// What there is to tell, in the order of names.
fn settings(facts: &Facts<'_>, limits: &RequestLimits, mode: Mode) -> Vec<(&'static str, String)> {
    let (appendonly, appendfsync) = match facts.durability {
        "sync" => ("yes", "always"),
        "interval" => ("yes", "everysec"),
        _ => ("yes", "no"),
    };
    let (cluster_enabled, databases) = match mode {
        Mode::Any => ("no", NUMBERED_KEYSPACES),
        Mode::Cluster => ("yes", 1),
    };
    let text = |value: &str| value.to_owned();
    vec![
        ("appendfsync", text(appendfsync)),
        ("appendonly", text(appendonly)),
        ("bind", text(facts.bind)),
        ("carillon-durability", text(facts.durability)),
        ("carillon-key-bytes-max", limits.key_bytes_max.to_string()),
        ("cluster-enabled", text(cluster_enabled)),
        ("databases", databases.to_string()),
        ("dir", text(facts.data_dir)),
        ("maxclients", facts.clients_max.to_string()),
        ("maxmemory", facts.memory_max_bytes.to_string()),
        ("maxmemory-policy", text("noeviction")),
        ("port", facts.port.to_string()),
        ("proto-max-bulk-len", limits.value_bytes_max.to_string()),
        ("requirepass", String::new()),
        ("save", String::new()),
        ("timeout", facts.idle_timeout_secs.to_string()),
    ]
}

/// `CONFIG GET pattern [pattern …]`
pub fn get<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let mut settings = settings(&call.ctx.facts(), &call.session.limits, call.ctx.mode());
    let wanted = |name: &str| {
        args.from(2).iter().any(|pattern| glob::matches_nocase(pattern, name.as_bytes()))
    };
    settings.retain(|(name, _)| wanted(name));
    call.answer(|writer| {
        writer.map(settings.len());
        for (name, value) in &settings {
            writer.bulk(name.as_bytes());
            writer.bulk(value.as_bytes());
        }
    })
}

/// `CONFIG SET name value [name value …]`: settings come from the configuration at the start.
pub fn set<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if !args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let settings = settings(&call.ctx.facts(), &call.session.limits, call.ctx.mode());
    let known =
        |name: &[u8]| settings.iter().any(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    let name = args.at(2);
    let text: [&[u8]; 3] = if known(name) {
        let before = b"ERR CONFIG SET failed (possibly related to argument '";
        [before, name, b"') - can't set immutable config"]
    } else {
        [b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"]
    };
    Err(CommandError::Formatted(text.concat()))
}

/// `CONFIG RESETSTAT`
pub fn resetstat<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(CommandError::Fixed("ERR CONFIG RESETSTAT is not supported: counters only rise"))
}

/// `CONFIG REWRITE`
pub fn rewrite<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(CommandError::Fixed(
        "ERR CONFIG REWRITE is not supported: settings do not change while the server runs",
    ))
}

/// `CONFIG HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "CONFIG",
        &[
            "GET <pattern> [<pattern> ...]",
            "    Return settings whose names match one of the patterns, and their values.",
            "SET, RESETSTAT, REWRITE",
            "    Refused: settings are read from the configuration when the server starts.",
        ],
    )
}
