//! A host on which nodes run: this one, or that of an agent ([`crate::agents::nodes`]).
//!
//! A node leads a process group of its own: signals reach what it has started, too, and Ctrl-C in
//! the controller's terminal does not reach it. Whatever ends a host's value ends its nodes; the
//! kernel ends them if the thread that owns it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use harness::net::Net;
use harness::ports::unused;
use harness::process::{Directory, Process, Signal};
use serde::{Deserialize, Serialize};

use super::RunError;
use super::proc::{self, NetworkCounts, ProcessCounts};
use crate::machine::disk_bytes;

/// As a node's program: the one that the host runs itself.
pub const THIS_PROGRAM: &str = "{carillon}";

/// Where a node may listen and keep files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Free ports.
    pub ports: [u16; 4],
    /// A directory of its own.
    pub dir: String,
    /// The host's address.
    pub host: String,
    /// A file with what all nodes of a run share, which nobody else may read.
    pub secret: String,
}

/// What is sent to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeSignal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL, and its end.
    Kill,
    /// SIGSTOP.
    Pause,
    /// SIGCONT.
    Resume,
}

/// What is done to a network of namespaces. Nodes are counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkChange {
    /// A node is off the network.
    Unplug(usize),
    /// Two nodes do not hear each other.
    Part(usize, usize),
    /// What the first sends to the second is lost.
    Silence(usize, usize),
    /// What a node sends leaves so much later.
    Delay(usize, Duration),
    /// All is as it was.
    Heal,
}

/// What a host counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCounts {
    /// Of nodes, by number.
    pub nodes: Vec<(usize, ProcessCounts)>,
    /// Of the process that has started them: the instrument, or an agent.
    pub own: Option<ProcessCounts>,
    /// Of their networks, each once.
    pub networks: Vec<NetworkCounts>,
}

/// 32 random bytes as hex digits: what all nodes of a run share.
///
/// # Errors
/// The system has none.
pub fn random_hex() -> Result<String, RunError> {
    use std::io::Read;
    let mut random = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A host. Nodes have numbers; a number is used again when its node was started again.
pub trait Host {
    /// Finds a place for a node.
    ///
    /// # Errors
    /// There is none, or the host is lost.
    fn place(&mut self, node: usize, secret: &str) -> Result<Place, RunError>;

    /// Starts a node that does not run.
    ///
    /// # Errors
    /// There is no such program, or the host is lost.
    fn start(&mut self, node: usize, words: &[String]) -> Result<(), RunError>;

    /// Sends a signal to a node that runs.
    ///
    /// # Errors
    /// It does not run, or the host is lost.
    fn signal(&mut self, node: usize, signal: NodeSignal) -> Result<(), RunError>;

    /// Nodes that have ended since they were started, each once: how, and what they said last.
    ///
    /// # Errors
    /// The host is lost.
    fn ended(&mut self) -> Result<Vec<(usize, String)>, RunError>;

    /// What a node has printed last.
    ///
    /// # Errors
    /// The host is lost.
    fn last_words(&mut self, node: usize) -> Result<String, RunError>;

    /// What all have used until now.
    ///
    /// # Errors
    /// The host is lost.
    fn counts(&mut self) -> Result<HostCounts, RunError>;

    /// Changes the network of the nodes.
    ///
    /// # Errors
    /// They have none of their own, or the system refuses.
    fn change_network(&mut self, change: &NetworkChange) -> Result<(), RunError> {
        let why = format!("no network of their own: {change:?}");
        Err(RunError::Target(why))
    }
}

/// This host.
pub struct ThisHost {
    address: String,
    processes: BTreeMap<usize, Process>,
    /// A network of namespaces, if nodes have one.
    net: Option<Net>,
    delayed: BTreeSet<usize>,
    /// After the processes: they use it.
    dir: Directory,
}

impl ThisHost {
    /// This host, which others reach at this address.
    ///
    /// # Errors
    /// There is no room for a directory.
    pub fn new(address: &str, net: Option<Net>) -> Result<Self, RunError> {
        // Two runs of one process have two directories.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = Directory::new(&format!("bench-target-{number}"))?;
        let (address, processes) = (address.to_owned(), BTreeMap::new());
        Ok(Self { address, processes, net, delayed: BTreeSet::new(), dir })
    }

    fn dir(&self, node: usize) -> String {
        self.dir.path().join((node + 1).to_string()).to_string_lossy().into_owned()
    }
}

impl Host for ThisHost {
    fn place(&mut self, node: usize, secret: &str) -> Result<Place, RunError> {
        let dir = self.dir(node);
        std::fs::create_dir_all(&dir)?;
        let host = match &self.net {
            Some(net) => net.node(node + 1).ip.to_string(),
            None => self.address.clone(),
        };
        let file = self.dir.path().join("secret");
        if !file.exists() {
            let mut options = std::fs::File::options();
            let mut out = options.write(true).create_new(true).mode(0o600).open(&file)?;
            out.write_all(secret.as_bytes())?;
        }
        let port = || unused().port();
        let secret = file.to_string_lossy().into_owned();
        Ok(Place { ports: [(); 4].map(|()| port()), dir, host, secret })
    }

    fn start(&mut self, node: usize, words: &[String]) -> Result<(), RunError> {
        let (Some(program), false) = (words.first(), self.processes.contains_key(&node)) else {
            return Err(RunError::Target(format!("node {} runs already", node + 1)));
        };
        // The controller's own program is somewhere else here.
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let program = if program == THIS_PROGRAM { &own } else { program };
        let mut command = match &self.net {
            Some(net) => net.node(node + 1).command(program),
            None => Command::new(program),
        };
        command.args(&words[1..]).process_group(0);
        let log = self.dir.path().join(format!("{}.log", node + 1));
        let process =
            Process::start(command, &log).map_err(|error| RunError::Target(error.to_string()))?;
        self.processes.insert(node, process);
        Ok(())
    }

    fn signal(&mut self, node: usize, signal: NodeSignal) -> Result<(), RunError> {
        let Some(process) = self.processes.get_mut(&node) else {
            return Err(RunError::Target(format!("node {} does not run", node + 1)));
        };
        match signal {
            NodeSignal::Terminate => process.signal_group(Signal::Terminate)?,
            NodeSignal::Pause => process.signal_group(Signal::Stop)?,
            NodeSignal::Resume => process.signal_group(Signal::Continue)?,
            NodeSignal::Kill => {
                process.signal_group(Signal::Kill)?;
                process.wait()?;
                self.processes.remove(&node);
            }
        }
        Ok(())
    }

    fn ended(&mut self) -> Result<Vec<(usize, String)>, RunError> {
        let mut ended = Vec::new();
        for (node, process) in &mut self.processes {
            if let Some(status) = process.ended()? {
                let words = process.last_words();
                ended.push((*node, format!("({status}):\n{words}").trim_end().to_owned()));
                // What it has started ends with it; if there is nothing, nothing is to be ended.
                let _none = process.signal_group(Signal::Kill);
            }
        }
        ended.iter().for_each(|(node, _)| drop(self.processes.remove(node)));
        Ok(ended)
    }

    fn last_words(&mut self, node: usize) -> Result<String, RunError> {
        let words = self.processes.get(&node).map(Process::last_words);
        Ok(words.unwrap_or_default())
    }

    fn counts(&mut self) -> Result<HostCounts, RunError> {
        let mut counts = HostCounts::default();
        let own = std::process::id();
        counts.own = proc::process(own);
        counts.networks.extend(proc::network(own));
        for (node, process) in &self.processes {
            let Some(mut found) = proc::process(process.pid()) else { continue };
            // Files that come and go meanwhile are in the next count.
            found.files = disk_bytes(Path::new(&self.dir(*node))).unwrap_or(0);
            let known = counts.networks.iter().any(|one| one.network == found.network);
            if !known {
                counts.networks.extend(proc::network(process.pid()));
            }
            counts.nodes.push((*node, found));
        }
        Ok(counts)
    }

    fn change_network(&mut self, change: &NetworkChange) -> Result<(), RunError> {
        let Some(net) = &mut self.net else {
            return Err(RunError::Target("the nodes have no network of their own".to_owned()));
        };
        match change {
            NetworkChange::Unplug(node) => net.unplug(node + 1),
            NetworkChange::Part(one, other) => {
                net.silence(one + 1, other + 1);
                net.silence(other + 1, one + 1);
            }
            NetworkChange::Silence(from, to) => net.silence(from + 1, to + 1),
            NetworkChange::Delay(node, by) => {
                delay(net, *node, Some(*by))?;
                self.delayed.insert(*node);
            }
            NetworkChange::Heal => {
                net.heal();
                for node in std::mem::take(&mut self.delayed) {
                    delay(net, node, None)?;
                }
            }
        }
        Ok(())
    }
}

/// Has the kernel hold back what a node sends; none undoes that.
fn delay(net: &Net, node: usize, by: Option<Duration>) -> Result<(), RunError> {
    let mut tc = net.node(node + 1).command("tc");
    match by {
        Some(by) => {
            let micros = format!("{}us", by.as_micros());
            tc.args(["qdisc", "replace", "dev", "eth0", "root", "netem", "delay", &micros])
        }
        None => tc.args(["qdisc", "del", "dev", "eth0", "root"]),
    };
    let output = tc.output()?;
    // What has no delay has none to remove.
    match output.status.success() || by.is_none() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(RunError::Target(format!("tc: {}", why.trim_end())))
        }
    }
}

/// Why networks of namespaces cannot be made, or packets cannot be held back, if so.
pub fn network_refusal(with_delay: bool) -> Option<String> {
    let ran = |words: &[&str]| {
        let output = Command::new("ip").args(words).output();
        let output = output.map_err(|error| format!("`ip` (iproute2): {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
        }
    };
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Named as all namespaces are, so that a killed run's are removed by the next.
    let name = format!("carillon-{}-probe-{number}", std::process::id());
    let made = ran(&["netns", "add", &name]);
    if let Err(why) = made {
        return Some(format!("namespaces = true needs network namespaces, and root: {why}"));
    }
    let tc = ["netns", "exec", &name, "tc", "qdisc", "add", "dev", "lo", "root", "netem"];
    let delayed = if with_delay { ran(&[&tc[..], &["delay", "1ms"]].concat()) } else { Ok(()) };
    // It would be removed by the next run.
    let _removed = ran(&["netns", "del", &name]);
    delayed.err().map(|why| format!("delay needs the kernel's netem and `tc`: {why}"))
}

impl Drop for ThisHost {
    fn drop(&mut self) {
        for process in self.processes.values() {
            // It may have ended in this moment.
            let _ended = process.signal_group(Signal::Kill);
        }
    }
}
