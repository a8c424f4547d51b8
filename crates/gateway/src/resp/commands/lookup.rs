//! LOOKUP and EXPLAIN, which Redis does not have: they choose and show lookups of owners.

use command::Sink as _;

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::CommandError;
use crate::resp::request::{Explain, Request};
use crate::resp::writer::Version;
use overlay::LookupChoice;

/// `LOOKUP [full | chord | chord-sharp | linear | lh] [ITERATIVE | RECURSIVE | SEMI-RECURSIVE]
/// [IMAGES | NOIMAGES] [ROUTE | NOROUTE]`, or `LOOKUP DEFAULT`: how the commands of this connection
/// look for the owners of their keys from now on; without arguments it says how. `LOOKUP LAST`:
/// the ways of the last command.
pub fn lookup<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.len() == 1 {
        let (way, shows) = (call.session.way, call.session.shows_routes);
        return call.answer(|writer| {
            writer.map(4);
            writer.bulk(b"lookup");
            writer.bulk(way.kind.name().as_bytes());
            writer.bulk(b"form");
            writer.bulk(way.form.name().as_bytes());
            writer.bulk(b"images");
            writer.bulk(if way.cached { b"on" } else { b"off" });
            writer.bulk(b"route");
            writer.bulk(if shows { b"on" } else { b"off" });
        });
    }
    if args.len() == 2 && args.is(1, "last") {
        return Ok(Request::LastRoutes);
    }
    if args.len() == 2 && args.is(1, "default") {
        call.session.way = call.session.default_lookup;
        call.session.shows_routes = false;
        return call.ok();
    }
    let mut shows = false;
    let words = args.from(1).iter().filter(|word| {
        let is_on = word.eq_ignore_ascii_case(b"route");
        shows |= is_on;
        !is_on && !word.eq_ignore_ascii_case(b"noroute")
    });
    let way = LookupChoice::parse(words).map_err(CommandError::formatted)?;
    if shows && call.session.version == Version::V2 {
        return Err(CommandError::Fixed(
            "ERR replies carry routes in RESP3 only: HELLO 3 first, or ask with LOOKUP LAST",
        ));
    }
    (call.session.way, call.session.shows_routes) = (way, shows);
    call.ok()
}

/// `EXPLAIN ROUTE key [ALL | lookup] [form] [IMAGES | NOIMAGES]`: how the owner of a key is found,
/// by all lookups or by one, move by move; without more than a key, by the connection's.
pub fn explain_route<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let key = args.at(2);
    let words: Vec<_> = args.from(3).iter().collect();
    let lookups = match words.is_empty() {
        true => vec![call.session.way],
        false => LookupChoice::parse_all(&words).map_err(CommandError::formatted)?,
    };
    Ok(Request::Explain(Explain { key, lookups }))
}
