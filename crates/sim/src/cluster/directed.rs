//! What directed scenarios do to a cluster: nodes join, leave and come back, links are cut, time
//! passes while clients send requests. Between that, everything goes on as in a random run.

use std::collections::BTreeSet;

use keyspace::{
    AdminState, CatalogueOp, ClusterVersion, KeyspaceOptions, NodeId, Placement, ShardId,
};
use node::executor::Input;
use node::replica::entry::Waiter;

use super::multi_shard::{BESIDE, FLUSHED, MultiShardClients, WIDE};
use super::options::{Options, RunProfile};
use super::{KEYSPACE, NodeSlot, World};
use crate::check::Violation;
use crate::machine::{Machine, NOBODY};
use crate::options::{Fault, Faults};
use crate::rng::Rng;

/// The system shard.
pub(super) const SYSTEM: ShardId = ShardId(0);
/// A request is repeated after so many milliseconds.
const RETRY_MS: u64 = 500;
/// Virtual time within which the cluster must carry out a request, in milliseconds.
const DONE_MS_MAX: u64 = 30_000;
/// So rarely that it does not happen.
const NEVER: u64 = 1 << 40;
/// How long a node rests after a round of checkpoints.
const ROUND_EVERY_MS: u64 = 3_000;
/// Time between looks at a node that cannot know what it misses, in milliseconds.
const LOOK_MS: u64 = 50;

/// What a scenario begins with.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioSetup {
    /// Nodes.
    pub nodes: usize,
    /// Keyspaces, each of several shards.
    pub keyspaces: usize,
    /// Failure domains, among which the nodes are dealt out; 0: none is known.
    pub domains: usize,
    /// Whether the keyspaces are ordered: each is of one shard then.
    pub is_ordered: bool,
    /// Whether they are of linear hashing: each begins as one shard, too.
    pub is_linear: bool,
}

impl World {
    /// Before the first step of a scenario: nothing breaks by itself.
    pub(crate) fn for_scenario(seed: u64, stage: &ScenarioSetup, verbose: bool) -> Self {
        let faults = Faults::NONE.with(Fault::Link);
        let nodes = stage.nodes;
        let options = Options { nodes, faults, verbose, millis: 0, ..Options::of(seed) };
        let mut rng = Rng::new(seed);
        let profile = RunProfile {
            replicas: 3,
            system_replicas: 3,
            starts_with_all_replicas: true,
            executors: 1 + seed as usize % 2,
            segment_bytes: 16 << 10,
            keys: 4,
            tagged: 1,
            catalogue_in: NEVER,
            scan_in: NEVER,
            clients: 4,
            actions_max: 20,
            delay_ms_max: 4,
            collection: false,
            // Where there are many nodes it takes most of the time, and shows nothing new.
            checkpoints: stage.nodes <= 20,
            round_every_ms: ROUND_EVERY_MS,
            think_ms: 120,
            places_replicas: true,
            is_ordered: stage.is_ordered,
            is_linear: stage.is_linear,
            ..RunProfile::draw(&mut rng, &options)
        };
        let mut world = Self::with_profile(&options, profile, rng);
        // There is no volume in a scenario.
        world.volumes = None;
        let domain = |at: usize| match stage.domains {
            0 => "".into(),
            domains => format!("rack {}", at % domains).into_boxed_str(),
        };
        world.begin_placement((0..stage.nodes).map(domain).collect());
        world
    }

    /// The same, with transactions over several shards in a keyspace of their own.
    pub(crate) fn for_multi_shard_scenario(
        seed: u64,
        stage: &ScenarioSetup,
        verbose: bool,
    ) -> Self {
        let mut world = Self::for_scenario(seed, stage, verbose);
        world.wide = Some(MultiShardClients::hashed(&world.options));
        world
    }

    /// One node makes the cluster, the others join it, and keyspaces come. From there on clients
    /// ask.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn found(&mut self, keyspaces: usize, rest_ms_max: u64) -> Result<(), Violation> {
        for at in 0..self.node_slots.len() {
            self.start(at)?;
            if self.cluster.is_none() {
                let machine =
                    self.node_slots[at].machine.as_ref().expect("the node was just started");
                self.cluster = Some(machine.cluster());
            }
        }
        self.until("the system shard has its replicas", |world| {
            let voters = |machine: &Machine| {
                let view = machine.view(SYSTEM).expect("the shard is on this node");
                let state = view.read();
                let is_quiet = !state.members.is_joint() && state.roster.is_settled;
                if is_quiet { state.members.voters.len() } else { 0 }
            };
            Ok(world.leader_machine(SYSTEM).map_or(0, voters) == world.profile.system_replicas)
        })?;
        let replicas = self.profile.replicas as u8;
        let placement = self.profile.placement();
        let options = KeyspaceOptions { replicas, placement, ..KeyspaceOptions::default() };
        let more = (1..keyspaces).map(|number| format!("more-{number}"));
        let wide = self.wide.as_ref().map(|_| WIDE.to_owned());
        let beside = self.wide.as_ref().filter(|wide| wide.span_keyspaces());
        let beside = beside.map(|_| BESIDE.to_owned());
        let flushed = self.wide.as_ref().filter(|wide| wide.flush_keyspace());
        let wide = wide.into_iter().chain(flushed.map(|_| FLUSHED.to_owned()));
        for name in [KEYSPACE.to_owned()].into_iter().chain(more).chain(wide).chain(beside) {
            self.until("a keyspace is there", |world| {
                let Some(machine) = world.leader_machine(SYSTEM) else { return Ok(false) };
                if machine.catalogue().is_some_and(|there| there.get(&name).is_some()) {
                    return Ok(true);
                }
                if options.placement == Placement::LinearHash {
                    world.change(&CatalogueOp::RaiseVersion { to: ClusterVersion::NEWEST });
                }
                world.change(&CatalogueOp::Create { name: &name, options });
                Ok(false)
            })?;
        }
        self.converge(rest_ms_max)?;
        self.calm = false;
        Ok(())
    }

    /// Asks who leads the system shard for a change of the catalogue.
    fn change(&mut self, op: &CatalogueOp<'_>) {
        let Some(at) = self.leader_of(SYSTEM) else { return };
        self.trace.event(format_args!("{op:?}"));
        let mut body = Vec::new();
        op.encode(&mut body);
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let (op, origin, waiter) = (body, NOBODY, Waiter(0));
        machine.submit(SYSTEM, Input::Catalogue { op, origin, waiter });
    }

    /// Lets time pass until something is so, looking now and then.
    fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, Violation>,
    ) -> Result<(), Violation> {
        let deadline = self.now_ms + DONE_MS_MAX;
        while self.now_ms < deadline {
            self.pass(RETRY_MS)?;
            if is_so(self)? {
                return Ok(());
            }
        }
        Err(Violation::new("liveness", format!("after {DONE_MS_MAX} ms it is not so that {what}")))
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn pass(&mut self, millis: u64) -> Result<(), Violation> {
        (0..millis).try_for_each(|_| self.millisecond())
    }

    /// Lets time pass, in which clients must get so many answers.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn serve(&mut self, millis: u64, answers_min: u64) -> Result<(), Violation> {
        let before = self.counts.answered;
        self.pass(millis)?;
        let answers = self.counts.answered - before;
        if answers < answers_min {
            let text = format!("{answers} answers in {millis} ms, and not {answers_min}");
            return Err(Violation::new("liveness", text));
        }
        Ok(())
    }

    /// Lets time pass while clients read all keys at one node again and again.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn look_while(&mut self, at: usize, millis: u64) -> Result<(), Violation> {
        for _ in 0..millis / LOOK_MS {
            if self.is_awake(at) {
                self.look_at(at);
            }
            self.pass(LOOK_MS)?;
        }
        Ok(())
    }

    /// Lets so many nodes join at once; returns their places.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn join(&mut self, count: usize) -> Result<Vec<usize>, Violation> {
        self.trace.event(format_args!("{count} nodes join"));
        let first = self.node_slots.len();
        let profile = self.profile;
        for at in first..first + count {
            let seat = NodeSlot::new(&mut self.rng, &profile, 0);
            self.node_slots.push(seat);
            self.start(at)?;
        }
        Ok((first..first + count).collect())
    }

    /// A node loses its power, and is off until [`World::power_on`].
    pub(crate) fn power_off(&mut self, at: usize) {
        self.crash(at, true);
        self.node_slots[at].awake_at = u64::MAX;
    }

    /// A node has power again.
    pub(crate) fn power_on(&mut self, at: usize) {
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node} has power again"));
        self.node_slots[at].awake_at = self.now_ms;
    }

    /// Drains these nodes.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn drain(&mut self, places: &[usize]) -> Result<(), Violation> {
        let ids: Vec<NodeId> = places.iter().map(|at| self.node_slots[*at].node).collect();
        for node in ids {
            self.until("a node is draining", |world| {
                let Some(machine) = world.leader_machine(SYSTEM) else { return Ok(false) };
                if machine.admin_states().of(node) == AdminState::Draining {
                    return Ok(true);
                }
                let up = world.node_slots.iter().filter(|seat| seat.machine.is_some());
                let among: BTreeSet<NodeId> = up.map(|seat| seat.node).collect();
                world.change(&CatalogueOp::Node { node, admin_state: AdminState::Draining, among });
                Ok(false)
            })?;
        }
        Ok(())
    }

    /// Nodes that have been emptied go, for good.
    ///
    /// # Errors
    /// One has a replica.
    pub(crate) fn leave(&mut self, places: &[usize]) -> Result<(), Violation> {
        for at in places.iter().copied() {
            let seat = &self.node_slots[at];
            let held = seat.machine.as_ref().map(Machine::shard_ids).unwrap_or_default();
            if !held.is_empty() {
                let text = format!("node {} is to go and has {held:?}", seat.node);
                return Err(Violation::new("R12 every shard is fully replicated", text));
            }
            self.power_off(at);
            self.node_slots[at].has_left = true;
        }
        Ok(())
    }

    /// Nothing comes to a node, and nothing from it.
    pub(crate) fn cut_off(&mut self, at: usize) {
        for other in (0..self.node_slots.len()).filter(|other| *other != at) {
            self.cut_link(at, other);
            self.cut_link(other, at);
        }
    }

    /// Nothing goes from one node to another.
    pub(crate) fn cut_link(&mut self, from: usize, to: usize) {
        let (from, to) = (self.node_slots[from].node, self.node_slots[to].node);
        self.trace.event(format_args!("nothing goes from node {from} to {to}"));
        self.counts.cuts += 1;
        self.network.cut(from, to);
    }

    /// All ways are open.
    pub(crate) fn open_ways(&mut self) {
        self.mend();
    }

    /// How many nodes there are.
    pub(crate) fn count(&self) -> usize {
        self.node_slots.len()
    }

    /// The node that leads a shard.
    pub(crate) fn leader_of(&self, shard: ShardId) -> Option<usize> {
        let leads = |seat: &NodeSlot| {
            let shard = seat.machine.as_ref().and_then(|machine| machine.shard(shard));
            shard.is_some_and(|shard| shard.is_leader())
        };
        self.node_slots.iter().position(leads)
    }

    fn leader_machine(&self, shard: ShardId) -> Option<&Machine> {
        self.node_slots[self.leader_of(shard)?].machine.as_ref()
    }

    /// The shard of a key that clients ask for, and the node that leads it.
    pub(crate) fn led_key(&self, key: u64) -> Option<(ShardId, usize)> {
        let at = *self.leaders_of(key).first()?;
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let route = machine.routes.get(KEYSPACE)?;
        Some((route.shard(route.place(&route.key(self.clients.name(key)))), at))
    }

    /// The nodes that have a replica of a shard, as its leader knows, and those that have none.
    pub(crate) fn holders(&self, shard: ShardId) -> (Vec<usize>, Vec<usize>) {
        let machine = self.leader_machine(shard);
        let descriptor = machine.and_then(|machine| machine.view(shard));
        let descriptor = descriptor.map(|view| view.read().descriptor.clone());
        let holds = |at: &usize| {
            let node = self.node_slots[*at].node;
            descriptor.as_ref().is_some_and(|known| known.replica_on(node).is_some())
        };
        (0..self.node_slots.len()).partition(holds)
    }

    /// Has a shard's leader exchange the replica on one node for one on another.
    pub(crate) fn exchange(&mut self, shard: ShardId, from: usize, to: usize) {
        let (from, to) = (self.node_slots[from].node, self.node_slots[to].node);
        let Some(at) = self.leader_of(shard) else { return };
        self.trace.event(format_args!("shard {shard}: node {to} for {from}"));
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let view = machine.view(shard).expect("the shard is on this node");
        let descriptor = view.read().descriptor.clone();
        let (generation, add) = (descriptor.generation, vec![to]);
        let remove = descriptor.replica_on(from).into_iter().collect();
        machine.submit(shard, Input::ChangeReplicas { shard, generation, add, remove });
    }

    /// Lets time pass until the replicas of a shard do not change.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn wait_for_change(&mut self, shard: ShardId) -> Result<(), Violation> {
        let deadline = self.now_ms + DONE_MS_MAX;
        self.pass(LOOK_MS)?;
        while self.now_ms < deadline {
            let view = self.leader_machine(shard).and_then(|machine| machine.view(shard));
            let is_quiet = view.is_some_and(|view| {
                let state = view.read();
                let members = &state.members;
                !members.is_joint() && members.learners.is_empty() && state.roster.is_settled
            });
            if is_quiet {
                return self.pass(LOOK_MS);
            }
            self.pass(LOOK_MS)?;
        }
        Err(Violation::new("liveness", format!("shard {shard} changes for {DONE_MS_MAX} ms")))
    }

    /// How often the disk of each node has changed so far.
    pub(crate) fn changes_of_disks(&self) -> Vec<u64> {
        self.node_slots.iter().map(|seat| seat.disk.writes()).collect()
    }

    /// The power of a node goes at one of the next changes of its disk, and comes back.
    pub(crate) fn power_goes(&mut self, at: usize, changes: u64) {
        self.power_goes_at(at, changes);
    }

    /// Ends the scenario: the cluster comes to rest, every client is answered, and the checkers
    /// judge all histories.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn finish(&mut self) -> Result<(), Violation> {
        self.heal()?;
        // Of many shards one would always be in the middle of being compared.
        self.profile.check_nanos = 0;
        let machines = self.node_slots.iter_mut().filter_map(|seat| seat.machine.as_mut());
        machines
            .flat_map(|machine| &mut machine.executors)
            .for_each(|s| s.executor.set_check_every(0));
        self.judge_all()
    }
}
