//! `carillon split`: splits a shard.

use serde_json::Value;

use crate::cli::SplitArgs;
use crate::exit::Exit;
use crate::leader;
use crate::output::{self, with_node};

/// Splits the shard.
pub fn split(args: &SplitArgs) -> Exit {
    with_node(&args.node, |client| {
        let cut = leader::ask(client, |client| client.split(args.shard, args.at.as_deref()))?;
        Ok(match args.node.json {
            true => output::json(&cut),
            false => {
                let number = |name: &str| cut[name].as_u64().unwrap_or(0);
                let (left, right, at) = (number("shard"), number("right"), place(&cut["at"]));
                output::line(&format!(
                    "shard {left} splits at {at}: its right half is shard {right}"
                ))
            }
        })
    })
}

/// Where a shard is split: a slot is a number, a key a text.
pub fn place(at: &Value) -> String {
    match at.as_str() {
        Some(key) => format!("key {}", key.escape_debug()),
        None => format!("slot {at}"),
    }
}
