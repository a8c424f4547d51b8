//! `carillon snapshot`, `gc` and `keys`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::{Args, Subcommand};
use client::http::bytes_of;
use serde_json::{Value, json};
use server::utc::utc;

use crate::cli::{NodeArgs, millis};
use crate::exit::Exit;
use crate::output::{self, table, time, with_node};

/// Keys of a page.
const PAGE_KEYS: u64 = 1000;

/// `carillon snapshot`
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SnapshotCommand,
}

/// What can be done with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Take a snapshot: a time that stays readable.
    #[command(after_help = "\
Prints the token, which every --at takes. It shows all that was acknowledged before.

Examples:
  carillon snapshot take
  carillon snapshot take --keyspace orders --keyspace events --ttl 2h
  carillon get greeting --at \"$(carillon snapshot take)\"")]
    Take {
        /// Keyspace to keep readable; all, if none is named.
        #[arg(long, value_name = "NAME")]
        keyspace: Vec<String>,
        /// The time, as `get --at` takes it; now, if none is named.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// How long it is kept: 90s, 30m, 12h; at most 1d.
        #[arg(long, value_name = "TIME", value_parser = millis, default_value = "10m")]
        ttl: u64,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List the snapshots that are kept.
    List(NodeArgs),
    /// Keep a snapshot for longer.
    Renew {
        /// Its number or token.
        snapshot: String,
        /// How long it is kept from now on.
        #[arg(long, value_name = "TIME", value_parser = millis, default_value = "10m")]
        ttl: u64,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Release a snapshot.
    Release {
        /// Its number or token.
        snapshot: String,
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// Does one of them.
pub fn snapshot(args: &SnapshotArgs) -> Exit {
    match &args.command {
        SnapshotCommand::Take { keyspace, at, ttl, node } => with_node(node, |client| {
            let taken = client.snapshot_take(keyspace, at.as_deref(), Some(*ttl))?;
            Ok(match node.json {
                true => output::json(&taken),
                false => output::line(taken["token"].as_str().unwrap_or_default()),
            })
        }),
        SnapshotCommand::List(node) => with_node(node, |client| {
            let all = client.snapshots()?;
            Ok(match node.json {
                true => output::json(&all),
                false => output::raw(shown(&all["snapshots"]).as_bytes()),
            })
        }),
        SnapshotCommand::Renew { snapshot, ttl, node } => with_node(node, |client| {
            let renewed = client.snapshot_renew(snapshot, Some(*ttl))?;
            Ok(match node.json {
                true => output::json(&renewed),
                false => output::raw(shown(&json!([renewed])).as_bytes()),
            })
        }),
        SnapshotCommand::Release { snapshot, node } => with_node(node, |client| {
            client.snapshot_release(snapshot)?;
            Ok(match node.json {
                true => output::json(&json!({ "released": snapshot })),
                false => output::line(&format!("released {snapshot}")),
            })
        }),
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shown(all: &Value) -> String {
    let row = |one: &Value| {
        let names: Vec<String> = items(&one["keyspaces"]).iter().map(text).collect();
        vec![
            text(&one["id"]),
            utc(one["at_ms"].as_u64().unwrap_or_default()),
            utc(one["ends_at_ms"].as_u64().unwrap_or_default()),
            names.join(","),
            text(&one["token"]),
        ]
    };
    let rows: Vec<_> = items(all).iter().map(row).collect();
    table(&["ID", "TIME", "ENDS", "KEYSPACES", "TOKEN"], &rows)
}

/// `carillon gc`
#[derive(Debug, Args)]
#[command(after_help = "\
Old versions go by themselves when their keyspace's retention is over. This has them go at once,
but none that a snapshot holds. What is printed is how it was before: shards follow within a second.

Examples:
  carillon gc                                  all old versions of all keyspaces
  carillon gc --keyspace orders --at '1h ago'  what was replaced more than an hour ago
  carillon gc --why                            what holds the oldest times; changes nothing")]
pub struct GcArgs {
    /// Keyspace to collect; all, if none is named.
    #[arg(long, value_name = "NAME")]
    pub keyspace: Vec<String>,
    /// Up to when: versions that can be read later stay.
    #[arg(long, value_name = "TIME", conflicts_with = "why")]
    pub at: Option<String>,
    /// Show what holds the oldest readable time of each keyspace, and change nothing.
    #[arg(long)]
    pub why: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Has old versions collected, or says why they stay.
pub fn gc(args: &GcArgs) -> Exit {
    with_node(&args.node, |client| {
        let mut found = match args.why {
            true => client.safe_points()?,
            false => client.collect(&args.keyspace, args.at.as_deref())?,
        };
        if let Some(all) = found["keyspaces"].as_array_mut()
            && !args.keyspace.is_empty()
        {
            let has = |name: &String| all.iter().any(|one| one["keyspace"] == **name);
            if let Some(name) = args.keyspace.iter().find(|name| !has(name)) {
                output::complain(&format!("there is no keyspace {name}"));
                return Ok(Exit::Refused);
            }
            all.retain(|one| args.keyspace.iter().any(|name| one["keyspace"] == **name));
        }
        Ok(match args.node.json {
            true => output::json(&found),
            false => output::raw(held(&found["keyspaces"]).as_bytes()),
        })
    })
}

fn held(all: &Value) -> String {
    let row = |one: &Value| {
        let held_by = match one["snapshot"].as_u64() {
            Some(id) => format!("{} {id}", text(&one["held_by"])),
            None => text(&one["held_by"]),
        };
        vec![
            text(&one["keyspace"]),
            utc(one["safe_point_ms"].as_u64().unwrap_or_default()),
            time(one["retention_ms"].as_u64().unwrap_or_default()),
            held_by,
            text(&one["old_bytes"]),
            one["held_bytes"].as_u64().unwrap_or(0).to_string(),
        ]
    };
    let rows: Vec<_> = items(all).iter().map(row).collect();
    let heads = ["KEYSPACE", "READABLE SINCE", "RETENTION", "HELD BY", "OLD BYTES", "SO HELD"];
    let pinned = items(all).iter().flat_map(|one| {
        let row = |pin: &Value| {
            vec![
                text(&one["keyspace"]),
                text(&pin["snapshot"]),
                utc(pin["at_ms"].as_u64().unwrap_or_default()),
                text(&pin["bytes"]),
            ]
        };
        items(&one["pinned"]).iter().map(row).collect::<Vec<_>>()
    });
    let pinned: Vec<_> = pinned.collect();
    let mut shown = table(&heads, &rows);
    if !pinned.is_empty() {
        let heads = ["KEYSPACE", "SNAPSHOT", "ALSO READABLE AT", "BYTES FOR IT ALONE"];
        shown += &format!("\n{}", table(&heads, &pinned));
    }
    shown
}

/// `carillon keys`
#[derive(Debug, Args)]
#[command(after_help = "\
One key a line, in no order unless the keyspace is ordered.

Examples:
  carillon keys --prefix user:
  carillon keys --at '30s ago'                 those that had a value half a minute ago")]
pub struct KeysArgs {
    /// List keys that begin so.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: OsString,
    /// List keys that had a value at this time, as `get --at` takes it.
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Keyspace of the keys.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Lists keys.
pub fn keys(args: &KeysArgs) -> Exit {
    with_node(&args.node, |client| {
        let (prefix, mut at) = (args.prefix.as_bytes(), args.at.clone());
        let mut cursor: Option<String> = None;
        loop {
            let page =
                client.keys(&args.keyspace, prefix, cursor.as_deref(), PAGE_KEYS, at.as_deref())?;
            // An age goes on; all pages are to be of one cut.
            at = page["at"].as_str().map(str::to_owned).or(at);
            let exit = match args.node.json {
                true => output::json(&json!({ "keys": page["keys"] })),
                false => {
                    let keys = items(&page["keys"]).iter().filter_map(bytes_of);
                    let lines = keys.flat_map(|key| key.into_iter().chain([b'\n']));
                    output::raw(&lines.collect::<Vec<u8>>())
                }
            };
            let next = page["next"].as_str().map(str::to_owned);
            if !matches!(exit, Exit::Done) || next.is_none() || next == cursor {
                return Ok(exit);
            }
            cursor = next;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_of_safe_points_are_named() {
        let all = json!([
            { "keyspace": "a", "safe_point_ms": 0, "retention_ms": 60000, "held_by": "retention",
              "old_bytes": 7 },
            { "keyspace": "b", "safe_point_ms": 0, "retention_ms": 0, "held_by": "feed",
              "snapshot": 3, "old_bytes": 0,
              "pinned": [{ "snapshot": 9, "at_ms": 1000, "bytes": 77 }] },
        ]);
        let shown = held(&all);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].contains("1m  ") && lines[1].contains("retention"), "{shown}");
        assert!(lines[2].contains("feed 3"), "{shown}");
        assert!(lines[5].contains("9") && lines[5].contains("77"), "{shown}");
    }
}
