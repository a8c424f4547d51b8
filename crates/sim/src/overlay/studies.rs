//! What else is measured of rings, each as a table and as JSON.

use std::fmt::Write;
use std::str::FromStr;

use super::churn::{self, Event, Outcome};
use super::report::{self, aligned};
use super::{Options, Progress, Report, join, load};

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Study {
    /// Hops and messages of lookups ([`super::run`]).
    #[default]
    Hops,
    /// How even load is ([`load`]).
    Load,
    /// What a join costs ([`join`]).
    Join,
    /// What happens when many come, fail or leave ([`churn`]).
    Churn,
}

impl Study {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hops, Self::Load, Self::Join, Self::Churn];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hops => "hops",
            Self::Load => "load",
            Self::Join => "join",
            Self::Churn => "churn",
        }
    }
}

/// There is no study of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no study '{0}': hops, load, join or churn")]
pub struct NoSuchStudy(pub String);

impl FromStr for Study {
    type Err = NoSuchStudy;

    fn from_str(text: &str) -> Result<Self, NoSuchStudy> {
        let found = Self::ALL.into_iter().find(|study| study.name() == text);
        found.ok_or_else(|| NoSuchStudy(text.to_owned()))
    }
}

/// What a study found.
#[derive(Clone, Debug)]
pub struct Found {
    /// For people.
    pub table: String,
    /// For programs.
    pub json: String,
    /// Whether every answer was right.
    pub well: bool,
}

impl Report {
    /// As a study finds it.
    pub fn found(&self) -> Found {
        let table = report::table(self) + &report::notes(self);
        let well = self.runs.iter().all(|run| run.wrong == 0);
        Found { table, json: report::json(self), well }
    }
}

/// Measures: a pure function of its options.
pub fn study(study: Study, options: &Options, progress: Progress<'_>) -> Found {
    let each = |what: &str, done: usize, of: usize| progress(what, done as u64, of as u64);
    let sizes = options.nodes.len();
    match study {
        Study::Hops => super::run(options, progress).found(),
        Study::Load => {
            let loads = options.nodes.iter().enumerate().flat_map(|(done, nodes)| {
                each("load", done, sizes);
                load::loads(*nodes, options.seed)
            });
            of_loads(&loads.collect::<Vec<_>>())
        }
        Study::Join => {
            let costs = options.nodes.iter().enumerate().map(|(done, nodes)| {
                each("join", done, sizes);
                join::cost(*nodes, options.seed)
            });
            of_costs(&costs.collect::<Vec<_>>())
        }
        Study::Churn => {
            let mut outcomes = Vec::new();
            for nodes in &options.nodes {
                for kind in &options.kinds.0 {
                    for (done, event) in Event::ALL.into_iter().enumerate() {
                        let what = format!("{} at once, {kind}, {nodes} nodes", event.name());
                        each(&what, done, Event::ALL.len());
                        outcomes.extend(churn::outcome(*kind, event, *nodes, options.seed));
                    }
                }
            }
            of_outcomes(&outcomes)
        }
    }
}

/// Rows under headings; and a row of JSON for each, under the study's name.
fn found<const N: usize>(
    name: &str,
    headings: [&str; N],
    rows: Vec<([String; N], String)>,
    note: &str,
) -> Found {
    let (cells, rows): (Vec<[String; N]>, Vec<String>) = rows.into_iter().unzip();
    let cells: Vec<[String; N]> = [headings.map(str::to_owned)].into_iter().chain(cells).collect();
    let json = format!("{{\"{name}\": [\n  {}\n]}}\n", rows.join(",\n  "));
    Found { table: aligned(&cells) + note, json, well: true }
}

fn of_loads(loads: &[load::Load]) -> Found {
    let rows = loads.iter().map(|load| {
        let load::Load { nodes, shards, deviation, largest } = load;
        let (shown, number, expected) = match shards {
            Some(shards) => {
                let expected = format!("{:.3}", 1.0 / (*shards as f64).sqrt());
                (shards.to_string(), shards.to_string(), expected)
            }
            None => ("file".to_owned(), "null".to_owned(), "-".to_owned()),
        };
        let json = format!(
            "{{\"nodes\": {nodes}, \"shards_per_node\": {number}, \"deviation\": {deviation:.6}, \
             \"largest\": {largest:.6}}}"
        );
        let (deviation, largest) = (format!("{deviation:.3}"), format!("{largest:.3}"));
        ([nodes.to_string(), shown, deviation, expected, largest], json)
    });
    let headings = ["nodes", "shards a node", "σ/mean", "1/√v", "largest/mean"];
    let note = "loads are parts of the circle; file: one arc of a file of linear hashing a node\n";
    found("load", headings, rows.collect(), note)
}

fn of_costs(costs: &[join::Cost]) -> Found {
    let rows = costs.iter().map(|cost| {
        let join::Cost { nodes, full, chord, papers } = cost;
        let json = format!(
            "{{\"nodes\": {nodes}, \"full\": {full:.1}, \"chord\": {chord:.3}, \
             \"chord_by_papers\": {papers:.3}}}"
        );
        let cells = [
            nodes.to_string(),
            format!("{full:.0}"),
            format!("{chord:.1}"),
            format!("{papers:.1}"),
            if full <= chord { "full" } else { "chord" }.to_owned(),
        ];
        (cells, json)
    });
    let headings = ["nodes", "full", "chord", "64·log2 N", "cheaper"];
    found("join", headings, rows.collect(), "messages until all tables are right, for one join\n")
}

fn of_outcomes(outcomes: &[Outcome]) -> Found {
    let rounds = |rounds: Option<usize>, none: &str| {
        rounds.map_or(none.to_owned(), |rounds| rounds.to_string())
    };
    let rows = outcomes.iter().map(|outcome| {
        let Outcome { kind, event, nodes, moved, to_ring, to_tables, .. } = outcome;
        let Outcome { messages, requests, failed, wrong, hops, .. } = outcome;
        let event = event.name();
        let mut json = format!(
            "{{\"lookup\": \"{kind}\", \"event\": \"{event}\", \"nodes\": {nodes}, \"moved\": \
             {moved}, \"rounds_to_ring\": {}, \"rounds_to_tables\": {}, ",
            rounds(*to_ring, "null"),
            rounds(*to_tables, "null"),
        );
        let _never = write!(
            json,
            "\"messages\": {messages}, \"lookups\": {requests}, \"failed\": {failed}, \"wrong\": \
             {wrong}, \"hops_mean\": {hops:.6}}}"
        );
        let cells = [
            kind.to_string(),
            nodes.to_string(),
            format!("{moved} {event}"),
            rounds(*to_ring, "-"),
            rounds(*to_tables, "-"),
            messages.to_string(),
            requests.to_string(),
            failed.to_string(),
            wrong.to_string(),
            format!("{hops:.3}"),
        ];
        (cells, json)
    });
    let headings = [
        "lookup",
        "nodes",
        "at once",
        "rounds to ring",
        "to tables",
        "messages",
        "lookups",
        "failed",
        "wrong",
        "hops mean",
    ];
    let note = "a round: each member ticks, and all that is said then arrives\n";
    let well = outcomes.iter().all(|outcome| outcome.wrong == 0);
    Found { well, ..found("churn", headings, rows.collect(), note) }
}
