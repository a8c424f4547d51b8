//! A chart of lines, written by hand, legible on light and dark ground.

use std::fmt::Write;

use super::Kind;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 48.0;
/// Marks on an axis, at most about.
const MARKS: f64 = 8.0;
/// Ways from mark to mark.
const STEPS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];

/// Colours of text, grid and lines, on light ground and on dark.
pub(super) const STYLE: &str = "\
text{font:11px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}\
.ground{fill:#fff}.grid{stroke:#d0d7de}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}\
.dashed{stroke-dasharray:5 4}.thin{fill:none;stroke-width:.6}\
.c0{stroke:#57606a}.c1{stroke:#0969da}.c2{stroke:#bc4c00}.c3{stroke:#1a7f37}.c4{stroke:#bf3989}\
.c5{stroke:#9a6700}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}\
.grid{stroke:#30363d}.c0{stroke:#9198a1}.c1{stroke:#58a6ff}.c2{stroke:#f0883e}\
.c3{stroke:#3fb950}.c4{stroke:#f778ba}.c5{stroke:#d29922}}";

/// A line of a chart.
pub(super) struct Line {
    pub name: String,
    pub colour: usize,
    pub is_dashed: bool,
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// Of something that is measured.
    pub fn new(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), colour, is_dashed: false, points }
    }

    /// Of what papers say, or of another form.
    pub fn dashed(self) -> Self {
        Self { is_dashed: true, ..self }
    }
}

/// What an axis says.
pub(super) struct Axis {
    pub name: &'static str,
    /// Whether equal ways are equal factors.
    pub is_log: bool,
}

/// An axis on which equal ways are equal differences.
pub(super) fn plain(name: &'static str) -> Axis {
    Axis { name, is_log: false }
}

/// An axis on which equal ways are equal factors.
pub(super) fn log(name: &'static str) -> Axis {
    Axis { name, is_log: true }
}

/// The colour of a lookup; 0 is nobody's.
pub(super) fn colour(kind: Kind) -> usize {
    kind as usize + 1
}

/// The beginning of any picture.
pub(super) fn head(title: &str, width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">{title}</text>\n"
    )
}

/// The picture.
pub(super) fn draw(title: &str, axes: &[Axis; 2], lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let xs = Scale::new(&axes[0], all().map(|point| point.0), (LEFT, WIDTH - RIGHT));
    let ys = Scale::new(&axes[1], all().map(|point| point.1), (HEIGHT - BOTTOM, TOP));
    let mut out = head(title, WIDTH, HEIGHT);
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
         <text x=\"8\" y=\"{:.1}\">{}</text>",
        HEIGHT - 12.0,
        axes[0].name,
        TOP - 8.0,
        axes[1].name
    );
    for (place, line) in lines.iter().enumerate() {
        let class = format!("line c{}{}", line.colour, if line.is_dashed { " dashed" } else { "" });
        let path: Vec<String> =
            line.points.iter().map(|(x, y)| format!("{:.1} {:.1}", xs.at(*x), ys.at(*y))).collect();
        if !path.is_empty() {
            let _never = writeln!(out, "<path class=\"{class}\" d=\"M{}\"/>", path.join("L"));
        }
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
    step: f64,
    places: (f64, f64),
}

impl Scale {
    fn new(axis: &Axis, numbers: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let scale = Self { is_log: axis.is_log, from: 0.0, to: 0.0, step: 1.0, places };
        let numbers: Vec<f64> = numbers.map(|number| scale.bent(number)).collect();
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Ends on marks, not on one another; a plain scale begins at 0.
        let from = if axis.is_log { least.floor() } else { 0.0 };
        let (from, most) = if from.is_finite() { (from, most) } else { (0.0, 1.0) };
        let wide = |step: &f64| (most - from) / step <= MARKS && !(axis.is_log && *step < 1.0);
        let step = STEPS.into_iter().find(wide).unwrap_or_else(|| ((most - from) / MARKS).ceil());
        let to = from + ((most - from) / step - 1e-9).ceil().max(1.0) * step;
        Self { from, to, step, ..scale }
    }

    fn bent(&self, number: f64) -> f64 {
        if self.is_log { number.log10() } else { number }
    }

    fn at(&self, number: f64) -> f64 {
        let part = (self.bent(number) - self.from) / (self.to - self.from);
        self.places.0 + (self.places.1 - self.places.0) * part
    }

    fn marks(&self) -> Vec<(f64, String)> {
        let number = |n: u32| self.from + f64::from(n) * self.step;
        let marks = (0..).map(number).take_while(|number| *number <= self.to + self.step / 2.0);
        marks
            .map(|number| {
                let number = if self.is_log { 10f64.powf(number) } else { number };
                (self.at(number), shown(number))
            })
            .collect()
    }
}

/// A round number, as short as an axis has room for.
fn shown(number: f64) -> String {
    let round = |number: f64| (number * 1e6).round() / 1e6;
    match number {
        1e6.. => format!("{}M", round(number / 1e6)),
        1e4.. => format!("{}k", round(number / 1e3)),
        _ => round(number).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: &Axis, numbers: &[f64]) -> Vec<String> {
        let scale = Scale::new(axis, numbers.iter().copied(), (0.0, 1.0));
        scale.marks().into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn marks_are_round_and_reach_beyond_all_numbers() {
        assert_eq!(
            marks(&plain("x"), &[0.3, 0.31]),
            ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35"]
        );
        assert_eq!(marks(&plain("x"), &[100.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(marks(&log("x"), &[32.0, 1000.0]), ["10", "100", "1000"]);
        assert_eq!(marks(&log("x"), &[5e3, 1e7]), ["1000", "10k", "100k", "1M", "10M"]);
        assert_eq!(marks(&log("x"), &[]), ["1", "10"]);
        assert_eq!(marks(&plain("x"), &[4000.0]).len(), 9);
    }
}
