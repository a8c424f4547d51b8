//! What a node of a cluster answers about it, and what changes in mode `cluster`.

use gateway::resp::{
    ClientFacts, Context, Facts, Health, KeyspaceFacts, Mode, Node, Session, Shard, Topology,
};

use crate::context::{NOW_MILLIS, Still, send_to, session};

/// Three nodes: the first leads two shards, the second one; the third is down.
struct ThreeNodes(Mode);

impl Context for ThreeNodes {
    fn now_millis(&self) -> u64 {
        Still.now_millis()
    }

    fn keyspace_exists(&self, name: &[u8]) -> bool {
        Still.keyspace_exists(name)
    }

    fn facts(&self) -> Facts<'_> {
        Still.facts()
    }

    fn mode(&self) -> Mode {
        self.0
    }

    fn has_peers(&self) -> bool {
        true
    }

    fn topology(&self, keyspace: &str) -> Topology {
        if keyspace != "0" {
            return Topology::default();
        }
        let node = |id, port, health, is_linked| Node {
            id,
            listener: None,
            host: "10.0.0.1".into(),
            port,
            peer_port: 7600,
            health,
            is_linked,
            unsent_bytes: 5,
            since_millis: NOW_MILLIS - 1,
        };
        let shard = |slots, leader, is_led, replicas: [usize; 2], index| Shard {
            slots,
            leader: Some(leader),
            is_led,
            replicas: replicas.to_vec(),
            index,
        };
        Topology {
            nodes: vec![
                node(0xa, 6379, Health::Online, true),
                node(0xb, 6380, Health::Suspected, true),
                node(0xc, 6381, Health::Failed, false),
            ],
            me: 0,
            shards: vec![
                shard((0, 99), 0, true, [1, 2], 7),
                shard((100, 199), 0, true, [1, 2], 8),
                shard((200, 16_383), 1, false, [0, 2], 0),
            ],
            epoch: 4,
            is_tls: false,
        }
    }

    fn each_keyspace(&self, show: &mut dyn FnMut(KeyspaceFacts<'_>)) {
        Still.each_keyspace(show);
    }

    fn each_other_client(&self, show: &mut dyn FnMut(ClientFacts<'_>)) {
        Still.each_other_client(show);
    }
}

/// The same nodes in mode `cluster`; the first and the third listen for clients that ask for
/// replicas.
struct Listeners;

impl Context for Listeners {
    fn now_millis(&self) -> u64 {
        Still.now_millis()
    }

    fn keyspace_exists(&self, name: &[u8]) -> bool {
        Still.keyspace_exists(name)
    }

    fn facts(&self) -> Facts<'_> {
        Facts { node_id: "000000000000000000000000000000000000000a", ..Still.facts() }
    }

    fn mode(&self) -> Mode {
        Mode::Cluster
    }

    fn topology(&self, keyspace: &str) -> Topology {
        let mut topology = ThreeNodes(Mode::Cluster).topology(keyspace);
        topology.add_listeners(&[Some(7000), None, Some(7002)]);
        topology
    }

    fn each_keyspace(&self, show: &mut dyn FnMut(KeyspaceFacts<'_>)) {
        Still.each_keyspace(show);
    }

    fn each_other_client(&self, show: &mut dyn FnMut(ClientFacts<'_>)) {
        Still.each_other_client(show);
    }
}

#[test]
fn listener_for_replicas_answers_as_one() {
    let mut replica = session();
    replica.serve_as_replica();
    let mut said = |line: &str| {
        let (request, out) = send_to(&Listeners, &mut replica, format!("{line}\r\n").as_bytes());
        (request, String::from_utf8(out).unwrap())
    };
    let own = "000000000000000000000001000000000000000a";
    assert_eq!(said("CLUSTER MYID").1, format!("$40\r\n{own}\r\n"));
    let role = "*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.1\r\n:6380\r\n$9\r\nconnected\r\n:0\r\n";
    assert_eq!(said("ROLE").1, role);
    let info = said("INFO replication").1;
    assert!(info.contains("role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6380\r\n"), "{info}");
    assert!(said("HELLO").1.contains("$4\r\nrole\r\n$7\r\nreplica\r\n"));
    let (b, nodes) = (id('b'), said("CLUSTER NODES").1);
    let line = format!("{own} 10.0.0.1:7000@7600 myself,slave {b} 0 0 4 connected\n");
    assert!(nodes.contains(&line), "{nodes}");
    assert_eq!(nodes.matches("myself").count(), 1, "{nodes}");
    // The third node is down: its listener is shown as failed, and asked for nothing.
    let failed = "10.0.0.1:7002@7600 slave,fail ";
    assert!(nodes.contains(failed), "{nodes}");
    let (slots, shards) = (said("CLUSTER SLOTS").1, said("CLUSTER SHARDS").1);
    assert!(slots.contains(":7000\r\n") && !slots.contains(":7002\r\n"), "{slots}");
    assert!(shards.contains(":7002\r\n") && shards.contains("failed"), "{shards}");
    let read_only = "-READONLY You can't write against a read only replica.\r\n";
    for line in ["FLUSHALL", "FLUSHDB ASYNC", "FUNCTION FLUSH", "FUNCTION DELETE x"] {
        assert_eq!(said(line).1, read_only, "{line}");
    }
    // Those with keys are sent on by the server; and it reads without being asked to.
    assert!(said("SET k v").0.starts_with("Write("));
    assert!(said("CLIENT INFO").1.contains(" flags=r "));
    assert_eq!(said("READWRITE").1, "+OK\r\n");
    assert_eq!(said("RESET").0, "Reset");
    assert!(said("CLIENT INFO").1.contains(" flags=r "));
    assert_eq!(said("MULTI").1, "+OK\r\n");
    assert_eq!(said("FLUSHALL").1, read_only);
    assert!(said("EXEC").1.starts_with("-EXECABORT"));
}

fn ask(mode: Mode, session: &mut Session, line: &str) -> (String, String) {
    let (request, out) = send_to(&ThreeNodes(mode), session, format!("{line}\r\n").as_bytes());
    (request, String::from_utf8(out).unwrap())
}

fn said(line: &str) -> String {
    let any = ask(Mode::Any, &mut session(), line).1;
    assert_eq!(any, ask(Mode::Cluster, &mut session(), line).1, "{line}: the same in both modes");
    any
}

/// The words of a reply, without lengths and types.
fn words(line: &str) -> String {
    let reply = said(line);
    let lines = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$', '%']));
    lines.map(|line| line.strip_prefix(':').unwrap_or(line)).collect::<Vec<_>>().join(" ")
}

fn id(last: char) -> String {
    format!("{}{last}", "0".repeat(39))
}

#[test]
fn slots_name_each_leader_first_alone() {
    // The third node is down, and left out.
    let (a, b) = (format!("10.0.0.1 6379 {}", id('a')), format!("10.0.0.1 6380 {}", id('b')));
    let expected = format!("0 0 {a} 200 200 {b} 1 99 {a} {b} 100 199 {a} {b} 201 16383 {b} {a} ");
    assert_eq!(words("CLUSTER SLOTS"), expected);
    let first = said("CLUSTER SLOTS");
    let entry = format!(
        "*5\r\n*3\r\n:0\r\n:0\r\n*4\r\n$8\r\n10.0.0.1\r\n:6379\r\n$40\r\n{}\r\n*0",
        id('a')
    );
    assert!(first.starts_with(&entry), "{first}");
}

#[test]
fn shards_say_roles_and_health() {
    let text = words("CLUSTER SHARDS");
    let first = format!(
        "slots 0 99 nodes id {} port 6379 ip 10.0.0.1 endpoint 10.0.0.1 role master \
         replication-offset 7 health online id {} port 6380 ip 10.0.0.1 endpoint 10.0.0.1 role \
         replica replication-offset 0 health online id {} port 6381",
        id('a'),
        id('b'),
        id('c')
    );
    assert!(text.starts_with(&first), "{text}");
    assert_eq!(text.matches("role master").count(), 3);
    assert_eq!(text.matches("health failed").count(), 3);
    assert_eq!(text.matches("health loading").count(), 1, "this node has none of the last shard");
}

#[test]
fn nodes_are_masters_if_they_lead_anything() {
    let (a, b, c) = (id('a'), id('b'), id('c'));
    let text = words("CLUSTER NODES");
    let heard = NOW_MILLIS;
    let down = NOW_MILLIS - 1;
    let expected = format!(
        "{a} 10.0.0.1:6379@7600 myself,master - 0 0 4 connected 0-199\n\
         {b} 10.0.0.1:6380@7600 master,fail? - 0 {heard} 4 connected 200-16383\n\
         {c} 10.0.0.1:6381@7600 slave,fail {a} 0 {down} 4 disconnected\n "
    );
    assert_eq!(text, expected);
    let replicas = words(&format!("CLUSTER REPLICAS {b}"));
    assert!(
        replicas.starts_with(&format!("{a} 10.0.0.1:6379@7600 myself,slave {b} ")),
        "{replicas}"
    );
    assert_eq!(replicas, words(&format!("CLUSTER SLAVES {b}")));
    let unknown = "-ERR Unknown node ";
    assert_eq!(said("CLUSTER REPLICAS x"), format!("{unknown}x\r\n"));
    let high = "f".repeat(40);
    assert_eq!(said(&format!("CLUSTER REPLICAS {high}")), format!("{unknown}{high}\r\n"));
    let refused = said(&format!("CLUSTER REPLICAS {c}"));
    assert_eq!(refused, "-ERR The specified node is not a master\r\n");
}

#[test]
fn the_state_is_ok_while_every_shard_is_led() {
    let text = words("CLUSTER INFO");
    let wanted = "cluster_state:fail cluster_slots_assigned:16384 cluster_slots_ok:200 \
                  cluster_slots_pfail:16184 cluster_slots_fail:0 cluster_known_nodes:3 \
                  cluster_size:2 cluster_current_epoch:4 cluster_my_epoch:4";
    assert_eq!(text.trim(), wanted);
    let links = words("CLUSTER LINKS");
    assert_eq!(links.matches("direction to node").count(), 1, "the third is not linked: {links}");
}

#[test]
fn cluster_meet_and_the_like_are_refused() {
    for line in ["CLUSTER MEET 10.0.0.1 7", "CLUSTER ADDSLOTS 1", "CLUSTER FAILOVER FORCE"] {
        assert!(said(line).contains("is not supported: nodes join with --join"), "{line}");
    }
    assert!(said("CLUSTER HELP").contains("SHARDS"));
}

#[test]
fn keys_of_a_slot_are_asked_for() {
    let request = |line| ask(Mode::Any, &mut session(), line).0;
    assert_eq!(request("CLUSTER COUNTKEYSINSLOT 7"), "Keyspace(CountInSlot { slot: 7 })");
    let get = request("CLUSTER GETKEYSINSLOT 16383 2");
    assert_eq!(get, "Keyspace(KeysInSlot { slot: 16383, count: 2 })");
    assert_eq!(said("CLUSTER COUNTKEYSINSLOT 16384"), "-ERR Invalid slot\r\n");
    assert_eq!(said("CLUSTER GETKEYSINSLOT 1 -1"), "-ERR Invalid slot or number of keys\r\n");
}

#[test]
fn wait_is_answered_by_node_that_knows_replication() {
    let request = |line| ask(Mode::Any, &mut session(), line).0;
    let wait = "Wait(Wait { local: None, replicas: 2, timeout_ms: 100 })";
    assert_eq!(request("WAIT 2 100"), wait);
    let wait = "Wait(Wait { local: Some(true), replicas: 0, timeout_ms: 0 })";
    assert_eq!(request("WAITAOF 1 0 0"), wait);
    assert_eq!(said("WAITAOF 2 0 0"), "-ERR value is out of range, value must between 0 and 1\r\n");
    assert_eq!(said("WAIT 1 -1"), "-ERR timeout is negative\r\n");
}

#[test]
fn reading_at_replicas_is_remembered() {
    let mut session = session();
    for (line, readonly) in [("READONLY", true), ("ASKING", true), ("READWRITE", false)] {
        assert_eq!(ask(Mode::Cluster, &mut session, line).1, "+OK\r\n");
        assert_eq!(session.is_readonly(), readonly);
    }
    ask(Mode::Cluster, &mut session, "READONLY");
    assert!(ask(Mode::Cluster, &mut session, "CLIENT INFO").1.contains(" flags=r "));
    ask(Mode::Cluster, &mut session, "RESET");
    assert!(!session.is_readonly());
}

#[test]
fn mode_cluster_is_a_redis_cluster_with_one_keyspace() {
    let cluster = |line| ask(Mode::Cluster, &mut session(), line);
    assert_eq!(cluster("SELECT 0").0, "Select([48])");
    for line in ["SELECT 1", "SELECT 99", "SELECT orders"] {
        assert_eq!(cluster(line).1, "-ERR SELECT is not allowed in cluster mode\r\n", "{line}");
    }
    assert_eq!(cluster("SELECT x1").1, "-ERR no such keyspace 'x1'\r\n");
    let copy = cluster("COPY {a}1 {a}2 DB 1").1;
    assert_eq!(copy, "-ERR Copying to another database is not allowed in cluster mode\r\n");
    // As in a Redis Cluster, whatever else is wrong with it.
    for line in ["COPY a b DB 1", "COPY a b DB x", "COPY a b FOO"] {
        let crosses = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
        assert_eq!(cluster(line).1, crosses, "{line}");
    }
    assert_eq!(cluster("COPY a b DB 0").0, "Write(Copy { from: [97], to: [98], replace: false })");
    assert_eq!(cluster("MOVE a 1").1, "-ERR MOVE is not allowed in cluster mode\r\n");
    assert!(cluster("INFO cluster").1.contains("cluster_enabled:1"));
    assert!(cluster("INFO server").1.contains("redis_mode:cluster"));
    assert!(cluster("HELLO").1.contains("\r\ncluster\r\n"));
    assert!(cluster("CONFIG GET cluster-enabled").1.contains("yes"));
    let any = |line| ask(Mode::Any, &mut session(), line).1;
    assert!(any("INFO cluster").contains("cluster_enabled:0"));
    assert!(any("HELLO").contains("\r\nstandalone\r\n"));
}

#[test]
fn client_route_shows_the_connections_keyspace() {
    let mut session = session();
    let ask_any = |session: &mut Session, line: &str| ask(Mode::Any, session, line).1;
    assert!(!session.is_routing());
    assert_eq!(ask_any(&mut session, "CLIENT ROUTE MAYBE"), "-ERR syntax error\r\n");
    assert_eq!(ask_any(&mut session, "CLIENT ROUTE ON"), "+OK\r\n");
    assert!(session.is_routing());
    assert_eq!(ask_any(&mut session, "CLUSTER SLOTS"), said("CLUSTER SLOTS"), "of keyspace 0");
    session.selected("sessions");
    assert_eq!(ask_any(&mut session, "CLUSTER SLOTS"), "*0\r\n");
    assert_eq!(ask_any(&mut session, "CLIENT ROUTE OFF"), "+OK\r\n");
    assert_eq!(ask_any(&mut session, "CLUSTER SLOTS"), said("CLUSTER SLOTS"), "as Redis would");
    ask_any(&mut session, "CLIENT ROUTE ON");
    ask_any(&mut session, "RESET");
    assert!(!session.is_routing(), "as if it had just been made");
}
