//! One run: a node, its disk, its clients and its bad luck, one step after the other.
//!
//! ```text
//!   seed ─► options, mood ─► safety phase ─► heal ─► liveness phase ─► last reads ─► checkers
//!                            faults          no more faults: everyone is answered
//! ```
//!
//! A step is one of: a client asks; a batch goes to its lane; a lane takes inputs, or appends and
//! answers; a reader looks; a sync begins or ends; news are spread; the keeper raises a safe point,
//! collects, or takes its round of checkpoints further; time passes; something breaks; the node
//! starts again. The dice choose among those that are possible.

mod clients;
mod faults;
mod reads;

use std::collections::{BTreeMap, BTreeSet};

use keyspace::{KeyspaceId, ShardId};
use node::entry::Batch;
use storage::faulty::FaultyDisk;
use txn::safe_point;

use crate::check::Violation;
use crate::check::expiry::Sightings;
use crate::check::ledger::Ledger;
use crate::check::linear::{self, Linear, Seen};
use crate::command::Cell;
use crate::machine::rounds::Progress;
use crate::machine::{Failed, Machine};
use crate::options::{Bug, Fault, Mood, Options};
use crate::rng::Rng;
use crate::trace::Trace;
use clients::Op;
use faults::Armed;

/// Steps after the healing in which clients go on asking.
const CALM_STEPS: u32 = 200;
/// Steps within which everyone is answered when nothing breaks any more.
const ANSWER_STEPS_MAX: u32 = 20_000;
/// Where virtual time begins: milliseconds since 1970.
const WALL_MS: u64 = 1_700_000_000_000;

/// What a run has seen, to tell a run that tests something from one that does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands that were answered.
    pub answered: u64,
    /// Writes whose outcome nobody was told.
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
    /// Histories of one key that were searched for a linear order.
    pub histories: u64,
}

/// The history of one key, as its clients saw it, from one loss of memory to the next.
#[derive(Clone, Debug, Default)]
struct History {
    first: Option<Cell>,
    seen: Vec<Seen>,
}

/// See the front page of this module.
pub struct World {
    options: Options,
    mood: Mood,
    rng: Rng,
    /// What happened.
    pub trace: Trace,
    disk: FaultyDisk,
    machine: Option<Machine>,
    wall_ms: u64,
    ledger: Ledger,
    sightings: Sightings,
    histories: BTreeMap<(KeyspaceId, Vec<u8>), History>,
    /// Histories that a loss of power has ended.
    closed: Vec<((KeyspaceId, Vec<u8>), History)>,
    ops: BTreeMap<u64, Op>,
    ops_made: u64,
    /// Calls and returns so far.
    events: u64,
    batches: BTreeMap<ShardId, Batch>,
    /// Writes that a stop left without an answer, and the clock then.
    limbo: Vec<(Op, u64)>,
    /// Keyspaces that were below `sync` at some time since the start.
    weak: BTreeSet<KeyspaceId>,
    armed: Option<Armed>,
    full: bool,
    stopped: faults::Stopped,
    calm: bool,
    asking: bool,
    /// Steps left of a lapse: time has jumped, and readers are awake before the lanes are.
    lapse: u32,
    /// What it has seen.
    pub counts: Counts,
}

impl World {
    /// Before the first step.
    pub fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let mood = Mood::draw(&mut rng);
        let disk = FaultyDisk::new(rng.bits());
        Self {
            options: options.clone(),
            mood,
            rng,
            trace: Trace::new(options.verbose),
            disk,
            machine: None,
            wall_ms: WALL_MS,
            ledger: Ledger::default(),
            sightings: Sightings::default(),
            histories: BTreeMap::new(),
            closed: Vec::new(),
            ops: BTreeMap::new(),
            ops_made: 0,
            events: 0,
            batches: BTreeMap::new(),
            limbo: Vec::new(),
            weak: BTreeSet::new(),
            armed: None,
            full: false,
            stopped: faults::Stopped::default(),
            calm: false,
            asking: true,
            lapse: 0,
            counts: Counts::default(),
        }
    }

    /// What the seed chose for the whole run.
    pub fn mood(&self) -> &Mood {
        &self.mood
    }

    /// All phases.
    ///
    /// # Errors
    /// The first rule that was found broken.
    pub fn run(&mut self) -> Result<(), Violation> {
        for step in 0..self.options.steps {
            self.trace.step = step;
            if self.machine.is_some() {
                self.maybe_break()?;
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
            Err(Failed::Broken(violation)) => return Err(violation),
            Err(Failed::Fatal(error)) => self.node_failed(&error)?,
        }
        self.look_at_scans();
        Ok(())
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("steps of a node that runs")
    }

    fn up_step(&mut self) -> Result<(), Failed> {
        let asking = self.may_ask();
        let ready = self.ready_reads();
        let batches = !self.batches.is_empty();
        let slowness = self.mood.sync_slowness;
        let checkpoints = self.options.faults.has(Fault::Checkpoints);
        let collection = self.options.faults.has(Fault::Collection);
        let machine = self.machine.as_ref().expect("steps of a node that runs");
        let busy: Vec<usize> =
            (0..machine.lanes.len()).filter(|lane| machine.is_busy(*lane)).collect();
        let on = |possible: bool, weight: u64| if possible { weight } else { 0 };
        let awake = self.lapse == 0;
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
        match self.rng.weighted(&weights) {
            0 => self.ask(),
            1 => self.send_batch(),
            2 => {
                let op = *self.rng.pick(&ready);
                self.read(op)?;
            }
            3 => {
                let lane = *self.rng.pick(&busy);
                let inputs_max = self.rng.between(1, 12) as usize;
                let machine = self.machine.as_mut().expect("it runs");
                let answers =
                    machine.step_lane(lane, inputs_max, &mut self.ledger, &mut self.trace)?;
                for answer in answers {
                    self.answered(answer)?;
                }
            }
            4 => {
                self.trace.event(format_args!("sync begins"));
                let early = self.rng.one_in(2);
                self.machine().log.begin_sync(early)?;
            }
            5 => {
                self.trace.event(format_args!("sync ends"));
                self.machine().end_sync()?;
            }
            6 => {
                self.trace.event(format_args!("segment"));
                self.machine().log.make_segment()?;
            }
            7 => {
                let (answer, changed) = self.machine().spread_news();
                if let Some(keyspace) = changed {
                    self.keyspace_changed(&keyspace);
                }
                if let Some(answer) = answer {
                    self.answered(answer)?;
                }
            }
            8 => self.tick(),
            9 => self.raise_safe_point(),
            10 => self.collect(),
            _ => {
                // There are many shards, and a round is worth nothing before its end.
                for _ in 0..self.rng.between(1, 30) {
                    let progress = self.machine().step_round()?;
                    self.trace.event(format_args!("checkpoints: {progress:?}"));
                    self.counts.checkpoints += u64::from(progress == Progress::Done);
                    if progress != Progress::More {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn tick(&mut self) {
        let jump = !self.calm && self.options.faults.has(Fault::Clock) && self.rng.one_in(20);
        let millis = match jump {
            true => self.rng.between(500, 5_000),
            false => self.rng.between(0, self.mood.tick_ms_max),
        };
        if jump && !self.rng.one_in(3) {
            self.lapse = self.rng.between(8, 30) as u32;
        }
        self.wall_ms += millis;
        self.machine().elapsed_ms += millis;
        self.trace.event(format_args!("{millis} ms pass"));
    }

    fn raise_safe_point(&mut self) {
        let machine = self.machine.as_mut().expect("it runs");
        if machine.routes.is_empty() || machine.log.full {
            return;
        }
        let now = machine.now();
        let at = self.rng.below(machine.routes.len() as u64) as usize;
        let route = machine.routes.values().nth(at).expect("below the number of routes");
        let safe_points =
            route.views.iter().filter_map(|v| v.read().keys().map(|e| e.safe_point()));
        let current = safe_points.min().unwrap_or_default();
        let pressed = self.rng.one_in(4).then(|| {
            let back_ms = self.rng.below(20);
            keyspace::Timestamp::from_millis(now.millis() - back_ms)
        });
        let retention_ms = route.keyspace.options.retention_ms;
        let to = safe_point::target(current, now, retention_ms, pressed);
        let keyspace = route.keyspace.id;
        if to > current {
            machine.submit(ShardId(0), node::lane::Input::RaiseKeyspace { keyspace, to });
            self.trace.event(format_args!("keyspace {keyspace}: safe point to {to:?}"));
        }
    }

    fn collect(&mut self) {
        let budget = self.rng.between(1, 40) as usize;
        let pick = self.rng.bits() as usize;
        let machine = self.machine.as_mut().expect("it runs");
        let views: Vec<_> = machine.routes.values().flat_map(|route| &route.views).collect();
        if let Some(view) = views.get(pick % views.len().max(1))
            && let Some(engine) = view.write().keys_mut()
        {
            engine.collect(budget);
        }
    }

    /// Searches every history for a linear order.
    fn search(&mut self) -> Result<(), Violation> {
        let open = std::mem::take(&mut self.histories);
        for ((keyspace, key), mut history) in self.closed.drain(..).chain(open) {
            history.seen.sort_by_key(|seen| seen.call);
            self.counts.histories += 1;
            let verdict = linear::is_linear(history.first.as_ref(), &history.seen);
            if verdict == Linear::Yes {
                continue;
            }
            let end = linear::first_bad_prefix(history.first.as_ref(), &history.seen);
            let mut text = format!(
                "keyspace {keyspace}, key {}: no order of these explains the answers \
                 ({verdict:?}), beginning with {:?}",
                key.escape_ascii(),
                history.first,
            );
            for seen in &history.seen[..end] {
                text += &format!("\n    {seen}");
            }
            return Err(Violation::new("linearizable per key", text));
        }
        Ok(())
    }

    fn has_bug(&self, bug: Bug) -> bool {
        self.options.bug == Some(bug)
    }
}
