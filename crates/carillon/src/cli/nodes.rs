//! Arguments of commands about nodes: their health and their admin states.

use clap::{Args, Subcommand};

use super::{NodeArgs, WatchArgs, millis};

/// `carillon status`
#[derive(Debug, Args)]
#[command(after_help = "\
health is what this node sees:
  ok        all is well
  degraded  all requests are served, but a shard has fewer live replicas than its keyspace asks for,
            or there is no room for more data: a further failure may end service
  failing   this node does not serve, or a shard has no leader
Other nodes may see it differently: ask them with --http.

Exit code 1 if it is failing, or the node does not serve.

Examples:
  carillon status
  carillon status --http 10.0.0.2:7480
  carillon status --json                       health.verdict and health.reasons, for scripts
  carillon status --watch")]
pub struct StatusArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// `carillon nodes`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
One line for each member, in the order in which they joined; * is the node that was asked.

STATE is what that node sees:
  up         it answers
  suspected  it did not answer lately, and may still
  down       it is dead, paused or cut off; it comes back by itself when it can
  left       it has left for good
  slow disk  besides: an fsync has stalled there lately, so that it hands its shards over
SINCE is for how long. LINK: whether there is a connection between the two.
STANDING is what people have asked for; nodes of which nothing was asked show none:
  cordoned   it keeps its replicas, and gets no more
  draining   its replicas move elsewhere: see `carillon drain --help`
SHARDS, LEADS and DATA are what the node last told of itself, within seconds.

Exit code 1 if health is failing: see `carillon status --help`.

Examples:
  carillon nodes
  carillon nodes --http 10.0.0.2:7480          as another node sees them: compare after a cut
  carillon nodes --json                        with addresses, failure domains, ids
  carillon nodes cordon b                      it gets no more replicas
  carillon nodes remove b                      for good, when it is drained"
)]
pub struct NodesArgs {
    /// What to do with one of them.
    #[command(subcommand)]
    pub command: Option<NodesCommand>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// What can be done with a node.
#[derive(Debug, Subcommand)]
pub enum NodesCommand {
    /// Let a node keep its replicas and get no more.
    #[command(after_help = "\
Refused if too few nodes would be left to hold what a keyspace promises.

Examples:
  carillon nodes cordon b
  carillon nodes cordon 3f2a90c41b7de856       by its id, if several are called b")]
    Cordon(OneNodeArgs),
    /// Let a cordoned or draining node take its part again.
    #[command(after_help = "\
A drain ends where it is: replicas that have moved stay where they are.

Example:
  carillon nodes uncordon b")]
    Uncordon(OneNodeArgs),
    /// Remove a node from the cluster, for good.
    #[command(after_help = "\
The node must have no replicas: drain it first. Then it may run or not; if it runs, it ends, and
other nodes refuse it from then on. Its directory is of no use any more: to have the machine back,
start it on an empty one with --join.

Examples:
  carillon drain b && carillon nodes remove b
  carillon nodes remove 3f2a90c41b7de856       a dead one, whose name another has now
  carillon nodes remove --unknown 3f2a90c41b7de856
                                               one that no node has heard of since it was started")]
    Remove(OneNodeArgs),
}

/// Which node something is done to, and which one is asked.
#[derive(Debug, Args)]
pub struct OneNodeArgs {
    /// The node's name, or its id.
    #[arg(value_name = "NODE")]
    pub which: String,
    /// The id is right, although the cluster knows no node of it.
    #[arg(long)]
    pub unknown: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `carillon drain`
#[derive(Debug, Args)]
#[command(after_help = "\
The node gets no more replicas, and those it has move to others, as fast as snapshot_rate lets them.
It serves clients all the while. What is left is shown until the node is empty.

Ctrl-C ends the showing; the drain goes on. The same command again shows on. `carillon nodes
uncordon NODE` ends the drain where it is.
Refused if too few nodes would be left to hold what a keyspace promises.

Exit code 1 if it was refused, is not done after --timeout, or somebody has ended it.

Examples:
  carillon drain b && carillon nodes remove b
  carillon drain b --no-wait                   begin it, and come back
  carillon drain b --timeout 10m --json        one object at the end, for scripts")]
pub struct DrainArgs {
    /// The node's name, or its id.
    #[arg(value_name = "NODE")]
    pub which: String,
    /// The id is right, although the cluster knows no node of it.
    #[arg(long)]
    pub unknown: bool,
    /// Begin it, and do not wait.
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// Do not wait longer than this: 1500 (milliseconds), 90s, 30m, 12h.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub node: NodeArgs,
}
