//! AT, STATE, CLIENT AT and CARILLON GC, which Redis does not have: reads as of a past time, and
//! how long such times can be read.
//!
//! ```text
//!   AT time GET k        one command
//!   CLIENT AT time       all commands of the connection from now on
//!   MULTI, AT time, …    all commands of the transaction
//! ```

use std::str;

use keyspace::{Moment, Timestamp};

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::{CommandError, SYNTAX};
use crate::resp::request::{CollectRequest, PastRead, PastRequest, Request};
use crate::resp::session::Session;
use crate::resp::transaction::Queue;

/// Commands that can be read at a past time, beside STATE.
const READS: [&str; 15] = [
    "get",
    "mget",
    "getrange",
    "substr",
    "strlen",
    "exists",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "keys",
    "scan",
    "dbsize",
    "range",
];

/// The words for them in errors.
const READS_SHOWN: &str = "GET, MGET, GETRANGE, SUBSTR, STRLEN, EXISTS, TYPE, TTL, PTTL, \
                           EXPIRETIME, PEXPIRETIME, KEYS, SCAN, DBSIZE, RANGE and STATE";

/// Whether a command may be queued in a transaction that reads a past time: it reads, or its reply
/// depends on nothing.
pub fn is_queued_at(name: &str) -> bool {
    READS.contains(&name) || matches!(name, "state" | "ping" | "echo" | "time")
}

/// The error of a command that cannot be run at a past time.
pub fn refused(name: &str, how: &str) -> CommandError {
    let name = name.replace('|', " ").to_ascii_uppercase();
    CommandError::formatted(format!(
        "ERR {name} cannot run at a past time; nothing was done. {how} takes {READS_SHOWN}"
    ))
}

/// A time as clients name it.
fn moment(text: &[u8]) -> Result<Moment, CommandError> {
    let text = str::from_utf8(text).map_err(|_| "not text".to_owned());
    text.and_then(Moment::parse)
        .map_err(|why| CommandError::formatted(format!("ERR the time: {why}")))
}

/// `AT time command [argument …]`: the reply of a command as it would have been then.
pub fn at<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let moment = moment(args.at(1))?;
    let inner = args.from(2);
    if inner.is_empty() {
        return Err(CommandError::Fixed(
            "ERR AT needs a command; without one it belongs right behind MULTI",
        ));
    }
    let spec = call.session.checked_spec(inner)?;
    let mut inner_call = Call { session: call.session, ctx: call.ctx, out: call.out, spec };
    let read =
        past_read(&mut inner_call, inner).unwrap_or_else(|| Err(refused(spec.name, "AT")))?;
    Ok(Request::Past(PastRequest { moment, read }))
}

/// What a command reads of a past time; none, if it cannot be read so.
fn past_read<'a>(
    call: &mut Call<'_>,
    args: Args<'a>,
) -> Option<Result<PastRead<'a>, CommandError>> {
    if call.spec.name == "state" {
        return Some(Ok(PastRead::State(args.at(1))));
    }
    if !READS.contains(&call.spec.name) {
        return None;
    }
    match (call.spec.run)(call, args) {
        Ok(Request::Read(read)) => Some(Ok(PastRead::Keys(read))),
        Ok(Request::Keyspace(request)) => Some(Ok(PastRead::Keyspace(request))),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }
}

/// A command of a connection whose reads are of a past time: what it reads is, and it may not
/// write.
pub fn as_of<'a>(call: &mut Call<'_>, args: Args<'a>, time: Timestamp) -> Outcome<'a> {
    if let Some(read) = past_read(call, args) {
        return Ok(Request::Past(PastRequest { moment: Moment::At(time), read: read? }));
    }
    let request = (call.spec.run)(call, args)?;
    match request {
        Request::Read(_)
        | Request::Write(_)
        | Request::WriteEach { .. }
        | Request::Watch(_)
        | Request::Begin
        | Request::Commit
        | Request::Transfer(_)
        | Request::Swap(_)
        | Request::PublishToTopic { .. }
        | Request::Script(_)
        | Request::Keyspace(_) => {
            Err(refused(call.spec.name, "This connection, until CLIENT AT OFF,"))
        }
        Request::Answered
        | Request::Exec
        | Request::Scripts(_)
        | Request::Libraries(_)
        | Request::Past(_)
        | Request::ReadAt(_)
        | Request::Collect(_)
        | Request::Explain(_)
        | Request::LastRoutes
        | Request::Wait(_)
        | Request::Kill(_)
        | Request::Track(_)
        | Request::Select(_)
        | Request::Subscribe { .. }
        | Request::Unsubscribe { .. }
        | Request::Publish { .. }
        | Request::Reset
        | Request::Close => Ok(request),
    }
}

/// `STATE key`: `value`, `nil` (there was none) or `nil_yet` (there was none, but one later).
pub fn state<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(CommandError::Fixed("ERR STATE needs a time: AT time STATE key, or CLIENT AT time before"))
}

/// `CLIENT AT time | OFF`: all that the connection reads from now on is as of this time; or not.
pub fn client_at<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.is(2, "off") {
        return Ok(Request::ReadAt(None));
    }
    if call.session.has_transaction() {
        return Err(CommandError::Fixed("ERR CLIENT AT inside BEGIN is not allowed"));
    }
    if call.session.watches() {
        return Err(CommandError::Fixed("ERR keys are watched, for EXEC: UNWATCH them first"));
    }
    Ok(Request::ReadAt(Some(moment(args.at(2))?)))
}

impl Session {
    /// `AT time` between MULTI and EXEC: all commands of the transaction read that time.
    pub(in crate::resp) fn begin_at(
        &self,
        queue: &Queue,
        args: Args<'_>,
    ) -> Result<Moment, CommandError> {
        match () {
            () if args.len() > 2 => Err(CommandError::Fixed(
                "ERR AT with a command is not allowed in transactions. AT time, right behind \
                 MULTI, has all of its commands read at that time",
            )),
            () if !queue.is_empty() => {
                Err(CommandError::Fixed("ERR AT must be the first command behind MULTI"))
            }
            () if self.watches() => Err(CommandError::Fixed(
                "ERR keys are watched, and what is read at a past time does not change: UNWATCH \
                 them first",
            )),
            () => moment(args.at(1)),
        }
    }
}

/// `CARILLON GC [KEYSPACE name] [AT time]`: has old versions collected. `CARILLON GC WHY
/// [KEYSPACE name]`: says what holds them.
pub fn collect<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let mut asked = CollectRequest { keyspace: None, at: None, why: false };
    let mut index = 2;
    while index < args.len() {
        if args.is(index, "why") && !asked.why {
            asked.why = true;
            index += 1;
            continue;
        }
        let value = args.get(index + 1).ok_or(SYNTAX)?;
        match () {
            () if args.is(index, "keyspace") && asked.keyspace.is_none() => {
                asked.keyspace = Some(value);
            }
            () if args.is(index, "at") && asked.at.is_none() => asked.at = Some(moment(value)?),
            () => return Err(SYNTAX),
        }
        index += 2;
    }
    match asked.why && asked.at.is_some() {
        true => Err(SYNTAX),
        false => Ok(Request::Collect(asked)),
    }
}

/// `CARILLON HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "CARILLON",
        &[
            "GC [KEYSPACE <name>] [AT <time>]",
            "    Have old versions collected that no read at or above the time sees.",
            "GC WHY [KEYSPACE <name>]",
            "    Return from when on keyspaces can be read, and what holds that.",
        ],
    )
}
