//! Plans the nodes, their addresses and their flags. Pure: nothing here touches the machine.
//!
//! ```text
//!                 node-1   node-2   node-3          --base-port 16379
//!   redis           6379     6380     6381    …         16379 …
//!   its replicas    6479     6480     6481    …         16479 …    in mode cluster
//!   native          7400     7401     7402    …         17400 …
//!   http            7480     7481     7482    …         17480 …
//!   peers           7600     7601     7602    …         17600 …
//!   volumes        10809    10810    10811    …         20809 …
//! ```
//!
//! The first node founds the cluster and the others join it, by whichever peer answers first. But
//! a first node whose data is gone, while others have theirs, joins as well: it would found a
//! second cluster beside the one that is there.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Most nodes of one cluster on one machine.
pub const NODES_MAX: usize = 9;
/// Port of the first node's Redis listener unless another is named; all others stand in the same
/// distance to it as a lone node's.
pub const BASE_PORT: u16 = 6379;
/// The highest base: the last node's listener for volumes has the last port there is.
pub const BASE_PORT_MAX: u16 = u16::MAX - (NBD - BASE_PORT) - (NODES_MAX as u16 - 1);

const REPLICA: u16 = 6479;
const RESP_TLS: u16 = 6579;
const HTTP_TLS: u16 = 7580;
const NATIVE: u16 = 7400;
const HTTP: u16 = 7480;
const PEER: u16 = 7600;
const NBD: u16 = 10_809;

/// Memory that the data of all nodes together may take, in percent of the machine's.
const MEMORY_PERCENT: usize = 60;
/// Replicas of everything, if there are as many nodes.
const REPLICAS: usize = 3;

/// Which nodes to start, and where.
#[derive(Clone, Debug)]
pub struct DevOptions {
    /// How many nodes.
    pub nodes: usize,
    /// The directory of them all.
    pub dir: PathBuf,
    /// Port of the first node's Redis listener.
    pub base_port: u16,
    /// Further flags of every node.
    pub flags: Vec<OsString>,
    /// Whether the environment already sets `memory_max`.
    pub memory_is_set: bool,
    /// The nodes, counted from 1, that have data of an earlier run.
    pub used: Vec<usize>,
    /// Whether they speak TLS: with clients on listeners of its own, and with each other.
    pub tls: bool,
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// From 1.
    pub number: usize,
    /// Its directory.
    pub dir: PathBuf,
    /// Where Redis clients connect.
    pub resp: SocketAddr,
    /// Where those connect that ask for replicas, in mode cluster.
    pub resp_replica: Option<SocketAddr>,
    /// Where clients of the native frames connect.
    pub native: SocketAddr,
    /// Where clients of volumes connect.
    pub nbd: SocketAddr,
    /// Where HTTP and the command line connect.
    pub http: SocketAddr,
    /// Where Redis clients and HTTP connect by TLS.
    pub tls: Option<TlsListeners>,
    /// Where the other nodes connect.
    pub peer: SocketAddr,
    /// What follows the program's name.
    pub arguments: Vec<OsString>,
}

/// Listeners for TLS.
#[derive(Clone, Copy, Debug)]
pub struct TlsListeners {
    /// For Redis clients.
    pub resp: SocketAddr,
    /// For HTTP and the command line.
    pub http: SocketAddr,
}

impl NodePlan {
    /// Its name, which is also its directory's.
    pub fn name(&self) -> String {
        name(self.number)
    }

    /// The file of its log, beside its directory: in there only a node writes.
    pub fn log(&self) -> PathBuf {
        self.dir.with_extension("log")
    }

    /// Its listeners, by the names of their settings.
    pub fn listeners(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let [resp, native] = [("resp", self.resp), ("native", self.native)];
        let [http, peer] = [("http", self.http), ("peer", self.peer)];
        let (nbd, replica) = (("nbd", self.nbd), self.resp_replica.map(|at| ("resp_replica", at)));
        let tls = self.tls.map(|tls| [("resp_tls", tls.resp), ("http_tls", tls.http)]);
        [resp, native, nbd, http, peer].into_iter().chain(replica).chain(tls.into_iter().flatten())
    }

    /// How to start it by hand, for a shell.
    pub fn command_line(&self, program: &Path) -> String {
        let words = [program.as_os_str()].into_iter();
        let words = words.chain(self.arguments.iter().map(OsString::as_os_str));
        words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }
}

/// The name of the node of this number.
pub fn name(number: usize) -> String {
    format!("node-{number}")
}

/// The file with what the nodes know each other by.
pub fn secret_path(dir: &Path) -> PathBuf {
    dir.join("secret")
}

/// The directory of their certificates.
pub fn certs_dir(dir: &Path) -> PathBuf {
    dir.join("certs")
}

/// Replicas that so many nodes can hold: an odd number, at most three.
pub fn replicas(nodes: usize) -> usize {
    REPLICAS.min(nodes - (nodes + 1) % 2)
}

/// The nodes of a wish.
pub fn nodes(wish: &DevOptions) -> Vec<NodePlan> {
    (1..=wish.nodes).map(|number| node(wish, number)).collect()
}

/// One node of a wish, or one that is added to them.
pub fn node(wish: &DevOptions, number: usize) -> NodePlan {
    let at = |port: u16, number: usize| {
        let port = u32::from(port) + u32::from(wish.base_port) - u32::from(BASE_PORT);
        let port = u16::try_from(port + number as u32 - 1).expect("base ports are bounded");
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    };
    let mut node = NodePlan {
        number,
        dir: wish.dir.join(name(number)),
        resp: at(BASE_PORT, number),
        resp_replica: has_replica_listeners(wish).then(|| at(REPLICA, number)),
        native: at(NATIVE, number),
        nbd: at(NBD, number),
        http: at(HTTP, number),
        tls: wish
            .tls
            .then(|| TlsListeners { resp: at(RESP_TLS, number), http: at(HTTP_TLS, number) }),
        peer: at(PEER, number),
        arguments: vec!["start".into(), "--dir".into()],
    };
    node.arguments.push(node.dir.clone().into());
    let mut flag = |name: &str, value: String| {
        let words: [OsString; 2] = [format!("--{name}").into(), value.into()];
        node.arguments.extend(words);
    };
    flag("name", name(number));
    flag("resp", at(BASE_PORT, number).to_string());
    if has_replica_listeners(wish) {
        flag("resp-replica", at(REPLICA, number).to_string());
    }
    if wish.tls {
        flag("resp-tls", at(RESP_TLS, number).to_string());
        flag("http-tls", at(HTTP_TLS, number).to_string());
        flag("nbd-tls", "on".into());
    }
    flag("native", at(NATIVE, number).to_string());
    flag("nbd", at(NBD, number).to_string());
    flag("http", at(HTTP, number).to_string());
    if !wish.memory_is_set && !wish.flags.iter().any(|word| is_flag(word, "memory-max")) {
        flag("memory-max", format!("{}%", MEMORY_PERCENT / wish.nodes));
    }
    let others = (1..=wish.nodes.max(number)).filter(|other| *other != number);
    let others: Vec<String> = others.map(|other| at(PEER, other).to_string()).collect();
    for (name, value) in cluster_flags(wish, &node, &others) {
        node.arguments.extend([OsString::from(format!("--{name}")), value]);
    }
    node.arguments.extend(wish.flags.iter().cloned());
    node
}

/// What makes a cluster of the nodes.
fn cluster_flags(
    wish: &DevOptions,
    node: &NodePlan,
    others: &[String],
) -> Vec<(&'static str, OsString)> {
    let mut flags = vec![
        ("peer", node.peer.to_string().into()),
        ("peer-secret-file", secret_path(&wish.dir).into()),
        ("replicas", replicas(wish.nodes).to_string().into()),
    ];
    if wish.tls {
        let file = |name: &str| OsString::from(certs_dir(&wish.dir).join(name));
        flags.extend([
            ("tls-cert-file", file("server.pem")),
            ("tls-key-file", file("server.key")),
            ("peer-tls-cert-file", file("peer.pem")),
            ("peer-tls-key-file", file("peer.key")),
            ("peer-tls-ca-file", file("ca.pem")),
        ]);
    }
    let founds = node.number == 1 && (wish.used.is_empty() || wish.used.contains(&1));
    if !founds && !others.is_empty() {
        flags.push(("join", others.join(",").into()));
    }
    flags
}

/// Whether clients may ask the nodes for replicas: in mode cluster, unless a flag says where.
fn has_replica_listeners(wish: &DevOptions) -> bool {
    let values = wish.flags.iter().zip(wish.flags.iter().skip(1));
    let is_cluster = wish.flags.iter().any(|word| word == "--resp-mode=cluster")
        || values.into_iter().any(|(name, value)| name == "--resp-mode" && value == "cluster");
    is_cluster && !wish.flags.iter().any(|word| is_flag(word, "resp-replica"))
}

/// Whether a word of a command line is this flag, with or without a value.
fn is_flag(word: &OsString, name: &str) -> bool {
    let word = word.to_string_lossy();
    word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(name))
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,%@".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(nodes: usize) -> DevOptions {
        DevOptions {
            nodes,
            dir: "d".into(),
            base_port: BASE_PORT,
            flags: Vec::new(),
            memory_is_set: false,
            used: Vec::new(),
            tls: false,
        }
    }

    fn line(wish: &DevOptions, number: usize) -> String {
        nodes(wish)[number - 1].command_line(Path::new("carillon"))
    }

    fn ports(node: &NodePlan) -> Vec<u16> {
        node.listeners().map(|(_, at)| at.port()).collect()
    }

    #[test]
    fn ports_keep_their_distance() {
        let all = nodes(&wish(3));
        assert_eq!(all[0].resp.port(), 6379);
        assert_eq!(ports(&all[2]), [6381, 7402, 10_811, 7482, 7602]);
        let shifted = nodes(&DevOptions { base_port: 16_379, ..wish(2) });
        assert_eq!(ports(&shifted[1]), [16_380, 17_401, 20_810, 17_481, 17_601]);
        for mode in ["--resp-mode=cluster", "--resp-mode"] {
            let flags = vec![mode.into(), "cluster".into()];
            let cluster = DevOptions { flags, ..wish(2) };
            assert_eq!(ports(&nodes(&cluster)[1]), [6380, 7401, 10_810, 7481, 7601, 6480]);
            assert!(line(&cluster, 2).contains(" --resp-replica 127.0.0.1:6480 "));
        }
        let own = ["--resp-mode=cluster", "--resp-replica=off"].map(OsString::from);
        let own = DevOptions { flags: own.into(), ..wish(2) };
        assert_eq!(ports(&nodes(&own)[1]), [6380, 7401, 10_810, 7481, 7601]);
        let tls = DevOptions { tls: true, ..wish(2) };
        assert_eq!(ports(&nodes(&tls)[1]), [6380, 7401, 10_810, 7481, 7601, 6580, 7581]);
        assert!(line(&tls, 2).contains(" --peer-tls-ca-file d/certs/ca.pem "));
        for base_port in [1, BASE_PORT_MAX] {
            let flags = vec!["--resp-mode=cluster".into()];
            let most = DevOptions { base_port, flags, tls: true, ..wish(NODES_MAX) };
            let mut all: Vec<u16> = nodes(&most).iter().flat_map(ports).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 8 * NODES_MAX, "no two listeners at one port");
        }
    }

    #[test]
    fn replicas_are_odd_and_at_most_three() {
        assert_eq!([1, 2, 3, 4, 5, 9].map(replicas), [1, 1, 3, 3, 3, 3]);
    }

    #[test]
    fn the_first_founds_and_the_others_join() {
        let wish = wish(3);
        let first = line(&wish, 1);
        let own = "--peer 127.0.0.1:7600 --peer-secret-file d/secret --replicas 3";
        assert!(first.ends_with(own), "{first}");
        let last = line(&wish, 3);
        assert!(last.ends_with("--join 127.0.0.1:7600,127.0.0.1:7601"), "{last}");
        assert!(!line(&DevOptions { nodes: 1, ..wish.clone() }, 1).contains("--join"));
        // Its data is gone, and the others have theirs.
        let wiped = line(&DevOptions { used: vec![2, 3], ..wish.clone() }, 1);
        assert!(wiped.ends_with("--join 127.0.0.1:7601,127.0.0.1:7602"), "{wiped}");
        assert!(!line(&DevOptions { used: vec![1, 2, 3], ..wish }, 1).contains("--join"));
    }

    #[test]
    fn added_node_joins_all_others() {
        let added = node(&wish(2), 4);
        let ports: Vec<u16> = added.listeners().map(|(_, at)| at.port()).collect();
        assert_eq!(ports, [6382, 7403, 10_812, 7483, 7603]);
        let line = added.command_line(Path::new("carillon"));
        assert!(line.ends_with("--join 127.0.0.1:7600,127.0.0.1:7601,127.0.0.1:7602"), "{line}");
        assert!(line.contains("--replicas 1 ") && line.contains("--memory-max 30%"), "{line}");
    }

    #[test]
    fn memory_is_shared_unless_somebody_says_otherwise() {
        assert!(line(&wish(3), 2).contains("--memory-max 20%"));
        let set = DevOptions { memory_is_set: true, ..wish(3) };
        assert!(!line(&set, 2).contains("--memory-max"));
        let flags: Vec<OsString> =
            ["--memory-max=1GiB", "--log-level", "warn"].map(Into::into).into();
        let given = line(&DevOptions { flags, ..wish(3) }, 2);
        assert!(given.ends_with("--memory-max=1GiB --log-level warn"), "{given}");
        assert!(!given.contains('%'), "{given}");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a/b-1.c"), "a/b-1.c");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
