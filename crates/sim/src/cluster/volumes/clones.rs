//! Clones of the volume: one client makes them while others write to it, reads them again and
//! again through any node, writes to them, and drops them.
//!
//! ```text
//!   each shard's newest time ─► lease ─► each shard passes it ─► the catalogue has the clone
//!     ─► a block of it, or of its source as of then · write one · … ─► drop it, begin anew
//! ```
//!
//! 1. A block that a clone has not written is always the same: what the volume had at some moment
//!    between the first question and the last shard's passing.
//! 2. A block that it has written is as it was written.
//! 3. While a clone is there, its time is not too old to be read (SAFETY G21).

use std::collections::BTreeMap;

use command::{NotDone, Read, Reply, Write};
use keyspace::{
    CatalogueOp, KeyspaceOptions, LeaseKind, LeaseOp, Placement, ShardId, Timestamp, VolumeOptions,
    VolumeOrigin,
};
use node::executor::{Answer, Input, Origin};
use node::replica::entry::{Batch, Waiter};
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::{Ends, FetchRequest, FetchResult, FetchedData, PastValue, past_here};
use node::routing::route::Route;

use super::judge::BlockAccess;
use super::{BLOCKS, DISK, VolumeClients, bytes_of};
use crate::check::Violation;
use crate::cluster::{Plant, World};
use crate::command::Collect;
use crate::machine::NOBODY;

/// The origin of what this client asks.
pub const CLONES: Origin = Origin(13);
/// What names of clones begin with.
pub(super) const PREFIX: &str = "clone-";
/// A step that takes longer is given up.
const PATIENCE_MS: u64 = 2_500;
/// The lease lasts so long: the clone keeps its time by itself.
const LEASE_MS: u64 = 4_000;
/// A clone is dropped once in so many requests.
const DROPS_IN: u64 = 60;
/// It is written to once in so many.
const WRITES_IN: u64 = 5;
const SYSTEM: ShardId = ShardId(0);
const RULE: &str = "a clone stays as its source was (G21)";

/// See the front page.
pub(super) struct CloneClient {
    at: usize,
    /// Of the request under way.
    number: u64,
    is_ready: bool,
    until_ms: u64,
    next_at_ms: u64,
    phase: Phase,
    time: Timestamp,
    asked_at: u64,
    passed_at: u64,
    made: u64,
    clone: Option<CloneInUse>,
}

/// The clone that is there.
struct CloneInUse {
    name: String,
    blocks: BTreeMap<u64, Block>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// The source's.
    Unwritten(u64),
    /// This was written.
    Written(u64),
    /// A write of it may have been done, or may still be.
    Unknown,
}

enum Phase {
    Resting,
    /// Asks leaders for their newest times; these parts have answered.
    Times(Vec<Ends>, Option<Ends>),
    Opening,
    /// Has leaders pass the time; these parts have answered.
    Passing(Vec<Ends>, Option<Ends>),
    /// Waits until nodes know the clone.
    Creating,
    /// Chooses what to do with it.
    Using,
    /// Reads a block of the clone.
    Reading {
        block: u64,
        moment: ReadTime,
        fetched: FetchedData,
    },
    /// … which has none: reads it of the source.
    ReadingSource {
        block: u64,
    },
    Writing {
        block: u64,
        value: u64,
    },
}

impl CloneClient {
    pub fn new() -> Self {
        Self {
            at: 0,
            number: 0,
            is_ready: true,
            until_ms: 0,
            next_at_ms: 0,
            phase: Phase::Resting,
            time: Timestamp::ZERO,
            asked_at: 0,
            passed_at: 0,
            made: 0,
            clone: None,
        }
    }

    /// Whether it waits for an answer that matters at the end of a run.
    pub fn is_idle(&self) -> bool {
        self.is_ready || matches!(self.phase, Phase::Resting | Phase::Using)
    }

    /// What was asked has no answer, and gets none that counts: it goes on at another node.
    fn give_up(&mut self, at: usize, next_at_ms: u64) {
        if let (Phase::Writing { block, .. }, Some(clone)) = (&self.phase, &mut self.clone) {
            clone.blocks.insert(*block, Block::Unknown);
        }
        self.phase = if self.clone.is_some() { Phase::Using } else { Phase::Resting };
        (self.at, self.next_at_ms, self.number, self.is_ready) = (at, next_at_ms, 0, true);
    }

    fn name(&self) -> String {
        format!("{PREFIX}{}", self.made)
    }
}

impl World {
    /// This client does what it can, if it is at this node.
    pub(super) fn run_clones(&mut self, all: &mut VolumeClients, at: usize) {
        let nodes = self.node_slots.len() as u64;
        let client = &mut all.cloner;
        if client.at != at || self.now_ms < client.next_at_ms {
            return;
        }
        if self.now_ms >= client.until_ms && !matches!(client.phase, Phase::Resting) {
            let (to, rest) = (all.rng.below(nodes) as usize, all.rng.between(1, 200));
            client.give_up(to, self.now_ms + rest);
            client.until_ms = self.now_ms + rest + PATIENCE_MS;
            return;
        }
        if client.is_ready {
            self.step_clones(all);
        }
    }

    fn step_clones(&mut self, all: &mut VolumeClients) {
        let VolumeClients { cloner: client, rng, values, made, .. } = all;
        let Some(machine) = &mut self.node_slots[client.at].machine else { return };
        let Some(disk) = machine.routes.get(DISK).cloned() else { return };
        *made += 1;
        let (origin, waiter, bytes_max) = (CLONES, Waiter(*made), usize::MAX);
        let fetch = |shard, want| {
            let want = Box::new(want);
            (shard, Input::Fetch { shard, want, bytes_max, origin, waiter })
        };
        let change = |op: &CatalogueOp<'_>| {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            (SYSTEM, Input::Catalogue { op: bytes, origin, waiter })
        };
        client.number = *made;
        let (shard, input) = match &mut client.phase {
            Phase::Resting => {
                if self.calm || !self.clients.asking {
                    return;
                }
                client.phase = Phase::Times(Vec::new(), None);
                (client.time, client.until_ms) = (Timestamp::ZERO, self.now_ms + PATIENCE_MS);
                client.asked_at = self.clients.next_event();
                return;
            }
            Phase::Times(covered, asked) => match uncovered(&disk, covered) {
                Some((place, ends)) => {
                    *asked = Some(ends.clone());
                    fetch(disk.shard(place), FetchRequest::Newest { ends })
                }
                None => {
                    client.phase = Phase::Opening;
                    let (kind, at, ttl_ms) = (LeaseKind::Pin, client.time, LEASE_MS);
                    let (request, keyspaces) = (client.number, vec![disk.keyspace.id]);
                    let open = LeaseOp::Open { request, kind, keyspaces, at, ttl_ms };
                    change(&CatalogueOp::Lease(open))
                }
            },
            // It was not heard.
            Phase::Opening => return,
            Phase::Passing(covered, asked) => match uncovered(&disk, covered) {
                Some((place, ends)) => {
                    *asked = Some(ends.clone());
                    let want = Box::new(FetchRequest::Newest { ends });
                    fetch(disk.shard(place), FetchRequest::Past { at: client.time, want })
                }
                None => {
                    client.passed_at = self.clients.next_event();
                    client.made += 1;
                    client.phase = Phase::Creating;
                    client.until_ms = self.now_ms + PATIENCE_MS;
                    let (source, at) = (disk.keyspace.id, client.time);
                    let volume = disk.keyspace.options.volume.expect("it is a volume");
                    let origin = VolumeOrigin::Clone { source, at };
                    let options = KeyspaceOptions {
                        replicas: disk.keyspace.options.replicas,
                        placement: Placement::LinearHash,
                        volume: Some(VolumeOptions { is_shared: true, origin, ..volume }),
                        ..Default::default()
                    };
                    let name = client.name();
                    self.trace.event(format_args!("volume: {name} at {at:?}"));
                    change(&CatalogueOp::Create { name: &name, options })
                }
            },
            // Asked once; whether it was heard shows in the routes.
            Phase::Creating => match machine.routes.get(client.name().as_str()) {
                Some(_) => {
                    let (name, blocks) = (client.name(), BTreeMap::new());
                    client.clone = Some(CloneInUse { name, blocks });
                    client.phase = Phase::Using;
                    self.counts.clones += 1;
                    return;
                }
                None => return,
            },
            Phase::Using => {
                client.until_ms = self.now_ms + PATIENCE_MS;
                client.next_at_ms = self.now_ms + rng.between(1, 30);
                if rng.one_in(4) {
                    client.at = rng.below(self.node_slots.len() as u64) as usize;
                    return;
                }
                let Some(clone) = &mut client.clone else { return };
                if rng.one_in(DROPS_IN) {
                    let name = client.clone.take().map(|clone| clone.name).unwrap_or_default();
                    client.phase = Phase::Resting;
                    let (origin, waiter) = (NOBODY, Waiter(0));
                    let mut op = Vec::new();
                    CatalogueOp::Drop { name: &name }.encode(&mut op);
                    return machine.submit(SYSTEM, Input::Catalogue { op, origin, waiter });
                }
                let Some(route) = machine.routes.get(clone.name.as_str()).cloned() else { return };
                let block = rng.below(BLOCKS);
                if !rng.one_in(WRITES_IN) || clone.blocks.get(&block) == Some(&Block::Unknown) {
                    let (moment, fetched) = (machine.moment(), FetchedData::default());
                    client.phase = Phase::Reading { block, moment, fetched };
                    return;
                }
                *values += 1;
                client.phase = Phase::Writing { block, value: *values };
                let (key, bytes) = (VolumeOptions::key(block), bytes_of(*values));
                let shard = route.shard(route.place_of_key(&key));
                let mut batch = Batch::default();
                batch.push(&Write::set(&key, &bytes), waiter);
                (shard, Input::Propose { shard, origin, batch })
            }
            // Of no use: whatever the answer, it came or is given up.
            Phase::Writing { .. } => return,
            Phase::Reading { block, moment, fetched } => {
                let name = client.clone.as_ref().map(|clone| clone.name.as_str());
                let Some(route) = machine.routes.get(name.unwrap_or_default()).cloned() else {
                    return;
                };
                let (key, mut found) = (VolumeOptions::key(*block), Collect::default());
                match read::read_with(&route, &Read::Get(&key), *moment, fetched, &mut found) {
                    Ok(()) => match found.0.first() {
                        Some(Reply::Bulk(bytes)) => {
                            let (block, value) = (*block, number_in(bytes));
                            return self.saw_clone(all, block, value, true);
                        }
                        _ => {
                            client.phase = Phase::ReadingSource { block: *block };
                            return;
                        }
                    },
                    Err(blocked) => {
                        let Blocked { at, lock, place } = blocked;
                        let shard = route.shard(place);
                        match route.must_fetch(place, machine.node()) {
                            true => fetch(shard, FetchRequest::keys([&key[..]])),
                            false => (shard, Input::AwaitRead { shard, at, lock, origin, waiter }),
                        }
                    }
                }
            }
            Phase::ReadingSource { block } => {
                let (block, key) = (*block, VolumeOptions::key(*block));
                let at = match self.options.plant {
                    // Planted: the source as it is now.
                    Some(Plant::LateClone) => machine.now(),
                    _ => client.time,
                };
                let place = disk.place_of_key(&key);
                let want = FetchRequest::keys([&key[..]]);
                match past_here(&disk, place, at, &want) {
                    Some(FetchResult::Past(values)) => {
                        return self.saw_source(all, block, values.first());
                    }
                    _ => {
                        let want = Box::new(want);
                        fetch(disk.shard(place), FetchRequest::Past { at, want })
                    }
                }
            }
        };
        client.is_ready = false;
        machine.submit(shard, input);
    }

    /// An answer for this client.
    pub(in crate::cluster) fn clone_answered(&mut self, answer: &Answer) {
        let Some(mut all) = self.volumes.take() else { return };
        if answer.waiters().iter().any(|waiter| waiter.0 == all.cloner.number) {
            self.clones_answered(&mut all, answer);
        }
        self.volumes = Some(all);
    }

    fn clones_answered(&mut self, all: &mut VolumeClients, answer: &Answer) {
        let client = &mut all.cloner;
        client.is_ready = true;
        match (&mut client.phase, answer) {
            (Phase::Times(covered, asked), Answer::Fetched { found, .. }) => {
                if let (FetchResult::Newest(at), Some(ends)) = (&**found, asked.take()) {
                    client.time = client.time.max(*at);
                    covered.push(ends);
                }
            }
            (Phase::Opening, Answer::Catalogue { result, .. }) => {
                client.phase = match result {
                    Ok(_) => Phase::Passing(Vec::new(), None),
                    Err(_) => Phase::Resting,
                };
            }
            (Phase::Passing(covered, asked), Answer::Fetched { found, .. }) => {
                if let (FetchResult::Newest(_), Some(ends)) = (&**found, asked.take()) {
                    covered.push(ends);
                }
            }
            (Phase::Creating, Answer::Catalogue { result: Err(_), .. }) => {
                client.phase = Phase::Resting;
            }
            (Phase::Reading { fetched, .. }, Answer::Fetched { shard, at, want, found, .. }) => {
                fetched.add(*shard, *at, (**want).clone(), (**found).clone());
            }
            (Phase::ReadingSource { block }, Answer::Fetched { found, .. }) => match &**found {
                FetchResult::Past(values) => {
                    let block = *block;
                    self.saw_source(all, block, values.first());
                }
                FetchResult::BelowSafePoint(safe_point) => all.unpinned(*safe_point),
                _ => {}
            },
            (Phase::Writing { block, value }, answer) => {
                let known = match answer {
                    Answer::Applied { .. } => Some(Block::Written(*value)),
                    Answer::NotDone { why: NotDone::OutcomeUnknown | NotDone::Dropped, .. } => {
                        Some(Block::Unknown)
                    }
                    _ => None,
                };
                if let (Some(known), Some(clone)) = (known, &mut client.clone) {
                    clone.blocks.insert(*block, known);
                }
                client.phase = Phase::Using;
            }
            _ => {}
        }
    }

    /// The source had this at the clone's time.
    fn saw_source(&mut self, all: &mut VolumeClients, block: u64, value: Option<&PastValue>) {
        match value {
            Some(PastValue::Value(held)) => {
                let value = number_in(&held.value);
                self.saw_clone(all, block, value, false);
            }
            Some(PastValue::BelowSafePoint(safe_point)) => all.unpinned(*safe_point),
            Some(PastValue::Nil | PastValue::NilYet) => self.saw_clone(all, block, 0, false),
            None => {}
        }
    }

    /// A read of the clone has found this, in the clone itself or in its source.
    fn saw_clone(&mut self, all: &mut VolumeClients, block: u64, value: u64, is_own: bool) {
        let client = &mut all.cloner;
        client.phase = Phase::Using;
        self.counts.clone_reads += 1;
        let Some(clone) = &mut client.clone else { return };
        let known = clone.blocks.get(&block).copied();
        let is_right = match known {
            None if is_own => false,
            None | Some(Block::Unknown) => true,
            Some(Block::Unwritten(before)) => !is_own && before == value,
            Some(Block::Written(before)) => is_own && before == value,
        };
        self.trace.event(format_args!("volume: block {block} of {} has {value}", clone.name));
        if !is_right {
            let whose = if is_own { "its own" } else { "its source" };
            let text = format!(
                "block {block} of {} at {:?} has {value} of {whose}; known of it: {known:?}",
                clone.name, client.time
            );
            all.broken = Some(Violation::new(RULE, text));
            return;
        }
        if known.is_none() {
            clone.blocks.insert(block, Block::Unwritten(value));
            let access = BlockAccess::read(client.asked_at, client.passed_at, value);
            all.history.entry(block).or_default().push(access);
        }
    }
}

impl VolumeClients {
    /// The clone's time cannot be read in its source.
    fn unpinned(&mut self, safe_point: Timestamp) {
        let clone = self.cloner.clone.as_ref().map(|clone| clone.name.as_str());
        let (name, time) = (clone.unwrap_or_default(), self.cloner.time);
        let text = format!("{name} pins {time:?}, and the safe point is {safe_point:?}");
        self.broken = Some(Violation::new(RULE, text));
    }
}

/// A part of a volume that has not answered yet, and its ends.
fn uncovered(route: &Route, covered: &[Ends]) -> Option<(usize, Ends)> {
    let places = 0..route.shards().len();
    places.map(|place| (place, route.arc(place).ends())).find(|(_, ends)| !covered.contains(ends))
}

fn number_in(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("blocks are numbers here"))
}
