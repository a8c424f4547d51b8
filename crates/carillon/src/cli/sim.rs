//! Arguments of `carillon sim`.

use clap::{Args, Subcommand};
use sim::scenario::Scenario;

use crate::overlay::OverlayArgs;

/// `carillon sim`
#[derive(Debug, Args)]
#[command(after_help = "\
The same seed runs the same way, byte for byte. Exit code 1 if an invariant breaks, with a command
that reproduces it.

Examples:
  carillon sim --seed 7
  carillon sim --seed 1 --seeds 500 --doublecheck
  carillon sim --seed 1 --seeds 100 --bug unsynced-ack   what the checkers find
  carillon sim --nodes 5 --seed 1 --seeds 100            clusters on a bad network
  carillon sim --scenario list                           the scenarios
  carillon sim --scenario nine-of-twenty --seed 7        one of them
  carillon sim --file run.json                           what `carillon console` has saved
  carillon sim overlay --nodes 1000,100000               lookups alone, on rings of any size")]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct SimArgs {
    /// Something else than faults.
    #[command(subcommand)]
    pub what: Option<SimCommand>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many seeds to run, one after the other.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Steps before the faults end.
    #[arg(long, default_value_t = sim::options::STEPS_DEFAULT)]
    pub steps: u32,
    /// Virtual clients.
    #[arg(long, default_value_t = sim::options::CLIENTS_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=32))]
    pub clients: u8,
    /// Kinds of faults.
    #[arg(long, value_name = "KINDS", default_value = "all", help = help_on_faults())]
    pub faults: sim::Faults,
    /// The bug that is planted.
    #[arg(long, value_name = "NAME", help = format!("Plant a bug: {}", sim::Bug::names()))]
    pub bug: Option<sim::Bug>,
    /// Simulate a cluster of so many nodes, on a bad network.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(3..=50))]
    #[arg(conflicts_with_all = ["steps", "clients", "bug"])]
    pub nodes: Option<u8>,
    /// Run a scenario, a disaster of a cluster with balance on, to its end; `list` lists them.
    #[arg(long, value_name = "NAME", value_parser = scenario)]
    #[arg(conflicts_with_all = ["steps", "clients", "faults", "bug", "nodes"])]
    pub scenario: Option<ScenarioChoice>,
    /// Run a simulation that `carillon console` has saved, to its end.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["seed", "seeds", "steps", "clients", "faults", "bug"])]
    #[arg(conflicts_with_all = ["nodes", "scenario", "doublecheck", "verbose"])]
    pub file: Option<std::path::PathBuf>,
    /// With --scenario: its short form, as tests run it.
    #[arg(long, requires = "scenario")]
    pub short: bool,
    /// With --nodes: virtual milliseconds before the faults end.
    #[arg(long, value_name = "MS", default_value_t = sim::cluster::options::MILLIS_DEFAULT)]
    #[arg(requires = "nodes", value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub millis: u64,
    /// With --nodes: cut the power of the first node after so many changes of its disk.
    #[arg(long, value_name = "CHANGES", requires = "nodes")]
    pub power_at: Option<u64>,
    /// The bug that is planted in a cluster.
    #[arg(long, value_name = "NAME", requires = "nodes")]
    #[arg(help = format!("Plant a bug in a cluster: {}", sim::cluster::Plant::names()))]
    pub plant: Option<sim::cluster::Plant>,
    /// What transactions over shards are made for.
    #[arg(long, value_name = "NAME", requires = "nodes", help = help_on_workloads())]
    pub workload: Option<sim::cluster::Workload>,
    /// Run each seed twice, and compare.
    #[arg(long)]
    pub doublecheck: bool,
    /// Print every event.
    #[arg(long)]
    pub verbose: bool,
}

fn help_on_faults() -> String {
    let is_of_clusters = |fault: &sim::Fault| sim::Fault::OF_CLUSTERS.contains(fault);
    let names = |faults: Vec<sim::Fault>| {
        faults.into_iter().map(sim::Fault::name).collect::<Vec<_>>().join(", ")
    };
    let (clusters, all) = sim::Fault::ALL.into_iter().partition(is_of_clusters);
    let (all, clusters) = (names(all), names(clusters));
    format!("Kinds of faults: all, none, or a list of {all}; with --nodes also {clusters}")
}

fn help_on_workloads() -> String {
    let names = sim::cluster::Workload::names();
    format!("With --nodes: only transactions of this kind over shards: {names}")
}

/// What is simulated beside nodes and clusters.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Measure hops and messages of each lookup, on rings of any size.
    Overlay(OverlayArgs),
}

/// What is asked of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioChoice {
    /// Which there are.
    List,
    /// One of them.
    Play(Scenario),
}

fn scenario(text: &str) -> Result<ScenarioChoice, String> {
    if text == "list" {
        return Ok(ScenarioChoice::List);
    }
    let named = Scenario::ALL.into_iter().find(|scenario| scenario.name() == text);
    named.map(ScenarioChoice::Play).ok_or_else(|| {
        let nearest = server::config::nearest(text, Scenario::ALL.map(Scenario::name));
        match nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`carillon sim --scenario list` lists them".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_names() {
        assert_eq!(scenario("list"), Ok(ScenarioChoice::List));
        assert_eq!(scenario("all-off"), Ok(ScenarioChoice::Play(Scenario::AllOff)));
        assert_eq!(scenario("nine-of-twelve"), Err("did you mean `nine-of-twenty`?".into()));
        assert!(scenario("flood").is_err_and(|why| why.contains("--scenario list")));
    }
}
