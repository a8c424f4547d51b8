//! What scenarios say about nodes and what happens to them, and what is wrong with it.

use std::time::Duration;

use super::*;
use crate::load::random::Random;

const GOOD: &str = "\
[target]
driver = \"resp\"
failover = true
ready = [\"true\"]

[[node]]
name = \"n\"
count = 3
command = [\"redis-server\", \"--port\", \"{port}\"]
others = [\"--replicaof\", \"{n1.host} {first.port}\"]
metrics = \"{host}:{port2}\"

[[node]]
name = \"spare\"
command = [\"redis-server\", \"--port\", \"{port}\"]
later = true

[[phase]]
name = \"warm\"
seconds = 5
measured = false

[[phase]]
name = \"steady\"
seconds = 10

[[phase]]
name = \"end\"
seconds = 20

[[timeline]]
at = \"12s\"
do = \"start\"
node = \"spare\"

[[timeline]]
phase = \"steady\"
at = \"2s\"
do = \"kill\"
nodes = [\"n2\", \"n3\"]
every = \"4s\"

[[timeline]]
after_phase = \"steady\"
do = \"run\"
command = [\"redis-cli\", \"-p\", \"{n1.port}\", \"PING\"]
timeout = \"3s\"

[metrics]
family = \"x_total\"
by = [\"kind\"]
only = { way = \"out\" }
";

fn parse(text: &str) -> Result<Plan, ScenarioError> {
    Plan::parse("s.toml", text, &[])
}

fn at(act: &Act) -> (&str, When) {
    (act.name.as_str(), act.when)
}

fn seconds(phase: usize, seconds: f64) -> When {
    When::During(phase, Duration::from_secs_f64(seconds))
}

#[test]
fn nodes_and_acts_mean_what_they_say() {
    let mut plan = parse(GOOD).unwrap();
    let scenario = &plan.cells[0].scenario;
    let names: Vec<&str> = scenario.target.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3", "spare"]);
    assert_eq!(scenario.target.nodes[0].command.len(), 3, "the first joins nobody");
    assert_eq!(scenario.target.nodes[1].command.len(), 5);
    assert!(scenario.target.nodes[3].is_later && scenario.target.fails_over);
    assert_eq!(scenario.target.addresses, ["{host}:{port}"]);
    assert_eq!(scenario.metrics.only, [("way".to_owned(), "out".to_owned())]);
    let acts: Vec<_> = scenario.timeline.iter().map(at).collect();
    let expected = [
        ("kill n2", seconds(1, 2.0)),
        ("kill n3", seconds(1, 6.0)),
        ("redis-cli", When::After(1)),
        ("start spare", seconds(2, 2.0)),
    ];
    assert_eq!(acts, expected, "without a phase, times count from the first that is measured");
    plan.shorten(Duration::from_secs(1));
    let acts: Vec<_> = plan.cells[0].scenario.timeline.iter().map(at).collect();
    assert_eq!(acts[1], ("kill n3", seconds(1, 0.6)), "they shrink with their phases");
    assert_eq!(acts[3], ("start spare", seconds(2, 0.1)));
}

#[test]
fn errors_name_line_and_key_and_what_may_be_meant() {
    for (from, to, expected) in [
        ("do = \"kill\"", "do = \"kil\"", "timeline.2.do: expected one of start, stop, kill"),
        ("do = \"kill\"", "do = \"kil\"", "did you mean `kill`?"),
        ("\"n2\", \"n3\"", "\"n2\", \"m3\"", "nodes: no node is called `m3`; did you mean `n3`?"),
        ("node = \"spare\"", "node = \"spaer\"", "did you mean `spare`?"),
        ("node = \"spare\"", "nod = \"spare\"", "`start` needs a node"),
        ("at = \"12s\"", "at = \"31s\"", ": timeline.1.at: the load is over by then"),
        ("at = \"2s\"", "at = \"11s\"", ": timeline.2.at: phase `steady` is over by then"),
        ("every = \"4s\"", "every = \"40s\"", "timeline.2.at: the load is over by then"),
        ("at = \"12s\"", "", "timeline.1: expected at = \"10s\""),
        ("phase = \"steady\"\nat", "phase = \"stedy\"\nat", "did you mean `steady`?"),
        ("timeout = \"3s\"", "timeuot = \"3s\"", "timeuot: unknown key; did you mean `timeout`?"),
        ("do = \"run\"", "do = \"heal\"", "command: only `do = \"run\"` has this key"),
        ("nodes = [\"n2\", \"n3\"]\nevery = \"4s\"\n", "node = \"spare\"\n", "spare does not run"),
        ("do = \"start\"\nnode = \"spare\"", "do = \"start\"\nnode = \"n1\"", "n1 runs already"),
        ("do = \"kill\"", "do = \"cut\"", "needs a network of its own: [network]"),
        ("{n1.port}", "{m1.port}", "no node is called `m1`; did you mean `n1`?"),
        ("{n1.host}", "{n9.host}", "command: no node is called `n9`; did you mean `n1`?"),
        ("name = \"spare\"", "name = \"n2\"", ": node.n2.name: `n2` is taken already"),
        ("name = \"spare\"", "name = \"a b\"", "expected 1 to 40 letters, digits"),
        ("failover", "failovr", "target.failovr: unknown key; did you mean `failover`?"),
        ("ready =", "command = [\"x\"]\nready =", "target.command: stands beside [[node]]"),
        ("count = 3", "count = 3\nlater = true", "the first node cannot be `later`"),
        ("[metrics]", "[network]\nnamespaces = 1\n[metrics]", "namespaces: expected true"),
        ("later = true", "agent = 1\n[network]\nnamespaces = true", "agents cannot have it"),
        ("\"resp\"", "\"memory\"", "target.driver: `memory` has no other target"),
        ("count = 3", "count = 1001", "node.n.count: expected a whole number from 1 to 1000"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = parse(&GOOD.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(found.starts_with("s.toml:") && found.contains(expected), "{to}: {found}");
    }
    let many = GOOD.replace("count = 3", "count = 900")
        + "[matrix]\n\"seed\" = ["
        + &"1, ".repeat(100)
        + "]\n";
    let why = parse(&many).unwrap_err().to_string();
    assert!(why.contains("more than 50000 nodes, acts and phases"), "{why}");
}

/// Scenarios with bytes and lines of others, and bytes of nobody.
#[test]
fn no_text_makes_the_parser_panic() {
    let mut texts: Vec<&str> = shipped::ALL.iter().map(|(_, text)| *text).collect();
    texts.push(GOOD);
    let mut random = Random::new(7);
    let mut below = |most: usize| random.below(most as u64) as usize;
    let words = [
        "[[",
        "]]",
        "{",
        "}",
        "\"",
        " = ",
        "\n",
        "9999999999999999999999",
        "-1",
        "1e308",
        "nan",
        "[[timeline]]",
        "[[node]]",
        "\u{fffd}",
        ".",
        "{n1.port",
        "true",
        "\"0s\"",
    ];
    let mut good = 0;
    for round in 0..4_000 {
        let mut lines: Vec<&str> = texts[below(texts.len())].lines().collect();
        for _ in 0..below(4) {
            let other: Vec<&str> = texts[below(texts.len())].lines().collect();
            let at = below(lines.len());
            match below(3) {
                0 => lines.insert(at, other[below(other.len())]),
                1 => drop(lines.remove(at)),
                _ => lines.swap(at, 0),
            }
        }
        let mut text = lines.join("\n");
        for _ in 0..below(3) {
            let at = text.floor_char_boundary(below(text.len() + 1));
            text.insert_str(at, words[below(words.len())]);
        }
        if round % 8 == 0 {
            text = (0..below(200)).map(|_| char::from(below(128) as u8)).collect();
        }
        match parse(&text) {
            Ok(_) => good += 1,
            Err(why) => {
                let lines = text.lines().count() + 1;
                assert!(why.line <= lines && !why.problem.is_empty(), "{why}: {text}");
            }
        }
    }
    assert!(good > 100, "{good}: too few are still scenarios");
}
