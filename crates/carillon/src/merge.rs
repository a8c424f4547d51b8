//! `carillon merge`: merges a shard with its right neighbour.

use clap::Args;

use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::leader;
use crate::output::{self, with_node};

/// `carillon merge`
#[derive(Debug, Args)]
#[command(after_help = "\
Neighbouring shards merge by themselves when together they hold less than merge_bytes and the right
one was split off before: no keyspace has fewer shards than it was created with.
This command merges any shard with its right neighbour, now. If their replicas are on different
nodes, the shard's replicas first move to the neighbour's nodes. During the merge the right shard is
frozen, usually for some milliseconds: requests to it wait. If a node is too slow or unreachable the
merge is cancelled, nothing has changed, and the leader tries again for five minutes.

Examples:
  carillon merge 7                  merges shard 7 with its right neighbour
  carillon shards --shard 7 --why   the decision, and its result")]
pub struct MergeArgs {
    /// The shard's number, as `carillon shards` lists it.
    #[arg(value_name = "SHARD")]
    pub shard: u64,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Merges the shard with its right neighbour.
pub fn merge(args: &MergeArgs) -> Exit {
    with_node(&args.node, |client| {
        let merged = leader::ask(client, |client| client.merge(args.shard))?;
        Ok(match args.node.json {
            true => output::json(&merged),
            false => {
                let number = |name: &str| merged[name].as_u64().unwrap_or(0);
                let (left, right) = (number("shard"), number("right"));
                let first = match merged["moves"] == true {
                    true => ", once its replicas are on the same nodes",
                    false => "",
                };
                output::line(&format!("shard {left} is to merge with shard {right}{first}"))
            }
        })
    })
}
