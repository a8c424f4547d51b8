//! Clients of a volume: they read and write blocks through any node, while its buckets are split
//! and merged and everything else breaks. One session of writers has it, and others take it
//! (SAFETY G28).
//!
//! ```text
//!   connect ─► read … ─► first write: a fence to all shards ─► write … ─► pause, go, come again
//! ```
//!
//! Some sessions have names, and several connections. A client goes on after a pause as if nothing
//! had happened: by then another one may have the volume.
//!
//! The judge ([`judge`]) knows who had it, and when.
//! 1. Of each block, some order of all writes and reads explains what reads saw.
//! 2. Nobody writes who began after a later session had the volume, and what was under way is done
//!    by then, or never.
//! 3. Nobody is refused by nobody.
//! 4. A healed cluster lets a new session take the volume and write, and every block be read.
//!
//! One more client clones the volume: [`clones`].
//!
//! These clients have dice of their own. They are there in a third of the runs, and wherever a bug
//! is planted that only they find.

use std::collections::BTreeMap;

use command::{Claim, Epochs, Read, Reply, Write, Writer};
use keyspace::random::{Random, mix};
use keyspace::{
    CatalogueOp, ClusterVersion, Feature, KeyspaceOptions, Placement, ShardId, VolumeOptions,
    VolumeOrigin,
};
use node::executor::{Input, Origin};
use node::replica::entry::{Batch, Waiter};
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::{FetchRequest, FetchedData};

use super::multi_shard::is_wide;
use super::{Options, Plant, World, upgrade};
use crate::check::Violation;
use crate::command::Collect;
use crate::machine::NOBODY;
use crate::rng::Rng;

mod answers;
mod clones;
mod judge;

pub use clones::CLONES;
use clones::CloneClient;
use judge::BlockAccess;

/// The volume.
pub(super) const DISK: &str = "disk";
/// The origin of what these clients ask.
pub const VOLUMES: Origin = Origin(12);
const CLIENTS: usize = 4;
/// Blocks in use.
const BLOCKS: u64 = 24;
/// Requests of a connection under way.
const DEPTH: usize = 6;
/// A client pauses once in so many requests …
const PAUSES_IN: u64 = 60;
/// … for so long at most, in ms.
const PAUSE_MS: u64 = 2_500;
/// It goes, and comes to another node, once in so many requests.
const LEAVES_IN: u64 = 50;
/// Sessions with names.
const NAMES: u64 = 2;
/// Numbers of what they ask begin here, far above those of other clients.
const FIRST: u64 = 1 << 41;
/// Virtual time within which the volume is there.
const THERE_MS_MAX: u64 = 20_000;

/// Whether a keyspace has clients of its own, and is not for all.
pub(super) fn is_apart(name: &str) -> bool {
    name == DISK || name.starts_with(clones::PREFIX) || is_wide(name)
}

/// Whether there are such clients in a run.
pub(super) fn has(options: &Options) -> bool {
    let drawn = Random::new(mix(options.seed ^ 0x6469_736b)).below(3) == 0;
    match options.plant {
        Some(plant) => plant.is_of_volumes(),
        None => drawn && !upgrade::mixes(options),
    }
}

/// All of them.
pub(super) struct VolumeClients {
    pub(super) rng: Rng,
    clients: Vec<VolumeClient>,
    cloner: CloneClient,
    /// Of each node, and when it had started.
    epochs: Vec<(u64, Epochs)>,
    ops: BTreeMap<u64, VolumeOp>,
    made: u64,
    connections: u64,
    /// Values that were ever written.
    values: u64,
    history: BTreeMap<u64, Vec<BlockAccess>>,
    /// Who has begun to take the volume, and who had it from then on.
    asked: Vec<Writer>,
    had: Vec<(u64, Writer)>,
    broken: Option<Violation>,
    planted: Option<Plant>,
}

struct VolumeClient {
    at: usize,
    /// When the node had started that it is at.
    node_started_at: u64,
    connection: Option<Connection>,
    next_at_ms: u64,
}

struct Connection {
    number: u64,
    claim: Claim,
    /// Pieces of its fence that are not answered.
    pieces: usize,
    all_done: bool,
}

/// What is under way.
struct VolumeOp {
    client: usize,
    connection: u64,
    at: usize,
    call: u64,
    what: VolumeRequest,
}

enum VolumeRequest {
    Fence,
    Write { block: u64, value: u64, writer: Writer },
    Read(Box<BlockRead>),
}

struct BlockRead {
    block: u64,
    moment: ReadTime,
    fetched: FetchedData,
    is_ready: bool,
}

/// A block whose bytes are a number that no other write has.
fn bytes_of(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

impl VolumeClients {
    pub fn new(options: &Options) -> Self {
        let client = |at| VolumeClient { at, node_started_at: 0, connection: None, next_at_ms: 0 };
        Self {
            rng: Rng::new(mix(options.seed ^ 0x766f_6c75)),
            clients: (0..CLIENTS).map(|number| client(number % options.nodes)).collect(),
            cloner: CloneClient::new(),
            epochs: vec![(0, Epochs::default()); options.nodes],
            ops: BTreeMap::new(),
            made: FIRST,
            connections: 0,
            values: 0,
            history: BTreeMap::new(),
            asked: Vec::new(),
            had: Vec::new(),
            broken: None,
            planted: options.plant,
        }
    }

    /// What is under way, as text.
    fn open(&self) -> String {
        let open = self.ops.iter().map(|(number, op)| {
            let what = match &op.what {
                VolumeRequest::Fence => "a fence".to_owned(),
                VolumeRequest::Write { block, .. } => format!("a write of block {block}"),
                VolumeRequest::Read(read) => format!("a read of block {}", read.block),
            };
            format!("{what} at node {} ({number}); ", op.at)
        });
        open.collect()
    }

    fn under_way(&self, connection: u64) -> usize {
        self.ops.values().filter(|op| op.connection == connection).count()
    }

    fn connection(&mut self, op: &VolumeOp) -> Option<&mut Connection> {
        let connection = self.clients[op.client].connection.as_mut();
        connection.filter(|connection| connection.number == op.connection)
    }
}

impl World {
    /// Makes the volume, before anything breaks.
    pub(super) fn begin_volumes(&mut self) -> Result<(), Violation> {
        if self.volumes.is_none() {
            return Ok(());
        }
        let deadline = self.now_ms + THERE_MS_MAX;
        while self.now_ms < deadline {
            let machine = self.node_slots[0].machine.as_mut().expect("nothing breaks yet");
            if machine.routes.contains_key(DISK) {
                return Ok(());
            }
            if self.now_ms.is_multiple_of(200) {
                let volume = VolumeOptions {
                    bytes: BLOCKS * 4096,
                    block_bytes: 4096,
                    is_shared: false,
                    origin: VolumeOrigin::Empty,
                };
                let options = KeyspaceOptions {
                    replicas: self.profile.replicas as u8,
                    placement: Placement::LinearHash,
                    volume: Some(volume),
                    ..Default::default()
                };
                let version = CatalogueOp::RaiseVersion { to: ClusterVersion::NEWEST };
                for change in [version, CatalogueOp::Create { name: DISK, options }] {
                    let (mut op, origin, waiter) = (Vec::new(), NOBODY, Waiter(0));
                    change.encode(&mut op);
                    machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
                }
            }
            self.millisecond()?;
        }
        Err(Violation::new("liveness", format!("{DISK} is not there after {THERE_MS_MAX} ms")))
    }

    /// The clients at a node do what they can; called once a millisecond while it runs.
    pub(super) fn run_volumes(&mut self, at: usize) -> Result<(), Violation> {
        let Some(mut all) = self.volumes.take() else { return Ok(()) };
        self.forget_fences(at);
        for number in 0..all.clients.len() {
            let client = &mut all.clients[number];
            let is_down = self.node_slots[client.at].machine.is_none();
            if is_down && self.now_ms >= client.next_at_ms {
                client.come_to(at, self.now_ms + all.rng.between(1, 300));
            }
            if client.at == at {
                self.run_volume_client(&mut all, number);
            }
        }
        self.run_clones(&mut all, at);
        let reads = all.ops.iter().filter(|(_, op)| {
            op.at == at && matches!(&op.what, VolumeRequest::Read(read) if read.is_ready)
        });
        let reads: Vec<u64> = reads.map(|(number, _)| *number).collect();
        reads.into_iter().for_each(|number| self.read_block(&mut all, number));
        let broken = all.broken.take();
        self.volumes = Some(all);
        broken.map_or(Ok(()), Err)
    }

    fn run_volume_client(&mut self, all: &mut VolumeClients, number: usize) {
        let at = all.clients[number].at;
        let started_at = self.node_slots[at].started_at;
        if all.clients[number].node_started_at != started_at {
            // The node has ended meanwhile, and its connections with it.
            all.clients[number].come_to(at, self.now_ms);
            all.clients[number].node_started_at = started_at;
        }
        let Some(machine) = &self.node_slots[at].machine else { return };
        let is_known = machine.routes.contains_key(DISK)
            && machine.cluster_version.allows(Feature::VolumeWriters);
        if !self.clients.asking || self.now_ms < all.clients[number].next_at_ms {
            return;
        }
        if !is_known || all.rng.one_in(LEAVES_IN) {
            let to = all.rng.below(self.node_slots.len() as u64) as usize;
            return all.clients[number].come_to(to, self.now_ms + all.rng.between(1, 200));
        }
        let rest = match all.rng.one_in(PAUSES_IN) {
            true => all.rng.between(100, PAUSE_MS),
            false => all.rng.between(1, 20),
        };
        all.clients[number].next_at_ms = self.now_ms + rest;
        if all.clients[number].connection.is_none() {
            self.connect(all, number);
        }
        let connection = all.clients[number].connection.as_ref().expect("it has just come");
        if all.under_way(connection.number) >= DEPTH {
            return;
        }
        match all.rng.one_in(2) {
            true => self.begin_block_read(all, number),
            false => self.write_blocks(all, number),
        }
    }

    /// A client comes to its node, as a session of its own or one with a name.
    fn connect(&mut self, all: &mut VolumeClients, number: usize) {
        let at = all.clients[number].at;
        let Some(machine) = &self.node_slots[at].machine else { return };
        machine.now();
        let tick = machine.clock.tick().0;
        let (started_at, epochs) = &mut all.epochs[at];
        if *started_at != self.node_slots[at].started_at {
            (*started_at, *epochs) = (self.node_slots[at].started_at, Epochs::default());
        }
        let epoch = epochs.next(tick);
        all.connections += 1;
        let session = match all.rng.one_in(3) {
            true => all.rng.between(1, NAMES),
            false => NAMES + all.connections,
        };
        let claim = Claim::new(Writer { epoch, session });
        self.trace.event(format_args!("volume: client {number} at node {at}: {claim:?}"));
        let (number_of, pieces, all_done) = (all.connections, 0, true);
        all.clients[number].connection =
            Some(Connection { number: number_of, claim, pieces, all_done });
    }

    fn new_volume_op(
        &mut self,
        all: &mut VolumeClients,
        client: usize,
        what: VolumeRequest,
    ) -> u64 {
        all.made += 1;
        let connection = all.clients[client].connection.as_ref();
        let connection = connection.expect("it is connected").number;
        let (at, call) = (all.clients[client].at, self.clients.next_event());
        all.ops.insert(all.made, VolumeOp { client, connection, at, call, what });
        all.made
    }

    /// Writes some blocks, or takes the volume first.
    fn write_blocks(&mut self, all: &mut VolumeClients, number: usize) {
        let at = all.clients[number].at;
        let connection = all.clients[number].connection.as_mut().expect("it is connected");
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let route = machine.routes[DISK].clone();
        let blocks: Vec<_>;
        let mut writes: Vec<(ShardId, Write<'_>, u64)> = Vec::new();
        match connection.claim.step() {
            command::ClaimStep::Wait => return,
            command::ClaimStep::Refuse => {
                let until = self.now_ms + all.rng.between(1, 300);
                return all.clients[number].come_to(at, until);
            }
            command::ClaimStep::Ask(writer) => {
                let places = route.views.len();
                (connection.pieces, connection.all_done) = (places, true);
                all.asked.push(writer);
                for place in 0..places {
                    let op = self.new_volume_op(all, number, VolumeRequest::Fence);
                    let piece = Write::fence_of(writer, route.arc(place));
                    writes.push((route.shard(place), piece, op));
                }
            }
            command::ClaimStep::Write(writer) => {
                let count = all.rng.between(1, 3);
                let first = all.rng.below(BLOCKS - count);
                let new = (first..first + count).map(|block| {
                    all.values += 1;
                    (block, VolumeOptions::key(block), bytes_of(all.values), all.values)
                });
                blocks = new.collect();
                for (block, key, bytes, value) in &blocks {
                    let (block, value) = (*block, *value);
                    let what = VolumeRequest::Write { block, value, writer };
                    let op = self.new_volume_op(all, number, what);
                    // Planted: the shard cannot tell who writes.
                    let write = match all.planted {
                        Some(Plant::UnfencedWrite) => Write::set(key, bytes),
                        _ => Write::Block { writer, key, value: Some(bytes) },
                    };
                    writes.push((route.shard(route.place_of_key(key)), write, op));
                }
            }
        }
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        for (shard, write, op) in writes {
            self.trace.event(format_args!("volume {op} at node {at}, shard {shard}: {write:?}"));
            let mut batch = Batch::default();
            batch.push(&write, Waiter(op));
            machine.submit(shard, Input::Propose { shard, origin: VOLUMES, batch });
        }
    }

    fn begin_block_read(&mut self, all: &mut VolumeClients, number: usize) {
        let at = all.clients[number].at;
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let (moment, block) = (machine.moment(), all.rng.below(BLOCKS));
        let fetched = FetchedData::default();
        let read = Box::new(BlockRead { block, moment, fetched, is_ready: true });
        self.new_volume_op(all, number, VolumeRequest::Read(read));
    }

    /// Takes a read one step further.
    fn read_block(&mut self, all: &mut VolumeClients, number: u64) {
        let Some(op) = all.ops.get_mut(&number) else { return };
        let VolumeRequest::Read(read) = &mut op.what else { return };
        let Some(machine) = &mut self.node_slots[op.at].machine else { return };
        let Some(route) = machine.routes.get(DISK).cloned() else { return };
        let key = VolumeOptions::key(read.block);
        let mut found = Collect::default();
        match read::read_with(&route, &Read::Get(&key), read.moment, &read.fetched, &mut found) {
            Ok(()) => {
                let value = match found.0.first() {
                    Some(Reply::Bulk(bytes)) => (**bytes).try_into().map(u64::from_le_bytes),
                    _ => Ok(0),
                };
                let value = value.expect("blocks are numbers here");
                let (block, call) = (read.block, op.call);
                all.ops.remove(&number);
                let back = self.clients.next_event();
                self.trace.event(format_args!("volume {number}: block {block} has {value}"));
                self.counts.blocks_read += 1;
                let access = BlockAccess::read(call, back, value);
                all.history.entry(block).or_default().push(access);
            }
            Err(blocked) => {
                let (origin, waiter) = (VOLUMES, Waiter(number));
                let (shard, input) = match route.must_fetch(blocked.place, machine.node()) {
                    true => {
                        let shard = route.shard(blocked.place);
                        let want = Box::new(FetchRequest::keys([&key[..]]));
                        let bytes_max = usize::MAX;
                        (shard, Input::Fetch { shard, want, bytes_max, origin, waiter })
                    }
                    false => {
                        let Blocked { at, lock, place } = blocked;
                        let shard = route.shard(place);
                        (shard, Input::AwaitRead { shard, at, lock, origin, waiter })
                    }
                };
                read.is_ready = false;
                machine.submit(shard, input);
            }
        }
    }

    /// Planted: a half that a split has made knows of no fence.
    fn forget_fences(&mut self, at: usize) {
        if !self.has(Plant::ForgottenFence) {
            return;
        }
        let Some(machine) = &self.node_slots[at].machine else { return };
        let ids = machine.shard_ids();
        for view in ids.into_iter().filter_map(|id| machine.view(id)) {
            let mut state = view.write();
            let known = (machine.node(), state.descriptor.shard);
            let is_half = self.right_halves.contains(&state.descriptor.shard);
            if self.cuts.insert(known, 0).is_none() && is_half {
                state.fence = Default::default();
            }
        }
    }
}

impl VolumeClient {
    /// It has gone, and comes to a node at this time.
    fn come_to(&mut self, at: usize, at_ms: u64) {
        (self.at, self.connection, self.next_at_ms) = (at, None, at_ms);
    }
}
