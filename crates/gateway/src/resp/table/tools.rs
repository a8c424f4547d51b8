//! Commands by which tools look at a server: its slow commands, its memory, its modules.
//!
//! Arity, flags, categories and key places are Redis 7.0.15's, since clients read them.

use super::{CommandSpec, KeySpec};
use crate::resp::commands::{memory, server, slow};

const ADMIN: (&str, &str) = ("admin noscript loading stale", "admin slow dangerous");
const ON_ALL_NODES: &[&str] =
    &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];
const ON_ALL_SHARDS: &[&str] =
    &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

pub(super) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("monitor", 1, server::monitor).flags(ADMIN.0, ADMIN.1).docs(
        "server",
        "1.0.0",
        "O(N) with the commands that come",
        "Shows each command that this node runs, as it comes.",
    ),
    CommandSpec::new("slowlog", -2, server::container)
        .flags("", "slow")
        .docs("server", "2.2.12", "Depends on subcommand.", "Looks at commands that took long.")
        .subcommands(&[
            CommandSpec::new("slowlog|get", -2, slow::log_get)
                .flags("admin loading stale", ADMIN.1)
                .tips(&["request_policy:all_nodes", "nondeterministic_output"])
                .docs("server", "2.2.12", "O(N)", "Returns the last commands that took long."),
            CommandSpec::new("slowlog|len", 2, slow::log_len)
                .flags("admin loading stale", ADMIN.1)
                .tips(&[
                    "request_policy:all_nodes",
                    "response_policy:agg_sum",
                    "nondeterministic_output",
                ])
                .docs("server", "2.2.12", "O(1)", "Returns how many commands took long."),
            CommandSpec::new("slowlog|reset", 2, slow::log_reset)
                .flags("admin loading stale", ADMIN.1)
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .docs("server", "2.2.12", "O(N)", "Forgets the commands that took long."),
            CommandSpec::new("slowlog|help", 2, slow::log_help)
                .flags("loading stale", "slow")
                .docs("server", "6.2.0", "O(1)", "Lists the subcommands."),
        ]),
    CommandSpec::new("latency", -2, server::container)
        .flags("", "slow")
        .docs("server", "2.8.13", "Depends on subcommand.", "Tells how long commands take.")
        .subcommands(&[
            CommandSpec::new("latency|latest", 2, slow::latency_none)
                .flags(ADMIN.0, ADMIN.1)
                .tips(ON_ALL_NODES)
                .docs("server", "2.8.13", "O(1)", "Returns the last delay of each event: none."),
            CommandSpec::new("latency|history", 3, slow::latency_none)
                .flags(ADMIN.0, ADMIN.1)
                .tips(ON_ALL_NODES)
                .docs("server", "2.8.13", "O(1)", "Returns the delays of an event: none."),
            CommandSpec::new("latency|graph", 3, slow::latency_graph)
                .flags(ADMIN.0, ADMIN.1)
                .tips(ON_ALL_NODES)
                .docs("server", "2.8.13", "O(1)", "Draws the delays of an event: none."),
            CommandSpec::new("latency|reset", -2, slow::latency_reset)
                .flags(ADMIN.0, ADMIN.1)
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .docs("server", "2.8.13", "O(1)", "Forgets the delays of events: none."),
            CommandSpec::new("latency|doctor", 2, slow::latency_doctor)
                .flags(ADMIN.0, ADMIN.1)
                .tips(ON_ALL_NODES)
                .docs("server", "2.8.13", "O(1)", "Says where delays are told."),
            CommandSpec::new("latency|histogram", -2, slow::histogram)
                .flags(ADMIN.0, ADMIN.1)
                .tips(ON_ALL_NODES)
                .docs("server", "7.0.0", "O(N)", "Returns how long calls of commands took."),
            CommandSpec::new("latency|help", 2, slow::latency_help)
                .flags("loading stale", "slow")
                .docs("server", "2.8.13", "O(1)", "Lists the subcommands."),
        ]),
    CommandSpec::new("memory", -2, server::container)
        .flags("", "slow")
        .docs("server", "4.0.0", "Depends on subcommand.", "Tells what takes memory.")
        .subcommands(&[
            CommandSpec::new("memory|usage", -3, memory::usage)
                .flags("readonly", "read slow")
                .keys(2, 2, 1, &[KeySpec::new(2, 0, 1, "RO")])
                .docs("server", "4.0.0", "O(N)", "Returns what a key and its value take."),
            CommandSpec::new("memory|stats", 2, memory::stats)
                .flags("", "slow")
                .tips(ON_ALL_SHARDS)
                .docs("server", "4.0.0", "O(1)", "Tells what takes memory, in numbers."),
            CommandSpec::new("memory|doctor", 2, memory::doctor)
                .flags("", "slow")
                .tips(ON_ALL_SHARDS)
                .docs("server", "4.0.0", "O(1)", "Says whether memory runs short."),
            CommandSpec::new("memory|malloc-stats", 2, memory::malloc_stats)
                .flags("", "slow")
                .tips(ON_ALL_SHARDS)
                .docs("server", "4.0.0", "O(1)", "Tells about the allocator: nothing."),
            CommandSpec::new("memory|purge", 2, memory::purge)
                .flags("", "slow")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .docs("server", "4.0.0", "O(1)", "Accepted: the allocator gives back by itself."),
            CommandSpec::new("memory|help", 2, memory::help).flags("loading stale", "slow").docs(
                "server",
                "4.0.0",
                "O(1)",
                "Lists the subcommands.",
            ),
        ]),
    CommandSpec::new("module", -2, server::container)
        .flags("", "slow")
        .docs("server", "4.0.0", "Depends on subcommand.", "Tells about modules: there are none.")
        .subcommands(&[
            CommandSpec::new("module|list", 2, server::module_list)
                .flags("admin noscript", ADMIN.1)
                .tips(&["nondeterministic_output_order"])
                .docs("server", "4.0.0", "O(N)", "Returns the modules: none."),
            CommandSpec::new("module|help", 2, server::module_help)
                .flags("loading stale", "slow")
                .docs("server", "5.0.0", "O(1)", "Lists the subcommands."),
            CommandSpec::new("module|load", -3, server::module_refused)
                .flags("admin noscript no_async_loading", ADMIN.1)
                .hidden(),
            CommandSpec::new("module|loadex", -3, server::module_refused)
                .flags("admin noscript no_async_loading", ADMIN.1)
                .hidden(),
            CommandSpec::new("module|unload", 3, server::module_refused)
                .flags("admin noscript no_async_loading", ADMIN.1)
                .hidden(),
        ]),
    CommandSpec::new("role", 1, server::role)
        .flags("noscript loading stale fast", "admin fast dangerous")
        .docs("server", "2.8.12", "O(1)", "Returns the role that the node has for clients."),
    CommandSpec::new("lastsave", 1, server::lastsave)
        .flags("loading stale fast", "admin fast dangerous")
        .tips(&["nondeterministic_output"])
        .docs("server", "1.0.0", "O(1)", "Returns when the last checkpoint was finished."),
    CommandSpec::new("lolwut", -1, server::lolwut).flags("readonly fast", "read fast").docs(
        "server",
        "5.0.0",
        "O(1)",
        "Draws something, with the version below it.",
    ),
];
