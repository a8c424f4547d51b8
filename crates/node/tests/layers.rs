//! Do crates depend as ARCHITECTURE.md's table says, and does every file keep the house's rules?
//!
//! The table is the picture; this test compares it with every Cargo.toml in both directions: an
//! arrow that the table lacks fails, and so does one that no Cargo.toml has. Every Rust file begins
//! with a front page, has lines of at most 100 columns (but rows of tables in front pages,
//! `//! | … |`, which cannot wrap), and holds none of the words that mean "not finished". Caveat:
//! words are searched as text, so a string literal that holds one counts as well.

// This test reads the sources of the whole workspace, which the crate itself must never do.
#![allow(clippy::disallowed_methods, reason = "a test of source files reads source files")]

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 100;

/// Words that mean "not finished" or "left behind"; written apart, so that this file passes.
const BANNED: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[", "ignore"),
];

fn crates_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").to_path_buf()
}

/// A crate as the table or its Cargo.toml has it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layer {
    name: String,
    is_pure: bool,
    /// What the crate itself uses, sorted.
    uses: Vec<String>,
    /// What its tests use besides, sorted.
    tests_use: Vec<String>,
}

fn names(list: &str) -> Vec<String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "–");
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

/// The rows of ARCHITECTURE.md's table of crates, in its order.
fn table() -> Vec<Layer> {
    let path = crates_dir().with_file_name("ARCHITECTURE.md");
    let text = fs::read_to_string(path).expect("ARCHITECTURE.md");
    let rows = text.lines().skip_while(|line| *line != "| crate | pure | uses |").skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, pure, uses] = cells[..] else { panic!("a row of three cells: {row}") };
        let (uses, tests) = uses.split_once("tests:").unwrap_or((uses, ""));
        Layer {
            name: name.to_owned(),
            is_pure: pure == "pure",
            uses: names(uses.trim_end().trim_end_matches(';')),
            tests_use: names(tests),
        }
    });
    rows.collect()
}

/// Dependencies of a Cargo.toml by name, of every kind (also for one platform), and whether only
/// its tests have them.
fn dependencies(manifest: &str) -> Vec<(&str, bool)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        let is_for_tests = |section: &str| section.contains("dev-dependencies");
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            if let Some((_, name)) = name.rsplit_once("dependencies.") {
                found.push((name, is_for_tests(section)));
            }
        } else if section.ends_with("dependencies") && !line.starts_with('#') {
            let end = line.find(|c: char| " .=".contains(c)).unwrap_or(line.len());
            if end > 0 {
                found.push((line[..end].trim_matches('"'), is_for_tests(section)));
            }
        }
    }
    found
}

/// Every Rust file below a folder, without build output.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn crate_table_agrees_with_cargo() {
    let table = table();
    let mut wrong = Vec::new();
    let mut found = 0;
    for entry in fs::read_dir(crates_dir()).expect("crates/") {
        let folder = entry.expect("a readable entry").path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        found += 1;
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a plain name");
        let Some(row) = table.iter().find(|row| row.name == name) else {
            wrong.push(format!("{name} has no row in ARCHITECTURE.md's table of crates"));
            continue;
        };
        let of_kind = |tests: bool| {
            let all = dependencies(&manifest).into_iter();
            let ours = all.filter(|(other, _)| table.iter().any(|row| row.name == *other));
            names(
                &ours
                    .filter(|(_, dev)| *dev == tests)
                    .map(|(name, _)| name)
                    .collect::<Vec<_>>()
                    .join(","),
            )
        };
        let (uses, tests_use) = (of_kind(false), of_kind(true));
        let cargo = Layer { name: name.to_owned(), is_pure: row.is_pure, uses, tests_use };
        if cargo != *row {
            wrong.push(format!("Cargo.toml says {cargo:?}\nARCHITECTURE.md     {row:?}"));
        }
    }
    assert_eq!(found, table.len(), "each row is a crate");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_use_only_crates_above_them() {
    let table = table();
    let place = |name: &str| table.iter().position(|row| row.name == name);
    for (index, row) in table.iter().enumerate() {
        for lower in row.uses.iter().chain(&row.tests_use) {
            let is_above = place(lower).is_some_and(|place| place < index);
            assert!(is_above, "{lower} must stand above {} in the table", row.name);
        }
    }
}

#[test]
fn pure_crates_are_guarded() {
    let pure: Vec<Layer> = table().into_iter().filter(|row| row.is_pure).collect();
    assert!(pure.iter().any(|row| row.name == "node"), "node is pure");
    for row in pure {
        let path = crates_dir().join(&row.name).join("clippy.toml");
        let text = fs::read_to_string(&path).unwrap_or_default();
        for banned in ["Instant::now", "SystemTime::now", "thread::spawn", "HashMap", "fs::File"] {
            assert!(text.contains(banned), "{} does not ban {banned}", path.display());
        }
    }
}

#[test]
fn files_keep_the_house_rules() {
    let mut files = Vec::new();
    rust_files(&crates_dir(), &mut files);
    let fuzz = crates_dir().with_file_name("fuzz");
    if fuzz.is_dir() {
        rust_files(&fuzz, &mut files);
    }
    assert!(files.len() > 20, "found only {} files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let shown = path.display();
        if !text.trim_start_matches("#![no_main]").trim_start().starts_with("//!") {
            wrong.push(format!("{shown}:1: does not begin with a front page (//!)"));
        }
        for (number, line) in (1..).zip(text.lines()) {
            let row_of_table = line.trim_start().starts_with("//! |");
            if !row_of_table && line.chars().count() > COLUMNS_MAX {
                wrong.push(format!("{shown}:{number}: longer than {COLUMNS_MAX} columns"));
            }
            for word in BANNED.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{shown}:{number}: holds {word:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Some cores have functions by which a fault is planted in them, `plant_…`.
#[test]
fn only_the_simulator_plants_faults() {
    let mut files = Vec::new();
    rust_files(&crates_dir(), &mut files);
    let drivers = files.iter().filter(|path| {
        let path = path.strip_prefix(crates_dir()).expect("the path is below crates");
        !path.starts_with("sim") && !path.starts_with("node")
    });
    let mut count = 0;
    for path in drivers {
        let text = fs::read_to_string(path).expect("UTF-8");
        assert!(!text.contains(".plant_"), "{} plants a fault", path.display());
        count += 1;
    }
    assert!(count > 20, "found only {count} files");
}

#[test]
fn dependencies_are_read_from_every_form() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n\
                    # c = \"1\"\n[dev-dependencies]\nd = { path = \"d\" }\n\
                    [target.'cfg(unix)'.dependencies]\ne=\"1\"\n\
                    [dependencies.f]\nversion = \"1\"\n";
    let read = [("a", false), ("b", false), ("d", true), ("e", false), ("f", false)];
    assert_eq!(dependencies(manifest), read);
}
