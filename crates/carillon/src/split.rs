//! `carillon split`: a shard is cut in two.
//!
//! Only the node that leads the shard can do it, so the nodes are asked one after the other.

use client::http::{Client, ClientError};
use serde_json::Value;

use crate::cli::SplitArgs;
use crate::exit::Exit;
use crate::output::{self, with_node};

/// Cuts it.
pub fn split(args: &SplitArgs) -> Exit {
    with_node(&args.node, |client| {
        let cut = ask(client, args)?;
        Ok(match args.node.json {
            true => output::json(&cut),
            false => {
                let number = |name: &str| cut[name].as_u64().unwrap_or(0);
                let (left, right, at) = (number("shard"), number("right"), place(&cut["at"]));
                output::line(&format!("shard {left} is cut at {at}: shard {right} begins"))
            }
        })
    })
}

/// Where a shard is cut: a slot is a number, a key a text.
pub fn place(at: &Value) -> String {
    match at.as_str() {
        Some(key) => format!("key {}", key.escape_debug()),
        None => format!("slot {at}"),
    }
}

/// Asks this node, and if another leads the shard, the others.
fn ask(client: &Client, args: &SplitArgs) -> Result<Value, ClientError> {
    let at = args.at.as_deref();
    let refused = match client.split(args.shard, at) {
        Err(error) if is_for_another(&error) => error,
        answer => return answer,
    };
    let nodes = client.nodes()?;
    let others = nodes["nodes"].as_array().into_iter().flatten();
    let addresses = others.filter(|node| node["this"] != true);
    for address in addresses.filter_map(|node| node["addresses"]["http"].as_str()) {
        match Client::new(address)?.split(args.shard, at) {
            Err(error) if is_for_another(&error) => {}
            // Who does not answer may be down; another may lead by now.
            Err(ClientError::CannotConnect { .. }) => {}
            answer => return answer,
        }
    }
    Err(refused)
}

fn is_for_another(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem)
        if problem.kind == "not-leader" || problem.kind == "no-shard")
}
