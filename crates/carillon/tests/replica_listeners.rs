//! Listeners for clients that ask for replicas (`resp_replica`), in mode `cluster` on three nodes:
//! real processes. What client libraries make of them is for tests/clients.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;
use harness::resp::{Connection, TextReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const NODES: usize = 3;
const KEYS: usize = 60;
const READ: &str = "return redis.call('GET', KEYS[1])";

struct Cluster {
    /// Before their directory: dropped first.
    nodes: Vec<Node>,
    /// Where each listens for clients that ask for replicas.
    replicas: Vec<SocketAddr>,
    _dir: Directory,
}

impl Cluster {
    fn start(name: &str) -> Self {
        let dir = Directory::new(name).unwrap();
        dir.write_secret().unwrap();
        let node = |number| Node::new(PROGRAM, dir.path(), &format!("n{number}"));
        let replicas = (0..NODES).map(|_| harness::ports::unused()).collect();
        let mut cluster = Self { nodes: (0..NODES).map(node).collect(), replicas, _dir: dir };
        let first = cluster.nodes[0].peer.to_string();
        for number in 0..NODES {
            let at = cluster.replicas[number].to_string();
            let mut flags = vec!["--resp-mode", "cluster", "--resp-replica", &at];
            if number > 0 {
                flags.extend(["--join", &first]);
            }
            cluster.nodes[number].start(&flags);
            cluster.nodes[number].wait_until_ready();
        }
        let all = cluster.replicas.iter().map(|at| at.port()).collect();
        harness::until(TEST_TIMEOUT, "every node shows all listeners, and leads", || {
            let shown = (0..NODES).all(|number| {
                let roles = roles(&cluster.slots(number));
                roles.get("replica") == Some(&all) && roles["master"].len() == NODES
            });
            shown.then_some(())
        });
        cluster
    }

    fn slots(&self, number: usize) -> Vec<Slots> {
        let mut connection = self.nodes[number].connect();
        slots(&connection.ask(&["CLUSTER", "SLOTS"]).unwrap())
    }

    fn at_replica(&self, number: usize) -> Connection {
        Connection::open(self.replicas[number], TEST_TIMEOUT, TEST_TIMEOUT).unwrap()
    }
}

/// A row of CLUSTER SLOTS: the ports and ids of its nodes, the master first.
#[derive(Debug)]
struct Slots {
    first: u16,
    last: u16,
    nodes: Vec<(u16, String)>,
}

fn many(reply: &TextReply) -> &[TextReply] {
    let TextReply::Many(all) = reply else { panic!("{reply:?} is no list") };
    all
}

fn number(reply: &TextReply) -> u16 {
    reply.text().parse().unwrap()
}

fn slots(reply: &TextReply) -> Vec<Slots> {
    let row = |row: &TextReply| {
        let row = many(row);
        let node = |node: &TextReply| (number(&many(node)[1]), many(node)[2].text());
        let nodes = row[2..].iter().map(node).collect();
        Slots { first: number(&row[0]), last: number(&row[1]), nodes }
    };
    many(reply).iter().map(row).collect()
}

/// The ports of all nodes by their role.
fn roles(slots: &[Slots]) -> BTreeMap<&'static str, BTreeSet<u16>> {
    let mut roles = BTreeMap::<_, BTreeSet<u16>>::new();
    for row in slots {
        for (place, (port, _)) in row.nodes.iter().enumerate() {
            let role = if place == 0 { "master" } else { "replica" };
            roles.entry(role).or_default().insert(*port);
        }
    }
    roles
}

#[track_caller]
fn ask(connection: &mut Connection, words: &[&str]) -> String {
    connection.ask(words).unwrap_or_else(|why| panic!("no reply to {words:?}: {why}")).line()
}

#[test]
fn each_master_has_a_replica_that_answers_as_one() {
    let cluster = Cluster::start("replica-roles");
    for number in 0..NODES {
        let rows = cluster.slots(number);
        let roles = roles(&rows);
        assert!(roles["master"].is_disjoint(&roles["replica"]), "{rows:?}");
        assert!(rows.iter().all(|row| row.nodes.len() == NODES), "{rows:?}");
        let sum: u32 = rows.iter().map(|row| u32::from(row.last - row.first) + 1).sum();
        assert_eq!(sum, 16_384);
        let mut connection = cluster.at_replica(number);
        let (own, id) =
            (cluster.replicas[number].port(), ask(&mut connection, &["CLUSTER", "MYID"]));
        let known = rows.iter().flat_map(|row| &row.nodes).find(|(port, _)| *port == own);
        assert_eq!(known, Some(&(own, id.clone())));
        assert_ne!(ask(&mut cluster.nodes[number].connect(), &["CLUSTER", "MYID"]), id);

        // One master each, and as CLUSTER NODES says it.
        let nodes = ask(&mut connection, &["CLUSTER", "NODES"]);
        assert_eq!(nodes.matches(" master ").count() + nodes.matches(",master ").count(), NODES);
        let lines = || nodes.lines().filter(|line| line.contains("slave "));
        let masters: BTreeSet<&str> = lines().map(|line| line.split(' ').nth(3).unwrap()).collect();
        assert_eq!((lines().count(), masters.len()), (NODES, NODES), "{nodes}");
        let me = nodes.lines().find(|line| line.contains("myself,slave")).unwrap();
        assert!(me.starts_with(&id), "{me}");
        let master_id = me.split(' ').nth(3).unwrap();
        let master = nodes.lines().find(|line| line.starts_with(master_id)).unwrap();
        let role = ask(&mut connection, &["ROLE"]);
        let [slave, host, port, ..] = role.split(' ').collect::<Vec<_>>()[..] else { panic!() };
        let at = format!(" {host}:{}@", &port[1..]);
        assert!(slave == "slave" && master.contains(&at), "{role}, {master}");
        let info = ask(&mut connection, &["INFO", "replication"]);
        let port = format!("master_port:{}", &port[1..]);
        assert!(info.contains("role:slave") && info.contains(&port), "{info}");
        let replicas = ask(&mut connection, &["CLUSTER", "REPLICAS", master_id]);
        assert!(replicas.contains(&id) && replicas.lines().count() == 1, "{replicas}");
        let refused = ask(&mut connection, &["CLUSTER", "REPLICAS", &id]);
        assert_eq!(refused, "-ERR The specified node is not a master");
        let shards = ask(&mut connection, &["CLUSTER", "SHARDS"]);
        assert!(shards.contains(&id), "{shards}");
    }
}

#[test]
fn replicas_read_what_was_written_and_send_writes_to_masters() {
    let cluster = Cluster::start("replica-reads");
    let mut masters: BTreeMap<u16, Connection> =
        cluster.nodes.iter().map(|node| (node.resp.port(), node.connect())).collect();
    let mut replicas: Vec<Connection> = (0..NODES).map(|n| cluster.at_replica(n)).collect();
    for key in 0..KEYS {
        let (key, value) = (format!("k{key}"), format!("v{key}"));
        for (number, replica) in replicas.iter_mut().enumerate() {
            // Behind a write that was sent on, nothing is read for a second; so on its own.
            let mut writer = cluster.at_replica(number);
            let write = ["SET", &key, &value];
            harness::until(TEST_TIMEOUT, "the leader takes it", || {
                // Leaders may move.
                let moved = ask(&mut writer, &write);
                let port = moved.rsplit(':').next().unwrap().parse().unwrap();
                assert!(moved.starts_with("-MOVED ") && masters.contains_key(&port), "{moved}");
                (ask(masters.get_mut(&port).unwrap(), &write) == "+OK").then_some(())
            });
            let no_writes = format!("#!lua flags=no-writes\n{READ}");
            for words in [
                &["GET", &key][..],
                &["EVAL_RO", READ, "1", &key],
                &["EVAL", &no_writes, "1", &key],
                &["EVAL", READ, "1", &key],
            ] {
                let moved = ask(&mut writer, words);
                assert!(moved.starts_with("-MOVED "), "{words:?}: {moved}");
            }
            // Linearizable, at every one, without a word.
            assert_eq!(ask(replica, &["GET", &key]), value);
            assert_eq!(ask(replica, &["EVAL_RO", READ, "1", &key]), value);
            // Whether it writes is known by its flags.
            assert_eq!(ask(replica, &["EVAL", &no_writes, "1", &key]), value);
        }
    }
    let counts = |replicas: &mut [Connection]| -> usize {
        replicas.iter_mut().map(|one| ask(one, &["DBSIZE"])[1..].parse::<usize>().unwrap()).sum()
    };
    // Each counts what its master leads; leaders may move.
    harness::until(Duration::from_secs(20), "they count all keys", || {
        (counts(&mut replicas) == KEYS).then_some(())
    });
    let replica = &mut replicas[0];
    let read_only = "-READONLY You can't write against a read only replica.";
    for words in [&["FLUSHALL"][..], &["FLUSHDB"], &["FUNCTION", "FLUSH"]] {
        assert_eq!(ask(replica, words), read_only, "{words:?}");
    }
    assert_eq!(ask(replica, &["READWRITE"]), "+OK");
    assert!((0..KEYS).all(|key| ask(replica, &["GET", &format!("k{key}")]).starts_with("-MOVED ")));
    assert_eq!(ask(replica, &["READONLY"]), "+OK");
    assert_eq!(ask(replica, &["GET", "k1"]), "v1");
}
