//! `carillon dev`: a cluster on one machine, to try things.
//!
//! Every node is this same program, `carillon start`, in a process and a directory of its own:
//! what can be tried here (`kill -9`, `kill -STOP`, a full disk) is what happens elsewhere.
//!
//! ```text
//!   ports free? ─► directory, secret ─► N processes ─► all ready ─► table ─► wait
//!        │                                   │                               │
//!     which one,                       one that ends:                  SIGINT, SIGTERM:
//!     what to do                       the others are stopped          SIGTERM to all, wait;
//!                                                                      again: SIGKILL to all
//! ```
//!
//! The nodes' logs go to files beside their directories, and with `--verbose` to standard error
//! too. A node that ends later is reported and not restarted, so that one can look at the cluster
//! without it; the message holds the command that starts it again. No data is ever deleted: a
//! directory that has data is resumed.
//!
//! It knows nothing of the nodes' protocol: flags make the nodes a cluster ([`plan`]).

mod children;
mod log;
mod node_output;
mod plan;
mod preflight;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use client::http::Client;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::output;
use children::Child;
use log::Log;
use plan::{BASE_PORT, BASE_PORT_MAX, DevOptions, NODES_MAX, NodePlan};

/// Nodes of a new directory.
const NODES_DEFAULT: usize = 3;
/// Between two looks at nodes that start.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long a starting node may take to answer a status request, before it is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// After this time `dev` names the nodes that it still waits for.
const REPORT_AFTER: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Node 1 has the default ports: 6379 for Redis clients, 7400 native, 7480 HTTP, 7600 peers.
Node 2 has the next ones, and so on. All listen on 127.0.0.1 only.

Each node has a directory in DIR. Ctrl-C stops all of them; the next time they go on from there.
To begin with an empty cluster, remove DIR. Settings come from the environment as for `carillon
start`, or follow --.

A node that ends is not started again: kill -9 one and watch the others serve. The message then
shows the last lines of its log, and the command that starts it again.

Each node's log is DIR/node-N.log, begun anew at each start. At the start, and when it has 16 MiB,
the file before becomes DIR/node-N.log.old, in place of an older one.

Examples:
  carillon dev                                three nodes in ./carillon-dev
  carillon dev --nodes 5 --dir /tmp/five
  carillon dev --base-port 16379              if the default ports are in use
  carillon dev --resp-mode cluster            for cluster clients of Redis
  carillon dev -- --durability interval       a setting for every node
  carillon dev --verbose                      the nodes' logs in the terminal as well
  carillon dev --print                        the command lines, to start nodes one by one";

/// `carillon dev`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DevArgs {
    /// Number of nodes. Unless given: as many as DIR has, or three.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=NODES_MAX as i64))]
    nodes: Option<u8>,
    /// Directory of all nodes. Created if it does not exist.
    #[arg(long, default_value = "carillon-dev")]
    dir: PathBuf,
    /// Port of node 1 for Redis clients; all other ports move with it.
    #[arg(long, value_name = "PORT", default_value_t = BASE_PORT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(BASE_PORT_MAX)))]
    base_port: u16,
    /// Mode for Redis clients: any (each node serves all keys) or cluster (a Redis Cluster).
    #[arg(long, value_name = "MODE")]
    #[arg(value_parser = ["any", "cluster"])]
    resp_mode: Option<String>,
    /// Print the command line of each node, and start none.
    #[arg(long)]
    print: bool,
    /// Print the nodes' logs as well as write them to files.
    #[arg(long, short)]
    verbose: bool,
    /// Further flags of `carillon start`, for every node.
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

impl DevArgs {
    /// The further flags of every node.
    fn every_flag(&self) -> Vec<OsString> {
        let mode = self.resp_mode.iter().map(|mode| format!("--resp-mode={mode}").into());
        mode.chain(self.flags.iter().cloned()).collect()
    }
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
enum DevError {
    /// Fewer nodes than there are may have no majority. Nothing was started.
    #[error(
        "{dir} holds {there} nodes, and {wanted} of them may have no majority. Nothing was \
         started. Start all of them with --nodes {there}, choose another --dir, or remove this one \
         to begin with an empty cluster"
    )]
    TooFew { dir: PathBuf, there: usize, wanted: usize },
    /// The directory cannot be made. Nothing was started.
    #[error("cannot write {path}: {source}. Choose another --dir")]
    Directory { path: PathBuf, source: io::Error },
    /// A port cannot be had. Nothing was started.
    #[error("{node} cannot listen for {protocol}: {}", preflight::port_remedy(.source, .address))]
    Port { node: String, protocol: &'static str, address: SocketAddr, source: io::Error },
    /// The program does not find itself. Nothing was started.
    #[error("cannot find this program's file: {source}")]
    Program { source: io::Error },
    /// The system refused signals or a process. Nodes that were started are killed.
    #[error("cannot start {what}: {source}")]
    System { what: String, source: io::Error },
    /// A node ended before it was ready. The others were stopped.
    #[error("{node} ended {how} before it was ready. {text}\nNo node runs now. Command: {line}")]
    NotReady { node: String, how: String, text: String, line: String },
}

/// Runs a cluster until it is asked to stop.
pub fn dev(args: &DevArgs) -> Exit {
    match try_dev(args) {
        Ok(exit) => exit,
        Err(error) => {
            output::complain(&error.to_string());
            match error {
                DevError::TooFew { .. } => Exit::Usage,
                _ => Exit::Refused,
            }
        }
    }
}

fn try_dev(args: &DevArgs) -> Result<Exit, DevError> {
    // Absolute, so that the command lines hold from any directory.
    let dir = std::path::absolute(&args.dir);
    let dir = dir.map_err(|source| DevError::Directory { path: args.dir.clone(), source })?;
    let used = preflight::used(&dir);
    let there = used.last().copied();
    let nodes = args.nodes.map(usize::from).or(there).unwrap_or(NODES_DEFAULT);
    if let Some(there) = there.filter(|there| *there > nodes) {
        return Err(DevError::TooFew { dir, there, wanted: nodes });
    }
    let wish = DevOptions {
        nodes,
        dir,
        base_port: args.base_port,
        flags: args.every_flag(),
        memory_is_set: std::env::var_os("CARILLON_MEMORY_MAX").is_some(),
        used,
    };
    let (nodes, program) = (plan::nodes(&wish), preflight::program()?);
    if args.print {
        preflight::prepare(&wish.dir)?;
        let lines = nodes.iter().map(|node| node.command_line(&program) + "\n");
        return Ok(output::raw(lines.collect::<String>().as_bytes()));
    }
    preflight::ports_are_free(&nodes)?;
    preflight::prepare(&wish.dir)?;
    Cluster::start(program, nodes, args.verbose)?.run()
}

/// Nodes, and their processes in the same order.
struct Cluster {
    program: PathBuf,
    nodes: Vec<NodePlan>,
    children: Vec<Child>,
    signals: Signals,
    /// Whether the nodes' logs are printed.
    verbose: bool,
}

/// A node that has ended.
struct EndedNode {
    node: NodePlan,
    status: ExitStatus,
    /// The end of its log, unless that was printed, and where the log is.
    text: String,
}

impl Cluster {
    fn start(program: PathBuf, nodes: Vec<NodePlan>, verbose: bool) -> Result<Self, DevError> {
        let failed = |what: &str, source| DevError::System { what: what.to_owned(), source };
        // Before the first child, so that no end of one is missed.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD]);
        let signals = signals.map_err(|source| failed("the handler of signals", source))?;
        let begun = nodes.iter().map(|node| {
            let path = node.log();
            Log::begin(&path).map_err(|source| DevError::Directory { path, source })
        });
        let logs = begun.collect::<Result<Vec<Log>, DevError>>()?;
        let mut cluster = Self { program, nodes, children: Vec::new(), signals, verbose };
        let width = cluster.nodes.iter().map(|node| node.name().len()).max().unwrap_or(0);
        for (node, log) in cluster.nodes.iter().zip(logs) {
            let prefix = verbose.then(|| node_output::prefix(node.number, width));
            match Child::start(&cluster.program, node, log, prefix) {
                Ok(child) => cluster.children.push(child),
                Err(source) => {
                    cluster.children.iter().for_each(Child::kill);
                    return Err(failed(&node.name(), source));
                }
            }
        }
        Ok(cluster)
    }

    fn run(&mut self) -> Result<Exit, DevError> {
        match self.wait_until_ready() {
            Ok(true) => {}
            Ok(false) => return Ok(self.stop()),
            Err(error) => {
                self.stop();
                return Err(error);
            }
        }
        output::raw(self.welcome().as_bytes());
        loop {
            let asked = self.signals.wait().any(|signal| signal != SIGCHLD);
            for EndedNode { node, status, text } in self.ended() {
                let (name, how) = (node.name(), children::how(status));
                let line = node.command_line(&self.program);
                output::complain(&format!(
                    "{name} ended {how}. {text}\nThe other nodes run on; to start it again: {line}"
                ));
            }
            if asked {
                return Ok(self.stop());
            }
            if self.children.iter().all(|child| !child.runs()) {
                output::complain("all nodes have ended");
                return Ok(self.stop_with(Exit::Refused));
            }
        }
    }

    /// Waits until all nodes are ready. False if a signal asks for the end before that.
    fn wait_until_ready(&mut self) -> Result<bool, DevError> {
        let begun = Instant::now();
        let mut ready = vec![false; self.nodes.len()];
        let mut has_said = false;
        while ready.contains(&false) {
            if self.signals.pending().any(|signal| signal != SIGCHLD) {
                return Ok(false);
            }
            if let Some(EndedNode { node, status, text }) = self.ended().into_iter().next() {
                let (how, line) = (children::how(status), node.command_line(&self.program));
                return Err(DevError::NotReady { node: node.name(), how, text, line });
            }
            for (node, ready) in self.nodes.iter().zip(&mut ready).filter(|(_, ready)| !**ready) {
                *ready = is_ready(node);
            }
            if begun.elapsed() > REPORT_AFTER && !has_said {
                has_said = true;
                let late = self.nodes.iter().zip(&ready).filter(|(_, ready)| !**ready);
                let late: Vec<String> = late.map(|(node, _)| node.name()).collect();
                let late = late.join(", ");
                output::note(&format!("still waiting for {late}; its log: {}", self.logs()));
            }
            sleep(LOOK_EVERY);
        }
        Ok(true)
    }

    /// The nodes that have ended since the last call, and how.
    fn ended(&mut self) -> Vec<EndedNode> {
        let both = self.nodes.iter().zip(&mut self.children);
        let ended = both.filter_map(|(node, child)| {
            let status = child.ended_now()?;
            let (lines, path) = (child.last_lines(), node.log().display().to_string());
            let text = match self.verbose || lines.is_empty() {
                true => format!("Its log: {path}"),
                false => format!("The last lines of {path}:\n  {}", lines.join("\n  ")),
            };
            Some(EndedNode { node: node.clone(), status, text })
        });
        ended.collect()
    }

    fn stop(&mut self) -> Exit {
        self.stop_with(Exit::Done)
    }

    /// Asks all nodes to stop and waits for them. A second signal kills them at once.
    fn stop_with(&mut self, exit: Exit) -> Exit {
        if self.children.iter().any(Child::runs) {
            output::note("stopping the nodes; Ctrl-C once more ends them at once");
        }
        self.children.iter().for_each(Child::ask_to_stop);
        let mut patient = true;
        loop {
            for EndedNode { node, status, text } in self.ended() {
                if patient && !status.success() {
                    let (name, how) = (node.name(), children::how(status));
                    output::complain(&format!("{name} ended {how} when asked to stop. {text}"));
                }
            }
            if self.children.iter().all(|child| !child.runs()) {
                break;
            }
            if self.signals.wait().any(|signal| signal != SIGCHLD) {
                patient = false;
                self.children.iter().for_each(Child::kill);
            }
        }
        exit
    }

    /// Where the logs are, as a pattern for a shell.
    fn logs(&self) -> String {
        self.nodes[0].dir.with_file_name("node-*.log").display().to_string()
    }

    /// The greeting: addresses of the nodes, and commands to try.
    fn welcome(&self) -> String {
        let rows = self.nodes.iter().zip(&self.children).map(|(node, child)| {
            let [resp, native, http, peer] = node.listeners().map(|(_, at)| at.to_string());
            let dir = node.dir.display().to_string();
            vec![node.name(), resp, http, native, peer, child.pid().to_string(), dir]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let headings = ["NODE", "REDIS", "HTTP", "NATIVE", "PEERS", "PROCESS", "DIRECTORY"];
        // The words of this run, whose directory may be a relative one: the same start it again.
        let words: Vec<String> =
            std::env::args_os().map(|word| plan::quoted(&word.to_string_lossy())).collect();
        format!(
            "{}\n{}\nThe nodes' logs: {}\nCtrl-C stops all nodes. To start them again from their \
             data: {}\n",
            output::table(&headings, &rows),
            self.first_steps(),
            self.logs(),
            words.join(" ")
        )
    }

    fn first_steps(&self) -> String {
        let (first, last) = (&self.nodes[0], &self.nodes[self.nodes.len() - 1]);
        let mut steps = vec![
            (format!("redis-cli -p {} set greeting hello", first.resp.port()), "any node answers"),
            (format!("redis-cli -p {} get greeting", last.resp.port()), ""),
            (format!("carillon status --http {}", last.http), "a node's state, and health"),
            (format!("http://{}/", first.http), "the console, in a browser; at every node"),
        ];
        if plan::replicas(self.nodes.len()) > 1 {
            let pid = self.children[0].pid();
            steps.push((format!("kill -9 {pid}"), "the other nodes serve"));
        }
        let width = steps.iter().map(|(step, _)| step.len()).max().unwrap_or(0);
        let line = |(step, why): (String, &str)| format!("  {step:<width$}   {why}");
        steps.into_iter().map(|step| line(step).trim_end().to_owned() + "\n").collect()
    }
}

fn is_ready(node: &NodePlan) -> bool {
    let client = Client::new(&node.http.to_string()).expect("an address is one");
    let status = client.with_timeout(ANSWER_TIMEOUT).status();
    // The name tells it from somebody else's node who took the port a moment ago.
    status.is_ok_and(|status| status["ready"] == true && status["name"] == node.name().as_str())
}
