//! The other studies of rings, each as a table and as JSON.

use std::fmt::Write;
use std::str::FromStr;

use overlay::request::Form;

use super::churn::{self, Event, Outcome};
use super::join::break_even;
use super::plot::{self, Chart};
use super::report::{self, aligned};
use super::requests::{self, Case, Network};
use super::{Kind, Options, Progress, Report, connections, join, load};

/// The studies.
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
    /// Requests that are sent as messages ([`requests`]).
    Requests,
    /// Which nodes are connected ([`connections`]).
    Connections,
}

impl Study {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Hops, Self::Load, Self::Join, Self::Churn, Self::Requests, Self::Connections];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hops => "hops",
            Self::Load => "load",
            Self::Join => "join",
            Self::Churn => "churn",
            Self::Requests => "requests",
            Self::Connections => "connections",
        }
    }

    /// Options that mean nothing to it, as they are typed.
    pub fn ignores(self) -> &'static [&'static str] {
        match self {
            Self::Hops => &[],
            Self::Load | Self::Join => &["lookup", "lookups", "keys", "successors"],
            Self::Churn => &["lookups", "keys", "successors"],
            Self::Requests => &["keys", "successors"],
            Self::Connections => &["lookup", "lookups", "keys"],
        }
    }

    /// Sizes of rings, by default.
    pub fn nodes(self) -> &'static [usize] {
        match self {
            Self::Hops | Self::Load | Self::Churn | Self::Requests => &[1000],
            Self::Join => &[10, 20, 50, 100, 1000, 10_000],
            Self::Connections => &[32, 100, 1000, 10_000],
        }
    }
}

/// There is no study of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no study '{0}': {names}", names = Study::ALL.map(Study::name).join(", "))]
pub struct NoSuchStudy(pub String);

impl FromStr for Study {
    type Err = NoSuchStudy;

    fn from_str(text: &str) -> Result<Self, NoSuchStudy> {
        let found = Self::ALL.into_iter().find(|study| study.name() == text);
        found.ok_or_else(|| NoSuchStudy(text.to_owned()))
    }
}

/// The result of a study.
#[derive(Clone, Debug)]
pub struct StudyResult {
    /// For people.
    pub table: String,
    /// For programs.
    pub json: String,
    /// For eyes.
    pub charts: Vec<Chart>,
    /// What must not be.
    pub flaw: Option<String>,
}

/// What must not be, if answers were wrong.
fn flaw_of(wrong: u64) -> Option<String> {
    (wrong > 0).then(|| format!("{wrong} answers were wrong"))
}

impl Report {
    /// As a study finds it.
    pub fn found(&self) -> StudyResult {
        let table = report::table(self) + &report::notes(self);
        let flaw = flaw_of(self.runs.iter().map(|run| run.wrong).sum());
        StudyResult { table, json: report::json(self), charts: plot::charts(self), flaw }
    }
}

/// Measures: a pure function of its options.
pub fn study(study: Study, options: &Options, progress: Progress<'_>) -> StudyResult {
    let each = |what: &str, done: usize, of: usize| progress(what, done as u64, of as u64);
    let sizes = || options.nodes.iter().copied().enumerate();
    let count = options.nodes.len();
    match study {
        Study::Hops => super::run(options, progress).found(),
        Study::Load => {
            let loads = sizes().flat_map(|(done, nodes)| {
                each("load", done, count);
                load::loads(nodes, options.seed)
            });
            of_loads(&loads.collect::<Vec<_>>())
        }
        Study::Join => {
            let costs = sizes().map(|(done, nodes)| {
                each("join", done, count);
                join::cost(nodes, options.seed)
            });
            of_costs(&costs.collect::<Vec<_>>())
        }
        Study::Churn => {
            let mut outcomes = Vec::new();
            for (nodes, kind) in pairs(options) {
                for (done, event) in Event::ALL.into_iter().enumerate() {
                    let name = kind.name();
                    let what = format!("{} at once, {name}, {nodes} nodes", event.name());
                    each(&what, done, Event::ALL.len());
                    outcomes.extend(churn::outcome(kind, event, nodes, options.seed));
                }
            }
            of_churns(&outcomes)
        }
        Study::Requests => {
            let mut outcomes = Vec::new();
            for (nodes, kind) in pairs(options) {
                let forms = |network| Form::ALL.map(|form| Case { kind, form, network });
                for case in Network::ALL.into_iter().flat_map(forms) {
                    let (kind, form, network) =
                        (kind.name(), case.form.name(), case.network.name());
                    let what = format!("{kind}, {nodes} nodes, {network}, {form}");
                    let told = |done| progress(&what, done, options.requests);
                    let (asked, seed) = (options.requests, options.seed);
                    outcomes.push(requests::outcome(case, nodes, asked, seed, &told));
                }
            }
            of_requests(&outcomes)
        }
        Study::Connections => {
            let counts = sizes().flat_map(|(done, nodes)| {
                each("connections", done, count);
                connections::counts(nodes, options)
            });
            of_counts(&counts.collect::<Vec<_>>())
        }
    }
}

/// Each size with each lookup.
fn pairs(options: &Options) -> impl Iterator<Item = (usize, Kind)> + '_ {
    let kinds = &options.kinds.0;
    options.nodes.iter().flat_map(move |nodes| kinds.iter().map(move |kind| (*nodes, *kind)))
}

/// Rows under headings; and a row of JSON for each, under the study's name.
fn found<const N: usize>(
    name: &str,
    headings: [&str; N],
    rows: Vec<([String; N], String)>,
    note: &str,
    charts: Vec<Chart>,
) -> StudyResult {
    let (cells, rows): (Vec<[String; N]>, Vec<String>) = rows.into_iter().unzip();
    let cells: Vec<[String; N]> = [headings.map(str::to_owned)].into_iter().chain(cells).collect();
    let json = format!("{{\"{name}\": [\n  {}\n]}}\n", rows.join(",\n  "));
    StudyResult { table: aligned(&cells) + note, json, charts, flaw: None }
}

fn of_loads(loads: &[load::Load]) -> StudyResult {
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
    found("load", headings, rows.collect(), note, plot::loads(loads))
}

fn of_costs(costs: &[join::Cost]) -> StudyResult {
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
    let mut note = "messages until all tables are right, for one join\n".to_owned();
    for (what, other) in [
        ("chord as counted", break_even(costs, |cost| cost.chord)),
        ("64·log2 N", break_even(costs, |cost| cost.papers)),
    ] {
        if let Some(even) = other {
            let _never = writeln!(note, "full costs as much as {what} with about {even:.0} nodes");
        }
    }
    found("join", headings, rows.collect(), &note, plot::costs(costs))
}

fn of_churns(outcomes: &[Outcome]) -> StudyResult {
    let rounds = |rounds: Option<usize>, none: &str| {
        rounds.map_or(none.to_owned(), |rounds| rounds.to_string())
    };
    let rows = outcomes.iter().map(|outcome| {
        let Outcome { kind, event, nodes, moved, to_ring, to_tables, .. } = outcome;
        let Outcome { messages, requests, failed, wrong, hops, .. } = outcome;
        let event = event.name();
        let mut json = format!(
            "{{\"lookup\": \"{}\", \"event\": \"{event}\", \"nodes\": {nodes}, \"moved\": \
             {moved}, \"rounds_to_ring\": {}, \"rounds_to_tables\": {}, ",
            kind.name(),
            rounds(*to_ring, "null"),
            rounds(*to_tables, "null"),
        );
        let _never = write!(
            json,
            "\"messages\": {messages}, \"lookups\": {requests}, \"failed\": {failed}, \"wrong\": \
             {wrong}, \"hops_mean\": {hops:.6}}}"
        );
        let cells = [
            kind.name().to_owned(),
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
    let wrong = flaw_of(outcomes.iter().map(|outcome| outcome.wrong).sum());
    let lost = outcomes.iter().find(|outcome| outcome.to_tables.is_none());
    let lost = lost.map(|Outcome { kind, event, nodes, .. }| {
        let (kind, event, most) = (kind.name(), event.name(), churn::ROUNDS_MAX);
        format!("{kind}, {nodes} nodes, {event}: not right again after {most} rounds")
    });
    let charts = plot::churns(outcomes);
    StudyResult { flaw: wrong.or(lost), ..found("churn", headings, rows.collect(), note, charts) }
}

fn of_requests(outcomes: &[requests::Outcome]) -> StudyResult {
    let rows = outcomes.iter().map(|outcome| {
        let requests::Outcome { kind, form, network, nodes, requests: asked, .. } = outcome;
        let requests::Outcome { found, wrong, failed, attempts, hops, messages, .. } = outcome;
        let [silent, busy, lost] = failed;
        let part = *found as f64 / (*asked).max(1) as f64;
        let each = *messages as f64 / (*asked).max(1) as f64;
        let took = [50, 99, 100].map(|hundredths| outcome.took_ms(hundredths));
        let mut json = format!(
            "{{\"lookup\": \"{}\", \"form\": \"{}\", \"network\": \"{}\", \"nodes\": {nodes}, \
             \"lookups\": {asked}, \"found\": {found}, \"wrong\": {wrong}, \"failed\": \
             {{\"silent\": {silent}, \"busy\": {busy}, \"lost\": {lost}}}, ",
            kind.name(),
            form.name(),
            network.name(),
        );
        let [p50, p99, max] = took;
        let _never = write!(
            json,
            "\"attempts\": {{\"mean\": {:.6}, \"max\": {}}}, \"hops_mean\": {:.6}, \
             \"messages_per_lookup\": {each:.6}, \"ms\": {{\"p50\": {p50:.3}, \"p99\": {p99:.3}, \
             \"max\": {max:.3}}}, \"windows\": [",
            attempts.mean(),
            attempts.max(),
            hops.mean(),
        );
        let windows = outcome.windows.iter().map(|(begun, found)| format!("[{begun}, {found}]"));
        json += &windows.collect::<Vec<_>>().join(", ");
        json += "]}";
        let cells = [
            kind.name().to_owned(),
            nodes.to_string(),
            network.name().to_owned(),
            form.name().to_owned(),
            asked.to_string(),
            format!("{:.3}", 100.0 * part),
            format!("{silent} {busy} {lost}"),
            format!("{:.3}", attempts.mean()),
            attempts.max().to_string(),
            format!("{:.3}", hops.mean()),
            format!("{each:.2}"),
            format!("{p50:.1}"),
            format!("{p99:.1}"),
            format!("{max:.1}"),
            wrong.to_string(),
        ];
        (cells, json)
    });
    let headings = [
        "lookup", "nodes", "network", "form", "lookups", "% found", "s b l", "attempts", "max",
        "hops", "msgs", "ms p50", "p99", "max", "wrong",
    ];
    let note = "lossy: of 100 messages one is lost, one doubled, five are late; failing: one of \
                100 members is dead from the beginning\n\
                s b l: failed, for nobody answered, nobody could say, or it went too far\n";
    let flaw = flaw_of(outcomes.iter().map(|outcome| outcome.wrong).sum());
    let charts = plot::requests(outcomes);
    StudyResult { flaw, ..found("requests", headings, rows.collect(), note, charts) }
}

fn of_counts(counts: &[connections::ConnectionCount]) -> StudyResult {
    let rows = counts.iter().map(|count| {
        let connections::ConnectionCount { kind, nodes, connections, .. } = count;
        let (kind, each) = (kind.name(), count.of_each());
        let json = format!(
            "{{\"lookup\": \"{kind}\", \"nodes\": {nodes}, \"connections\": {connections}, \
             \"of_each\": {each:.6}}}"
        );
        let cells =
            [kind.to_owned(), nodes.to_string(), connections.to_string(), format!("{each:.1}")];
        (cells, json)
    });
    let headings = ["lookup", "nodes", "connections", "of each"];
    let note = "two nodes are connected if one's table names the other\n";
    found("connections", headings, rows.collect(), note, plot::connections(counts))
}
