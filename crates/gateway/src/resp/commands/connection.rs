//! Commands that set a connection's protocol, user and keyspace: HELLO, AUTH, SELECT and the like.

use command::Sink;

use super::generic::NUMBERED_KEYSPACES;
use super::{Call, Outcome, client};
use crate::access::Principal;
use crate::resp::args::Args;
use crate::resp::context::Authentication;
use crate::resp::error::{self, CommandError, SYNTAX};
use crate::resp::number::parse_i64;
use crate::resp::request::Request;
use crate::resp::session::ReplyMode;
use crate::resp::topology::Mode;
use crate::resp::writer::Version;

/// The version of Redis whose clients are served.
pub const REDIS_VERSION: &str = "7.0.15";

const WRONG_PASSWORD: CommandError =
    CommandError::Fixed("WRONGPASS invalid username-password pair or user is disabled.");

const LOADING: CommandError = CommandError::Fixed(
    "LOADING the node is starting and does not know all keyspaces yet; nothing was done. Send it \
     again",
);

/// `PING [message]`
pub fn ping<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let message = args.get(1).unwrap_or_default();
    match args.len() {
        // Like a message, for clients that read nothing else.
        1 | 2 if call.session.is_confined() => call.answer(|writer| {
            writer.array(2);
            writer.bulk(b"pong");
            writer.bulk(message);
        }),
        1 => call.answer(|writer| writer.status("PONG")),
        2 => call.answer(|writer| writer.bulk(message)),
        _ => Err(call.wrong_arity()),
    }
}

/// `ECHO message`
pub fn echo<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.bulk(args.at(1)))
}

/// `QUIT`
pub fn quit<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.writer().ok();
    Ok(Request::Close)
}

/// `RESET`
pub fn reset<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    // A client that wanted no replies wants this one, but not if it skips just this one: as Redis.
    if call.session.reply == ReplyMode::Off {
        call.session.muted = false;
    }
    if call.session.monitors {
        call.ctx.monitor(false);
    }
    call.session.reset();
    call.writer().status("RESET");
    Ok(Request::Reset)
}

/// `SELECT index`, or `SELECT name` of a keyspace that exists. Numbers 0 to 15 always do. In mode
/// `cluster`, there is only 0. LOADING, while the node starts, says that the name may exist.
pub fn select<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let name = args.at(1);
    let index = parse_i64(name);
    let other = index.map_or_else(|| call.ctx.keyspace_exists(name), |index| index != 0);
    if call.ctx.mode() == Mode::Cluster && other {
        return Err(CommandError::Fixed("ERR SELECT is not allowed in cluster mode"));
    }
    match index {
        Some(index) if (0..NUMBERED_KEYSPACES).contains(&index) => {}
        Some(index) => return Err(error::no_numbered_keyspace(index)),
        None if call.ctx.keyspace_exists(name) => {}
        None if name.first().is_some_and(u8::is_ascii_alphabetic) => {
            return Err(match call.ctx.knows_keyspaces() {
                true => CommandError::Formatted([b"ERR no such keyspace '", name, b"'"].concat()),
                false => LOADING,
            });
        }
        // What cannot be a name was meant to be a number.
        None => return Err(error::NOT_INTEGER),
    }
    Ok(Request::Select(name))
}

/// `AUTH [username] password`
pub fn auth<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    match args.len() {
        2 => {
            if !authenticate(call, Principal::USER.as_bytes(), args.at(1))? {
                return Err(CommandError::Fixed(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?",
                ));
            }
            call.ok()
        }
        3 => {
            authenticate(call, args.at(1), args.at(2))?;
            call.ok()
        }
        _ => Err(SYNTAX),
    }
}

/// Lets the client in, if the password is right. Whether there is one.
fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<bool, CommandError> {
    if user != Principal::USER.as_bytes() {
        return Err(WRONG_PASSWORD);
    }
    match call.ctx.authenticate(&call.session.peer.addr, password) {
        Authentication::NotNeeded => Ok(false),
        Authentication::Right => {
            call.session.peer.principal = Principal::Authenticated;
            Ok(true)
        }
        Authentication::Wrong => Err(WRONG_PASSWORD),
        Authentication::Wait(seconds) => Err(CommandError::formatted(format!(
            "WRONGPASS too many wrong passwords came from this address: none is looked at for \
             another {seconds} s"
        ))),
    }
}

/// `HELLO [version [AUTH username password] [SETNAME name]]`
pub fn hello<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let version = match args.get(1) {
        None => None,
        Some(text) => Some(protocol(text)?),
    };
    let mut name = None;
    let mut index = 2;
    while index < args.len() {
        let after = args.len() - 1 - index;
        if args.is(index, "AUTH") && after >= 2 {
            authenticate(call, args.at(index + 1), args.at(index + 2))?;
            index += 3;
        } else if args.is(index, "SETNAME") && after >= 1 {
            name = Some(client::checked_name(args.at(index + 1))?);
            index += 2;
        } else {
            let option = args.at(index);
            let text = [b"ERR Syntax error in HELLO option '", option, b"'"].concat();
            return Err(CommandError::Formatted(text));
        }
    }
    if call.session.peer.principal == Principal::Stranger {
        return Err(CommandError::Fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(version) = version {
        call.session.set_version(version);
    }
    if let Some(name) = name {
        name.clone_into(&mut call.session.name);
    }
    let (id, proto) = (call.session.id as i64, call.session.version.number());
    let ctx = call.ctx;
    let role = if call.session.is_replica { "replica" } else { "master" };
    call.answer(|writer| {
        writer.map(8);
        for (key, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
            writer.bulk(key.as_bytes());
            writer.bulk(value.as_bytes());
        }
        writer.bulk(b"proto");
        writer.int(proto);
        writer.bulk(b"id");
        writer.int(id);
        let mode = match ctx.mode() {
            Mode::Any => "standalone",
            Mode::Cluster => "cluster",
        };
        for (key, value) in [("mode", mode), ("role", role)] {
            writer.bulk(key.as_bytes());
            writer.bulk(value.as_bytes());
        }
        writer.bulk(b"modules");
        writer.array(0);
        writer.bulk(b"carillon_version");
        writer.bulk(ctx.facts().carillon_version.as_bytes());
    })
}

fn protocol(text: &[u8]) -> Result<Version, CommandError> {
    match parse_i64(text) {
        None => Err(CommandError::Fixed("ERR Protocol version is not an integer or out of range")),
        Some(2) => Ok(Version::V2),
        Some(3) => Ok(Version::V3),
        Some(_) => Err(CommandError::Fixed("NOPROTO unsupported protocol version")),
    }
}
