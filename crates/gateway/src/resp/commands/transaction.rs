//! MULTI and BEGIN, and the commands around them. Queueing is the session's
//! ([`Session::translate`](crate::resp::Session::translate)).

use keyspace::Moment;

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::CommandError;
use crate::resp::request::Request;
use crate::resp::transaction::Queue;

/// `MULTI`
pub fn multi<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    if call.session.queue.is_some() {
        return Err(CommandError::Fixed("ERR MULTI calls can not be nested"));
    }
    if call.session.has_transaction() {
        return Err(CommandError::Fixed("ERR MULTI inside BEGIN is not allowed"));
    }
    let at = call.session.reads_at.map(Moment::At);
    let mut queue = Queue::default();
    queue.at = at;
    call.session.queue = Some(Box::new(queue));
    call.ok()
}

/// `EXEC`
pub fn exec<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    match &call.session.queue {
        None => Err(CommandError::Fixed("ERR EXEC without MULTI")),
        Some(queue) if queue.is_broken => {
            call.session.end_transaction();
            let text = "EXECABORT Transaction discarded because of previous errors.";
            Err(CommandError::Fixed(text))
        }
        Some(_) => Ok(Request::Exec),
    }
}

/// `DISCARD`
pub fn discard<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    if call.session.queue.is_none() {
        return Err(CommandError::Fixed("ERR DISCARD without MULTI"));
    }
    call.session.end_transaction();
    call.ok()
}

/// `WATCH key [key …]`
pub fn watch<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if call.session.queue.is_some() {
        return Err(CommandError::Fixed("ERR WATCH inside MULTI is not allowed"));
    }
    if call.session.has_transaction() {
        let text = "ERR WATCH inside BEGIN is not allowed; all that is read is watched";
        return Err(CommandError::Fixed(text));
    }
    Ok(Request::Watch(args.from(1).iter().collect()))
}

/// `UNWATCH`
pub fn unwatch<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.session.watched.clear();
    call.ok()
}

/// `BEGIN`
pub fn begin<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    if call.session.has_transaction() {
        return Err(CommandError::Fixed("ERR BEGIN calls can not be nested"));
    }
    if !call.session.watched.is_empty() {
        return Err(CommandError::Fixed("ERR keys are watched, for EXEC: UNWATCH them first"));
    }
    Ok(Request::Begin)
}

/// `COMMIT`
pub fn commit<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    match call.session.has_transaction() {
        true => Ok(Request::Commit),
        false => Err(CommandError::Fixed("ERR COMMIT without BEGIN")),
    }
}

/// `ROLLBACK`
pub fn rollback<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    if call.session.take_transaction().is_none() {
        return Err(CommandError::Fixed("ERR ROLLBACK without BEGIN"));
    }
    call.ok()
}

/// Commands that are done at once between MULTI and EXEC.
pub fn is_done_at_once(name: &str) -> bool {
    matches!(name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset")
}

/// Commands that run behind the others at EXEC: scans of the keyspace, which ask many shards, and
/// those that change the connection or tell of it.
pub fn is_late(name: &str) -> bool {
    concerns_connection(name)
        || matches!(
            name,
            "select"
                | "keys"
                | "scan"
                | "dbsize"
                | "randomkey"
                | "range"
                | "cluster|countkeysinslot"
                | "cluster|getkeysinslot"
        )
}

/// Commands that change the connection or tell of it, and nothing else.
pub fn concerns_connection(name: &str) -> bool {
    matches!(
        name,
        "readonly"
            | "readwrite"
            | "client|setname"
            | "client|getname"
            | "client|info"
            | "client|list"
            | "client|setinfo"
            | "client|no-evict"
            | "client|no-touch"
            | "client|route"
            | "client|stale"
    )
}

/// Commands that are not allowed in a transaction: what waits, and what changes how replies are
/// written, or which there are.
pub fn is_left_out(name: &str) -> bool {
    matches!(
        name,
        "begin"
            | "commit"
            | "rollback"
            | "lookup"
            | "explain|route"
            | "wait"
            | "waitaof"
            | "hello"
            | "client|reply"
            | "client|kill"
            | "client|tracking"
            | "client|caching"
            | "client|at"
            | "carillon|gc"
    )
}
