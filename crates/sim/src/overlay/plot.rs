//! Charts, written by hand, legible on light and dark ground.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Kind, Report};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 48.0;
/// Marks on an axis, about.
const MARKS: f64 = 8.0;

/// The most hops that a spread shows.
const SPREAD_HOPS_MAX: usize = 100;

const STYLE: &str = "\
text{font:11px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}\
.ground{fill:#fff}.grid{stroke:#d0d7de}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}\
.dashed{stroke-dasharray:5 4}\
.c0{stroke:#57606a}.c1{stroke:#0969da}.c2{stroke:#bc4c00}.c3{stroke:#1a7f37}.c4{stroke:#bf3989}\
.c5{stroke:#9a6700}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}\
.grid{stroke:#30363d}.c0{stroke:#9198a1}.c1{stroke:#58a6ff}.c2{stroke:#f0883e}\
.c3{stroke:#3fb950}.c4{stroke:#f778ba}.c5{stroke:#d29922}}";

/// A line of a chart.
struct Line {
    name: String,
    colour: usize,
    is_dashed: bool,
    points: Vec<(f64, f64)>,
}

/// What an axis says.
struct Axis {
    name: &'static str,
    /// Whether equal ways are equal factors.
    is_log: bool,
}

/// All charts, each with the name of its file.
pub fn charts(report: &Report) -> Vec<(&'static str, String)> {
    vec![("hops.svg", hops(report)), ("spread.svg", spread(report))]
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
    let lines = lines.into_iter().map(|(kind, points)| Line {
        name: kind.to_string(),
        colour: colour(kind),
        is_dashed: false,
        points,
    });
    let papers = Line { name: "½·log2 N".to_owned(), colour: 0, is_dashed: true, points: half };
    let lines: Vec<Line> = lines.chain([papers]).collect();
    let axes = [Axis { name: "members", is_log: true }, Axis { name: "mean hops", is_log: true }];
    draw("Hops to the owner, by members", &axes, &lines)
}

/// Which part of all lookups took how many hops, on the largest ring; of lookups with more than
/// [`SPREAD_HOPS_MAX`] nothing could be seen beside the others.
fn spread(report: &Report) -> String {
    let nodes = report.runs.iter().map(|run| run.nodes).max().unwrap_or_default();
    let fits = |run: &&super::Run| run.nodes == nodes && run.hops.max() <= SPREAD_HOPS_MAX;
    let here = report.runs.iter().filter(fits);
    let lines: Vec<Line> = here
        .map(|run| Line {
            name: run.kind.to_string(),
            colour: colour(run.kind),
            is_dashed: false,
            points: run.hops.parts().map(|(hops, part)| (hops as f64, 100.0 * part)).collect(),
        })
        .collect();
    let axes = [Axis { name: "hops", is_log: false }, Axis { name: "% of lookups", is_log: false }];
    draw(&format!("How many lookups take how many hops, {nodes} members"), &axes, &lines)
}

fn colour(kind: Kind) -> usize {
    kind as usize + 1
}

fn draw(title: &str, axes: &[Axis; 2], lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let xs = Scale::new(&axes[0], all().map(|point| point.0), (LEFT, WIDTH - RIGHT));
    let ys = Scale::new(&axes[1], all().map(|point| point.1), (HEIGHT - BOTTOM, TOP));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">{title}</text>\n"
    );
    let bottom = HEIGHT - BOTTOM;
    for (at, name) in xs.marks() {
        let _never = writeln!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
            bottom + 16.0
        );
    }
    for (at, name) in ys.marks() {
        let _never = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    let _never = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text x=\"{LEFT}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        HEIGHT - 12.0,
        axes[0].name,
        TOP - 8.0,
        axes[1].name
    );
    for (place, line) in lines.iter().enumerate() {
        let class = format!("line c{}{}", line.colour, if line.is_dashed { " dashed" } else { "" });
        let path: Vec<String> =
            line.points.iter().map(|(x, y)| format!("{:.1} {:.1}", xs.at(*x), ys.at(*y))).collect();
        let _never = writeln!(out, "<path class=\"{class}\" d=\"M{}\"/>", path.join("L"));
        for at in &path {
            // A line of no length is a dot where a line of one point would not be seen.
            let _never = writeln!(
                out,
                "<path class=\"{class}\" stroke-linecap=\"round\" d=\"M{at}h.01\" \
                 style=\"stroke-width:5\"/>"
            );
        }
        let y = TOP + 8.0 + 18.0 * place as f64;
        let _never = writeln!(
            out,
            "<path class=\"{class}\" d=\"M{:.1} {y}h20\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT + 12.0,
            WIDTH - RIGHT + 38.0,
            y + 4.0,
            line.name
        );
    }
    out + "</svg>\n"
}

/// From numbers to places on the picture.
struct Scale {
    is_log: bool,
    from: f64,
    to: f64,
    places: (f64, f64),
}

impl Scale {
    fn new(axis: &Axis, numbers: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let scale = Self { is_log: axis.is_log, from: 0.0, to: 0.0, places };
        let numbers: Vec<f64> = numbers.map(|number| scale.bent(number)).collect();
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Ends on round numbers, not on one another; a plain scale begins at 0.
        let from = if axis.is_log { least.floor() } else { 0.0 };
        let (from, most) = if from.is_finite() { (from, most) } else { (0.0, 1.0) };
        Self { from, to: most.ceil().max(from + 1.0), ..scale }
    }

    fn bent(&self, number: f64) -> f64 {
        if self.is_log { number.log10() } else { number }
    }

    fn at(&self, number: f64) -> f64 {
        let part = (self.bent(number) - self.from) / (self.to - self.from);
        self.places.0 + (self.places.1 - self.places.0) * part
    }

    fn marks(&self) -> Vec<(f64, String)> {
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];
        let wide = |step: &f64| (self.to - self.from) / step <= MARKS;
        let step = steps.into_iter().find(wide).unwrap_or(5000.0);
        let number = |n: u32| self.from + f64::from(n) * step;
        let marks = (0..).map(number).take_while(|number| *number <= self.to);
        marks
            .map(|number| {
                let number = if self.is_log { 10f64.powf(number) } else { number };
                (self.at(number), format!("{number}"))
            })
            .collect()
    }
}
