//! `carillon bench`: the test bed, from the command line.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bench::agents::{Remote, Secret, agent};
use bench::live::Live;
use bench::measure::compare::Comparison;
use bench::measure::result::{PhaseResult, Results, shown};
use bench::papers;
use bench::run::{self, Local, Options, Progress, RunError, Session};
use bench::scenario::{Metric, Plan, shipped};
use bench::{report, scenario};

use crate::cli::bench::{AgentArgs, BenchArgs, BenchCommand, CompareArgs, PapersArgs, RunArgs};
use crate::exit::Exit;
use crate::output::{complain, line, note, raw};

/// Does what is asked.
pub fn bench(args: &BenchArgs) -> Exit {
    // A client of a load is a socket.
    server::process::raise_descriptor_limit();
    match &args.command {
        BenchCommand::List => list(),
        BenchCommand::Show { name } => show(name),
        BenchCommand::Check { scenarios } => {
            let all = scenarios.iter().map(|name| check(name));
            all.fold(Exit::Done, Exit::and)
        }
        BenchCommand::Run(args) => start(args),
        BenchCommand::Compare(args) => compare(args),
        BenchCommand::Report { result, svg } => page(result, *svg),
        BenchCommand::Papers(args) => measure_papers(args),
        BenchCommand::Agent(args) => serve(args),
    }
}

fn list() -> Exit {
    let wide = shipped::ALL.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = shipped::ALL.iter().map(|(name, text)| {
        let about = Plan::parse(name, text, &[]).map(|plan| plan.about).unwrap_or_default();
        format!("{name:wide$}  {about}\n")
    });
    raw(lines.collect::<String>().as_bytes())
}

fn show(name: &str) -> Exit {
    match shipped::text(name) {
        Ok(text) => raw(text.as_bytes()),
        Err(why) => {
            complain(&why);
            Exit::Usage
        }
    }
}

/// Reads a scenario from a file, or one that comes with the program.
fn read(name: &str, sets: &[(String, String)]) -> Result<Plan, String> {
    let text = match std::fs::read_to_string(name) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !name.contains('/') => {
            shipped::text(name)?.to_owned()
        }
        Err(error) => return Err(format!("{name}: {error}")),
    };
    let plan = Plan::parse(name, &text, sets).map_err(|error| error.to_string())?;
    run::check(&plan).map_err(|error| format!("{name}: {error}"))?;
    Ok(plan)
}

fn check(name: &str) -> Exit {
    match read(name, &[]) {
        Ok(plan) => {
            let (cells, repetitions) = (plan.cells.len(), plan.repetitions);
            let phases = plan.cells.iter().flat_map(|cell| &cell.scenario.phases);
            let seconds: f64 = phases.map(|phase| phase.length.as_secs_f64()).sum();
            let total = seconds * repetitions as f64;
            line(&format!("{name}: ok: {cells} × {repetitions} runs, {total:.0} s of load in all"))
        }
        Err(why) => {
            complain(&why);
            Exit::Usage
        }
    }
}

fn start(args: &RunArgs) -> Exit {
    let mut plan = match read(&args.scenario, &args.set) {
        Ok(plan) => plan,
        Err(why) => {
            complain(&why);
            return Exit::Usage;
        }
    };
    if let Some(seconds) = args.seconds {
        if !(0.01..=1e6).contains(&seconds) {
            complain("--seconds: expected a number from 0.01 to 1000000");
            return Exit::Usage;
        }
        plan.shorten(Duration::from_secs_f64(seconds));
    }
    let mut session: Box<dyn Session> = match session(args, &plan) {
        Ok(session) => session,
        Err(why) => return failed(&why),
    };
    let default = || PathBuf::from("carillon-bench").join(&plan.name);
    let options = Options {
        out: args.out.clone().unwrap_or_else(default),
        repetitions: args.repetitions,
        replaces: args.replace,
        command: run::environment::shown_command(std::env::args()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stop: Arc::default(),
    };
    // Without the handler a signal ends the process as ever, and the kernel ends the nodes.
    let _listener = server::signals::listen({
        let stop = Arc::clone(&options.stop);
        move |_| stop.store(true, Ordering::Relaxed)
    });
    let live = match args.live.as_ref().map(|listen| Live::start(listen, &plan.name)) {
        None => None,
        Some(Ok(live)) => {
            note(&format!("live at http://{}", live.address()));
            Some(live)
        }
        Some(Err(why)) => {
            let listen = args.live.as_deref().unwrap_or_default();
            complain(&format!("--live {listen}: {why}"));
            return Exit::Usage;
        }
    };
    let mut screen = Screen::default();
    let ran = run::run(&plan, &options, &mut *session, &mut |progress| {
        live.iter().for_each(|live| live.show(&progress));
        screen.show(&progress);
    });
    screen.clear();
    if let Some(live) = live {
        let failure = ran.as_ref().err().map(ToString::to_string);
        let page = options.out.join("report.html");
        let page = page.exists().then(|| page.display().to_string());
        live.end(failure.as_deref(), page.as_deref());
    }
    match ran {
        Ok(results) => finish(&results, &options.out),
        // Results that cannot be written are no error of the command line.
        Err(why @ RunError::Files { .. }) if screen.has_begun => {
            complain(&why.to_string());
            Exit::Refused
        }
        Err(why) => {
            let exit = failed(&why);
            if screen.has_begun {
                let out = options.out.display();
                note(&format!("results of the runs before it, if there are any, are in {out}"));
            }
            exit
        }
    }
}

fn session(args: &RunArgs, plan: &Plan) -> Result<Box<dyn Session>, RunError> {
    if args.agents.is_empty() {
        return Ok(Box::new(Local::default()));
    }
    let path = args.secret_file.as_deref().unwrap_or(Path::new(""));
    let secret = Secret::read(path)?;
    Ok(Box::new(Remote::connect(&args.agents, &secret, plan)?))
}

fn failed(why: &RunError) -> Exit {
    complain(&why.to_string());
    match why {
        RunError::Unreachable { .. } => Exit::Unreachable,
        RunError::Mismatch(_) | RunError::Files { .. } => Exit::Usage,
        _ => Exit::Refused,
    }
}

fn finish(results: &Results, out: &Path) -> Exit {
    let mut text = String::new();
    for run in &results.runs {
        for verdict in run.verdicts.iter().filter(|verdict| !verdict.is_met) {
            let cell = scenario::plan::label(&run.parameters);
            let repetition = run.repetition + 1;
            text += &format!("FAILED {cell} run {repetition}: {}\n", verdict.text);
        }
    }
    let verdicts: usize = results.runs.iter().map(|run| run.verdicts.len()).sum();
    if verdicts > 0 && results.has_passed() {
        text += &format!("passed: {verdicts} criteria\n");
    }
    text += &format!("{0}/report.html, {0}/results.json\n", out.display());
    let exit = if results.has_passed() { Exit::Done } else { Exit::Refused };
    raw(text.as_bytes()).and(exit)
}

fn compare(args: &CompareArgs) -> Exit {
    let read = |path: &Path| {
        run::read_results(path).map_err(|why| {
            complain(&why.to_string());
            Exit::Usage
        })
    };
    let (before, after) = match (read(&args.before), read(&args.after)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(exit), _) | (_, Err(exit)) => return exit,
    };
    if before.origin.machine.cpu != after.origin.machine.cpu {
        note("the results are of different machines");
    }
    for (path, results) in [(&args.before, &before), (&args.after, &after)] {
        if !results.is_complete() {
            note(&format!("{}: not complete", path.display()));
        }
    }
    let found = Comparison::new(&before, &after, args.fail_over);
    if found.differences.is_empty() {
        complain("the results have no figure in common: they are of different scenarios");
        return Exit::Usage;
    }
    let text = found.lines().join("\n") + "\n";
    let exit = if found.is_worse() { Exit::Refused } else { Exit::Done };
    raw(text.as_bytes()).and(exit)
}

fn page(result: &Path, with_pictures: bool) -> Exit {
    let path = result.join("report.html");
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let written = run::read_results(result).map_err(|why| why.to_string()).and_then(|results| {
        write(&path, &report::page(&results))?;
        if !with_pictures {
            return Ok(());
        }
        let dir = result.join("charts");
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let pictures = report::pictures(&results);
        pictures.iter().try_for_each(|(name, picture)| write(&dir.join(name), picture))
    });
    match written {
        Ok(()) => line(&path.display().to_string()),
        Err(why) => {
            complain(&why);
            Exit::Refused
        }
    }
}

fn measure_papers(args: &PapersArgs) -> Exit {
    let is_known = |name: &String| papers::DOCUMENTS.iter().any(|(known, _)| known == name);
    if let Some(name) = args.only.as_ref().filter(|name| !is_known(name)) {
        let names = papers::DOCUMENTS.map(|(name, _)| name).join(", ");
        complain(&format!("--only {name}: expected one of {names}"));
        return Exit::Usage;
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            complain(&format!("this program cannot be found: {error}"));
            return Exit::Refused;
        }
    };
    let agents = match args.agents.is_empty() {
        true => None,
        false => match Secret::read(args.secret_file.as_deref().unwrap_or(Path::new(""))) {
            Ok(secret) => Some((args.agents.clone(), secret)),
            Err(why) => return failed(&why),
        },
    };
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let options = papers::Options {
        only: args.only.clone(),
        is_quick: args.quick,
        out: args.out.clone(),
        agents,
        program,
        command: format!("carillon {command}"),
    };
    match papers::run(&options, &mut |text| note(text)) {
        Ok(pages) => {
            let lines = pages.iter().map(|page| format!("{}\n", page.display()));
            raw(lines.collect::<String>().as_bytes())
        }
        Err(why) => match why.downcast_ref::<RunError>() {
            Some(why) => failed(why),
            None => {
                complain(&why.to_string());
                Exit::Refused
            }
        },
    }
}

fn serve(args: &AgentArgs) -> Exit {
    let served = Secret::read(&args.secret_file).and_then(|secret| {
        let clock = std::time::SystemTime::now;
        agent::serve(&args.listen, &agent::Serving { secret, clock, log: &|text| note(text) })
    });
    match served {
        Ok(()) => Exit::Done,
        Err(why) => failed(&why),
    }
}

/// What a person sees while it runs: a line for each phase, and on a terminal a bar below it.
#[derive(Default)]
struct Screen {
    step: String,
    seconds: f64,
    has_bar: bool,
    /// Whether a run has begun.
    has_begun: bool,
    shown: Option<u64>,
}

impl Screen {
    fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Run { number, count, label, is_done } => {
                self.has_begun = true;
                let done = if *is_done { ": measured before" } else { "" };
                let label = if label.is_empty() { String::new() } else { format!(": {label}") };
                self.print(&format!("run {number} of {count}{label}{done}"));
            }
            Progress::Step { name, seconds } => {
                self.clear();
                (self.step, self.seconds, self.shown) = ((*name).to_owned(), *seconds, None);
            }
            Progress::Second(second) => {
                if self.shown.is_none_or(|shown| shown < second.second) {
                    self.shown = Some(second.second);
                    self.bar(second.second + 1, second.counts.iter().sum(), second.failures);
                }
            }
            Progress::Phase(phase) if phase.is_measured => self.phase(phase),
            Progress::Phase(_) | Progress::Usage(_) => {}
            Progress::Mark(mark) => self.print(&format!("  {:>6.1} s  {}", mark.at, mark.name)),
        }
    }

    fn phase(&mut self, phase: &PhaseResult) {
        let figure = |metric: Metric| shown(metric, phase.metric(metric, None));
        let failures = match phase.metric(Metric::Failures, None) {
            0.0 => String::new(),
            _ => format!(", {} failed", figure(Metric::Failures)),
        };
        let name = &phase.name;
        self.print(&format!(
            "  {name:<14} {:>11}   p50 {:>9}   p99 {:>9}   max {:>9}{failures}",
            figure(Metric::Throughput),
            figure(Metric::P50),
            figure(Metric::P99),
            figure(Metric::Max)
        ));
        self.print(&format!("    {}", report::notes(phase)));
        for data in &phase.data.entries {
            for (kind, count) in &data.failures {
                self.print(&format!("    {}: {count} × {kind}", data.name));
            }
        }
    }

    fn print(&mut self, text: &str) {
        self.clear();
        note(text);
    }

    fn bar(&mut self, second: u64, count: u64, failures: u64) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        const WIDTH: usize = 24;
        let share = if self.seconds > 0.0 { second as f64 / self.seconds } else { 0.0 };
        let done = ((share * WIDTH as f64) as usize).min(WIDTH);
        let bar = "█".repeat(done) + &"░".repeat(WIDTH - done);
        let failed = if failures > 0 { format!(", {failures} failed") } else { String::new() };
        let text = format!("\r\x1b[K  {:<14} {bar} {second} s  {count}/s{failed}", self.step);
        let mut out = std::io::stderr().lock();
        // A bar that nobody sees is no loss.
        let _unseen = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.has_bar = true;
    }

    fn clear(&mut self) {
        if self.has_bar {
            // As above.
            let _unseen = std::io::stderr().write_all(b"\r\x1b[K");
            self.has_bar = false;
        }
    }
}
