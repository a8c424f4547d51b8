//! The directory of results.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Options, RunError, Session};
use crate::machine;
use crate::measure::result::{FORMAT, Origin, Results, RunFile};
use crate::report;
use crate::scenario::Plan;

/// A checksum of what was run.
pub fn checksum(plan: &Plan) -> String {
    let mut hash = Sha256::new();
    hash.update(plan.text.as_bytes());
    for (key, value) in &plan.sets {
        hash.update(format!("\0{key}={value}").as_bytes());
    }
    if let Some(seconds) = plan.seconds_max {
        hash.update(format!("\0{seconds}"));
    }
    let bytes = hash.finalize();
    bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Where results come from.
pub fn origin(plan: &Plan, options: &Options, session: &dyn Session) -> Origin {
    Origin {
        scenario: plan.name.clone(),
        checksum: checksum(plan),
        machine: machine::describe(),
        version: options.version.clone(),
        command: options.command.clone(),
        agents: session.agents(),
        target: String::new(),
    }
}

fn failed(path: &Path, why: impl ToString) -> RunError {
    RunError::Files { path: path.display().to_string(), why: why.to_string() }
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    let partial = path.with_extension("partial");
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        // What could not be written whole is of no use.
        let _none = fs::remove_file(&partial);
        failed(path, error)
    })
}

/// See the front page of `measure::result`.
pub struct OutDir(PathBuf);

impl OutDir {
    /// Makes it, and refuses one with results of another scenario.
    pub fn open(options: &Options, plan: &Plan, checksum: &str) -> Result<Self, RunError> {
        let dir = &options.out;
        fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
        for path in run_files(dir)? {
            let is_ours = read_run(&path).is_ok_and(|run| run.origin.checksum == checksum);
            if is_ours {
                continue;
            }
            if !options.replaces {
                let why = "holds results of another scenario; choose another --out, or \
                           --replace them";
                return Err(failed(dir, why));
            }
            fs::remove_file(&path).map_err(|error| failed(&path, error))?;
        }
        let sets = plan.sets.iter().map(|(key, value)| format!("# --set {key}={value}\n"));
        let text = sets.collect::<String>() + &plan.text;
        write(&dir.join("scenario.toml"), text.as_bytes())?;
        Ok(Self(dir.clone()))
    }

    fn run_path(&self, cell: usize, repetition: u64) -> PathBuf {
        self.0.join(format!("run-{cell:03}-{repetition}.json"))
    }

    /// The result of a run, if it is there and whole.
    pub fn read_run(&self, cell: usize, repetition: u64, checksum: &str) -> Option<RunFile> {
        let run = read_run(&self.run_path(cell, repetition)).ok()?;
        (run.origin.checksum == checksum && run.failure.is_none()).then_some(run)
    }

    /// Writes the result of a run.
    pub fn write_run(&self, run: &RunFile) -> Result<(), RunError> {
        let path = self.run_path(run.cell, run.repetition);
        let text = serde_json::to_vec(run).map_err(|error| failed(&path, error))?;
        write(&path, &text)
    }

    /// Writes the summary and the page.
    pub fn write_results(&self, results: &Results) -> Result<(), RunError> {
        let path = self.0.join("results.json");
        let text = serde_json::to_vec(results).map_err(|error| failed(&path, error))?;
        write(&path, &text)?;
        write(&self.0.join("report.html"), report::page(results).as_bytes())
    }
}

fn run_files(dir: &Path) -> Result<Vec<PathBuf>, RunError> {
    let entries = fs::read_dir(dir).map_err(|error| failed(dir, error))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_run = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("run-") && name.ends_with(".json")
    };
    Ok(paths.filter(is_run).collect())
}

fn read_run(path: &Path) -> Result<RunFile, RunError> {
    let bytes = fs::read(path).map_err(|error| failed(path, error))?;
    let run: RunFile = serde_json::from_slice(&bytes).map_err(|error| failed(path, error))?;
    match run.format == FORMAT {
        true => Ok(run),
        false => Err(failed(path, format!("expected {FORMAT}, found {}", run.format))),
    }
}

/// Reads results: a directory of them, or its `results.json`.
///
/// # Errors
/// There are none, or they are of another version.
pub fn read_results(path: &Path) -> Result<Results, RunError> {
    let file = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    let bytes = fs::read(&file).map_err(|error| failed(&file, error))?;
    let results: Results = serde_json::from_slice(&bytes)
        .map_err(|error| failed(&file, format!("no results of carillon bench: {error}")))?;
    match results.format == FORMAT {
        true => Ok(results),
        false => Err(failed(&file, format!("expected {FORMAT}, found {}", results.format))),
    }
}
