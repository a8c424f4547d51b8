//! What is measured, as far as this program starts it: nodes by name, on this host or on those of
//! agents.
//!
//! Words of a command may hold placeholders. Each node has ports and a directory of its own, and
//! keeps them when it is started again.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `{port}`, `{port2}`, `{port3}`, `{port4}` | free ports of its host |
//! | `{host}` | the address of its host |
//! | `{dir}` | a new directory, which is removed at the end |
//! | `{secret}` | a file with what all nodes of the run share |
//! | `{name}`, `{number}` | the node's name, and its number from 1 |
//! | `{NAME.port}`, `{first.dir}`, … | those of another node, of the first one |
//! | `{carillon}` | this program; as the program of a node on an agent's host, the agent's |
//!
//! Invariant: a node that the timeline has not ended runs; if it ends by itself, the run fails.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use harness::net::{Host as Namespace, Net};
use harness::process::{Directory, Process};

use super::RunError;
use super::host::{
    Host, HostCounts, NetworkChange, NodeSignal, THIS_PROGRAM, ThisHost, random_hex,
};
use super::phase::resolve;
use super::session::Session;
use crate::driver::null_server::NullServer;
use crate::scenario::node::PLACES;
use crate::scenario::{Driver, Network, NodeSpec, Scenario, Target};

/// Between two looks whether a target accepts connections.
const LOOK: Duration = Duration::from_millis(20);
/// Between two questions to an agent whether its nodes run.
const LOOK_FAR: Duration = Duration::from_millis(200);
/// How long one such look may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a process may take to end when it is asked to.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Numbers directories of one process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Whether a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    On,
    Paused,
    /// It was asked to end.
    Ending,
}

struct Node {
    spec: NodeSpec,
    host: usize,
    state: State,
    addresses: Vec<String>,
}

/// Started nodes, and where requests go. Dropping it ends them.
pub struct Targets {
    nodes: Vec<Node>,
    /// This one first, then those of agents, as far as nodes run there.
    hosts: Vec<(u64, Box<dyn Host>)>,
    fixed: Vec<String>,
    places: HashMap<String, String>,
    /// Where the load and all looks come from, if nodes have a network of their own.
    clients: Option<Namespace>,
    null: Option<NullServer>,
    /// When agents were asked for their nodes last.
    looked: Instant,
}

impl Targets {
    /// Starts the nodes, and waits until all addresses accept connections.
    ///
    /// # Errors
    /// A node ends or an address is not ready in time: all is ended again.
    pub fn start(
        scenario: &Scenario,
        session: &mut dyn Session,
        stop: &AtomicBool,
    ) -> Result<Self, RunError> {
        let target = &scenario.target;
        let mut made = Self {
            nodes: Vec::new(),
            hosts: Vec::new(),
            fixed: Vec::new(),
            places: HashMap::new(),
            clients: None,
            null: None,
            looked: Instant::now(),
        };
        if target.driver == Driver::Null {
            let server = NullServer::start()?;
            made.fixed.push(server.address().to_string());
            made.null = Some(server);
        }
        // Without nodes there is this process to be looked at.
        made.find_places(scenario, session)?;
        if target.nodes.is_empty() {
            made.fixed.extend(target.addresses.iter().cloned());
        } else {
            let at_once = (0..made.nodes.len()).filter(|node| !made.nodes[*node].spec.is_later);
            for node in at_once.collect::<Vec<_>>() {
                made.start_node(node)?;
            }
        }
        made.wait(target, stop)?;
        Ok(made)
    }

    fn find_places(
        &mut self,
        scenario: &Scenario,
        session: &mut dyn Session,
    ) -> Result<(), RunError> {
        let specs = &scenario.target.nodes;
        let net = match scenario.network {
            Network::Host => None,
            Network::Namespaces => Some(Net::new(specs.len())),
        };
        self.clients = net.as_ref().map(|net| net.clients().clone());
        self.hosts.push((0, Box::new(ThisHost::new("127.0.0.1", net)?)));
        let secret = random_hex()?;
        for (number, spec) in specs.iter().enumerate() {
            let agent = spec.agent.unwrap_or(0);
            let host = match self.hosts.iter().position(|(known, _)| *known == agent) {
                Some(host) => host,
                None => {
                    self.hosts.push((agent, session.host(agent)?));
                    self.hosts.len() - 1
                }
            };
            let place = self.hosts[host].1.place(number, &secret)?;
            let [port, port2, port3, port4] = place.ports.map(|port| port.to_string());
            let (name, count) = (spec.name.clone(), (number + 1).to_string());
            let values =
                [port, port2, port3, port4, place.dir, count, place.host, name, place.secret];
            for (key, value) in PLACES.iter().zip(values) {
                if number == 0 {
                    self.places.insert(format!("first.{key}"), value.clone());
                }
                self.places.insert(format!("{}.{key}", spec.name), value);
            }
            let (spec, state) = (spec.clone(), State::Off);
            self.nodes.push(Node { spec, host, state, addresses: Vec::new() });
        }
        let program = std::env::current_exe().unwrap_or_else(|_| "carillon".into());
        self.places.insert("carillon".to_owned(), program.to_string_lossy().into_owned());
        for number in 0..self.nodes.len() {
            let addresses = scenario.target.addresses.iter();
            let filled = addresses.map(|address| self.fill(address, Some(number))).collect();
            self.nodes[number].addresses = filled;
        }
        Ok(())
    }

    /// A word with its placeholders filled: those of a node, if it is a node's.
    pub fn fill(&self, word: &str, node: Option<usize>) -> String {
        let own = node.map(|node| self.nodes[node].spec.name.as_str());
        let find = |key: &str| {
            let found = self.places.get(key);
            found.or_else(|| self.places.get(&format!("{}.{key}", own?)))
        };
        fill(word, find)
    }

    /// Starts a node that does not run.
    ///
    /// # Errors
    /// It runs, or cannot be started.
    pub fn start_node(&mut self, node: usize) -> Result<(), RunError> {
        self.expect(node, State::Off, "runs already")?;
        let host = self.nodes[node].host;
        let is_far = self.hosts[host].0 != 0;
        let command = self.nodes[node].spec.command.iter().enumerate();
        let words: Vec<String> = command
            .map(|(at, word)| match is_far && at == 0 && word == THIS_PROGRAM {
                true => word.clone(),
                false => self.fill(word, Some(node)),
            })
            .collect();
        self.hosts[host].1.start(node, &words)?;
        self.nodes[node].state = State::On;
        Ok(())
    }

    fn expect(&self, node: usize, state: State, problem: &str) -> Result<(), RunError> {
        let Node { spec, state: found, .. } = &self.nodes[node];
        match *found == state {
            true => Ok(()),
            false => Err(RunError::Target(format!("{} {problem}", spec.name))),
        }
    }

    /// Sends a signal to a node that runs. Of SIGTERM, [`Self::ended`] tells the end.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal(&mut self, node: usize, signal: NodeSignal) -> Result<(), RunError> {
        let Node { spec, state, host, .. } = &mut self.nodes[node];
        if *state == State::Off {
            return Err(RunError::Target(format!("{} does not run", spec.name)));
        }
        // A paused process cannot end by itself.
        if *state == State::Paused && signal == NodeSignal::Terminate {
            self.hosts[*host].1.signal(node, NodeSignal::Resume)?;
        }
        self.hosts[*host].1.signal(node, signal)?;
        *state = match signal {
            NodeSignal::Terminate => State::Ending,
            NodeSignal::Kill => State::Off,
            NodeSignal::Pause => State::Paused,
            NodeSignal::Resume => State::On,
        };
        Ok(())
    }

    /// Whether a node does not run.
    pub fn is_off(&self, node: usize) -> bool {
        self.nodes[node].state == State::Off
    }

    /// What a node has printed last.
    pub fn last_words(&mut self, node: usize) -> String {
        let host = self.nodes[node].host;
        self.hosts[host].1.last_words(node).unwrap_or_default()
    }

    /// Whether all addresses of a node accept connections.
    pub fn accepts(&self, node: usize) -> bool {
        self.nodes[node].addresses.iter().all(|address| self.look_at(address).is_ok())
    }

    fn look_at(&self, address: &str) -> Result<(), String> {
        let resolved = resolve(&[address.to_owned()]).map_err(|error| error.to_string())?;
        match &self.clients {
            Some(clients) => clients.inside(|| accepts(resolved[0])),
            None => accepts(resolved[0]),
        }
    }

    fn wait(&mut self, target: &Target, stop: &AtomicBool) -> Result<(), RunError> {
        let begun = Instant::now();
        for address in self.addresses() {
            while let Err(why) = self.look_at(&address) {
                // What we have not started is there, or is not.
                let most = if self.nodes.is_empty() { LOOK } else { target.ready_timeout };
                if begun.elapsed() >= most {
                    let words = (0..self.nodes.len()).map(|node| self.last_words(node));
                    let words = words.collect::<Vec<_>>().join("\n");
                    let why = format!("{why}\n{words}").trim_end().to_owned();
                    return Err(RunError::Unreachable { target: address, why });
                }
                self.pause(stop)?;
            }
        }
        let ready: Vec<String> = target.ready.iter().map(|word| self.fill(word, None)).collect();
        if ready.is_empty() {
            return self.check();
        }
        let dir = Directory::new(&format!("bench-ready-{}", NEXT.fetch_add(1, Ordering::Relaxed)))?;
        let output = dir.path().join("output");
        loop {
            let mut command = self.command(&ready[0]);
            command.args(&ready[1..]);
            let asked = Process::start(command, &output);
            let mut asked = asked.map_err(|error| RunError::Target(error.to_string()))?;
            let status = loop {
                let is_late = begun.elapsed() >= target.ready_timeout;
                match asked.ended()? {
                    None if !is_late => self.pause(stop)?,
                    status => break status,
                }
            };
            if status.is_some_and(|status| status.success()) {
                return self.check();
            }
            if begun.elapsed() >= target.ready_timeout {
                let (most, said) = (target.ready_timeout, asked.last_words());
                let why = format!("not ready within {most:?}; the command `ready` says:\n{said}");
                return Err(RunError::Target(why.trim_end().to_owned()));
            }
            self.pause(stop)?;
        }
    }

    fn pause(&mut self, stop: &AtomicBool) -> Result<(), RunError> {
        self.check()?;
        std::thread::sleep(LOOK);
        match stop.load(Ordering::Relaxed) {
            true => Err(RunError::Interrupted),
            false => Ok(()),
        }
    }

    /// A program that runs where the clients are, and ends with this thread.
    pub fn command(&self, program: &str) -> Command {
        match &self.clients {
            Some(clients) => clients.command(program),
            None => Command::new(program),
        }
    }

    /// Where the clients are, if that is not this process's network.
    pub fn clients(&self) -> Option<Namespace> {
        self.clients.clone()
    }

    /// Sees that all nodes run that are to run.
    ///
    /// # Errors
    /// One has ended; the error holds the end of what it printed.
    pub fn check(&mut self) -> Result<(), RunError> {
        let is_far = self.looked.elapsed() >= LOOK_FAR;
        if is_far {
            self.looked = Instant::now();
        }
        for (_, host) in self.hosts.iter_mut().filter(|(agent, _)| *agent == 0 || is_far) {
            for (number, how) in host.ended()? {
                let Some(node) = self.nodes.get_mut(number) else { continue };
                let was = std::mem::replace(&mut node.state, State::Off);
                if was != State::Ending {
                    let name = &node.spec.name;
                    return Err(RunError::Target(format!("{name} has ended by itself {how}")));
                }
            }
        }
        Ok(())
    }

    /// Where requests go at present: to nodes that run, and to what we have not started.
    pub fn addresses(&self) -> Vec<String> {
        let mut all = self.fixed.clone();
        let on = self.nodes.iter().filter(|node| matches!(node.state, State::On | State::Paused));
        for address in on.flat_map(|node| &node.addresses) {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
        all
    }

    /// What results call the nodes: their names; if that is a number, with the program's.
    pub fn names(&self) -> Vec<String> {
        let name = |(number, node): (usize, &Node)| {
            let name = &node.spec.name;
            if !name.bytes().all(|byte| byte.is_ascii_digit()) {
                return name.clone();
            }
            let program = self.fill(&node.spec.command[0], Some(number));
            format!("{} {name}", program.rsplit('/').next().unwrap_or(&program))
        };
        self.nodes.iter().enumerate().map(name).collect()
    }

    /// Where nodes' metrics are, of those that tell.
    pub fn metrics(&self) -> Vec<(usize, String)> {
        let nodes = self.nodes.iter().enumerate();
        let told = nodes.filter_map(|(number, node)| {
            let word = node.spec.metrics.as_ref()?;
            Some((number, self.fill(word, Some(number))))
        });
        told.collect()
    }

    /// What each host counts, with the number of its agent.
    ///
    /// # Errors
    /// A host is lost.
    pub fn counts(&mut self) -> Result<Vec<(u64, HostCounts)>, RunError> {
        let each = self.hosts.iter_mut().map(|(agent, host)| Ok((*agent, host.counts()?)));
        each.collect()
    }

    /// Changes the network of namespaces.
    ///
    /// # Errors
    /// There is none, or it cannot be changed.
    pub fn change_network(&mut self, change: &NetworkChange) -> Result<(), RunError> {
        match self.hosts.first_mut() {
            Some((_, host)) => host.change_network(change),
            None => Err(RunError::Target("there is no network of our own".to_owned())),
        }
    }

    /// Ends the nodes as they end by themselves; those that do not are killed.
    pub fn stop(mut self) {
        let running = |node: &Node| node.state != State::Off;
        let on: Vec<usize> =
            (0..self.nodes.len()).rev().filter(|node| running(&self.nodes[*node])).collect();
        for node in &on {
            // A host that is lost ends them by itself.
            let _ending = self.signal(*node, NodeSignal::Terminate);
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP_TIMEOUT && self.check().is_ok() {
            if on.iter().all(|node| self.is_off(*node)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// A word with what `find` knows in place of `{NAME}`; other braces stay.
fn fill<'a>(word: &str, find: impl Fn(&str) -> Option<&'a String>) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let key = rest.find('}').map(|end| &rest[1..end]);
        match key.and_then(|key| Some((key, find(key)?))) {
            Some((key, value)) => {
                out.push_str(value);
                rest = &rest[key.len() + 2..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn accepts(address: SocketAddr) -> Result<(), String> {
    let connected = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
    connected.map(drop).map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_that_are_known_are_filled_and_other_braces_stay() {
        let places = [("n1.port", "25001"), ("carillon", "/bin/c")];
        let places: HashMap<String, String> =
            places.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let filled = |word: &str| fill(word, |key| places.get(key));
        assert_eq!(filled("a{n1.port}:{n1.port}"), "a25001:25001");
        assert_eq!(filled("{carillon}{"), "/bin/c{");
        assert_eq!(filled("{other} {{n1.port}}"), "{other} {25001}");
        assert_eq!(filled(""), "");
    }
}
