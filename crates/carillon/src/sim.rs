//! `carillon sim`: the simulator, from the command line.

use std::io::Write as _;

use sim::cli::main_with;
use sim::scenario::{self, Scenario};
use sim::{Options, cluster};

use crate::cli::sim::{ScenarioChoice, SimArgs, SimCommand};
use crate::exit::Exit;
use crate::overlay::overlay;

/// Runs seeds.
pub fn sim(args: &SimArgs) -> Exit {
    if let Some(SimCommand::Overlay(args)) = &args.what {
        return overlay(args);
    }
    if let Some(file) = &args.file {
        return crate::console::run_file(file);
    }
    let SimArgs { seed, seeds, steps, clients, faults, bug, doublecheck, verbose, .. } = *args;
    let mut out = std::io::stdout().lock();
    let ran = match (args.scenario, args.nodes) {
        (Some(ScenarioChoice::List), _) => Scenario::ALL
            .into_iter()
            .try_for_each(|one| writeln!(out, "{:24}{}", one.name(), one.about()))
            .map(|()| true),
        (Some(ScenarioChoice::Play(scenario)), _) => {
            let is_short = args.short;
            let options = scenario::Options { scenario, seed, is_short, verbose };
            main_with(&options, seeds, doublecheck, &mut out)
        }
        (None, None) => {
            let options = Options { seed, steps, clients, faults, bug, verbose };
            main_with(&options, seeds, doublecheck, &mut out)
        }
        (None, Some(nodes)) => {
            let SimArgs { millis, power_at, plant, workload, .. } = *args;
            let nodes = usize::from(nodes);
            let options = cluster::Options {
                seed,
                nodes,
                millis,
                faults,
                power_at,
                verbose,
                plant,
                workload,
            };
            main_with(&options, seeds, doublecheck, &mut out)
        }
    };
    match ran.and_then(|well| out.flush().map(|()| well)) {
        Ok(true) => Exit::Done,
        // Nobody reads the output: there is no one to tell.
        Ok(false) | Err(_) => Exit::Refused,
    }
}
