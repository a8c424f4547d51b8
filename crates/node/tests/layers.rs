//! Do crates depend downwards only, and does every file keep the house's rules?
//!
//! ```text
//!   carillon ─► server ─► node ─► txn ─► replication ─► storage ─► keyspace
//!       │          sim ───┘  │                └──────────────────────┘
//!       │           │        └──► membership, overlay, balancer ─► keyspace
//!       ├─► client ─► keyspace
//!       └─► sim             bench ─► anything; nobody ─► bench
//!   tests of carillon, bench ─► testbed
//! ```
//!
//! A crate may name only those that [`ALLOWED`] gives it. Every Rust file begins with a front
//! page, has lines of at most 100 columns (but rows of tables in front pages, `//! | … |`, which
//! cannot wrap), and holds none of the words that mean "not finished". Test-only dependencies obey
//! the same table. Caveat: words are searched as text, so a string literal that holds one counts
//! as well.

// This test reads the sources of the whole workspace, which the crate itself must never do.
#![allow(clippy::disallowed_methods, reason = "a test of source files reads source files")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the crates of ours that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("keyspace", &[]),
    ("overlay", &["keyspace"]),
    ("balancer", &["keyspace"]),
    ("membership", &["keyspace"]),
    ("storage", &["keyspace"]),
    ("replication", &["keyspace"]),
    ("txn", &["keyspace", "storage", "replication"]),
    ("node", &["keyspace", "overlay", "balancer", "membership", "storage", "replication", "txn"]),
    ("client", &["keyspace"]),
    (
        "server",
        &["keyspace", "overlay", "balancer", "membership", "storage", "replication", "txn", "node"],
    ),
    (
        "sim",
        &["keyspace", "overlay", "balancer", "membership", "storage", "replication", "txn", "node"],
    ),
    ("testbed", &[]),
    ("threads", &["keyspace", "replication"]),
    (
        "carillon",
        &[
            "keyspace",
            "balancer",
            "membership",
            "storage",
            "node",
            "server",
            "sim",
            "client",
            "testbed",
        ],
    ),
    (
        "bench",
        &[
            "keyspace",
            "overlay",
            "balancer",
            "membership",
            "storage",
            "replication",
            "txn",
            "node",
            "server",
            "sim",
            "client",
            "testbed",
        ],
    ),
];

/// Crates whose purity a clippy.toml of their own guards.
const PURE: &[&str] =
    &["keyspace", "overlay", "balancer", "membership", "storage", "replication", "txn", "node"];

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

/// Dependencies of a Cargo.toml by name, of every kind (also for one platform or for tests).
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            if let Some((_, name)) = name.rsplit_once("dependencies.") {
                found.push(name);
            }
        } else if section.ends_with("dependencies") && !line.starts_with('#') {
            let end = line.find(|c: char| " .=".contains(c)).unwrap_or(line.len());
            found.push(line[..end].trim_matches('"'));
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
fn crates_depend_downwards_only() {
    let ours: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for entry in fs::read_dir(crates_dir()).expect("crates/") {
        let folder = entry.expect("a readable entry").path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a plain name");
        let Some((_, allowed)) = ALLOWED.iter().find(|(each, _)| *each == name) else {
            wrong.push(format!("{name} has no place in the layers: give it one in ALLOWED"));
            continue;
        };
        for dependency in dependencies(&manifest) {
            if ours.contains(&dependency) && !allowed.contains(&dependency) {
                wrong.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn layers_have_no_circle() {
    for (index, (name, allowed)) in ALLOWED.iter().enumerate() {
        for lower in *allowed {
            let place = ALLOWED.iter().position(|(each, _)| each == lower);
            assert!(place.is_some_and(|p| p < index), "{lower} must stand above {name} in ALLOWED");
        }
    }
}

#[test]
fn pure_crates_are_guarded() {
    for name in PURE {
        let path = crates_dir().join(name).join("clippy.toml");
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

#[test]
fn dependencies_are_read_from_every_form() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n\
                    # c = \"1\"\n[dev-dependencies]\nd = { path = \"d\" }\n\
                    [target.'cfg(unix)'.dependencies]\ne=\"1\"\n\
                    [dependencies.f]\nversion = \"1\"\n";
    assert_eq!(dependencies(manifest), ["a", "b", "d", "e", "f"]);
}
