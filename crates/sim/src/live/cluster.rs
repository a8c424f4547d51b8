//! A cluster of whole nodes: what each action does to it, and what came of requests.

use std::collections::{BTreeMap, VecDeque};

use command::transaction::KeyRange;
use command::{Expiry, ObservedVersion, Read, SetIf, SetReply, Step, Transaction, Write};
use keyspace::{CatalogueOp, KeyspaceOptions, NodeId, Placement, ShardId, Timestamp};
use node::control::{CutAt, Request};
use node::event::Event;

use super::action::{Action, AdminWord, Bytes, Layout, SplitAt, TxnOp, WatchedKey, WatchedRange};
use super::setup::{
    BYTES_MAX, CLIENTS_MAX, FILL_MAX, NODES_MAX, SKEW_MS_MAX, SYNC_MS_MAX, Setup,
    TAMPER_ONE_IN_MAX, Wrong, plant_named, wrong,
};
use super::{Answered, Outcome};
use crate::check::Violation;
use crate::cluster::live::form::LiveSetup;
use crate::cluster::live::view::NodeState;
use crate::cluster::{KEYSPACE, ViewerAnswer, World};

/// A request without an answer is given up after so long.
const REQUEST_MS: u64 = 3_000;
/// Operations and watched keys of a transaction.
const TXN_OPS_MAX: usize = 128;
/// Writes of `fill` and `clear` in a millisecond.
const WRITES_A_MS: usize = 10;
/// Old versions of a keyspace that is made by an action stay readable for so long.
const RETENTION_MS: u64 = 600_000;

/// See the module's documentation.
pub struct ClusterSim {
    pub(super) world: World,
    domains: usize,
    is_formed: bool,
    /// Requests that are under way, and when they are given up.
    open: BTreeMap<u64, u64>,
    requests: u64,
    /// Writes that `fill` and `clear` have still to make: the keyspace, the key, its value if any.
    writes: VecDeque<(String, Vec<u8>, Option<Vec<u8>>)>,
    answered: Vec<Answered>,
}

impl ClusterSim {
    /// Its nodes have started, and nothing else has happened.
    pub fn new(setup: &Setup, is_watched: bool) -> Result<Self, Wrong> {
        let live = LiveSetup {
            seed: setup.seed,
            nodes: setup.nodes,
            clients: setup.clients,
            domains: setup.domains,
            placement: setup.placement.into(),
            transactions: setup.transactions,
            plant: setup.plant()?,
        };
        let mut world = World::for_viewers(&live, is_watched);
        world.begin_forming().map_err(|found| Wrong(found.to_string()))?;
        Ok(Self {
            world,
            domains: setup.domains,
            is_formed: false,
            open: BTreeMap::new(),
            requests: 0,
            writes: VecDeque::new(),
            answered: Vec::new(),
        })
    }

    /// Whether all nodes have joined and the clients' keyspace is there.
    pub fn is_formed(&self) -> bool {
        self.is_formed
    }

    /// Lets one millisecond pass.
    ///
    /// # Errors
    /// What is broken.
    pub fn millisecond(&mut self) -> Result<(), Violation> {
        if !self.is_formed {
            self.is_formed = self.world.form();
        }
        // Before that there is no keyspace to write to.
        let writes = if self.is_formed { WRITES_A_MS } else { 0 };
        for _ in 0..writes {
            let Some((keyspace, key, value)) = self.writes.pop_front() else { break };
            self.write(&keyspace, &key, value.as_deref(), 0);
        }
        self.world.watched_millisecond()?;
        self.take_answers();
        Ok(())
    }

    fn take_answers(&mut self) {
        if let Some(watched) = &mut self.world.watched {
            for (request, answer) in std::mem::take(&mut watched.answers) {
                if self.open.remove(&request).is_some() {
                    self.answered.push(Answered { request, outcome: Outcome::of(answer) });
                }
            }
        }
        let now_ms = self.world.now_ms;
        for (request, _) in self.open.extract_if(.., |_, deadline| *deadline <= now_ms) {
            self.answered.push(Answered { request, outcome: Outcome::Unknown });
        }
    }

    /// Events since they were last taken.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.world.watched.as_mut().map(|all| std::mem::take(&mut all.events)).unwrap_or_default()
    }

    /// Answers to requests since they were last taken.
    pub fn take_answered(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answered)
    }

    /// Has the judges look at everything.
    ///
    /// # Errors
    /// What is broken.
    pub fn check(&mut self) -> Result<(), Violation> {
        self.world.check_all()?;
        self.take_answers();
        Ok(())
    }

    /// Does something now; the number of the request that will be answered, if it is one.
    ///
    /// # Errors
    /// If it cannot be done; nothing was done then.
    pub fn act(&mut self, action: &Action) -> Result<Option<u64>, Wrong> {
        match action {
            Action::AddNodes { count } => self.add_nodes(*count)?,
            Action::RemoveNode { node } => {
                let at =
                    self.node_that(node, &[NodeState::Up, NodeState::Paused, NodeState::Down])?;
                self.world.remove_for_good(at);
            }
            Action::Crash { node } => {
                let at = self.node_that(node, &[NodeState::Up, NodeState::Paused])?;
                self.world.put_down(at, false);
            }
            Action::PowerCut { node } => {
                let at = self.node_that(node, &[NodeState::Up, NodeState::Paused])?;
                self.world.put_down(at, true);
            }
            Action::Restart { node } => {
                let at = self.node_that(node, &[NodeState::Down])?;
                self.world.put_up(at);
            }
            Action::Pause { node, for_ms } => {
                let at = self.node_that(node, &[NodeState::Up])?;
                self.world.stand_still(at, *for_ms);
            }
            Action::Resume { node } => {
                let at = self.node_that(node, &[NodeState::Paused])?;
                self.world.resume(at);
            }
            Action::Cut { from, to, both } => {
                let (from, to) = (self.node(from)?, self.node(to)?);
                if from == to {
                    return wrong("a node always hears itself");
                }
                self.world.cut_link(from, to);
                if *both {
                    self.world.cut_link(to, from);
                }
            }
            Action::Isolate { node } => {
                let at = self.node(node)?;
                self.world.cut_off(at);
            }
            Action::Partition { nodes } => self.partition(nodes)?,
            Action::SlowDisk { node, sync_ms } => {
                if *sync_ms > SYNC_MS_MAX {
                    return wrong(format!("sync_ms is {sync_ms}: it is at most {SYNC_MS_MAX}"));
                }
                let at = self.node(node)?;
                self.world.slow_disk(at, *sync_ms);
            }
            Action::Skew { node, by_ms } => {
                if by_ms.abs() > SKEW_MS_MAX {
                    return wrong(format!("by_ms is {by_ms}: it is at most {SKEW_MS_MAX} away"));
                }
                let at = self.node(node)?;
                self.world.skew(at, *by_ms);
            }
            Action::Tamper { one_in } => {
                if *one_in > TAMPER_ONE_IN_MAX {
                    let why = format!("one_in is {one_in}: it is at most {TAMPER_ONE_IN_MAX}");
                    return wrong(why);
                }
                self.world.set_attack(*one_in);
            }
            Action::Heal => self.world.heal_all(),
            Action::Clients { count } => {
                if *count > CLIENTS_MAX {
                    let why = format!("count is {count}: there are at most {CLIENTS_MAX} clients");
                    return wrong(why);
                }
                self.world.set_clients(*count);
            }
            Action::Put { key, value, keyspace, ttl_ms } => {
                let keyspace = self.writable(keyspace.as_deref(), &key.0)?;
                if value.0.len() > BYTES_MAX {
                    return wrong(format!("the value is longer than {BYTES_MAX} bytes"));
                }
                let ends = ttl_ms.map_or(0, |ttl| self.world.true_wall_ms().saturating_add(ttl));
                return self.requested(|sim, number| {
                    sim.request_write(number, &keyspace, &key.0, Some(&value.0), ends)
                });
            }
            Action::Delete { key, keyspace } => {
                let keyspace = self.writable(keyspace.as_deref(), &key.0)?;
                return self.requested(|sim, number| {
                    sim.request_write(number, &keyspace, &key.0, None, 0)
                });
            }
            Action::Fill { count, prefix, keyspace } => {
                self.fill(*count, prefix.as_deref(), keyspace.as_deref())?;
            }
            Action::Clear { prefix, keyspace } => {
                self.clear(prefix.as_deref(), keyspace.as_deref())?;
            }
            Action::Split { shard, at } => {
                let at = at.as_ref().map(|at| match at {
                    SplitAt::Slot(slot) => CutAt::Slot(*slot),
                    SplitAt::Key(key) => CutAt::Key(key.clone().into_bytes()),
                });
                let shard = ShardId(*shard);
                let what = Request::Split { shard, at };
                return self
                    .requested(|sim, number| sim.world.viewer_reshapes(number, shard, what));
            }
            Action::Merge { shard } => {
                let left = ShardId(*shard);
                let what = Request::Merge { left };
                return self.requested(|sim, number| sim.world.viewer_reshapes(number, left, what));
            }
            Action::Admin { node, state } => {
                let (at, state) = (self.node(node)?, AdminWord::into(*state));
                return self.requested(|sim, number| sim.world.viewer_admits(number, at, state));
            }
            Action::Keyspace { name, placement, replicas } => {
                let op = self.keyspace_op(name, *placement, *replicas);
                return self.requested(|sim, number| sim.world.viewer_changes(number, &op));
            }
            Action::DropKeyspace { name } => {
                if name == KEYSPACE {
                    return wrong("clients use keyspace 0: it stays");
                }
                let op = CatalogueOp::Drop { name };
                return self.requested(|sim, number| sim.world.viewer_changes(number, &op));
            }
            Action::Txn { keyspace, watched, ranges, ops } => {
                return self.transact(keyspace.as_deref(), (watched, ranges), ops);
            }
            Action::Plant { bug, on } => {
                let plant = plant_named(bug)?;
                self.world.set_plant(on.then_some(plant));
            }
            Action::Lookup { .. } | Action::Check => {}
        }
        Ok(None)
    }

    fn add_nodes(&mut self, count: usize) -> Result<(), Wrong> {
        let there = self.world.count();
        if count == 0 || there + count > NODES_MAX {
            let why =
                format!("there are {there} nodes, and at most {NODES_MAX}, those gone included");
            return wrong(why);
        }
        if !self.is_formed {
            return wrong("the cluster is still forming: nodes join when it is there");
        }
        let domains = self.domains;
        // Who starts breaks nothing that can be told here: it is found in the next millisecond.
        self.world.join_watched(count, domains).map_err(|found| Wrong(found.to_string()))
    }

    fn partition(&mut self, nodes: &[String]) -> Result<(), Wrong> {
        let inside = nodes.iter().map(|node| self.node(node)).collect::<Result<Vec<_>, _>>()?;
        for one in 0..self.world.count() {
            for other in 0..self.world.count() {
                if inside.contains(&one) != inside.contains(&other) {
                    self.world.cut_link(one, other);
                }
            }
        }
        Ok(())
    }

    /// A request that is answered later, if there is somebody to ask.
    fn requested(
        &mut self,
        ask: impl FnOnce(&mut Self, u64) -> bool,
    ) -> Result<Option<u64>, Wrong> {
        let number = self.requests + 1;
        if !ask(self, number) {
            return wrong("no node that is up leads the shard: nothing was done");
        }
        self.requests = number;
        self.open.insert(number, self.world.now_ms + REQUEST_MS);
        // Some are answered at once.
        self.take_answers();
        Ok(Some(number))
    }

    fn request_write(
        &mut self,
        number: u64,
        keyspace: &str,
        key: &[u8],
        value: Option<&[u8]>,
        expires_at_ms: u64,
    ) -> bool {
        let expiry = match expires_at_ms {
            0 => Expiry::Never,
            at => Expiry::At(at),
        };
        let (when, reply) = (SetIf::Always, SetReply::Ok);
        let write = match value {
            Some(value) => Write::Set { key, value, when, expiry, reply },
            None => Write::Delete { key },
        };
        self.world.viewer_writes(number, (keyspace, key), &write)
    }

    fn transact(
        &mut self,
        keyspace: Option<&str>,
        (watched, ranges): (&[WatchedKey], &[WatchedRange]),
        ops: &[TxnOp],
    ) -> Result<Option<u64>, Wrong> {
        if ops.is_empty() || ops.len() + watched.len() + ranges.len() > TXN_OPS_MAX {
            return wrong(format!(
                "a transaction has from 1 to {TXN_OPS_MAX} operations, with what it watches"
            ));
        }
        let mut name = keyspace.unwrap_or(KEYSPACE).to_owned();
        for op in ops {
            name = match op {
                TxnOp::Get(_) => name,
                TxnOp::Put { key, .. } | TxnOp::Delete(key) | TxnOp::Increment { key, .. } => {
                    self.writable(Some(&name), &key.0)?
                }
            };
        }
        let seen = watched.iter().map(|watched| {
            let at = watched
                .version
                .parse()
                .map(Timestamp)
                .map_err(|_| Wrong(format!("version {:?} is no timestamp", watched.version)))?;
            let seen = match watched.absent {
                true => ObservedVersion::Absent(at),
                false => ObservedVersion::Version(at),
            };
            Ok((&watched.key.0[..], seen))
        });
        let transaction = Transaction {
            watched: seen.collect::<Result<_, Wrong>>()?,
            commands: ops.iter().map(step_of).collect(),
            ranges: ranges.iter().map(range_of).collect(),
            ..Transaction::default()
        };
        if !ranges.is_empty() && !self.is_ordered(&name) {
            return wrong(format!("the keys of keyspace {name:?} are in no order"));
        }
        self.requested(|sim, number| sim.world.viewer_transacts(number, &name, &transaction))
    }

    fn is_ordered(&self, name: &str) -> bool {
        let catalogue = self.world.known_catalogue();
        let keyspace = catalogue.as_ref().and_then(|all| all.get(name));
        keyspace.is_some_and(|keyspace| keyspace.options.placement == Placement::Ordered)
    }

    /// A write that nobody waits for.
    fn write(&mut self, keyspace: &str, key: &[u8], value: Option<&[u8]>, expires_at_ms: u64) {
        self.requests += 1;
        let number = self.requests;
        let _nobody_waits = self.request_write(number, keyspace, key, value, expires_at_ms);
    }

    fn fill(
        &mut self,
        count: u64,
        prefix: Option<&str>,
        keyspace: Option<&str>,
    ) -> Result<(), Wrong> {
        if count == 0 || count > FILL_MAX {
            return wrong(format!("count is {count}: it is from 1 to {FILL_MAX}"));
        }
        let prefix = prefix.unwrap_or("key-");
        let keyspace = self.writable(keyspace, prefix.as_bytes())?;
        if self.writes.len() as u64 + count > 2 * FILL_MAX {
            return wrong("too many keys are still on their way");
        }
        for number in 0..count {
            let (key, value) = (format!("{prefix}{number}"), format!("value {number}"));
            let write = (keyspace.clone(), key.into_bytes(), Some(value.into_bytes()));
            self.writes.push_back(write);
        }
        Ok(())
    }

    fn clear(&mut self, prefix: Option<&str>, keyspace: Option<&str>) -> Result<(), Wrong> {
        let prefix = prefix.unwrap_or("key-").as_bytes();
        let name = self.writable(keyspace, prefix)?;
        let catalogue = self.world.known_catalogue();
        let keyspace = catalogue.as_ref().and_then(|all| all.get(&name));
        let keyspace = keyspace.ok_or_else(|| Wrong(format!("there is no keyspace {name:?}")))?;
        let found = self.world.keys_seen(keyspace, prefix, None, FILL_MAX as usize);
        let Some(keys) = found else {
            return wrong("a shard of the keyspace has no leader who is up");
        };
        for key in keys.into_iter().take(FILL_MAX as usize) {
            if !self.world.is_of_clients(&name, &key) {
                self.writes.push_back((name.clone(), key, None));
            }
        }
        Ok(())
    }

    /// The keyspace of a write, if it may be done.
    fn writable(&self, keyspace: Option<&str>, key: &[u8]) -> Result<String, Wrong> {
        let keyspace = keyspace.unwrap_or(KEYSPACE);
        if key.len() > BYTES_MAX {
            return wrong(format!("the key is longer than {BYTES_MAX} bytes"));
        }
        if self.world.is_of_clients(keyspace, key) {
            let shown = Bytes(key.to_vec());
            let why = "belongs to the simulated clients, whose answers are judged";
            return wrong(format!("{shown:?} {why}: take another key"));
        }
        Ok(keyspace.to_owned())
    }

    fn keyspace_op<'a>(
        &self,
        name: &'a str,
        placement: Layout,
        replicas: Option<u8>,
    ) -> CatalogueOp<'a> {
        let replicas = replicas.unwrap_or(self.world.profile().replicas as u8);
        let (placement, retention_ms) = (placement.into(), RETENTION_MS);
        let options = KeyspaceOptions { replicas, placement, retention_ms, ..Default::default() };
        CatalogueOp::Create { name, options }
    }

    /// The place of a node: by its name, its id, or as the leader of a key's shard.
    ///
    /// # Errors
    /// If there is none.
    pub fn node(&self, text: &str) -> Result<usize, Wrong> {
        if let Some(key) = text.strip_prefix("leader:") {
            let leader = self.world.leader_of_key(KEYSPACE, key.as_bytes());
            let none = || Wrong(format!("no node that is up leads the shard of {key:?}"));
            return leader.map(|(at, _)| at).ok_or_else(none);
        }
        let by_name = text.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
        let by_name = by_name.filter(|number| (1..=self.world.count()).contains(number));
        let by_id = || {
            let id = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16)?;
            self.world.place_of_node(NodeId(id))
        };
        let found = by_name.map(|number| number - 1).or_else(by_id);
        found.ok_or_else(|| Wrong(format!("there is no node {text:?}")))
    }

    /// … that is in one of these states.
    fn node_that(&self, text: &str, states: &[NodeState]) -> Result<usize, Wrong> {
        let at = self.node(text)?;
        let state = self.world.state_of(at);
        if !states.contains(&state) {
            let name = World::name_of(at);
            return wrong(format!("{name} is {}", state.name()));
        }
        Ok(at)
    }
}

fn range_of(range: &WatchedRange) -> KeyRange<'_> {
    (&range.from.0, range.to.as_ref().map(|to| &to.0[..]))
}

/// An operation as a step of a transaction.
fn step_of(op: &TxnOp) -> Step<'_> {
    match op {
        TxnOp::Get(key) => Step::Read(Read::Get(&key.0)),
        TxnOp::Put { key, value } => Step::Write(Write::Set {
            key: &key.0,
            value: &value.0,
            when: SetIf::Always,
            expiry: Expiry::Never,
            reply: SetReply::Ok,
        }),
        TxnOp::Delete(key) => Step::Write(Write::Delete { key: &key.0 }),
        TxnOp::Increment { key, by } => Step::Write(Write::Increment { key: &key.0, by: *by }),
    }
}

impl Outcome {
    fn of(answer: ViewerAnswer) -> Self {
        match answer {
            ViewerAnswer::Applied(reply) => Self::Applied(reply),
            ViewerAnswer::NotDone(why) => Self::NotDone(why),
            ViewerAnswer::Catalogue(result) => Self::Catalogue(result),
            ViewerAnswer::Control(reply) => Self::Control(reply),
            ViewerAnswer::Txn(ended) => Self::Txn(ended),
        }
    }
}
