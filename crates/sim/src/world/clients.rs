//! The virtual clients: their requests, and the outcomes.

use std::fmt;
use std::sync::Arc;

use command::{ExpireIf, Expiry, Reply, SetIf, SetReply, Write};
use keyspace::{
    CatalogueOp, Durability, Keyspace, KeyspaceAlteration, KeyspaceId, KeyspaceOptions,
};
use keyspace::{Placement, ShardId, Timestamp};
use node::executor::Input;
use node::replica::entry::Waiter;
use node::routing::route::Route;

use super::World;
use super::answers::number_of;
use crate::check::scan::Scan;
use crate::command::{Command, Value};
use crate::machine::CLIENTS;
use crate::options::{Bug, Fault};

/// The keyspaces that are there from the beginning.
const BASE: [(&str, Placement, Durability); 4] = [
    ("hashed-sync", Placement::Hashed, Durability::Sync),
    ("hashed-memory", Placement::Hashed, Durability::Memory),
    ("hashed-interval", Placement::Hashed, Durability::Interval),
    ("ordered-sync", Placement::Ordered, Durability::Sync),
];
/// A keyspace that comes and goes.
const COMING_AND_GOING: &str = "guest";

/// GETs in a pipeline: more than the node looks up side by side.
const EACH_MAX: u64 = 18;

/// Waiters of batches hold the shard above the number of the command.
pub(super) const OP_BITS: u32 = 40;

/// A client's request that is not answered yet.
#[derive(Clone)]
pub struct Op {
    pub(super) client: u8,
    pub(super) keyspace: KeyspaceId,
    pub(super) route: Option<Arc<Route>>,
    /// The numbers of the keys it names.
    pub(super) keys: Vec<u64>,
    pub(super) ask: ClientRequest,
    pub(super) call: u64,
    pub(super) low_ms: u64,
    pub(super) stage: OpStage,
    /// Planted: the answer that was made up when the write was proposed.
    pub(super) early: Option<Reply>,
}

/// A client's request.
#[derive(Clone, Debug)]
pub enum ClientRequest {
    /// A command on one key, or one that writes several of one hash tag.
    One(Command),
    /// GET of several keys at one moment.
    Many,
    /// GETs that follow each other in a pipeline; so many more are answered before the client must
    /// read what is there for it.
    Each(usize),
    /// The value at a past time.
    At(Timestamp),
    /// DBSIZE.
    Size,
    /// SCAN, from this cursor on.
    Scan(u64, Scan),
    /// RANGE over everything.
    Range,
    /// KEYS, of everything.
    Keys,
    /// RANDOMKEY.
    Random,
    /// FLUSH: how many shards have not answered yet, and whether one has refused.
    Flush(usize, bool),
    /// A change of the catalogue.
    Catalogue,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpStage {
    /// In a batch that is not sent.
    Batched,
    /// With the executor: it may take effect.
    Sent,
    /// A read that may be tried.
    Ready,
    /// A read that waits to be woken.
    Waiting,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, keyspace, keys, ask, stage, .. } = self;
        write!(f, "client {client}: {ask:?} of keys {keys:?} in keyspace {keyspace} ({stage:?})")
    }
}

impl World {
    /// Whether some client may ask something.
    pub(super) fn may_ask(&self) -> bool {
        let limit = self.profile.depth * u64::from(self.options.clients);
        self.asking && (self.ops.len() as u64) < limit
    }

    /// A client asks something.
    pub(super) fn ask(&mut self) {
        let depth = self.profile.depth as usize;
        let count = |client| self.ops.values().filter(|op| op.client == client).count();
        let free: Vec<u8> = (0..self.options.clients).filter(|c| count(*c) < depth).collect();
        if free.is_empty() {
            return;
        }
        let client = *self.rng.pick(&free);
        let awake = self.time_jump_steps == 0;
        if awake && self.ask_catalogue(client) {
            return;
        }
        let machine = self.machine.as_ref().expect("the node runs");
        let routes: Vec<Arc<Route>> = machine.routes.values().cloned().collect();
        if routes.is_empty() {
            return;
        }
        let route = self.rng.pick(&routes).clone();
        let mut keys = vec![self.key()];
        let ask = self.some_ask(awake, &route, &mut keys);
        if let ClientRequest::One(command) = &ask
            && self.memory_full
            && command.write(&self.names_of(&keys)).is_some_and(|write| write.may_grow())
        {
            // As a gateway does, before anything is proposed.
            self.trace.event(format_args!("client {client}: no memory for {command:?}"));
            self.counts.out_of_memory += 1;
            return;
        }
        self.begin(client, Some(route), keys, ask);
    }

    /// What is asked of a keyspace, and of which keys besides the first.
    fn some_ask(&mut self, awake: bool, route: &Route, keys: &mut Vec<u64>) -> ClientRequest {
        let writes = |weight: u64| if awake { weight } else { 0 };
        let joint = self.profile.joint_writes;
        let weights = [
            writes(40),
            26,
            4,
            self.profile.past_reads,
            3,
            2,
            3,
            writes(1),
            writes(joint),
            4,
            1,
            1,
        ];
        match self.rng.weighted(&weights) {
            0 => ClientRequest::One(self.write()),
            1 => {
                let reads = [
                    Command::Get,
                    Command::Get,
                    Command::Exists,
                    Command::ExpiryTime,
                    Command::Length,
                ];
                ClientRequest::One(self.rng.pick(&reads).clone())
            }
            2 => {
                keys.extend((0..self.rng.between(1, 3)).map(|_| self.key()));
                ClientRequest::Many
            }
            3 => {
                let now = self.machine().now();
                let back_ms = self.rng.below(2 * self.profile.retention_ms + 20);
                let at = Timestamp::from_millis(now.millis() - back_ms);
                // Also within a millisecond.
                ClientRequest::At(if self.rng.one_in(3) {
                    Timestamp(now.0 - self.rng.below(20))
                } else {
                    at
                })
            }
            4 => ClientRequest::Size,
            5 | 6 if route.keyspace.options.placement == Placement::Ordered => ClientRequest::Range,
            5 | 6 => {
                let now = self.machine().now();
                let shards = &route.keyspace.shards;
                let shards = shards.iter().filter_map(|shard| self.ledger.shard(*shard));
                let there = shards.flat_map(|shard| shard.versions.alive(now));
                ClientRequest::Scan(0, Scan::begin(there.cloned()))
            }
            7 => ClientRequest::Flush(route.keyspace.shards.len(), false),
            8 => ClientRequest::One(self.joint_write(keys)),
            9 => {
                keys.extend((0..self.rng.between(1, EACH_MAX)).map(|_| self.key()));
                ClientRequest::Each(self.rng.between(1, EACH_MAX) as usize)
            }
            10 => ClientRequest::Keys,
            _ => ClientRequest::Random,
        }
    }

    /// Reads every key once more, when everything is quiet.
    pub(super) fn ask_everything(&mut self) {
        let machine = self.machine.as_ref().expect("the node runs");
        let routes: Vec<Arc<Route>> = machine.routes.values().cloned().collect();
        for route in routes {
            for number in 0..self.profile.keys {
                let ask = ClientRequest::One(Command::Get);
                self.begin(0, Some(route.clone()), vec![number], ask);
            }
        }
    }

    fn key(&mut self) -> u64 {
        self.rng.below(self.profile.keys)
    }

    /// A write of several keys of the first one's hash tag, which it adds.
    fn joint_write(&mut self, keys: &mut Vec<u64>) -> Command {
        let tagged = self.profile.tagged;
        let first = keys[0] - keys[0] % tagged;
        let end = (first + tagged).min(self.profile.keys);
        let other = self.rng.between(first, end - 1);
        let replace = self.rng.one_in(2);
        match self.rng.below(3) {
            0 => {
                *keys = (first..end).filter(|_| self.rng.one_in(2)).chain([other]).collect();
                keys.sort_unstable();
                keys.dedup();
                Command::SetAllIfAbsent(keys.iter().map(|_| self.value()).collect())
            }
            1 => {
                keys.push(other);
                Command::Rename { if_absent: replace }
            }
            // Gateways refuse to copy a key to itself.
            _ if other == keys[0] => Command::Delete,
            _ => {
                keys.push(other);
                Command::Copy { replace }
            }
        }
    }

    /// The keys of these numbers. Those of one hash tag lie in one slot.
    pub(super) fn names_of(&self, keys: &[u64]) -> Vec<Vec<u8>> {
        keys.iter().map(|key| self.names[*key as usize].clone()).collect()
    }

    fn value(&mut self) -> Value {
        Value(match self.rng.below(4) {
            0 => self.rng.below(100).to_string().into_bytes(),
            1 => {
                let bytes = self.rng.between(100, 3_000) as usize;
                let first = self.ops_made.to_string();
                first.bytes().chain(std::iter::repeat(b'.')).take(bytes).collect()
            }
            _ => format!("v{}", self.ops_made).into_bytes(),
        })
    }

    fn end_ms(&mut self) -> u64 {
        let now_ms = self.machine().now().millis();
        now_ms + self.rng.between(1, self.profile.ttl_ms_max)
    }

    fn write(&mut self) -> Command {
        match self.rng.weighted(&[30, 12, 3, 4, 12, 20, 10, 8]) {
            0 => {
                let whens = [SetIf::Always, SetIf::Always, SetIf::Absent, SetIf::Present];
                let replies = [SetReply::Ok, SetReply::Ok, SetReply::Old, SetReply::Flag];
                let expiry = match self.rng.below(5) {
                    0 => Expiry::Keep,
                    1 | 2 => Expiry::At(self.end_ms()),
                    _ => Expiry::Never,
                };
                let (when, reply) = (*self.rng.pick(&whens), *self.rng.pick(&replies));
                Command::Set { value: self.value(), when, expiry, reply }
            }
            1 => Command::Delete,
            2 => Command::GetDelete,
            3 => {
                let ends = self.rng.one_in(2);
                Command::GetExpire(if ends { Expiry::At(self.end_ms()) } else { Expiry::Never })
            }
            4 => Command::Append(self.value()),
            5 => Command::Increment(self.rng.below(9) as i64 - 2),
            6 => {
                let at_ms = match self.rng.below(8) {
                    0 => 1,
                    _ => self.end_ms() as i64,
                };
                let mut when = ExpireIf::default();
                match self.rng.below(6) {
                    0 => when.nx = true,
                    1 => when.xx = true,
                    2 => when.gt = true,
                    3 => when.lt = true,
                    _ => {}
                }
                Command::Expire { at_ms, when }
            }
            _ => Command::Persist,
        }
    }

    /// Has keyspaces created, changed and dropped. Whether the client is busy with that.
    fn ask_catalogue(&mut self, client: u8) -> bool {
        if self.ops.values().any(|op| matches!(op.ask, ClientRequest::Catalogue)) {
            return false;
        }
        let machine = self.machine.as_ref().expect("the node runs");
        let missing = BASE.into_iter().find(|(name, ..)| !machine.routes.contains_key(*name));
        let guest = machine.routes.contains_key(COMING_AND_GOING);
        let retention_ms = self.profile.retention_ms;
        let options = |placement, durability| KeyspaceOptions {
            placement,
            durability,
            retention_ms,
            ..KeyspaceOptions::default()
        };
        let levels = [Durability::Sync, Durability::Interval, Durability::Memory];
        let may_change = self.options.faults.has(Fault::Catalogue) && self.rng.one_in(25);
        let op = match missing {
            Some((name, placement, durability)) => {
                CatalogueOp::Create { name, options: options(placement, durability) }
            }
            None if !may_change => return false,
            None => match (self.rng.below(3), guest) {
                (0, true) => CatalogueOp::Drop { name: COMING_AND_GOING },
                (0, false) => {
                    let placements = [Placement::Hashed, Placement::Ordered];
                    let options = options(*self.rng.pick(&placements), *self.rng.pick(&levels));
                    CatalogueOp::Create { name: COMING_AND_GOING, options }
                }
                _ => {
                    // The two that are always sync stay so: their clients lose nothing, ever.
                    let names = ["hashed-memory", "hashed-interval", COMING_AND_GOING];
                    let change = KeyspaceAlteration {
                        durability: Some(*self.rng.pick(&levels)),
                        retention_ms: Some(self.rng.between(1, 2 * retention_ms)),
                        replicas: None,
                        skips_equal: None,
                        volume_bytes: None,
                        flattened_at: None,
                    };
                    let name: &str = self.rng.pick::<&str>(&names);
                    CatalogueOp::Alter { name, change }
                }
            },
        };
        self.trace.event(format_args!("client {client} asks {op:?}"));
        let mut body = Vec::new();
        op.encode(&mut body);
        let number = self.begin(client, None, Vec::new(), ClientRequest::Catalogue);
        let waiter = Waiter(number);
        self.machine().submit(ShardId(0), Input::Catalogue { op: body, origin: CLIENTS, waiter });
        true
    }

    fn begin(
        &mut self,
        client: u8,
        route: Option<Arc<Route>>,
        keys: Vec<u64>,
        ask: ClientRequest,
    ) -> u64 {
        self.ops_made += 1;
        self.events += 1;
        let number = self.ops_made;
        let keyspace = route.as_ref().map_or(KeyspaceId(0), |route| route.keyspace.id);
        // The clock as it was last told: nothing that follows is judged by an earlier time.
        let low_ms = self.machine().clock.now().millis();
        let stage = match &ask {
            ClientRequest::One(command) if command.write(&self.names_of(&keys)).is_some() => {
                OpStage::Batched
            }
            ClientRequest::Flush(..) => OpStage::Batched,
            ClientRequest::Catalogue => OpStage::Sent,
            ClientRequest::At(_) => OpStage::Waiting,
            _ => OpStage::Ready,
        };
        let call = self.events;
        let mut op = Op { client, keyspace, route, keys, ask, call, low_ms, stage, early: None };
        if stage == OpStage::Batched {
            self.batch(number, &mut op);
        }
        if let (ClientRequest::At(at), Some(route)) = (&op.ask, &op.route) {
            let key = &self.names[op.keys[0] as usize];
            let shard = route.shard(route.place(&route.key(key)));
            let (origin, waiter) = (CLIENTS, Waiter(number));
            self.machine()
                .submit(shard, Input::AwaitRead { shard, at: *at, lock: None, origin, waiter });
        }
        self.trace.event(format_args!("op {number}: {op}"));
        self.ops.insert(number, op);
        number
    }

    /// Puts a write into the batch of its shard, or of all shards.
    fn batch(&mut self, number: u64, op: &mut Op) {
        let Some(route) = op.route.clone() else { return };
        let waiter = |shard: ShardId| Waiter(shard.0 << OP_BITS | number);
        match &op.ask {
            ClientRequest::Flush(..) => {
                let flush = Write::Flush { from: None, end: keyspace::Cut::Slot(0) };
                for shard in &route.keyspace.shards {
                    let batch = self.batches.entry(*shard).or_default();
                    batch.push(&flush, waiter(*shard));
                }
            }
            ClientRequest::One(command) => {
                let keys = self.names_of(&op.keys);
                let place = route.place(&route.key(&keys[0]));
                let mut command = command.clone();
                let evaluated = matches!(command, Command::Increment(_) | Command::Append(_));
                if self.has_bug(Bug::EvaluateBeforeLog) && evaluated {
                    let now = self.machine().now();
                    let found = self.ledger.shard(route.shard(place));
                    let cell = found.and_then(|shard| shard.versions.at(&keys[0], now));
                    let (after, reply) = command.run(cell);
                    op.early = Some(reply);
                    if let Some(cell) = after {
                        let expiry = match cell.expiry_ms {
                            0 => Expiry::Never,
                            at => Expiry::At(at),
                        };
                        let (when, reply) = (SetIf::Always, SetReply::Ok);
                        command = Command::Set { value: cell.value, when, expiry, reply };
                    }
                }
                let shard = route.shard(place);
                let write = command.write(&keys).expect("only writes are batched");
                self.batches.entry(shard).or_default().push(&write, waiter(shard));
            }
            _ => {}
        }
    }

    /// Sends one of the batches to its executor.
    pub(super) fn send_batch(&mut self) {
        let at = self.rng.below(self.batches.len() as u64) as usize;
        let shard = *self.batches.keys().nth(at).expect("below the number of batches");
        let batch = self.batches.remove(&shard).expect("just found");
        for waiter in batch.waiters() {
            if let Some(op) = self.ops.get_mut(&number_of(waiter)) {
                op.stage = OpStage::Sent;
            }
        }
        self.trace.event(format_args!("a batch of {} to shard {shard}", batch.waiters().len()));
        self.machine().submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
    }

    /// The catalogue has changed.
    pub(super) fn keyspace_changed(&mut self, keyspace: &Keyspace) {
        self.trace.event(format_args!("catalogue: {keyspace:?}"));
        if keyspace.options.durability != Durability::Sync {
            self.weak.insert(keyspace.id);
        }
    }
}
