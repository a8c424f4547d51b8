//! What viewers of a cluster see of it: everything, from everywhere at once, as no node could.
//!
//! Looking sends nothing and changes nothing: no read waits for a lease, and what a shard holds is
//! what its leader has applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use command::ObservedVersion;
use keyspace::{AdminState, Catalogue, Descriptor, Keyspace, NodeId, ShardId, Timestamp};
use node::replica::read::nothing_since;
use node::replica::{Replica, ShardReport};
use node::routing::fetch::{self, History};
use overlay::KnownShard;
use replication::Members;
use storage::engine::{Range, ReadResult, ScanCursor};

use super::super::directed::SYSTEM;
use super::super::{WALL_MS, World};
use crate::machine::Machine;

/// Whether a node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It runs.
    Up,
    /// It stands still.
    Paused,
    /// Its process has ended.
    Down,
    /// It is gone for good.
    Gone,
}

impl NodeState {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Paused => "paused",
            Self::Down => "down",
            Self::Gone => "gone",
        }
    }
}

/// A node as viewers see it.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// `n` and its number, from 1.
    pub name: String,
    /// Whether it is there.
    pub state: NodeState,
    /// Its failure domain; empty: none.
    pub domain: String,
    /// How far its wall clock is ahead, in milliseconds.
    pub skew_ms: i64,
    /// Each of its syncs takes so long; 0: as usual.
    pub slow_disk_ms: u64,
    /// Names of nodes to which nothing goes from it.
    pub cut_to: Vec<String>,
    /// Its admin state.
    pub admin_state: AdminState,
    /// Replicas on it.
    pub replicas: u64,
    /// Of these, those that lead.
    pub leads: u64,
    /// Keys and values of its replicas, in bytes.
    pub data_bytes: u64,
    /// When its process has started, in virtual milliseconds.
    pub started_ms: u64,
}

/// A shard as its leader sees it, or else some replica.
#[derive(Clone, Debug)]
pub struct ShardView {
    /// Its arc and replicas.
    pub descriptor: Descriptor,
    /// Its keyspace; none of the system shard.
    pub keyspace: Option<Keyspace>,
    /// Who decides.
    pub members: Members,
    /// Whether a change of its replicas is under way.
    pub is_changing: bool,
    /// What that replica says.
    pub report: ShardReport,
    /// That replica's boot clock, by which the report's times are.
    pub boot: u64,
    /// The node that leads it.
    pub leader: Option<NodeId>,
    /// Nodes with a replica that are up.
    pub live: Vec<NodeId>,
    /// How many replicas it should have.
    pub replicas_wanted: u64,
    /// Its keys, …
    pub keys: u64,
    /// … and bytes.
    pub bytes: u64,
    /// Sessions that it remembers.
    pub sessions: u64,
}

/// A version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// The value.
    pub value: Vec<u8>,
    /// When it was written.
    pub timestamp: Timestamp,
    /// When it ends, in milliseconds since 1970; 0: never.
    pub expiry_ms: u64,
}

/// What a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyView {
    /// A value.
    Value(KeyVersion),
    /// None.
    Nil,
    /// None at that time, but one later.
    NilYet,
    /// Versions that old are gone; the oldest time that can be read.
    TooOld(Timestamp),
    /// Nobody who is up leads its shard.
    NoLeader,
}

impl World {
    /// The name of the node at a place.
    pub(crate) fn name_of(at: usize) -> String {
        format!("n{}", at + 1)
    }

    /// What a clock without skew shows.
    pub(crate) fn true_wall_ms(&self) -> u64 {
        WALL_MS + self.now_ms
    }

    /// How a node is.
    pub(crate) fn state_of(&self, at: usize) -> NodeState {
        let slot = &self.node_slots[at];
        match &slot.machine {
            _ if slot.has_left => NodeState::Gone,
            None => NodeState::Down,
            Some(_) if self.is_awake(at) => NodeState::Up,
            Some(_) => NodeState::Paused,
        }
    }

    /// All nodes, by their places.
    pub(crate) fn node_views(&self) -> Vec<NodeView> {
        let catalogue = self.known_catalogue();
        (0..self.node_slots.len()).map(|at| self.node_view(at, catalogue.as_ref())).collect()
    }

    fn node_view(&self, at: usize, catalogue: Option<&Catalogue>) -> NodeView {
        let slot = &self.node_slots[at];
        let (mut replicas, mut leads, mut data_bytes) = (0, 0, 0);
        for replica in slot.machine.iter().flat_map(replicas_of) {
            let usage = replica.view().read().engine().map(|engine| engine.usage());
            replicas += 1;
            leads += u64::from(replica.is_leader());
            data_bytes += usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes);
        }
        let is_cut = |other: &usize| {
            *other != at && !self.network.is_open(slot.node, self.node_slots[*other].node)
        };
        let domains = self.placement_state.as_ref().map(|placement| &placement.domains);
        NodeView {
            id: slot.node,
            name: Self::name_of(at),
            state: self.state_of(at),
            domain: domains
                .and_then(|all| all.get(at))
                .map(|one| one.to_string())
                .unwrap_or_default(),
            skew_ms: slot.wall_offset,
            slow_disk_ms: slot.sync_ms_min,
            cut_to: (0..self.node_slots.len()).filter(is_cut).map(Self::name_of).collect(),
            admin_state: catalogue
                .map_or(AdminState::Member, |all| all.admin_states().of(slot.node)),
            replicas,
            leads,
            data_bytes,
            started_ms: slot.started_at,
        }
    }

    /// The catalogue as the system shard's leader has it, or else some replica.
    pub(crate) fn known_catalogue(&self) -> Option<Catalogue> {
        let leader = self.awake_leader_of(SYSTEM);
        let others = 0..self.node_slots.len();
        let machines = leader.into_iter().chain(others);
        machines.filter_map(|at| self.node_slots[at].machine.as_ref()?.catalogue()).next()
    }

    /// All shards, by their ids.
    pub(crate) fn shard_views(&self) -> Vec<ShardView> {
        let catalogue = self.known_catalogue();
        let best = self.best_replicas();
        best.into_values()
            .map(|(at, shard)| self.shard_view(at, shard, catalogue.as_ref()))
            .collect()
    }

    /// Of each shard the leader that is up, or else the replica that has applied most; and where
    /// it is.
    fn best_replicas(&self) -> BTreeMap<ShardId, (usize, &Replica)> {
        let rank = |(at, replica): (usize, &Replica)| {
            let is_awake = self.is_awake(at);
            (is_awake && replica.is_leader(), is_awake, replica.view().read().applied_index)
        };
        let mut best: BTreeMap<ShardId, (usize, &Replica)> = BTreeMap::new();
        for (at, slot) in self.node_slots.iter().enumerate() {
            for replica in slot.machine.iter().flat_map(replicas_of) {
                let found = best.entry(replica.id()).or_insert((at, replica));
                if rank(*found) < rank((at, replica)) {
                    *found = (at, replica);
                }
            }
        }
        best
    }

    fn shard_view(&self, at: usize, shard: &Replica, catalogue: Option<&Catalogue>) -> ShardView {
        let boot = self.node_slots[at].machine.as_ref().map_or(0, |machine| machine.boot);
        let report = shard.report(boot);
        let (view, is_led) = (shard.view(), shard.is_leader() && self.is_awake(at));
        let state = view.read();
        let keyspace = catalogue.and_then(|all| all.by_id(state.descriptor.keyspace())).cloned();
        let is_up = |node: &NodeId| self.place_of_node(*node).is_some_and(|at| self.is_awake(at));
        let engine = state.engine();
        let usage = engine.map(|engine| engine.usage()).unwrap_or_default();
        ShardView {
            members: state.members.clone(),
            is_changing: state.members.is_joint() || !state.roster.is_settled,
            leader: is_led.then_some(self.node_slots[at].node),
            live: state.descriptor.replicas.iter().map(|(_, node)| *node).filter(is_up).collect(),
            replicas_wanted: match &keyspace {
                Some(keyspace) => u64::from(keyspace.options.replicas),
                None => self.profile.system_replicas as u64,
            },
            keys: engine.map_or(0, |engine| engine.len(state.last)),
            bytes: usage.live_bytes + usage.old_bytes + usage.index_bytes,
            sessions: state.sessions.len() as u64,
            descriptor: state.descriptor.clone(),
            keyspace,
            report,
            boot,
        }
    }

    /// The shards of a keyspace as they are known, in the order of the ring.
    pub(crate) fn known_shards(&self, keyspace: &Keyspace) -> Vec<Arc<KnownShard>> {
        let best = self.best_replicas().into_values().map(|(_, replica)| replica.known());
        let of_it = best.filter(|known| known.arc().keyspace() == keyspace.id);
        let mut shards: Vec<_> = of_it.map(Arc::new).collect();
        shards.sort_by(|one, other| one.arc().start().tail().cmp(other.arc().start().tail()));
        shards
    }

    /// What a key has, now or as of a time, as the leader of its shard knows.
    pub(crate) fn key_seen(&self, keyspace: &str, key: &[u8], at: Option<Timestamp>) -> KeyView {
        let Some((place, shard)) = self.leader_of_key(keyspace, key) else {
            return KeyView::NoLeader;
        };
        let machine = self.node_slots[place].machine.as_ref().expect("the node leads");
        let Some(view) = machine.view(shard) else { return KeyView::NoLeader };
        let state = view.read();
        let Some(engine) = state.engine() else { return KeyView::NoLeader };
        let hashed = engine.hasher();
        let hashed = hashed.key(key);
        let safe_point = engine.safe_point();
        if at.is_some_and(|at| at < safe_point) {
            return KeyView::TooOld(safe_point);
        }
        let now = state.last.max(Timestamp::from_millis(self.true_wall_ms()));
        match engine.at(&hashed, at.unwrap_or(now)) {
            ReadResult::Value(version) => KeyView::Value(KeyVersion {
                value: version.value.to_vec(),
                timestamp: version.timestamp,
                expiry_ms: version.expiry_ms,
            }),
            ReadResult::Nil => KeyView::Nil,
            ReadResult::NilYet => KeyView::NilYet,
        }
    }

    /// What has become of a key up to a time, or up to now: so many changes, as the leader of its
    /// shard knows; and the time. None if nobody who is up leads it.
    pub(crate) fn history_seen(
        &self,
        keyspace: &str,
        key: &[u8],
        at: Option<Timestamp>,
        changes_max: usize,
    ) -> Option<(History, Timestamp)> {
        let (place, shard) = self.leader_of_key(keyspace, key)?;
        let view = self.node_slots[place].machine.as_ref()?.view(shard)?;
        let state = view.read();
        let now = state.last.max(Timestamp::from_millis(self.true_wall_ms()));
        let at = at.map_or(now, |at| at.min(now));
        Some((fetch::history(state.engine()?, key, at, changes_max), at))
    }

    /// What a transaction has to watch, so that a key stays as it is.
    pub(crate) fn version_seen(&self, keyspace: &str, key: &[u8]) -> Option<ObservedVersion> {
        let (place, shard) = self.leader_of_key(keyspace, key)?;
        let view = self.node_slots[place].machine.as_ref()?.view(shard)?;
        let state = view.read();
        let engine = state.engine()?;
        let hasher = engine.hasher();
        let hashed = hasher.key(key);
        let now = state.last.max(Timestamp::from_millis(self.true_wall_ms()));
        Some(match engine.newest(&hashed, now) {
            Some(version) => ObservedVersion::Version(version.timestamp),
            None => ObservedVersion::Absent(nothing_since(engine, &hashed)),
        })
    }

    /// All keys with a prefix behind one, in the order of their bytes, and one more than is wanted
    /// if there are more. None if a shard has no leader who is up.
    pub(crate) fn keys_seen(
        &self,
        keyspace: &Keyspace,
        prefix: &[u8],
        after: Option<&[u8]>,
        keys_max: usize,
    ) -> Option<Vec<Vec<u8>>> {
        let mut found = std::collections::BTreeSet::new();
        for known in self.known_shards(keyspace) {
            let at = self.awake_leader_of(known.shard())?;
            let view = self.node_slots[at].machine.as_ref()?.view(known.shard())?;
            let state = view.read();
            let now = state.last.max(Timestamp::from_millis(self.true_wall_ms()));
            let engine = state.engine()?;
            let mut visit = |key: &[u8], _: storage::engine::Version<'_>| {
                if key.starts_with(prefix) && after.is_none_or(|after| key > after) {
                    found.insert(key.to_vec());
                    if found.len() > keys_max + 1 {
                        found.pop_last();
                    }
                }
            };
            let all = usize::MAX;
            let range = Range {
                start: std::ops::Bound::Unbounded,
                end: std::ops::Bound::Unbounded,
                reverse: false,
                visited_max: all,
                examined_max: all,
            };
            let _none_of_this_layout = (
                engine.scan(ScanCursor::default(), all, now, &mut visit),
                engine.scan_numbers(0, all, now, &mut visit),
                engine.range(&range, now, &mut visit),
            );
        }
        Some(found.into_iter().collect())
    }

    /// The name of the keyspace that an event's shard is of.
    pub(crate) fn keyspace_name_of(&self, shard: ShardId) -> Option<Box<str>> {
        let machines = || self.node_slots.iter().filter_map(|slot| slot.machine.as_ref());
        let named = |machine: &Machine| {
            let mut routes = machine.routes.values();
            let route = routes.find(|route| route.place_of(shard).is_some())?;
            Some(route.keyspace.name.clone())
        };
        machines().find_map(named).or_else(|| {
            let id = self.keyspace_of(shard)?;
            Some(self.known_catalogue()?.by_id(id)?.name.clone())
        })
    }
}

fn replicas_of(machine: &Machine) -> impl Iterator<Item = &Replica> {
    machine.executors.iter().flat_map(|slot| slot.executor.shards())
}

impl World {
    /// The name of the keyspace that an event is about.
    pub(crate) fn keyspace_of_event(&self, what: &node::event::EventKind) -> Option<Box<str>> {
        use node::event::EventKind;
        match what {
            EventKind::TableGrowing { keyspace, .. } | EventKind::TableShrinking { keyspace } => {
                Some(keyspace.clone())
            }
            EventKind::Request(request) => Some(request.keyspace.clone()),
            EventKind::Transaction(trace) => {
                let catalogue = self.known_catalogue()?;
                Some(catalogue.by_id(trace.keyspace)?.name.clone())
            }
            other => self.keyspace_name_of(other.shard()?),
        }
    }

    /// What clients have got.
    pub(crate) fn client_counts(&self) -> crate::live::ClientCounts {
        crate::live::ClientCounts {
            clients: self.clients.active_count(),
            answered: self.counts.answered,
            refused: self.counts.refused,
            unknown: self.counts.unknown,
        }
    }

    /// Messages that were sent, and how long one takes at most unless it is late.
    pub(crate) fn network_use(&self) -> (u64, u64) {
        (self.network.sent(), self.profile.delay_ms_max)
    }

    /// What an attacker has done, and what came of it.
    pub(crate) fn attack_counts(&self) -> crate::live::AttackCounts {
        crate::live::AttackCounts {
            one_in: self.attacker.one_in(),
            altered: self.counts.altered,
            altered_refused: self.counts.altered_refused,
            forged: self.counts.forged,
            forged_refused: self.counts.forged_refused,
        }
    }

    /// The bug that is planted.
    pub(crate) fn plant(&self) -> Option<super::super::Plant> {
        self.options.plant
    }
}
