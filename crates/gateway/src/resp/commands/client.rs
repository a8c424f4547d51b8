//! `CLIENT …`: lists connections, and sets options of this one.

use command::Sink;

use super::{Call, Outcome, integer, one_of};
use crate::access::Principal;
use crate::resp::args::Args;
use crate::resp::context::ClientFacts;
use crate::resp::error::{self, CommandError, SYNTAX};
use crate::resp::number::parse_i64;
use crate::resp::request::{Gather, Kill, Request};
use crate::resp::session::ReplyMode;

/// Bytes of a connection's name, and of its library's: they are kept for every connection.
const NAME_BYTES_MAX: usize = 1024;

/// A name that fits on one line of CLIENT LIST.
pub(super) fn checked_name(name: &[u8]) -> Result<&str, CommandError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(too_long("Client names"));
    }
    printable(name).ok_or(CommandError::Fixed(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

fn too_long(what: &str) -> CommandError {
    CommandError::formatted(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes"))
}

fn printable(text: &[u8]) -> Option<&str> {
    let fits = text.iter().all(|byte| byte.is_ascii_graphic());
    std::str::from_utf8(text).ok().filter(|_| fits)
}

/// `CLIENT ID`
pub fn id<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let id = call.session.id as i64;
    call.answer(|writer| writer.int(id))
}

/// `CLIENT INFO`
pub fn info<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let line = own_line(call) + "\n";
    call.answer(|writer| writer.verbatim(line.as_bytes()))
}

fn own_line(call: &Call<'_>) -> String {
    call.session.describe(call.ctx.now_millis(), 0, 0, 0)
}

/// Which connections a command speaks of.
#[derive(Default)]
struct ClientFilter<'a> {
    /// In order.
    ids: Option<Vec<i64>>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    /// TYPE of something there is none of: replicas.
    none: bool,
    /// TYPE of subscribers, or of all others.
    subscribes: Option<bool>,
}

impl<'a> ClientFilter<'a> {
    fn of_type(&mut self, kind: &'a [u8]) -> Result<(), CommandError> {
        let is = |word: &str| kind.eq_ignore_ascii_case(word.as_bytes());
        if ["master", "replica", "slave"].into_iter().any(is) {
            self.none = true;
        } else if is("pubsub") || is("normal") {
            self.subscribes = Some(is("pubsub"));
        } else {
            return Err(CommandError::Formatted(
                [b"ERR Unknown client type '", kind, b"'"].concat(),
            ));
        }
        Ok(())
    }

    fn takes(&self, client: &ClientFacts<'_>) -> bool {
        let subscribes = || client.line.split(' ').any(|field| field.starts_with("flags=P"));
        !self.none
            && self.subscribes.is_none_or(|wanted| wanted == subscribes())
            && self.ids.as_ref().is_none_or(|ids| ids.binary_search(&(client.id as i64)).is_ok())
            && self.addr.is_none_or(|addr| addr == client.addr.as_bytes())
            && self.laddr.is_none_or(|laddr| laddr == client.laddr.as_bytes())
    }

    fn takes_own(&self, call: &Call<'_>) -> bool {
        let peer = &call.session.peer;
        let id = call.session.id;
        let line = if self.subscribes.is_some() { own_line(call) } else { String::new() };
        self.takes(&ClientFacts { id, addr: &peer.addr, laddr: &peer.laddr, line: &line })
    }
}

/// `CLIENT LIST [TYPE type | ID id [id …]]`
pub fn list<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let mut filter = ClientFilter::default();
    if args.len() == 4 && args.is(2, "TYPE") {
        filter.of_type(args.at(3))?;
    } else if args.len() > 3 && args.is(2, "ID") {
        let id = |text| parse_i64(text).ok_or(CommandError::Fixed("ERR Invalid client ID"));
        let mut ids = args.from(3).iter().map(id).collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        filter.ids = Some(ids);
    } else if args.len() != 2 {
        return Err(SYNTAX);
    }
    let mut lines = Vec::new();
    if filter.takes_own(call) {
        lines.push((call.session.id, own_line(call)));
    }
    call.ctx.each_other_client(&mut |client| {
        if filter.takes(&client) {
            lines.push((client.id, client.line.to_owned()));
        }
    });
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
    call.answer(|writer| writer.verbatim(text.as_bytes()))
}

/// `CLIENT KILL addr:port`, or
/// `CLIENT KILL [ID id] [TYPE type] [ADDR a] [LADDR a] [USER u] [SKIPME yes | no] …`
pub fn kill<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let mut filter = ClientFilter::default();
    let mut skip_me = true;
    let old_form = args.len() == 3;
    if old_form {
        filter.addr = Some(args.at(2));
        skip_me = false;
    }
    let mut index = if old_form { args.len() } else { 2 };
    while index < args.len() {
        let value = args.get(index + 1).ok_or(SYNTAX)?;
        match () {
            () if args.is(index, "ID") => {
                let id = parse_i64(value)
                    .filter(|id| *id > 0)
                    .ok_or(CommandError::Fixed("ERR client-id should be greater than 0"))?;
                filter.ids = Some(vec![id]);
            }
            () if args.is(index, "TYPE") => filter.of_type(value)?,
            () if args.is(index, "ADDR") => filter.addr = Some(value),
            () if args.is(index, "LADDR") => filter.laddr = Some(value),
            () if args.is(index, "USER") => {
                if value != Principal::USER.as_bytes() {
                    return Err(CommandError::Formatted(
                        [b"ERR No such user '", value, b"'"].concat(),
                    ));
                }
            }
            () if args.is(index, "SKIPME") => skip_me = one_of(args, index + 1, "yes", "no")?,
            () => return Err(SYNTAX),
        }
        index += 2;
    }
    let mut victims = Vec::new();
    call.ctx.each_other_client(&mut |client| {
        if filter.takes(&client) {
            victims.push(client.id);
        }
    });
    let own = !skip_me && filter.takes_own(call);
    if !victims.is_empty() {
        let gather = if old_form { Gather::Ok } else { Gather::Sum };
        return Ok(Request::Kill(Kill { others: victims, own, gather }));
    }
    if !old_form {
        call.writer().int(i64::from(own));
    } else if own {
        call.writer().ok();
    } else {
        return Err(CommandError::Fixed("ERR No such client"));
    }
    Ok(if own { Request::Close } else { Request::Answered })
}

/// `CLIENT GETNAME`
pub fn getname<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let name = call.session.name.clone();
    call.answer(|writer| if name.is_empty() { writer.nil() } else { writer.bulk(name.as_bytes()) })
}

/// `CLIENT SETNAME name`; an empty one removes the name.
pub fn setname<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    checked_name(args.at(2))?.clone_into(&mut call.session.name);
    call.ok()
}

/// `CLIENT SETINFO LIB-NAME | LIB-VER value`, of Redis 7.2: client libraries send it unasked.
pub fn setinfo<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (option, value) = (args.at(2), args.at(3));
    let session = &mut *call.session;
    let field = match () {
        () if args.is(2, "LIB-NAME") => &mut session.lib_name,
        () if args.is(2, "LIB-VER") => &mut session.lib_version,
        () => {
            return Err(CommandError::Formatted(
                [b"ERR Unrecognized option '", option, b"'"].concat(),
            ));
        }
    };
    if value.len() > NAME_BYTES_MAX {
        return Err(too_long("names and versions of libraries"));
    }
    let Some(value) = printable(value) else {
        let mut text = b"ERR ".to_vec();
        text.extend(option.to_ascii_lowercase());
        text.extend(b" cannot contain spaces, newlines or special characters.");
        return Err(CommandError::Formatted(text));
    };
    value.clone_into(field);
    call.ok()
}

/// `CLIENT NO-EVICT ON | OFF`
pub fn no_evict<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    call.session.no_evict = one_of(args, 2, "ON", "OFF")?;
    call.ok()
}

/// `CLIENT NO-TOUCH ON | OFF`, of Redis 7.2.
pub fn no_touch<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    call.session.no_touch = one_of(args, 2, "ON", "OFF")?;
    call.ok()
}

/// `CLIENT REPLY ON | OFF | SKIP`: only ON is answered.
pub fn reply<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let session = &mut *call.session;
    match () {
        () if args.is(2, "ON") => {
            session.reply = ReplyMode::On;
            session.muted = false;
            return call.ok();
        }
        () if args.is(2, "OFF") => session.reply = ReplyMode::Off,
        () if args.is(2, "SKIP") && session.reply == ReplyMode::Off => {}
        () if args.is(2, "SKIP") => session.reply = ReplyMode::SkipNext,
        () => return Err(SYNTAX),
    }
    session.muted = true;
    Ok(Request::Answered)
}

/// `CLIENT STALE milliseconds | OFF | AGE`, which Redis has not: reads of keys may be so old from
/// now on, if a replica here can answer them at once; or not at all; or, how old the last one was
/// at most, in milliseconds.
pub fn stale<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.is(2, "age") {
        let age_ms = call.session.age_ms.get();
        return call.answer(|writer| writer.int(i64::try_from(age_ms).unwrap_or(i64::MAX)));
    }
    call.session.stale_ms = match args.is(2, "off") {
        true => 0,
        false => u32::try_from(integer(args.at(2))?)
            .ok()
            .filter(|ms| *ms <= STALE_MS_MAX)
            .ok_or(error::NOT_INTEGER)?,
    };
    call.session.age_ms.set(0);
    call.ok()
}

/// The oldest that reads may be allowed to be: a day.
const STALE_MS_MAX: u32 = 86_400_000;

/// `CLIENT ROUTE ON | OFF`, which Redis does not have. With ON, a command whose keys lie in one
/// shard that another node leads is answered `MOVED`, and CLUSTER shows this connection's keyspace.
pub fn route<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    call.session.routes = one_of(args, 2, "ON", "OFF")?;
    call.ok()
}

/// `CLIENT PAUSE`, `CLIENT UNPAUSE`
pub fn pause<'a>(_: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    Err(CommandError::Fixed("ERR CLIENT PAUSE and UNPAUSE are not supported"))
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`: no client is ever blocked.
pub fn unblock<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    match args.len() {
        3 => {}
        4 if args.is(3, "TIMEOUT") || args.is(3, "ERROR") => {}
        4 => {
            return Err(CommandError::Fixed(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
        _ => {
            let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
            text.extend_from_slice(args.at(1));
            text.extend_from_slice(b"'. Try CLIENT HELP.");
            return Err(CommandError::Formatted(text));
        }
    }
    integer(args.at(2))?;
    call.answer(|writer| writer.int(0))
}

/// `CLIENT HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "CLIENT",
        &[
            "AT (<time>|OFF)",
            "    Read as of a past time from now on, or the newest values again.",
            "CACHING (YES|NO)",
            "    Track the keys of the next command, or do not, with OPTIN or OPTOUT.",
            "GETNAME",
            "    Return the name of the connection.",
            "GETREDIR",
            "    Return the connection that hears of changes: 0 for this one, -1 without tracking.",
            "ID",
            "    Return the number of the connection.",
            "INFO",
            "    Return a line about the connection.",
            "KILL <addr:port>",
            "    Close the connection from this address.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Close connections by ID, ADDR, LADDR, TYPE or USER, but not this one unless",
            "    SKIPME is no. Return how many.",
            "LIST [TYPE <type> | ID <id> [<id> ...]]",
            "    Return a line about each connection.",
            "NO-EVICT (ON|OFF)",
            "    Keep the connection if memory for connections runs out.",
            "NO-TOUCH (ON|OFF)",
            "    Reads do not touch keys.",
            "REPLY (ON|OFF|SKIP)",
            "    Say whether replies are wanted.",
            "ROUTE (ON|OFF)",
            "    Get MOVED with the leader of a key's shard, in any mode of the node.",
            "STALE (<milliseconds>|OFF|AGE)",
            "    Allow stale reads of this age, or return the age of the last one.",
            "SETINFO (LIB-NAME|LIB-VER) <value>",
            "    Note the name or version of the client library.",
            "SETNAME <name>",
            "    Name the connection.",
            "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
            "         [OPTIN] [OPTOUT] [NOLOOP]",
            "    Tell the connection of changes of keys that it reads, so that it may cache them.",
            "TRACKINGINFO",
            "    Return how the connection tracks keys.",
            "UNBLOCK <id> [TIMEOUT|ERROR]",
            "    Return 0: no connection is ever blocked.",
        ],
    )
}
