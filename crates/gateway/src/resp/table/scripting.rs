//! Scripts and functions.
//!
//! Arity, flags, categories and key places are Redis 7.0.15's, since clients read them.

use super::{CommandSpec, KeySpec};
use crate::resp::commands::{scripting, server};

const CALLS: &str = "Depends on the script that is executed.";
const LIST: &str = "O(N) with the number of functions";

/// What becomes of keys is not known, so the worst is assumed.
const WRITES: &[KeySpec] = &[KeySpec::counted(2, "RW access update")
    .notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")];
const READS: &[KeySpec] = &[KeySpec::counted(2, "RO access")
    .notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")];

/// The same, without Redis's remark.
const WRITES_BY_SHA: &[KeySpec] = &[KeySpec::counted(2, "RW access update")];
const READS_BY_SHA: &[KeySpec] = &[KeySpec::counted(2, "RO access")];

pub(super) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("eval", -3, scripting::eval)
        .flags("noscript skip_monitor no_mandatory_keys stale movablekeys", "slow scripting")
        .counted_keys(2, WRITES)
        .may_write()
        .docs("scripting", "2.6.0", CALLS, "Runs a script."),
    CommandSpec::new("evalsha", -3, scripting::evalsha)
        .flags("noscript skip_monitor no_mandatory_keys stale movablekeys", "slow scripting")
        .counted_keys(2, WRITES_BY_SHA)
        .may_write()
        .docs("scripting", "2.6.0", CALLS, "Runs a script that the cluster knows, by its SHA1."),
    CommandSpec::new("eval_ro", -3, scripting::eval_ro)
        .flags(
            "readonly noscript skip_monitor no_mandatory_keys stale movablekeys",
            "slow scripting",
        )
        .counted_keys(2, READS)
        .docs("scripting", "7.0.0", CALLS, "Runs a script that only reads."),
    CommandSpec::new("evalsha_ro", -3, scripting::evalsha_ro)
        .flags(
            "readonly noscript skip_monitor no_mandatory_keys stale movablekeys",
            "slow scripting",
        )
        .counted_keys(2, READS_BY_SHA)
        .docs("scripting", "7.0.0", CALLS, "Runs a script that only reads, by its SHA1."),
    CommandSpec::new("fcall", -3, scripting::fcall)
        .flags("noscript skip_monitor no_mandatory_keys stale movablekeys", "slow scripting")
        .counted_keys(2, WRITES)
        .may_write()
        .docs("scripting", "7.0.0", CALLS, "Calls a function of a library."),
    CommandSpec::new("fcall_ro", -3, scripting::fcall_ro)
        .flags(
            "readonly noscript skip_monitor no_mandatory_keys stale movablekeys",
            "slow scripting",
        )
        .counted_keys(2, READS)
        .docs("scripting", "7.0.0", CALLS, "Calls a function of a library that only reads."),
    CommandSpec::new("script", -2, server::container)
        .flags("", "slow")
        .docs("scripting", "2.6.0", "Depends on subcommand.", "Commands on scripts.")
        .subcommands(&[
            CommandSpec::new("script|exists", -3, scripting::exists)
                .flags("noscript", "slow scripting")
                .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
                .docs(
                    "scripting",
                    "2.6.0",
                    "O(N) with the number of scripts asked for",
                    "Tells which scripts the cluster knows.",
                ),
            CommandSpec::new("script|flush", -2, scripting::flush)
                .flags("noscript", "slow scripting")
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .docs(
                    "scripting",
                    "2.6.0",
                    "O(N) with the number of scripts",
                    "Forgets all scripts, on all nodes.",
                ),
            CommandSpec::new("script|help", 2, scripting::help)
                .flags("loading stale", "slow scripting")
                .docs("scripting", "5.0.0", "O(1)", "Tells the subcommands."),
            CommandSpec::new("script|kill", 2, scripting::kill)
                .flags("noscript allow_busy", "slow scripting")
                .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
                .docs("scripting", "2.6.0", "O(1)", "Stops the scripts that run on linked nodes."),
            CommandSpec::new("script|load", 3, scripting::load)
                .flags("noscript stale", "slow scripting")
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .docs(
                    "scripting",
                    "2.6.0",
                    "O(N) with the length of the script",
                    "Remembers a script, and answers its SHA1.",
                ),
            CommandSpec::new("script|show", 3, scripting::show)
                .flags("noscript", "slow scripting")
                .docs("scripting", "8.0.0", "O(1)", "Shows the source of a script (as in Valkey)."),
        ]),
    CommandSpec::new("function", -2, server::container)
        .flags("", "slow")
        .docs("scripting", "7.0.0", "Depends on subcommand.", "Commands on libraries of functions.")
        .subcommands(&[
            CommandSpec::new("function|delete", 3, scripting::function_delete)
                .flags("write noscript", "write slow scripting")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .docs("scripting", "7.0.0", "O(1)", "Deletes a library."),
            CommandSpec::new("function|dump", 2, scripting::function_dump)
                .flags("noscript", "slow scripting")
                .docs("scripting", "7.0.0", LIST, "Shows all libraries as bytes for RESTORE."),
            CommandSpec::new("function|flush", -2, scripting::function_flush)
                .flags("write noscript", "write slow scripting")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .docs("scripting", "7.0.0", LIST, "Deletes all libraries."),
            CommandSpec::new("function|help", 2, scripting::function_help)
                .flags("loading stale", "slow scripting")
                .docs("scripting", "7.0.0", "O(1)", "Tells the subcommands."),
            CommandSpec::new("function|kill", 2, scripting::function_kill)
                .flags("noscript allow_busy", "slow scripting")
                .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
                .docs(
                    "scripting",
                    "7.0.0",
                    "O(1)",
                    "Stops the functions that run on linked nodes.",
                ),
            CommandSpec::new("function|list", -2, scripting::function_list)
                .flags("noscript", "slow scripting")
                .tips(&["nondeterministic_output_order"])
                .docs("scripting", "7.0.0", LIST, "Lists libraries and their functions."),
            CommandSpec::new("function|load", -3, scripting::function_load)
                .flags("write denyoom noscript", "write slow scripting")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .docs(
                    "scripting",
                    "7.0.0",
                    "O(N) with the length of the code",
                    "Creates a library.",
                ),
            CommandSpec::new("function|restore", -3, scripting::function_restore)
                .flags("write denyoom noscript", "write slow scripting")
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
                .docs("scripting", "7.0.0", LIST, "Creates libraries from the bytes of DUMP."),
            CommandSpec::new("function|stats", 2, scripting::function_stats)
                .flags("noscript allow_busy", "slow scripting")
                .tips(&[
                    "nondeterministic_output",
                    "request_policy:all_shards",
                    "response_policy:special",
                ])
                .docs(
                    "scripting",
                    "7.0.0",
                    "O(1)",
                    "Tells which function runs, and what there is.",
                ),
        ]),
];
