//! `carillon console`: the console with a simulated cluster behind it.
//!
//! | file | what |
//! |---|---|
//! | `driver` | the thread on which virtual time passes |
//! | `stream` | the stream of events |
//! | `service` | what nodes' API asks for; `views`: as its types |
//! | `decisions` | what nodes have decided lately |
//! | `keys` | keys and routes |
//! | `transactions`, `ranges` | those of one request |
//! | `recording` | a recording that the page shows instead of the simulation |
//! | `control` | `/v1/sim` |
//! | [`mod@file`] | simulations as files, also for `carillon sim --file` |

mod control;
mod decisions;
mod driver;
pub mod file;
mod keys;
mod ranges;
mod recording;
mod service;
mod stream;
mod transactions;
mod views;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::http;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sim::live::setup::{Plan, Setup, SetupChange};
use sim::live::{Simulation, scenarios};

use self::control::Control;
use self::recording::Recording;
use self::service::Service;
use crate::exit::Exit;
use crate::output;

/// Where the page is, unless another place is named.
pub const ADDRESS: &str = "127.0.0.1:7490";
/// Requests under way get so long to end.
const DRAIN: Duration = Duration::from_secs(1);
/// The longest value of a key.
const VALUE_BYTES_MAX: u64 = sim::live::setup::BYTES_MAX as u64;

/// `carillon console`
#[derive(Debug, Args)]
#[command(after_help = "\
The cluster runs in this process: the nodes' own code over virtual disks, a virtual network and
virtual time. Nothing is written to disk, and nothing is listened on but the page's address.
docs/sim.md describes it, and what can be done to it over HTTP.

Examples:
  carillon console                                  http://127.0.0.1:7490
  carillon console --nodes 5 --seed 7
  carillon console --scenario domain-lost           `--scenario list` lists them
  carillon console --overlay --nodes 200            members of a ring, and their lookups
  carillon console --file run.json                  a simulation that was saved
  carillon console --recording yesterday.jsonl      what was recorded, instead of a simulation")]
pub struct ConsoleArgs {
    /// Address of the page.
    #[arg(long, value_name = "HOST:PORT", default_value = ADDRESS)]
    pub http: SocketAddr,
    /// Nodes at the beginning.
    #[arg(long, value_name = "COUNT")]
    pub nodes: Option<usize>,
    /// Decides all that is not said.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Members of a ring with their tables, instead of whole nodes.
    #[arg(long, conflicts_with_all = ["scenario", "file"])]
    pub overlay: bool,
    /// A simulation by name; `list` lists them.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    pub scenario: Option<String>,
    /// A simulation that was saved.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "seed"])]
    pub file: Option<PathBuf>,
    /// What the page shows instead of a simulation: a file of `carillon record`, or one that a page
    /// has saved.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["nodes", "seed", "overlay", "scenario", "file"]
    )]
    pub recording: Option<PathBuf>,
    /// Virtual time in real time, 0.1 to 100.
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Begin paused.
    #[arg(long)]
    pub paused: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let (min, max) = driver::SPEEDS;
    let speed = text.parse::<f64>().ok().filter(|speed| (min..=max).contains(speed));
    speed.ok_or_else(|| format!("expected a number from {min} to {max}"))
}

/// Serves the console until a signal ends it.
pub fn console(args: &ConsoleArgs) -> Exit {
    if args.scenario.as_deref() == Some("list") {
        let line = |one: &scenarios::Scenario| format!("{:20}{}\n", one.name, one.about);
        return output::raw(scenarios::ALL.iter().map(line).collect::<String>().as_bytes());
    }
    let plan = match plan(args) {
        Ok(plan) => plan,
        Err(why) => {
            output::complain(&why);
            return Exit::Usage;
        }
    };
    let shown = match args.recording.as_deref().map(Recording::read).transpose() {
        Ok(recording) => recording,
        Err(why) => {
            output::complain(&why);
            return Exit::Usage;
        }
    };
    match serve(args, plan, shown) {
        Ok(()) => Exit::Done,
        Err(why) => {
            output::complain(&why);
            Exit::Refused
        }
    }
}

fn plan(args: &ConsoleArgs) -> Result<Plan, String> {
    if let Some(path) = &args.file {
        return read(path);
    }
    let change = SetupChange {
        kind: args.overlay.then_some(sim::live::setup::Kind::Overlay),
        nodes: args.nodes,
        seed: args.seed,
        scenario: args.scenario.clone().map(Some),
        ..SetupChange::default()
    };
    Setup::default().changed(&change).map_err(|why| why.to_string())
}

/// A simulation from a file.
///
/// # Errors
/// What is wrong with it.
pub fn read(path: &Path) -> Result<Plan, String> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|why| format!("cannot read {shown}: {why}"))?;
    file::read(&bytes).map_err(|why| format!("{shown}: {why}"))
}

/// Serves the console with a recording until a signal ends it: `carillon replay --console`.
pub fn show_recording(path: &Path, http: SocketAddr) -> Exit {
    console(&ConsoleArgs {
        http,
        nodes: None,
        seed: None,
        overlay: false,
        scenario: None,
        file: None,
        recording: Some(path.to_owned()),
        speed: 1.0,
        paused: true,
    })
}

fn serve(args: &ConsoleArgs, plan: Plan, recording: Option<Recording>) -> Result<(), String> {
    let listener = TcpListener::bind(args.http)
        .map_err(|why| format!("cannot listen on {}: {why}", args.http))?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|why| why.to_string())?;
    let what = match &recording {
        Some(recording) => format!("the recording {}", recording.name),
        None => "the console, simulated".to_owned(),
    };
    // Behind a recording nothing has to go on.
    let runs = !args.paused && recording.is_none();
    let handle = driver::start(plan, runs, args.speed).map_err(|why| why.to_string())?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let options = http::Options {
        value_bytes_max: VALUE_BYTES_MAX,
        key_bytes_max: VALUE_BYTES_MAX,
        ..http::Options::new(since.as_nanos() as u64)
    };
    let service = Arc::new(Service { handle: handle.clone() });
    let control = Arc::new(Control { handle: handle.clone(), recording });
    let server = http::start_with(listener, service, Some(control), options)
        .map_err(|why| format!("cannot serve: {why}"))?;
    let _unread = output::line(&format!("{what}: http://{}/", server.address()));
    // The first one ends it: there is nothing to save.
    let _signal = signals.forever().next();
    handle.stream().stop();
    server.stop(DRAIN);
    Ok(())
}

/// `carillon sim --file`: runs a simulation to its end, and has the judges look at everything.
pub fn run_file(path: &Path) -> Exit {
    let plan = match read(path) {
        Ok(plan) => plan,
        Err(why) => {
            output::complain(&why);
            return Exit::Usage;
        }
    };
    let ends_ms = plan.ends_ms;
    let mut sim = match Simulation::new(plan, false) {
        Ok(sim) => sim,
        Err(why) => {
            output::complain(&why.to_string());
            return Exit::Usage;
        }
    };
    sim.advance(ends_ms);
    let digest = sim.digest();
    for (timed, why) in sim.refused() {
        output::complain(&format!("at {} ms: {}: {why}", timed.ms, file::shown(timed)));
    }
    let (setup, counts) = (sim.setup().clone(), sim.counts());
    // Before the judges look: that is an action, too.
    let actions = match sim.actions().0 {
        1 => "1 action".to_owned(),
        count => format!("{count} actions"),
    };
    if sim.broken().is_none() {
        // A cluster that never formed is told below, by its phase.
        let _forming = sim.act(sim::live::action::Action::Check);
    }
    let text = format!(
        "{} of {} nodes, seed {}: {ends_ms} ms, {actions}, {} requests answered\n\
         digest {digest:016x}\n",
        setup.kind.name(),
        setup.nodes,
        setup.seed,
        counts.answered,
    );
    let _unread = output::raw(text.as_bytes());
    match sim.broken() {
        Some(broken) => {
            output::complain(&format!("at {} ms: {}\n{}", broken.at_ms, broken.rule, broken.text));
            Exit::Refused
        }
        None => output::line("all rules held"),
    }
}
