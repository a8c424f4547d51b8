//! `SLOWLOG …` and `LATENCY …`: which commands took long.

use command::Sink;

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::CommandError;
use crate::resp::number::parse_i64;
use crate::resp::stats::CommandCalls;

/// Slow commands that SLOWLOG GET shows if it does not say how many.
const SHOWN: usize = 10;

/// `SLOWLOG GET [count]`: the newest first; −1 for all.
pub fn log_get<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let count = match args.len() {
        2 => SHOWN,
        3 => match parse_i64(args.at(2)) {
            Some(-1) => usize::MAX,
            count => count
                .and_then(|count| usize::try_from(count).ok())
                .ok_or(CommandError::Fixed("ERR count should be greater than or equal to -1"))?,
        },
        _ => {
            let name = args.at(1);
            let before = b"ERR unknown subcommand or wrong number of arguments for '";
            let text = [before, name, b"'. Try SLOWLOG HELP."].concat();
            return Err(CommandError::Formatted(text));
        }
    };
    let mut slow = call.ctx.slow_commands();
    slow.truncate(count);
    call.answer(|writer| {
        writer.array(slow.len());
        for command in &slow {
            writer.array(6);
            for number in [command.id, command.at_seconds, command.micros] {
                writer.int(number as i64);
            }
            writer.array(command.args.len());
            command.args.iter().for_each(|arg| writer.bulk(arg));
            writer.bulk(command.addr.as_bytes());
            writer.bulk(command.name.as_bytes());
        }
    })
}

/// `SLOWLOG LEN`
pub fn log_len<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let len = call.ctx.slow_commands().len();
    call.answer(|writer| writer.int(len as i64))
}

/// `SLOWLOG RESET`
pub fn log_reset<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.ctx.forget_slow_commands();
    call.ok()
}

/// `SLOWLOG HELP`
pub fn log_help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "SLOWLOG",
        &[
            "GET [<count>]",
            "    Return the last <count> commands (10 unless given, -1 for all) that this node's",
            "    event loops worked at for long: id, time, microseconds, arguments, client, name.",
            "LEN",
            "    Return how many of them are remembered.",
            "RESET",
            "    Forget them.",
        ],
    )
}

/// `LATENCY LATEST`, `LATENCY HISTORY event`: events are not monitored.
pub fn latency_none<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.array(0))
}

/// `LATENCY GRAPH event`
pub fn latency_graph<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let text = [b"ERR No samples available for event '", args.at(2), b"'"].concat();
    Err(CommandError::Formatted(text))
}

/// `LATENCY RESET [event …]`: how many events were forgotten.
pub fn latency_reset<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.int(0))
}

/// `LATENCY DOCTOR`
pub fn latency_doctor<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| {
        writer.verbatim(
            b"Events are not monitored here. SLOWLOG GET shows commands that took long, LATENCY \
              HISTOGRAM how long commands take, and /metrics how long the log and the disk take.\n",
        );
    })
}

/// `LATENCY HISTOGRAM [command …]`: of calls that were measured one by one.
pub fn histogram<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let is_wanted = |name: &str| {
        let names = |wanted: &[u8]| {
            let (name, len) = (name.as_bytes(), wanted.len());
            // The name of a command stands for its subcommands, too.
            name.len() >= len
                && name[..len].eq_ignore_ascii_case(wanted)
                && name.get(len).is_none_or(|next| *next == b'|')
        };
        args.len() == 2 || args.from(2).iter().any(names)
    };
    let mut all = call.ctx.command_calls();
    all.retain(|(name, calls)| calls.measured > 0 && is_wanted(name));
    call.answer(|writer| {
        writer.map(all.len());
        for (name, calls) in &all {
            writer.bulk(name.as_bytes());
            let CommandCalls { measured, .. } = calls;
            writer.map(2);
            writer.bulk(b"calls");
            writer.int(*measured as i64);
            writer.bulk(b"histogram_usec");
            let buckets = calls.cumulative();
            writer.map(buckets.len());
            for (micros, count) in buckets {
                writer.int(micros as i64);
                writer.int(count as i64);
            }
        }
    })
}

/// `LATENCY HELP`
pub fn latency_help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "LATENCY",
        &[
            "DOCTOR",
            "    Return where delays are told.",
            "GRAPH <event>, HISTORY <event>, LATEST, RESET [<event> ...]",
            "    Events are not monitored: there is nothing to return or forget.",
            "HISTOGRAM [<command> ...]",
            "    Return how long calls of commands took that were measured one by one.",
        ],
    )
}
