//! Arguments of commands about keys.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::{NodeArgs, millis};

/// Which keyspace of which node.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Keyspace of the keys.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    /// Lookup with which the node finds the shard of a key: full, chord, chord-sharp, linear or lh,
    /// optionally with iterative, recursive or semi-recursive, and with noimages, in one argument.
    /// The route goes to standard error.
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
  carillon get greeting --at 1700000000000ms   the value at that time
  carillon get greeting --at '30s ago'         the value half a minute ago
  carillon get greeting --stale 500ms          a stale read: at most half a second old
  carillon get greeting --json                 with the timestamp of its write, and its expiry")]
pub struct GetArgs {
    /// The key.
    pub key: OsString,
    /// Read the value at this time: a timestamp as --json shows it, milliseconds since 1970 with
    /// the unit ms, a time such as 2026-11-27T19:31:37Z, an age such as '10m ago', or the token of
    /// a snapshot.
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Allow a stale read: a value of at most this age (such as 500ms or 2s), where that is faster.
    /// Its age goes to standard error.
    #[arg(long, value_name = "AGE", conflicts_with = "at", value_parser = millis)]
    pub stale: Option<u64>,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `carillon put`
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: the value is written, with the durability of its keyspace.
Exit code 4: the outcome is unknown. Get the key before you put it again.

Examples:
  carillon put greeting hello
  carillon put picture - < picture.png
  carillon put session-17 alice --ttl 30m
  carillon put lock me --if absent             exit code 1 if the key has a value")]
pub struct PutArgs {
    /// The key.
    pub key: OsString,
    /// The value; - reads it from standard input.
    #[arg(allow_hyphen_values = true)]
    pub value: OsString,
    /// The value expires after this time: 1500 (milliseconds), 90s, 30m, 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub ttl: Option<u64>,
    /// Write only if the key has no value (absent), or has one (present).
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
Keys are deleted one after the other. At an error the command ends and prints how many are
done.

Example:
  carillon del greeting picture")]
pub struct DelArgs {
    /// The keys.
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<OsString>,
    #[command(flatten)]
    pub place: PlaceArgs,
}
