//! Golden scripts of a node's parts: what they are told, and what they answer and want done.
//!
//! | folder | what is stepped | verbs |
//! |---|---|---|
//! | `waits` | the leader's side of locks: who waits, reservations, abandoned locks | [`nodes`] |
//! | `split`, `merge` | three nodes with replicas of some shards | [`nodes`] |
//!
//! The lock table and the coordinator have scripts in `crates/txn/tests/golden`, whose words for
//! commands and answers are these, too. A script says first what it claims, and why.
//! `UPDATE_GOLDENFILES=1` writes the outputs anew.

mod nodes;
mod shard;
#[path = "../../../txn/tests/golden/words.rs"]
mod words;

use std::path::Path;

use test_each_file::test_each_path;

test_each_path! { in "crates/node/tests/golden/split" as golden_split => nodes }
test_each_path! { in "crates/node/tests/golden/waits" as golden_waits => nodes }
test_each_path! { in "crates/node/tests/golden/merge" as golden_merge => nodes }

fn nodes(path: &Path) {
    goldenscript::run(&mut nodes::Runner::default(), path).expect("the script runs");
}
