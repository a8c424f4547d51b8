//! The directory of results.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::{Options, RunError, Session, environment};
use crate::machine;
use crate::measure::result::{FORMAT, Origin, Results, RunFile};
use crate::report;
use crate::scenario::Plan;

/// The file of all runs and their medians.
const SUMMARY: &str = "results.json";
/// The same as a page.
const PAGE: &str = "report.html";
/// Who has locked this file writes here.
const LOCK: &str = ".lock";

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

/// A checksum of this program; empty if it cannot be read.
fn build() -> String {
    static BUILD: OnceLock<String> = OnceLock::new();
    let read = || {
        let mut hash = Sha256::new();
        let mut file = File::open("/proc/self/exe").ok()?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match file.read(&mut piece).ok()? {
                0 => break,
                len => hash.update(&piece[..len]),
            }
        }
        Some(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    };
    BUILD.get_or_init(|| read().unwrap_or_default()).clone()
}

/// Why a run that is there is not one of those that are asked for, if it is not.
fn stranger(run: &Result<RunFile, RunError>, origin: &Origin) -> Option<&'static str> {
    match run {
        Err(_) => Some("holds files that are no results of this version"),
        Ok(run) if run.origin.checksum != origin.checksum => {
            Some("holds results of another scenario")
        }
        Ok(run) if run.origin.build != origin.build => Some("holds results of another build"),
        Ok(run) if run.origin.agents != origin.agents => Some("holds results of other agents"),
        Ok(_) => None,
    }
}

/// Where results come from.
pub fn origin(plan: &Plan, options: &Options, session: &dyn Session) -> Origin {
    Origin {
        scenario: plan.name.clone(),
        checksum: checksum(plan),
        machine: machine::describe(),
        version: options.version.clone(),
        build: build(),
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

/// Sees that no other run writes here.
fn lock(dir: &Path) -> Result<File, RunError> {
    let path = dir.join(LOCK);
    let file = File::create(&path).map_err(|error| failed(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(failed(dir, "another run writes here; wait for its end, or choose another --out"))
        }
        Err(TryLockError::Error(error)) => Err(failed(&path, error)),
    }
}

/// See the front page of `measure::result`.
pub struct OutDir {
    path: PathBuf,
    origin: Origin,
    /// The system takes the lock back when this ends, however it ends.
    _lock: File,
}

impl OutDir {
    /// Makes it, and refuses one with results that would not be of the same thing: of another
    /// scenario, another build of this program, or from other agents.
    pub fn open(options: &Options, plan: &Plan, origin: &Origin) -> Result<Self, RunError> {
        let dir = &options.out;
        fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
        let lock = lock(dir)?;
        for path in run_files(dir)? {
            if options.replaces {
                fs::remove_file(&path).map_err(|error| failed(&path, error))?;
            } else if let Some(why) = stranger(&read_run(&path), origin) {
                let why = format!("{why}; choose another --out, or --replace them");
                return Err(failed(dir, why));
            }
        }
        let sets = plan.sets.iter().map(|(key, value)| (key, environment::shown(key, value)));
        let sets = sets.map(|(key, value)| format!("# --set {key}={value}\n"));
        let text = sets.collect::<String>() + &plan.text;
        write(&dir.join("scenario.toml"), text.as_bytes())?;
        // A summary of what was there before is none of what will be: it is written again.
        for name in [SUMMARY, PAGE] {
            match fs::remove_file(dir.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed(&dir.join(name), error));
                }
                _ => {}
            }
        }
        Ok(Self { path: dir.clone(), origin: origin.clone(), _lock: lock })
    }

    fn run_path(&self, cell: usize, repetition: u64) -> PathBuf {
        self.path.join(format!("run-{cell:03}-{repetition}.json"))
    }

    /// The result of a run, if it is there and whole.
    pub fn read_run(&self, cell: usize, repetition: u64) -> Option<RunFile> {
        let run = read_run(&self.run_path(cell, repetition));
        let is_ours = stranger(&run, &self.origin).is_none();
        run.ok().filter(|run| is_ours && run.failure.is_none())
    }

    /// Writes the result of a run.
    pub fn write_run(&self, run: &RunFile) -> Result<(), RunError> {
        let path = self.run_path(run.cell, run.repetition);
        let text = serde_json::to_vec(run).map_err(|error| failed(&path, error))?;
        write(&path, &text)
    }

    /// Writes the summary and the page.
    pub fn write_results(&self, results: &Results) -> Result<(), RunError> {
        let path = self.path.join(SUMMARY);
        let text = serde_json::to_vec(results).map_err(|error| failed(&path, error))?;
        write(&path, &text)?;
        write(&self.path.join(PAGE), report::page(results).as_bytes())
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
    let file = if path.is_dir() { path.join(SUMMARY) } else { path.to_owned() };
    let bytes = fs::read(&file).map_err(|error| failed(&file, error))?;
    let results: Results = serde_json::from_slice(&bytes)
        .map_err(|error| failed(&file, format!("no results of carillon bench: {error}")))?;
    match results.format == FORMAT {
        true => Ok(results),
        false => Err(failed(&file, format!("expected {FORMAT}, found {}", results.format))),
    }
}
