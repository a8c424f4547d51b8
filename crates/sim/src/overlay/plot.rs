//! Charts of what was measured, each with the name of its file.

use std::collections::BTreeMap;

use chart::{Line, Ring, lines as draw, log, plain, rings};
use overlay::request::Form;

use super::churn::{self, Event};
use super::connections::{self, ConnectionCount};
use super::join::{Cost, break_even};
use super::load::Load;
use super::requests::{self, FAILING, Network, SPAN_US, WINDOWS};
use super::{Kind, Report};

/// The most hops that a spread shows.
const SPREAD_HOPS_MAX: usize = 100;

/// A picture, and the name of its file.
pub type Chart = (String, String);

/// The colour of a lookup; 0 is nobody's.
fn colour(kind: Kind) -> usize {
    kind as usize + 1
}

/// Charts of hops.
pub fn charts(report: &Report) -> Vec<Chart> {
    vec![("hops.svg".into(), hops(report)), ("spread.svg".into(), spread(report))]
}

/// Mean hops by size.
fn hops(report: &Report) -> String {
    let mut lines: BTreeMap<Kind, Vec<(f64, f64)>> = BTreeMap::new();
    let mut half = Vec::new();
    for run in &report.runs {
        // Neither axis has a place for 0, nor for what is nearly that: full, and lh.
        let mean = run.hops.mean();
        if mean >= 0.1 {
            lines.entry(run.kind).or_default().push((run.nodes as f64, mean));
        }
        if run.nodes > 1 {
            half.push((run.nodes as f64, run.half_log()));
        }
    }
    half.dedup();
    let lines =
        lines.into_iter().map(|(kind, points)| Line::new(kind.name(), colour(kind), points));
    let papers = Line::new("½·log2 N", 0, half).dashed();
    let lines: Vec<Line> = lines.chain([papers]).collect();
    draw("Hops to the owner, by members", [log("members"), log("mean hops")], &lines)
}

/// Which part of all lookups took how many hops, on the largest ring; of lookups with more than
/// [`SPREAD_HOPS_MAX`] nothing could be seen beside the others.
fn spread(report: &Report) -> String {
    let nodes = report.runs.iter().map(|run| run.nodes).max().unwrap_or_default();
    let fits = |run: &&super::Run| run.nodes == nodes && run.hops.max() <= SPREAD_HOPS_MAX;
    let here = report.runs.iter().filter(fits);
    let line = |run: &super::Run| {
        let points = run.hops.parts().map(|(hops, part)| (hops as f64, 100.0 * part));
        Line::new(run.kind.name(), colour(run.kind), points.collect())
    };
    let title = format!("How many lookups take how many hops, {nodes} members");
    draw(&title, [plain("hops"), plain("% of lookups")], &here.map(line).collect::<Vec<_>>())
}

/// How uneven load is, by shards of a node, on the largest ring.
pub(super) fn loads(loads: &[Load]) -> Vec<Chart> {
    let nodes = loads.iter().map(|load| load.nodes).max().unwrap_or_default();
    let here = || loads.iter().filter(|load| load.nodes == nodes);
    let by_shards = |of: &dyn Fn(&Load, f64) -> f64| {
        let drawn = here().filter_map(|load| Some((load, load.shards? as f64)));
        drawn.map(|(load, shards)| (shards, of(load, shards))).collect::<Vec<_>>()
    };
    let most = by_shards(&|_, shards| shards).last().map_or(1.0, |(shards, _)| *shards);
    let file = here().find(|load| load.shards.is_none()).map(|load| load.deviation);
    let file = file.map(|deviation| vec![(1.0, deviation), (most, deviation)]);
    let lines = [
        Line::new("measured", 1, by_shards(&|load, _| load.deviation)),
        Line::new("1/√v", 0, by_shards(&|_, shards| 1.0 / shards.sqrt())).dashed(),
        Line::new("a file of lh, one arc", 5, file.unwrap_or_default()).dashed(),
    ];
    let title = format!("How uneven load is on {nodes} nodes");
    let axes = [log("shards of each node, v"), plain("σ/mean")];
    vec![("load.svg".into(), draw(&title, axes, &lines))]
}

/// What a join costs, by members.
pub(super) fn costs(costs: &[Cost]) -> Vec<Chart> {
    let by = |of: &dyn Fn(&Cost) -> f64| {
        let positive = costs.iter().filter(|cost| of(cost) > 0.0);
        positive.map(|cost| (cost.nodes as f64, of(cost))).collect::<Vec<_>>()
    };
    let lines = [
        Line::new("full", colour(Kind::Full), by(&|cost| cost.full)),
        Line::new("chord", colour(Kind::Chord), by(&|cost| cost.chord)),
        Line::new("64·log2 N", 0, by(&|cost| cost.papers)).dashed(),
    ];
    let even = break_even(costs, |cost| cost.chord);
    let even = even.map_or(String::new(), |even| format!(", even at about {even:.0} members"));
    let title = format!("Messages of a join{even}");
    vec![("join.svg".into(), draw(&title, [log("members"), log("messages")], &lines))]
}

/// Which part of all tables is right after how many rounds: a chart for each event, of the largest
/// ring.
pub(super) fn churns(outcomes: &[churn::Outcome]) -> Vec<Chart> {
    let nodes = outcomes.iter().map(|outcome| outcome.nodes).max().unwrap_or_default();
    let of = |event: Event| {
        let here = outcomes.iter().filter(|one| one.nodes == nodes && one.event == event);
        let line = |one: &churn::Outcome| {
            let points = one.right.iter().enumerate();
            let points = points.map(|(round, part)| (round as f64, 100.0 * part)).collect();
            Line::new(one.kind.name(), colour(one.kind), points)
        };
        let moved = here.clone().map(|one| one.moved).max().unwrap_or_default();
        let verb = event.name().trim_end_matches('s');
        let title = format!("Tables that are right after {moved} {verb} at once, of {nodes}");
        let axes = [plain("rounds"), plain("% of tables")];
        let name = format!("churn-{}.svg", event.name());
        (name, draw(&title, axes, &here.map(line).collect::<Vec<_>>()))
    };
    Event::ALL.into_iter().map(of).collect()
}

/// How many requests failed while members were dead, on the largest ring, and how long they took
/// where nothing happens. Of linear walks, which fail for being long, nothing is shown beside the
/// others.
pub(super) fn requests(outcomes: &[requests::Outcome]) -> Vec<Chart> {
    let nodes = outcomes.iter().map(|outcome| outcome.nodes).max().unwrap_or_default();
    let failing = |one: &&requests::Outcome| {
        let is_shown = one.form != Form::SemiRecursive && one.kind != Kind::Linear;
        one.nodes == nodes && one.network == Network::Failing && is_shown
    };
    let line = |one: &requests::Outcome| {
        let seconds = SPAN_US as f64 / 1e6 / WINDOWS as f64;
        let points = one.windows.iter().enumerate().filter(|(_, (begun, _))| *begun > 0);
        let points = points.map(|(at, (begun, found))| {
            let failed = 100.0 * (begun - found) as f64 / *begun as f64;
            ((at as f64 + 0.5) * seconds, failed)
        });
        named(one, points.collect())
    };
    let lines: Vec<Line> = outcomes.iter().filter(failing).map(line).collect();
    let title = format!("Requests that fail, {} of {nodes} members dead from 0 s", nodes / FAILING);
    let axes = [plain("begun at, s"), plain("% failed")];
    let answered = ("requests.svg".into(), draw(&title, axes, &lines));
    let mut times: BTreeMap<(Kind, Form), Line> = BTreeMap::new();
    for one in outcomes.iter().filter(|one| one.network == Network::Calm && one.found > 0) {
        if one.took_ms(50) > 0.0 && one.form != Form::SemiRecursive {
            let line = times.entry((one.kind, one.form)).or_insert_with(|| named(one, Vec::new()));
            line.points.push((one.nodes as f64, one.took_ms(50)));
        }
    }
    let times: Vec<Line> = times.into_values().collect();
    let axes = [log("members"), log("ms, p50")];
    let took = draw("How long requests take, a message 1 ms", axes, &times);
    vec![answered, ("requests-time.svg".into(), took)]
}

/// Of one lookup, dashed if it is passed on.
fn named(one: &requests::Outcome, points: Vec<(f64, f64)>) -> Line {
    let name = format!("{}, {}", one.kind.name(), one.form.name());
    let line = Line::new(name, colour(one.kind), points);
    if one.form == Form::Iterative { line } else { line.dashed() }
}

/// The number of connections, by nodes; and which nodes they join, where a picture can show that.
pub(super) fn connections(counts: &[ConnectionCount]) -> Vec<Chart> {
    let line = |kind: Kind| {
        let here = counts.iter().filter(|count| count.kind == kind && count.connections > 0);
        let points = here.map(|count| (count.nodes as f64, count.connections as f64)).collect();
        Line::new(kind.name(), colour(kind), points)
    };
    let lines: Vec<Line> = connections::KINDS.into_iter().map(line).collect();
    let axes = [log("nodes"), log("connections")];
    let chart = ("connections.svg".into(), draw("Connections in all, by nodes", axes, &lines));
    let drawn = counts.iter().filter(|count| !count.pairs.is_empty());
    let drawn = drawn.filter(|count| [Kind::Full, Kind::Chord].contains(&count.kind));
    let mut pictures: BTreeMap<usize, Vec<&ConnectionCount>> = BTreeMap::new();
    drawn.for_each(|count| pictures.entry(count.nodes).or_default().push(count));
    let picture = |(nodes, counts): (usize, Vec<&ConnectionCount>)| {
        let title = format!("Connections between {nodes} nodes");
        let circles: Vec<Ring> = counts.into_iter().map(ring).collect();
        (format!("connections-{nodes}.svg"), rings(&title, &circles))
    };
    [chart].into_iter().chain(pictures.into_iter().map(picture)).collect()
}

/// The nodes on a circle, and who is connected with whom.
fn ring(count: &ConnectionCount) -> Ring {
    let (kind, connections, of_each) = (count.kind, count.connections, count.of_each());
    Ring {
        caption: format!("{}: {connections} connections, {of_each:.1} of each node", kind.name()),
        colour: colour(kind),
        nodes: count.nodes,
        pairs: count.pairs.clone(),
    }
}
