//! Which part of a failing run is needed to fail?
//!
//! The simulator repeats the run with fewer steps, fewer kinds of faults and fewer clients, as long
//! as it still breaks the same rule. The result is a shorter run, repeated by one command.

use crate::check::Violation;
use crate::options::{Fault, Options};
use crate::{Report, run};

/// Repetitions at most.
const RUNS_MAX: u32 = 120;

/// The smallest run that was found to break the rule that `report` says is broken, which is
/// `report` itself if there is no smaller one.
pub fn shrink(report: Report) -> Report {
    let mut search = Search { best: report, runs_left: RUNS_MAX };
    // Everything after the step in which it was seen is of no use.
    search.try_with(|options, step| options.steps = options.steps.min(step + 1));
    for fault in Fault::OF_CLUSTERS {
        search.best.options.faults = search.best.options.faults.without(fault);
    }
    loop {
        let before = search.best.options.clone();
        for fault in Fault::ALL {
            search.try_with(|options, _| options.faults = options.faults.without(fault));
        }
        for clients in [1, 2, 4] {
            search.try_with(|options, _| options.clients = options.clients.min(clients));
        }
        for (part, of) in [(1, 4), (1, 2), (3, 4), (9, 10)] {
            search.try_with(|options, _| options.steps = options.steps * part / of);
        }
        if search.best.options == before || search.runs_left == 0 {
            return search.best;
        }
    }
}

struct Search {
    best: Report,
    runs_left: u32,
}

impl Search {
    fn try_with(&mut self, change: impl Fn(&mut Options, u32)) {
        let mut options = self.best.options.clone();
        change(&mut options, self.best.step);
        if options == self.best.options || self.runs_left == 0 {
            return;
        }
        self.runs_left -= 1;
        let report = run(&options);
        if rule(&report).is_some() && rule(&report) == rule(&self.best) {
            self.best = report;
        }
    }
}

fn rule(report: &Report) -> Option<&'static str> {
    report.verdict.as_ref().err().map(|Violation { rule, .. }| *rule)
}
