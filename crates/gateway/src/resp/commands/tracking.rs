//! `CLIENT TRACKING` and its like: the client caches what it reads, and learns of changes.

use std::collections::BTreeSet;

use command::Sink;

use super::{Call, Outcome, integer, one_of};
use crate::resp::args::Args;
use crate::resp::error::{CommandError, SYNTAX};
use crate::resp::request::Request;
use crate::resp::tracking::{Choice, Tracking};

const CACHING_NEEDS_A_CHOICE: CommandError = CommandError::Fixed(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
     OPTOUT mode enabled",
);

/// `CLIENT TRACKING ON | OFF [REDIRECT id] [BCAST] [PREFIX prefix …] [OPTIN] [OPTOUT] [NOLOOP]`
pub fn tracking<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let options = Options::of(call, args)?;
    if !one_of(args, 2, "ON", "OFF")? {
        return Ok(Request::Track(None));
    }
    let before = call.session.tracking.as_deref();
    let fail = |text: &'static str| Err(CommandError::Fixed(text));
    if !options.broadcasts && !options.prefixes.is_empty() {
        return fail("ERR PREFIX option requires BCAST mode to be enabled");
    }
    if before.is_some_and(|before| before.broadcasts != options.broadcasts) {
        return fail(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, \
             and then re-enabling it with a different mode.",
        );
    }
    if options.broadcasts && (options.opts_in || options.opts_out) {
        return fail("ERR OPTIN and OPTOUT are not compatible with BCAST");
    }
    if options.opts_in && options.opts_out {
        return fail("ERR You can't specify both OPTIN mode and OPTOUT mode");
    }
    let choice = before.map_or(Choice::All, |before| before.choice);
    if (options.opts_in && choice == Choice::OptOut)
        || (options.opts_out && choice == Choice::OptIn)
    {
        return fail(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, \
             and then re-enabling it with a different mode.",
        );
    }
    let mut prefixes = before.map(|before| before.prefixes.clone()).unwrap_or_default();
    if options.broadcasts {
        add_prefixes(&mut prefixes, &options.prefixes)?;
    }
    Ok(Request::Track(Some(Box::new(Tracking {
        broadcasts: options.broadcasts,
        prefixes,
        choice: match (options.opts_in, options.opts_out) {
            (true, _) => Choice::OptIn,
            (_, true) => Choice::OptOut,
            _ => Choice::All,
        },
        is_noloop: options.is_noloop,
        redirect: options.redirect.unwrap_or(0),
        has_lost_redirect: false,
        is_next_chosen: false,
    }))))
}

#[derive(Default)]
struct Options<'a> {
    redirect: Option<u64>,
    broadcasts: bool,
    prefixes: Vec<&'a [u8]>,
    opts_in: bool,
    opts_out: bool,
    is_noloop: bool,
}

impl<'a> Options<'a> {
    fn of(call: &Call<'_>, args: Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut index = 3;
        while index < args.len() {
            let value = args.get(index + 1);
            match value {
                Some(value) if args.is(index, "REDIRECT") => {
                    if options.redirect.is_some() {
                        return Err(CommandError::Fixed(
                            "ERR A client can only redirect to a single other client",
                        ));
                    }
                    options.redirect = Some(client(call, integer(value)?)?);
                    index += 1;
                }
                Some(prefix) if args.is(index, "PREFIX") => {
                    options.prefixes.push(prefix);
                    index += 1;
                }
                _ if args.is(index, "BCAST") => options.broadcasts = true,
                _ if args.is(index, "OPTIN") => options.opts_in = true,
                _ if args.is(index, "OPTOUT") => options.opts_out = true,
                _ if args.is(index, "NOLOOP") => options.is_noloop = true,
                _ => return Err(SYNTAX),
            }
            index += 1;
        }
        Ok(options)
    }
}

/// A connection of this node.
fn client(call: &Call<'_>, id: i64) -> Result<u64, CommandError> {
    let id = u64::try_from(id).unwrap_or(0);
    let mut is_there = id == call.session.id;
    call.ctx.each_other_client(&mut |other| is_there |= other.id == id);
    let gone = "ERR The client ID you want redirect to does not exist";
    if is_there { Ok(id) } else { Err(CommandError::Fixed(gone)) }
}

/// Adds prefixes, none of which may be the beginning of another.
fn add_prefixes(all: &mut BTreeSet<Box<[u8]>>, new: &[&[u8]]) -> Result<(), CommandError> {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refusal = |one: &[u8], what: &str, other: &[u8]| {
        let text = [
            b"ERR Prefix '",
            one,
            b"' overlaps with ",
            what.as_bytes(),
            b" prefix '",
            other,
            b"'. Prefixes for a single client must not overlap.",
        ];
        Err(CommandError::Formatted(text.concat()))
    };
    for (place, one) in new.iter().enumerate() {
        if let Some(other) = all.iter().find(|other| overlap(one, other)) {
            return refusal(one, "an existing", other);
        }
        if let Some(other) = new[place + 1..].iter().find(|other| overlap(one, other)) {
            return refusal(one, "another provided", other);
        }
    }
    all.extend(new.iter().map(|prefix| Box::from(*prefix)));
    if new.is_empty() && all.is_empty() {
        all.insert(Box::default());
    }
    Ok(())
}

/// `CLIENT CACHING YES | NO`
pub fn caching<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let Some(tracking) = call.session.tracking.as_mut() else {
        return Err(CACHING_NEEDS_A_CHOICE);
    };
    let (wanted, text) = match one_of(args, 2, "YES", "NO")? {
        true => (
            Choice::OptIn,
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        ),
        false => (
            Choice::OptOut,
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
    };
    if tracking.choice != wanted {
        return Err(CommandError::Fixed(text));
    }
    tracking.is_next_chosen = true;
    call.ok()
}

/// `CLIENT GETREDIR`: which connection is told; 0: this one; −1: tracking is off.
pub fn getredir<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let redirect = redirect(call.session.tracking.as_deref());
    call.answer(|writer| writer.int(redirect))
}

/// As CLIENT GETREDIR says it.
pub(in crate::resp) fn redirect(tracking: Option<&Tracking>) -> i64 {
    tracking.map_or(-1, |tracking| i64::try_from(tracking.redirect).unwrap_or(i64::MAX))
}

/// `CLIENT TRACKINGINFO`
pub fn trackinginfo<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let tracking = call.session.tracking.clone();
    let tracking = tracking.as_deref();
    let flags = tracking.map_or_else(|| vec!["off"], flags);
    call.answer(|writer| {
        writer.map(3);
        writer.bulk(b"flags");
        writer.set(flags.len());
        flags.iter().for_each(|flag| writer.bulk(flag.as_bytes()));
        writer.bulk(b"redirect");
        writer.int(redirect(tracking));
        writer.bulk(b"prefixes");
        writer.array(tracking.map_or(0, |tracking| tracking.prefixes.len()));
        let prefixes = tracking.iter().flat_map(|tracking| &tracking.prefixes);
        prefixes.for_each(|prefix| writer.bulk(prefix));
    })
}

fn flags(tracking: &Tracking) -> Vec<&'static str> {
    let Tracking { choice, is_next_chosen, .. } = tracking;
    let all = [
        (true, "on"),
        (tracking.broadcasts, "bcast"),
        (*choice == Choice::OptIn, "optin"),
        (*choice == Choice::OptIn && *is_next_chosen, "caching-yes"),
        (*choice == Choice::OptOut, "optout"),
        (*choice == Choice::OptOut && *is_next_chosen, "caching-no"),
        (tracking.is_noloop, "noloop"),
        (tracking.has_lost_redirect, "broken_redirect"),
    ];
    all.into_iter().filter(|(holds, _)| *holds).map(|(_, flag)| flag).collect()
}
