//! The second driver of a node's cores: what the server does with threads, done in steps.
//!
//! ```text
//!   inputs ──► seat ──accept──► lane ──turn──► effects ──append──► log room ──► Durable ──► seat
//!               ▲                                 │ answers to the clients
//!               └─────────── news ◄───────────────┘ catalogue, safe points
//! ```
//!
//! A seat's step is one of two: take inputs and turn, or append what the last turn handed out, tell
//! `Written` and publish its answers. Between any two steps readers look, syncs begin and end, the
//! keeper works, and the power goes. The contract is the server's: groups go to the log in the
//! order of their tickets, `Written` follows the append at once, checkpoints begin only while no
//! group waits to be appended, news are spread in order.

pub mod control;
pub mod coordinates;
mod left_records;
pub mod log_room;
pub mod open;
pub mod peers;
pub mod rounds;
pub mod streams;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hlc::{Clock, Physical};
use keyspace::{Durability, KeyHasher, Level, ShardId, Timestamp};
use node::control::{self as control_plane, CONTROL, Control};
use node::executor::admission::{self, Admission, log_bytes, unneeded};
use node::executor::{Answer, Effects, Given, Input, Origin, ShardExecutor, TURN_BYTES_MAX};
use node::recovery::checkpoint::BLOCK;
use node::replica::digest::{Digesting, Step};
use node::replica::entry::Waiter;
use node::replica::read::Now;
use node::replica::state::ShardState;
use node::replica::{Finding, ShardStart, Unfit};
use node::routing::route::Route;
pub use node::routing::route::View;
use replication::Refused;
use storage::Error;
use storage::disk::Disk;
use storage::engine::{PieceLimits, Settings};
use storage::manifest::Manifest;

use crate::check::Violation;
use crate::check::Witness;
use crate::trace::Trace;
use control::Outcomes;
use coordinates::Coordinates;
use log_room::LogRoom;
use peers::{Packet, Post};
use rounds::{Installation, Round};
use streams::Streams;

/// The origin of work that nobody waits for.
pub const NOBODY: Origin = Origin(u32::MAX);
/// The origin of the virtual clients.
pub const CLIENTS: Origin = Origin(1);

/// Limits of the cores which no short run would reach as they usually are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a block of a checkpoint.
    pub block: PieceLimits,
    /// Keys of an era that a flush empties one by one; a larger one is set aside.
    pub flush_in_place_keys_max: u64,
    /// Bytes of commands that a lane proposes in one turn.
    pub turn_bytes_max: u64,
}

impl Limits {
    /// As a server has them.
    pub fn usual() -> Self {
        let Settings { flush_in_place_keys_max, .. } = KeyHasher::new([0; 16]).into();
        Self { block: BLOCK, flush_in_place_keys_max, turn_bytes_max: TURN_BYTES_MAX }
    }

    fn settings(&self, hasher: KeyHasher) -> Settings {
        Settings { hasher, flush_in_place_keys_max: self.flush_in_place_keys_max }
    }
}

/// A node that runs.
pub struct Machine {
    handle: Arc<dyn Disk>,
    /// The manifest as it is on disk.
    pub manifest: Manifest,
    /// The node's clock.
    pub clock: Arc<Clock>,
    time: Physical,
    /// Milliseconds since the start, as its monotonic clock says.
    pub elapsed_ms: u64,
    /// Its boot clock, in nanoseconds.
    pub boot: u64,
    /// Its control plane.
    control: Control,
    ticks: u64,
    /// To be sent to other nodes.
    pub outgoing: Vec<Packet>,
    /// Snapshots on their way.
    pub streams: Streams,
    hasher: KeyHasher,
    limits: Limits,
    /// The log.
    pub log: LogRoom,
    /// The lanes with what waits for them; shard `s` lives in lane `s mod lanes`.
    pub lanes: Vec<Seat>,
    /// All keyspaces, by name.
    pub routes: BTreeMap<Box<str>, Arc<Route>>,
    /// What control is to be told.
    news: control_plane::Queue,
    /// What control has led to.
    pub outcomes: Outcomes,
    round: Option<Round>,
    installation: Option<Installation>,
    /// The cluster's level, as far as this node knows.
    pub level: Level,
    /// Planted: syncs are said to be done when they are not.
    pub unsynced_ack: bool,
    /// Planted: lanes are not told what the table knows.
    pub is_deaf: bool,
    /// Planted: the last block of a checkpoint of several is forgotten.
    pub short_checkpoint: bool,
    /// Planted: rounds of checkpoints forget a shard.
    pub forgets_shards: bool,
    /// Planted: records stay where their shards were cut off.
    pub leaves_records: bool,
    /// States that are being digested.
    pub digests: Vec<Digesting>,
    /// What leaders have found, to be looked at by the world.
    pub findings: Vec<Finding>,
    /// Shards whose replica has ended because it was unfit, to be looked at by the world.
    pub ended: Vec<(ShardId, Unfit)>,
    /// Whether its disk has lost what was synced: it may notice.
    pub may_lose: bool,
    /// Commands that were sent on, each with its new shard, to be looked at by the world.
    pub sent_on: Vec<(Waiter, ShardId)>,
    /// Writes that were sent to shards which others have taken in, to be looked at by the world.
    pub inherited: Vec<(Waiter, ShardId)>,
    /// Shards whose replica here has given up what it held, to be looked at by the world.
    pub given_up: Vec<ShardId>,
    /// Transactions over several shards.
    pub coordinates: Coordinates,
}

/// One lane and what waits for it.
pub struct Seat {
    /// The lane.
    pub lane: ShardExecutor,
    inbox: VecDeque<Input>,
    effects: Effects,
    /// Whether the effects of the last turn wait to be appended and published.
    unappended: bool,
    /// Whether it must turn again, for what it was told.
    again: bool,
    credit_bytes: u64,
}

/// What a step of the machine leads to.
#[derive(Debug)]
pub enum Failed {
    /// The node must stop.
    Fatal(Error),
    /// A rule is broken.
    Broken(Violation),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

impl From<Violation> for Failed {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

impl Machine {
    /// Tells the clock the time, and reads it.
    pub fn now(&self) -> Timestamp {
        self.clock.observe_millis(self.time.millis(self.elapsed_ms));
        self.clock.now()
    }

    /// As [`Self::now`], on both clocks: for reads whose requests have come.
    pub fn moment(&self) -> Now {
        Now { time: self.now(), boot: self.boot }
    }

    fn lane_of(&self, shard: ShardId) -> usize {
        (shard.0 % self.lanes.len() as u64) as usize
    }

    /// Hands one input to the lane of a shard.
    pub fn submit(&mut self, shard: ShardId, input: Input) {
        let lane = self.lane_of(shard);
        self.lanes[lane].inbox.push_back(input);
    }

    /// Whether a lane has something to do.
    pub fn is_busy(&self, lane: usize) -> bool {
        let seat = &self.lanes[lane];
        seat.unappended || seat.again || !seat.inbox.is_empty()
    }

    /// Takes a lane one step further. At most `inputs_max` inputs are taken.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn step_lane(
        &mut self,
        lane: usize,
        inputs_max: usize,
        ledger: &mut dyn Witness,
        trace: &mut Trace,
    ) -> Result<Vec<Answer>, Failed> {
        let mut answers = Vec::new();
        if self.lanes[lane].unappended {
            self.append(lane, &mut answers, ledger, trace)?;
            self.take_coordinated(&mut answers);
            return Ok(answers);
        }
        let seat = &mut self.lanes[lane];
        let count = inputs_max.min(seat.inbox.len());
        let inputs: Vec<Input> = seat.inbox.drain(..count).collect();
        trace.event(format_args!("lane {lane} takes {count} inputs"));
        let inputs = self.admit(lane, inputs, &mut answers)?;
        let boot = self.boot;
        let seat = &mut self.lanes[lane];
        seat.lane.observe(boot);
        inputs.into_iter().for_each(|input| seat.lane.accept(input));
        seat.again = false;
        seat.lane.turn(&mut seat.effects);
        seat.unappended = !seat.effects.is_empty();
        let halves = seat.effects.halves.iter().filter(|_| self.leaves_records);
        let halves: Vec<View> = halves.map(|half| half.view.clone()).collect();
        halves.iter().for_each(|half| self.leave_records(half));
        let seat = &mut self.lanes[lane];
        if !seat.unappended {
            self.log.release(unneeded(&seat.lane, &mut seat.credit_bytes));
        }
        for shard in seat.lane.shards() {
            ledger.look(shard)?;
        }
        self.take_coordinated(&mut answers);
        self.take_controls(&mut answers);
        Ok(answers)
    }

    /// Reserves room in the log for what is to be proposed; without room, refuses it, but lets
    /// readers in.
    fn admit(
        &mut self,
        lane: usize,
        inputs: Vec<Input>,
        answers: &mut Vec<Answer>,
    ) -> Result<Vec<Input>, Error> {
        let bytes: u64 = inputs.iter().map(log_bytes).sum();
        self.lanes[lane].lane.set_full(false);
        if bytes == 0 && !self.log.full {
            return Ok(inputs);
        }
        match self.log.reserve(bytes) {
            Ok(()) => {
                self.lanes[lane].credit_bytes += bytes;
                return Ok(inputs);
            }
            Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        self.lanes[lane].lane.set_full(true);
        let mut kept = Vec::new();
        let from = self.manifest.node;
        for input in inputs {
            match admission::without_room(input) {
                Admission::Taken(input) => kept.push(input),
                Admission::Refused(answer) => answers.push(answer),
                Admission::Unable(to, letter) => {
                    self.outgoing.push(Packet::Letter(Post { from, to, letter }));
                }
                Admission::LeftOut => {}
            }
        }
        Ok(kept)
    }

    /// Appends what a lane wants to have in the log, and hands on all else that it has led to.
    fn append(
        &mut self,
        lane: usize,
        answers: &mut Vec<Answer>,
        ledger: &mut dyn Witness,
        trace: &mut Trace,
    ) -> Result<(), Failed> {
        self.lanes[lane].again = true;
        self.append_records(lane, ledger, trace)?;
        self.put_on_its_way(lane);
        self.refuse(lane)?;
        let mut news = news_of(&mut self.lanes[lane].effects);
        self.hand_over_merged(lane, &mut news, trace);
        let effects = &mut self.lanes[lane].effects;
        let bequeathed = effects.bequeathed.drain(..).map(Box::new);
        news.extend(bequeathed.map(control_plane::Input::Bequeathed));
        let stuck = std::mem::take(&mut effects.stuck);
        for answer in effects.answers.drain(..) {
            // Whoever changed the catalogue is told when the change can be used.
            if matches!(answer, Answer::Catalogue { .. }) || answer.origin() == CONTROL {
                news.push(control_plane::Input::Answer(answer));
            } else {
                answers.push(answer);
            }
        }
        self.digests.append(&mut effects.digests);
        self.findings.append(&mut effects.findings);
        let events = std::mem::take(&mut effects.events);
        let ended = std::mem::take(&mut effects.ended);
        let known = std::mem::take(&mut effects.known);
        effects.clear();
        self.lanes[lane].unappended = false;
        for (shard, _, why) in ended {
            self.ended.push((shard, why));
            self.digests.retain(|digesting| digesting.shard != shard);
            news.push(control_plane::Input::Ended(shard));
        }
        if !known.is_empty() {
            news.push(control_plane::Input::Learned(known));
        }
        events.into_iter().for_each(|what| self.happened(what));
        self.post(news);
        for stuck in stuck {
            trace.event(format_args!("{:?} is to be finished", stuck.id));
            self.finish(stuck);
        }
        Ok(())
    }

    /// The records of a lane's turn go to the log, as one group.
    fn append_records(
        &mut self,
        lane: usize,
        ledger: &mut dyn Witness,
        trace: &mut Trace,
    ) -> Result<(), Failed> {
        let seat = &mut self.lanes[lane];
        let effects = &mut seat.effects;
        if effects.records.is_empty() {
            return Ok(());
        }
        for record in effects.records.iter() {
            trace.bytes(record.payload);
        }
        let ticket = effects.ticket;
        trace.event(format_args!(
            "lane {lane} appends group {ticket} of {} records{}",
            effects.records.records(),
            if effects.sync { ", to be synced" } else { "" }
        ));
        let group = ledger.hand_out(&effects.records)?;
        self.log.release(unneeded(&seat.lane, &mut seat.credit_bytes));
        let lsn = self.log.append(&mut effects.records, lane, ticket, effects.sync)?;
        ledger.written(group, self.log.log.written_end());
        seat.lane.accept(Input::Written { ticket, lsn });
        if self.unsynced_ack && effects.sync {
            seat.lane.accept(Input::Durable { ticket });
        }
        Ok(())
    }

    /// What a lane has to say to other nodes leaves.
    fn put_on_its_way(&mut self, lane: usize) {
        let (from, effects) = (self.manifest.node, &mut self.lanes[lane].effects);
        let messages = effects.messages.drain(..);
        self.outgoing.extend(messages.map(|message| Packet::Message(from, Box::new(message))));
        let letters = effects.letters.drain(..);
        let letters = letters.map(|(to, letter)| Packet::Letter(Post { from, to, letter }));
        self.outgoing.extend(letters);
    }

    /// A replica refuses only what may come late for one that has ended.
    fn refuse(&mut self, lane: usize) -> Result<(), Violation> {
        let (may_lose, refused) = (self.may_lose, &mut self.lanes[lane].effects.refused);
        let is_expected =
            |why: &Refused| matches!(why, Refused::LostLog { .. } | Refused::Misled { .. });
        refused.retain(|(_, why)| !may_lose || !is_expected(why));
        match refused.pop() {
            Some((shard, refused)) => {
                let text = format!("shard {shard}: {refused}");
                Err(Violation::new("R3 replicas keep what they promise", text))
            }
            None => Ok(()),
        }
    }

    /// Shards that have merged into their left neighbours are handed over to these.
    fn hand_over_merged(
        &mut self,
        lane: usize,
        news: &mut Vec<control_plane::Input>,
        trace: &mut Trace,
    ) {
        for given in self.lanes[lane].effects.given.drain(..) {
            let Given { left, right, .. } = given;
            trace.event(format_args!("shard {right} is given to {left}"));
            if given.state.is_some() {
                self.given_up.push(right);
                self.digests.retain(|digesting| digesting.shard != right);
            }
            news.push(control_plane::Input::Given(given));
        }
    }

    /// Takes the oldest digest one step further.
    pub fn step_digest(&mut self) {
        let limits = self.limits.block;
        let Some(digesting) = self.digests.first_mut() else { return };
        let digest = match digesting.step(limits, &mut Vec::new()) {
            Step::More => return,
            Step::Done(digest) => Some(digest),
            Step::Void => None,
        };
        let Digesting { shard, replica, index, .. } = *digesting;
        self.digests.remove(0);
        self.submit(shard, Input::Digested { shard, replica, index, digest });
    }

    /// Ends the sync that is under way, and tells the lanes.
    ///
    /// # Errors
    /// All are fatal.
    pub fn end_sync(&mut self) -> Result<(), Error> {
        for (lane, ticket) in self.log.end_sync()? {
            self.lanes[lane].inbox.push_back(Input::Durable { ticket });
        }
        Ok(())
    }

    /// Whether a round of checkpoints is under way, or the installation of a snapshot.
    pub fn is_checkpointing(&self) -> bool {
        self.round.is_some() || self.installation.is_some()
    }

    /// Whether a snapshot is being installed.
    pub fn is_installing(&self) -> bool {
        self.installation.is_some()
    }

    /// Has the replica made that this node has of a new shard.
    fn create_shard(&mut self, state: ShardState, durability: Durability) {
        let shard = state.descriptor.shard;
        let replica = state.descriptor.replica_on(self.manifest.node);
        let replica = replica.expect("whoever calls has looked");
        let start = ShardStart::born(state, replica, durability);
        self.control.adopt(start.view.clone());
        self.submit(shard, Input::Create(start));
    }
}

/// What a lane's turn means for control.
fn news_of(effects: &mut Effects) -> Vec<control_plane::Input> {
    let mut news: Vec<control_plane::Input> = Vec::new();
    news.extend(effects.changes.drain(..).map(control_plane::Input::Catalogue));
    let points = effects.safe_points.drain(..);
    news.extend(points.map(|(keyspace, to)| control_plane::Input::SafePoint(keyspace, to)));
    let halves = effects.halves.drain(..);
    news.extend(halves.map(|half| control_plane::Input::Half(Box::new(half))));
    news.extend(effects.moved.drain(..).map(control_plane::Input::Rerouted));
    let words = effects.words.drain(..);
    news.extend(words.map(|(shard, word)| control_plane::Input::Word(shard, word)));
    news.extend(effects.absorbing.drain(..).map(control_plane::Input::Absorbing));
    news
}
