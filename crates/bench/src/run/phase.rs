//! One phase on this host: threads that begin at one moment.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::RunError;
use super::proc::open_files_max;
use super::session::{Control, StepEvent};
use super::worker::{Job, Worker};
use crate::driver::memory::MemoryStore;
use crate::load::written::Written;
use crate::measure::record::{PhaseData, Second};
use crate::measure::result::Row;
use crate::scenario::{Action, Driver, Entry, Phase, Scenario};

/// Between the moment when all are ready and the start.
const LEAD: Duration = Duration::from_millis(20);
/// Files and sockets besides those of clients.
const OTHER_FILES: u64 = 64;
/// How many seconds parts may be apart.
const OPEN_SECONDS_MAX: usize = 16;
/// How often the thread that waits for workers looks whether it should go on.
const LOOK: Duration = Duration::from_millis(100);

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Gives each key a value.
    Setup,
    /// A phase, by its number.
    Phase(usize),
    /// Reads each key.
    ReadBack,
    /// Deletes the keys.
    Teardown,
}

impl Step {
    /// What is done: a phase, and whether it is over when each key was named once.
    pub fn phase(self, scenario: &Scenario) -> (Phase, bool) {
        let walk = |name: &str, action: Action| {
            let setup = &scenario.setup;
            let entry = Entry { name: name.to_owned(), weight: 1, action };
            Phase {
                name: name.to_owned(),
                length: Duration::ZERO,
                is_measured: false,
                clients: setup.clients.min(scenario.keys.count),
                pipeline: setup.pipeline,
                rate: None,
                mix: vec![entry],
                requires_values: false,
            }
        };
        match self {
            Step::Setup => (walk("setup", Action::Put), true),
            Step::Phase(number) => (scenario.phases[number].clone(), false),
            Step::ReadBack => {
                let phase = walk("read-back", Action::Get);
                (Phase { requires_values: true, ..phase }, true)
            }
            Step::Teardown => (walk("teardown", Action::Delete), true),
        }
    }
}

/// What the steps of a run share on this host.
#[derive(Default)]
pub struct Shared {
    /// What the memory driver asks.
    pub memory: MemoryStore,
    /// Which writes reads may return, if that is checked.
    pub written: Written,
}

/// Which part of a load a host makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which agent this is, from 0.
    pub agent: u64,
    /// How many there are.
    pub agents: u64,
}

/// Who watches a part of a phase.
pub trait Watch {
    /// All connections are open. Returns when the phase begins.
    ///
    /// # Errors
    /// It is not to begin.
    fn ready(&mut self) -> Result<Instant, RunError>;

    /// A worker's second is past.
    ///
    /// # Errors
    /// The phase is to end.
    fn second(&mut self, second: Second) -> Result<(), RunError>;

    /// Called every 100 ms.
    ///
    /// # Errors
    /// The phase is to end.
    fn look(&mut self) -> Result<(), RunError> {
        Ok(())
    }
}

/// A local run starts as soon as it is ready.
pub struct Alone<'a> {
    /// What hears of it.
    pub control: &'a Control,
}

impl Watch for Alone<'_> {
    fn ready(&mut self) -> Result<Instant, RunError> {
        let start = Instant::now() + LEAD;
        self.control.tell(StepEvent::Began(start));
        Ok(start)
    }

    fn second(&mut self, second: Second) -> Result<(), RunError> {
        self.control.tell(StepEvent::Second(second));
        Ok(())
    }

    fn look(&mut self) -> Result<(), RunError> {
        match self.control.is_stopped() {
            true => Err(RunError::Stopped),
            false => Ok(()),
        }
    }
}

/// Looks up addresses.
///
/// # Errors
/// One of them means nothing.
pub fn resolve(addresses: &[String]) -> Result<Vec<SocketAddr>, RunError> {
    let one = |address: &String| {
        let found = address.to_socket_addrs().map_err(|error| error.to_string());
        let found = found.and_then(|mut all| all.next().ok_or("no such host".to_owned()));
        found.map_err(|why| RunError::Unreachable { target: address.clone(), why })
    };
    addresses.iter().map(one).collect()
}

enum Message {
    Ready,
    Second(Second),
    Ended(Result<PhaseData, RunError>),
}

/// Sees that this process may open as many connections as its part of a phase needs.
///
/// # Errors
/// It may not.
pub fn expect_room(scenario: &Scenario, phase: &Phase, part: Part) -> Result<(), RunError> {
    let ends = match scenario.target.driver {
        Driver::Memory => 0,
        Driver::Null => 2,
        _ => 1,
    };
    let needed = phase.clients.div_ceil(part.agents.max(1)) * ends + OTHER_FILES;
    let most = open_files_max();
    if ends == 0 || needed <= most {
        return Ok(());
    }
    let (name, clients) = (&phase.name, phase.clients);
    Err(RunError::Mismatch(format!(
        "phase `{name}`: {clients} clients need {needed} open files here, and the system allows \
         {most}: raise it (ulimit -n), or take more agents"
    )))
}

/// Runs this host's part of a step, and returns what it measured.
///
/// # Errors
/// A worker failed, or `watch` ended it: no thread of it runs any more.
pub fn run_part(
    scenario: &Scenario,
    step: Step,
    addresses: &[SocketAddr],
    part: Part,
    shared: &Shared,
    watch: &mut dyn Watch,
) -> Result<PhaseData, RunError> {
    let (phase, is_walk) = step.phase(scenario);
    expect_room(scenario, &phase, part)?;
    let workers = (scenario.threads as u64 * part.agents).min(phase.clients);
    let number = if let Step::Phase(number) = step { number as u64 } else { 0 };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (to_us, messages) = channel();
        let mut starts: Vec<Sender<Instant>> = Vec::new();
        let mine = (0..scenario.threads as u64).map(|thread| thread * part.agents + part.agent);
        for worker in mine.filter(|worker| *worker < workers) {
            let (start, started) = channel();
            starts.push(start);
            let (to_us, stop, phase) = (to_us.clone(), &stop, &phase);
            let job =
                Job { scenario, phase, number, is_walk, addresses, worker, workers, shared, stop };
            scope.spawn(move || {
                let ended = work(job, &to_us, &started);
                // The thread that listened has failed, and waits for this one alone.
                let _unheard = to_us.send(Message::Ended(ended));
            });
        }
        drop(to_us);
        let gathered = gather(&messages, &starts, watch);
        stop.store(true, Ordering::Relaxed);
        gathered
    })
}

fn work(
    job: Job<'_>,
    to_us: &Sender<Message>,
    started: &Receiver<Instant>,
) -> Result<PhaseData, RunError> {
    let worker = Worker::new(job)?;
    to_us.send(Message::Ready).map_err(|_| RunError::Stopped)?;
    let start = started.recv().map_err(|_| RunError::Stopped)?;
    worker.run(start, &mut |second| {
        // Nobody listens any more: the worker sees the stop flag in a moment.
        let _unheard = to_us.send(Message::Second(second));
    })
}

fn gather(
    messages: &Receiver<Message>,
    starts: &[Sender<Instant>],
    watch: &mut dyn Watch,
) -> Result<PhaseData, RunError> {
    let (mut ready, mut ended) = (0, 0);
    let mut data = PhaseData::default();
    // A part without workers begins and ends with the others.
    if starts.is_empty() {
        watch.ready()?;
    }
    while ended < starts.len() {
        match messages.recv_timeout(LOOK) {
            Ok(Message::Ready) => {
                ready += 1;
                if ready == starts.len() {
                    let start = watch.ready()?;
                    for each in starts {
                        each.send(start).map_err(|_| RunError::Stopped)?;
                    }
                }
            }
            Ok(Message::Second(second)) => watch.second(second)?,
            Ok(Message::Ended(part)) => {
                data.merge(part?);
                ended += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::Stopped),
        }
        watch.look()?;
    }
    Ok(data)
}

/// Seconds of all parts, put together. Those that no part can still add to are rows already, so
/// that a long phase takes little memory.
#[derive(Debug, Default)]
pub struct Seconds {
    open: BTreeMap<u64, Second>,
    rows: Vec<Row>,
}

impl Seconds {
    /// Adds what a part did in a second. An agent that tells it later than it may be silent is
    /// lost by then.
    pub fn add(&mut self, second: Second) {
        self.open.entry(second.second).or_default().merge(second);
        while self.open.len() > OPEN_SECONDS_MAX
            && let Some((_, past)) = self.open.pop_first()
        {
            self.rows.push(Row::from(&past));
        }
    }

    /// The last one that is whole, most likely: the one before the last.
    pub fn last_whole(&self) -> Option<&Second> {
        self.open.values().rev().nth(1)
    }

    /// All, in order.
    pub fn rows(self) -> Vec<Row> {
        let rest = self.open.values().map(Row::from);
        self.rows.into_iter().chain(rest).collect()
    }
}
