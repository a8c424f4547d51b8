//! Events of this node: each gets the node and its time, goes to the log, is remembered for a while
//! ([`node::event::Recent`]), and goes to who watches ([`node::event::stream`]).
//!
//! ```text
//!   any thread ── happened ──► log, Recent, Broker ──► wakes viewers: tasks of HTTP
//!   event loops ── sampled ──►              │  ▲
//!                                           ▼  │ ticks, members
//!                            frames of kind 9 to and from other nodes
//! ```
//!
//! While nobody asks for samples, event loops read one atomic that does not change.
//!
//! Lock order: under the broker's lock only the recorder's is taken. Frames are sent, and viewers
//! woken, after it is let go.

mod record;
mod samples;
mod viewer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use api::events::Wake;
use keyspace::{Feature, NodeId, ShardId};
use node::control::decisions::RecordedDecision;
use node::event::stream::{
    Broker, BrokerCounts, EventMessage, Moment, SamplePace, Source, ViewerId,
};
use node::event::{Event, EventKind, Recent, RecordState, Severity};
use node::replica::state::Content;
use parking_lot::Mutex;

use super::NodeRuntime;
use super::boot_nanos;
use super::peers::Peers;
use super::survey::name_of;
use crate::cluster::MemberState;
use crate::counters::Counter;
pub use record::RecordError;
use record::Recorder;
pub use viewer::watch;

/// The kind of frames that carry events, and what viewers want of them.
pub const KIND_EVENTS: u8 = 9;

/// See the front page of this module.
pub struct Events {
    recent: Mutex<Recent>,
    broker: Mutex<Broker>,
    wakes: Mutex<BTreeMap<ViewerId, Wake>>,
    /// The most samples a second that anybody wants.
    samples_wanted: AtomicU32,
    /// Whose turn it is ([`SamplePace`]), of requests and of transactions.
    turns: [AtomicU64; 2],
    needs_ticks: AtomicBool,
    cut_off: Counter,
    /// Writes events to files, if that is wanted.
    recorder: Mutex<Option<Recorder>>,
    is_recording: AtomicBool,
    record_state: Mutex<RecordState>,
    /// Events that were not written, for want of room.
    unrecorded: Counter,
}

impl Events {
    /// Those of a node that starts at this time. `seed` was drawn at random.
    pub fn new(node: NodeId, started: keyspace::Timestamp, seed: u64) -> Self {
        let (samples_wanted, turns, needs_ticks) = Default::default();
        let (recent, wakes, cut_off) = Default::default();
        let (recorder, is_recording, record_state, unrecorded) = Default::default();
        let broker = Mutex::new(Broker::new(node, started, seed));
        Self {
            recent,
            broker,
            wakes,
            samples_wanted,
            turns,
            needs_ticks,
            cut_off,
            recorder,
            is_recording,
            record_state,
            unrecorded,
        }
    }

    /// This node's recent decisions, the oldest first.
    pub fn decisions(&self) -> Vec<RecordedDecision> {
        self.recent.lock().decisions()
    }

    /// How many events only the log has.
    pub fn forgotten(&self) -> u64 {
        self.recent.lock().forgotten()
    }

    /// What was counted.
    pub fn counts(&self) -> BrokerCounts {
        self.broker.lock().counts()
    }

    /// How many viewers there are: here, and on other nodes.
    pub fn viewers(&self) -> (usize, usize) {
        self.broker.lock().viewers()
    }

    /// How many viewers were cut off.
    pub fn cut_off(&self) -> u64 {
        self.cut_off.get()
    }

    /// Whether anybody asks for samples.
    #[inline]
    pub fn is_sampling(&self) -> bool {
        self.samples_wanted.load(Ordering::Relaxed) > 0
    }

    /// Whether a request, or a transaction, at this time is to be sampled.
    fn takes_sample(&self, is_transaction: bool, nanos: u64) -> bool {
        let pace = SamplePace::new(self.samples_wanted.load(Ordering::Relaxed));
        let Some(pace) = pace else { return false };
        let next = |turn| pace.take(turn, nanos);
        let turn = &self.turns[usize::from(is_transaction)];
        turn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Keeps events in a directory from now on, and takes those from there that an earlier life of
    /// the node has kept. Before anybody watches.
    ///
    /// # Errors
    /// If it cannot be used; nothing is recorded then.
    pub fn begin_record(
        &self,
        dir: &Path,
        bytes_max: u64,
        own: NodeId,
        now: keyspace::Timestamp,
    ) -> Result<(), RecordError> {
        let record::Found { events, state, recorder } = record::open(dir, bytes_max, own, now)?;
        let mut broker = self.broker.lock();
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        for event in broker.restore(events, bytes_max) {
            self.note_unrecorded(recorder.write(event.at, &event.body));
        }
        *self.record_state.lock() = state;
        *self.recorder.lock() = Some(recorder);
        self.is_recording.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What an earlier life of the node has kept.
    pub fn record_state(&self) -> RecordState {
        *self.record_state.lock()
    }

    /// How many events were not recorded, for want of room.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.get()
    }

    /// Nothing more will happen: writes the end of the record.
    pub fn end_record(&self, runtime: &NodeRuntime) {
        if let Some(recorder) = self.recorder.lock().take() {
            recorder.stop(runtime.clock.now());
        }
    }

    /// Under the broker's lock, so that lines are in the order of events.
    fn record(&self, at: keyspace::Timestamp, line: &str) {
        if self.is_recording.load(Ordering::Relaxed)
            && let Some(recorder) = &*self.recorder.lock()
        {
            self.note_unrecorded(recorder.write(at, line));
        }
    }

    fn note_unrecorded(&self, is_written: bool) {
        if !is_written {
            self.unrecorded.add(1);
        }
    }

    /// The node stops: streams end.
    pub fn stop(&self, runtime: &NodeRuntime) {
        self.with(runtime, |broker, _| broker.stop());
    }

    /// Takes a frame of another node.
    pub fn take_frame(&self, runtime: &NodeRuntime, from: NodeId, body: &[u8]) {
        match EventMessage::decode(body) {
            Ok(message) => self.with(runtime, |broker, at| broker.receive(from, message, at)),
            Err(why) => {
                let from = from.0;
                tracing::warn!("cannot read what node {from:016x} says about events: {why}");
            }
        }
    }

    /// A link was made or lost.
    pub fn link_changed(&self, runtime: &NodeRuntime, node: NodeId, is_up: bool) {
        self.with(runtime, |broker, at| broker.link_changed(node, at));
        runtime.happened(EventKind::Link { node, is_up });
    }

    /// Lets time pass, and looks at members: at each of the node's ticks.
    pub fn tick(&self, runtime: &NodeRuntime) {
        if self.needs_ticks.load(Ordering::Relaxed) {
            let sources = sources(runtime);
            self.with(runtime, |broker, at| {
                broker.set_members(&sources, at);
                broker.tick(at);
            });
        }
    }

    /// Does something with the broker; then sends what it wants to be sent, and wakes viewers.
    fn with<R>(&self, runtime: &NodeRuntime, act: impl FnOnce(&mut Broker, Moment) -> R) -> R {
        let at = Moment { now: runtime.clock.now(), nanos: boot_nanos() };
        let (result, messages, woken) = {
            let mut broker = self.broker.lock();
            let result = act(&mut broker, at);
            self.samples_wanted.store(broker.samples_wanted(), Ordering::Relaxed);
            self.needs_ticks.store(broker.needs_ticks(), Ordering::Relaxed);
            (result, broker.take_messages(), broker.take_woken())
        };
        if let (Some(peers), false) = (&runtime.peers, messages.is_empty()) {
            self.send(peers, &messages);
        }
        if !woken.is_empty() {
            let wakes = self.wakes.lock();
            woken.iter().filter_map(|id| wakes.get(id)).for_each(|wake| wake());
        }
        result
    }

    fn send(&self, peers: &Peers, messages: &[(NodeId, EventMessage)]) {
        let mut bytes = Vec::new();
        for (node, message) in messages {
            bytes.clear();
            message.encode(&mut bytes);
            if peers.cluster.send(*node, KIND_EVENTS, &[&bytes]).is_err() {
                self.broker.lock().not_sent(*node, message);
            }
        }
        peers.cluster.flush();
    }
}

/// The other nodes, as members know them. A node that cannot tell its events is none.
fn sources(runtime: &NodeRuntime) -> Vec<Source> {
    if !runtime.version.allows(Feature::Events) {
        return Vec::new();
    }
    let (members, own) = (runtime.members(), runtime.identity.node);
    let others = members
        .iter()
        .filter(|member| member.node != own && member.state != MemberState::Left)
        .map(|member| Source { node: member.node, is_up: member.is_up() });
    others.collect()
}

impl NodeRuntime {
    /// Records, logs and shows an event.
    pub fn happened(&self, what: EventKind) {
        let keyspace = self.keyspace_of(&what);
        let (node, event_type) = (self.identity.node, what.event_type());
        let mut event = Event { node, at: self.clock.now(), what };
        log(&event);
        self.events.with(self, |broker, at| {
            broker.event(at, event_type, keyspace.as_deref(), |time| {
                event.at = time;
                let line = api::events::encode(&event, keyspace.as_deref(), &no_names);
                self.events.record(time, &line);
                line
            });
        });
        self.events.recent.lock().add(event);
    }

    /// The name of the keyspace that an event is about.
    fn keyspace_of(&self, what: &EventKind) -> Option<Box<str>> {
        let routes = self.routing.routes();
        match what {
            EventKind::TableGrowing { keyspace, .. } | EventKind::TableShrinking { keyspace } => {
                Some(keyspace.clone())
            }
            EventKind::Request(request) => Some(request.keyspace.clone()),
            EventKind::Transaction(trace) => {
                routes.by_id(trace.keyspace).map(|route| route.keyspace.name.clone())
            }
            other => {
                let shard = other.shard()?;
                match routes.of_shard(shard) {
                    Some(route) => Some(route.keyspace.name.clone()),
                    None => self.keyspace_without_route(shard),
                }
            }
        }
    }

    /// The name of the keyspace of a shard here that no route leads to yet, if the catalogue is
    /// here.
    fn keyspace_without_route(&self, shard: ShardId) -> Option<Box<str>> {
        let id = self.routing.view(shard)?.read().descriptor.keyspace();
        match &self.routing.view(ShardId(0))?.read().content {
            Content::System(system) => Some(system.catalogue.by_id(id)?.name.clone()),
            Content::Keys(_) => None,
        }
    }
}

/// Events but samples name nodes by their ids.
fn no_names(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

/// Writes an event to the log.
fn log(event: &Event) {
    match event.what.severity() {
        Severity::Debug => tracing::debug!("{event}"),
        Severity::Info => tracing::info!("{event}"),
        Severity::Warn => tracing::warn!("{event}"),
        Severity::Error => tracing::error!("{event}"),
    }
}
