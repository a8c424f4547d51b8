//! What a node does for the replicas and clients of other nodes, and they for its own.
//!
//! ```text
//!   lane's turn ──► messages, letters ──► one frame for each node ──► links
//!   links ──► frames of a turn ──► inputs, by lane ──► lanes, one turn each
//!   ticker: every 50 ms a tick to all lanes; now and then, replicas to be added
//! ```
//!
//! A message that brings its shard's birth goes by way of control: the replica may have to begin.
//! The head of a snapshot waits for its state (`snapshots`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use keyspace::{NodeId, ReplicaId, ShardId};
use node::control::{DescriptorTable, FirstMessage};
use node::executor::{Effects, Input};
use node::rpc::request::Letter;
use parking_lot::{Condvar, Mutex};

use super::control::KIND_LOOKUP;
use super::digests::Digests;
use super::lookups::Lookups;
use super::mailbag::{self, Bag, Item, Mailbags};
use super::snapshots::Snapshots;
use super::tallies::{Tallies, Tally};
use super::{Hub, NOBODY, News};
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
/// … control is told who the other nodes are …
const MEMBERS_TICKS: u64 = 4;
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
    /// Where shards are, as control knows.
    pub lookup: DescriptorTable,
    /// Lookups that a request can name.
    pub lookups: Lookups,
    /// Whether replicas and leaders move to be even.
    pub balances: bool,
    /// A node that was down for so long has lost its replicas' places.
    pub(super) dead_after: Duration,
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
        (balances, dead_after): (bool, Duration),
        lookup: DescriptorTable,
        seed: u64,
    ) -> Self {
        let come = Mutex::new((0..lanes).map(|_| Vec::new()).collect());
        let snapshots = Snapshots::new(seed);
        let lookups = Lookups::new(node, seed);
        let (digests, tallies) = Default::default();
        let (stopping, wake) = Default::default();
        Self {
            cluster,
            snapshots,
            lookup,
            lookups,
            balances,
            dead_after,
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
            for (shard, _, why) in effects.ended.drain(..) {
                self.ended(digests, shard, why);
            }
        }
        if !effects.known.is_empty() {
            self.post_news([News::Learned(std::mem::take(&mut effects.known))]);
        }
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
            if ticks.is_multiple_of(MEMBERS_TICKS) {
                self.look_up_by(peers);
            }
            self.step_here(News::Tick);
            self.tick_lookups(peers, ticks);
            if ticks.is_multiple_of(PLACE_TICKS) {
                self.step_here(News::AddReplicas(self.gossip(peers)));
            }
            if ticks.is_multiple_of(REMIND_TICKS) {
                self.remind();
            }
            let has_stalled = ticks.is_multiple_of(DISK_TICKS) && self.watch_disk();
            if (has_stalled || ticks.is_multiple_of(DECIDE_TICKS)) && self.may_place() {
                self.step_here(News::Place(self.gossip_with_names(peers)));
            }
            if ticks.is_multiple_of(SPREAD_TICKS) && !peers.balances {
                self.step_here(News::SpreadLeaders(self.gossip(peers)));
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
                    let Some(birth) = birth else {
                        let message = Box::new(message);
                        self.for_lane(shard, Input::Message { from, shard, message });
                        continue;
                    };
                    if self.0.views.contains(shard) {
                        // No message to a replica that is here waits for other shards' lanes. Its
                        // group may have gone on without this replica: the table may know.
                        if let Some(known) = self.peers().lookup.shard(shard) {
                            self.for_lane(shard, Input::Known { known });
                        }
                        let message = Box::new(message);
                        self.for_lane(shard, Input::Message { from, shard, message });
                        continue;
                    }
                    // In its order among what has come: the lane may drop it before.
                    self.turn_ended();
                    let first = FirstMessage { from, shard, birth: birth.to_vec(), message };
                    self.0.tell_control(News::FirstMessage(Box::new(first)));
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
