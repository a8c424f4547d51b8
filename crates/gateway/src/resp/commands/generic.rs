//! Commands on keys of any value.

use command::{Read, Sink, Write};
use keyspace::slot_of;

use super::{Call, Outcome, integer};
use crate::resp::args::Args;
use crate::resp::error::{self, CommandError, SYNTAX};
use crate::resp::request::{Gather, Request, Transfer, Wait};
use crate::resp::topology::Mode;

/// How many keyspaces have a number for a name.
pub(super) const NUMBERED_KEYSPACES: i64 = 16;

const SAME_KEY: CommandError =
    CommandError::Fixed("ERR source and destination objects are the same");

/// `DEL key [key …]`, and `UNLINK`.
pub fn del<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.len() == 2 {
        return Ok(Request::Write(Write::Delete { key: args.at(1) }));
    }
    let writes = args.from(1).iter().map(|key| Write::Delete { key }).collect();
    Ok(Request::WriteEach { gather: Gather::Sum, writes })
}

/// `EXISTS key [key …]`, and `TOUCH`.
pub fn exists<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Exists(args.from(1).iter().collect())))
}

/// `TYPE key`
pub fn type_of<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Type(args.at(1))))
}

/// `RENAME key newkey`
pub fn rename<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Write(Write::Rename { from: args.at(1), to: args.at(2), if_absent: false }))
}

/// `RENAMENX key newkey`
pub fn renamenx<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Write(Write::Rename { from: args.at(1), to: args.at(2), if_absent: true }))
}

/// `COPY source destination [DB index] [REPLACE]`
pub fn copy<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let is_cluster = call.ctx.mode() == Mode::Cluster;
    // That comes first in a Redis Cluster.
    copy_of(call, args).map_err(|wrong| {
        let differ = is_cluster && slot_of(args.at(1)) != slot_of(args.at(2));
        if differ { error::CROSS_SLOT } else { wrong }
    })
}

fn copy_of<'a>(call: &Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (mut replace, mut keyspace) = (false, None);
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "REPLACE") {
            replace = true;
        } else if args.is(index, "DB") && index + 1 < args.len() {
            index += 1;
            keyspace = Some(numbered_keyspace(args.at(index))?);
        } else {
            return Err(SYNTAX);
        }
        index += 1;
    }
    let (from, to) = (args.at(1), args.at(2));
    if let Some(keyspace) = keyspace.filter(|name| *name != call.session.keyspace.as_bytes()) {
        return match call.ctx.mode() {
            Mode::Any => {
                Ok(Request::Transfer(Transfer { from, to, keyspace, moves: false, replace }))
            }
            Mode::Cluster => Err(CommandError::Fixed(
                "ERR Copying to another database is not allowed in cluster mode",
            )),
        };
    }
    if from == to {
        return Err(SAME_KEY);
    }
    Ok(Request::Write(Write::Copy { from, to, replace }))
}

/// `MOVE key db`
pub fn move_key<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if call.ctx.mode() == Mode::Cluster {
        return Err(CommandError::Fixed("ERR MOVE is not allowed in cluster mode"));
    }
    let (key, keyspace) = (args.at(1), numbered_keyspace(args.at(2))?);
    if keyspace == call.session.keyspace.as_bytes() {
        return Err(SAME_KEY);
    }
    let (from, to) = (key, key);
    Ok(Request::Transfer(Transfer { from, to, keyspace, moves: true, replace: false }))
}

/// The name of a keyspace that has a number.
fn numbered_keyspace(name: &[u8]) -> Result<&[u8], CommandError> {
    let index = integer(name)?;
    match (0..NUMBERED_KEYSPACES).contains(&index) {
        true => Ok(name),
        false => Err(error::no_numbered_keyspace(index)),
    }
}

/// `OBJECT ENCODING key`
pub fn object_encoding<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Encoding(args.at(2))))
}

/// `OBJECT REFCOUNT key`
pub fn object_refcount<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::RefCount(args.at(2))))
}

/// `OBJECT IDLETIME key`
pub fn object_idletime<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::IdleTime(args.at(2))))
}

/// `OBJECT FREQ key`: nothing is evicted by frequency, so none is counted.
pub fn object_freq<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(CommandError::Fixed(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust.",
    ))
}

/// `OBJECT HELP`
pub fn object_help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Return how Redis would hold the value: int, embstr or raw.",
            "FREQ <key>",
            "    Refused: access frequency is not tracked.",
            "IDLETIME <key>",
            "    Return the idle time of the key: always 0, for it is not tracked.",
            "REFCOUNT <key>",
            "    Return the number of references to the value: always 1.",
        ],
    )
}

/// `WAIT numreplicas timeout`: how many replicas, beside the leader, are known to have all writes
/// of this connection on disk. It answers when there are so many, or after the timeout.
///
/// A majority has each acknowledged write, so the reply is at least half of the replicas (1 of 3, 2
/// of 5). Only leaders of the shards written to know of more; without their answers the reply is
/// that minimum, after the timeout. A timeout of 0 waits for ever, but not for what cannot be known
/// here. A node alone has no replicas: 0, at once.
pub fn wait<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let replicas = integer(args.at(1))?;
    let timeout_ms = timeout(args.at(2))?;
    // A transaction refuses it, on a node alone as elsewhere.
    if !call.ctx.has_peers() && !call.session.has_transaction() {
        return call.answer(|writer| writer.int(0));
    }
    let replicas = u64::try_from(replicas).unwrap_or(0);
    Ok(Request::Wait(Wait { local: None, replicas, timeout_ms }))
}

/// `WAITAOF numlocal numreplicas timeout`: as WAIT, and before it 1 if this node leads the shards
/// written to, so that it has the writes on disk itself, else 0. Not below durability `sync`, where
/// answers do not wait for the disk.
pub fn waitaof<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    const RANGE: CommandError =
        CommandError::Fixed("ERR value is out of range, value must between 0 and 1");
    let local = match integer(args.at(1))? {
        0 => false,
        1 => true,
        _ => return Err(RANGE),
    };
    let replicas = u64::try_from(integer(args.at(2))?);
    let replicas = replicas.map_err(|_| CommandError::Fixed("ERR value is out of range"))?;
    let timeout_ms = timeout(args.at(3))?;
    Ok(Request::Wait(Wait { local: Some(local), replicas, timeout_ms }))
}

fn timeout(text: &[u8]) -> Result<u64, CommandError> {
    let timeout = integer(text)
        .map_err(|_| CommandError::Fixed("ERR timeout is not an integer or out of range"))?;
    u64::try_from(timeout).map_err(|_| CommandError::Fixed("ERR timeout is negative"))
}
