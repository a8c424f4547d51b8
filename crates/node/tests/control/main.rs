//! What does a node's control plane do? Scripts of inputs, with the effects that they had.
//!
//! A script drives one node, with real executors that are durable at once. A line `> …` is a
//! command; what follows is what control was told because of it, and indented what it wanted done.
//! `UPDATE_GOLDEN=1` writes the scripts anew.

mod node_of_one;
mod shown;

use std::fmt::Write as _;

use node_of_one::{HERE, NodeOfOne};

fn replayed(script: &str) -> String {
    let (mut out, mut node) = (String::new(), NodeOfOne::new());
    for line in script.lines() {
        if line.is_empty() || line.starts_with(['#', '>']) {
            writeln!(out, "{line}").expect("a string");
        }
        if let Some(command) = line.strip_prefix("> ") {
            out += &node.run(command);
        }
    }
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "golden files are ordinary files")]
fn control_does_what_its_scripts_say() {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control/scripts");
    let (mut count, mut differ) = (0, Vec::new());
    for file in std::fs::read_dir(scripts).expect("a folder") {
        let path = file.expect("a file").path();
        let script = std::fs::read_to_string(&path).expect("text");
        let again = replayed(&script);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &again).expect("it can be written");
        } else if again != script {
            differ.push(format!("{}:\n{again}", path.display()));
        }
        count += 1;
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(count >= 6, "{count} scripts");
}
