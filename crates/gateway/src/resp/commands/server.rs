//! Commands on the server, and commands that are always refused.

use command::Sink;

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::{CommandError, unknown_command};
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

/// `SWAPDB`, which Carillon does not have. A Redis Cluster has a reason of its own to refuse it.
pub fn swapdb<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Err(match call.ctx.mode() {
        Mode::Any => unknown_command(args),
        Mode::Cluster => CommandError::Fixed("ERR SWAPDB is not allowed in cluster mode"),
    })
}

/// A command that has only subcommands, without one: the arity check comes first and refuses it.
pub fn container<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(call.wrong_arity())
}
