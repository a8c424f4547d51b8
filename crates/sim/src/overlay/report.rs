//! The results: a table for people, JSON for programs.

use std::fmt::Write;

use super::{Kind, LINEAR_MOVES_MAX, Report, Run};

/// Messages of a lookup, on average, in each way of going.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// The asker asks each member itself, and each answers.
    pub iterative: f64,
    /// It is passed on; the owner answers the asker.
    pub recursive: f64,
    /// It is passed on; the answer goes back by the same way.
    pub semi_recursive: f64,
}

impl Run {
    /// Messages of its lookups.
    pub fn messages(&self) -> Messages {
        let mean = self.hops.mean();
        match self.is_from_outside() {
            true => {
                let moves = 1.0 + mean;
                Messages {
                    iterative: 2.0 * moves,
                    recursive: moves + 1.0,
                    semi_recursive: 2.0 * moves,
                }
            }
            false => Messages {
                iterative: 2.0 * mean,
                // An answer, unless the asker is the owner.
                recursive: mean + self.hops.above_zero(),
                semi_recursive: 2.0 * mean,
            },
        }
    }
}

const HEADINGS: [&str; 14] = [
    "lookup",
    "nodes",
    "lookups",
    "hops mean",
    "p50",
    "p99",
    "max",
    "½·log2 N",
    "of it",
    "msgs iter.",
    "msgs rec.",
    "entries",
    "connections",
    "wrong",
];

/// Rows under headings, names to the left and numbers to the right.
pub fn table(report: &Report) -> String {
    let rows = report.runs.iter().map(|run| {
        let Run { kind, nodes, requests, hops, entries, connections, wrong, .. } = run;
        let messages = run.messages();
        let of_it = match run.half_log() {
            0.0 => "-".to_owned(),
            half => format!("{:.3}", hops.mean() / half),
        };
        [
            kind.name().to_owned(),
            nodes.to_string(),
            requests.to_string(),
            format!("{:.3}", hops.mean()),
            hops.percentile(50).to_string(),
            hops.percentile(99).to_string(),
            hops.max().to_string(),
            format!("{:.3}", run.half_log()),
            of_it,
            format!("{:.2}", messages.iterative),
            format!("{:.2}", messages.recursive),
            format!("{entries:.1}"),
            format!("{connections:.1}"),
            wrong.to_string(),
        ]
    });
    let rows: Vec<[String; HEADINGS.len()]> =
        [HEADINGS.map(str::to_owned)].into_iter().chain(rows).collect();
    aligned(&rows)
}

/// What a reader of the table should know.
pub fn notes(report: &Report) -> String {
    let has = |kind| report.runs.iter().any(|run| run.kind == kind);
    let super::Options { keys, seed, successors, .. } = &report.options;
    let mut out = format!("keys {}, seed {seed}, lists of {successors} successors\n", keys.name());
    out += "a hop is a move from member to member, the one to the owner included; who has a full \
            table, or a client of lh, asks a member at once, and that is none\n";
    out += "semi-recursive lookups take as many messages as iterative ones\n";
    if has(Kind::Full) {
        out += "full: tables of one version are equal, and held once for all members\n";
    }
    if report.runs.iter().any(|run| run.requests < report.options.requests) {
        let _never =
            writeln!(out, "linear: asked fewer times, for {LINEAR_MOVES_MAX} moves in all or so");
    }
    for run in &report.runs {
        if let Some(growth) = &run.file {
            let super::linear_hash::Growth { learnt, still, utilisation, utilisation_mean, .. } =
                growth;
            let _never = writeln!(
                out,
                "lh, {} buckets: while the file grows, hops are forwards by the image; then still \
                 {:.4} (at most {}); of clients that learn addresses from answers {:.4} (at most \
                 {}); utilisation {utilisation:.3} at the end, {utilisation_mean:.3} on the way",
                run.nodes,
                still.mean(),
                still.max(),
                learnt.mean(),
                learnt.max(),
            );
        }
    }
    out
}

/// Cells in columns: the first to the left, the others to the right.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut out = String::new();
    for row in rows {
        let _never = write!(out, "{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            let _never = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

/// `{"runs": [{"lookup": "full", "nodes": 1000, "hops": {"mean": …}, …}]}`
pub fn json(report: &Report) -> String {
    let runs: Vec<String> = report.runs.iter().map(|run| one(report, run)).collect();
    format!("{{\"runs\": [\n  {}\n]}}\n", runs.join(",\n  "))
}

fn one(report: &Report, run: &Run) -> String {
    let Run { kind, nodes, requests, hops, entries, connections, wrong, file } = run;
    let Messages { iterative, recursive, semi_recursive } = run.messages();
    let mut out = format!(
        "{{\"lookup\": \"{}\", \"nodes\": {nodes}, \"hops\": {{\"mean\": {:.6}, \"p50\": {}, \
         \"p99\": {}, \"max\": {}}}, \"messages_per_lookup\": {iterative:.6}, \
         \"messages_recursive\": {recursive:.6}, \"messages_semi_recursive\": \
         {semi_recursive:.6}, \"table_entries\": {entries:.6}, \"connections\": \
         {connections:.6}, \"half_log2_nodes\": {:.6}, \"lookups\": {requests}, \"wrong\": \
         {wrong}, \"keys\": \"{}\", \"seed\": {}, \"successors\": {}",
        kind.name(),
        hops.mean(),
        hops.percentile(50),
        hops.percentile(99),
        hops.max(),
        run.half_log(),
        report.options.keys.name(),
        report.options.seed,
        report.options.successors,
    );
    if let Some(growth) = file {
        let super::linear_hash::Growth { learnt, still, utilisation, utilisation_mean, ahead } =
            growth;
        let _never = write!(
            out,
            ", \"forwards\": {{\"mean\": {:.6}, \"max\": {}, \"mean_still\": {:.6}, \
             \"max_still\": {}, \"mean_learnt\": {:.6}, \"max_learnt\": {}}}, \
             \"utilisation\": {utilisation:.6}, \"utilisation_mean\": {utilisation_mean:.6}, \
             \"images_ahead\": {ahead}",
            hops.mean(),
            hops.max(),
            still.mean(),
            still.max(),
            learnt.mean(),
            learnt.max(),
        );
    }
    out.push('}');
    out
}
