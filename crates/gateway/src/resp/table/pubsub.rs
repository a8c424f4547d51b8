//! Commands of ephemeral messages.
//!
//! Arity, flags, categories and key places are Redis 7.0.15's, since clients read them.

use super::{CommandSpec, KeySpec};
use crate::resp::commands::{pubsub, server};

/// Shard channels have places as keys have, so that a proxy finds their slot.
const CHANNELS: &[KeySpec] = &[KeySpec::new(1, -1, 1, "not_key")];
const CHANNEL: &[KeySpec] = &[KeySpec::new(1, 0, 1, "not_key")];

const SUBSCRIBES: &str = "pubsub noscript loading stale";
const PUBLISHES: &str = "pubsub loading stale fast";
const LOOKS: &str = "pubsub loading stale";

pub(super) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("subscribe", -2, pubsub::subscribe).flags(SUBSCRIBES, "pubsub slow").docs(
        "pubsub",
        "2.0.0",
        "O(N) with the channels",
        "Gets the messages of channels.",
    ),
    CommandSpec::new("unsubscribe", -1, pubsub::unsubscribe).flags(SUBSCRIBES, "pubsub slow").docs(
        "pubsub",
        "2.0.0",
        "O(N) with the channels",
        "Gets no more messages of channels.",
    ),
    CommandSpec::new("psubscribe", -2, pubsub::psubscribe).flags(SUBSCRIBES, "pubsub slow").docs(
        "pubsub",
        "2.0.0",
        "O(N) with the patterns",
        "Gets the messages of all channels that match patterns.",
    ),
    CommandSpec::new("punsubscribe", -1, pubsub::punsubscribe)
        .flags(SUBSCRIBES, "pubsub slow")
        .docs("pubsub", "2.0.0", "O(N) with the patterns", "Gets no more messages of patterns."),
    CommandSpec::new("ssubscribe", -2, pubsub::ssubscribe)
        .flags(SUBSCRIBES, "pubsub slow")
        .keys(1, -1, 1, CHANNELS)
        .docs("pubsub", "7.0.0", "O(N) with the channels", "Gets the messages of shard channels."),
    CommandSpec::new("sunsubscribe", -1, pubsub::sunsubscribe)
        .flags(SUBSCRIBES, "pubsub slow")
        .keys(1, -1, 1, CHANNELS)
        .docs(
            "pubsub",
            "7.0.0",
            "O(N) with the channels",
            "Gets no more messages of shard channels.",
        ),
    CommandSpec::new("publish", 3, pubsub::publish).flags(PUBLISHES, "pubsub fast").docs(
        "pubsub",
        "2.0.0",
        "O(N+M) with the channel's subscribers and all patterns",
        "Sends a message to the subscribers of a channel.",
    ),
    CommandSpec::new("spublish", 3, pubsub::spublish)
        .flags(PUBLISHES, "pubsub fast")
        .keys(1, 1, 1, CHANNEL)
        .docs(
            "pubsub",
            "7.0.0",
            "O(N) with the channel's subscribers",
            "Sends a message to the subscribers of a shard channel.",
        ),
    CommandSpec::new("tpublish", -3, pubsub::tpublish).flags("write denyoom", "write slow").docs(
        "pubsub",
        "7.0.0",
        "O(1)",
        "Publishes messages to a durable topic.",
    ),
    CommandSpec::new("pubsub", -2, server::container)
        .flags("", "slow")
        .docs("pubsub", "2.8.0", "Depends on subcommand", "Tells about channels and patterns.")
        .subcommands(&[
            CommandSpec::new("pubsub|channels", -2, pubsub::channels)
                .flags(LOOKS, "pubsub slow")
                .docs(
                    "pubsub",
                    "2.8.0",
                    "O(N) with the channels",
                    "Lists channels with subscribers.",
                ),
            CommandSpec::new("pubsub|numsub", -2, pubsub::numsub).flags(LOOKS, "pubsub slow").docs(
                "pubsub",
                "2.8.0",
                "O(N) with those named",
                "Counts channels' subscribers.",
            ),
            CommandSpec::new("pubsub|numpat", 2, pubsub::numpat).flags(LOOKS, "pubsub slow").docs(
                "pubsub",
                "2.8.0",
                "O(N) with the patterns",
                "Counts patterns.",
            ),
            CommandSpec::new("pubsub|shardchannels", -2, pubsub::shardchannels)
                .flags(LOOKS, "pubsub slow")
                .docs(
                    "pubsub",
                    "7.0.0",
                    "O(N) with the channels",
                    "Lists shard channels with subscribers.",
                ),
            CommandSpec::new("pubsub|shardnumsub", -2, pubsub::shardnumsub)
                .flags(LOOKS, "pubsub slow")
                .docs(
                    "pubsub",
                    "7.0.0",
                    "O(N) with those named",
                    "Counts shard channels' subscribers.",
                ),
            CommandSpec::new("pubsub|help", 2, pubsub::help).flags("loading stale", "slow").docs(
                "pubsub",
                "6.2.0",
                "O(1)",
                "Lists the subcommands.",
            ),
        ]),
];
