//! Arguments of commands about the directory of a stopped node.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `carillon check`
#[derive(Debug, Args)]
#[command(after_help = "\
Reads everything and verifies every checksum; changes nothing. Exit code 1 if something is damaged,
with the file, the place in it and what to do.

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
For a node alone, without others in its cluster, whose data has times far ahead because its clock
once was: its health says so. The node must be stopped, and this machine's clock right.

Reads DIR, changes nothing in it, and writes into the empty directory NEW: all keyspaces with the
newest value of each key, at its own time or, if that is ahead, now. A value that was written ahead
and expires has as long to live as it had then. What had expired by the clock that was ahead stays
gone. Replaced versions are left out. NEW is of another cluster: tokens and times that the old node
gave to clients mean nothing there.

Exit code 1, and nothing in NEW that a node would start on, if another node has replicas, a
transaction is unfinished, or no time is ahead.

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
Only for shards whose majority is lost FOR GOOD: disks that will never be read again. Writes that
were acknowledged may be gone then. If any of those machines can still be started, start it instead:
nothing is lost, and nothing of this is needed.

Three steps, while every node of the cluster is stopped:
  1  on each node that is left     carillon recover inspect --dir DIR > NODE.json
  2  once, with all these files    carillon recover plan *.json > plan
  3  on each node that is left     carillon recover apply --dir DIR --plan plan --accept-loss
Then start them, and add nodes: replicas grow back. Until step 3 nothing is changed.

Lost nodes must never be started again on the directories they had.
docs/operations.md tells the whole of it.")]
pub struct RecoverArgs {
    /// Which step.
    #[command(subcommand)]
    pub command: RecoverCommand,
}

/// The steps of a recovery.
#[derive(Debug, Subcommand)]
pub enum RecoverCommand {
    /// Print, as JSON, what is left in a stopped node's directory; changes nothing.
    #[command(after_help = "\
Reads checkpoints and log as a start would, which takes as much memory, and changes nothing. Exit
code 1 if a process has the directory, or something in it is damaged.

Example:
  carillon recover inspect --dir /var/lib/carillon > a.json")]
    Inspect {
        /// The data directory.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Say what goes on and what may be lost, from what is left on all nodes; prints the plan.
    #[command(after_help = "\
For each shard without a majority the replica goes on that has the newest and longest log. It
becomes the shard's only voter, with all that stands in its log; the others end. What may be lost by
that is said on standard error, shard by shard; the plan goes to standard output.

Give the files of ALL nodes that are left. A node that is not among them counts as lost.

Exit code 1 if there is nothing to do, or the files do not belong together.

Example:
  carillon recover plan a.json d.json > plan.json")]
    Plan {
        /// What `carillon recover inspect` has printed, of every node that is left.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Carry out the plan in a stopped node's directory. There is no way back.
    #[command(after_help = "\
All of it is written at once and synced, or nothing. To apply a plan again does no harm. It is
refused where the node has run since it was looked at, and for nodes that the plan was made without.

Copy the directory first if there is room: that is the only way back.

Example:
  carillon recover apply --dir /var/lib/carillon --plan plan.json --accept-loss")]
    Apply {
        /// The data directory.
        #[arg(long)]
        dir: PathBuf,
        /// The file with the plan.
        #[arg(long, value_name = "FILE")]
        plan: PathBuf,
        /// What the plan says may be lost is lost. Without this, it is only said again.
        #[arg(long)]
        accept_loss: bool,
    },
}
