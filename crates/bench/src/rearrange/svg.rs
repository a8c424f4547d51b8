//! A timeline as a picture: small charts above each other, with one axis of time, and a line
//! through all of them for each event. Written by hand, legible on light and dark ground.

use std::fmt::Write;

use super::timeline::{NodeSecond, Second, Timeline, shown};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
/// Title, machine, nodes.
const HEAD: f64 = 76.0;
/// A row of events' names.
const ROW: f64 = 15.0;
/// Rows of events' names at most; names that find no room stand over others.
const ROWS: usize = 4;
/// Of a chart, and what is above it for its name.
const CHART: f64 = 64.0;
const GAP: f64 = 24.0;
const FOOT: f64 = 40.0;
/// Of a letter of an event's name, about.
const LETTER: f64 = 6.0;
const MIB: f64 = 1_048_576.0;

/// Colours of text, grid and nodes, on light ground and on dark.
const STYLE: &str = "\
text{font:11px system-ui,sans-serif;fill:#24292f}\
.title{font-size:15px;font-weight:600}.soft{fill:#57606a}\
.ground{fill:#fff}.grid{stroke:#d0d7de;stroke-width:1}\
.event{stroke:#8250df;stroke-width:1;stroke-dasharray:3 3}.said{fill:#8250df}\
.limit{stroke:#cf222e;stroke-width:1;stroke-dasharray:6 3}\
.line{fill:none;stroke-width:1.5;stroke-linejoin:round}\
.c0{stroke:#57606a}.c1{stroke:#0969da}.c2{stroke:#bc4c00}.c3{stroke:#1a7f37}.c4{stroke:#bf3989}\
.c5{stroke:#9a6700}.c6{stroke:#0f7f8f}.c7{stroke:#6639ba}.c8{stroke:#cf222e}.c9{stroke:#6e7781}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.ground{fill:#0d1117}\
.grid{stroke:#30363d}.event{stroke:#be8fff}.said{fill:#be8fff}.limit{stroke:#ff7b72}\
.c0{stroke:#9198a1}.c1{stroke:#58a6ff}.c2{stroke:#f0883e}.c3{stroke:#3fb950}.c4{stroke:#f778ba}\
.c5{stroke:#d29922}.c6{stroke:#39c5cf}.c7{stroke:#bc8cff}.c8{stroke:#ff7b72}.c9{stroke:#b1bac4}}";

/// What must not be passed, where it matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Requests answered in a second, at least.
    pub answered: Option<f64>,
    /// A client's wait, at most.
    pub wait_ms: Option<f64>,
}

/// A chart.
struct Chart {
    name: &'static str,
    unit: &'static str,
    lines: Vec<Line>,
    /// What must not be passed, if anything.
    limit: Option<f64>,
}

/// A line: its colour's number, and its points, by second.
struct Line {
    colour: usize,
    points: Vec<(f64, f64)>,
}

/// The picture.
pub fn render(timeline: &Timeline, limits: Limits) -> String {
    let charts = charts(timeline, limits);
    let end = timeline.seconds.last().map_or(1.0, |second| second.at_s as f64 + 1.0).max(1.0);
    let x = |at_s: f64| LEFT + (WIDTH - LEFT - RIGHT) * at_s / end;
    let (labels, rows) = labels(timeline, &x);
    let top = HEAD + rows as f64 * ROW + 6.0;
    let bottom = top + charts.len() as f64 * (CHART + GAP);
    let height = bottom + FOOT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        escaped(&timeline.title)
    );
    let setup = &timeline.setup;
    let machine = &timeline.machine;
    text(&mut out, LEFT, 24.0, "title", "start", &timeline.title);
    let about = format!(
        "{} clients, {} shards, {:.0} MiB ×3, move_rate {:.0} MiB/s; {}, {} cores, commit {}",
        setup.clients,
        setup.shards,
        setup.filled_bytes as f64 / MIB,
        setup.move_rate as f64 / MIB,
        machine.cpu,
        machine.cores,
        machine.commit
    );
    text(&mut out, LEFT, 42.0, "soft", "start", &about);
    legend(&mut out, setup.nodes + setup.held);
    for (event, (row, anchor)) in timeline.events.iter().zip(labels) {
        let (at, y) = (x(event.at_s), HEAD + row as f64 * ROW + 10.0);
        let beside = if anchor == "end" { -4.0 } else { 4.0 };
        text(&mut out, at + beside, y, "said", anchor, &event.what);
        line(&mut out, "event", (at, y - 9.0), (at, bottom));
    }
    for (place, chart) in charts.iter().enumerate() {
        let base = top + (place + 1) as f64 * (CHART + GAP);
        draw(&mut out, chart, base, &x);
    }
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0].into_iter().find(|step| end / step <= 16.0);
    let step = step.unwrap_or(120.0);
    for tick in (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= end) {
        line(&mut out, "grid", (x(tick), bottom), (x(tick), bottom + 4.0));
        text(&mut out, x(tick), bottom + 16.0, "soft", "middle", &shown(tick));
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    text(&mut out, middle, bottom + 32.0, "soft", "middle", "seconds since the load began");
    out += "</svg>\n";
    out
}

fn charts(timeline: &Timeline, limits: Limits) -> Vec<Chart> {
    let all = |of: fn(&Second) -> f64| {
        let points = timeline.seconds.iter().map(|second| (second.at_s as f64 + 0.5, of(second)));
        vec![Line { colour: 1, points: points.collect() }]
    };
    let nodes = |of: fn(&NodeSecond) -> f64| {
        let count = timeline.setup.nodes + timeline.setup.held;
        (1..=count).map(|node| of_node(timeline, node, of)).collect()
    };
    let chart = |name, unit, lines| Chart { name, unit, lines, limit: None };
    vec![
        Chart {
            limit: limits.answered,
            ..chart("requests answered", "per second", all(|second| second.answered as f64))
        },
        chart(
            "requests failed (not done, unknown)",
            "per second",
            all(|second| (second.not_done + second.unknown) as f64),
        ),
        Chart {
            limit: limits.wait_ms,
            ..chart("longest wait of a client", "ms", all(|second| second.longest_wait_ms))
        },
        chart("bytes moved", "MiB/s", all(|second| second.moved_bytes as f64 / MIB)),
        chart("bytes of each node", "MiB", nodes(|node| node.bytes as f64 / MIB)),
        chart("replicas of each node", "", nodes(|node| node.replicas as f64)),
        chart("leaders of each node", "", nodes(|node| node.leaders as f64)),
        chart("processor of each node", "cores", nodes(|node| node.processor)),
        chart("taken away by the host", "cores", all(|second| second.host_taken)),
    ]
}

fn of_node(timeline: &Timeline, node: usize, of: fn(&NodeSecond) -> f64) -> Line {
    let point = |second: &Second| {
        let sample = second.nodes.iter().find(|sample| sample.node == node)?;
        Some((second.at_s as f64 + 1.0, of(sample)))
    };
    Line { colour: node, points: timeline.seconds.iter().filter_map(point).collect() }
}

fn draw(out: &mut String, chart: &Chart, base: f64, x: &impl Fn(f64) -> f64) {
    let values = chart.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
    let most = nice(values.chain(chart.limit).fold(0.0, f64::max));
    let y = |value: f64| base - CHART * value / most;
    for part in [0.0, 0.5, 1.0] {
        let at = y(part * most);
        line(out, "grid", (LEFT, at), (WIDTH - RIGHT, at));
        text(out, LEFT - 6.0, at + 4.0, "soft", "end", &shown(part * most));
    }
    let name = [chart.name, chart.unit].join(", ");
    text(out, LEFT, base - CHART - 6.0, "", "start", name.trim_end_matches(", "));
    if let Some(limit) = chart.limit {
        line(out, "limit", (LEFT, y(limit)), (WIDTH - RIGHT, y(limit)));
    }
    for Line { colour, points } in &chart.lines {
        let mut path = String::new();
        for (at_s, value) in points {
            let _infallible = write!(path, "{:.1},{:.1} ", x(*at_s), y(*value));
        }
        let (path, colour) = (path.trim_end(), colour_of(*colour));
        let _infallible = writeln!(out, "<polyline class=\"line c{colour}\" points=\"{path}\"/>");
    }
}

fn legend(out: &mut String, nodes: usize) {
    for node in 1..=nodes {
        let at = LEFT + (node - 1) as f64 * 72.0;
        let class = format!("line c{}", colour_of(node));
        line(out, &class, (at, 58.0), (at + 16.0, 58.0));
        text(out, at + 20.0, 62.0, "", "start", &format!("node {node}"));
    }
}

/// Colours are nine; nodes beyond share them.
fn colour_of(node: usize) -> usize {
    if node == 0 { 0 } else { (node - 1) % 9 + 1 }
}

/// The row of each event's name, to the left or right of its line, so that they do not meet; and
/// how many rows that takes.
fn labels(timeline: &Timeline, x: &impl Fn(f64) -> f64) -> (Vec<(usize, &'static str)>, usize) {
    let mut ends: Vec<f64> = Vec::new();
    let mut all = Vec::new();
    for event in &timeline.events {
        let (at, width) = (x(event.at_s), event.what.chars().count() as f64 * LETTER + 10.0);
        let anchor = if at + width > WIDTH { "end" } else { "start" };
        let from = if anchor == "end" { at - width } else { at };
        let free = ends.iter().position(|end| *end <= from);
        let row = free.unwrap_or(ends.len()).min(ROWS - 1);
        if row == ends.len() {
            ends.push(0.0);
        }
        ends[row] = from + width;
        all.push((row, anchor));
    }
    (all, ends.len())
}

/// A round number that is not below this one, and above 0.
fn nice(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    let round = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].into_iter().find(|step| step * power >= most);
    round.unwrap_or(10.0) * power
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _infallible = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, x: f64, y: f64, class: &str, anchor: &str, words: &str) {
    let words = escaped(words);
    let _infallible = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round_and_words_are_escaped() {
        assert_eq!([0.0, 0.7, 1.0, 3.1, 4_100.0].map(nice), [1.0, 0.8, 1.0, 4.0, 6_000.0]);
        assert_eq!(escaped("a < b & c"), "a &lt; b &amp; c");
    }
}
