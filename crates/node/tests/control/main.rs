//! Golden scripts of the control plane's cores: what happens to a node, and all that a core then
//! wants done. `UPDATE_GOLDENFILES=1` writes the answers anew.

mod checkpoints;
mod node_of_one;
mod places;
mod shown;
mod snapshots;
mod versions;

use std::fmt::Write as _;

use node_of_one::NodeOfOne;

/// Replays every script of a folder, whose lines that begin with `> ` are commands.
#[expect(clippy::disallowed_methods, reason = "golden files are ordinary files")]
fn replay<W: Default>(folder: &str, run: impl Fn(&mut W, &[&str]) -> String) {
    let folder = format!("{}/tests/control/scripts/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        let script = std::fs::read_to_string(&path).expect("text");
        let (mut again, mut world) = (String::new(), W::default());
        for line in script.lines() {
            if line.is_empty() || line.starts_with(['#', '>']) {
                writeln!(again, "{line}").expect("a string");
            }
            if let Some(command) = line.strip_prefix("> ") {
                let words: Vec<&str> = command.split_whitespace().collect();
                again += &run(&mut world, &words);
            }
        }
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::write(&path, &again).expect("the file can be written");
        } else {
            assert_eq!(again, script, "{}", path.display());
        }
        count += 1;
    }
    assert!(count >= 3, "{count} scripts");
}

/// The number in a word, without what marks it.
fn number(word: &str) -> u64 {
    let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

/// The control plane of one node, with real executors that are durable at once.
#[test]
fn control_scripts_give_golden_output() {
    replay("plane", |node: &mut NodeOfOne, words| node.run(&words.join(" ")));
}
