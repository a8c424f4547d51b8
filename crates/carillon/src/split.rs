//! `carillon split`: a shard is cut in two.

use crate::cli::SplitArgs;
use crate::exit::Exit;
use crate::leader;
use crate::output::{self, with_node};

/// Cuts it.
pub fn split(args: &SplitArgs) -> Exit {
    with_node(&args.node, |client| {
        let cut = leader::ask(client, |client| client.split(args.shard, args.at))?;
        Ok(match args.node.json {
            true => output::json(&cut),
            false => {
                let number = |name: &str| cut[name].as_u64().unwrap_or(0);
                let (left, right, at) = (number("shard"), number("right"), number("at"));
                output::line(&format!("shard {left} is cut at slot {at}: shard {right} begins"))
            }
        })
    })
}
