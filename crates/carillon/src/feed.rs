//! `carillon feed`: the changes of a keyspace, as they are committed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use client::http::{Changed, ClientError, Feed, FeedChange, FeedEvent, FeedOptions};
use serde_json::{Map, Value, json};
use server::utc::utc;

use crate::cli::{NodeArgs, millis};
use crate::exit::Exit;
use crate::output;

/// `carillon feed`
#[derive(Debug, Args)]
#[command(after_help = "\
Each commit comes once, with all its changes, in the order of commit times over all shards. When the
node dies, another goes on where it was. With --json each line is a commit, a value or a position;
store its token with what you have done, and begin --since it later.

Changes can be had for as long as the keyspace's retention; a feed that is connected and slow holds
them for longer. What is gone is an error that names the token from which to begin again.

Examples:
  carillon feed                                all changes of keyspace 0 from now on
  carillon feed --prefix order: --before       with the values before
  carillon feed --key greeting --since '5m ago'
  carillon feed --keyspace orders --snapshot --json   first all values, then what changes
  carillon feed --json --since snap-…          goes on behind a token
  carillon feed --since '1h ago' --compact     how each key changed last, then what changes")]
pub struct FeedArgs {
    /// Begin behind this: a token, a time such as 2026-11-27T19:31:37Z, an age such as '10m ago'.
    #[arg(long, value_name = "TOKEN")]
    pub since: Option<String>,
    /// Show only keys that begin so.
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["key", "from", "to"])]
    pub prefix: Option<OsString>,
    /// Show only this key.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub key: Option<OsString>,
    /// Show only keys at or above this one.
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Show only keys below this one.
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// First show the values that keys have.
    #[arg(long)]
    pub snapshot: bool,
    /// Show the values before, too.
    #[arg(long)]
    pub before: bool,
    /// Of what changed since --since, show only the newest change of each key, then all.
    #[arg(long)]
    pub compact: bool,
    /// End behind so many commits.
    #[arg(long, value_name = "COUNT")]
    pub commits: Option<u64>,
    /// Give up when no node has served the feed for so long.
    #[arg(long, value_name = "TIME", value_parser = millis, default_value = "1m")]
    pub no_node_timeout: u64,
    /// Keyspace of the keys.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Shows changes until there is an error, or nobody reads them.
pub fn feed(args: &FeedArgs) -> Exit {
    let bytes = |text: &Option<OsString>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let options = FeedOptions {
        keyspace: args.keyspace.clone(),
        prefix: bytes(&args.prefix),
        key: bytes(&args.key),
        from: bytes(&args.from),
        to: bytes(&args.to),
        since: args.since.clone(),
        snapshot: args.snapshot,
        before: args.before,
        compact: args.compact,
        no_node_timeout: std::time::Duration::from_millis(args.no_node_timeout),
    };
    // Several addresses may be named, separated by commas.
    let feed = match feed_of(args, options) {
        Ok(feed) => feed,
        Err(error) => return output::failed(&args.node, &error),
    };
    let mut left = args.commits;
    for event in feed {
        match event {
            Ok(event) => {
                let text = match args.node.json {
                    true => shown_json(&event).to_string() + "\n",
                    false => shown(&event),
                };
                if !output::piece(&text) {
                    return Exit::Done;
                }
                if let (FeedEvent::Commit(_), Some(left)) = (&event, &mut left) {
                    *left = left.saturating_sub(1);
                }
                if left == Some(0) {
                    return Exit::Done;
                }
            }
            Err(error) => return output::failed(&args.node, &error),
        }
    }
    Exit::Done
}

/// The feed, from the first of the nodes that serves it.
fn feed_of(args: &FeedArgs, options: FeedOptions) -> Result<Feed, ClientError> {
    let clients = args.node.http.split(',').map(|one| args.node.tls.client(one));
    Feed::of(clients.collect::<Result<_, _>>()?, options)
}

fn shown(event: &FeedEvent) -> String {
    match event {
        FeedEvent::Begun { token, address } => {
            output::note(&format!("from {address}, since {token}"));
            String::new()
        }
        FeedEvent::Value { key, value, .. } => {
            format!("{} = {}\n", key.escape_ascii(), value.escape_ascii())
        }
        FeedEvent::ValuesEnd { token } => {
            output::note(&format!("these were all values at {token}"));
            String::new()
        }
        // For programs.
        FeedEvent::Resolved { .. } => String::new(),
        FeedEvent::Commit(commit) => {
            let mut text = String::new();
            for change in &commit.changes {
                text += &format!("{}  {}\n", utc(commit.at_ms), line(change));
            }
            text
        }
    }
}

fn line(change: &FeedChange) -> String {
    let key = change.key.escape_ascii();
    let mut text = match &change.what {
        Changed::Put { value, .. } => format!("put      {key} = {}", value.escape_ascii()),
        Changed::Deleted => format!("deleted  {key}"),
        Changed::Expired => format!("expired  {key}"),
    };
    if let Some(before) = &change.before {
        text += &format!("  (before: {})", before.escape_ascii());
    }
    text
}

fn shown_json(event: &FeedEvent) -> Value {
    match event {
        FeedEvent::Begun { token, address } => {
            json!({ "type": "hello", "token": token, "address": address })
        }
        FeedEvent::Value { key, value, expires_at_ms } => {
            let mut object = Map::new();
            object.insert("type".to_owned(), "value".into());
            output::bytes_member(&mut object, "key", key);
            output::bytes_member(&mut object, "value", value);
            if let Some(at) = expires_at_ms {
                object.insert("expires_at_ms".to_owned(), (*at).into());
            }
            object.into()
        }
        FeedEvent::ValuesEnd { token } => json!({ "type": "values-end", "token": token }),
        FeedEvent::Resolved { token, at_ms } => {
            json!({ "type": "resolved", "token": token, "at_ms": at_ms })
        }
        FeedEvent::Commit(commit) => {
            let changes: Vec<Value> = commit.changes.iter().map(change_json).collect();
            json!({
                "type": "change", "token": commit.token, "version": commit.version,
                "at_ms": commit.at_ms, "changes": changes,
            })
        }
    }
}

fn change_json(change: &FeedChange) -> Value {
    let mut object = Map::new();
    let what = match &change.what {
        Changed::Put { .. } => "put",
        Changed::Deleted => "deleted",
        Changed::Expired => "expired",
    };
    object.insert("what".to_owned(), what.into());
    output::bytes_member(&mut object, "key", &change.key);
    if let Changed::Put { value, expires_at_ms } = &change.what {
        output::bytes_member(&mut object, "value", value);
        if let Some(at) = expires_at_ms {
            object.insert("expires_at_ms".to_owned(), (*at).into());
        }
    }
    if let Some(before) = &change.before {
        output::bytes_member(&mut object, "before", before);
    }
    object.into()
}
