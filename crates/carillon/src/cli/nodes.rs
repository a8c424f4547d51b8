//! Arguments of commands about nodes: their health and their admin states.

use clap::{Args, Subcommand};

use super::{NodeArgs, WatchArgs, millis};

/// `carillon status`
#[derive(Debug, Args)]
#[command(after_help = "\
health is what this node sees:
  ok        no problem
  degraded  all requests are served, but a shard is under-replicated, or memory or disk is full:
            a further failure may end service
  failing   this node does not serve, or a shard has no leader
Other nodes may see another health: ask them with --http.

Exit code 1 if health is failing, or the node does not serve.

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
  suspected  it has not answered lately, and may be down
  down       it is dead, paused or partitioned; it rejoins by itself
  left       it has left the cluster for good
  slow disk  also: an fsync has stalled there lately, and it transfers its leaderships to others
SINCE is how long the state has lasted. LINK: whether the two nodes are connected.
STANDING is the admin state that an operator has set; a plain member shows none:
  cordoned   it keeps its replicas, and gets no more
  draining   its replicas move to other nodes: see `carillon drain --help`
SHARDS, LEADS and DATA are what the node last reported, some seconds ago.

Exit code 1 if health is failing: see `carillon status --help`.

Examples:
  carillon nodes
  carillon nodes --http 10.0.0.2:7480          as another node sees them, in a partition
  carillon nodes --json                        with addresses, failure domains, ids
  carillon nodes cordon b                      it gets no more replicas
  carillon nodes remove b                      for good, after its drain"
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
    /// Cordon a node: it keeps its replicas, and gets no more.
    #[command(after_help = "\
Refused if too few nodes would be left to hold what a keyspace promises.

Examples:
  carillon nodes cordon b
  carillon nodes cordon 3f2a90c41b7de856       by its id, if several nodes are named b")]
    Cordon(OneNodeArgs),
    /// Make a cordoned or draining node a plain member again.
    #[command(after_help = "\
A drain ends; replicas that have moved stay where they are.

Example:
  carillon nodes uncordon b")]
    Uncordon(OneNodeArgs),
    /// Remove a node from the cluster, for good.
    #[command(after_help = "\
The node must have no replicas: drain it first. It may be up or down. If it is up, it stops; the
other nodes refuse it from then on. Its directory cannot be used again: to use the machine again,
start a node there on an empty directory with --join.

Examples:
  carillon drain b && carillon nodes remove b
  carillon nodes remove 3f2a90c41b7de856       a dead node, whose name another one has
  carillon nodes remove --unknown 3f2a90c41b7de856
                                               a node that no running node knows")]
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
The node gets no more replicas, and those that it has move to other nodes, as fast as snapshot_rate
allows. It serves clients meanwhile. The command shows the progress until the node is empty.

Ctrl-C ends the display, not the drain. The same command shows it again. `carillon nodes uncordon
NODE` ends the drain; replicas that have moved stay where they are.
Refused if too few nodes would be left to hold what a keyspace promises.

Exit code 1 if the drain was refused, is not done after --timeout, or was ended by an operator.

Examples:
  carillon drain b && carillon nodes remove b
  carillon drain b --no-wait                   begin the drain, and return at once
  carillon drain b --timeout 10m --json        one object at the end, for scripts")]
pub struct DrainArgs {
    /// The node's name, or its id.
    #[arg(value_name = "NODE")]
    pub which: String,
    /// The id is right, although the cluster knows no node of it.
    #[arg(long)]
    pub unknown: bool,
    /// Begin the drain, and do not wait for its end.
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// Wait at most this long: 1500 (milliseconds), 90s, 30m, 12h.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub node: NodeArgs,
}
