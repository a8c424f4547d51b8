//! Arguments of commands about shards.

use clap::{ArgGroup, Args, ValueEnum};

use super::{NodeArgs, WatchArgs};

/// `carillon shards`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("decisions").args(["why", "dry_run"]))]
#[command(after_help = "\
One line for each shard; - is the one that holds the catalogue of keyspaces.

LIVE      replicas that vote on nodes that are up, of how many the keyspace asks for
LEADER    the node that leads it, or for how long nobody has
REPLICAS  where they are: * leads, + follows and will vote soon, ! is not up; :N is how many
          entries of the log it lacks. Only a shard's leader knows that: ask it with --http
APPLIED   how many entries of the log this node has applied

Exit code 1 if health is failing: see `carillon status --help`.

Examples:
  carillon shards
  carillon shards --keyspace orders
  carillon shards --json                       with terms, leases, sessions, generations
  carillon shards --why                        what leaders have moved lately, why, what came of it
  carillon shards --why --shard 5              ... of one shard
  carillon shards --dry-run                    what they would move to make the nodes even

Each shard's leader decides for its own shard, so --why and --dry-run ask all nodes; each shows
those among its newest 4096 events. Deviation is how uneven the nodes are: the root of the mean
square by which they miss the mean of bytes and replicas, in parts of it; 0 is even.")]
pub struct ShardsArgs {
    /// Only the shards of this keyspace.
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Show what was decided about replicas and leaders, why, and what came of it.
    #[arg(long, conflicts_with_all = ["dry_run", "watch"])]
    pub why: bool,
    /// Show what would be decided if balance were on, and do nothing.
    #[arg(long, conflicts_with = "watch")]
    pub dry_run: bool,
    /// With --why or --dry-run: only this shard.
    #[arg(long, value_name = "ID", requires = "decisions")]
    pub shard: Option<u64>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// `carillon split`
#[derive(Debug, Args)]
#[command(after_help = "\
Shards split by themselves when they hold more than split_bytes or split_keys, or get more requests
a second than split_rate. This command splits one now, to try it, or before much is written. Both
keep their replicas where they are; unless balance is off they then move, each by itself. `carillon
merge` undoes it. Two halves that hold less than merge_bytes together become one again by
themselves after some 10 seconds: small ones stay apart only with merge_bytes off.

Examples:
  carillon split 7                  where its keys part evenly
  carillon split 7 --at 9000        slots from 9000 on become a shard of their own
  carillon split 7 --at melon       of an ordered keyspace: so do keys from melon on
  carillon shards --shard 7 --why   what came of it")]
pub struct SplitArgs {
    /// The shard's number, as `carillon shards` lists it.
    #[arg(value_name = "SHARD")]
    pub shard: u64,
    /// The first slot of the new shard, or its first key if the keyspace is ordered, instead of
    /// where it parts evenly.
    #[arg(long, value_name = "SLOT|KEY")]
    pub at: Option<String>,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `carillon prove`
#[derive(Debug, Args)]
#[command(after_help = "\
A shard serves, and keeps what it has acknowledged, as long as a majority of its voters is there.
This asks every node for the shards that it leads, and finds the fewest nodes, or failure domains,
whose loss would take a majority away from one of them: the smallest failing set. Nodes that are
down or suspected count as lost, and so does a voter that its leader cannot count on.

Exit code 1 if a shard would not survive it, or it is not known of all shards: a node did not
answer by HTTP within 3 seconds, replicas are just changing, or (for domain) a node has none.

Examples:
  carillon prove                               may any one node go?
  carillon prove --survive domain              ... any one failure domain?
  carillon prove --survive 2-nodes && ...      in a script, before a risky step
  carillon prove --json                        with each shard that would fail")]
pub struct ProveArgs {
    /// What is to be survived.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "node")]
    pub survive: Survive,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// What a cluster may be asked to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Survive {
    /// The loss of any one node.
    Node,
    /// The loss of any one failure domain.
    Domain,
    /// The loss of any two nodes together.
    #[value(name = "2-nodes")]
    TwoNodes,
}

impl Survive {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Survive::Node => "node",
            Survive::Domain => "domain",
            Survive::TwoNodes => "2-nodes",
        }
    }
}
