//! `carillon keyspace create`, `list`, `alter`, `drop`.

use client::http::{Client, KeyspaceChange, KeyspaceInfo, KeyspaceSpec};
use serde_json::{Value, json};

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
            };
            with_node(node, |client| {
                let info = client.keyspace_create(&spec)?;
                warn_of_few_nodes(client, settings.replicas);
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
            };
            with_node(node, |client| {
                let info = client.keyspace_alter(name, &change)?;
                warn_of_few_nodes(client, settings.replicas);
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

/// Warns if a request asks for more replicas than there are nodes to hold them. It is no error:
/// they come once there are enough nodes.
fn warn_of_few_nodes(client: &Client, asked: Option<u8>) {
    let Some(asked) = asked else { return };
    if let Some(warning) = client.nodes().ok().and_then(|nodes| too_few(&nodes, asked)) {
        output::complain(&warning);
    }
}

fn too_few(nodes: &Value, asked: u8) -> Option<String> {
    let takes = |node: &&Value| {
        node["standing"] == "member" && matches!(node["state"].as_str(), Some("up" | "suspected"))
    };
    let count = nodes["nodes"].as_array()?.iter().filter(takes).count();
    (count > 0 && count < usize::from(asked)).then(|| {
        let can = if count == 1 { "node that is up takes" } else { "nodes that are up take" };
        format!(
            "warning: the keyspace asks for {asked} replicas, and {count} {can} any; each shard is \
             under-replicated until more nodes join"
        )
    })
}

fn one(node: &NodeArgs, info: &KeyspaceInfo) -> Exit {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_replicas_than_nodes_are_warned_of() {
        let node = |standing, state| json!({ "standing": standing, "state": state });
        let nodes = json!({ "nodes": [
            node("member", "up"), node("member", "suspected"), node("member", "down"),
            node("cordoned", "up"), node("removed", "left"),
        ] });
        assert_eq!(too_few(&nodes, 2), None);
        let warning = too_few(&nodes, 3).unwrap();
        assert!(warning.contains("asks for 3 replicas, and 2 nodes that are up take any"));
        assert_eq!(too_few(&json!({}), 3), None, "an older node says less");
    }
}
