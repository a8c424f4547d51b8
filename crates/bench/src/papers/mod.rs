//! `carillon bench papers`: what five documents measured, measured again on this machine.
//!
//! | document | what it is | here |
//! |---|---|---|
//! | 000 | a thesis: Chord beside a fully connected network | `thesis`, `thesis_lookups`, `thesis_machines`, `thesis_simulated` |
//! | 001 | Riak on 10 to 100 nodes | `riak`, with a cost model ([`model`], `constants`) |
//! | 002 | a course's store with versions and collection | `course` |
//! | 003 | SDDSfL: search and sorting on a block device over LH* | `volumes`, `disk_programs`, `devices` |
//! | 004 | Scalaris: transactions on 1 to 16 nodes | `scalaris` |
//!
//! Each page has the document's numbers, where its text gives them, beside ours, charts redrawn,
//! what it claimed and what was found: that a claim does not hold here is a finding, not a failure.
//!
//! All nodes and the load share this machine, or those of `--agents`: nodes are then spread over
//! their hosts, and each makes a part of the load. So pages say its class, what else it did
//! meanwhile, the commit and the command. Measurements go through the instrument itself (`load`).

mod cluster;
mod constants;
mod course;
mod devices;
mod disk_programs;
mod hosts;
mod load;
pub mod model;
mod model_page;
mod page;
mod riak;
mod scalaris;
mod thesis;
mod thesis_lookups;
mod thesis_machines;
mod thesis_simulated;
mod volumes;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use self::load::Agents;
use self::page::{Page, shown};
pub use self::thesis_simulated::lookups_per_change;
use crate::agents::Secret;
use crate::{Outcome, machine};

/// Clock ticks a second in /proc, fixed on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// How the documents are measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// One document alone.
    pub only: Option<String>,
    /// As short as can be.
    pub is_quick: bool,
    /// Where pages go.
    pub out: PathBuf,
    /// The agents that make loads and start nodes, with what they know, if there are any.
    pub agents: Option<(Vec<String>, Secret)>,
    /// The program whose nodes are measured.
    pub program: PathBuf,
    /// The command line, for the pages.
    pub command: String,
}

/// The documents, in the order in which they are measured; and about how many minutes each takes on
/// two cores, in full.
pub const DOCUMENTS: [(&str, u64); 5] =
    [("000", 20), ("002", 4), ("001", 8), ("004", 10), ("003", 8)];

/// What measurements need to know.
struct Bed<'a> {
    program: &'a Path,
    agents: Option<Arc<Agents>>,
    is_quick: bool,
    say: &'a mut dyn FnMut(&str),
}

impl Bed<'_> {
    fn say(&mut self, text: &str) {
        (self.say)(text);
    }

    /// One of two, by how short it is to be.
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.is_quick { quick } else { full }
    }
}

/// Measures documents and writes their pages; returns the pages' paths. `say` gets progress.
///
/// # Errors
/// There is no such document, nodes cannot be run, or a page cannot be written. Pages of documents
/// before are kept.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Outcome<Vec<PathBuf>> {
    let is_asked = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let asked: Vec<(&str, u64)> =
        DOCUMENTS.into_iter().filter(|(name, _)| is_asked(name)).collect();
    if asked.is_empty() {
        let names = DOCUMENTS.map(|(name, _)| name).join(", ");
        return Err(format!("--only: expected one of {names}").into());
    }
    // Before minutes of work: can pages be written?
    fs::create_dir_all(&options.out)
        .map_err(|error| format!("{}: {error}", options.out.display()))?;
    let agents = options.agents.clone();
    let agents = agents.map(|(names, secret)| Arc::new(Agents { names, secret }));
    let mut pages = Vec::new();
    for (name, minutes) in asked {
        match options.is_quick {
            true => say(&format!("{name}: about a minute")),
            false => say(&format!("{name}: about {minutes} minutes on two quiet cores")),
        }
        let (begun, before) = (Instant::now(), Busy::now());
        let mut bed = Bed {
            program: &options.program,
            agents: agents.clone(),
            is_quick: options.is_quick,
            say: &mut *say,
        };
        let mut page = match name {
            "000" => thesis::measure(&mut bed)?,
            "001" => riak::measure(&mut bed)?,
            "002" => course::measure(&mut bed)?,
            "003" => volumes::measure(&mut bed)?,
            _ => scalaris::measure(&mut bed)?,
        };
        source(&mut page, options, begun, &before);
        pages.push(page.save(&options.out)?);
    }
    Ok(pages)
}

/// Where the figures of a page come from.
fn source(page: &mut Page, options: &Options, begun: Instant, before: &Busy) {
    let seconds = begun.elapsed().as_secs_f64();
    let busy = Busy::now();
    let ours = (busy.ours - before.ours) / seconds;
    let others = ((busy.all - before.all) / seconds - ours).max(0.0);
    page.head("Where these figures come from");
    let machine = machine::describe();
    page.list(&[
        format!("Machine: {}", machine.line()),
        format!("Command: `{}`, {seconds:.0} s", options.command),
        format!(
            "Load: nodes, clients and simulations took {ours:.2} of {} processors on average, \
             other processes {others:.2}. Above some 0.1 the rates of this page are too low; \
             ratios and processor time per request suffer less.",
            machine.cores
        ),
    ]);
    if let Some((names, _)) = &options.agents {
        page.say(&format!(
            "Nodes ran in turn on the hosts of {} agents ({}), and each agent made a part of the \
             load. Processors above are those of the controller's host alone. Where this page says \
             that all share one machine, it speaks of runs without agents; so does the cost model \
             of 001.",
            names.len(),
            names.join(", ")
        ));
    }
    if cfg!(debug_assertions) {
        page.say(
            "The program was built with debug assertions (`cargo build` without `--release`): it \
             is slower than `make dist`, with which pages are to be made.",
        );
    }
    if options.is_quick {
        page.say(
            "This is a short form (`--quick`): each figure is one run of a second or less, which \
             shows that the measurement works, and little more.",
        );
    }
}

/// Processor time until now, in seconds.
struct Busy {
    /// Of everybody.
    all: f64,
    /// Of this process and those that it has started and ended.
    ours: f64,
}

impl Busy {
    fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let sum = |text: &str, fields: &[usize]| {
            let all: Vec<&str> = text.split_whitespace().collect();
            let ticks = fields.iter().filter_map(|at| all.get(*at)?.parse::<f64>().ok());
            ticks.sum::<f64>() / TICKS_PER_SECOND
        };
        // cpu user nice system idle iowait irq softirq: all but the two that wait.
        let all = sum(read("/proc/stat").lines().next().unwrap_or_default(), &[1, 2, 3, 6, 7]);
        // After the name in brackets: utime, stime, and those of children that have ended.
        let own = read("/proc/self/stat");
        let own = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        Self { all, ours: sum(own, &[11, 12, 13, 14]) }
    }
}

/// A share, as tables show it.
fn percent(share: f64) -> String {
    format!("{} %", shown(100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_documents_are_refused_before_anything_starts() {
        let options = Options {
            only: Some("005".to_owned()),
            is_quick: true,
            out: "/nonexistent/papers".into(),
            agents: None,
            program: "false".into(),
            command: String::new(),
        };
        let why = run(&options, &mut |_| {}).unwrap_err().to_string();
        assert_eq!(why, "--only: expected one of 000, 002, 001, 004, 003");
        let options = Options { only: None, out: "/proc/papers".into(), ..options };
        assert!(run(&options, &mut |_| {}).unwrap_err().to_string().starts_with("/proc/papers: "));
    }

    #[test]
    fn time_that_this_process_takes_is_seen() {
        let before = Busy::now();
        let mut number = 1u64;
        while Busy::now().ours - before.ours < 0.05 {
            number = number.wrapping_mul(31).wrapping_add(7);
        }
        assert!(Busy::now().all > before.all, "{number}");
    }
}
