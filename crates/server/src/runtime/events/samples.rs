//! Samples of requests and transactions, for who watches them.

use keyspace::NodeId;
use node::event::{Event, EventKind, KEY_BYTES_SHOWN_MAX, SampledRequest};
use node::routing::route::Route;
use txn::coordinator::TxnTrace;

use super::{Events, name_of};
use crate::runtime::lookups::{self, Trace};
use crate::runtime::{NodeRuntime, boot_nanos};

impl Events {
    /// Whether steps of a transaction that begins now are to be shown.
    pub fn samples_transaction(&self) -> bool {
        self.is_sampling() && self.takes_sample(true, boot_nanos())
    }
}

impl NodeRuntime {
    /// A request for keys of one keyspace is served: shows it, if it is to be sampled. `traces` are
    /// of the lookups that were made for it; none: the full table was used.
    #[cold]
    pub fn sample_request<'k>(
        &self,
        route: &Route,
        is_write: bool,
        keys: impl IntoIterator<Item = &'k [u8]>,
        traces: &[Trace],
    ) {
        let mut keys = keys.into_iter();
        let Some(key) = keys.next() else { return };
        if !self.events.takes_sample(false, boot_nanos()) {
            return;
        }
        let shard = route.shard(route.place_of_key(key));
        let owns =
            |trace: &&Trace| trace.owner.as_ref().is_some_and(|known| known.shard() == shard);
        let found = traces.iter().find(owns).or(traces.first()).cloned();
        let found = found.unwrap_or_else(|| {
            let placement = route.keyspace.options.placement;
            let position = placement.position(route.keyspace.id, key);
            lookups::by_full_table(self, (&position).into())
        });
        self.sampled(EventKind::Request(Box::new(SampledRequest {
            is_write,
            keyspace: route.keyspace.name.clone(),
            key: key[..key.len().min(KEY_BYTES_SHOWN_MAX)].into(),
            keys: 1 + keys.count(),
            shard,
            leader: match &self.peers {
                None => Some(self.identity.node),
                Some(peers) => peers.lookup.shard(shard).and_then(|known| known.leader()),
            },
            route: found,
        })));
    }

    /// A coordinator here takes a step of a transaction whose steps are shown.
    #[cold]
    pub fn sample_transaction(&self, trace: TxnTrace) {
        self.sampled(EventKind::Transaction(Box::new(trace)));
    }

    fn sampled(&self, what: EventKind) {
        let keyspace = self.keyspace_of(&what);
        let group = what.sample_group();
        let (node, event_type) = (self.identity.node, what.event_type());
        let mut event = Event { node, at: self.clock.now(), what };
        let members = self.members();
        let name = |node: NodeId| name_of(node, &members);
        self.events.with(self, |broker, at| {
            broker.sample(at, event_type, keyspace.as_deref(), group, |time| {
                event.at = time;
                api::events::encode(&event, keyspace.as_deref(), &name)
            });
        });
    }
}
