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
//! While it runs, nodes are started, stopped, killed and added on request ([`control`]): from
//! another terminal ([`ctl`]), or from the page that a node serves.
//!
//! It knows nothing of the nodes' protocol: flags make the nodes a cluster ([`plan`]).

mod children;
mod control;
mod ctl;
mod log;
mod members;
mod node_output;
mod plan;
mod preflight;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use api::dev::{DevAction, DevRefusalKind};
use clap::Args;
use client::http::{Client, ClientError, Request};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::output;
use children::Child;
use control::{Control, ControlRequest, refusal};
use ctl::DevCommand;
use members::{EndedNode, Member, Members};
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
Node 1 has the default ports: 6379 for Redis clients, 7400 native, 7480 HTTP, 7600 peers,
10809 volumes (NBD). Node 2 has the next ones, and so on. All listen on 127.0.0.1 only.

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
  carillon dev --tls                          TLS beside the plain listeners, and between nodes
  carillon dev -- --durability interval       a setting for every node
  carillon dev --verbose                      the nodes' logs in the terminal as well
  carillon dev --print                        the command lines, to start nodes one by one

While it runs, from another terminal:
  carillon dev list                           the nodes, and what their processes do
  carillon dev kill node-2                    kill -9; also stop, pause, resume
  carillon dev start node-2                   again, from its data
  carillon dev add --set domain=rack-2        one more node, with a setting";

/// `carillon dev`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_value_name = "COMMAND", subcommand_help_heading = "While it runs")]
pub struct DevArgs {
    #[command(subcommand)]
    command: Option<DevCommand>,
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
    /// Speak TLS: with clients on listeners of its own, and between nodes. Makes DIR/certs.
    #[arg(long)]
    tls: bool,
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
    /// Certificates cannot be made. Nothing was started.
    #[error("no certificates could be made: {why}")]
    Certs { why: String },
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
    if let Some(command) = &args.command {
        return ctl::run(command);
    }
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
        tls: args.tls,
    };
    let (nodes, program) = (plan::nodes(&wish), preflight::program()?);
    if args.print {
        preflight::prepare(&wish.dir, wish.tls)?;
        let lines = nodes.iter().map(|node| node.command_line(&program) + "\n");
        return Ok(output::raw(lines.collect::<String>().as_bytes()));
    }
    preflight::ports_are_free(&nodes)?;
    preflight::prepare(&wish.dir, wish.tls)?;
    Cluster::start(wish, program, nodes, args.verbose)?.run()
}

/// What the main thread is woken by.
pub enum Wake {
    /// A signal has come.
    Signal(i32),
    /// Something is asked for.
    Control(ControlRequest),
    /// A process of a node serves.
    Serves {
        /// The node's number.
        number: usize,
        /// The process.
        pid: u32,
    },
    /// Something was asked for a moment ago, for a process of a node.
    Act {
        /// The node's number.
        number: usize,
        /// The process.
        pid: u32,
        /// What.
        action: DevAction,
    },
}

/// The nodes, and what wakes this thread, which has started them.
struct Cluster {
    members: Members,
    woken: Receiver<Wake>,
    _control: Control,
}

impl Cluster {
    fn start(
        wish: DevOptions,
        program: PathBuf,
        nodes: Vec<NodePlan>,
        verbose: bool,
    ) -> Result<Self, DevError> {
        let failed = |what: &str, source| DevError::System { what: what.to_owned(), source };
        let (wake, woken) = mpsc::channel();
        // Before the first child, so that no end of one is missed.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD]);
        let mut signals = signals.map_err(|source| failed("the handler of signals", source))?;
        let of_signals = wake.clone();
        let pass_on = move || {
            let mut all = signals.forever();
            all.any(|signal| of_signals.send(Wake::Signal(signal)).is_err());
        };
        let thread = thread::Builder::new().name("signals".into()).spawn(pass_on);
        thread.map_err(|source| failed("the thread of signals", source))?;
        let control = Control::listen(&wish.dir, wake.clone());
        let control = control.map_err(|source| failed("the control socket", source))?;
        let mut members = Members::new(wish, program, verbose, wake);
        members.start_all(nodes)?;
        Ok(Self { members, woken, _control: control })
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
            let woken = self.woken.recv().expect("the thread of signals does not end");
            let is_asked_to_end = self.take(woken);
            for ended in self.members.ended() {
                let (name, how) = (ended.node.name(), children::how(ended.status));
                if ended.is_asked {
                    output::note(&format!("{name} ended {how}, as asked for"));
                    continue;
                }
                let (text, remedy) = (&ended.text, ended.remedy());
                output::complain(&format!(
                    "{name} ended {how}. {text}\nThe other nodes run on; {remedy}"
                ));
            }
            if is_asked_to_end {
                return Ok(self.stop());
            }
            if self.members.have_all_failed() {
                output::complain("all nodes have ended");
                return Ok(self.stop_with(Exit::Refused));
            }
        }
    }

    /// Does what this thread was woken for; whether the run is to end.
    fn take(&mut self, woken: Wake) -> bool {
        match woken {
            Wake::Signal(signal) => return signal != SIGCHLD,
            Wake::Control(ControlRequest { request, pid, reply }) => {
                // If it has gone, it does not wait.
                let _gone = reply.send(self.members.handle(request, pid));
            }
            Wake::Serves { number, pid } => self.members.served(number, pid),
            Wake::Act { number, pid, action } => self.members.act_later(number, pid, action),
        }
        false
    }

    /// Waits until all nodes are ready. False if a signal asks for the end before that.
    fn wait_until_ready(&mut self) -> Result<bool, DevError> {
        let begun = Instant::now();
        let mut has_said = false;
        loop {
            while let Ok(woken) = self.woken.try_recv() {
                if self.take(woken) {
                    return Ok(false);
                }
            }
            let failed = self.members.ended().into_iter().find(|ended| !ended.is_asked);
            if let Some(EndedNode { node, status, command: line, text, .. }) = failed {
                let how = children::how(status);
                return Err(DevError::NotReady { node: node.name(), how, text, line });
            }
            let waiting = self.members.unready();
            if waiting.is_empty() {
                return Ok(true);
            }
            for (node, pid) in &waiting {
                if is_ready(node) {
                    self.members.served(node.number, *pid);
                }
            }
            if begun.elapsed() > REPORT_AFTER && !has_said {
                has_said = true;
                let late: Vec<String> = waiting.iter().map(|(node, _)| node.name()).collect();
                let late = late.join(", ");
                output::note(&format!("still waiting for {late}; its log: {}", self.logs()));
            }
            sleep(LOOK_EVERY);
        }
    }

    fn stop(&mut self) -> Exit {
        self.stop_with(Exit::Done)
    }

    /// Asks all nodes to stop and waits for them. A second signal kills them at once.
    fn stop_with(&mut self, exit: Exit) -> Exit {
        let children = || self.members.all.iter().map(|member| &member.child);
        if children().any(Child::runs) {
            output::note("stopping the nodes; Ctrl-C once more ends them at once");
        }
        children().for_each(Child::ask_to_stop);
        let mut patient = true;
        loop {
            for EndedNode { node, status, text, .. } in self.members.ended() {
                if patient && !status.success() {
                    let (name, how) = (node.name(), children::how(status));
                    output::complain(&format!("{name} ended {how} when asked to stop. {text}"));
                }
            }
            let children = || self.members.all.iter().map(|member| &member.child);
            if children().all(|child| !child.runs()) {
                break;
            }
            match self.woken.recv().expect("the thread of signals does not end") {
                Wake::Signal(signal) if signal != SIGCHLD => {
                    patient = false;
                    children().for_each(Child::kill);
                }
                Wake::Control(ControlRequest { reply, .. }) => {
                    let ending = refusal(DevRefusalKind::Ending, "carillon dev is ending");
                    let _gone = reply.send(ending);
                }
                _ => {}
            }
        }
        exit
    }

    /// Where the logs are, as a pattern for a shell.
    fn logs(&self) -> String {
        self.members.all[0].node.dir.with_file_name("node-*.log").display().to_string()
    }

    /// The greeting: addresses of the nodes, and commands to try.
    fn welcome(&self) -> String {
        let all = &self.members.all;
        let rows = all.iter().map(|Member { node, child, .. }| {
            let mut row = vec![node.name(), node.resp.to_string()];
            row.extend(node.resp_replica.map(|at| at.to_string()));
            row.extend([node.http, node.native, node.peer].map(|at| at.to_string()));
            row.extend(
                node.tls.iter().flat_map(|tls| [tls.resp, tls.http].map(|at| at.to_string())),
            );
            row.extend([child.pid().to_string(), node.dir.display().to_string()]);
            row
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let mut headings = vec!["NODE", "REDIS", "HTTP", "NATIVE", "PEERS", "PROCESS", "DIRECTORY"];
        if all.iter().any(|member| member.node.resp_replica.is_some()) {
            headings.insert(2, "ITS REPLICA");
        }
        if all.iter().any(|member| member.node.tls.is_some()) {
            let at = headings.len() - 2;
            headings.splice(at..at, ["REDIS TLS", "HTTPS"]);
        }
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
        let all = &self.members.all;
        let (first, last) = (&all[0].node, &all[all.len() - 1].node);
        let mut steps = vec![
            (format!("redis-cli -p {} set greeting hello", first.resp.port()), "any node answers"),
            (format!("redis-cli -p {} get greeting", last.resp.port()), ""),
            (format!("carillon status --http {}", last.http), "a node's state, and health"),
            (format!("http://{}/", first.http), "the console, in a browser; at every node"),
        ];
        if let Some(tls) = &first.tls {
            let ca = plan::certs_dir(first.dir.parent().unwrap_or(&first.dir)).join("ca.pem");
            let ca = plan::quoted(&ca.to_string_lossy());
            let port = tls.resp.port();
            steps.push((format!("redis-cli -p {port} --tls --cacert {ca}"), "by TLS"));
            let status = format!("carillon status --http https://{} --tls-ca-file {ca}", tls.http);
            steps.push((status, ""));
        }
        if plan::replicas(all.len()) > 1 {
            let pid = all[0].child.pid();
            steps.push((format!("kill -9 {pid}"), "the other nodes serve"));
        }
        let width = steps.iter().map(|(step, _)| step.len()).max().unwrap_or(0);
        let line = |(step, why): (String, &str)| format!("  {step:<width$}   {why}");
        steps.into_iter().map(|step| line(step).trim_end().to_owned() + "\n").collect()
    }
}

fn is_ready(node: &NodePlan) -> bool {
    let client = Client::new(&node.http.to_string()).expect("an address is one");
    let client = client.with_timeout(ANSWER_TIMEOUT);
    match client.status() {
        // The name tells it from somebody else's node who took the port a moment ago.
        Ok(status) => status["ready"] == true && status["name"] == node.name().as_str(),
        // It asks for a password, but says to everybody whether it serves.
        Err(ClientError::Refused(problem)) if problem.kind == "no-password" => {
            client.send(&Request::get("/health/ready")).is_ok_and(|reply| reply.status == 200)
        }
        Err(_) => false,
    }
}
