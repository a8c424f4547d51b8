//! Commands on the values of keys.
//!
//! Arity, flags, categories and key places are Redis 7.0.15's, since clients read them.

use super::{CommandSpec, KeySpec};
use crate::resp::commands::string;

pub(super) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("set", -3, string::set)
        .flags("write denyoom", "write string slow")
        .keys(
            1,
            1,
            1,
            &[KeySpec::new(1, 0, 1, "RW access update variable_flags")
                .varies(string::set_key_flags)
                .notes("RW and ACCESS due to the optional `GET` argument")],
        )
        .docs(
            "string",
            "1.0.0",
            "O(1)",
            "Sets the value of a key, on a condition if wanted, with an expiry if wanted.",
        ),
    CommandSpec::new("get", 2, string::get)
        .flags("readonly fast", "read string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO access")])
        .docs("string", "1.0.0", "O(1)", "Returns the value of a key."),
    CommandSpec::new("setnx", 3, string::setnx)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "OW insert")])
        .docs("string", "1.0.0", "O(1)", "Sets the value of a key that has none."),
    CommandSpec::new("setex", 4, string::setex)
        .flags("write denyoom", "write string slow")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "OW update")])
        .docs("string", "2.0.0", "O(1)", "Sets the value of a key and when it ends, in seconds."),
    CommandSpec::new("psetex", 4, string::psetex)
        .flags("write denyoom", "write string slow")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "OW update")])
        .docs(
            "string",
            "2.6.0",
            "O(1)",
            "Sets the value of a key and when it ends, in milliseconds.",
        ),
    CommandSpec::new("getset", 3, string::getset)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access update")])
        .docs("string", "1.0.0", "O(1)", "Sets the value of a key and returns the one before.")
        .deprecated("6.2.0", "`SET` with the `!GET` argument"),
    CommandSpec::new("getdel", 2, string::getdel)
        .flags("write fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access delete")])
        .docs("string", "6.2.0", "O(1)", "Removes a key and returns its value."),
    CommandSpec::new("getex", -2, string::getex)
        .flags("write fast", "write string fast")
        .keys(
            1,
            1,
            1,
            &[KeySpec::new(1, 0, 1, "RW access update")
                .notes("RW and UPDATE because it changes the TTL")],
        )
        .docs(
            "string",
            "6.2.0",
            "O(1)",
            "Returns the value of a key and sets or removes its expiry.",
        ),
    CommandSpec::new("mget", -2, string::mget)
        .flags("readonly fast", "read string fast")
        .keys(1, -1, 1, &[KeySpec::new(1, -1, 1, "RO access")])
        .tips(&["request_policy:multi_shard"])
        .docs("string", "1.0.0", "O(N)", "Returns the values of several keys."),
    CommandSpec::new("mset", -3, string::mset)
        .flags("write denyoom", "write string slow")
        .keys(1, -1, 2, &[KeySpec::new(1, -1, 2, "OW update")])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .docs("string", "1.0.1", "O(N)", "Sets the values of several keys, shard by shard."),
    CommandSpec::new("msetnx", -3, string::msetnx)
        .flags("write denyoom", "write string slow")
        .keys(1, -1, 2, &[KeySpec::new(1, -1, 2, "OW insert")])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .docs(
            "string",
            "1.0.1",
            "O(N)",
            "Sets the values of several keys if none of them has one.",
        ),
    CommandSpec::new("append", 3, string::append)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW insert")])
        .docs("string", "2.0.0", "O(1)", "Puts bytes behind the value of a key."),
    CommandSpec::new("strlen", 2, string::strlen)
        .flags("readonly fast", "read string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO")])
        .docs("string", "2.2.0", "O(1)", "Returns the length of a value."),
    CommandSpec::new("getrange", 4, string::getrange)
        .flags("readonly", "read string slow")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO access")])
        .docs("string", "2.4.0", "O(N)", "Returns a part of a value."),
    CommandSpec::new("setrange", 4, string::setrange)
        .flags("write denyoom", "write string slow")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW update")])
        .docs("string", "2.2.0", "O(1)", "Overwrites a part of a value."),
    CommandSpec::new("substr", 4, string::getrange)
        .flags("readonly", "read string slow")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RO access")])
        .docs("string", "1.0.0", "O(N)", "Returns a part of a value.")
        .deprecated("2.0.0", "`GETRANGE`"),
    CommandSpec::new("incr", 2, string::incr)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access update")])
        .docs("string", "1.0.0", "O(1)", "Adds one to the number a key holds."),
    CommandSpec::new("decr", 2, string::decr)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access update")])
        .docs("string", "1.0.0", "O(1)", "Takes one from the number a key holds."),
    CommandSpec::new("incrby", 3, string::incrby)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access update")])
        .docs("string", "1.0.0", "O(1)", "Adds to the number a key holds."),
    CommandSpec::new("decrby", 3, string::decrby)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access update")])
        .docs("string", "1.0.0", "O(1)", "Takes from the number a key holds."),
    CommandSpec::new("incrbyfloat", 3, string::incrbyfloat)
        .flags("write denyoom fast", "write string fast")
        .keys(1, 1, 1, &[KeySpec::new(1, 0, 1, "RW access update")])
        .docs("string", "2.6.0", "O(1)", "Adds to the floating point number a key holds."),
    CommandSpec::new("lcs", -3, string::lcs)
        .flags("readonly", "read string slow")
        .keys(1, 2, 1, &[KeySpec::new(1, 1, 1, "RO access")])
        .docs("string", "7.0.0", "O(N*M)", "Finds the longest common subsequence of two values."),
];
