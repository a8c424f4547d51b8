//! A cluster forms while somebody watches: one node makes it, the others join, and the keyspaces of
//! its clients come.

use std::num::NonZeroU64;

use keyspace::{CatalogueOp, ClusterVersion, KeyspaceOptions, Placement, ShardId};
use node::control::ReshapeLimits;
use node::executor::Input;
use node::replica::entry::Waiter;

use super::super::directed::{SYSTEM, ScenarioSetup};
use super::super::multi_shard::{MultiShardClients, WIDE};
use super::super::options::{Options, RunProfile};
use super::super::{KEYSPACE, NodeSlot, World};
use super::Watched;
use crate::check::Violation;
use crate::cluster::Plant;
use crate::machine::NOBODY;
use crate::options::{Fault, Faults};

/// What is missing is asked for so often, in milliseconds.
const RETRY_MS: u64 = 250;
/// Old versions stay readable for so long: the page looks back by a time slider.
const RETENTION_MS: u64 = 600_000;
/// A linear-hash table is to be seen growing with some hundred keys, and shrinking without them.
const TABLE_LIMITS: ReshapeLimits = ReshapeLimits {
    split_bytes: None,
    split_keys: NonZeroU64::new(250),
    split_rate: None,
    merge_bytes: Some(1 << 20),
};
/// How long clients of transactions rest at most.
const WIDE_THINK_MS: u64 = 600;

/// What a cluster begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveSetup {
    pub seed: u64,
    pub nodes: usize,
    pub clients: usize,
    pub domains: usize,
    pub placement: Placement,
    /// Whether there are clients with transactions over several shards.
    pub transactions: bool,
    pub plant: Option<Plant>,
}

impl World {
    /// Before the first millisecond: nothing runs, and nothing breaks by itself.
    pub(crate) fn for_viewers(setup: &LiveSetup, is_watched: bool) -> Self {
        let is_ordered = setup.placement == Placement::Ordered;
        let is_linear = setup.placement == Placement::LinearHash;
        let LiveSetup { seed, nodes, domains, plant, .. } = *setup;
        let stage = ScenarioSetup { nodes, keyspaces: 1, domains, is_ordered, is_linear };
        let mut world = Self::for_scenario(seed, &stage, false);
        let replicas = if nodes < 3 { 1 } else { 3 };
        world.options.plant = plant;
        world.profile = RunProfile {
            replicas,
            system_replicas: replicas,
            ttl_ms_max: 0,
            collection: false,
            reshape: if is_linear { TABLE_LIMITS } else { world.profile.reshape },
            ..world.profile
        };
        if setup.transactions {
            let (millis, faults) = (0, Faults::NONE.with(Fault::Link));
            let options = Options { nodes, faults, millis, plant, ..Options::of(seed) };
            world.wide = Some(MultiShardClients::of_viewers(&options, WIDE_THINK_MS));
        }
        world.clients.set_active(setup.clients, 0);
        world.watched = is_watched.then(Watched::default);
        world
    }

    /// Starts the first nodes.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn begin_forming(&mut self) -> Result<(), Violation> {
        for at in 0..self.node_slots.len() {
            self.start(at)?;
            if self.cluster.is_none() {
                let machine = self.node_slots[at].machine.as_ref().expect("it was just started");
                self.cluster = Some(machine.cluster());
            }
        }
        Ok(())
    }

    /// Asks for what is missing; whether all is there.
    pub(crate) fn form(&mut self) -> bool {
        if !self.now_ms.is_multiple_of(RETRY_MS) {
            return false;
        }
        let Some(at) = self.awake_leader_of(SYSTEM) else { return false };
        let machine = self.node_slots[at].machine.as_ref().expect("the node leads");
        let is_whole = {
            let view = machine.view(SYSTEM).expect("it leads the shard");
            let state = view.read();
            let is_quiet = !state.members.is_joint() && state.roster.is_settled;
            is_quiet && state.members.voters.len() == self.profile.system_replicas
        };
        if !is_whole {
            return false;
        }
        let placement = self.profile.placement();
        let mut wanted = vec![(KEYSPACE, placement)];
        wanted.extend(self.wide.as_ref().map(|_| (WIDE, Placement::Hashed)));
        let is_there = |name: &str| machine.catalogue().is_some_and(|all| all.get(name).is_some());
        let missing = wanted.into_iter().find(|(name, _)| !is_there(name));
        if let Some((name, placement)) = missing {
            let replicas = self.profile.replicas as u8;
            let retention_ms = RETENTION_MS;
            let options =
                KeyspaceOptions { replicas, placement, retention_ms, ..Default::default() };
            self.ask_catalogue_for(at, &CatalogueOp::RaiseVersion { to: ClusterVersion::NEWEST });
            self.ask_catalogue_for(at, &CatalogueOp::Create { name, options });
            return false;
        }
        let is_formed = self.is_led();
        if is_formed {
            self.calm = false;
        }
        is_formed
    }

    /// Whether each shard of the clients' keyspace has a leader.
    fn is_led(&self) -> bool {
        let machines = self.node_slots.iter().filter_map(|slot| slot.machine.as_ref());
        let Some(route) = machines.filter_map(|machine| machine.routes.get(KEYSPACE)).next() else {
            return false;
        };
        route.shards().iter().all(|shard| self.awake_leader_of(*shard).is_some())
    }

    fn ask_catalogue_for(&mut self, at: usize, op: &CatalogueOp<'_>) {
        let mut body = Vec::new();
        op.encode(&mut body);
        let machine = self.node_slots[at].machine.as_mut().expect("the node leads");
        let (origin, waiter) = (NOBODY, Waiter(0));
        machine.submit(ShardId(0), Input::Catalogue { op: body, origin, waiter });
    }

    /// So many nodes join, into failure domains in turn if there are any.
    ///
    /// # Errors
    /// What is broken.
    pub(crate) fn join_watched(&mut self, count: usize, domains: usize) -> Result<(), Violation> {
        let first = self.node_slots.len();
        if let Some(placement) = self.placement_state.as_mut().filter(|_| domains > 0) {
            let domain = |at: usize| format!("rack {}", at % domains).into_boxed_str();
            placement.domains.extend((first..first + count).map(domain));
        }
        self.trace.event(format_args!("{count} nodes join"));
        for at in first..first + count {
            let slot = NodeSlot::new(&mut self.rng, &self.profile, 0);
            self.node_slots.push(slot);
            self.start(at)?;
        }
        Ok(())
    }
}
