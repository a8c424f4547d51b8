//! `carillon script`: command files and their answers, in `command_files/`. Behind `---` stands
//! what is printed; `UPDATE_GOLDENFILES=1` writes it anew.

use std::path::{Path, PathBuf};

use harness::cluster::Cluster;
use harness::command::{CommandResult, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command_files");
    let entries = std::fs::read_dir(dir).expect("the files are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs a file's commands, through a file of their own.
fn script(cluster: &Cluster, name: &str, commands: &str, flags: &[&str]) -> CommandResult {
    let file = cluster.nodes[0].dir().with_extension(name);
    std::fs::write(&file, commands).unwrap();
    let http = cluster.nodes[0].http.to_string();
    let managers: Vec<String> = cluster.nodes.iter().map(|node| node.http.to_string()).collect();
    let mut words = vec!["script", file.to_str().unwrap(), "--http", &http];
    words.extend(managers.iter().flat_map(|manager| ["--manager", manager]));
    words.extend(flags);
    run(PROGRAM, &words, &[], &[])
}

#[test]
fn command_files_are_answered_as_they_were() {
    let cluster = Cluster::start(PROGRAM, "command_files", 3, &[], &["0"]);
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let (commands, wanted) = text.split_once("---\n").expect("what is printed");
        let name = path.file_stem().unwrap().to_str().unwrap();
        let done = script(&cluster, name, commands, &[]);
        // Behind the name of the file.
        let complaint = done.err.find("line ").map_or("", |place| &done.err[place..]);
        let complaint = complaint.replace("; nothing was sent", "");
        let found = if done.code == 0 { done.text().to_owned() } else { complaint };
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::write(&path, format!("{commands}---\n{found}")).unwrap();
            continue;
        }
        assert_eq!(found, wanted, "{}: exit code {}", path.display(), done.code);
    }
}

#[test]
fn many_clients_run_a_file_on_many_managers() {
    let cluster = Cluster::start(PROGRAM, "command_files_many", 3, &[], &["0"]);
    let commands = "up k 1\nsnapshot_read [k, none]\ngc\nexit\n";
    let done = script(&cluster, "many", commands, &["--clients", "20"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let mut lines: Vec<&str> = done.text().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 60, "{lines:?}");
    assert_eq!(lines[..3], ["10: [1,nil]", "10: ok", "10: ok"]);
    let missing = script(&cluster, "many", "read k\n", &["--keyspace", "nosuch"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("line 1:"), "{}", missing.err);
    let json = script(&cluster, "many", "% one\nread k\n", &["--json"]);
    assert_eq!(json.text().trim(), r#"{"answer":"1","client":1,"line":2}"#);
}
