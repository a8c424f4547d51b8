//! Who watches a simulation: the stream of events of all its nodes, from one broker.
//!
//! The simulator's nodes are in one process, so that there is nothing to merge: their events come
//! in the order of virtual time, and are stamped with it, whatever a skewed clock shows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::ApiError;
use api::events::{EventStream, Wake, WatchRequest, Watching, encode};
use keyspace::{NodeId, Timestamp};
use node::event::stream::{
    Broker, Cursor, Moment, Output, Scope, VIEWERS_MAX, ViewerId, WatchOptions, WatchRefusal,
};
use node::event::{Event, EventKind};

/// The stream of one simulation, from its beginning to its end.
pub struct EventsOfAll {
    broker: Mutex<Broker>,
    wakes: Mutex<BTreeMap<ViewerId, Wake>>,
    names: Mutex<BTreeMap<NodeId, String>>,
    own: NodeId,
    now: AtomicU64,
    began: Instant,
    cut_off: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind it is whole between two calls.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventsOfAll {
    /// Of a simulation that begins now. `own` stands for all of it.
    pub fn new(own: NodeId, now: Timestamp, seed: u64) -> Self {
        Self {
            broker: Mutex::new(Broker::new(own, now, seed)),
            wakes: Mutex::default(),
            names: Mutex::default(),
            own,
            now: AtomicU64::new(now.0),
            began: Instant::now(),
            cut_off: AtomicU64::new(0),
        }
    }

    fn moment(&self) -> Moment {
        let nanos = self.began.elapsed().as_nanos() as u64;
        Moment { now: Timestamp(self.now.load(Ordering::Relaxed)), nanos }
    }

    /// Virtual time is this.
    pub fn set_now(&self, now: Timestamp) {
        self.now.store(now.0, Ordering::Relaxed);
    }

    /// Virtual time.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
    }

    /// Nodes are called so.
    pub fn name(&self, nodes: impl IntoIterator<Item = (NodeId, String)>) {
        lock(&self.names).extend(nodes);
    }

    /// Whether anybody wants samples.
    pub fn wants_samples(&self) -> bool {
        lock(&self.broker).samples_wanted() > 0
    }

    /// Events have happened, each about a keyspace or none.
    pub fn happened(&self, events: Vec<(Event, Option<Box<str>>)>) {
        for (mut event, keyspace) in events {
            let (event_type, keyspace) = (event.what.event_type(), keyspace.as_deref());
            let is_sample = matches!(event.what, EventKind::Request(_) | EventKind::Transaction(_));
            let group = event.what.sample_group();
            self.with(|broker, at| {
                let encoded = |time| {
                    event.at = time;
                    encode(&event, keyspace, &|node| self.name_of(node))
                };
                match is_sample {
                    true => broker.sample(at, event_type, keyspace, group, encoded),
                    false => broker.event(at, event_type, keyspace, encoded),
                }
            });
        }
    }

    /// The simulation ends: so do streams.
    pub fn stop(&self) {
        self.with(|broker, _| broker.stop());
    }

    /// How many watch, how many events there were, and how many viewers were cut off.
    pub fn counts(&self) -> (usize, u64, u64) {
        let broker = lock(&self.broker);
        (broker.viewers().0, broker.counts().events, self.cut_off.load(Ordering::Relaxed))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Broker, Moment) -> R) -> R {
        let at = self.moment();
        let (result, woken) = {
            let mut broker = lock(&self.broker);
            (act(&mut broker, at), broker.take_woken())
        };
        if !woken.is_empty() {
            let wakes = lock(&self.wakes);
            woken.iter().filter_map(|id| wakes.get(id)).for_each(|wake| wake());
        }
        result
    }

    fn name_of(&self, node: NodeId) -> String {
        let known = lock(&self.names).get(&node).cloned();
        known.unwrap_or_else(|| format!("{:016x}", node.0))
    }

    /// Begins a stream of all nodes, whichever scope is asked for.
    ///
    /// # Errors
    /// If too many watch, or the simulation has ended.
    pub fn watch(self: &Arc<Self>, asked: &WatchRequest, wake: Wake) -> Result<Watching, ApiError> {
        // A cursor of later than now is of a simulation before this one: all is new to its viewer.
        let is_of_before = |cursor: &Cursor| cursor.at > self.now();
        let cursor = asked.cursor.map(|at| if is_of_before(&at) { Cursor::START } else { at });
        let options = WatchOptions {
            filter: asked.filter.clone(),
            scope: Scope::Node,
            cursor,
            samples: asked.samples,
            until: asked.until,
        };
        let begun = self.with(|broker, at| broker.watch(at, options));
        let (id, cursor) = begun.map_err(|refusal| match refusal {
            WatchRefusal::TooMany => ApiError::TooManyViewers { viewers: VIEWERS_MAX },
            WatchRefusal::Stopping => ApiError::Stopping,
        })?;
        // Its reader looks once before it waits, so what has happened meanwhile is not lost.
        lock(&self.wakes).insert(id, wake);
        let nodes = lock(&self.names).iter().map(|(node, name)| (*node, name.clone())).collect();
        let stream = Box::new(Viewer { all: self.clone(), id });
        Ok(Watching { node: self.own, name: self.name_of(self.own), cursor, nodes, stream })
    }
}

struct Viewer {
    all: Arc<EventsOfAll>,
    id: ViewerId,
}

impl EventStream for Viewer {
    fn take(&mut self, bytes_max: usize) -> Vec<Output> {
        self.all.with(|broker, at| broker.take(self.id, at, bytes_max))
    }

    fn now(&self) -> Timestamp {
        self.all.now()
    }

    fn name_of(&self, node: NodeId) -> String {
        self.all.name_of(node)
    }

    fn is_stuck(&self) -> bool {
        let nanos = self.all.moment().nanos;
        lock(&self.all.broker).is_stuck(self.id, nanos)
    }

    fn was_cut_off(&self) {
        self.all.cut_off.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        lock(&self.all.wakes).remove(&self.id);
        self.all.with(|broker, _| broker.unwatch(self.id));
    }
}
