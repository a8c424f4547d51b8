//! `CONFIG …`: settings under the names that Redis gives them.

use command::Sink;

use super::generic::NUMBERED_KEYSPACES;
use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::context::LiveSetting;
use crate::resp::error::{CommandError, SYNTAX};
use crate::resp::key_events::KeyEventFlags;
use crate::resp::number;
use crate::resp::topology::Mode;
use ::command::glob;

/// A setting under its name in Redis.
struct Setting {
    name: &'static str,
    value: String,
    may_be: May,
}

/// What a setting may be set to.
enum May {
    /// Never set, as in Redis.
    Never,
    /// To what it is: it comes from the node's configuration, or from how Carillon is made.
    Same,
    /// To a number, which this node has until it stops.
    Become(LiveSetting),
    /// To flags of keyspace notifications.
    BecomeFlags,
}

/// What there is to tell, in the order of names.
fn settings(call: &Call<'_>) -> Vec<Setting> {
    let (facts, limits) = (&call.ctx.facts(), &call.session.limits);
    let (appendonly, appendfsync) = match facts.durability {
        "sync" => ("yes", "always"),
        "interval" => ("yes", "everysec"),
        _ => ("yes", "no"),
    };
    let (cluster_enabled, databases) = match call.ctx.mode() {
        Mode::Any => ("no", NUMBERED_KEYSPACES),
        Mode::Cluster => ("yes", 1),
    };
    let same = |name, value: &dyn ToString| {
        let value = value.to_string();
        Setting { name, value, may_be: May::Same }
    };
    let never = |name, value: &dyn ToString| Setting { may_be: May::Never, ..same(name, value) };
    let live = |name, live| {
        let setting = same(name, &call.ctx.live_setting(live));
        Setting { may_be: May::Become(live), ..setting }
    };
    vec![
        same("activedefrag", &"no"),
        same("appendfsync", &appendfsync),
        same("appendonly", &appendonly),
        same("bind", &facts.bind),
        same("busy-reply-threshold", &facts.script_time_ms),
        same("carillon-durability", &facts.durability),
        same("carillon-key-bytes-max", &limits.key_bytes_max),
        never("cluster-enabled", &cluster_enabled),
        never("databases", &databases),
        same("dir", &facts.data_dir),
        same("latency-monitor-threshold", &0),
        same("lua-time-limit", &facts.script_time_ms),
        same("maxclients", &facts.clients_max),
        same("maxmemory", &facts.memory_max_bytes),
        same("maxmemory-policy", &"noeviction"),
        Setting {
            name: "notify-keyspace-events",
            value: KeyEventFlags::of(call.ctx.live_setting(LiveSetting::KeyEvents)).text(),
            may_be: May::BecomeFlags,
        },
        same("port", &facts.port),
        same("proto-max-bulk-len", &limits.value_bytes_max),
        same("requirepass", &""),
        same("save", &""),
        live("slowlog-log-slower-than", LiveSetting::SlowMicros),
        live("slowlog-max-len", LiveSetting::SlowCommandsMax),
        same("timeout", &facts.idle_timeout_secs),
        live("tracking-table-max-keys", LiveSetting::TrackedKeysMax),
    ]
}

impl Setting {
    /// What is to be changed so that it has this value; nothing if it has it already.
    fn change_to(&self, wanted: &[u8]) -> Result<Option<(LiveSetting, i64)>, String> {
        let is_same = || {
            let bytes = size(wanted).map(|bytes| bytes.to_string());
            wanted.eq_ignore_ascii_case(self.value.as_bytes())
                || bytes.as_ref() == Some(&self.value)
        };
        match self.may_be {
            May::Never => Err("can't set immutable config".into()),
            May::Same if is_same() => Ok(None),
            May::Same => Err(format!(
                "it is '{}' for as long as the node runs; no setting was changed",
                self.value
            )),
            May::BecomeFlags => match KeyEventFlags::parse(wanted) {
                Some(flags) => Ok(Some((LiveSetting::KeyEvents, flags.number()))),
                None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
            },
            May::Become(live) => {
                let Some(value) = number::parse_i64(wanted) else {
                    return Err("argument couldn't be parsed into an integer".into());
                };
                let (least, most) = live.range().into_inner();
                if !live.range().contains(&value) {
                    return Err(format!("argument must be between {least} and {most} inclusive"));
                }
                Ok(Some((live, value)))
            }
        }
    }
}

/// Bytes as Redis's configuration writes them: `64mb`.
fn size(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: u64 = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let unit: u64 = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// `CONFIG GET pattern [pattern …]`
pub fn get<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let mut settings = settings(call);
    let wanted = |name: &str| {
        args.from(2).iter().any(|pattern| glob::matches_nocase(pattern, name.as_bytes()))
    };
    settings.retain(|setting| wanted(setting.name));
    call.answer(|writer| {
        writer.map(settings.len());
        for Setting { name, value, .. } in &settings {
            writer.bulk(name.as_bytes());
            writer.bulk(value.as_bytes());
        }
    })
}

/// `CONFIG SET name value [name value …]`: all, or none if one of them is refused.
pub fn set<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if !args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let settings = settings(call);
    let (mut named, mut changes) = (Vec::new(), Vec::new());
    for at in (2..args.len()).step_by(2) {
        let (name, value) = (args.at(at), args.at(at + 1));
        let is_it = |setting: &&Setting| setting.name.as_bytes().eq_ignore_ascii_case(name);
        let Some(setting) = settings.iter().find(is_it) else {
            let before = b"ERR Unknown option or number of arguments for CONFIG SET - '";
            return Err(CommandError::Formatted([&before[..], name, b"'"].concat()));
        };
        let change = match named.contains(&setting.name) {
            true => Err("duplicate parameter".into()),
            false => setting.change_to(value),
        };
        match change {
            Ok(change) => changes.extend(change),
            Err(why) => {
                let before = b"ERR CONFIG SET failed (possibly related to argument '";
                let text = [before, name, b"') - ", why.as_bytes()].concat();
                return Err(CommandError::Formatted(text));
            }
        }
        named.push(setting.name);
    }
    changes.into_iter().for_each(|(live, value)| call.ctx.set_live_setting(live, value));
    call.ok()
}

/// `CONFIG RESETSTAT`: for INFO alone; other counters of the node go on.
pub fn resetstat<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.ctx.reset_statistics();
    call.ok()
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
            "RESETSTAT",
            "    Have the counters of INFO begin at 0.",
            "SET <setting> <value> [<setting> <value> ...]",
            "    Change settings of this node until it stops: those of SLOWLOG, tracking and",
            "    keyspace notifications.",
            "    Others are read from the configuration when the server starts: only the value",
            "    that they have is accepted.",
            "REWRITE",
            "    Refused.",
        ],
    )
}
