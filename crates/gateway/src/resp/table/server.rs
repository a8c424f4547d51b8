//! Commands on connections and on the server.
//!
//! Arity, flags, categories and key places are Redis 7.0.15's, since clients read them.

use super::{CommandSpec, KeySpec};
use crate::resp::commands::{
    client, cluster, command, config, connection, info, lookup, past, server, tracking,
};

pub(super) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("ping", -1, connection::ping)
        .flags("fast", "fast connection")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .docs("connection", "1.0.0", "O(1)", "Answers PONG, or what it is given."),
    CommandSpec::new("echo", 2, connection::echo)
        .flags("loading stale fast", "fast connection")
        .docs("connection", "1.0.0", "O(1)", "Returns what it is given."),
    CommandSpec::new("hello", -1, connection::hello)
        .flags("noscript loading stale fast no_auth allow_busy", "fast connection")
        .docs("connection", "6.0.0", "O(1)", "Chooses the protocol, and says who the server is."),
    CommandSpec::new("auth", -2, connection::auth)
        .flags("noscript loading stale fast no_auth allow_busy", "fast connection")
        .docs("connection", "1.0.0", "O(N)", "Says who the client is."),
    CommandSpec::new("select", 2, connection::select)
        .flags("loading stale fast", "fast connection")
        .docs("connection", "1.0.0", "O(1)", "Chooses the keyspace, by number or by name."),
    CommandSpec::new("quit", -1, connection::quit)
        .flags("noscript loading stale fast no_auth allow_busy", "fast connection")
        .docs("connection", "1.0.0", "O(1)", "Closes the connection."),
    CommandSpec::new("reset", 1, connection::reset)
        .flags("noscript loading stale fast no_auth allow_busy", "fast connection")
        .docs("connection", "6.2.0", "O(1)", "Begins the connection anew."),
    CommandSpec::new("time", 1, server::time)
        .flags("loading stale fast", "fast")
        .tips(&["nondeterministic_output"])
        .docs("server", "2.6.0", "O(1)", "Returns the server's time."),
    CommandSpec::new("info", -1, info::info)
        .flags("loading stale", "slow dangerous")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .docs("server", "1.0.0", "O(1)", "Tells about the server."),
    CommandSpec::new("client", -2, server::container)
        .flags("", "slow")
        .docs("connection", "2.4.0", "Depends on subcommand", "Looks at and changes connections.")
        .subcommands(&[
            CommandSpec::new("client|id", 2, client::id)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "5.0.0", "O(1)", "Returns the connection's number."),
            CommandSpec::new("client|info", 2, client::info)
                .flags("noscript loading stale", "slow connection")
                .tips(&["nondeterministic_output"])
                .docs("connection", "6.2.0", "O(1)", "Tells about this connection."),
            CommandSpec::new("client|list", -2, client::list)
                .flags("admin noscript loading stale", "admin slow dangerous connection")
                .tips(&["nondeterministic_output"])
                .docs("connection", "2.4.0", "O(N)", "Tells about all connections."),
            CommandSpec::new("client|getname", 2, client::getname)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "2.6.9", "O(1)", "Returns the connection's name."),
            CommandSpec::new("client|setname", 3, client::setname)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "2.6.9", "O(1)", "Names the connection."),
            CommandSpec::new("client|kill", -3, client::kill)
                .flags("admin noscript loading stale", "admin slow dangerous connection")
                .docs("connection", "2.4.0", "O(N)", "Closes connections."),
            CommandSpec::new("client|reply", 3, client::reply)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "3.2.0", "O(1)", "Says whether replies are wanted."),
            CommandSpec::new("client|no-evict", 3, client::no_evict)
                .flags("admin noscript loading stale", "admin slow dangerous connection")
                .docs(
                    "connection",
                    "7.0.0",
                    "O(1)",
                    "Keeps the connection if memory for connections runs out.",
                ),
            CommandSpec::new("client|getredir", 2, tracking::getredir)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "6.0.0", "O(1)", "Returns where invalidations go."),
            CommandSpec::new("client|trackinginfo", 2, tracking::trackinginfo)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "6.2.0", "O(1)", "Tells how the connection tracks keys."),
            CommandSpec::new("client|unblock", -3, client::unblock)
                .flags("admin noscript loading stale", "admin slow dangerous connection")
                .docs(
                    "connection",
                    "5.0.0",
                    "O(log N)",
                    "Wakes a waiting connection: none ever waits.",
                ),
            CommandSpec::new("client|help", 2, client::help)
                .flags("loading stale", "slow connection")
                .docs("connection", "5.0.0", "O(1)", "Lists the subcommands."),
            CommandSpec::new("client|caching", 3, tracking::caching)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "6.0.0", "O(1)", "Says whether the next command is tracked."),
            CommandSpec::new("client|tracking", -3, tracking::tracking)
                .flags("noscript loading stale", "slow connection")
                .docs("connection", "6.0.0", "O(1)", "Tells a cache of changed keys."),
            CommandSpec::new("client|pause", -3, client::pause)
                .flags("admin noscript loading stale", "admin slow dangerous connection")
                .hidden(),
            CommandSpec::new("client|unpause", 2, client::pause)
                .flags("admin noscript loading stale", "admin slow dangerous connection")
                .hidden(),
            CommandSpec::new("client|stale", 3, client::stale)
                .flags("noscript loading stale", "slow connection")
                .hidden(),
            CommandSpec::new("client|at", 3, past::client_at)
                .flags("noscript loading stale", "slow connection")
                .hidden(),
            CommandSpec::new("client|route", 3, client::route)
                .flags("noscript loading stale", "slow connection")
                .hidden(),
            CommandSpec::new("client|setinfo", 4, client::setinfo)
                .flags("noscript loading stale", "slow connection")
                .docs(
                    "connection",
                    "7.2.0",
                    "O(1)",
                    "Notes the name and version of the client library.",
                ),
            CommandSpec::new("client|no-touch", 3, client::no_touch)
                .flags("noscript loading stale", "slow connection")
                .docs(
                    "connection",
                    "7.2.0",
                    "O(1)",
                    "Notes that the connection's reads are no use of a key.",
                ),
        ]),
    CommandSpec::new("command", -1, command::all)
        .flags("loading stale", "slow connection")
        .tips(&["nondeterministic_output_order"])
        .docs("server", "2.8.13", "O(N)", "Tells about the commands.")
        .subcommands(&[
            CommandSpec::new("command|count", 2, command::count)
                .flags("loading stale", "slow connection")
                .docs("server", "2.8.13", "O(1)", "Returns the number of commands."),
            CommandSpec::new("command|docs", -2, command::docs)
                .flags("loading stale", "slow connection")
                .tips(&["nondeterministic_output_order"])
                .docs("server", "7.0.0", "O(N)", "Tells what commands are for."),
            CommandSpec::new("command|info", -2, command::info)
                .flags("loading stale", "slow connection")
                .tips(&["nondeterministic_output_order"])
                .docs("server", "2.8.13", "O(N)", "Tells how commands are called."),
            CommandSpec::new("command|list", -2, command::list)
                .flags("loading stale", "slow connection")
                .tips(&["nondeterministic_output_order"])
                .docs("server", "7.0.0", "O(N)", "Returns the names of commands."),
            CommandSpec::new("command|getkeys", -4, command::getkeys)
                .flags("loading stale", "slow connection")
                .docs("server", "2.8.13", "O(N)", "Returns the keys in a command."),
            CommandSpec::new("command|getkeysandflags", -4, command::getkeysandflags)
                .flags("loading stale", "slow connection")
                .docs(
                    "server",
                    "7.0.0",
                    "O(N)",
                    "Returns the keys in a command and what becomes of them.",
                ),
            CommandSpec::new("command|help", 2, command::help)
                .flags("loading stale", "slow connection")
                .docs("server", "5.0.0", "O(1)", "Lists the subcommands."),
        ]),
    CommandSpec::new("lookup", -1, lookup::lookup)
        .flags("noscript loading stale fast", "fast connection")
        .docs(
            "connection",
            "carillon 0.1.0",
            "O(1)",
            "Chooses how the owners of keys are looked for, or says how.",
        ),
    CommandSpec::new("at", -2, past::at).flags("readonly noscript", "read slow").docs(
        "generic",
        "carillon 0.1.0",
        "O(N) with what the command reads",
        "Returns the reply of a reading command as of a past time or snapshot.",
    ),
    CommandSpec::new("state", 2, past::state)
        .flags("readonly noscript", "keyspace read slow")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO")])
        .docs(
            "generic",
            "carillon 0.1.0",
            "O(1)",
            "Returns whether a key had a value at a past time, none, or none yet.",
        ),
    CommandSpec::new("carillon", -2, server::container)
        .flags("", "slow")
        .docs("server", "carillon 0.1.0", "Depends on subcommand", "Does what Redis does not.")
        .subcommands(&[
            CommandSpec::new("carillon|gc", -2, past::collect)
                .flags("admin noscript", "admin slow dangerous")
                .docs(
                    "server",
                    "carillon 0.1.0",
                    "O(1), and O(N) with the old versions afterwards",
                    "Has old versions collected, or says what holds them.",
                ),
            CommandSpec::new("carillon|help", 2, past::help).flags("loading stale", "slow").docs(
                "server",
                "carillon 0.1.0",
                "O(1)",
                "Lists the subcommands.",
            ),
        ]),
    CommandSpec::new("explain", -2, server::container)
        .flags("", "slow")
        .docs("server", "carillon 0.1.0", "Depends on subcommand", "Says how things are done.")
        .subcommands(&[CommandSpec::new("explain|route", -3, lookup::explain_route)
            .flags("readonly", "slow")
            .docs(
                "server",
                "carillon 0.1.0",
                "O(N) with the moves of the slowest lookup",
                "Returns how the owner of a key is found, move by move.",
            )]),
    CommandSpec::new("config", -2, server::container)
        .flags("", "slow")
        .docs("server", "2.0.0", "Depends on subcommand", "Looks at the settings.")
        .subcommands(&[
            CommandSpec::new("config|get", -3, config::get)
                .flags("admin noscript loading stale", "admin slow dangerous")
                .docs("server", "2.0.0", "O(N)", "Returns settings."),
            CommandSpec::new("config|set", -4, config::set)
                .flags("admin noscript loading stale", "admin slow dangerous")
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .docs(
                    "server",
                    "2.0.0",
                    "O(N)",
                    "Changes settings of SLOWLOG and tracking until the node stops.",
                ),
            CommandSpec::new("config|resetstat", 2, config::resetstat)
                .flags("admin noscript loading stale", "admin slow dangerous")
                .docs("server", "2.0.0", "O(1)", "Has the counters of INFO begin at 0."),
            CommandSpec::new("config|rewrite", 2, config::rewrite)
                .flags("admin noscript loading stale", "admin slow dangerous")
                .docs("server", "2.8.0", "O(1)", "Refused: the configuration file is not written."),
            CommandSpec::new("config|help", 2, config::help).flags("loading stale", "slow").docs(
                "server",
                "5.0.0",
                "O(1)",
                "Lists the subcommands.",
            ),
        ]),
    CommandSpec::new("cluster", -2, server::container)
        .flags("", "slow")
        .docs("cluster", "3.0.0", "Depends on subcommand", "Says where keys lie.")
        .subcommands(&[
            CommandSpec::new("cluster|keyslot", 3, cluster::keyslot).flags("stale", "slow").docs(
                "cluster",
                "3.0.0",
                "O(N)",
                "Returns the slot of a key.",
            ),
            CommandSpec::new("cluster|myid", 2, cluster::myid).flags("stale", "slow").docs(
                "cluster",
                "3.0.0",
                "O(1)",
                "Returns the node's id.",
            ),
            CommandSpec::new("cluster|help", 2, cluster::help).flags("loading stale", "slow").docs(
                "cluster",
                "5.0.0",
                "O(1)",
                "Lists the subcommands.",
            ),
            CommandSpec::new("cluster|info", 2, cluster::info)
                .flags("stale", "slow")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "3.0.0", "O(1)", "Tells how the cluster is."),
            CommandSpec::new("cluster|nodes", 2, cluster::nodes)
                .flags("stale", "slow")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "3.0.0", "O(N)", "Tells of all nodes."),
            CommandSpec::new("cluster|slots", 2, cluster::slots)
                .flags("stale", "slow")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "3.0.0", "O(N)", "Tells who holds which slots.")
                .deprecated("7.0.0", "`CLUSTER SHARDS`"),
            CommandSpec::new("cluster|shards", 2, cluster::shards)
                .flags("stale", "slow")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "7.0.0", "O(N)", "Tells of shards and who holds them."),
            CommandSpec::new("cluster|links", 2, cluster::links)
                .flags("stale", "slow")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "7.0.0", "O(N)", "Tells of the links to other nodes."),
            CommandSpec::new("cluster|addslots", -3, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|delslots", -3, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|countkeysinslot", 3, cluster::countkeysinslot)
                .flags("stale", "slow")
                .docs("cluster", "3.0.0", "O(N)", "Returns the number of keys in a slot."),
            CommandSpec::new("cluster|getkeysinslot", 4, cluster::getkeysinslot)
                .flags("stale", "slow")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "3.0.0", "O(N)", "Returns keys in a slot."),
            CommandSpec::new("cluster|meet", -4, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|forget", 3, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|reset", -2, cluster::refuse_managed)
                .flags("admin noscript stale", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|replicas", 3, cluster::replicas)
                .flags("admin stale", "admin slow dangerous")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "5.0.0", "O(N)", "Tells who holds what a node leads."),
            CommandSpec::new("cluster|slaves", 3, cluster::replicas)
                .flags("admin stale", "admin slow dangerous")
                .tips(&["nondeterministic_output"])
                .docs("cluster", "3.0.0", "O(N)", "Tells who holds what a node leads.")
                .deprecated("5.0.0", "`CLUSTER REPLICAS`"),
            CommandSpec::new("cluster|failover", -2, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|setslot", -4, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|addslotsrange", -4, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|delslotsrange", -4, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|bumpepoch", 2, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .tips(&["nondeterministic_output"])
                .hidden(),
            CommandSpec::new("cluster|count-failure-reports", 3, cluster::refuse_managed)
                .flags("admin stale", "admin slow dangerous")
                .tips(&["nondeterministic_output"])
                .hidden(),
            CommandSpec::new("cluster|flushslots", 2, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|replicate", 3, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|saveconfig", 2, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
            CommandSpec::new("cluster|set-config-epoch", 3, cluster::refuse_managed)
                .flags("admin stale no_async_loading", "admin slow dangerous")
                .hidden(),
        ]),
    CommandSpec::new("readonly", 1, cluster::readonly)
        .flags("loading stale fast", "fast connection")
        .docs("cluster", "3.0.0", "O(1)", "Lets this connection read at replicas."),
    CommandSpec::new("readwrite", 1, cluster::readwrite)
        .flags("loading stale fast", "fast connection")
        .docs("cluster", "3.0.0", "O(1)", "Ends READONLY."),
    CommandSpec::new("asking", 1, cluster::asking).flags("fast", "fast connection").docs(
        "cluster",
        "3.0.0",
        "O(1)",
        "Accepted: no slot is ever on its way.",
    ),
    CommandSpec::new("swapdb", 3, server::swapdb)
        .flags("write fast", "keyspace write fast dangerous")
        .docs("server", "4.0.0", "O(N)", "Exchanges the keys of two keyspaces."),
];
