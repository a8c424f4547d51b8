//! A network for one test or measurement, whose links can be cut.
//!
//! Each node has a network namespace; so have the clients, and the bridge that joins them. The
//! machine's own network is not touched, so every test uses the same addresses.
//!
//! ```text
//!    node 1 10.77.0.1    node 2 10.77.0.2    node 3 10.77.0.3     clients 10.77.0.100
//!        eth0                eth0                eth0                  eth0
//!         │ 1                 │ 2                 │ 3                   │ 100
//!    ─────┴───────────────────┴──── bridge ───────┴─────────────────────┴─────
//! ```
//!
//! | cut | what happens | who gets an error |
//! |---|---|---|
//! | [`Net::unplug`] | the bridge's port goes down, as if a cable were pulled | nobody |
//! | [`Net::silence`] | packets from one node to another go to an address that no host has | nobody |
//! | [`Net::bar`] | a blackhole route refuses packets from one node to another | the sender |
//!
//! The last two cut one direction only; the other still works, though TCP needs both.
//!
//! Without root there are no namespaces. Then each node has an address of its own within 127/8 and
//! nothing can be cut: tests that want to ask [`root_or_skip`] first, and fail or are skipped.
//!
//! Names hold the id of the test's process, so that the next run finds and removes what a killed
//! one has left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Where `ip netns` keeps its names.
pub const NAMES: &str = "/run/netns";
/// All our names begin so.
const PREFIX: &str = "carillon-";
/// The clients' number, beyond all nodes.
const CLIENTS: usize = 100;
/// A hardware address that no host has.
const NOBODY: &str = "02:00:00:00:de:ad";

/// Somewhere to run programs and threads.
#[derive(Clone)]
pub struct Host {
    /// Its address.
    pub ip: Ipv4Addr,
    name: String,
    namespace: Option<Arc<File>>,
}

impl Host {
    /// Moves the calling thread into this host's namespace. It allocates no memory, so it may be
    /// called between fork and exec.
    pub fn enter(&self) -> std::io::Result<()> {
        let Some(namespace) = &self.namespace else { return Ok(()) };
        // SAFETY: setns takes an open descriptor and a number.
        match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// A program that will run here. The kernel kills it when the thread that starts it ends.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let site = self.clone();
        let mut command = Command::new(program);
        end_with_thread(&mut command);
        // SAFETY: between fork and exec only a system call is made that takes numbers.
        unsafe { command.pre_exec(move || site.enter()) };
        command
    }

    /// Runs something here, on a thread of its own.
    pub fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let here = scope.spawn(|| {
                self.enter().expect("a namespace can be entered");
                what()
            });
            here.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Has the kernel kill a program when the thread that starts it ends, however that comes about.
pub fn end_with_thread(command: &mut Command) {
    // SAFETY: between fork and exec only a system call is made that takes numbers.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// What is cut at present, with how to heal it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NetworkCut {
    Unplugged(usize),
    Silenced(usize, usize),
    Barred(usize, usize),
}

/// A network.
pub struct Net {
    nodes: Vec<Host>,
    clients: Host,
    bridge: Option<String>,
    cuts: BTreeSet<NetworkCut>,
}

impl Net {
    /// Makes a network for so many nodes.
    pub fn new(nodes: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if !is_root() {
            return Self::loopback(nodes, number);
        }
        sweep();
        let prefix = format!("{PREFIX}{}-{number}-", std::process::id());
        let bridge = format!("{prefix}bridge");
        // It owns what is made from here on, should the rest fail.
        let mut net = Self {
            nodes: Vec::new(),
            clients: loopback_site(number, CLIENTS),
            bridge: Some(bridge.clone()),
            cuts: BTreeSet::new(),
        };
        ip(&format!("netns add {bridge}"));
        ip(&format!("-n {bridge} link add br0 type bridge forward_delay 0 stp_state 0"));
        ip(&format!("-n {bridge} link set br0 up"));
        for number in 1..=nodes {
            let site = site(&prefix, &bridge, number);
            net.nodes.push(site);
        }
        net.clients = site(&prefix, &bridge, CLIENTS);
        net
    }

    fn loopback(nodes: usize, number: u32) -> Self {
        let nodes = (1..=nodes).map(|node| loopback_site(number, node)).collect();
        let clients = loopback_site(number, CLIENTS);
        Self { nodes, clients, bridge: None, cuts: BTreeSet::new() }
    }

    /// Where a node is, counted from 1.
    pub fn node(&self, number: usize) -> &Host {
        &self.nodes[number - 1]
    }

    /// Where the clients are.
    pub fn clients(&self) -> &Host {
        &self.clients
    }

    /// The namespaces, by name.
    pub fn names(&self) -> Vec<String> {
        let sites = self.nodes.iter().chain([&self.clients]).map(|site| &site.name);
        let names = sites.chain(&self.bridge).filter(|name| !name.is_empty());
        names.cloned().collect()
    }

    /// Pulls a node's cable.
    pub fn unplug(&mut self, node: usize) {
        self.cut(NetworkCut::Unplugged(node));
    }

    /// Drops packets from one node to another.
    pub fn silence(&mut self, from: usize, to: usize) {
        self.cut(NetworkCut::Silenced(from, to));
    }

    /// Refuses packets from one node to another at once.
    pub fn bar(&mut self, from: usize, to: usize) {
        self.cut(NetworkCut::Barred(from, to));
    }

    fn cut(&mut self, cut: NetworkCut) {
        assert!(self.bridge.is_some(), "without root nothing can be cut: root_or_skip");
        if self.cuts.insert(cut) {
            self.apply(cut, true);
        }
    }

    /// Undoes all cuts.
    pub fn heal(&mut self) {
        for cut in std::mem::take(&mut self.cuts) {
            self.apply(cut, false);
        }
        if self.bridge.is_some() {
            // A host whose ARP request found no answer would ask again after a second only.
            for site in self.nodes.iter().chain([&self.clients]) {
                ip(&format!("-n {} neigh flush dev eth0", site.name));
            }
        }
    }

    fn apply(&self, cut: NetworkCut, on: bool) {
        let name = |node: usize| &self.node(node).name;
        let to_ip = |node: usize| self.node(node).ip;
        match cut {
            NetworkCut::Unplugged(node) => {
                let bridge = self.bridge.as_ref().expect("cuts need a bridge");
                ip(&format!("-n {bridge} link set {node} {}", if on { "down" } else { "up" }));
            }
            NetworkCut::Silenced(from, to) => {
                let (name, to) = (name(from), to_ip(to));
                match on {
                    true => ip(&format!(
                        "-n {name} neigh replace {to} lladdr {NOBODY} dev eth0 nud permanent"
                    )),
                    false => ip(&format!("-n {name} neigh del {to} dev eth0")),
                }
            }
            NetworkCut::Barred(from, to) => {
                let (name, to) = (name(from), to_ip(to));
                let verb = if on { "add" } else { "del" };
                ip(&format!("-n {name} route {verb} blackhole {to}/32"));
            }
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.names().iter().for_each(|name| remove(name));
    }
}

/// Set to 1, tests that need root are skipped without it; else they fail.
pub const WITHOUT_ROOT: &str = "CARILLON_TESTS_WITHOUT_ROOT";

/// Whether a test can do what needs root. If not, and [`WITHOUT_ROOT`] is set, it is to leave that
/// out, which is printed.
///
/// # Panics
/// Without root, unless [`WITHOUT_ROOT`] is set: a test that did nothing has not passed.
pub fn root_or_skip(what: &str) -> bool {
    let is_root = is_root();
    let may_skip = std::env::var(WITHOUT_ROOT).is_ok_and(|value| value == "1");
    assert!(is_root || may_skip, "{}", needs_root(what));
    if !is_root {
        eprintln!("skipped: {what} needs root, and {WITHOUT_ROOT} is set");
    }
    is_root
}

fn needs_root(what: &str) -> String {
    format!("{what} needs root: run the tests as root, or set {WITHOUT_ROOT}=1 to skip such tests")
}

fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn loopback_site(net: u32, node: usize) -> Host {
    // Other runs of the tests may be under way.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, 64 | (high & 63), low, (net as u8 & 1) * 128 + node as u8 + 1);
    Host { ip, name: String::new(), namespace: None }
}

/// A namespace with an interface on the bridge.
fn site(prefix: &str, bridge: &str, number: usize) -> Host {
    let name = format!("{prefix}{number}");
    let address = Ipv4Addr::new(10, 77, 0, number as u8);
    ip(&format!("netns add {name}"));
    ip(&format!("-n {name} link add eth0 type veth peer name {number} netns {bridge}"));
    ip(&format!("-n {name} addr add {address}/24 dev eth0"));
    ip(&format!("-n {name} link set lo up"));
    ip(&format!("-n {name} link set eth0 up"));
    ip(&format!("-n {bridge} link set {number} master br0 up"));
    let namespace = File::open(Path::new(NAMES).join(&name)).expect("the namespace was made");
    Host { ip: address, name, namespace: Some(Arc::new(namespace)) }
}

/// Runs `ip`; panics if it fails.
fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip (iproute2)");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {why}");
}

/// Removes a namespace, if it exists.
fn remove(name: &str) {
    let _gone = Command::new("ip").args(["netns", "del", name]).output();
}

/// Removes the namespaces of test runs that have ended without doing so.
fn sweep() {
    let Ok(names) = fs::read_dir(NAMES) else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !PathBuf::from("/proc").join(pid).exists()) {
            remove(&name);
        }
    }
}
