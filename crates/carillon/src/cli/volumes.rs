//! Arguments of commands about volumes.

use clap::{Args, Subcommand};

use super::NodeArgs;

/// `carillon volume`
#[derive(Debug, Args)]
#[command(after_help = "\
A volume is a keyspace of linear hashing with a record for each block. Any node with --nbd serves \
it to clients of the network block device protocol, such as nbd-client, qemu and libnbd.

Examples:
  carillon volume create disk --size 64GiB --replicas 3
  nbdinfo nbd://127.0.0.1:10809/disk
  carillon volume resize disk --size 128GiB
  carillon volume clone disk trial
  nbdinfo nbd://127.0.0.1:10809/disk@2026-11-28T08:00:00Z
  nbdinfo \"nbd://127.0.0.1:10809/disk@$(carillon volume snapshot disk)\"")]
pub struct VolumeArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: VolumeCommand,
}

/// What can be done with volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume, all zeroes, which takes no room.
    Create {
        /// Its name: also that of its keyspace and its export.
        name: String,
        /// Its size: 64GiB, 512MiB, a whole number of blocks.
        #[arg(long, value_name = "BYTES", value_parser = super::bytes)]
        size: u64,
        /// The bytes of a block: 4KiB, 8KiB, 16KiB, 32KiB or 64KiB. It is written whole, and cannot
        /// be changed later.
        #[arg(long, value_name = "BYTES", value_parser = super::bytes, default_value = "4KiB")]
        block: u64,
        /// Replicas of each block: 1, 3, 5, 7 or 9; the node's default if not given.
        #[arg(long, value_name = "N")]
        replicas: Option<u8>,
        /// How long replaced blocks stay readable: 60s, 30m, 12h, 7d; the node's default if not
        /// given.
        #[arg(long, value_name = "TIME", value_parser = super::retention)]
        retention: Option<u64>,
        /// Let several clients write at the same time. Without it a client that comes later takes
        /// the volume from the one before. It cannot be changed later.
        #[arg(long)]
        shared: bool,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List all volumes.
    List(NodeArgs),
    /// Show a volume: its size, and how much of it is written.
    Show {
        /// Its name.
        name: String,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Change the size of a volume. What lies behind a smaller size stays in the store.
    Resize {
        /// Its name.
        name: String,
        /// Its new size: a whole number of blocks.
        #[arg(long, value_name = "BYTES", value_parser = super::bytes)]
        size: u64,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Take a snapshot of a volume: a past time that stays readable.
    #[command(after_help = "\
Prints the token. The export NAME@TOKEN is the volume as it is now, for reading, at any node. It \
ends by itself; `carillon snapshot renew` and `release` take the token.

Example:
  nbdcopy \"nbd://127.0.0.1:10809/disk@$(carillon volume snapshot disk --ttl 1h)\" backup.raw")]
    Snapshot {
        /// Its name.
        name: String,
        /// How long it is kept: 90s, 30m, 12h; at most 1d.
        #[arg(long, value_name = "TIME", value_parser = super::millis, default_value = "10m")]
        ttl: u64,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Make a volume that begins with the blocks of another one, and shares them until it is
    /// written.
    #[command(after_help = "\
What the source held at that time stays until the clone is flattened or deleted: one old version
of each block that is overwritten there. The source cannot be deleted before.

Examples:
  carillon volume clone disk trial
  carillon volume clone disk@2026-11-28T08:00:00Z rescue
  carillon volume clone \"disk@10m ago\" rescue")]
    Clone {
        /// The volume, or the volume as of a past time: NAME@TIME.
        #[arg(value_name = "SOURCE[@TIME]")]
        source: String,
        /// The name of the clone.
        name: String,
        /// Replicas of each block; as many as of the source if not given.
        #[arg(long, value_name = "N")]
        replicas: Option<u8>,
        /// How long replaced blocks stay readable; as long as of the source if not given.
        #[arg(long, value_name = "TIME", value_parser = super::retention)]
        retention: Option<u64>,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Copy what a clone shares with its source; then it needs the source no more.
    #[command(after_help = "\
It is used as ever meanwhile. Stopped, it begins anew, and copies nothing twice. Afterwards the
clone can be read from now on only; so snapshots and clones of it must be released and flattened
before.")]
    Flatten {
        /// Its name.
        name: String,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Read all blocks of a volume as of one time, and count them.
    #[command(after_help = "\
Fails if anything in the volume's keyspace is no block: a key that is no number of eight bytes, or \
a value that is not as long as a block. Such a block reads as an error. Takes a snapshot \
meanwhile.")]
    Check {
        /// Its name.
        name: String,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Delete a volume and all its blocks, for good.
    Delete {
        /// Its name.
        name: String,
        #[command(flatten)]
        node: NodeArgs,
    },
}
