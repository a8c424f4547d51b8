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
