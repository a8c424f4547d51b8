//! Runs a plan: each cell and repetition with targets of its own, results written one by one.
//!
//! Repetitions are the outer loop, so that a machine that changes its speed meets all cells alike.
//! A run whose file is there already, of the same scenario, is not run again: so a plan that was
//! interrupted goes on where it stopped.

mod files;
mod link;
mod phase;
mod session;
mod slots;
mod targets;
mod timer;
mod worker;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

pub use phase::{Alone, Part, Seconds, Step, Watch, resolve, run_part};
pub use session::{Local, Session, StepOutcome};

use self::files::{OutDir, origin};
pub use self::files::{checksum, read_results};
use self::targets::Targets;
use crate::driver::refusal;
use crate::measure::criteria::judge;
use crate::measure::record::Second;
use crate::measure::result::{FORMAT, Origin, PhaseResult, Results, Row, RunFile};
use crate::scenario::{Cell, Plan};

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nothing accepts connections there.
    #[error("cannot reach {target}: {why}")]
    Unreachable {
        /// The address.
        target: String,
        /// What happened.
        why: String,
    },
    /// A process of the target cannot be started, or has ended.
    #[error("{0}")]
    Target(String),
    /// Keys could not be filled or deleted.
    #[error("{step} failed: {why}; nothing was measured")]
    Step {
        /// Setup or teardown.
        step: String,
        /// How many requests failed, and how.
        why: String,
    },
    /// The scenario and the way it is run do not fit.
    #[error("{0}")]
    Mismatch(String),
    /// An agent is of no use any more.
    #[error("agent {agent}: {why}")]
    Agent {
        /// Its address.
        agent: String,
        /// What happened.
        why: String,
    },
    /// Results cannot be read or written.
    #[error("{path}: {why}")]
    Files {
        /// Which file or directory.
        path: String,
        /// What happened.
        why: String,
    },
    /// The system refuses something.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
    /// Another part failed first.
    #[error("stopped")]
    Stopped,
}

/// How a plan is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where results go.
    pub out: PathBuf,
    /// How often each cell is run, instead of what the scenario says.
    pub repetitions: Option<u64>,
    /// Whether results of another scenario in `out` are removed.
    pub replaces: bool,
    /// The command line, for the results.
    pub command: String,
    /// The version of the program, for the results.
    pub version: String,
}

/// What happens while a plan runs.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A run begins, or is skipped because its result is there.
    Run {
        /// Which, from 1.
        number: u64,
        /// Of how many.
        count: u64,
        /// The cell's parameters, as people read them.
        label: String,
        /// Whether its result is there already.
        is_done: bool,
    },
    /// A step begins.
    Step {
        /// What it is called.
        name: &'a str,
        /// How long it takes, in seconds; 0 if nobody knows.
        seconds: f64,
    },
    /// A second of a step is past.
    Second(&'a Second),
    /// A phase is over.
    Phase(&'a PhaseResult),
}

/// Who watches.
pub type Observer<'a> = &'a mut dyn FnMut(Progress<'_>);

/// Sees that drivers can do what the cells ask.
///
/// # Errors
/// One cannot. Nothing has been started.
pub fn check(plan: &Plan) -> Result<(), RunError> {
    for cell in &plan.cells {
        let driver = &cell.scenario.target.driver;
        let entries = cell.scenario.phases.iter().flat_map(|phase| &phase.mix);
        for entry in entries {
            if let Some(why) = refusal(driver, &entry.action) {
                let why = format!("operation {}: this driver {why}", entry.name);
                return Err(RunError::Mismatch(why));
            }
        }
    }
    Ok(())
}

/// Runs what is missing, and returns all results. They are written to `out` as they come.
///
/// # Errors
/// A run failed. Results of those before it are kept, with a summary that says it is not whole.
pub fn run(
    plan: &Plan,
    options: &Options,
    session: &mut dyn Session,
    observer: Observer<'_>,
) -> Result<Results, RunError> {
    check(plan)?;
    let repetitions = options.repetitions.unwrap_or(plan.repetitions);
    let origin = origin(plan, options, session);
    let out = OutDir::open(options, plan, &origin.checksum)?;
    let count = repetitions * plan.cells.len() as u64;
    let mut runs: Vec<RunFile> = Vec::new();
    let mut failure = None;
    let order = (0..repetitions).flat_map(|r| plan.cells.iter().enumerate().map(move |c| (r, c)));
    for (number, (repetition, (index, cell))) in (1..).zip(order) {
        let found = out.read_run(index, repetition, &origin.checksum);
        let is_done = found.is_some();
        observer(Progress::Run { number, count, label: cell.label(), is_done });
        let run = match found {
            Some(run) => Ok(run),
            None => run_once(cell, index, repetition, &origin, session, observer).and_then(|run| {
                out.write_run(&run)?;
                Ok(run)
            }),
        };
        match run {
            Ok(run) => runs.push(run),
            Err(why) => {
                failure = Some(why);
                break;
            }
        }
    }
    let results = Results::new(&plan.about, count, runs);
    if let Some(results) = &results {
        out.write_results(results)?;
    }
    match (failure, results) {
        (Some(why), _) => Err(why),
        (None, Some(results)) => Ok(results),
        (None, None) => Err(RunError::Mismatch("the plan has no runs".to_owned())),
    }
}

fn run_once(
    cell: &Cell,
    index: usize,
    repetition: u64,
    origin: &Origin,
    session: &mut dyn Session,
    observer: Observer<'_>,
) -> Result<RunFile, RunError> {
    let scenario = &cell.scenario;
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut targets = Targets::start(&scenario.target)?;
    session.begin(index, &targets.addresses)?;
    let mut phases = Vec::new();
    let walk = |step: Step, session: &mut dyn Session, observer: Observer<'_>| {
        let (phase, _) = step.phase(scenario);
        observer(Progress::Step { name: &phase.name, seconds: 0.0 });
        let done = session.step(scenario, step, &mut |s| observer(Progress::Second(s)))?;
        let failed = done.data.entries.iter().flat_map(|entry| &entry.failures);
        let failed: Vec<String> = failed.map(|(kind, count)| format!("{count} × {kind}")).collect();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(RunError::Step { step: phase.name, why: failed.join(", ") }),
        }
    };
    if scenario.setup.fills {
        walk(Step::Setup, session, observer)?;
        targets.check()?;
    }
    for (number, phase) in scenario.phases.iter().enumerate() {
        let seconds = phase.length.as_secs_f64();
        observer(Progress::Step { name: &phase.name, seconds });
        let before = targets.used();
        let step = Step::Phase(number);
        let done = session.step(scenario, step, &mut |s| observer(Progress::Second(s)))?;
        let series = done.seconds.all().map(Row::from).collect();
        let mut result = PhaseResult::new(phase, seconds, done.data, series);
        result.processes = targets.used();
        for (after, before) in result.processes.iter_mut().zip(before) {
            after.cpu -= before.cpu;
        }
        targets.check()?;
        observer(Progress::Phase(&result));
        phases.push(result);
    }
    if scenario.deletes_keys {
        walk(Step::Teardown, session, observer)?;
    }
    session.end()?;
    let mut origin = origin.clone();
    origin.target = targets.addresses.join(", ");
    targets.stop();
    let verdicts = judge(&scenario.criteria, &phases);
    Ok(RunFile {
        format: FORMAT.to_owned(),
        origin,
        cell: index,
        parameters: cell.parameters.clone(),
        repetition,
        began,
        phases,
        verdicts,
    })
}
