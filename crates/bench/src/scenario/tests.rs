//! What scenarios say, and what is wrong with them: file, line, key.

use std::time::Duration;

use super::*;

const GOOD: &str = "\
about = \"all there is\"
repetitions = 3
seed = 9
threads = 2

[target]
driver = \"resp\"
addresses = [\"127.0.0.1:6379\"]
greeting = [[\"SELECT\", \"1\"]]
request_timeout = \"2s\"

[keys]
count = 1_000
distribution = \"hot\"
hot_keys = 0.1

[values]
weights = { \"10\" = 9, \"1000\" = 1 }

[op.pause]
sleep = \"5ms\"

[op.add]
command = [\"INCR\", \"n:{key}\"]

[load]
clients = 5
mix = { get = 90, put = 9, pause = 1, add = 0 }

[[phase]]
name = \"warm\"
seconds = 0.5
measured = false

[[phase]]
name = \"open\"
seconds = 2
rate = 100
rate_to = 200
arrivals = \"even\"
mix = { get = 1 }

[matrix]
\"load.clients\" = [1, 10]
\"phase.open.rate\" = [50, 60, 70]

[[pass]]
phase = \"open\"
op = \"get\"
metric = \"p99\"
at_most = \"5ms\"
";

fn parse(text: &str) -> Result<Plan, ScenarioError> {
    Plan::parse("dir/s.toml", text, &[])
}

/// The error of the good scenario after a replacement.
fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replace(from, to)).expect_err(to).to_string()
}

#[test]
fn a_scenario_means_what_it_says() {
    let plan = parse(GOOD).unwrap();
    assert_eq!((plan.name.as_str(), plan.repetitions, plan.cells.len()), ("s", 3, 6));
    let cell = &plan.cells[4];
    assert_eq!(cell.label(), "clients=10 rate=60");
    let scenario = &cell.scenario;
    assert_eq!((scenario.seed, scenario.threads, scenario.keys.count), (9, 2, 1_000));
    assert_eq!(scenario.keys.choice, KeyChoice::Hot { keys: 0.1, requests: 0.9 });
    assert_eq!(scenario.sizes, Sizes::Weighted(vec![(10, 9), (1_000, 1)]));
    let [warm, open] = &scenario.phases[..] else { panic!("two phases") };
    assert_eq!((warm.clients, warm.is_measured, warm.requires_values), (10, false, true));
    assert_eq!(warm.mix.len(), 3, "an operation of weight 0 is left out");
    assert_eq!(open.rate, Some(Rate { from: 60.0, to: 200.0, is_random: false }));
    assert_eq!(open.length, Duration::from_secs(2));
    let criterion = &scenario.criteria[0];
    assert_eq!((criterion.metric, criterion.bound, criterion.is_upper), (Metric::P99, 5e6, true));
}

#[test]
fn errors_name_file_line_and_key() {
    for (from, to, expected) in [
        ("count = 1_000", "cuont = 1_000", ": keys.cuont: unknown key; did you mean `count`?"),
        ("seed = 9", "colour = 9", ": colour: unknown key; known here: about, "),
        ("count = 1_000", "count = 0", ": keys.count: expected a whole number from 1 to "),
        ("count = 1_000", "count = \"x\"", ": keys.count: expected a whole number"),
        ("\"hot\"", "\"warm\"", ": keys.distribution: expected one of uniform, zipf, latest"),
        ("\"hot\"", "\"zipf\"", "keys.hot_keys: only distribution = \"hot\" has this key"),
        ("\"resp\"", "\"rasp\"", ": target.driver: expected one of resp, http, native"),
        ("\"resp\"", "\"http\"", "9: target.greeting: only the driver `resp` has this key"),
        ("\"resp\"", "\"memory\"", "target.greeting"),
        ("127.0.0.1:6379", "localhost", ": target.addresses: expected HOST:PORT, found"),
        ("get = 90", "grt = 90", ": load.mix.grt: unknown operation; there are get, put"),
        ("sleep = \"5ms\"", "sleep = 5", ": op.pause.sleep: expected a time from"),
        ("phase.open.rate\"", "phase.warm.rate_to\"", "phase.warm.rate_to: needs `rate`, too"),
        ("seconds = 2", "", "phase.open: needs seconds"),
        ("name = \"warm\"", "name = \"open\"", "phase.open.name: another phase has this name"),
        ("mix = { get = 1 }", "", "so its mix cannot sleep"),
        ("op = \"get\"", "op = \"put\"", "pass.1.op: not in the mix of that phase"),
        ("phase = \"open\"", "phase = \"warm\"", "pass.1.phase: no measured phase"),
        ("at_most = \"5ms\"", "at_most = 5", ": pass.1.at_most: expected a time"),
        ("at_most = \"5ms\"", "", "needs either at_most or at_least"),
        ("[50, 60, 70]", "50", ": matrix.\"phase.open.rate\": expected a list"),
        ("[50, 60, 70]", "[50, -1]", ": phase.open.rate: expected a number from 0"),
        ("phase.open.rate\"", "phase.opn.rate\"", "no [[phase]] is called opn"),
        ("\"10\" = 9", "ten = 9", ": values.weights.ten: expected bytes as the key"),
        ("seed = 9", "seed = ", ": not TOML: "),
    ] {
        let found = error(from, to);
        let at = GOOD.find(from).unwrap();
        let line = 1 + GOOD[..at].matches('\n').count() + from.matches('\n').count();
        let place = format!("dir/s.toml:{line}: ");
        assert!(found.starts_with("dir/s.toml:"), "{found}");
        assert!(found.starts_with(&place) || !expected.starts_with(':'), "{place} {found}");
        assert!(found.contains(expected), "{to}: {found}");
    }
}

#[test]
fn transfers_need_numbers_two_keys_and_one_request_at_a_time() {
    let good = "[target]\ndriver = \"resp\"\naddresses = [\"h:1\"]\n[values]\nnumber = 10\n\
                [keys]\ncount = 5\n[op.move]\ntransfer = \"watch\"\n\
                [load]\npipeline = 1\nmix = { move = 1 }\n\
                [[phase]]\nname = \"a\"\nseconds = 1\n";
    let scenario = parse(good).unwrap().cells.remove(0).scenario;
    assert_eq!(scenario.phases[0].mix[0].action, Action::Transfer(TransferMethod::Watch));
    assert_eq!(scenario.sizes, Sizes::Number(10));
    for (from, to, expected) in [
        ("number = 10", "bytes = 10", "they need values.number"),
        ("number = 10", "number = 10\nbytes = 5", "values.number: a number has the length"),
        ("number = 10", "number = -1", "values.number: expected a whole number from 0 to"),
        ("number = 10", "number = 10\nlatest = true", "values.latest: needs values that are"),
        ("count = 5", "count = 1", "names two keys at once: keys.count is 1"),
        ("pipeline = 1", "pipeline = 2", "they need pipeline = 1"),
        ("\"watch\"", "\"wotch\"", "expected one of one-shot, watch"),
        ("transfer = \"watch\"", "transfer = \"watch\"\nsleep = \"1s\"", "op.move: expected"),
    ] {
        let why = parse(&good.replace(from, to)).expect_err(to).to_string();
        assert!(why.contains(expected), "{to}: {why}");
    }
    for (driver, expected) in [
        ("\"http\"", "has no transfers"),
        ("\"resp\"\ncluster = true", "over nodes of a Redis Cluster"),
        ("\"etcd\"", ""),
    ] {
        let plan = parse(&good.replace("\"resp\"", driver)).unwrap();
        let refused = crate::run::check(&plan).err().map(|why| why.to_string());
        assert!(refused.unwrap_or_default().contains(expected), "{driver}");
    }
    let plan = parse(&good.replace("resp", "etcd").replace("watch", "one-shot")).unwrap();
    let why = crate::run::check(&plan).unwrap_err().to_string();
    assert!(why.contains("operation move: this driver cannot add to a number"), "{why}");
}

#[test]
fn what_knows_of_puts_alone_refuses_other_writes() {
    let text = |more: &str| {
        format!(
            "[target]\ndriver = \"memory\"\n[values]\n{more}\n[op.x]\ncommand = [\"X\"]\n\
             [[phase]]\nname = \"a\"\nseconds = 1\n"
        )
    };
    let latest = text("latest = true\nbytes = 16");
    assert!(parse(&latest).unwrap().cells[0].scenario.verifies_latest);
    for (text, expected) in [
        (text("latest = true\nbytes = 15"), "16 bytes and more"),
        (text("latest = true\nverify = false"), "values that are verified"),
        (latest.clone() + "mix = { delete = 1 }\n", "not of what `delete` does"),
        (latest.clone() + "mix = { x = 1 }\n", "not of what `x` does"),
        (latest + "[setup]\nfill = false\n[teardown]\nread_back = true\n", "setup.fill"),
    ] {
        let why = parse(&text).expect_err(expected).to_string();
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn what_is_missing_is_named() {
    assert!(parse("").unwrap_err().to_string().contains("needs a [target]"));
    let no_phase = "[target]\ndriver = \"memory\"\n";
    assert!(parse(no_phase).unwrap_err().to_string().contains("needs 1 to 100 [[phase]]s"));
    let no_address = "[target]\ndriver = \"resp\"\n";
    assert!(parse(no_address).unwrap_err().to_string().contains("target: needs addresses"));
    let none =
        "[target]\ndriver = \"memory\"\n[[phase]]\nname = \"a\"\nseconds = 1\nmeasured = false";
    assert!(parse(none).unwrap_err().to_string().contains("no phase is measured"));
}

#[test]
fn flags_replace_what_the_file_says() {
    let set =
        |key: &str, value: &str| Plan::parse("s.toml", GOOD, &[(key.to_owned(), value.to_owned())]);
    let plan = set("phase.open.seconds", "7").unwrap();
    assert_eq!(plan.cells[0].scenario.phases[1].length, Duration::from_secs(7));
    let plan = set("keys.prefix", "user").unwrap();
    assert_eq!(plan.cells[0].scenario.keys.prefix, "user");
    let plan = set("teardown.delete", "true").unwrap();
    assert!(plan.cells[0].scenario.deletes_keys, "tables are made");
    let wrong = set("keys.count", "none").unwrap_err().to_string();
    assert!(wrong.starts_with("s.toml: keys.count: expected a whole number"), "{wrong}");
}

#[test]
fn shipped_scenarios_are_right_and_say_what_they_are_for() {
    for (name, text) in shipped::ALL {
        let plan = Plan::parse(name, text, &[]).unwrap_or_else(|why| panic!("{why}"));
        assert!(!plan.about.is_empty(), "{name}");
        if let Err(why) = crate::run::check(&plan) {
            // Networks of their own need root.
            assert!(why.to_string().starts_with("network: "), "{name}: {why}");
        }
    }
}
