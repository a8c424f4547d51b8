//! Golden scripts of a node's parts: what they are told, and what they answer and want done.
//!
//! | folder | what is stepped | verbs |
//! |---|---|---|
//! | `locks` | the lock table of a shard, entry by entry | [`lock_table`] |
//! | `coordinator` | a coordinator of transactions, and the shards that it asks | [`coordinating`] |
//! | `waits` | the leader's side of locks: who waits, reservations, abandoned locks | [`nodes`] |
//! | `split`, `merge` | three nodes with replicas of some shards | [`nodes`] |
//!
//! A script says first what it claims, and why. `UPDATE_GOLDENFILES=1` writes the outputs anew.

mod coordinating;
mod lock_table;
mod nodes;
mod shard;
mod words;

use std::path::Path;

use test_each_file::test_each_path;

test_each_path! { in "crates/node/tests/golden/locks" as golden_locks => locks }
test_each_path! { in "crates/node/tests/golden/coordinator" as golden_coordinator => coordinator }
test_each_path! { in "crates/node/tests/golden/split" as golden_split => nodes }
test_each_path! { in "crates/node/tests/golden/waits" as golden_waits => nodes }
test_each_path! { in "crates/node/tests/golden/merge" as golden_merge => nodes }

fn locks(path: &Path) {
    goldenscript::run(&mut lock_table::Runner::default(), path).expect("the script runs");
}

fn coordinator(path: &Path) {
    goldenscript::run(&mut coordinating::Runner::default(), path).expect("the script runs");
}

fn nodes(path: &Path) {
    goldenscript::run(&mut nodes::Runner::default(), path).expect("the script runs");
}
