//! Golden scripts of transactions: what the lock table and the coordinator are told, and what they
//! answer and want done.
//!
//! | folder | what is stepped | verbs |
//! |---|---|---|
//! | `locks` | the lock table of a shard, entry by entry | [`lock_table`] |
//! | `coordinator` | a coordinator of transactions, and the shards that it asks | [`coordinating`] |
//!
//! A script says first what it claims, and why. `UPDATE_GOLDENFILES=1` writes the outputs anew. The
//! leader's side of locks (who waits, reservations, abandoned locks) has its scripts in
//! `crates/node/tests/golden/waits`: three nodes play them.

mod coordinating;
mod lock_table;
mod shard;
mod shown;
mod steps;
mod words;

use std::path::Path;

use test_each_file::test_each_path;

test_each_path! { in "crates/txn/tests/golden/locks" as golden_locks => locks }
test_each_path! { in "crates/txn/tests/golden/coordinator" as golden_coordinator => coordinator }

fn locks(path: &Path) {
    goldenscript::run(&mut lock_table::Runner::default(), path).expect("the script runs");
}

fn coordinator(path: &Path) {
    goldenscript::run(&mut coordinating::Runner::default(), path).expect("the script runs");
}
