//! `carillon keyspace create`, `list`, `alter`, `drop`.

use client::http::{KeyspaceChange, KeyspaceInfo, KeyspaceSpec};
use serde_json::json;

use crate::cli::{KeyspaceCommand, NodeArgs, word};
use crate::exit::Exit;
use crate::output::{self, table, time, with_node};

/// Does one of them.
pub fn run(command: &KeyspaceCommand) -> Exit {
    match command {
        KeyspaceCommand::Create { name, placement, settings, node } => {
            let spec = KeyspaceSpec {
                name: name.clone(),
                placement: Some(word(*placement)),
                durability: settings.durability.map(word),
                retention_ms: settings.retention,
                replicas: settings.replicas,
                skip_equal_writes: settings.skip_equal_writes,
                volume: None,
            };
            with_node(node, |client| {
                let info = client.keyspace_create(&spec)?;
                Ok(one(node, &info))
            })
        }
        KeyspaceCommand::List(node) => with_node(node, |client| {
            let all = client.keyspaces()?;
            Ok(match node.json {
                true => output::json(&json!({ "keyspaces": all })),
                false => output::raw(show(&all).as_bytes()),
            })
        }),
        KeyspaceCommand::Alter { name, settings, node } => {
            let change = KeyspaceChange {
                durability: settings.durability.map(word),
                retention_ms: settings.retention,
                replicas: settings.replicas,
                skip_equal_writes: settings.skip_equal_writes,
                volume_bytes: None,
            };
            with_node(node, |client| {
                let info = client.keyspace_alter(name, &change)?;
                Ok(one(node, &info))
            })
        }
        KeyspaceCommand::Drop { name, node } => with_node(node, |client| {
            client.keyspace_drop(name)?;
            Ok(match node.json {
                true => output::json(&json!({ "dropped": name })),
                false => output::line(&format!("dropped {name}")),
            })
        }),
    }
}

/// Prints a keyspace that was made or changed, and what is to be known of it.
fn one(node: &NodeArgs, info: &KeyspaceInfo) -> Exit {
    info.warnings.iter().for_each(|why| output::complain(&format!("warning: {why}")));
    match node.json {
        true => output::json(&json!(info)),
        false => output::raw(show(std::slice::from_ref(info)).as_bytes()),
    }
}

fn show(all: &[KeyspaceInfo]) -> String {
    let headings = ["NAME", "PLACEMENT", "DURABILITY", "RETENTION", "REPLICAS", "SHARDS", "KEYS"];
    let rows = all.iter().map(|info| {
        vec![
            info.name.clone(),
            info.placement.clone(),
            info.durability.clone(),
            time(info.retention_ms),
            info.replicas.to_string(),
            info.shards.to_string(),
            info.keys.to_string(),
        ]
    });
    table(&headings, &rows.collect::<Vec<_>>())
}
