//! MULTI and BEGIN, and the commands around them.
//!
//! Arity, flags, categories and key places are Redis 7.0.15's, since clients read them. Redis has
//! no `BEGIN`, `COMMIT`, `ROLLBACK`.

use super::{CommandSpec, KeySpec};
use crate::resp::commands::transaction;

pub(super) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("multi", 1, transaction::multi)
        .flags("noscript loading stale fast allow_busy", "fast transaction")
        .docs("transactions", "1.2.0", "O(1)", "Begins a transaction: commands are queued."),
    CommandSpec::new("exec", 1, transaction::exec)
        .flags("noscript loading stale skip_slowlog", "slow transaction")
        .docs(
            "transactions",
            "1.2.0",
            "Depends on commands in the transaction",
            "Does the queued commands at one moment, unless a watched key has changed.",
        ),
    CommandSpec::new("discard", 1, transaction::discard)
        .flags("noscript loading stale fast allow_busy", "fast transaction")
        .docs("transactions", "2.0.0", "O(N)", "Forgets the queued commands."),
    CommandSpec::new("watch", -2, transaction::watch)
        .flags("noscript loading stale fast allow_busy", "fast transaction")
        .keys(1, -1, 1, &[KeySpec::new(1, -1, 1, "RO")])
        .docs("transactions", "2.2.0", "O(1)", "Has the next EXEC do nothing if keys change."),
    CommandSpec::new("unwatch", 1, transaction::unwatch)
        .flags("noscript loading stale fast allow_busy", "fast transaction")
        .docs("transactions", "2.2.0", "O(1)", "Forgets which keys are watched."),
    CommandSpec::new("begin", 1, transaction::begin)
        .flags("noscript fast", "fast transaction")
        .docs("transactions", "1.0.0", "O(1)", "Begins a transaction: commands are run on a copy."),
    CommandSpec::new("commit", 1, transaction::commit)
        .flags("write noscript", "slow transaction")
        .docs(
            "transactions",
            "1.0.0",
            "O(N) with the keys that were read and written",
            "Has what was written since BEGIN done at one moment, if what was read is as it was.",
        ),
    CommandSpec::new("rollback", 1, transaction::rollback)
        .flags("noscript fast", "fast transaction")
        .docs("transactions", "1.0.0", "O(N)", "Forgets what was written since BEGIN."),
];
