//! Commands of ephemeral messages: SUBSCRIBE, PUBLISH, PUBSUB and theirs.

use command::topic::{CHANNEL_BYTES_MAX, MESSAGE_BYTES_MAX};
use command::{Sink, TopicKind, topic};
use keyspace::slot_of;

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::{CROSS_SLOT, CommandError};
use crate::resp::request::Request;
use crate::resp::subscriptions::TOO_MANY_SUBSCRIPTIONS;
use crate::resp::topology::Mode;

/// A name that is short enough.
fn checked(name: &[u8]) -> Result<&[u8], CommandError> {
    if name.len() <= CHANNEL_BYTES_MAX {
        return Ok(name);
    }
    let text = format!("ERR a channel's name or pattern has at most {CHANNEL_BYTES_MAX} bytes");
    Err(CommandError::formatted(text))
}

fn subscribes<'a>(call: &Call<'_>, kind: TopicKind, args: Args<'a>) -> Outcome<'a> {
    let names = args.from(1).iter().map(checked).collect::<Result<Vec<_>, _>>()?;
    if !call.session.subscriptions().has_room_for(&names) {
        return Err(CommandError::Fixed(TOO_MANY_SUBSCRIPTIONS));
    }
    Ok(Request::Subscribe { kind, names })
}

fn unsubscribes(kind: TopicKind, args: Args<'_>) -> Outcome<'_> {
    Ok(Request::Unsubscribe { kind, names: args.from(1).iter().collect() })
}

fn publishes(kind: TopicKind, args: Args<'_>) -> Outcome<'_> {
    let (channel, message) = (checked(args.at(1))?, args.at(2));
    if message.len() > MESSAGE_BYTES_MAX {
        let text = format!("ERR a message has at most {MESSAGE_BYTES_MAX} bytes; it was not sent");
        return Err(CommandError::formatted(text));
    }
    Ok(Request::Publish { kind, channel, message })
}

/// `SUBSCRIBE channel [channel …]`
pub fn subscribe<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    subscribes(call, TopicKind::Channel, args)
}

/// `PSUBSCRIBE pattern [pattern …]`
pub fn psubscribe<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    subscribes(call, TopicKind::Pattern, args)
}

/// `SSUBSCRIBE shardchannel [shardchannel …]`; in mode `cluster` all of one slot.
pub fn ssubscribe<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    of_one_slot(call, args)?;
    subscribes(call, TopicKind::Shard, args)
}

/// `UNSUBSCRIBE [channel …]`
pub fn unsubscribe<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    unsubscribes(TopicKind::Channel, args)
}

/// `PUNSUBSCRIBE [pattern …]`
pub fn punsubscribe<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    unsubscribes(TopicKind::Pattern, args)
}

/// `SUNSUBSCRIBE [shardchannel …]`
pub fn sunsubscribe<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    of_one_slot(call, args)?;
    unsubscribes(TopicKind::Shard, args)
}

/// Refuses shard channels of several slots, as a Redis Cluster does.
fn of_one_slot(call: &Call<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let mut slots = args.from(1).iter().map(slot_of);
    let first = slots.next();
    match call.ctx.mode() == Mode::Cluster && slots.any(|slot| Some(slot) != first) {
        true => Err(CROSS_SLOT),
        false => Ok(()),
    }
}

/// `PUBLISH channel message`
pub fn publish<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    publishes(TopicKind::Channel, args)
}

/// `SPUBLISH shardchannel message`
pub fn spublish<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    publishes(TopicKind::Shard, args)
}

/// Messages that one TPUBLISH may have.
const TPUBLISH_MAX: usize = 1024;

/// `TPUBLISH topic message [message …]`: Redis does not have it.
pub fn tpublish<'a>(_: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.len() - 2 > TPUBLISH_MAX {
        let text = format!("ERR TPUBLISH takes at most {TPUBLISH_MAX} messages; nothing was sent");
        return Err(CommandError::formatted(text));
    }
    Ok(Request::PublishToTopic { topic: args.at(1), messages: args.from(2).iter().collect() })
}

fn names<'a>(call: &mut Call<'_>, kind: TopicKind, args: Args<'a>) -> Outcome<'a> {
    if args.len() > 3 {
        let text = "ERR unknown subcommand or wrong number of arguments for '";
        let text = [text.as_bytes(), args.at(1), b"'. Try PUBSUB HELP."].concat();
        return Err(CommandError::Formatted(text));
    }
    let mut found = call.ctx.channels(kind);
    if let Some(pattern) = args.get(2) {
        found.retain(|name| topic::matches(pattern, name));
    }
    call.answer(|writer| {
        writer.array(found.len());
        found.iter().for_each(|name| writer.bulk(name));
    })
}

fn counts<'a>(call: &mut Call<'_>, kind: TopicKind, args: Args<'a>) -> Outcome<'a> {
    let ctx = call.ctx;
    let names = args.from(2);
    call.answer(|writer| {
        writer.array(names.len() * 2);
        for name in names.iter() {
            writer.bulk(name);
            writer.int(ctx.subscribers(kind, name) as i64);
        }
    })
}

/// `PUBSUB CHANNELS [pattern]`
pub fn channels<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    names(call, TopicKind::Channel, args)
}

/// `PUBSUB SHARDCHANNELS [pattern]`
pub fn shardchannels<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    names(call, TopicKind::Shard, args)
}

/// `PUBSUB NUMSUB [channel …]`
pub fn numsub<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    counts(call, TopicKind::Channel, args)
}

/// `PUBSUB SHARDNUMSUB [shardchannel …]`
pub fn shardnumsub<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    counts(call, TopicKind::Shard, args)
}

/// `PUBSUB NUMPAT`
pub fn numpat<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let count = call.ctx.channels(TopicKind::Pattern).len();
    call.answer(|writer| writer.int(count as i64))
}

/// `PUBSUB HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "PUBSUB",
        &[
            "CHANNELS [<pattern>]",
            "    Return the currently active channels matching a <pattern> (default: '*').",
            "NUMPAT",
            "    Return number of subscriptions to patterns.",
            "NUMSUB [<channel> ...]",
            "    Return the number of subscribers for the specified channels, excluding",
            "    pattern subscriptions(default: no channels).",
            "SHARDCHANNELS [<pattern>]",
            "    Return the currently active shard level channels matching a <pattern> (default: \
             '*').",
            "SHARDNUMSUB [<shardchannel> ...]",
            "    Return the number of subscribers for the specified shard level channel(s)",
        ],
    )
}
