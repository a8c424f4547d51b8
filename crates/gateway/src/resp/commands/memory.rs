//! `MEMORY …`: what takes memory.

use command::{Read, Sink};

use super::{Call, Outcome, integer};
use crate::resp::args::Args;
use crate::resp::error::SYNTAX;
use crate::resp::request::Request;
use crate::resp::writer::RespWriter;

/// `MEMORY USAGE key [SAMPLES count]`: of a string there is nothing to sample. The reply is made
/// of the value that is read ([`Session::replies_size`](crate::resp::Session::replies_size)).
pub fn usage<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    match args.len() {
        3 => {}
        5 if args.is(3, "SAMPLES") => {
            if integer(args.at(4))? < 0 {
                return Err(SYNTAX);
            }
        }
        _ => return Err(SYNTAX),
    }
    Ok(Request::Read(Read::Get(args.at(2))))
}

/// `MEMORY STATS`: of what Redis tells, that which there is here.
pub fn stats<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let facts = call.ctx.facts();
    let (used, rss) = (facts.memory_used_bytes, facts.memory_rss_bytes);
    let peak = facts.memory_peak_bytes.max(used);
    let mut keys = 0;
    call.ctx.each_keyspace(&mut |keyspace| keys += keyspace.keys);
    let per_cent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    call.answer(|writer| {
        writer.map(9);
        let number = |writer: &mut RespWriter<'_>, name: &str, value: u64| {
            writer.bulk(name.as_bytes());
            writer.int(value as i64);
        };
        number(writer, "peak.allocated", peak);
        number(writer, "total.allocated", used);
        number(writer, "keys.count", keys);
        number(writer, "keys.bytes-per-key", used / keys.max(1));
        number(writer, "dataset.bytes", used);
        writer.bulk(b"peak.percentage");
        writer.double(per_cent(used, peak));
        number(writer, "allocator.resident", rss);
        writer.bulk(b"fragmentation");
        writer.double(per_cent(rss, used) / 100.0);
        number(writer, "fragmentation.bytes", rss.saturating_sub(used));
    })
}

/// `MEMORY DOCTOR`
pub fn doctor<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let facts = call.ctx.facts();
    let (used, max) = (facts.memory_used_bytes, facts.memory_max_bytes);
    let text = match max {
        0 => format!("Data takes {used} bytes. There is no limit (memory_max).\n"),
        _ if used >= max => {
            format!("Data takes {used} bytes, all of memory_max ({max}): writes are refused.\n")
        }
        _ => format!(
            "Data takes {used} bytes, {} % of memory_max ({max}).\n",
            u128::from(used) * 100 / u128::from(max)
        ),
    };
    call.answer(|writer| writer.verbatim(text.as_bytes()))
}

/// `MEMORY MALLOC-STATS`
pub fn malloc_stats<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.bulk(b"Stats not supported for the current allocator"))
}

/// `MEMORY PURGE`: the allocator gives free pages back by itself.
pub fn purge<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.ok()
}

/// `MEMORY HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "MEMORY",
        &[
            "DOCTOR",
            "    Return how much of the memory limit data takes.",
            "MALLOC-STATS",
            "    Return that there are no figures of the allocator.",
            "PURGE",
            "    Do nothing: the allocator gives free memory back by itself.",
            "STATS",
            "    Return what takes memory on this node.",
            "USAGE <key> [SAMPLES <count>]",
            "    Return the bytes that <key> and its value take on each replica.",
        ],
    )
}
