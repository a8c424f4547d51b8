//! One run: a node, its disk, its clients and its bad luck, one step after the other.
//!
//! ```text
//!   seed ─► options, mood ─► safety phase ─► heal ─► liveness phase ─► last reads ─► checkers
//!                            faults          no more faults: everyone is answered
//! ```
//!
//! A step is one of: a client asks; a batch goes to its executor; an executor takes inputs, or
//! appends and answers; a reader looks; a sync begins or ends; news are spread; the maintenance
//! thread raises a safe point, collects, or takes its round of checkpoints further; time passes;
//! something breaks; the node starts again. The dice choose among those that are possible.

mod answers;
mod clients;
mod faults;
mod models;
mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hlc::safe_point;
use keyspace::{KeyspaceId, ShardId, Timestamp};
use node::executor::Input;
use node::replica::SafePointRequest;
use node::replica::entry::Batch;
use node::routing::route::Route;
use storage::engine::MemoryEngine;
use storage::faulty::FaultyDisk;

use crate::check::Violation;
use crate::check::expiry::Sightings;
use crate::check::ledger::Ledger;
use crate::check::linear::{self, Cells, Linearizability, ObservedCommand};
use crate::machine::control::Outcomes;
use crate::machine::rounds::Progress;
use crate::machine::{Machine, StepFailure};
use crate::options::{Bug, Fault, Options, RunProfile};
use crate::rng::Rng;
use crate::trace::Trace;
use clients::Op;
use faults::PendingFault;

/// Steps after the healing in which clients go on asking.
const CALM_STEPS: u32 = 200;
/// Steps within which everyone is answered when nothing breaks any more.
const ANSWER_STEPS_MAX: u32 = 20_000;
/// Old versions may take this share of the memory; beyond it they go before their retention.
const OLD_SHARE: u64 = 10;
/// Where virtual time begins: milliseconds since 1970.
const WALL_MS: u64 = 1_700_000_000_000;

/// What a run has seen, to tell a run that tests something from one that does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands that were answered.
    pub answered: u64,
    /// Writes of unknown outcome.
    pub unknown: u64,
    /// Commands refused with nothing done.
    pub refused: u64,
    /// Reads at a past timestamp that were answered.
    pub snapshots: u64,
    /// … and that came too late.
    pub below_safe_point: u64,
    /// Deaths of the process.
    pub kills: u64,
    /// Losses of power.
    pub power_cuts: u64,
    /// Starts that ended well.
    pub starts: u64,
    /// Rounds of checkpoints that ended well.
    pub checkpoints: u64,
    /// Histories that were searched for a linear order.
    pub histories: u64,
    /// … that are of several keys.
    pub joint_histories: u64,
    /// RENAME, COPY and MSETNX that were answered.
    pub joint_writes: u64,
    /// Writes refused for want of memory.
    pub out_of_memory: u64,
}

/// The history of the keys of one hash tag, as their clients saw it, from one loss of memory to the
/// next.
#[derive(Clone, Debug, Default)]
struct History {
    first: Cells,
    seen: Vec<ObservedCommand>,
}

/// See the front page of this module.
pub struct World {
    options: Options,
    profile: RunProfile,
    rng: Rng,
    /// What happened.
    pub trace: Trace,
    disk: FaultyDisk,
    machine: Option<Machine>,
    wall_ms: u64,
    ledger: Ledger,
    sightings: Sightings,
    /// The keys that clients use, by number.
    names: Vec<Vec<u8>>,
    /// By keyspace and hash tag.
    histories: BTreeMap<(KeyspaceId, u64), History>,
    /// Histories that a loss of power has ended.
    closed: Vec<((KeyspaceId, u64), History)>,
    ops: BTreeMap<u64, Op>,
    ops_made: u64,
    /// Calls and returns so far.
    events: u64,
    batches: BTreeMap<ShardId, Batch>,
    /// Writes that a stop left without an answer, and the clock then.
    unknown_writes: Vec<(Op, u64)>,
    /// Keyspaces that were below `sync` at some time since the start.
    weak: BTreeSet<KeyspaceId>,
    armed: Option<PendingFault>,
    full: bool,
    /// Whether the maintenance thread has found that data takes more memory than it may.
    memory_full: bool,
    stopped: faults::StopState,
    calm: bool,
    asking: bool,
    /// Steps left of a lapse: time has jumped, and readers are awake before the executors are.
    time_jump_steps: u32,
    /// What it has seen.
    pub counts: Counts,
}

impl World {
    /// Before the first step.
    pub fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let profile = RunProfile::draw(&mut rng);
        let disk = FaultyDisk::new(rng.bits());
        let name = |key| format!("{{{}}}key-{key}", key / profile.tagged).into_bytes();
        let names = (0..profile.keys).map(name).collect();
        Self {
            options: options.clone(),
            profile,
            rng,
            trace: Trace::new(options.verbose),
            disk,
            machine: None,
            wall_ms: WALL_MS,
            ledger: Ledger::default(),
            sightings: Sightings::default(),
            names,
            histories: BTreeMap::new(),
            closed: Vec::new(),
            ops: BTreeMap::new(),
            ops_made: 0,
            events: 0,
            batches: BTreeMap::new(),
            unknown_writes: Vec::new(),
            weak: BTreeSet::new(),
            armed: None,
            full: false,
            memory_full: false,
            stopped: faults::StopState::default(),
            calm: false,
            asking: true,
            time_jump_steps: 0,
            counts: Counts::default(),
        }
    }

    /// What the seed chose for the whole run.
    pub fn profile(&self) -> &RunProfile {
        &self.profile
    }

    /// All phases.
    ///
    /// # Errors
    /// The first rule that was found broken.
    pub fn run(&mut self) -> Result<(), Violation> {
        for step in 0..self.options.steps {
            self.trace.step = step;
            if self.machine.is_some() {
                self.maybe_inject_fault()?;
            }
            self.step()?;
        }
        self.heal()?;
        for _ in 0..CALM_STEPS {
            self.trace.step += 1;
            self.step()?;
        }
        self.drain()?;
        self.ask_everything();
        self.drain()?;
        self.audit()?;
        self.forget()?;
        self.search()
    }

    /// Lets everyone be answered.
    fn drain(&mut self) -> Result<(), Violation> {
        self.asking = false;
        for _ in 0..ANSWER_STEPS_MAX {
            if self.ops.is_empty() {
                return Ok(());
            }
            self.trace.step += 1;
            self.step()?;
        }
        let op = self.ops.values().next().map(|op| op.to_string()).unwrap_or_default();
        let text = format!("after {ANSWER_STEPS_MAX} steps without faults, no answer to {op}");
        Err(Violation::new("liveness", text))
    }

    fn step(&mut self) -> Result<(), Violation> {
        if self.machine.is_none() {
            return self.down_step();
        }
        match self.up_step() {
            Ok(()) => {}
            Err(StepFailure::Broken(violation)) => return Err(violation),
            Err(StepFailure::Fatal(error)) => self.node_failed(&error)?,
        }
        self.look_at_scans();
        Ok(())
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("steps of a node that runs")
    }

    /// What control has led to.
    fn follow_control(&mut self) -> Result<(), StepFailure> {
        let Outcomes { answers, changed, events, .. } =
            std::mem::take(&mut self.machine().outcomes);
        for event in events {
            self.trace.event(format_args!("{event}"));
        }
        changed.iter().for_each(|keyspace| self.keyspace_changed(keyspace));
        for answer in answers {
            self.answered(answer)?;
        }
        Ok(())
    }

    fn up_step(&mut self) -> Result<(), StepFailure> {
        let (asking, ready) = (self.may_ask(), self.ready_reads());
        let batches = !self.batches.is_empty();
        let slowness = self.profile.sync_slowness;
        let checkpoints = self.options.faults.has(Fault::Checkpoints);
        let collection = self.options.faults.has(Fault::Collection);
        let machine = self.machine.as_ref().expect("steps of a node that runs");
        let busy: Vec<usize> =
            (0..machine.executors.len()).filter(|executor| machine.is_busy(*executor)).collect();
        let on = |possible: bool, weight: u64| if possible { weight } else { 0 };
        let awake = self.time_jump_steps == 0;
        let weights = [
            on(asking, 20),
            on(batches && awake, 12),
            on(!ready.is_empty(), 20),
            on(!busy.is_empty() && awake, 40),
            on(machine.log.wants_sync(), 8),
            on(machine.log.is_syncing(), (24 / slowness).max(1)),
            on(machine.log.wants_segment(), 2),
            on(machine.has_news(), 12),
            on(awake, 6),
            on(collection, 2),
            on(collection, 3),
            on(checkpoints, if machine.is_checkpointing() { 8 } else { 1 }),
        ];
        if weights.iter().all(|weight| *weight == 0) {
            // In a lapse, when readers have nothing to ask: it ends soon.
            return Ok(());
        }
        match self.rng.weighted(&weights) {
            0 => self.ask(),
            1 => self.send_batch(),
            2 => {
                let op = *self.rng.pick(&ready);
                self.read(op)?;
            }
            3 => self.step_an_executor(&busy)?,
            4 => self.begin_sync()?,
            5 => self.end_sync()?,
            6 => self.make_segment()?,
            7 => {
                self.machine().step_control();
                self.follow_control()?;
            }
            8 => self.tick(),
            9 => self.keep_versions(),
            10 => self.collect(),
            _ => self.step_rounds()?,
        }
        Ok(())
    }

    /// An executor takes some inputs, or appends.
    fn step_an_executor(&mut self, busy: &[usize]) -> Result<(), StepFailure> {
        let executor = *self.rng.pick(busy);
        let inputs_max = self.rng.between(1, 12) as usize;
        let machine = self.machine.as_mut().expect("the node runs");
        let answers =
            machine.step_executor(executor, inputs_max, &mut self.ledger, &mut self.trace)?;
        for answer in answers {
            self.answered(answer)?;
        }
        Ok(())
    }

    fn begin_sync(&mut self) -> Result<(), StepFailure> {
        self.trace.event(format_args!("sync begins"));
        let early = self.rng.one_in(2);
        self.machine().log.begin_sync(early)?;
        Ok(())
    }

    fn end_sync(&mut self) -> Result<(), StepFailure> {
        self.trace.event(format_args!("sync ends"));
        self.machine().end_sync()?;
        Ok(())
    }

    fn make_segment(&mut self) -> Result<(), StepFailure> {
        self.trace.event(format_args!("segment"));
        self.machine().log.make_segment()?;
        Ok(())
    }

    /// A round of checkpoints goes on by several steps: there are many shards, and a round is worth
    /// nothing before its end.
    fn step_rounds(&mut self) -> Result<(), StepFailure> {
        for _ in 0..self.rng.between(1, 30) {
            let progress = self.machine().step_round()?;
            self.trace.event(format_args!("checkpoints: {progress:?}"));
            self.counts.checkpoints += u64::from(progress == Progress::Done);
            if progress != Progress::More {
                break;
            }
        }
        Ok(())
    }

    fn tick(&mut self) {
        let jump = !self.calm && self.options.faults.has(Fault::Clock) && self.rng.one_in(20);
        let millis = match jump {
            true => self.rng.between(500, 5_000),
            false => self.rng.between(0, self.profile.tick_ms_max),
        };
        if jump && !self.rng.one_in(3) {
            self.time_jump_steps = self.rng.between(8, 30) as u32;
        }
        self.wall_ms += millis;
        self.machine().elapsed_ms += millis;
        self.trace.event(format_args!("{millis} ms pass"));
    }

    /// What the maintenance thread does for a keyspace: measures memory, raises the safe point.
    fn keep_versions(&mut self) {
        let machine = self.machine.as_mut().expect("the node runs");
        let usage = |route: &Arc<Route>| {
            let engines = route.views.iter().map(|view| {
                let usage = view.read().engine().map(MemoryEngine::usage).unwrap_or_default();
                (usage.live_bytes + usage.old_bytes, usage.old_bytes)
            });
            engines.fold((0, 0), |sum, bytes| (sum.0 + bytes.0, sum.1 + bytes.1))
        };
        let usages = machine.routes.values().map(usage);
        let (used, old) = usages.fold((0, 0), |sum, bytes| (sum.0 + bytes.0, sum.1 + bytes.1));
        let bytes_max = self.profile.memory_bytes_max;
        self.memory_full = used > bytes_max;
        let pressed = old > bytes_max / OLD_SHARE || self.memory_full;
        if machine.routes.is_empty() || machine.log.full {
            return;
        }
        let now = machine.now();
        let at = self.rng.below(machine.routes.len() as u64) as usize;
        let route = machine.routes.values().nth(at).expect("below the number of routes");
        let safe_points =
            route.views.iter().filter_map(|v| v.read().engine().map(|e| e.safe_point()));
        let current = safe_points.min().unwrap_or_default();
        let wanted = if pressed {
            let to_free =
                |engine: &MemoryEngine| engine.point_to_free(engine.usage().old_bytes / 2);
            let points = route.views.iter().filter_map(|v| v.read().engine().and_then(to_free));
            points.max()
        } else {
            // Also without need, and at any place.
            self.rng.one_in(4).then(|| {
                let back_ms = self.rng.below(20);
                Timestamp::from_millis(now.millis() - back_ms)
            })
        };
        let retention_ms = route.keyspace.options.retention_ms;
        let to = safe_point::target(current, now, retention_ms, wanted);
        let keyspace = route.keyspace.id;
        if to > current {
            let raise = SafePointRequest { keyspace, to, is_pressed: wanted.is_some() };
            machine.submit(ShardId(0), Input::RaiseKeyspace(raise));
            self.trace.event(format_args!("keyspace {keyspace}: safe point to {to:?}"));
        }
    }

    /// Has everything collected that nobody can read any more: nothing else may be left.
    fn forget(&mut self) -> Result<(), Violation> {
        if !self.options.faults.has(Fault::Collection) {
            return Ok(());
        }
        let machine = self.machine.as_mut().expect("the machine was audited");
        let to = machine.now();
        let keyspaces: Vec<KeyspaceId> =
            machine.routes.values().map(|route| route.keyspace.id).collect();
        for keyspace in keyspaces {
            let raise = SafePointRequest { keyspace, to, is_pressed: true };
            machine.submit(ShardId(0), Input::RaiseKeyspace(raise));
        }
        for _ in 0..ANSWER_STEPS_MAX {
            let machine = self.machine.as_ref().expect("nothing breaks any more");
            let mut views = machine.routes.values().flat_map(|route| &route.views);
            let raised = views.all(|v| v.read().engine().is_none_or(|e| e.safe_point() >= to));
            // A checkpoint holds the collector back.
            if raised && !machine.is_checkpointing() {
                return self.nothing_old();
            }
            self.trace.step += 1;
            self.step()?;
        }
        Err(Violation::new("liveness", "safe points are not raised"))
    }

    fn nothing_old(&mut self) -> Result<(), Violation> {
        let machine = self.machine.as_ref().expect("nothing breaks any more");
        for route in machine.routes.values() {
            for (view, id) in route.views.iter().zip(&route.keyspace.shards) {
                let mut state = view.write();
                let Some(engine) = state.engine_mut() else { continue };
                while engine.collect(3) {}
                let usage = engine.usage();
                let Some(model) = self.ledger.shard(*id).map(|shard| &shard.versions) else {
                    continue;
                };
                let alive = model.alive(engine.safe_point()).count() as u64;
                let is = (usage.versions, usage.keys, usage.old_bytes);
                if is != (alive, alive, 0) {
                    let text = format!("shard {id}: {usage:?}, and {alive} keys are alive");
                    return Err(Violation::new("G14 what nobody can read goes", text));
                }
            }
        }
        Ok(())
    }

    fn collect(&mut self) {
        let budget = self.rng.between(1, 40) as usize;
        let pick = self.rng.bits() as usize;
        let machine = self.machine.as_mut().expect("the node runs");
        let views: Vec<_> = machine.routes.values().flat_map(|route| &route.views).collect();
        if let Some(view) = views.get(pick % views.len().max(1))
            && let Some(engine) = view.write().engine_mut()
        {
            engine.collect(budget);
        }
    }

    /// Searches every history for a linear order.
    fn search(&mut self) -> Result<(), Violation> {
        let open = std::mem::take(&mut self.histories);
        for ((keyspace, tag), mut history) in self.closed.drain(..).chain(open) {
            history.seen.sort_by_key(|seen| seen.call);
            let first = tag * self.profile.tagged;
            for (places, cells, seen) in linear::apart(&history.first, &history.seen) {
                self.counts.histories += 1;
                self.counts.joint_histories += u64::from(places.len() > 1);
                let verdict = linear::is_linear(&cells, &seen);
                if verdict == Linearizability::Yes {
                    continue;
                }
                let keys: Vec<u64> = places.iter().map(|place| first + *place as u64).collect();
                let end = linear::first_bad_prefix(&cells, &seen);
                let mut text = format!(
                    "keyspace {keyspace}, keys {keys:?}: no order of these explains the \
                     answers ({verdict:?}), beginning with {cells:?}",
                );
                for seen in &seen[..end] {
                    text += &format!("\n    {seen}");
                }
                return Err(Violation::new("linearizable per key", text));
            }
        }
        Ok(())
    }

    fn has_bug(&self, bug: Bug) -> bool {
        self.options.bug == Some(bug)
    }
}
