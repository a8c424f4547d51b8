//! `carillon volume create`, `list`, `show`, `resize`, `snapshot`, `clone`, `flatten`, `check`,
//! `delete`.

mod check;

use std::thread::sleep;
use std::time::Duration;

use client::http::{
    Client, ClientError, CloneSpec, KeyspaceChange, KeyspaceInfo, KeyspaceSpec, VolumeSpec,
};
use serde_json::{Value, json};
use server::config::kind::size_text;
use server::utc::utc;

use crate::cli::{NodeArgs, VolumeCommand};
use crate::exit::Exit;
use crate::output::{self, table, with_node};

/// A piece that could not be copied is tried so often, in pauses of this length.
const FLATTEN_TRIES: u32 = 60;
const FLATTEN_PAUSE: Duration = Duration::from_millis(500);

/// Does one of them.
pub fn run(command: &VolumeCommand) -> Exit {
    match command {
        VolumeCommand::Create { name, size, block, replicas, retention, shared, node } => {
            let Ok(block_bytes) = u32::try_from(*block) else {
                output::complain("a block has 4 KiB to 64 KiB; nothing was done");
                return Exit::Refused;
            };
            let spec = KeyspaceSpec {
                name: name.clone(),
                placement: Some("linear-hash".into()),
                durability: Some("sync".into()),
                retention_ms: *retention,
                replicas: *replicas,
                skip_equal_writes: None,
                volume: Some(VolumeSpec { bytes: *size, block_bytes, shared: *shared }),
            };
            with_node(node, |client| {
                let info = client.keyspace_create(&spec)?;
                info.warnings.iter().for_each(|why| output::complain(&format!("warning: {why}")));
                Ok(shown(node, &[info]))
            })
        }
        VolumeCommand::List(node) => with_node(node, |client| {
            let mut all = client.keyspaces()?;
            all.retain(|info| info.volume.is_some());
            Ok(match node.json {
                true => output::json(&json!({ "volumes": rows(&all) })),
                false => shown(node, &all),
            })
        }),
        VolumeCommand::Show { name, node } => {
            on_volume(node, name, |_client, info| Ok(shown(node, &[info])))
        }
        VolumeCommand::Resize { name, size, node } => on_volume(node, name, |client, _info| {
            let change = KeyspaceChange { volume_bytes: Some(*size), ..KeyspaceChange::default() };
            Ok(shown(node, &[client.keyspace_alter(name, &change)?]))
        }),
        VolumeCommand::Snapshot { name, ttl, node } => on_volume(node, name, |client, _info| {
            let taken = client.snapshot_take(std::slice::from_ref(name), None, Some(*ttl))?;
            Ok(match node.json {
                true => output::json(&taken),
                false => output::line(taken["token"].as_str().unwrap_or_default()),
            })
        }),
        VolumeCommand::Clone { source, name, replicas, retention, node } => {
            let (volume, at) = match source.split_once('@') {
                Some((volume, at)) => (volume, Some(at.to_owned())),
                None => (&**source, None),
            };
            let spec =
                CloneSpec { name: name.clone(), at, replicas: *replicas, retention_ms: *retention };
            on_volume(node, volume, |client, info| {
                let made = client.volume_clone(&info.name, &spec)?;
                Ok(shown(node, &[made]))
            })
        }
        VolumeCommand::Flatten { name, node } => {
            on_volume(node, name, |client, _info| flatten(node, client, name))
        }
        VolumeCommand::Check { name, node } => {
            on_volume(node, name, |client, info| check::run(node, client, &info))
        }
        VolumeCommand::Delete { name, node } => on_volume(node, name, |client, _info| {
            client.keyspace_drop(name)?;
            Ok(match node.json {
                true => output::json(&json!({ "deleted": name })),
                false => output::line(&format!("deleted {name}")),
            })
        }),
    }
}

/// Does something with a volume, and nothing with a keyspace that is none.
fn on_volume(
    node: &NodeArgs,
    name: &str,
    act: impl FnOnce(&Client, KeyspaceInfo) -> Result<Exit, ClientError>,
) -> Exit {
    with_node(node, |client| {
        let info = client.keyspaces()?.into_iter().find(|info| info.name == name);
        match info {
            Some(info) if info.volume.is_some() => act(client, info),
            Some(_) => {
                output::complain(&format!(
                    "keyspace {name} is not a volume; nothing was done. See `carillon keyspace`"
                ));
                Ok(Exit::Refused)
            }
            None => {
                output::complain(&format!(
                    "there is no volume {name}; nothing was done. See `carillon volume list`"
                ));
                Ok(Exit::Refused)
            }
        }
    })
}

/// Has a clone copied piece by piece.
fn flatten(node: &NodeArgs, client: &Client, name: &str) -> Result<Exit, ClientError> {
    let mut tries = 0;
    loop {
        let done = match client.volume_flatten(name) {
            Ok(done) => done,
            // Shards may be moving. What it refuses for good, it refuses at once.
            Err(why) if tries < FLATTEN_TRIES && may_pass(&why) => {
                tries += 1;
                sleep(FLATTEN_PAUSE);
                continue;
            }
            Err(why) => return Err(why),
        };
        tries = 0;
        if done.is_done {
            let blocks = done.copied_blocks;
            return Ok(match node.json {
                true => output::json(&json!({ "flattened": name, "copied_blocks": blocks })),
                false => output::line(&format!("flattened {name}: {blocks} blocks were copied")),
            });
        }
    }
}

/// Whether the same request may do better soon.
fn may_pass(why: &ClientError) -> bool {
    match why {
        ClientError::Unknown { .. } => true,
        ClientError::Refused(problem) => problem.status == 503,
        _ => false,
    }
}

fn shown(node: &NodeArgs, all: &[KeyspaceInfo]) -> Exit {
    if let (true, [one]) = (node.json, all) {
        return output::json(&row(one));
    }
    let has_clones = all.iter().any(|info| info.clone_of.is_some());
    let mut headings = vec!["NAME", "SIZE", "BLOCK", "WRITTEN", "REPLICAS", "SHARDS"];
    headings.extend(has_clones.then_some("CLONE OF"));
    let line = |info: &KeyspaceInfo| {
        let volume = info.volume?;
        let source = info.clone_of.as_ref().map(|of| format!("{}@{}", of.volume, utc(of.at_ms)));
        let source = has_clones.then(|| source.unwrap_or_else(|| "-".to_owned()));
        let mut line = vec![
            info.name.clone(),
            size_text(volume.bytes),
            size_text(volume.block_bytes.into()),
            size_text(info.keys * u64::from(volume.block_bytes)),
            info.replicas.to_string(),
            info.shards.to_string(),
        ];
        line.extend(source);
        Some(line)
    };
    output::raw(table(&headings, &all.iter().filter_map(line).collect::<Vec<_>>()).as_bytes())
}

fn rows(all: &[KeyspaceInfo]) -> Vec<Value> {
    all.iter().map(row).collect()
}

fn row(info: &KeyspaceInfo) -> Value {
    let volume = info.volume.unwrap_or(VolumeSpec { bytes: 0, block_bytes: 0, shared: false });
    let mut row = json!({
        "name": info.name,
        "bytes": volume.bytes,
        "block_bytes": volume.block_bytes,
        "written_bytes": info.keys * u64::from(volume.block_bytes),
        "shared": volume.shared,
        "replicas": info.replicas,
        "retention_ms": info.retention_ms,
        "shards": info.shards,
    });
    if let Some(of) = &info.clone_of {
        row["clone_of"] = json!({ "volume": of.volume, "at": of.at, "at_ms": of.at_ms });
    }
    row
}
