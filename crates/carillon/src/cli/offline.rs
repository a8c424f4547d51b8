//! Arguments of commands about the directory of a stopped node.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `carillon check`
#[derive(Debug, Args)]
#[command(after_help = "\
Reads all files and verifies every checksum; changes nothing. Exit code 1 if a file is damaged: the
message names the file, the place in it and what to do.

Example:
  carillon check data")]
pub struct CheckArgs {
    /// The data directory.
    pub dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `carillon repair-clock`
#[derive(Debug, Args)]
#[command(after_help = "\
For the only node of a cluster, if its data has timestamps far in the future because its clock was
wrong once: its health reports that. The node must be stopped, and this machine's clock right.

Reads DIR, changes nothing in it, and writes all keyspaces into the empty directory NEW: the newest
value of each key, with its own timestamp or, if that is in the future, the present time. Such a
value keeps the time to live that it had when it was written. Values that expired by the wrong clock
stay deleted. Replaced versions are left out. NEW is another cluster: tokens and timestamps that
clients got from the old node are invalid there.

Exit code 1, and nothing in NEW that a node would start on, if another node has replicas, a
transaction is unfinished, or no timestamp is in the future.

Example:
  carillon repair-clock --dir /var/lib/carillon --to /var/lib/carillon.new
  mv /var/lib/carillon /var/lib/carillon.ahead && mv /var/lib/carillon.new /var/lib/carillon")]
pub struct RepairClockArgs {
    /// The data directory of the stopped node.
    #[arg(long)]
    pub dir: PathBuf,
    /// An empty directory, or one that does not exist yet.
    #[arg(long, value_name = "NEW")]
    pub to: PathBuf,
}

/// `carillon recover`
#[derive(Debug, Args)]
#[command(after_help = "\
Only for shards that lost the majority of their replicas FOR GOOD: their disks will never be read
again. Acknowledged writes may be lost. If any of those machines can still be started, start it
instead: then no write is lost, and no recovery is needed.

Three steps, while every node of the cluster is stopped:
  1  on each surviving node        carillon recover inspect --dir DIR > NODE.json
  2  once, with all these files    carillon recover plan *.json > plan
  3  on each surviving node        carillon recover apply --dir DIR --plan plan --accept-loss
Then start these nodes, and add new ones: the balancer replaces the lost replicas. Steps 1 and 2
change nothing.

Never start a lost node again on its old directory. The whole procedure is in docs/operations.md.")]
pub struct RecoverArgs {
    /// Which step.
    #[command(subcommand)]
    pub command: RecoverCommand,
}

/// The steps of a recovery.
#[derive(Debug, Subcommand)]
pub enum RecoverCommand {
    /// Print the replicas in a stopped node's directory as JSON; changes nothing.
    #[command(after_help = "\
Reads checkpoints and log as a start would, which takes as much memory, and changes nothing. Exit
code 1 if a process uses the directory, or a file in it is damaged.

Example:
  carillon recover inspect --dir /var/lib/carillon > a.json")]
    Inspect {
        /// The data directory.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Plan which replicas go on, from the files of all surviving nodes; prints what may be lost.
    #[command(after_help = "\
For each shard without a majority, the surviving replica with the newest and longest log goes on. It
becomes the shard's only voter, with all entries of its log; the other replicas end. The writes that
may be lost are listed on standard error, shard by shard; the plan goes to standard output.

Give the files of ALL surviving nodes. A node that is not among them counts as lost.

Exit code 1 if no shard needs recovery, or the files do not belong together.

Example:
  carillon recover plan a.json d.json > plan.json")]
    Plan {
        /// The output of `carillon recover inspect` from every surviving node.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Apply the plan to a stopped node's directory. It cannot be undone.
    #[command(after_help = "\
The command writes and fsyncs the whole plan, or nothing. It is safe to apply a plan again. A plan
is refused if the node has run since it was inspected, and for a node whose file the plan lacks.

Copy the directory first if there is room: only the copy can undo the recovery.

Example:
  carillon recover apply --dir /var/lib/carillon --plan plan.json --accept-loss")]
    Apply {
        /// The data directory.
        #[arg(long)]
        dir: PathBuf,
        /// The file with the plan.
        #[arg(long, value_name = "FILE")]
        plan: PathBuf,
        /// Accept the losses that the plan names. Without it, the command only prints them.
        #[arg(long)]
        accept_loss: bool,
    },
}
