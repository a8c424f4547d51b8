//! Runs a plan: each cell and repetition with targets of its own, results written one by one.
//!
//! Repetitions are the outer loop, so that a machine that changes its speed meets all cells alike.
//! A run whose file is there already, of the same scenario, is not run again: so a plan that was
//! interrupted goes on where it stopped.

mod acts;
mod director;
pub mod environment;
mod files;
pub mod host;
mod link;
mod phase;
pub mod proc;
mod sampler;
mod scrape;
mod session;
mod slots;
mod targets;
mod timer;
mod tls;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

pub use phase::{Part, Seconds, Shared, Step, Watch, resolve, run_part};
pub use session::{Control, Local, Session, StepEvent};

use self::director::{Director, Stepped};
use self::files::{OutDir, origin};
pub use self::files::{checksum, read_results};
use crate::driver::refusal;
use crate::load::values::Sizes;
use crate::measure::criteria::judge;
use crate::measure::record::Second;
use crate::measure::result::{FORMAT, Origin, PhaseResult, ProcessUse, Results, RunFile};
use crate::measure::usage::{Mark, Usage};
use crate::scenario::{Cell, Deed, Network, Plan, Scenario};

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
    /// Keys could not be filled, read back or deleted.
    #[error("{step} failed: {why}")]
    Step {
        /// Setup, read-back or teardown.
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
    /// Somebody has ended it.
    #[error("interrupted; whatever it had started has ended")]
    Interrupted,
    /// Another part failed first.
    #[error("stopped")]
    Stopped,
}

/// How a plan is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where results go.
    pub out: PathBuf,
    /// How often each cell is run, instead of what the scenario says.
    pub repetitions: Option<u64>,
    /// Whether results in `out` are removed first, and all is measured anew.
    pub replaces: bool,
    /// The command line, for the results.
    pub command: String,
    /// The version of the program, for the results.
    pub version: String,
    /// Set when the run is to end early.
    pub stop: Arc<AtomicBool>,
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
    /// The timeline did something.
    Mark(&'a Mark),
    /// What the phase has used until now, second by second.
    Usage(&'a Usage),
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
        environment::filled(&cell.scenario)?;
        let driver = &cell.scenario.target.driver;
        let entries = cell.scenario.phases.iter().flat_map(|phase| &phase.mix);
        for entry in entries {
            if let Some(why) = refusal(driver, &entry.action) {
                let why = format!("operation {}: this driver {why}", entry.name);
                return Err(RunError::Mismatch(why));
            }
        }
    }
    let of = |cell: &&Cell| cell.scenario.network == Network::Namespaces;
    let delays =
        |cell: &Cell| cell.scenario.timeline.iter().any(|act| matches!(act.deed, Deed::Delay(_)));
    if plan.cells.iter().any(|cell| of(&cell)) {
        let with_delay = plan.cells.iter().filter(of).any(delays);
        if let Some(why) = host::network_refusal(with_delay) {
            return Err(RunError::Mismatch(format!("network: {why}")));
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
    if session.agents().len() > 1 && plan.cells.iter().any(|cell| cell.scenario.verifies_latest) {
        let why = "values.latest compares with all writes, and each agent knows its own: \
                   take one agent, or none";
        return Err(RunError::Mismatch(why.to_owned()));
    }
    if session.agents().is_empty() {
        let part = Part { agent: 0, agents: 1 };
        let phases = |cell: &Cell| -> Result<(), RunError> {
            let scenario = &cell.scenario;
            scenario.phases.iter().try_for_each(|phase| phase::expect_room(scenario, phase, part))
        };
        plan.cells.iter().try_for_each(phases)?;
    }
    let repetitions = options.repetitions.unwrap_or(plan.repetitions);
    let origin = origin(plan, options, session);
    let out = OutDir::open(options, plan, &origin)?;
    let count = repetitions * plan.cells.len() as u64;
    let mut runs: Vec<RunFile> = Vec::new();
    let mut failure = None;
    let order = (0..repetitions).flat_map(|r| plan.cells.iter().enumerate().map(move |c| (r, c)));
    for (number, (repetition, (index, cell))) in (1..).zip(order) {
        let found = out.read_run(index, repetition);
        let is_done = found.is_some();
        observer(Progress::Run { number, count, label: cell.label(), is_done });
        let (run, failed) = match found {
            Some(run) => (run, None),
            None => {
                let mut run = RunFile::new(cell, index, repetition, &origin);
                let ran = run_once(cell, &mut run, options, session, observer);
                run.failure = ran.as_ref().err().map(ToString::to_string);
                // Nothing was measured: nothing is kept.
                let kept = match ran.is_ok() || !run.phases.is_empty() {
                    true => out.write_run(&run),
                    false => Ok(()),
                };
                (run, ran.and(kept).err())
            }
        };
        if failed.is_none() || !run.phases.is_empty() {
            runs.push(run);
        }
        if failed.is_some() {
            failure = failed;
            break;
        }
    }
    let results = Results::new(&plan.about, count, runs);
    let written = results.as_ref().map_or(Ok(()), |results| out.write_results(results));
    match (failure, results) {
        // A summary that cannot be written is the lesser trouble.
        (Some(why), _) => Err(why),
        (None, Some(results)) => written.map(|()| results),
        (None, None) => Err(RunError::Mismatch("the plan has no runs".to_owned())),
    }
}

fn run_once(
    cell: &Cell,
    run: &mut RunFile,
    options: &Options,
    session: &mut dyn Session,
    observer: Observer<'_>,
) -> Result<(), RunError> {
    let scenario = &environment::filled(&cell.scenario)?;
    let stop = Arc::clone(&options.stop);
    let mut director = Director::start(scenario, run.cell, session, stop)?;
    run.origin.target = director.addresses().join(", ");
    let walked = |stepped: Stepped, step: &str| match stepped.failure {
        Some(why) => Err(why),
        None => {
            let failed = stepped.data.entries.iter().flat_map(|entry| &entry.failures);
            let failed: Vec<String> = failed.map(|(kind, n)| format!("{n} × {kind}")).collect();
            match failed.is_empty() {
                true => Ok(stepped.data.sum),
                false => Err(RunError::Step { step: step.to_owned(), why: failed.join(", ") }),
            }
        }
    };
    if scenario.setup.fills {
        observer(Progress::Step { name: "setup", seconds: 0.0 });
        walked(director.step(Step::Setup, session, observer), "setup").map_err(
            |why| match why {
                RunError::Step { step, why } => {
                    RunError::Step { step, why: format!("{why}; nothing was measured") }
                }
                other => other,
            },
        )?;
    }
    for (number, phase) in scenario.phases.iter().enumerate() {
        let seconds = phase.length.as_secs_f64();
        observer(Progress::Step { name: &phase.name, seconds });
        let mut stepped = director.step(Step::Phase(number), session, observer);
        let failure = stepped.failure.take();
        let is_over = failure.is_none();
        // Of a phase that was ended early there is what it had measured until then.
        let measured = if is_over { seconds } else { stepped.elapsed.min(seconds) };
        let mut result = PhaseResult::new(phase, measured, stepped.data, stepped.rows);
        result.processes = ProcessUse::all(&stepped.usage);
        result.usage = stepped.usage;
        let after = match failure {
            None => director.after(number, seconds, observer),
            Some(why) => Err(why),
        };
        result.marks = director.marks(number);
        if is_over {
            observer(Progress::Phase(&result));
        }
        run.phases.push(result);
        after?;
    }
    if scenario.reads_back {
        observer(Progress::Step { name: "read-back", seconds: 0.0 });
        let sum = walked(director.step(Step::ReadBack, session, observer), "read-back")?;
        if let Some(why) = wrong_sum(scenario, sum) {
            return Err(RunError::Step { step: "read-back".to_owned(), why });
        }
    }
    if scenario.deletes_keys {
        observer(Progress::Step { name: "teardown", seconds: 0.0 });
        let _deleted = walked(director.step(Step::Teardown, session, observer), "teardown")?;
    }
    director.finish()?;
    session.end()?;
    for (number, phase) in run.phases.iter_mut().enumerate() {
        // What had begun in a phase may have ended after it.
        phase.marks = director.marks(number);
    }
    director.end();
    run.verdicts = judge(&scenario.criteria, &run.phases);
    Ok(())
}

/// What is wrong with what all numbers hold together, if anything is.
fn wrong_sum(scenario: &Scenario, sum: i64) -> Option<String> {
    let Sizes::Number(number) = scenario.sizes else { return None };
    let right = number.wrapping_mul(scenario.keys.count) as i64;
    (sum != right).then(|| {
        format!("the keys hold {sum} together, and held {right}: transfers have lost or made some")
    })
}

impl RunFile {
    fn new(cell: &Cell, index: usize, repetition: u64, origin: &Origin) -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            format: FORMAT.to_owned(),
            origin: origin.clone(),
            cell: index,
            parameters: cell.parameters.clone(),
            repetition,
            began: began.map_or(0, |time| time.as_secs()),
            phases: Vec::new(),
            verdicts: Vec::new(),
            failure: None,
        }
    }
}
