//! Commands on keys and keyspaces.
//!
//! Arity, flags, categories and key places are Redis 7.0.15's, since clients read them.

use super::{CommandSpec, KeySpec};
use crate::resp::commands::{expiry, generic, keyspace, server};

pub(super) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("del", -2, generic::del)
        .flags("write", "keyspace write slow")
        .keys(1, -1, 1, &[KeySpec::new(1, -1, 1, "RM delete")])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .docs("generic", "1.0.0", "O(N)", "Removes keys, shard by shard."),
    CommandSpec::new("unlink", -2, generic::del)
        .flags("write fast", "keyspace write fast")
        .keys(1, -1, 1, &[KeySpec::new(1, -1, 1, "RM delete")])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .docs("generic", "4.0.0", "O(1)", "Removes keys, shard by shard."),
    CommandSpec::new("exists", -2, generic::exists)
        .flags("readonly fast", "keyspace read fast")
        .keys(1, -1, 1, &[KeySpec::new(1, -1, 1, "RO")])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .docs("generic", "1.0.0", "O(N)", "Counts how many of the keys are there."),
    CommandSpec::new("touch", -2, generic::exists)
        .flags("readonly fast", "keyspace read fast")
        .keys(1, -1, 1, &[KeySpec::new(1, -1, 1, "RO")])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .docs("generic", "3.2.1", "O(N)", "Counts how many of the keys are there."),
    CommandSpec::new("type", 2, generic::type_of)
        .flags("readonly fast", "keyspace read fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO")])
        .docs("generic", "1.0.0", "O(1)", "Returns the type of a value: string, or none."),
    CommandSpec::new("rename", 3, generic::rename)
        .flags("write", "keyspace write slow")
        .keys(
            1,
            2,
            1,
            &[KeySpec::new(1, 0, 1, "RW access delete"), KeySpec::new(2, 0, 1, "OW update")],
        )
        .docs("generic", "1.0.0", "O(1)", "Gives a key another name."),
    CommandSpec::new("renamenx", 3, generic::renamenx)
        .flags("write fast", "keyspace write fast")
        .keys(
            1,
            2,
            1,
            &[KeySpec::new(1, 0, 1, "RW access delete"), KeySpec::new(2, 0, 1, "OW insert")],
        )
        .docs("generic", "1.0.0", "O(1)", "Gives a key another name if that is free."),
    CommandSpec::new("copy", -3, generic::copy)
        .flags("write denyoom", "keyspace write slow")
        .keys(1, 2, 1, &[KeySpec::new(1, 0, 1, "RO access"), KeySpec::new(2, 0, 1, "OW update")])
        .docs("generic", "6.2.0", "O(N)", "Copies a value to another key."),
    CommandSpec::new("move", 3, generic::move_key)
        .flags("write fast", "keyspace write fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access update")])
        .docs("generic", "1.0.0", "O(1)", "Moves a key to another keyspace."),
    CommandSpec::new("expire", -3, expiry::expire)
        .flags("write fast", "keyspace write fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW update")])
        .docs("generic", "1.0.0", "O(1)", "Sets when a key ends, in seconds from now."),
    CommandSpec::new("pexpire", -3, expiry::pexpire)
        .flags("write fast", "keyspace write fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW update")])
        .docs("generic", "2.6.0", "O(1)", "Sets when a key ends, in milliseconds from now."),
    CommandSpec::new("expireat", -3, expiry::expireat)
        .flags("write fast", "keyspace write fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW update")])
        .docs("generic", "1.2.0", "O(1)", "Sets when a key ends, in seconds since 1970."),
    CommandSpec::new("pexpireat", -3, expiry::pexpireat)
        .flags("write fast", "keyspace write fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW update")])
        .docs("generic", "2.6.0", "O(1)", "Sets when a key ends, in milliseconds since 1970."),
    CommandSpec::new("ttl", 2, expiry::ttl)
        .flags("readonly fast", "keyspace read fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO access")])
        .tips(&["nondeterministic_output"])
        .docs("generic", "1.0.0", "O(1)", "Returns how long a key has to live, in seconds."),
    CommandSpec::new("pttl", 2, expiry::pttl)
        .flags("readonly fast", "keyspace read fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO access")])
        .tips(&["nondeterministic_output"])
        .docs("generic", "2.6.0", "O(1)", "Returns how long a key has to live, in milliseconds."),
    CommandSpec::new("expiretime", 2, expiry::expiretime)
        .flags("readonly fast", "keyspace read fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO access")])
        .docs("generic", "7.0.0", "O(1)", "Returns when a key ends, in seconds since 1970."),
    CommandSpec::new("pexpiretime", 2, expiry::pexpiretime)
        .flags("readonly fast", "keyspace read fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO access")])
        .docs("generic", "7.0.0", "O(1)", "Returns when a key ends, in milliseconds since 1970."),
    CommandSpec::new("persist", 2, expiry::persist)
        .flags("write fast", "keyspace write fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW update")])
        .docs("generic", "2.2.0", "O(1)", "Removes the expiry of a key."),
    CommandSpec::new("keys", 2, keyspace::keys)
        .flags("readonly", "keyspace read slow dangerous")
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .docs("generic", "1.0.0", "O(N)", "Returns all keys that match a pattern."),
    CommandSpec::new("scan", -2, keyspace::scan)
        .flags("readonly", "keyspace read slow")
        .tips(&["nondeterministic_output", "request_policy:special"])
        .docs("generic", "2.8.0", "O(1)", "Goes through all keys, some at a time."),
    CommandSpec::new("randomkey", 1, keyspace::randomkey)
        .flags("readonly", "keyspace read slow")
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .docs("generic", "1.0.0", "O(1)", "Returns some key."),
    CommandSpec::new("dbsize", 1, keyspace::dbsize)
        .flags("readonly fast", "keyspace read fast")
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .docs("server", "1.0.0", "O(1)", "Returns the number of keys."),
    CommandSpec::new("flushdb", -1, keyspace::flushdb)
        .flags("write", "keyspace write slow dangerous")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .docs("server", "1.0.0", "O(1)", "Removes all keys of the keyspace."),
    CommandSpec::new("flushall", -1, keyspace::flushall)
        .flags("write", "keyspace write slow dangerous")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .docs("server", "1.0.0", "O(1)", "Removes all keys of all keyspaces."),
    CommandSpec::new("wait", 3, generic::wait)
        .flags("noscript", "slow connection")
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .docs(
            "generic",
            "3.0.0",
            "O(1)",
            "Returns how many replicas have this connection's writes, when there are enough.",
        ),
    CommandSpec::new("waitaof", 4, generic::waitaof)
        .flags("noscript", "slow connection")
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .docs(
            "generic",
            "7.2.0",
            "O(1)",
            "Returns whether this node, and how many replicas, have this connection's writes.",
        ),
    CommandSpec::new("object", -2, server::container)
        .flags("", "slow")
        .docs("generic", "2.2.3", "Depends on subcommand", "Looks at how a value is held.")
        .subcommands(&[
            CommandSpec::new("object|encoding", 3, generic::object_encoding)
                .flags("readonly", "keyspace read slow")
                .keys(2, 2, 1, &[KeySpec::new(2, 0, 1, "RO")])
                .tips(&["nondeterministic_output"])
                .docs("generic", "2.2.3", "O(1)", "Returns how Redis would hold a value."),
            CommandSpec::new("object|refcount", 3, generic::object_refcount)
                .flags("readonly", "keyspace read slow")
                .keys(2, 2, 1, &[KeySpec::new(2, 0, 1, "RO")])
                .tips(&["nondeterministic_output"])
                .docs("generic", "2.2.3", "O(1)", "Returns the number of references to a value."),
            CommandSpec::new("object|idletime", 3, generic::object_idletime)
                .flags("readonly", "keyspace read slow")
                .keys(2, 2, 1, &[KeySpec::new(2, 0, 1, "RO")])
                .tips(&["nondeterministic_output"])
                .docs("generic", "2.2.3", "O(1)", "Returns the time since a value was used."),
            CommandSpec::new("object|freq", 3, generic::object_freq)
                .flags("readonly", "keyspace read slow")
                .keys(2, 2, 1, &[KeySpec::new(2, 0, 1, "RO")])
                .tips(&["nondeterministic_output"])
                .docs(
                    "generic",
                    "4.0.0",
                    "O(1)",
                    "Returns how often a value is used: not tracked.",
                ),
            CommandSpec::new("object|help", 2, generic::object_help)
                .flags("loading stale", "keyspace slow")
                .docs("generic", "6.2.0", "O(1)", "Lists the subcommands."),
        ]),
    CommandSpec::new("range", -3, keyspace::range).flags("readonly", "keyspace read slow").docs(
        "generic",
        "carillon 0.1.0",
        "O(log(N)+M)",
        "Returns keys of an ordered keyspace in order.",
    ),
];
