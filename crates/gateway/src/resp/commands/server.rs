//! Commands on the server, and commands that are always refused.

use command::Sink;

use super::cluster::master_of_listener;
use super::connection::REDIS_VERSION;
use super::generic::NUMBERED_KEYSPACES;
use super::{Call, Outcome, integer};
use crate::resp::args::Args;
use crate::resp::error::CommandError;
use crate::resp::request::Request;
use crate::resp::topology::Mode;

/// `TIME`: seconds since 1970, and microseconds. The node's clock counts milliseconds.
pub fn time<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let now_millis = call.ctx.now_millis();
    call.answer(|writer| {
        writer.array(2);
        writer.bulk_u64(now_millis / 1000);
        writer.bulk_u64(now_millis % 1000 * 1000);
    })
}

/// `MONITOR`
pub fn monitor<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.session.monitors = true;
    call.ctx.monitor(true);
    call.ok()
}

/// `SWAPDB index1 index2`
pub fn swapdb<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if call.ctx.mode() == Mode::Cluster {
        return Err(CommandError::Fixed("ERR SWAPDB is not allowed in cluster mode"));
    }
    let index = |at, text| integer(args.at(at)).map_err(|_| CommandError::Fixed(text));
    let first = index(1, "ERR invalid first DB index")?;
    let second = index(2, "ERR invalid second DB index")?;
    if [first, second].iter().any(|index| !(0..NUMBERED_KEYSPACES).contains(index)) {
        return Err(CommandError::Fixed("ERR DB index is out of range"));
    }
    Ok(Request::Swap([args.at(1), args.at(2)]))
}

/// A command that has only subcommands, without one: the arity check comes first and refuses it.
pub fn container<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(call.wrong_arity())
}

/// `MODULE LIST`: there are none.
pub fn module_list<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.array(0))
}

/// `MODULE LOAD`, `LOADEX`, `UNLOAD`
pub fn module_refused<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(CommandError::Fixed("ERR MODULE command not allowed. There are no modules here"))
}

/// `MODULE HELP`
pub fn module_help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help("MODULE", &["LIST", "    Return the modules: there are none."])
}

/// `ROLE`: as in INFO, every node is a master, for it takes writes; the other nodes are not its
/// replicas, for they do so too.
///
/// The listener for clients that ask for replicas says that it is one.
pub fn role<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    if call.session.is_replica {
        let (host, port) = master_of_listener(call);
        return call.answer(|writer| {
            writer.array(5);
            writer.bulk(b"slave");
            writer.bulk(host.as_bytes());
            writer.int(i64::from(port));
            writer.bulk(b"connected");
            writer.int(0);
        });
    }
    call.answer(|writer| {
        writer.array(3);
        writer.bulk(b"master");
        writer.int(0);
        writer.array(0);
    })
}

/// `LASTSAVE`: when the last checkpoint was finished or, before the first, the node started.
pub fn lastsave<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let facts = call.ctx.facts();
    let millis = match facts.checkpoint_millis {
        0 => facts.started_millis,
        millis => millis,
    };
    call.answer(|writer| writer.int((millis / 1000) as i64))
}

/// `LOLWUT [VERSION version …]`
pub fn lolwut<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let version = call.ctx.facts().carillon_version;
    let bells = [
        "    o     o     o     o",
        "   / \\   / \\   / \\   / \\",
        "  /___\\ /___\\ /___\\ /___\\",
        "    '    .  '  .  '    .",
    ];
    let bells = bells.join("\n");
    let text = format!("{bells}\n\nCarillon {version}. Redis ver. {REDIS_VERSION}\n");
    call.answer(|writer| writer.verbatim(text.as_bytes()))
}
