//! What a node does for the replicas and clients of other nodes, and they for its own.
//!
//! ```text
//!   lane's turn ──► messages, letters ──► one frame for each node ──► links
//!   links ──► frames of a turn ──► inputs, by lane ──► lanes, one turn each
//!   ticker: every 50 ms a tick to all lanes; now and then, replicas to be added
//! ```
//!
//! If a message's replica is not here and the message brings the shard's birth, the replica begins.
//! The head of a snapshot waits for its state (`snapshots`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use keyspace::{Descriptor, KeyspaceId, NodeId, ReplicaId, ShardId};
use node::birth;
use node::catalogue::System;
use node::lane::{Effects, Input};
use node::letter::Letter;
use node::state::{Content, ShardState};
use parking_lot::{Condvar, Mutex};
use replication::Message;

use super::digests::Digests;
use super::image::Image;
use super::lookup::{KIND_LOOKUP, Lookup};
use super::lookups::Lookups;
use super::mailbag::{self, Bag, Item, Mailbags};
use super::placement::Placement;
use super::snapshots::Snapshots;
use super::tallies::{Tallies, Tally};
use super::{Hub, NOBODY, News, View};
use crate::cluster::{Cluster, Frames};

/// The kind of frames that carry messages of replicas, and letters.
pub const KIND_MAIL: u8 = 2;
/// The kind of frames that carry snapshots.
pub const KIND_SNAPSHOT: u8 = 3;

/// How often lanes are told that time passes. [`replication::Limits`] counts in these.
const TICK: Duration = Duration::from_millis(50);
/// Every so many ticks a node looks whether its disk is slow …
const DISK_TICKS: u64 = 4;
/// … leaders whether their shards want more replicas …
const PLACE_TICKS: u64 = 5;
/// … a node without the catalogue whether that has changed …
const IMAGE_TICKS: u64 = 4;
/// … tables of descriptors are compared …
const LOOKUP_TICKS: u64 = 4;
/// … whether one should be elsewhere …
const DECIDE_TICKS: u64 = 20;
/// … and whether it is another's turn to lead.
const SPREAD_TICKS: u64 = 40;
/// … and people are told of replicas that wait to be replaced.
const REMIND_TICKS: u64 = 600;
/// A node that has been up for less is not handed anything.
const SETTLED: Duration = Duration::from_secs(3);

/// What a node of a cluster has beside its lanes.
pub struct Peers {
    /// The other nodes.
    pub cluster: Arc<Cluster>,
    /// States of shards on their way.
    pub snapshots: Snapshots,
    /// What is known of the catalogue without a replica of it.
    pub(super) image: Image,
    /// Where shards are.
    pub lookup: Lookup,
    /// Lookups that a request can name.
    pub lookups: Lookups,
    /// Where replicas should be.
    pub placement: Placement,
    /// States that are digested.
    pub digests: Digests,
    /// What is counted of all that.
    pub tallies: Tallies,
    /// What has come in the net's turn, by lane.
    come: Mutex<Vec<Vec<Input>>>,
    stopping: Mutex<bool>,
    wake: Condvar,
}

impl Peers {
    /// Of a node with so many lanes. `seed` was drawn at random.
    pub fn new(
        cluster: Arc<Cluster>,
        node: NodeId,
        lanes: usize,
        placement: Placement,
        seed: u64,
    ) -> Self {
        let come = Mutex::new((0..lanes).map(|_| Vec::new()).collect());
        let (snapshots, lookup) = (Snapshots::new(seed), Lookup::new(seed));
        let lookups = Lookups::new(node, seed);
        let (image, digests, tallies) = Default::default();
        let (stopping, wake) = Default::default();
        Self {
            cluster,
            snapshots,
            image,
            lookup,
            lookups,
            placement,
            digests,
            tallies,
            come,
            stopping,
            wake,
        }
    }

    /// Those above repeat what is lost; what is too long for a node is logged where links are.
    fn send(&self, node: NodeId, bag: Bag<'_>) {
        let parts = [bag.bytes];
        let _lost = match bag.is_urgent {
            true => self.cluster.send_urgent(node, KIND_MAIL, &parts),
            false => self.cluster.send(node, KIND_MAIL, &parts),
        };
    }

    /// Has the ticker and the snapshots' threads end.
    pub fn stop(&self) {
        *self.stopping.lock() = true;
        self.wake.notify_all();
        self.snapshots.stop();
        self.digests.stop();
    }

    /// Waits for the next tick; whether to end.
    fn wait(&self) -> bool {
        let mut stopping = self.stopping.lock();
        if !*stopping {
            self.wake.wait_for(&mut stopping, TICK);
        }
        *stopping
    }
}

impl Hub {
    /// Sends what a lane's turn has for other nodes.
    pub(super) fn post(&self, effects: &mut Effects, bags: &mut Mailbags) {
        for (shard, refused) in effects.refused.drain(..) {
            tracing::warn!("shard {shard}: a message that makes no sense was ignored: {refused}");
        }
        if let Some(Peers { digests, .. }) = &self.peers {
            effects.digests.drain(..).for_each(|digesting| digests.add(digesting));
            effects.findings.iter().for_each(|finding| self.found(digests, finding));
            for (shard, replica, why) in effects.ended.drain(..) {
                self.ended(digests, shard, replica, why);
            }
        }
        self.learn(effects.known.drain(..));
        if effects.messages.is_empty() && effects.letters.is_empty() {
            return;
        }
        let Some(peers) = &self.peers else {
            effects.messages.clear();
            effects.letters.clear();
            return;
        };
        let mut send = |node: NodeId, bag: Bag<'_>| peers.send(node, bag);
        let mut tally = Tally::default();
        for envelope in effects.messages.drain(..) {
            tally.message(&envelope.message);
            match envelope.message.snapshot() {
                Some(_) => peers.snapshots.ask(envelope),
                None => bags.message(&envelope, &mut send),
            }
        }
        for (node, letter) in effects.letters.drain(..) {
            tally.letter(&letter);
            bags.letter(node, &letter, &mut send);
        }
        peers.tallies.sent.add(&tally);
        if bags.send(&mut send) {
            peers.cluster.flush();
        }
    }

    /// Tells a node that there is no room for what it has asked.
    pub(super) fn answer_unable(&self, node: NodeId, answer: &Letter) {
        self.send_letter(node, answer);
    }

    /// Sends one letter, beside all that lanes send.
    pub(super) fn send_letter(&self, node: NodeId, answer: &Letter) {
        let Some(peers) = &self.peers else { return };
        let mut bags = Mailbags::default();
        // If it is not linked any more, it asks again.
        let mut send = |node: NodeId, bag: Bag<'_>| peers.send(node, bag);
        let mut tally = Tally::default();
        tally.letter(answer);
        peers.tallies.sent.add(&tally);
        bags.letter(node, answer, &mut send);
        bags.send(&mut send);
        peers.cluster.flush();
    }

    /// A message for a replica that may not be here.
    fn begin_replica(&self, id: ShardId, record: &[u8], message: &Message) {
        if self.views.lock().contains_key(&id) {
            // Or another replica of the shard is, which its group has gone on without.
            return self.tell_known(id);
        }
        let start = match birth::by_message(record, message.to(), self.node_id, self.hasher) {
            Ok(start) => start,
            Err(error) => {
                tracing::warn!("shard {id}: its birth, from another node, is unreadable: {error}");
                return;
            }
        };
        if !self.may_begin(id, start.replica) {
            return;
        }
        let (view, descriptor) = (start.view.clone(), start.view.read().descriptor.clone());
        let keyspace = descriptor.keyspace();
        if self.peers.as_ref().is_some_and(|peers| peers.lookup.has_dropped(keyspace)) {
            return;
        }
        // SAFETY G11: it is cut off from another shard whose replica here has not come so far yet,
        // and will bring it; or has just brought it. In this order: that one's arc shrinks first.
        let overlaps = |view: &View| view.read().descriptor.arc.overlaps(&descriptor.arc);
        let is_gone = || self.lanes[self.lane_of(id)].with(self, |l| l.absorbed_by(id).is_some());
        if self.views.lock().values().any(overlaps) || self.is_being_born(id) || is_gone() {
            return;
        }
        {
            let mut views = self.views.lock();
            if is_dropped(views.get(&ShardId(0)), keyspace) || views.contains_key(&id) {
                return;
            }
            views.insert(id, view.clone());
        }
        tracing::debug!("a replica of shard {id} begins here");
        self.post_news([News::Retiled(keyspace)]);
        self.submit(id, Input::Create(start));
        // The message may be of the past, and the replica's group have gone on without it.
        self.tell_known(id);
        let is_forgotten =
            self.peers.as_ref().is_some_and(|peers| peers.lookup.has_dropped(keyspace));
        let mut views = self.views.lock();
        if is_forgotten || is_dropped(views.get(&ShardId(0)), keyspace) {
            // Meanwhile: its end may have come before its beginning.
            views.remove(&id);
            drop(views);
            self.submit(id, Input::Drop { shard: id });
        }
    }

    /// The ticker: tells lanes that time passes, until [`Peers::stop`].
    pub fn run_ticks(self: &Arc<Self>) {
        let Some(peers) = &self.peers else { return };
        let mut ticks = 0u64;
        while !peers.wait() {
            self.clock.observe_millis(self.millis());
            for lane in &self.lanes {
                lane.submit(self, [Input::Tick], NOBODY, &mut Vec::new());
            }
            ticks += 1;
            if ticks.is_multiple_of(IMAGE_TICKS) {
                self.renew_image(peers);
            }
            if ticks.is_multiple_of(LOOKUP_TICKS) {
                self.tick_lookup(peers);
            }
            self.tick_lookups(peers, ticks);
            if ticks.is_multiple_of(PLACE_TICKS) {
                self.add_replicas(peers);
            }
            if ticks.is_multiple_of(REMIND_TICKS) {
                self.remind();
            }
            let has_stalled = ticks.is_multiple_of(DISK_TICKS) && self.watch_disk();
            if has_stalled || ticks.is_multiple_of(DECIDE_TICKS) {
                self.place(peers);
            }
            if ticks.is_multiple_of(SPREAD_TICKS) && !peers.placement.balances() {
                self.spread_leaders(peers);
            }
            if !self.postponed.lock().is_empty() {
                // By way of the news, so that all of it goes in its order.
                self.post_news([News::Late]);
            }
            self.spread_news();
        }
    }

    /// Has shards that this node leads get the replicas that their keyspaces ask for: the system
    /// shard on the first members, all others where that is.
    fn add_replicas(&self, peers: &Peers) {
        let Some(system) = self.views.lock().get(&ShardId(0)).cloned() else { return };
        let (wanted, system_nodes) = {
            let state = system.read();
            let Content::System(System { catalogue, .. }) = &state.content else { return };
            let replicas = catalogue.iter().map(|keyspace| keyspace.options.replicas);
            let voters = state.members.voters.iter();
            let nodes = voters.filter_map(|replica| state.descriptor.node_of(*replica));
            (usize::from(replicas.max().unwrap_or(1)), nodes.collect::<Vec<_>>())
        };
        let members = peers.cluster.members();
        let up = members.iter().filter(|member| member.is_up()).map(|member| member.node);
        let standings = self.standings();
        let up: Vec<_> = up.filter(|node| standings.of(*node).takes_replicas()).collect();
        self.grow(ShardId(0), &system, wanted, &up);
        let system_nodes: Vec<NodeId> =
            system_nodes.into_iter().filter(|node| up.contains(node)).collect();
        for route in self.routes().iter() {
            let wanted = usize::from(route.keyspace.options.replicas).min(system_nodes.len());
            for (shard, view) in route.shards().iter().zip(&route.views) {
                self.grow(*shard, view, wanted, &system_nodes);
            }
        }
    }

    /// Leads as few shards as it can: before it stops. Returns when others lead, or after
    /// `patience`.
    pub fn hand_over(&self, patience: Duration) {
        let Some(peers) = &self.peers else { return };
        let until = Instant::now() + patience;
        let mut asked = BTreeSet::new();
        loop {
            let mut led = 0;
            for (shard, heirs) in self.heirs(peers) {
                led += 1;
                if asked.insert(shard) {
                    self.submit(shard, Input::Transfer { shard, to: heirs[0] });
                }
            }
            if led == 0 || Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Shards that this node leads, each with the replicas that could take over.
    pub(super) fn heirs(&self, peers: &Peers) -> Vec<(ShardId, Vec<ReplicaId>)> {
        let mut found = Vec::new();
        for lane in &self.lanes {
            found.extend(lane.with(self, |lane| {
                let may = |node| peers.cluster.is_connected(node);
                let heirs = lane.shards().map(|shard| (shard.id(), shard.heirs(may)));
                heirs.filter(|(_, heirs)| !heirs.is_empty()).collect::<Vec<_>>()
            }));
        }
        found
    }

    /// Whether a node has been up for a while.
    pub(super) fn is_settled(&self, node: NodeId) -> bool {
        let members = self.members();
        let member = members.iter().find(|member| member.node == node);
        member.is_some_and(|m| m.is_up() && m.since.elapsed() >= SETTLED)
    }

    /// Hands shards over to those of their replicas whose turn it is, so that every node leads its
    /// part, when their nodes have been there for a while.
    fn spread_leaders(&self, peers: &Peers) {
        let members = peers.cluster.members();
        let wrong = self.nodes_with_wrong_clocks();
        let slow = self.nodes_with_slow_disks(&members);
        let is_unfit = |node: NodeId| wrong.contains(&node) || slow.contains(&node);
        let may_lead = |node: NodeId| !is_unfit(node) && !self.is_leaving(node);
        let settled = |node: NodeId| self.is_settled(node) && may_lead(node);
        for (shard, heirs) in self.heirs(peers) {
            let Some(view) = self.views.lock().get(&shard).cloned() else { continue };
            let state = view.read();
            let descriptor = &state.descriptor;
            // SAFETY G12: with a clock far off it leads as little as it can.
            let is_far = self.clocks.is_far();
            // Who leads next would not know what was asked for.
            if self.is_to_take_in(shard) && !is_far {
                continue;
            }
            let fits = |heir: &ReplicaId| is_far || birth::stands_first(descriptor, *heir);
            let heir = heirs.into_iter().find(fits);
            let heir = heir.filter(|heir| descriptor.node_of(*heir).is_some_and(settled));
            drop(state);
            if let Some(to) = heir {
                self.submit(shard, Input::Transfer { shard, to });
            }
        }
    }

    /// Adds replicas on the first of `nodes` that have none, up to an odd number (SAFETY G20).
    fn grow(&self, shard: ShardId, view: &View, wanted: usize, nodes: &[NodeId]) {
        let (replicas, generation) = {
            let Descriptor { replicas, generation, .. } = &view.read().descriptor;
            (replicas.clone(), *generation)
        };
        if replicas.is_empty() || replicas.len() >= wanted {
            return;
        }
        let mut new: Vec<NodeId> = nodes.to_vec();
        new.retain(|node| replicas.iter().all(|(_, at)| at != node));
        new.truncate(wanted - replicas.len());
        if (replicas.len() + new.len()).is_multiple_of(2) {
            new.pop();
        }
        if new.is_empty() {
            return;
        }
        // Whoever does not lead ignores it.
        let remove = Vec::new();
        self.submit(shard, Input::Exchange { shard, generation, add: new, remove });
    }
}

/// Whether a keyspace was dropped, as far as the catalogue here knows.
pub(super) fn is_dropped(system: Option<&View>, keyspace: KeyspaceId) -> bool {
    let Some(view) = system else { return false };
    let state: &ShardState = &view.read();
    let Content::System(System { catalogue, .. }) = &state.content else { return false };
    catalogue.has_dropped(keyspace)
}

/// The hub, as the cluster knows it.
pub struct HubFrames(pub Arc<Hub>);

impl HubFrames {
    fn peers(&self) -> &Peers {
        self.0.peers.as_ref().expect("a hub that is attached has peers")
    }

    fn for_lane(&self, shard: ShardId, input: Input) {
        self.peers().come.lock()[self.0.lane_of(shard)].push(input);
    }

    fn tell_lanes(&self, input: impl Fn() -> Input) {
        for lane in &self.0.lanes {
            lane.submit(&self.0, [input()], NOBODY, &mut Vec::new());
        }
    }

    /// Takes what is in a frame to its lanes' inboxes, up to the first item that cannot be read.
    fn mail(&self, from: NodeId, body: &mut Bytes, tally: &mut Tally) {
        loop {
            match mailbag::take(body) {
                Ok(None) => return,
                Ok(Some(Item::Message { shard, birth, message })) => {
                    tally.message(&message);
                    if let Some(birth) = birth {
                        // In its order among what has come: the lane may drop it before.
                        self.turn_ended();
                        self.0.begin_replica(shard, &birth, &message);
                    }
                    let message = Box::new(message);
                    self.for_lane(shard, Input::Message { from, shard, message });
                }
                Ok(Some(Item::Letter(letter))) => {
                    tally.letter(&letter);
                    self.0.asked_by_letter(&letter);
                    self.for_lane(letter.shard(), Input::Letter { from, letter });
                }
                Err(why) => {
                    tracing::warn!("mail of node {:016x} cannot be read: {why}", from.0);
                    return;
                }
            }
        }
    }
}

impl Frames for HubFrames {
    fn frame(&self, from: NodeId, kind: u8, mut body: Bytes) {
        match kind {
            KIND_MAIL => {
                let mut tally = Tally::default();
                self.mail(from, &mut body, &mut tally);
                self.peers().tallies.received.add(&tally);
            }
            KIND_SNAPSHOT => self.peers().snapshots.come(from, body),
            KIND_LOOKUP => self.0.lookup_came(self.peers(), from, &body),
            _ => tracing::warn!("node {:016x} has sent a frame of kind {kind}", from.0),
        }
    }

    fn turn_ended(&self) {
        let mut come = self.peers().come.lock();
        // Lanes judge by the clock what other nodes' clients read.
        self.0.clock.observe_millis(self.0.millis());
        for (lane, inputs) in come.iter_mut().enumerate().filter(|(_, inputs)| !inputs.is_empty()) {
            let inputs = inputs.drain(..);
            self.0.lanes[lane].submit(&self.0, inputs, NOBODY, &mut Vec::new());
        }
    }

    fn link_up(&self, node: NodeId) {
        tracing::debug!("linked with node {:016x}", node.0);
        self.peers().snapshots.linked(node, true);
        self.tell_lanes(|| Input::Linked { node });
    }

    fn link_down(&self, node: NodeId) {
        tracing::debug!("the link to node {:016x} is gone", node.0);
        self.peers().snapshots.linked(node, false);
        // What came before the link's end comes before the word of that.
        self.turn_ended();
        self.tell_lanes(|| Input::LinkLost { node });
    }

    fn members_changed(&self) {
        self.0.look_up_by(self.peers());
    }
}
