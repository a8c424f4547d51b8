//! Nodes that know each other by certificates: a cluster without a shared secret; strangers are
//! refused with a line in the log, and the cluster goes on.

use std::path::Path;

use client::{Store, Tls, TlsFiles};
use harness::node::{Node, TEST_TIMEOUT};
use harness::ports::unused;
use harness::process::Directory;
use harness::until;

use super::PROGRAM;
use super::certs::Certs;

/// Flags of a node with this certificate, whose authority and others' is `ca`.
fn flags(node: &Node, certs: &Certs, stem: &str, ca: &Certs) -> Vec<String> {
    let mut all = vec!["--name".into(), node.name.clone()];
    all.extend(["--peer".into(), node.peer.to_string(), "--replicas".into(), "3".into()]);
    for (name, file) in [
        ("cert", certs.file(&format!("{stem}.pem"))),
        ("key", certs.file(&format!("{stem}.key"))),
        ("ca", ca.file("ca.pem")),
    ] {
        all.extend([format!("--peer-tls-{name}-file"), file]);
    }
    all
}

fn start(node: &mut Node, flags: &[String], join: &[&Node]) {
    let seeds: Vec<String> = join.iter().map(|node| node.peer.to_string()).collect();
    let seeds = seeds.join(",");
    let mut words: Vec<&str> = flags.iter().map(String::as_str).collect();
    if !join.is_empty() {
        words.extend(["--join", &seeds]);
    }
    node.start(&words);
}

fn new(dir: &Path, name: &str) -> Node {
    Node::new(PROGRAM, dir, name)
}

/// Three nodes that have all of each other's data, and where clients connect by TLS.
fn cluster(dir: &Path, certs: &Certs) -> (Vec<Node>, Vec<String>) {
    let mut nodes: Vec<Node> = ["a", "b", "c"].iter().map(|name| new(dir, name)).collect();
    let resp_tls: Vec<String> = nodes.iter().map(|_| unused().to_string()).collect();
    for (at, resp_tls) in resp_tls.iter().enumerate() {
        let (before, rest) = nodes.split_at_mut(at);
        let mut node_flags = flags(&rest[0], certs, "peer", certs);
        node_flags.extend(["--resp-tls".into(), resp_tls.clone()]);
        node_flags.extend(certs.flags());
        start(&mut rest[0], &node_flags, &before.iter().collect::<Vec<_>>());
        rest[0].wait_until_ready();
    }
    for node in &nodes {
        until(TEST_TIMEOUT, "three nodes are up", || {
            let status = node.status()?;
            let cluster = &status["cluster"];
            let whole = cluster["shards_under_replicated"] == 0;
            (cluster["members_up"] == 3 && whole).then_some(())
        });
    }
    (nodes, resp_tls)
}

/// By TLS it learns of the nodes' ports for TLS, and goes on when one of them is all it was told.
fn the_rust_client_finds_leaders(certs: &Certs, resp_tls: &[String]) {
    let files = TlsFiles { ca: Some(certs.file("ca.pem").into()), ..TlsFiles::default() };
    let tls = Tls::load(&files).expect("an authority");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::builder().tls(tls).connect([resp_tls[0].clone()]).await.unwrap();
        for n in 0..200 {
            store.set(format!("rust:{n}"), format!("{n}")).await.unwrap();
        }
        for n in 0..200 {
            let got = store.get(format!("rust:{n}")).await.unwrap();
            assert_eq!(got.as_deref(), Some(n.to_string().as_bytes()));
        }
    });
}

fn set_and_get(nodes: &[Node], value: &str) {
    let mut first = nodes[0].connect();
    until(TEST_TIMEOUT, "a write is done", || {
        (first.ask(&["SET", "key", value]).ok()?.text() == "OK").then_some(())
    });
    for node in nodes {
        until(TEST_TIMEOUT, "it is read everywhere", || {
            (node.connect().ask(&["GET", "key"]).ok()?.text() == value).then_some(())
        });
    }
}

#[test]
fn nodes_with_certificates_form_a_cluster_and_others_are_refused() {
    let dir = Directory::new("tls_peers").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let others = Certs::make(&dir.path().join("others"), &[]);
    let (mut nodes, resp_tls) = cluster(dir.path(), &certs);
    set_and_get(&nodes, "1");
    the_rust_client_finds_leaders(&certs, &resp_tls);
    // Longer than a record of TLS, than what a link holds back, and than a frame.
    let long = "x".repeat(20 << 20);
    assert_eq!(nodes[1].connect().ask(&["SET", "long", &long]).unwrap().text(), "OK");
    assert!(nodes[2].connect().ask(&["GET", "long"]).unwrap().text() == long);

    for (name, cert_of, stem, ca, said_there) in [
        // Another authority has signed it.
        ("foreign", &others, "peer", &certs, "its certificate is not that of a node"),
        // It trusts another authority itself.
        ("blind", &certs, "peer", &others, ""),
    ] {
        let mut stranger = new(dir.path(), name);
        let stranger_flags = flags(&stranger, cert_of, stem, ca);
        start(&mut stranger, &stranger_flags, &nodes.iter().collect::<Vec<_>>());
        until(TEST_TIMEOUT, "the stranger hears that it is refused", || {
            let log = stranger.log();
            let said = log.contains("cannot connect to a peer") && log.contains("certificate");
            said.then_some(())
        });
        until(TEST_TIMEOUT, "a node says whom it has refused", || {
            nodes.iter().any(|node| node.log().contains(said_there)).then_some(())
        });
        assert_eq!(nodes[0].status().unwrap()["cluster"]["members_up"], 3, "{name}");
        stranger.kill();
    }
    // The certificate of a client, signed by the right authority, makes no node.
    let mut client = new(dir.path(), "client");
    let client_flags = flags(&client, &certs, "client", &certs);
    start(&mut client, &client_flags, &[&nodes[0]]);
    assert!(!client.wait().success());
    assert!(client.log().contains("does not bear the name peer.carillon"), "{}", client.log());
    // Neither does one that names itself otherwise, and asks for that name of others.
    let mut named = new(dir.path(), "named");
    let mut named_flags = flags(&named, &certs, "server", &certs);
    named_flags.extend(["--peer-tls-name".into(), "localhost".into()]);
    start(&mut named, &named_flags, &[&nodes[0]]);
    until(TEST_TIMEOUT, "a node without the name is refused", || {
        named.log().contains("cannot connect to a peer").then_some(())
    });
    named.kill();
    // A node without TLS is told what is wrong.
    let mut plain = new(dir.path(), "plain");
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
    let chmod = std::process::Command::new("chmod").arg("600").arg(&secret).status().unwrap();
    assert!(chmod.success());
    start(&mut plain, &[], &[&nodes[0]]);
    until(TEST_TIMEOUT, "a node without TLS is refused", || {
        plain.log().contains("cannot connect to a peer").then_some(())
    });
    plain.kill();

    set_and_get(&nodes, "2");
    // A node that comes back is taken as before.
    std::fs::remove_file(&secret).unwrap();
    let again = flags(&nodes[2], &certs, "peer", &certs);
    nodes[2].kill();
    start(&mut nodes[2], &again, &[]);
    nodes[2].wait_until_ready();
    set_and_get(&nodes, "3");
    for node in &mut nodes {
        node.assert_runs();
    }
}

#[test]
fn new_certificates_of_nodes_are_taken_while_they_run() {
    let dir = Directory::new("tls_peers_reload").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &["--days", "7"]);
    let (mut nodes, _) = cluster(dir.path(), &certs);
    let warned = |node: &Node| node.carillon(&["status"]).1;
    assert!(warned(&nodes[0]).contains("the certificate for peers"), "{}", warned(&nodes[0]));
    until(TEST_TIMEOUT, "the log says so", || {
        nodes[0].log().contains("the certificate for peers").then_some(())
    });
    assert!(nodes[0].metric("carillon_tls_certificate_end_seconds") > 1e9);
    Certs::make(&dir.path().join("certs"), &[]);
    for node in &nodes {
        until(TEST_TIMEOUT, "the new certificate is taken", || {
            node.log().contains("new TLS certificates for peers are in use").then_some(())
        });
        let said = warned(node);
        assert!(!said.contains("the certificate for peers"), "{said}");
    }
    // Links are made anew with it.
    let again = flags(&nodes[1], &certs, "peer", &certs);
    nodes[1].kill();
    start(&mut nodes[1], &again, &[]);
    nodes[1].wait_until_ready();
    set_and_get(&nodes, "1");
}

#[test]
fn a_node_whose_certificate_is_revoked_is_refused() {
    let dir = Directory::new("tls_peers_revoked").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    for ending in ["pem", "key"] {
        let [from, to] = ["peer", "stolen"].map(|stem| certs.file(&format!("{stem}.{ending}")));
        std::fs::copy(from, to).unwrap();
    }
    assert!(certs.revoke(&["peer"]).status.success());
    // The nodes have new ones.
    Certs::make(&dir.path().join("certs"), &[]);
    let list = ["--peer-tls-crl-file".to_owned(), certs.file("crl.pem")];
    let (mut node, mut other) = (new(dir.path(), "a"), new(dir.path(), "b"));
    let of = |node: &Node| [&flags(node, &certs, "peer", &certs)[..], &list].concat();
    let flags_here = of(&node);
    start(&mut node, &flags_here, &[]);
    node.wait_until_ready();
    let mut thief = new(dir.path(), "thief");
    let stolen = flags(&thief, &certs, "stolen", &certs);
    start(&mut thief, &stolen, &[&node]);
    until(TEST_TIMEOUT, "the node refuses it", || node.log().contains("Revoked").then_some(()));
    assert_eq!(node.status().unwrap()["cluster"]["members_up"], 1);
    thief.kill();
    let flags_here = of(&other);
    start(&mut other, &flags_here, &[&node]);
    until(TEST_TIMEOUT, "another node is taken", || {
        (node.status()?["cluster"]["members_up"] == 2).then_some(())
    });
}
