//! Commands on the values of keys.

use command::{Expiry, Read, SetIf, SetReply, Write, float};

use super::expiry::{TimeForm, deadline, form_of, same_form};
use super::{Call, Outcome, integer};
use crate::resp::args::Args;
use crate::resp::error::{CommandError, NOT_FLOAT, SYNTAX, TOO_LONG};
use crate::resp::request::{Gather, Request};

/// `GET key`
pub fn get<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Get(args.at(1))))
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub fn set<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let mut when = SetIf::Always;
    let mut reply = SetReply::Ok;
    let mut time = None;
    let mut keep = false;
    let mut index = 3;
    while index < args.len() {
        match () {
            () if args.is(index, "NX") && when != SetIf::Present => when = SetIf::Absent,
            () if args.is(index, "XX") && when != SetIf::Absent => when = SetIf::Present,
            () if args.is(index, "GET") => reply = SetReply::Old,
            () if args.is(index, "KEEPTTL") && time.is_none() => keep = true,
            () => {
                let form = form_of(args, index).filter(|_| !keep).ok_or(SYNTAX)?;
                time = Some(same_form(time, form, args.get(index + 1))?);
                index += 1;
            }
        }
        index += 1;
    }
    let expiry = match time {
        Some((form, text)) => deadline(call, text, form)?,
        None if keep => Expiry::Keep,
        None => Expiry::Never,
    };
    Ok(Request::Write(Write::Set { key: args.at(1), value: args.at(2), when, expiry, reply }))
}

/// What COMMAND GETKEYSANDFLAGS says of the key of a SET: with GET it is read as well.
pub fn set_key_flags(args: Args<'_>) -> &'static str {
    match (3..args.len()).any(|index| args.is(index, "GET")) {
        true => "RW access update",
        false => "OW update",
    }
}

/// `SETNX key value`
pub fn setnx<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (when, expiry, reply) = (SetIf::Absent, Expiry::Never, SetReply::Flag);
    Ok(Request::Write(Write::Set { key: args.at(1), value: args.at(2), when, expiry, reply }))
}

fn set_for<'a>(call: &mut Call<'_>, args: Args<'a>, seconds: bool) -> Outcome<'a> {
    let expiry = deadline(call, args.at(2), TimeForm { seconds, relative: true })?;
    let (when, reply) = (SetIf::Always, SetReply::Ok);
    Ok(Request::Write(Write::Set { key: args.at(1), value: args.at(3), when, expiry, reply }))
}

/// `SETEX key seconds value`
pub fn setex<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    set_for(call, args, true)
}

/// `PSETEX key milliseconds value`
pub fn psetex<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    set_for(call, args, false)
}

/// `GETSET key value`
pub fn getset<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Old);
    Ok(Request::Write(Write::Set { key: args.at(1), value: args.at(2), when, expiry, reply }))
}

/// `GETDEL key`
pub fn getdel<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Write(Write::GetDelete { key: args.at(1) }))
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
pub fn getex<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let key = args.at(1);
    let mut time = None;
    let mut persist = false;
    let mut index = 2;
    while index < args.len() {
        if args.is(index, "PERSIST") && time.is_none() {
            persist = true;
            index += 1;
            continue;
        }
        let form = form_of(args, index).filter(|_| !persist).ok_or(SYNTAX)?;
        time = Some(same_form(time, form, args.get(index + 1))?);
        index += 2;
    }
    let expiry = match time {
        Some((form, text)) => deadline(call, text, form)?,
        None if persist => Expiry::Never,
        None => return Ok(Request::Read(Read::Get(key))),
    };
    Ok(Request::Write(Write::GetExpire { key, expiry }))
}

/// `MGET key [key …]`
pub fn mget<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::GetMany(args.from(1).iter().collect())))
}

/// The pairs of MSET and MSETNX.
fn pairs<'a>(
    call: &Call<'_>,
    args: Args<'a>,
) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a>, CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    Ok((1..args.len()).step_by(2).map(move |index| (args.at(index), args.at(index + 1))))
}

/// `MSET key value [key value …]`
pub fn mset<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let mut pairs = pairs(call, args)?;
    if args.len() == 3
        && let Some((key, value)) = pairs.next()
    {
        return Ok(Request::Write(Write::set(key, value)));
    }
    let writes = pairs.map(|(key, value)| Write::set(key, value)).collect();
    Ok(Request::WriteEach { gather: Gather::Ok, writes })
}

/// `MSETNX key value [key value …]`
pub fn msetnx<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let pairs = pairs(call, args)?.collect();
    Ok(Request::Write(Write::SetAllIfAbsent { pairs }))
}

/// `APPEND key value`
pub fn append<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (key, value) = (args.at(1), args.at(2));
    Ok(Request::Write(match call.ctx.may_limit_appends() {
        true => {
            let bytes_max = call.session.limits.value_bytes_max as u64;
            Write::Append { key, value, bytes_max }
        }
        false => Write::append(key, value),
    }))
}

/// `STRLEN key`
pub fn strlen<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Length(args.at(1))))
}

/// `GETRANGE key start end`, and `SUBSTR`, its old name.
pub fn getrange<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    Ok(Request::Read(Read::GetRange { key: args.at(1), start, end }))
}

/// `SETRANGE key offset value`
pub fn setrange<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let offset = integer(args.at(2))?;
    let offset =
        u64::try_from(offset).map_err(|_| CommandError::Fixed("ERR offset is out of range"))?;
    let value = args.at(3);
    let end = offset.saturating_add(value.len() as u64);
    if !value.is_empty() && end > call.session.limits.value_bytes_max as u64 {
        return Err(TOO_LONG);
    }
    Ok(Request::Write(Write::SetRange { key: args.at(1), offset, value }))
}

fn increment<'a>(args: Args<'a>, by: i64) -> Outcome<'a> {
    Ok(Request::Write(Write::Increment { key: args.at(1), by }))
}

/// `INCR key`
pub fn incr<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    increment(args, 1)
}

/// `DECR key`
pub fn decr<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    increment(args, -1)
}

/// `INCRBY key increment`
pub fn incrby<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    increment(args, integer(args.at(2))?)
}

/// `DECRBY key decrement`
pub fn decrby<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let by = integer(args.at(2))?.checked_neg();
    increment(args, by.ok_or(CommandError::Fixed("ERR decrement would overflow"))?)
}

/// `INCRBYFLOAT key increment`
pub fn incrbyfloat<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let by = args.at(2);
    if float::parse(by).ok_or(NOT_FLOAT)?.is_infinite() {
        return Err(CommandError::Fixed("ERR increment would produce NaN or Infinity"));
    }
    Ok(Request::Write(Write::IncrementFloat { key: args.at(1), by }))
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]`
pub fn lcs<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (mut len, mut idx, mut with_match_len, mut min_match) = (false, false, false, 0);
    let mut index = 3;
    while index < args.len() {
        match () {
            () if args.is(index, "IDX") => idx = true,
            () if args.is(index, "LEN") => len = true,
            () if args.is(index, "WITHMATCHLEN") => with_match_len = true,
            () if args.is(index, "MINMATCHLEN") && index + 1 < args.len() => {
                index += 1;
                min_match = integer(args.at(index))?.max(0) as u64;
            }
            () => return Err(SYNTAX),
        }
        index += 1;
    }
    if len && idx {
        return Err(CommandError::Fixed(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    let keys = [args.at(1), args.at(2)];
    Ok(Request::Read(Read::Lcs { keys, len, idx, min_match, with_match_len }))
}
