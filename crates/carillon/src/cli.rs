//! The command line: arguments and help.

pub mod bench;
mod keys;
mod keyspaces;
mod nodes;
mod offline;
mod shards;
pub mod sim;
mod volumes;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use client::http::{Client, ClientError};
use client::{Tls, TlsError, TlsFiles};

pub use keys::{Condition, DelArgs, GetArgs, PlaceArgs, PutArgs};
pub use keyspaces::{KeyspaceArgs, KeyspaceCommand};
pub use nodes::{DrainArgs, NodesArgs, NodesCommand, OneNodeArgs, StatusArgs};
pub use offline::{CheckArgs, RecoverArgs, RecoverCommand, RepairClockArgs};
pub use shards::{ProveArgs, ShardsArgs, SplitArgs, Survive};
pub use volumes::{VolumeArgs, VolumeCommand};

use self::sim::SimArgs;
use crate::dev::DevArgs;
use crate::doctor::DoctorArgs;
use crate::start::StartArgs;
use crate::upgrade::UpgradeArgs;

const EXAMPLES: &str = "\
Examples:
  carillon start --dir data                  a node on ./data, for this machine only
  carillon put greeting hello                a value for a key
  carillon get greeting                      hello
  carillon history greeting                  its changes, the newest first
  carillon snapshot take                     a time that stays readable, for --at
  carillon feed                              changes, as they are committed
  carillon txn                               a transaction: see `carillon txn --help`
  carillon lock nightly -- ./backup.sh       a command that runs on one machine at a time
  carillon topic publish orders paid:7       a message: see `carillon topic --help`
  carillon script FILE                       a file of commands: see `carillon script --help`
  redis-cli -p 6379 get greeting             the same, by the Redis protocol
  carillon status                            the node's state, and the cluster's health
  carillon nodes                             the nodes of the cluster
  carillon drain b                           moves all replicas and leaderships off node b
  carillon shards                            the shards, their leaders and lagging replicas
  carillon route greeting                    how each lookup finds the shard of a key
  carillon record --out file                 what has happened lately, as lines of JSON
  carillon replay file                       the same again, as text, in its own pace
  carillon prove --survive domain            whether the cluster survives a lost domain
  carillon recover --help                    recovers shards that lost their majority for good
  carillon doctor                            whether this machine is fit for a node
  carillon volume create disk --size 64GiB   a disk for nbd-client, qemu and libnbd
  carillon dev                               three nodes on this machine
  carillon bench run redis                   measures a store under load
  carillon console                           a simulated cluster, with the console

Exit codes:
  0  done, found
  1  not found, refused or failed; nothing was changed
  2  the command line or the configuration is invalid
  3  no node could be reached; nothing was changed
  4  unknown outcome: the request may have been done
  5  the data directory belongs to another cluster than --join, or the node runs already
  6  the lease of a lock was lost while its command ran";

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
    /// Run a node until SIGTERM or Ctrl-C stops it.
    Start(StartArgs),
    /// Run a cluster of several nodes on this machine, to try Carillon.
    Dev(DevArgs),
    /// Print the value of a key.
    Get(GetArgs),
    /// Set the value of a key.
    Put(PutArgs),
    /// Delete keys.
    Del(DelArgs),
    /// List the changes of a key: puts, deletions, expiries.
    History(crate::history::HistoryArgs),
    /// List the keys of a keyspace, now or at a past time.
    Keys(crate::snapshots::KeysArgs),
    /// Take, list, renew or release snapshots: times that stay readable.
    Snapshot(crate::snapshots::SnapshotArgs),
    /// Collect old versions now, or show what holds them.
    Gc(crate::snapshots::GcArgs),
    /// Show the changes of a keyspace, commit by commit, as they happen.
    Feed(crate::feed::FeedArgs),
    /// Run a file of commands: updates, reads, snapshot reads, collection.
    Script(crate::script::ScriptArgs),
    /// Run a transaction over several keys, from a file or a terminal.
    Txn(crate::txn::TxnArgs),
    /// Run a command while a lock is held.
    Lock(crate::lock::LockArgs),
    /// List the locks that are held.
    Locks(crate::lock::LocksArgs),
    /// Create topics, publish messages, and take them as a member of a group.
    Topic(crate::topics::TopicArgs),
    /// Create, list, change or drop keyspaces.
    Keyspace(KeyspaceArgs),
    /// Create, list, resize or delete volumes: disks for clients of NBD.
    Volume(VolumeArgs),
    /// Show a node's state, and the cluster's health as it sees it.
    Status(StatusArgs),
    /// List the nodes of the cluster; cordon or remove one.
    Nodes(NodesArgs),
    /// Move all replicas and leaderships off a node, and show the progress.
    Drain(DrainArgs),
    /// List the shards, their leaders and lagging replicas.
    Shards(ShardsArgs),
    /// Show, hop by hop, how each lookup finds the shard that owns a key.
    Route(crate::route::RouteArgs),
    /// Split a shard in two.
    Split(SplitArgs),
    /// Merge a shard with its right neighbour.
    Merge(crate::merge::MergeArgs),
    /// Record what happens in the cluster, from the past or from now on, into a file.
    Record(crate::record::RecordArgs),
    /// Play a recording back, as text.
    Replay(crate::replay::ReplayArgs),
    /// Raise the cluster version once all nodes run a new version.
    Upgrade(UpgradeArgs),
    /// Prove which losses of nodes or failure domains the cluster survives now.
    Prove(ProveArgs),
    /// Look at this machine before a node runs on it, and say what to change.
    Doctor(DoctorArgs),
    /// Verify the data directory of a node that does not run.
    Check(CheckArgs),
    /// Recover shards that have lost a majority of their replicas for good.
    Recover(RecoverArgs),
    /// Rewrite a lone node's data after a start with a clock that was far ahead.
    RepairClock(RepairClockArgs),
    /// Show the console with a simulated cluster behind it, to try faults and lookups.
    Console(crate::console::ConsoleArgs),
    /// Make certificates to try TLS.
    Certs(crate::certs::CertsArgs),
    /// Simulate a node or a cluster with faults, and check that no invariant breaks.
    Sim(SimArgs),
    /// Measure a store: this one, or any that speaks a protocol the test bed knows.
    Bench(bench::BenchArgs),
    /// Print the script for command completion in a shell.
    #[command(after_help = "\
Example:
  carillon completions bash > ~/.local/share/bash-completion/completions/carillon")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the pages of the manual into a directory.
    #[command(after_help = "\
Writes carillon.1 and a page for each command, and overwrites those that are there.

Example:
  carillon manual ~/.local/share/man/man1 && man carillon-start")]
    Manual {
        /// The directory; it is made if it is not there.
        dir: PathBuf,
    },
}

/// Which node, and how to print.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// HTTP address of the node; with https:// before it, by TLS.
    #[arg(long, value_name = "HOST:PORT", env = "CARILLON_HTTP")]
    #[arg(default_value = client::http::DEFAULT_ADDRESS)]
    pub http: String,
    /// How it is spoken with.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Print JSON: one object for each command.
    #[arg(long)]
    pub json: bool,
}

/// TLS and the password of a command.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// Speak TLS, as https:// before the address says, too.
    #[arg(long)]
    pub tls: bool,
    /// Trust the authorities in this file (PEM), and speak TLS; else those of the system.
    #[arg(long, value_name = "FILE")]
    pub tls_ca_file: Option<PathBuf>,
    /// Show the node the certificate in this file (PEM), and speak TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,
    /// Give the node the password in this file.
    #[arg(long, value_name = "FILE", env = "CARILLON_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
}

impl TlsArgs {
    /// A client of the node at an address.
    ///
    /// # Errors
    /// It is no address, or a file is no good. Nothing was sent.
    pub fn client(&self, address: &str) -> Result<Client, ClientError> {
        let mut client = Client::new(address)?;
        if let Some(file) = &self.password_file {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|why| TlsError { file: file.clone(), why: why.to_string() })?;
            client = client.with_password(text.trim());
        }
        let files = TlsFiles {
            ca: self.tls_ca_file.clone(),
            cert: self.tls_cert_file.clone(),
            key: self.tls_key_file.clone(),
        };
        if !self.tls && files == TlsFiles::default() {
            return Ok(client);
        }
        Ok(client.with_tls(Tls::load(&files)?))
    }
}

impl NodeArgs {
    /// A client of the node.
    ///
    /// # Errors
    /// As of [`TlsArgs::client`].
    pub fn client(&self) -> Result<Client, ClientError> {
        self.tls.client(&self.http)
    }
}

/// Whether to show it again and again.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Refresh the output after so many seconds, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub watch: Option<u64>,
}

/// A word of the wire.
pub fn word(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}

/// A time as people write it.
///
/// # Errors
/// What was expected.
pub fn millis(text: &str) -> Result<u64, String> {
    use server::config::kind::{Kind, Millis};
    Millis(1..=3650 * 86_400_000).parse(text).map_err(|expected| format!("expected {expected}"))
}

/// Bytes as people write them.
///
/// # Errors
/// What was expected.
pub fn bytes(text: &str) -> Result<u64, String> {
    use server::config::kind::{Kind, Size};
    let any = Size(1..=keyspace::catalogue::VOLUME_BYTES_MAX);
    any.parse(text).map_err(|expected| format!("expected {expected}"))
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
