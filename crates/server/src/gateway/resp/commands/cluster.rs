//! `CLUSTER …`: towards Redis clients a node is a server of its own.

use keyspace::slot_of;
use node::command::Sink;

use super::{Call, Outcome};
use crate::gateway::resp::args::Args;
use crate::gateway::resp::error::CommandError;

/// `CLUSTER KEYSLOT key`
pub fn keyslot<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.int(i64::from(slot_of(args.at(2)))))
}

/// `CLUSTER MYID`
pub fn myid<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let ctx = call.ctx;
    call.answer(|writer| writer.bulk(ctx.facts().node_id.as_bytes()))
}

/// All others, and READONLY, READWRITE, ASKING: what Redis answers without its cluster.
pub fn disabled<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(CommandError::Fixed("ERR This instance has cluster support disabled"))
}
