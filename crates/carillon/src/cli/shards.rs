//! Arguments of commands about shards.

use clap::{ArgGroup, Args, ValueEnum};

use super::{NodeArgs, WatchArgs};

/// `carillon shards`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("decisions").args(["why", "dry_run"]))]
#[command(after_help = "\
One line for each shard. The one without a keyspace (-) holds the catalogue of keyspaces.

LIVE      voters on nodes that are up, of the replicas that the keyspace asks for
LEADER    the node of its leader, or how long the shard has had none
REPLICAS  the nodes of its replicas: * is the leader, + a learner, ! is down; :N lags by N entries.
          Only a shard's leader knows N: ask its node with --http
APPLIED   the index of the last entry that this node has applied

Exit code 1 if health is failing: see `carillon status --help`.

Examples:
  carillon shards
  carillon shards --keyspace orders
  carillon shards --json                       with terms, leases, sessions, generations
  carillon shards --why                        recent decisions of leaders: reason and result
  carillon shards --why --shard 5              ... of one shard
  carillon shards --dry-run                    what a rebalance would move now

Each leader decides for its own shard, so --why and --dry-run ask all nodes; each node shows the
decisions among its newest 4096 events. Deviation is how uneven the nodes' load is: the root mean
square deviation from the mean of bytes and replicas, relative to the mean; 0 is even.")]
pub struct ShardsArgs {
    /// Only the shards of this keyspace.
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Show recent decisions about replicas, leaders, splits and merges: reason and result.
    #[arg(long, conflicts_with_all = ["dry_run", "watch"])]
    pub why: bool,
    /// Show what leaders would decide if balance were on; change nothing.
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
  carillon split 7                  into halves of about the same size
  carillon split 7 --at 9000        slots from 9000 on become a shard of their own
  carillon split 7 --at melon       of an ordered keyspace: so do keys from melon on
  carillon shards --shard 7 --why   the decision, and its result")]
pub struct SplitArgs {
    /// The shard's number, as `carillon shards` lists it.
    #[arg(value_name = "SHARD")]
    pub shard: u64,
    /// The first slot of the new shard, or its first key if the keyspace is ordered. Unless given,
    /// the halves get about the same size.
    #[arg(long, value_name = "SLOT|KEY")]
    pub at: Option<String>,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `carillon prove`
#[derive(Debug, Args)]
#[command(after_help = "\
A shard serves, and keeps acknowledged writes, as long as a majority of its voters is up. This
command asks every node for the shards that it leads, and finds the smallest failing set: the fewest
nodes, or failure domains, whose loss takes the majority from a shard. Nodes that are down or
suspected count as lost, and so do lagging voters.

Exit code 1 if a shard would not survive the loss, or the answer is not known for all shards: a node
did not answer by HTTP within 3 seconds, replicas are changing, or (for domain) a node has none.

Examples:
  carillon prove                               does the cluster survive a lost node?
  carillon prove --survive domain              ... any one failure domain?
  carillon prove --survive 2-nodes && ...      in a script, before a risky step
  carillon prove --json                        with each shard that would fail")]
pub struct ProveArgs {
    /// The loss to survive.
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
