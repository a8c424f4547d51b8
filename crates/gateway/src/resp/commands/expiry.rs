//! Options and commands that set or show a value's expiry.

use command::{ExpireIf, Expiry, Read, Write};

use super::{Call, Outcome, integer};
use crate::resp::args::Args;
use crate::resp::error::{self, CommandError, SYNTAX};
use crate::resp::request::Request;

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeForm {
    /// In seconds, else in milliseconds.
    pub seconds: bool,
    /// From now, else since 1970.
    pub relative: bool,
}

/// The word of an expiry option.
pub(super) fn form_of(args: Args<'_>, index: usize) -> Option<TimeForm> {
    let word = args.get(index)?;
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    match () {
        () if is("EX") => Some(TimeForm { seconds: true, relative: true }),
        () if is("PX") => Some(TimeForm { seconds: false, relative: true }),
        () if is("EXAT") => Some(TimeForm { seconds: true, relative: false }),
        () if is("PXAT") => Some(TimeForm { seconds: false, relative: false }),
        () => None,
    }
}

/// The absolute time of an option: above zero before and after.
pub(super) fn deadline(
    call: &Call<'_>,
    text: &[u8],
    form: TimeForm,
) -> Result<Expiry, CommandError> {
    let invalid = || error::expire_time(call.spec.name);
    let value = integer(text)?;
    if value <= 0 {
        return Err(invalid());
    }
    let millis = absolute(call, value, form).ok_or_else(invalid)?;
    Ok(Expiry::At(millis as u64))
}

/// Milliseconds since 1970; nothing if they leave 64 bits.
fn absolute(call: &Call<'_>, value: i64, form: TimeForm) -> Option<i64> {
    let millis = if form.seconds { value.checked_mul(1000)? } else { value };
    if !form.relative {
        return Some(millis);
    }
    millis.checked_add(i64::try_from(call.ctx.now_millis()).ok()?)
}

fn expire_as<'a>(call: &mut Call<'_>, args: Args<'a>, form: TimeForm) -> Outcome<'a> {
    let when = conditions(args.from(3))?;
    let value = integer(args.at(2))?;
    let at = absolute(call, value, form).ok_or_else(|| error::expire_time(call.spec.name))?;
    Ok(Request::Write(Write::Expire { key: args.at(1), at, when }))
}

fn conditions(options: Args<'_>) -> Result<ExpireIf, CommandError> {
    let mut when = ExpireIf::default();
    for (index, option) in options.iter().enumerate() {
        match () {
            () if options.is(index, "NX") => when.nx = true,
            () if options.is(index, "XX") => when.xx = true,
            () if options.is(index, "GT") => when.gt = true,
            () if options.is(index, "LT") => when.lt = true,
            () => {
                return Err(CommandError::Formatted([b"ERR Unsupported option ", option].concat()));
            }
        }
    }
    if when.nx && (when.xx || when.gt || when.lt) {
        return Err(CommandError::Fixed(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if when.gt && when.lt {
        return Err(CommandError::Fixed(
            "ERR GT and LT options at the same time are not compatible",
        ));
    }
    Ok(when)
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub fn expire<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    expire_as(call, args, TimeForm { seconds: true, relative: true })
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub fn pexpire<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    expire_as(call, args, TimeForm { seconds: false, relative: true })
}

/// `EXPIREAT key seconds-since-1970 [NX | XX | GT | LT]`
pub fn expireat<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    expire_as(call, args, TimeForm { seconds: true, relative: false })
}

/// `PEXPIREAT key milliseconds-since-1970 [NX | XX | GT | LT]`
pub fn pexpireat<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    expire_as(call, args, TimeForm { seconds: false, relative: false })
}

/// `TTL key`
pub fn ttl<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Ttl { key: args.at(1), millis: false, absolute: false }))
}

/// `PTTL key`
pub fn pttl<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Ttl { key: args.at(1), millis: true, absolute: false }))
}

/// `EXPIRETIME key`
pub fn expiretime<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Ttl { key: args.at(1), millis: false, absolute: true }))
}

/// `PEXPIRETIME key`
pub fn pexpiretime<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Read(Read::Ttl { key: args.at(1), millis: true, absolute: true }))
}

/// `PERSIST key`
pub fn persist<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    Ok(Request::Write(Write::Persist { key: args.at(1) }))
}

/// A time option: it may come twice, and the last one counts, but not in two forms.
pub(super) fn same_form<'a>(
    before: Option<(TimeForm, &'a [u8])>,
    form: TimeForm,
    text: Option<&'a [u8]>,
) -> Result<(TimeForm, &'a [u8]), CommandError> {
    if before.is_some_and(|(earlier, _)| earlier != form) {
        return Err(SYNTAX);
    }
    Ok((form, text.ok_or(SYNTAX)?))
}
