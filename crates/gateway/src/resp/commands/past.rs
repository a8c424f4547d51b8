//! AT, which Redis does not have: a read as of a past time.

use keyspace::Moment;

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::CommandError;
use crate::resp::request::{PastRead, PastRequest, Request};
use command::Read;

/// Commands that can be read at a past time.
const READS: [&str; 8] = ["get", "mget", "exists", "strlen", "keys", "scan", "dbsize", "range"];

/// `AT time command [argument …]`: the reply of a command as it would have been then. `AT time
/// STATE key`: `value`, `nil` (there was none) or `nil_yet` (there was none, but one later).
pub fn at<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let moment = std::str::from_utf8(args.at(1)).map_err(|_| "not text".to_owned());
    let moment = moment
        .and_then(Moment::parse)
        .map_err(|why| CommandError::formatted(format!("ERR the time is {why}")))?;
    let inner = args.from(2);
    if inner.is(0, "state") && inner.len() == 2 {
        let key = inner.at(1);
        call.session.check_key(key)?;
        return Ok(Request::Past(PastRequest { moment, read: PastRead::State(key) }));
    }
    let spec = call.session.checked_spec(inner)?;
    if !READS.contains(&spec.name) {
        return Err(CommandError::formatted(format!(
            "ERR AT cannot run '{}': it takes GET, MGET, EXISTS, STRLEN, KEYS, SCAN, DBSIZE, RANGE \
             and STATE",
            spec.name
        )));
    }
    let mut inner_call = Call { session: call.session, ctx: call.ctx, out: call.out, spec };
    let read = match (spec.run)(&mut inner_call, inner)? {
        Request::Read(Read::Get(key)) => PastRead::Get(key),
        Request::Read(Read::Length(key)) => PastRead::Length(key),
        Request::Read(Read::GetMany(keys)) => PastRead::GetMany(keys),
        Request::Read(Read::Exists(keys)) => PastRead::Exists(keys),
        Request::Keyspace(request) => PastRead::Keyspace(request),
        _ => unreachable!("the commands above read keys or the keyspace"),
    };
    Ok(Request::Past(PastRequest { moment, read }))
}
