//! A viewer of this node's stream, or of the cluster's: HTTP reads it.

use std::sync::Arc;

use api::ApiError;
use api::events::{EventStream, Wake, WatchRequest, Watching};
use keyspace::{Feature, NodeId, Timestamp};
use node::event::stream::{Output, Scope, VIEWERS_MAX, ViewerId, WatchOptions, WatchRefusal};

use super::{name_of, sources};
use crate::runtime::{NodeRuntime, boot_nanos};

struct Viewer {
    runtime: Arc<NodeRuntime>,
    id: ViewerId,
}

/// Begins a stream.
///
/// # Errors
/// As [`api::NodeService::watch`].
pub fn watch(
    runtime: &Arc<NodeRuntime>,
    name: &str,
    asked: &WatchRequest,
    wake: Wake,
) -> Result<Watching, ApiError> {
    let own = runtime.identity.node;
    let has_peers = runtime.peers.is_some();
    if asked.is_cluster && has_peers && !runtime.version.allows(Feature::Events) {
        let needed = Feature::Events.since();
        return Err(ApiError::VersionRefused {
            why: format!("events of the whole cluster need cluster version {needed}"),
        });
    }
    let others = if asked.is_cluster { sources(runtime) } else { Vec::new() };
    let members = runtime.members();
    let named = |node| (node, name_of(node, &members));
    let nodes = others.iter().map(|source| named(source.node));
    let nodes = [(own, name.to_owned())].into_iter().chain(nodes).collect();
    let options = WatchOptions {
        filter: asked.filter.clone(),
        scope: if asked.is_cluster { Scope::Cluster(others) } else { Scope::Node },
        cursor: asked.cursor,
        samples: asked.samples,
        until: asked.until,
    };
    let begun = runtime.events.with(runtime, |broker, at| broker.watch(at, options));
    let (id, cursor) = begun.map_err(|refusal| match refusal {
        WatchRefusal::TooMany => ApiError::TooManyViewers { viewers: VIEWERS_MAX },
        WatchRefusal::Stopping => ApiError::Stopping,
    })?;
    // Its reader looks once before it waits, so what has happened meanwhile is not lost.
    runtime.events.wakes.lock().insert(id, wake);
    let stream = Box::new(Viewer { runtime: runtime.clone(), id });
    Ok(Watching { node: own, name: name.to_owned(), cursor, nodes, stream })
}

impl EventStream for Viewer {
    fn take(&mut self, bytes_max: usize) -> Vec<Output> {
        let runtime = &self.runtime;
        runtime.events.with(runtime, |broker, at| broker.take(self.id, at, bytes_max))
    }

    fn now(&self) -> Timestamp {
        self.runtime.clock.now()
    }

    fn name_of(&self, node: NodeId) -> String {
        name_of(node, &self.runtime.members())
    }

    fn is_stuck(&self) -> bool {
        self.runtime.events.broker.lock().is_stuck(self.id, boot_nanos())
    }

    fn was_cut_off(&self) {
        self.runtime.events.cut_off.add(1);
        tracing::info!("cut off a viewer of events that had read nothing for a while");
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let runtime = &self.runtime;
        runtime.events.wakes.lock().remove(&self.id);
        runtime.events.with(runtime, |broker, _| broker.unwatch(self.id));
    }
}
