//! Arguments of `carillon bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `carillon bench`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
#[command(after_help = "\
A scenario is a file of TOML, or the name of one that comes with the program (`list`). It says what
to measure: a target, keys, values, phases, what must hold. docs/bench.md lists all that it can say.

Examples:
  carillon bench list                             the scenarios that come with the program
  carillon bench show redis > mine.toml           one of them, to change it
  carillon bench check mine.toml                  what is wrong with it: file, line, key
  carillon bench run mine.toml                    measures; results go to carillon-bench/mine
  carillon bench run redis --seconds 1            a short try
  carillon bench run elasticity --live 127.0.0.1:7700      a cluster that loses and gains nodes
  carillon bench run ramp --set target.addresses='[\"10.0.0.7:6379\"]'
  carillon bench compare before after --fail-over 5%
  carillon bench papers --quick                   what five documents measured, measured again
  carillon bench agent --listen 10.0.0.8:7700 --secret-file secret      on another host; then
  carillon bench run mine.toml --agents 10.0.0.8:7700 --secret-file secret

Exit codes: 0 done and passed; 1 a criterion failed, something is worse, or the run failed;
2 the scenario or the command line is wrong: nothing was started; 3 a target or an agent is
unreachable.")]
pub struct BenchArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What `carillon bench` does.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// List the scenarios that come with the program.
    List,
    /// Print a scenario; or `driver.py`, an example for the driver `exec`; or `schema.json`, for
    /// editors.
    Show {
        /// Its name.
        name: String,
    },
    /// Check scenarios, and say how many runs they are.
    Check {
        /// Files, or names.
        #[arg(required = true, value_name = "SCENARIO")]
        scenarios: Vec<String>,
    },
    /// Run a scenario; what this program has measured before is not measured again.
    Run(RunArgs),
    /// Compare two results, and exit with 1 if the second is worse.
    Compare(CompareArgs),
    /// Write the page of a result anew.
    Report {
        /// The directory of a result.
        result: PathBuf,
        /// Write its charts as SVG, too, into the directory `charts` beside it.
        #[arg(long)]
        svg: bool,
    },
    /// Measure what five documents measured, and write a page about each.
    Papers(PapersArgs),
    /// Make loads for a controller on another host, until Ctrl-C.
    Agent(AgentArgs),
}

/// `carillon bench run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A file, or a name that `carillon bench list` shows.
    pub scenario: String,
    /// Where results go [default: carillon-bench/NAME].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Set a key of the scenario, by its dotted path: `load.clients=5`, `phase.open.rate=100`.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Run each cell so often, instead of what the scenario says.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repetitions: Option<u64>,
    /// Let no phase take longer, for a short try.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Remove the results that the directory holds, and measure all anew.
    #[arg(long)]
    pub replace: bool,
    /// Show the run in a browser while it goes on, at this address.
    #[arg(long, value_name = "HOST:PORT")]
    pub live: Option<String>,
    /// Agents that make the load, instead of this process.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', requires = "secret_file")]
    pub agents: Vec<String>,
    /// A file with the secret that the agents know.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

/// `carillon bench compare`
#[derive(Debug, Args)]
#[command(after_help = "\
A figure is worse if its median moved by more than --fail-over in the bad direction and the
confidence intervals do not overlap; if they do, it is unsure. More failures are always worse.

Example:
  carillon bench compare carillon-bench/before carillon-bench/after --fail-over 5%")]
pub struct CompareArgs {
    /// The directory of a result, or its results.json.
    pub before: PathBuf,
    /// The other one.
    pub after: PathBuf,
    /// How much worse is too much.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub fail_over: f64,
}

/// `carillon bench papers`
#[derive(Debug, Args)]
#[command(after_help = "\
Starts nodes of this program on this machine, or on those of --agents, one cluster after the other,
and loads them: fifty minutes for all documents, about two with --quick. Pages and charts of a
document are replaced when it is done. docs/papers has those that were made last. Nodes on hosts of
agents ask nobody for a password while they run.

Examples:
  carillon bench papers                            all, into docs/papers
  carillon bench papers --only 000 --out /tmp/papers
  carillon bench papers --quick --out /tmp/papers  shows that it works, and little more
  carillon bench papers --agents 10.0.0.8:7700,10.0.0.9:7700 --secret-file secret")]
pub struct PapersArgs {
    /// One document: 000, 001, 002, 003 or 004.
    #[arg(long, value_name = "DOCUMENT")]
    pub only: Option<String>,
    /// As short as can be.
    #[arg(long)]
    pub quick: bool,
    /// Where pages go.
    #[arg(long, value_name = "DIR", default_value = "docs/papers")]
    pub out: PathBuf,
    /// Agents whose hosts run the nodes, in turn, and make the loads: HOST:PORT,HOST:PORT.
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', requires = "secret_file")]
    pub agents: Vec<String>,
    /// A file with the secret that the agents know.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

/// `carillon bench agent`
#[derive(Debug, Args)]
#[command(after_help = "\
An agent makes the load of one controller at a time. Controller and agent prove to each other that
they know the secret, and every message between them is authenticated with it; nothing is encrypted.
A controller that knows it can run any program on this host (driver `exec`, nodes): keep it secret.
Nodes that a controller has started here end with it, and with the agent.

Example:
  head -c 32 /dev/urandom | base64 > secret; chmod 600 secret      the same file on all hosts
  carillon bench agent --listen 10.0.0.8:7700 --secret-file secret")]
pub struct AgentArgs {
    /// Where to listen.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7700")]
    pub listen: String,
    /// A file with the secret that the controller knows: at least 16 bytes.
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.trim().is_empty());
    let (key, value) = pair.ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1000.0).contains(number));
    number.map(|number| number / 100.0).ok_or_else(|| "expected a share, as 5%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_pairs_are_read() {
        assert_eq!(percent("5%"), Ok(0.05));
        assert_eq!(percent("12.5"), Ok(0.125));
        assert!(percent("five").is_err() && percent("-1").is_err());
        assert_eq!(key_value("a.b = [1, 2]"), Ok(("a.b".into(), "[1, 2]".into())));
        assert!(key_value("a").is_err() && key_value("=1").is_err());
    }
}
