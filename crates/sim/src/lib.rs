//! What happens to a node when everything that can go wrong does?

pub mod check;
pub mod command;
pub mod machine;
pub mod options;
pub mod rng;
pub mod trace;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use check::Violation;
pub use options::{Bug, Fault, Faults, Mood, Options};
use world::{Counts, World};

/// How a run has ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it was told.
    pub options: Options,
    /// What the seed chose.
    pub mood: Mood,
    /// The hash of everything that happened (R13).
    pub trace_hash: u64,
    /// What happened, if that was wanted.
    pub trace: Option<String>,
    /// The step it ended in.
    pub step: u32,
    /// What it has seen.
    pub counts: Counts,
    /// The first rule that was found broken.
    pub verdict: Result<(), Violation>,
}

/// Runs once: a pure function of its options.
pub fn run(options: &Options) -> Report {
    let mut world = World::new(options);
    let mood = *world.mood();
    let verdict = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation::new("an assert of the node", text.unwrap_or_default()))
    });
    Report {
        options: options.clone(),
        mood,
        trace_hash: world.trace.hash(),
        step: world.trace.step,
        counts: world.counts,
        trace: std::mem::replace(&mut world.trace, trace::Trace::new(false)).into_text(),
        verdict,
    }
}
