//! The thread that drives a simulation: virtual time passes as fast as is wanted, and between two
//! slices of it requests are served.
//!
//! ```text
//!   HTTP thread ── Job ──► queue (QUEUE_MAX) ──► driver: jobs, a slice of time, events ──► streams
//!                  ◄─────── answer ─────────────────┘
//! ```
//! A slice ends after [`SLICE`], so that a request waits about so long at most; a check of all
//! takes as long as it takes.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use api::DecisionStatus;
use keyspace::{NodeId, Timestamp};
use node::event::{Event, EventKind, SampledRequest};
use sim::live::setup::{Plan, Wrong};
use sim::live::{Answered, Outcome, Phase, Simulation};

use super::decisions::Decided;
use super::stream::EventsOfAll;

/// Jobs that wait.
const QUEUE_MAX: usize = 64;
/// Real time that passes between two looks at the queue.
const SLICE: Duration = Duration::from_millis(10);
/// How often there is a slice, where time does not pass as fast as it can.
const PACE: Duration = Duration::from_millis(10);
/// Virtual time that may be owed, in real time: beyond, the simulation is behind.
const DEBT_MAX: Duration = Duration::from_millis(200);
/// How fast virtual time may pass in real time.
pub const SPEEDS: (f64, f64) = (0.1, 100.0);

/// Something to be done between two slices.
pub type Job = Box<dyn FnOnce(&mut Driver) + Send>;
/// Called with what has come of a request of the simulation.
pub type Waiting = Box<dyn FnOnce(&Simulation, Outcome) + Send>;

/// The present stream, and its simulation's.
pub type CurrentStream = Arc<RwLock<Arc<EventsOfAll>>>;

/// Hands jobs to the driver.
#[derive(Clone)]
pub struct Handle {
    jobs: SyncSender<Job>,
    stream: CurrentStream,
}

/// See the module's documentation.
pub struct Driver {
    pub sim: Simulation,
    pub is_running: bool,
    pub speed: f64,
    /// Whether the machine is too slow for the speed.
    pub is_behind: bool,
    stream: CurrentStream,
    waiting: BTreeMap<u64, Waiting>,
    /// Milliseconds to pass at once, and whom to tell.
    steps: Vec<(u64, Job)>,
    /// Virtual milliseconds that are owed.
    debt: f64,
    last: Instant,
    named: usize,
    requests: u64,
    decisions: Decided,
}

/// Starts the thread of a simulation.
///
/// # Errors
/// If there can be no such simulation.
pub fn start(plan: Plan, is_running: bool, speed: f64) -> Result<Handle, Wrong> {
    let sim = Simulation::new(plan, true)?;
    let stream = Arc::new(RwLock::new(Arc::new(stream_of(&sim))));
    let (jobs, queue) = sync_channel(QUEUE_MAX);
    let handle = Handle { jobs, stream: stream.clone() };
    let driver = Driver {
        sim,
        is_running,
        speed,
        is_behind: false,
        stream,
        waiting: BTreeMap::new(),
        steps: Vec::new(),
        debt: 0.0,
        last: Instant::now(),
        named: 0,
        requests: 0,
        decisions: Decided::default(),
    };
    let thread = thread::Builder::new().name("simulation".into());
    let begun = thread.spawn(move || driver.run(&queue));
    begun.map_err(|why| Wrong(format!("no thread for the simulation: {why}")))?;
    Ok(handle)
}

fn stream_of(sim: &Simulation) -> EventsOfAll {
    let own = sim.nodes().first().map_or(NodeId(0), |node| node.id);
    let now = Timestamp::from_millis(sim.wall_ms());
    EventsOfAll::new(own, now, sim.setup().seed)
}

impl Handle {
    /// The stream of the present simulation.
    pub fn stream(&self) -> Arc<EventsOfAll> {
        self.stream
            .read()
            .map(|stream| stream.clone())
            .unwrap_or_else(|broken| broken.into_inner().clone())
    }

    /// Hands over a job; waits while [`QUEUE_MAX`] others do.
    pub fn have_done(&self, job: Job) {
        // If the driver has ended, so has the process, nearly.
        let _ended = self.jobs.send(job);
    }

    /// Asks the driver, and waits for it: a slice, mostly. None if it has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Driver) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = channel();
        self.jobs.send(Box::new(move |driver| drop(sender.send(look(driver))))).ok()?;
        receiver.recv().ok()
    }
}

impl Driver {
    fn run(mut self, queue: &Receiver<Job>) {
        loop {
            let is_busy = self.is_going() && (self.debt >= 1.0 || !self.steps.is_empty());
            let wait = match (is_busy, self.is_going()) {
                (true, _) => Duration::ZERO,
                (false, true) => PACE,
                (false, false) => Duration::from_secs(3600),
            };
            match queue.recv_timeout(wait) {
                Ok(job) => {
                    job(&mut self);
                    // Others that wait have their turn before time goes on.
                    for _ in 0..QUEUE_MAX {
                        let Ok(job) = queue.try_recv() else { break };
                        job(&mut self);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.pass();
        }
    }

    /// Whether virtual time passes.
    fn is_going(&self) -> bool {
        let may = matches!(self.sim.phase(), Phase::Forming | Phase::Running);
        may && (self.is_running || !self.steps.is_empty())
    }

    /// A slice of time.
    fn pass(&mut self) {
        let (now, last) = (Instant::now(), self.last);
        self.last = now;
        if self.is_running {
            let most = DEBT_MAX.as_secs_f64() * 1_000.0 * self.speed;
            self.debt += (now - last).as_secs_f64() * 1_000.0 * self.speed;
            self.is_behind = self.debt > most;
            self.debt = self.debt.min(most);
        } else {
            (self.debt, self.is_behind) = (0.0, false);
        }
        while self.is_going() && now.elapsed() < SLICE {
            if let Some((left, _)) = self.steps.first_mut() {
                *left -= 1;
                self.sim.advance(1);
                if self.steps.first().is_some_and(|(left, _)| *left == 0) {
                    let (_, told) = self.steps.remove(0);
                    self.publish();
                    told(self);
                }
            } else if self.debt >= 1.0 {
                self.debt -= 1.0;
                self.sim.advance(1);
            } else {
                break;
            }
            self.publish();
        }
        if !self.is_going() {
            // A rule is broken, or time is over.
            for (_, told) in std::mem::take(&mut self.steps) {
                told(self);
            }
        }
    }

    /// Virtual time passes by so much at once; then somebody is told.
    pub fn step(&mut self, millis: u64, told: impl FnOnce(&mut Self) + Send + 'static) {
        self.is_running = false;
        self.steps.push((millis.max(1), Box::new(told)));
    }

    /// Whether virtual time passes, at what speed.
    pub fn set_pace(&mut self, is_running: Option<bool>, speed: Option<f64>) {
        self.is_running = is_running.unwrap_or(self.is_running);
        self.speed = speed.unwrap_or(self.speed);
        (self.debt, self.last) = (0.0, Instant::now());
    }

    /// Waits for what comes of a request.
    pub fn wait_for(&mut self, request: u64, waiting: Waiting) {
        self.waiting.insert(request, waiting);
    }

    /// Another simulation takes the place of this one: its streams end, its requests are unknown.
    ///
    /// # Errors
    /// If there can be no such simulation; this one goes on then.
    pub fn begin_anew(&mut self, plan: Plan) -> Result<(), Wrong> {
        let new = Simulation::new(plan, true)?;
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            waiting(&self.sim, Outcome::Unknown);
        }
        let stream = Arc::new(stream_of(&new));
        let before = match self.stream.write() {
            Ok(mut current) => std::mem::replace(&mut *current, stream),
            Err(broken) => std::mem::replace(&mut *broken.into_inner(), stream),
        };
        (self.sim, self.debt, self.named, self.last) = (new, 0.0, 0, Instant::now());
        self.decisions = Decided::default();
        before.stop();
        self.publish();
        Ok(())
    }

    /// Hands on what has happened.
    pub fn publish(&mut self) {
        let stream = match self.stream.read() {
            Ok(stream) => stream.clone(),
            Err(broken) => broken.into_inner().clone(),
        };
        stream.set_now(Timestamp::from_millis(self.sim.wall_ms()));
        self.sim.set_sampling(stream.wants_samples());
        let mut events = self.sim.take_events();
        for (node, key, route) in self.sim.take_lookups() {
            events.push(self.sample(node, key, route));
        }
        let has_started = |(event, _): &(Event, Option<Box<str>>)| {
            matches!(event.what, EventKind::NodeStarted { .. } | EventKind::Member { .. })
        };
        if self.named == 0 || events.iter().any(has_started) {
            let nodes = self.sim.nodes();
            self.named = nodes.len();
            stream.name(nodes.into_iter().map(|node| (node.id, node.name)));
        }
        let at_ms = self.sim.wall_ms();
        for (event, keyspace) in &events {
            self.decisions.note(event, keyspace.as_deref(), at_ms);
        }
        if !events.is_empty() {
            stream.happened(events);
        }
        for Answered { request, outcome } in self.sim.take_answered() {
            if let Some(waiting) = self.waiting.remove(&request) {
                waiting(&self.sim, outcome);
            }
        }
    }

    /// Recent decisions of all nodes, the oldest first.
    pub fn decisions(&self) -> Vec<DecisionStatus> {
        self.decisions.shown(&self.sim.nodes())
    }

    fn sample(
        &mut self,
        node: NodeId,
        key: Vec<u8>,
        route: node::event::Trace,
    ) -> (Event, Option<Box<str>>) {
        self.requests += 1;
        let shard = route.owner.as_ref().map_or(keyspace::ShardId(0), |owner| owner.shard());
        let keyspace: Box<str> = "0".into();
        let request = SampledRequest {
            is_write: false,
            keyspace: keyspace.clone(),
            key: key.into(),
            keys: 1,
            shard,
            leader: route.leader(),
            route,
        };
        let at = Timestamp::from_millis(self.sim.wall_ms());
        (Event { node, at, what: EventKind::Request(Box::new(request)) }, Some(keyspace))
    }
}
