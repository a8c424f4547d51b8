//! Judges whether this node is ready, and names what it waits for.
//!
//! A node is ready when each shard that is here serves, or its leader is known, and the catalogue,
//! or a cached one, is here. A node that has just joined waits for the replicas that it is to have.

use std::collections::BTreeSet;

use keyspace::{NodeId, ShardId};

use super::{NodeRuntime, View};

/// At most so many unreached members are named.
const UNREACHED_MAX: usize = 8;

/// Why the node does not serve yet, or any more, for people; `None` if it does.
pub fn not_ready(runtime: &NodeRuntime) -> Option<String> {
    if runtime.lifecycle.is_stopping() {
        return Some("the node is stopping".into());
    }
    let is_ready = runtime.lifecycle.is_ready();
    (!is_ready).then(|| format!("the node is starting: {}", why_not_serving(runtime)))
}

/// Whether all local shards serve, or know their leaders; and the catalogue, or a cached one, is
/// here.
pub fn is_serving(runtime: &NodeRuntime) -> bool {
    let routes = runtime.routing.routes();
    let is_known = routes.iter().next().is_some() || runtime.log.facts().full;
    let serves = |view: &View| view.read().serving.at_all();
    if is_known && routes.iter().flat_map(|route| &route.views).all(serves) {
        return true;
    }
    is_known
        && runtime.peers.is_some()
        && missing(runtime).is_empty()
        && without_leader(runtime).is_empty()
}

/// What the node waits for until [`is_serving`], for people: also the members that it tries to
/// reach, and why that fails.
pub fn why_not_serving(runtime: &NodeRuntime) -> String {
    if runtime.routing.routes().iter().next().is_none() {
        let why = "this node has not received the catalogue of keyspaces yet";
        return with_unreached(runtime, why.into(), None);
    }
    let missing = missing(runtime).len();
    if missing > 0 {
        let why = format!("snapshots of shards are on their way to this node: {missing}");
        return with_unreached(runtime, why, None);
    }
    let shards = without_leader(runtime);
    let named: Vec<String> = shards.iter().take(8).map(ToString::to_string).collect();
    let why = format!(
        "no leader yet of shard {}: a majority of a shard's replicas must be up",
        named.join(", ")
    );
    let views: Vec<View> = shards.iter().filter_map(|shard| runtime.routing.view(*shard)).collect();
    let nodes_of = |view: &View| {
        let replicas = view.read().descriptor.replicas.clone();
        replicas.into_iter().map(|(_, node)| node)
    };
    with_unreached(runtime, why, Some(&views.iter().flat_map(nodes_of).collect()))
}

/// Adds to why the node waits which of these members, or of all, it does not reach.
pub(super) fn with_unreached(
    runtime: &NodeRuntime,
    why: String,
    among: Option<&BTreeSet<NodeId>>,
) -> String {
    let unreached = runtime.peers.as_ref().map(|peers| peers.cluster.unreached(among));
    let mut unreached = unreached.unwrap_or_default();
    let more = unreached.len().saturating_sub(UNREACHED_MAX);
    unreached.truncate(UNREACHED_MAX);
    match (unreached.is_empty(), more) {
        (true, _) => why,
        (false, 0) => format!("{why}. Not reached: {}", unreached.join("; ")),
        (false, more) => {
            format!("{why}. Not reached: {}; and {more} more", unreached.join("; "))
        }
    }
}

/// Shards of which this node is to have replicas, and has none yet: those that name it, and while a
/// cluster grows those that have too few. A keyspace may ask for more replicas than there are
/// nodes: the node does not wait for those.
fn missing(runtime: &NodeRuntime) -> Vec<ShardId> {
    let own = runtime.identity.node;
    let nodes: Vec<NodeId> = runtime.routing.view(ShardId(0)).map_or_else(Vec::new, |system| {
        let state = system.read();
        state.descriptor.replicas.iter().map(|(_, node)| *node).collect()
    });
    let Some(place) = nodes.iter().position(|node| *node == own) else {
        return Vec::new();
    };
    let room = room_for_replicas(runtime).max(nodes.len());
    let comes = |shard: ShardId, replicas: usize| {
        // As the balancer has it: as many as there is room for, but an odd number.
        let most = replicas.min(room);
        let most = most - usize::from(most.is_multiple_of(2));
        let known = runtime.peers.as_ref().and_then(|peers| peers.lookup.shard(shard));
        known.is_none_or(|known| {
            let descriptor = known.descriptor();
            descriptor.replica_on(own).is_some() || descriptor.replicas.len() < most
        })
    };
    let mut missing = Vec::new();
    for route in runtime.routing.routes().iter() {
        let replicas = usize::from(route.keyspace.options.replicas);
        if replicas > place {
            let is_absent = |shard: &ShardId| !runtime.routing.views().contains(*shard);
            let shards = route.shards().iter().copied().filter(is_absent);
            missing.extend(shards.filter(|shard| comes(*shard, replicas)));
        }
    }
    missing
}

/// Members that are up and take replicas.
fn room_for_replicas(runtime: &NodeRuntime) -> usize {
    let members = runtime.members();
    let up = members.iter().filter(|member| member.is_up());
    up.filter(|member| runtime.admin_states.of(member.node).takes_replicas()).count()
}

/// Shards here without a known leader.
fn without_leader(runtime: &NodeRuntime) -> Vec<ShardId> {
    let mut found = Vec::new();
    runtime.each_executor(|executor| {
        let shards = executor.shards().filter(|shard| shard.leader().is_none());
        found.extend(shards.map(|shard| shard.id()));
    });
    found
}
