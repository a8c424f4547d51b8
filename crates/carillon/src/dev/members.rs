//! The nodes of a run: what each process does, and what is done to it on request.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::Sender;
use std::thread::{self, sleep};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::dev::{
    DevAction, DevAddresses, DevCluster, DevEnd, DevNode, DevParameter, DevRefusal, DevRefusalKind,
    DevReply, DevRequest, DevState, Parameters,
};
use server::config::SETTINGS;

use super::children::{self, Child};
use super::control::Control;
use super::log::Log;
use super::plan::{self, DevOptions, NODES_MAX, NodePlan};
use super::{DevError, LOOK_EVERY, Wake, is_ready, node_output, preflight};
use crate::start;

/// Lines of its log that the message about a node's end shows.
const TEXT_LINES: usize = 5;
/// Before a node is stopped that passes on the request for it, so that its page gets the reply.
const REPLY_FIRST: Duration = Duration::from_millis(200);
/// Settings that make the nodes a cluster on this machine, or that say where they are.
const FIXED: [&str; 19] = [
    "dir",
    "name",
    "resp",
    "resp_replica",
    "native",
    "nbd",
    "http",
    "peer",
    "peer_secret_file",
    "resp_tls",
    "http_tls",
    "native_tls",
    "peer_tls_cert_file",
    "peer_tls_key_file",
    "peer_tls_ca_file",
    "peer_tls_crl_file",
    "join",
    "advertise",
    "insecure",
];

/// A node and its process.
pub struct Member {
    /// Where it is, and how it is started without parameters.
    pub node: NodePlan,
    /// Its last process.
    pub child: Child,
    parameters: Parameters,
    is_ready: bool,
    /// Somebody has asked for its end.
    is_asked: bool,
    since_ms: u64,
    ended: Option<DevEnd>,
}

/// All nodes.
pub struct Members {
    /// As the run was asked for.
    wish: DevOptions,
    program: PathBuf,
    /// Whether the nodes' logs are printed.
    verbose: bool,
    wake: Sender<Wake>,
    /// In the order of their numbers.
    pub all: Vec<Member>,
}

/// A node that has ended.
pub struct EndedNode {
    /// Which.
    pub node: NodePlan,
    /// How.
    pub status: ExitStatus,
    /// Whether somebody has asked for it.
    pub is_asked: bool,
    /// How to start it by hand.
    pub command: String,
    /// The end of its log, unless that was printed, and where the log is.
    pub text: String,
    /// Whether it has ended because its node was removed from the cluster.
    pub is_removed: bool,
}

impl EndedNode {
    /// What can be done now.
    pub fn remedy(&self) -> String {
        match self.is_removed {
            true => {
                "it was removed from the cluster for good; `carillon dev add` adds another".into()
            }
            false => format!("to start it again: {}", self.command),
        }
    }
}

/// What a node's last words have, if it was removed.
const REMOVED: &str = "was removed from the cluster";

impl Members {
    /// Without any process yet.
    pub fn new(wish: DevOptions, program: PathBuf, verbose: bool, wake: Sender<Wake>) -> Self {
        Self { wish, program, verbose, wake, all: Vec::new() }
    }

    /// Starts all nodes of a plan.
    ///
    /// # Errors
    /// If a log or a process cannot be made; those that were started are killed.
    pub fn start_all(&mut self, nodes: Vec<NodePlan>) -> Result<(), DevError> {
        let logs = nodes.iter().map(begin_log).collect::<Result<Vec<Log>, DevError>>()?;
        for (node, log) in nodes.into_iter().zip(logs) {
            match self.spawn(&node, &Parameters::new(), log) {
                Ok(child) => self.all.push(Member::new(node, child, Parameters::new())),
                Err(source) => {
                    self.all.iter().for_each(|member| member.child.kill());
                    return Err(DevError::System { what: node.name(), source });
                }
            }
        }
        Ok(())
    }

    fn spawn(&self, node: &NodePlan, given: &Parameters, log: Log) -> std::io::Result<Child> {
        let width = plan::name(NODES_MAX).len();
        let prefix = self.verbose.then(|| node_output::prefix(node.number, width));
        let words = [&node.arguments[..], &words(given)].concat();
        let socket = Control::path(&self.wish.dir);
        Child::start(&self.program, &words, &socket, log, prefix)
    }

    /// The nodes that have ended since the last call, and how.
    pub fn ended(&mut self) -> Vec<EndedNode> {
        let (verbose, program) = (self.verbose, &self.program);
        let ended = self.all.iter_mut().filter_map(|member| {
            let status = member.child.ended_now()?;
            let (lines, path) = (member.child.last_lines(), member.node.log());
            let path = path.display();
            let text = match verbose || lines.is_empty() {
                true => format!("Its log: {path}"),
                false => {
                    let last = &lines[lines.len().saturating_sub(TEXT_LINES)..];
                    format!("The last lines of {path}:\n  {}", last.join("\n  "))
                }
            };
            let is_removed = lines.iter().any(|line| line.contains(REMOVED));
            let (how, asked) = (children::how(status), member.is_asked);
            member.since_ms = now_ms();
            member.ended = Some(DevEnd { how, asked, log: lines });
            let (node, command) = (member.node.clone(), member.command(program));
            Some(EndedNode { node, status, is_asked: asked, command, text, is_removed })
        });
        ended.collect()
    }

    /// Nodes whose processes run and do not serve yet.
    pub fn unready(&self) -> Vec<(NodePlan, u32)> {
        let unready = self.all.iter().filter(|member| !member.is_ready);
        unready.filter_map(|member| Some((member.node.clone(), member.pid()?))).collect()
    }

    /// Whether none runs, and nobody has asked for that.
    pub fn have_all_failed(&self) -> bool {
        self.all.iter().all(|member| !member.child.runs() && !member.is_asked)
    }

    /// A process of a node serves.
    pub fn served(&mut self, number: usize, pid: u32) {
        let is_it =
            |member: &&mut Member| member.node.number == number && member.pid() == Some(pid);
        if let Some(member) = self.all.iter_mut().find(is_it)
            && !member.is_ready
        {
            (member.is_ready, member.since_ms) = (true, now_ms());
        }
    }

    /// Does what was asked for, by the process `pid`.
    pub fn handle(&mut self, request: DevRequest, pid: u32) -> DevReply {
        let done = match request {
            DevRequest::List => return DevReply::Cluster(Box::new(self.shown(pid))),
            DevRequest::Add { parameters } => self.add(parameters),
            DevRequest::Act { node, action, parameters } => {
                self.act(&node, action, parameters, pid)
            }
        };
        match done {
            Ok(place) => DevReply::Node(Box::new(self.all[place].shown(&self.program, pid))),
            Err(refusal) => DevReply::Refused(refusal),
        }
    }

    fn shown(&self, pid: u32) -> DevCluster {
        let settings = SETTINGS.iter().filter(|setting| !FIXED.contains(&setting.name));
        let parameters = settings.map(|setting| DevParameter {
            name: setting.name.to_owned(),
            accepts: (setting.accepts)(),
            default: setting.default.to_owned(),
            help: setting.help.trim().to_owned(),
        });
        DevCluster {
            dir: self.wish.dir.display().to_string(),
            nodes_max: NODES_MAX as u64,
            flags: self.wish.flags.iter().map(|flag| flag.to_string_lossy().into()).collect(),
            parameters: parameters.collect(),
            nodes: self.all.iter().map(|member| member.shown(&self.program, pid)).collect(),
        }
    }

    /// Adds a node and starts it; its place.
    fn add(&mut self, parameters: Parameters) -> Result<usize, DevRefusal> {
        let number = self.all.last().map_or(1, |last| last.node.number + 1);
        if number > NODES_MAX {
            let why = format!("there may be {NODES_MAX} nodes, and there are");
            return Err(refused(DevRefusalKind::TooManyNodes, why));
        }
        let node = plan::node(&self.wish, number);
        let child = self.begin(&node, &parameters)?;
        self.all.push(Member::new(node, child, parameters));
        Ok(self.all.len() - 1)
    }

    /// Starts a node's process, once all that can be checked is in order.
    fn begin(&self, node: &NodePlan, given: &Parameters) -> Result<Child, DevRefusal> {
        check(given).map_err(|why| refused(DevRefusalKind::BadParameter, why))?;
        let all = [&node.arguments[1..], &words(given)].concat();
        start::check(&all).map_err(|why| refused(DevRefusalKind::BadParameter, why))?;
        let in_use = |why: DevError| refused(DevRefusalKind::PortInUse, why.to_string());
        preflight::ports_are_free(std::slice::from_ref(node)).map_err(in_use)?;
        let failed = |why: String| refused(DevRefusalKind::NotStarted, why);
        let log = begin_log(node).map_err(|why| failed(why.to_string()))?;
        let child = self.spawn(node, given, log);
        let child = child.map_err(|why| failed(format!("{}: {why}", node.name())))?;
        await_service(node.clone(), child.pid(), self.wake.clone());
        Ok(child)
    }

    /// Does something to a node's process; its place.
    fn act(
        &mut self,
        name: &str,
        action: DevAction,
        parameters: Option<Parameters>,
        asker: u32,
    ) -> Result<usize, DevRefusal> {
        let Some(place) = self.all.iter().position(|member| member.node.name() == name) else {
            let known: Vec<String> = self.all.iter().map(|member| member.node.name()).collect();
            let why = format!("there is no node {name:?}; there are {}", known.join(", "));
            return Err(refused(DevRefusalKind::NoNode, why));
        };
        let state = self.all[place].state();
        let may = match action {
            DevAction::Start => state == DevState::Ended,
            DevAction::Stop | DevAction::Kill => state != DevState::Ended,
            DevAction::Pause => matches!(state, DevState::Starting | DevState::Running),
            DevAction::Resume => state == DevState::Paused,
        };
        if !may {
            let why = format!("{name} is {}", state.word());
            return Err(refused(DevRefusalKind::WrongState, why));
        }
        if action == DevAction::Start {
            self.start_again(place, parameters)?;
            return Ok(place);
        }
        let member = &mut self.all[place];
        let number = member.node.number;
        match member.pid() {
            Some(pid) if pid == asker && action != DevAction::Resume => {
                let wake = self.wake.clone();
                // If there is no thread for it, it is done at once.
                let later = move || {
                    sleep(REPLY_FIRST);
                    let _ended = wake.send(Wake::Act { number, pid, action });
                };
                if thread::Builder::new().spawn(later).is_err() {
                    member.signal(action);
                }
            }
            _ => member.signal(action),
        }
        Ok(place)
    }

    /// Does something to a process of a node, if that still runs.
    pub fn act_later(&mut self, number: usize, pid: u32, action: DevAction) {
        let is_it =
            |member: &&mut Member| member.node.number == number && member.pid() == Some(pid);
        if let Some(member) = self.all.iter_mut().find(is_it) {
            member.signal(action);
        }
    }

    fn start_again(
        &mut self,
        place: usize,
        parameters: Option<Parameters>,
    ) -> Result<(), DevRefusal> {
        // Its data may be gone by now: then it must not found a second cluster.
        self.wish.used = preflight::used(&self.wish.dir);
        let node = plan::node(&self.wish, self.all[place].node.number);
        let parameters = parameters.unwrap_or_else(|| self.all[place].parameters.clone());
        let child = self.begin(&node, &parameters)?;
        self.all[place] = Member::new(node, child, parameters);
        Ok(())
    }
}

impl Member {
    fn new(node: NodePlan, child: Child, parameters: Parameters) -> Self {
        let (is_ready, is_asked, since_ms, ended) = (false, false, now_ms(), None);
        Self { node, child, parameters, is_ready, is_asked, since_ms, ended }
    }

    fn pid(&self) -> Option<u32> {
        self.child.runs().then(|| self.child.pid())
    }

    fn state(&self) -> DevState {
        match self.pid() {
            None => DevState::Ended,
            Some(pid) if stands_still(pid) => DevState::Paused,
            Some(_) if self.is_asked => DevState::Stopping,
            Some(_) if self.is_ready => DevState::Running,
            Some(_) => DevState::Starting,
        }
    }

    fn signal(&mut self, action: DevAction) {
        match action {
            DevAction::Stop => {
                self.is_asked = true;
                self.child.ask_to_stop();
            }
            DevAction::Kill => {
                self.is_asked = true;
                self.child.kill();
            }
            DevAction::Pause => self.child.pause(),
            DevAction::Resume => self.child.resume(),
            DevAction::Start => {}
        }
        self.since_ms = now_ms();
    }

    /// How to start it by hand.
    fn command(&self, program: &Path) -> String {
        let more = words(&self.parameters);
        let more: String =
            more.iter().map(|word| format!(" {}", plan::quoted(&word.to_string_lossy()))).collect();
        self.node.command_line(program) + &more
    }

    fn shown(&self, program: &Path, asker: u32) -> DevNode {
        let NodePlan { resp, native, http, peer, .. } = &self.node;
        let [resp, native, http, peer] = [resp, native, http, peer].map(SocketAddr::to_string);
        DevNode {
            name: self.node.name(),
            state: self.state(),
            since_at_ms: self.since_ms,
            pid: self.pid(),
            this: self.pid() == Some(asker),
            addresses: DevAddresses { resp, native, http, peer },
            dir: self.node.dir.display().to_string(),
            log: self.node.log().display().to_string(),
            parameters: self.parameters.clone(),
            command: self.command(program),
            ended: self.ended.clone(),
        }
    }
}

/// Whether all are settings that may be given.
fn check(parameters: &Parameters) -> Result<(), String> {
    for name in parameters.keys() {
        if FIXED.contains(&name.as_str()) {
            return Err(format!("{name} is set by carillon dev itself"));
        }
        let mut names = SETTINGS.iter().map(|setting| setting.name);
        if !names.clone().any(|known| known == name) {
            let near = server::config::nearest(name, &mut names);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(format!("there is no setting {name:?}{near}"));
        }
    }
    Ok(())
}

/// Parameters as words of a command line.
fn words(parameters: &BTreeMap<String, String>) -> Vec<OsString> {
    let word = |(name, value): (&String, &String)| {
        OsString::from(format!("--{}={value}", name.replace('_', "-")))
    };
    parameters.iter().map(word).collect()
}

fn begin_log(node: &NodePlan) -> Result<Log, DevError> {
    let path = node.log();
    Log::begin(&path).map_err(|source| DevError::Directory { path, source })
}

/// Looks until a node serves, or its process has ended.
fn await_service(node: NodePlan, pid: u32, wake: Sender<Wake>) {
    let look = move || {
        while Path::new("/proc").join(pid.to_string()).exists() {
            if is_ready(&node) {
                let _ended = wake.send(Wake::Serves { number: node.number, pid });
                return;
            }
            sleep(LOOK_EVERY);
        }
    };
    // Without the thread the node is shown as starting.
    let _none = thread::Builder::new().name("await-service".into()).spawn(look);
}

/// Whether a process was stopped by a signal.
fn stands_still(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state == Some('T')
}

fn refused(kind: DevRefusalKind, why: impl Into<String>) -> DevRefusal {
    DevRefusal { kind, why: why.into() }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_flags() {
        let given = Parameters::from([
            ("memory_max".to_owned(), "1 GiB".to_owned()),
            ("domain".to_owned(), "a".to_owned()),
        ]);
        assert_eq!(words(&given), ["--domain=a", "--memory-max=1 GiB"]);
    }

    #[test]
    fn unknown_and_fixed_settings_are_refused() {
        let one = |name: &str| Parameters::from([(name.to_owned(), "1".to_owned())]);
        assert_eq!(check(&one("memory_max")), Ok(()));
        for (name, why) in [
            ("memry_max", "did you mean memory_max?"),
            ("join", "is set by carillon dev itself"),
            ("config", "there is no setting"),
            ("", "there is no setting"),
        ] {
            let found = check(&one(name)).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn fixed_settings_are_settings() {
        for name in FIXED {
            assert!(SETTINGS.iter().any(|setting| setting.name == name), "{name}");
        }
    }
}
