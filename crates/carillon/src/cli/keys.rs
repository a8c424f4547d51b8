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
