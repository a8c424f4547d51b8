//! What can be typed, and the help that teaches it.

pub mod sim;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use self::sim::SimArgs;
use crate::dev::DevArgs;
use crate::start::StartArgs;
use crate::upgrade::UpgradeArgs;

const EXAMPLES: &str = "\
Examples:
  carillon start --dir data                  a node on ./data, for this machine only
  carillon put greeting hello                a value for a key
  carillon get greeting                      hello
  carillon txn                               several keys at one moment: see --help there
  redis-cli -p 6379 get greeting             the same, by the Redis protocol
  carillon status                            how the node is, and whether all is well
  carillon nodes                             which nodes there are
  carillon drain b                           everything moves away from node b
  carillon shards                            who leads what, and how far the others are
  carillon route greeting                    how its owner is found, by all lookups
  carillon prove --survive domain            what the cluster can lose
  carillon recover --help                    shards whose majority is lost for good
  carillon dev                               three nodes on this machine

Exit codes:
  0  done, found
  1  not found, refused or failed; nothing was changed
  2  the command line or the configuration makes no sense
  3  no node could be reached; nothing was changed
  4  unknown outcome: it may have been done
  5  the node's directory is of another cluster than --join, or the node runs already";

/// A transactional key-value store that Redis clients can talk to.
#[derive(Debug, Parser)]
#[command(name = "carillon", version, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(max_term_width = 100, infer_subcommands = false)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node until it is asked to stop.
    Start(StartArgs),
    /// Run a cluster of several nodes on this machine, to try things.
    Dev(DevArgs),
    /// Print the value of a key.
    Get(GetArgs),
    /// Give a key a value.
    Put(PutArgs),
    /// Take the values of keys away.
    Del(DelArgs),
    /// Read and write several keys at one moment, from a file or a terminal.
    Txn(crate::txn::TxnArgs),
    /// Create, list, change or drop keyspaces.
    Keyspace(KeyspaceArgs),
    /// Show how a node is, and whether all is well.
    Status(StatusArgs),
    /// List the nodes of the cluster; cordon or remove one.
    Nodes(NodesArgs),
    /// Have everything move away from a node, and show how far it is.
    Drain(DrainArgs),
    /// List the shards: who leads them, and how far their replicas are.
    Shards(ShardsArgs),
    /// Show how the owner of a key is found, move by move, by each lookup.
    Route(crate::route::RouteArgs),
    /// Cut a shard in two.
    Split(SplitArgs),
    /// Have a shard take in the one behind it.
    Merge(crate::merge::MergeArgs),
    /// Raise the cluster's feature level once all nodes run a new version.
    Upgrade(UpgradeArgs),
    /// Prove what the cluster can lose, as its shards are placed now.
    Prove(ProveArgs),
    /// Verify the data directory of a node that does not run.
    Check(CheckArgs),
    /// Go on with shards that have lost a majority of their replicas for good.
    Recover(RecoverArgs),
    /// Write a lone node's data anew after a start with a clock that was far ahead.
    RepairClock(RepairClockArgs),
    /// Run a simulated node through faults, and check that no rule breaks.
    Sim(SimArgs),
    /// Print a script that completes commands in a shell.
    #[command(after_help = "\
Example:
  carillon completions bash > ~/.local/share/bash-completion/completions/carillon")]
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

/// Which node, and how to print.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// HTTP address of the node.
    #[arg(long, value_name = "HOST:PORT", env = "CARILLON_HTTP")]
    #[arg(default_value = client::http::DEFAULT_ADDRESS)]
    pub http: String,
    /// Print JSON, one object a command.
    #[arg(long)]
    pub json: bool,
}

/// Whether to show it again and again.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Show it again every so many seconds, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub watch: Option<u64>,
}

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
The node gets no more replicas, and those it has move to others, as fast as move_rate lets them. It
serves clients all the while. What is left is shown until the node is empty.

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
Shards are cut by themselves when they hold more than split_bytes or split_keys, or are asked more
often than split_rate. This cuts one sooner, say to try it, or before much is written. Both keep
their replicas where they are; unless balance is off they then move, each by itself. `carillon
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

/// Which keyspace of which node.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Keyspace of the keys.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    /// How the node looks for who owns a key: full, chord, chord-sharp, linear or lh, and perhaps
    /// iterative, recursive or semi-recursive, and noimages, in one argument. The way that was
    /// taken goes to standard error.
    #[arg(long, value_name = "LOOKUP")]
    pub lookup: Option<String>,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `carillon get`
#[derive(Debug, Args)]
#[command(after_help = "\
The value is written as it is; on a terminal a newline follows.
A key without a value: exit code 1, and nothing on standard output.

Examples:
  carillon get greeting
  carillon get picture > picture.png
  carillon get greeting --at 1700000000000ms   the value it had then
  carillon get greeting --stale 500ms          quickly, if half a second old is good enough
  carillon get greeting --json                 with when it was written and when it ends")]
pub struct GetArgs {
    /// The key.
    pub key: OsString,
    /// As of this time: a timestamp as --json shows it, or milliseconds since 1970 with ms.
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// The value may be so old (such as 500ms or 2s) where that is quicker; its age goes to
    /// standard error.
    #[arg(long, value_name = "AGE", conflicts_with = "at", value_parser = millis)]
    pub stale: Option<u64>,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `carillon put`
#[derive(Debug, Args)]
#[command(after_help = "\
When it returns with exit code 0 the value is as durable as its keyspace asks for.
With exit code 4 nobody knows: get the key before putting it again.

Examples:
  carillon put greeting hello
  carillon put picture - < picture.png
  carillon put session-17 alice --ttl 30m
  carillon put lock me --if absent             exit code 1 if somebody has it")]
pub struct PutArgs {
    /// The key.
    pub key: OsString,
    /// The value; - reads it from standard input.
    #[arg(allow_hyphen_values = true)]
    pub value: OsString,
    /// The value ends after this time: 1500 (milliseconds), 90s, 30m, 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub ttl: Option<u64>,
    /// Only if the key has no value, or has one.
    #[arg(long = "if", value_name = "CONDITION")]
    pub when: Option<Condition>,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// When a put takes place.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Condition {
    /// The key has no value.
    Absent,
    /// The key has a value.
    Present,
}

/// `carillon del`
#[derive(Debug, Args)]
#[command(after_help = "\
Prints how many of the keys had a value. Exit code 1 if one of them had none.
Keys are deleted one after the other; an error ends it, and says how far it came.

Example:
  carillon del greeting picture")]
pub struct DelArgs {
    /// The keys.
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<OsString>,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `carillon keyspace`
#[derive(Debug, Args)]
pub struct KeyspaceArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: KeyspaceCommand,
}

/// What can be done with keyspaces.
#[derive(Debug, Subcommand)]
pub enum KeyspaceCommand {
    /// Make a keyspace.
    #[command(after_help = "\
Examples:
  carillon keyspace create orders
  carillon keyspace create events --placement ordered --retention 7d
  carillon keyspace create sessions --placement linear-hash
  carillon keyspace create cache --durability memory
  carillon keyspace create ledger --replicas 5")]
    Create {
        /// Its name.
        name: String,
        /// Where keys live: spread by their hash, in their order, or spread by their hash over a
        /// file of linear hashing. Cannot be changed later.
        #[arg(long, default_value = "hashed")]
        placement: Placement,
        #[command(flatten)]
        settings: KeyspaceSettings,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List all keyspaces.
    List(NodeArgs),
    /// Change a keyspace.
    #[command(group(ArgGroup::new("change").required(true).multiple(true)
        .args(["durability", "retention", "replicas"])))]
    Alter {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: KeyspaceSettings,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Remove a keyspace and everything in it, for good.
    Drop {
        /// Its name.
        name: String,
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// What can be changed of a keyspace.
#[derive(Debug, Args)]
pub struct KeyspaceSettings {
    /// When a write is answered: after fsync, up to interval_ms before it, or without any.
    #[arg(long)]
    pub durability: Option<Durability>,
    /// How long replaced versions stay readable: 1500 (milliseconds), 60s, 30m, 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = retention)]
    pub retention: Option<u64>,
    /// How many nodes hold each key: 1, 3, 5, 7 or 9. Above 1 only with durability sync; it can be
    /// raised later, not lowered.
    #[arg(long, value_name = "N")]
    pub replicas: Option<u8>,
}

/// Where keys live.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Placement {
    /// Spread by their hash.
    Hashed,
    /// In their order.
    Ordered,
    /// Spread by their hash over the buckets of a file of linear hashing.
    LinearHash,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Durability {
    /// After fsync: it survives a power cut.
    Sync,
    /// Before the next fsync: a power cut may lose the last moments.
    Interval,
    /// Written, not fsynced: it survives the process, not the machine.
    Memory,
}

/// A word of the wire.
pub fn word(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}

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

/// A time as people write it.
///
/// # Errors
/// What was expected.
pub fn millis(text: &str) -> Result<u64, String> {
    use server::config::kind::{Kind, Millis};
    Millis(1..=3650 * 86_400_000).parse(text).map_err(|expected| format!("expected {expected}"))
}

/// How long replaced versions stay readable: what any keyspace may have.
///
/// # Errors
/// What was expected.
pub fn retention(text: &str) -> Result<u64, String> {
    use server::config::kind::{Kind, Millis};
    let any = Millis(0..=keyspace::catalogue::RETENTION_MS_MAX);
    any.parse(text).map_err(|expected| format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        assert_eq!(millis("90s"), Ok(90_000));
        assert!(millis("0").is_err() && millis("soon").is_err());
    }
}
