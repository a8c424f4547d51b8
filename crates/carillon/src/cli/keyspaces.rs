//! Arguments of commands about keyspaces.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::{NodeArgs, retention};

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
    /// Create a keyspace.
    #[command(after_help = "\
Examples:
  carillon keyspace create orders
  carillon keyspace create events --placement ordered --retention 7d
  carillon keyspace create sessions --placement linear-hash
  carillon keyspace create cache --durability memory
  carillon keyspace create ledger --replicas 5
  carillon keyspace create prices --skip-equal-writes")]
    Create {
        /// Its name.
        name: String,
        /// How a key gets its position: by its hash, by its order, or by its hash in a linear-hash
        /// table. It cannot be changed later.
        #[arg(long, default_value = "hashed")]
        placement: Placement,
        #[command(flatten)]
        settings: KeyspaceSettings,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List all keyspaces.
    List(NodeArgs),
    /// Change the settings of a keyspace.
    #[command(group(ArgGroup::new("change").required(true).multiple(true)
        .args(["durability", "retention", "replicas", "skip_equal_writes"])))]
    Alter {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: KeyspaceSettings,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Drop a keyspace and all its keys, for good.
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
    /// When a write is acknowledged: after fsync, up to interval_ms before it, or without fsync.
    #[arg(long)]
    pub durability: Option<Durability>,
    /// How long replaced versions stay readable: 1500 (milliseconds), 60s, 30m, 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = retention)]
    pub retention: Option<u64>,
    /// Replicas of each shard: 1, 3, 5, 7 or 9. More than 1 needs durability sync. The number can
    /// be raised later, not lowered.
    #[arg(long, value_name = "N")]
    pub replicas: Option<u8>,
    /// Whether a write of the value and expiry that a key has makes no new version: true or false.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    #[arg(require_equals = true)]
    pub skip_equal_writes: Option<bool>,
}

/// Where keys live.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Placement {
    /// By the hash of the key.
    Hashed,
    /// By the order of the keys: ranges can be read.
    Ordered,
    /// By the hash of the key, in a linear-hash table.
    LinearHash,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Durability {
    /// After fsync: the write survives a power cut.
    Sync,
    /// Up to interval_ms before fsync: a power cut may lose the last writes.
    Interval,
    /// Without fsync: the write survives a crash of the process, not of the machine.
    Memory,
}
