//! Keyspace scans: commands on all keys of a keyspace.

use super::{Call, Outcome, integer, one_of};
use crate::resp::args::Args;
use crate::resp::error::{self, CommandError, SYNTAX};
use crate::resp::number::parse_cursor;
use crate::resp::request::{Bound, KeyspaceRequest, Range, Request};

/// Keys a SCAN looks at if it does not say.
const SCAN_COUNT: u64 = 10;

fn on_keyspace<'a>(request: KeyspaceRequest<'a>) -> Outcome<'a> {
    Ok(Request::Keyspace(request))
}

/// `DBSIZE`
pub fn dbsize<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    on_keyspace(KeyspaceRequest::Size)
}

/// ASYNC and SYNC are the same: a flush is a tombstone, and memory is freed later.
fn flush_options(args: Args<'_>) -> Result<(), CommandError> {
    match args.len() {
        1 => Ok(()),
        2 => one_of(args, 1, "ASYNC", "SYNC").map(|_| ()),
        _ => Err(SYNTAX),
    }
}

/// `FLUSHDB [ASYNC | SYNC]`
pub fn flushdb<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    flush_options(args)?;
    on_keyspace(KeyspaceRequest::Flush)
}

/// `FLUSHALL [ASYNC | SYNC]`
pub fn flushall<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    flush_options(args)?;
    on_keyspace(KeyspaceRequest::FlushAll)
}

/// `KEYS pattern`
pub fn keys<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    on_keyspace(KeyspaceRequest::Keys { pattern: args.at(1) })
}

/// `RANDOMKEY`
pub fn randomkey<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    on_keyspace(KeyspaceRequest::RandomKey)
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let cursor = parse_cursor(args.at(1)).ok_or(CommandError::Fixed("ERR invalid cursor"))?;
    let (mut count, mut pattern, mut type_filter) = (SCAN_COUNT, None, None);
    for index in (2..args.len()).step_by(2) {
        let value = args.get(index + 1).ok_or(SYNTAX)?;
        match () {
            () if args.is(index, "COUNT") => {
                count = u64::try_from(integer(value)?).ok().filter(|n| *n > 0).ok_or(SYNTAX)?;
            }
            () if args.is(index, "MATCH") => pattern = Some(value),
            () if args.is(index, "TYPE") => type_filter = Some(value),
            () => return Err(SYNTAX),
        }
    }
    on_keyspace(KeyspaceRequest::Scan { cursor, count, pattern, type_filter })
}

/// `RANGE start end [LIMIT count] [REV] [WITHVALUES]`: keys of an ordered keyspace in order. An end
/// is `-` (before all), `+` (behind all), `[key` (with) or `(key` (without); with REV the high end
/// comes first. `RANGE [a (b` is all keys that begin with "a".
pub fn range<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let key_bytes_max = call.session.limits.key_bytes_max;
    let (first, second) = (bound(args.at(1), key_bytes_max)?, bound(args.at(2), key_bytes_max)?);
    let (mut limit, mut reverse, mut with_values) = (None, false, false);
    let mut index = 3;
    while index < args.len() {
        match () {
            () if args.is(index, "REV") => reverse = true,
            () if args.is(index, "WITHVALUES") => with_values = true,
            () if args.is(index, "LIMIT") && index + 1 < args.len() => {
                index += 1;
                limit = Some(
                    u64::try_from(integer(args.at(index))?)
                        .map_err(|_| CommandError::Fixed("ERR LIMIT can't be negative"))?,
                );
            }
            () => return Err(SYNTAX),
        }
        index += 1;
    }
    let (low, high) = if reverse { (second, first) } else { (first, second) };
    on_keyspace(KeyspaceRequest::Range(Range { low, high, limit, reverse, with_values }))
}

fn bound(text: &[u8], key_bytes_max: usize) -> Result<Bound<'_>, CommandError> {
    let bound = match text {
        [b'-'] => Bound::First,
        [b'+'] => Bound::Last,
        [b'[', key @ ..] => Bound::Included(key),
        [b'(', key @ ..] => Bound::Excluded(key),
        _ => return Err(CommandError::Fixed("ERR min or max not valid string range item")),
    };
    if text.len() > key_bytes_max + 1 {
        return Err(error::key_too_long(key_bytes_max));
    }
    Ok(bound)
}
