//! `carillon sim overlay` on the command line: its output, its files and its errors.

use std::fs;

use harness::command::{CommandResult, run};

fn overlay(arguments: &[&str]) -> CommandResult {
    let words = [&["sim", "overlay"], arguments].concat();
    run(env!("CARGO_BIN_EXE_carillon"), words, b"", &[])
}

#[test]
fn overlay_prints_table_and_writes_files() {
    let folder = std::env::temp_dir().join(format!("carillon-overlay-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (json, plots) = (folder.join("hops.json"), folder.to_str().unwrap());
    let ran = overlay(&[
        "--nodes",
        "10,100",
        "--lookups",
        "2000",
        "--json",
        json.to_str().unwrap(),
        "--plots",
        plots,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.text().starts_with("lookup"), "{}", ran.text());
    assert_eq!(ran.err, "", "no bar where there is no terminal");

    let read: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let runs = read["runs"].as_array().unwrap();
    for nodes in [10, 100] {
        let of = |run: &&serde_json::Value| run["lookup"] == "full" && run["nodes"] == nodes;
        let run = runs.iter().find(of).expect("a run for each size");
        assert_eq!((run["hops"]["mean"].as_f64(), &run["hops"]["max"]), (Some(0.0), &0.into()));
        assert_eq!((&run["hops"]["p50"], &run["hops"]["p99"]), (&0.into(), &0.into()));
        assert_eq!((run["messages_per_lookup"].as_f64(), &run["wrong"]), (Some(2.0), &0.into()));
        let of = |run: &&serde_json::Value| run["lookup"] == "chord" && run["nodes"] == nodes;
        let run = runs.iter().find(of).expect("a run for each size");
        let half = f64::from(nodes).log2() / 2.0;
        assert!(
            run["hops"]["mean"].as_f64().is_some_and(|mean| (0.8..1.1).contains(&(mean / half)))
        );
    }
    for nodes in [10, 100] {
        let of = |run: &&serde_json::Value| run["lookup"] == "full" && run["nodes"] == nodes;
        let run = runs.iter().find(of).expect("a run for each size");
        assert_eq!(run["table_entries"].as_f64(), Some(f64::from(nodes)));
        assert!(run["messages_per_lookup"].is_number());
    }
    for name in ["hops.svg", "spread.svg"] {
        let chart = fs::read_to_string(folder.join(name)).unwrap();
        assert!(chart.starts_with("<svg") && !chart.contains("NaN"), "{name}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn invalid_overlay_arguments_are_refused_with_reason() {
    for (arguments, why) in [
        (["--lookup", "pastry"], "no lookup 'pastry'"),
        (["--nodes", "0"], "1..=500000"),
        (["--nodes", "10,many"], "many"),
        (["--lookups", "0"], "1..="),
        (["--keys", "even"], "uniform or zipf"),
    ] {
        let ran = overlay(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.err.contains(why), "{arguments:?}: {}", ran.err);
    }
    for (arguments, why) in [
        (&["--study", "churn", "--nodes", "1000,3"][..], "at least 4 nodes"),
        (&["--study", "churn", "--lookup", "full,lh"], "have no ring"),
        (&["--study", "churn", "--lookups", "7"], "--lookups does not apply to --study churn"),
        (&["--study", "load", "--lookup", "chord"], "--lookup does not apply to --study load"),
        (&["--study", "join", "--successors", "4"], "--successors does not apply"),
        (&["--study", "requests", "--keys", "zipf"], "--keys does not apply"),
    ] {
        let ran = overlay(arguments);
        assert_eq!((ran.code, ran.text()), (2, ""), "{arguments:?}");
        assert!(ran.err.contains(why), "{}", ran.err);
    }
    // Before anything is measured: this would take hours.
    for file in ["--json", "--plots"] {
        let ran = overlay(&["--lookups", "100000000", file, "/nowhere/at/all"]);
        assert_eq!((ran.code, ran.text()), (1, ""));
        assert!(ran.err.contains("cannot write /nowhere/at/all"), "{}", ran.err);
    }
}

#[test]
fn overlay_studies_write_results_and_charts() {
    let folder = std::env::temp_dir().join(format!("carillon-studies-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (json, plots) = (folder.join("found.json"), folder.to_str().unwrap());
    for (study, nodes, rows, charts) in [
        ("join", "10,100", 2, &["join.svg"][..]),
        ("requests", "50", 5 * 3 * 3, &["requests.svg", "requests-time.svg"]),
        ("connections", "32", 4, &["connections.svg", "connections-32.svg"]),
        ("churn", "40", 9, &["churn-joins.svg", "churn-fails.svg", "churn-leaves.svg"]),
    ] {
        let file = json.to_str().unwrap();
        let ran = overlay(&["--study", study, "--nodes", nodes, "--json", file, "--plots", plots]);
        assert_eq!(ran.code, 0, "{study}: {}", ran.err);
        let read: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let found = read[study].as_array().unwrap();
        assert_eq!(found.len(), rows, "{study}");
        assert!(found.iter().all(|row| row["wrong"].is_null() || row["wrong"] == 0), "{study}");
        for chart in charts {
            let chart = fs::read_to_string(folder.join(chart)).unwrap();
            assert!(chart.starts_with("<svg"), "{study}");
        }
    }
    let left = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_str().unwrap().starts_with('.')));
    fs::remove_dir_all(&folder).unwrap();
}
