//! `carillon bench papers` in its short form, three nodes as a Redis Cluster, and what
//! `carillon route --advise` says of them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use harness::cluster::Cluster;
use harness::command::{CommandResult, run};
use harness::process::{Directory, Process};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn bench(words: &[&str]) -> CommandResult {
    let words: Vec<&OsStr> = ["bench"].iter().chain(words).map(OsStr::new).collect();
    run(PROGRAM, &words, b"", &[])
}

#[test]
fn a_document_is_measured_and_its_page_is_written() {
    let dir = Directory::new("papers-out").unwrap();
    let out = dir.path().to_str().unwrap();
    let done = bench(&["papers", "--quick", "--only", "004", "--out", out]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(done.text().trim(), format!("{out}/004.md"));
    assert!(done.err.contains("004: 3 nodes"), "progress is told: {}", done.err);
    let page = fs::read_to_string(dir.path().join("004.md")).unwrap();
    for text in
        ["| it claimed | we found |", "reproduced", "Command: `carillon bench papers --quick"]
    {
        assert!(page.contains(text), "no {text} in {page}");
    }
    assert!(!page.contains("NaN"), "{page}");
    // Each transaction of each size was done, and none failed.
    let rows = page.lines().filter(|line| line.starts_with("| 3 | 10 | "));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split(" | ").collect()).collect();
    assert_eq!(rows.len(), 5, "{page}");
    for row in rows {
        assert!(row[3].replace(' ', "").parse::<f64>().unwrap() > 0.0, "{row:?}");
        assert_eq!(row.last().unwrap().trim_end_matches(" |"), "0", "{row:?}");
    }
    for chart in
        ["read", "write", "change", "publish", "wiki"].map(|name| format!("004-{name}.svg"))
    {
        let svg = fs::read_to_string(dir.path().join(&chart)).unwrap();
        assert!(svg.contains("<svg") && page.contains(&format!("]({chart})")), "{chart}");
    }
    let wrong = bench(&["papers", "--only", "005", "--out", out]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("expected one of 000, 002, 001, 004, 003"), "{}", wrong.err);
}

#[test]
fn programs_search_and_sort_on_volumes() {
    let dir = Directory::new("papers-volumes").unwrap();
    let out = dir.path().to_str().unwrap();
    let done = bench(&["papers", "--quick", "--only", "003", "--out", out]);
    assert_eq!(done.code, 0, "{}", done.err);
    let page = fs::read_to_string(dir.path().join("003.md")).unwrap();
    assert!(page.contains("| it claimed | we found |") && !page.contains("NaN"), "{page}");
    // Each target has searched two sizes and sorted one.
    for target in ["volume, 4 nodes", "volume, 1 node", "nbdkit memory", "file in tmpfs"] {
        let rows = page.lines().filter(|line| line.starts_with(&format!("| {target} | ")));
        let rows: Vec<Vec<&str>> = rows.map(|line| line.split(" | ").collect()).collect();
        assert_eq!(rows.len(), 4, "{target}: {page}");
        for seconds in rows.iter().flat_map(|row| &row[2..]) {
            let seconds = seconds.trim_end_matches(" |").replace(' ', "");
            assert!(seconds.parse::<f64>().unwrap() > 0.0, "{target}: {page}");
        }
    }
    for chart in ["fig1", "fig4", "fig6"].map(|name| format!("003-{name}.svg")) {
        assert!(fs::exists(dir.path().join(&chart)).unwrap(), "{chart}");
        assert!(page.contains(&format!("]({chart})")), "{chart}");
    }
}

#[test]
fn a_document_is_measured_over_agents() {
    let dir = Directory::new("papers-agents").unwrap();
    let secret = dir.path().join("shared");
    fs::write(&secret, "a secret of these agents").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let secret = secret.to_str().unwrap();
    let agents = [0, 1].map(|number| {
        let address = harness::ports::unused().to_string();
        let mut command = Command::new(PROGRAM);
        command.args(["bench", "agent", "--listen", &address, "--secret-file", secret]);
        let log = dir.path().join(format!("agent-{number}.log"));
        let process = Process::start(command, &log).unwrap();
        harness::until(Duration::from_secs(20), "the agent listens", || {
            std::net::TcpStream::connect(&address).ok()
        });
        (process, address)
    });
    let names = agents.iter().map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(",");
    let out = dir.path().join("out");
    let out = out.to_str().unwrap();
    let words = ["papers", "--quick", "--only", "004", "--out", out, "--agents", &names];
    let done = bench(&[&words[..], &["--secret-file", secret]].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    let page = fs::read_to_string(format!("{out}/004.md")).unwrap();
    assert!(page.contains("hosts of 2 agents") && page.contains(&agents[0].1), "{page}");
    assert!(page.contains("| 3 | 10 | ") && !page.contains("NaN"), "{page}");
    // Nodes ran there.
    for number in 0..agents.len() {
        let log = fs::read_to_string(dir.path().join(format!("agent-{number}.log"))).unwrap();
        assert!(log.contains("nodes: connected"), "{log}");
    }
    let wrong = bench(&[&words[..], &["--secret-file", "/nonexistent"]].concat());
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    let free = harness::ports::unused().to_string();
    let words = ["papers", "--quick", "--only", "004", "--out", out, "--agents", &free];
    let gone = bench(&[&words[..], &["--secret-file", secret]].concat());
    assert_eq!(gone.code, 3, "{}", gone.err);
    assert!(gone.err.contains(&format!("agent {free}")), "{}", gone.err);
}

#[test]
fn three_nodes_are_asked_where_slots_are() {
    let dir = Directory::new("papers-cluster").unwrap();
    let file = dir.path().join("cluster.toml");
    let scenario = r#"
        [target]
        driver = "resp"
        cluster = true
        # One address is enough: the node names the others.
        addresses = ["{n1.host}:{n1.port}"]
        ready_timeout = "60s"
        ready = ["{carillon}", "prove", "--http", "{n1.host}:{n1.port2}"]
        [[node]]
        name = "n"
        count = 3
        command = ["{carillon}", "start", "--resp-mode", "cluster", "--dir", "{dir}/data",
            "--name", "{name}", "--resp", "{host}:{port}", "--http", "{host}:{port2}",
            "--peer", "{host}:{port3}", "--peer-secret-file", "{secret}", "--native", "off"]
        others = ["--join", "{n1.host}:{n1.port3}"]
        metrics = "{host}:{port2}"
        [keys]
        count = 2000
        [load]
        clients = 6
        pipeline = 4
        mix = { get = 5, put = 5 }
        [[phase]]
        name = "run"
        seconds = 2
        [[pass]]
        metric = "failures"
        at_most = 0
    "#;
    fs::write(&file, scenario).unwrap();
    let (file, out) = (file.to_str().unwrap(), dir.path().join("out"));
    let ran = bench(&["run", file, "--out", out.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{} {}", ran.text(), ran.err);
    let results: Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let data = &results["runs"][0]["phases"][0]["data"];
    let done: u64 =
        data["entries"].as_array().unwrap().iter().map(|e| e["count"].as_u64().unwrap()).sum();
    assert!(done > 100, "{data}");
    // Leaders may have moved since the slots were asked for; hardly any request was sent elsewhere.
    assert!(data["redirects"].as_u64().unwrap() * 10 < done, "{data}");
}

#[test]
fn a_small_cluster_is_advised_to_keep_full_tables() {
    let cluster = Cluster::start(PROGRAM, "advise", 3, &[], &["0"]);
    let node = &cluster.nodes[1];
    let (code, text) = node.carillon(&["route", "--advise", "--seconds", "1"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("full suits this cluster."), "{text}");
    assert!(text.contains("8 shards (hashed) on 3 nodes"), "{text}");
    assert!(text.contains("a change takes 3 messages by full"), "{text}");
    let (code, text) = node.carillon(&["route", "--advise", "--seconds", "1", "--json"]);
    let advice: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert_eq!((code, &advice["advice"], &advice["nodes"]), (0, &"full".into(), &3.into()));
    let full = &advice["lookups"][0];
    assert_eq!((&full["lookup"], &full["found"]), (&"full".into(), &16.into()));
    for wrong in [&["route"][..], &["route", "key", "--advise"], &["route", "k", "--seconds", "3"]]
    {
        assert_eq!(node.carillon(wrong).0, 2, "{wrong:?}");
    }
}
