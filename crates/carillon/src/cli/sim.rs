//! What can be typed after `carillon sim`.

use clap::{Args, Subcommand};
use sim::scenario::Scenario;

use crate::overlay::OverlayArgs;

/// `carillon sim`
#[derive(Debug, Args)]
#[command(after_help = "\
The same seed runs the same way, byte for byte. Exit code 1 if a rule is broken, with a command
that shows it again.

Examples:
  carillon sim --seed 7
  carillon sim --seed 1 --seeds 500 --doublecheck
  carillon sim --seed 1 --seeds 100 --bug unsynced-ack   what the checkers find
  carillon sim --nodes 5 --seed 1 --seeds 100            clusters on a bad network
  carillon sim --scenario list                           disasters by name
  carillon sim --scenario nine-of-twenty --seed 7        one of them
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
    /// Kinds of faults: all, none, or a list of kill, power, sync-fails, write-fails, full, clock,
    /// catalogue, checkpoints, collection; of clusters also pause, cut, loss, link, transfer,
    /// slow-sync, tail, move.
    #[arg(long, value_name = "KINDS", default_value = "all")]
    pub faults: sim::Faults,
    /// Plant a bug: evaluate-before-log, unsynced-ack, collected-read, no-horizon,
    /// short-checkpoint or forgotten-shard.
    #[arg(long, value_name = "NAME")]
    pub bug: Option<sim::Bug>,
    /// Run a whole cluster of so many nodes, on a bad network.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(3..=50))]
    #[arg(conflicts_with_all = ["steps", "clients", "bug"])]
    pub nodes: Option<u8>,
    /// Play a disaster to its end, in a cluster that arranges itself; `list` lists them.
    #[arg(long, value_name = "NAME", value_parser = scenario)]
    #[arg(conflicts_with_all = ["steps", "clients", "faults", "bug", "nodes"])]
    pub scenario: Option<Asked>,
    /// Of a scenario: its short form, as tests run it.
    #[arg(long, requires = "scenario")]
    pub short: bool,
    /// Of a cluster: virtual milliseconds before the faults end.
    #[arg(long, value_name = "MS", default_value_t = sim::cluster::options::MILLIS_DEFAULT)]
    #[arg(requires = "nodes", value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub millis: u64,
    /// Of a cluster: the power of its first node goes when its disk has changed so often.
    #[arg(long, value_name = "CHANGES", requires = "nodes")]
    pub power_at: Option<u64>,
    /// Plant a bug in a cluster: stale-lease, lease-by-role, forgetful-vote, burst-ticks,
    /// unsynced-vote, fresh-leader-reads, rotten-state, own-clock, wrong-age, no-dedupe,
    /// replayed-half, thaw, forgotten-replica, early-level, unwatched, unlocked-reads,
    /// forgetful-prevent, record-dropped, resolve-by-key, early-retry, late-commit, unvalidated,
    /// single-look, left-record, gone-replica, early-split, old-route or second-turn.
    #[arg(long, value_name = "NAME", requires = "nodes")]
    pub plant: Option<sim::cluster::Plant>,
    /// Of a cluster: transactions over shards are of this kind only: list-append, register, bank,
    /// write-skew, phantom, long-fork, read-only or expiring.
    #[arg(long, value_name = "NAME", requires = "nodes")]
    pub workload: Option<sim::cluster::Workload>,
    /// Run each seed twice, and compare.
    #[arg(long)]
    pub doublecheck: bool,
    /// Print every event.
    #[arg(long)]
    pub verbose: bool,
}

/// What is simulated beside nodes and clusters.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Measure hops and messages of each lookup, on rings of any size.
    Overlay(OverlayArgs),
}

/// What is asked of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Which there are.
    List,
    /// One of them.
    Play(Scenario),
}

fn scenario(text: &str) -> Result<Asked, String> {
    if text == "list" {
        return Ok(Asked::List);
    }
    let named = Scenario::ALL.into_iter().find(|scenario| scenario.name() == text);
    named.map(Asked::Play).ok_or_else(|| {
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
        assert_eq!(scenario("list"), Ok(Asked::List));
        assert_eq!(scenario("all-off"), Ok(Asked::Play(Scenario::AllOff)));
        assert_eq!(scenario("nine-of-twelve"), Err("did you mean `nine-of-twenty`?".into()));
        assert!(scenario("flood").is_err_and(|why| why.contains("--scenario list")));
    }
}
