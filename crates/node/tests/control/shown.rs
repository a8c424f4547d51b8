//! Inputs and effects of control, in words.

use keyspace::{Arc as RingArc, Descriptor};
use node::control::{Effect, Input, Reply, Routes};
use node::executor;
use node::replica::catalogue::Change;
use overlay::KnownShard;

use crate::node_of_one::keyspace_of;

/// What control was told.
pub fn input(input: &Input) -> String {
    match input {
        Input::Catalogue(change) => match (change, keyspace_of(change)) {
            (Change::Created(_), Some(name)) => format!("keyspace {name} was created"),
            (Change::Altered(_), Some(name)) => format!("keyspace {name} was altered"),
            (Change::Dropped(_), Some(name)) => format!("keyspace {name} was dropped"),
            (Change::ShardIdAllocated { shard, .. }, _) => {
                format!("shard id {shard} was given out")
            }
            (Change::ClusterVersion(version), _) => format!("the cluster's version is {version}"),
            (other, _) => format!("the catalogue has changed: {other:?}"),
        },
        Input::CatalogueReplaced(catalogue) => {
            let names: Vec<&str> = catalogue.iter().map(|keyspace| &*keyspace.name).collect();
            format!("the catalogue is at once: {}", names.join(", "))
        }
        Input::Answer(_) => "the answer to a question".into(),
        Input::DescriptorsLearned(all) => {
            format!("learned {}", all.iter().map(known).collect::<Vec<_>>().join("; "))
        }
        Input::FirstMessage(first) => {
            format!(
                "shard {}: a message from {} for replica {}",
                first.shard,
                first.from.0,
                first.message.to()
            )
        }
        Input::RightHalf(start) => format!("born: {}", described(&start.view.read().descriptor)),
        Input::MergeMessage(shard, word) => {
            let word = format!("{word:?}");
            let kind = word.split(' ').next().unwrap_or_default();
            format!("for who leads shard {shard}: {kind}")
        }
        Input::HandoverRequest(waits) => {
            format!("shard {} waits for shard {}", waits.left, waits.right)
        }
        Input::MergeHandover(given) => {
            let what = if given.state.is_some() { "its state" } else { "nothing" };
            format!("shard {} gives {what} to shard {}", given.right, given.left)
        }
        Input::PendingRequests(left) => format!("shard {} inherits", left.left),
        Input::ReplicaEnded(shard) => format!("the replica of shard {shard} has ended"),
        Input::Members(members) => format!("members: {:?}", members.all),
        Input::Request { id, request } => format!("request {id}: {request:?}"),
        Input::Tick => "a tick".into(),
        Input::AddReplicas(_) => "it is time to add replicas".into(),
        Input::PlanPlacement(_) => "it is time to place replicas".into(),
        Input::MaintainTables => "it is time to see to tables".into(),
        Input::MaintainShards(_) => "a second has passed".into(),
        other => format!("{other:?}"),
    }
}

/// What control wants done.
pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Submit(shard, input) => format!("shard {shard}: {}", told(input)),
        Effect::Routes(routes) => format!("routes: {}", tiles(routes)),
        Effect::AdminStates(_) => "administrative states".into(),
        Effect::ClusterVersion { version, .. } => format!("cluster version {version}"),
        Effect::Reply { id, reply: Reply::Split(reply) } => format!("reply {id}: {reply:?}"),
        Effect::Reply { id, reply: Reply::Merge(reply) } => format!("reply {id}: {reply:?}"),
        Effect::DescriptorsLearned(all) => {
            let all = all.iter().map(|known| self::known(known)).collect::<Vec<_>>();
            format!("other lookups: {}", all.join("; "))
        }
        Effect::KeyspaceDropped(keyspace) => {
            format!("other lookups: keyspace {keyspace:?} is gone")
        }
        Effect::Event(event) => format!("event: {event}"),
        Effect::LookupMessage(node, message) => {
            let message = format!("{message:?}");
            let kind = message.split([' ', '(']).next().unwrap_or_default();
            format!("node {}: table {kind}", node.0)
        }
        other => format!("{other:?}"),
    }
}

fn told(input: &executor::Input) -> String {
    match input {
        executor::Input::Create(start) => {
            format!("create replica {}", start.replica)
        }
        executor::Input::Message { from, .. } => format!("a message from {}", from.0),
        executor::Input::DescriptorLearned { known } => format!("known {}", self::known(known)),
        executor::Input::RemoteShard { nodes, .. } => {
            format!("away, on {:?}", nodes.iter().map(|node| node.0).collect::<Vec<_>>())
        }
        executor::Input::Absorbed { left, .. } => format!("absorbed by shard {left}"),
        executor::Input::Drop { .. } => "drop".into(),
        executor::Input::Configure { durability, skips_equal, .. } => {
            let skips_equal = if *skips_equal { ", skips equal writes" } else { "" };
            format!("configure {durability:?}{skips_equal}")
        }
        executor::Input::Catalogue { .. } => "ask the catalogue".into(),
        executor::Input::Fetch { .. } => "fetch the catalogue".into(),
        executor::Input::CatalogueCached { index } => format!("the cache is as of entry {index}"),
        executor::Input::Split { split, .. } => format!("split at {}: {}", split.at, split.right),
        executor::Input::Merge { step, .. } => format!("{step:?}"),
        executor::Input::ChangeReplicas { add, remove, .. } => {
            let add: Vec<u64> = add.iter().map(|node| node.0).collect();
            let remove: Vec<u64> = remove.iter().map(|replica| replica.0).collect();
            format!("replicas come on {add:?}, and {remove:?} go")
        }
        executor::Input::Rpc { .. } => "the word".into(),
        executor::Input::RequestHandover { left, .. } => format!("surrender to shard {left}"),
        executor::Input::Absorb { state: Some(_), .. } => "absorb".into(),
        executor::Input::Absorb { state: None, .. } => "absorb nothing".into(),
        executor::Input::TakeOverRequests { .. } => "inherit".into(),
        executor::Input::Superseded { by, generation, .. } => {
            format!("superseded by shard {by} at generation {}", generation.0)
        }
        other => format!("{other:?}"),
    }
}

fn known(known: &KnownShard) -> String {
    let leader = known.leader().map_or("nobody".to_owned(), |node| node.0.to_string());
    format!("{}, led by {leader}", described(known.descriptor()))
}

fn described(descriptor: &Descriptor) -> String {
    let nodes: Vec<String> = descriptor.replicas.iter().map(|(_, n)| n.0.to_string()).collect();
    let (shard, generation) = (descriptor.shard, descriptor.generation.0);
    let nodes = nodes.join(" ");
    format!("shard {shard} {} generation {generation} on {nodes}", part(&descriptor.arc))
}

fn part(arc: &RingArc) -> String {
    use keyspace::linear_hash::number_at;
    let number = |end: &[u8]| number_at(end).unwrap_or(0) >> 60;
    match arc.slots() {
        Some((first, end)) => format!("[{first}, {end})"),
        None => {
            let (start, end) = (number(arc.start().tail()), number(arc.end().tail()));
            format!("[{start:x}…, {end:x}…)")
        }
    }
}

fn tiles(routes: &Routes) -> String {
    let mut all = Vec::new();
    for route in routes.iter() {
        let tile = |place: usize| {
            let elsewhere =
                route.views[place].read().descriptor.replica_on(crate::node_of_one::HERE).is_none();
            let away = if elsewhere { " elsewhere" } else { "" };
            format!("{} {}{away}", route.shard(place), part(route.arc(place)))
        };
        let tiles: Vec<_> = (0..route.shards().len()).map(tile).collect();
        all.push(format!("{}: {}", route.keyspace.name, tiles.join(", ")));
    }
    if all.is_empty() { "none".into() } else { all.join("; ") }
}
