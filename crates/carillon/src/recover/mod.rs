//! `carillon recover`: quorum-loss recovery, of shards whose majority is lost for good.
//!
//! ```text
//!   inspect, on each node that is left ──► JSON ─┐
//!                                          JSON ─┴─► plan ──► JSON ──► apply, on each of them
//!                                                      └─► what may be lost, in words
//! ```
//!
//! [`node::recovery::quorum_loss`] decides, [`server::recover`] has the files. Here the values
//! become JSON ([`json`]) and text for people ([`text`]).

mod json;
mod text;

use std::fs;
use std::path::Path;

use node::recovery::quorum_loss::{self, RecoveryPlan, Survivor};
use serde_json::Value;

use crate::cli::RecoverCommand;
use crate::exit::Exit;
use crate::output::{self, complain};

/// One of its steps.
pub fn recover(command: &RecoverCommand) -> Exit {
    let done = match command {
        RecoverCommand::Inspect { dir } => inspect(dir),
        RecoverCommand::Plan { files } => plan(files),
        RecoverCommand::Apply { dir, plan, accept_loss } => apply(dir, plan, *accept_loss),
    };
    done.unwrap_or_else(|why| {
        complain(&why);
        Exit::Refused
    })
}

fn inspect(dir: &Path) -> Result<Exit, String> {
    let survivor = server::recover::inspect(dir).map_err(|error| error.to_string())?;
    eprint!("{}", text::survivor(&survivor));
    Ok(output::json(&json::survivor(&survivor)))
}

fn plan(files: &[impl AsRef<Path>]) -> Result<Exit, String> {
    let survivors: Result<Vec<Survivor>, String> =
        files.iter().map(|file| read(file.as_ref(), json::survivor_of)).collect();
    let plan = quorum_loss::plan(&survivors?).map_err(|refused| refused.to_string())?;
    eprint!("{}", text::plan(&plan));
    if plan.shards.is_empty() {
        return Err("no surviving replica can go on: there is no plan, and nothing to apply".into());
    }
    Ok(output::json(&json::plan(&plan)))
}

fn apply(dir: &Path, file: &Path, accept_loss: bool) -> Result<Exit, String> {
    let plan: RecoveryPlan = read(file, json::plan_of)?;
    if !accept_loss {
        eprint!("{}", text::plan(&plan));
        return Err("nothing was changed. To accept these losses, add --accept-loss".into());
    }
    let applied = server::recover::apply(dir, &plan).map_err(|error| error.to_string())?;
    Ok(output::raw(text::applied(&applied, &plan).as_bytes()))
}

/// Reads a file.
fn read<T>(
    file: &Path,
    decode: impl Fn(&Value) -> Result<T, json::InvalidFile>,
) -> Result<T, String> {
    let shown = file.display();
    let bytes = fs::read(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let value = serde_json::from_slice(&bytes);
    let value = value.map_err(|error| format!("{shown} is not JSON: {error}"))?;
    decode(&value).map_err(|bad| format!("{shown}: {bad}"))
}
